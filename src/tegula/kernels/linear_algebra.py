"""Batched linear algebra and sorting on arrays, on any device."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import tegula as tg
from tegula.kernels.operands import ConfigCache, as_array, make_allocator, needs_gradient


class BatchLaunch(NamedTuple):
    """A launch of a cooperative function for each element of a batch. `allocate`: functions that allocate the results;
    `is_empty`: whether an array has no elements; `byte_ranges`: None, because outputs are new arrays, which share no
    memory with inputs."""

    kernel: Any
    dim: tuple[int, ...]
    block_dim: int
    allocate: tuple[Callable[[], Any], ...]
    is_empty: bool
    byte_ranges: None = None


def _configure(*arguments: Any) -> BatchLaunch:
    """The launch for arrays, followed by None for the output, the names of the host function, of the cooperative
    function and of the arrays, and constant arguments with their types."""
    *arrays, _, name, function, keys, constants = arguments
    inputs = [as_array(name, key, x) for key, x in zip(keys, arrays, strict=True)]
    device, like = inputs[0].device, arrays[0]
    if any(x.device != device for x in inputs):
        raise tg.LaunchError(
            f"{name}: the arrays are on several devices", "copy the arrays to one device: x.to(device)"
        )
    batched = tg.over_batches(function, inputs, {key: x for key, x, _ in constants}, name, bounds_check=False)
    allocate = tuple(make_allocator(shape, dtype, like, device) for shape, dtype in batched.results)
    is_empty = not all(math.prod(x.shape) for x in inputs)
    return BatchLaunch(batched.kernel, batched.dim, batched.block_dim, allocate, is_empty)


launches = ConfigCache(_configure)


def over_batches(name: str, function: str, arrays: dict[str, Any], **constants: Any) -> tuple[Any, ...]:
    """The results of a cooperative function for each element of a batch; the leading dimensions are the batch. Raises
    LaunchError for arrays that do not fit the function's signature. `name`: the name of the host function, for
    messages; `arrays`: the arguments by parameter, arrays of any library."""
    operands = tuple(arrays.values())
    # Constants of several types may be equal.
    constants_of_type = tuple((key, x, type(x)) for key, x in constants.items())
    launch = launches.find(operands, None, (name, function, (*arrays,), constants_of_type))
    results = [allocate() for allocate in launch.allocate]
    if needs_gradient(*operands):
        for x in results:
            if isinstance(x, tg.array) and x.dtype.is_float:
                x.requires_grad = True
    if not launch.is_empty:
        inputs = [x if tg.launch_key(x) is not None else as_array(name, key, x) for key, x in arrays.items()]
        tg.launch_tiled(launch.kernel, launch.dim, inputs, results, block_dim=launch.block_dim)
    return tuple(results)


def cholesky(a: Any, fill_mode: str = "lower") -> Any:
    """The Cholesky factor of each symmetric matrix of a batch, as `tile_cholesky` gives.

    Parameters:
        a: (..., N, N), of float16, bfloat16, float32 or float64, with any strides.
        fill_mode: a string, the triangle that is read: "lower" or "upper"; "lower" by default.
    Returns:
        a new array of the shape of `a`: a PyTorch tensor if `a` is one, else a tg.array.
    Raises:
        launch: `a` is not an array of square matrices of floats.
    Gradient:
        recorded by tapes.
    Source:
        LAPACK potrf.
    """
    return over_batches("cholesky", "tile_cholesky", {"a": a}, fill_mode=fill_mode, info=False)[0]


def solve(a: Any, y: Any) -> Any:
    """x with a @ x = y for each element of a batch, as `tile_solve` gives.

    Parameters:
        a: (..., N, N), of float16, bfloat16, float32 or float64, with any strides.
        y: (..., N) or (..., N, R), of the dtype and the batch of `a`.
    Returns:
        a new array of the shape of `y`: a PyTorch tensor if `a` is one, else a tg.array.
    Raises:
        launch: shapes or dtypes do not fit.
    Gradient:
        recorded by tapes, for both.
    Source:
        LAPACK gesv.
    """
    return over_batches("solve", "tile_solve", {"a": a, "y": y})[0]


def lu(a: Any) -> tuple[Any, Any]:
    """The LU decomposition of each matrix of a batch, as `tile_lu` gives.

    Parameters:
        a: (..., N, N), of float16, bfloat16, float32 or float64, with any strides.
    Returns:
        lu (..., N, N) and piv (..., N) of int32, PyTorch tensors if `a` is one, else tg.arrays.
    Raises:
        launch: `a` is not an array of square matrices of floats.
    Gradient:
        recorded by tapes.
    Source:
        LAPACK getrf.
    """
    factors, piv = over_batches("lu", "tile_lu", {"a": a})
    return factors, piv


def qr(a: Any) -> tuple[Any, Any]:
    """The QR decomposition of each matrix of a batch, as `tile_qr` gives.

    Parameters:
        a: (..., M, N) with M >= N, of float16, bfloat16, float32 or float64, with any strides.
    Returns:
        q (..., M, N) and r (..., N, N), PyTorch tensors if `a` is one, else tg.arrays.
    Raises:
        launch: `a` is not an array of matrices of floats, or has more columns than rows.
    Gradient:
        recorded by tapes.
    Source:
        LAPACK geqrf.
    """
    q, r = over_batches("qr", "tile_qr", {"a": a})
    return q, r


def eigh(a: Any, fill_mode: str = "lower") -> tuple[Any, Any]:
    """The eigenvalues and eigenvectors of each symmetric matrix of a batch, as `tile_eigh` gives.

    Parameters:
        a: (..., N, N), of float16, bfloat16, float32 or float64, with any strides.
        fill_mode: a string, the triangle that is read: "lower" or "upper"; "lower" by default.
    Returns:
        w (..., N) and v (..., N, N), PyTorch tensors if `a` is one, else tg.arrays.
    Raises:
        launch: `a` is not an array of square matrices of floats.
    Gradient:
        recorded by tapes.
    Source:
        LAPACK sytrd, steqr.
    """
    w, v = over_batches("eigh", "tile_eigh", {"a": a}, fill_mode=fill_mode, info=False)
    return w, v


def svd(a: Any) -> tuple[Any, Any, Any]:
    """The singular value decomposition of each matrix of a batch, as `tile_svd` gives.

    Parameters:
        a: (..., M, N), of float16, bfloat16, float32 or float64, with any strides.
    Returns:
        u (..., M, K), s (..., K) and vt (..., K, N), PyTorch tensors if `a` is one, else tg.arrays.
    Raises:
        launch: `a` is not an array of matrices of floats.
    Gradient:
        recorded by tapes.
    Source:
        LAPACK gebrd, bdsqr.
    """
    u, s, vt = over_batches("svd", "tile_svd", {"a": a}, info=False)
    return u, s, vt


def inverse(a: Any) -> Any:
    """The inverse of each matrix of a batch, as `tile_inverse` gives.

    Parameters:
        a: (..., N, N), of float16, bfloat16, float32 or float64, with any strides.
    Returns:
        a new array of the shape of `a`: a PyTorch tensor if `a` is one, else a tg.array.
    Raises:
        launch: `a` is not an array of square matrices of floats.
    Gradient:
        recorded by tapes.
    Source:
        LAPACK getri.
    """
    return over_batches("inverse", "tile_inverse", {"a": a})[0]


def sort(keys: Any, descending: bool = False) -> tuple[Any, Any]:
    """The sorted keys along the last dimension, and their indices.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: (..., N), of float32, float64, int32, int64, uint32 or uint64, with any strides.
        descending: whether the largest key comes first; False by default.
    Returns:
        keys and indices of int32, both of the shape of `keys`: PyTorch tensors if `keys` is one, else tg.arrays.
    Raises:
        launch: `keys` has another dtype, or an option is not of its type.
    Gradient:
        recorded by tapes, of the sorted keys.
    Source:
        Batcher (1968).
    """
    sorted_keys, indices = over_batches(
        "sort", "_tile_sort_with_indices", {"keys": keys}, descending=descending
    )
    return sorted_keys, indices


def argsort(keys: Any, descending: bool = False) -> Any:
    """The indices that sort keys along the last dimension.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: (..., N), of float32, float64, int32, int64, uint32 or uint64, with any strides.
        descending: whether the largest key comes first; False by default.
    Returns:
        an array of int32 of the shape of `keys`: a PyTorch tensor if `keys` is one, else a tg.array.
    Raises:
        launch: `keys` has another dtype, or an option is not of its type.
    Gradient:
        none: indices are integers.
    Source:
        Batcher (1968).
    """
    return over_batches("argsort", "_tile_indices_that_sort", {"keys": keys}, descending=descending)[0]


def topk(keys: Any, k: int) -> tuple[Any, Any]:
    """The k largest keys along the last dimension in descending order, and their indices, as `tile_topk` gives.

    Parameters:
        keys: (..., N), of float32, float64, int32, int64, uint32 or uint64, with any strides.
        k: an int, the number of elements, from 1 to N.
    Returns:
        keys and indices of int32, both (..., k): PyTorch tensors if `keys` is one, else tg.arrays.
    Raises:
        launch: `keys` has another dtype, or an option is not of its type.
        out-of-range: `k` is below 1 or above N.
    Gradient:
        recorded by tapes, of the keys.
    Source:
        Batcher (1968).
    """
    largest_keys, indices = over_batches("topk", "tile_topk", {"keys": keys}, k=k)
    return largest_keys, indices
