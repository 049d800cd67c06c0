"""Which matrix products the tensor cores of warp groups do, and where they read their operands.

Stages of pipes and of rings that are used by hand, and their transposes, are read where they lie, left operands that
the kernel has computed in registers, where the instructions allow it; other operands go to stages of their own, in
roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tegula.ir import Builder, Kernel, Op, Region, Value
from tegula.layout import wgmma_share
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView
from tegula.ops.group import ProductWait, RegisterProduct, SharedProduct
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipePop
from tegula.ops.tile import TilePermute
from tegula.passes.bulk_access import may_swizzle
from tegula.passes.byte_operands import from_bytes, swizzle_source, turn_first
from tegula.passes.form_rings import is_by_hand, is_stage
from tegula.passes.groups import group_of, role_of
from tegula.passes.product_terms import stored_terms
from tegula.passes.promote_buffers import root
from tegula.passes.stage_operands import (
    ANY_ORDER,
    Place,
    is_transpose,
    possible_stage,
    stage_operands,
    stages_fit,
)
from tegula.rewrite import replace, uses, walk_regions
from tegula.target import CudaTarget
from tegula.types import BufType, PipeType, TileType, scalar_of


def keep_operands(kernel: Kernel, target: CudaTarget, threads: int) -> None:
    """Mark the products, attribute `in_registers`, one of whose operands, 0 or 1, need not go through shared memory:
    what the kernel has computed, for a product with a popped tile. Right operands are kept where all products of a
    role can keep theirs, because results are spread in another way then."""
    if target.tensor_cores != "wgmma":
        return
    turned: dict[Region | None, list[TileMatmul]] = {}
    for op in kernel.walk():
        if not isinstance(op, TileMatmul):
            continue
        turned.setdefault(role_of(op), []).append(op)
        if _popped(op.operands[1]) and not _popped(op.operands[0]) and _keeps(op, 0, threads):
            op.attrs["in_registers"] = 0
    for products in turned.values():
        if all(_popped(op.operands[0]) and from_bytes(op) and _keeps(op, 1, threads) for op in products):
            for op in products:
                turn_first(op)
                op.attrs["in_registers"] = 1


def _keeps(op: Op, k: int, threads: int) -> bool:
    """Whether tensor cores can take operand k from registers."""
    terms = stored_terms(op)
    narrow = terms is not None and terms.bits == ANY_ORDER
    return narrow and _shape_fits(op, threads, k == 1) and _rows_fit(op, threads, k == 1)


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
    of float32 that only products of tf32 read hold rounded numbers, attribute `rounds`. Products that cannot be left in
    flight get the attribute `at_once`."""
    products = [op for op in kernel.walk() if isinstance(op, SharedProduct | RegisterProduct)]
    found = [op for op in products if target.tensor_cores == "wgmma" and _shape_fits(op, threads)]
    chosen, staged = _chosen(kernel, products, found, with_stages=True)
    if staged and not stages_fit(kernel, target, list(staged.values())):
        chosen, staged = _chosen(kernel, products, found, with_stages=False)
    for op in chosen:
        op.attrs["unit"] = "wgmma"
        if _narrows(op):
            op.attrs["at_once"] = True
    for op, k in _in_shared_memory(chosen):
        pipe, terms = pipe_of(op.operands[k]), stored_terms(op)
        if (op, k) not in staged:
            assert terms is not None and pipe is not None and isinstance(pipe.owner, Op)
            pipe.owner.attrs["swizzled"] = True
            if terms.left == "tf32":
                pipe.owner.attrs["rounds"] = True
    for op in chosen:
        if isinstance(op, RegisterProduct):
            swizzle_source(op.operands[op.held])
    stage_operands(kernel, list(staged.values()))
    if any(
        not op.attrs.get("wait", True) and (op not in chosen or op.attrs.get("at_once")) for op in products
    ):
        _complete(kernel, products)
    for op in products:
        if op not in chosen:
            _through_memory(op)


def _chosen(
    kernel: Kernel, products: Sequence[Op], found: Sequence[Op], with_stages: bool
) -> tuple[dict[Op, None], dict[tuple[Op, int], Place]]:
    """The products for warp groups, and the operands that need stages of their own. A pipe that other products
    multiply from keeps its order."""
    others, in_parts = _read_otherwise(kernel), _used_in_parts(kernel)
    chosen = dict.fromkeys(found)
    possible: dict[tuple[Op, int], Place] = {}
    for op, k in _in_shared_memory(chosen) if with_stages else ():
        place = possible_stage(op, k)
        if place is not None:
            possible[op, k] = place
    while True:
        refused = {pipe_of(v) for op in products if op not in chosen for v in op.operands[:2]} | in_parts
        staged = {
            (op, k): possible.get((op, k))
            for op, k in _in_shared_memory(chosen)
            if not _reads_in_place(op, k, others) or pipe_of(op.operands[k]) in refused
        }
        left = {op: None for op in chosen if all(staged.get((op, k), True) for k in (0, 1))}
        if left == chosen:
            return chosen, {key: place for key, place in staged.items() if place is not None}
        chosen = left


def _in_shared_memory(products: Iterable[Op]) -> list[tuple[Op, int]]:
    """The operands of products that are buffers."""
    return [(op, k) for op in products for k in (0, 1) if isinstance(op.operands[k].type, BufType)]


def _reads_in_place(op: Op, k: int, others: set[Value | None]) -> bool:
    """Whether an operand lies in a pipe as the instructions read it, or can. `others`: the pipes whose tiles are read
    otherwise too, which keep what is rounded for products."""
    pipe, terms = pipe_of(op.operands[k]), stored_terms(op)
    if pipe is None or terms is None or not may_swizzle(_stage(pipe)):
        return False
    if terms.left == "tf32" and pipe in others:
        return False
    return terms.bits == ANY_ORDER or is_transpose(op.operands[k]) == (k == 1)


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
    k = op.held
    t = op.operands[k].type
    assert isinstance(t, TileType)
    made_of = BufNew([op.operands[k]], [BufType(t.dtype, t.shape, "shared")], {"storage": "shared"})
    operands = list(op.operands)
    operands[k] = build.insert(made_of).result
    product = build.insert(SharedProduct(operands, [op.result.type], op.attrs))
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


def pipe_of(operand: Value) -> Value | None:
    """The pipe that a whole popped tile, or its transpose, came from; or the ring of which it is a stage."""
    if is_transpose(operand) and not is_stage(operand):
        assert isinstance(operand.owner, Op)
        operand = operand.owner.operands[0]
    if isinstance(operand.owner, PipePop):
        return operand.owner.operands[0]
    return root(operand) if isinstance(operand.type, BufType) and is_stage(operand) else None


def _read_otherwise(kernel: Kernel) -> set[Value | None]:
    """The pipes of which something but products reads the popped tiles; and the rings that are used by hand, of which
    copies round nothing."""
    found: set[Value | None] = {v for op in kernel.body.ops for v in op.results if is_by_hand(v)}
    used = uses(kernel.body)
    for op in kernel.walk():
        idle = isinstance(op, BufRead) and op.result not in used
        whole = isinstance(op, BufView) and is_transpose(op.result)
        if idle or whole or isinstance(op, SharedProduct | RegisterProduct):
            continue
        for v in op.operands:
            source = root(v).owner if isinstance(v.type, BufType) else None
            if isinstance(source, PipePop):
                found.add(source.operands[0])
    return found


def _shape_fits(op: Op, threads: int, turned: bool | None = None) -> bool:
    """`turned`: whether the product is done as the transposed one."""
    if turned is None:
        turned = isinstance(op, RegisterProduct) and op.held == 1
    a, out, terms = op.operands[0].type, op.result.type, stored_terms(op)
    assert isinstance(a, BufType | TileType) and isinstance(out, TileType)
    groups = group_of(op, threads).warp_groups
    if not groups or terms is None:
        return False
    rows, columns = out.shape[::-1] if turned else out.shape
    down, across, high, wide = wgmma_share((rows, columns), groups)
    return (64 * high * down, 8 * wide * across) == (rows, columns) and a.shape[1] % terms.depth == 0


def _narrows(op: Op) -> bool:
    """Whether sums are rounded, or cut, to a narrower result."""
    out, terms = op.result.type, stored_terms(op)
    assert isinstance(out, TileType) and terms is not None
    return scalar_of(out.dtype).bits < terms.sum.bits


def _rows_fit(op: Op, threads: int, turned: bool) -> bool:
    """Whether each warp group multiplies rows (columns) of its own, so that it holds what it needs of the operand."""
    t = op.result.type
    assert isinstance(t, TileType)
    groups = group_of(op, threads).warp_groups
    return t.shape[int(turned)] % (64 * groups) == 0


def _stage(pipe: Value) -> PipeType | TileType:
    assert isinstance(pipe.type, PipeType | BufType)
    return pipe.type if isinstance(pipe.type, PipeType) else TileType(pipe.type.dtype, pipe.type.shape[1:])
