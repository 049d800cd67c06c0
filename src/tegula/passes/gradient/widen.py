"""16-bit gradients that are added to by atomics are added up in float32, in an array that lives as long as the adjoint
runs, and rounded once."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayAtomic, ArrayShape, ArrayView
from tegula.ops.control import Yield
from tegula.ops.convert import Cast
from tegula.ops.lane import Tid
from tegula.ops.tile import TileAtomic, TileLoad
from tegula.passes.gradient.owners import accesses_of
from tegula.passes.gradient.partials import finished
from tegula.passes.gradient.steps import Partials, Share, Step
from tegula.passes.gradient.sums import SumBuilder
from tegula.rewrite import erase_dead
from tegula.types import ArrayType, DType, float32, int32
from tegula.verify import verify

COLUMNS = 1024
"""Elements that a block rounds."""


def widen(step: Step, positions: Sequence[int]) -> list[Step]:
    """A step, changed, and those that follow it: one for each of the gradients at some positions that have 16 bits and
    are added to by atomics only."""
    added = [k for k in positions if _is_widened(step, k)]
    if not added:
        return [step]
    sums: list[Partials] = []
    after: list[Step] = []
    for k in added:
        lengths = _lengths(step.known[k])
        sums.append(Partials(float32, tuple(lengths), zeroed=True))
        _redirect(step, k)
        after.append(_rounding(step, k, lengths, sums[-1]))
    erase_dead(step.kernel)
    verify(step.kernel)
    made = Step(step.kernel, step.known, step.grid, step.counts, (*step.partials, *sums))
    return [made, *after]


def _is_widened(step: Step, k: int) -> bool:
    array = step.kernel.params[k]
    assert isinstance(array.type, ArrayType)
    t, ops = array.type.dtype, accesses_of(step.kernel, array)
    short = isinstance(t, DType) and t.is_float and t.bits == 16
    return (
        short
        and bool(ops)
        and all(isinstance(op, TileAtomic | ArrayAtomic) and op.attrs["op"] == "add" for op in ops)
    )


def _lengths(array: Value) -> list[Value]:
    """The lengths of an array's dimensions, for the host."""
    assert isinstance(array.type, ArrayType)
    return [ArrayShape([array], [int32], {"dim": d}).result for d in range(array.type.ndim)]


def _redirect(step: Step, k: int) -> None:
    """Let atomics add to a float32 array, a new last parameter."""
    kernel = step.kernel
    array = kernel.params[k]
    assert isinstance(array.type, ArrayType)
    wide = Value(ArrayType(float32, array.type.ndim), kernel.body)
    kernel.body.args.append(wide)
    kernel.param_names.append(f"{kernel.param_names[k]}_sums")
    kernel.access.append(None)
    shown = {array: wide}
    for op in list(kernel.walk()):
        if isinstance(op, ArrayView) and op.operands[0] in shown:
            b = SumBuilder(Region(), op.loc)
            shown[op.result] = b.one(ArrayView, [shown[op.operands[0]], *op.operands[1:]], op.attrs)
            _put(b, op, keep=True)
        elif isinstance(op, TileAtomic | ArrayAtomic) and op.operands[0] in shown:
            b = SumBuilder(Region(), op.loc)
            target, value, *at = op.operands
            if isinstance(op, TileAtomic):
                value = b.converted(b.unrounded(value, float32), float32)
            elif isinstance(value.owner, Cast) and value.owner.operands[0].type == float32:
                value = value.owner.operands[0]
            else:
                value = b.as_scalar(value, float32)
            b.emit(type(op), [shown[target], value, *at], op.attrs)
            _put(b, op, keep=False)


def _put(b: SumBuilder, op: Op, keep: bool) -> None:
    """What was built after an op, or in its place."""
    parent = op.parent
    assert parent is not None
    at = parent.ops.index(op)
    for made in b.region.ops:
        made.parent = parent
    parent.ops[at + keep : at + 1] = b.region.ops


def _rounding(step: Step, k: int, lengths: Sequence[Value], sums: Partials) -> Step:
    """The step that adds the sums to a gradient: a block for each row and some columns of it."""
    kernel, n = step.kernel, len(step.known)
    array = step.known[k]
    assert isinstance(array.type, ArrayType)
    body = Region([*(p.type for p in step.known), ArrayType(float32, array.type.ndim)])
    b = SumBuilder(body, kernel.loc)
    row, piece, _ = b.emit(Tid, [], {"count": 3})
    at = [b.one(S.Mul, [piece, b.const(COLUMNS, int32)])]
    for d in reversed(range(array.type.ndim - 1)):
        length = b.one(ArrayShape, [body.args[k]], {"dim": d})
        at.insert(0, b.one(S.Mod, [row, length]))
        row = b.one(S.FloorDiv, [row, length])
    attrs = {"shape": (*(1 for _ in lengths[1:]), COLUMNS), "bounds_check": True, "aligned": False}
    total = b.one(TileLoad, [body.args[-1], b.const(0.0, float32), *at], attrs)
    b.add_to(body.args[k], total, at, True)
    b.emit(Yield, [])
    names = [*kernel.param_names[:n], "sums"]
    host = SumBuilder(Region())
    last = host.one(S.Add, [lengths[-1], host.const(COLUMNS - 1, int32)])
    pieces = host.one(S.FloorDiv, [last, host.const(COLUMNS, int32)])
    name = f"{kernel.name}_of_{kernel.param_names[k]}"
    made = finished(kernel, name, names, body, 2)
    return Step(made, step.known, (Share(tuple(lengths[:-1]), (), "total"), pieces), (), (sums,))
