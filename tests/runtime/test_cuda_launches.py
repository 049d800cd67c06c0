"""Launches, streams, recorded graphs and faults on a GPU, with the simulated driver."""

from __future__ import annotations

import ctypes
import gc
import math
import struct
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg
from support.cuda_launches import Tensor, add, arrays, checked, run_add, torch_stub, total
from tegula.codegen.sites import RECORD_SLOTS
from tegula.errors import InternalError
from tegula.runtime.cuda.context import context
from tegula.runtime.cuda.driver import Unavailable, initialised, install
from tegula.runtime.cuda.launch import blocks_of_cta, launch_on_device
from tegula.runtime.cuda.module import LoadedModule
from tegula.runtime.launch import plan


@tg.kernel
def greet(n: int):
    i = tg.tid()
    print(n)


@pytest.fixture
def driver(simulated: SimulatedDriver) -> SimulatedDriver:
    simulated.kernels["kernel"] = run_add
    add.unload()
    checked.unload()
    greet.unload()
    return simulated


@tg.kernel
def matmul(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[tg.bfloat16]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(128, 256), dtype=float)
    for k in range(a.shape[1] // 64):
        x = tg.tile_load(a, shape=(128, 64), offset=(i * 128, k * 64))
        tg.tile_matmul(x, tg.tile_load(b, shape=(64, 256), offset=(k * 64, j * 256)), total)
    tg.tile_store(c, tg.tile_astype(total, tg.bfloat16), offset=(i * 128, j * 256))


@pytest.mark.machine_code
def test_a_kernel_runs_where_its_arrays_are(driver: SimulatedDriver) -> None:
    for device in ("cuda:0", "cuda:1"):
        a, b, c = arrays(device=device)
        tg.launch(add, 1000, [a, b], [c], block_dim=64)
        np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))
    assert driver.launches == [(16, 64, 0, 1)] * 2
    a, b, c = arrays(device="cpu")
    tg.launch(add, 1000, [a, b], [c])
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))
    assert len(driver.launches) == 2


def test_launches_have_whole_warps_of_threads(driver: SimulatedDriver) -> None:
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    tg.launch(add, 100, arrays(100), block_dim=50)
    assert driver.launches == [(2, 64, 0, 1)]


def test_kernels_are_compiled_once_per_device(driver: SimulatedDriver) -> None:
    for _ in range(3):
        tg.launch(add, 1000, arrays())
        tg.launch(add, 1000, arrays(device="cuda:1"))
    assert driver.calls.count("cuModuleLoadDataEx") == 2
    assert sorted(str(c.device) for c in add.compiled) == ["cuda:0", "cuda:1"]


@pytest.mark.machine_code
def test_launches_with_arrays_of_several_devices_are_refused(driver: SimulatedDriver) -> None:
    a, b, c = arrays()
    with pytest.raises(tg.LaunchError, match="'a' is on cuda:0, 'b' is on cuda:1, 'c' is on cuda:0"):
        tg.launch(add, 1000, [a, b.to("cuda:1"), c])
    with pytest.raises(tg.LaunchError, match="'b' is on cpu"):
        tg.launch(add, 1000, [a, b.numpy(), c])
    with pytest.raises(tg.LaunchError, match="the launch is on cpu, but its arrays are on cuda:0"):
        tg.launch(add, 1000, [a, b, c], device="cpu")
    grads = {"adj_inputs": [tg.zeros_like(x) for x in (a, b)], "adj_outputs": [tg.ones_like(c)]}
    with pytest.raises(tg.LaunchError, match="the launch is on cpu, but its arrays are on cuda:0"):
        tg.launch(add, 1000, [a, b], [c], **grads, adjoint=True, device="cpu")
    tg.launch(add, 1000, [a, b, c], device="cuda:0")
    with pytest.raises(tg.LaunchError, match="there are no streams on the CPU"):
        tg.launch(add, 1000, arrays(device="cpu"), stream=tg.Stream("cuda:0"))
    with pytest.raises(tg.LaunchError, match="the stream belongs to cuda:1, the arguments are on cuda:0"):
        tg.launch(add, 1000, [a, b, c], stream=tg.Stream("cuda:1"))


@pytest.mark.machine_code
def test_a_kernel_without_arrays_runs_on_the_current_device(driver: SimulatedDriver, capsys) -> None:
    contexts = []
    driver.kernels["kernel"] = lambda blocks, threads, data: contexts.append(driver.current)
    tg.launch(greet, 1, [5])
    assert capsys.readouterr().out == "5\n" and contexts == []
    with tg.ScopedDevice("cuda:1"):
        tg.launch(greet, 1, [5])
    tg.launch(greet, 1, [5], device="cuda:0")
    tg.launch(greet, 1, [5], stream=tg.Stream("cuda:1"))
    assert contexts == [0xC001, 0xC000, 0xC001]
    tg.launch(greet, 1, [5], device="cpu")
    assert capsys.readouterr().out == "5\n"


def test_combined_blocks_fill_the_device_once(driver: SimulatedDriver) -> None:
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    total.unload()
    small, large = (tg.zeros(n, device="cuda:0") for n in (512, 1 << 20))
    result, side_stream = tg.zeros(1, device="cuda:0"), tg.Stream("cuda:0")
    for a in (small, large):
        tg.launch(total, len(a), [a, result])
        tg.launch(total, len(a), [a, result], stream=side_stream)
    assert [x[0] for x in driver.launches] == [2, 2, 132 * 8, 132 * 8]
    tg.config.mode = "debug"
    try:
        tg.launch(total, 1 << 20, [large, result])
    finally:
        tg.config.mode = "release"
    assert driver.launches[-1][0] == 4096


@tg.kernel
def reversed_rows(a: tg.array2d[float], b: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(b[i], tg.tile_load(a[i], 32)[::-1])


@pytest.mark.parametrize(
    ("rows", "grid"), [(9, (9, 32)), (4223, (2112, 64)), (8448, (1056, 256)), (20001, (2501, 256))]
)
def test_blocks_of_one_warp_share_ctas_in_launches_that_fill_the_device(
    driver: SimulatedDriver, rows: int, grid: tuple[int, int]
) -> None:
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    reversed_rows.unload()
    a, b = (tg.zeros((rows, 32), device="cuda:0") for _ in range(2))
    tg.launch_tiled(reversed_rows, rows, [a, b], block_dim=32)
    tg.launch_tiled(reversed_rows, rows, [a, b], block_dim=32, stream=tg.Stream("cuda:0"))
    block_bytes = reversed_rows.compiled[0].shared_bytes
    assert block_bytes and block_bytes % 128 == 0
    assert [x[:3] for x in driver.launches] == [(*grid, block_bytes * grid[1] // 32)] * 2


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "blocks_per_cta"),
    [(32, 1024, 8), (64, 128, 4), (72, 128, 2), (96, 128, 2), (64, 8192, 2), (64, 16384, 1), (255, 128, 1)],
)
def test_blocks_share_ctas_while_nearly_all_blocks_stay_resident(
    driver: SimulatedDriver, registers: int, shared_bytes: int, blocks_per_cta: int
) -> None:
    """Multiprocessors have 65536 registers, 228 KB of shared memory and 2048 threads."""
    assert blocks_of_cta(context(0), 8, 32, shared_bytes, registers) == blocks_per_cta
    assert blocks_of_cta(context(0), 2, 32, shared_bytes, registers) == min(2, blocks_per_cta)
    assert blocks_of_cta(context(0), 1, 32, shared_bytes, registers) == 1


def test_a_launch_has_a_cta_for_each_logical_block(driver: SimulatedDriver) -> None:
    """Logical blocks may be smaller than the blocks of the launch, up to the CTAs that are resident at once."""
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    for grid in ((2, 2), (12, 6), (3, 1)):
        a, b, c = (
            tg.zeros(s, dtype=tg.bfloat16, device="cuda") for s in ((1536, 64), (64, 1536), (1536, 1536))
        )
        matmul.unload()
        tg.launch_tiled(matmul, grid, [a, b, c], block_dim=256)
        (form,) = matmul.compiled
        scale = form.kernel.launch.scale
        logical = math.prod(-(-n * down // up) for n, (up, down) in zip(grid, scale, strict=True))
        assert logical > math.prod(grid)
        assert logical <= driver.launches[-1][0] <= 132


def test_launches_of_too_many_blocks_are_refused(driver: SimulatedDriver) -> None:
    args = tuple(arrays())
    tg.launch(add, 1000, args)
    (compiled,) = add.compiled
    with pytest.raises(tg.LaunchError, match="2147483648 blocks are more than the 2147483647 of one launch"):
        launch_on_device(compiled, 2**31, b"", args, None)
    assert plan((2**13, 2**20), 256).blocks == 2**25


def test_an_empty_launch_starts_no_kernel(driver: SimulatedDriver) -> None:
    tg.launch(add, 0, arrays())
    assert driver.launches == []


def test_any_thread_can_launch(driver: SimulatedDriver) -> None:
    results = []

    def work() -> None:
        driver.current = None  # like the state of a new thread
        a, b, c = arrays(10)
        driver.current = None
        tg.launch(add, 10, [a, b, c])
        results.append(c.numpy())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len(results) == 4 and all((r == 2 * np.arange(10)).all() for r in results)


def test_launches_restore_the_context_of_another_library(driver: SimulatedDriver) -> None:
    a, b, c = arrays()
    driver.current = 0xC001
    tg.launch(add, 1000, [a, b, c])
    c.numpy()
    assert driver.current == 0xC001


# Streams --------------------------------------------------------------------------------------------------------------


def test_launches_use_the_chosen_stream(driver: SimulatedDriver) -> None:
    first, second = tg.Stream("cuda:0"), tg.Stream("cuda:0", priority=-1)
    a, b, c = arrays()
    tg.launch(add, 1000, [a, b, c], stream=first)
    with tg.ScopedStream(second) as entered:
        assert entered is second and tg.get_stream("cuda:0") is second
        tg.launch(add, 1000, [a, b, c])
    tg.launch(add, 1000, [a, b, c])
    assert [x[3] for x in driver.launches] == [first.handle, second.handle, 1]


def test_kernels_start_while_earlier_kernels_end(driver: SimulatedDriver) -> None:
    """Kernels start early only if they wait for earlier kernels, in streams that are known not to be recorded."""
    own_stream, foreign_stream = tg.Stream("cuda:0"), tg.Stream("cuda:0")
    wrapped_stream = tg.Stream("cuda:0", cuda_stream=foreign_stream.handle)
    a, b, c = arrays()
    tg.launch(add, 1000, [a, b, c])
    tg.launch(add, 1000, [a, b, c])
    tg.launch(add, 1000, [a, b, c], stream=own_stream)
    assert driver.early == [True] * 3
    tg.launch(add, 1000, [a, b, c], stream=wrapped_stream)
    with tg.ScopedCapture("cuda:0") as capture:
        tg.launch(add, 1000, [a, b, c])
    tg.capture_launch(capture.graph)
    assert driver.early[3:] == [False] * 2


def test_copies_start_after_earlier_kernels_have_ended(driver: SimulatedDriver) -> None:
    a = tg.zeros((64, 64), device="cuda:0")
    a[:, ::2].numpy()
    assert driver.early and not any(driver.early)


def test_streams_wait_for_each_other(driver: SimulatedDriver) -> None:
    first, second = tg.Stream("cuda:0"), tg.Stream("cuda:0")
    driver.calls.clear()
    first.wait_stream(second)
    assert [c for c in driver.calls if not c.startswith("cuCtx")] == [
        "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventDestroy_v2"]  # fmt: skip
    with tg.ScopedDevice("cuda:0"):
        tg.wait_stream(first)
        event = tg.record_event()
        tg.wait_event(event)
        tg.synchronize_event(event)
    tg.synchronize_stream(first)
    tg.synchronize_stream("cuda:0")
    tg.synchronize_device("cuda:0")
    tg.synchronize()
    assert first.is_complete and event.is_complete
    start, end = tg.Event("cuda:0", enable_timing=True), tg.Event("cuda:0", enable_timing=True)
    assert tg.get_event_elapsed_time(first.record_event(start), first.record_event(end)) == 1.5


def test_streams_need_a_cuda_device(driver: SimulatedDriver) -> None:
    for make in (tg.Stream, tg.Event, tg.get_stream):
        with pytest.raises(tg.LaunchError, match="this needs a CUDA device, and the current device is cpu"):
            make()
    assert tg.Stream("cuda:0", cuda_stream=0).handle == 1


# Reports --------------------------------------------------------------------------------------------------------------


def failing(driver: SimulatedDriver) -> None:
    """A kernel that reports one failure, of block 2 and thread 3."""

    def run(blocks: int, threads: int, data: bytes) -> None:
        (report,) = struct.unpack_from("<q", data, 24 + 16)
        assert report, "the kernel has nowhere to report to"
        records = np.frombuffer((ctypes.c_char * (8 * RECORD_SLOTS * 2)).from_address(report), np.int64)
        records[0] += 1
        records[RECORD_SLOTS : RECORD_SLOTS + 3] = 0, 2, 3

    driver.kernels["kernel"] = run


@pytest.mark.parametrize("wait", [
    lambda a, s, e: tg.synchronize(), lambda a, s, e: tg.synchronize_device("cuda:0"), lambda a, s, e: a.numpy(),
    lambda a, s, e: s.synchronize(), lambda a, s, e: e.synchronize(),
])  # fmt: skip
def test_failures_are_raised_when_the_host_waits(driver: SimulatedDriver, wait) -> None:
    failing(driver)
    a = tg.ones(1000, device="cuda:0")
    stream = tg.get_stream("cuda:0")
    tg.launch(checked, 1000, [a])
    event = stream.record_event()
    with pytest.raises(tg.KernelAssertion, match=r"not positive \(in block 2, thread 3 of kernel checked\)"):
        wait(a, stream, event)
    wait(a, stream, event)


def test_failures_of_later_launches_and_other_streams_wait(driver: SimulatedDriver) -> None:
    failing(driver)
    a, side_stream = tg.ones(1000, device="cuda:0"), tg.Stream("cuda:0")
    event = tg.get_stream("cuda:0").record_event()
    tg.launch(checked, 1000, [a])
    event.synchronize()
    side_stream.synchronize()
    with pytest.raises(tg.KernelAssertion):
        tg.synchronize()


def test_memory_of_reports_is_reused(driver: SimulatedDriver) -> None:
    failing(driver)
    a = tg.ones(1000, device="cuda:0")
    for _ in range(3):
        tg.launch(checked, 1000, [a])
        with pytest.raises(tg.KernelAssertion):
            tg.synchronize()
    assert driver.calls.count("cuMemHostAlloc") == 1


@pytest.mark.parametrize("mode", ["release", "debug"])
def test_every_launch_of_a_reporting_kernel_has_memory_for_reports(
    driver: SimulatedDriver, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A launch has memory for reports also after machine code has cached similar launches."""
    monkeypatch.setattr(tg.config, "mode", mode)
    failing(driver)
    a, stream = tg.ones(1000, device="cuda:0"), tg.Stream("cuda:0")
    for own in (None, None, None, None, None, stream, None):
        tg.launch(checked, 1000, [a], stream=own)
        with pytest.raises(tg.RunError, match="block 2, thread 3"):
            tg.synchronize()
    assert checked.native is not None and len(checked.compiled) == 1


# Graphs ---------------------------------------------------------------------------------------------------------------


def test_recorded_launches_repeat(driver: SimulatedDriver) -> None:
    a, b, c = arrays()
    with tg.ScopedCapture("cuda:0") as capture:
        tg.launch(add, 1000, [a, b, c])
        a.assign(c)
        scratch = tg.zeros(10, device="cuda:0")
    np.testing.assert_array_equal(c.numpy(), np.zeros(1000))
    assert capture.graph is not None
    tg.capture_launch(capture.graph)
    np.testing.assert_array_equal(a.numpy(), 2 * np.arange(1000))
    tg.capture_launch(capture.graph, stream=tg.Stream("cuda:0"))
    np.testing.assert_array_equal(c.numpy(), 3 * np.arange(1000))
    address, count = scratch.ptr, len(driver.memory)
    del scratch, a, b, c
    assert address in driver.memory and len(driver.memory) == count
    del capture
    assert driver.memory == {}


@tg.kernel
def count_points(grid: tg.HashGrid, out: tg.array1d[int]):
    for _ in tg.hash_grid_query(grid, tg.vec3(0.0, 0.0, 0.0), 1.0):
        out[tg.tid()] += 1


def test_a_recording_keeps_spatial_structures_alive(driver: SimulatedDriver) -> None:
    ended: list[str] = []
    grid, out = tg.HashGrid(2, 2, 2, device="cuda:0"), tg.zeros(3, dtype=int, device="cuda:0")
    weakref.finalize(grid, ended.append, "gone")
    with tg.ScopedCapture("cuda:0") as capture:
        tg.launch(count_points, 3, [grid, out])
    del grid
    gc.collect()
    assert ended == []
    del capture
    gc.collect()
    assert ended == ["gone"]


def test_launches_of_a_separate_stream_are_recorded(driver: SimulatedDriver) -> None:
    stream, second_stream = tg.Stream("cuda:0"), tg.Stream("cuda:0")
    args = arrays()
    tg.capture_begin(stream=stream)
    with pytest.raises(tg.LaunchError, match="are being recorded already"):
        tg.capture_begin(stream=stream)
    tg.launch(add, 1000, args, stream=stream)
    driver.launches.clear()
    tg.launch(add, 1000, args, stream=second_stream)
    assert [x[3] for x in driver.launches] == [second_stream.handle]
    graph = tg.capture_end(stream=stream)
    assert tg.get_stream("cuda:0").handle == 1
    with pytest.raises(tg.LaunchError, match="no launches are being recorded"):
        tg.capture_end()
    tg.capture_launch(graph)
    with pytest.raises(tg.LaunchError, match="can be recorded on CUDA devices only"):
        tg.capture_begin("cpu")


def test_a_recording_without_a_graph_is_an_error(
    driver: SimulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA returns no graph if an operation in between cannot be recorded."""
    monkeypatch.setattr(driver, "handle", lambda value: None)
    tg.capture_begin("cuda:0")
    with pytest.raises(tg.LaunchError, match="nothing was recorded"):
        tg.capture_end()
    with pytest.raises(tg.LaunchError, match="no launches are being recorded"):
        tg.capture_end()


def test_an_exception_drops_the_recording(driver: SimulatedDriver) -> None:
    capture = tg.ScopedCapture("cuda:0")
    with pytest.raises(tg.RunError, match="not possible while launches are recorded"), capture:
        tg.zeros(3, device="cuda:0").numpy()
    assert capture.graph is None and driver.recorded == {}


def test_failures_in_recorded_launches_are_raised(driver: SimulatedDriver) -> None:
    failing(driver)
    a = tg.ones(1000, device="cuda:0")
    with tg.ScopedCapture("cuda:0") as capture:
        tg.launch(checked, 1000, [a])
    tg.synchronize()
    for _ in range(2):
        tg.capture_launch(capture.graph)
        with pytest.raises(tg.KernelAssertion):
            tg.synchronize()
    del capture
    tg.launch(checked, 1000, [a])
    assert driver.calls.count("cuMemHostAlloc") == 1


# Faults and absence ---------------------------------------------------------------------------------------------------


def test_a_fault_names_the_kernel_and_ends_the_use_of_the_device(driver: SimulatedDriver) -> None:
    a, b, c = arrays()
    tg.launch(add, 1000, [a, b, c])
    driver.sticky = 700
    with pytest.raises(
        tg.RunError, match=r"outside of any array in kernel 'add': CUDA_ERROR_ILLEGAL_ADDRESS"
    ):
        tg.synchronize()
    for use in (a.numpy, lambda: tg.launch(add, 1000, [a, b, c]), lambda: tg.zeros(1, device="cuda:0")):
        with pytest.raises(
            tg.RunError, match="cuda:0 cannot be used any more in this process, after: an access"
        ):
            use()


def test_a_fault_after_several_kernels_names_the_candidates(driver: SimulatedDriver) -> None:
    tg.launch(add, 1000, arrays())
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    a = tg.ones(10, device="cuda:0")
    tg.launch(checked, 10, [a])
    driver.sticky = 719
    with pytest.raises(tg.RunError, match="one of the kernels launched last, 'add', 'checked'"):
        a.numpy()


def test_a_fault_ends_the_use_of_other_devices_too(driver: SimulatedDriver) -> None:
    """The driver refuses all devices: errors of devices in use and of later devices name the kernel with the fault."""
    second_array = tg.ones(10, device="cuda:1")
    tg.launch(add, 1000, arrays())
    driver.sticky = 700
    with pytest.raises(tg.RunError, match="in kernel 'add'"):
        tg.synchronize_device("cuda:0")
    with pytest.raises(tg.RunError, match="in kernel 'add'.* Device cuda:1 cannot be used any more"):
        second_array.numpy()


def test_a_fault_is_named_by_devices_that_were_not_used(driver: SimulatedDriver) -> None:
    tg.launch(add, 1000, arrays())
    driver.sticky = 700
    with pytest.raises(tg.RunError, match="in kernel 'add'"):
        tg.synchronize()
    with pytest.raises(tg.RunError, match="cuda:1 cannot be used any more in this process, after: .*'add'"):
        tg.zeros(1, device="cuda:1")


def test_devices_have_names_limits_and_memory(driver: SimulatedDriver) -> None:
    assert [str(device) for device in tg.get_devices()] == ["cpu", "cuda:0", "cuda:1"]
    assert tg.is_cuda_available() and tg.get_cuda_device_count() == 2
    device = tg.get_device("cuda:1")
    assert device is tg.get_device("cuda:1") and tg.get_device("cuda") is tg.get_device("cuda:0")
    assert (device.is_cuda, device.ordinal, device.name, device.arch, device.sm_count) == (
        True,
        1,
        "Simulated GPU",
        90,
        132,
    )
    assert (device.max_shared_memory_per_block, device.total_memory >> 30, device.free_memory >> 30) == (
        232448,
        141,
        100,
    )
    assert device.stream is tg.get_stream("cuda:1")
    with tg.ScopedDevice("cuda:1"):
        assert tg.get_device("cuda") is device and tg.get_preferred_device() is device
        assert tg.get_cuda_device() is device and str(tg.get_cuda_device(0)) == "cuda:0"
    assert str(tg.get_preferred_device()) == "cuda:0"
    with pytest.raises(
        tg.LaunchError, match="there is no device 'cuda:2'\nhelp: devices: cpu, cuda:0, cuda:1$"
    ):
        tg.get_device("cuda:2")


def test_the_cpu_alone_works_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tegula.runtime.cuda.driver.LIBRARY", "libcuda-that-is-not-there.so")
    previous_driver = install(None)
    try:
        assert [str(d) for d in tg.get_devices()] == ["cpu"]
        assert not tg.is_cuda_available() and str(tg.get_preferred_device()) == "cpu"
        with pytest.raises(
            tg.LaunchError,
            match=r"no device 'cuda:0'\nhelp: devices: cpu \(the NVIDIA driver is not installed",
        ):
            tg.zeros(3, device="cuda:0")
        with pytest.raises(tg.LaunchError, match="there is no device 'cuda'"):
            tg.get_cuda_device()
        tg.synchronize()
    finally:
        install(previous_driver)


@pytest.mark.parametrize(("code", "version", "message"), [
    (100, 13000, "there is no CUDA device"), (999, 13000, "does not start: CUDA_ERROR"),
    (0, 11080, "it supports CUDA 11.8"),
])  # fmt: skip
def test_unusable_drivers_are_errors_with_a_reason(code: int, version: int, message: str) -> None:
    class Unusable(SimulatedDriver):
        def Init(self, flags: int) -> int:
            return code

        def DriverGetVersion(self, out) -> None:
            out._obj.value = version

    with pytest.raises(Unavailable, match=message):
        initialised(Unusable())


# Arguments of other libraries -----------------------------------------------------------------------------------------


class ForeignArray:
    """An array of another library on a GPU."""

    def __init__(self, a: tg.array, **overrides: object) -> None:
        self.__cuda_array_interface__ = {**a.__cuda_array_interface__, **overrides}
        self.owner = a


def test_launches_take_arguments_by_their_array_interface(driver: SimulatedDriver) -> None:
    a, b, c = arrays()
    side_stream = tg.Stream("cuda:0")
    driver.calls.clear()
    tg.launch(
        add,
        1000,
        [ForeignArray(a), ForeignArray(b, stream=side_stream.cuda_stream), ForeignArray(c, stream=None)],
    )
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))
    assert driver.calls.count("cuStreamWaitEvent") == 1
    with pytest.raises(tg.LaunchError, match="argument 'a': expected array1d.float32., got array"):
        tg.launch(add, 1000, [ForeignArray(a.view(tg.int32)), b, c])


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A stand-in with the parts of PyTorch that the runtime uses. `stream`: the handle of its current stream."""
    result = torch_stub(Tensor)
    monkeypatch.setitem(sys.modules, "torch", result)
    return result


def test_launches_take_torch_tensors(driver: SimulatedDriver, torch: SimpleNamespace) -> None:
    a, b, c = arrays()
    for _ in range(3):
        tg.launch(add, 1000, [Tensor(a), Tensor(b), Tensor(c)])
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))
    assert tg.array(Tensor(a), copy=False).ptr == a.ptr
    assert driver.launches == [(4, 256, 0, 1)] * 3 and driver.calls.count("cuModuleLoadDataEx") == 1


def test_tensors_are_inspected_at_every_launch(driver: SimulatedDriver, torch: SimpleNamespace) -> None:
    """Tensors change their memory and shape in place; the fast path must not use the identity of the object."""
    a, b, c = arrays()
    tensors = [Tensor(a), Tensor(b), Tensor(c)]
    for _ in range(2):
        tg.launch(add, 1000, tensors)
    tensors[2].a = new_output = tg.zeros(1000, device="cuda:0")
    tg.launch(add, 1000, tensors)
    np.testing.assert_array_equal(new_output.numpy(), 2 * np.arange(1000))
    tensors[1].dtype = "torch.int32"
    with pytest.raises(tg.LaunchError, match="argument 'b': expected array1d.float32., got array"):
        tg.launch(add, 1000, tensors)


def test_the_current_stream_of_the_tensors_is_used(driver: SimulatedDriver, torch: SimpleNamespace) -> None:
    a, b, c = arrays()
    torch_stream, explicit_stream = tg.Stream("cuda:0"), tg.Stream("cuda:0")
    torch.stream = torch_stream.handle
    driver.calls.clear()
    tg.launch(add, 1000, [Tensor(a), Tensor(b), Tensor(c)])
    assert "cuEventRecord" not in driver.calls
    # An array of Tegula may still be computed in its stream, and is read there later.
    tg.launch(add, 1000, [Tensor(a), Tensor(b), c])
    assert driver.calls.count("cuEventRecord") == driver.calls.count("cuStreamWaitEvent") == 2
    tg.launch(add, 1000, [Tensor(a), Tensor(b), c], stream=explicit_stream)
    with tg.ScopedStream(explicit_stream):
        tg.launch(add, 1000, [Tensor(a), Tensor(b), c])
    assert [x[3] for x in driver.launches] == [
        torch_stream.handle,
        torch_stream.handle,
        explicit_stream.handle,
        explicit_stream.handle,
    ]


def test_writes_of_tensors_are_counted(driver: SimulatedDriver, torch: SimpleNamespace) -> None:
    tensors = [Tensor(a) for a in arrays()]
    for _ in range(2):
        tg.launch(add, 1000, tensors)
    assert [t._version for t in tensors] == [0, 0, 2]


def test_adjoints_run_in_the_stream_of_the_tensors(driver: SimulatedDriver, torch: SimpleNamespace) -> None:
    a, b, c = (Tensor(x) for x in arrays())
    torch_stream = tg.Stream("cuda:0")
    torch.stream = torch_stream.handle
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    grads = [tg.ones(1000, device="cuda:0") for _ in range(3)]
    tg.launch(add, 1000, [a, b], [c], grads[:2], grads[2:], adjoint=True)
    x = tg.ones(1000, device="cuda:0", requires_grad=True)
    y = tg.zeros(1000, device="cuda:0", requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(add, 1000, [a, x], [y])
    tape.backward(grads={y: grads[0]})
    assert [launch[3] for launch in driver.launches] == [torch_stream.handle] * 3


def test_launches_are_recorded_by_the_library_of_their_tensors(
    driver: SimulatedDriver, torch: SimpleNamespace
) -> None:
    a, b, c = arrays()
    torch_stream = tg.Stream("cuda:0")
    torch.stream = torch_stream.handle
    driver.recorded[torch_stream.handle] = []
    driver.calls.clear()
    tg.launch(add, 1000, [Tensor(a), Tensor(b), c])
    assert "cuStreamWaitEvent" not in driver.calls and len(driver.recorded.pop(torch_stream.handle)) == 1


@pytest.mark.machine_code
def test_explain_and_ir_show_the_form_for_a_gpu(driver: SimulatedDriver) -> None:
    tg.launch(add, 1000, arrays())
    text = add.explain()
    assert "target: nvptx64-nvidia-cuda/sm_90a/ptx80" in text and "threads per block: 256" in text
    assert "shared memory per block: 0 bytes of 232,448" in text and "registers" in text
    assert (
        ".target sm_90a" in add.ptx() == add.assembly()
        and "insert_barriers" in add.stages()
        and "ptx_kernel" in add.llvm()
    )
    tg.launch(add, 1000, arrays(device="cpu"))
    with pytest.raises(tg.LaunchError, match="was last compiled for a CPU"):
        add.sass()
    with pytest.raises(tg.LaunchError, match="was last compiled for a CPU"):
        add.ptx()


def test_line_information_for_profilers_is_a_separate_form(
    driver: SimulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    tg.launch(add, 1000, arrays())
    code_without_lines = add.compiled[-1].code
    monkeypatch.setattr(tg.config, "line_info", True)
    tg.launch(add, 1000, arrays())
    assert b"debug_line" in add.compiled[-1].code and b"debug_line" not in code_without_lines
    assert ".loc" in add.ptx()
    monkeypatch.undo()
    count = len(add.compiled)
    tg.launch(add, 1000, arrays())
    assert len(add.compiled) == count


def test_code_with_other_registers_than_its_role_budgets_assume_is_refused(driver: SimulatedDriver) -> None:
    module = LoadedModule(context(0), b"code", is_ptx=False)
    assert module.function("kernel", registers=0)
    with pytest.raises(InternalError, match="168 registers per thread at launch, but the code uses 0"):
        module.function("kernel", registers=168)
