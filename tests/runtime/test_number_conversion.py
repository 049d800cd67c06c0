"""Numbers that enter from the host: the nearest number of the type, or an error, through every API."""

import math
import random
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.types import DTYPES, DType, MatType, VecType, to_numpy

pytestmark = pytest.mark.cpu

RANGE_ENDS = [2**k + d for k in (7, 8, 15, 16, 31, 32, 53, 63, 64, 70, 128) for d in (-1, 0, 1)]
INTEGERS = [0, 1, 2, 100, *RANGE_ENDS, *(-n for n in RANGE_ENDS), -2, 10**400]
REAL = [0.5, -0.5, 1.0, -3.0, 2.5, 448.0, 480.0, 65504.0, 65520.0, 1e5, 3.4e38, 3.5e38, 1e300, -1e300, 1e-300]
VALUES: list[Any] = [*INTEGERS, *REAL, math.inf, -math.inf, math.nan, True, False]
VALUES += [float(2**k) for k in (31, 32, 63, 64)]


def nearest(value: Any, t: DType) -> Any:
    """The number of a type that is nearest to a Python number, computed with fractions; None if the type has no such
    number."""
    expected = to_numpy(t)
    special = isinstance(value, float) and not math.isfinite(value)
    if t.is_float:
        try:
            wide = float(value)
        except OverflowError:
            return None
        with np.errstate(all="ignore"):
            result = np.float64(wide).astype(expected)
        representable = math.isnan(float(result)) if math.isnan(wide) else float(result) == wide
        return result if representable or (not special and math.isfinite(float(result))) else None
    if special or Fraction(value).denominator != 1:
        return None
    low, high = (0, 1) if t.is_bool else (int(np.iinfo(expected).min), int(np.iinfo(expected).max))
    return expected.type(int(value)) if low <= value <= high else None


def is_equal(a: Any, b: Any) -> bool:
    return np.asarray(a).tobytes() == np.asarray(b).tobytes()


Conversion = Callable[[Any, DType], Any]


def from_numpy(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array if array.dtype.kind in "biuf" else np.array(value, object)


CONVERSIONS: dict[str, Conversion] = {
    "a list": lambda x, t: tg.array([x], dtype=t).numpy()[0],
    "lists of lists": lambda x, t: tg.array([[x, 0], [1, x]], dtype=t).numpy()[1, 1],
    "besides a float": lambda x, t: tg.array([x, 1.0], dtype=t).numpy()[0],
    "besides a large integer": lambda x, t: tg.array([x, 0, True], dtype=t).numpy()[0],
    "a number": lambda x, t: tg.array(x, dtype=t).numpy()[0],
    "NumPy's": lambda x, t: tg.array(np.full((2, 2), from_numpy(x)), dtype=t).numpy()[1, 1],
    "shared": lambda x, t: tg.array(np.full(3, from_numpy(x)), dtype=t, copy=False).numpy()[2],
    "full": lambda x, t: tg.full((2, 3), x, t).numpy()[1, 2],
    "full_like": lambda x, t: tg.full_like(tg.zeros(2, t), x).numpy()[1],
    "fill_": lambda x, t: tg.zeros(2, t).fill_(x).numpy()[0],
    "fill_ a row": lambda x, t: tg.zeros((2, 2), t).fill_([0, x]).numpy()[1, 1],
    "fill_ a vector": lambda x, t: tg.zeros(2, VecType(3, t)).fill_([x, 0, 1]).numpy()[1, 0],
    "assign": lambda x, t: tg.zeros(2, t).assign([0, x]).numpy()[1],
    "assign NumPy's": lambda x, t: tg.zeros(2, t).assign(np.full(2, from_numpy(x))).numpy()[1],
    "vectors": lambda x, t: tg.array([[x, 0, 1]], dtype=VecType(3, t)).numpy()[0, 0],
    "a vector type": lambda x, t: VecType(2, t)(x, 0)[0],
    "a matrix type": lambda x, t: MatType(2, 2, t)(x)[1, 1],
}


def check(convert: Conversion, value: Any, t: DType) -> None:
    expected = nearest(value, t)
    if expected is None:
        with pytest.raises(tg.TegulaError) as caught:
            convert(value, t)
        text = "bits" if abs(value) > 2**100 and isinstance(value, int) else str(float(value))[:6]
        assert t.name in str(caught.value) and (text in str(caught.value) or str(value) in str(caught.value))
    else:
        assert is_equal(convert(value, t), expected), (value, t)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_host_numbers_become_the_nearest_number_or_an_error(name: str) -> None:
    rng = random.Random(name)
    for t in DTYPES.values():
        for value in rng.sample(VALUES, 4):
            check(CONVERSIONS[name], value, t)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONVERSIONS)
def test_every_host_number_becomes_the_nearest_number_or_an_error(name: str) -> None:
    for t in DTYPES.values():
        for value in VALUES:
            check(CONVERSIONS[name], value, t)


@pytest.mark.slow
@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_array_conversions_between_all_types_are_nearest_or_an_error(source: DType) -> None:
    """Arrays of one type converted to another, and assigned to arrays of another."""
    numbers = [x for v in VALUES if (x := nearest(v, source)) is not None]
    for t in DTYPES.values():
        for x in numbers:
            value = x.item() if source.name in np.sctypeDict else float(x)
            check(lambda v, t, x=x: tg.array(np.full(2, x), dtype=t).numpy()[1], value, t)
            check(lambda v, t, x=x: tg.zeros(2, t).assign(tg.array(np.full(2, x))).numpy()[1], value, t)


def conversion_kernel(t: Any, source: Any) -> tg.Kernel:
    @tg.kernel
    def identity(x: t, out: tg.array(dtype=source)):  # type: ignore[valid-type]
        out[0] = x

    return identity


def stored_argument(kernel: tg.Kernel, value: Any, t: Any) -> Any:
    out = tg.zeros(1, t)
    tg.launch(kernel, dim=1, block_dim=1, inputs=[value], outputs=[out])
    return out.numpy()[0]


def check_argument(kernel: tg.Kernel, value: Any, t: DType) -> None:
    """Scalars are stricter than elements: no int is accepted for a bool, no float for an int."""
    kind = bool if t.is_bool else int if t.is_int else float
    expected = nearest(value, t)
    is_expected = type(value) is kind or (t.is_float and type(value) is int)
    if expected is not None and is_expected:
        assert is_equal(stored_argument(kernel, value, t), expected), (value, t)
        return
    with pytest.raises(tg.LaunchError) as caught:
        stored_argument(kernel, value, t)
    assert t.name in str(caught.value) and "'x'" in str(caught.value)


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("name", ["int8", "uint64", "float16", "float8_e4m3"])
def test_scalar_arguments_become_the_nearest_number_or_an_error(name: str) -> None:
    kernel, t = conversion_kernel(DTYPES[name], DTYPES[name]), DTYPES[name]
    for value in random.Random(name).sample(VALUES, 12):
        check_argument(kernel, value, t)


@pytest.mark.machine_code
@pytest.mark.slow
@pytest.mark.parametrize("t", DTYPES.values(), ids=str)
def test_every_scalar_argument_becomes_the_nearest_number_or_an_error(t: DType) -> None:
    kernel = conversion_kernel(t, t)
    vectors, matrices = (
        conversion_kernel(VecType(3, t), VecType(3, t)),
        conversion_kernel(MatType(2, 2, t), MatType(2, 2, t)),
    )
    for value in VALUES:
        check_argument(kernel, value, t)
        for composite, arguments in ((vectors, [0, value, 1]), (matrices, [[0, 1], [value, 0]])):
            expected = nearest(value, t)
            parameter_type = composite.parameters[0].annotation
            if expected is None:
                with pytest.raises(tg.LaunchError, match=t.name):
                    stored_argument(composite, arguments, parameter_type)
            else:
                actual = stored_argument(composite, arguments, parameter_type)
                assert is_equal(actual[1] if actual.ndim == 1 else actual[1, 0], expected), (value, t)


@pytest.mark.parametrize(
    "data", [[2**40], [1, 2**63], [2**63, -1], 2**31, [2**70], [[1e39]], -1e39, [0.5, 2**2000]]
)
def test_python_numbers_beyond_int32_and_float32_are_refused(data: Any) -> None:
    """Without a dtype Python's numbers become int32 or float32, whatever their size."""
    with pytest.raises((tg.TegulaError, OverflowError), match="fit|large"):
        tg.array(data)


def test_numpy_numbers_keep_their_type() -> None:
    assert tg.array(np.array([2**40])).dtype == tg.int64
    assert tg.array([np.uint64(2**63)]).dtype == tg.uint64
    assert tg.array(np.array([1e39])).dtype == tg.float64


NON_NUMBERS = ["7", ["7"], None, [None], object, [1, "2"], b"3", {}]
TYPES = [tg.int32, tg.float32, tg.bool, None]


@pytest.mark.parametrize(
    ("data", "t"), [*product(NON_NUMBERS, TYPES), *product([1j, [1j]], TYPES[:-1])], ids=str
)
def test_values_that_are_not_numbers_are_refused(data: Any, t: DType | None) -> None:
    for convert in (lambda: tg.array([data], dtype=t), lambda: tg.zeros(1, t or float).fill_(data)):
        with pytest.raises((TypeError, ValueError), match="number"):
            convert()


SHAPES = [
    -1,
    (-1,),
    (0, -1),
    (0, 2**62),
    (2, -3),
    (-2, -3),
    2.5,
    (2.5, 1),
    (2**62, 4),
    (2**40, 2**40),
    True,
    "12",
    (None,),
    np.array([-1]),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_invalid_lengths_of_arrays_are_refused(shape: Any) -> None:
    for make in (tg.zeros, tg.empty, tg.ones, lambda n: tg.full(n, 2), lambda n: tg.array(shape=n)):
        with pytest.raises(tg.TegulaError, match="shape"):
            make(shape)


@pytest.mark.parametrize("shape", [7, 1e300, 10**30, (2, 10**30), (10**30, -1)])
def test_reshapes_to_another_size_are_refused(shape: Any) -> None:
    with pytest.raises(ValueError, match="cannot reshape an array with 6 elements"):
        tg.ones((2, 3)).reshape(shape)


def test_whole_numbers_of_any_type_are_lengths() -> None:
    for shape in (2, 2.0, (2,), [2], np.int64(2), np.array([2]), (np.float32(2),)):
        assert tg.zeros(shape).shape == (2,)
    assert tg.zeros(6).reshape((2, -1)).shape == (2, 3)
    assert tg.zeros((0, 2**30)).size == 0


@pytest.mark.parametrize("t", [t for t in DTYPES.values() if t.is_float], ids=str)
@pytest.mark.parametrize("huge", [1e300, 10**400, -(10**400)], ids=["1e300", "large", "small"])
def test_float_literals_of_kernels_are_rounded_to_nearest(t: DType, huge: float) -> None:
    """A literal, a captured number, a static value: none becomes an infinity."""
    if t.bits == 64 and isinstance(huge, float):
        return

    @tg.kernel
    def literal(out: tg.array(dtype=t)):  # type: ignore[valid-type]
        out[0] = t(huge)

    @tg.kernel
    def captured(out: tg.array(dtype=t)):  # type: ignore[valid-type]
        tg.tile_store(out, tg.tile_full(1, huge, dtype=t))

    for kernel in (literal, captured):
        with pytest.raises(tg.CompileError, match="does not fit "):
            tg.launch(kernel, dim=1, block_dim=1, inputs=[tg.zeros(1, t)])
