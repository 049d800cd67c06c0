"""Global arrays: element access, atomics, views, shapes. All lane ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.ir import Effect, Region, Value
from tegula.ops.base import TileOp, require, require_range, require_type
from tegula.types import ArrayType, Type, int32, scalar_of

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]
ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exch")


def array_type(t: Type) -> ArrayType:
    require(isinstance(t, ArrayType), f"expected an array, got {t}")
    assert isinstance(t, ArrayType)
    return t


def require_indices(array: ArrayType, indices: Sequence[Type]) -> None:
    require(
        len(indices) == array.ndim,
        f"an array with {array.ndim} dimensions takes {array.ndim} indices, got {len(indices)}",
    )
    for t in indices:
        require(getattr(t, "is_int", False), f"indices must be integers, got {t}", "convert with int(...)")


class ArrayLoad(TileOp):
    """Operands: array, one index per dimension. The element there. Outside: undefined, an error in debug mode."""

    __slots__ = ()
    NAME = "array.load"
    PLACES = 1
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        array = array_type(operands[0])
        require_indices(array, operands[1:])
        return [array.dtype]

    def effects(self) -> Sequence[Effect]:
        return (Effect("read", self.operands[0]),)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        at = [b.primal(i) for i in self.operands[1:]]
        shadow = b.shadow(self.operands[0])
        operands = [shadow, b.stored_as(g, shadow), *at]
        if b.together(self):
            b.once(lambda: b.emit(ArrayAtomic, operands, {"op": "add"}))
        else:
            b.emit(ArrayAtomic, operands, {"op": "add"})
        return [None] * len(self.operands)


class ArrayStore(TileOp):
    """Operands: array, value, one index per dimension."""

    __slots__ = ()
    NAME = "array.store"
    PLACES = 2
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        array = array_type(operands[0])
        require_type(operands[1], array.dtype, "the array holds")
        require_indices(array, operands[2:])
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.operands[0]),)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        array, at = b.shadow(self.operands[0]), [b.primal(i) for i in self.operands[2:]]
        if b.together(self):
            g = b.taken(array, at)
        else:
            # Of several lanes that stored to one place, one takes its gradient.
            zero = b.zero(array_type(array.type).dtype)
            g = b.widened(b.one(ArrayAtomic, [array, zero, *at], {"op": "exch"}))
        return (None, g, *[None] * len(at))


class ArrayAtomic(TileOp):
    """Operands: array, value, indices; attribute `op` in add, sub, min, max, and, or, xor, exch. Once per lane; the
    result is the previous element. Vectors and matrices: each component atomically."""

    __slots__ = ()
    NAME = "array.atomic"
    PLACES = 2
    EACH_LANE = True
    PURE = False
    VARYING = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        array = array_type(operands[0])
        require_type(operands[1], array.dtype, "the array holds")
        require_indices(array, operands[2:])
        require(attrs["op"] in ATOMICS, f"no atomic '{attrs['op']}'")
        require(
            not scalar_of(array.dtype).is_bool or attrs["op"] == "exch",
            f"atomic {attrs['op']} is not defined for bool",
        )
        bitwise = attrs["op"] in ("and", "or", "xor")
        require(
            not bitwise or scalar_of(array.dtype).is_int,
            f"atomic {attrs['op']} needs integers, got {array.dtype}",
        )
        return [array.dtype]

    def effects(self) -> Sequence[Effect]:
        return (Effect("atomic", self.operands[0]),)

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (previous,) = grads
        array, value, *indices = self.operands
        if b.wanted(value) and self.attrs["op"] not in ("add", "sub"):
            b.refuse(self, f"atomic {self.attrs['op']} has no derivative")
        if previous is not None and b.wanted(array):
            b.refuse(self, "what an atomic gives back has no derivative")
        g = b.widened(b.one(ArrayLoad, [b.shadow(array), *(b.primal(i) for i in indices)]))
        return (None, b.unary("neg", g) if self.attrs["op"] == "sub" else g, *[None] * len(indices))


class ArrayCas(TileOp):
    """Operands: array, expected, value, indices. Stores the value if the element equals `expected`; the result is the
    previous element."""

    __slots__ = ()
    NAME = "array.cas"
    PLACES = 3
    NONDIFFERENTIABLE = "a compare-and-swap has no derivative"
    PURE = False
    VARYING = True

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        array = array_type(operands[0])
        require(
            operands[1] == operands[2] == array.dtype and scalar_of(array.dtype) == array.dtype,
            f"compare-and-swap needs scalars of the array's type {array.dtype}",
        )
        require_indices(array, operands[3:])
        return [array.dtype]

    def effects(self) -> Sequence[Effect]:
        return (Effect("atomic", self.operands[0]),)


class ArrayView(TileOp):
    """A view by basic indexing. Attribute `spec`: one entry per dimension of the array, "index" (drops the dimension,
    one operand: the index) or ("slice", step) (two operands: first element, number of elements)."""

    __slots__ = ()
    NAME = "array.view"
    PLACES = 1

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        array = array_type(operands[0])
        spec = attrs["spec"]
        require(len(spec) == array.ndim, "an array view names every dimension")
        wanted = sum(1 if s == "index" else 2 for s in spec)
        require(len(operands) == 1 + wanted, f"an array view takes {wanted} integers here")
        kept = sum(s != "index" for s in spec)
        require(kept > 0, "an array view keeps at least one dimension")
        return [ArrayType(array.dtype, kept)]


class ArrayShape(TileOp):
    """The length of dimension `dim` (attribute), int32."""

    __slots__ = ()
    NAME = "array.shape"
    PLACES = 0

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        array = array_type(operands[0])
        require_range(
            0 <= attrs["dim"] < array.ndim,
            f"an array with {array.ndim} dimensions has no dimension {attrs['dim']}",
        )
        return [int32]
