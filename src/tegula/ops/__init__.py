"""The ops: one class each, by family. Importing this package fills the registry and the table of public names."""

from tegula.ops import (
    array,
    base,
    buffer,
    build_lane,
    build_math,
    build_tile,
    builder,
    control,
    convert,
    debug,
    indexing,
    lane,
    linear,
    scalar,
    stack,
    tile,
    vector,
)
from tegula.ops.base import PUBLIC, REGISTRY

__all__ = [
    "PUBLIC",
    "REGISTRY",
    "array",
    "base",
    "buffer",
    "build_lane",
    "build_math",
    "build_tile",
    "builder",
    "control",
    "convert",
    "debug",
    "indexing",
    "lane",
    "linear",
    "scalar",
    "stack",
    "tile",
    "vector",
]
