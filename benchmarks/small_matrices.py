"""Batches of small matrices and of keys on CPUs against NumPy's calls for the batch. Matrices in wall time, with all
cores, in batches of 4 M elements, which do not fit the caches; sorts in CPU time, because NumPy's have one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

import tegula as tg
from benchmarks.measure import Row, compare

kernels = tg.kernels
Call = Callable[..., Any]
SIZES = (8, 16, 32, 64)
GATES = {
    "Cholesky": (8, 10, 8, 4),
    "solve": (4, 4, 4, 2),
    "QR": (3, 3, 3, 3),
    "eigenvectors": (4, 4, 3, 2),
    "singular vectors": (3, 3, 3, 3),
}
"""The minimum speed of each size relative to NumPy, with AVX-512."""


def matrices(n: int, count: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((count, n, n)).astype(np.float32)


def positive_definite(n: int, count: int) -> np.ndarray:
    a = matrices(n, count)
    return (a @ np.swapaxes(a, 1, 2) / n + np.eye(n)).astype(np.float32)


def row(
    name: str, n: int, run_kernel: Call, peer: Call, inputs: list[np.ndarray], parts: Call, gate: float
) -> Row:
    """`parts`: the parts of the results that are compared with float64."""
    arrays, count = [tg.array(x) for x in inputs], len(inputs[0])
    expected = parts(peer(*(x.astype(np.float64) for x in inputs)), inputs)

    def result() -> np.ndarray:
        result = run_kernel(*arrays)
        return parts(
            tuple(x.numpy() for x in result) if isinstance(result, tuple) else result.numpy(), inputs
        )

    return compare(
        f"{name} of {n} x {n} float32",
        lambda: run_kernel(*arrays),
        lambda: peer(*inputs),
        result,
        expected,
        count / 1e6,
        "M/s",
        f"np.linalg.{peer.__name__}",
        gate,
    )


def solve(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.solve(a, y[..., None])[..., 0]


def matrix_rows() -> Iterator[Row]:
    for k, n in enumerate(SIZES):
        count, small_count = (1 << 22) // (n * n), max(64, (1 << 18) // (n * n))
        y = np.random.default_rng(1).standard_normal((count, n)).astype(np.float32)
        spd, symmetric = (
            positive_definite(n, count),
            matrices(n, small_count) + np.swapaxes(matrices(n, small_count), 1, 2),
        )
        gates = {name: factors[k] for name, factors in GATES.items()}
        cases: tuple[tuple[str, Call, Call, list[np.ndarray], Call], ...] = (
            ("Cholesky", kernels.cholesky, np.linalg.cholesky, [spd], lambda made, given: made),
            ("solve", kernels.solve, solve, [spd, y], lambda made, given: made),
            ("QR", kernels.qr, np.linalg.qr, [matrices(n, count)], lambda made, given: made[0] @ made[1]),
            ("eigenvectors", kernels.eigh, np.linalg.eigh, [symmetric], lambda made, given: made[0]),
            (
                "singular vectors",
                kernels.svd,
                np.linalg.svd,
                [matrices(n, small_count)],
                lambda made, given: made[1],
            ),
        )
        for name, run_kernel, peer, arguments, parts in cases:
            yield row(name, n, run_kernel, peer, arguments, parts, gates[name])
    for n in (128, 256):
        yield row(
            "Cholesky",
            n,
            kernels.cholesky,
            np.linalg.cholesky,
            [positive_definite(n, 16)],
            lambda made, given: made,
            1.2,
        )


def sort_row(n: int, gate: float, kind: Literal["quicksort", "stable"]) -> Row:
    """Sorted indices of rows of random keys."""
    keys = np.random.default_rng(n).standard_normal(((1 << 19) // n, n)).astype(np.float32)
    array, expected = tg.array(keys), np.sort(keys, axis=-1)
    return compare(
        f"indices that sort {n} float32",
        lambda: kernels.argsort(array),
        lambda: np.argsort(keys, axis=-1, kind=kind),
        lambda: np.take_along_axis(keys, kernels.argsort(array).numpy(), -1),
        expected,
        keys.size / 1e6,
        "M/s",
        f"np.argsort, {kind}, CPU time",
        gate,
        clock=time.process_time,
    )


def rows() -> Iterator[Row]:
    """All rows, with the thresholds of processors with AVX-512."""
    yield from matrix_rows()
    for n in (256, 1024, 4096):
        yield sort_row(n, 5.0, "stable")
    for n in (1024, 4096):
        yield sort_row(n, 1.0, "quicksort")
