"""Tiles of narrow numbers stay narrow until their numbers are needed.

Products need them narrow: tensor cores multiply 16-bit numbers as exactly as the float32 ones that they are widened to,
and have none for float32."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.convert import Cast
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileMap, TilePermute, TileReshape, TileSlice
from tegula.passes.product_terms import widened_terms
from tegula.rewrite import uses
from tegula.types import TileType, scalar_of

SHAPES = (TilePermute, TileReshape, TileSlice)
"""Ops whose results show elements of a tile in another shape."""


def sink_conversions(kernel: Kernel) -> None:
    """Move each widening conversion of a whole tile down to its first use: in between the tile takes half of the
    registers, or fewer, so that more blocks fit the device while lanes wait for a load or for each other. Products take
    what was widened where tensor cores can multiply it then."""
    for op in list(kernel.walk()):
        if isinstance(op, TileMatmul):
            _multiply_narrow(op)
    _drop_unused(kernel)
    _region(kernel.body, uses(kernel.body))
    for op in kernel.walk():
        for nested in op.regions:
            _region(nested, uses(nested))


def _region(region: Region, used: dict[Value, list[tuple[Op, int]]]) -> None:
    """From the last op to the first, so that a conversion of a converted tile takes that with it."""
    for at in reversed(range(len(region.ops))):
        op = region.ops[at]
        if _widens(op):
            users = {_within(user, region) for user, _ in used.get(op.result, ())}
            first = next((k for k, other in enumerate(region.ops) if other in users), at + 1)
            region.ops.insert(first, op)
            del region.ops[at]


def _multiply_narrow(product: Op) -> None:
    """Replace both operands by what they were widened from, which has the same values, if the terms become narrower."""
    before, wide = widened_terms(product), product.operands[:2]
    product.operands[:2] = [_source(v) for v in wide]
    after = widened_terms(product)
    if after is None or (before is not None and after.bits >= before.bits):
        product.operands[:2] = wide
        return
    product.operands[:2] = [_narrowed(v) for v in wide]


def _source(tile: Value) -> Value:
    """What a tile, or what it shows elements of, was widened from: the right type, if not the right shape."""
    owner = tile.owner
    if isinstance(owner, SHAPES):
        return _source(owner.operands[0])
    return _source(owner.operands[0]) if isinstance(owner, Op) and _keeps_values(owner) else tile


def _narrowed(tile: Value) -> Value:
    """The narrow tile in the shape of a widened one."""
    owner = tile.owner
    if isinstance(owner, SHAPES):
        source = _narrowed(owner.operands[0])
        if source is owner.operands[0]:
            return tile
        assert owner.parent is not None
        operands = [source, *owner.operands[1:]]
        made = type(owner).typed(operands, owner.attrs, loc=owner.loc)
        made.parent = owner.parent
        owner.parent.ops.insert(owner.parent.ops.index(owner) + 1, made)
        return made.result
    return _narrowed(owner.operands[0]) if isinstance(owner, Op) and _keeps_values(owner) else tile


def _drop_unused(kernel: Kernel) -> None:
    """Conversions, and tiles that show others' elements, that nothing uses any more."""
    while True:
        used = uses(kernel.body)
        idle = [
            op for op in kernel.walk()
            if (isinstance(op, SHAPES) or _widens(op)) and op.result not in used
        ]  # fmt: skip
        if not idle:
            return
        for op in idle:
            assert op.parent is not None
            op.parent.ops.remove(op)


def _within(op: Op, region: Region) -> Op:
    """The op of a region that holds another op, or is it."""
    while op.parent is not region:
        assert op.parent is not None and op.parent.parent is not None
        op = op.parent.parent
    return op


def _keeps_values(op: Op) -> bool:
    """Whether an op is a widening conversion between floats, or between integers, to a type that has all values."""
    if not _widens(op):
        return False
    before, after = (scalar_of(v.type.dtype) for v in (op.operands[0], op.result))  # type: ignore[union-attr]
    if before.is_float or after.is_float:
        return before.is_float and after.is_float
    return before.is_int and after.is_int and (after.is_signed or not before.is_signed)


def _widens(op: Op) -> bool:
    if not isinstance(op, TileMap) or len(op.operands) != 1 or len(op.regions[0].ops) != 2:
        return False
    before, after = op.operands[0].type, op.result.type
    assert isinstance(before, TileType) and isinstance(after, TileType)
    cast = op.regions[0].ops[0]
    is_cast = isinstance(cast, Cast) and cast.operands[0] is op.regions[0].args[0]
    return is_cast and scalar_of(after.dtype).bits > scalar_of(before.dtype).bits
