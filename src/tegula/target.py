"""The targets of the compiler, CPUs and GPUs, as data."""

from __future__ import annotations

import platform
from functools import cache

from tegula.dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A processor: LLVM's name and features for it, the width of its vector registers in bytes, and whether LLVM
    optimises code for it."""

    name: str
    triple: str
    cpu: str
    features: str
    vector_bytes: int
    optimised: bool = True

    @property
    def key(self) -> str:
        """The properties that compiled code depends on, as text."""
        return f"{self.triple}/{self.cpu}/{self.features}{'' if self.optimised else UNOPTIMISED}"

    @property
    def is_x86(self) -> bool:
        """Whether the processor is one of x86-64."""
        return self.triple.startswith("x86_64")

    @property
    def mask_registers(self) -> bool:
        """Whether there are registers for a bit per element; otherwise masks are vectors of integers."""
        return self.is_x86 and self.vector_bytes == 64


@dataclass(frozen=True, slots=True)
class CudaTarget:
    """A GPU architecture: LLVM's name, the required PTX version, and the limits of an SM. `shared_per_block`: the bytes
    of shared memory of one block; `shared_per_sm`: the bytes of shared memory of all blocks of an SM. `tensor_cores`:
    the best matrix instruction, "mma" (warps), "wgmma" (warp groups) or "tcgen05". `bulk_copies`: whether there are
    tensor maps and mbarriers."""

    arch: str
    ptx: str
    shared_per_block: int
    shared_per_sm: int
    warps_per_sm: int
    tensor_cores: str
    bulk_copies: bool
    registers_per_sm: int = 65536
    registers_per_thread: int = 255
    threads_per_block: int = 1024

    @property
    def triple(self) -> str:
        """LLVM's target triple."""
        return "nvptx64-nvidia-cuda"

    @property
    def features(self) -> str:
        """LLVM's feature string, the version of PTX."""
        return f"+{self.ptx}"

    @property
    def key(self) -> str:
        """The properties that compiled code depends on, as text."""
        return f"{self.triple}/{self.arch}/{self.ptx}"

    @property
    def sets_registers(self) -> bool:
        """Whether warp groups may change their number of registers (setmaxnreg); ptxas 13.0 ignores it for sm_120."""
        return self.tensor_cores in ("wgmma", "tcgen05")

    @property
    def overlaps_launches(self) -> bool:
        """Whether a kernel may start while the previous one ends, and wait for its results itself (programmatic
        dependent launch)."""
        return self.capability >= (9, 0)

    @property
    def capability(self) -> tuple[int, int]:
        """The minimum compute capability on which the target's code runs."""
        number = int("".join(c for c in self.arch if c.isdigit()))
        return number // 10, number % 10


def _cuda(
    arch: str, ptx: str, block_kib: int, sm_kib: int, warps: int, tensor_cores: str, bulk: bool
) -> CudaTarget:
    return CudaTarget(arch, ptx, block_kib << 10, sm_kib << 10, warps, tensor_cores, bulk)


# Code for an architecture whose name ends in "a" runs on that compute capability only; code for other architectures
# also runs on later compute capabilities of the same major number.
CUDA_TARGETS = {
    target.arch: target
    for target in (
        _cuda("sm_80", "ptx80", 163, 164, 64, "mma", False),
        _cuda("sm_86", "ptx80", 99, 100, 48, "mma", False),
        _cuda("sm_87", "ptx80", 163, 164, 48, "mma", False),
        _cuda("sm_89", "ptx80", 99, 100, 48, "mma", False),
        _cuda("sm_90a", "ptx80", 227, 228, 64, "wgmma", True),
        _cuda("sm_100a", "ptx86", 227, 228, 64, "tcgen05", True),
        _cuda("sm_103a", "ptx88", 227, 228, 64, "tcgen05", True),
        _cuda("sm_120a", "ptx87", 99, 100, 48, "mma", True),
        _cuda("sm_121a", "ptx88", 99, 100, 48, "mma", True),
    )
}


def get_cuda_target(arch: str = "sm_90a") -> CudaTarget:
    """The GPU target of a name; ValueError for an unknown name."""
    if arch not in CUDA_TARGETS:
        raise ValueError(f"there is no CUDA target {arch!r}; targets: {', '.join(CUDA_TARGETS)}")
    return CUDA_TARGETS[arch]


def cuda_target_for(major: int, minor: int) -> CudaTarget:
    """The target of a GPU with a compute capability: its own, or the latest earlier target whose code the GPU runs.
    RuntimeError if there is none."""
    for target in reversed(CUDA_TARGETS.values()):
        own = target.capability
        if own == (major, minor) or (not target.arch.endswith("a") and own[0] == major and own[1] <= minor):
            return target
    raise RuntimeError(f"Tegula has no target for GPUs of compute capability {major}.{minor}")


_X86 = "x86_64-unknown-linux-gnu"
_ARM = "aarch64-unknown-linux-gnu"
NAMED = {
    "x86-64-v3": CpuTarget("x86-64-v3", _X86, "x86-64-v3", "", 32),
    "x86-64-v4": CpuTarget("x86-64-v4", _X86, "x86-64-v4", "", 64),
    "armv8.2": CpuTarget("armv8.2", _ARM, "neoverse-n1", "", 16),
}

# The flags in /proc/cpuinfo that each level needs.
_V3_FLAGS = {"avx", "avx2", "fma", "bmi1", "bmi2", "f16c", "abm", "movbe", "popcnt", "sse4_2", "cx16"}
_V4_FLAGS = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_ARM_FLAGS = {"asimd", "atomics", "asimdhp", "asimdrdm"}

# Integer extensions that native code may use beyond its level: the flag in /proc/cpuinfo, LLVM's feature. Extensions
# that change the rounding of float16 or bfloat16 (avx512fp16, avx512bf16) are not used, so that all processors give the
# same bits.
_V4_EXTRAS = {
    "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512ifma": "avx512ifma",
}


UNOPTIMISED = "-O0"
"""The suffix of a target's name for compilation without optimisations, which takes a fifth of the time."""


@cache
def get_target(name: str = "native") -> CpuTarget:
    """The CPU target of a name; "native" is the best named target that this machine supports, with integer extensions.

    With the suffix UNOPTIMISED, LLVM does not optimise.
    ValueError for an unknown name, RuntimeError if this machine supports none of the targets."""
    if name.endswith(UNOPTIMISED):
        return replace(get_target(name.removesuffix(UNOPTIMISED)), name=name, optimised=False)
    if name == "native":
        return _native(_cpu_flags())
    if name not in NAMED:
        raise ValueError(f"there is no CPU target {name!r}; targets: native, {', '.join(NAMED)}")
    return NAMED[name]


def baseline() -> CpuTarget:
    """The oldest supported processor of this machine's architecture, for code that gains nothing from newer ones."""
    return NAMED["armv8.2" if platform.machine() == "aarch64" else "x86-64-v3"]


def missing_flags(target: CpuTarget) -> list[str]:
    """The flags of /proc/cpuinfo that this machine lacks to run code of a target."""
    if target.is_x86 != (platform.machine() == "x86_64"):
        return [target.triple.split("-")[0]]
    if not target.is_x86:
        return sorted(_ARM_FLAGS - _cpu_flags())
    return sorted((_V3_FLAGS | _V4_FLAGS if target.vector_bytes == 64 else _V3_FLAGS) - _cpu_flags())


def _native(flags: frozenset[str]) -> CpuTarget:
    oldest = baseline()
    missing = missing_flags(oldest)
    if missing:
        raise RuntimeError(f"Tegula needs an {oldest.name} processor; this one lacks {', '.join(missing)}")
    if not oldest.is_x86 or not flags >= _V4_FLAGS:
        return CpuTarget("native", oldest.triple, oldest.cpu, "", oldest.vector_bytes)
    extras = ",".join(f"+{feature}" for flag, feature in _V4_EXTRAS.items() if flag in flags)
    return CpuTarget("native", _X86, "x86-64-v4", extras, 64)


def _cpu_flags() -> frozenset[str]:
    """The instruction sets of this machine by the Linux kernel's names; the kernel lists only instruction sets whose
    registers it saves."""
    known = _cpu_facts()
    return frozenset((known.get("flags") or known.get("Features") or "").split())


@cache
def _cpu_facts() -> dict[str, str]:
    """The fields of the first core in /proc/cpuinfo."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        first = file.read().split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
