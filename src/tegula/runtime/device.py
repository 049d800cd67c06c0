"""Devices."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import TracebackType

from tegula.errors import LaunchError


@dataclass(frozen=True, slots=True)
class Device:
    """A place where kernels run and arrays live. `alias`: "cpu"."""

    alias: str

    @property
    def is_cpu(self) -> bool:
        return self.alias == "cpu"

    @property
    def is_cuda(self) -> bool:
        return self.alias.startswith("cuda")

    @property
    def name(self) -> str:
        return self.alias

    @property
    def max_shared_memory_per_block(self) -> int:
        """Bytes of tiles that one block may hold at once. On a CPU: 64 MiB, a bound on each thread's scratch memory."""
        return 64 << 20

    def __str__(self) -> str:
        return self.alias


CPU = Device("cpu")


class _Current(threading.local):
    device = CPU


_current = _Current()


def get_device(ident: Device | str | None = None) -> Device:
    """The device of that name, or the current one. LaunchError for a name that no device has."""
    if ident is None:
        return _current.device
    if isinstance(ident, Device):
        return ident
    if ident == "cpu":
        return CPU
    devices = ", ".join(str(d) for d in get_devices())
    raise LaunchError(f"there is no device {ident!r}", f"devices: {devices}")


def get_devices() -> list[Device]:
    """All devices."""
    return [CPU]


def set_device(ident: Device | str) -> None:
    """Make a device the current one of this thread."""
    _current.device = get_device(ident)


def is_cpu_available() -> bool:
    return True


class ScopedDevice:
    """The current device of this thread inside a `with` block."""

    def __init__(self, device: Device | str | None) -> None:
        self.device = get_device(device)

    def __enter__(self) -> Device:
        self.before = _current.device
        _current.device = self.device
        return self.device

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.device = self.before


def synchronize() -> None:
    """Wait for all devices. CPU launches are complete when `launch` returns."""


def synchronize_device(device: Device | str | None = None) -> None:
    """Wait for one device."""
    get_device(device)
