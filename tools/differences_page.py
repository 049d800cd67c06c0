"""Writes docs/coming-from-warp.md from docs/differences.toml and from the names that are missing.

Usage: python tools/differences_page.py"""

from __future__ import annotations

import textwrap
import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
DATA, PAGE = DOCS / "differences.toml", DOCS / "coming-from-warp.md"
NAMES = DOCS / "ops" / "examples.toml"
INTRODUCTION = """# Coming from Warp

<!-- Written by tools/differences_page.py from docs/differences.toml. -->

What changes if I change the import?

Most kernels of tiles that run in NVIDIA Warp 1.19 run in Tegula with the import changed: `import tegula as wp`. This
page has a kernel ported that way, what is called differently, what gives another result on purpose, what Tegula has in
addition, and what is missing.

```python
import numpy as np
import tegula as tg
```

## A kernel, ported

In Warp:

```python other
import numpy as np
import warp as wp

TILE_M, TILE_N, TILE_K = wp.constant(8), wp.constant(8), wp.constant(8)


@wp.kernel
def gemm(A: wp.array2d(dtype=float), B: wp.array2d(dtype=float), C: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(TILE_M, TILE_N), dtype=wp.float32)
    for k in range(A.shape[1] // TILE_K):
        a = wp.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = wp.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
        wp.tile_matmul(a, b, total)
    wp.tile_store(C, total, offset=(i * TILE_M, j * TILE_N))


A, B = wp.array(np.ones((16, 24)), dtype=float), wp.array(np.ones((24, 16)), dtype=float)
C = wp.zeros((16, 16), dtype=float)
wp.launch_tiled(gemm, dim=(2, 2), inputs=[A, B, C], block_dim=64)
```

In Tegula the same text runs; only the import differs:

```python
import tegula as wp

TILE_M, TILE_N, TILE_K = wp.constant(8), wp.constant(8), wp.constant(8)


@wp.kernel
def gemm(A: wp.array2d(dtype=float), B: wp.array2d(dtype=float), C: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(TILE_M, TILE_N), dtype=wp.float32)
    for k in range(A.shape[1] // TILE_K):
        a = wp.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = wp.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
        wp.tile_matmul(a, b, total)
    wp.tile_store(C, total, offset=(i * TILE_M, j * TILE_N))


A, B = wp.array(np.ones((16, 24)), dtype=float), wp.array(np.ones((24, 16)), dtype=float)
C = wp.zeros((16, 16), dtype=float)
wp.launch_tiled(gemm, dim=(2, 2), inputs=[A, B, C], block_dim=64)
assert (C.numpy() == 24.0).all()
```

If it does not run, the error names the line and what to write. What one also writes in Tegula: annotations
`tg.array2d[float]`, constants as parameters (`N: tg.constexpr`), NumPy arrays as arguments without a copy.

A kernel with a fused epilogue, and its gradient, of which again only the import changed:

```python
@wp.func
def gelu(x: float):
    return 0.5 * x * (1.0 + wp.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


@wp.kernel
def layer(
    A: wp.array2d(dtype=float),
    B: wp.array2d(dtype=float),
    bias: wp.array(dtype=float),
    C: wp.array2d(dtype=float),
):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(TILE_M, TILE_N), dtype=wp.float32)
    for k in range(int(A.shape[1] / TILE_K)):
        a = wp.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = wp.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))
        wp.tile_matmul(a, b, total)
    shift = wp.tile_broadcast(wp.tile_load(bias, shape=TILE_N, offset=j * TILE_N), shape=(TILE_M, TILE_N))
    wp.tile_store(C, wp.tile_map(gelu, total + shift), offset=(i * TILE_M, j * TILE_N))


rng = np.random.default_rng(0)
A = wp.array(rng.standard_normal((16, 24)), dtype=float, requires_grad=True)
B = wp.array(rng.standard_normal((24, 16)), dtype=float, requires_grad=True)
bias, C = wp.zeros(16, dtype=float, requires_grad=True), wp.zeros((16, 16), dtype=float, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch_tiled(layer, dim=[2, 2], inputs=[A, B, bias], outputs=[C], block_dim=64)

tape.backward(grads={C: wp.ones((16, 16), dtype=float)})
z = A.numpy().astype(np.float64) @ B.numpy()
t = np.tanh(0.79788456 * (z + 0.044715 * z**3))
slope = 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * 0.79788456 * (1 + 3 * 0.044715 * z * z)
np.testing.assert_allclose(C.numpy(), 0.5 * z * (1 + t), rtol=1e-4, atol=1e-5)
np.testing.assert_allclose(A.grad.numpy(), slope @ B.numpy().T, rtol=1e-4, atol=1e-4)
np.testing.assert_allclose(bias.grad.numpy(), slope.sum(axis=0), rtol=1e-4, atol=1e-4)
```

Programs that name `device="cuda:0"` run on a CPU as `device="cpu"`, or without the argument. Launches are recorded
(`wp.capture_begin`) on GPUs only: without a GPU, launch in a loop.

## What is called differently

| Warp | Tegula |
|---|---|
| `wp.config.mode = "debug"`, `wp.config.verify_cuda` | `tg.config.mode = "debug"` |
| `wp.config.kernel_cache_dir`, `wp.clear_kernel_cache()` | `tg.config.kernel_cache_dir`, `tegula cache clear` |
| `wp.jax_kernel`, `wp.jax_callable` | `tegula.jax.function` ([PyTorch and JAX](interop.md)) |
| a `torch.autograd.Function` around launches | `tegula.torch.function` |
| native snippets, `@wp.func_native` | `@tg.func` |
| `import warp.optim`, `warp.optim.Adam` | `tg.optim.Adam`, without an import |
| `wp.get_cuda_driver_version()` and its kin | `tegula doctor` |

The same names in both are marked in [all functions](ops/index.md).

## What gives another result

"""
FURTHER_PAGES = """
## What Tegula has in addition

- [Roles and pipes](roles.md), by hand or [made by the compiler](schedules.md), each with a [proof](checker.md).
- [Autotuning](tuning.md) that compares what candidates compute.
- Gradients of every tile function that has one, and errors for the others.
- Functions of tiles [that you write](cooperative.md) with a signature, a reference and derived tests.
- Blocks of any size on CPUs, with all tile functions, so that tile kernels are developed and debugged there.

## What is missing

Files of assets, rendering (`warp.render`), finite elements (`warp.fem`) and simulation (`warp.sim`) are not part of
Tegula, nor are ahead-of-time modules, memory pools that users set up, and Paddle. Names of Warp's main module that are
not here:

"""


def differences() -> list[dict[str, Any]]:
    """The differences, in the order of the file."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))["difference"]


def missing() -> list[str]:
    """The names of Warp that Tegula does not have."""
    import tegula as tg
    from tegula.api import LAZY

    absent_names = tomllib.loads(NAMES.read_text(encoding="utf-8"))["warp"]["absent"]
    return [name for name in absent_names if name not in {*dir(tg), *LAZY}]


def page() -> str:
    """The text of the page, by topic."""
    lines = [INTRODUCTION.rstrip() + "\n"]
    for topic in dict.fromkeys(entry["topic"] for entry in differences()):
        lines.append(f"\n### {topic}\n")
        for entry in (difference for difference in differences() if difference["topic"] == topic):
            lines.append(f"\n**{entry['title']}.** There: {entry['there']}. Here: {entry['here']}.\n")
            lines.append(f"\n```python\n{entry['program'].strip()}\n```\n")
    names = textwrap.fill(", ".join(f"`{name}`" for name in missing()) + ".", 118, break_on_hyphens=False)
    return "".join(
        [
            *lines,
            FURTHER_PAGES,
            names,
            "\n\nNext: [concepts](concepts.md), or [every function](ops/index.md).\n",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
