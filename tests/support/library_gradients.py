"""Functions of the standard library, and the ranges of the arguments at which their gradients are tested."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg
from tegula.stdlib import EXACT_DEFINITIONS

D = tg.float64


UNARY_RANGES = {
    **dict.fromkeys(("exp", "exp2", "exp10", "expm1", "sinh", "cosh", "tanh", "erf", "erfc"), (-2.0, 2.0)),
    **dict.fromkeys(("degrees", "radians"), (-2.0, 2.0)),
    **dict.fromkeys(("rsqrt", "cbrt", "log", "log2", "log10", "sign"), (0.2, 3.0)),
    **dict.fromkeys(("asin", "acos", "erfinv"), (-0.9, 0.9)),
    **{"log1p": (-0.5, 3.0), "sin": (-9.0, 9.0), "cos": (-9.0, 9.0), "tan": (-1.0, 1.0), "atan": (-3.0, 3.0)},
    "round": (0.6, 1.4),
}


BINARY_RANGES = {
    "hypot": ((-2.0, 2.0), (-2.0, 2.0)),
    "mod": ((3.0, 3.4), (0.7, 0.75)),
    "pow": ((0.3, 2.0), (-2.0, 2.0)),
    "atan2": ((0.3, 2.0), (-2.0, -0.3)),
}


UNARY_RANGES |= {name: exact.smooth[0] for name, exact in EXACT_DEFINITIONS.items() if len(exact.smooth) == 1}
BINARY_RANGES |= {name: exact.smooth for name, exact in EXACT_DEFINITIONS.items() if len(exact.smooth) == 2}


def inputs(*ranges: tuple[float, float]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [tg.array(rng.uniform(*r, 16), dtype=D, requires_grad=True) for r in ranges]
