"""Unswitching of selects whose condition varies along one dimension of a tile only: a branch for each index of this
dimension replaces the select. Only the selected operand is computed, and no code is emitted where a tile keeps its
elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tegula.codegen.elements import element, is_select, known_operand, select_operands
from tegula.codegen.state import State
from tegula.codegen.storage import View
from tegula.codegen.sweep import fused
from tegula.ir import Value
from tegula.ops.tile import TileBroadcast, TileMap, TileReshape
from tegula.types import TileType

MAX_CONDITIONS = 3

Sweep = Callable[[int, str], None]


def unswitched(s: State, value: Value, view: View, sweep: Sweep) -> None:
    """Compute a tile into a view. `sweep`: emits the loops over all elements (-1 for the dimension), or over the
    elements with one coordinate."""
    conditions = _conditions(s, value)
    rank = len(view.shape)
    dims = {d for _, d in conditions}
    if s.kernel is not s.side_by_side.kernel or len(dims) != 1 or len(conditions) > MAX_CONDITIONS:
        sweep(-1, "")
        return
    (dim,) = dims
    with s.code.loop("0", str(view.shape[dim])) as loop:
        index = [loop.index if d == dim else "0" for d in range(rank)]
        done = s.code.label("chosen")
        _branch(s, value, view, index, lambda: sweep(dim, loop.index))
        s.code.jump(done)
        s.code.define_label(done)


def _branch(s: State, value: Value, view: View, index: list[str], emit: Callable[[], None]) -> None:
    """Branch on the first unknown condition, until all conditions are known."""
    unswitchable = next(iter(_conditions(s, value)), None)
    if unswitchable is None:
        resolved = _resolved(s, value)
        if not (resolved in s.tiles and s.tiles[resolved] == view):
            emit()
        return
    condition, _ = unswitchable
    code = s.code
    (holds,) = element(s, condition, index, 1, False)
    yes, no, done = code.label("yes"), code.label("no"), code.label("either")
    code.branch(holds, yes, no)
    same = [c for c, _ in _conditions(s, value) if _equal_conditions(s, c, condition)]
    before = dict(s.assumed)
    for label, known in ((yes, True), (no, False)):
        code.define_label(label)
        s.assumed = {**before, **dict.fromkeys(same, known)}
        _branch(s, value, view, index, emit)
        code.jump(done)
    s.assumed = before
    code.define_label(done)


def _resolved(s: State, value: Value) -> Value:
    """The tile that equals a value under the known conditions."""
    op = fused(s, value)
    operand = known_operand(s, op) if op is not None else None
    return value if operand is None or not isinstance(operand.type, TileType) else _resolved(s, operand)


def _conditions(s: State, value: Value) -> list[tuple[Value, int]]:
    """The unknown conditions in the computation of a tile that vary along one dimension only, with this dimension,
    outer selects first."""
    return list(dict.fromkeys(_walk(s, value)))


def _walk(s: State, value: Value) -> Iterator[tuple[Value, int]]:
    op = fused(s, value)
    if not isinstance(op, TileMap):
        return
    operand = known_operand(s, op)
    if operand is not None:
        if isinstance(operand.type, TileType):
            yield from _walk(s, operand)
        return
    inputs = [v for v in op.inputs if isinstance(v.type, TileType)]
    if is_select(op):
        condition, yes, no = select_operands(op)
        dim = _varying_dim(s, condition) if isinstance(condition.type, TileType) else None
        if dim is not None:
            yield condition, dim
            inputs = [v for v in (yes, no) if isinstance(v.type, TileType)]
    for v in inputs:
        yield from _walk(s, v)


def _shape(tile: Value) -> tuple[int, ...]:
    assert isinstance(tile.type, TileType)
    return tile.type.shape


def _varying_dim(s: State, value: Value) -> int | None:
    """The only dimension along which an inlined tile varies; None for other tiles."""
    op, shape = fused(s, value), _shape(value)
    if isinstance(op, TileBroadcast):
        source = _shape(op.tile)
        long = [d + len(shape) - len(source) for d, n in enumerate(source) if n > 1]
        return long[0] if len(long) == 1 and long[0] < len(shape) - 1 else None
    if isinstance(op, TileMap):
        dims = {_varying_dim(s, v) for v in op.inputs if isinstance(v.type, TileType)}
        return dims.pop() if len(dims) == 1 else None
    return None


def _equal_conditions(s: State, a: Value, b: Value) -> bool:
    """Whether two conditions are computed alike from the same values."""
    if a is b:
        return True
    first, other = fused(s, a), fused(s, b)
    if isinstance(first, TileBroadcast) and isinstance(other, TileBroadcast):
        return first.shape == other.shape and _same_source(first.tile, other.tile)
    if not (isinstance(first, TileMap) and isinstance(other, TileMap)) or len(first.inputs) != len(
        other.inputs
    ):
        return False
    pairs = zip(first.function.walk(), other.function.walk(), strict=False)
    if len(list(first.function.walk())) != len(list(other.function.walk())):
        return False
    numbers = {v: k for k, v in enumerate(first.elements)}, {v: k for k, v in enumerate(other.elements)}
    for x, y in pairs:
        if not x.is_like(y) or [numbers[0].get(v) for v in x.operands] != [
            numbers[1].get(v) for v in y.operands
        ]:
            return False
        for k, (p, q) in enumerate(zip(x.results, y.results, strict=True)):
            numbers[0][p] = numbers[1][q] = -1 - k - 8 * len(numbers[0])
    return all(
        p is q
        or (isinstance(p.type, TileType) and isinstance(q.type, TileType) and _equal_conditions(s, p, q))
        for p, q in zip(first.inputs, other.inputs, strict=True)
    )


def _same_source(a: Value, b: Value) -> bool:
    """Whether two tiles are equal up to dimensions of length 1."""
    if a is b:
        return True
    first, other = a.owner, b.owner
    if not isinstance(first, TileReshape) or not isinstance(other, TileReshape) or first.shape != other.shape:
        return False
    return _same_source(first.tile, other.tile)
