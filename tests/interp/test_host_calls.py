"""Functions of the language, called in Python: the results equal the results of a kernel in the interpreter, bit for
bit."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.interp import run
from tegula.ir import LaunchClass
from tegula.lang import PublicFunction
from tegula.lang.overloads import NO_DEFAULT
from tegula.ops import PUBLIC
from tegula.runtime.library import TILE_PREFIXES, library
from tegula.types import ArrayType, DType, ElementType, element_shape, from_numpy, scalar_of, to_numpy

NAMES = sorted(
    name
    for name in {*PUBLIC, *library()}
    if not name.startswith((*TILE_PREFIXES, "_"))
    and "." not in name
    and name != "breakpoint"  # starts the debugger
    and isinstance(getattr(tg, name), PublicFunction)
)
ONE_THREAD = LaunchClass(1, 1, (False,), False, False)
CORNERS = (0.0, -0.0, 1.0, -2.5, 0.1, 1e-30, 3e4, np.inf, -np.inf, np.nan)
"""The values of a few components."""
SHAPES: tuple[Any, ...] = (
    *(tg.float32, tg.float16, tg.int32, tg.uint32, tg.bool, tg.vec3, tg.mat33),
    *(tg.quat, tg.transform, tg.spatial_vector, tg.mat44),
)
FURTHER_TYPES: tuple[Any, ...] = (
    *(tg.float64, tg.bfloat16, tg.int8, tg.uint16, tg.int64, tg.uint64),
    *(tg.vec2d, tg.vec4i, tg.vec3h, tg.mat22d, tg.mat44, tg.types.matrix((2, 3), tg.float32)),
)


def random_value(t: ElementType, rng: np.random.Generator) -> Any:
    """A value of the host: of floats often a corner, of integers any."""
    scalar, shape = scalar_of(t), element_shape(t)
    dtype = to_numpy(scalar)
    if scalar.is_float:
        wide = np.where(rng.random(shape) < 0.2, rng.choice(CORNERS, shape), rng.normal(0, 3, shape))
        with np.errstate(over="ignore"):
            data = np.asarray(wide).astype(dtype)
    elif scalar.is_bool:
        data = rng.random(shape) < 0.5
    else:
        data = np.frombuffer(rng.bytes(8 * max(1, int(np.prod(shape)))), dtype)[: int(np.prod(shape))]
        data = data.reshape(shape)
    return dtype.type(data) if isinstance(t, DType) else t(np.asarray(data))


def parameters(name: str) -> list[int]:
    """The number of parameters without a default of each definition; `*parameters` count as two."""
    if name in PUBLIC:
        _, *own_parameters = inspect.signature(PUBLIC[name]).parameters.values()
        return [sum(2 if p.kind is p.VAR_POSITIONAL else p.default is p.empty for p in own_parameters)]
    definitions = (d.definition.parameters for d in library()[name].definitions)
    return sorted({sum(p.default is NO_DEFAULT for p in parameter) for parameter in definitions})


def signatures(name: str, types: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Types of arguments to try: all equal, one scalar among others, a condition, a dtype to convert to."""
    for n in parameters(name):
        yield from signatures_of(n, types)


def signatures_of(n: int, types: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    for t in types:
        yield (t,) * n
        if n == 2 and not isinstance(t, DType):
            yield t, scalar_of(t)
    if n > 1:
        yield from ((tg.uint32, *(t,) * (n - 1)) for t in types)
        yield from ((t, *(tg.vec3,) * (n - 1)) for t in (tg.quat, tg.transform, tg.mat44))
        yield from ((tg.transform, *(tg.spatial_vector,) * (n - 1)), (*(tg.vec3,) * (n - 1), tg.float32))
    if n == 1:
        yield (tg.mat22,)
    if n == 2:
        yield from ((t, np.int16) for t in types)
        yield from ((types[-1], types[-2]), (tg.vec3, tg.quat), (tg.spatial_vector, tg.vec3))
    if n == 3:
        yield from ((tg.bool, t, t) for t in types)
        yield from ((tg.vec3, tg.quat, tg.vec3), (tg.quat, tg.quat, tg.float32))
        yield from ((tg.uint32, t, t) for t in (tg.vec2, tg.vec4))


def arguments(types: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    return [tg.int16 if t is np.int16 else random_value(t, rng) for t in types]


def type_of(x: Any) -> Any:
    return x.type if hasattr(x, "type") else from_numpy(x.dtype)


numbers = count()


def called_in_a_kernel(name: str, args: Sequence[Any], result: ElementType, part: str = "") -> np.ndarray:
    """The output of a kernel that calls the function with values known at run time; `part`: the index of a result."""
    values = [x for x in args if not isinstance(x, DType)]
    texts = [f"a{k}" if not isinstance(x, DType) else f"tg.{x.name}" for k, x in enumerate(args)]
    names = [w for w in texts if not w.startswith("tg.")]
    text = f"def run({', '.join([*names, 'out'])}):\n    out[0] = tg.{name}({', '.join(texts)}){part}\n"
    scope = {"tg": tg}
    exec(compile(text, f"<call {next(numbers)}>", "exec"), scope)
    kernel = tg.kernel(source=text)(scope["run"])  # type: ignore[arg-type]
    types = [*map(type_of, values), ArrayType(result, 1)]
    out = np.zeros((1, *element_shape(result)), to_numpy(scalar_of(result)))
    run(kernel.trace(types, ONE_THREAD, (), library()), [*map(np.asarray, values), out], (1,), 1)
    return out[0]


def compared(types: Sequence[Any], seed: int = 42, names: Sequence[str] = NAMES) -> dict[str, int]:
    """The number of compared calls of each function."""
    call_counts: dict[str, int] = {}
    rng = np.random.default_rng(seed)
    for name in names:
        call_counts[name] = 0
        for signature in signatures(name, types):
            args = arguments(signature, rng)
            try:
                actual = getattr(tg, name)(*args)
            except tg.TegulaError:  # the function takes no such arguments
                continue
            parts = (
                [(f"[{k}]", x) for k, x in enumerate(actual)] if isinstance(actual, tuple) else [("", actual)]
            )
            for part, parameter in parts:
                if not hasattr(parameter, "dtype"):
                    continue
                try:
                    expected = called_in_a_kernel(name, args, type_of(parameter), part)
                except tg.CompileError:
                    # As in a launch, NumPy numbers are taken as Python numbers if no definition matches them.
                    args = [x.item() if isinstance(x, np.number) else x for x in args]
                    expected = np.asarray(eval(f"found{part}", {"found": getattr(tg, name)(*args)}))
                call_counts[name] += 1
                same = np.asarray(parameter).tobytes() == expected.tobytes()
                both_nan = np.isnan(expected).any() and np.array_equal(parameter, expected, equal_nan=True)
                assert same or both_nan, (name, args)
    return call_counts


BLOCK_PREFIXES = (
    "atomic_",
    "block_",
    "bvh_",
    "fence",
    "group_",
    "hash_grid_",
    "lane_",
    "match_",
    "mbarrier",
    "mesh_",
    "named_barrier",
    "store_",
)
"""The prefixes of the names of functions that need a block of threads, or a spatial structure."""
UNTESTED_FUNCTIONS = {
    *("uniform", "untile", "identity", "matrix", "table"),
    *("lower_bound", "sample_cdf", "quat_from_euler", "quat_to_euler", "pnoise"),
    *("expect_eq", "expect_near", "expect_neq", "printf"),
    *("transform_set_rotation", "transform_set_translation"),
}
"""Functions that also need a block or structure, take arrays, constants or axes, or return nothing: not tested here."""


@pytest.mark.parametrize(
    "names",
    [
        NAMES[::5],
        pytest.param(NAMES[2::10], marks=pytest.mark.slow),
        pytest.param(NAMES, marks=pytest.mark.campaign),
    ],
    ids=["few", "others", "all"],
)
def test_host_calls_agree_with_a_kernel(names: Sequence[str]) -> None:
    """Every function that needs no block returns results here, unless it is listed above."""
    done = compared(SHAPES, names=names)
    assert sum(done.values()) > 2 * len(names)
    uncalled = {name for name, n in done.items() if not n}
    assert {name for name in uncalled if not name.startswith(BLOCK_PREFIXES)} <= UNTESTED_FUNCTIONS


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(4))
def test_host_calls_of_more_types_agree_with_a_kernel(seed: int) -> None:
    assert sum(compared((*SHAPES, *FURTHER_TYPES), seed).values()) > 700


@pytest.mark.parametrize(
    "call",
    [
        lambda: tg.block_dim(),
        lambda: tg.group_lane(),
        lambda: tg.group_size(),
        lambda: tg.lane_sum(1.0),
        lambda: tg.uniform(1.0),
        lambda: tg.atomic_add(tg.zeros(3), 0, 1.0),
        lambda: tg.atomic_cas(tg.zeros(3, dtype=tg.int32), 0, 1, 2),
        lambda: tg.tile_zeros(4),
        lambda: tg.tile_load(tg.zeros(4), shape=4),
        lambda: tg.tile_sum(np.ones(4)),
        lambda: tg.mbarrier(1),
        lambda: called_in_a_block(1.0),
    ],
)
def test_host_calls_of_functions_that_need_a_block_are_refused(call: Any) -> None:
    with pytest.raises(RuntimeError, match="works inside kernels only.*needs? a block|tiles are") as caught:
        call()
    assert type(caught.value).__name__ == "OutsideKernel"
    assert "        lambda: " in str(caught.value)  # the line of the call


@tg.func
def called_in_a_block(x: float):
    return x + tg.lane_sum(x)


def test_host_calls_construct_vectors_and_matrices() -> None:
    assert tg.identity(2) == tg.mat22(1, 0, 0, 1)
    assert repr(tg.matrix(1.0, 2.0, shape=(1, 2))) == "matrix((1, 2), float32)([[1.0, 2.0]])"
    assert tg.vector(1.0, 2.0, 3.0) == tg.vec3(1, 2, 3)
    assert np.asarray(tg.cast(tg.vec3(1.7, -2.7, 9), tg.int32)).tolist() == [1, -2, 9]


def test_numbers_in_host_calls_have_the_types_of_kernels() -> None:
    assert type(tg.sin(1.0)) is np.float32
    assert type(tg.sin(np.float64(1.0))) is np.float64
    assert type(tg.sin(1)) is np.float32
    assert type(tg.min(1, 2)) is np.int32
    assert type(tg.isnan(1.0)) is np.bool_
    assert type(tg.sqrt(np.float16(2))) is np.float16
    assert tg.length(tg.vec3d(1, 2, 2)).dtype == np.float64
    assert tg.max(x := np.uint8(200), np.uint8(100)) == x


# Functions of the user ------------------------------------------------------------------------------------------------


SCALE = 3.0


@tg.func
def summed(x: float, n: int = 3):
    total = x
    for i in range(n):
        if total > 2.0:
            total -= float(i) * 0.1
        total = total * SCALE + tg.sin(total)
    return total


def test_host_calls_of_user_functions_round_as_kernels() -> None:
    def in_python(x: float, n: int) -> np.ndarray:
        @tg.kernel
        def k(x: float, n: int, out: tg.array1d[float]):
            out[0] = summed(x, n)

        out = np.zeros(1, np.float32)
        types = [tg.float32, tg.int32, ArrayType(tg.float32, 1)]
        run(k.trace(types, ONE_THREAD, (), library()), [x, n, out], (1,), 1)
        return out[0]

    for x, n in ((0.5, 3), (-1.25, 0), (0.1, 7)):
        assert summed(x, n) == summed(x=x, n=n) == summed(np.float32(x), n) == in_python(x, n)
    assert summed(np.float64(0.5)) == summed(0.5)  # like the argument of a launch for a float32


def test_host_calls_follow_changes_of_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    before = summed(0.5)
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    assert summed(0.5) != before


@tg.func
def doubled(a: tg.array1d[float], i: int):
    a[i] = 2.0 * a[i]
    return a[i], a.shape[0]


def test_host_calls_read_and_write_arrays() -> None:
    a, b = tg.array([1.0, 2.0]), np.arange(3, dtype=np.float32)
    assert doubled(a, 1) == (4.0, 2)
    assert doubled(b, 2) == (4.0, 3)
    assert a.numpy().tolist() == [1.0, 4.0] and b.tolist() == [0.0, 1.0, 4.0]
    with pytest.raises(tg.OutOfBounds, match=r"index \(9\) is outside 'a' of shape \(2,\)"):
        doubled(a, 9)


@tg.func
def rows(n: int):
    m = tg.matrix(shape=(n, n), dtype=float)
    m[0, n - 1] = 1.0
    return m


def test_host_calls_take_numbers_for_constants() -> None:
    """A function that needs a number at compile time gets the number of the call."""
    assert rows(2) == tg.mat22(0, 1, 0, 0)
    assert rows(3)[0] == tg.vec3(0, 0, 1)


@tg.func
def tile_length(n: int, width: int):
    return (n + width - 1) // width


def test_user_functions_with_names_like_the_library_are_called() -> None:
    assert tile_length(9, 4) == 3
    assert range(tile_length(9, 4))[-1] == 2


@tg.func
def positive(x: float):
    assert x > 0.0, "x is not positive"
    return tg.sqrt(x)


def test_errors_of_host_calls_name_the_calling_line() -> None:
    assert positive(4.0) == 2.0
    with pytest.raises(tg.KernelAssertion, match="x is not positive") as caught:
        positive(-4.0)
    assert str(caught.value).count("positive(-4.0)") == 1
    with pytest.raises(tg.CompileError, match="no parameter 'y'"):
        positive(y=1.0)


@tg.func
def applied(f: Any, v: tg.vec3):
    return f(v[0]) + f(v[1]), tg.normalize(v)


def test_host_calls_take_functions_and_tuples() -> None:
    total, unit = applied(positive, tg.vec3(4, 9, 0))
    assert total == 5.0 and unit == tg.normalize(tg.vec3(4, 9, 0))
    with pytest.raises(tg.CompileError, match="argument 'v' of applied must be"):
        applied(positive, tg.vec2(4, 9))
