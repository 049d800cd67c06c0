"""Lane ops on global arrays: element access, atomics, views, shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.ir import ArrayViewLike, AtomicUpdate, ElementAccess, Op, TypeRule, Value
from tegula.ir.fields import ATOMIC, READ, WRITE, attr, operand, variadic
from tegula.ops.base import require, require_range, require_type
from tegula.types import ArrayType, Type, int32, scalar_of

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]
ATOMICS = ("add", "sub", "min", "max", "and", "or", "xor", "exch")


def refuse_unless_sum(op: Any, value: Value, b: GradientBuilder) -> None:
    """Refuse the gradient of an atomic update that neither adds nor subtracts, if the array or the value has a
    gradient."""
    if op.op not in ("add", "sub") and (b.needs_adjoint(value) or b.needs_adjoint(op.array)):
        b.refuse(op, f"atomic {op.op} has no derivative")


def array_type(t: Type) -> ArrayType:
    """The type as an array type; raises TypeRule for any other type."""
    if not isinstance(t, ArrayType):
        raise TypeRule(f"expected an array, got {t}")
    return t


def require_indices(array: ArrayType, indices: Sequence[Type]) -> None:
    """Raise TypeRule unless there is an integer index for each dimension of the array."""
    require(
        len(indices) == array.ndim,
        f"an array with {array.ndim} dimensions takes {array.ndim} indices, got {len(indices)}",
    )
    for t in indices:
        require(getattr(t, "is_int", False), f"indices must be integers, got {t}", "convert with int(...)")


class ArrayLoad(ElementAccess):
    """Reads an element of an array. Operands: array, one index per dimension. An index outside of the array is
    undefined, an error in debug mode."""

    __slots__ = ()
    NAME = "array.load"
    PURE = False
    array = operand(READ)
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        array = array_type(self.array.type)
        require_indices(array, [v.type for v in self.indices])
        return [array.dtype]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        indices = [b.primal(i) for i in self.indices]
        shadow = b.shadow(self.array)
        operands = [shadow, b.stored_as(g, shadow), *indices]
        if b.is_uniform_op(self):
            b.in_first_lane(lambda: b.emit(ArrayAtomic, operands, {"op": "add"}))
        else:
            b.emit(ArrayAtomic, operands, {"op": "add"})
        return [None] * len(self.operands)


class ArrayStore(ElementAccess):
    """Writes an element of an array. Operands: array, value, one index per dimension."""

    __slots__ = ()
    NAME = "array.store"
    PURE = False
    array = operand(WRITE)
    value = operand()
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        array = array_type(self.array.type)
        require_type(self.value.type, array.dtype, "the array holds")
        require_indices(array, [v.type for v in self.indices])
        return []

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        array, indices = b.shadow(self.array), [b.primal(i) for i in self.indices]
        if b.is_uniform_op(self):
            g = b.load_and_clear(array, indices)
        else:
            # If several lanes stored to one element, only one of the lanes takes the element's gradient.
            zero = b.zero(array_type(array.type).dtype)
            g = b.widened(b.one(ArrayAtomic, [array, zero, *indices], {"op": "exch"}))
        return (None, g, *[None] * len(indices))


class ArrayAtomic(ElementAccess, AtomicUpdate):
    """Updates an element atomically, once per lane; vectors and matrices component by component. Operands: array,
    value, indices; attribute `op`: add, sub, min, max, and, or, xor or exch. The result is the previous element."""

    __slots__ = ()
    NAME = "array.atomic"
    EACH_LANE = True
    PURE = False
    VARYING = True
    array = operand(ATOMIC)
    value = operand()
    indices = variadic(index=True)
    op = attr()

    def infer(self) -> Sequence[Type]:
        array = array_type(self.array.type)
        require_type(self.value.type, array.dtype, "the array holds")
        require_indices(array, [v.type for v in self.indices])
        require(self.op in ATOMICS, f"no atomic '{self.op}'")
        require(
            not scalar_of(array.dtype).is_bool or self.op == "exch",
            f"atomic {self.op} is not defined for bool",
        )
        bitwise = self.op in ("and", "or", "xor")
        require(
            not bitwise or scalar_of(array.dtype).is_int,
            f"atomic {self.op} needs integers, got {array.dtype}",
        )
        return [array.dtype]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (previous,) = grads
        array, value, indices = self.array, self.value, self.indices
        refuse_unless_sum(self, value, b)
        if previous is not None and b.needs_adjoint(array):
            b.refuse(self, "the value that an atomic operation returns has no derivative")
        g = b.widened(b.one(ArrayLoad, [b.shadow(array), *(b.primal(i) for i in indices)]))
        return (None, b.unary("neg", g) if self.op == "sub" else g, *[None] * len(indices))


class ArrayCas(ElementAccess, AtomicUpdate):
    """Stores a value atomically if the element equals `expected`, vectors and matrices component by component.
    Operands: array, expected, value, indices. The result is the previous element."""

    __slots__ = ()
    NAME = "array.cas"
    NONDIFFERENTIABLE = "a compare-and-swap has no derivative"
    PURE = False
    VARYING = True
    array = operand(ATOMIC)
    expected = operand()
    value = operand()
    indices = variadic(index=True)

    @property
    def combination(self) -> str:
        return "cas"

    def infer(self) -> Sequence[Type]:
        array = array_type(self.array.type)
        require(
            self.expected.type == self.value.type == array.dtype,
            f"compare-and-swap needs values of the array's type {array.dtype}",
        )
        require_indices(array, [v.type for v in self.indices])
        return [array.dtype]


class ArrayView(ArrayViewLike):
    """A view of an array by basic indexing. Attribute `spec`: for each dimension of the array "index" (drops the
    dimension; one operand, the index) or ("slice", step) (two operands, the first element and the number of
    elements)."""

    __slots__ = ()
    NAME = "array.view"
    array = operand()
    bounds = variadic(index=True)
    spec = attr()

    def infer(self) -> Sequence[Type]:
        array = array_type(self.array.type)
        spec = self.spec
        require(len(spec) == array.ndim, "the spec of an array view must have an entry for every dimension")
        expected_operands = sum(1 if s == "index" else 2 for s in spec)
        require(
            len(self.bounds) == expected_operands, f"an array view takes {expected_operands} integers here"
        )
        rank = sum(s != "index" for s in spec)
        require(rank > 0, "an array view keeps at least one dimension")
        return [ArrayType(array.dtype, rank)]

    def lengths(self) -> Iterator[tuple[int, int]]:
        """Pairs (position in `bounds`, dimension) for all slices whose length is the length of the array's
        dimension."""
        position = 0
        for dim, entry in enumerate(self.spec):
            if entry == "index":
                position += 1
                continue
            count = self.bounds[position + 1].owner
            if isinstance(count, ArrayShape) and count.array is self.array and count.dim == dim:
                yield position + 1, dim
            position += 2


class ArrayTranspose(ArrayViewLike):
    """The view of an array with its last two dimensions exchanged."""

    __slots__ = ()
    NAME = "array.transpose"
    array = operand()

    def infer(self) -> Sequence[Type]:
        array = array_type(self.array.type)
        require(array.ndim > 1, "a transposed array has at least two dimensions")
        return [array]


class ArrayShape(Op):
    """The length of an array along dimension `dim` (attribute), int32."""

    __slots__ = ()
    NAME = "array.shape"
    array = operand(index=True)
    dim = attr()

    def infer(self) -> Sequence[Type]:
        array = array_type(self.array.type)
        require_range(
            0 <= self.dim < array.ndim,
            f"an array with {array.ndim} dimensions has no dimension {self.dim}",
        )
        return [int32]
