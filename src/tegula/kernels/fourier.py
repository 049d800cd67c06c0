"""Batched Fourier transforms of arrays, on any device."""

import math
import operator
import sys
from functools import cache
from typing import Any

import tegula as tg
from tegula.kernels.operands import as_array, is_tensor, needs_gradient, processors

COMPLEX_TYPES = {tg.float32: tg.vec2f, tg.float64: tg.vec2d}
REAL_TYPES = {pair: real for real, pair in COMPLEX_TYPES.items()}
SAME_TYPES = {pair: pair for pair in REAL_TYPES}
ELEMENTS, ELEMENTS_PER_THREAD = 1024, 16
"""The approximate number of elements per block, before rounding to whole rows, and the maximum number per thread."""
THREADS, FEW_PER_THREAD = 64, 8
"""On GPUs the minimum number of threads of a block of whole short rows, and the number of elements per thread of a
longer row of at most ELEMENTS elements, because more threads hide more of the latency of memory."""
MIN_ELEMENTS = 320
"""On GPUs the minimum number of elements of a block of whole short rows: smaller blocks start more slowly than memory
transfers elements."""
CPU_THREADS = 8
"""On CPUs the number of threads of a block, which are lanes of a vector: no more than the elements of most stages that
are next to each other, so that a vector is loaded and stored as a whole."""
CPU_LANES = {tg.float32: 16, tg.float64: 8, tg.vec2f: 16, tg.vec2d: 8}
"""On CPUs the number of threads of a block whose threads take whole rows, by the dtype of the argument: the lanes of
the widest vectors."""
CPU_ELEMENTS = 1 << 19
"""On CPUs the maximum number of elements of a block whose threads take whole rows."""
SHORT_LENGTHS, SHORT_ELEMENTS, SHORT_PER_THREAD = range(32, 129), 512, 4
"""On GPUs the lengths of transforms with few elements per thread, if they are powers of two; the number of elements per
block, and the number per thread."""
LONG_LENGTHS, LONG_PER_THREAD = range(4097, 8193), 32
"""On GPUs the lengths of transforms whose threads hold more elements if the length is a power of two, and the number of
these elements: a stage less, and more blocks are resident."""
LONG_THREADS = 256
"""On GPUs the maximum number of threads of a block whose transform uses all registers."""
ROW_LENGTHS, ROW_STAGES, MAX_ROW_RADIX, SECTOR_ELEMENTS = range(513, 1537), 4, 12, 4
"""On GPUs the lengths of rows whose threads load and store the elements of their butterflies, unless they are powers of
two; the number of stages and the maximum radix; the number of elements in the 32 bytes that memory transfers."""
MIN_THREADS, MAX_THREADS, MAX_POWER_THREADS = 32, 512, 1024
"""On GPUs the minimum number of threads per block, of which blocks have a multiple, the maximum, and the maximum for
complex64 transforms whose length is a power of two or is padded, and where registers suffice."""
REGISTERS, ELEMENT_REGISTERS, OTHER_REGISTERS, ONLY_ELEMENTS = 65536, {tg.vec2f: 2, tg.vec2d: 4}, 20, 1.5
"""The registers of a multiprocessor of a GPU and those of an element by its dtype; the approximate number of other
registers of a thread, and of elements that need as many as an element with its twiddle factors."""

PRIME_RADICES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)

STEPS = {
    "fft": ("t = tg._tile_dft(t, False, alone)",),
    "ifft": ("t = tg._tile_dft(t, True, alone)", "t = t * scale"),
    "rfft": ("t = tg.tile_rfft(t)",),
    "irfft": ("t = tg.tile_irfft(t, n) * scale",),
}
"""The statements that transform a tile `t` of rows, by the name of the transform."""
LANE_STEPS = {
    "fft": ("t = tg.tile_transpose(tg._tile_transposed_dft(t, False))",),
    "ifft": ("t = tg.tile_transpose(tg._tile_transposed_dft(t, True) * scale)",),
}
"""On CPUs the statements for threads that take whole rows of a tile in bounds: stores transpose the results."""


def fft(x: Any) -> Any:
    """The discrete Fourier transform along the last dimension, as numpy.fft.fft and `tile_fft`.

    Parameters:
        x: complex numbers (..., N), with any strides: an array of vec2f or vec2d, a complex array of NumPy or a complex
            tensor of PyTorch.
    Returns:
        a new array of the shape of `x`: a complex PyTorch tensor if `x` is one, else a tg.array of vec2f or vec2d.
    Raises:
        launch: `x` is not an array of complex numbers, or has no elements in a row.
        out-of-range: there are no tables for N.
    Gradient:
        recorded by tapes.
    Source:
        as for `tile_fft`.
    """
    return _transform("fft", x, SAME_TYPES)


def ifft(x: Any) -> Any:
    """The inverse of `fft`, divided by N as numpy.fft.ifft.

    Parameters:
        x: complex numbers (..., N), as `fft` takes.
    Returns:
        a new array of the shape of `x`, as `fft` gives.
    Raises:
        launch: `x` is not an array of complex numbers, or has no elements in a row.
        out-of-range: there are no tables for N.
    Gradient:
        recorded by tapes.
    Source:
        as for `tile_fft`.
    """
    return _transform("ifft", x, SAME_TYPES)


def rfft(x: Any) -> Any:
    """The first N // 2 + 1 elements of the discrete Fourier transform of real numbers along the last dimension, as
    numpy.fft.rfft and `tile_rfft`.

    Parameters:
        x: (..., N), of float32 or float64, with any strides.
    Returns:
        a new array (..., N // 2 + 1): a complex PyTorch tensor if `x` is a PyTorch tensor, else a tg.array of vec2f
            or vec2d.
    Raises:
        launch: `x` is not an array of float32 or float64, or has no elements in a row.
        out-of-range: there are no tables for N.
    Gradient:
        recorded by tapes.
    Source:
        as for `tile_rfft`.
    """
    return _transform("rfft", x, COMPLEX_TYPES)


def irfft(x: Any, n: int | None = None) -> Any:
    """The inverse of `rfft`, divided by n as numpy.fft.irfft.

    Parameters:
        x: complex numbers (..., n // 2 + 1), as `fft` takes.
        n: an int, the length of a result; by default the even length of the two possible lengths.
    Returns:
        a new array (..., n) of float32 or float64: a PyTorch tensor if `x` is one, else a tg.array.
    Raises:
        launch: `x` is not an array of complex numbers, or its rows do not have n // 2 + 1 elements.
        out-of-range: there are no tables for n.
    Gradient:
        recorded by tapes.
    Source:
        as for `tile_irfft`.
    """
    return _transform("irfft", x, REAL_TYPES, n)


def _transform(function: str, x: Any, dtypes: dict[Any, Any], n: int | None = None) -> Any:
    """The transforms of the rows of an array. `dtypes`: the dtype of results by the dtype of the argument; `n`: the
    length of the results of `irfft`."""
    is_complex_tensor = is_tensor(x) and x.is_complex()
    view = sys.modules["torch"].view_as_real(x.resolve_conj()) if is_complex_tensor else x
    source = as_array(function, "x", view)
    if is_complex_tensor:
        source = tg.array(view, dtype=COMPLEX_TYPES[source.dtype], copy=False)
    if source.dtype not in dtypes:
        dtype_names = " or ".join(map(str, dtypes))
        message = f"{function}: 'x' must be an array (..., N) of {dtype_names}, got {source.dtype}"
        is_complex = source.dtype in REAL_TYPES or tg.vec2f in dtypes
        raise tg.LaunchError(
            message, "complex64 is vec2f, complex128 vec2d" if is_complex else "convert the array"
        )
    if not source.ndim or not source.shape[-1]:
        message = f"{function}: 'x' of shape {source.shape} has no elements in a row"
        raise tg.LaunchError(message, "the last dimension of an array (..., N) is a row")
    *outer, row_length = source.shape
    length = row_length if function != "irfft" else max(1, 2 * (row_length - 1)) if n is None else _length(n)
    if function == "irfft" and (length < 1 or length // 2 + 1 != row_length):
        message = f"irfft: 'x' of shape {source.shape} has no rows of n // 2 + 1 elements for n = {length}"
        lengths = f"{2 * row_length - 2} or {2 * row_length - 1}" if row_length > 1 else "1"
        raise tg.LaunchError(message, f"rows of {row_length} elements need n = {lengths}")
    kernel_dtype = dtypes[source.dtype]
    result_length = {"rfft": row_length // 2 + 1, "irfft": length}.get(function, row_length)
    out = _new((*outer, result_length), kernel_dtype, x, source)
    if needs_gradient(x):
        out.requires_grad = True
    if math.prod(outer):
        _launch(function, view, source, out, length, kernel_dtype)
    return sys.modules["torch"].view_as_complex(out) if is_tensor(out) and kernel_dtype in REAL_TYPES else out


def _length(n: Any) -> int:
    """The length of the results of `irfft`; LaunchError if `n` is not an integer."""
    try:
        return operator.index(n)
    except TypeError:
        raise tg.LaunchError(
            f"irfft: 'n' must be an int, got {n!r}", "pass the length of the results"
        ) from None


def _new(shape: tuple[int, ...], dtype: Any, argument: Any, source: Any) -> Any:
    """Uninitialised memory for results: a PyTorch tensor if `argument` is one. Complex numbers are pairs of real
    numbers."""
    if not is_tensor(argument):
        return tg.empty(shape, dtype, source.device)
    real, pair = REAL_TYPES.get(dtype, dtype), (2,) if dtype in REAL_TYPES else ()
    torch = sys.modules["torch"]
    return torch.empty((*shape, *pair), dtype=getattr(torch, str(real)), device=argument.device)


def _launch(function: str, x: Any, source: Any, out: Any, n: int, result: Any) -> None:
    """Write the transforms of the rows of `x` to `out`. `source`: `x` as a tg.array; `n`: the length of the
    transforms."""
    *outer, row_length = source.shape
    *batch, row_count = outer or [1]
    is_recorded = getattr(out, "requires_grad", False)
    radices = () if source.device.is_cpu or is_recorded else _row_radices(function, n, source.dtype)
    argument = x if tg.launch_key(x) is not None else source
    if radices:
        kernel, threads = _row_kernel(function, radices, source.ndim), _row_threads(radices)
        grid = (*batch, row_count)
        tg.launch_tiled(kernel, grid, [argument], [out], block_dim=threads, device=source.device)
        return
    if source.device.is_cpu:
        rows, threads = _rows_and_cpu_threads(n, row_count, math.prod(batch), source.dtype)
    else:
        rows, threads = _rows_and_threads(function, n, row_count, source.dtype)
    alone = source.dtype == tg.vec2f and threads <= LONG_THREADS
    is_whole = row_count % rows == 0
    in_lanes = source.device.is_cpu and is_whole and rows == threads and not is_recorded
    steps = LANE_STEPS if in_lanes and function in LANE_STEPS else STEPS
    kernel = _kernel(
        steps[function],
        function,
        n,
        row_length,
        rows if outer else 0,
        source.dtype,
        result,
        len(batch),
        alone,
        is_whole,
    )
    grid = (*batch, -(-row_count // rows))
    tg.launch_tiled(kernel, grid, [argument], [out], block_dim=threads, device=source.device)


def _rows_and_cpu_threads(n: int, row_count: int, batch_size: int, dtype: Any) -> tuple[int, int]:
    """On CPUs the number of rows of `dtype` that a block transforms, and its number of threads: each takes whole rows
    if there are enough blocks of so many rows for the cores."""
    length = _padded_length(n)
    cores, lanes = processors(tg.get_device("cpu")), CPU_LANES[dtype]
    for threads, min_blocks in ((lanes, cores), (CPU_THREADS, cores // 2)):
        is_enough = row_count >= threads and batch_size * (row_count // threads) >= min_blocks
        if is_enough and threads * length <= CPU_ELEMENTS:
            return threads, threads
    return min(row_count, max(1, ELEMENTS // n)), CPU_THREADS


def _rows_and_threads(function: str, n: int, row_count: int, dtype: Any) -> tuple[int, int]:
    """On GPUs the number of rows of `dtype` that a block transforms, and its number of threads. If a length is not a
    power of two, threads have one butterfly of the largest radix each, or a few where a block has too many. Real rows
    of even length are transformed as half as many complex numbers."""
    alone, dtype = function in ("fft", "ifft"), COMPLEX_TYPES.get(dtype, dtype)
    n = n if alone or n % 2 else n // 2
    length = _padded_length(n)
    elements, per_thread = ELEMENTS, _elements_per_thread(length)
    is_power = dtype == tg.vec2f and length & (length - 1) == 0
    max_threads = MAX_POWER_THREADS if is_power else MAX_THREADS
    if is_power and alone and length in SHORT_LENGTHS:
        elements, per_thread = SHORT_ELEMENTS, SHORT_PER_THREAD
    elif is_power and alone and n in LONG_LENGTHS and n == length:
        per_thread = LONG_PER_THREAD
    elif ELEMENTS // length == 1 and length % (FEW_PER_THREAD * MIN_THREADS) == 0:
        per_thread = FEW_PER_THREAD
    elif THREADS * per_thread % length == 0:
        elements = THREADS * per_thread
        while elements < MIN_ELEMENTS:
            elements *= 2
    rows = min(row_count, max(1, elements // n))
    # Whole warps, whose threads can hold the elements of padded rows in registers.
    rows_of_warps = MIN_THREADS * per_thread // math.gcd(MIN_THREADS * per_thread, length)
    rows -= rows % rows_of_warps if rows > rows_of_warps else 0
    if length & (length - 1):
        radix = max(_radices(length))
        rows_of_warps = MIN_THREADS // math.gcd(MIN_THREADS, length // radix)
        if radix > LONG_PER_THREAD and rows_of_warps * length <= 4 * ELEMENTS:
            # Whole warps of butterflies, whose arithmetic takes most of the time.
            rows = min(row_count, max(1, round(rows / rows_of_warps)) * rows_of_warps)
        return rows, _threads_of_butterflies(rows * length, _radices(length), dtype)
    threads = max(MIN_THREADS, min(max_threads, rows * length // per_thread))
    return rows, round(threads / MIN_THREADS) * MIN_THREADS


def _threads_of_butterflies(size: int, radices: tuple[int, ...], dtype: Any) -> int:
    """The number of threads of a block that transforms `size` elements, in whole warps: each has one butterfly of the
    largest radix, or a few where registers of a multiprocessor do not suffice for two such blocks. If they never
    suffice for two blocks, a block has all threads that it may have."""
    butterflies, width = size // max(radices), ELEMENT_REGISTERS[dtype]

    def threads(most: int) -> int:
        busy = -(-butterflies // -(-butterflies // most))
        return -(-busy // MIN_THREADS) * MIN_THREADS

    def registers(count: int) -> int:
        elements = max(r * -(-size // (r * count)) for r in radices)
        return count * (width * elements + OTHER_REGISTERS)

    if 2 * ONLY_ELEMENTS * width * size > REGISTERS:
        return MAX_POWER_THREADS if max(radices) <= LONG_PER_THREAD else threads(MAX_THREADS)
    many = threads(MAX_POWER_THREADS)
    return many if 2 * registers(many) <= REGISTERS else threads(MAX_THREADS)


def _row_radices(function: str, n: int, dtype: Any) -> tuple[int, ...]:
    """The radices of transforms on GPUs whose threads load and store the elements of their butterflies: of long rows
    that tiles do not distribute over threads evenly. The inputs and the results of a transform begin at multiples of 32
    bytes. Empty for other rows."""
    is_power = n & (n - 1) == 0
    if function not in ("fft", "ifft") or dtype != tg.vec2f or is_power or n not in ROW_LENGTHS:
        return ()
    candidates = [
        x
        for x in _factorisations(n, ROW_STAGES)
        if n // x[0] % SECTOR_ELEMENTS == 0 == n // x[-1] % SECTOR_ELEMENTS
    ]
    candidates = [x for x in candidates if _row_threads(x) <= MAX_THREADS]
    return min(candidates, key=lambda x: (sum(x), _row_threads(x), x[0], x[-1], -x[1]), default=())


@cache
def _radices(n: int) -> tuple[int, ...]:
    """The radices of `tile_fft` for a length without larger prime factors: the fewest, among these the smallest."""
    divisors = [r for r in range(2, min(n, ELEMENTS_PER_THREAD) + 1) if n % r == 0]
    if n > 1 and not divisors:
        divisors = [min(p for p in PRIME_RADICES if n % p == 0)]
    return min(((r, *_radices(n // r)) for r in divisors), key=lambda x: (len(x), sum(x)), default=())


@cache
def _factorisations(n: int, stages: int) -> tuple[tuple[int, ...], ...]:
    """The factorisations of n in so many factors from 2 to MAX_ROW_RADIX, in all orders."""
    if stages == 1:
        return ((n,),) if 2 <= n <= MAX_ROW_RADIX else ()
    return tuple(
        (r, *rest)
        for r in range(2, MAX_ROW_RADIX + 1)
        if n % r == 0
        for rest in _factorisations(n // r, stages - 1)
    )


def _row_threads(radices: tuple[int, ...]) -> int:
    """The number of threads of a block that transforms a row: whole warps, with one butterfly of each stage each."""
    return -(-math.prod(radices) // min(radices) // MIN_THREADS) * MIN_THREADS


def _padded_length(n: int) -> int:
    """The approximate length of the transforms by which `tile_fft` computes a transform of length n: above 2 n if n has
    a prime factor that is no radix."""
    rest = n
    for p in PRIME_RADICES:
        while rest % p == 0:
            rest //= p
    return n if rest == 1 else 1 << (2 * n - 2).bit_length()


def _elements_per_thread(n: int) -> int:
    """The number of elements of a thread: the radix of a butterfly, if n has a few factors of similar size."""
    stages = max(1, math.ceil(math.log(n, ELEMENTS_PER_THREAD) - 1e-9))
    min_radix = n ** (1 / stages) - 1e-9
    return next(
        (r for r in range(2, ELEMENTS_PER_THREAD + 1) if r >= min_radix and n % r == 0), ELEMENTS_PER_THREAD
    )


@cache
def _row_kernel(function: str, radices: tuple[int, ...], ndim: int) -> Any:
    """The kernel whose blocks transform a row each, by stages with these radices."""
    indices = ", ".join(f"b{k}" for k in range(ndim - 1))
    rows = f"x[{indices}], out[{indices}]" if indices else "x, out"
    inverse, scale = function == "ifft", 1.0 / math.prod(radices) if function == "ifft" else 1.0
    names: dict[str, Any] = {"tg": tg, "radices": radices, "inverse": inverse, "scale": scale}
    text = (
        f"def {function}(x: tg.array{ndim}d[tg.vec2f], out: tg.array{ndim}d[tg.vec2f]):\n"
        f"    {indices or 'b0'} = tg.tid()\n"
        f"    tg._tile_row_transform({rows}, radices, inverse, scale)\n"
    )
    exec(compile(text, f"<the kernel of {function}>", "exec"), names)
    return tg.kernel(source=text)(names[function])


@cache
def _kernel(
    steps: tuple[str, ...],
    function: str,
    n: int,
    row_length: int,
    rows: int,
    argument: Any,
    result: Any,
    batch: int,
    alone: bool = False,
    is_whole: bool = False,
) -> Any:
    """The kernel with the statements `steps`, whose blocks transform `rows` rows of `row_length` elements each; `rows`
    is 0 for an array of one dimension. `batch`: the number of dimensions before the dimension of rows; `alone`: whether
    the transform may use all registers; `is_whole`: whether all blocks have as many rows, so that no access is checked
    against the bounds."""
    indices = "".join(f"b{k}, " for k in range(batch))
    subscript = f"[{indices.removesuffix(', ')}]" if batch else ""
    shape, offset = ("(rows, wide)", "(first * rows, 0)") if rows else ("wide", "0")
    body = [
        f"{indices}first = tg.tid()",
        f"t = tg.tile_load(x{subscript}, shape={shape}, offset={offset}, bounds_check=checked)",
        *steps,
        f"tg.tile_store(out{subscript}, t, offset={offset}, bounds_check=checked)",
    ]
    ndim = batch + (2 if rows else 1)
    names: dict[str, Any] = {
        "tg": tg,
        "rows": rows,
        "wide": row_length,
        "n": n,
        "scale": 1.0 / n,
        "alone": alone,
        "checked": not is_whole,
    }
    names |= {"Given": argument, "Made": result}
    text = f"def {function}(x: tg.array{ndim}d[Given], out: tg.array{ndim}d[Made]):\n" + "".join(
        f"    {line}\n" for line in body
    )
    exec(compile(text, f"<the kernel of {function}>", "exec"), names)
    return tg.kernel(source=text)(names[function])
