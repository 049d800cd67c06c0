"""Arrays on a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

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
def test_arrays_copied_to_a_gpu_and_back_are_unchanged(dtype: str) -> None:
    data = values(dtype, (37, 5, 11))
    a = tg.array(data, device="cuda:0")
    assert a.ptr % 256 == 0
    np.testing.assert_array_equal(a.numpy(), data)
    np.testing.assert_array_equal(a[::-1, 1::2, 3:9:3].numpy(), data[::-1, 1::2, 3:9:3])
    np.testing.assert_array_equal(a.transpose((1, 2, 0)).numpy(), data.transpose(1, 2, 0))


class Foreign:
    """Memory of another library, with elements of float64."""

    def __init__(self, memory: tg.array, offset: int, count: int) -> None:
        self.memory = memory
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (memory.ptr + offset, False),
            "shape": (count,),
            "strides": None,
            "typestr": "<f8",
        }


def test_arrays_that_are_not_aligned_are_refused() -> None:
    """An access to such an array would fault, and end the process's use of the GPU."""
    memory = tg.zeros(16, dtype=tg.float64, device="cuda:0")
    with pytest.raises(ValueError, match="must be multiples of 8 bytes"):
        tg.array(Foreign(memory, 4, 3), copy=False)
    assert tg.array(Foreign(memory, 8, 3), copy=False).list() == [0.0] * 3


@pytest.mark.parametrize(("dtype", "value"), [("int8", 3), ("float16", 1.5), ("float32", 2.5), ("float64", 0.0),
                                              ("float64", 2.5), ("int64", -1), ("int64", 7)])  # fmt: skip
def test_fill_sets_elements_of_arrays_and_views(dtype: str, value: float) -> None:
    a = tg.full((30, 41), value, dtype=getattr(tg, dtype), device="cuda:0")
    expected = np.full((30, 41), value, dtype)
    np.testing.assert_array_equal(a.numpy(), expected)
    a[1:, ::2].fill_(5)
    expected[1:, ::2] = 5
    np.testing.assert_array_equal(a.numpy(), expected)


def test_copies_between_views_and_the_host() -> None:
    data = np.arange(120_000, dtype=np.float32).reshape(300, 400)
    a, b, host = tg.array(data, device="cuda:0"), tg.zeros((400, 300), device="cuda:0"), tg.zeros((300, 400))
    b.assign(a.transpose())
    host.assign(b.transpose())
    np.testing.assert_array_equal(b.numpy(), data.T)
    np.testing.assert_array_equal(host.numpy(), data)
    a[1:].assign(a[:-1])
    np.testing.assert_array_equal(a.numpy(), np.concatenate([data[:1], data[:-1]]))


def test_large_strided_copies_match_numpy() -> None:
    data = np.random.default_rng(0).integers(0, 255, (70_000, 300)).astype(np.uint8)
    np.testing.assert_array_equal(tg.array(data, device="cuda:0").transpose().numpy(), data.T)


def test_freed_gpu_memory_is_reused() -> None:
    free = tg.get_device("cuda:0").free_memory
    for _ in range(100):
        tg.zeros(64 << 20, tg.uint8, device="cuda:0")
    tg.synchronize()
    assert free - tg.get_device("cuda:0").free_memory < 1 << 30


def test_arrays_larger_than_gpu_memory_are_refused() -> None:
    with pytest.raises(tg.RunError, match=r"CUDA_ERROR_OUT_OF_MEMORY .*; delete arrays"):
        tg.empty(1 << 40, device="cuda:0")
    assert tg.ones(3, device="cuda:0").list() == [1.0, 1.0, 1.0]


def test_arrays_are_copied_between_all_devices() -> None:
    data = np.arange(1000, dtype=np.int32)
    copies = [tg.array(data, device=d) for d in tg.get_cuda_devices()]
    for source in copies:
        for target in copies:
            target.zero_()[::2].assign(source[500:] if source is not target else source[::2])
    tg.synchronize()
    first = tg.array(data, device="cuda:0")
    for device in tg.get_cuda_devices():
        np.testing.assert_array_equal(first.to(device)[::-1].numpy(), data[::-1])


def test_devices_have_their_properties() -> None:
    d = tg.get_device("cuda:0")
    assert d.name and d.arch >= 80 and d.sm_count > 1
    assert d.max_shared_memory_per_block >= 48 << 10
    assert 0 < d.free_memory <= d.total_memory
