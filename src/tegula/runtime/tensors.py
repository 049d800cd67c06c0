"""What is special about PyTorch's tensors: dtypes that NumPy lacks, and counters of writes. PyTorch is never imported
here: who passes a tensor has it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tegula.types import DTYPES, DType, to_numpy

_NAMES = {"float8_e4m3": "float8_e4m3fn"}
"""PyTorch's names of types that have another here."""
_known: dict[Any, DType] = {}
"""By PyTorch's types."""


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def torch_name(dtype: DType) -> str:
    """What PyTorch calls a type."""
    return _NAMES.get(dtype.name, dtype.name)


def dtype_of(tensor: Any) -> DType:
    """The element type of a tensor; ValueError for one that Tegula does not have."""
    found = _known.get(tensor.dtype)
    if found is None:
        name = str(tensor.dtype).removeprefix("torch.")
        found = next((t for t in DTYPES.values() if torch_name(t) == name), None)
        if found is not None:
            _known[tensor.dtype] = found
    if found is None:
        raise ValueError(f"dtype {tensor.dtype} has no counterpart; supported: {', '.join(DTYPES)}")
    return found


def host_data(tensor: Any) -> np.ndarray:
    """The elements of a tensor in the host's memory, shared. RuntimeError for one that needs a gradient."""
    wanted = to_numpy(dtype_of(tensor))
    if wanted.isbuiltin != 1:
        # NumPy knows these types from ml_dtypes, PyTorch does not: bits of the same size are common ground.
        bits = getattr(sys.modules["torch"], f"int{wanted.itemsize * 8}")
        return tensor.view(bits).numpy().view(wanted)
    return tensor.numpy()


def count_writes(args: Sequence[Any], writes: Iterable[int]) -> None:
    """Have PyTorch know of writes to its tensors among some arguments, so that it finds values that a gradient needs
    and that were overwritten."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for k in writes:
        tensor = args[k]
        if isinstance(tensor, torch.Tensor):
            try:
                torch.autograd.graph.increment_version(tensor)
            except RuntimeError:
                # Tensors of inference mode have no counter, which older versions of PyTorch say by an error.
                if not tensor.is_inference():
                    raise


def versions(args: Sequence[Any]) -> dict[int, int]:
    """How often each tensor among some arguments was written, by position."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    found = ((k, a) for k, a in enumerate(args) if isinstance(a, torch.Tensor))
    return {k: a._version for k, a in found if not a.is_inference()}
