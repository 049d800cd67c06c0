"""What was chosen, kept on disk next to the compiled kernels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

from tegula.backend import ptx
from tegula.backend.cache import Entry
from tegula.runtime.config import config
from tegula.runtime.device import Device
from tegula.runtime.store import disk_cache
from tegula.target import get_target


def digest(text: str) -> str:
    """A hash of a text, as text."""
    return hashlib.sha256(text.encode()).hexdigest()


def described_device(device: Device) -> str:
    """What makes a device faster or slower than others, and the compilers for it."""
    if device.is_cuda:
        return f"{device.name} {device.arch} {device.sm_count} {ptx.identity(config.ptxas)}"
    return f"{get_target(config.cpu_target).key} {len(os.sched_getaffinity(0))}"


class ResultStore:
    """The choice for everything that it depends on. `parts`: that, besides Tegula's sources and llvmlite."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.store = disk_cache()
        self.name = self.store.key(["tuned", *parts]) if self.store is not None else ""

    def get(self, kernels: Sequence[str]) -> int | None:
        """The position that was chosen; None if none was, or if the kernel at that position is another one now.

        `kernels`: a digest of each candidate's IR."""
        entry = self.store.get(self.name) if self.store is not None else None
        if entry is None:
            return None
        chosen, known = entry.metadata.get("chosen"), entry.metadata.get("kernel")
        if not isinstance(chosen, int) or not 0 <= chosen < len(kernels) or kernels[chosen] != known:
            return None
        return chosen

    def put(self, chosen: int, kernel: str) -> None:
        """Keep which candidate was chosen for a class of launches."""
        if self.store is not None:
            self.store.put(self.name, Entry({"chosen": chosen, "kernel": kernel}, b""))
