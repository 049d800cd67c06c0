"""What the compiler knows of the machines it compiles for, as data."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A processor: LLVM's name and features for it, and the width of its vector registers in bytes."""

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int

    @property
    def key(self) -> str:
        """What compiled code depends on."""
        return f"{self.triple}/{self.cpu}/{self.features}"


_X86 = "x86_64-unknown-linux-gnu"
_ARM = "aarch64-unknown-linux-gnu"
NAMED = {
    "x86-64-v3": CpuTarget("x86-64-v3", _X86, "x86-64-v3", "", 32),
    "x86-64-v4": CpuTarget("x86-64-v4", _X86, "x86-64-v4", "", 64),
    "armv8.2": CpuTarget("armv8.2", _ARM, "neoverse-n1", "", 16),
}
_V3_FLAGS = {"avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe"}
_V4_FLAGS = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


@cache
def get_target(name: str = "native") -> CpuTarget:
    """The processor of that name; "native" is the best of the named ones that this machine supports.

    ValueError for an unknown name, RuntimeError on a machine below x86-64-v3 or ARMv8.2."""
    if name != "native":
        if name not in NAMED:
            raise ValueError(f"there is no CPU target {name!r}; targets: native, {', '.join(NAMED)}")
        return NAMED[name]
    if platform.machine() == "aarch64":
        return NAMED["armv8.2"]
    flags = _cpu_flags()
    if not flags >= _V3_FLAGS:
        raise RuntimeError(f"Tegula needs an x86-64-v3 processor; this one lacks {', '.join(_V3_FLAGS - flags)}")
    return NAMED["x86-64-v4" if flags >= _V4_FLAGS else "x86-64-v3"]


def _cpu_flags() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":", 1)[1].split())
    return set()
