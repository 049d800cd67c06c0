"""Batches of small matrices, Fourier transforms and sorts on a GPU: against PyTorch's calls, and copies of the same
number of bytes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

import tegula as tg
from benchmarks.burst import Call, comparison_row, relative_error
from benchmarks.gpu_cases import SETS, array_of, random
from benchmarks.measure import Row
from tegula import kernels

MATRICES = 100_000
"""The matrices of a batch for factorisations whose peers take milliseconds."""
BATCHES_OF_SLOW_PEERS = {"QR": 2048, "eigenvectors": 16384, "singular vectors": 16384}
"""The matrices of a batch for decompositions whose peers take longer."""
MAX_BATCHED, LARGER_BATCH = 32, 256
"""The largest matrices whose eigenvectors and singular vectors PyTorch computes in batches, and the number of larger
ones."""
SIZES = (8, 16, 32, 64)
NEIGHBOURS = (7, 12, 17, 24, 31, 33, 48)
LENGTHS = {64: 1.0, 256: 1.0, 1024: 1.0, 4096: 1.0, 8192: 1.0, 1000: 0.95, 1155: 0.95, 1009: 0.8}
"""The lengths of transforms, with the minimum ratio to cuFFT's speed."""
NEIGHBOUR_LENGTHS = (60, 67, 101, 128, 240, 509, 512, 521, 960, 2048, 3000, 4001)
NUMBERS = 1 << 26
"""The number of complex numbers of a batch of transforms: 65536 rows of 1024."""
ROWS_OF_KEYS = (128, 256, 512, 1024, 2048, 4096)
NEIGHBOUR_ROWS = (100, 129, 257, 1000, 1025, 3000, 4095, 5000, 8192)
KEYS = 1 << 24
LARGEST = 32
"""The k of top-k."""
COMPARED = 97
"""Every COMPARED-th matrix of a batch is compared where the comparison takes long."""
FEWER_ITERATIONS = 5
"""Iterations of rows whose peer takes tenths of a second."""

Tensors = Sequence[torch.Tensor]


def positive_definite(count: int, n: int, seed: int) -> torch.Tensor:
    """Symmetric positive definite matrices whose eigenvalues are far from 0."""
    a = random((count, n, n), "float32", seed)
    return torch.baddbmm(torch.eye(n, device="cuda"), a, a.transpose(1, 2), alpha=1 / n).contiguous()


def title(name: str, n: int) -> str:
    """The name of a row of matrices."""
    return f"{name} of {n} x {n} float32"


def row_of_matrices(
    name: str,
    n: int,
    inputs: list[Tensors],
    run_kernel: Callable[..., Any],
    peer: Callable[..., Any],
    error: Callable[..., float],
    gate: float | None,
    is_gate_on_copy: bool = False,
    iterations: int = 15,
) -> Row:
    """A row with the rate of the bytes that must be moved. `inputs`: the tensors of each set; `error`: of the results
    for the first set; `is_gate_on_copy`: whether the gate is on the ratio to a copy, instead of PyTorch."""
    first_results = run_kernel(*inputs[0])
    result = error(inputs[0], first_results)
    results = first_results if isinstance(first_results, tuple) else (first_results,)
    moved_bytes = sum(t.numel() * t.element_size() for t in (*inputs[0], *results))
    source, target = (torch.empty(moved_bytes // 8, device="cuda").normal_() for _ in range(2))
    del first_results, results
    peers: dict[str, Call] = {"torch": lambda k: peer(*inputs[k]), "copy_": lambda k: target.copy_(source)}
    order = ("copy_", "torch") if is_gate_on_copy else ("torch", "copy_")
    return comparison_row(
        title(name, n),
        lambda k: run_kernel(*inputs[k]),
        {set_index: peers[set_index] for set_index in order},
        SETS,
        result,
        "float32",
        gate,
        moved_bytes / 1e9,
        "GB/s",
        note=f"{len(inputs[0][0])} matrices",
        iterations=iterations,
    )


def cholesky(n: int) -> Iterator[Row]:
    """Cholesky factors; the gate is on the ratio to a copy."""

    def error(inputs: Tensors, actual: torch.Tensor) -> float:
        wide = actual.double()
        assert not torch.any(torch.triu(actual, 1)), "the other triangle is not 0"
        return relative_error(wide @ wide.transpose(1, 2), inputs[0])

    arguments = [[positive_definite(MATRICES, n, seed)] for seed in range(SETS)]
    gate = 0.8 if n in (16, 32, 64) else None
    peer = torch.linalg.cholesky_ex
    yield row_of_matrices("Cholesky", n, arguments, kernels.cholesky, peer, error, gate, True)


def lower_solve(n: int) -> Iterator[Row]:
    """Triangular systems, each with one right-hand side."""
    arguments = [
        [torch.linalg.cholesky(positive_definite(MATRICES, n, seed)), random((MATRICES, n), "float32", seed)]
        for seed in range(SETS)
    ]
    result = tg.over_batches("tile_lower_solve", [array_of(t) for t in arguments[0]])

    def run(a: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.empty_like(y)
        tg.launch_tiled(result.kernel, result.dim, [a, y], [z], block_dim=result.block_dim)
        return z

    def peer(a: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(a, y[..., None], upper=False)

    def error(inputs: Tensors, z: torch.Tensor) -> float:
        return relative_error(torch.linalg.vecdot(inputs[0].double(), z.double()[:, None, :]), inputs[1])

    yield row_of_matrices("triangular solve", n, arguments, run, peer, error, 2.0 if n in SIZES else None)


def solve(n: int) -> Iterator[Row]:
    """Systems, each with one right-hand side."""
    arguments = [
        [positive_definite(MATRICES, n, seed), random((MATRICES, n), "float32", seed)] for seed in range(SETS)
    ]

    def peer(a: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.linalg.solve_ex(a, y)

    def error(inputs: Tensors, x: torch.Tensor) -> float:
        return relative_error(torch.linalg.vecdot(inputs[0].double(), x.double()[:, None, :]), inputs[1])

    yield row_of_matrices("solve", n, arguments, kernels.solve, peer, error, 2.0 if n in SIZES else None)


def lu(n: int) -> Iterator[Row]:
    """LU factors with exchanged rows."""
    arguments = [[random((MATRICES, n, n), "float32", seed)] for seed in range(SETS)]

    def error(inputs: Tensors, actual: tuple[torch.Tensor, torch.Tensor]) -> float:
        p, lower, upper = torch.lu_unpack(actual[0], actual[1] + 1)
        return relative_error(p.double() @ (lower.double() @ upper.double()), inputs[0])

    peer = torch.linalg.lu_factor_ex
    yield row_of_matrices("LU", n, arguments, kernels.lu, peer, error, 2.0 if n in SIZES else None)


def inverse(n: int) -> Iterator[Row]:
    """Inverses."""
    arguments = [[random((MATRICES, n, n), "float32", seed)] for seed in range(SETS)]

    def error(inputs: Tensors, actual: torch.Tensor) -> float:
        a, x = inputs[0][::COMPARED].double(), actual[::COMPARED].double()
        residual = a @ x - torch.eye(n, dtype=torch.float64, device="cuda")
        norm = torch.linalg.matrix_norm
        return float((norm(residual) / (norm(a) * norm(x))).max())

    def peer(a: torch.Tensor) -> Any:
        return torch.linalg.inv_ex(a)

    gate = 2.0 if n in SIZES else None
    yield row_of_matrices(
        "inverse", n, arguments, kernels.inverse, peer, error, gate, iterations=FEWER_ITERATIONS
    )


def solve_many(n: int) -> Iterator[Row]:
    """Systems, each with as many right-hand sides as rows."""
    arguments = [
        [positive_definite(MATRICES, n, seed), random((MATRICES, n, n), "float32", seed)]
        for seed in range(SETS)
    ]

    def peer(a: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.linalg.solve_ex(a, y)

    def error(inputs: Tensors, x: torch.Tensor) -> float:
        a, y = (t[::COMPARED].double() for t in inputs)
        return relative_error(a @ x[::COMPARED].double(), y)

    gate = 2.0 if n in SIZES else None
    name = "solve of n columns"
    yield row_of_matrices(name, n, arguments, kernels.solve, peer, error, gate, iterations=FEWER_ITERATIONS)


def qr(n: int) -> Iterator[Row]:
    """QR factors. PyTorch computes the orthogonal factors one after another."""
    arguments = [[random((BATCHES_OF_SLOW_PEERS["QR"], n, n), "float32", seed)] for seed in range(SETS)]

    def error(inputs: Tensors, actual: tuple[torch.Tensor, torch.Tensor]) -> float:
        q, r = actual[0].double(), actual[1].double()
        identity = torch.eye(n, device="cuda", dtype=torch.float64).expand_as(q)
        return max(relative_error(q @ r, inputs[0]), relative_error(q.transpose(1, 2) @ q, identity))

    gate = 2.0 if n in SIZES else None
    yield row_of_matrices(
        "QR", n, arguments, kernels.qr, torch.linalg.qr, error, gate, iterations=FEWER_ITERATIONS
    )


def eigh(n: int) -> Iterator[Row]:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    count = BATCHES_OF_SLOW_PEERS["eigenvectors"] if n <= MAX_BATCHED else LARGER_BATCH
    arguments = [[positive_definite(count, n, seed)] for seed in range(SETS)]

    def error(inputs: Tensors, actual: tuple[torch.Tensor, torch.Tensor]) -> float:
        w, v = actual[0].double(), actual[1].double()
        return relative_error((v * w[:, None, :]) @ v.transpose(1, 2), inputs[0])

    gate, peer = 2.0 if n in SIZES else None, torch.linalg.eigh
    yield row_of_matrices(
        "eigenvectors", n, arguments, kernels.eigh, peer, error, gate, iterations=FEWER_ITERATIONS
    )


def svd(n: int) -> Iterator[Row]:
    """Singular values and vectors."""
    count = BATCHES_OF_SLOW_PEERS["singular vectors"] if n <= MAX_BATCHED else LARGER_BATCH
    arguments = [[random((count, n, n), "float32", seed)] for seed in range(SETS)]

    def error(inputs: Tensors, actual: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> float:
        u, s, vt = (t.double() for t in actual)
        return relative_error((u * s[:, None, :]) @ vt, inputs[0])

    gate, peer = 2.0 if n in SIZES else None, torch.linalg.svd
    yield row_of_matrices(
        "singular vectors", n, arguments, kernels.svd, peer, error, gate, iterations=FEWER_ITERATIONS
    )


def transform(n: int) -> Iterator[Row]:
    """Transforms of rows of complex64."""
    row_count = NUMBERS // n
    x = [torch.view_as_complex(random((row_count, n, 2), "float32", seed)) for seed in range(SETS)]
    expected = torch.fft.fft(x[0][:4096].to(torch.complex128))
    error = relative_error_of_complex(kernels.fft(x[0])[:4096], expected)
    last = relative_error_of_complex(kernels.fft(x[0])[-16:], torch.fft.fft(x[0][-16:].to(torch.complex128)))
    copy_target = torch.empty(row_count * n, dtype=torch.complex64, device="cuda")
    yield comparison_row(
        f"FFT of {n} complex64",
        lambda k: kernels.fft(x[k]),
        {"torch": lambda k: torch.fft.fft(x[k]), "copy_": lambda k: copy_target.copy_(x[k].reshape(-1))},
        SETS,
        max(error, last),
        "float32",
        LENGTHS.get(n),
        16 * row_count * n / 1e9,
        "GB/s",
        note=f"{row_count} rows",
    )


def relative_error_of_complex(actual: torch.Tensor, expected: torch.Tensor) -> float:
    return relative_error(torch.view_as_real(actual), torch.view_as_real(expected))


def convolution(n: int) -> Iterator[Row]:
    """A transform, a multiplication by weights and the inverse transform in one kernel, against three calls."""
    row_count, threads = NUMBERS // n, max(32, min(256, n // 16))
    x = [torch.view_as_complex(random((row_count, n, 2), "float32", seed)) for seed in range(SETS)]
    y = [torch.empty_like(t) for t in x]
    weights = random((n,), "float32", 9)
    arrays = [
        [tg.array(torch.view_as_real(a), dtype=tg.vec2f, copy=False) for a in pair]
        for pair in zip(x, y, strict=True)
    ]

    @tg.func
    def weighted(z: tg.vec2f, w: float):
        return z * w

    @tg.kernel
    def convolve(x: tg.array2d[tg.vec2f], w: tg.array1d[float], y: tg.array2d[tg.vec2f]):
        i = tg.tid()
        t = tg.tile_load(x[i], shape=n)
        tg.tile_fft(t)
        t = tg.tile_map(weighted, t, tg.tile_load(w, shape=n))
        tg.tile_ifft(t)
        tg.tile_store(y[i], t)

    def run(k: int) -> None:
        tg.launch_tiled(
            convolve, row_count, [arrays[k][0], scaled_weights], [arrays[k][1]], block_dim=threads
        )

    def peer(k: int, rows: slice = slice(None)) -> torch.Tensor:
        return torch.fft.ifft(torch.fft.fft(x[k][rows]) * weights)

    scaled_weights = array_of(weights / n)
    run(0)
    x128 = x[0][:1024].to(torch.complex128)
    expected = torch.fft.ifft(torch.fft.fft(x128) * weights.double())
    error = relative_error_of_complex(y[0][:1024], expected)
    yield comparison_row(
        f"FFT, weights, inverse of {n} complex64",
        run,
        {"three calls": peer},
        SETS,
        error,
        "float32",
        2.5 if n == 1024 else None,
        16 * row_count * n / 1e9,
        "GB/s",
        note=f"{row_count} rows",
    )


SORTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sort": (kernels.sort, partial(torch.sort, stable=True)),
    "argsort": (kernels.argsort, partial(torch.argsort, stable=True)),
    f"top-{LARGEST}": (partial(kernels.topk, k=LARGEST), partial(torch.topk, k=LARGEST)),
}
"""The function of Tegula and the function of PyTorch."""


def sorts(name: str, n: int) -> Iterator[Row]:
    """Sorted keys, sorted indices, or the largest keys of rows of float32."""
    row_count, gate = KEYS // n, 2.0 if 256 <= n <= 4096 and n in ROWS_OF_KEYS else None
    x = [random((row_count, n), "float32", seed) for seed in range(SETS)]
    call, peer = SORTS[name]
    result, expected = call(x[0]), peer(x[0])
    if name == "argsort":
        is_correct = torch.equal(result.long(), expected)
    else:
        index = result[1].long()
        is_correct = torch.equal(result[0], expected[0]) and torch.equal(
            torch.gather(x[0], 1, index), expected[0]
        )
    assert is_correct, "keys or indices are wrong"
    yield comparison_row(
        f"{name} of {n} float32",
        lambda k: call(x[k]),
        {"torch": lambda k: peer(x[k])},
        SETS,
        0.0,
        "float32",
        gate,
        row_count * n / 1e9,
        "Gkeys/s",
        note=f"{row_count} rows",
    )


MATRIX_CASES: dict[str, tuple[Callable[[int], Iterator[Row]], tuple[int, ...], tuple[int, ...]]] = {
    "Cholesky": (cholesky, SIZES, NEIGHBOURS),
    "triangular solve": (lower_solve, SIZES, (17, 24, 33, 48)),
    "solve": (solve, SIZES, (17, 24, 33, 48)),
    "solve of n columns": (solve_many, SIZES, (17, 33, 48)),
    "LU": (lu, SIZES, (17, 24, 33, 48)),
    "inverse": (inverse, SIZES, (17, 24, 33, 48)),
    "QR": (qr, SIZES, (24, 48)),
    "eigenvectors": (eigh, SIZES, (24, 48)),
    "singular vectors": (svd, SIZES, (24, 48)),
}
"""For each function of matrices the case, the main sizes and the neighbouring sizes."""


def cases() -> dict[str, Callable[[], Iterator[Row]]]:
    """The cases by the name of their row, the main sizes first."""
    result: dict[str, Callable[[], Iterator[Row]]] = {}
    for with_neighbours in (False, True):
        matrix_cases = {
            title(name, n): partial(case, n)
            for name, (case, sizes, neighbours) in MATRIX_CASES.items()
            for n in (neighbours if with_neighbours else sizes)
        }
        result |= {name: case for name, case in matrix_cases.items() if "Cholesky" in name}
        result |= {
            f"FFT of {n} complex64": partial(transform, n)
            for n in (NEIGHBOUR_LENGTHS if with_neighbours else LENGTHS)
        }
        result |= {
            f"FFT, weights, inverse of {n} complex64": partial(convolution, n)
            for n in ((256, 4096) if with_neighbours else (1024,))
        }
        result |= matrix_cases
        result |= {
            f"{name} of {n} float32": partial(sorts, name, n)
            for name in SORTS
            for n in (NEIGHBOUR_ROWS if with_neighbours else ROWS_OF_KEYS)
        }
    return result


CASES = cases()
"""The cases by name, in order; each yields its row."""


def compile_cases(part: int, parts: int) -> None:
    """Compile the kernels of every `parts`-th case for this GPU, from number `part` on, by calls for few elements, so
    that measurements find them in the cache."""
    global MATRICES, NUMBERS, KEYS
    MATRICES, NUMBERS, KEYS = 64, 1 << 16, 1 << 16
    BATCHES_OF_SLOW_PEERS.update(dict.fromkeys(BATCHES_OF_SLOW_PEERS, 64))
    for name, case in list(CASES.items())[part::parts]:
        try:
            next(case())
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)


if __name__ == "__main__":
    compile_cases(int(sys.argv[1]), int(sys.argv[2]))


__all__ = ["CASES", "compile_cases"]
