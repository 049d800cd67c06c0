"""The functions of the standard library, compiled, against wider arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula as tg

Reference = Callable[[Any], Any]
REFERENCES: dict[str, tuple[Reference, Reference, float, float]] = {
    "exp": (np.exp, math.exp, -87.0, 88.0),
    "exp2": (np.exp2, lambda x: math.pow(2.0, x), -125.0, 127.0),
    "expm1": (np.expm1, math.expm1, -20.0, 80.0),
    "log": (np.log, math.log, 1e-30, 1e30),
    "log2": (np.log2, math.log2, 1e-30, 1e30),
    "log10": (np.log10, math.log10, 1e-30, 1e30),
    "log1p": (np.log1p, math.log1p, -0.99, 1e20),
    "sin": (np.sin, math.sin, -1e6, 1e6),
    "cos": (np.cos, math.cos, -1e6, 1e6),
    "tan": (np.tan, math.tan, -1e3, 1e3),
    "asin": (np.arcsin, math.asin, -1.0, 1.0),
    "acos": (np.arccos, math.acos, -1.0, 1.0),
    "atan": (np.arctan, math.atan, -1e6, 1e6),
    "sinh": (np.sinh, math.sinh, -80.0, 80.0),
    "cosh": (np.cosh, math.cosh, -80.0, 80.0),
    "tanh": (np.tanh, math.tanh, -20.0, 20.0),
    "erf": (np.vectorize(math.erf), math.erf, -6.0, 6.0),
    "erfc": (np.vectorize(math.erfc), math.erfc, -6.0, 9.0),
    "cbrt": (np.cbrt, np.cbrt, -1e30, 1e30),
}
FLOAT32_ULP = 2.0
FLOAT64_ULP = 3.0
"""Two ulp of ours and up to one of the C library that it is compared with."""
LOOSER = {"erfc": 20.0}
"""The tail of erfc loses digits where erfc(x) is small."""


def samples(low: float, high: float, dtype: Any) -> np.ndarray:
    """Numbers of all magnitudes between the limits, and around zero where the range holds it."""
    rng = np.random.default_rng(7)
    even = rng.uniform(low, high, 4000)
    if low > 0:
        return np.exp(rng.uniform(math.log(low), math.log(high), 8000)).astype(dtype)
    small = np.exp(rng.uniform(-60, math.log(high), 4000)) * rng.choice([-1.0, 1.0], 4000)
    return np.clip(np.concatenate([even, small]), low, high).astype(dtype)


def applied(name: str, x: np.ndarray, dtype: Any) -> np.ndarray:
    function = getattr(tg, name)
    text = f"def kernel(x: tg.array[T], y: tg.array[T]):\n    i = tg.tid()\n    y[i] = tg.{name}(x[i])\n"
    space: dict[str, Any] = {"tg": tg, "T": dtype, name: function}
    exec(text, space)
    y = tg.zeros(x.size, dtype=dtype)
    tg.launch(tg.kernel(source=text)(space["kernel"]), x.size, inputs=[tg.array(x, dtype=dtype)], outputs=[y])
    return y.numpy()


def ulps(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest distance in units in the last place of the wanted numbers."""
    unit = np.spacing(np.abs(wanted.astype(found.dtype))).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - wanted) / unit))


@pytest.mark.parametrize("name", REFERENCES)
def test_float32(name: str) -> None:
    wide, _, low, high = REFERENCES[name]
    x = samples(low, high, np.float32)
    with np.errstate(all="ignore"):
        wanted = np.asarray(wide(x.astype(np.float64)), np.float64)
    assert ulps(applied(name, x, tg.float32), wanted) <= LOOSER.get(name, FLOAT32_ULP)


@pytest.mark.parametrize("name", REFERENCES)
def test_float64(name: str) -> None:
    _, exact, low, high = REFERENCES[name]
    x = samples(low, high, np.float64)[::4]
    wanted = np.array([exact(v) for v in x])
    assert ulps(applied(name, x, tg.float64), wanted) <= LOOSER.get(name, FLOAT64_ULP)


@pytest.mark.parametrize(
    ("name", "x", "wanted"),
    [
        ("exp", [-math.inf, math.inf, 0.0, 1000.0, math.nan], [0.0, math.inf, 1.0, math.inf, math.nan]),
        ("log", [0.0, -1.0, 1.0, math.inf, math.nan], [-math.inf, math.nan, 0.0, math.inf, math.nan]),
        ("sin", [0.0, -0.0, math.inf, math.nan], [0.0, -0.0, math.nan, math.nan]),
        ("tanh", [-math.inf, math.inf, -0.0, math.nan], [-1.0, 1.0, -0.0, math.nan]),
        ("erf", [-math.inf, math.inf, -0.0, math.nan], [-1.0, 1.0, -0.0, math.nan]),
    ],
)
def test_special_values(name: str, x: list[float], wanted: list[float]) -> None:
    for dtype, kind in ((tg.float32, np.float32), (tg.float64, np.float64)):
        found = applied(name, np.array(x, kind), dtype)
        expected = np.array(wanted, kind)
        np.testing.assert_array_equal(found, expected)
        numbers = ~np.isnan(expected)
        assert np.array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
