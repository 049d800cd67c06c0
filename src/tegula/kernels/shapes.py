"""The choice of tiles for matmuls, by an estimate of the time that each tile takes."""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, inf
from typing import Any, NamedTuple

import tegula as tg


class Tile(NamedTuple):
    """The tiling of the output. A block computes tiles of `rows` x `columns` elements with `groups` warp groups, in
    steps of `depth` along K, and fetches `stages` steps ahead. `rate`: the block's throughput relative to the largest
    tile. `splits`: the number of blocks that split the steps of a tile (split-K). `swapped`: whether the operands are
    exchanged, so that the columns are the M of wgmma, which is at least 64; a matmul with few rows then wastes no
    work."""

    rows: int
    columns: int
    depth: int
    stages: int
    groups: int
    rate: float = 1.0
    splits: int = 1
    swapped: bool = False

    def with_splits(self, splits: int) -> "Tile":
        """The tile with its steps split over `splits` blocks."""
        return Tile(*self[:6], splits, self.swapped)


TENSOR_CORES = (
    Tile(128, 256, 64, stages=4, groups=2),
    Tile(128, 128, 64, stages=6, groups=2, rate=0.97),
    Tile(64, 128, 64, stages=8, groups=1, rate=0.97),
    Tile(64, 64, 128, stages=6, groups=1, rate=0.8),
    Tile(32, 64, 128, stages=9, groups=1, rate=0.5, swapped=True),
    Tile(16, 64, 128, stages=11, groups=1, rate=0.3, swapped=True),
)
"""Tiles for 16-bit operands. Tiles for 8-bit and 32-bit operands have steps of the same number of bytes."""
VECTOR_UNITS = (Tile(128, 128, 16, stages=4, groups=2), Tile(64, 64, 32, stages=4, groups=1, rate=0.7))
"""Tiles for float32 operands without tf32."""
MAX_TILE_SIZE = 128 * 128
"""The size of the largest tile whose accumulators leave registers for a costly epilogue, in elements."""
SPLITS = (*range(1, 17), 24, 32)
MIN_STEPS = 4
"""The minimum number of steps of a split."""
SECTOR, UNALIGNED_SLOWDOWN = 32, 1.6
"""The size of an L2 sector in bytes, and the slowdown of reads whose rows are not aligned to sectors."""


class DeviceRates(NamedTuple):
    """Throughputs and latencies of a device; the defaults are an H200's. `blocks`: the number of concurrent blocks.
    Rates per second: `matmul_rate`, operations of a block with 16-bit operands and the largest tile; `tile_bandwidth`,
    bytes into the shared memory of a block; `l2_bandwidth` and `memory_bandwidth`, bytes from the L2 cache and from
    memory to all blocks; `block_bandwidth`, bytes from memory to one block. Times: `launch_seconds`; `block_seconds`,
    prologue and epilogue of a block, three times as long for a tile of 128 x 256; `zero_fill_seconds` of 128
    out-of-bounds bytes of a row; `reduction_seconds`, the launch that reduces splits."""

    blocks: int
    matmul_rate: float = 6.4e12
    tile_bandwidth: float = 150e9
    l2_bandwidth: float = 14e12
    memory_bandwidth: float = 4.3e12
    block_bandwidth: float = 62e9
    launch_seconds: float = 2.4e-6
    block_seconds: float = 0.4e-6
    zero_fill_seconds: float = 1.5e-9
    reduction_seconds: float = 2.6e-6

    def for_strides(self, *strides: int) -> "DeviceRates":
        """The rates for arrays with row strides of `strides` bytes: a row that is not aligned to an L2 sector reads
        one sector more. Measured: a matmul of 5000 x 5000 x 5000 takes 464 us with tiles of 128 x 128, and 390 us with
        tiles of 128 x 256."""
        is_aligned = all(n % SECTOR == 0 for n in strides)
        return self if is_aligned else self._replace(l2_bandwidth=self.l2_bandwidth / UNALIGNED_SLOWDOWN)


def cpu_rates(cores: int) -> DeviceRates:
    """The rates of a CPU. The estimate counts only the multiplications of whole tiles; `matmul_rate` is 1, because
    estimates are only compared with each other."""
    return DeviceRates(cores, 1.0, inf, inf, inf, inf, 0.0, 0.0, 0.0, inf)


def seconds(m: int, n: int, k: int, size: float, speed: float, tile: Tile, rates: DeviceRates) -> float:
    """The estimated time of an m x n x k matmul, in seconds. `size`: the bytes of an element; `speed`: the throughput
    of the multiplication units relative to 16-bit operands."""
    tile_rows, tile_columns = ceil(m / tile.rows), ceil(n / tile.columns)
    tiles = tile_rows * tile_columns * tile.splits
    waves, active = ceil(tiles / rates.blocks), min(tiles, rates.blocks)
    steps = ceil(ceil(k / tile.depth) / tile.splits)
    area, bytes_of_step = tile.rows * tile.columns, (tile.rows + tile.columns) * tile.depth * size
    multiply = waves * steps * 2 * area * tile.depth / (rates.matmul_rate * speed * tile.rate)
    fetch = max(
        waves * steps * bytes_of_step / rates.tile_bandwidth,
        tiles * steps * bytes_of_step / rates.l2_bandwidth,
    )
    stream = (m + n) * k * size / min(rates.memory_bandwidth, active * rates.block_bandwidth)
    zero_fill = (
        waves * steps * (tile.rows - m / tile_rows) * tile.depth * size / 128 * rates.zero_fill_seconds
        if m
        else 0.0
    )
    epilogue_time = waves * rates.block_seconds * (1 + 2 * area / (128 * 256))
    split_cost = (
        rates.reduction_seconds + 8 * tile.splits * m * n / rates.l2_bandwidth if tile.splits > 1 else 0.0
    )
    return rates.launch_seconds + max(multiply, fetch, stream) + zero_fill + epilogue_time + split_cost


@lru_cache(maxsize=4096)
def choose(
    m: int, n: int, k: int, size: float, speed: float, tiles: Sequence[Tile], rates: DeviceRates
) -> Tile:
    """The tile and the number of splits with the minimum estimated time. On CPUs tiles are neither split nor
    swapped."""
    on_gpu = rates.reduction_seconds < inf
    split_tiles = [
        tile.with_splits(splits)
        for tile in tiles
        for splits in SPLITS
        if (on_gpu or not tile.swapped) and (splits == 1 or (on_gpu and k >= splits * MIN_STEPS * tile.depth))
    ]
    return min(split_tiles, key=lambda tile: seconds(m, n, k, size, speed, tile, rates))


@lru_cache(maxsize=64)
def candidates(dtype: Any, needs_registers: bool, precision: str = "default") -> tuple[Tile, ...]:
    """The tiles for operands of a dtype. `needs_registers`: whether the epilogue needs many registers."""
    if dtype == tg.float32 and precision == "default":
        tiles = VECTOR_UNITS
    else:
        tiles = tuple(Tile(*t[:2], t.depth * 16 // dtype.bits, *t[3:]) for t in TENSOR_CORES)
    return tuple(t for t in tiles if not needs_registers or t.rows * t.columns <= MAX_TILE_SIZE)


def speed(dtype: Any, precision: str) -> float:
    """The throughput of the multiplication units for operands of a dtype, relative to 16-bit operands."""
    return 0.06 if dtype == tg.float32 and precision == "default" else 16 / dtype.bits
