"""Modules of kernels, for compatibility with other tile languages. Each kernel is compiled at its first launch, so that
loading a module has no effect; options are stored without effect."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from tegula.errors import LaunchError, suggestion
from tegula.lang.annotations import resolve
from tegula.lang.decorators import MODULE_OPTIONS, known_module_option, unknown_option
from tegula.runtime.config import LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARNING, config
from tegula.runtime.device import Device, get_device, get_devices
from tegula.runtime.kernel import Kernel, variant
from tegula.source import Location
from tegula.types import DType, element_type, from_numpy, to_numpy

DEFAULTS: dict[str, Any] = {"enable_backward": True, "fast_math": False, "lineinfo": False, "block_dim": 256}
"""The default options of a module."""


class Module:
    """The kernels of one Python module.

    The attribute `name` is the module's name, and `options` a dictionary of options without effect.

    Parameters:
        name: the name of a Python module, a string.
    Raises:
        nothing.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.options: dict[str, Any] = dict(DEFAULTS)

    def load(self, device: Device | str | None = None, block_dim: int | None = None) -> Module:
        """Returns the module; kernels are compiled at their first launch.

        Parameters:
            device: a device, or its name; the current one by default.
            block_dim: is accepted and changes nothing.
        Returns:
            the module.
        Raises:
            launch: there is no such device.
        """
        get_device(device)
        return self

    def __repr__(self) -> str:
        return f"<tegula module {self.name}>"


_modules: dict[str, Module] = {}


def get_module(name: str) -> Module:
    """The module of a name.

    Parameters:
        name: the name of a Python module, a string; the Python module need not be imported.
    Returns:
        the module, the same object for the same name.
    Raises:
        nothing.
    """
    return _modules.setdefault(name, Module(name))


def _module_of(module: Module | ModuleType | str | None, caller: Mapping[str, Any]) -> Module:
    if isinstance(module, Module):
        return module
    name = module.__name__ if isinstance(module, ModuleType) else module
    return get_module(caller.get("__name__", "__main__") if name is None else name)


def set_module_options(options: Mapping[str, Any], module: Module | ModuleType | str | None = None) -> None:
    """Sets options of a module. The options are stored without effect.

    Parameters:
        options: values by name.
        module: a module, or its name; by default the caller's module.
    Raises:
        wrong-arguments: there is no such option.
    """
    caller = sys._getframe(1)
    for name in options:
        if not known_module_option(name):
            location = Location(caller.f_code.co_filename, caller.f_lineno)
            raise unknown_option("set_module_options", name, MODULE_OPTIONS, location)
    _module_of(module, caller.f_globals).options.update(options)


def get_module_options(module: Module | ModuleType | str | None = None) -> dict[str, Any]:
    """The options of a module.

    Parameters:
        module: a module, or its name; by default the caller's module.
    Returns:
        a new dictionary of values by name.
    Raises:
        nothing.
    """
    return dict(_module_of(module, sys._getframe(1).f_globals).options)


class ScopedLogLevel:
    """Sets `tg.config.log_level` in a `with` block. Tegula has no log, and warns through Python's `warnings`, so that
    the level has no effect.

    Parameters:
        log_level: an int: tg.LOG_DEBUG, tg.LOG_INFO, tg.LOG_WARNING or tg.LOG_ERROR.
    Raises:
        ValueError: `log_level` is not a level.
    """

    def __init__(self, log_level: int) -> None:
        if log_level not in (LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR):
            raise ValueError(f"expected a level such as tg.LOG_WARNING, got {log_level!r}")
        self.log_level = log_level

    def __enter__(self) -> ScopedLogLevel:
        self.saved = config.log_level
        config.log_level = self.log_level
        return self

    def __exit__(self, *error: object) -> None:
        config.log_level = self.saved


def get_suggested_block_size(kernel: Kernel, device: Device | str | None = None) -> tuple[int, int]:
    """A number of threads per block, and a number of blocks that occupy the device.

    The best block size depends on the launch; tg.autotune measures candidates.

    Parameters:
        kernel: a kernel.
        device: a device, or its name; the current one by default.
    Returns:
        a tuple of the kernel's block size, or the default, and the number of multiprocessors of a GPU or of processors
        of a CPU.
    Raises:
        launch: `kernel` is not a kernel, or there is no such device.
    """
    if not isinstance(kernel, Kernel):
        raise LaunchError(f"expected a kernel, got {kernel!r}", "decorate the function with @tg.kernel")
    target = get_device(device)
    return kernel.options.block_dim or config.block_dim, target.sm_count or os.cpu_count() or 1


def load_module(
    module: Module | ModuleType | str | None = None,
    device: Device | str | None = None,
    recursive: bool = False,
    block_dim: int | None = None,
) -> None:
    """Checks that the device exists. Kernels are compiled at their first launch and cached on disk.

    Parameters:
        module: a module, or its name; by default the caller's module.
        device: a device, or its name; the current one by default.
        recursive, block_dim: are accepted and change nothing.
    Raises:
        launch: there is no such device.
    """
    _module_of(module, sys._getframe(1).f_globals).load(device, block_dim)


def force_load(
    device: Device | str | Sequence[Device | str] | None = None,
    modules: Sequence[Module] | None = None,
    block_dim: int | None = None,
) -> None:
    """Checks that the device exists. Kernels are compiled at their first launch and cached on disk.

    Parameters:
        device: a device, its name, or a list of devices.
        modules, block_dim: are accepted and change nothing.
    Raises:
        launch: there is no such device.
    """
    for name in [device] if device is None or isinstance(device, Device | str) else device:
        get_device(name)


def init() -> None:
    """A call without effect: the package needs no preparation.

    Raises:
        nothing.
    """


def overload(
    kernel: Kernel | Callable[..., Any], types: Sequence[Any] | Mapping[str, Any] | None = None
) -> Kernel:
    """A kernel with types for unannotated parameters; as a decorator, with the types of a function's annotations.

    Parameters:
        kernel: a kernel, or a function without a body with the name of a kernel.
        types: the types of all parameters, written as annotations, or the types of some parameters by name.
    Returns:
        a kernel with these types; as a decorator the named kernel, which accepts all types.
    Raises:
        launch: there is no such parameter or kernel, or too few or too many types.
        TypeError: a type is not a type of the language.
    """
    if isinstance(kernel, FunctionType):
        scope = sys._getframe(1)
        existing = scope.f_locals.get(kernel.__name__, kernel.__globals__.get(kernel.__name__))
        if not isinstance(existing, Kernel):
            help = "define a kernel of this name first"
            raise LaunchError(f"there is no kernel '{kernel.__name__}' to overload", help)
        return existing
    if not isinstance(kernel, Kernel):
        raise LaunchError(f"expected a kernel, got {kernel!r}", "decorate the function with @tg.kernel")
    names = [p.name for p in kernel.parameters]
    if not isinstance(types, Mapping):
        type_list = [] if types is None else list(types)
        if len(type_list) != len(names):
            message = (
                f"{kernel.name} has {len(names)} parameters ({', '.join(names)}), got {len(type_list)} types"
            )
            raise LaunchError(
                message, "pass one type for each parameter, or the types of some parameters by name"
            )
        types = dict(zip(names, type_list, strict=True))
    for name in types:
        if name not in names:
            raise LaunchError(f"kernel {kernel.name} has no parameter '{name}'", suggestion(name, names))
    annotations = {name: resolve(t) for name, t in types.items()}
    return variant(kernel, kernel.definition.annotated(annotations))


def is_device_available(device: Device | str) -> bool:
    """Whether there is a device.

    Parameters:
        device: a device, or its name.
    Returns:
        a bool.
    Raises:
        nothing.
    """
    aliases = [d.alias for d in get_devices()]
    return str(device) in aliases or (device == "cuda" and len(aliases) > 1)


def device_to_torch(device: Device | str | None) -> str:
    """PyTorch's name of a device.

    Parameters:
        device: a device, or its name; None for the current one.
    Returns:
        a string, "cpu" or "cuda:0", which PyTorch accepts as a device.
    Raises:
        launch: there is no such device.
    """
    return str(get_device(device))


def dtype_to_numpy(dtype: Any) -> Any:
    """NumPy's scalar type of a dtype.

    Parameters:
        dtype: a scalar type, or float, int or bool.
    Returns:
        a class such as numpy.float32.
    Raises:
        TypeError: `dtype` is not a scalar type, or NumPy has no such type.
    """
    element = element_type(dtype)
    if not isinstance(element, DType):
        raise TypeError(f"NumPy has no scalar type for {element}")
    return to_numpy(element).type


def dtype_from_numpy(dtype: Any) -> DType:
    """The scalar type of a NumPy dtype.

    Parameters:
        dtype: a NumPy dtype, or an object that NumPy converts to a dtype.
    Returns:
        a scalar type.
    Raises:
        ValueError: there is no such scalar type.
    """
    return from_numpy(np.dtype(dtype))
