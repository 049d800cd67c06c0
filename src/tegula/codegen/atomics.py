"""Atomic updates of elements in memory. `ops/scalar.py` defines the operations.

Vectors and matrices are updated component by component. Atomics are monotonic (relaxed). With `plain=True` an update is
a load, the operation and a store, for memory that no other thread accesses."""

from __future__ import annotations

from tegula.codegen.scalar import Components, elementwise
from tegula.codegen.text import Code, memory_type, register_type
from tegula.errors import InternalError
from tegula.ir import Op
from tegula.ops import scalar as S
from tegula.types import DType, ElementType, components, float32, float64, scalar_of

_OPS: dict[str, type[Op]] = {
    **{"add": S.Add, "sub": S.Sub, "min": S.Min, "max": S.Max},
    **{"and": S.And, "or": S.Or, "xor": S.Xor},
}


def atomic_element(
    code: Code,
    kind: str,
    pointer: str,
    dtype: ElementType,
    value: Components,
    component_stride: int = 1,
    plain: bool = False,
) -> Components:
    """Apply one of `ops.array.ATOMICS` to each component of the element at `pointer`. Returns the previous components.

    `component_stride`: the distance between adjacent components, in scalars."""
    scalar = scalar_of(dtype)
    assert len(value) == components(dtype)
    return tuple(
        atomic(code, kind, _component(code, pointer, scalar, c * component_stride), scalar, component, plain)
        for c, component in enumerate(value)
    )


def compare_and_swap_element(
    code: Code, pointer: str, dtype: ElementType, expected: Components, value: Components
) -> Components:
    """Compare and swap each component of the element at `pointer`. Returns the previous components."""
    scalar = scalar_of(dtype)
    return tuple(
        compare_and_swap(
            code, _component(code, pointer, scalar, c), scalar, expected_component, new_component
        )
        for c, (expected_component, new_component) in enumerate(zip(expected, value, strict=True))
    )


def _component(code: Code, pointer: str, dtype: DType, index: int) -> str:
    return (
        pointer
        if index == 0
        else code.emit(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {index}")
    )


def atomic(code: Code, kind: str, pointer: str, dtype: DType, value: str, plain: bool = False) -> str:
    """A read-modify-write of one scalar. Returns the previous value. Raises InternalError for an operation that is not
    defined for the type."""
    if plain:
        old = from_bits(code, code.emit(f"load {_bits(dtype)}, ptr {pointer}, align {_align(dtype)}"), dtype)
        new = to_bits(code, _combine(code, kind, dtype, old, value), dtype)
        code.line(f"store {_bits(dtype)} {new}, ptr {pointer}, align {_align(dtype)}")
        return old
    if kind == "exch":
        return from_bits(code, _instruction(code, "xchg", pointer, dtype, to_bits(code, value, dtype)), dtype)
    if dtype.is_int:
        unsigned = "u" if dtype.kind == "u" and kind in ("min", "max") else ""
        return _instruction(code, unsigned + kind, pointer, dtype, value)
    if dtype in (float32, float64) and kind in ("add", "sub"):
        t = register_type(dtype, 1)
        return code.emit(f"atomicrmw f{kind} ptr {pointer}, {t} {value} monotonic, align {_align(dtype)}")
    return compare_and_swap_loop(code, kind, pointer, dtype, value)


def _instruction(code: Code, name: str, pointer: str, dtype: DType, bits: str) -> str:
    return code.emit(
        f"atomicrmw {name} ptr {pointer}, {_bits(dtype)} {bits} monotonic, align {_align(dtype)}"
    )


def _combine(code: Code, kind: str, dtype: DType, old: str, value: str) -> str:
    if kind == "exch":
        return value
    if kind not in _OPS:
        raise InternalError(f"no atomic '{kind}'")
    return elementwise(code, _OPS[kind]([], []), dtype, [old, value], 1)


def compare_and_swap_loop(code: Code, kind: str, pointer: str, dtype: DType, value: str) -> str:
    """An atomic update by a compare-and-swap loop, for operations without an instruction: min and max of floats, and
    arithmetic of narrow floats."""
    bits = _bits(dtype)
    initial = code.emit(f"load atomic {bits}, ptr {pointer} monotonic, align {_align(dtype)}")
    loop_label, done_label, entry_block = code.label("cas_loop"), code.label("swapped"), code.block
    code.jump(loop_label)
    code.define_label(loop_label)
    expected = code.fresh("expected")
    phi_at = len(code.lines)
    code.line("")
    new = to_bits(code, _combine(code, kind, dtype, from_bits(code, expected, dtype), value), dtype)
    observed, swapped = _exchange(code, pointer, dtype, expected, new)
    code.lines[phi_at] = (
        f"  {expected} = phi {bits} [ {initial}, %{entry_block} ], [ {observed}, %{code.block} ]"
    )
    code.branch(swapped, done_label, loop_label)
    code.define_label(done_label)
    return from_bits(code, observed, dtype)


def compare_and_swap(
    code: Code, pointer: str, dtype: DType, expected: str, value: str, plain: bool = False
) -> str:
    """Store `value` if the scalar at `pointer` has the bits of `expected`. Returns the previous value.

    The comparison is bitwise: a NaN equals itself, and -0 differs from +0."""
    expected, value = (to_bits(code, x, dtype) for x in (expected, value))
    if not plain:
        return from_bits(code, _exchange(code, pointer, dtype, expected, value)[0], dtype)
    bits = _bits(dtype)
    old = code.emit(f"load {bits}, ptr {pointer}, align {_align(dtype)}")
    is_equal = code.emit(f"icmp eq {bits} {old}, {expected}")
    new = code.emit(f"select i1 {is_equal}, {bits} {value}, {bits} {old}")
    code.line(f"store {bits} {new}, ptr {pointer}, align {_align(dtype)}")
    return from_bits(code, old, dtype)


def _exchange(code: Code, pointer: str, dtype: DType, expected: str, value: str) -> tuple[str, str]:
    """One compare-and-swap on bits. Returns the previous bits, and whether they were equal to the expected bits."""
    bits = _bits(dtype)
    pair = code.emit(
        f"cmpxchg ptr {pointer}, {bits} {expected}, {bits} {value} monotonic monotonic, align {_align(dtype)}"
    )
    return tuple(code.emit(f"extractvalue {{ {bits}, i1 }} {pair}, {k}") for k in (0, 1))  # type: ignore[return-value]


# Scalars and their bits in memory ---------------------------------------------------------------------------


def _bits(dtype: DType) -> str:
    return f"i{dtype.bits}"


def _align(dtype: DType) -> int:
    return dtype.bits // 8


def to_bits(code: Code, value: str, dtype: DType) -> str:
    """The integer with the bits of a scalar in memory."""
    t, bits = register_type(dtype, 1), _bits(dtype)
    if t == bits:
        return value
    return code.emit(f"{'zext' if dtype.is_bool else 'bitcast'} {t} {value} to {bits}")


def from_bits(code: Code, value: str, dtype: DType) -> str:
    """The scalar with the bits of an integer, on which atomics operate."""
    t, bits = register_type(dtype, 1), _bits(dtype)
    if t == bits:
        return value
    if dtype.is_bool:
        return code.emit(f"icmp ne i8 {value}, 0")
    return code.emit(f"bitcast {bits} {value} to {t}")
