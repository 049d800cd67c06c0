"""Arrays on a GPU, with the simulated driver."""

from __future__ import annotations

import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg

pytestmark = pytest.mark.usefixtures("simulated")
DTYPES = (
    "bool",
    "int8",
    "uint16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3",
)


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    numpy_dtype = tg.zeros(1, dtype=getattr(tg, dtype)).numpy().dtype
    return np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 9, shape).astype(numpy_dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_copied_to_a_device_and_back_are_unchanged(dtype: str) -> None:
    data = values(dtype, (3, 5))
    a = tg.array(data, device="cuda:0")
    assert (str(a.device), a.shape, str(a.dtype)) == ("cuda:0", (3, 5), dtype)
    assert a.ptr % 256 == 0
    np.testing.assert_array_equal(a.numpy(), data)
    np.testing.assert_array_equal(a[::-1, 1::2].numpy(), data[::-1, 1::2])
    np.testing.assert_array_equal(a.transpose().numpy(), data.T)


def test_a_copy_is_independent_of_its_source() -> None:
    data = np.arange(4, dtype=np.float32)
    a = tg.array(data, device="cuda:0")
    data[:] = 0
    b = tg.clone(a)
    a.zero_()
    np.testing.assert_array_equal(b.numpy(), [0, 1, 2, 3])
    assert b.numpy() is not b.numpy()


@pytest.mark.parametrize(("dtype", "value"), [("int8", 3), ("float16", 1.5), ("float32", 2.5), ("float64", 0.0),
                                              ("float64", 2.5), ("int64", -1), ("int64", 7)])  # fmt: skip
def test_fill_sets_elements_of_device_arrays(dtype: str, value: float) -> None:
    a = tg.full((3, 4), value, dtype=getattr(tg, dtype), device="cuda:0")
    np.testing.assert_array_equal(a.numpy(), np.full((3, 4), value, dtype))
    a[1:, ::2].fill_(5)
    expected = np.full((3, 4), value, dtype)
    expected[1:, ::2] = 5
    np.testing.assert_array_equal(a.numpy(), expected)


def test_device_arrays_hold_vectors() -> None:
    a = tg.full(4, (1.0, 2.0, 3.0), dtype=tg.vec3, device="cuda:0")
    np.testing.assert_array_equal(a.numpy(), [[1, 2, 3]] * 4)
    b = tg.array(np.arange(8, dtype=np.float32).reshape(4, 2), dtype=tg.vec2, device="cuda:0")
    assert b.shape == (4,)
    np.testing.assert_array_equal(b[1].numpy(), [[2, 3]])
    np.testing.assert_array_equal(b.view(tg.uint64).numpy().view(np.float32), b.numpy().reshape(-1))


def test_views_of_device_arrays_share_memory() -> None:
    a = tg.zeros((4, 6), device="cuda:0")
    a[1].fill_(1)
    a[2, 3].fill_(2)
    a.reshape((2, 12))[1, 6:].fill_(3)
    expected = np.zeros((4, 6), np.float32)
    expected[1], expected[2, 3], expected[3] = 1, 2, 3
    np.testing.assert_array_equal(a.numpy(), expected)
    with pytest.raises(ValueError, match="cannot be reshaped to 24 without a copy"):
        a.transpose().reshape(24)
    with pytest.raises(ValueError, match="cannot reshape an array with 24 elements"):
        a.reshape((5, 5))


def test_assignment_converts_between_devices_and_dtypes() -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    first, second = tg.zeros((3, 4), device="cuda:0"), tg.zeros((4, 3), tg.int32, device="cuda:1")
    host = tg.zeros((3, 4), tg.float64)
    first.assign(data)
    second.assign(first.transpose())
    host.assign(second.transpose())
    np.testing.assert_array_equal(second.numpy(), data.T)
    np.testing.assert_array_equal(host.numpy(), data)
    third = tg.zeros((4, 3), device="cuda:1")
    tg.copy(third.transpose(), first)
    np.testing.assert_array_equal(third.numpy(), data.T)
    with pytest.raises(ValueError, match="cannot assign data of shape"):
        first.assign(third)


def test_assignment_of_overlapping_views_is_correct() -> None:
    a = tg.array(np.arange(6, dtype=np.int32), device="cuda:0")
    a[1:].assign(a[:-1])
    np.testing.assert_array_equal(a.numpy(), [0, 0, 1, 2, 3, 4])


def test_arrays_are_moved_between_devices() -> None:
    a = tg.ones(3, device="cuda:0")
    assert a.to("cuda:0") is a
    assert [str(a.to(d).device) for d in ("cpu", "cuda:1")] == ["cpu", "cuda:1"]
    b = tg.array(a, device="cpu")
    np.testing.assert_array_equal(b.numpy(), [1, 1, 1])
    assert str(tg.array(a).device) == "cuda:0"


def test_empty_device_arrays_are_accepted() -> None:
    a = tg.zeros((0, 3), device="cuda:0")
    assert a.numpy().shape == (0, 3)
    assert tg.clone(a).fill_(1).shape == (0, 3)


def test_the_current_device_holds_new_arrays() -> None:
    data = np.ones(2, np.float32)
    with tg.ScopedDevice("cuda:1"):
        array = tg.zeros(2), tg.array(data), tg.array([1.0]), tg.empty(2, device="cpu"), tg.from_numpy(data)
    assert [str(a.device) for a in array] == ["cuda:1", "cuda:1", "cuda:1", "cpu", "cpu"]
    assert str(tg.zeros(2).device) == "cpu"


def test_memory_of_device_arrays_is_freed_with_the_last_view(simulated: SimulatedDriver) -> None:
    a = tg.zeros(100, device="cuda:0")
    view = a[10:]
    del a
    assert len(simulated.memory) == 1
    del view
    assert simulated.memory == {}


def test_device_arrays_have_no_host_array_interface() -> None:
    a = tg.ones(3, device="cuda:0")
    assert not hasattr(a, "__array_interface__")
    np.testing.assert_array_equal(np.asarray(a), [1, 1, 1])
    assert a.list() == [1.0, 1.0, 1.0] and [float(x) for x in a] == [1.0, 1.0, 1.0]
    assert (
        str(a) == "[1. 1. 1.]"
        and repr(a) == "tg.array([1., 1., 1.], shape=(3,), dtype=float32, device=cuda:0)"
    )
    with pytest.raises(ValueError, match="as a copy only"):
        np.array(a, copy=False)


def test_arrays_larger_than_device_memory_are_refused() -> None:
    with pytest.raises(tg.RunError, match=r"cuda:0: CUDA_ERROR_OUT_OF_MEMORY .*; delete arrays"):
        tg.empty(1 << 40, device="cuda:0")


# Other libraries ------------------------------------------------------------------------------------------------------


class Foreign:
    """An array of another library on a GPU."""

    def __init__(self, a: tg.array, **overrides: object) -> None:
        self.__cuda_array_interface__ = {**a.__cuda_array_interface__, **overrides}
        self.owner = a


class ForeignByDlpack:
    def __init__(self, a: tg.array) -> None:
        self.a = a

    def __dlpack__(self, stream: int | None = None) -> object:
        return self.a.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.a.__dlpack_device__()


def test_arrays_by_their_interface_share_memory() -> None:
    base = tg.array(np.arange(12, dtype=np.float32).reshape(3, 4), device="cuda:1")
    a = tg.array(Foreign(base.transpose()), copy=False)
    assert (str(a.device), a.shape, a.ptr) == ("cuda:1", (4, 3), base.ptr)
    a.fill_(1)
    np.testing.assert_array_equal(base.numpy(), np.ones((3, 4)))
    b = tg.array(Foreign(base))
    assert b.ptr != base.ptr and str(b.device) == "cuda:1"


def test_the_stream_of_an_array_is_waited_for(simulated: SimulatedDriver) -> None:
    base, side_stream = tg.zeros(3, device="cuda:0"), tg.Stream("cuda:0")
    simulated.calls.clear()
    tg.array(Foreign(base, stream=1), copy=False)
    assert "cuStreamWaitEvent" not in simulated.calls
    tg.array(Foreign(base, stream=side_stream.cuda_stream), copy=False)
    assert "cuStreamWaitEvent" in simulated.calls


def test_arrays_of_read_only_device_memory_are_not_writeable() -> None:
    base = tg.zeros(3, device="cuda:0")
    a = tg.array(Foreign(base, data=(base.ptr, True)), copy=False)
    assert not a.writeable


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_converts_both_ways_without_copies(dtype: str) -> None:
    data = values(dtype, (3, 4))
    base = tg.array(data, device="cuda:1")
    a = tg.from_dlpack(ForeignByDlpack(base[:, ::2]))
    assert (str(a.device), a.ptr, str(a.dtype), a.strides) == (
        "cuda:1",
        base.ptr,
        dtype,
        base[:, ::2].strides,
    )
    del base
    np.testing.assert_array_equal(a.numpy(), data[:, ::2])


def test_dlpack_lets_the_consumer_wait(simulated: SimulatedDriver) -> None:
    base, side_stream = tg.zeros(3, device="cuda:0"), tg.Stream("cuda:0")
    for stream, waits in ((None, False), (1, False), (-1, False), (side_stream.cuda_stream, True)):
        simulated.calls.clear()
        base.__dlpack__(stream=stream)
        assert ("cuStreamWaitEvent" in simulated.calls) is waits


def test_dtypes_without_a_name_have_no_cuda_array_interface() -> None:
    a = tg.zeros(3, tg.bfloat16, device="cuda:0")
    assert not hasattr(a, "__cuda_array_interface__")
    assert tg.zeros(3, tg.bool, device="cuda:0").__cuda_array_interface__["typestr"] == "|b1"
    assert not hasattr(tg.zeros(3), "__cuda_array_interface__")
