"""Which matrix products the tensor cores of warp groups do, straight from the stages of pipes, or of rings that are
used by hand.

The right operand is a stage or its transpose; the left one another, or a tile in registers. Those of 8 and 32
bits have K along the rows of their stages."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Builder, Kernel, Op, Region, Value
from tegula.layout import wgmma_share
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView
from tegula.ops.group import ProductWait, RegisterProduct, SharedProduct
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipePop
from tegula.ops.tile import TilePermute
from tegula.passes.bulk_access import may_swizzle
from tegula.passes.form_rings import is_by_hand, is_stage
from tegula.passes.groups import group_of
from tegula.passes.product_terms import stored_terms
from tegula.passes.promote_buffers import root
from tegula.rewrite import replace, uses, walk_regions
from tegula.target import CudaTarget
from tegula.types import BufType, PipeType, TileType

ANY_ORDER = 16
"""Bits of the elements that tensor cores read from stages with K along the rows or along the columns."""


def keep_left_operands(kernel: Kernel, target: CudaTarget, threads: int) -> None:
    """Mark the products, attribute `left_in_registers`, whose left operand need not go through shared memory: what the
    kernel has computed, for a product with a popped tile."""
    if target.tensor_cores != "wgmma":
        return
    for op in kernel.walk():
        if isinstance(op, TileMatmul) and _popped(op.operands[1]) and not _popped(op.operands[0]):
            terms = stored_terms(op)
            narrow = terms is not None and terms.bits == ANY_ORDER
            op.attrs["left_in_registers"] = narrow and _shape_fits(op, threads) and _rows_fit(op, threads)


def _popped(tile: Value) -> bool:
    """Whether a tile is what a popped one holds, or its transpose."""
    if isinstance(tile.owner, TilePermute):
        tile = tile.owner.operands[0]
    if not isinstance(tile.owner, BufRead):
        return False
    source = root(tile.owner.operands[0])
    return isinstance(source.owner, PipePop) or is_by_hand(source)


def select_products(kernel: Kernel, target: CudaTarget, threads: int) -> None:
    """Mark the products, attribute `unit`, and the pipes whose stages they read, attribute `swizzled`, which only such
    products may multiply from. Where the left operand was to stay in registers in vain, it goes to shared memory. Pipes
    of float32 that only products of tf32 read hold rounded numbers, attribute `rounds`."""
    products = [op for op in kernel.walk() if isinstance(op, SharedProduct | RegisterProduct)]
    sources = {op: [pipe_of(v) for v in op.operands[:2] if isinstance(v.type, BufType)] for op in products}
    able = target.tensor_cores == "wgmma"
    in_parts = _used_in_parts(kernel)
    chosen = {op for op in products if able and all(sources[op]) and _fits(op, threads)}
    others = _read_otherwise(kernel)
    chosen = {op for op in chosen if not (_rounds(op) and others.intersection(sources[op]))}
    while True:
        refused = {p for op in products if op not in chosen for p in sources[op]} | in_parts
        left = {op for op in chosen if not refused.intersection(sources[op])}
        if left == chosen:
            break
        chosen = left
    for op in products:
        if op not in chosen:
            _through_memory(op)
            continue
        op.attrs["unit"] = "wgmma"
    if any(op not in chosen and not op.attrs.get("wait", True) for op in products):
        _complete(kernel, products)
    for op in chosen:
        terms = stored_terms(op)
        for pipe in sources[op]:
            assert terms is not None and pipe is not None and isinstance(pipe.owner, Op)
            pipe.owner.attrs["swizzled"] = True
            if terms.left == "tf32":
                pipe.owner.attrs["rounds"] = True


def _complete(kernel: Kernel, products: Sequence[Op]) -> None:
    """All products are complete at once, because waits count those in flight, and some cannot be."""
    for op in products:
        op.attrs["wait"] = True
    known: dict[Value, Value] = {}
    for region in walk_regions(kernel.body):
        for op in region.ops:
            if isinstance(op, ProductWait):
                known.update(zip(op.results, op.operands, strict=True))
        region.ops = [op for op in region.ops if not isinstance(op, ProductWait)]
    replace(kernel.body, known)


def _through_memory(op: Op) -> None:
    """A product of a left operand in registers as one of a buffer."""
    if not isinstance(op, RegisterProduct):
        return
    region, made = op.parent, Region()
    assert region is not None
    build = Builder(made, op.loc)
    t = op.operands[0].type
    assert isinstance(t, TileType)
    buffer = build.insert(
        BufNew([op.operands[0]], [BufType(t.dtype, t.shape, "shared")], {"storage": "shared"})
    )
    product = build.insert(SharedProduct([buffer.result, *op.operands[1:]], [op.result.type], op.attrs))
    product.results, op.results = op.results, product.results
    product.result.owner = product
    for new in made.ops:
        new.parent = region
    at = region.ops.index(op)
    region.ops[at : at + 1] = made.ops


def _used_in_parts(kernel: Kernel) -> set[Value | None]:
    """The rings of which some access is of less, or of other dimensions, than a whole stage or its transpose. The
    stages of swizzled ones have no such parts that copies reach."""
    found: set[Value | None] = set()
    for op in kernel.walk():
        if isinstance(op, BufView | BufReshape):
            continue
        for v in op.operands:
            if isinstance(v.type, BufType) and is_by_hand(root(v)) and pipe_of(v) is None:
                found.add(root(v))
    return found


def pipe_of(buffer: Value) -> Value | None:
    """The pipe that a whole popped tile, or its transpose, came from; or the ring of which it is a stage."""
    if isinstance(buffer.owner, BufView) and not is_stage(buffer):
        if not is_transpose(buffer.owner):
            return None
        buffer = buffer.owner.operands[0]
    if isinstance(buffer.owner, PipePop):
        return buffer.owner.operands[0]
    return root(buffer) if is_stage(buffer) else None


def is_transpose(view: Op) -> bool:
    """Whether a view shows all of a two-dimensional tile with its dimensions exchanged."""
    source = view.operands[0].type
    assert isinstance(source, BufType)
    return tuple(view.attrs["dims"]) == (1, 0) and tuple(view.attrs["shape"]) == source.shape[::-1]


def _rounds(op: Op) -> bool:
    terms = stored_terms(op)
    return terms is not None and terms.left == "tf32"


def _read_otherwise(kernel: Kernel) -> set[Value | None]:
    """The pipes of which something but products reads the popped tiles; and the rings that are used by hand, of which
    copies round nothing."""
    found: set[Value | None] = {v for op in kernel.body.ops for v in op.results if is_by_hand(v)}
    used = uses(kernel.body)
    for op in kernel.walk():
        idle = isinstance(op, BufRead) and op.result not in used
        whole = isinstance(op, BufView) and is_transpose(op)
        if idle or whole or isinstance(op, SharedProduct | RegisterProduct):
            continue
        for v in op.operands:
            source = root(v).owner if isinstance(v.type, BufType) else None
            if isinstance(source, PipePop):
                found.add(source.operands[0])
    return found


def _fits(op: Op, threads: int) -> bool:
    """Whether a product of popped tiles, or of registers and one, fits the instructions."""
    stages = [v for v in op.operands[:2] if isinstance(v.type, BufType)]
    return _shape_fits(op, threads) and _order_fits(op) and all(may_swizzle(_stage(v)) for v in stages)


def _order_fits(op: Op) -> bool:
    """Whether K runs along the rows of both stages, where it has to."""
    terms = stored_terms(op)
    turned = [isinstance(v.owner, BufView) for v in op.operands[:2]]
    return terms is not None and (terms.bits == ANY_ORDER or turned == [False, True])


def _shape_fits(op: Op, threads: int) -> bool:
    a, out, terms = op.operands[0].type, op.result.type, stored_terms(op)
    assert isinstance(a, BufType | TileType) and isinstance(out, TileType)
    groups = group_of(op, threads).warp_groups
    if not groups or terms is None or out.dtype.bits != terms.sum.bits:  # type: ignore[union-attr]
        return False
    rows, columns = out.shape
    down, across, high, wide = wgmma_share((rows, columns), groups)
    return (64 * high * down, 8 * wide * across) == (rows, columns) and a.shape[1] % terms.depth == 0


def _rows_fit(op: Op, threads: int) -> bool:
    """Whether each warp group multiplies rows of its own, so that it holds what it needs of the left operand."""
    t = op.result.type
    assert isinstance(t, TileType)
    groups = group_of(op, threads).warp_groups
    return t.shape[0] % (64 * groups) == 0


def _stage(buffer: Value) -> PipeType | TileType:
    pipe = pipe_of(buffer)
    assert pipe is not None and isinstance(pipe.type, PipeType | BufType)
    return pipe.type if isinstance(pipe.type, PipeType) else TileType(pipe.type.dtype, pipe.type.shape[1:])
