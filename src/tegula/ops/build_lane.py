"""Lanes, atomics and stacks in the language."""

from __future__ import annotations

from typing import Any

from tegula.ir import Value
from tegula.ops.array import ArrayAtomic, ArrayCas
from tegula.ops.base import TypeRule, public, require, require_range
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.indexing import KernelBuilder
from tegula.ops.lane import LaneUniform
from tegula.ops.stack import StackClear, StackCount, StackNew, StackPop, StackPush
from tegula.types import ArrayType, StackType, element_type


@public("block_dim")
def block_dim(b: OpBuilder) -> int:
    """The number of threads in a block."""
    return b.block_lanes


@public("uniform")
def uniform(b: OpBuilder, x: Operand) -> Value:
    """Thread 0's value of x, the same in every thread of the block."""
    return b.one(LaneUniform, [b.value(x)])


def _atomic(name: str, op: str, doc: str) -> None:
    def build(b: KernelBuilder, a: Operand, *args: Operand) -> Value:
        if not (isinstance(a, Value) and isinstance(a.type, ArrayType)):
            raise TypeRule(f"atomics work on arrays, got {describe(a)}")
        require(len(args) == a.type.ndim + 1, f"atomic_{name} takes {a.type.ndim} indices and a value")
        *index, value = args
        return b.one(ArrayAtomic, [a, b.stored(value, a.type.dtype), *b.array_indices(a, index)], {"op": op})

    build.__doc__ = doc
    public(f"atomic_{name}")(build)


for _name, _op, _what in (
    ("add", "add", "Adds"),
    ("sub", "sub", "Subtracts"),
    ("min", "min", "Takes the minimum with"),
    ("max", "max", "Takes the maximum with"),
    ("and", "and", "Bitwise-ands"),
    ("or", "or", "Bitwise-ors"),
    ("xor", "xor", "Bitwise-xors"),
    ("exch", "exch", "Exchanges"),
):
    _atomic(_name, _op, f"{_what} a value at a[i, ...], atomically, once per thread; the previous element.")


@public("atomic_cas")
def atomic_cas(b: KernelBuilder, a: Operand, *args: Operand) -> Value:
    """atomic_cas(a, i, ..., expected, value): stores the value where the element equals `expected`; the old element."""
    if not (isinstance(a, Value) and isinstance(a.type, ArrayType)):
        raise TypeRule(f"atomics work on arrays, got {describe(a)}")
    require(
        len(args) == a.type.ndim + 2,
        f"atomic_cas takes {a.type.ndim} indices, the expected and the new value",
    )
    *index, expected, value = args
    t = a.type.dtype
    return b.one(ArrayCas, [a, b.stored(expected, t), b.stored(value, t), *b.array_indices(a, index)])


@public("tile_stack")
def tile_stack(b: OpBuilder, capacity: Operand, dtype: Operand) -> Value:
    """An empty stack of at most `capacity` elements (a constant), shared by the block."""
    if not isinstance(capacity, int) or isinstance(capacity, bool):
        raise TypeRule("", "", "NotConstant", culprit=capacity, what="the capacity of a stack")
    what = f"the capacity of a stack must be a positive integer, got {capacity}"
    require_range(capacity > 0, what, "give it room for 1 element or more")
    return b.one(StackNew, [], {"type": StackType(element_type(dtype), capacity)})


def _stack(x: Operand) -> tuple[Value, StackType]:
    if isinstance(x, Value) and isinstance(x.type, StackType):
        return x, x.type
    raise TypeRule(f"expected a tile stack, got {describe(x)}")


@public("tile_stack_push")
def tile_stack_push(b: OpBuilder, s: Operand, value: Operand, has_value: Operand = True) -> Value:
    """Threads with `has_value` push their value; the slot written, or -1."""
    stack, t = _stack(s)
    return b.one(StackPush, [stack, b.value(value, t.dtype), b.truth(has_value)])


@public("tile_stack_pop")
def tile_stack_pop(b: OpBuilder, s: Operand) -> tuple[Any, ...]:
    """Every thread takes one element: (value, slot), slot -1 where the stack was empty."""
    return tuple(b.emit(StackPop, [_stack(s)[0]]))


@public("tile_stack_clear")
def tile_stack_clear(b: OpBuilder, s: Operand) -> None:
    """Empties the stack."""
    b.emit(StackClear, [_stack(s)[0]])


@public("tile_stack_count")
def tile_stack_count(b: OpBuilder, s: Operand) -> Value:
    """The number of elements; may be called by some threads only."""
    return b.one(StackCount, [_stack(s)[0]])
