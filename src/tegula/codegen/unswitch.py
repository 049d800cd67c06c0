"""Unswitching of selects whose condition varies along one dimension of a tile only: a branch for each index of this
dimension replaces the select. Only the selected operand is computed, and no code is emitted if the selected operand is
already in the destination."""

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
    if s.kernel is not s.vectorised.kernel or len(dims) != 1 or len(conditions) > MAX_CONDITIONS:
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
        resolved = _resolve(s, value)
        if not (resolved in s.tiles and s.tiles[resolved] == view):
            emit()
        return
    condition, _ = unswitchable
    code = s.code
    (holds,) = element(s, condition, index, 1, False)
    true_label, false_label, done = code.label("yes"), code.label("no"), code.label("either")
    code.branch(holds, true_label, false_label)
    same = [c for c, _ in _conditions(s, value) if _equal_conditions(s, c, condition)]
    before = dict(s.assumed)
    for label, known in ((true_label, True), (false_label, False)):
        code.define_label(label)
        s.assumed = {**before, **dict.fromkeys(same, known)}
        _branch(s, value, view, index, emit)
        code.jump(done)
    s.assumed = before
    code.define_label(done)


def _resolve(s: State, value: Value) -> Value:
    """The tile that equals a value under the known conditions."""
    op = fused(s, value)
    operand = known_operand(s, op) if op is not None else None
    return value if operand is None or not isinstance(operand.type, TileType) else _resolve(s, operand)


def _conditions(s: State, value: Value) -> list[tuple[Value, int]]:
    """The unknown conditions in the computation of a tile that vary along one dimension only, with this dimension,
    outer selects first."""
    return list(dict.fromkeys(_unknown_conditions(s, value)))


def _unknown_conditions(s: State, value: Value) -> Iterator[tuple[Value, int]]:
    op = fused(s, value)
    if not isinstance(op, TileMap):
        return
    operand = known_operand(s, op)
    if operand is not None:
        if isinstance(operand.type, TileType):
            yield from _unknown_conditions(s, operand)
        return
    inputs = [v for v in op.inputs if isinstance(v.type, TileType)]
    if is_select(op):
        condition, true_operand, false_operand = select_operands(op)
        dim = _varying_dim(s, condition) if isinstance(condition.type, TileType) else None
        if dim is not None:
            yield condition, dim
            inputs = [v for v in (true_operand, false_operand) if isinstance(v.type, TileType)]
    for v in inputs:
        yield from _unknown_conditions(s, v)


def _shape(tile: Value) -> tuple[int, ...]:
    assert isinstance(tile.type, TileType)
    return tile.type.shape


def _varying_dim(s: State, value: Value) -> int | None:
    """The dimension along which an inlined tile varies, if there is exactly one and it is not the last; else None."""
    op, shape = fused(s, value), _shape(value)
    if isinstance(op, TileBroadcast):
        source = _shape(op.tile)
        long_dims = [d + len(shape) - len(source) for d, n in enumerate(source) if n > 1]
        return long_dims[0] if len(long_dims) == 1 and long_dims[0] < len(shape) - 1 else None
    if isinstance(op, TileMap):
        dims = {_varying_dim(s, v) for v in op.inputs if isinstance(v.type, TileType)}
        return dims.pop() if len(dims) == 1 else None
    return None


def _equal_conditions(s: State, a: Value, b: Value) -> bool:
    """Whether two conditions are the same expression of the same values."""
    if a is b:
        return True
    op_a, op_b = fused(s, a), fused(s, b)
    if isinstance(op_a, TileBroadcast) and isinstance(op_b, TileBroadcast):
        return op_a.shape == op_b.shape and _same_source(op_a.tile, op_b.tile)
    if not (isinstance(op_a, TileMap) and isinstance(op_b, TileMap)) or len(op_a.inputs) != len(op_b.inputs):
        return False
    op_pairs = zip(op_a.function.walk(), op_b.function.walk(), strict=False)
    if len(list(op_a.function.walk())) != len(list(op_b.function.walk())):
        return False
    numbers = {v: k for k, v in enumerate(op_a.elements)}, {v: k for k, v in enumerate(op_b.elements)}
    for x, y in op_pairs:
        if not x.is_like(y) or [numbers[0].get(v) for v in x.operands] != [
            numbers[1].get(v) for v in y.operands
        ]:
            return False
        for k, (p, q) in enumerate(zip(x.results, y.results, strict=True)):
            numbers[0][p] = numbers[1][q] = -1 - k - 8 * len(numbers[0])
    return all(
        p is q
        or (isinstance(p.type, TileType) and isinstance(q.type, TileType) and _equal_conditions(s, p, q))
        for p, q in zip(op_a.inputs, op_b.inputs, strict=True)
    )


def _same_source(a: Value, b: Value) -> bool:
    """Whether two tiles are equal up to dimensions of length 1."""
    if a is b:
        return True
    op_a, op_b = a.owner, b.owner
    if not isinstance(op_a, TileReshape) or not isinstance(op_b, TileReshape) or op_a.shape != op_b.shape:
        return False
    return _same_source(op_a.tile, op_b.tile)
