"""The choices of tuning, stored in the disk cache of compiled kernels."""

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
    """The SHA-256 of a text in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def describe_device(device: Device) -> str:
    """The properties that a device's speed depends on, and its compiler, as text."""
    if device.is_cuda:
        return f"{device.name} {device.arch} {device.sm_count} {ptx.identity(config.ptxas)}"
    return f"{get_target(config.cpu_target).key} {len(os.sched_getaffinity(0))}"


class ResultStore:
    """The cached choice for one key. `parts`: the inputs of the choice besides Tegula's sources and llvmlite."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.store = disk_cache()
        self.name = self.store.key(["tuned", *parts]) if self.store is not None else ""

    def get(self, kernels: Sequence[str]) -> int | None:
        """The index of the chosen candidate; None if no choice is stored or the candidate's kernel has changed.

        `kernels`: a digest of each candidate's IR."""
        entry = self.store.get(self.name) if self.store is not None else None
        if entry is None:
            return None
        chosen, stored_digest = entry.metadata.get("chosen"), entry.metadata.get("kernel")
        if not isinstance(chosen, int) or not 0 <= chosen < len(kernels) or kernels[chosen] != stored_digest:
            return None
        return chosen

    def put(self, chosen: int, kernel: str) -> None:
        """Store the index and the digest of the candidate that was chosen for a class of launches."""
        if self.store is not None:
            self.store.put(self.name, Entry({"chosen": chosen, "kernel": kernel}, b""))
