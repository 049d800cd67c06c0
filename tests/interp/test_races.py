"""The race check on accesses of threads between barriers."""

from types import SimpleNamespace

import numpy as np
import pytest
from kernel_builder import KernelBuilder

from tegula.errors import InternalError
from tegula.interp import DataRace, run_lowered
from tegula.interp.races import TracedRegion, regions_of
from tegula.layout import blocked, replicated
from tegula.ops.tile import TileEmpty
from tegula.types import ArrayType, BufType, StackType, int32

THREADS = 32
LOAD = {"bounds_check": True, "aligned": False}


def run(m: KernelBuilder, *args, offsets=None, layouts=None, lanes=THREADS) -> None:
    """Run a kernel; by default buffers are adjacent in memory and every tile has a blocked layout."""
    kernel = m.finish()
    result, layout_of, next_offset = dict(layouts or {}), {}, 0
    for op in kernel.walk():
        for v in op.results:
            t = v.type
            if isinstance(t, BufType) and op.NAME == "buf.new":
                strides = tuple(int(np.prod(t.shape[d + 1 :])) for d in range(len(t.shape)))
                size, next_offset = 4 * int(np.prod(t.shape)), next_offset + 128
                offset = (offsets or {}).get(v, next_offset - 128)
                layout_of[v] = SimpleNamespace(offset=offset, size=size, strides=strides)
            elif isinstance(t, StackType):
                layout_of[v] = SimpleNamespace(offset=next_offset, size=16 + 4 * t.capacity, strides=(1,))
                next_offset += 16 + 4 * t.capacity
            elif not isinstance(t, BufType) and hasattr(t, "partial"):
                result.setdefault(v, blocked(t.shape, THREADS, 1))
    run_lowered(kernel, args, (lanes,), None, result, layout_of, THREADS)


def builder(*params) -> KernelBuilder:
    return KernelBuilder(*params, block_dim=THREADS)


def buffer(m: KernelBuilder, n: int = THREADS):
    return m("buf.new", m("tile.full", m.const(1), shape=(n,)), storage="shared")


def set_element(m: KernelBuilder, target, index) -> None:
    m("lanes", regions=[m.region((), lambda: m("buf.set", target, index, index) and None)])


def get(m: KernelBuilder, source, index):
    return m("lanes", regions=[m.region((), lambda: m("buf.get", source, index))])


def mirrored(m: KernelBuilder, lane):
    return m("sub", m.const(THREADS - 1), lane)


@pytest.mark.parametrize("barrier", [False, True])
def test_a_read_after_a_write_of_another_thread_is_a_race(barrier: bool) -> None:
    m = builder()
    b = buffer(m)
    if barrier:
        m("barrier", reason="why")
    get(m, b, mirrored(m, m.tid()))
    if barrier:
        run(m)
        return
    with pytest.raises(DataRace) as e:
        run(m)
    text = str(e.value)
    assert "kernel.py:7" in text and "kernel.py:3" in text
    assert "thread 0 reads bytes 124 to 127 of shared memory (buf.get)" in text
    assert "thread 31 writes them (buf.new), with no barrier between" in text


def test_a_read_after_a_write_of_the_same_thread_is_not_a_race() -> None:
    m = builder()
    get(m, buffer(m), m.tid())
    run(m)


def test_a_write_after_a_read_of_another_thread_is_a_race() -> None:
    m = builder()
    b, lane = buffer(m), m.tid()
    m("barrier", reason="why")
    get(m, b, mirrored(m, lane))
    set_element(m, b, lane)
    with pytest.raises(DataRace, match="writes bytes"):
        run(m)


def test_accesses_to_buffers_that_share_bytes_race() -> None:
    m = builder()
    a = buffer(m)
    m("buf.read", a)
    b = m("buf.new", m("tile.empty", type=a.type.tile), storage="shared")
    set_element(m, b, mirrored(m, m.tid()))
    run(m)
    m = builder()
    a = buffer(m)
    m("buf.read", a)
    b = m("buf.new", m("tile.empty", type=a.type.tile), storage="shared")
    set_element(m, b, mirrored(m, m.tid()))
    with pytest.raises(DataRace):
        run(m, offsets={a: 0, b: 64})


def test_copies_are_written_by_one_thread_and_read_by_all() -> None:
    m = builder()
    t = m("tile.full", m.const(1), shape=(4,))
    b = m("buf.new", t, storage="shared")
    r = m("buf.read", b)
    with pytest.raises(DataRace):
        run(m, layouts={t: replicated((4,), THREADS), r: replicated((4,), THREADS)})


def test_updates_race_with_reads_but_not_with_each_other() -> None:
    m = builder()
    b, one, zero = buffer(m), m.const(1), m.const(0)
    m("barrier", reason="why")

    def twice():
        m("buf.update", b, one, zero, op="add")
        m("buf.update", b, one, zero, op="add")

    m("lanes", regions=[m.region((), twice)])
    m("barrier", reason="why")
    m("buf.get", b, zero)
    run(m)
    m = builder()
    b, one, zero = buffer(m), m.const(1), m.const(0)
    m("barrier", reason="why")
    m("lanes", regions=[m.region((), lambda: m("buf.update", b, one, zero, op="add") and None)])
    m("buf.get", b, zero)
    with pytest.raises(DataRace):
        run(m)


def test_lanes_are_not_ordered_in_arrays_but_tiles_are() -> None:
    def built(tile: bool) -> KernelBuilder:
        m = builder(ArrayType(int32, 1))
        lane = m.tid()
        m("lanes", regions=[m.region((), lambda: m("array.store", m.params[0], lane, lane) and None)])
        index = mirrored(m, lane)
        m("lanes", regions=[m.region((), lambda: m("array.load", m.params[0], index))])
        if tile:
            m("tile.load", m.params[0], m.const(0), m.const(1), shape=(THREADS,), **LOAD)
        return m

    run(built(False), np.zeros(THREADS, np.int32))
    with pytest.raises(DataRace, match="of 'p0' \\(tile.load\\)"):
        run(built(True), np.zeros(THREADS, np.int32))


def test_writes_that_all_threads_read_are_ordered() -> None:
    m = builder(ArrayType(int32, 1))
    lane = m.tid()
    m("lanes", regions=[m.region((), lambda: m("array.store", m.params[0], lane, lane) and None)])
    m("array.load", m.params[0], m.const(3))
    with pytest.raises(DataRace):
        run(m, np.zeros(THREADS, np.int32))


def test_accesses_to_overlapping_arrays_race() -> None:
    m = builder(ArrayType(int32, 1), ArrayType(int32, 1))
    t = m("tile.load", m.params[0], m.const(0), m.const(0), shape=(THREADS,), **LOAD)
    m("tile.store", m.params[1], t, m.const(0), **LOAD)
    memory = np.zeros(40, np.int32)
    run(m, memory[:32], np.zeros(32, np.int32))
    m.body.ops.pop()
    with pytest.raises(DataRace, match="'p0' and 'p1'"):
        run(m, memory[:32], memory[4:36])


def asynchronous_copy(m: KernelBuilder, wait: bool, barrier: bool):
    t = m("tile.empty", type=BufType(int32, (THREADS,), "shared").tile)
    b = m("buf.new", t, storage="shared")
    m("group.async_copy", b, m.params[0], m.const(0), **LOAD)
    m("group.async_commit")
    if wait:
        m("group.async_wait", b, pending=0)
    if barrier:
        m("barrier", reason="why")
    return b


def test_asynchronous_copies_race_before_their_wait() -> None:
    a, out = np.arange(THREADS, dtype=np.int32), np.zeros(THREADS, np.int32)
    m = builder(ArrayType(int32, 1), ArrayType(int32, 1))
    index = mirrored(m, m.tid())
    m("array.store", m.params[1], get(m, asynchronous_copy(m, True, True), index), index)
    run(m, a, out)
    assert out.tolist() == a.tolist()
    for wait, barrier in ((False, True), (True, False)):
        m = builder(ArrayType(int32, 1))
        get(m, asynchronous_copy(m, wait, barrier), mirrored(m, m.tid()))
        with pytest.raises(DataRace):
            run(m, a)


def test_one_thread_counts_the_elements_of_a_stack() -> None:
    t = StackType(int32, 8)
    m = builder()
    m("stack.count", m("stack.new", type=t))
    with pytest.raises(DataRace):
        run(m)
    m = builder()
    s = m("stack.new", type=t)
    m("barrier", reason="why")
    m("stack.count", s)
    run(m)


def test_memory_of_the_previous_block_is_invalid() -> None:
    m = builder(ArrayType(int32, 1))
    t = m("tile.empty", type=BufType(int32, (THREADS,), "shared").tile)
    assert isinstance(t.owner, TileEmpty)
    b, lane = m("buf.new", t, storage="shared"), m.tid()
    m("array.store", m.params[0], get(m, b, m("mod", lane, m.const(THREADS))), lane)
    out = np.zeros(2 * THREADS, np.int32)
    run(m, out, lanes=2 * THREADS)
    assert (out == -1).all()


def test_group_ops_need_a_lowered_kernel() -> None:
    m = builder()
    m("barrier", reason="why")
    with pytest.raises(InternalError, match="lowered"):
        m.run()


def test_overlapping_arrays_are_one_traced_region() -> None:
    x = np.zeros((4, 6), np.float32)
    unrelated = np.zeros(3, np.int8)
    regions = list(regions_of([("a", x[:2]), ("b", x[1:, ::-1]), ("c", unrelated), ("d", unrelated[:0])]))
    shapes = {r.name: (r.size, r.unit) for r in regions}
    assert shapes == {"'a' and 'b'": (96, 4), "'c'": (3, 1)}
    assert all(isinstance(r, TracedRegion) and not r.shared for r in regions)
