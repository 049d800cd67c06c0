"""Devices."""

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
    """A place where kernels run and arrays live. `alias`: "cpu", "cuda:0", "cuda:1" and so on.

    What is asked of a CUDA device beyond its alias needs the driver: RuntimeError where it cannot be used."""

    alias: str
    ordinal: int = field(init=False, repr=False, compare=False)
    """The number of a CUDA device; -1 for the CPU."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ordinal", int(self.alias.partition(":")[2]) if self.is_cuda else -1)

    def __hash__(self) -> int:
        return hash(self.alias)

    def __reduce__(self) -> Any:
        """There is one object for each device."""
        return get_device, (self.alias,)

    @property
    def is_cpu(self) -> bool:
        return self.alias == "cpu"

    @property
    def is_cuda(self) -> bool:
        return self.alias.startswith("cuda")

    @property
    def name(self) -> str:
        """The product, such as "NVIDIA H200"; "cpu" for the CPU."""
        return _context().name(self.ordinal) if self.is_cuda else self.alias

    @property
    def arch(self) -> int:
        """The compute capability of a CUDA device as one number, such as 90; 0 for the CPU."""
        major, minor = _context().capability(self.ordinal) if self.is_cuda else (0, 0)
        return 10 * major + minor

    @property
    def sm_count(self) -> int:
        """The multiprocessors of a CUDA device; 0 for the CPU."""
        return _context().attribute(self.ordinal, _context().MULTIPROCESSORS) if self.is_cuda else 0

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of tiles that one block may hold at once. On a CPU: 1 GiB, a bound on the scratch memory of each
        thread, which takes from the system what its tiles touch."""
        return _context().attribute(self.ordinal, _context().SHARED_OPT_IN) if self.is_cuda else 1 << 30

    @property
    def total_memory(self) -> int:
        """Bytes of memory of a CUDA device; 0 for the CPU."""
        return _context().context(self.ordinal).memory()[1] if self.is_cuda else 0

    @property
    def free_memory(self) -> int:
        """Bytes of memory of a CUDA device that nobody uses; 0 for the CPU."""
        return _context().context(self.ordinal).memory()[0] if self.is_cuda else 0

    @property
    def is_mempool_supported(self) -> bool:
        """Whether memory comes from a pool in the order of streams: true for all CUDA devices that can be used."""
        return self.is_cuda

    @property
    def stream(self) -> Stream:
        """The stream that this thread's work on the device goes to. ValueError for the CPU."""
        from tegula.runtime.cuda.stream import get_stream

        return get_stream(self)

    def __str__(self) -> str:
        return self.alias


CPU = Device("cpu")


def _context() -> Any:
    """The part that knows CUDA devices, loaded when one is asked for."""
    from tegula.runtime.cuda import context

    return context


class _Current(threading.local):
    device = CPU


_current = _Current()


class _Switch:
    """Whether any thread has ever chosen a CUDA device: until then launches need not look at the current one."""

    used = False


switch = _Switch()
_cuda: dict[int, Device] = {}


def get_device(ident: Device | str | None = None) -> Device:
    """The device of that name, or the current one. "cuda" is the current CUDA device, else "cuda:0".

    LaunchError for a name that no device has."""
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
        found = _cuda.get(int(number or 0))
        if found is None:
            found = {d.ordinal: d for d in get_cuda_devices()}.get(int(number or 0))
        if found is not None:
            return found
    devices = ", ".join(map(str, get_devices()))
    raise LaunchError(f"there is no device {ident!r}", f"devices: {devices}{_absence()}")


def _absence() -> str:
    """Why there are no CUDA devices; nothing where there are some."""
    from tegula.runtime.cuda.driver import Unavailable, driver

    try:
        driver()
    except Unavailable as error:
        return f" ({error})"
    return ""


def cuda_device(ident: Device | str | None = None) -> Device:
    """The CUDA device of that name, or the current one. LaunchError for the CPU and for a name that no device has."""
    found = get_device(ident)
    if not found.is_cuda:
        raise LaunchError(
            f"this needs a CUDA device, and {'the current device' if ident is None else 'this'} is {found}",
            "name one: device='cuda:0'",
        )
    return found


def get_cuda_device(ordinal: int | None = None) -> Device:
    """The CUDA device of that number, by default the current one or the first. LaunchError if there is none."""
    return get_device("cuda" if ordinal is None else f"cuda:{ordinal}")


def get_cuda_devices() -> list[Device]:
    """All CUDA devices; none where there is no driver."""
    for ordinal in range(_context().count_or_none()):
        _cuda.setdefault(ordinal, Device(f"cuda:{ordinal}"))
    return [_cuda[ordinal] for ordinal in range(_context().count_or_none())]


def get_devices() -> list[Device]:
    """All devices, the CPU first."""
    return [CPU, *get_cuda_devices()]


def get_preferred_device() -> Device:
    """The current CUDA device or the first one where there is any, else the CPU."""
    devices = get_cuda_devices()
    return get_device("cuda") if devices else CPU


def set_device(ident: Device | str) -> None:
    """Make a device the current one of this thread."""
    _choose(get_device(ident))


def _choose(device: Device) -> None:
    switch.used = switch.used or device.is_cuda
    _current.device = device


def is_cpu_available() -> bool:
    return True


def is_cuda_available() -> bool:
    """Whether there is a CUDA device and a driver for it."""
    return _context().count_or_none() > 0


def get_cuda_device_count() -> int:
    """How many CUDA devices there are."""
    return _context().count_or_none()


class ScopedDevice:
    """The current device of this thread inside a `with` block."""

    def __init__(self, device: Device | str | None) -> None:
        self.device = get_device(device)

    def __enter__(self) -> Device:
        self.before = _current.device
        _choose(self.device)
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.device = self.before


def synchronize() -> None:
    """Wait for all devices. CPU launches are complete when `launch` returns. RunError for what kernels found."""
    used = _context().contexts()
    if used:
        from tegula.runtime.cuda.report import synchronize

        for each in used:
            synchronize(each)


def synchronize_device(device: Device | str | None = None) -> None:
    """Wait for one device, the current one by default. RunError for what its kernels found."""
    found = get_device(device)
    if found.is_cuda:
        from tegula.runtime.cuda.report import synchronize

        synchronize(_context().context(found.ordinal))
