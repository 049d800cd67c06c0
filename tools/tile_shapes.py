"""Runs matmuls of random tiles on a GPU, with random element types, orders of the operands, and ops before and after
the matmul, and compares their results and gradients with NumPy in float64.

    python tools/tile_shapes.py --from 0 --to 2000 --jobs 14 --seconds 95
    python tools/tile_shapes.py --from 17 --to 18      one seed again, with its kernel
    python tools/tile_shapes.py --to 50 --offline      compiles them for sm_90a only
    python tools/tile_shapes.py --to 50 --device cpu

The arrays hold small integers, so that every order of summation gives the same bits. Prints a line for each wrong
result and for each error, and how many kernels had which schedule. Exits with 1 if a result is wrong."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from typing import Any

BATCH = 12
"""The seeds that one process runs."""
ROWS = (64, 128, 192, 256, 320)
COLUMNS = (8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256)
DEPTHS = (16, 32, 64, 96, 128)
UNIT = 8
"""The elements of 16 bytes: lengths of arrays are multiples of it, because bulk copies need them; threads copy arrays
of other lengths."""
MAX_RESULT_ELEMENTS = 128 * 256
"""The most elements of a result tile."""
TEXT = """
@tg.kernel({keywords})
def matmul(A: tg.array{left_rank}d[{dtype}], B: tg.array2d[{dtype}], C: tg.array2d[{result}]{parameter}):
    i, j = tg.tid()
    sum = tg.tile_zeros(shape=({m}, {n}), dtype=tg.float32)
    for k in range({count}):
        a = {left}
        b = {right}
        tg.tile_matmul(a, b, sum)
    {after}
    tg.tile_store(C, tg.tile_astype(sum, {result}), offset=(i * {m}, j * {n}))
"""


@dataclass(frozen=True)
class Case:
    """A kernel with its launch. `ragged`: the elements that the last tiles lack along rows, columns and depth."""

    tile: tuple[int, int, int]
    dtype: str
    result: str
    transposed: tuple[bool, bool]
    after: str
    threads: int
    grid: tuple[int, int]
    steps: int
    ragged: tuple[int, int, int]
    stacked: bool
    schedule: dict[str, int]

    @property
    def text(self) -> str:
        """The kernel's source."""
        m, n, k = self.tile
        left = _load("A", (m, k), "i", "k")
        if self.stacked:
            shape = f"shape=({m // 16}, 16, {k}), offset=(i * {m // 16}, 0, k * {k})"
            left = f"tg.tile_reshape(tg.tile_load(A, {shape}), shape=({m}, {k}))"
        elif self.transposed[0]:
            left = f"tg.tile_transpose({_load('A', (k, m), 'k', 'i')})"
        right = _load("B", (k, n), "k", "j")
        if self.transposed[1]:
            right = f"tg.tile_transpose({_load('B', (n, k), 'j', 'k')})"
        after = {
            "": "",
            "relu": "sum = tg.max(sum, 0.5)",
            "residual": f"sum = sum + tg.tile_astype({_load('D', (m, n), 'i', 'j')}, float)",
            "columns": f"sum = sum + tg.tile_load(D, shape={n}, offset=j * {n})",
        }[self.after]
        parameter = {"residual": f", D: tg.array2d[tg.{self.dtype}]", "columns": ", D: tg.array1d[float]"}
        depth = "A.shape[2]" if self.stacked else "A.shape[0]" if self.transposed[0] else "A.shape[1]"
        return TEXT.format(
            m=m,
            n=n,
            dtype=f"tg.{self.dtype}",
            result=f"tg.{self.result}",
            left=left,
            right=right,
            after=after,
            keywords=", ".join(f"{name}={n}" for name, n in self.schedule.items()),
            parameter=parameter.get(self.after, ""),
            left_rank=3 if self.stacked else 2,
            count=f"({depth} + {k - 1}) // {k}",
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """M, N and K of the arrays."""
        m, n, k = self.tile
        ragged = self.ragged
        return self.grid[0] * m - ragged[0], self.grid[1] * n - ragged[1], self.steps * k - ragged[2]


def _load(array: str, shape: tuple[int, int], *offsets: str) -> str:
    """The text of a load of the tile with these indices."""
    offset = ", ".join(f"{index} * {length}" for index, length in zip(offsets, shape, strict=True))
    return f"tg.tile_load({array}, shape={shape}, offset=({offset}))"


def case(seed: int) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    while True:
        tile = rng.choice(ROWS), rng.choice(COLUMNS), rng.choice(DEPTHS)
        if tile[0] * tile[1] <= MAX_RESULT_ELEMENTS:
            break
    dtype = rng.choice(("bfloat16", "bfloat16", "float16"))
    stacked = rng.random() < 0.25
    ragged = [UNIT * rng.randrange(n // UNIT) if rng.random() < 0.5 else 0 for n in tile]
    if stacked:
        ragged[0] = ragged[0] // 16 * 16
    return Case(
        tile,
        dtype,
        rng.choice((dtype, "float32")),
        (rng.random() < 0.3, rng.random() < 0.4),
        rng.choice(("", "", "relu", "residual", "columns")),
        rng.choice((128, 256, 384)),
        (rng.randrange(1, 4), rng.randrange(1, 4)),
        rng.randrange(1, 9),
        (ragged[0], ragged[1], ragged[2]),
        stacked,
        rng.choice(({}, {}, {}, {"consumers": rng.randrange(1, 4)}, {"stages": rng.randrange(1, 4)})),
    )


def outcome(seed: int, device: str) -> tuple[str, str]:
    """The outcome of a seed ("right", "wrong", "refused", "failed" or "compiled"), and the schedule or the reason.
    `device`: the device that runs the kernel; if empty, the kernel is only compiled."""
    import tegula as tg

    test_case = case(seed)
    try:
        space = {"tg": tg}
        tg.exec(test_case.text, space)
        kernel: Any = space["matmul"]
        if not device:
            return "compiled", kernel.check(block_dim=test_case.threads).automatic
        mismatch = difference(test_case, kernel, seed, device)
        text = kernel.explain() if device != "cpu" else ""
        return (
            ("wrong", mismatch)
            if mismatch
            else ("right", text.split("automatic schedule: ")[-1].partition("\n")[0])
        )
    except tg.TegulaError as e:
        return "refused", f"{type(e).__name__}: {str(e).splitlines()[0][-150:]}"
    except Exception as e:
        return "failed", f"{type(e).__name__}: {str(e)[:150]}"


def difference(test_case: Case, kernel: Any, seed: int, device: str) -> str:
    """The difference of the results or gradients of a launch from NumPy's; empty if they agree."""
    import numpy as np

    import tegula as tg

    numbers = np.random.default_rng(seed)

    def draw(*shape: int) -> Any:
        return numbers.integers(-2, 3, shape).astype(np.float64)

    def array(values: Any, dtype: Any) -> Any:
        return tg.array(np.ascontiguousarray(values), dtype=dtype, device=device, requires_grad=True)

    m, n, k = test_case.sizes
    a, b, gradient = draw(m, k), draw(k, n), draw(m, n)
    dtype, result = getattr(tg, test_case.dtype), getattr(tg, test_case.result)
    expected = a @ b
    a_as_stored = a.reshape(m // 16, 16, k) if test_case.stacked else a.T if test_case.transposed[0] else a
    out = tg.zeros((m, n), result, device=device, requires_grad=True)
    args = [array(a_as_stored, dtype), array(b.T if test_case.transposed[1] else b, dtype), out]
    if test_case.after in ("residual", "columns"):
        extra = draw(m, n) if test_case.after == "residual" else draw(n)
        expected = expected + extra
        args.append(array(extra, dtype if test_case.after == "residual" else tg.float32))
    output_gradient = gradient * (expected > 0.5) if test_case.after == "relu" else gradient
    expected = np.maximum(expected, 0.5) if test_case.after == "relu" else expected
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, test_case.grid, args, block_dim=test_case.threads)
    actual = out.numpy()
    rounded = expected.astype(actual.dtype)
    if not np.array_equal(actual, rounded):
        return f"{np.count_nonzero(actual != rounded)} of {actual.size} elements of C"
    tape.backward(grads={out: tg.array(gradient, dtype=result, device=device)})
    gradients = output_gradient @ b.T, a.T @ output_gradient
    gradients = (
        gradients[0].reshape(a_as_stored.shape)
        if test_case.stacked
        else gradients[0].T
        if test_case.transposed[0]
        else gradients[0],
        gradients[1].T if test_case.transposed[1] else gradients[1],
    )
    for name, expected_gradient, arguments in zip("AB", gradients, args, strict=False):
        # Sums are rounded to the type of the array, once for each block that adds to an element.
        error = np.abs(arguments.grad.numpy().astype(np.float64) - expected_gradient).max() / max(
            np.abs(expected_gradient).max(), 1.0
        )
        if error > 0.02:
            return f"the gradient of {name}: {error:.2g}"
    return ""


def batch(first: int, end: int, device: str, limit: float) -> list[list[Any]]:
    """The outcomes of seeds, run by a process of their own."""
    worker_command = [sys.executable, __file__, "--worker", str(first), str(end), "--device", device]
    try:
        completed = subprocess.run(worker_command, capture_output=True, text=True, timeout=max(limit, 1.0))
        lines, error = completed.stdout, completed.stderr if completed.returncode else ""
    except subprocess.TimeoutExpired as e:
        lines, error = (e.stdout or b"").decode(), ""
    record = [json.loads(line) for line in lines.splitlines() if line.startswith("[")]
    if error and len(record) < end - first:
        record.append([first + len(record), "failed", error.strip()[-300:]])
    return record


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--to", dest="end", type=int, default=100, help="the seed after the last one")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--offline", action="store_true")
    parser.add_argument("--worker", nargs=2, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    device = "" if options.offline else options.device
    if options.worker:
        for seed in range(*options.worker):
            print(json.dumps([seed, *outcome(seed, device)]), flush=True)
        return 0
    end = time.monotonic() + options.seconds
    starts = range(options.first, options.end, BATCH)

    def run(first: int) -> list[list[Any]]:
        remaining = end - time.monotonic()
        return batch(first, min(first + BATCH, options.end), device, remaining) if remaining > 1 else []

    outcomes, schedules = Counter[str](), Counter[str]()
    with ThreadPoolExecutor(options.jobs) as pool:
        for rows in pool.map(run, starts):
            for seed, outcome_word, detail in rows:
                outcomes[outcome_word] += 1
                if outcome_word in ("wrong", "failed"):
                    print(f"seed {seed}: {outcome_word}: {detail}\n{case(seed)}")
                else:
                    schedules[detail] += 1
    for detail, count in schedules.most_common(40):
        print(f"{count:5} {detail}")
    print(
        f"{sum(outcomes.values())} kernels: "
        + ", ".join(f"{n} {outcome_word}" for outcome_word, n in sorted(outcomes.items()))
    )
    if options.end - options.first == 1:
        print(case(options.first).text)
    return int(bool(outcomes["wrong"] or outcomes["failed"]))


if __name__ == "__main__":
    sys.exit(main())
