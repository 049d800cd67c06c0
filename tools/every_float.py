"""Measures functions of one argument at every float32, float16 and bfloat16, and stores the largest errors in
tests/stdlib/every_float.json, from which tools/accuracy_page.py makes its table.

    python tools/every_float.py [FUNCTION ...] [--device cuda:0] [--seconds 480] [--again]

Each function is compared with its float64 form, whose error is known to be below 2**-28 of a unit of float32, in units
in the last place of float32; 16-bit results must be the float32 results, rounded once. Functions that are in the file
are not measured again, so that a run which reached `--seconds` can be continued. Exits with 1 if an error exceeds the
documented bound."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "tests" / "stdlib" / "every_float.json"
for folder in ("tests/stdlib", "src"):
    sys.path.insert(0, str(ROOT / folder))

import tegula as tg  # noqa: E402

ROUNDED_ONCE = {"sqrt": 0.5}
EXACT = dict.fromkeys(("abs", "neg", "floor", "ceil", "trunc", "rint", "round", "sign", "frac"), 0.0)
"""Bounds for functions that tests/stdlib does not measure."""
TILE, LAUNCH = 4096, 1 << 24
"""The numbers in a block, and in a launch."""
TEXT = """import tegula as tg


@tg.func
def f(x):
    return tg.{name}(x)


@tg.func
def error(number: tg.uint32):
    x = tg.bitcast(number, tg.float32) actual = tg.float64(f(x)) exact = f(tg.float64(x)) exponent =
    int((tg.bitcast(exact, tg.uint64) >> tg.uint64(52)) & tg.uint64(2047)) - 1023 unit =
    tg.bitcast(tg.int64(tg.max(exponent, -126) + 1000) << tg.int64(52), tg.float64) value = tg.where(tg.isinf(actual),
    tg.copysign(tg.float64(2.0**128), actual), actual) wrong = tg.float64(tg.inf) distance = tg.where(value == exact,
    tg.float64(0.0), tg.abs(value - exact) / unit) same_infinity = tg.isinf(actual) and (actual > tg.float64(0.0)) ==
    (exact > tg.float64(0.0)) distance = tg.where(tg.abs(exact) >= tg.float64(2.0**128), tg.where(same_infinity,
    tg.float64(0.0), wrong), distance) both_nan = tg.isnan(actual) and tg.isnan(exact) any_nan = tg.isnan(actual) or
    tg.isnan(exact) return tg.where(any_nan, tg.where(both_nan, tg.float64(0.0), wrong), distance)


@tg.kernel def largest(first: tg.uint32, errors: tg.array[tg.float64], positions: tg.array[int]):
    i = tg.tid() start = first + tg.uint32(i) * tg.uint32({tile}) numbers = tg.tile_arange({tile}, dtype=tg.uint32) +
    start distances = tg.tile_map(error, numbers) errors[i] = tg.tile_max(distances)[0] positions[i] =
    int(tg.tile_argmax(distances)[0])


@tg.kernel
def narrow(x: tg.array[T], y: tg.array[T]):
    i = tg.tid()
    y[i] = f(x[i])


@tg.kernel
def wide(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    y[i] = f(x[i])
"""


def names_of(name: str, narrow: Any = None) -> dict[str, Any]:
    """The kernels that measure a function."""
    return tg.exec(TEXT.format(name=name, tile=TILE), {"T": narrow or tg.float16})


def float32_error(name: str) -> tuple[float, float]:
    """The largest error at all float32 numbers, and its argument."""
    kernel = names_of(name)["largest"]
    errors = tg.zeros(LAUNCH // TILE, dtype=tg.float64)
    positions = tg.zeros(LAUNCH // TILE, dtype=int)
    worst, number = 0.0, 0
    for first in range(0, 1 << 32, LAUNCH):
        tg.launch_tiled(kernel, LAUNCH // TILE, inputs=[first, errors, positions], block_dim=256)
        result = errors.numpy()
        i = int(np.argmax(result))
        if result[i] > worst:
            worst, number = float(result[i]), first + i * TILE + int(positions.numpy()[i])
    return worst, float(np.uint32(number).view(np.float32))


def narrow_float_error(name: str, t: Any) -> int:
    """The number of arguments of 16 bits at which the result is not the float32 result, rounded once."""
    result = names_of(name, t)
    stored = tg.dtype_to_numpy(t)
    x = np.arange(1 << 16, dtype=np.uint16).view(stored)
    y, wide = tg.zeros(x.size, dtype=t), tg.zeros(x.size, dtype=tg.float32)
    tg.launch(result["narrow"], x.size, inputs=[tg.array(x, dtype=t)], outputs=[y])
    tg.launch(result["wide"], x.size, inputs=[tg.array(x.astype(np.float32))], outputs=[wide])
    with np.errstate(all="ignore"):
        expected, actual = wide.numpy().astype(stored), y.numpy()
    both_nan = np.isnan(expected.astype(np.float32)) & np.isnan(actual.astype(np.float32))
    return int(((expected.view(np.uint16) != actual.view(np.uint16)) & ~both_nan).sum())


def documented_bounds() -> dict[str, float]:
    """The documented error bounds of the functions of one number, in float32."""
    from measured_errors import CASES

    measured = {name: case.bounds[0] for name, case in CASES.items() if not case.second}
    return {**measured, **ROUNDED_ONCE, **EXACT}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("functions", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--again", action="store_true", help="measure functions that are in the file too")
    options = parser.parse_args()
    bounds, begin, exceeded = documented_bounds(), time.monotonic(), 0
    requested = options.functions or [*bounds]
    stored = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with tg.ScopedDevice(options.device):
        for name in requested:
            if name not in stored or options.again:
                if time.monotonic() - begin > options.seconds:
                    print(f"out of time: {name} and the functions after it are not measured")
                    return 1
                error, argument = float32_error(name)
                differ = {str(t): narrow_float_error(name, t) for t in (tg.float16, tg.bfloat16)}
                stored[name] = {"float32": error, "at": argument, "differ": differ}
                RESULTS.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
            result = stored[name]
            exceeds_bound = result["float32"] > bounds[name] or any(result["differ"].values())
            exceeded += exceeds_bound
            note = (
                f"{result['float32']:.4f} at {result['at']!r} (bound: {bounds[name]:g}), {result['differ']}"
            )
            print(f"{'BAD ' if exceeds_bound else ''}{name}: {note}", flush=True)
    print(
        f"{len(requested)} functions, {exceeded} above the documented bound, {time.monotonic() - begin:.0f} s"
    )
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
