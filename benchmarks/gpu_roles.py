"""Roles on a GPU: one consumer role of two warp groups against two consumer roles that split the work explicitly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch

import tegula as tg
from benchmarks.burst import comparison_row, relative_error
from benchmarks.gpu_cases import SETS, array_of, poisoned, random
from benchmarks.measure import Row
from benchmarks.role_kernels import blocks, one_consumer_role, two_consumer_roles

SHAPES = ((4096, 4096, 4096), (8192, 8192, 1024))
"""The values of M, N and K."""


def consumers(m: int, n: int, k: int) -> Iterator[Row]:
    """Both kernels with the same tiles, stages and registers; the kernel with one role must not be slower."""
    a, b = (
        [random(s, "bfloat16", seed + 9 * x) for seed in range(SETS)] for x, s in enumerate(((m, k), (k, n)))
    )
    c, d = ([poisoned(torch.empty((m, n), device="cuda", dtype=torch.bfloat16)) for _ in a] for _ in range(2))
    arrays = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, c, strict=True)]
    arrays_of_peer = [[*map(array_of, arrays_of_set)] for arrays_of_set in zip(a, b, d, strict=True)]
    grid = blocks(m, n, torch.cuda.get_device_properties(0).multi_processor_count)

    def run(i: int) -> None:
        tg.launch_tiled(one_consumer_role, grid, arrays[i])

    def peer(i: int) -> None:
        tg.launch_tiled(two_consumer_roles, grid, arrays_of_peer[i])

    run(0)
    peer(0)
    expected = a[0].double() @ b[0].double()
    error = max(relative_error(c[0], expected), relative_error(d[0], expected))
    yield comparison_row(
        consumers_name(m, n, k), run,
        {"separate": peer, "torch.matmul": lambda i: torch.matmul(a[i], b[i], out=d[i])},
        SETS, error, "bfloat16", 0.99, 2 * m * n * k / 1e12, "TFLOP/s",
    )  # fmt: skip


def consumers_name(m: int, n: int, k: int) -> str:
    return f"roles: merged consumers, matmul bfloat16 {m}x{n}x{k}"


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    consumers_name(*shape): partial(consumers, *shape) for shape in SHAPES
}
"""The cases by name, in order; each yields its row."""
