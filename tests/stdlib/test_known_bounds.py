"""Functions that take fewer instructions where arguments are known not to be large give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from measured import STRIDE, numbers

import tegula as tg

LIMITS = {"exp": 71.0, "exp2": 102.0, "exp10": 30.0}
KNOWN = "-tg.abs(x[i])", "tg.min(x[i], {limit})"
SPECIAL = np.array([0.0, -0.0, -np.inf, np.inf, np.nan, -1e-45, -1e30], np.float32)
ENDS = {
    "exp": (-87.34, -103.28, -103.98),
    "exp2": (-126, -149, -150, -151),
    "exp10": (-37.93, -45.16, -45.31),
}


def compiled(name: str, argument: str) -> Any:
    text = f"def kernel(x: tg.array[float], y: tg.array[float]):\n    i = tg.tid()\n    y[i] = tg.{name}({argument})\n"
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    return tg.kernel(source=text)(space["kernel"])


def applied(kernel: Any, x: np.ndarray) -> np.ndarray:
    y = tg.zeros(x.size)
    tg.launch(kernel, x.size, inputs=[tg.array(x)], outputs=[y])
    return y.numpy()


@pytest.mark.parametrize("argument", KNOWN)
@pytest.mark.parametrize("name", LIMITS)
def test_the_same_bits(name: str, argument: str) -> None:
    limit = LIMITS[name]
    plain = compiled(name, "x[i]")
    known = compiled(name, argument.format(limit=limit))
    ends = np.array([*ENDS[name], limit], np.float32).view(np.int32)
    around = (ends[:, None] + np.arange(-2000, 2000, dtype=np.int32)).reshape(-1).view(np.float32)
    for x in (SPECIAL, around, *numbers(STRIDE)):
        least = np.fmin(x, np.float32(limit)) if "min" in argument else -np.abs(x)
        found, wanted = applied(known, x), applied(plain, least.astype(np.float32))
        same = (found.view(np.int32) == wanted.view(np.int32)) | (np.isnan(found) & np.isnan(wanted))
        assert same.all(), x[~same][:3]
    lengths = [len(kernel.ir("prove_bounds").splitlines()) for kernel in (known, plain)]
    assert lengths[0] < lengths[1] - 2, "nothing was known"
