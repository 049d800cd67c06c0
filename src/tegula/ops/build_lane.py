"""Lanes, atomics and stacks in the language."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from tegula.ir import TypeRule, Value
from tegula.ops.array import ArrayAtomic, ArrayCas
from tegula.ops.base import INDICES, public, require, require_range
from tegula.ops.builder import LiteralRule, OpBuilder, Operand, describe, is_tuple
from tegula.ops.indexing import KernelBuilder
from tegula.ops.kinds import ElementDtype, OfEachThread, Stack
from tegula.ops.lane import ORDERS, LaneFence, LaneUniform
from tegula.ops.stack import StackClear, StackCount, StackNew, StackPop, StackPush
from tegula.ops.structs import SAME, STRUCT, moved
from tegula.types import ArrayType, StackType, element_type


@public("block_dim")
def block_dim(b: OpBuilder) -> int:
    """The number of threads in a block, roles included.

    Returns:
        an int, a constant when the kernel is compiled.
    Raises:
        nothing.
    Gradient:
        none: the result is a constant.
    Source:
        CUDA's blockDim; PTX ISA, %ntid.
    """
    return b.block_lanes


@public("uniform", fields=moved("x"))
def uniform(b: OpBuilder, x: OfEachThread) -> Value:
    """The value of x in thread 0, broadcast to every thread of the block or, inside a role, of the role.

    Parameters:
        x: a scalar, vector or matrix, which should be equal in all threads.
    Returns:
        a value of the type of `x`.
    Raises:
        divergent-cooperative-op: only some threads reach the call.
        broken-promise: a thread has another value, in debug mode.
    Gradient:
        the sum of the adjoints of all threads.
    """
    return b.one(LaneUniform, [b.value(x)])


RELAXED = "relaxed"


def _require_order(order: Any, known: Sequence[str]) -> None:
    """Raise TypeRule unless a memory order is one of the known ones."""
    names = ", ".join(f'"{name}"' for name in known)
    require(
        isinstance(order, str) and order in known, f"a memory order must be one of {names}, got {order!r}"
    )


@contextmanager
def _ordered(b: OpBuilder, order: Any) -> Generator[None]:
    """Emit the fences of an atomic update around the update."""
    _require_order(order, (RELAXED, *ORDERS))
    if order in ("release", "acq_rel"):
        b.emit(LaneFence, [], {"order": "release"})
    yield
    if order in ("acquire", "acq_rel"):
        b.emit(LaneFence, [], {"order": "acquire"})


@public("fence")
def fence(b: OpBuilder, order: Any = "acq_rel") -> None:
    """Orders the memory accesses of each calling thread, as seen by all threads of the device.

    A thread writes data, releases, and updates a flag by an atomic function; a thread that reads this flag by an atomic
    function, and then acquires, sees the data. The data include stores of tile functions before the release, and tile
    functions after the acquire may read the data.

    Blocks run in any order, so a block must not wait for another block: let the last block that updates a count do the
    remaining work.

    Parameters:
        order: "acquire", later accesses stay after earlier reads; "release", earlier accesses stay before later writes;
            or "acq_rel", both. A constant.
    Raises:
        type-mismatch: there is no such order.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, fence.acq_rel.gpu; C++, std::atomic_thread_fence.
    """
    _require_order(order, ORDERS)
    b.emit(LaneFence, [], {"order": order})


ATOMIC = """{what} at arr[i, ...], atomically, once for each thread.

    The call is atomic_{name}(arr, i, ..., value), or atomic_{name}(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of {dtypes}.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire", with
            `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        {gradient}
    Source:
        PTX ISA, {source}.
    """


def _element(
    name: str, arr: Operand, args: Sequence[Operand], specs: Sequence[str]
) -> tuple[Value, ArrayType, Sequence[Operand], Sequence[Operand]]:
    """The array of a call (arr, i, ..., value), the array's type, the index, and the values after the index."""
    if not (isinstance(arr, Value) and isinstance(arr.type, ArrayType)):
        raise TypeRule(f"atomics work on arrays, got {describe(arr)}")
    if args and is_tuple(args[0]):
        args = [*args[0], *args[1:]]
    ndim = arr.type.ndim
    require(len(args) == ndim + len(specs), f"{name} takes {ndim} indices{''.join(specs)}")
    return arr, arr.type, args[:ndim], args[ndim:]


def _atomic(name: str, function: str, dtypes: str, gradient: str) -> None:
    def build(b: KernelBuilder, arr: Operand, *args: Operand, order: Any = RELAXED) -> Value:
        array, t, index, (value,) = _element(f"atomic_{name}", arr, args, [" and a value"])
        operands = [array, b.stored(value, t.dtype), *b.array_indices(array, index)]
        with _ordered(b, order):
            return b.one(ArrayAtomic, operands, {"op": name})

    source = "atom.add of the negative value" if name == "sub" else f"atom.{name}"
    build.__doc__ = ATOMIC.format(name=name, what=function, dtypes=dtypes, gradient=gradient, source=source)
    public(f"atomic_{name}", rest=(*INDICES, "value"))(build)


NUMBERS, INTEGERS = "any dtype but bool", "integers"
ADDED = "the gradient of the element{sign}, for the value; refused (no-gradient) for the returned elements."
REFUSED = "refused (no-gradient)."
for _name, _what, _dtypes, _gradient in (
    ("add", "Adds a value to the element", NUMBERS, ADDED.format(sign="")),
    ("sub", "Subtracts a value from the element", NUMBERS, ADDED.format(sign=", negated")),
    ("min", "Stores the smaller of a value and the element", NUMBERS, REFUSED),
    ("max", "Stores the larger of a value and the element", NUMBERS, REFUSED),
    ("and", "Stores the bitwise and of a value and the element", INTEGERS, REFUSED),
    ("or", "Stores the bitwise or of a value and the element", INTEGERS, REFUSED),
    ("xor", "Stores the bitwise exclusive or of a value and the element", INTEGERS, REFUSED),
    ("exch", "Exchanges the element for a value", "any dtype", REFUSED),
):
    _atomic(_name, _what, _dtypes, _gradient)


@public("atomic_cas", rest=(*INDICES, "compare", "value"))
def atomic_cas(b: KernelBuilder, arr: Operand, *args: Operand, order: Any = RELAXED) -> Value:
    """Compares an element of an array with a value and, where they are equal, stores another one, atomically:
    atomic_cas(arr, i, ..., compare, value).

    Each thread updates once. Vectors and matrices are compared and change component by component.

    Parameters:
        arr: an array of any dtype.
        *args: the index, an integer for each dimension or a tuple of these, then the expected and the new value, of the
            dtype of `arr`.
        order: as for `tg.atomic_add`.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array, arguments are missing, an index is not an integer, a value has
            another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.cas.
    """
    array, t, index, values = _element("atomic_cas", arr, args, [", the expected", " and the new value"])
    operands = [array, *(b.stored(x, t.dtype) for x in values), *b.array_indices(array, index)]
    with _ordered(b, order):
        return b.one(ArrayCas, operands)


@public("tile_stack", fields=moved("dtype"))
def tile_stack(b: OpBuilder, capacity: Operand, dtype: ElementDtype) -> Value:
    """An empty stack that the threads of the block share: all threads push to it and pop from it.

    Parameters:
        capacity: the maximum number of elements, 1 to 2**26, a constant.
        dtype: the element type, a scalar, vector or matrix type.
    Returns:
        a stack, empty at each call.
    Raises:
        not-constant: `capacity` is known at run time only.
        out-of-range: `capacity` is below 1.
        tile-too-large: `capacity` is above 2**26.
    Gradient:
        none: tg.tile_stack_push and tg.tile_stack_pop refuse gradients.
    """
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise TypeRule("", "", "NotConstant", culprit=capacity, what="the capacity of a stack")
    message = f"the capacity of a stack must be a positive integer, got {capacity}"
    require_range(capacity > 0, message, "use a capacity of 1 or more")
    return b.one(StackNew, [], {"type": StackType(element_type(dtype), capacity)})


def _stack(x: Operand) -> tuple[Value, StackType]:
    if isinstance(x, Value) and isinstance(x.type, StackType):
        return x, x.type
    raise TypeRule(f"expected a tile stack, got {describe(x)}")


@public("tile_stack_push", fields=moved("s", "value", result=SAME))
def tile_stack_push(b: OpBuilder, s: Stack, value: Operand, has_value: Operand = True) -> Value:
    """Pushes one value for each thread whose `has_value` is true, in thread order.

    Parameters:
        value: a scalar, vector or matrix of the dtype of `s`.
        has_value: whether this thread pushes, a bool or an integer; True by default.
    Returns:
        the slot to which the value was written, an int32; -1 for a thread that did not push or found the stack full.
    Raises:
        type-mismatch: `s` is not a stack, or `value` has another type.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        refused (no-gradient).
    """
    stack, t = _stack(s)
    try:
        pushed = b.value(value, t.dtype)
    except LiteralRule:
        pushed = b.value(value)
    message = f"the type of the value, {pushed.type}, does not match the element type of the stack, {t.dtype}"
    if pushed.type != t.dtype:
        raise TypeRule(message, culprit=value, expected=t.dtype)
    return b.one(StackPush, [stack, pushed, b.truth(has_value)])


@public("tile_stack_pop", fields=moved("s", result=(STRUCT, SAME)))
def tile_stack_pop(b: OpBuilder, s: Stack) -> tuple[Any, ...]:
    """Pops one element for each thread, in thread order from the top of the stack.

    Returns:
        (value, slot): the element and its slot, an int32; zeros and -1 for threads that found the stack empty.
    Gradient:
        refused (no-gradient).
    """
    return tuple(b.emit(StackPop, [_stack(s)[0]]))


@public("tile_stack_clear", fields=moved("s"))
def tile_stack_clear(b: OpBuilder, s: Stack) -> None:
    """Empties a stack.

    Gradient:
        none: the function has no result.
    """
    b.emit(StackClear, [_stack(s)[0]])


@public("tile_stack_count", fields=moved("s", result=SAME))
def tile_stack_count(b: OpBuilder, s: Stack) -> Value:
    """The number of elements on a stack; may be called by some threads only.

    Returns:
        an int32.
    Gradient:
        none: the result is an integer.
    """
    return b.one(StackCount, [_stack(s)[0]])
