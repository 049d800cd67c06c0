"""The frontend, which traces Python functions to typed IR."""

from tegula.lang.annotations import (
    array1d,
    array2d,
    array3d,
    array4d,
    array_annotation,
    tile,
    tile_annotation,
)
from tegula.lang.decorators import FuncDef, KernelDef, constant, func, static
from tegula.lang.definition import PublicFunction

__all__ = [
    "FuncDef",
    "KernelDef",
    "PublicFunction",
    "array1d",
    "array2d",
    "array3d",
    "array4d",
    "array_annotation",
    "constant",
    "func",
    "static",
    "tile",
    "tile_annotation",
]
