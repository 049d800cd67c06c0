"""PyTorch tensors: dtypes that NumPy does not have, and version counters. PyTorch is not imported here, because a
caller that passes a tensor has imported it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tegula.types import DTYPES, DType, to_numpy

_NAMES = {"float8_e4m3": "float8_e4m3fn"}
"""PyTorch's names of types, where they differ from Tegula's."""
_dtypes: dict[Any, DType] = {}
"""Tegula's types by PyTorch's types."""


def is_tensor(value: Any) -> bool:
    """Whether a value is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def torch_name(dtype: DType) -> str:
    """PyTorch's name of a type."""
    return _NAMES.get(dtype.name, dtype.name)


def dtype_of(tensor: Any) -> DType:
    """The element type of a tensor; ValueError for an unsupported type."""
    dtype = _dtypes.get(tensor.dtype)
    if dtype is None:
        name = str(tensor.dtype).removeprefix("torch.")
        dtype = next((t for t in DTYPES.values() if torch_name(t) == name), None)
        if dtype is not None:
            _dtypes[tensor.dtype] = dtype
    if dtype is None:
        raise ValueError(f"dtype {tensor.dtype} has no counterpart; supported: {', '.join(DTYPES)}")
    return dtype


def host_data(tensor: Any) -> np.ndarray:
    """A NumPy array on the memory of a host tensor. RuntimeError for a tensor that requires a gradient."""
    numpy_dtype = to_numpy(dtype_of(tensor))
    if numpy_dtype.isbuiltin != 1:
        # PyTorch does not convert to the types of ml_dtypes: the elements are passed as integers of the same size.
        integer_dtype = getattr(sys.modules["torch"], f"int{numpy_dtype.itemsize * 8}")
        return tensor.view(integer_dtype).numpy().view(numpy_dtype)
    return tensor.numpy()


def count_writes(args: Sequence[Any], writes: Iterable[int]) -> None:
    """Increment PyTorch's version counters of written tensors, so that PyTorch detects overwritten values that a
    gradient needs. `writes`: the positions of written arguments."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for k in writes:
        tensor = args[k]
        if isinstance(tensor, torch.Tensor):
            try:
                torch.autograd.graph.increment_version(tensor)
            except RuntimeError:
                # Tensors of inference mode have no counter; in older versions of PyTorch they raise an error.
                if not tensor.is_inference():
                    raise


def versions(args: Sequence[Any]) -> dict[int, int]:
    """PyTorch's version counter of each tensor among the arguments, by position."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    tensors = ((k, a) for k, a in enumerate(args) if isinstance(a, torch.Tensor))
    return {k: a._version for k, a in tensors if not a.is_inference()}
