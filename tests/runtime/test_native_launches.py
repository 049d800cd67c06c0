"""Launches in machine code pass the same bytes to the driver as launches in Python, or leave the launch to Python."""

from __future__ import annotations

import ctypes
import math
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_driver import INVALID_VALUE, SimulatedDriver

import tegula as tg
from support.cuda_launches import Tensor, add, arrays, checked, run_add
from support.recorded_launches import RecordingDriver
from tegula.backend import launcher
from tegula.backend.launch_modes import DESCRIBE, TILED
from tegula.errors import RunError
from tegula.kernels import gemm
from tegula.kernels.shapes import Tile
from tegula.runtime.cuda import interop, native
from tegula.runtime.cuda.context import context
from tegula.runtime.cuda.driver import install
from tegula.runtime.cuda.launch import CLUSTERS, CONFIGURATION, PROGRAMMATIC, PROGRAMMATIC_CLUSTERS


@pytest.fixture(params=[1, 2], ids=["one device", "two devices"])
def driver(request: pytest.FixtureRequest, simulated: SimulatedDriver) -> Iterator[RecordingDriver]:
    simulated = RecordingDriver(request.param)
    simulated.kernels["kernel"] = run_add
    add.unload()
    checked.unload()
    previous_driver = install(simulated)
    yield simulated
    install(previous_driver)


def is_native(
    kernel: Any, dim: Any, block_dim: Any, inputs: Any, outputs: Any = (), mode: int = 0, stream: Any = None
) -> Any:
    """The result of machine code for a launch; None if the kernel has none yet."""
    return None if kernel.native is None else kernel.native(dim, block_dim, inputs, outputs, mode, stream)


def repeat_launch(launch: Callable[[], None], times: int = 5) -> None:
    """Launch until machine code has cached the launch."""
    for _ in range(times):
        launch()


def launch_from_python(kernel: Any, launch: Callable[[], None]) -> None:
    """Launch along the slow path."""
    native_launch, kernel.native = kernel.native, None
    launch()
    kernel.native = native_launch


def test_native_launches_pass_the_same_bytes_to_the_driver(driver: RecordingDriver) -> None:
    a, b, c = arrays()
    driver.size = 72 + 24
    for launch, call in (
        (lambda: tg.launch(add, 1000, [a, b], [c], block_dim=64), (1000, 64, [a, b], [c], 0)),
        (lambda: tg.launch(add, (1000,), (a, b, c)), (1000, None, (a, b, c), (), 0)),
        (lambda: tg.launch(add, 1000, inputs=[a], outputs=[b, c]), (1000, None, [a], [b, c], 0)),
    ):
        repeat_launch(launch)
        c.zero_()
        driver.recorded_launches.clear()
        driver.calls.clear()
        assert is_native(add, *call) is True
        launch_from_python(add, launch)
        assert driver.recorded_launches[0][1:] == driver.recorded_launches[1][1:]
        assert CONFIGURATION.unpack(driver.recorded_launches[0][0]) == CONFIGURATION.unpack(
            driver.recorded_launches[1][0]
        )
        np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))


def test_native_launches_of_blocks_pass_the_same_bytes(driver: RecordingDriver) -> None:
    a, b, c = arrays()
    driver.size = 72 + 32
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    add2.unload()
    for kernel, dims in ((add, 40), (add, [40]), (add2, (8, 5))):

        def launch(kernel: Any = kernel, dims: Any = dims) -> None:
            tg.launch_tiled(kernel, dims, [a, b, c], block_dim=25)

        repeat_launch(launch)
        assert is_native(kernel, dims, 25, [a, b, c], [], TILED) is True
        launch_from_python(kernel, launch)
        assert driver.recorded_launches[-1][1:] == driver.recorded_launches[-2][1:]


@tg.kernel
def add2(a: tg.array1d[float], b: tg.array1d[float], c: tg.array1d[float]):
    i, j, t = tg.tid()
    c[t] = a[t] + b[t]


def kernel_with_tensor_maps(
    driver: RecordingDriver, count: int, cached: int = 1
) -> tuple[Any, list[list[Any]]]:
    """A kernel with tensor maps of three arrays, and `count` lists of arguments, of which `cached` are cached."""
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    kernel = gemm.matmul_kernel(tg.bfloat16, Tile(64, 64, 64, 2, 1), False, gemm.Epilogue(tg.bfloat16))
    kernel.unload()
    zeros = partial(tg.zeros, (64, 64), tg.bfloat16, "cuda:0")
    inputs = [[zeros(), zeros(), 0, 1.0, 0.0, zeros()] for _ in range(count)]
    for _ in range(8):
        for arguments in inputs[:cached]:
            tg.launch_tiled(kernel, 1, arguments)
    driver.size = 40 * 3 + 3 * 8 + 32
    maps = kernel.compiled[-1].maps
    assert maps is not None and len(maps.maps) == 3
    driver.size += len(maps.padding) + 3 * 128
    return kernel, inputs


def check_tensor_map_launch(driver: RecordingDriver, kernel: Any, arguments: list[Any]) -> None:
    """Check that machine code passes the same tensor maps as Python."""
    assert is_native(kernel, 1, None, arguments, (), TILED) is True
    launch_from_python(kernel, lambda: tg.launch_tiled(kernel, 1, arguments))
    assert driver.recorded_launches[-1][1:] == driver.recorded_launches[-2][1:]
    assert driver.recorded_launches[-1][2].endswith(struct.pack("<Q", arguments[-1].ptr) * 16)


def test_native_launches_encode_tensor_maps_with_the_arguments(driver: RecordingDriver) -> None:
    """New arrays of the same layout replace the addresses in cached maps."""
    kernel, inputs = kernel_with_tensor_maps(driver, 6)
    for arguments in inputs:
        check_tensor_map_launch(driver, kernel, arguments)
    assert driver.replaced_maps == 3 * (len(inputs) - 1)
    a, b, *rest = inputs[-1]
    strided = tg.zeros((64, 128), tg.bfloat16, "cuda:0")
    second_array = tg.zeros((65, 64), tg.bfloat16, "cuda:0")
    for x in (
        strided[:, :64],
        strided[:, 8:72],
        second_array,
        second_array[:0],
        second_array[1:].transpose(),
    ):
        assert is_native(kernel, 1, None, [x, b, *rest], (), TILED) is not True
    driver.status = INVALID_VALUE
    launch_count = len(driver.recorded_launches)
    assert is_native(kernel, 1, None, [b, a, *rest], (), TILED) is False
    assert len(driver.recorded_launches) == launch_count
    tg.launch_tiled(kernel, 1, [b, a, *rest])
    assert len(driver.recorded_launches) == launch_count + 1
    kernel.unload()


def test_native_launches_keep_tensor_maps_of_empty_arrays(driver: RecordingDriver) -> None:
    kernel, arguments = kernel_with_tensor_maps(driver, 1)
    _, b, *rest = arguments[0]
    empty = [tg.zeros((64, 128), tg.bfloat16, "cuda:0")[:0, 64 * k : 64 * k + 64] for k in range(2)]
    for _ in range(8):
        tg.launch_tiled(kernel, 1, [empty[0], b, *rest])
    assert empty[0].ptr != empty[1].ptr
    for x in empty:
        check_tensor_map_launch(driver, kernel, [x, b, *rest])
    kernel.unload()


def test_launches_of_new_arrays_are_left_to_python_without_map_replacement(driver: RecordingDriver) -> None:
    del driver.cuTensorMapReplaceAddress
    kernel, inputs = kernel_with_tensor_maps(driver, 4, cached=3)
    for arguments in inputs[:3]:
        check_tensor_map_launch(driver, kernel, arguments)
    assert is_native(kernel, 1, None, inputs[3], (), TILED) is False
    kernel.unload()


def test_the_launch_is_cached_after_some_launches(driver: RecordingDriver) -> None:
    a, b, c = arrays()
    calls = []
    for _ in range(6):
        calls.append(getattr(add.native, "__name__", None))
        tg.launch(add, 1000, [a, b, c])
    assert calls[0] is None and calls[-1] == "launch"
    assert is_native(add, 1000, None, [a, b, c]) is True
    assert len(driver.recorded_launches) == 7


def test_launches_with_unsupported_arguments_are_left_to_python(driver: RecordingDriver) -> None:
    a, b, c = arrays()
    repeat_launch(lambda: tg.launch(add, 1000, [a, b, c]))
    driver.recorded_launches.clear()
    for call in (
        (1000, None, [a, b], [], 0),
        (1000, None, [a, a, c, c], [], 0),
        (1000, None, [a, b, b], [], 0),
        (1000, None, [a, b, c[1:]], [], 0),
        (1000, None, [a, b, c.numpy()], [], 0),
        (1000, None, [a, b, None], [], 0),
        (1000, None, iter([a, b, c]), [], 0),
        (1000.0, None, [a, b, c], [], 0),
        (1 << 70, None, [a, b, c], [], 0),
        ((1, 1, 1, 1, 1000), None, [a, b, c], [], 0),
        (999, None, [a, b, c], [], 0),
        (1000, 256.0, [a, b, c], [], 0),
        (1000, -1, [a, b, c], [], 0),
        (1000, 64, [a, b, c], [], 0),
        (1000, None, [a, b, c], [], 1),
        (1000, None, [a, b, c], [], None),
        (1000, None, [a, b, c], []),
    ):
        assert add.native(*call, None) is False, call
    assert driver.recorded_launches == []
    with pytest.raises(tg.LaunchError, match="add takes 3 arguments"):
        tg.launch(add, 1000, [a, b])
    with pytest.raises(tg.LaunchError, match="must be a list of arguments"):
        tg.launch(add, 1000, a)


@tg.kernel
def store_number(a, b: tg.float16):
    i = tg.tid()
    a[i] = float(b)


def test_kernels_with_unsupported_parameters_are_left_to_python(driver: RecordingDriver) -> None:
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    store_number.unload()
    a = tg.zeros(10, device="cuda:0")
    repeat_launch(lambda: tg.launch(store_number, 10, [a, 1.5]), 6)
    assert store_number.native is native.unsupported_launch and len(driver.launches) == 6


def scaling(factor: float) -> tuple[Any, dict[str, Any]]:
    """A kernel that captures a number, and the names that it can access."""
    namespace: dict[str, Any] = {"tg": tg, "FACTOR": factor}
    text = """
def scale(a: tg.array1d[float], b: tg.array1d[float]):
    i = tg.tid()
    b[i] = a[i] * FACTOR
"""
    exec(text, namespace)
    scale = tg.kernel(namespace["scale"], source=text)
    return scale, namespace


def test_native_launches_follow_modes_and_captured_values(driver: RecordingDriver) -> None:
    a, b, c = arrays()
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    scale, namespace = scaling(2.0)
    launch = lambda: tg.launch(scale, 1000, [a, b])  # noqa: E731
    repeat_launch(launch)
    function = driver.recorded_launches[-1][1]
    assert is_native(scale, 1000, None, [a, b]) is True
    namespace["FACTOR"] = 3.0
    assert is_native(scale, 1000, None, [a, b]) is not True
    repeat_launch(launch)
    assert driver.recorded_launches[-1][1] != function and is_native(scale, 1000, None, [a, b]) is True
    tg.config.block_dim = 128
    try:
        assert is_native(scale, 1000, None, [a, b]) is False
        launch()
        assert CONFIGURATION.unpack(driver.recorded_launches[-1][0])[3] == 128
    finally:
        tg.config.block_dim = 256
    tg.config.mode = "debug"
    try:
        # Launches of the kernel report to the host, which is done in Python.
        repeat_launch(launch, 8)
        assert is_native(scale, 1000, None, [a, b]) is False
    finally:
        tg.config.mode = "release"
    assert is_native(scale, 1000, None, [a, b]) is True
    scale.unload()
    assert scale.native is None
    repeat_launch(launch)
    assert is_native(scale, 1000, None, [a, b]) is True


def test_native_launches_follow_replaced_captured_numbers(driver: RecordingDriver) -> None:
    """An equal number may be another object, and a different number may later be stored at the same address."""
    a, b, _ = arrays()
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    scale, namespace = scaling(float("1.5"))
    launch = lambda: tg.launch(scale, 1000, [a, b])  # noqa: E731
    repeat_launch(launch)
    namespace["FACTOR"] = float("1.5")
    repeat_launch(launch)
    object_id, function = id(namespace["FACTOR"]), driver.recorded_launches[-1][1]
    assert is_native(scale, 1000, None, [a, b]) is True
    namespace["FACTOR"] = float("1.5")
    launch_from_python(scale, launch)
    new_numbers = [float("2.5") for _ in range(1000)]
    namespace["FACTOR"] = next((x for x in new_numbers if id(x) == object_id), new_numbers[0])
    launch()
    assert driver.recorded_launches[-1][1] != function
    scale.unload()


def test_native_launches_follow_streams_and_recordings(driver: RecordingDriver) -> None:
    a, b, c = arrays()
    launch = lambda: tg.launch(add, 1000, [a, b, c])  # noqa: E731
    repeat_launch(launch)
    side_stream, second_stream = tg.Stream("cuda:0"), tg.Stream("cuda:0")
    call = add, 1000, None, [a, b, c]
    with tg.ScopedStream(side_stream):
        assert is_native(*call) is True and driver.launches[-1][3] == side_stream.handle
        assert (
            is_native(*call, stream=second_stream) is True and driver.launches[-1][3] == second_stream.handle
        )
        with tg.ScopedStream(tg.get_device("cuda:0").stream), tg.ScopedStream(None):
            assert is_native(*call) is True and driver.launches[-1][3] == side_stream.handle
    assert is_native(*call) is True and driver.launches[-1][3] == 1
    tg.launch(add, 1000, [a, b, c], stream=side_stream)
    assert driver.launches[-1][3] == side_stream.handle
    assert is_native(*call, stream=side_stream.handle) is False
    if len(tg.get_cuda_devices()) > 1:
        other_device = tg.Stream("cuda:1")
        assert is_native(*call, stream=other_device) is False
        with pytest.raises(tg.LaunchError, match="the stream belongs to cuda:1, the arguments are on cuda:0"):
            tg.launch(add, 1000, [a, b, c], stream=other_device)
        with tg.ScopedStream(other_device):
            assert is_native(*call) is True and driver.launches[-1][3] == 1
    with tg.ScopedCapture("cuda:0") as capture:
        assert is_native(*call) is False and is_native(*call, stream=side_stream) is False
        launch()
    assert capture.graph is not None and capture.graph.retained
    assert is_native(*call) is True
    c.zero_()
    tg.capture_launch(capture.graph)
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))


def test_launches_in_own_streams_start_early(driver: RecordingDriver) -> None:
    """Own streams start launches early as on the slow path; streams of other libraries may be recorded."""
    a, b, c = arrays()
    repeat_launch(lambda: tg.launch(add, 1000, [a, b, c]))
    side_stream = tg.Stream("cuda:0")
    for stream, early in (
        (side_stream, 1),
        (tg.Stream("cuda:0", cuda_stream=side_stream.handle), 0),
        (None, 1),
    ):
        assert is_native(add, 1000, None, [a, b, c], stream=stream) is True
        launch_from_python(add, lambda stream=stream: tg.launch(add, 1000, [a, b, c], stream=stream))
        actual, expected = (CONFIGURATION.unpack(launch[0]) for launch in driver.recorded_launches[-2:])
        assert actual[:8] == expected[:8] and actual[-1] == expected[-1] == early
        assert not early or actual == expected
        with tg.ScopedStream(stream or tg.get_stream("cuda:0")):
            assert is_native(add, 1000, None, [a, b, c]) is True
        assert CONFIGURATION.unpack(driver.recorded_launches[-1][0]) == actual


def test_tapes_record_native_launches(driver: RecordingDriver) -> None:
    a, b, c = (tg.ones(1000, device="cuda:0", requires_grad=True) for _ in range(3))
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    launch = lambda: tg.launch(add, 1000, [a, b, c])  # noqa: E731
    repeat_launch(launch)
    assert is_native(add, 1000, None, [a, b, c]) is True
    with tg.Tape() as tape:
        launch()
    launch_count = len(driver.launches)
    tape.backward(grads={c: tg.ones(1000, device="cuda:0")})
    assert len(driver.launches) > launch_count


def test_native_launches_on_inactive_tapes_are_not_recorded(
    driver: RecordingDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tape is notified once of writes to an array; then launches are in machine code again."""
    a, b, c = (tg.ones(1000, device="cuda:0", requires_grad=True) for _ in range(3))
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    repeat_launch(lambda: tg.launch(add, 1000, [a, b, c]))
    with tg.Tape() as tape:
        tg.launch(add, 1000, [a, b, c])
    tg.launch(add, 1000, [a, b, c])
    monkeypatch.setattr(add, "fast_path", None)
    tg.launch(add, 1000, [a, b], [c])
    with tape, pytest.raises(TypeError):
        tg.launch(add, 1000, [a, b, c])


def test_native_launches_report_faults_and_switch_contexts(driver: RecordingDriver) -> None:
    a, b, c = arrays()
    launch = lambda: tg.launch(add, 1000, [a, b, c])  # noqa: E731
    repeat_launch(launch)
    # A thread with another context, or none: the driver refuses, or is queried first.
    driver.current = None
    c.zero_()
    driver.current = None
    launch()
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(1000))
    stream_context = context(0)
    assert list(stream_context.recent_kernels)[-1] == "add"
    stream_context.recent_kernels.clear()
    driver.sticky = 700
    assert is_native(add, 1000, None, [a, b, c]) is False and not stream_context.recent_kernels
    stream_context.recent_kernels.append("add")
    with pytest.raises(RunError, match="an access outside of any array in kernel 'add'"):
        launch()
    driver.sticky = 0
    assert is_native(add, 1000, None, [a, b, c]) is False
    with pytest.raises(RunError, match="cannot be used any more"):
        launch()


def test_native_launches_of_many_shapes_are_correct(driver: RecordingDriver) -> None:
    """More shapes than the table holds: launches that are not cached take the slow path, and each launch has its own
    configuration."""
    a, b, c = arrays()
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    driver.size = 72 + 24
    for _ in range(4):
        for n in range(1, 400):
            tg.launch(add, n, [a, b, c], block_dim=32)
            assert struct.unpack_from("<2q", driver.recorded_launches[-1][2], 72) == (n, n)
            assert CONFIGURATION.unpack(driver.recorded_launches[-1][0])[0] == -(-n // 32)
    for n in range(1, 400):
        repeat_launch(lambda n=n: tg.launch(add, n, [a, b, c], block_dim=32), 2)
        assert struct.unpack_from("<2q", driver.recorded_launches[-1][2], 72) == (n, n)


def test_native_launches_of_several_threads_are_correct(driver: RecordingDriver) -> None:
    driver.kernels["kernel"] = lambda blocks, threads, data: None
    a, b, c = arrays()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for k in range(500):
                tg.launch(add, 1000 - k % 7, [a, b, c])
                if k % 100 == 50:
                    add.unload()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == [] and len(driver.recorded_launches) >= 2000


# Numbers --------------------------------------------------------------------------------------------------------------


@tg.kernel
def numbers(
    out: tg.array1d[float], a: bool, b: tg.int8, c: tg.uint8, d: tg.int16, e: tg.uint16, f: int, g: tg.uint32,
    h: tg.int64, i: tg.uint64, j: float, k: tg.float64,
):  # fmt: skip
    out[0] = float(b) + j


def limits(bits: int, signed: bool) -> list[int]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return [low, high, low - 1, high + 1, 0, 1, -1]


integers = st.one_of(
    *[st.sampled_from(limits(bits, signed)) for bits in (8, 16, 32, 64) for signed in (False, True)],
    st.integers(-(2**70), 2**70),
)
reals = st.one_of(st.floats(), st.sampled_from([3.4e38, 3.5e38, 1e39, -1e39, math.inf, 2.0**-149]), integers)
values = st.tuples(st.booleans(), *[integers] * 8, reals, reals)


def packed_in_python(arguments: tuple[Any, ...]) -> bytes | None:
    """The bytes of numbers as packed in Python; None if one does not fit."""
    try:
        return struct.pack("<?7xb7xB7xh6xH6xi4xI4xqQf4xd", *arguments)
    except (struct.error, OverflowError):
        return None


SENT_BYTES: list[bytes] = []


@ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
def _sent(address: int, function: int, parameters: int, extra: None) -> int:
    (first,) = struct.unpack("<Q", ctypes.string_at(parameters, 8))
    SENT_BYTES.append(ctypes.string_at(first, 24 + 11 * 8 + 24))
    return 0


@given(arguments=values)
def test_numbers_are_packed_like_struct_pack(arguments: tuple[Any, ...]) -> None:
    out, function = packing()
    SENT_BYTES.clear()
    is_launched = function(1, 32, [out, *arguments], (), 0, None)
    expected = packed_in_python(arguments)
    if expected is None:
        assert is_launched is False and SENT_BYTES == []
    elif any(type(x) is int and abs(x) >= 2**63 for x in arguments):
        assert is_launched in (True, False)
    else:
        assert is_launched is True
        # NaNs have the same bits as in Python's packing.
        assert SENT_BYTES[0][24 : 24 + 88] == expected


@cache
def packing() -> tuple[tg.array, Any]:
    """An array, and a function that launches `numbers` with it in machine code, on a device that records the bytes."""
    parameters, machine_code = native.parameter_rows(numbers.parameters), native.machine_code()
    assert parameters is not None and machine_code is not None
    table = native.Table(parameters)
    function = machine_code.function(table)
    out = tg.array(np.zeros(1, np.float32), copy=False)
    out.header = out._header()
    key = function(1, 32, [out, True, *[1] * 8, 1.0, 1.0], (), DESCRIBE, None)
    device = native.words("Q", [1, 1, 0, ctypes.cast(_sent, ctypes.c_void_p).value or 0, 0, 0])
    recent_kernels: list[str] = []
    objects = recent_kernels.append, "numbers"
    head = len(key) // 8, 0, device.buffer_info()[0], 0, 24, 0, *map(id, objects), 0, 0, id(0), b""
    table._put(key, (struct.pack(native.ENTRY, *head) + key + bytes(24), key, objects, device))
    return out, function


# Tensors --------------------------------------------------------------------------------------------------------------


class DlpackTensor(Tensor):
    """A tensor that also has DLPack's exchange interface."""


DESCRIPTIONS: list[Any] = []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
def _describe(tensor: DlpackTensor, out: int) -> int:
    if tensor.a.dtype not in (tg.float32, tg.int32):
        return -1
    n = tensor.a.ndim
    shape, strides = (ctypes.c_int64 * n)(*tensor.a.shape), (ctypes.c_int64 * n)(*tensor.stride())
    DESCRIPTIONS[:] = [shape, strides]
    kind = 2 if tensor.a.dtype == tg.float32 else 0
    ctypes.memmove(
        out,
        struct.pack(
            "<QiiiBBHQQQ", tensor.a.ptr - 16, 2, tensor.get_device(), n, kind, 32, 1,
            ctypes.addressof(shape), ctypes.addressof(strides), 16,
        ), 48,
    )  # fmt: skip
    return 0


STREAM = [0]


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
def _stream(kind: int, device: int, out: int) -> int:
    ctypes.c_uint64.from_address(out).value = STREAM[0]
    return 0


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch, driver: RecordingDriver) -> Iterator[Any]:
    result = SimpleNamespace(Tensor=DlpackTensor)
    result.cuda = SimpleNamespace(current_stream=lambda ordinal: SimpleNamespace(cuda_stream=STREAM[0]))

    def count(tensor: Tensor) -> None:
        tensor._version += 1

    result.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=count))
    monkeypatch.setitem(sys.modules, "torch", result)
    machine_code = native.machine_code()
    assert machine_code is not None
    functions = {"describe_tensor": _describe, "current_stream": _stream}
    for name, function in functions.items():
        machine_code.put(name, ctypes.cast(function, ctypes.c_void_p).value or 0)
    machine_code.put("tensor", id(DlpackTensor))
    yield result
    STREAM[0] = 0
    interop.FOREIGN.clear()
    interop._adopted_arrays.clear()
    for name in launcher.FOREIGN:
        machine_code.put(name, 0)


def test_native_launches_take_tensors(driver: RecordingDriver, torch: Any) -> None:
    a, b, c = arrays()
    tensors = [DlpackTensor(x) for x in (a, b, c)]
    driver.size = 72 + 24
    launch = lambda: tg.launch(add, 1000, tensors)  # noqa: E731
    repeat_launch(launch)
    assert is_native(add, 1000, None, tensors) == (2,)
    launch_from_python(add, launch)
    assert (
        driver.recorded_launches[-1][2] == driver.recorded_launches[-2][2]
        and driver.recorded_launches[-1][1] == driver.recorded_launches[-2][1]
    )
    assert [t._version for t in tensors] == [0, 0, 6]
    # Other memory with the same properties uses the cached launch; another alignment, length or type is another launch.
    new_tensors = [DlpackTensor(x) for x in arrays()]
    assert is_native(add, 1000, None, new_tensors) == (2,)
    assert is_native(add, 1000, None, [DlpackTensor(a), b, c]) is False
    assert is_native(add, 1000, None, [DlpackTensor(a[1:]), *tensors[1:]]) is False
    assert is_native(add, 1000, None, [DlpackTensor(a[:999]), *tensors[1:]]) is False
    assert is_native(add, 1000, None, [DlpackTensor(a.view(tg.int32)), *tensors[1:]]) is False
    assert is_native(add, 1000, None, [DlpackTensor(a.view(tg.uint32)), *tensors[1:]]) is False
    assert is_native(add, 1000, None, [DlpackTensor(a.reshape((10, 100))), *tensors[1:]]) is False
    assert is_native(add, 1000, None, [tensors[0], tensors[1], tensors[1]]) is False


def test_launches_that_do_not_start_early_keep_their_other_attributes() -> None:
    """Machine code uses all attributes but the first."""
    assert CLUSTERS == (PROGRAMMATIC_CLUSTERS[0] + launcher.ATTRIBUTE_BYTES, PROGRAMMATIC_CLUSTERS[1] - 1)
    assert PROGRAMMATIC == (PROGRAMMATIC_CLUSTERS[0], 1)


def test_native_launches_use_the_stream_of_tensors(driver: RecordingDriver, torch: Any) -> None:
    a, b, c = arrays()
    tensors = [DlpackTensor(x) for x in (a, b, c)]
    repeat_launch(lambda: tg.launch(add, 1000, tensors))
    repeat_launch(lambda: tg.launch(add, 1000, [*tensors[:2], c]))
    torch_stream = tg.Stream("cuda:0")
    STREAM[0] = torch_stream.handle
    assert is_native(add, 1000, None, tensors) == (2,) and driver.launches[-1][3] == torch_stream.handle
    # The stream may be recorded: launches in it do not start early.
    assert CONFIGURATION.unpack(driver.recorded_launches[-1][0])[-1] == 0
    # Launches with our arrays in another library's stream are ordered by Python code.
    assert is_native(add, 1000, None, [*tensors[:2], c]) is False
    tg.launch(add, 1000, [*tensors[:2], c])
    assert driver.launches[-1][3] == torch_stream.handle and "cuStreamWaitEvent" in driver.calls
    STREAM[0] = 1
    assert is_native(add, 1000, None, [*tensors[:2], c]) == (2,) and driver.launches[-1][3] == 1
    assert CONFIGURATION.unpack(driver.recorded_launches[-1][0])[-1] == 1


def test_native_launch_keys_agree_with_python(driver: RecordingDriver, torch: Any) -> None:
    """Machine code distinguishes arguments as Python does."""
    make = partial(tg.zeros, dtype=float, device="cuda:0")
    first, same_layout, wide = make((4, 16)), make((4, 16)), make((4, 32))
    distinct = [
        first,
        wide,
        wide[:, :16],
        wide[::2, ::2],
        make((16, 4)).transpose(),
        make(64),
        make((4, 4, 4)),
    ]
    distinct += [make((5, 18))[1:, :16], make((5, 17))[1:, 1:], first[:2]]
    distinct += [make((4, 16), dtype=int), make((1, 4, 16))]
    tensors = [DlpackTensor(x) for x in distinct]
    absent = [(None, first), (first, None), (first, first), (first,), (None, tensors[0])]
    keys = [
        tg.launch_key(*arguments)
        for arguments in [*((x,) for x in (*distinct, *tensors)), *absent[:3], absent[4]]
    ]
    assert all(type(key) is bytes for key in keys) and len(set(keys)) == len(keys)
    assert tg.launch_key(first, None) == tg.launch_key(same_layout, None)
    assert tg.launch_key(tensors[0]) == tg.launch_key(DlpackTensor(same_layout))
    # Arguments that machine code does not support are described in Python: arrays on the CPU, and too many arguments.
    assert type(tg.launch_key(first, tg.zeros(3))) is tuple and tg.launch_key(first, 1) is None
    assert type(tg.launch_key(*[first] * 12)) is tuple
    if len(tg.get_cuda_devices()) > 1:
        assert tg.launch_key(make((4, 16), device="cuda:1")) not in keys
