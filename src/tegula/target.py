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

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith("x86_64")


_X86 = "x86_64-unknown-linux-gnu"
_ARM = "aarch64-unknown-linux-gnu"
NAMED = {
    "x86-64-v3": CpuTarget("x86-64-v3", _X86, "x86-64-v3", "", 32),
    "x86-64-v4": CpuTarget("x86-64-v4", _X86, "x86-64-v4", "", 64),
    "armv8.2": CpuTarget("armv8.2", _ARM, "neoverse-n1", "", 16),
}

# The kernel's names for the flags that each level needs.
_V3_FLAGS = {"avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe", "popcnt", "sse4_2", "cx16"}
_V4_FLAGS = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_ARM_FLAGS = {"asimd", "atomics", "asimdhp", "asimdrdm"}

# Integer extensions that native code may use above its level: the kernel's flag, LLVM's feature. Those that change how
# float16 or bfloat16 round (avx512fp16, avx512bf16) stay off, so that every processor gives the same bits.
_V4_EXTRAS = {
    "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512ifma": "avx512ifma",
}


@cache
def get_target(name: str = "native") -> CpuTarget:
    """The processor of that name; "native" is the best of the named ones that this machine supports, with its extras.

    ValueError for an unknown name, RuntimeError if this machine is below the least of them."""
    if name == "native":
        return _native(_cpu_flags())
    if name not in NAMED:
        raise ValueError(f"there is no CPU target {name!r}; targets: native, {', '.join(NAMED)}")
    return NAMED[name]


def baseline() -> CpuTarget:
    """The least processor that Tegula runs on here: for code that gains nothing from more."""
    return NAMED["armv8.2" if platform.machine() == "aarch64" else "x86-64-v3"]


def missing_flags(target: CpuTarget) -> list[str]:
    """What this machine lacks to run code of a target, in the names of /proc/cpuinfo."""
    if target.is_x86 != (platform.machine() == "x86_64"):
        return [target.triple.split("-")[0]]
    if not target.is_x86:
        return sorted(_ARM_FLAGS - _cpu_flags())
    return sorted((_V3_FLAGS | _V4_FLAGS if target.vector_bytes == 64 else _V3_FLAGS) - _cpu_flags())


def _native(flags: frozenset[str]) -> CpuTarget:
    least = baseline()
    missing = missing_flags(least)
    if missing:
        raise RuntimeError(f"Tegula needs an {least.name} processor; this one lacks {', '.join(missing)}")
    if not least.is_x86 or not flags >= _V4_FLAGS:
        return CpuTarget("native", least.triple, least.cpu, "", least.vector_bytes)
    extras = ",".join(f"+{feature}" for flag, feature in _V4_EXTRAS.items() if flag in flags)
    return CpuTarget("native", _X86, "x86-64-v4", extras, 64)


@cache
def _cpu_flags() -> frozenset[str]:
    """The instruction sets of this machine as its kernel names them; it lists only those it saves on a switch."""
    with Path("/proc/cpuinfo").open() as file:
        for line in file:
            if line.startswith(("flags", "Features")):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()


@dataclass(frozen=True, slots=True)
class CudaTarget:
    """An NVIDIA GPU to compile for: `arch` as in sm_90a."""

    arch: str

    @property
    def key(self) -> str:
        """What compiled code depends on."""
        return f"nvptx64/{self.arch}"
