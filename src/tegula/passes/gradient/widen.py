"""Accumulates 16-bit gradients to which an adjoint adds repeatedly in a float32 array, which is allocated for the
adjoint, and rounds them once."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import AtomicUpdate, Op, Region, ScatteredAccess, Value
from tegula.ir.rewrite import erase_dead, replace
from tegula.ops import scalar as S
from tegula.ops.array import ArrayAtomic, ArrayLoad, ArrayShape, ArrayStore, ArrayView
from tegula.ops.control import Yield
from tegula.ops.convert import Cast
from tegula.ops.lane import Tid
from tegula.ops.tile import TileAtomic, TileLoad, TileStore
from tegula.passes.gradient.differentiation import Differentiation
from tegula.passes.gradient.owners import accesses_of, own_gradients
from tegula.passes.gradient.partials import finish_kernel
from tegula.passes.gradient.steps import AdjointStep, Chunk, Partials
from tegula.passes.gradient.sums import SumBuilder, accumulator_type, cast_source
from tegula.passes.runner import Pass, run
from tegula.types import ArrayType, ElementType, TileType, float32, int32, is_element, scalar_of

ACCESSES = (ArrayView, ArrayAtomic, ArrayLoad, ArrayStore, TileAtomic, TileLoad, TileStore, ScatteredAccess)
BLOCK_COLUMNS = 1024
"""The number of elements of a row that one block converts."""


def widen(step: AdjointStep, positions: Sequence[int]) -> list[AdjointStep]:
    """The step with accumulation of 16-bit gradients in float32, and the steps that convert the gradients. For a
    gradient that is only added to, a later step adds the sums to the gradient. A gradient that is also read or written
    is converted before and after the step, with all arrays that share bytes with it. `positions`: the positions of all
    gradients."""
    added = [k for k in positions if _is_added(step, k, positions)]
    converted = [k for k in positions if k not in added and _is_added_among_aliases(step, k, positions)]
    if not added and not converted:
        return [step]
    sharing_of = {k: sharing for k in converted if len(sharing := _sharing(step, k)) > 1}
    sums: list[Partials] = []
    before: list[AdjointStep] = []
    after: list[AdjointStep] = []
    for k in (*added, *converted):
        array = step.known[k]
        assert isinstance(array.type, ArrayType)
        lengths = _lengths(array)
        sums.append(
            Partials(accumulator_type(array.type.dtype), tuple(lengths), k in added, sharing_of.get(k, ()))
        )
        _redirect(step, k)
        if k in converted:
            before.append(_conversion_step(step, k, lengths, sums[-1], "begin"))
        after.append(_conversion_step(step, k, lengths, sums[-1], "end" if k in converted else "add"))
    arrays = [array for array, p in zip(step.kernel.params[-len(sums) :], sums, strict=True) if not p.like]
    run((Pass(own_gradients),), step.kernel, Differentiation(arrays))
    erase_dead(step.kernel)
    wide_step = AdjointStep(step.kernel, step.known, step.grid, step.counts, (*step.partials, *sums))
    return [*before, wide_step, *after]


def _is_added(step: AdjointStep, k: int, gradients: Sequence[int]) -> bool:
    """Whether a gradient has 16-bit elements and is only added to, also through arrays that share its bytes."""
    access = step.kernel.access[k]
    shared = access.aliases if access is not None else ()
    arrays = [k, *shared]
    ops = [op for at in arrays for op in accesses_of(step.kernel, step.kernel.params[at])]
    return (
        all(at in gradients and _is_16_bit(step, at) for at in arrays)
        and bool(accesses_of(step.kernel, step.kernel.params[k]))
        and all(map(_is_addition, ops))
    )


def _is_added_among_aliases(step: AdjointStep, k: int, gradients: Sequence[int]) -> bool:
    """Whether a gradient and all arrays that share its bytes are 16-bit gradients, and one of them is added to, given
    that the gradient is not only added to."""
    sharing = _sharing(step, k)
    ops = [op for at in sharing for op in accesses_of(step.kernel, step.kernel.params[at])]
    return all(at in gradients and _is_16_bit(step, at) for at in sharing) and any(map(_is_addition, ops))


def _sharing(step: AdjointStep, k: int) -> tuple[int, ...]:
    """The position of an array, then those of all accessed arrays that share bytes with it, directly or through
    others."""
    sharing = [k]
    for position in sharing:
        access = step.kernel.access[position]
        sharing += [j for j in (access.aliases if access is not None else ()) if j not in sharing]
    return (
        k,
        *(position for position in sharing[1:] if accesses_of(step.kernel, step.kernel.params[position])),
    )


def _is_addition(op: Op) -> bool:
    return isinstance(op, AtomicUpdate) and op.combination == "add"


def _is_16_bit(step: AdjointStep, k: int) -> bool:
    array = step.kernel.params[k]
    assert isinstance(array.type, ArrayType)
    scalar = scalar_of(array.type.dtype)
    return scalar.is_float and scalar.bits == 16


def _lengths(array: Value) -> list[Value]:
    """The lengths of an array's dimensions, as values that the host can compute."""
    assert isinstance(array.type, ArrayType)
    return [ArrayShape([array], [int32], {"dim": d}).result for d in range(array.type.ndim)]


def _redirect(step: AdjointStep, k: int) -> None:
    """Redirect all accesses of a gradient to a float32 array, a new last parameter of the kernel."""
    kernel = step.kernel
    array = kernel.params[k]
    assert isinstance(array.type, ArrayType)
    wide = kernel.body.add_argument(ArrayType(accumulator_type(array.type.dtype), array.type.ndim))
    kernel.param_names.append(f"{kernel.param_names[k]}_sums")
    kernel.access.append(None)
    wide_views = {array: wide}
    narrow: dict[Value, Value] = {}
    for op in list(kernel.walk()):
        if not isinstance(op, ACCESSES) or op.array not in wide_views:
            continue
        b = SumBuilder(Region(), op.loc)
        target = wide_views[op.array]
        if isinstance(op, ArrayView):
            wide_views[op.result] = b.same_view(op, target, op.bounds)
        elif isinstance(op, TileAtomic | TileStore):
            b.emit(type(op), [target, _wide_tile(b, op.tile), *op.offset], op.attrs)
        elif isinstance(op, ArrayAtomic | ArrayStore):
            b.emit(type(op), [target, _unrounded(b, op.value), *op.indices], op.attrs)
        elif isinstance(op, ScatteredAccess):
            moved = [_unrounded(b, v) if is_element(v.type) else _wide_tile(b, v) for v in op.moved]
            b.emit(type(op), [target, *moved, op.where, *op.at], op.attrs)
        elif isinstance(op, TileLoad):
            b.emit(TileLoad, [target, b.as_scalar(op.fill, float32), *op.offset], op.attrs)
        else:
            b.emit(ArrayLoad, [target, *op.indices], op.attrs)
        if op.results and not isinstance(op, ArrayView):
            narrow[op.result] = b.region.ops[-1].result
        _insert(b, op, keep=isinstance(op, ArrayView))
    _widen_results(step, narrow)


def _widen_results(step: AdjointStep, narrow: dict[Value, Value]) -> None:
    """Replace the 16-bit results of accesses (the keys of `narrow`) by float32 results: users that widened a result
    take the unrounded one, other users the rounded one."""
    results: dict[Value, Value] = {}
    for op in list(step.kernel.walk()):
        source = op.x if isinstance(op, Cast) else cast_source(op.results[0]) if op.results else None
        if source in narrow and scalar_of(_element(op.results[0])) == float32:
            results[op.results[0]] = narrow[source]
    replace(step.kernel.body, results)
    for old, new in narrow.items():
        parent = new.owner.parent if isinstance(new.owner, Op) else None
        assert isinstance(new.owner, Op) and parent is not None
        b = SumBuilder(Region(), new.owner.loc)
        rounded = b.as_scalar(new, scalar_of(_element(old)))
        replace(step.kernel.body, {old: rounded})
        _insert(b, new.owner, keep=True)


def _element(value: Value) -> ElementType:
    t = value.type
    element_type = t.dtype if isinstance(t, TileType) else t
    assert is_element(element_type)
    return element_type


def _wide_tile(b: SumBuilder, tile: Value) -> Value:
    """A tile in float32: the tile before its rounding, or a conversion."""
    return b.converted(b.unrounded(tile, float32), float32)


def _unrounded(b: SumBuilder, value: Value) -> Value:
    """A value in float32: the value before its rounding, or a conversion."""
    owner = value.owner
    if isinstance(owner, Cast) and scalar_of(_element(owner.x)) == float32:
        return owner.x
    return b.as_scalar(value, float32)


def _insert(b: SumBuilder, op: Op, keep: bool) -> None:
    """Insert the built ops after an op if `keep`, else in its place."""
    parent = op.parent
    assert parent is not None
    position = parent.ops.index(op)
    for new_op in b.region.ops:
        new_op.parent = parent
    parent.ops[position + keep : position + 1] = b.region.ops


def _conversion_step(
    step: AdjointStep, k: int, lengths: Sequence[Value], sums: Partials, label: str
) -> AdjointStep:
    """The step that initialises the sums from the gradient ("begin"), adds the sums to the gradient ("add"), or rounds
    the sums to the gradient ("end"). A block converts some columns of a row."""
    kernel, n = step.kernel, len(step.known)
    array = step.known[k]
    assert isinstance(array.type, ArrayType)
    body = Region()
    parameters = [body.add_argument(p.type) for p in step.known]
    gradient = parameters[k]
    wide = body.add_argument(ArrayType(sums.dtype, array.type.ndim))
    b = SumBuilder(body, kernel.loc)
    row, piece, _ = b.emit(Tid, [], {"count": 3})
    offset = [b.one(S.Mul, [piece, b.const(BLOCK_COLUMNS, int32)])]
    for d in reversed(range(array.type.ndim - 1)):
        length = b.one(ArrayShape, [gradient], {"dim": d})
        offset.insert(0, b.one(S.Mod, [row, length]))
        row = b.one(S.FloorDiv, [row, length])
    shape = (*(1 for _ in lengths[1:]), BLOCK_COLUMNS)
    if label == "begin":
        b.store(wide, b.loaded(gradient, offset, shape, float32), offset)
    else:
        total = b.loaded(wide, offset, shape, float32)
        if label == "add":
            b.add_to(gradient, total, offset, True)
        else:
            b.store(gradient, total, offset)
    b.emit(Yield, [])
    names = [*kernel.param_names[:n], "sums"]
    host = SumBuilder(Region())
    last = host.one(S.Add, [lengths[-1], host.const(BLOCK_COLUMNS - 1, int32)])
    pieces = host.one(S.FloorDiv, [last, host.const(BLOCK_COLUMNS, int32)])
    name = f"{kernel.name}_{'to' if label == 'begin' else 'of'}_{kernel.param_names[k]}"
    conversion = finish_kernel(kernel, name, names, body, 2)
    return AdjointStep(conversion, step.known, (Chunk(tuple(lengths[:-1]), (), "total"), pieces), (), (sums,))
