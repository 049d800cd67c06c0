"""Tiles of random numbers."""

from __future__ import annotations

import math
from typing import Any

from tegula.ir import TypeRule, Value
from tegula.ops.base import public, require, require_range
from tegula.ops.build_tile import constant_shape, stored
from tegula.ops.builder import OpBuilder, Operand
from tegula.ops.kinds import Shape, Storage
from tegula.ops.scalar import Add
from tegula.ops.tile import TileArange, TileReshape
from tegula.types import DType, float32, int32, uint32

RANDOM_TILE = """A tile of random {numbers}.

    Element e, in row-major order, is the first draw of tg.{draw} from the state tg.rand_init(e + rng), on every device
    and with any number of threads. `rng` is not advanced: two calls with one state give
    equal tiles.

    Parameters:
        rng: a uint32 of tg.rand_init; the state of thread 0 is used.
        min, max: the range, constants with min < max; by default {range}.
    Returns:
        a tile of {dtype}, from `min` up to, but without, `max`.
    Raises:
        type-mismatch: `rng` is not a uint32, or `min` or `max` is not a {dtype}.
        not-constant: `min` or `max` is known at run time only.
        out-of-range: `min` is not below `max`, or one of them is not a {dtype}.
    Gradient:
        none: integers and draws have no gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """


def _random_tile(draw: str, dtype: DType, numbers: str, range: str) -> None:
    name = f"tile_{draw}"

    def build(
        b: OpBuilder,
        shape: Shape,
        rng: Operand,
        min: Operand = None,
        max: Operand = None,
        storage: Storage = "register",
    ) -> Value:
        if isinstance(min, str) and max is None:
            min, storage = None, min
        extents = constant_shape(shape)
        state = _state(b, name, rng)
        limits = _limits(b, name, dtype, min, max)
        return _draw_tile(b, draw, extents, state, [b.const(x, dtype) for x in limits], storage)

    build.__doc__ = RANDOM_TILE.format(numbers=numbers, draw=draw, range=range, dtype=dtype)
    public(name)(build)


def _state(b: OpBuilder, name: str, rng: Operand) -> Value:
    """The state from which the elements of a tile are drawn."""
    state = b.value(rng, uint32)
    require(
        state.type == uint32,
        f"the state of {name} must be a uint32, got {state.type}",
        "create one with tg.rand_init(seed)",
    )
    return state


def _draw_tile(
    b: OpBuilder, draw: str, shape: tuple[int, ...], state: Value, limits: list[Value], storage: Operand
) -> Value:
    """A tile whose elements are the first draws from separate states."""
    first, step = b.const(0, uint32), b.const(1, uint32)
    counters = b.one(TileArange, [first, step], {"count": math.prod(shape)})

    def element(args: list[Value]) -> Operand:
        return b.call(draw, b.call("rand_init", b.one(Add, args)), *limits)

    numbers = b.map(element, [counters, b.full((1,), state)])
    return stored(b, b.one(TileReshape, [b.tile(numbers)], {"shape": shape}), storage)


@public("tile_randn")
def tile_randn(b: OpBuilder, shape: Shape, rng: Operand, storage: Storage = "register") -> Value:
    """A tile of random numbers of the normal distribution with mean 0 and standard deviation 1.

    Element e, in row-major order, is the first draw of tg.randn from the state tg.rand_init(e + rng), on every device
    and with any number of threads. `rng` is not advanced: two calls with one state give equal tiles.

    Parameters:
        rng: a uint32 of tg.rand_init; the state of thread 0 is used.
    Returns:
        a tile of float32.
    Raises:
        type-mismatch: `rng` is not a uint32.
    Gradient:
        none: draws have no gradient.
    Source:
        Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
    """
    return _draw_tile(b, "randn", constant_shape(shape), _state(b, "tile_randn", rng), [], storage)


def _limits(b: OpBuilder, name: str, dtype: DType, low: Operand, high: Operand) -> list[Any]:
    """The range of the numbers; an empty list if no range is given."""
    if low is None and high is None:
        return []
    for word, x in (("min", low), ("max", high)):
        require(x is not None, f"{name} takes both min and max, or neither")
        if isinstance(x, Value):
            raise TypeRule("", "", "NotConstant", culprit=x, what=f"{word} of {name}")
        is_integer = isinstance(x, int) and not isinstance(x, bool)
        require(
            is_integer or (dtype.is_float and isinstance(x, float)),
            f"{word} of {name} is not a {dtype}: {x!r}",
        )
        b.const(x, dtype)
    require_range(low < high, f"{name} needs max > min, got min={low} and max={high}")
    return [low, high]


_random_tile("randi", int32, "int32", "all int32")
_random_tile("randf", float32, "float32", "from 0 up to 1")
