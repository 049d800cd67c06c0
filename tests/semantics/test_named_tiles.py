"""Names of tiles have, on every path, the same meaning as names of NumPy arrays in Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from named_tiles import Program, generate
from run_named_tiles import NO_REFERENCE, compare

from support.campaigns import chunks

CHUNK = 10


def outcomes(seeds: Iterable[int], shared: float, on_device: bool = True) -> Counter[str]:
    out: Counter[str] = Counter()
    for seed in seeds:
        program = generate(seed, shared)
        try:
            out[compare(program, on_device)] += 1
        except Exception:
            print("\n".join(program.texts))
            raise
    return out


@pytest.mark.machine_code
def test_programs_with_register_tiles_agree_with_python() -> None:
    assert outcomes([9, 12, 21], 0.0) == {"": 3}


@pytest.mark.cpu
def test_programs_with_both_kinds_of_tiles_agree_with_python() -> None:
    assert outcomes([35, 47, 251, 439], 0.0, on_device=False) == {"": 4}


@pytest.mark.cpu
def test_programs_with_shared_tiles_agree_with_python_or_are_refused() -> None:
    actual = outcomes(range(900, 908), 0.4, on_device=False)
    assert set(actual) <= {"", "merged-shared-tiles"} and actual[""] > 4


@pytest.mark.machine_code
@pytest.mark.seconds(15)
@pytest.mark.parametrize("first", chunks(range(0, 5000, CHUNK)))
def test_many_programs_with_register_tiles_agree_with_python(first: int) -> None:
    actual = outcomes(range(first, first + CHUNK), 0.0)
    assert set(actual) <= {"", *NO_REFERENCE} and actual[""] >= 0.8 * CHUNK


@pytest.mark.machine_code
@pytest.mark.seconds(15)
@pytest.mark.parametrize("first", chunks(range(5000, 7000, CHUNK)))
def test_many_programs_with_shared_tiles_agree_with_python_or_are_refused(first: int) -> None:
    actual = outcomes(range(first, first + CHUNK), 0.3)
    assert set(actual) <= {"", "merged-shared-tiles", *NO_REFERENCE} and actual[""] > 0.6 * CHUNK


SECOND_NAME = """
def kernel(o: tg.array2d[int], n: int):
    a = bind(tg.tile_full(6, 7 + n, int, storage="shared"))
    v = bind(tg.tile_full(3, 20 + n, int, storage="register"))
    if n % 2 == 1:
        v = bind({view})
    {loop}:
        {rebinding}
    {update}
    tg.tile_store(o[0], a)
    tg.tile_store(o[1], v)
"""


@pytest.mark.cpu
@pytest.mark.parametrize("view", ["a[3:6]", "a[::-2]"])
@pytest.mark.parametrize("loop", ["for k0 in range(n)", "if n > 1"])
@pytest.mark.parametrize("rebinding", ["v = bind(v)", "v = bind((v if n < 3 else v))", "v, w = bind((v, v))"])
@pytest.mark.parametrize("update", ["a += 5", "v += 5", "n += 1"])
def test_second_names_of_possibly_shared_tiles_are_correct_or_refused(
    view: str, loop: str, rebinding: str, update: str
) -> None:
    """A second name of the register tile is a copy; a second name of the shared tile is an alias. If neither name is
    updated, a copy is correct for both."""
    text = SECOND_NAME.strip("\n").format(view=view, loop=loop, rebinding=rebinding, update=update)
    allowed = {""} if update == "n += 1" else {"", "merged-shared-tiles"}
    assert compare(Program({}, text), on_device=False) in allowed
