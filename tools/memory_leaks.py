"""Measures the memory that a process retains after kernels were compiled, launched and deleted, and after launches.

    python tools/memory_leaks.py --compiles 4000 --launches 1000000
    python tools/memory_leaks.py --device cuda:0

Prints the growth of the process's memory, and of the memory allocated by malloc, per compile and per launch. Exits with
1 if a compile retains more than 12 KB or a launch more than a tenth of a byte."""

from __future__ import annotations

import argparse
import ctypes
import gc
import sys
import tempfile
from pathlib import Path
from typing import Any

COMPILE_LIMIT = 12 << 10
LAUNCH_LIMIT = 0.1

SOURCE = """
def kernel(n: int, a: tg.array[float], out: tg.array[float]):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=64, offset=i * 64) * {number}.5
    total = tg.tile_zeros(64)
    for k in range(n):
        total += t * {number}.25
    out[i * 64 + j] = total[(j + 1) % 64]
"""


MAPPED, IN_USE = 4, 7
"""Fields of glibc's struct mallinfo2: bytes of mapped blocks, and of the blocks in use of the heap."""


class Mallinfo(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _fields_ = [("fields", ctypes.c_size_t * 10)]


def allocated() -> int:
    """The bytes that malloc has allocated."""
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = Mallinfo
    fields = libc.mallinfo2().fields
    return fields[MAPPED] + fields[IN_USE]


def resident() -> int:
    """The resident bytes of the process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def growth_per_call(action: Any, count: int, warm: int) -> tuple[float, float]:
    """The growth of resident and of allocated memory per call over `count` calls, after `warm` calls."""
    for k in range(warm):
        action(k)
    gc.collect()
    before = resident(), allocated()
    for k in range(warm, warm + count):
        action(k)
    gc.collect()
    return (resident() - before[0]) / count, (allocated() - before[1]) / count


def main() -> int:
    """Measure compiles and launches. Returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compiles", type=int, default=400)
    parser.add_argument("--launches", type=int, default=100_000)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    import tegula as tg

    tg.config.kernel_cache_dir = tempfile.mkdtemp(prefix="tegula-memory-")
    tg.config.cache_kernels = False
    tg.set_device(options.device)
    a, out = tg.ones(256), tg.zeros(256)

    def compile_kernel(number: int) -> None:
        text = SOURCE.format(number=number)
        space: dict[str, Any] = {"tg": tg}
        exec(text, space)
        kernel = tg.kernel(source=text)(space["kernel"])
        tg.launch_tiled(kernel, dim=4, inputs=[2, a, out], block_dim=64)

    space: dict[str, Any] = {"tg": tg}
    exec(SOURCE.format(number=1), space)
    kernel = tg.kernel(source=SOURCE.format(number=1))(space["kernel"])

    def launch_kernel(number: int) -> None:
        tg.launch_tiled(kernel, dim=4, inputs=[2, a, out], block_dim=64)

    failed = False
    for name, action, count, limit in (
        ("compile", compile_kernel, options.compiles, COMPILE_LIMIT),
        ("launch", launch_kernel, options.launches, LAUNCH_LIMIT),
    ):
        if count:
            process, malloc = growth_per_call(action, count, min(200, count))
            print(
                f"each {name} of {count}: {process:,.2f} bytes of the process, {malloc:,.2f} of malloc",
                flush=True,
            )
            failed |= max(process, malloc) > limit
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
