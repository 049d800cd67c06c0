"""Cooperative functions of the library as functions of arrays: a block computes one element of the batch."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import tegula as tg
from tegula.kernels.operands import grows, maker
from tegula.lang.cooperative import CooperativeDef
from tegula.runtime.library import library
from tegula.signature import Dtypes, GivenTile, Misfit, TilePattern, Unified, Unifier

MOST_DIMENSIONS = 4
WARP = 32
FEW, MANY = 32 * 32, 64 * 64
"""Elements of the largest tile up to which a block has one warp, and two."""

Shape = tuple[int, ...]


class Tiles(NamedTuple):
    """What one block computes. `inputs`: dtype and shape of each tile, and whether its array has the batch; `outputs`:
    dtype and shape of each result; `batch`: the number of dimensions of the batch; `constants`: the arguments of the
    function that are constants."""

    function: str
    inputs: tuple[tuple[Any, Shape, bool], ...]
    outputs: tuple[tuple[Any, Shape], ...]
    batch: int
    constants: tuple[tuple[str, Any], ...]

    @property
    def block_dim(self) -> int:
        """The number of threads of a block."""
        most = max(math.prod(shape) for _, shape, _ in self.inputs)
        return WARP if most <= FEW else 2 * WARP if most <= MANY else 4 * WARP


@lru_cache(maxsize=512)
def kernel_for(tiles: Tiles) -> Any:
    """The kernel in which each block loads its tiles, calls the function once and stores the results."""
    at = ", ".join(f"b{k}" for k in range(tiles.batch))
    part = f"[{at}]" if at else ""
    lines = [f"{at}{',' if tiles.batch > 1 else ''} = tg.tid()".replace(", =", " =")] if at else []
    names: dict[str, Any] = {"tg": tg}
    parameters, results = list[str](), ", ".join(f"r{k}" for k in range(len(tiles.outputs)))
    for k, (dtype, shape, batched) in enumerate(tiles.inputs):
        names[f"T{k}"] = tg.array(dtype=dtype, ndim=len(shape) + (tiles.batch if batched else 0))
        parameters.append(f"a{k}: T{k}")
        lines.append(f"t{k} = tg.tile_load(a{k}{part if batched else ''}, shape={shape})")
    for k, (dtype, shape) in enumerate(tiles.outputs):
        names[f"R{k}"] = tg.array(dtype=dtype, ndim=len(shape) + tiles.batch)
        parameters.append(f"o{k}: R{k}")
    given = [*(f"t{k}" for k in range(len(tiles.inputs))), *(f"{key}={x!r}" for key, x in tiles.constants)]
    lines.append(f"{results} = tg.{tiles.function}({', '.join(given)})")
    lines += [f"tg.tile_store(o{k}{part}, r{k})" for k in range(len(tiles.outputs))]
    name = tiles.function.removeprefix("_").removeprefix("tile_")
    text = f"def {name}({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in lines)
    exec(compile(text, f"<the kernel of {name}>", "exec"), names)
    return tg.kernel(source=text)(names[name])


def over_batches(name: str, function: str, arrays: Mapping[str, Any], **constants: Any) -> tuple[Any, ...]:
    """The results of a cooperative function for each element of a batch, whose dimensions come first. LaunchError for
    arrays that do not fit its signature. `name`: that of the host function, for messages; `arrays`: the arguments by
    parameter, which are arrays of any library."""
    f = library()[function]
    assert isinstance(f, CooperativeDef)
    found = {key: _seen(name, key, x) for key, x in arrays.items()}
    unified = _unified(name, f, found, constants)
    batch, device = unified.batch or (), next(iter(found.values())).device
    if any(x.device != device for x in found.values()):
        raise tg.LaunchError(f"{name}: the arrays are on several devices", "copy them to one: x.to(device)")
    patterns = f.given(constants, f.results)
    outputs = tuple(_result(p, unified) for p in (patterns if isinstance(patterns, tuple) else (patterns,)))
    inputs = tuple(
        (found[key].dtype, _core(f, key, x, batch), f.patterns[key].batch) for key, x in found.items()
    )
    like, graded = next(iter(arrays.values())), grows(*arrays.values())
    made = [maker((*batch, *shape), dtype, like, device)() for dtype, shape in outputs]
    for x in made:
        if graded and isinstance(x, tg.array) and x.dtype.is_float:
            x.requires_grad = True
    if math.prod(batch) and all(math.prod(shape) for _, shape, _ in inputs):
        tiles = Tiles(function, inputs, outputs, len(batch), tuple(constants.items()))
        given = [
            x if isinstance(x, tg.array) or hasattr(x, "data_ptr") else found[k] for k, x in arrays.items()
        ]
        tg.launch_tiled(kernel_for(tiles), batch or 1, given, made, block_dim=tiles.block_dim, device=device)
    return tuple(made)


def _seen(function: str, name: str, value: Any) -> Any:
    """A `tg.array` on the memory of an argument of any library."""
    try:
        return value if isinstance(value, tg.array) else tg.array(value, copy=False)
    except (TypeError, ValueError, BufferError) as error:
        what = f"{function}: '{name}' is no array: {error}"
        raise tg.LaunchError(what, "pass a tg.array, or an array of NumPy, CuPy or PyTorch") from error


def _unified(name: str, f: CooperativeDef, found: Mapping[str, Any], constants: Mapping[str, Any]) -> Unified:
    """The extents and dtypes of a call; LaunchError for arrays that do not fit the signature."""
    unifier = Unifier()
    for key, x in constants.items():
        unifier.constant(key, x)
    try:
        return unifier.tiles(
            [(key, f.patterns[key], GivenTile(x.dtype, x.shape)) for key, x in found.items()]
        )
    except Misfit as misfit:
        shapes = ", ".join(f"'{key}' of shape {x.shape}" for key, x in found.items())
        raise tg.LaunchError(f"{name}: {misfit.what} ({shapes})", misfit.help or "check the shapes") from None


def _core(f: CooperativeDef, key: str, x: Any, batch: Sequence[int]) -> Shape:
    return tuple(x.shape[len(batch) :]) if f.patterns[key].batch else tuple(x.shape)


def _result(pattern: TilePattern, unified: Unified) -> tuple[Any, Shape]:
    """The dtype and the shape of a result for one element of the batch."""
    dtype = unified.dtypes[pattern.dtype.name] if isinstance(pattern.dtype, Dtypes) else pattern.dtype
    shape = [unified.extent(n) for n in pattern.shape]
    return dtype, tuple(n for n in shape if isinstance(n, int) and n >= 0)


__all__ = ["over_batches"]
