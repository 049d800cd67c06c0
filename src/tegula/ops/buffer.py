"""Tile buffers: mutable tile objects, their views, element access.

A name bound to a tile is a buffer in newly traced IR; `passes/promote_buffers.py` promotes buffers without aliases and
without element-wise writes to values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.ir import AtomicUpdate, ElementAccess, Op, TypeRule, Value, ViewLike, root
from tegula.ir.fields import ATOMIC, READ, WRITE, attr, operand, output, variadic
from tegula.ops.base import require, require_range, require_type
from tegula.types import (
    BufType,
    ElementType,
    MatType,
    TileType,
    Type,
    VecType,
    element_shape,
    scalar_of,
)

if TYPE_CHECKING:
    from tegula.ops.gradient import GradientBuilder

Attrs = Mapping[str, Any]
UPDATES = ("add", "sub", "and", "or", "xor")
COMMUTATIVE = ("and", "or", "xor", "min", "max")
"""The kinds of atomic updates for which the order of updates of the same kind does not change the result."""


def combination(op: Op) -> str:
    """The operation by which an atomic op combines an element with its operand; "add" for ops that declare none."""
    return op.combination if isinstance(op, AtomicUpdate) else "add"


def commute(first: str, second: str) -> bool:
    """Whether atomic updates of one element by two combinations give the same result in either order, apart from the
    rounding of floats, whose order is unspecified."""
    if first in ("add", "sub"):
        return second in ("add", "sub")
    return first == second and first in COMMUTATIVE


def buffer_type(t: Type) -> BufType:
    """The type as a buffer type; raises TypeRule for any other type."""
    if not isinstance(t, BufType):
        raise TypeRule(f"expected a tile, got {t}")
    return t


class BufNew(Op):
    """A new buffer whose initial value is the operand tile; attributes `storage`, and `exchanged`, whether lanes read
    the elements of other lanes."""

    __slots__ = ()
    NAME = "buf.new"
    PURE = False
    COOPERATIVE = SIDE_BY_SIDE = True
    tile = operand()
    storage = attr()
    buffer = output(WRITE)
    stages = attr(0)
    pipe = attr(False)
    swizzled = attr(False)
    bulk = attr(False)
    between_roles = attr(False)
    by_hand = attr(False)
    kept = attr("")
    exchanged = attr(False)

    def infer(self) -> Sequence[Type]:
        t = self.tile.type
        if not isinstance(t, TileType):
            raise TypeRule(f"expected a tile, got {t}")
        return [BufType(t.dtype, t.shape, self.storage, t.partial)]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        return (b.one(BufRead, [b.shadow(self.result)]),)


class BufRead(Op):
    """The current value of the buffer."""

    __slots__ = ()
    NAME = "buf.read"
    PURE = False
    COOPERATIVE = SIDE_BY_SIDE = True
    buffer = operand(READ)

    def infer(self) -> Sequence[Type]:
        return [buffer_type(self.buffer.type).tile]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        shadow = b.shadow(self.buffer)
        total = b.plus(b.one(BufRead, [shadow]), g)
        assert total is not None
        b.emit(BufWrite, [shadow, total])
        return (None,)


class BufWrite(Op):
    """Overwrites all elements of a buffer or view. Operands: buffer, tile of the same type."""

    __slots__ = ()
    NAME = "buf.write"
    PURE = False
    COOPERATIVE = SIDE_BY_SIDE = True
    buffer = operand(WRITE)
    tile = operand()
    to_tf32 = attr(False)

    def infer(self) -> Sequence[Type]:
        buffer = buffer_type(self.buffer.type)
        if self.tile.type != buffer.tile:
            raise TypeRule(f"a {self.tile.type} cannot be assigned to a {buffer.tile}")
        return []

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        shadow = b.shadow(self.buffer)
        g = b.one(BufRead, [shadow])
        b.emit(BufWrite, [shadow, b.zero(g.type)])
        return None, g


class BufView(ViewLike):
    """A strided view of a buffer. Operands: buffer, one integer start per buffer dimension. Attributes: `shape`: the
    shape of the view; `dims`: for each view dimension the buffer dimension that it runs along, or -1 for a broadcast
    dimension, which is read-only; `steps`: the step of each view dimension. View element (e0, ..) is the buffer element
    with index start[d] + sum of e_k * step_k over all k with dims[k] = d, for each buffer dimension d."""

    __slots__ = ()
    NAME = "buf.view"
    buffer = operand()
    starts = variadic(index=True)
    shape = attr()
    dims = attr()
    steps = attr()

    @property
    def shown(self) -> Value:
        return self.buffer

    def infer(self) -> Sequence[Type]:
        buffer = buffer_type(self.buffer.type)
        require(len(self.starts) == len(buffer.shape), "a view has one start per dimension")
        require(
            len(self.shape) == len(self.dims) == len(self.steps),
            "a view's dims do not match its shape",
        )
        return [BufType(buffer.dtype, tuple(self.shape), buffer.storage)]


def is_swizzled(buffer: Value) -> bool:
    """Whether a buffer's shared memory is swizzled for tensor cores."""
    owner = root(buffer).owner
    return isinstance(owner, BufNew) and bool(owner.swizzled)


Layout = list[tuple[int, int, int]]
"""For each dimension of a view: (length, dimension of the source that the dimension runs along, step in the source)."""


def split_layout(view: Layout, shape: Sequence[int]) -> Layout | None:
    """The layout of a view reshaped in row-major order; None if a dimension of the new shape would run along two
    dimensions of the source. A layout exists for every reshape that NumPy performs without a copy."""
    remaining = _merge_dimensions(view)
    dimensions: Layout = []
    for n in reversed(shape):
        if n == 1:
            dimensions.append((1, view[0][1], 1))
            continue
        if not remaining:
            return None
        length, dim, step = remaining.pop()
        if length % n:
            return None
        dimensions.append((n, dim, step))
        if length > n:
            remaining.append((length // n, dim, step * n))
    return None if remaining else dimensions[::-1]


def _merge_dimensions(view: Layout) -> Layout:
    """The layout without dimensions of length 1, where neighbouring dimensions that one step describes are merged."""
    merged: Layout = []
    for length, dim, step in view:
        if length == 1:
            continue
        if merged and merged[-1][1:] == (dim, step * length):
            merged[-1] = (merged[-1][0] * length, dim, step)
        else:
            merged.append((length, dim, step))
    return merged


def is_packed(buffer: Value) -> bool:
    """Whether the elements of an object or view are contiguous in row-major order."""
    owner = buffer.owner
    if not isinstance(owner, BufView):
        return True
    source_shape = buffer_type(owner.buffer.type).shape
    if not is_packed(owner.buffer):
        return False
    expected = 1
    for n, dim, step in reversed(list(zip(owner.shape, owner.dims, owner.steps, strict=True))):
        stride = step
        for extent in source_shape[dim + 1 :] if dim >= 0 else ():
            stride *= extent
        if n > 1 and (dim < 0 or stride != expected):
            return False
        expected *= n
    return True


class BufReshape(ViewLike):
    """A view with another `shape` (attribute) and the same elements in row-major order. The operand is a whole buffer
    or a packed view."""

    __slots__ = ()
    NAME = "buf.reshape"
    SHOWS_PACKED = True
    buffer = operand()
    shape = attr()

    @property
    def shown(self) -> Value:
        return self.buffer

    def infer(self) -> Sequence[Type]:
        buffer = buffer_type(self.buffer.type)
        shape = tuple(self.shape)
        require_range(
            TileType(buffer.dtype, shape).size == buffer.tile.size,
            f"cannot reshape a tile of shape {buffer.shape} to {shape}",
            "choose a shape with the same number of elements",
        )
        return [BufType(buffer.dtype, shape, buffer.storage)]


def accessed(tile: BufType | TileType, indices: Sequence[Type]) -> ElementType:
    """The type of t[i, ...]: the element type, or the type of a component or a matrix row if the indices exceed the
    dimensions."""
    extra = len(indices) - len(tile.shape)
    t = tile.dtype
    if not 0 <= extra <= len(element_shape(t)):
        raise TypeRule(f"{tile} takes {len(tile.shape)} indices, got {len(indices)}")
    for i in indices:
        require(getattr(i, "is_int", False), f"indices must be integers, got {i}", "convert with int(...)")
    if extra == 0:
        return t
    if isinstance(t, MatType) and extra == 1:
        return VecType(t.cols, t.dtype)
    return scalar_of(t)


class BufGet(ElementAccess):
    """Reads an element or component of a buffer, per lane. Operands: buffer, one index per dimension, then component
    indices. An index outside the tile is undefined, an error in debug mode."""

    __slots__ = ()
    NAME = "buf.get"
    PURE = False
    buffer = operand(READ)
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        return [accessed(buffer_type(self.buffer.type), [v.type for v in self.indices])]

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        (g,) = grads
        operands = [b.shadow(self.buffer), g, *(b.primal(i) for i in self.indices)]
        if b.is_uniform_op(self):
            b.in_first_lane(lambda: b.emit(BufUpdate, operands, {"op": "add"}))
        else:
            b.emit(BufUpdate, operands, {"op": "add"})
        return [None] * len(self.operands)


class BufSet(ElementAccess):
    """Writes an element or component of a buffer, per lane. Operands: buffer, value, indices."""

    __slots__ = ()
    NAME = "buf.set"
    PURE = False
    buffer = operand(WRITE)
    value = operand()
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        t = accessed(buffer_type(self.buffer.type), [v.type for v in self.indices])
        require_type(self.value.type, t, "the tile holds")
        return []

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        shadow, indices = b.shadow(self.buffer), [b.primal(i) for i in self.indices]
        zero = b.zero(accessed(buffer_type(shadow.type), [i.type for i in indices]))
        if b.is_uniform_op(self):
            g = b.one(BufGet, [shadow, *indices])
            b.emit(BufSet, [shadow, zero, *indices])
        else:
            b.check_writers(self, self.value, self.indices)
            g = b.one(BufExchange, [shadow, zero, *indices])
        return (None, g, *[None] * len(indices))


class BufUpdate(ElementAccess, AtomicUpdate):
    """Updates an element of a buffer atomically, once per lane. Operands: buffer, value, indices; attribute `op`: add,
    sub, and, or or xor."""

    __slots__ = ()
    NAME = "buf.update"
    EACH_LANE = True
    PURE = False
    buffer = operand(ATOMIC)
    value = operand()
    indices = variadic(index=True)
    op = attr()

    def infer(self) -> Sequence[Type]:
        t = accessed(buffer_type(self.buffer.type), [v.type for v in self.indices])
        require_type(self.value.type, t, "the tile holds")
        require(self.op in UPDATES, f"no update '{self.op}'")
        bitwise = self.op in ("and", "or", "xor")
        require(not bitwise or scalar_of(t).kind in "biu", f"'{self.op}' needs integers, got {t}")
        return []

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        if self.op not in ("add", "sub"):
            b.refuse(self, "bit operations have no derivative")
        g = b.one(BufGet, [b.shadow(self.buffer), *(b.primal(i) for i in self.indices)])
        rest = [None] * (len(self.operands) - 2)
        return (None, b.unary("neg", g) if self.op == "sub" else g, *rest)


class BufExchange(ElementAccess):
    """Atomically replaces an element by a value, once per lane; the result is the old element. Operands: buffer, value,
    indices. Adjoints use this op: if several lanes wrote an element, one of the lanes gets the element's gradient."""

    __slots__ = ()
    NAME = "buf.exchange"
    PURE = False
    VARYING = True
    NONDIFFERENTIABLE = "gradients of gradients are not supported"
    buffer = operand(READ, WRITE)
    value = operand()
    indices = variadic(index=True)

    def infer(self) -> Sequence[Type]:
        t = accessed(buffer_type(self.buffer.type), [v.type for v in self.indices])
        require_type(self.value.type, t, "the tile holds")
        return [t]


def stage_of_view(op: Op, stages: Callable[[Value], int]) -> Value | None:
    """The value that selects the stage, of a view of a buffer with several stages; None for other ops. `stages`: a
    function that returns the number of stages of a buffer."""
    return op.starts[0] if isinstance(op, BufView) and stages(op.buffer) > 1 else None
