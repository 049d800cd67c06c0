"""Registers of warp groups: code is assembled for the registers that roles request."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm

import tegula as tg
from tegula.backend import ptx
from tegula.backend.llvm import compile_ptx
from tegula.errors import InternalError
from tegula.runtime.launch import block_size

ASSEMBLER = bool(ptx.candidates())


def sum_kernel(*registers: int) -> Any:
    """A kernel without matmuls: one role fetches rows, and two roles store results. A budget of 0 requests no
    registers."""
    first, second, third = registers

    @tg.kernel
    def add_to_rows(x: tg.array2d[float], y: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(8, 64), dtype=float, stages=3)
        with tg.ws(0, registers=first):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(8 * k, 0))
        with tg.ws(1, registers=second):
            for k in range(n):
                tg.tile_store(y, tg.tile_pipe_pop(pipe) + 1.0, offset=(16 * k, 0))
        with tg.ws(2, registers=third):
            for k in range(n):
                tg.tile_store(y, tg.tile_pipe_pop(pipe) * 2.0, offset=(16 * k + 8, 0))

    return add_to_rows


@tg.kernel
def fetch_and_store(x: tg.array2d[float], y: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(8, 64), dtype=float, stages=3)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(8 * k, 0))
    with tg.ws(1, registers=256):
        for k in range(n):
            tg.tile_store(y, tg.tile_pipe_pop(pipe) + 1.0, offset=(8 * k, 0))


def register_changes(text: str) -> list[tuple[str, int]]:
    return [(kind, int(n)) for kind, n in re.findall(r"setmaxnreg\.(\w+)\.sync\.aligned\.u32 (\d+)", text)]


def compile_kernel(kernel: Any) -> Any:
    args = [tg.zeros((64, 64)), tg.zeros((128, 64)), 4]
    return lower_to_llvm(kernel, args, (1,), block_size(kernel, None, args))


@pytest.mark.parametrize(
    ("registers", "expected"),
    [
        ((24, 240, 240), [("dec", 24), ("inc", 240), ("inc", 240)]),
        ((24, 24, 24), [("dec", 24)] * 3),
        ((40, 0, 104), [("dec", 40), ("inc", 240), ("dec", 104)]),
        ((168, 160, 168), [("dec", 160)]),
    ],
)
def test_roles_without_matmuls_start_with_the_registers_of_a_single_block(
    registers: tuple[int, ...], expected: list[tuple[str, int]]
) -> None:
    """Roles start with the registers of the only block of a multiprocessor, although such kernels run faster with
    several blocks."""
    code = compile_kernel(sum_kernel(*registers))
    assert code.start_registers == 168 and code.occupancy_threads == 0
    text, cubin = assemble(code)
    assert ".maxntid 384" in text and ".maxnreg 168" in text and "minnctapersm" not in text
    assert register_changes(text) == expected
    assert all((n < 168) == (kind == "dec") for kind, n in register_changes(text))
    if ASSEMBLER:
        assert cubin.registers == 168 and cubin.spill_bytes == 0


def test_roles_may_request_the_maximum_registers_of_a_thread() -> None:
    code = compile_kernel(fetch_and_store)
    text, cubin = assemble(code)
    assert register_changes(text) == [("dec", 24), ("inc", 256)] and ".maxnreg 248" in text
    if ASSEMBLER:
        assert cubin.registers == 248


def test_kernels_without_requests_or_matmuls_set_no_registers() -> None:
    code = compile_kernel(sum_kernel(0, 0, 0))
    assert code.occupancy_threads == 384 and not code.budgets
    assert register_changes(compile_ptx(code.text, "sm_90a")) == []


def test_code_assembled_for_other_registers_is_refused() -> None:
    code = compile_kernel(sum_kernel(24, 240, 240))
    code.check_registers(168)
    for registers in (32, 160, 176):
        with pytest.raises(InternalError, match=f"was assembled for {registers}"):
            code.check_registers(registers)
