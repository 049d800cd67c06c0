"""Launching: arguments, blocks, thread indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tegula.errors import LaunchError
from tegula.interp import barriers, exchange, group, lanes, memory, roles, structures, tiles
from tegula.interp.lowered import AllocatedMemory, Block, BlockDistribution
from tegula.interp.machine import Grid, Machine, Mask, RunValue
from tegula.interp.report import RunReport
from tegula.ir import Kernel, Value
from tegula.layout import Layout
from tegula.ops.base import element
from tegula.ops.lane import LogicalBlocks
from tegula.ops.roles import Roles, block_threads
from tegula.types import ArrayType, Type, element_shape, scalar_of, to_numpy

# The handlers of all op families, registered by importing their modules.
FAMILIES = (barriers, exchange, group, lanes, memory, roles, structures, tiles)

HARDWARE_BLOCKS = 3
"""The number of CTAs for a kernel with combined blocks."""


def run(
    kernel: Kernel,
    args: Sequence[Any],
    dims: Sequence[int],
    block_dim: int | None = None,
    print_line: Callable[[str], None] = print,
    debug: bool = False,
) -> None:
    """Launch a kernel over `dims` (1 to 4 dimensions, row-major), blocks in order.

    Arrays are NumPy arrays of shape [*dims, *element_shape] and the element's scalar type, changed in place, views
    allowed; other arguments are numbers, or arrays of the element's shape. `block_dim` must equal the launch class's,
    and does by default. `print_line` gets each line that the kernel prints. `debug`: also run the checks of debug mode,
    and warn of group operands that differ between lanes (DifferingOperand); out-of-bounds accesses are always found.

    LaunchError for arguments that do not fit; after all blocks, the first OutOfBounds, KernelAssertion,
    DivisionByZero or BrokenPromise; DivergentCooperativeOp at once."""
    values = arguments(kernel, args, dims, block_dim)
    run_blocks(kernel, values, dims, Machine, print_line, debug)


def run_lowered(
    kernel: Kernel,
    args: Sequence[Any],
    dims: Sequence[int],
    block_dim: int | None,
    layouts: Mapping[Value, Layout],
    memory: Mapping[Value, AllocatedMemory],
    threads: int,
    print_line: Callable[[str], None] = print,
) -> None:
    """`run` for a kernel that was lowered to the threads of a block. `layouts`: the layout of each tile value;
    `memory`: the allocation of each buffer and stack in shared memory; `threads`: whole warps, at least block_dim.

    DataRace if threads of a block access the same bytes in no fixed order."""
    values = arguments(kernel, args, dims, block_dim)
    block = Block(kernel, values, BlockDistribution(layouts, memory, threads))
    run_blocks(kernel, values, dims, block.machine, print_line)


def arguments(
    kernel: Kernel, args: Sequence[Any], dims: Sequence[int], block_dim: int | None
) -> list[RunValue]:
    """The values of the parameters; LaunchError if the launch or the arguments do not fit the kernel."""
    launch = kernel.launch
    block_dim = launch.block_dim if block_dim is None else block_dim
    if block_dim != launch.block_dim or len(dims) != launch.ndim:
        raise LaunchError(
            f"kernel {kernel.name} is specialised for a {launch}, got {tuple(dims)} x {block_dim}"
        )
    if len(args) != len(kernel.params):
        raise LaunchError(f"kernel {kernel.name} takes {len(kernel.params)} arguments, got {len(args)}")
    if any(n > 2**31 for n in dims):
        raise LaunchError(f"kernel {kernel.name}: thread indices are int32, got dimensions {tuple(dims)}")
    total = math.prod(dims)
    if total % block_dim and not launch.partial:
        raise LaunchError(
            f"kernel {kernel.name} is specialised for whole blocks, got {tuple(dims)} x {block_dim}"
        )
    return [
        _argument(name, param.type, arg, threads(kernel))
        for name, param, arg in zip(kernel.param_names, kernel.params, args, strict=True)
    ]


def threads(kernel: Kernel) -> int:
    """The threads of a block: the threads of its roles, whose number may differ from the lanes of the launch if no op
    of the kernel depends on a lane."""
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    return kernel.launch.block_dim if roles is None else block_threads(roles)


MakeMachine = Callable[[int, Mask, RunReport, int, Sequence[np.ndarray]], Machine]


def run_blocks(
    kernel: Kernel,
    values: Sequence[RunValue],
    dims: Sequence[int],
    make_machine: MakeMachine,
    print_line: Callable[[str], None],
    debug: bool = False,
) -> None:
    """Run all blocks of a launch, one after the other, on machines that `make_machine` creates."""
    report = RunReport(kernel, print_line, debug=debug)
    blocks = -(-math.prod(dims) // kernel.launch.block_dim)
    combined = any(isinstance(op, LogicalBlocks) for op in kernel.walk())
    grid = Grid(tuple(dims), blocks, min(blocks, HARDWARE_BLOCKS) if combined else blocks)
    with np.errstate(all="ignore"):
        for block in range(grid.hardware):
            _run_block(kernel, values, grid, block, report, make_machine)
    report.finish()


def _run_block(
    kernel: Kernel,
    values: Sequence[RunValue],
    grid: Grid,
    block: int,
    report: RunReport,
    make_machine: MakeMachine,
) -> None:
    tid, present = grid.thread_indices(block, kernel.launch.block_dim)
    lanes = threads(kernel)
    if lanes != len(present):
        tid, present = [np.resize(c, lanes) for c in tid], np.ones(lanes, bool)
    machine = make_machine(lanes, present, report, block, tid)
    machine.grid = grid
    machine.blocks = grid.blocks
    machine.region(kernel.body, values, present)


def _argument(name: str, t: Type, arg: Any, lane_count: int) -> RunValue:
    if isinstance(t, ArrayType):
        return _array(name, t, arg)
    dtype = element(t)
    shape = element_shape(dtype)
    if np.shape(arg) != shape:
        raise LaunchError(f"argument '{name}' must be a {t}, got a value of shape {np.shape(arg)}")
    value = lanes.constant(np.asarray(arg).tolist(), dtype)
    return np.broadcast_to(value, (lane_count, *shape)).copy()


def _array(name: str, t: ArrayType, arg: Any) -> np.ndarray:
    shape = element_shape(t.dtype)
    dtype = to_numpy(scalar_of(t.dtype))
    if not isinstance(arg, np.ndarray) or arg.dtype != dtype:
        raise LaunchError(
            f"argument '{name}' must be an {t}, got {getattr(arg, 'dtype', type(arg).__name__)}"
        )
    if arg.ndim != t.ndim + len(shape) or arg.shape[t.ndim :] != shape:
        raise LaunchError(f"argument '{name}' must be an {t}, got an array of shape {arg.shape}")
    return arg
