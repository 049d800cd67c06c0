"""Tegula's own transcendental functions have the same bits in the interpreter and on the CPU, and small errors."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import agree, assert_same_bits

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code

DOMAINS = {
    "exp": (-87.0, 88.0),
    "log": (1e-30, 1e30),
    "sin": (-1000.0, 1000.0),
    "cos": (-1000.0, 1000.0),
    "tan": (-1000.0, 1000.0),
    "tanh": (-12.0, 12.0),
    "sinh": (-20.0, 20.0),
    "cosh": (-20.0, 20.0),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "atan": (-50.0, 50.0),
    "erf": (-4.0, 4.0),
}
ULPS = {"float32": 2.0, "float64": 2.0}
ONE_ULP_FUNCTIONS = ("exp", "log", "sin", "cos", "tan")
SPECIAL_VALUES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    1e-310,
    1e30,
    -1e30,
    0.5,
    88.8,
    709.8,
    -104.0,
    -745.2,
)


@cache
def function_kernel(function: str, name: str) -> Any:
    text = (
        f"def kernel(a: tg.array[tg.{name}], o: tg.array2d[tg.{name}]):\n    i, j = tg.tid()\n"
        "    t = tg.tile_load(a, shape=256, offset=i * 256)\n"
        f"    tg.tile_store(o[0], tg.{function}(t), offset=i * 256)\n"
        f"    o[1, i * 256 + j] = tg.{function}(a[i * 256 + j])\n"
    )
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    return tg.kernel(source=text)(space["kernel"])


def evaluate(function: str, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Arguments from the domain and special values, and the results of the function, which are equal for lanes and
    tiles."""
    dtype = np.dtype(getattr(ml_dtypes, name) if name == "bfloat16" else name)
    low, high = DOMAINS[function]
    rng = np.random.default_rng(1)
    x = np.geomspace(low, high, 2000) if low > 0 else rng.uniform(low, high, 2000)
    with np.errstate(all="ignore"):
        x = np.concatenate([x, SPECIAL_VALUES, np.zeros(32)])[:2048].astype(dtype)
    arguments = [tg.array(x), tg.zeros((2, 2048), dtype=getattr(tg, name))]
    _, out = agree(function_kernel(function, name), arguments, 8, 256, tiled=True)
    assert_same_bits(out[0], out[1], "tile against lanes")
    return x, out[0]


def reference_values(function: str, x: np.ndarray) -> np.ndarray:
    if function == "erf":
        from math import erf

        return np.array([erf(v) for v in x.astype(np.float64).tolist()], np.longdouble)
    numpy_name = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(function, function)
    return getattr(np, numpy_name)(x.astype(np.longdouble))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
@sampled(3, "function", list(DOMAINS))
def test_transcendentals_are_bit_equal_and_accurate(function: str, name: str) -> None:
    x, actual = evaluate(function, name)
    if name not in ULPS:
        return
    x, actual = x[:2000], actual[:2000]
    expected = reference_values(function, x)
    ulp = np.spacing(np.abs(expected).astype(name)).astype(np.longdouble)
    error = np.abs(actual.astype(np.longdouble) - expected) / ulp
    limit = 1.0 if name == "float64" and function in ONE_ULP_FUNCTIONS else ULPS[name]
    # math.erf itself has an error of about one ulp in float64.
    limit += 1.0 if name == "float64" and function == "erf" else 0.0
    worst_index = int(np.argmax(error))
    assert error[worst_index] <= limit, (
        f"{function}({x[worst_index]!r}) = {actual[worst_index]!r}, off by {error[worst_index]:.2f} ulps"
    )
