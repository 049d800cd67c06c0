"""Kernels that call a cooperative function for each element of a batch, one block per element."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tegula.errors import LaunchError
from tegula.lang.annotations import ArrayAnnotation
from tegula.lang.cooperative import CooperativeDef
from tegula.lang.cooperative_calls import no_program
from tegula.runtime.device import CPU
from tegula.runtime.kernel import kernel
from tegula.runtime.library import library
from tegula.signature import ConstantPattern, SignatureMismatch, TileArgument, TilePattern, Unified, Unifier
from tegula.stdlib.registry import tg

WARP = 32
ONE_WARP_ELEMENTS, TWO_WARP_ELEMENTS = 32 * 32, 64 * 64
"""The maximum number of elements of a tile for which a block has one warp, and two warps."""

Shape = tuple[int, ...]


class Tiles(NamedTuple):
    """The signature of a block. `inputs`: dtype and shape of each tile, and whether its array has batch dimensions;
    `outputs`: dtype and shape of each result; `batch`: the number of batch dimensions; `constants`: the names and
    texts of constant arguments, because constants of several types may be equal; `block_dim`: the number of threads;
    `bounds_check`: whether accesses are tested against the bounds of the arrays."""

    function: CooperativeDef
    inputs: tuple[tuple[Any, Shape, bool], ...]
    outputs: tuple[tuple[Any, Shape], ...]
    batch: int
    constants: tuple[tuple[str, str], ...]
    block_dim: int
    bounds_check: bool


@lru_cache(maxsize=512)
def _kernel(tiles: Tiles) -> Any:
    """The kernel in which each block loads its tiles, calls the function once and stores the results."""
    indices = ", ".join(f"b{k}" for k in range(tiles.batch))
    subscript = f"[{indices}]" if indices else ""
    lines = [f"{indices}{',' if tiles.batch > 1 else ''} = tg.tid()".replace(", =", " =")] if indices else []
    names: dict[str, Any] = {"tg": tg, "function": tiles.function, "checked": tiles.bounds_check}
    parameters, results = list[str](), ", ".join(f"r{k}" for k in range(len(tiles.outputs)))
    for k, (dtype, shape, is_batched) in enumerate(tiles.inputs):
        names[f"T{k}"] = ArrayAnnotation(dtype, len(shape) + (tiles.batch if is_batched else 0))
        parameters.append(f"a{k}: T{k}")
        array = f"a{k}{subscript if is_batched else ''}"
        lines.append(f"t{k} = tg.tile_load({array}, shape={shape}, bounds_check=checked)")
    for k, (dtype, shape) in enumerate(tiles.outputs):
        names[f"R{k}"] = ArrayAnnotation(dtype, len(shape) + tiles.batch)
        parameters.append(f"o{k}: R{k}")
    call_arguments = [
        *(f"t{k}" for k in range(len(tiles.inputs))),
        *(f"{key}={text}" for key, text in tiles.constants),
    ]
    lines.append(f"{results} = function({', '.join(call_arguments)})")
    lines += [
        f"tg.tile_store(o{k}{subscript}, r{k}, bounds_check=checked)" for k in range(len(tiles.outputs))
    ]
    name = tiles.function.name.removeprefix("_").removeprefix("tile_")
    text = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    exec(compile(text, f"<the kernel of {name}>", "exec"), names)
    return kernel(source=text)(names[name])


class BatchedKernel(NamedTuple):
    """A kernel that calls a cooperative function once in each block. `kernel`: its parameters are the arrays, then the
    results; `dim`: the grid of blocks, the batch shape; `block_dim`: the number of threads per block; `results`: shape
    and dtype of each result, with batch dimensions."""

    kernel: Any
    dim: Shape
    block_dim: int
    results: tuple[tuple[Shape, Any], ...]


def over_batches(
    function: Any,
    arrays: Sequence[Any],
    constants: Mapping[str, Any] | None = None,
    name: str = "",
    bounds_check: bool = True,
) -> BatchedKernel:
    """A kernel that calls a cooperative function for each element of a batch; batch dimensions are the leading ones.

    Parameters:
        function: a cooperative function without in-place parameters, or the name of a library function.
        arrays: tg.arrays with the shapes and dtypes of the arguments, in the order of the parameters.
        constants: a dictionary of constant arguments by name; the function's defaults by default.
        name: a string, the function's name in messages; by default the name of `function`.
        bounds_check: False promises that all launches of the kernel have arrays of these shapes and these results, so
            that the code is shorter; debug mode checks that. True by default.
    Returns:
        a named tuple: `kernel`, whose parameters are the arrays and then the results; `dim` and `block_dim` for
        `tg.launch_tiled`; and `results`, a shape and a dtype for each result.
    Raises:
        TypeError: `function` is not a cooperative function, or has in-place parameters.
        launch: the arrays do not fit the signature, or the function has no program for their shapes.
    """
    f = library().get(function) if isinstance(function, str) else function
    if not isinstance(f, CooperativeDef) or f.changed:
        raise TypeError(f"{function!r} is not a cooperative function that changes none of its parameters")
    defaults = {
        p.name: p.default for p in f.definition.parameters if p.default is not inspect.Parameter.empty
    }
    given_constants = {
        key: x.item() if isinstance(x, np.generic) else x for key, x in (constants or {}).items()
    }
    all_constants = {**defaults, **given_constants}
    tile_names = [key for key, p in f.patterns.items() if isinstance(p, TilePattern)]
    arguments = dict(zip(tile_names, arrays, strict=True))
    name = name or f.name
    array_keys = tuple(
        (key, ArrayKey(x.dtype, tuple(x.shape), x.device != CPU)) for key, x in arguments.items()
    )
    constants_of_type = tuple((key, x, type(x)) for key, x in all_constants.items())
    return _batched_kernel(f, len(f.variants), name, array_keys, constants_of_type, bool(bounds_check))


class ArrayKey(NamedTuple):
    """The properties of an array that a kernel depends on. `gpu`: whether the array is on a GPU."""

    dtype: Any
    shape: Shape
    gpu: bool


@lru_cache(maxsize=512)
def _batched_kernel(
    f: CooperativeDef,
    programs: int,
    name: str,
    array_keys: tuple[tuple[str, ArrayKey], ...],
    constants: tuple[tuple[str, Any, type], ...],
    bounds_check: bool = True,
) -> BatchedKernel:
    """`programs`: the number of programs of the function, to which programs can be added; `constants`: name, value and
    type, because constants of several types may be equal."""
    arguments, constant_values = dict(array_keys), {key: x for key, x, _ in constants}
    for key, x in constant_values.items():
        pattern = f.patterns.get(key)
        if pattern is None:
            raise LaunchError(f"{name} has no parameter '{key}'", f"choose from: {', '.join(f.patterns)}")
        if isinstance(pattern, ConstantPattern) and not pattern.has(x):
            raise LaunchError(f"{name}: '{key}' must be {pattern.described}, got {x!r}", "pass another value")
    unified = _unified(f, name, arguments, constant_values)
    batch = tuple(unified.batch or ())
    patterns = f.returned(constant_values, f.results)
    outputs = tuple(_result(p, unified) for p in (patterns if isinstance(patterns, tuple) else (patterns,)))
    inputs = tuple((x.dtype, _tile_shape(f, key, x, batch), _is_batched(f, key)) for key, x in array_keys)
    facts = {**unified.facts, **constant_values, "partial": False}
    on_gpu = any(x.gpu for _, x in array_keys)
    threads = _threads(f, max(math.prod(shape) for _, shape, _ in inputs), facts) if on_gpu else 1
    texts = tuple((key, repr(x)) for key, x in constant_values.items())
    tiles = Tiles(f, inputs, outputs, len(batch), texts, threads, bounds_check)
    _check_program(f, name, tiles, facts)
    results = tuple(((*batch, *shape), dtype) for dtype, shape in outputs)
    return BatchedKernel(_kernel(tiles), batch or (1,), tiles.block_dim, results)


def _threads(f: CooperativeDef, elements: int, facts: Mapping[str, Any]) -> int:
    """The number of threads of a block on a GPU. `elements`: the number of elements of the largest tile."""
    if f.count_threads is not None:
        names = [name for name in inspect.signature(f.count_threads).parameters if name in facts]
        if threads := f.count_threads(**{name: facts[name] for name in names}):
            return threads
    if elements <= ONE_WARP_ELEMENTS:
        return WARP
    threads = 2 * WARP if elements <= TWO_WARP_ELEMENTS else 4 * WARP
    # Functions with a program for one warp keep the tile in registers.
    one_warp_program, program = (f.fitting_program({**facts, "group": n}) for n in (WARP, threads))
    return threads if one_warp_program is program else WARP


def _check_program(f: CooperativeDef, name: str, tiles: Tiles, facts: Mapping[str, Any]) -> None:
    """LaunchError if the function has no program for the tiles of a block."""
    if f.fitting_program({**facts, "group": tiles.block_dim}) is None:
        keys = (key for key, p in f.patterns.items() if isinstance(p, TilePattern))
        pairs = zip(keys, tiles.inputs, strict=True)
        shapes = ", ".join(f"'{key}' of shape {shape}" for key, (_, shape, _) in pairs)
        raise LaunchError(f"{name}: no implementation accepts {no_program(shapes, facts)}", f.conditions)


def _unified(
    f: CooperativeDef, name: str, arguments: Mapping[str, Any], constants: Mapping[str, Any]
) -> Unified:
    """The extents and dtypes of a call; LaunchError for arrays that do not fit the signature."""
    unifier = Unifier()
    for key, x in constants.items():
        unifier.constant(key, x)
    try:
        return unifier.tiles(
            [(k, _tile_pattern(f, k), TileArgument(x.dtype, tuple(x.shape))) for k, x in arguments.items()]
        )
    except SignatureMismatch as mismatch:
        argument_texts = ", ".join(
            f"'{key}' of shape {x.shape} and dtype {x.dtype}" for key, x in arguments.items()
        )
        help = "pass arrays of the shapes and dtypes that the signature takes"
        raise LaunchError(f"{name}: {mismatch.what} ({argument_texts})", mismatch.help or help) from None


def _tile_pattern(f: CooperativeDef, key: str) -> TilePattern:
    pattern = f.patterns[key]
    assert isinstance(pattern, TilePattern)
    return pattern


def _is_batched(f: CooperativeDef, key: str) -> bool:
    return _tile_pattern(f, key).batch


def _tile_shape(f: CooperativeDef, key: str, x: ArrayKey, batch: Sequence[int]) -> Shape:
    """The shape of a tile: the shape of the array without the batch dimensions."""
    return tuple(x.shape[len(batch) :]) if _is_batched(f, key) else tuple(x.shape)


def _result(pattern: TilePattern, unified: Unified) -> tuple[Any, Shape]:
    """The dtype and the shape of a result for one element of the batch."""
    dtype, shape = unified.dtype(pattern.dtype), [unified.extent(n) for n in pattern.shape]
    return dtype, tuple(n for n in shape if isinstance(n, int) and n >= 0)


__all__ = ["BatchedKernel", "over_batches"]
