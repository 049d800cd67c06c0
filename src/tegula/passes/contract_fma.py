"""Contracts a * b + c to a fused multiply-add on float32 and float64, the same on every target. Adjoints guard products
as `0 if a == 0 else a * b`; such a product is fused as well, with b replaced by 0 where a is 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tegula.ir import CallLike, ConstantLike, Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_op, replace
from tegula.ops.scalar import Add, Cmp, Fma, Mul, Neg, Select, Sub
from tegula.ops.tile import TileMap
from tegula.passes.runner import Compilation
from tegula.types import float32, float64, is_element, scalar_of


def contract_fma(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place; products with other uses, or marked `rounded`, stay. For tiles, a map with an
    addition absorbs a map of products that has no other use."""
    uses = Counter(v for op in kernel.walk() for v in op.operands)
    for op in list(kernel.walk()):
        if isinstance(op, TileMap):
            _absorb_products(op, uses)
    _region(kernel.body, uses)


def keep_rounded(kernel: Kernel, context: Compilation) -> None:
    """Mark in place the products that were not fused, so that later runs do not fuse them either, even if their other
    uses disappear. Products in adjoints of calls, which are built later, stay unmarked."""
    for op in _walk_with_callees(kernel.body):
        if isinstance(op, Mul) and _is_wide_float(op.result):
            op.rounded = True


def _walk_with_callees(region: Region) -> Iterator[Op]:
    for op in region.ops:
        yield op
        for nested in [op.function] if isinstance(op, CallLike) else op.regions:
            yield from _walk_with_callees(nested)


def _is_fusible(op: Op) -> bool:
    """Whether a product may be fused."""
    return isinstance(op, Mul) and not op.rounded


def _absorb_products(op: TileMap, uses: Counter[Value]) -> None:
    """Absorb the maps that compute products for `op`. Operands are visited from last to first, because an absorbed
    operand
    is replaced by its own operands."""
    for k, (tile, argument) in reversed([*enumerate(zip(op.inputs, op.elements, strict=True))]):
        source = tile.owner
        adds = [inner for inner in op.function.ops if argument in inner.operands]
        if (
            isinstance(source, TileMap)
            and source.parent is op.parent
            and uses[source.result] == uses[argument] == len(adds) == 1
            and isinstance(adds[0], (Add, Sub))
            and _is_wide_float(argument)
            and _only_multiplies(source)
        ):
            _absorb(op, k, source, uses)


def _only_multiplies(op: TileMap) -> bool:
    """Whether a map computes only a fusible product, possibly guarded, and constants."""
    inner = [inner for inner in op.function.ops[:-1] if not isinstance(inner, ConstantLike)]
    last = inner[-1] if inner else None
    if last is None or op.function.yielded != last.results:
        return False
    if isinstance(last, Select):
        product = _guarded_product(last)
        return product is not None and _is_fusible(product) and len(inner) == 3
    return len(inner) == 1 and _is_fusible(last)


def _guarded_product(op: Select) -> Mul | None:
    """The product a * b of `a if a == 0 else a * b`; None if the op has another form."""
    condition, product = op.condition.owner, op.b.owner
    if not isinstance(condition, Cmp) or condition.pred != "eq" or not isinstance(product, Mul):
        return None
    zero = condition.b.owner
    same = condition.a is op.a is product.a and isinstance(zero, ConstantLike) and zero.value == 0
    return product if same else None


def _zero_of(select: Select) -> Value:
    """The constant 0 with which a factor of a guarded product is compared."""
    condition = select.condition.owner
    assert isinstance(condition, Cmp)
    return condition.b


def _absorb(op: TileMap, k: int, source: TileMap, uses: Counter[Value]) -> None:
    """Replace input k of a map, a tile of products, by the inputs of the map that computes them."""
    region, inputs, elements = op.function, op.inputs, op.elements
    arguments = [Value(a.type, region) for a in source.elements]
    mapping = dict(zip(source.elements, arguments, strict=True))
    cloned_ops = [clone_op(cloned_ops, mapping) for cloned_ops in source.function.ops[:-1]]
    for copied in cloned_ops:
        copied.parent = region
        uses.update(copied.operands)
    product = mapping[source.function.yielded[0]]
    uses[product] = 1
    region.ops[:0] = cloned_ops
    replace(region, {elements[k]: product})
    op.replace_inputs(
        [*inputs[:k], *source.inputs, *inputs[k + 1 :]], [*elements[:k], *arguments, *elements[k + 1 :]]
    )
    assert source.parent is not None
    source.parent.ops.remove(source)


def _region(region: Region, uses: Counter[Value]) -> None:
    rewritten, absorbed = list[Op](), set[Value]()
    for op in region.ops:
        for nested in op.regions:
            _region(nested, uses)
        rewritten += _contracted(op, region, uses, absorbed)
    region.ops = [op for op in rewritten if absorbed.isdisjoint(op.results)]


def _product(value: Value, region: Region, uses: Counter[Value]) -> Mul | None:
    """The fusible product that defines a value of a region, possibly guarded; None for other values and for products
    with other uses."""
    owner = value.owner
    if not isinstance(owner, Op) or owner.parent is not region or uses[value] != 1:
        return None
    if isinstance(owner, Select):
        guarded = _guarded_product(owner)
        return None if guarded is None else _product(guarded.result, region, uses)
    return owner if isinstance(owner, Mul) and _is_fusible(owner) else None


def _contracted(op: Op, region: Region, uses: Counter[Value], absorbed: set[Value]) -> list[Op]:
    """The ops that replace `op`: the op itself, or a fused op, preceded by a negation for a difference and by a select
    of the factor for a guarded product. Of two products the unguarded one is fused, else the first. `absorbed`: the
    results that fused ops replace; the function adds to it."""
    if not isinstance(op, (Add, Sub)) or not _is_wide_float(op.result):
        return [op]
    terms = (op.a, op.b)
    fusible = [_product(v, region, uses) for v in terms]
    order = sorted((0, 1), key=lambda k: isinstance(terms[k].owner, Select))
    term = next((k for k in order if fusible[k] is not None), None)
    if term is None:
        return [op]
    product, guard, addend = fusible[term], terms[term].owner, terms[1 - term]
    assert product is not None
    absorbed.update((product.result, terms[term]))
    a, b = product.a, product.b
    fused: list[Op] = []
    if isinstance(op, Sub):
        fused.append(_new_op(Neg, [a if term else addend], op, region))
        a, addend = (fused[0].result, addend) if term else (a, fused[0].result)
    if isinstance(guard, Select):
        fused.append(_new_op(Select, [guard.condition, _zero_of(guard), b], op, region))
        b = fused[-1].result
    fused.append(_new_op(Fma, [a, b, addend], op, region))
    fused[-1].results = op.results
    op.results[0].owner = fused[-1]
    return fused


def _is_wide_float(value: Value) -> bool:
    return is_element(value.type) and scalar_of(value.type) in (float32, float64)


def _new_op(kind: type[Op], operands: list[Value], op: Op, region: Region) -> Op:
    """A new op at the location of another one, with a result of the same type."""
    fused = kind(operands, [op.result.type], None, [], op.loc)
    fused.parent = region
    return fused
