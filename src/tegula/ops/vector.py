"""Ops that build vectors and matrices and access their components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir import ComponentAccess, Composition, Op, TypeRule, Value
from tegula.ir.fields import attr, operand, variadic
from tegula.ops.base import element, require, types
from tegula.ops.scalar import And, Cmp, Const, Select
from tegula.types import DType, Type, bool_, components, element_shape, scalar_of, uint32

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]


class VecMake(Composition):
    """A vector or matrix (attribute `type`) from its components, row-major: scalars, and vectors and matrices of
    consecutive components."""

    __slots__ = ()
    NAME = "vec.make"
    components = variadic()
    type = attr()

    def infer(self) -> Sequence[Type]:
        result, component_types = self.type, types(self.components)
        for t in component_types:
            if scalar_of(element(t)) != scalar_of(result):
                raise TypeRule(f"a component of {result} must be {scalar_of(result)}, got {t}")
        count = sum(components(element(t)) for t in component_types)
        if count != components(result):
            raise TypeRule(f"{result} takes {components(result)} components, got {count}")
        return [result]

    def parts(self) -> list[Value] | None:
        return self.components if len(self.components) == components(self.type) else None

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        lanes = len(operands[0])
        flat = np.concatenate([x.reshape(lanes, -1) for x in operands], axis=1)
        return flat.reshape(lanes, *element_shape(attrs["type"]))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        parts, adjoints = b.components_of(g), list[Value | None]()
        for component in self.components:
            t = element(b.primal(component).type)
            own_components, parts = parts[: components(t)], parts[components(t) :]
            adjoints.append(
                own_components[0] if t == scalar_of(t) else b.one(VecMake, own_components, {"type": t})
            )
        return adjoints


class VecUnset(Op):
    """A vector (attribute `type`) whose components have no particular value: a program may read only the components
    that it has replaced. A vector in the thread's memory is not initialised."""

    __slots__ = ()
    NAME = "vec.unset"
    type = attr()

    def infer(self) -> Sequence[Type]:
        require(len(element_shape(element(self.type))) == 1, f"{self.type} is not a vector")
        return [self.type]


class VecSplat(Composition):
    """A vector or matrix (attribute `type`) with the operand in every component."""

    __slots__ = ()
    NAME = "vec.splat"
    x = operand()
    type = attr()

    def infer(self) -> Sequence[Type]:
        result = self.type
        if self.x.type != scalar_of(result):
            raise TypeRule(f"a component of {result} must be {scalar_of(result)}, got {self.x.type}")
        return [result]

    def parts(self) -> list[Value] | None:
        return [self.x] * components(self.type)

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (x,) = operands
        shape = element_shape(attrs["type"])
        return np.broadcast_to(x.reshape(x.shape + (1,) * len(shape)), x.shape + shape).copy()

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        total, *rest = b.components_of(g)
        for component in rest:
            total = b.plus(total, component)
        return (total,)


class VecPart(Op):
    """A vector or matrix of the type `type` (attribute) with selected components of another vector or matrix;
    `selected` (attribute): the row-major indices of the components."""

    __slots__ = ()
    NAME = "vec.part"
    x = operand()
    selected = attr()
    type = attr()

    def infer(self) -> Sequence[Type]:
        scalar, result = element(self.x.type), self.type
        require(scalar_of(result) == scalar_of(scalar), f"a part of {scalar} is not a {result}")
        require(components(result) == len(self.selected), f"{result} takes {components(result)} components")
        require(
            all(0 <= k < components(scalar) for k in self.selected),
            f"the component is out of the range of {scalar}",
        )
        return [result]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (x,) = operands
        flat = x.reshape(len(x), -1)[:, list(attrs["selected"])]
        return flat.reshape(len(x), *element_shape(attrs["type"]))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        composite_type = b.primal(self.x).type
        adjoints: list[Value | None] = [None] * components(element(composite_type))
        selected: Sequence[int] = self.selected
        for k, component in zip(selected, b.components_of(g), strict=True):
            adjoints[k] = b.plus(adjoints[k], component)
        zero = b.zero(scalar_of(element(composite_type)))
        return (
            b.one(
                VecMake,
                [zero if component is None else component for component in adjoints],
                {"type": composite_type},
            ),
        )


class VecBits(Op):
    """A vector of at most 32 bools as the bits of a uint32; the first component is the lowest bit."""

    __slots__ = ()
    NAME = "vec.bits"
    x = operand()

    def infer(self) -> Sequence[Type]:
        t = element(self.x.type)
        require(scalar_of(t) == bool_ and components(t) <= 32, f"{t} is not a vector of at most 32 bools")
        return [uint32]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (x,) = operands
        flat = x.reshape(len(x), -1).astype(np.uint32)
        return (flat << np.arange(flat.shape[1], dtype=np.uint32)).sum(1, dtype=np.uint32)


def _check_indices(composite: Type, indices: Sequence[Type]) -> DType:
    t = element(composite)
    rank = len(element_shape(t))
    if not rank:
        raise TypeRule(f"{t} has no components")
    if len(indices) != rank:
        raise TypeRule(f"{t} takes {rank} indices, got {len(indices)}")
    require(all(getattr(i, "is_int", False) for i in indices), "component indices must be integers")
    return scalar_of(t)


def _in_bounds(b: GradientBuilder, index: Value, n: int) -> Value:
    """Whether an index is from 0 to n - 1."""
    t = element(index.type)
    if isinstance(index.owner, Const):
        return b.const(0 <= index.owner.value < n, bool_)
    low = b.one(Cmp, [index, b.const(0, t)], {"pred": "ge"})
    return b.one(And, [low, b.one(Cmp, [index, b.const(n, t)], {"pred": "lt"})])


def _clamp_index(b: GradientBuilder, index: Value, n: int) -> Value:
    """The index of the component that `vec.extract` reads: n - 1 for an index out of bounds."""
    return b.one(Select, [_in_bounds(b, index, n), index, b.const(n - 1, element(index.type))])


class VecExtract(ComponentAccess):
    """Reads a component of a vector (one index) or a matrix (two); an index out of bounds reads the last component
    along its dimension."""

    __slots__ = ()
    NAME = "vec.extract"
    composite = operand()
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        return [_check_indices(self.composite.type, [v.type for v in self.indices])]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        composite, *indices = operands
        clamped = [
            np.where((i >= 0) & (i < n), i.astype(np.intp), n - 1)
            for i, n in zip(indices, composite.shape[1:], strict=True)
        ]
        return composite[(np.arange(len(composite)), *(i.astype(np.intp) for i in clamped))]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        composite, indices = self.composite, self.indices
        zero, shape = b.zero(b.primal(composite).type), element_shape(element(composite.type))
        clamped = [_clamp_index(b, b.primal(i), n) for i, n in zip(indices, shape, strict=True)]
        return (b.one(VecInsert, [zero, g, *clamped]), *[None] * len(indices))


class VecInsert(ComponentAccess):
    """A vector or matrix with one component replaced; an index out of bounds has no effect. Operands: composite, value,
    indices."""

    __slots__ = ()
    NAME = "vec.insert"
    REPLACES = True
    composite = operand()
    value = operand()
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        scalar = _check_indices(self.composite.type, [v.type for v in self.indices])
        composite_type, value = self.composite.type, self.value.type
        require(value == scalar, f"a component of {composite_type} must be {scalar}, got {value}")
        return [composite_type]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        composite, value, *indices = operands
        in_bounds = np.ones(len(composite), np.bool_)
        for i, n in zip(indices, composite.shape[1:], strict=True):
            in_bounds &= (i >= 0) & (i < n)
        result = composite.copy()
        result[(in_bounds.nonzero()[0], *(i[in_bounds].astype(np.intp) for i in indices))] = value[in_bounds]
        return result

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        composite, value, indices = self.composite, self.value, self.indices
        primal_indices, shape = [b.primal(i) for i in indices], element_shape(element(composite.type))
        zero = b.zero(b.primal(value).type)
        value_adjoint = b.one(VecExtract, [g, *primal_indices])
        for i, n in zip(primal_indices, shape, strict=True):
            value_adjoint = b.one(Select, [_in_bounds(b, i, n), value_adjoint, zero])
        return (b.one(VecInsert, [g, zero, *primal_indices]), value_adjoint, *[None] * len(indices))
