"""Every lane op and conversion, compiled for the CPU and compared bit for bit with the op's NumPy reference."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from threading import Thread
from typing import Any

import numpy as np
import pytest

from tegula.backend.llvm import compile_object
from tegula.backend.loader import LoadedObject, load, undefined_symbols
from tegula.codegen.atomics import atomic, atomic_element, compare_and_swap
from tegula.codegen.memory import MemoryEmitter
from tegula.codegen.scalar import lower
from tegula.codegen.text import Code, constant
from tegula.errors import InternalError
from tegula.interp.memory import UPDATES
from tegula.ir import REGISTRY, Op, Value
from tegula.ops import scalar as S
from tegula.ops.array import ATOMICS
from tegula.ops.base import Elementwise
from tegula.ops.convert import Bitcast, Cast, convert
from tegula.ops.vector import VecExtract, VecInsert, VecMake, VecSplat
from tegula.target import CpuTarget, get_target
from tegula.types import (
    DTYPES,
    DType,
    ElementType,
    MatType,
    VecType,
    bool_,
    components,
    element_shape,
    float32,
    int8,
    int32,
    int64,
    scalar_of,
    to_numpy,
    uint8,
)

TARGETS = [get_target("x86-64-v3"), get_target()] if get_target().vector_bytes > 32 else [get_target()]
WIDTHS = (1, 8, 16)
WIDTHS_OF = {t: WIDTHS if t.name == "x86-64-v3" else (1, 16) for t in TARGETS}
NARROW = (DTYPES["float8_e4m3"], DTYPES["float8_e5m2"])
SCALAR_LOOP = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.vectorize.enable", i1 false}\n'
Body = Callable[[Code, MemoryEmitter, str], None]


# Compiling and calling ------------------------------------------------------------------------------------------------


def function_text(name: str, parameters: int, body: Body, width: int, code: Code) -> str:
    """`void name(ptr p0, ..., i64 n)`: the body for every `width`-th index below n."""
    with code.loop("0", "%n", str(width), metadata=", !llvm.loop !0" if width == 1 else "") as loop:
        body(code, MemoryEmitter(code), loop.index)
    pointers = ", ".join(f"ptr noalias %p{k}" for k in range(parameters))
    lines = "\n".join([*code.entry, *code.lines])
    return f"define void @{name}({pointers}, i64 %n) #0 {{\nentry:\n{lines}\n  ret void\n}}\n"


@dataclass
class Program:
    """Functions compiled together."""

    functions: list[str] = field(default_factory=list)

    def add(self, parameters: int, body: Body, width: int) -> str:
        code, name = Code(), f"f{len(self.functions)}"
        self.functions.append(function_text(name, parameters, body, width, code))
        return name

    def object(self, target: CpuTarget) -> bytes:
        bits = target.vector_bytes * 8
        attributes = f'attributes #0 = {{ nounwind "no-builtins" "prefer-vector-width"="{bits}" }}\n'
        text = [*self.functions, attributes, SCALAR_LOOP]
        return compile_object("\n".join(text), target)

    def compiled(self, target: CpuTarget) -> LoadedObject:
        result = self.object(target)
        assert undefined_symbols(result) == []
        return load(result)


def call(loaded: LoadedObject, name: str, arrays: list[np.ndarray], n: int) -> None:
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    kind = ctypes.CFUNCTYPE(None, *([ctypes.c_void_p] * len(arrays)), ctypes.c_int64)
    kind(loaded.address(name))(*pointers, n)


def assert_same_bits(actual: np.ndarray, expected: np.ndarray, subject: str, *operands: np.ndarray) -> None:
    """Raise AssertionError unless the bits are equal; all NaNs are equal."""
    assert actual.dtype == expected.dtype, subject
    actual, expected = actual.reshape(len(actual), -1), expected.reshape(len(expected), -1)
    bits = f"u{actual.dtype.itemsize}"
    same = actual.view(bits) == np.ascontiguousarray(expected).view(bits)
    if actual.dtype.kind not in "iub":
        with np.errstate(invalid="ignore"):
            same |= np.isnan(actual) & np.isnan(expected)
    different = np.flatnonzero(~same.all(axis=1))
    examples = [[x[k].tolist() for x in operands] for k in different[:4]]
    assert not len(different), (
        f"{subject}: {len(different)} differ; of {examples} got {actual[different[:4]]}, not {expected[different[:4]]}"
    )


# Data -----------------------------------------------------------------------------------------------------------------


def corners(dtype: DType) -> np.ndarray:
    """Corner values of a type."""
    n = to_numpy(dtype)
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_int:
        info = np.iinfo(n)
        neighbours = [
            v for c in (info.min, 0, info.max, dtype.bits, 1 << 24, 1 << 53) for v in range(c - 2, c + 3)
        ]
        return np.array(sorted({v for v in neighbours if info.min <= v <= info.max}), n)
    bits = np.array(
        [v for k in range(dtype.bits) for v in ((1 << k) - 1, 1 << k, (1 << k) + 1)], f"u{n.itemsize}"
    )
    limits = [s * v for k in (7, 8, 15, 16, 31, 32, 63, 64) for v in (2.0**k - 1, 2.0**k) for s in (1, -1)]
    plain = [0.0, -0.0, 0.5, 1.0, 1.5, 2.5, -0.5, -1.0, -1.5, 448.0, 464.0, 465.0, 61440.0, 65519.0, 65520.0]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([bits.view(n), (~bits).view(n), np.array([*plain, *limits]).astype(n)])


def midpoints(dtype: DType) -> np.ndarray:
    """Values of narrower types, the midpoints of adjacent values and the numbers next to the midpoints, as `dtype`."""
    n = to_numpy(dtype)
    out = []
    for narrow in ("float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float32"):
        to = DTYPES[narrow]
        if to.bits >= dtype.bits:
            continue
        count = 1 << to.bits if to.bits == 8 else 2048
        samples = np.arange(count)
        if to.bits > 8:
            samples = np.random.default_rng(1).integers(0, 1 << to.bits, count)
        with np.errstate(all="ignore"):
            exact = samples.astype(f"u{to.bits // 8}").view(to_numpy(to)).astype(n)
            following = (samples + 1).astype(f"u{to.bits // 8}").view(to_numpy(to)).astype(n)
            middle = exact + (following - exact) / 2
            above, below = (np.nextafter(middle, n.type(to)) for to in (np.inf, -np.inf))
            out += [exact, middle, above, below]
    return np.concatenate(out)


def random_bits(dtype: DType, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    n = to_numpy(dtype)
    result = rng.integers(0, 256, count * n.itemsize).astype(np.uint8).view(n)
    if dtype.is_int:
        return np.where(rng.integers(0, 2, count) == 1, result, rng.integers(0, 20, count).astype(n))
    return np.where(rng.integers(0, 2, count) == 1, result, rng.normal(0, 8, count).astype(n))


@cache
def operands(dtype: DType, arity: int) -> tuple[np.ndarray, ...]:
    """Operand columns; their length is a multiple of 16."""
    if arity == 1:
        if dtype.bits <= 16 and not dtype.is_bool:
            return (np.arange(1 << dtype.bits).astype(f"u{dtype.bits // 8}").view(to_numpy(dtype)),)
        wide = [midpoints(dtype)] if dtype.is_float else []
        return (padded(np.concatenate([corners(dtype), random_bits(dtype, 4000, 2), *wide])),)
    corner_values = corners(dtype)
    if arity == 2:
        pairs = [x.reshape(-1) for x in np.meshgrid(corner_values, corner_values)]
    else:
        corner_values = corner_values[:: max(1, len(corner_values) // 12)]
        pairs = [x.reshape(-1) for x in np.meshgrid(corner_values, corner_values, corner_values)]
    return tuple(padded(np.concatenate([p, random_bits(dtype, 2000, 10 + k)])) for k, p in enumerate(pairs))


def padded(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.resize(x, -(-len(x) // 16) * 16))


# Elementwise ops and conversions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An op on scalars of one type."""

    op: Op

    @property
    def source(self) -> DType:
        return self.op.operands[-1].type  # type: ignore[return-value]

    @property
    def result(self) -> DType:
        return self.op.result.type  # type: ignore[return-value]

    def data(self) -> tuple[np.ndarray, ...]:
        if isinstance(self.op, S.Select):
            a, b = operands(self.source, 2)
            return (random_bits(bool_, len(a), 5), a, b)
        return operands(self.source, len(self.op.operands))

    def body(self, width: int) -> Body:
        def emit(code: Code, memory: MemoryEmitter, index: str) -> None:
            loaded = []
            for k, v in enumerate(self.op.operands):
                t: DType = v.type  # type: ignore[assignment]
                loaded.append((memory.load(memory.offset(f"%p{k}", index, t), t, width),))
            (lowered_value,) = lower(code, self.op, loaded, width)
            offset = memory.offset(f"%p{len(loaded)}", index, self.result)
            memory.store(offset, lowered_value, self.result, width)

        return emit

    def __str__(self) -> str:
        return f"{self.op.NAME} {self.op.attrs} of {self.source}"


def case_of(cls: type[Any], types: list[DType], attrs: dict[str, Any]) -> Case:
    return Case(cls.typed([Value(t) for t in types], attrs))


def elementwise_cases() -> Iterator[Case]:
    attrs: dict[type[Any], list[dict[str, Any]]] = {
        S.Cmp: [{"pred": p} for p in S.COMPARISONS],
        S.Classify: [{"test": t} for t in ("isnan", "isinf", "isfinite")],
    }
    for cls in REGISTRY.values():
        if issubclass(cls, Elementwise) and cls is not S.FastExp2:
            for dtype in filter(cls.takes, DTYPES.values()):
                for a in attrs.get(cls, [{}]):
                    yield case_of(cls, [dtype] * len(cls.signature.operands), a)
    for dtype in DTYPES.values():
        yield case_of(S.Select, [bool_, dtype, dtype], {})


def conversion_cases() -> Iterator[Case]:
    for source in DTYPES.values():
        for to in DTYPES.values():
            yield case_of(Cast, [source], {"to": to})
            if source.bits == to.bits and not to.is_bool:
                yield case_of(Bitcast, [source], {"to": to})


def reference_result(op: Op, data: tuple[np.ndarray, ...]) -> np.ndarray:
    """The results of the reference; arithmetic on 8-bit floats is done in float32 and rounded once."""
    operand_dtype = to_numpy(op.operands[-1].type)  # type: ignore[arg-type]
    in_float32 = isinstance(op, Elementwise) and op.operands[-1].type in NARROW
    with np.errstate(all="ignore"):
        wide = [convert(x, np.dtype(np.float32)) for x in data] if in_float32 else data
        result = np.ascontiguousarray(type(op).ref(op.attrs, *wide))  # type: ignore[attr-defined]
        return convert(result, operand_dtype) if in_float32 and result.dtype != np.bool_ else result


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "target",
    [pytest.param(t, id=t.name, marks=[] if t == get_target() else [pytest.mark.slow]) for t in TARGETS],
)
@pytest.mark.parametrize("cases", [elementwise_cases, conversion_cases], ids=["elementwise", "conversions"])
def test_scalar_ops_match_their_reference(cases: Callable[[], Iterator[Case]], target: CpuTarget) -> None:
    program, plan = Program(), []
    for case in cases():
        names = {w: program.add(len(case.op.operands) + 1, case.body(w), w) for w in WIDTHS_OF[target]}
        plan.append((case, names))
    loaded = program.compiled(target)
    for case, names in plan:
        data = case.data()
        expected = reference_result(case.op, data)
        for width, name in names.items():
            actual = np.zeros(len(data[0]), to_numpy(case.result))
            call(loaded, name, [*data, actual], len(actual))
            assert_same_bits(actual, expected, f"{case} at width {width}", *data)


@pytest.mark.slow
def test_scalar_ops_call_no_library_on_any_target() -> None:
    program = Program()
    for case in (*elementwise_cases(), *conversion_cases()):
        program.add(len(case.op.operands) + 1, case.body(4), 4)
    for kind, dtype in atomic_cases():
        program.add(3, atomic_body(kind, dtype, plain=False), 1)
    assert undefined_symbols(program.object(get_target("armv8.2"))) == []


# Vectors, constants ---------------------------------------------------------------------------------------------------


def element_body(op: Op, width: int, constants: dict[int, Op]) -> Body:
    """A function with component-major operands and result: component c of element i is at c * 64 + i. `constants`: the
    operands that are constants."""

    def emit(code: Code, memory: MemoryEmitter, index: str) -> None:
        def component_address(k: int, t: ElementType, c: int) -> str:
            return memory.offset(f"%p{k}", memory.add(index, str(64 * c)), scalar_of(t))

        values = []
        for k, v in enumerate(op.operands):
            t: ElementType = v.type  # type: ignore[assignment]
            if k in constants:
                values.append(lower(code, constants[k], [], width))
            else:
                values.append(
                    tuple(
                        memory.load(component_address(k, t, c), scalar_of(t), width)
                        for c in range(components(t))
                    )
                )
        result: ElementType = op.result.type  # type: ignore[assignment]
        for c, part in enumerate(lower(code, op, values, width)):
            memory.store(component_address(len(values), result, c), part, scalar_of(result), width)

    return emit


def const(value: Any, t: ElementType) -> Op:
    return S.Const([], [t], {"value": value, "type": t})


def vector_cases() -> Iterator[tuple[Op, dict[int, Op]]]:
    v3, m23, narrow = VecType(3, float32), MatType(2, 3, float32), VecType(200, uint8)
    f, i = Value(float32), Value(int32)
    for t in (v3, m23):
        n = components(t)
        yield VecMake([f] * n, [t], {"type": t}), {}
        yield VecMake([Value(VecType(n - 1, float32)), f], [t], {"type": t}), {}
        yield VecMake([Value(MatType(n, 1, float32))], [t], {"type": t}), {}
        yield VecSplat([f], [t], {"type": t}), {}
        yield S.Select([Value(bool_), Value(t), Value(t)], [t]), {}
        flags = VecType(n, bool_) if t is v3 else MatType(2, 3, bool_)
        yield S.Select([Value(flags), Value(t), Value(t)], [t]), {}
        yield S.Add([Value(t), Value(t)], [t]), {}
        indices = [i] * len(element_shape(t))
        yield VecExtract([Value(t), *indices], [float32]), {}
        yield VecInsert([Value(t), f, *indices], [t]), {}
    yield VecInsert([Value(narrow), Value(uint8), Value(int8)], [narrow]), {}
    yield VecExtract([Value(m23), Value(int64), Value(uint8)], [float32]), {}
    for row, col in ((1, 2), (0, 5), (-1, 1), (7, -7)):
        constant_indices = [const(row, int32), const(col, int32)]
        for constants in (
            {0: constant_indices[0]},
            {1: constant_indices[1]},
            {0: constant_indices[0], 1: constant_indices[1]},
        ):
            index = [constants[k].result if k in constants else i for k in (0, 1)]
            yield VecExtract([Value(m23), *index], [float32]), {1 + k: c for k, c in constants.items()}
            yield VecInsert([Value(m23), f, *index], [m23]), {2 + k: c for k, c in constants.items()}


@pytest.mark.slow
@pytest.mark.machine_code
def test_components_are_extracted_and_inserted_like_the_reference() -> None:
    program, plan = Program(), []
    for op, constants in vector_cases():
        names = {w: program.add(len(op.operands) + 1, element_body(op, w, constants), w) for w in WIDTHS}
        plan.append((op, constants, names))
    loaded = program.compiled(TARGETS[-1])
    rng = np.random.default_rng(3)
    for op, constants, names in plan:
        data = []
        for k, v in enumerate(op.operands):
            t: ElementType = v.type  # type: ignore[assignment]
            shape = (64, *element_shape(t))
            if k in constants:
                data.append(np.full(shape, constants[k].attrs["value"], to_numpy(scalar_of(t))))
            elif scalar_of(t).is_int and isinstance(op, VecExtract | VecInsert) and not element_shape(t):
                low = -3 if scalar_of(t).is_signed else 0
                data.append(rng.integers(low, 5, shape).astype(to_numpy(scalar_of(t))))
            else:
                data.append(random_bits(scalar_of(t), int(np.prod(shape)), 4).reshape(shape))
        expected = type(op).ref(op.attrs, *data)  # type: ignore[attr-defined]
        result: ElementType = op.result.type  # type: ignore[assignment]
        packed = [np.ascontiguousarray(np.moveaxis(x.reshape(64, -1), 0, 1)) for x in data]
        for width, name in names.items():
            actual = np.zeros((components(result), 64), to_numpy(scalar_of(result)))
            call(loaded, name, [*packed, actual], 64)
            assert_same_bits(
                np.ascontiguousarray(actual.T), expected.reshape(64, -1), f"{op.NAME} at width {width}", *data
            )


@pytest.mark.machine_code
def test_constants_wrap_and_round_as_in_the_interpreter() -> None:
    values: list[Any] = [0, 1, -1, 300, -300, 1 << 40, 0.1, -0.0, 1e-45, 3.4028235677973366e38, 1e300, -1e300]
    values += [float("inf"), float("nan"), 65519.999, 1.00390625 + 2**-40, 464.0, 464.0001]
    program, plan = Program(), []
    for dtype in DTYPES.values():
        for value in values:
            if dtype.is_int and not isinstance(value, int):
                continue

            def body(
                code: Code, memory: MemoryEmitter, index: str, dtype: DType = dtype, value: Any = value
            ) -> None:
                (result,) = lower(code, const(value, dtype), [], 8)
                memory.store(memory.offset("%p0", index, dtype), result, dtype, 8)

            plan.append((dtype, value, program.add(1, body, 8)))
    loaded = program.compiled(TARGETS[-1])
    for dtype, value, name in plan:
        n = to_numpy(dtype)
        if dtype.is_int:
            low = np.iinfo(n).min
            expected = np.full(8, (int(value) - int(low)) % (1 << dtype.bits) + int(low), n)
        else:
            expected = convert(np.full(8, value, np.float64), n)
        actual = np.zeros(8, n)
        call(loaded, name, [actual], 8)
        assert_same_bits(actual, expected, f"constant {value} of {dtype}")


@pytest.mark.machine_code
def test_division_by_a_constant_vector_matches_the_reference() -> None:
    program, plan = Program(), []
    for dtype in DTYPES.values():
        for divisor in (0, 1, -1, 3, -7, 8) if dtype.is_int else ():
            for cls in (S.Div, S.FloorDiv, S.Mod):

                def body(
                    code: Code,
                    memory: MemoryEmitter,
                    index: str,
                    t: DType = dtype,
                    by: int = divisor,
                    cls: Any = cls,
                ) -> None:
                    a = memory.load(memory.offset("%p0", index, t), t, 8)
                    op = case_of(cls, [t, t], {}).op
                    (out,) = lower(code, op, [(a,), (constant(t, by, 8),)], 8)
                    memory.store(memory.offset("%p1", index, t), out, t, 8)

                plan.append((dtype, divisor, cls, program.add(2, body, 8)))
    loaded = program.compiled(TARGETS[-1])
    for dtype, divisor, cls, name in plan:
        a = operands(dtype, 2)[0]
        divisors = np.full_like(a, np.array(divisor).astype(a.dtype))
        actual = np.zeros_like(a)
        call(loaded, name, [a, actual], len(a))
        assert_same_bits(actual, cls.ref({}, a, divisors), f"{cls.NAME} of {dtype} by {divisor}", a)


def test_constant_vectors_have_their_components() -> None:
    code = Code()
    t = MatType(2, 2, int32)
    assert lower(code, const(((1, 2), (3, 4)), t), [], 1) == ("1", "2", "3", "4")
    assert lower(code, const(7, t), [], 1) == ("7",) * 4
    assert constant(uint8, 257, 4) == "splat (i8 1)"


def test_only_known_intrinsics_are_emitted() -> None:
    with pytest.raises(InternalError, match="tanh"):
        Code().call("tanh", "f32", "float", "float %x")


# Memory, atomics ------------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_masked_accesses_leave_inactive_elements_unchanged() -> None:
    program, names = Program(), {}
    for dtype in DTYPES.values():

        def body(code: Code, memory: MemoryEmitter, index: str, dtype: DType = dtype) -> None:
            mask = memory.load(memory.offset("%p0", index, bool_), bool_, 8)
            fill = memory.load(memory.offset("%p1", index, dtype), dtype, 8)
            actual = memory.masked_load(memory.offset("%p2", index, dtype), dtype, 8, mask, fill)
            memory.store(memory.offset("%p3", index, dtype), actual, dtype, 8)
            memory.masked_store(memory.offset("%p4", index, dtype), actual, dtype, 8, mask)

        names[dtype] = program.add(5, body, 8)
    loaded = program.compiled(TARGETS[-1])
    for dtype, name in names.items():
        mask, fill, source, old = (random_bits(t, 64, k) for k, t in enumerate((bool_, dtype, dtype, dtype)))
        actual, stored = np.zeros_like(source), old.copy()
        call(loaded, name, [mask, fill, source, actual, stored], 64)
        assert_same_bits(actual, np.where(mask, source, fill), f"masked load of {dtype}")
        assert_same_bits(stored, np.where(mask, source, old), f"masked store of {dtype}")


def atomic_cases() -> Iterator[tuple[str, DType]]:
    for dtype in DTYPES.values():
        for kind in ATOMICS:
            bitwise, arithmetic = kind in ("and", "or", "xor"), kind in ("add", "sub")
            if dtype.is_int or not (bitwise or (arithmetic and dtype.is_bool)):
                yield kind, dtype


def atomic_body(kind: str, dtype: DType, plain: bool) -> Body:
    def emit(code: Code, memory: MemoryEmitter, index: str) -> None:
        indices = [memory.offset(f"%p{k}", index, dtype) for k in range(3)]
        old = atomic(code, kind, indices[1], dtype, memory.load(indices[0], dtype), plain)
        memory.store(indices[2], old, dtype)

    return emit


@pytest.mark.machine_code
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_atomics_match_their_reference(target: CpuTarget) -> None:
    program, plan = Program(), []
    for kind, dtype in atomic_cases():
        for plain in (False, True):
            plan.append((kind, dtype, program.add(3, atomic_body(kind, dtype, plain), 1)))
    loaded = program.compiled(target)
    for kind, dtype, name in plan:
        value, old = operands(dtype, 2)
        target_array, actual = old.copy(), np.zeros_like(old)
        call(loaded, name, [value, target_array, actual], len(old))
        assert_same_bits(actual, old, f"previous value of atomic {kind} of {dtype}")
        assert_same_bits(target_array, UPDATES[kind](old, value), f"atomic {kind} of {dtype}", old, value)


@pytest.mark.machine_code
def test_compare_and_swap_compares_bits() -> None:
    program, plan = Program(), []
    for dtype in DTYPES.values():
        for plain in (False, True):

            def body(
                code: Code, memory: MemoryEmitter, index: str, dtype: DType = dtype, plain: bool = plain
            ) -> None:
                indices = [memory.offset(f"%p{k}", index, dtype) for k in range(4)]
                expected, value = (memory.load(p, dtype) for p in indices[:2])
                memory.store(
                    indices[3], compare_and_swap(code, indices[2], dtype, expected, value, plain), dtype
                )

            plan.append((dtype, program.add(4, body, 1)))
    loaded = program.compiled(TARGETS[-1])
    for dtype, name in plan:
        expected, old = operands(dtype, 2)
        value, bits = old[::-1].copy(), f"u{old.dtype.itemsize}"
        contents, actual = old.copy(), np.zeros_like(old)
        call(loaded, name, [expected, value, contents, actual], len(old))
        expected_contents = np.where(old.view(bits) == expected.view(bits), value, old)
        assert (actual.view(bits) == old.view(bits)).all(), dtype
        assert (contents.view(bits) == expected_contents.view(bits)).all(), dtype


@pytest.mark.machine_code
def test_atomics_of_vectors_update_each_component() -> None:
    program, t = Program(), VecType(3, float32)

    def body(code: Code, memory: MemoryEmitter, index: str) -> None:
        unit = memory.mul(index, "3")
        value = memory.load_element(memory.offset("%p0", unit, float32), t)
        atomic_element(code, "max", memory.offset("%p1", unit, float32), t, value)

    name = program.add(2, body, 1)
    value, old = (random_bits(float32, 48, k) for k in (1, 2))
    actual = old.copy()
    call(program.compiled(TARGETS[-1]), name, [value, actual], 16)
    assert_same_bits(actual, S.Max.ref({}, old, value), "atomic max of vectors")


@pytest.mark.machine_code
def test_concurrent_atomics_lose_no_update() -> None:
    program, types = Program(), (int32, float32, DTYPES["float16"])
    names = {}
    for dtype in types:

        def body(code: Code, memory: MemoryEmitter, index: str, dtype: DType = dtype) -> None:
            atomic(code, "add", "%p0", dtype, constant(dtype, 1))

        names[dtype] = program.add(1, body, 1)
    loaded = program.compiled(TARGETS[-1])
    for dtype, name in names.items():
        total = np.zeros(1, to_numpy(dtype))
        threads = [Thread(target=call, args=(loaded, name, [total], 1000)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert total[0] == 2000, dtype


@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int32"])
def test_constants_of_any_type_are_compared(name: str) -> None:
    """Comparisons of known integers need no instruction."""
    t, code = DTYPES[name], Code()
    op = S.Cmp([Value(t), Value(t)], [bool_], {"pred": "lt"})
    (lowered_value,) = lower(code, op, [(constant(t, 0),), (constant(t, 1),)], 1)
    if t.is_int:
        assert lowered_value == "true" and not code.lines
    else:
        assert code.lines[-1].startswith(f"  {lowered_value} = fcmp olt ")
