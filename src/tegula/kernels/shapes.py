"""The choice of tiles for matmuls, by an estimate of the time that each tile takes."""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf
from typing import Any, NamedTuple

import tegula as tg


class Tile(NamedTuple):
    """The tiling of the output. A block computes `rows` x `columns` elements at a time with `groups` warp groups, in
    steps of `depth` along K, of which `stages` are fetched ahead. `rate`: the block's speed relative to the largest
    tile. `splits`: the number of blocks that split the steps of a tile; their sums are added up afterwards, in order.
    `swapped`: the operands are exchanged, so that the columns are the M of wgmma, which is at least 64; matmuls with
    few rows waste no work then."""

    rows: int
    columns: int
    depth: int
    stages: int
    groups: int
    rate: float = 1.0
    splits: int = 1
    swapped: bool = False

    def shared_by(self, splits: int) -> "Tile":
        """This tile with its steps split over `splits` blocks."""
        return Tile(*self[:6], splits, self.swapped)


TENSOR_CORES = (
    Tile(128, 256, 64, stages=4, groups=2),
    Tile(128, 128, 64, stages=6, groups=2, rate=0.97),
    Tile(64, 128, 64, stages=8, groups=1, rate=0.97),
    Tile(64, 64, 128, stages=6, groups=1, rate=0.8),
    Tile(32, 64, 128, stages=9, groups=1, rate=0.5, swapped=True),
    Tile(16, 64, 128, stages=11, groups=1, rate=0.3, swapped=True),
)
"""Tiles for 16-bit operands; tiles for 8-bit and 32-bit operands have steps with as many bytes."""
VECTOR_UNITS = (Tile(128, 128, 16, stages=4, groups=2), Tile(64, 64, 32, stages=4, groups=1, rate=0.7))
"""Tiles for float32 operands without tf32."""
MOST_CROWDED = 128 * 128
"""The number of elements of the largest tile whose accumulators leave registers for a costly epilogue."""
SPLITS = (*range(1, 17), 24, 32)
LEAST_STEPS = 4
"""The least number of steps of a split."""
SECTOR, WITHIN_SECTORS = 32, 1.6
"""The bytes of a sector of the L2 cache, and the factor by which reads of arrays are slower if rows start inside a
sector."""


class DeviceRates(NamedTuple):
    """Throughputs and latencies of a device; the defaults are an H200's. `blocks`: the number that run concurrently.
    Per second: `rate`: operations of a block with 16-bit operands and the largest tile; `fetch`: bytes that a block
    fetches; `cache`, `memory`: bytes that all blocks read; `stream`: bytes of memory that one block reads. In seconds:
    `start`: for a launch; `store`: for a block before and after its steps, three times as long for a tile of 128 x 256;
    `absent`: for 128 bytes of a row outside the array, which are fetched as zeros; `second`: for the launch that adds
    up splits."""

    blocks: int
    rate: float = 6.4e12
    fetch: float = 150e9
    cache: float = 14e12
    memory: float = 4.3e12
    stream: float = 62e9
    start: float = 2.4e-6
    store: float = 0.4e-6
    absent: float = 1.5e-9
    second: float = 2.6e-6

    def reading(self, *distances: int) -> "DeviceRates":
        """The rates for arrays whose rows are `distances` bytes apart: a row that starts inside a sector of the cache
        takes one sector more. Measured: 5000 x 5000 x 5000 with tiles of 128 x 128 takes 464 us, with 128 x 256 390."""
        aligned = all(n % SECTOR == 0 for n in distances)
        return self if aligned else self._replace(cache=self.cache / WITHIN_SECTORS)


def cpu(cores: int) -> DeviceRates:
    """The rates of a CPU, in whose estimate only the multiplications of whole tiles take time. `rate` is 1, because the
    estimates are only compared with each other."""
    return DeviceRates(cores, 1.0, inf, inf, inf, inf, 0.0, 0.0, 0.0, inf)


def seconds(m: int, n: int, k: int, size: float, speed: float, tile: Tile, machine: DeviceRates) -> float:
    """The estimated time of an m x n matmul of k terms, in seconds. `size`: bytes of an element; `speed`: the rate of
    the units that multiply, relative to 16-bit operands."""
    high, wide = ceil(m / tile.rows), ceil(n / tile.columns)
    tiles = high * wide * tile.splits
    waves, active = ceil(tiles / machine.blocks), min(tiles, machine.blocks)
    steps = ceil(ceil(k / tile.depth) / tile.splits)
    area, bytes_of_step = tile.rows * tile.columns, (tile.rows + tile.columns) * tile.depth * size
    multiply = waves * steps * 2 * area * tile.depth / (machine.rate * speed * tile.rate)
    fetch = max(waves * steps * bytes_of_step / machine.fetch, tiles * steps * bytes_of_step / machine.cache)
    stream = (m + n) * k * size / min(machine.memory, active * machine.stream)
    absent = waves * steps * (tile.rows - m / high) * tile.depth * size / 128 * machine.absent if m else 0.0
    once = waves * machine.store * (1 + 2 * area / (128 * 256))
    split_cost = machine.second + 8 * tile.splits * m * n / machine.cache if tile.splits > 1 else 0.0
    return machine.start + max(multiply, fetch, stream) + absent + once + split_cost


@lru_cache(maxsize=4096)
def choose(
    m: int, n: int, k: int, size: float, speed: float, tiles: Sequence[Tile], machine: DeviceRates
) -> Tile:
    """The tile and the number of splits with the least estimated time. On CPUs no tile is split or swapped."""
    on_gpu = machine.second < inf
    ways = [
        tile.shared_by(splits)
        for tile in tiles
        for splits in SPLITS
        if (on_gpu or not tile.swapped)
        and (splits == 1 or (on_gpu and k >= splits * LEAST_STEPS * tile.depth))
    ]
    return min(ways, key=lambda tile: seconds(m, n, k, size, speed, tile, machine))


@lru_cache(maxsize=64)
def candidates(dtype: Any, crowded: bool, precision: str = "default") -> tuple[Tile, ...]:
    """The tiles for operands of a dtype. `crowded`: whether the epilogue needs many registers."""
    if dtype == tg.float32 and precision == "default":
        tiles = VECTOR_UNITS
    else:
        tiles = tuple(Tile(*t[:2], t.depth * 16 // dtype.bits, *t[3:]) for t in TENSOR_CORES)
    return tuple(t for t in tiles if not crowded or t.rows * t.columns <= MOST_CROWDED)


def speed(dtype: Any, precision: str) -> float:
    """The speed of the units that multiply operands of a dtype, relative to 16-bit operands."""
    return 0.06 if dtype == tg.float32 and precision == "default" else 16 / dtype.bits
