"""Cache keys of launches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from operator import attrgetter
from typing import Any

from tegula.runtime.array import array
from tegula.runtime.description import ALIGNMENT
from tegula.runtime.tensors import is_tensor


class _FastPath:
    """The machine code that makes the keys of arguments on GPUs, once it is compiled; None for other arguments."""

    describe: Callable[..., bytes | None] = staticmethod(lambda *arguments: None)


fast_path = _FastPath()


def launch_key(*arguments: Any) -> Hashable:
    """The properties of arguments that launches depend on besides addresses and elements, as a hashable object.

    A function that launches kernels can use the object as a cache key.

    Parameters:
        *arguments: arrays, PyTorch tensors, or None for absent arguments.
    Returns:
        a key: dtype, shape, strides, device and the alignment of the address up to 64 bytes of each array; None if
        there are other arguments. The key holds no memory.
    Raises:
        nothing.
    """
    key = fast_path.describe(*arguments)
    if key is not None:
        return key
    try:
        return tuple([_PARTS[type(x)](x) for x in arguments])
    except KeyError:
        return launch_key(*arguments) if _register_torch_types(arguments) else None
    except RuntimeError:
        # One of the tensors has no strides or no memory.
        return None


def _tensor_key(tensor: Any) -> tuple[Hashable, ...]:
    # Tensors that need a gradient are refused on the CPU.
    start = tensor.data_ptr() % ALIGNMENT
    return tensor.dtype, tensor.shape, tensor.stride(), tensor.device, start, tensor.requires_grad


_PARTS: dict[type, Callable[[Any], Hashable]] = {
    array: attrgetter("description"),
    type(None): lambda absent: None,
}
"""The function that returns an argument's part of the key, by the argument's exact type: subclasses may behave
differently."""


def _register_torch_types(arguments: tuple[Any, ...]) -> bool:
    """Register PyTorch's types when a tensor is passed for the first time. Returns whether they were registered now."""
    if not any(map(is_tensor, arguments)):
        return False
    torch = sys.modules["torch"]
    kinds = {torch.Tensor, torch.nn.Parameter} - _PARTS.keys()
    _PARTS.update(dict.fromkeys(kinds, _tensor_key))
    return bool(kinds)
