"""The products of a kernel, and the loads that feed them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.control import For, Yield
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipeLoad
from tegula.ops.scalar import Const
from tegula.ops.tile import TileLoad, TileMap, TilePermute, TileSlice
from tegula.passes.overlap import array_root, overlap
from tegula.passes.specialise.declined import Declined
from tegula.rewrite import uses
from tegula.types import ArrayType, TileType


@dataclass(frozen=True, slots=True)
class Product:
    """A product, and what makes the tiles that are its operands, or their transposes: loads, or conversions of a loaded
    right operand. None for a left operand that is computed. `keeps`: whether what is converted may stay in
    registers, so that only the loads fill pipes."""

    op: Op
    left: tuple[Op, ...]
    right: tuple[Op, ...]
    keeps: bool = False


def find_products(kernel: Kernel) -> list[Product]:
    """All products. Declined where none that is repeated has a loaded right operand, or a load cannot go ahead."""
    ops = [op for op in kernel.walk() if isinstance(op, TileMatmul)]
    found = [Product(op, _makers(op.operands[0], False), _makers(op.operands[1], True)) for op in ops]
    if not any(looped(p.op) for p in found):
        raise Declined("there is no loop with a matrix product")
    for p in found:
        if not p.right:
            raise Declined("the right operand of this product is not a tile of an array", p.op.loc)
        for op in (*p.left, *p.right):
            _check_load(kernel, loaded(op))
    return found


def other_loads(kernel: Kernel, products: Sequence[Product]) -> list[Op]:
    """The loads beside products in loops that feed no product as they are, but can be done in advance."""
    taken = {loaded(op) for p in products for op in (*p.left, *p.right)}
    homes = dict.fromkeys(p.op.parent for p in products if looped(p.op))
    found = [op for r in homes if r for op in r.ops if isinstance(op, TileLoad) and op not in taken]
    users = uses(kernel.body)
    carried = {op for op in found if any(isinstance(u, Yield) for u, _ in users.get(op.result, []))}
    return [op for op in found if op not in carried and _may_go_ahead(kernel, op)]


def _may_go_ahead(kernel: Kernel, load: Op) -> bool:
    try:
        _check_load(kernel, load)
    except Declined:
        return False
    return True


def looped(op: Op) -> bool:
    at = op.parent
    while at is not None and at.parent is not None:
        if isinstance(at.parent, For):
            return True
        at = at.parent.parent
    return False


def _makers(value: Value, converted: bool) -> tuple[Op, ...]:
    """The loads that a tile comes from as it is, or turned around, or `converted`; none if it is anything else as
    well."""
    found: dict[Op, None] = {}
    seen: set[Value] = set()
    queue = [value]
    while queue:
        v = queue.pop()
        if v in seen:
            continue
        seen.add(v)
        owner = v.owner
        if isinstance(owner, TileLoad) or (converted and isinstance(owner, Op) and converts(owner)):
            found[owner] = None
        elif isinstance(owner, Op) and turns(owner):
            queue.append(owner.operands[0])
        else:
            sources = list(_carried(v))
            if not sources:
                return ()
            queue += sources
    return tuple(found)


def converts(op: Op) -> bool:
    """Whether an op makes a tile of a loaded one of its region, element by element, and of nothing else."""
    tiles = [v for v in op.operands if isinstance(v.type, TileType)]
    if not isinstance(op, TileMap) or len(tiles) != 1:
        return False
    source = tiles[0].owner
    return (
        isinstance(source, Op)
        and source.parent is op.parent
        and (isinstance(source, TileLoad) or converts(source))
    )


def loaded(op: Op) -> Op:
    """The load behind a conversion, or the load itself."""
    while not isinstance(op, TileLoad):
        tile = next(v for v in op.operands if isinstance(v.type, TileType))
        assert isinstance(tile.owner, Op)
        op = tile.owner
    return op


def turns(op: Op) -> bool:
    """Whether an op gives the transpose of a tile."""
    t = op.operands[0].type if op.operands else None
    if not isinstance(t, TileType) or len(t.shape) != 2:
        return False
    if isinstance(op, TilePermute):
        return tuple(op.attrs["perm"]) == (1, 0)
    whole = (op.attrs.get("dims"), op.attrs.get("steps"), op.attrs.get("shape")) == (
        (1, 0),
        (1, 1),
        t.shape[::-1],
    )
    starts = [v.owner for v in op.operands[1:]]
    return (
        isinstance(op, TileSlice)
        and whole
        and all(isinstance(o, Const) and o.attrs["value"] == 0 for o in starts)
    )


def _carried(v: Value) -> Iterator[Value]:
    """What a value that a loop carries starts as and becomes."""
    owner = v.owner
    if isinstance(owner, Region) and isinstance(owner.parent, For) and v is not owner.args[0]:
        loop, k = owner.parent, owner.args.index(v) - 1
    elif isinstance(owner, For):
        loop, k = owner, owner.results.index(v)
    else:
        return
    yield loop.operands[3 + k]
    yield loop.regions[0].terminator.operands[k]


def _check_load(kernel: Kernel, load: Op) -> None:
    """Declined for a load that a fetching role cannot do in advance."""
    fill, t = load.operands[1].owner, load.result.type
    assert isinstance(t, TileType)
    if not (isinstance(fill, Const) and fill.attrs["value"] == 0):
        raise Declined("elements outside of the array are not 0 in this load", load.loc)
    array = array_root(load.operands[0])
    for op in kernel.walk():
        for effect in op.effects():
            v = effect.value
            if effect.kind in ("read", "io") or v is None or not isinstance(v.type, ArrayType):
                continue
            if array_root(v) is array or overlap(kernel, array, array_root(v)):
                raise Declined("the array that this loads from may be written in the kernel", load.loc)


def pipe_load(pipe: Value, load: Op) -> PipeLoad:
    """The load as one of a pipe."""
    attrs = {k: load.attrs.get(k, False) for k in ("bounds_check", "aligned")}
    return PipeLoad([pipe, load.operands[0], *load.operands[2:]], [], attrs, [], load.loc)
