"""Values that a kernel spills: in the memory of a thread of a GPU, read where they are reloaded, with the same
results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from lowering import agrees, tiled
from simt import run_together

import tegula as tg
from tegula.backend.frame_addresses import fold_frame_addresses
from tegula.types import VecType, int16, int64

lang: Any = tg
COUNT = 64
FIVE = VecType(5, int64)
PAIR = VecType(2, int16)


@tg.kernel
def reload_in_loops(n: tg.array1d[int], out: tg.array1d[tg.int64]):
    i = tg.tid()
    length, index = tg.int64(n[i]), tg.int64(i)
    large = lang._spill(FIVE(length, index, tg.int64(3), length * index, -index))
    small = lang._spill(PAIR(tg.int16(n[i]), tg.int16(-i)))
    total = tg.int64(0)
    for k in range(n[i]):
        if k % 3 == 1:
            five = lang._reload(large)
            total = total * tg.int64(3) + five[1] - five[3] * five[0] + five[4] * five[2]
        pair = lang._reload(small)
        total += tg.int64(pair[0]) * tg.int64(pair[1])
    out[i] = total + lang._reload(large)[3]


def reloaded(i: int, n: int) -> int:
    five, total = (n, i, 3, n * i, -i), 0
    for k in range(n):
        if k % 3 == 1:
            total = total * 3 + five[1] - five[3] * five[0] + five[4] * five[2]
        total -= n * i
    return total + five[3]


@tg.kernel
def scalars_of_branches(n: tg.array1d[int], out: tg.array1d[tg.int64]):
    i = tg.tid()
    flag, number = lang._spill(n[i] % 2 == 0), lang._spill(tg.float32(i) * 0.5)
    other = lang._spill(tg.int64(7))
    if n[i] > 10:
        other = lang._spill(tg.int64(n[i]))
    total = tg.int64(0)
    for k in range(n[i]):
        if lang._reload(flag):
            total += tg.int64(lang._reload(number) * 4.0) + tg.int64(k)
        total = total * tg.int64(5) + lang._reload(other)
    out[i] = total


def reloaded_scalars(i: int, n: int) -> int:
    total, other = 0, n if n > 10 else 7
    for k in range(n):
        total += i * 2 + k if n % 2 == 0 else 0
        total = total * 5 + other
    return total


CASES = [(reload_in_loops, reloaded), (scalars_of_branches, reloaded_scalars)]


def arguments(model: Any) -> tuple[list[Any], list[int]]:
    n = (np.arange(COUNT) * 5 % 31).astype(np.int32)
    expected = [(model(i, int(n[i])) + (1 << 63)) % (1 << 64) - (1 << 63) for i in range(COUNT)]
    return [tg.array(n), tg.zeros(COUNT, dtype=tg.int64)], expected


@pytest.mark.machine_code
@pytest.mark.parametrize(("kernel", "model"), CASES, ids=[case[0].name for case in CASES])
def test_reloads_give_the_spilled_values(kernel: Any, model: Any) -> None:
    args, expected = arguments(model)
    tg.launch(kernel, COUNT, args[:1], args[1:])
    assert args[1].numpy().tolist() == expected
    agrees(tiled(kernel, args, (), COUNT))


@pytest.mark.machine_code
@pytest.mark.cpu
@pytest.mark.parametrize(("kernel", "model"), CASES, ids=[case[0].name for case in CASES])
def test_threads_of_a_gpu_spill_to_their_memory(kernel: Any, model: Any) -> None:
    args, expected = arguments(model)
    code = lower_to_llvm(kernel, args, (), COUNT)
    run_together(code, kernel, args, (COUNT,), 1)
    assert args[1].numpy().tolist() == expected
    text, cubin = assemble(code)
    assert "st.local" in text and "ld.local" in text and "cvta.to.local" not in text
    assert cubin.is_ptx or cubin.spill_bytes == 0


@tg.kernel
def reload_twice(scale: float, a: tg.array1d[tg.vec4], out: tg.array1d[float]):
    i = tg.tid()
    values, uniform = lang._spill(a[i] * 2.0), lang._spill(scale * 3.0)
    total = 0.0
    for _ in range(int(a[i][0])):
        values_here = lang._reload(values)
        total += values_here[1] * values_here[2] + lang._reload(uniform)
    out[i] = total + lang._reload(values)[3]


def test_a_vector_is_stored_once_and_loaded_at_each_reload_and_uniform_values_stay_in_registers() -> None:
    args = [2.0, tg.zeros(COUNT, dtype=tg.vec4), tg.zeros(COUNT)]
    text, _ = assemble(lower_to_llvm(reload_twice, args, (), COUNT))
    accesses = re.findall(r"(st|ld)\.local\.(\S+)", text)
    assert accesses == [("st", "v4.b32"), ("ld", "v4.b32"), ("ld", "v4.b32")]


def test_addresses_of_registers_with_several_definitions_are_converted() -> None:
    once = "\tadd.u64 \t%rd1, %SP, 16;\n\tcvta.to.local.u64 \t%rd2, %rd1;\n"
    assert fold_frame_addresses(once).endswith("\tadd.u64 \t%rd2, %SPL, 16;\n")
    twice = f"{once}\tmov.b64 \t%rd1, %rd3;\n"
    assert fold_frame_addresses(twice) == twice
    other = "\tadd.u64 \t%rd1, %SP, 16;\n\tcvta.to.local.u64 \t%rd2, %rd5;\n"
    assert fold_frame_addresses(other) == other
