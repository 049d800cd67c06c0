"""Activity analysis: a gradient flows through the values that depend on an input of the differentiation and on which
an output depends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tegula.ir import CallLike, Carrier, Op, Region, Value, root
from tegula.ops.gradient import has_adjoint
from tegula.passes.overlap import array_root
from tegula.types import ArrayType, BufType, StackType, TileType, is_element, scalar_of

MEMORY = (ArrayType, BufType, StackType)


def memory_root(value: Value) -> Value:
    """The array, object or stack that a value is a view of."""
    return array_root(root(value))


class Activity:
    """The values of a kernel that affect its gradients. `active`: the values through which a gradient flows. Bools
    carry no gradient: a kernel is not differentiable where a condition changes. Integers that were converted from
    floats are active, so that they can be rejected."""

    def __init__(
        self,
        body: Region,
        varied: Iterable[Value],
        useful: Iterable[Value],
        constants: Collection[Value] = (),
    ) -> None:
        """`varied`: the inputs, with respect to which the kernel is differentiated; `useful`: its outputs;
        `constants`: values whose derivative is 0."""
        self.body = body
        self.constants = constants
        self.useful = set(useful)
        changed = set(varied)
        while self._propagate(changed, forward=True):
            pass
        needed = set(self.useful)
        while self._propagate(needed, forward=False):
            pass
        self.active = {v for v in changed if v in needed} | {v for v in self.useful if is_memory(v)}

    def __contains__(self, value: Value) -> bool:
        return memory_root(value) in self.active

    def _propagate(self, values: set[Value], forward: bool) -> bool:
        before = len(values)
        for op in self.body.walk():
            if isinstance(op, Carrier):
                for carried in op.carried:
                    # Forward, sources make the carried values active; backward, carried values make their sources
                    # active.
                    first, second = (
                        (carried.values, carried.defined_values)
                        if forward
                        else (carried.defined_values, carried.values)
                    )
                    if any(v in values for v in first):
                        values.update(v for v in second if self._carries(v))
                continue
            sources, targets = list(_sources(op)), list(_targets(op))
            first, second = (sources, targets) if forward else (targets, sources)
            if any(v in values for v in first):
                values.update(v for v in second if self._carries(v))
        return len(values) != before

    def _carries(self, value: Value) -> bool:
        return may_depend_on_float(value) and value not in self.constants


def is_memory(value: Value) -> bool:
    """Whether a value is an array or a tile object."""
    return isinstance(value.type, MEMORY)


def may_depend_on_float(value: Value) -> bool:
    """Whether a value can depend on a float."""
    t = value.type
    if isinstance(t, TileType | ArrayType | BufType | StackType):
        t = t.dtype
    return is_element(t) and not scalar_of(t).is_bool


def _sources(op: Op) -> Iterator[Value]:
    """The values and arrays on which the results and the writes of an op depend."""
    for k, value in enumerate(op.operands):
        if not op.signature.is_index(k) and not is_memory(value):
            yield value
    for effect in op.effects():
        if effect.value is not None and effect.kind in ("read", "atomic"):
            yield memory_root(effect.value)


def _targets(op: Op) -> Iterator[Value]:
    """The values and arrays that depend on an op. The adjoint that a function declares covers all its results; integer
    results do not depend on floats."""
    declared = isinstance(op, CallLike) and op.integers_are_constant
    yield from (v for v in op.results if not is_memory(v) and (not declared or has_adjoint(v.type)))
    for effect in op.effects():
        if effect.value is not None and effect.kind in ("write", "atomic"):
            yield memory_root(effect.value)
