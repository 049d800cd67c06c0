"""Proved bounds of integers hold when integers wrap. The interpreter and the device are compared with Python's
integers."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from agreement import agree
from integer_programs import LANES, IntegerProgram

import tegula as tg
from support.campaigns import chunks
from tegula.ops.integer_ranges import RULES, range_of_type, within


def check(seed: int) -> None:
    program = IntegerProgram(seed)
    try:
        actual, _ = agree(program.build(), program.arguments(), 1, LANES, tiled=True)
        np.testing.assert_array_equal(actual, program.expected)
    except Exception:
        print(f"seed {seed}, n {program.n}, x {program.x.tolist()}\n{program.text}")
        raise


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", [1, 4, 56])
def test_wrapping_arithmetic_in_indices_and_maxima_matches_python(seed: int) -> None:
    check(seed)


@pytest.mark.machine_code
@pytest.mark.seconds(20)
@pytest.mark.parametrize("chunk", chunks(range(20)))
def test_many_programs_of_wrapping_arithmetic_match_python(chunk: int) -> None:
    for seed in range(1000 + 20 * chunk, 1020 + 20 * chunk):
        check(seed)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", [tg.int8, tg.uint8])
@pytest.mark.parametrize("op", list(RULES), ids=lambda op: op.NAME)
def test_bounds_of_every_op_hold_for_all_operands_within_bounds(op: Any, dtype: Any) -> None:
    type_range, rule = range_of_type(dtype), RULES[op]
    assert type_range is not None
    random = Random(op.NAME)
    edges = [*type_range, *(n for n in (-2, -1, 0, 1, 2, 7, 8) if type_range[0] <= n <= type_range[1])]
    arity = rule.__code__.co_argcount
    for _ in range(60):
        ranges = [
            sorted(random.choice([*edges, random.randint(*type_range)]) for _ in range(2))
            for _ in range(arity)
        ]
        numbers = np.meshgrid(*(np.arange(low, high + 1) for low, high in ranges))
        attrs = {"to": dtype}
        actual = op.ref(attrs, *(n.astype(np.dtype(dtype.name)) for n in numbers))
        bounds = rule(*map(tuple, ranges))
        if within(bounds, type_range):
            assert within((int(actual.min()), int(actual.max())), bounds), (ranges, bounds)


@tg.kernel
def wrapping_index(o: tg.array[int]):
    i = tg.tid()
    t = tg.tile_arange(8, dtype=int, storage="shared")
    h = i * 1000003
    o[i] = tg.max(h, 0)
    o[4096 + i] = t[h % 8]


@pytest.mark.machine_code
def test_a_product_of_thread_indices_may_be_negative() -> None:
    (o,) = agree(wrapping_index, [tg.zeros(8192, dtype=int)], 4096, 64)
    h = np.arange(4096, dtype=np.int32) * np.int32(1000003)
    assert o[:4096].tolist() == np.maximum(h, 0).tolist()
    assert o[4096:].tolist() == (h % 8).tolist()


@tg.kernel
def indices_from_unsigned(o: tg.array[int], u: tg.uint32):
    i, t = tg.tid()
    short = tg.tile_arange(8, dtype=int, storage="shared")
    long = tg.tile_arange(200, dtype=int, storage="shared")
    short[0] += 0
    long[0] += 0
    o[0] = short[tg.int32(u)]
    o[1] = short[tg.int64(tg.int32(u))]
    o[2] = long[tg.int8(u)]
    o[3] = long[tg.int16(u)]


@pytest.mark.machine_code
def test_negative_indices_cast_from_unsigned_are_correct() -> None:
    (o,) = agree(indices_from_unsigned, [tg.zeros(4, dtype=int), 2**32 - 3], 1, 4, tiled=True)
    assert o.tolist() == [5, 5, 197, 197]


@tg.kernel
def growing_carried_value(o: tg.array[int], n: int):
    i, t = tg.tid()
    s = tg.tile_arange(8, dtype=int, storage="shared")
    s[0] += 0
    k = 1
    for r in range(n):
        k = k * 3 + r
    o[t] = s[k % 8]


@pytest.mark.machine_code
def test_a_carried_value_that_grows_may_be_negative() -> None:
    (o,) = agree(growing_carried_value, [tg.zeros(4, dtype=int), 25], 1, 4, tiled=True)
    k = 1
    for r in range(25):
        k = k * 3 + r
    k = (k + 2**31) % 2**32 - 2**31
    assert k < 0
    assert o.tolist() == [k % 8] * 4


def test_a_launch_whose_thread_indices_would_wrap_is_refused() -> None:
    with pytest.raises(tg.LaunchError, match=r"at most 2\*\*31 threads in each dimension"):
        tg.launch(wrapping_index, 2**31 + 1, inputs=[tg.zeros(8192, dtype=int)])
