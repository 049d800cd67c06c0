"""Proofs of kernels, and the points where they end."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from equivalent_rewrites import kernel

import tegula as tg
from tegula.check.proof import Stuck, prove
from tegula.check.verifier import Rejected, verify


@tg.kernel
def copies(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))


def outcome(lowered_kernel: Any) -> str:
    """ "proved" for a lowered kernel, or the reason against a proof; the certificate is serialised and parsed."""
    kernel, compilation = lowered_kernel
    try:
        certificate = json.loads(json.dumps(prove(kernel, compilation)))
        verify(kernel, compilation, certificate)
    except (Stuck, Rejected) as e:
        return e.message
    return "proved"


def pipe(first: str, second: str) -> Any:
    """A kernel with a role that fills a pipe in one loop and a role that pops it in another loop."""
    return kernel(f"""def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    with tg.ws(0):
        for k in {first}:
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in {second}:
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
""")


LOAD = """\
    with tg.role("load", warps=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(empty, s, k // S + 1)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(x, ring[s], (k, 0), full, s)
"""
CIRCLE = f"""\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, changed, empty = tg.mbarrier(1, stages=S), tg.mbarrier(2, stages=S), tg.mbarrier(1, stages=S)
{LOAD}\
    with tg.role("change", warps=2):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(full, s, k // S)
            ring[s] = ring[s] * 3.0
            tg.fence_async()
            tg.mbarrier_arrive(changed, s)
    with tg.role("store", warps=1):
        for k in range(n):
            s = k % S
            tg.mbarrier_wait(changed, s, k // S)
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(read=True)
            tg.mbarrier_arrive(empty, s)
"""
"""A ring that three roles hand on in a circle: the first one fills it, the second one changes it, the last one stores
it."""


ROTATED = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, first: int, other: int):
    assert first >= 0
    assert first < S
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("load", warps=1):
        s, phase = first, 1
        for k in range(n):
            tg.mbarrier_wait(empty, s, phase)
            tg.mbarrier_expect_bytes(full, s, N * 4)
            tg.tile_load_async(x, ring[s], (k, 0), full, s)
            s = 0 if s == S - 1 else s + 1
            if s == first:
                phase ^= 1
    with tg.role("use", warp_groups=1):
        for k in range(n):
            tg.mbarrier_wait(full, (k + first) % S, k // S)
            tg.tile_store(out, ring[(k + first) % S] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, (k + first) % S)
"""
"""A ring whose first item is in a stage that an argument names."""
AHEAD = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, d: int):
    assert d >= 0
    assert d <= S
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("load", warps=1):
        for k in range(min(d, n)):
            tg.mbarrier_expect_bytes(full, k % S, N * 4)
            tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
        for k in range(d, n):
            tg.mbarrier_wait(empty, k % S, k // S + 1)
            tg.mbarrier_expect_bytes(full, k % S, N * 4)
            tg.tile_load_async(x, ring[k % S], (k, 0), full, k % S)
    with tg.role("use", warp_groups=1):
        for k in range(n):
            tg.mbarrier_wait(full, k % S, k // S)
            tg.tile_store(out, ring[k % S] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, k % S)
"""
"""A ring of which an argument says how many stages are filled before the first wait."""


FOLDER = Path(__file__).parent.parent / "corpus"
CORPUS = sorted(path.stem for path in FOLDER.glob("*.py"))


def program(name: str) -> ModuleType:
    """A wrong schedule of the corpus and its correct twin."""
    spec = importlib.util.spec_from_file_location(f"proof_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CertificatePath: TypeAlias = tuple[Any, ...]
"""A path in a certificate: keys and indices."""


def paths_of(x: Any, path: CertificatePath = ()) -> Iterator[CertificatePath]:
    if path:
        yield path
    for k in x if isinstance(x, dict) else range(len(x)) if isinstance(x, list) else ():
        yield from paths_of(x[k], (*path, k))


def element_at(x: Any, path: CertificatePath) -> Any:
    for k in path:
        x = x[k]
    return x


def rejected(kernel: Any, compilation: Any, certificate: Any) -> bool:
    try:
        verify(kernel, compilation, certificate)
    except Rejected:
        return True
    return False
