"""a * b + c becomes one fused op on float32 and float64, the same on every target. So it does where the product is kept
at 0 while a is, whatever b is, as adjoints are: b is chosen to be 0 there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tegula.ir import CallLike, Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_op, replace
from tegula.ops.scalar import Add, Cmp, Const, Fma, Mul, Neg, Select, Sub
from tegula.ops.tile import TileMap
from tegula.passes.runner import Compilation
from tegula.types import float32, float64, is_element, scalar_of


def contract_fma(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place; products with other uses stay, and those that are marked `rounded`. Of tiles, a map
    that adds takes in the products that another map makes for it alone."""
    uses = Counter(v for op in kernel.walk() for v in op.operands)
    for op in list(kernel.walk()):
        if isinstance(op, TileMap):
            _take_products(op, uses)
    _region(kernel.body, uses)


def keep_rounded(kernel: Kernel, context: Compilation) -> None:
    """Mark the products that were not fused, in place: they never are, whatever becomes of what else uses them. Those
    of calls' adjoints, which have not run yet, stay free."""
    for op in _run(kernel.body):
        if isinstance(op, Mul) and _is_wide_float(op.result):
            op.rounded = True


def _run(region: Region) -> Iterator[Op]:
    for op in region.ops:
        yield op
        for nested in [op.function] if isinstance(op, CallLike) else op.regions:
            yield from _run(nested)


def _is_free(op: Op) -> bool:
    """Whether a product may be fused."""
    return isinstance(op, Mul) and not op.rounded


def _take_products(op: TileMap, uses: Counter[Value]) -> None:
    """From the last operand to the first, since those that are taken in put others in their place."""
    for k, (tile, argument) in reversed([*enumerate(zip(op.inputs, op.elements, strict=True))]):
        source = tile.owner
        adds = [inner for inner in op.function.ops if argument in inner.operands]
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
    """Whether a map does nothing else, also by numbers that are known."""
    inner = [inner for inner in op.function.ops[:-1] if not isinstance(inner, Const)]
    made = inner[-1] if inner else None
    if made is None or op.function.yielded != made.results:
        return False
    if isinstance(made, Select):
        product = _kept_product(made)
        return product is not None and _is_free(product) and len(inner) == 3
    return len(inner) == 1 and _is_free(made)


def _kept_product(op: Select) -> Mul | None:
    """The product a * b if 0, which is a itself, is chosen instead where a is 0."""
    condition, product = op.condition.owner, op.b.owner
    if not isinstance(condition, Cmp) or condition.pred != "eq" or not isinstance(product, Mul):
        return None
    zero = condition.b.owner
    same = condition.a is op.a is product.a and isinstance(zero, Const) and zero.value == 0
    return product if same else None


def _zero_of(kept: Select) -> Value:
    """The 0 that a factor of a kept product is compared with."""
    condition = kept.condition.owner
    assert isinstance(condition, Cmp)
    return condition.b


def _take(op: TileMap, k: int, source: TileMap, uses: Counter[Value]) -> None:
    """Input k, a tile of products, is replaced by their factors."""
    region, inputs, elements = op.function, op.inputs, op.elements
    made = [Value(a.type, region) for a in source.elements]
    mapping = dict(zip(source.elements, made, strict=True))
    inner = [clone_op(inner, mapping) for inner in source.function.ops[:-1]]
    for copied in inner:
        copied.parent = region
        uses.update(copied.operands)
    product = mapping[source.function.yielded[0]]
    uses[product] = 1
    region.ops[:0] = inner
    replace(region, {elements[k]: product})
    op.take([*inputs[:k], *source.inputs, *inputs[k + 1 :]], [*elements[:k], *made, *elements[k + 1 :]])
    assert source.parent is not None
    source.parent.ops.remove(source)


def _region(region: Region, uses: Counter[Value]) -> None:
    made, absorbed = list[Op](), set[Value]()
    for op in region.ops:
        for nested in op.regions:
            _region(nested, uses)
        made += _contracted(op, region, uses, absorbed)
    region.ops = [op for op in made if absorbed.isdisjoint(op.results)]


def _product(value: Value, region: Region, uses: Counter[Value]) -> Mul | None:
    """The product that a value of a region is, or is unless it is kept at 0, if nothing else uses it."""
    owner = value.owner
    if not isinstance(owner, Op) or owner.parent is not region or uses[value] != 1:
        return None
    if isinstance(owner, Select):
        kept = _kept_product(owner)
        return None if kept is None else _product(kept.result, region, uses)
    return owner if isinstance(owner, Mul) and _is_free(owner) else None


def _contracted(op: Op, region: Region, uses: Counter[Value], absorbed: set[Value]) -> list[Op]:
    """The ops that replace `op`: itself, or a fused op, after a negation for differences and a choice of the factor for
    what is kept at 0. Of two products the first is fused, but a kept one only if the other is too. `absorbed`: what
    fused ops have taken in."""
    if not isinstance(op, Add | Sub) or not _is_wide_float(op.result):
        return [op]
    terms = (op.a, op.b)
    products = [_product(v, region, uses) for v in terms]
    order = sorted((0, 1), key=lambda k: isinstance(terms[k].owner, Select))
    term = next((k for k in order if products[k] is not None), None)
    if term is None:
        return [op]
    product, kept, addend = products[term], terms[term].owner, terms[1 - term]
    assert product is not None
    absorbed.update((product.result, terms[term]))
    a, b = product.a, product.b
    made: list[Op] = []
    if isinstance(op, Sub):
        made.append(_made(Neg, [a if term else addend], op, region))
        a, addend = (made[0].result, addend) if term else (a, made[0].result)
    if isinstance(kept, Select):
        made.append(_made(Select, [kept.condition, _zero_of(kept), b], op, region))
        b = made[-1].result
    made.append(_made(Fma, [a, b, addend], op, region))
    made[-1].results = op.results
    op.results[0].owner = made[-1]
    return made


def _is_wide_float(value: Value) -> bool:
    return is_element(value.type) and scalar_of(value.type) in (float32, float64)


def _made(kind: type[Op], operands: list[Value], op: Op, region: Region) -> Op:
    """An op in the place of another one, with a result of its type."""
    made = kind(operands, [op.result.type], None, [], op.loc)
    made.parent = region
    return made
