"""enumerate and zip, ranges of pipelined loops, texts with values, and membership, against Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

LOOPS = {
    "enumerate of a range": "enumerate(range(2, n, 3))",
    "from another number": "enumerate(range(n), start=5)",
    "enumerate downwards": "enumerate(range(n, 0, -2), 1)",
    "of a tuple": "enumerate((7, 5, 3))",
    "of a constant range": "enumerate(range(3))",
    "zip of ranges": "zip(range(n), range(20, 0, -3))",
    "zip of a tuple": "zip((1, 2, 3), range(5, 9))",
    "zip of tuples": "zip((1, 2), (4, 5))",
    "of nothing": "zip(range(n), range(5, 5))",
    "pairs of pairs": "enumerate(zip(range(n), range(1, n)))",
}


def launched(text: str, *args: Any) -> Any:
    names = dict[str, Any](tg=tg)
    exec(text, names)
    kernel = tg.kernel(source=text)(names["kernel"])
    tg.launch(kernel, 1, [*args], block_dim=1)


@pytest.mark.parametrize("name", LOOPS)
def test_enumerate_and_zip_match_python(name: str) -> None:
    names = "k, (x, z)" if name == "pairs of pairs" else "k, x"
    text = f"""def kernel(y: tg.array1d[int], n: int):
    at = 0
    for {names} in {LOOPS[name]}:
        y[at] = k
        y[at + 1] = x
        at += 2
"""
    y = tg.full(40, -1)
    launched(text, y, 9)
    expected = [-1] * 40
    for index, (k, x) in enumerate(eval(LOOPS[name], {"n": 9})):
        expected[2 * index : 2 * index + 2] = k, x[0] if isinstance(x, tuple) else x
    assert y.list() == expected


@pytest.mark.parametrize("bounds", [(1, 9), (0, 10, 3), (9, 0, -4), (5, 5), (7, 2)])
def test_pipelined_ranges_match_python(bounds: tuple[int, ...]) -> None:
    for bounds_text in (", ".join(map(str, bounds)), ", ".join(["n", *map(str, bounds[1:])])):
        text = f"""def kernel(a: tg.array2d[float], y: tg.array1d[float], n: int):
    total = tg.tile_zeros(4)
    for k in tg.pipelined({bounds_text}, stages=2):
        total += tg.tile_load(a[k], shape=4)
    tg.tile_store(y, total)
"""
        a, y = np.arange(40, dtype=np.float32).reshape(10, 4), tg.zeros(4)
        launched(text, tg.array(a), y, bounds[0])
        np.testing.assert_array_equal(y.numpy(), a[list(range(*bounds))].sum(0))


@tg.kernel
def prints_formatted(n: int, x: float, v: tg.vec2):
    name = "x"
    print(f"{name}={x} {n:3d} [{x:.2f}] {v} {1 + 1}")
    print(f"plain {name}", f"{n % 2 == 0}", sep="|")


def test_formatted_strings_are_printed(capfd: Any) -> None:
    tg.launch(prints_formatted, 1, [7, 0.125, tg.vec2(1.0, 2.0)], block_dim=1)
    assert capfd.readouterr().out == "x=0.125   7 [0.12] [1.0, 2.0] 2\nplain x|False\n"


@tg.kernel
def asserted(a: tg.array1d[float]):
    i = tg.tid()
    assert a[i] < 4.0, f"element {i} is {a[i]}, not below {4.0}"


def test_messages_of_asserts_show_values() -> None:
    with pytest.raises(tg.KernelAssertion, match=r"element 2 is 5\.5, not below 4\.0"):
        tg.launch(asserted, 4, [tg.array([1.0, 2.0, 5.5, 3.0])])


@tg.kernel
def membership(y: tg.array1d[int]):
    i = tg.tid()
    y[i] = tg.where(i in (1, 3, 4), 1, 0) + tg.where(i not in (0, 1), 2, 0)


def test_membership_in_tuples_matches_python() -> None:
    y = tg.zeros(6, dtype=int)
    tg.launch(membership, 6, [y])
    assert y.list() == [(i in (1, 3, 4)) + 2 * (i not in (0, 1)) for i in range(6)]


@tg.kernel
def sized(y: tg.array1d[int]):
    t = tg.tile_zeros((3, 4))
    y[0] = tg.static(len(t) * 100 + t.size)


def test_sizes_of_tiles_are_constants() -> None:
    y = tg.zeros(1, dtype=int)
    tg.launch_tiled(sized, 1, [y], block_dim=32)
    assert y.list() == [312]
