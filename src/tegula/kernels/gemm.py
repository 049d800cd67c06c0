"""Matmuls with persistent blocks, in which one role fetches tiles and another role multiplies the tiles.

If there are fewer tiles than blocks, several blocks split the K dimension of a tile (split-K), and a second kernel sums
the partial sums."""

from collections.abc import Callable
from functools import lru_cache, partial
from math import ceil
from typing import Any, NamedTuple

import tegula as tg
from tegula.kernels.activations import EXACT_ACTIVATIONS, SHORT_ACTIVATIONS
from tegula.kernels.operands import (
    ByteRanges,
    ConfigCache,
    Copies,
    allows_bulk_reads,
    checked_array,
    expect_disjoint,
    expect_shape,
    make_allocator,
    needs_gradient,
    processors,
    scratch,
    transposed_copy,
    with_aligned_copy,
)
from tegula.kernels.shapes import DeviceRates, Tile, candidates, choose, cpu_rates, speed

DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3", "float8_e5m2")
RESULTS = ("bfloat16", "float16", "float32")
PRECISIONS = ("default", "tf32")
RASTER = 8
WIDTH, THREADS = 256, 64
"""The number of elements of a row per block of the second kernel, and the number of threads per block."""


class Epilogue(NamedTuple):
    """The epilogue of a matmul. `result`: the dtype of the output; `scaled`: alpha is not 1; `accumulates`: beta is not
    0; `biased`: there is a bias; `activation`: the name of a function, or ""; `exact`: the activation has the accuracy
    of float32."""

    result: Any
    scaled: bool = False
    accumulates: bool = False
    biased: bool = False
    activation: str = ""
    exact: bool = False

    def function(self) -> Any:
        """The kernel function that applies the epilogue to a tile of sums and stores the result."""
        result, scaled, accumulates, biased, name, exact = self
        activation = (EXACT_ACTIVATIONS if exact else SHORT_ACTIVATIONS).get(name)

        @tg.func
        def apply_epilogue(total: Any, bias: Any, alpha: float, beta: float, c: Any, row: int, column: int):
            if scaled:
                total = total * alpha
            if accumulates:
                previous = tg.tile_load(c, shape=total.shape, offset=(row, column))
                total = total + tg.tile_astype(previous, tg.float32) * beta
            if biased:
                bias_row = tg.tile_load(bias, shape=total.shape[1], offset=column)
                total = total + tg.tile_reshape(
                    tg.tile_astype(bias_row, tg.float32), shape=(1, total.shape[1])
                )
            if name:
                total = tg.tile_map(activation, total)
            tg.tile_store(c, tg.tile_astype(total, result), offset=(row, column))

        return apply_epilogue


@lru_cache(maxsize=256)
def matmul_kernel(
    dtype: Any, tile: Tile, transposed: bool, epilogue: Epilogue, precision: str = "default"
) -> Any:
    """The kernel for operands of a dtype. `precision`: as for tile_matmul. With split-K, the output has the partial
    sums of each split, (splits, M, N) of float32, without an epilogue."""
    rows, columns, depth, stages, groups, _, splits, swapped = tile
    shape = (columns, depth) if transposed else (depth, columns)
    sums = (columns, rows) if swapped else (rows, columns)
    bias_type = tg.array1d[Any] if epilogue.biased else int
    output_type = tg.array2d[epilogue.result] if splits == 1 else tg.array3d[tg.float32]
    row_axis, apply_epilogue = int(splits > 1), epilogue.function()

    @tg.kernel
    def matmul(
        a: tg.array2d[dtype], b: tg.array2d[dtype], bias: bias_type, alpha: float, beta: float, c: output_type
    ):
        left = tg.tile_pipe(shape=(rows, depth), dtype=dtype, stages=stages)
        right = tg.tile_pipe(shape=shape, dtype=dtype, stages=stages)
        height = (c.shape[row_axis] + rows - 1) // rows
        width = (c.shape[row_axis + 1] + columns - 1) // columns
        # Out-of-bounds elements are loaded as 0.
        steps = (a.shape[1] + depth * splits - 1) // (depth * splits)
        with tg.role("fetch", warp_groups=1, registers=40 if swapped else 24):
            for i, j in tg.persistent_tiles((height, width * splits), raster=RASTER):
                first = j // width * steps if splits > 1 else 0
                column = j % width * columns if splits > 1 else j * columns
                for k in range(steps):
                    tg.tile_pipe_load(left, a, offset=(i * rows, (first + k) * depth))
                    if transposed:
                        tg.tile_pipe_load(right, b, offset=(column, (first + k) * depth))
                    else:
                        tg.tile_pipe_load(right, b, offset=((first + k) * depth, column))
        with tg.role("multiply", warp_groups=groups, registers=232 if swapped else 240):
            for i, j in tg.persistent_tiles((height, width * splits), raster=RASTER):
                total = tg.tile_zeros(shape=sums, dtype=tg.float32)
                for _k in range(steps):
                    x, y = tg.tile_pipe_pop(left), tg.tile_pipe_pop(right)
                    if swapped and transposed:
                        tg.tile_matmul(y, tg.tile_transpose(x), total, precision=precision)
                    elif swapped:
                        tg.tile_matmul(tg.tile_transpose(y), tg.tile_transpose(x), total, precision=precision)
                    elif transposed:
                        tg.tile_matmul(x, tg.tile_transpose(y), total, precision=precision)
                    else:
                        tg.tile_matmul(x, y, total, precision=precision)
                # The copy keeps the accumulators of the MMA in registers; a transposed tile is stored in shared memory.
                result = tg.tile_transpose(total * 1.0) if swapped else total
                if splits > 1:
                    tg.tile_store(c[j // width], result, offset=(i * rows, j % width * columns))
                else:
                    apply_epilogue(result, bias, alpha, beta, c, i * rows, j * columns)

    return matmul


@lru_cache(maxsize=256)
def sum_splits_kernel(splits: int, epilogue: Epilogue) -> Any:
    """The kernel that reduces the partial sums over splits. All splits of an element are loaded as one tile, so that
    the loads overlap."""
    bias_type = tg.array1d[Any] if epilogue.biased else int
    apply_epilogue = epilogue.function()

    @tg.kernel
    def add(
        split_sums: tg.array3d[tg.float32],
        bias: bias_type,
        alpha: float,
        beta: float,
        c: tg.array2d[epilogue.result],
    ):
        i, j = tg.tid()
        partial_sums = tg.tile_load(split_sums, shape=(splits, 1, WIDTH), offset=(0, i, j * WIDTH))
        total = tg.tile_sum(partial_sums, axis=0)
        apply_epilogue(total, bias, alpha, beta, c, i, j * WIDTH)

    return add


@lru_cache(maxsize=256)
def epilogue_kernel(epilogue: Epilogue) -> Any:
    """The kernel for alpha = 0, which applies the epilogue to zeros and does not read `a` and `b`."""
    bias_type = tg.array1d[Any] if epilogue.biased else int
    apply_epilogue = epilogue.function()

    @tg.kernel
    def scale(bias: bias_type, alpha: float, beta: float, c: tg.array2d[epilogue.result]):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(1, WIDTH), dtype=tg.float32)
        apply_epilogue(total, bias, alpha, beta, c, i, j * WIDTH)

    return scale


def matmul(
    a: Any,
    b: Any,
    out: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | None = None,
    transpose_b: bool = False,
    precision: str = "default",
    tile: Tile | None = None,
) -> Any:
    """The matmul of two matrices with an epilogue: activation(alpha * a @ b + beta * out + bias).

    Products are summed in float32. On a GPU the MMA of float8 and tf32 operands reads K-major operands; a `b` of (K, N)
    is transposed first.

    Parameters:
        a: (M, K), of bfloat16, float16, float32, float8_e4m3 or float8_e5m2, with any strides.
        b: (K, N), or (N, K) with `transpose_b`, of the dtype of `a`.
        out: (M, N), of bfloat16, float16 or float32, in memory disjoint from the inputs; by default a new array of the
            dtype of `a`, or of bfloat16 if `a` is float8.
        alpha: a number, the factor of the matmul; 1 by default. With 0, `a` and `b` are not read, so that their NaNs
            have no effect.
        beta: a number, the factor of the old elements of `out`; 0 by default, which does not read the old elements.
        bias: (N,), of bfloat16, float16 or float32, or None; None by default.
        activation: None, "relu", "gelu" (by the error function) or "silu".
        transpose_b: whether `b` is (N, K); False by default.
        precision: a string, "default" or "tf32". With "tf32", GPUs round float32 operands to 10 fraction bits and use
            tensor cores.
        tile: the tiling of the output; chosen by its shape by default.
    Returns:
        `out`, or a new array on the device of the inputs: a PyTorch tensor if `a` is a PyTorch tensor, else a tg.array.
    Raises:
        launch: shapes, dtypes, devices or options do not fit, or `beta` has no `out`.
    Gradient:
        recorded by tapes, for all options; a new output has a gradient if an input has one.
    Source:
        BLAS gemm.
    """
    if out is None and beta:
        raise tg.LaunchError(f"matmul: beta={beta} scales 'out', which is missing", "pass out=")
    factor = 0 if alpha == 0 else 1 if alpha == 1 else None
    options = factor, bool(beta != 0), activation, bool(transpose_b), precision, tile
    plan: GemmConfig = plans.find((a, b, bias), out, options)
    needs_grad = needs_gradient(a, b, bias, out)
    if out is None:
        out = plan.new()
        if needs_grad and isinstance(out, tg.array):
            out.requires_grad = True
    if plan.kernel is None:
        return out
    epilogue_arguments = [0 if bias is None else bias, float(alpha), float(beta)]
    if plan.epilogue_grid is not None:
        tg.launch_tiled(plan.kernel, plan.epilogue_grid, epilogue_arguments, [out], block_dim=THREADS)
        return out
    if plan.copies:
        first, second = plan.copies
        a, b = first(a) if first else a, second(b) if second else b
    if plan.split_sums is None:
        tg.launch_tiled(plan.kernel, plan.blocks, [a, b, *epilogue_arguments], [out])
        return out
    shape, add, grid = plan.split_sums
    sums = scratch(shape, a, plan.device, needs_grad)
    tg.launch_tiled(plan.kernel, plan.blocks, [a, b, 0, 1.0, 0.0], [sums])
    tg.launch_tiled(add, grid, [sums, *epilogue_arguments], [out], block_dim=THREADS)
    return out


class GemmConfig(NamedTuple):
    """The configuration of a matmul for all arguments with one launch key. `new`: the function that allocates a
    missing output; `byte_ranges`: the byte ranges of the passed output and the inputs. `kernel`: None if there is
    nothing to compute; `blocks`: the number of blocks. `copies`: for each operand the function that makes an aligned
    copy for bulk copies, or None; empty if neither operand needs a copy. `split_sums`: for split-K the shape of the
    partial sums, the kernel that reduces the partial sums, and the grid of this kernel. `epilogue_grid`: for alpha = 0
    the grid of the kernel without operands."""

    new: Callable[[], Any]
    device: Any
    byte_ranges: ByteRanges | None
    kernel: Any = None
    blocks: int = 0
    copies: Copies = ()
    split_sums: tuple[tuple[int, int, int], Any, tuple[int, int]] | None = None
    epilogue_grid: tuple[int, int] | None = None


def _configure(
    a: Any,
    b: Any,
    bias: Any,
    out: Any,
    factor: int | None,
    accumulates: bool,
    activation: str | None,
    transposed: bool,
    precision: str,
    tile: Tile | None,
) -> GemmConfig:
    """The configuration for arguments of matmul; LaunchError for arguments that do not fit. `factor`: alpha if it is 0
    or 1, else None."""
    left, right = checked_array("matmul", "a", a, 2, DTYPES), checked_array("matmul", "b", b, 2, DTYPES)
    _check(left, right, transposed, precision, activation)
    dtype, device = left.dtype, left.device
    (m, depth), n = left.shape, right.shape[0 if transposed else 1]
    result = dtype if dtype.bits > 8 else tg.bfloat16
    allocate, inputs = make_allocator((m, n), result, a, device), {"a": left, "b": right}
    if bias is not None:
        inputs["bias"] = checked_array("matmul", "bias", bias, 1, RESULTS)
        expect_shape("matmul", "bias", inputs["bias"], (n,), "'b'")
    byte_ranges = None
    if out is not None:
        target = checked_array("matmul", "out", out, 2, RESULTS)
        expect_shape("matmul", "out", target, (m, n), "'a' and 'b'")
        byte_ranges, result = expect_disjoint("matmul", target, inputs), target.dtype
    if not m or not n:
        return GemmConfig(allocate, device, byte_ranges)
    precision = precision if dtype == tg.float32 else "default"
    exact = dtype == tg.float32 and precision == "default"
    epilogue = Epilogue(result, factor is None, accumulates, bias is not None, activation or "", exact)
    row_grid = m, ceil(n / WIDTH)
    if factor == 0:
        return GemmConfig(
            allocate, device, byte_ranges, kernel=epilogue_kernel(epilogue), epilogue_grid=row_grid
        )
    # Loads of the old elements of `out` and the exact gelu need many registers in the epilogue.
    needs_registers = accumulates or (activation == "gelu" and result == tg.float32)
    blocks = processors(device)
    if tile is None:
        rates = (
            cpu_rates(blocks)
            if device.is_cpu
            else DeviceRates(blocks).for_strides(left.strides[0], right.strides[0])
        )
        tiles_to_choose = candidates(dtype, needs_registers, precision)
        tile = choose(m, n, depth, dtype.bits / 8, speed(dtype, precision), tiles_to_choose, rates)
    transposes = not transposed and (dtype.bits == 8 or precision == "tf32") and not device.is_cpu
    # The number of blocks is even, so that 2-CTA clusters can multicast.
    tiles = ceil(m / tile.rows) * ceil(n / tile.columns) * tile.splits
    copy = partial(with_aligned_copy, dtype=dtype)
    second = (
        partial(transposed_copy, dtype=dtype) if transposes else None if allows_bulk_reads(right) else copy
    )
    copies = (None if allows_bulk_reads(left) else copy, second)
    split_sums = None
    if tile.splits > 1:
        split_sums = (tile.splits, m, n), sum_splits_kernel(tile.splits, epilogue), row_grid
        epilogue = Epilogue(tg.float32)
    return GemmConfig(
        allocate,
        device,
        byte_ranges,
        kernel=matmul_kernel(dtype, tile, transposed or transposes, epilogue, precision),
        blocks=min(blocks, tiles + tiles % 2),
        copies=copies if any(copies) else (),
        split_sums=split_sums,
    )


def _check(left: Any, right: Any, transposed: bool, precision: str, activation: str | None) -> None:
    """Raise LaunchError if the operands do not fit each other or an option is unknown."""
    if left.dtype != right.dtype:
        message = f"matmul: 'a' and 'b' must be of one dtype, got {left.dtype} and {right.dtype}"
        raise tg.LaunchError(message, "convert one of the operands")
    depth, n = left.shape[1], right.shape[0 if transposed else 1]
    operand_text = f"'a' of shape {left.shape}" + " with transpose_b" * transposed
    expect_shape("matmul", "b", right, (n, depth) if transposed else (depth, n), operand_text)
    if precision not in PRECISIONS:
        message = f"matmul: there is no precision {precision!r}"
        raise tg.LaunchError(message, f"choose from {', '.join(PRECISIONS)}")
    if activation is not None and activation not in EXACT_ACTIVATIONS:
        message = f"matmul: there is no activation {activation!r}"
        raise tg.LaunchError(message, f"choose from {', '.join(EXACT_ACTIVATIONS)}")


plans = ConfigCache(_configure)
