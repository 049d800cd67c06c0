"""Long vectors with run-time subscripts: in the memory of a thread of a GPU if each version of a vector is used before
the next one is made, else in registers, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from lowering import agrees, tiled
from simt import run_together

import tegula as tg
from tegula.types import VecType, int32, int64, uint64

lang: Any = tg
COUNT = 64
STACK, RING, WIDE = VecType(32, uint64), VecType(20, int32), VecType(18, int64)


@tg.kernel
def push_and_pop(n: tg.array1d[int], out: tg.array1d[tg.int64]):
    i = tg.tid()
    items = lang._unset(STACK)
    depth, total = 0, tg.uint64(0)
    for k in range(n[i]):
        if (k * 7 + i) % 3 != 0:
            items[depth] = tg.uint64(k)
            depth += 1
        elif depth > 0:
            depth -= 1
            total = total * tg.uint64(31) + items[depth]
    out[i] = tg.int64(total)


def pushed_and_popped(i: int, n: int) -> int:
    items: list[int] = []
    total = 0
    for k in range(n):
        if (k * 7 + i) % 3 != 0:
            items.append(k)
        elif items:
            total = total * 31 + items.pop()
    return total


@tg.kernel
def out_of_bounds(n: tg.array1d[int], out: tg.array1d[tg.int64]):
    i = tg.tid()
    ring = RING(1)
    k = 0
    while k < n[i]:
        ring[(k * i) % 26] += k
        if k % 5 == 3:
            ring[k] = ring[k + 1]
        k += 1
    total = tg.int64(0)
    for k in range(24):
        total = total * tg.int64(3) + tg.int64(ring[k])
    out[i] = total


def with_bounds(i: int, n: int) -> int:
    ring = [1] * 20

    def read(k: int) -> int:
        return ring[k] if k < 20 else ring[19]

    def write(k: int, x: int) -> None:
        if k < 20:
            ring[k] = x

    for k in range(n):
        write((k * i) % 26, read((k * i) % 26) + k)
        if k % 5 == 3:
            write(k, read(k + 1))
    total = 0
    for k in range(24):
        total = total * 3 + read(k)
    return total


@tg.kernel
def reset_in_a_loop(n: tg.array1d[int], out: tg.array1d[tg.int64]):
    i = tg.tid()
    values, total = WIDE(), tg.int64(0)
    for k in range(n[i]):
        if k % 4 == 0:
            values = WIDE(tg.int64(k))
        values[(i + k) % 18] += tg.int64(i)
        total = total * tg.int64(5) + values[k % 18]
    out[i] = total


def with_resets(i: int, n: int) -> int:
    values, total = [0] * 18, 0
    for k in range(n):
        if k % 4 == 0:
            values = [k] * 18
        values[(i + k) % 18] += i
        total = total * 5 + values[k % 18]
    return total


@tg.kernel
def two_versions(n: tg.array1d[int], out: tg.array1d[tg.int64]):
    i = tg.tid()
    values, total = WIDE(), tg.int64(0)
    for k in range(n[i]):
        before = values
        values[(i + k) % 18] += tg.int64(k)
        total = total * tg.int64(5) + values[k % 18] + before[(i + 2 * k) % 18]
    out[i] = total


def with_two_versions(i: int, n: int) -> int:
    values, total = [0] * 18, 0
    for k in range(n):
        before = list(values)
        values[(i + k) % 18] += k
        total = total * 5 + before[(i + 2 * k) % 18] + values[k % 18]
    return total


@tg.kernel
def version_of_a_branch(n: tg.array1d[int], out: tg.array1d[tg.int64]):
    i = tg.tid()
    values, total = WIDE(tg.int64(3)), tg.int64(0)
    for k in range(n[i]):
        other = values
        if k % 3 == 1:
            other[(i * k) % 18] = tg.int64(k)
        total = total * tg.int64(5) + other[k % 18]
        values[k % 18] += tg.int64(1)
    out[i] = total


def with_version_of_a_branch(i: int, n: int) -> int:
    values, total = [3] * 18, 0
    for k in range(n):
        other = list(values)
        if k % 3 == 1:
            other[(i * k) % 18] = k
        total = total * 5 + other[k % 18]
        values[k % 18] += 1
    return total


CASES = [
    (push_and_pop, pushed_and_popped, True),
    (out_of_bounds, with_bounds, True),
    (reset_in_a_loop, with_resets, True),
    (two_versions, with_two_versions, False),
    (version_of_a_branch, with_version_of_a_branch, False),
]


@pytest.mark.machine_code
@pytest.mark.parametrize(("kernel", "model", "in_memory"), CASES, ids=[case[0].name for case in CASES])
def test_versions_of_a_vector_share_memory(
    kernel: Any, model: Callable[[int, int], int], in_memory: bool
) -> None:
    n = (np.arange(COUNT) * 5 % 31).astype(np.int32)
    expected = [(model(i, int(n[i])) + (1 << 63)) % (1 << 64) - (1 << 63) for i in range(COUNT)]
    args = [tg.array(n), tg.zeros(COUNT, dtype=tg.int64)]
    tg.launch(kernel, COUNT, args[:1], args[1:])
    assert args[1].numpy().tolist() == expected
    agrees(tiled(kernel, args, (), COUNT))


@pytest.mark.machine_code
@pytest.mark.cpu
@pytest.mark.parametrize(("kernel", "model", "in_memory"), CASES, ids=[case[0].name for case in CASES])
def test_threads_of_a_gpu_keep_vectors_in_memory(
    kernel: Any, model: Callable[[int, int], int], in_memory: bool
) -> None:
    n = (np.arange(COUNT) * 5 % 31).astype(np.int32)
    expected = [(model(i, int(n[i])) + (1 << 63)) % (1 << 64) - (1 << 63) for i in range(COUNT)]
    args = [tg.array(n), tg.zeros(COUNT, dtype=tg.int64)]
    code = lower_to_llvm(kernel, args, (), COUNT)
    run_together(code, kernel, args, (COUNT,), 1)
    assert args[1].numpy().tolist() == expected
    text, cubin = assemble(code)
    assert ("ld.local" in text and "st.local" in text) == in_memory
    assert cubin.is_ptx or cubin.spill_bytes == 0
