"""Modules, streams, events, recorded graphs and threads on a GPU."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from raw_launch import VectorAdd

import tegula as tg
from tegula.errors import InternalError
from tegula.runtime.cuda.context import context
from tegula.runtime.cuda.module import LOCAL_BYTES, REGISTERS, LoadedModule

N = 80_003  # 201 times the largest number is exact in float32


@pytest.fixture(scope="module")
def add() -> VectorAdd:
    return VectorAdd()


def arrays(n: int = N) -> list[tg.array]:
    data = np.arange(n, dtype=np.float32)
    return [tg.array(data, device="cuda:0"), tg.array(data, device="cuda:0"), tg.zeros(n, device="cuda:0")]


@pytest.mark.parametrize("by_driver", [False, True])
def test_a_kernel_of_handwritten_ptx_runs(by_driver: bool) -> None:
    add = VectorAdd(by_driver=by_driver)
    a, b, c = arrays()
    add(a, b, c)
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(N, dtype=np.float32))
    assert 0 < add.module.attribute(add.function, REGISTERS) < 32
    assert add.module.attribute(add.function, LOCAL_BYTES) == 0


def test_code_that_the_driver_refuses_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="the driver's compiler refused the generated code"):
        LoadedModule(context(0), b".version 8.0\n.target sm_90a\n.address_size 64\nnonsense\0", True)


def test_streams_wait_for_events_and_events_measure_time(add: VectorAdd) -> None:
    first, second = tg.Stream("cuda:0"), tg.Stream("cuda:0", priority=-1)
    a, b, c = arrays()
    start, end = tg.Event("cuda:0", enable_timing=True), tg.Event("cuda:0", enable_timing=True)
    first.record_event(start)
    for _ in range(10):
        add(a, b, c, first)
        second.wait_stream(first)
        add(c, b, a, second)
        first.wait_event(second.record_event())
    first.record_event(end)
    assert 0 < tg.get_event_elapsed_time(start, end) < 1000
    with tg.ScopedStream(second):
        np.testing.assert_array_equal(a.numpy(), 21 * np.arange(N, dtype=np.float32))
    assert first.is_complete and second.is_complete and end.is_complete


def test_the_default_stream_waits_for_all_streams(add: VectorAdd) -> None:
    stream = tg.Stream("cuda:0")
    a, b, c = arrays()
    for _ in range(100):
        add(a, b, c, stream)
        add(c, b, a, stream)
    np.testing.assert_array_equal(a.numpy(), 201 * np.arange(N, dtype=np.float32))


def test_recorded_launches_repeat(add: VectorAdd) -> None:
    a, b, c = arrays()
    with tg.ScopedCapture("cuda:0") as capture:
        scratch = tg.zeros(N, device="cuda:0")
        add(a, b, scratch)
        add(scratch, b, c)
        a.assign(c)
    del scratch
    np.testing.assert_array_equal(c.numpy(), np.zeros(N))
    for _ in range(3):
        tg.capture_launch(capture.graph)
    np.testing.assert_array_equal(a.numpy(), 7 * np.arange(N, dtype=np.float32))


def test_recorded_copies_from_the_host_copy_the_recorded_values() -> None:
    """The driver copies from the host's memory whenever the graph is launched, when the memory may have other uses."""
    a = tg.zeros(N, device="cuda:0")
    source = np.arange(N, dtype=np.float32)
    with tg.ScopedCapture("cuda:0") as capture:
        a.assign(source)
        b = tg.array(source[::-1].copy(), device="cuda:0")
    source[:] = -1
    for _ in range(2):
        a.zero_()
        tg.capture_launch(capture.graph)
        np.testing.assert_array_equal(a.numpy(), np.arange(N, dtype=np.float32))
        np.testing.assert_array_equal(b.numpy(), np.arange(N, dtype=np.float32)[::-1])


@tg.kernel
def count_boxes(bvh: tg.uint64, low: tg.array1d[tg.vec3], high: tg.array1d[tg.vec3], counts: tg.array1d[int]):
    i = tg.tid()
    for _ in tg.bvh_query_aabb(bvh, low[i], high[i]):
        counts[i] += 1


def test_recorded_builds_of_hierarchies_repeat() -> None:
    """Other hierarchies are built and deleted between the launches of the graph, which keeps its own."""
    rng = np.random.default_rng(0)

    def boxes() -> tuple[np.ndarray, np.ndarray]:
        low = rng.random((5000, 3), dtype=np.float32)
        return low, low + np.float32(0.05)

    low, high = (tg.array(x, dtype=tg.vec3, device="cuda:0") for x in boxes())
    actual, expected = (tg.zeros(len(low), dtype=int, device="cuda:0") for _ in range(2))
    bvh = tg.Bvh(low, high)
    tg.launch(count_boxes, len(low), [bvh.id, low, high], [actual])
    with tg.ScopedCapture("cuda:0") as capture:
        bvh.rebuild()
        actual.zero_()
        tg.launch(count_boxes, len(low), [bvh.id, low, high], [actual])
    del bvh
    for _ in range(3):
        new_low, new_high = boxes()
        low.assign(new_low)
        high.assign(new_high)
        tg.capture_launch(capture.graph)
        second_bvh = tg.Bvh(low, high)
        expected.zero_()
        tg.launch(count_boxes, len(low), [second_bvh.id, low, high], [expected])
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())
    assert expected.numpy().min() >= 1


def test_launches_of_a_separate_stream_are_recorded(add: VectorAdd) -> None:
    stream = tg.Stream("cuda:0")
    a, b, c = arrays()
    tg.capture_begin(stream=stream)
    add(a, b, c)
    graph = tg.capture_end(stream=stream)
    tg.capture_launch(graph, stream=stream)
    stream.synchronize()
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(N, dtype=np.float32))


def test_calls_that_cannot_be_recorded_are_refused() -> None:
    a = tg.zeros(3, device="cuda:0")
    with (
        pytest.raises(tg.RunError, match="not possible while launches are recorded"),
        tg.ScopedCapture("cuda:0"),
    ):
        a.numpy()
    assert a.list() == [0.0, 0.0, 0.0]


def test_memory_is_not_freed_while_another_stream_reads(add: VectorAdd) -> None:
    stream = tg.Stream("cuda:0")
    results = []
    for _ in range(50):
        a, b, c = arrays()
        add(a, b, c, stream)
        results.append(c)
        del a, b
        tg.full(N, -1.0, device="cuda:0")
    tg.synchronize()
    for c in results:
        np.testing.assert_array_equal(c.numpy(), 2 * np.arange(N, dtype=np.float32))


def test_any_thread_can_launch(add: VectorAdd) -> None:
    results: list[np.ndarray] = []

    def work() -> None:
        with tg.ScopedStream(tg.Stream("cuda:0")):
            a, b, c = arrays()
            for _ in range(100):
                add(a, b, c)
                add(c, b, a)
            results.append(a.numpy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_array_equal(result, 201 * np.arange(N, dtype=np.float32))
