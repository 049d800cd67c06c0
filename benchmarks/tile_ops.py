"""Each tile function against a copy of the bytes that its kernel loads and stores.

    python -m benchmarks.tile_ops [--save] [--missing] [FILTER]

CPU: the CPU time of a kernel that loads tiles, calls the function and stores the result, over the CPU time of a kernel
that loads and stores the same number of bytes. GPU: the instructions of the kernel, compiled for sm_90a, and the
instructions of the copy. A function that takes more than SLOW_RATIO times the copy has a reason in REASONS.
tools/tile_costs_page.py writes all costs to docs/reference/tile_costs.md."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import tegula as tg
from benchmarks.compile_report import machine_code
from benchmarks.compile_report.forms import forward_form
from benchmarks.measure import RESULTS
from tegula.ops import PUBLIC
from tegula.runtime.automatic import build
from tegula.runtime.library import library
from tegula.target import get_cuda_target

SLOW_RATIO = 5.0
PATH = RESULTS / "tile-ops.json"
BLOCK = 128
BYTES = 1 << 23
"""The approximate bytes that each measurement loads and stores."""

FACTORED = "n operations or more for each element, sequential over columns"
ITERATED = "several iterations of about n operations for each element"
REASONS = {
    "tile_argmax": "tracks the index with the maximum, which no single instruction does",
    "tile_argmin": "tracks the index with the minimum, which no single instruction does",
    "tile_argsort": "log2(n)**2 / 2 exchanges for each element",
    "tile_atomic_add": "an atomic addition for each element, on CPUs one at a time",
    "tile_atomic_max": "an atomic maximum for each element, on CPUs by compare-and-swap",
    "tile_atomic_min": "an atomic minimum for each element, on CPUs by compare-and-swap",
    "tile_cholesky": "n / 3 multiply-adds for each element, sequential over columns",
    "tile_cholesky_inplace": "n / 3 multiply-adds for each element, sequential over columns",
    "tile_cholesky_solve": "two triangular solves, sequential over rows",
    "tile_cholesky_solve_inplace": "two triangular solves, sequential over rows",
    "tile_histogram": "an atomic addition in shared memory for each element",
    "tile_determinant": FACTORED,
    "tile_eigh": ITERATED,
    "tile_from_local": "on CPUs the parts of all threads are copied in memory; on GPUs they stay in registers",
    "tile_inverse": FACTORED,
    "tile_inverse_inplace": FACTORED,
    "tile_local": "on CPUs each thread's part is a vector in memory; on GPUs it stays in registers",
    "tile_lower_solve": "sequential over rows: each row needs the previous rows",
    "tile_lower_solve_inplace": "sequential over rows: each row needs the previous rows",
    "tile_lstsq": FACTORED,
    "tile_lu": FACTORED,
    "tile_lu_solve": "two triangular solves, sequential over rows",
    "tile_lu_solve_inplace": "two triangular solves, sequential over rows",
    "tile_matmul": "2 n operations for each element of a result (n, n)",
    "tile_median": "sorts the elements",
    "tile_qr": FACTORED,
    "tile_randf": "a hash of 15 integer operations, twice, for each element, which is not loaded",
    "tile_randi": "a hash of 15 integer operations, twice, for each element, which is not loaded",
    "tile_scan_exclusive": "log2(width) additions for each element, which depends on all previous elements",
    "tile_scan_exclusive_inplace": "log2(width) additions for each element, which depends on all previous elements",
    "tile_scan_inclusive": "log2(width) additions for each element, which depends on all previous elements",
    "tile_scan_inclusive_inplace": "log2(width) additions for each element, which depends on all previous elements",
    "tile_scan_max_inclusive": "log2(width) comparisons with a test for NaN for each element",
    "tile_scan_max_inclusive_inplace": "log2(width) comparisons with a test for NaN for each element",
    "tile_scan_min_inclusive": "log2(width) comparisons with a test for NaN for each element",
    "tile_scan_min_inclusive_inplace": "log2(width) comparisons with a test for NaN for each element",
    "tile_scatter_add": "an atomic addition to an element whose index is known only at run time",
    "tile_scatter_masked": "writes to elements whose indices are known only at run time, one thread at a time on CPUs",
    "tile_slice_indexed": "loads from indices that are known only at run time, each with a bounds check",
    "tile_slogdet": FACTORED,
    "tile_solve": FACTORED,
    "tile_solve_inplace": FACTORED,
    "tile_svd": ITERATED,
    "tile_topk": "sorts the elements",
    "tile_sort": "log2(n)**2 / 2 exchanges for each element",
    "tile_stack_pop": "all threads update one counter in shared memory",
    "tile_stack_push": "all threads update one counter in shared memory",
    "tile_atomic_add_indexed": "an atomic addition for each element, on CPUs one at a time",
    "tile_atomic_cas": "a compare-and-swap for each element, on CPUs one at a time",
    "tile_atomic_exch": "an atomic exchange for each element, on CPUs one at a time",
    **dict.fromkeys(
        ("tile_fft", "tile_ifft", "tile_fft2", "tile_ifft2", "tile_rfft", "tile_irfft"),
        "about 5 * log2(n) operations for each element, with exchanges between threads after each stage",
    ),
    **dict.fromkeys(
        ("tile_dct", "tile_dct_inplace", "tile_idct", "tile_idct_inplace"),
        "a Fourier transform of the same length, and a complex rotation of each element",
    ),
    **dict.fromkeys(
        ("tile_all", "tile_any"),
        "on CPUs elements are converted to bools and combined one by one",
    ),
    "tile_randn": "two draws, a logarithm, a square root and a cosine for each element, which is not loaded",
    "tile_upper_solve": "sequential over rows: each row needs the following rows",
    "tile_upper_solve_inplace": "sequential over rows: each row needs the following rows",
}
"""The reasons for which functions take more than SLOW_RATIO times the copy of their bytes."""

NO_DATA = {
    **dict.fromkeys(
        ("tile_load_async", "tile_store_async", "tile_matmul_wait"), "for schedules by hand: docs/roles.md"
    ),
    **dict.fromkeys(
        ("tile_pipe", "tile_pipe_load", "tile_pipe_pop", "tile_pipe_push", "tile_pipe_release"),
        "for pipes between roles: docs/roles.md",
    ),
    **dict.fromkeys(("tile_stack", "tile_stack_clear", "tile_stack_count"), "moves no elements"),
    **dict.fromkeys(
        (
            *("tile_bvh_query_aabb", "tile_bvh_query_next", "tile_bvh_query_ray", "tile_query_valid"),
            *("tile_bvh_query_sphere", "tile_mesh_query_aabb", "tile_mesh_query_aabb_next"),
            *("tile_mesh_query_point", "tile_mesh_query_ray", "tile_mesh_query_sphere", "tile_nearest"),
        ),
        "searches a bounding volume hierarchy: docs/spatial.md",
    ),
}
"""The functions that are not measured, with the reason."""


@dataclass(frozen=True)
class Case:
    """A function of tiles to measure. `loads`: for each argument `a`, `b`, ... of a block its dtype and shape; `body`:
    statements that compute the tile `r` from these tiles; `result`: the dtype and shape of `r`."""

    body: str
    loads: tuple[tuple[str, tuple[int, ...]], ...] = (("float32", (1024,)),)
    result: tuple[str, tuple[int, ...]] = ("float32", (1024,))
    numbers: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] | None = None

    @property
    def bytes(self) -> int:
        """The bytes that a block loads and stores."""
        return sum(np.dtype(t).itemsize * prod(s) for t, s in (*self.loads, self.result))


F, ONE = "float32", ("float32", (1,))
LINE, PLANE, SQUARE = (F, (1024,)), (F, (32, 32)), (F, (32, 32))
INTS = ("int32", (1024,))
PAIR = (LINE, LINE)
MATRIX, VECTOR = ((F, (32, 32)),), ((F, (32, 32)), (F, (32,)))
PIVOTED = (*VECTOR, ("int32", (32,)))


def positive_definite(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Diagonally dominant matrices; random numbers for other shapes."""
    result = rng.uniform(0.0, 1.0, shape)
    return result + 32 * np.eye(32) if shape[-2:] == (32, 32) else result


def scan(name: str) -> Case:
    return Case(f"tg.{name}(a); r = a" if name.endswith("inplace") else f"r = tg.{name}(a)")


def transform(name: str, loads: tuple[tuple[str, tuple[int, ...]], ...], *shape: int) -> Case:
    """A transform of complex numbers with real parts `a` and imaginary parts `b`. The kernel stores the real parts."""
    body = f"z = tg.tile_map(lambda x, y: tg.vec2(x, y), a, b); tg.tile_{name}(z); r = tg.tile_map(lambda v: v.x, z)"
    return Case(body, loads, (F, shape))


REVERSED = "1023 - tg.tile_arange(1024, dtype=int)"
"""Indices in descending order."""

CASES = {
    "tile_argsort": Case("r = tg.tile_argsort(a)", result=INTS),
    "tile_determinant": Case("r = tg.tile_determinant(a)", MATRIX, ONE, positive_definite),
    "tile_eigh": Case("d, q = tg.tile_eigh(a); r = q", MATRIX, SQUARE, positive_definite),
    "tile_inverse": Case("r = tg.tile_inverse(a)", MATRIX, SQUARE, positive_definite),
    "tile_inverse_inplace": Case("tg.tile_inverse_inplace(a); r = a", MATRIX, SQUARE, positive_definite),
    "tile_lstsq": Case("r = tg.tile_lstsq(a, b)", VECTOR, (F, (32,)), positive_definite),
    "tile_lu": Case("f, p = tg.tile_lu(a); r = f", MATRIX, SQUARE, positive_definite),
    "tile_lu_solve": Case("r = tg.tile_lu_solve(a, c, b)", PIVOTED, (F, (32,)), positive_definite),
    "tile_lu_solve_inplace": Case("tg.tile_lu_solve_inplace(a, c, b); r = b", PIVOTED, (F, (32,)), positive_definite),
    "tile_qr": Case("q, f = tg.tile_qr(a); r = q", MATRIX, SQUARE, positive_definite),
    "tile_slogdet": Case("s, d = tg.tile_slogdet(a); r = d", MATRIX, ONE, positive_definite),
    "tile_solve": Case("r = tg.tile_solve(a, b)", VECTOR, (F, (32,)), positive_definite),
    "tile_solve_inplace": Case("tg.tile_solve_inplace(a, b); r = b", VECTOR, (F, (32,)), positive_definite),
    "tile_svd": Case("u, s, v = tg.tile_svd(a); r = u", MATRIX, SQUARE, positive_definite),
    "tile_topk": Case("r, p = tg.tile_topk(a, 8)", result=(F, (8,))),
    "tile": Case("x = float(lane); r = tg.tile(x)", (), (F, (BLOCK,))),
    "tile_arange": Case("r = tg.tile_arange(1024, dtype=float)", ()),
    "tile_argmax": Case("r = tg.tile_argmax(a)", result=("int32", (1,))),
    "tile_argmin": Case("r = tg.tile_argmin(a)", result=("int32", (1,))),
    "tile_assign": Case("tg.tile_assign(a, b, offset=0); r = a", (LINE, (F, (512,)))),
    "tile_astype": Case("r = tg.tile_astype(a, tg.int32)", result=INTS),
    "tile_atomic_add": Case("tg.tile_atomic_add(out[i], a)"),
    "tile_atomic_max": Case("tg.tile_atomic_max(out[i], a)"),
    "tile_atomic_min": Case("tg.tile_atomic_min(out[i], a)"),
    "tile_axpy": Case("tg.tile_axpy(2.0, a, b); r = b", PAIR),
    "tile_broadcast": Case("r = tg.tile_broadcast(a, shape=(32, 32))", ((F, (32,)),), PLANE),
    "tile_cholesky": Case("r = tg.tile_cholesky(a)", MATRIX, SQUARE, positive_definite),
    "tile_cholesky_inplace": Case("tg.tile_cholesky_inplace(a); r = a", MATRIX, SQUARE, positive_definite),
    "tile_cholesky_solve": Case("r = tg.tile_cholesky_solve(a, b)", VECTOR, (F, (32,)), positive_definite),
    "tile_cholesky_solve_inplace": Case(
        "tg.tile_cholesky_solve_inplace(a, b); r = b", VECTOR, (F, (32,)), positive_definite
    ),
    "tile_concat": Case("r = tg.tile_concat((a, b))", PAIR, (F, (2048,))),
    "tile_diag_add": Case("r = tg.tile_diag_add(a, b)", VECTOR, SQUARE),
    "tile_dot": Case("r = tg.tile_dot(a, b)", PAIR, ONE),
    "tile_empty": Case("r = tg.tile_empty(1024, dtype=float); r[0:512] = a; r[512:] = a", ((F, (512,)),)),
    "tile_extract": Case("out[i, lane] = tg.tile_extract(a, lane)", ((F, (BLOCK,)),), (F, (BLOCK,))),
    "tile_from_local": Case(
        "r = tg.tile_from_local(tg.tile_local(a, (4, 32)), (4, 32), (32, 32))", MATRIX, PLANE
    ),
    "tile_from_thread": Case("r = a + tg.tile_from_thread(1024, float(lane), 3)"),
    "tile_full": Case("r = tg.tile_full(1024, 2.0, dtype=float)", ()),
    "tile_histogram": Case("r = tg.tile_histogram(tg.tile_astype(a * 64.0, tg.int32), 64)", result=("int32", (64,))),
    "tile_load": Case("r = a"),
    "tile_local": Case("r = tg.tile(tg.tile_local(a, (BLOCK,))[3])", result=(F, (BLOCK,))),
    "tile_lower_solve": Case("r = tg.tile_lower_solve(a, b)", VECTOR, (F, (32,)), positive_definite),
    "tile_lower_solve_inplace": Case(
        "tg.tile_lower_solve_inplace(a, b); r = b", VECTOR, (F, (32,)), positive_definite
    ),
    "tile_map": Case("r = tg.tile_map(twice, a)"),
    "tile_matmul": Case("r = tg.tile_matmul(a, b)", (SQUARE, SQUARE), SQUARE),
    "tile_max": Case("r = tg.tile_max(a)", result=ONE),
    "tile_median": Case("r = tg.tile_median(a)", result=ONE),
    "tile_min": Case("r = tg.tile_min(a)", result=ONE),
    "tile_ones": Case("r = tg.tile_ones(1024, dtype=float)", ()),
    "tile_pad": Case("r = tg.tile_pad(a, 1)", MATRIX, (F, (34, 34))),
    "tile_permute": Case("r = tg.tile_permute(a, (1, 0))", MATRIX, PLANE),
    "tile_randf": Case("r = tg.tile_randf(1024, tg.rand_init(42, i))", ()),
    "tile_randi": Case("r = tg.tile_randi(1024, tg.rand_init(42, i))", (), INTS),
    "tile_reduce": Case("r = tg.tile_reduce(tg.mul, a)", result=ONE),
    "tile_reshape": Case("r = tg.tile_reshape(a, (32, 32))", result=PLANE),
    "tile_scatter_add": Case(
        "r = tg.tile_zeros(1024)\nfor k in range(8):\n"
        "    tg.tile_scatter_add(r, (lane * 8 + k) % 1024, a[lane * 8 + k], True)"
    ),
    "tile_scatter_masked": Case(
        "r = tg.tile_zeros(1024)\nfor k in range(8):\n"
        "    tg.tile_scatter_masked(r, (lane * 8 + k) % 1024, a[lane * 8 + k], True)"
    ),
    "tile_slice_indexed": Case("r = tg.tile_slice_indexed(a, tg.tile_astype(b * 1023.0, tg.int32))", PAIR),
    "tile_sort": Case("tg.tile_sort(a, b); r = b", PAIR),
    "tile_squeeze": Case("r = tg.tile_squeeze(a)", ((F, (1, 1024)),)),
    "tile_stack_pop": Case(
        "s = tg.tile_stack(BLOCK, float)\ntg.tile_stack_push(s, a[lane])\n"
        "v, p = tg.tile_stack_pop(s)\nout[i, lane] = v",
        ((F, (BLOCK,)),), (F, (BLOCK,)),
    ),
    "tile_stack_push": Case(
        "s = tg.tile_stack(BLOCK, float)\np = tg.tile_stack_push(s, a[lane])\nout[i, lane] = float(p)",
        ((F, (BLOCK,)),), (F, (BLOCK,)),
    ),
    "tile_store": Case("r = a"),
    "tile_sum": Case("r = tg.tile_sum(a)", result=ONE),
    "tile_transpose": Case("r = tg.tile_transpose(a)", MATRIX, PLANE),
    "tile_upper_solve": Case("r = tg.tile_upper_solve(a, b)", VECTOR, (F, (32,)), positive_definite),
    "tile_upper_solve_inplace": Case(
        "tg.tile_upper_solve_inplace(a, b); r = b", VECTOR, (F, (32,)), positive_definite
    ),
    "tile_view": Case("r = tg.tile_view(a, offset=(1, 2), shape=(16, 16)) * 1.0", MATRIX, (F, (16, 16))),
    "tile_zeros": Case("r = tg.tile_zeros(1024)", ()),
    "tile_all": Case("r = tg.tile_all(a).astype(float)", result=ONE),
    "tile_any": Case("r = tg.tile_any(a).astype(float)", result=ONE),
    "tile_atomic_add_indexed": Case(f"p = {REVERSED}; tg.tile_atomic_add_indexed(out[i], p, a)"),
    "tile_atomic_cas": Case("t = tg.tile_atomic_cas(out[i], 0.0, a)"),
    "tile_atomic_exch": Case("t = tg.tile_atomic_exch(out[i], a)"),
    "tile_empty_like": Case("r = tg.tile_empty_like(a); r[0:512] = a[512:]; r[512:] = a[0:512]"),
    "tile_full_like": Case("r = tg.tile_full_like(a, 2.0)"),
    "tile_load_indexed": Case(f"p = {REVERSED}; r = tg.tile_load_indexed(a_[i], p, 1024)"),
    "tile_ones_like": Case("r = tg.tile_ones_like(a)"),
    "tile_randn": Case("r = tg.tile_randn(1024, tg.rand_init(42, i))", ()),
    "tile_store_indexed": Case(f"p = {REVERSED}; tg.tile_store_indexed(out[i], p, a)"),
    "tile_where": Case("r = tg.tile_where(a > 0.5, a, b)", PAIR),
    "tile_zeros_like": Case("r = tg.tile_zeros_like(a)"),
    "tile_cumsum": scan("tile_cumsum"),
    "tile_cumsum_inplace": scan("tile_cumsum_inplace"),
    **{f"tile_{name}": transform(name, PAIR, 1024) for name in ("fft", "ifft")},
    **{f"tile_{name}": transform(name, (SQUARE, SQUARE), 32, 32) for name in ("fft2", "ifft2")},
    **{f"tile_{name}": Case(f"r = tg.tile_{name}(a)") for name in ("dct", "idct")},
    **{f"tile_{name}_inplace": Case(f"tg.tile_{name}_inplace(a); r = a") for name in ("dct", "idct")},
    "tile_rfft": Case("r = tg.tile_map(lambda v: v.x, tg.tile_rfft(a))", result=(F, (513,))),
    "tile_irfft": Case(
        "z = tg.tile_map(lambda x, y: tg.vec2(x, y), a, b); r = tg.tile_irfft(z, 1024)",
        ((F, (513,)), (F, (513,))),
    ),
    **{
        name: scan(name)
        for kind in ("exclusive", "inclusive", "max_inclusive", "min_inclusive")
        for name in (f"tile_scan_{kind}", f"tile_scan_{kind}_inplace")
    },
}  # fmt: skip


def is_slow(row: Mapping[str, Any]) -> bool:
    """Whether a measured function takes more than SLOW_RATIO times the copy: CPU time, or instructions of a GPU."""
    return max(row["cpu"], row["gpu"]["instructions"] / row["gpu_copy"]["instructions"]) > SLOW_RATIO


def functions() -> list[str]:
    """The tile functions of the language."""
    return sorted(n for n in {*PUBLIC, *library()} if n == "tile" or n.startswith("tile_"))


def kernel_of(case: Case) -> Any:
    """The kernel that loads the tiles of a case, computes and stores the result."""
    names = "abc"[: len(case.loads)]
    ranks = [len(s) + 1 for _, s in case.loads]
    arrays = [f"{n}_: tg.array{k}d[tg.{t}]" for n, k, (t, _) in zip(names, ranks, case.loads, strict=True)]
    arrays.append(f"out: tg.array{len(case.result[1]) + 1}d[tg.{case.result[0]}]")
    lines = [
        f"    {n} = tg.tile_load({n}_[i], shape={s})" for n, (_, s) in zip(names, case.loads, strict=True)
    ]
    body = [f"    {line}" for part in case.body.split("\n") for line in part.split("; ")]
    stores = ["    tg.tile_store(out[i], r)"] if "r = " in case.body else []
    head = f"@tg.kernel\ndef kernel({', '.join(arrays)}):\n    i, lane = tg.tid()\n"
    twice = "@tg.func\ndef twice(x: float):\n    return x + x\n\n\n"
    namespace = tg.exec(twice + head + "\n".join([*lines, *body, *stores]) + "\n", {"tg": tg, "BLOCK": BLOCK})
    return namespace["kernel"]


def arguments(case: Case, blocks: int) -> list[Any]:
    rng = np.random.default_rng(0)
    numbers = case.numbers or (lambda rng, shape: rng.uniform(0.0, 1.0, shape))
    arrays = [tg.array(numbers(rng, (blocks, *s)).astype(t)) for t, s in case.loads]
    return [*arrays, tg.zeros((blocks, *case.result[1]), dtype=getattr(tg, case.result[0]))]


def copy_of(count: int) -> Case:
    """A copy of `count` bytes: half of the bytes are loaded and half are stored."""
    shape = (max(count // 8, 1),)
    return Case("r = a", ((F, shape),), (F, shape))


def cpu_time(case: Case) -> float:
    """The minimum CPU time of a few launches, in seconds per byte."""
    blocks = max(BYTES // case.bytes, 1)
    kernel, args = kernel_of(case), arguments(case, blocks)
    min_seconds = float("inf")
    for _ in range(4):
        begin = time.process_time()
        tg.launch_tiled(kernel, blocks, inputs=args, block_dim=BLOCK)
        min_seconds = min(min_seconds, time.process_time() - begin)
    return min_seconds / (blocks * case.bytes)


def gpu_instructions(case: Case) -> dict[str, int]:
    """The numbers of instructions of the kernel for sm_90a."""
    ((_, compiled),) = forward_form(kernel_of(case), lambda: arguments(case, 4), (4,), BLOCK)
    code = machine_code.read(build(compiled, get_cuda_target("sm_90a")).cubin.sass())
    result = machine_code.counts(code.instructions)
    return {metric: result[metric] for metric in ("instructions", "global", "shared", "barriers")}


def measure_function(name: str) -> dict[str, Any]:
    """The row of a function: its CPU time over the CPU time of the copy, and the instructions of both kernels."""
    case = CASES[name]
    copy = copy_of(case.bytes)
    row: dict[str, Any] = {"name": name, "bytes": case.bytes}
    row["cpu"] = round(cpu_time(case) / cpu_time(copy), 2)
    row["gpu"], row["gpu_copy"] = gpu_instructions(case), gpu_instructions(copy)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name_filter", nargs="?", default="")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--missing", action="store_true", help="only functions that are not in the file")
    options = parser.parse_args()
    rows = json.loads(PATH.read_text()) if PATH.exists() else {}
    for name in functions():
        if options.name_filter not in name or name not in CASES or (options.missing and name in rows):
            continue
        row = measure_function(name)
        note = " (no reason in REASONS)" if row["cpu"] > SLOW_RATIO and name not in REASONS else ""
        gpu, copy = row["gpu"]["instructions"], row["gpu_copy"]["instructions"]
        print(
            f"{name}: {row['cpu']:.2f} times the copy, {gpu} instructions for {copy}{note}",
            flush=True,
        )
        rows[name] = row
        if options.save:
            PATH.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
