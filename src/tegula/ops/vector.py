"""Ops that build vectors and matrices and access their components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.ir import Op, Value
from tegula.ir.fields import attr, operand, variadic
from tegula.ops.base import element, require, types
from tegula.ops.scalar import And, Cmp, Const, Select
from tegula.types import DType, Type, bool_, components, element_shape, scalar_of, uint32

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]


class VecMake(Op):
    """A vector or matrix (attribute `type`) from its components, row-major: scalars, and vectors and matrices of
    consecutive components."""

    __slots__ = ()
    NAME = "vec.make"
    components = variadic()
    type = attr()

    def infer(self) -> Sequence[Type]:
        result, given = self.type, types(self.components)
        for t in given:
            require(
                scalar_of(element(t)) == scalar_of(result),
                f"a component of {result} must be {scalar_of(result)}, got {t}",
            )
        count = sum(components(element(t)) for t in given)
        require(count == components(result), f"{result} takes {components(result)} components, got {count}")
        return [result]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        lanes = len(operands[0])
        flat = np.concatenate([x.reshape(lanes, -1) for x in operands], axis=1)
        return flat.reshape(lanes, *element_shape(attrs["type"]))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        parts, found = b.components_of(g), list[Value | None]()
        for component in self.components:
            t = element(b.primal(component).type)
            own, parts = parts[: components(t)], parts[components(t) :]
            found.append(own[0] if t == scalar_of(t) else b.one(VecMake, own, {"type": t}))
        return found


class VecSplat(Op):
    """A vector or matrix (attribute `type`) with the operand in every component."""

    __slots__ = ()
    NAME = "vec.splat"
    x = operand()
    type = attr()

    def infer(self) -> Sequence[Type]:
        result = self.type
        require(
            self.x.type == scalar_of(result),
            f"a component of {result} must be {scalar_of(result)}, got {self.x.type}",
        )
        return [result]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (x,) = operands
        shape = element_shape(attrs["type"])
        return np.broadcast_to(x.reshape(x.shape + (1,) * len(shape)), x.shape + shape).copy()

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        first, *rest = b.components_of(g)
        for part in rest:
            first = b.plus(first, part)
        return (first,)


class VecPart(Op):
    """A vector or matrix of the type `type` (attribute) with selected components of another one; `picked` (attribute):
    the row-major indices of the components."""

    __slots__ = ()
    NAME = "vec.part"
    x = operand()
    picked = attr()
    type = attr()

    def infer(self) -> Sequence[Type]:
        scalar, result = element(self.x.type), self.type
        require(scalar_of(result) == scalar_of(scalar), f"a part of {scalar} is not a {result}")
        require(components(result) == len(self.picked), f"{result} takes {components(result)} components")
        require(
            all(0 <= k < components(scalar) for k in self.picked),
            f"the component is out of the range of {scalar}",
        )
        return [result]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (x,) = operands
        flat = x.reshape(len(x), -1)[:, list(attrs["picked"])]
        return flat.reshape(len(x), *element_shape(attrs["type"]))

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        composite_type = b.primal(self.x).type
        parts: list[Value | None] = [None] * components(element(composite_type))
        picked: Sequence[int] = self.picked
        for k, part in zip(picked, b.components_of(g), strict=True):
            parts[k] = b.plus(parts[k], part)
        zero = b.zero(scalar_of(element(composite_type)))
        return (b.one(VecMake, [zero if part is None else part for part in parts], {"type": composite_type}),)


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
    require(rank > 0, f"{t} has no components")
    require(len(indices) == rank, f"{t} takes {rank} indices, got {len(indices)}")
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
    """The index of the component that `vec.extract` reads: n - 1 for an index outside."""
    return b.one(Select, [_in_bounds(b, index, n), index, b.const(n - 1, element(index.type))])


class VecExtract(Op):
    """Reads a component of a vector (one index) or a matrix (two); an index outside reads the last along its
    dimension."""

    __slots__ = ()
    NAME = "vec.extract"
    composite = operand()
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        return [_check_indices(self.composite.type, [v.type for v in self.indices])]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        composite, *indices = operands
        at = [
            np.where((i >= 0) & (i < n), i.astype(np.intp), n - 1)
            for i, n in zip(indices, composite.shape[1:], strict=True)
        ]
        return composite[(np.arange(len(composite)), *(i.astype(np.intp) for i in at))]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        composite, indices = self.composite, self.indices
        zero, shape = b.zero(b.primal(composite).type), element_shape(element(composite.type))
        at = [_clamp_index(b, b.primal(i), n) for i, n in zip(indices, shape, strict=True)]
        return (b.one(VecInsert, [zero, g, *at]), *[None] * len(indices))


class VecInsert(Op):
    """A vector or matrix with one component replaced; an index outside changes none. Operands: composite, value,
    indices."""

    __slots__ = ()
    NAME = "vec.insert"
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
        inside = np.ones(len(composite), np.bool_)
        for i, n in zip(indices, composite.shape[1:], strict=True):
            inside &= (i >= 0) & (i < n)
        out = composite.copy()
        out[(inside.nonzero()[0], *(i[inside].astype(np.intp) for i in indices))] = value[inside]
        return out

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        composite, value, indices = self.composite, self.value, self.indices
        at, shape = [b.primal(i) for i in indices], element_shape(element(composite.type))
        zero = b.zero(b.primal(value).type)
        part = b.one(VecExtract, [g, *at])
        for i, n in zip(at, shape, strict=True):
            part = b.one(Select, [_in_bounds(b, i, n), part, zero])
        return (b.one(VecInsert, [g, zero, *at]), part, *[None] * len(indices))
