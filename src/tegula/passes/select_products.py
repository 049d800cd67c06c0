"""Which matrix products the tensor cores of warp groups do, straight from the stages of pipes."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Value
from tegula.layout import wgmma_share
from tegula.ops.buffer import BufView
from tegula.ops.group import SharedProduct
from tegula.ops.roles import PipeNew, PipePop
from tegula.passes.bulk_access import may_swizzle
from tegula.passes.groups import group_of
from tegula.target import CudaTarget
from tegula.types import BufType, DType, PipeType, TileType, bfloat16, float16, float32

K_STEP = 16
"""Elements of K that one instruction multiplies, of 16 bits each."""
NARROW: tuple[DType, ...] = (float16, bfloat16)


def select_products(kernel: Kernel, target: CudaTarget, threads: int) -> None:
    """Mark the products, attribute `unit`, and the pipes whose stages they read, attribute `swizzled`, which only such
    products may multiply from."""
    if target.tensor_cores != "wgmma":
        return
    products = [op for op in kernel.walk() if isinstance(op, SharedProduct)]
    sources = {op: [pipe_of(v) for v in op.operands[:2]] for op in products}
    chosen = {op for op in products if all(sources[op]) and _fits(op, threads)}
    while True:
        refused = {p for op in products if op not in chosen for p in sources[op]}
        left = {op for op in chosen if not refused.intersection(sources[op])}
        if left == chosen:
            break
        chosen = left
    for op in chosen:
        op.attrs["unit"] = "wgmma"
        for pipe in sources[op]:
            assert pipe is not None and isinstance(pipe.owner, PipeNew)
            pipe.owner.attrs["swizzled"] = True


def pipe_of(buffer: Value) -> Value | None:
    """The pipe that a whole popped tile, or its transpose, came from."""
    if isinstance(buffer.owner, BufView):
        if not is_transpose(buffer.owner):
            return None
        buffer = buffer.owner.operands[0]
    return buffer.owner.operands[0] if isinstance(buffer.owner, PipePop) else None


def is_transpose(view: Op) -> bool:
    """Whether a view shows all of a two-dimensional tile with its dimensions exchanged."""
    source = view.operands[0].type
    assert isinstance(source, BufType)
    return tuple(view.attrs["dims"]) == (1, 0) and tuple(view.attrs["shape"]) == source.shape[::-1]


def _fits(op: Op, threads: int) -> bool:
    a, b, out = op.operands[0].type, op.operands[1].type, op.result.type
    assert isinstance(a, BufType) and isinstance(b, BufType) and isinstance(out, TileType)
    groups = group_of(op, threads).warp_groups
    if not groups or a.dtype != b.dtype or a.dtype not in NARROW or out.dtype is not float32:
        return False
    rows, columns = out.shape
    down, across, high, wide = wgmma_share((rows, columns), groups)
    whole = (64 * high * down, 8 * wide * across) == (rows, columns)
    return whole and a.shape[1] % K_STEP == 0 and all(may_swizzle(_stage(v)) for v in op.operands[:2])


def _stage(buffer: Value) -> PipeType:
    pipe = pipe_of(buffer)
    assert pipe is not None and isinstance(pipe.type, PipeType)
    return pipe.type
