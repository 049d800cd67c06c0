"""a * b + c becomes one fused op on float32 and float64, the same on every target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.control import Yield
from tegula.ops.gradient import Call
from tegula.ops.scalar import Add, Fma, Mul, Neg, Sub
from tegula.ops.tile import TileMap
from tegula.rewrite import clone_op, replace
from tegula.types import float32, float64, is_element, scalar_of


def contract_fma(kernel: Kernel) -> None:
    """Rewrite the kernel in place; products with other uses stay, and those that are marked `rounded`. Of tiles, a map
    that adds takes in the products that another map makes for it alone."""
    uses = Counter(v for op in kernel.walk() for v in op.operands)
    for op in list(kernel.walk()):
        if isinstance(op, TileMap):
            _take_products(op, uses)
    _region(kernel.body, uses)


def keep_rounded(kernel: Kernel) -> None:
    """Mark the products that were not fused, in place: they never are, whatever becomes of what else uses them. Those
    of calls' adjoints, which have not run yet, stay free."""
    for op in _run(kernel.body):
        if isinstance(op, Mul) and _is_wide_float(op.result):
            op.attrs = {**op.attrs, "rounded": True}


def _run(region: Region) -> Iterator[Op]:
    for op in region.ops:
        yield op
        for nested in op.regions[:1] if isinstance(op, Call) else op.regions:
            yield from _run(nested)


def _is_free(op: Op) -> bool:
    """Whether a product may be fused."""
    return isinstance(op, Mul) and not op.attrs.get("rounded")


def _take_products(op: TileMap, uses: Counter[Value]) -> None:
    """From the last operand to the first, since those that are taken in put others in their place."""
    (region,) = op.regions
    for k in reversed(range(len(op.operands))):
        source, argument = op.operands[k].owner, region.args[k]
        adds = [inner for inner in region.ops if argument in inner.operands]
        if (
            isinstance(source, TileMap)
            and source.parent is op.parent
            and uses[source.result] == uses[argument] == len(adds) == 1
            and isinstance(adds[0], Add | Sub)
            and _is_wide_float(argument)
            and _makes_products(source)
        ):
            _take(op, k, source, uses)


def _makes_products(op: TileMap) -> bool:
    first, *rest = op.regions[0].ops
    return _is_free(first) and [type(inner) for inner in rest] == [Yield]


def _take(op: TileMap, k: int, source: TileMap, uses: Counter[Value]) -> None:
    """Operand k, a tile of products, is replaced by their factors."""
    (region,), (factors,) = op.regions, source.regions
    made = [Value(a.type, region) for a in factors.args]
    product = clone_op(factors.ops[0], dict(zip(factors.args, made, strict=True)))
    product.parent = region
    uses[product.result] = 1
    region.ops.insert(0, product)
    replace(region, {region.args[k]: product.result})
    region.args[k : k + 1] = made
    op.operands[k : k + 1] = source.operands
    assert source.parent is not None
    source.parent.ops.remove(source)


def _region(region: Region, uses: Counter[Value]) -> None:
    made: list[Op] = []
    for op in region.ops:
        for nested in op.regions:
            _region(nested, uses)
        made += _contracted(op, region, uses)
    absorbed = {v.owner for op in made if isinstance(op, Fma) for v in op.attrs.pop("absorbed", ())}
    region.ops = [op for op in made if op not in absorbed]


def _product(value: Value, region: Region, uses: Counter[Value]) -> Op | None:
    owner = value.owner
    if not isinstance(owner, Op) or not _is_free(owner):
        return None
    return owner if owner.parent is region and uses[value] == 1 else None


def _contracted(op: Op, region: Region, uses: Counter[Value]) -> list[Op]:
    """The ops that replace `op`: itself, or a fused op (with a negation for differences)."""
    if not isinstance(op, Add | Sub) or not _is_wide_float(op.result):
        return [op]
    left, right = op.operands
    product, addend, first = _product(left, region, uses), right, True
    if product is None:
        product, addend, first = _product(right, region, uses), left, False
    if product is None:
        return [op]
    a, b = product.operands
    negated = [] if isinstance(op, Add) else [_negation(addend if first else a, op, region)]
    if negated:
        addend, a = (negated[0].result, a) if first else (addend, negated[0].result)
    fused = Fma([a, b, addend], [], {"absorbed": (product.result,)}, [], op.loc)
    fused.parent = region
    fused.results = op.results
    op.results[0].owner = fused
    return [*negated, fused]


def _is_wide_float(value: Value) -> bool:
    return is_element(value.type) and scalar_of(value.type) in (float32, float64)


def _negation(value: Value, op: Op, region: Region) -> Op:
    made = Neg([value], [value.type], None, [], op.loc)
    made.parent = region
    return made
