"""The devices of kernels and arrays: the CPU and NVIDIA GPUs."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tegula.dataclass import dataclass, field

if TYPE_CHECKING:
    from tegula.runtime.cuda.stream import Stream

from tegula.errors import LaunchError


@dataclass(frozen=True, slots=True)
class Device:
    """A device for kernels and arrays: the CPU or a GPU. A device is equal to its alias, "cpu", "cuda:0", "cuda:1" and
    so on.

    The properties of a CUDA device other than its alias need the driver: RuntimeError if it cannot be used.
    """

    alias: str
    ordinal: int = field(init=False, repr=False, compare=False)
    """The number of a CUDA device; -1 for the CPU."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ordinal", int(self.alias.partition(":")[2]) if self.is_cuda else -1)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self.alias == other
        return self.alias == other.alias if isinstance(other, Device) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.alias)

    def __reduce__(self) -> Any:
        """Pickle the device by alias, because there is one object for each device."""
        return get_device, (self.alias,)

    @property
    def is_cpu(self) -> bool:
        """Whether the device is the CPU."""
        return self.alias == "cpu"

    @property
    def is_cuda(self) -> bool:
        """Whether the device is a CUDA device."""
        return self.alias.startswith("cuda")

    @property
    def name(self) -> str:
        """The name of the GPU, such as "NVIDIA H200"; "cpu" for the CPU."""
        return _context().name(self.ordinal) if self.is_cuda else self.alias

    @property
    def arch(self) -> int:
        """The compute capability of a CUDA device as one number, such as 90; 0 for the CPU."""
        major, minor = _context().capability(self.ordinal) if self.is_cuda else (0, 0)
        return 10 * major + minor

    def get_cuda_compile_arch(self) -> int:
        """The compute capability for which kernels are compiled: `arch`.

        Returns:
            an int, such as 90; 0 for the CPU.
        Raises:
            nothing.
        """
        return self.arch

    @property
    def sm_count(self) -> int:
        """The number of SMs of a CUDA device; 0 for the CPU."""
        return _context().attribute(self.ordinal, _context().MULTIPROCESSORS) if self.is_cuda else 0

    @property
    def max_shared_memory_per_block(self) -> int:
        """The maximum bytes of live tiles of a block. On a CPU 1 GiB: the bound on the scratch memory of a thread, of
        which the system allocates only the accessed pages."""
        return _context().attribute(self.ordinal, _context().SHARED_OPT_IN) if self.is_cuda else 1 << 30

    @property
    def total_memory(self) -> int:
        """The bytes of memory of a CUDA device; 0 for the CPU."""
        return _context().context(self.ordinal).memory()[1] if self.is_cuda else 0

    @property
    def free_memory(self) -> int:
        """The bytes of unused memory of a CUDA device; 0 for the CPU."""
        return _context().context(self.ordinal).memory()[0] if self.is_cuda else 0

    @property
    def is_mempool_supported(self) -> bool:
        """Whether memory is allocated from a stream-ordered pool; true for all usable CUDA devices."""
        return self.is_cuda

    @property
    def stream(self) -> Stream:
        """The calling thread's stream on the device. ValueError for the CPU."""
        from tegula.runtime.cuda.stream import get_stream

        return get_stream(self)

    def __str__(self) -> str:
        return self.alias


CPU = Device("cpu")


def _context() -> Any:
    """The module for CUDA devices, loaded on first use."""
    from tegula.runtime.cuda import context

    return context


class _Current(threading.local):
    device = CPU


_current = _Current()


class _CudaSelection:
    """`used`: whether any thread has ever set a CUDA device; until then launches need not query the current device."""

    used = False


cuda_selection = _CudaSelection()
_cuda: dict[int, Device] = {}


def get_device(ident: Device | str | None = None) -> Device:
    """The device of a name, or the calling thread's current device.

    Parameters:
        ident: "cpu", "cuda:0", "cuda" for the current CUDA device or the first, a device, or None for the
            current one.
    Returns:
        the device.
    Raises:
        launch: there is no such device.
    """
    if ident is None:
        return _current.device
    if isinstance(ident, Device):
        return ident
    if ident == "cpu":
        return CPU
    if ident == "cuda" and _current.device.is_cuda:
        return _current.device
    kind, _, number = ident.partition(":") if isinstance(ident, str) else ("", "", "")
    if kind == "cuda" and (number or "0").isdigit():
        cuda = _cuda.get(int(number or 0))
        if cuda is None:
            cuda = {d.ordinal: d for d in get_cuda_devices()}.get(int(number or 0))
        if cuda is not None:
            return cuda
    devices = ", ".join(map(str, get_devices()))
    raise LaunchError(f"there is no device {ident!r}", f"devices: {devices}{_absence()}")


def _absence() -> str:
    """The reason why there are no CUDA devices, or "" if there is a device."""
    from tegula.runtime.cuda.driver import Unavailable, driver

    try:
        driver()
    except Unavailable as error:
        return f" ({error})"
    return ""


def cuda_device(ident: Device | str | None = None) -> Device:
    """The CUDA device of a name, or the current one. LaunchError for the CPU and for an unknown name."""
    device = get_device(ident)
    if not device.is_cuda:
        raise LaunchError(
            f"this needs a CUDA device, and {'the current device' if ident is None else 'this'} is {device}",
            "pass a CUDA device: device='cuda:0'",
        )
    return device


def get_cuda_device(ordinal: int | None = None) -> Device:
    """The CUDA device of a number.

    Parameters:
        ordinal: the number, from 0; the current CUDA device or the first by default.
    Returns:
        the device.
    Raises:
        launch: there is no such device.
    """
    return get_device("cuda" if ordinal is None else f"cuda:{ordinal}")


def get_cuda_devices() -> list[Device]:
    """All CUDA devices.

    Returns:
        a list of devices, empty without a driver.
    Raises:
        nothing.
    """
    for ordinal in range(_context().count_or_none()):
        _cuda.setdefault(ordinal, Device(f"cuda:{ordinal}"))
    return [_cuda[ordinal] for ordinal in range(_context().count_or_none())]


def get_devices() -> list[Device]:
    """All devices, the CPU first.

    Returns:
        a list of devices.
    Raises:
        nothing.
    """
    return [CPU, *get_cuda_devices()]


def get_preferred_device() -> Device:
    """The current CUDA device or the first one; the CPU if there is none.

    Returns:
        the device.
    Raises:
        nothing.
    """
    devices = get_cuda_devices()
    return get_device("cuda") if devices else CPU


def set_device(ident: Device | str) -> None:
    """Sets the calling thread's current device.

    Parameters:
        ident: the device, or its name.
    Raises:
        launch: there is no such device.
    """
    _set_current(get_device(ident))


def _set_current(device: Device) -> None:
    cuda_selection.used = cuda_selection.used or device.is_cuda
    _current.device = device


def is_cpu_available() -> bool:
    """Whether kernels can run on the CPU; always true.

    Returns:
        True.
    Raises:
        nothing.
    """
    return True


def is_cuda_available() -> bool:
    """Whether there is a CUDA device with a driver.

    Returns:
        a bool.
    Raises:
        nothing.
    """
    return _context().count_or_none() > 0


def get_cuda_device_count() -> int:
    """The number of CUDA devices.

    Returns:
        an int; 0 without a driver.
    Raises:
        nothing.
    """
    return _context().count_or_none()


class ScopedDevice:
    """Sets the calling thread's current device in a `with` block.

    Parameters:
        device: the device, or its name; None for the current one.
    Raises:
        launch: there is no such device.
    """

    def __init__(self, device: Device | str | None) -> None:
        self.device = get_device(device)

    def __enter__(self) -> Device:
        self.previous = _current.device
        _set_current(self.device)
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.device = self.previous


def synchronize() -> None:
    """Waits for all devices. Launches on the CPU are complete when they return.

    Raises:
        RuntimeError: an error of the kernels (tg.RunError and its subclasses), or a fault of the GPU.
    """
    used_contexts = _context().contexts()
    if used_contexts:
        from tegula.runtime.cuda.report import synchronize

        for used_context in used_contexts:
            synchronize(used_context)


def synchronize_device(device: Device | str | None = None) -> None:
    """Waits for one device.

    Parameters:
        device: the device, or its name; the current one by default.
    Raises:
        launch: there is no such device.
        RuntimeError: an error of the kernels (tg.RunError and its subclasses), or a fault of the GPU.
    """
    target = get_device(device)
    if target.is_cuda:
        from tegula.runtime.cuda.report import synchronize

        synchronize(_context().context(target.ordinal))
