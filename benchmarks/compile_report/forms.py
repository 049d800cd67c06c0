"""The forms of kernels in the report: the forms that the GPU rows launch, and the kernels of tests for Hopper."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import tegula as tg
from benchmarks import automatic_kernels, gpu_kernels, query_kernels, role_kernels
from benchmarks.sweep.points import COMPILED_GRADIENTS, GRADIENTS, PREFIX, points
from tegula.dataclass import replace
from tegula.ir import AccessClass, Kernel
from tegula.kernels import gemm, shapes
from tegula.kernels.attention import forward, launch_shape
from tegula.passes.pipeline import prepare
from tegula.runtime.adjoint import adjoint_of
from tegula.runtime.block_scales import scale_for
from tegula.runtime.compile import trace
from tegula.runtime.compound_arguments import flattened
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.launch import plan
from tegula.runtime.resolve import overlaps, requested_specialisation, specialisation
from tegula.target import get_cuda_target
from tegula.types import ArrayType

SCHEDULED = Path(__file__).parents[2] / "tests" / "automatic"
PROCESSORS = 132
"""Multiprocessors of an H200, for choices that depend on their number."""
PACKED = AccessClass(align=64, contiguous=True, dense=True, bulk=True)
PreparedKernels = Iterator[tuple[str, Kernel]]
"""Kernels before the passes for GPUs. A gradient has several kernels, whose names are appended to the name of the
form."""
DTYPES = (tg.bfloat16, tg.float32)


def forward_form(
    kernel: Any, arguments: Callable[[], Sequence[Any]], dims: Sequence[int], threads: int
) -> PreparedKernels:
    """A kernel specialised for the types, ranks and memory layouts of the arguments, and for a launch of `dims` blocks,
    which determines the size of logical blocks."""
    args = arguments()
    specialisations = [SPECIALISATIONS[pack(a)[0]] for pack, a in zip(kernel.packers, args, strict=True)]
    specialised = specialisation(
        specialisations, plan((*dims, threads), threads).launch, overlaps(tuple(args))
    )
    traced_kernel = trace(kernel, specialised.types, specialised.launch, specialised.access)
    prepare(traced_kernel)
    scale = scale_for(traced_kernel, get_cuda_target("sm_90a"), dims, PROCESSORS)
    traced_kernel.launch = replace(traced_kernel.launch, scale=scale)
    yield "", traced_kernel


def gradient_form(
    kernel: Any, arguments: Callable[[], Sequence[Any]], dims: Sequence[int], threads: int
) -> PreparedKernels:
    """Every kernel that may be launched for the gradients of all arrays of floats among the arguments."""
    args = arguments()
    positions = tuple(k for k, a in enumerate(args) if isinstance(a, tg.array) and a.dtype is not tg.int32)
    for k in positions:
        args[k].requires_grad = True
    adjoint = adjoint_of(kernel, positions)
    grads = [args[k].grad for k in positions]
    specialised = requested_specialisation(adjoint, plan((*dims, threads), threads), (*args, *grads))
    for number, part in enumerate(p for step in adjoint.steps_for(specialised) for p in (step, *step.shared)):
        ir = part.step.kernel
        access = [PACKED if isinstance(p.type, ArrayType) else None for p in ir.params]
        traced_kernel = part.trace([p.type for p in ir.params], ir.launch, access)
        prepare(traced_kernel)
        yield f", part {number}: {part.name}", traced_kernel


def zeros(*shapes: Sequence[int], dtype: Any = tg.bfloat16, out: Any = None) -> Callable[[], list[Any]]:
    """A function that creates arrays of one type; the last array has the type `out`, if there is one."""

    def make() -> list[Any]:
        types = [dtype] * (len(shapes) - 1) + [out or dtype]
        return [tg.zeros(tuple(s), dtype=t) for s, t in zip(shapes, types, strict=True)]

    return make


def array_maker(arrays: Callable[[], list[Any]], *numbers: Any) -> Callable[[], list[Any]]:
    return lambda: [*arrays(), *numbers]


# Rows of benchmarks/gpu_cases.py -------------------------------------------------------------------------------------


def rows_of_memory() -> Iterator[tuple[str, Callable[[], PreparedKernels]]]:
    """Copies, maps, norms and sums, and the gradients of norms."""
    n = 1 << 13
    for dtype in DTYPES:
        vectors, rows = zeros((n,), (n,), dtype=dtype), zeros((64, 4096), (64, 4096), dtype=dtype)
        yield f"copy {dtype}", partial(forward_form, gpu_kernels.copy_kernel(4096), vectors, (2,), 256)
        yield (
            f"four operations {dtype}",
            partial(forward_form, gpu_kernels.chain_kernel(4096, dtype), vectors, (2,), 256),
        )
        weights = zeros((64, 4096), (4096,), (4096,), (64, 4096), dtype=dtype)
        weight = zeros((64, 4096), (4096,), (64, 4096), dtype=dtype)
        for name, make, arguments in (
            ("softmax", gpu_kernels.softmax_kernel, rows),
            ("layernorm", gpu_kernels.layernorm_kernel, array_maker(weights, 1e-5)),
            ("rmsnorm", gpu_kernels.rmsnorm_kernel, array_maker(weight, 1e-5)),
        ):
            yield f"{name} {dtype}", partial(forward_form, make(dtype), arguments, (64,), 128)
            yield f"gradients of {name} {dtype}", partial(gradient_form, make(dtype), arguments, (64,), 128)
    float64_rows = zeros((64, 4096), (1,), dtype=tg.float64)
    yield (
        "copy, one element a lane",
        partial(forward_form, gpu_kernels.copy_lanes, zeros((n,), (n,), dtype=tg.float32), (n // 256,), 256),
    )
    yield (
        "scaled sum",
        partial(
            forward_form,
            gpu_kernels.scaled_sum_kernel(4096),
            array_maker(zeros((n,), (n,), (n,), dtype=tg.float32), 1.5),
            (2,),
            256,
        ),
    )
    yield (
        "sum of squares, row tiles",
        partial(forward_form, gpu_kernels.squares_by_rows, float64_rows, (64,), 128),
    )
    yield (
        "sum of squares, the guide's",
        partial(forward_form, gpu_kernels.reduce_array_tile, float64_rows, (64, 16), 256),
    )
    rows = zeros((512, 256), (512, 256), dtype=tg.float32)
    for kernel in (gpu_kernels.sequential, gpu_kernels.pipelined):
        yield f"the guide's {kernel.name}", partial(forward_form, kernel, rows, (1,), 256)


def rows_of_matmuls() -> Iterator[tuple[str, Callable[[], PreparedKernels]]]:
    """Matmuls without roles, matmuls with explicit roles, and the gradients of a matmul without roles."""
    square = zeros(*[(512, 512)] * 3)
    for (tm, tn, tk), stages, threads in (((128, 256, 64), 3, 256), ((128, 128, 32), 4, 128)):
        kernel = gpu_kernels.gemm_kernel(tm, tn, tk, stages)
        yield (
            f"gemm, tile {tm}x{tn}x{tk}",
            partial(forward_form, kernel, square, (512 // tm, 512 // tn), threads),
        )
    kernel = gpu_kernels.gemm_kernel(128, 256, 64, 1)
    yield "gradients of gemm", partial(gradient_form, kernel, square, (4, 2), 256)
    for name, kernel in role_kernels.KERNELS.items():
        yield f"{name} consumers", partial(forward_form, kernel, square, (8,), 384)


# Rows of benchmarks/gpu_library.py -----------------------------------------------------------------------------------


def library_matmul(
    tile: shapes.Tile, transposed: bool, dtype: Any, precision: str, result: Any
) -> PreparedKernels:
    """The kernel of kernels.matmul for a tile."""
    m, n, k = 512, 512, 4096
    kernel = gemm.matmul_kernel(
        dtype, tile, transposed, gemm.Epilogue(tg.float32 if tile.splits > 1 else result), precision
    )
    a, b = tg.zeros((m, k), dtype=dtype), tg.zeros((n, k) if transposed else (k, n), dtype=dtype)
    c = tg.zeros(
        (tile.splits, m, n) if tile.splits > 1 else (m, n), dtype=tg.float32 if tile.splits > 1 else result
    )
    return forward_form(kernel, lambda: [a, b, 0, 1.0, 0.0, c], (PROCESSORS,), 128 * (1 + tile.groups))


def library_attention(depth: int, causal: bool, heads: int, shared: int) -> PreparedKernels:
    """The kernel of kernels.attention."""
    q, o = (tg.zeros((1, heads, 1024, depth), dtype=tg.bfloat16) for _ in range(2))
    k, v = (tg.zeros((1, heads // shared, 1024, depth), dtype=tg.bfloat16) for _ in range(2))
    grid, scalars = launch_shape(q.shape, k.shape, 16, PROCESSORS, causal)
    kernel = forward(tg.bfloat16, depth, causal, False, False)
    return forward_form(kernel, lambda: [q, k, v, 0.1, *scalars, 0, o], grid, 384)


def rows_of_the_library() -> Iterator[tuple[str, Callable[[], PreparedKernels]]]:
    """kernels.matmul with all tiles and types of the rows, and kernels.attention."""
    for dtype, precision, result in (
        (tg.bfloat16, "default", tg.bfloat16),
        (tg.float8_e4m3, "default", tg.bfloat16),
        (tg.float32, "tf32", tg.float32),
        (tg.float32, "default", tg.float32),
    ):
        for tile in shapes.candidates(dtype, False, precision):
            # Tensor cores read float8 and tf32 with K along rows.
            for transposed in (
                (False, True)
                if dtype is tg.bfloat16 or precision != "tf32" and dtype is tg.float32
                else (True,)
            ):
                for splits in (1, 4) if dtype is tg.bfloat16 else (1,):
                    exact = "" if precision == "default" else f" {precision}"
                    b_transposed = ", B transposed" if transposed else ""
                    split = f", split in {splits}" if splits > 1 else ""
                    yield (
                        f"library matmul {dtype}{exact}, tile {tile.rows}x{tile.columns}{b_transposed}{split}",
                        partial(
                            library_matmul, tile.with_splits(splits), transposed, dtype, precision, result
                        ),
                    )
    for depth in (64, 128):
        for causal in (False, True):
            yield (
                f"library attention, heads of {depth}{', causal' if causal else ''}",
                partial(library_attention, depth, causal, 16, 1),
            )
    yield "library attention, 4 heads of keys, causal", partial(library_attention, 128, True, 16, 4)


# Rows of benchmarks/gpu_automatic.py ---------------------------------------------------------------------------------


def rows_of_automatic_schedules() -> Iterator[tuple[str, Callable[[], PreparedKernels]]]:
    """Kernels that get automatic roles, and such kernels of the tests."""
    k, operands = automatic_kernels, zeros(*[(512, 512)] * 3)
    for name, kernel, arguments in (
        ("tile_gemm, float32 result", k.tile_gemm, zeros(*[(512, 512)] * 3, out=tg.float32)),
        ("matmul", k.PLAIN, operands),
        ("one tile ahead", k.prefetching_gemm, operands),
        ("matmul and relu", k.RELU, operands),
        ("matmul and silu", k.SILU, operands),
        ("matmul, ragged", k.PLAIN, zeros((129, 520), (520, 264), (129, 264))),
        ("matmul, unaligned rows", k.PLAIN, zeros((128, 514), (514, 258), (128, 258))),
        ("matmul with int8", k.CONVERTED, _int8(operands)),
        ("matmul with int8 in rows along K", k.int8_weights, _int8(operands)),
    ):
        yield f"automatic {name}", partial(forward_form, kernel, arguments, (4, 2), k.THREADS)
    heads = array_maker(zeros(*[(2, 512, 128)] * 4), 0.1)
    for name, kernel in (
        ("exp2", k.ATTENTION),
        ("exp2, causal", k.CAUSAL),
        ("exp", k.EXACT_ATTENTION),
        ("exp, causal", k.EXACT_CAUSAL),
    ):
        yield f"automatic attention, {name}", partial(forward_form, kernel, heads, (2, 4), k.THREADS)
    if str(SCHEDULED) not in sys.path:
        sys.path.append(str(SCHEDULED))
    from scheduled_kernels import LAUNCHES

    counts: dict[str, int] = {}
    for launch in LAUNCHES:
        counts[launch.name] = counts.get(launch.name, 0) + 1
        suffix = f" ({counts[launch.name]})" if counts[launch.name] > 1 else ""
        yield (
            f"tests: {launch.name}{suffix}",
            partial(forward_form, launch.kernel, launch.arguments, launch.grid, launch.block_dim),
        )


def _int8(arrays: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
    """The arrays with a right operand of int8."""

    def make() -> list[Any]:
        a, b, c = arrays()
        return [a, tg.zeros(b.shape, dtype=tg.int8), c]

    return make


# Rows of benchmarks/gpu_dense.py -------------------------------------------------------------------------------------

FUNCTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Cholesky": ("tile_cholesky", {"fill_mode": "lower", "info": False}),
    "LU": ("tile_lu", {}),
    "solve": ("tile_solve", {}),
    "inverse": ("tile_inverse", {}),
    "QR": ("tile_qr", {}),
    "eigenvectors": ("tile_eigh", {"fill_mode": "lower"}),
    "singular vectors": ("tile_svd", {}),
}
"""The functions of batches of square matrices, by the names of rows, with their constants."""


class ArrayOnGpu(NamedTuple):
    """The properties of an array on a GPU by which its kernel is chosen."""

    shape: tuple[int, ...]
    dtype: Any = tg.float32
    device: str = "cuda:0"


def batched_form(name: str, n: int) -> PreparedKernels:
    """A function of matrices n x n of float32; `solve` has one right-hand side."""
    function, constants = FUNCTIONS[name]
    shapes = [(64, n, n), (64, n)] if name == "solve" else [(64, n, n)]
    batched = tg.over_batches(function, [*map(ArrayOnGpu, shapes)], constants, bounds_check=False)
    arrays = [tg.zeros(s) for s in shapes] + [tg.zeros(s, dtype=t) for s, t in batched.results]
    return forward_form(batched.kernel, lambda: arrays, batched.dim, batched.block_dim)


def rows_of_batches() -> Iterator[tuple[str, Callable[[], PreparedKernels]]]:
    """Batched linear algebra."""
    for name in FUNCTIONS:
        for n in (16, 32):
            yield f"{name} of {n} x {n}", partial(batched_form, name, n)


# Points of benchmarks/sweep -------------------------------------------------------------------------------------------


def rows_of_the_sweep() -> Iterator[tuple[str, Callable[[], PreparedKernels]]]:
    """The kernels of all points, and the adjoints of the points in COMPILED_GRADIENTS."""
    for name, p in points().items():
        yield PREFIX + name, partial(forward_form, p.kernel, p.small.form, p.full.grid, p.threads)
        if name in COMPILED_GRADIENTS:
            yield (
                PREFIX + name + GRADIENTS,
                partial(gradient_form, p.kernel, p.small.form, p.full.grid, p.threads),
            )


# Queries of benchmarks/query_kernels.py -------------------------------------------------------------------------------


def query_form(kernel: Any) -> PreparedKernels:
    """A kernel with a structure among its arguments, which is passed as the struct's fields; a query for each thread or
    for each block."""
    leaf_kernel, leaves = flattened(kernel, tuple(query_kernels.arguments(kernel, 512)()))
    dims = (2,) if kernel is query_kernels.first_hit_of_block else ()
    return forward_form(leaf_kernel, lambda: list(leaves), dims, 256)


def rows_of_queries() -> Iterator[tuple[str, Callable[[], PreparedKernels]]]:
    """The queries of spatial structures."""
    for kernel in (*query_kernels.BVH, *query_kernels.MESH, query_kernels.points_around):
        yield f"query: {kernel.name}", partial(query_form, kernel)


def forms() -> dict[str, Callable[[], PreparedKernels]]:
    """All forms of the report by name, in order."""
    groups = (
        *(rows_of_memory, rows_of_matmuls, rows_of_the_library),
        *(rows_of_automatic_schedules, rows_of_batches, rows_of_the_sweep, rows_of_queries),
    )
    return {name: make for group in groups for name, make in group()}
