"""Arrays of more than 2**31 bytes and elements: elements, tiles, operators and copies beyond 2 GiB."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

ROWS, COLUMNS = 70_000, 32_768

pytestmark = [pytest.mark.machine_code, pytest.mark.slow(why="it writes 2.2 GiB several times")]


@tg.kernel
def store_last_column(a: tg.array2d[tg.int8]):
    i = tg.tid()
    a[i, a.shape[1] - 1] = tg.int8(i % 100)


@tg.kernel
def tiles_at_row_ends(a: tg.array2d[tg.int8]):
    i = tg.tid()
    t = tg.tile_load(a, shape=(2, 64), offset=(i * 2, a.shape[1] - 64))
    tg.tile_store(a, t + tg.int8(1), offset=(i * 2, 0))
    tg.tile_store(a[i * 2], t[1], offset=128)


@tg.kernel
def wide_offsets(a: tg.array1d[tg.int8], first: tg.int64, out: tg.array1d[tg.int8]):
    i, j = tg.tid()
    a[first + tg.int64(j)] = tg.int8(j)
    t = tg.tile_load(a, shape=32, offset=first)
    tg.tile_store(a, t, offset=first + tg.int64(64))
    tg.tile_store(out, t + tg.int8(i))


def test_elements_beyond_2_gib_are_accessed_correctly() -> None:
    a = tg.zeros((ROWS, COLUMNS), dtype=tg.int8)
    assert a.nbytes > 2**31
    tg.launch(store_last_column, ROWS, [a])
    tg.launch_tiled(tiles_at_row_ends, ROWS // 2, [a], block_dim=32)
    expected = np.arange(ROWS) % 100
    np.testing.assert_array_equal(a[:, -1].numpy(), expected)
    np.testing.assert_array_equal(a[:, 62:64].numpy(), np.stack([np.ones_like(expected), expected + 1], 1))
    np.testing.assert_array_equal(a[::2, 191].numpy(), expected[1::2])
    total = int(expected.sum() + (expected + 1).sum() + expected[1::2].sum()) + 63 * ROWS
    assert a.sum().item() == total
    a += 1
    assert a[-1, -1].item() == expected[-1] + 1 and a[-1, -2].item() == 1
    assert tg.indexedarray(a, [[ROWS - 1], None]).contiguous()[0, -1].item() == expected[-1] + 1
    line, out = a.flatten(), tg.zeros(32, dtype=tg.int8)
    assert line.size > 2**31
    tg.launch_tiled(wide_offsets, 1, [line, line.size - 128], [out], block_dim=32)
    assert line[-64:-32].list() == line[-128:-96].list() == out.list() == list(range(32))
    part = tg.empty(100, dtype=tg.int8)
    tg.copy(part, line, src_offset=line.size - 100)
    assert part.list() == line[-100:].list()
    with pytest.raises(tg.LaunchError, match="2\\*\\*31"):
        tg.map(abs, line)
