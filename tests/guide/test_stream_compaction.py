"""The guide's stream compaction with a tile stack."""

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

BLOCK_DIM = 256
CAPACITY = tg.constant(BLOCK_DIM)  # at most one output per thread


@tg.kernel
def compact_kernel(data: tg.array[float], out: tg.array[float]):
    _i, j = tg.tid()

    val = data[j]
    keep = val > 0.5

    # Cooperative push — only threads with keep=True write to the stack
    s = tg.tile_stack(capacity=CAPACITY, dtype=float)
    tg.tile_stack_push(s, val, keep)

    # Each thread races for a slot. The returned slot is a unique compact
    # index in [0, capacity-1] — use it directly as the output index.
    result, slot = tg.tile_stack_pop(s)
    if slot != -1:
        out[slot] = result


@tg.kernel
def counted(data: tg.array[float], selected: tg.array[int], slots: tg.array[int]):
    _i, j = tg.tid()
    s = tg.tile_stack(capacity=CAPACITY, dtype=float)
    slots[j] = tg.tile_stack_push(s, data[j], data[j] > 0.5)
    if j == 0:
        selected[0] = tg.tile_stack_count(s)
    tg.tile_stack_clear(s)
    if j == 0:
        selected[1] = tg.tile_stack_count(s)


@pytest.mark.parametrize("threshold", [0.0, 0.25, 0.9, 2.0])
def test_stream_compaction_keeps_the_selected_values(threshold: float) -> None:
    values = np.random.default_rng(8).random(BLOCK_DIM, dtype=np.float32) * np.float32(threshold)
    data = tg.array(values, dtype=float)
    out = tg.zeros(BLOCK_DIM, dtype=float)
    tg.launch_tiled(compact_kernel, dim=[1], inputs=[data, out], block_dim=BLOCK_DIM)
    selected = values[values > 0.5]
    actual = out.numpy()
    np.testing.assert_array_equal(np.sort(actual[: len(selected)]), np.sort(selected))
    assert not actual[len(selected) :].any()


def test_stacks_count_and_clear_their_elements() -> None:
    values = np.random.default_rng(9).random(BLOCK_DIM, dtype=np.float32)
    counts, slots = tg.zeros(2, dtype=int), tg.zeros(BLOCK_DIM, dtype=int)
    tg.launch_tiled(counted, dim=[1], inputs=[tg.array(values), counts, slots], block_dim=BLOCK_DIM)
    count = int((values > 0.5).sum())
    assert counts.list() == [count, 0]
    pushed = slots.numpy()
    assert sorted(pushed[values > 0.5]) == list(range(count)) and (pushed[values <= 0.5] == -1).all()
