"""Kernels, tensors and arrays for tests of launches on GPUs."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace

import numpy as np

import tegula as tg


@tg.kernel
def add(a: tg.array1d[float], b: tg.array1d[float], c: tg.array1d[float]):
    i = tg.tid()
    c[i] = a[i] + b[i]


@tg.kernel
def checked(a: tg.array1d[float]):
    i = tg.tid()
    assert a[i] > 0.0, "not positive"


def float_array_at(address: int, n: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_float * n).from_address(address), np.float32)


def run_add(blocks: int, threads: int, data: bytes) -> None:
    (a, n, _), (b, *_), (c, *_) = (struct.unpack_from("<3q", data, 24 * k) for k in range(3))
    total, report = struct.unpack_from("<2q", data, 80)
    assert (total, report, blocks) == (n, 0, -(-n // threads))
    float_array_at(c, n)[:] = float_array_at(a, n) + float_array_at(b, n)


def arrays(n: int = 1000, device: str = "cuda:0") -> list[tg.array]:
    data = np.arange(n, dtype=np.float32)
    return [tg.array(data, device=device), tg.array(data, device=device), tg.zeros(n, device=device)]


@tg.kernel
def total(a: tg.array1d[float], result: tg.array1d[float]):
    i = tg.tid()
    tg.tile_atomic_add(result, tg.tile_sum(tg.tile(a[i])))


class Tensor:
    """The attributes of PyTorch's tensors that the runtime uses."""

    is_cuda = True

    def __init__(self, a: tg.array) -> None:
        self.a, self.shape, self.dtype, self._version = a, a.shape, f"torch.{a.dtype}", 0

    def data_ptr(self) -> int:
        return self.a.ptr

    def stride(self) -> tuple[int, ...]:
        return tuple(s // 4 for s in self.a.strides)

    def is_inference(self) -> bool:
        return False

    def get_device(self) -> int:
        return self.a.device.ordinal

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.get_device()

    def __dlpack__(self) -> None:
        raise AssertionError("the attributes of a tensor are faster than DLPack")


def torch_stub(tensor_type: type[Tensor]) -> SimpleNamespace:
    """A stub of PyTorch with a type of tensors. `stream`: the handle of the current stream."""
    result = SimpleNamespace(Tensor=tensor_type, stream=0)
    result.cuda = SimpleNamespace(current_stream=lambda ordinal: SimpleNamespace(cuda_stream=result.stream))
    result.autograd = SimpleNamespace(graph=SimpleNamespace(increment_version=_increment_version))
    return result


def _increment_version(tensor: Tensor) -> None:
    tensor._version += 1
