"""Conversions of tiles of narrow numbers are sunk to the first use of the wide tile."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from lowering import agrees, lowered, tiled

import tegula as tg
from tegula.ir import Kernel, Op
from tegula.ops.convert import Cast
from tegula.ops.group import PartialReduce
from tegula.ops.tile import TileMap, TileReduce

BF16 = ml_dtypes.bfloat16


@tg.kernel
def centred(a: tg.array2d[tg.bfloat16], w: tg.array1d[tg.bfloat16], b: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_astype(tg.tile_load(a[i], 64), tg.float32)
    weight = tg.tile_astype(tg.tile_load(w, 64), tg.float32)
    tg.tile_store(b[i], (t - tg.tile_max(t)) * weight)


@tg.kernel
def conversion_in_a_branch(a: tg.array2d[tg.bfloat16], b: tg.array2d[float], n: int):
    i = tg.tid()
    t = tg.tile_astype(tg.tile_load(a[i], 64), tg.float32)
    narrow = tg.tile_astype(t, tg.bfloat16)
    if n > 0:
        tg.tile_store(b[i], tg.tile_astype(narrow, tg.float32) + t)
    else:
        for k in range(2):
            tg.tile_store(b[i], t * float(k))


def row_ops(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if isinstance(op, TileMap | TileReduce | PartialReduce)]


def is_cast(op: Op) -> bool:
    return isinstance(op, TileMap) and isinstance(op.regions[0].ops[0], Cast)


def numbers(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) % 9).astype(BF16)


def test_conversions_are_sunk_below_the_reduction() -> None:
    launch = tiled(centred, [numbers(3, 64), numbers(64), np.zeros((3, 64), np.float32)], (3,), 64)
    kernel, _ = agrees(launch)
    ops = row_ops(kernel)
    first, second = (k for k, op in enumerate(ops) if is_cast(op))
    reduction = next(k for k, op in enumerate(ops) if not isinstance(op, TileMap))
    assert first < reduction < second
    assert ops[second].result in ops[second + 1].operands


def test_conversions_with_uses_in_control_flow_are_correct() -> None:
    for n in (0, 1):
        launch = tiled(conversion_in_a_branch, [numbers(2, 64), np.zeros((2, 64), np.float32), n], (2,), 32)
        agrees(launch)
    kernel, _ = lowered(launch)
    # A tile that is widened and narrowed again is the loaded tile.
    assert sum(map(is_cast, row_ops(kernel))) == 2
