"""Methods of tiles, under the names of NumPy's array methods."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tegula.dataclass import dataclass
from tegula.ir import Value
from tegula.lang.definition import PublicFunction
from tegula.ops.builder import is_tuple
from tegula.types import BufType, ElementType, TileType

if TYPE_CHECKING:
    from tegula.lang.calls import Calls

METHODS = {
    "all": "tile_all",
    "any": "tile_any",
    "argmax": "tile_argmax",
    "argmin": "tile_argmin",
    "astype": "tile_astype",
    "copy": "copy",
    "cumsum": "tile_scan_inclusive",
    "dot": "tile_dot",
    "max": "tile_max",
    "min": "tile_min",
    "reshape": "tile_reshape",
    "squeeze": "tile_squeeze",
    "sum": "tile_sum",
    "transpose": "tile_permute",
}
"""The function of each method of tiles; the first argument is the tile."""
SHAPE_METHODS = ("reshape", "transpose")
"""Methods that take a tuple, or its entries as separate arguments."""


@dataclass(frozen=True, slots=True)
class TileProperties:
    """The compile-time properties of a tile, for tg.static: its shape and dtype, not its elements."""

    shape: tuple[int, ...]
    dtype: ElementType

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]


@dataclass(frozen=True, slots=True)
class TileMethod:
    """A method of a tile, before its call."""

    tile: Value
    name: str


def method(x: Any, name: str) -> TileMethod | None:
    """The method of tiles with this name; None if there is none."""
    is_tile = isinstance(x, Value) and isinstance(x.type, TileType | BufType)
    return TileMethod(x, name) if is_tile and name in METHODS else None


def call_method(
    tracer: Calls, callee: TileMethod, args: Sequence[Any], kwargs: Mapping[str, Any], node: ast.AST | None
) -> Any:
    """The result of a call of a method."""
    arguments = list(args)
    if callee.name in SHAPE_METHODS and arguments and not is_tuple(arguments[0]):
        arguments = [tuple(arguments)]
    if callee.name == "transpose" and not arguments and not kwargs:
        t = callee.tile.type
        assert isinstance(t, TileType | BufType)
        arguments = [tuple(reversed(range(len(t.shape))))]
    return tracer.call(PublicFunction(METHODS[callee.name]), [callee.tile, *arguments], dict(kwargs), node)
