"""The section "Launches and lanes" of the semantics: one test per line."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, codes

import tegula as tg


@tg.kernel
def store_in_later_blocks(out: tg.array[int]):
    i, j = tg.tid()
    if i > 0:
        t = tg.tile_full(4, i)
        tg.tile_store(out, t, offset=i * 4)


@pytest.mark.machine_code
def test_launch_class_determines_uniform_values() -> None:
    (out,) = agree(store_in_later_blocks, [tg.zeros(12, dtype=int)], (3,), 8, tiled=True)
    assert out.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    with pytest.raises(tg.CompileError) as raised:
        tg.launch(store_in_later_blocks, (12, 3), inputs=[tg.zeros(48, dtype=int)], block_dim=8)
    assert codes(raised.value) == {"divergent-cooperative-op"}


def test_divergence_error_names_the_class() -> None:
    with pytest.raises(tg.CompileError) as raised:
        tg.launch(store_in_later_blocks, (12, 3), inputs=[tg.zeros(48, dtype=int)], block_dim=8)
    assert "block_dim 8" in str(raised.value) or "block_dim=8" in str(raised.value)


@pytest.mark.machine_code
def test_trailing_dimensions_that_divide_make_a_component_uniform() -> None:
    (out,) = agree(store_in_later_blocks, [tg.zeros(12, dtype=int)], (3, 16), 8)
    assert out.tolist() == [0] * 4 + [1] * 4 + [2] * 4


@tg.kernel
def uniform_branch(out: tg.array[int]):
    i = tg.tid()
    if tg.uniform(i) >= 8:
        tg.tile_store(out, tg.tile_full(4, 7), offset=tg.uniform(i))


@pytest.mark.machine_code
def test_uniform_values_are_the_values_of_lane_zero() -> None:
    (out,) = agree(uniform_branch, [tg.zeros(16, dtype=int)], 16, 4)
    assert out.tolist() == [0] * 8 + [7] * 8


@tg.kernel
def lane_ops(counts: tg.array[int], n: int):
    tg.atomic_add(counts, 0, 1)
    t = tg.tile_zeros(2, dtype=int, storage="shared")
    t[0] += 1
    t[n] += n
    tg.tile_store(counts, t, offset=1)


@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [1, 4, 64, 256])
def test_lane_ops_happen_once_per_lane(block_dim: int) -> None:
    (counts,) = agree(lane_ops, [tg.zeros(3, dtype=int), 1], 5, block_dim, tiled=True)
    assert counts.tolist() == [5 * block_dim, block_dim, block_dim]


@tg.kernel
def uniform_atomic(c: tg.array[int]):
    i = tg.tid()
    t = tg.tile_full(4, i)
    tg.atomic_add(c, 0, 1)
    tg.tile_atomic_add(c, tg.tile_sum(t), offset=1)


@pytest.mark.machine_code
def test_uniform_atomic_add_counts_every_thread() -> None:
    (c,) = agree(uniform_atomic, [tg.zeros(2, dtype=int)], 6, 32, tiled=True)
    assert c.tolist() == [32 * 6, 4 * 15]


@tg.kernel
def print_each(n: int):
    i, j = tg.tid()
    print("lane", j)


@pytest.mark.machine_code
def test_print_happens_once_per_lane(capfd: pytest.CaptureFixture[str]) -> None:
    tg.launch_tiled(print_each, dim=2, inputs=[1], block_dim=3)
    tg.synchronize()
    assert sorted(capfd.readouterr().out.split()) == sorted(["lane", "0", "lane", "1", "lane", "2"] * 2)


@tg.kernel
def element_counts(out: tg.array[int]):
    t = tg.tile_zeros(1, dtype=int, storage="shared")
    t[0] += 1
    tg.tile_store(out, t)


@pytest.mark.machine_code
def test_shared_element_increment_is_atomic() -> None:
    (out,) = agree(element_counts, [tg.zeros(1, dtype=int)], 1, 256, tiled=True)
    assert out.tolist() == [256]


@tg.kernel
def lane_zero_operand(out: tg.array[int]):
    i, j = tg.tid()
    t = tg.tile_full(4, j + 5)
    tg.tile_store(out, t, offset=j + 2)


@pytest.mark.machine_code
def test_a_lane_varying_group_operand_has_the_value_of_lane_zero() -> None:
    (out,) = agree(lane_zero_operand, [tg.zeros(8, dtype=int)], 1, 4, tiled=True)
    assert out.tolist() == [0, 0, 5, 5, 5, 5, 0, 0]


@tg.kernel
def tree(a: tg.array[float], o: tg.array[float]):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=64, offset=i * 64, storage="shared")
    k = 32
    while k > 0:
        if j < k:
            t[j] += t[j + k]
        k //= 2
    if j == 0:
        o[i] = t[0]


@tg.kernel
def rotate(a: tg.array[int], o: tg.array[int]):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=16, storage="shared")
    for k in range(5):
        x = t[(j + 1) % 16]
        t[j] = x
    o[j] = t[(j + 3) % 16]


@pytest.mark.machine_code
def test_accesses_of_a_block_are_ordered_across_iterations() -> None:
    x = np.arange(256, dtype=np.float32)
    _, sums = agree(tree, [tg.array(x), tg.zeros(4)], 4, 64, tiled=True)
    np.testing.assert_array_equal(sums, x.reshape(4, 64).sum(1))
    y = np.arange(16, dtype=np.int32)
    _, rotated = agree(rotate, [tg.array(y), tg.zeros(16, dtype=int)], 1, 16, tiled=True)
    np.testing.assert_array_equal(rotated, np.roll(y, -8))


@tg.kernel
def store_then_load(a: tg.array[int], o: tg.array[int]):
    i, j = tg.tid()
    tg.tile_store(a, tg.tile_arange(8, dtype=int) * 10, offset=i * 8)
    o[i * 8 + j] = a[i * 8 + 7 - j]
    o[16 + i * 8 + j] = j
    tg.tile_store(o, tg.tile_load(o, shape=8, offset=16 + i * 8) + 100, offset=16 + i * 8)


@pytest.mark.machine_code
def test_store_then_load_of_one_array_is_ordered() -> None:
    a, o = agree(store_then_load, [tg.zeros(16, dtype=int), tg.zeros(32, dtype=int)], 2, 8, tiled=True)
    assert o[:16].tolist() == list(range(70, -1, -10)) * 2
    assert o[16:].tolist() == list(range(100, 108)) * 2


@tg.kernel
def unordered(o: tg.array[int], n: int):
    i, j = tg.tid()
    t = tg.tile_zeros(16, dtype=int, storage="shared")
    if j < n:
        t[j] = j
        o[j] = t[(j + 1) % 16]


def test_accesses_without_a_uniform_point_in_between_are_refused_at_both_lines() -> None:
    with pytest.raises(tg.CompileError) as raised:
        tg.launch_tiled(unordered, dim=1, inputs=[tg.zeros(16, dtype=int), 3], block_dim=16)
    text = str(raised.value)
    assert raised.value.CODE == "unordered-access"
    assert "t[j] = j" in text and "o[j] = t[(j + 1) % 16]" in text


@tg.kernel
def same_lane(o: tg.array[int], n: int):
    i, j = tg.tid()
    t = tg.tile_zeros(16, dtype=int, storage="shared")
    if j < n:
        t[j] = j + 1
        o[j] = t[j]


@pytest.mark.machine_code
def test_accesses_by_provably_the_same_lane_need_no_order() -> None:
    (o,) = agree(same_lane, [tg.zeros(16, dtype=int), 3], 1, 16, tiled=True)
    assert o.tolist() == [1, 2, 3] + [0] * 13


@tg.kernel
def index_before_sync(o: tg.array[int], n: int):
    i, j = tg.tid()
    t = tg.tile_zeros(20, dtype=int, storage="shared")
    k = j + 4
    o[j] = k
    total = tg.tile_sum(tg.tile_load(o, shape=16))[0]
    if j < n:
        t[k] = total + j
        o[j] = t[k]


@pytest.mark.machine_code
def test_an_index_computed_before_a_uniform_point_stays_lane_varying() -> None:
    (o,) = agree(index_before_sync, [tg.zeros(16, dtype=int), 3], 1, 16, tiled=True)
    assert o.tolist() == [184, 185, 186, *range(7, 20)]


@tg.kernel
def shared_index(o: tg.array[int], n: int):
    i, j = tg.tid()
    t = tg.tile_zeros(16, dtype=int, storage="shared")
    k = j // 2
    o[j] = k
    total = tg.tile_sum(tg.tile_load(o, shape=16))[0]
    if j < n:
        t[k] = total + j
        o[j] = t[k]


def test_an_index_of_two_lanes_computed_before_a_uniform_point_is_refused() -> None:
    with pytest.raises(tg.CompileError) as raised:
        tg.launch_tiled(shared_index, dim=1, inputs=[tg.zeros(16, dtype=int), 3], block_dim=16)
    assert raised.value.CODE == "unordered-access"


@tg.kernel
def partial(sums: tg.array[int], lowest: tg.array[int], elements: tg.array[int], arg: tg.array[int]):
    i = tg.tid()
    t = tg.tile(10 - i)
    b = tg.uniform(i) // 4
    tg.tile_store(sums, tg.tile_sum(t), offset=b)
    tg.tile_store(lowest, tg.tile_min(t), offset=b)
    tg.tile_store(elements, t, offset=b * 4)
    tg.tile_store(arg, tg.tile_argmin(t), offset=b)


@pytest.mark.machine_code
def test_partial_blocks_have_no_elements_for_absent_lanes() -> None:
    arrays = [
        tg.zeros(3, dtype=int),
        tg.zeros(3, dtype=int),
        tg.full(12, -1, dtype=int),
        tg.zeros(3, dtype=int),
    ]
    sums, lowest, elements, arg = agree(partial, arrays, 10, 4)
    assert sums.tolist() == [34, 18, 3] and lowest.tolist() == [7, 3, 1] and arg.tolist() == [3, 3, 1]
    assert elements.tolist() == [*range(10, 0, -1), -1, -1]


@tg.kernel
def partial_zero(out: tg.array[int]):
    i = tg.tid()
    t = tg.tile(i + 1)
    u = tg.tile_reshape(t + 100, (2, 2))
    tg.tile_store(out, tg.tile_reshape(u, 4), offset=tg.uniform(i))
    out[12 + i] = t[3]


@pytest.mark.machine_code
def test_other_ops_read_zero_for_absent_lanes() -> None:
    (out,) = agree(partial_zero, [tg.zeros(24, dtype=int)], 6, 4)
    assert out[:4].tolist() == [101, 102, 103, 104] and out[4:6].tolist() == [105, 106]
    assert out[12:18].tolist() == [4, 4, 4, 4, 0, 0]


@tg.kernel
def partial_scan(out: tg.array[int]):
    i = tg.tid()
    tg.tile_store(out, tg.tile_scan_inclusive(tg.tile(i + 1)), offset=tg.uniform(i))


@pytest.mark.machine_code
def test_scans_skip_absent_lanes() -> None:
    (out,) = agree(partial_scan, [tg.full(8, -1, dtype=int)], 6, 4)
    assert out.tolist() == [1, 3, 6, 10, 5, 11, -1, -1]


@tg.kernel
def count_lanes(counts: tg.array[int]):
    i = tg.tid()
    tg.atomic_add(counts, 0, 1)
    counts[1] = 1


@pytest.mark.machine_code
@pytest.mark.parametrize(("n", "block_dim"), [(10, 4), (1, 256), (33, 32), (0, 8)])
def test_lanes_beyond_the_launch_have_no_effects(n: int, block_dim: int) -> None:
    (counts,) = agree(count_lanes, [tg.zeros(2, dtype=int)], n, block_dim)
    assert counts.tolist() == [n, min(n, 1)]


@tg.kernel
def lane_return(o: tg.array[int]):
    i, j = tg.tid()
    if j > 2:
        return
    tg.tile_store(o, tg.tile_ones(4, dtype=int))


@tg.kernel
def nested_return(o: tg.array[int]):
    i, j = tg.tid()
    for k in range(3):
        if j == k:  # noqa: SIM102
            if o[0] > 0:
                return
    tg.tile_store(o, tg.tile_ones(4, dtype=int))


@tg.kernel
def lane_break(o: tg.array[int]):
    i, j = tg.tid()
    for k in range(3):
        if j == k:
            break
        tg.tile_store(o, tg.tile_ones(4, dtype=int))


@tg.kernel
def lane_continue(o: tg.array[int]):
    i, j = tg.tid()
    for k in range(3):
        if j == k:
            continue
        tg.tile_store(o, tg.tile_ones(4, dtype=int))


@tg.kernel
def lane_while(o: tg.array[int]):
    i, j = tg.tid()
    k = 0
    while k < j:
        tg.tile_store(o, tg.tile_ones(4, dtype=int))
        k += 1


@tg.kernel
def lane_loop_exit(o: tg.array[int]):
    i, j = tg.tid()
    k = 0
    while True:
        if k > j:
            break
        k += 1
        tg.tile_store(o, tg.tile_ones(4, dtype=int))


DIVERGENT = (lane_return, nested_return, lane_break, lane_continue, lane_while, lane_loop_exit)


@pytest.mark.parametrize("kernel", DIVERGENT, ids=lambda k: k.name)
def test_divergent_exit_before_a_cooperative_op_is_refused(kernel: object) -> None:
    with pytest.raises(tg.CompileError) as raised:
        tg.launch_tiled(kernel, dim=1, inputs=[tg.zeros(4, dtype=int)], block_dim=8)
    assert codes(raised.value) <= {"cooperative-after-return", "divergent-cooperative-op"}
    assert "tg.tile_store" in str(raised.value)


@tg.kernel
def uniform_return(o: tg.array[int]):
    i = tg.tid()
    if i == 1:
        return
    tg.tile_store(o, tg.tile_ones(4, dtype=int), offset=i * 4)


@pytest.mark.machine_code
def test_uniform_returns_are_accepted() -> None:
    (o,) = agree(uniform_return, [tg.zeros(12, dtype=int)], 3, 8, tiled=True)
    assert o.tolist() == [1] * 4 + [0] * 4 + [1] * 4


@tg.kernel(grid_stride=True, launch_bounds=256)
def with_options(o: tg.array[int]):
    i = tg.tid()
    o[i] = i


@pytest.mark.machine_code
def test_grid_stride_and_max_blocks_are_accepted() -> None:
    o = tg.zeros(100, dtype=int)
    tg.launch(with_options, 100, inputs=[o], block_dim=8, max_blocks=2)
    assert o.list() == list(range(100))


@tg.kernel
def block_size_independent(x: tg.array2d[float], o: tg.array[float]):
    i = tg.tid()
    t = tg.tile_load(x[i], shape=40)
    u = tg.tile_map(tg.abs, t) * 2.0 - t
    tg.tile_store(o, tg.tile_sum(u), offset=i)


@pytest.mark.machine_code
def test_results_do_not_depend_on_the_block_size() -> None:
    x = tg.array(np.random.default_rng(1).integers(-9, 9, (5, 40)).astype(np.float32))
    results = [
        agree(block_size_independent, [x, tg.zeros(5)], 5, n, tiled=True)[1] for n in (1, 7, 32, 64, 1024)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)


@tg.kernel
def four_dimensions(o: tg.array4d[int]):
    a, b, c, d = tg.tid()
    o[a, b, c, d] = ((a * 10 + b) * 10 + c) * 10 + d


@tg.kernel
def first_index(o: tg.array[int]):
    a = tg.tid()
    tg.atomic_add(o, a, 1)


@pytest.mark.machine_code
def test_tid_unpacks_leading_dimensions() -> None:
    (o,) = agree(four_dimensions, [tg.zeros((2, 3, 4, 5), dtype=int)], (2, 3, 4, 5), 7)
    assert o[1, 2, 3, 4] == 1234 and o[0, 1, 0, 3] == 103
    (counts,) = agree(first_index, [tg.zeros(2, dtype=int)], (2, 3, 4, 5), 7)
    assert counts.tolist() == [60, 60]
