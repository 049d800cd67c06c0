"""Every lane op and conversion, compiled for the CPU, against the op's NumPy meaning, bit for bit."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from tegula.backend.llvm import compile_object
from tegula.backend.loader import LoadedObject, load, undefined_symbols
from tegula.codegen.memory import Memory
from tegula.codegen.scalar import lower
from tegula.codegen.text import Code, constant
from tegula.errors import InternalError
from tegula.ir import Op, Value
from tegula.ops import REGISTRY
from tegula.ops import scalar as S
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
SCALAR_LOOP = '!0 = distinct !{!0, !1}\n!1 = !{!"llvm.loop.vectorize.enable", i1 false}\n'
Body = Callable[[Code, Memory, str], None]


# Compiling and calling -----------------------------------------------------------------------------------------------


def function_text(name: str, parameters: int, body: Body, width: int, code: Code) -> str:
    """`void name(ptr p0, ..., i64 n)`: the body for every `width`-th index below n."""
    with code.loop("0", "%n", str(width), metadata=", !llvm.loop !0" if width == 1 else "") as loop:
        body(code, Memory(code), loop.index)
    pointers = ", ".join(f"ptr noalias %p{k}" for k in range(parameters))
    lines = "\n".join([*code.entry, *code.lines])
    return f"define void @{name}({pointers}, i64 %n) #0 {{\nentry:\n{lines}\n  ret void\n}}\n"


@dataclass
class Program:
    """Functions compiled together."""

    functions: list[str] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)

    def add(self, parameters: int, body: Body, width: int) -> str:
        code, name = Code(), f"f{len(self.functions)}"
        self.functions.append(function_text(name, parameters, body, width, code))
        self.declared |= code.declared
        return name

    def compiled(self, target: CpuTarget) -> LoadedObject:
        bits = target.vector_bytes * 8
        attributes = f'attributes #0 = {{ nounwind "no-builtins" "prefer-vector-width"="{bits}" }}\n'
        made = compile_object("\n".join([*self.functions, *sorted(self.declared), attributes, SCALAR_LOOP]), target)
        assert undefined_symbols(made) == []
        return load(made)


def call(loaded: LoadedObject, name: str, arrays: list[np.ndarray], n: int) -> None:
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in arrays]
    kind = ctypes.CFUNCTYPE(None, *([ctypes.c_void_p] * len(arrays)), ctypes.c_int64)
    kind(loaded.address(name))(*pointers, n)


def assert_same_bits(got: np.ndarray, want: np.ndarray, what: str, *operands: np.ndarray) -> None:
    """Equal bits; any NaN equals any other."""
    assert got.dtype == want.dtype, what
    got, want = got.reshape(len(got), -1), want.reshape(len(want), -1)
    bits = f"u{got.dtype.itemsize}"
    same = got.view(bits) == np.ascontiguousarray(want).view(bits)
    if got.dtype.kind not in "iub":
        same |= np.isnan(got) & np.isnan(want)
    bad = np.flatnonzero(~same.all(axis=1))
    shown = [[x[k].tolist() for x in operands] for k in bad[:4]]
    assert not len(bad), f"{what}: {len(bad)} differ; of {shown} got {got[bad[:4]]}, not {want[bad[:4]]}"


# Data ----------------------------------------------------------------------------------------------------------------


def corners(dtype: DType) -> np.ndarray:
    """Values where something happens, of one type."""
    n = to_numpy(dtype)
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.is_int:
        info = np.iinfo(n)
        near = [v for c in (info.min, 0, info.max, dtype.bits, 1 << 24, 1 << 53) for v in range(c - 2, c + 3)]
        return np.array(sorted({v for v in near if info.min <= v <= info.max}), n)
    bits = np.array([v for k in range(dtype.bits) for v in ((1 << k) - 1, 1 << k, (1 << k) + 1)], f"u{n.itemsize}")
    limits = [s * v for k in (7, 8, 15, 16, 31, 32, 63, 64) for v in (2.0**k - 1, 2.0**k) for s in (1, -1)]
    plain = [0.0, -0.0, 0.5, 1.0, 1.5, 2.5, -0.5, -1.0, -1.5, 448.0, 464.0, 465.0, 61440.0, 65519.0, 65520.0, *limits]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.concatenate([bits.view(n), (~bits).view(n), np.array(plain).astype(n)])


def between(dtype: DType) -> np.ndarray:
    """The values of the narrower types and what lies just beside the middle of two of them, as float32 or float64."""
    n = to_numpy(dtype)
    out = []
    for narrow in ("float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float32"):
        to = DTYPES[narrow]
        if to.bits >= dtype.bits:
            continue
        count = 1 << to.bits if to.bits == 8 else 2048
        picked = np.arange(count) if to.bits == 8 else np.random.default_rng(1).integers(0, 1 << to.bits, count)
        exact = picked.astype(f"u{to.bits // 8}").view(to_numpy(to)).astype(n)
        following = (picked + 1).astype(f"u{to.bits // 8}").view(to_numpy(to)).astype(n)
        with np.errstate(all="ignore"):
            middle = exact + (following - exact) / 2
            out += [exact, middle, np.nextafter(middle, n.type(np.inf)), np.nextafter(middle, n.type(-np.inf))]
    return np.concatenate(out)


def random_bits(dtype: DType, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    n = to_numpy(dtype)
    made = rng.integers(0, 256, count * n.itemsize).astype(np.uint8).view(n)
    if dtype.is_int:
        return np.where(rng.integers(0, 2, count) == 1, made, rng.integers(0, 20, count).astype(n))
    return np.where(rng.integers(0, 2, count) == 1, made, rng.normal(0, 8, count).astype(n))


@cache
def operands(dtype: DType, arity: int) -> tuple[np.ndarray, ...]:
    """Operand columns; their length is a multiple of 16."""
    if arity == 1:
        if dtype.bits <= 16 and not dtype.is_bool:
            return (np.arange(1 << dtype.bits).astype(f"u{dtype.bits // 8}").view(to_numpy(dtype)),)
        wide = [between(dtype)] if dtype.is_float else []
        return (padded(np.concatenate([corners(dtype), random_bits(dtype, 4000, 2), *wide])),)
    few = corners(dtype)
    if arity == 2:
        pairs = [x.reshape(-1) for x in np.meshgrid(few, few)]
    else:
        few = few[:: max(1, len(few) // 12)]
        pairs = [x.reshape(-1) for x in np.meshgrid(few, few, few)]
    return tuple(padded(np.concatenate([p, random_bits(dtype, 2000, 10 + k)])) for k, p in enumerate(pairs))


def padded(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.resize(x, -(-len(x) // 16) * 16))


# Elementwise ops and conversions -------------------------------------------------------------------------------------


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
        def emit(code: Code, memory: Memory, index: str) -> None:
            loaded = []
            for k, v in enumerate(self.op.operands):
                t: DType = v.type  # type: ignore[assignment]
                loaded.append((memory.load(memory.offset(f"%p{k}", index, t), t, width),))
            (made,) = lower(code, self.op, loaded, width)
            at = memory.offset(f"%p{len(loaded)}", index, self.result)
            memory.store(at, made, self.result, width)

        return emit

    def __str__(self) -> str:
        return f"{self.op.NAME} {self.op.attrs} of {self.source}"


def made(cls: type[Any], types: list[DType], attrs: dict[str, Any]) -> Case:
    return Case(cls([Value(t) for t in types], cls.infer(types, attrs, []), attrs))


def elementwise_cases() -> Iterator[Case]:
    attrs = {
        S.Cmp: [{"pred": p} for p in S.COMPARISONS],
        S.Classify: [{"test": t} for t in ("isnan", "isinf", "isfinite")],
    }
    for cls in REGISTRY.values():
        if issubclass(cls, Elementwise):
            for dtype in DTYPES.values():
                for a in attrs.get(cls, [{}]) if dtype.kind in cls.KINDS else []:  # type: ignore[call-overload]
                    yield made(cls, [dtype] * cls.ARITY, a)
    for dtype in DTYPES.values():
        yield made(S.Select, [bool_, dtype, dtype], {})


def conversion_cases() -> Iterator[Case]:
    for source in DTYPES.values():
        for to in DTYPES.values():
            yield made(Cast, [source], {"to": to})
            if source.bits == to.bits and not to.is_bool:
                yield made(Bitcast, [source], {"to": to})


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("cases", [elementwise_cases, conversion_cases], ids=["elementwise", "conversions"])
def test_ops_mean_their_reference(cases: Callable[[], Iterator[Case]], target: CpuTarget) -> None:
    program, plan = Program(), []
    for case in cases():
        names = {w: program.add(len(case.op.operands) + 1, case.body(w), w) for w in WIDTHS}
        plan.append((case, names))
    loaded = program.compiled(target)
    for case, names in plan:
        data = case.data()
        want = np.ascontiguousarray(type(case.op).ref(case.op.attrs, *data))  # type: ignore[attr-defined]
        for width, name in names.items():
            got = np.zeros(len(data[0]), to_numpy(case.result))
            call(loaded, name, [*data, got], len(got))
            assert_same_bits(got, want, f"{case} at width {width}", *data)
