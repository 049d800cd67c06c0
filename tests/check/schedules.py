"""Kernels with roles, lowered for a GPU with bulk copies, and functions that break their schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import tegula as tg
from tegula.check.schedule import check_schedule
from tegula.check.verdict import Verdict
from tegula.dataclass import replace
from tegula.ir import AccessClass, Kernel, LaunchClass, Op, Value
from tegula.ops import scalar as S
from tegula.ops.roles import Roles, block_threads
from tegula.passes import pipeline_gpu, place_waits
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.runtime.check import PACKED, argument_types
from tegula.runtime.compile import trace
from tegula.runtime.library import library
from tegula.target import get_cuda_target
from tegula.types import ArrayType, int32

bf16 = tg.bfloat16
BM, BN, BK = 128, 128, 64


def traced(kernel: Any, ndim: int = 2, arrays: AccessClass = PACKED) -> Kernel:
    types = argument_types(kernel, ())
    access = tuple(arrays if isinstance(t, ArrayType) else None for t in types)

    def launch(threads: int) -> LaunchClass:
        return LaunchClass(ndim, threads, (True,) * (ndim - 1) + (False,), True, False)

    first = kernel.trace(types, launch(128), access, library())
    roles = next(op for op in first.body.ops if isinstance(op, Roles))
    return trace(kernel, types, launch(block_threads(roles)), access)


def lowered(kernel: Any, ndim: int = 2, arrays: AccessClass = PACKED) -> tuple[Kernel, GpuCompilation]:
    traced_kernel = traced(kernel, ndim, arrays)
    prepare(traced_kernel)
    return traced_kernel, for_gpu(traced_kernel, get_cuda_target("sm_90a"))


def verdict(kernel: Any, mutate: Callable[[Kernel, GpuCompilation], None] | None = None) -> Verdict:
    lowered_kernel, compilation = lowered(kernel)
    if mutate is not None:
        mutate(lowered_kernel, compilation)
    return check_schedule(lowered_kernel, compilation)


def lowered_late(kernel: Any, ndim: int = 2) -> tuple[Kernel, GpuCompilation]:
    """A kernel lowered so that the wait for matmuls that read registers is one iteration late, as for other matmuls."""
    with (
        patch.object(place_waits, "is_defined_in", lambda value, region: False),
        patch.object(
            pipeline_gpu,
            "FOR_GPU",
            [p for p in pipeline_gpu.FOR_GPU if p.name != "wait_for_register_operands"],
        ),
    ):
        return lowered(kernel, ndim)


def gemm(stages: int = 3) -> Any:
    @tg.kernel
    def matmul(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[bf16]):
        left = tg.tile_pipe(shape=(BM, BK), dtype=bf16, stages=stages)
        right = tg.tile_pipe(shape=(BK, BN), dtype=bf16, stages=stages)
        rows, columns = (c.shape[0] + BM - 1) // BM, (c.shape[1] + BN - 1) // BN
        steps = (a.shape[1] + BK - 1) // BK
        with tg.ws(0, registers=24):
            for i, j in tg.persistent_tiles((rows, columns), raster=8):
                for k in range(steps):
                    tg.tile_pipe_load(left, a, offset=(i * BM, k * BK))
                    tg.tile_pipe_load(right, b, offset=(k * BK, j * BN))
        with tg.ws(1, 2, registers=240):
            for i, j in tg.persistent_tiles((rows, columns), raster=8):
                acc = tg.tile_zeros(shape=(BM, BN), dtype=tg.float32)
                for _k in range(steps):
                    tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), acc)
                tg.tile_store(c, tg.tile_astype(acc, bf16), offset=(i * BM, j * BN))

    return matmul


def two_producers(stages: int = 3) -> Any:
    @tg.kernel
    def multiply(x: tg.array2d[float], y: tg.array2d[float], out: tg.array2d[float], n: int):
        left = tg.tile_pipe(shape=(1, 256), dtype=float, stages=stages)
        right = tg.tile_pipe(shape=(1, 256), dtype=float, stages=stages)
        with tg.role("fetch x", warps=1):
            for k in range(n):
                tg.tile_pipe_load(left, x, offset=(k, 0))
        with tg.role("fetch y", warps=1):
            for k in range(n):
                tg.tile_pipe_load(right, y, offset=(k, 0))
        with tg.role("multiply", warp_groups=2):
            for k in range(n):
                a, b = tg.tile_pipe_pop(left), tg.tile_pipe_pop(right)
                tg.tile_store(out, a * b, offset=(k, 0))

    return multiply


def registers(stages: int = 2) -> Any:
    """Matmuls of left operands that threads load into registers and right operands that bulk copies load."""

    @tg.kernel
    def multiply(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float], n: int):
        right = tg.tile_pipe(shape=(BK, BN), dtype=bf16, stages=stages)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(right, b, offset=(k * BK, 0))
        with tg.ws(1):
            acc = tg.tile_zeros(shape=(BM // 2, BN), dtype=tg.float32)
            for k in range(n):
                left = tg.tile_load(a, shape=(BM // 2, BK), offset=(0, k * BK))
                tg.tile_matmul(left, tg.tile_pipe_pop(right), acc)
            tg.tile_store(c, acc)

    return multiply


def chain(stages: int = 2) -> Any:
    """A role pushes squares, which tensor cores read through the async proxy."""

    @tg.kernel
    def squares(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float], n: int):
        raw = tg.tile_pipe(shape=(BM, BK), dtype=bf16, stages=stages)
        left = tg.tile_pipe(shape=(BM, BK), dtype=bf16, stages=stages)
        right = tg.tile_pipe(shape=(BK, BN), dtype=bf16, stages=stages)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(raw, a, offset=(0, k * BK))
                tg.tile_pipe_load(right, b, offset=(k * BK, 0))
        with tg.ws(1):
            for _k in range(n):
                tile = tg.tile_pipe_pop(raw)
                tg.tile_pipe_push(left, tile * tile)
        with tg.ws(2):
            acc = tg.tile_zeros(shape=(BM, BN), dtype=tg.float32)
            for _k in range(n):
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), acc)
            tg.tile_store(c, acc, offset=(0, 0))

    return squares


def adding(stages: int = 2) -> Any:
    """A matmul that is added to its result, twice, by bulk copies."""

    @tg.kernel
    def twice(a: tg.array2d[bf16], b: tg.array2d[bf16], c: tg.array2d[float], n: int):
        left = tg.tile_pipe(shape=(BM, BK), dtype=bf16, stages=stages)
        right = tg.tile_pipe(shape=(BK, BN), dtype=bf16, stages=stages)
        with tg.ws(0):
            for _r in range(2):
                for k in range(n):
                    tg.tile_pipe_load(left, a, offset=(0, k * BK))
                    tg.tile_pipe_load(right, b, offset=(k * BK, 0))
        with tg.ws(1, 2):
            for _r in range(2):
                acc = tg.tile_zeros(shape=(BM, BN), dtype=tg.float32)
                for _k in range(n):
                    tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), acc)
                tg.tile_atomic_add(c, acc)

    return twice


# Mutations ------------------------------------------------------------------------------------------------------------

Mutation = Callable[[Kernel, GpuCompilation], None]


def ops(kernel: Kernel, name: str, barrier: str = "") -> list[Op]:
    """The ops with a name that have a barrier as operand; all ops with the name if no barrier is given."""
    matching = [op for op in kernel.walk() if op.NAME == name]
    return [op for op in matching if not barrier or any(v.name == barrier for v in op.operands)]


def _region(op: Op) -> list[Op]:
    assert op.parent is not None
    return op.parent.ops


def drop(name: str, barrier: str = "", occurrence: int = 0) -> Mutation:
    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = ops(kernel, name, barrier)[occurrence]
        _region(op).remove(op)

    return mutate


def double(name: str, barrier: str = "", occurrence: int = 0) -> Mutation:
    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = ops(kernel, name, barrier)[occurrence]
        duplicate = type(op)(list(op.operands), [], op.attrs, [], op.loc)
        duplicate.parent = op.parent
        _region(op).insert(_region(op).index(op), duplicate)

    return mutate


def change(name: str, barrier: str = "", occurrence: int = 0, **attrs: int) -> Mutation:
    """Add to attributes of an op."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = ops(kernel, name, barrier)[occurrence]
        for key, by in attrs.items():
            op.attrs[key] += by

    return mutate


def count(barrier: str, increment: int) -> Mutation:
    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        next(op for op in ops(kernel, "mbarrier.new") if op.result.name == barrier).attrs["arrivals"] += (
            increment
        )

    return mutate


def constant(name: str, barrier: str, operand: int, value: int = 0) -> Mutation:
    """Replace an operand of an op by a constant."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = ops(kernel, name, barrier)[0]
        op.operands[operand] = insert_before(op, S.Const([], [int32], {"type": int32, "value": value}))

    return mutate


def flip(name: str, operand: int, barrier: str = "", occurrence: int = 0) -> Mutation:
    """Flip the lowest bit of an op's operand."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = ops(kernel, name, barrier)[occurrence]
        constant_one = insert_before(op, S.Const([], [int32], {"type": int32, "value": 1}))
        op.operands[operand] = insert_before(op, S.Xor([op.operands[operand], constant_one], [int32]))

    return mutate


def insert_before(op: Op, inserted: Op) -> Value:
    """The result of a new op inserted in front of another op."""
    inserted.parent, inserted.loc = op.parent, op.loc
    _region(op).insert(_region(op).index(op), inserted)
    return inserted.result


def stage_of(name: str, occurrence: int = 0) -> Mutation:
    """Let an op access another stage than the stage of its item."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        buffer = next(
            v for v in ops(kernel, name)[occurrence].operands if v.type.__class__.__name__ == "BufType"
        )
        view = buffer.owner
        assert isinstance(view, Op)
        constant_one = insert_before(view, S.Const([], [int32], {"type": int32, "value": 1}))
        view.operands[1] = insert_before(view, S.Xor([view.operands[1], constant_one], [int32]))

    return mutate


def move_before(name: str, barrier: str, other: str, occurrence: int = 0) -> Mutation:
    """Move an op in front of an op of another name in its region."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = ops(kernel, name, barrier)[0]
        region = _region(op)
        region.remove(op)
        region.insert([k for k, o in enumerate(region) if o.NAME == other][occurrence], op)

    return mutate


def move_to_end(name: str) -> Mutation:
    """Move an op to the end of its region."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        op = ops(kernel, name)[0]
        region = _region(op)
        region.remove(op)
        region.insert(len(region) - 1, op)

    return mutate


def retarget(name: str, barrier: str, to: str) -> Mutation:
    """Replace the barrier of an op by another barrier."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        target_value = next(op.result for op in ops(kernel, "mbarrier.new") if op.result.name == to)
        op = ops(kernel, name, barrier)[0]
        op.operands = [target_value if v.name == barrier else v for v in op.operands]

    return mutate


def on_top(buffer: str, below: str) -> Mutation:
    """Give a buffer the address of another buffer."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        buffers_by_name = {v.name: v for v in compilation.shared.allocations}
        allocations = compilation.shared.allocations
        allocations[buffers_by_name[buffer]] = replace(
            allocations[buffers_by_name[buffer]], offset=allocations[buffers_by_name[below]].offset
        )

    return mutate


def shorter_loop(occurrence: int, role: int) -> Mutation:
    """Start a loop of a role one iteration later."""

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> None:
        roles = next(op for op in kernel.body.ops if isinstance(op, Roles))
        loop = [op for op in roles.regions[role].walk() if op.NAME == "for"][occurrence]
        constant_one = insert_before(loop, S.Const([], [int32], {"type": int32, "value": 1}))
        loop.operands[0] = insert_before(loop, S.Add([loop.operands[0], constant_one], [int32]))

    return mutate
