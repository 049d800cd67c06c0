"""The verifier: the conditions that every kernel satisfies between two passes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter, is_
from typing import NoReturn, TypeVar

from tegula.dataclass import dataclass, field
from tegula.errors import InternalError
from tegula.ir.interfaces import BranchLike, CallLike
from tegula.ir.kernel import Kernel
from tegula.ir.values import REGISTRY, Op, Region, TypeRule, Value
from tegula.types import Type

TypeKey = tuple[object, ...]
Item = TypeVar("Item")
_type_of = attrgetter("type")


@dataclass(slots=True)
class Verified:
    """The results of earlier verifications of a kernel. `fitting`: the keys of ops whose types are valid, with the
    types and attributes that each key identifies, which keeps these objects alive; `image`: the IR that was valid
    last, which is not verified again; None if no image is kept."""

    fitting: dict[TypeKey, list[object]] = field(default_factory=dict[TypeKey, list[object]])
    image: list[object] | None = None


def verify(kernel: Kernel, known: Verified | None = None) -> None:
    """Raise InternalError, with the op and its location, unless the kernel is valid IR:

    - every operand is defined before its use, in the same region or an enclosing one (isolated regions see
      only themselves),
    - every region ends in `yield`, its only one,
    - `infer` accepts every op's operands and returns its result types,
    - parents and owners are correct, and every op, region and result has one parent.

    `known`: the results of earlier verifications, to which the results of this one are added."""
    counts = len(kernel.params), len(kernel.param_names), len(kernel.access)
    if len(set(counts)) != 1:
        raise InternalError(
            f"kernel {kernel.name} has different numbers of parameters, names and access classes: {counts}"
        )
    if kernel.body.parent is not None:
        raise InternalError(f"kernel {kernel.name}: the body has a parent")
    known = Verified() if known is None else known
    image: list[object] = []
    if known.image is not None:
        _append_image(kernel.body, image)
        if len(image) == len(known.image) and all(map(is_, image, known.image)):
            return
    _Verifier(kernel, known.fitting).region(kernel.body, None, set())
    if known.image is not None:
        known.image = image


def _append_image(region: Region, image: list[object]) -> None:
    """Append to `image` all that `verify` reads of a region. Equal images are of equal IR: regions delimit operands and
    nested ops."""
    add, extend = image.append, image.extend
    extend((region, region.parent))
    for arg in region.args:
        extend((arg, arg.owner, arg.type))
    for op in region.ops:
        add(op)
        extend(op.operands)
        add(op.parent)
        for result in op.results:
            extend((result, result.owner, result.type))
        if op.attrs:
            extend(op.attrs)
            extend(op.attrs.values())
        for nested in op.regions:
            _append_image(nested, image)
    add(region)


class _Verifier:
    def __init__(self, kernel: Kernel, fitting: dict[TypeKey, list[object]]) -> None:
        self.kernel = kernel
        self.fitting = fitting
        self.seen: set[Region] = set()

    def fail(self, op: Op | None, message: str) -> NoReturn:
        name = f"{op.NAME or type(op).__name__} at {op.loc}" if op is not None else f"at {self.kernel.loc}"
        raise InternalError(f"invalid IR in kernel {self.kernel.name}: {name}: {message}")

    def region(self, region: Region, parent: Op | None, visible: set[Value]) -> None:
        """Check a region; `visible`: the values that dominate it, unchanged afterwards."""
        if region in self.seen:
            self.fail(parent, "a region appears twice")
        self.seen.add(region)
        defined: list[Value] = []
        for arg in region.args:
            if arg.owner is not region or arg in visible:
                self.fail(parent, f"argument {arg} belongs to another region")
            visible.add(arg)
            defined.append(arg)
        if not region.ops or region.ops[-1].NAME != "yield":
            self.fail(region.ops[-1] if region.ops else parent, "a region must end in 'yield'")
        fitting, last = self.fitting, region.ops[-1]
        for op in region.ops:
            if op.parent is not region:
                self.fail(op, "the op's parent is not the region that contains it")
            if op.NAME == "yield" and op is not last:
                self.fail(op, "'yield' inside a region, not at its end")
            if not visible.issuperset(op.operands):
                missing = next(v for v in op.operands if v not in visible)
                self.fail(op, f"operand {missing} is not defined before this use")
            for result in op.results:
                if result.owner is not op:
                    self.fail(op, f"result {result} belongs to another op")
            if op.regions:
                self.nested(op, visible)
            if (type_key := _type_key(op)) not in fitting:
                fitting[type_key] = self.types(op)
            visible.update(op.results)
            defined += op.results
        if len({*region.ops}) < len(region.ops):
            self.fail(_repeated(region.ops), "the op appears twice")
        if len({*defined}) < len(defined):
            self.fail(parent, f"value {_repeated(defined)} is defined twice")
        visible.difference_update(defined)

    def nested(self, op: Op, visible: set[Value]) -> None:
        for region in op.regions:
            if region.parent is not op:
                self.fail(op, "a region's parent is not the op that contains it")
            if isinstance(op, BranchLike) and region.args:
                self.fail(op, f"the branches of {op.NAME!r} take no arguments")
            self.region(region, op, set() if op.ISOLATED else visible)
            if op.ISOLATED and not isinstance(op, CallLike):
                for inner in region.walk():
                    if inner.COOPERATIVE:
                        self.fail(inner, f"a cooperative op inside {op.NAME}")

    def types(self, op: Op) -> list[object]:
        """The types and attributes of a valid op."""
        if REGISTRY.get(op.NAME) is not type(op):
            self.fail(op, f"the class {type(op).__name__} is not registered")
        try:
            fault = op.signature.fault(op)
            if fault:
                self.fail(op, fault)
            inferred = op.infer()
        except TypeRule as error:
            self.fail(op, str(error) or f"operands do not fit: {error.fields}")
        except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            self.fail(op, f"malformed: {type(error).__name__}: {error}")
        actual = [v.type for v in op.results]
        if list(inferred) != actual:
            self.fail(op, f"the results should be {_types(inferred)}, not {_types(actual)}")
        inner = [v for region in op.regions for v in (*region.args, *region.yielded)]
        return [*(v.type for v in (*op.operands, *op.results, *inner)), *op.attrs.values()]


def _repeated(items: Sequence[Item]) -> Item:
    """The first item that occurs twice."""
    return next(item for k, item in enumerate(items) if item in items[:k])


def _type_key(op: Op) -> TypeKey:
    """A key that is equal for ops of one class that have identical types and attributes, as long as these objects stay
    alive. The types of these ops are then equally valid: of its regions, `infer` reads the types of arguments and of
    yielded values."""
    values: list[Value] = [*op.operands, *op.results]
    counts = [len(op.operands)]
    for region in op.regions:
        values += (*region.args, *region.yielded)
        counts += (len(region.args), len(region.yielded))
    return *op.identity(), *counts, *map(id, map(_type_of, values))


def _types(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"
