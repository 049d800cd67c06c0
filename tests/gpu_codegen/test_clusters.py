"""2-CTA clusters: a tile that both CTAs need is copied once, and results do not change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from cluster_accesses import ClusterAccesses
from gpu_code import assemble, lower_to_llvm, run_gpu_passes
from simt import run_together

import tegula as tg
from support.campaigns import rest_slow, sampled
from support.small_integers import numbers, to_float64
from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.ir import Kernel, Op
from tegula.kernels import gemm, shapes
from tegula.ops.schedule import BulkLoad

HALF = tg.bfloat16
M, N, K = 128, 256, 64
STAGE_BYTES = 49152
"""Bytes of a stage."""


@tg.kernel
def plain_matmul(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
    for k in range((a.shape[1] + K - 1) // K):
        x = tg.tile_load(a, shape=(M, K), offset=(i * M, k * K))
        y = tg.tile_load(b, shape=(K, N), offset=(k * K, j * N))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, tg.tile_astype(total, HALF), offset=(i * M, j * N))


def arrays(m: int, n: int, k: int) -> list[tg.array]:
    return [tg.zeros(shape, dtype=HALF) for shape in ((m, k), (k, n), (m, n))]


def compile_automatic(m: int, n: int, k: int) -> tuple[Kernel, Any]:
    return run_gpu_passes(plain_matmul, arrays(m, n, k), (-(-m // M), -(-n // N)), 256)


def compile_with_roles(
    m: int, n: int, k: int, tile: shapes.Tile, transposed: bool = False
) -> tuple[Kernel, Any]:
    a, b, c = arrays(m, n, k)
    if transposed:
        b = tg.zeros((n, k), dtype=HALF)
    output = tg.zeros((tile.splits, m, n)) if tile.splits > 1 else c
    kernel = gemm.matmul_kernel(HALF, tile, transposed, gemm.Epilogue(output.dtype))
    return run_gpu_passes(kernel, [a, b, 0, 1.0, 0.0, output], (132,), 128 * (1 + tile.groups))


def multicast_loads(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if isinstance(op, BulkLoad) and op.attrs.get("cluster")]


# The code -------------------------------------------------------------------------------------------------------------


def test_both_ctas_multicast_half_of_a_tile() -> None:
    code = lower_to_llvm(plain_matmul, arrays(256, 520, 4104), (2, 3), 256)
    text, cubin = assemble(code)
    assert code.clustered and [m.box for m in code.maps] == [(64, 64), (64, 64), (64, 64)]
    # One of two boxes of the left tile, two of four boxes of the right tile; or all of them.
    assert text.count(".multicast::cluster") == 1 + 2
    assert len(re.findall(r"cp\.async\.bulk\.tensor\S*bytes \[", text)) == 2 + 4
    # The multiplying role arrives in both CTAs; at the start and at the end all threads of both CTAs synchronise.
    assert text.count("mapa.shared::cluster") == text.count("@P mbarrier.arrive.shared::cluster") == 2
    assert text.count("barrier.cluster.arrive") == text.count("barrier.cluster.wait") == 2
    assert f", {STAGE_BYTES};" in text
    # An acquire would flush caches, and a release would wait for all memory accesses, in each iteration.
    assert "acquire.cluster" not in text and "arrive.release" not in text
    if ptx.candidates():
        assert cubin.spill_bytes == 0


@pytest.mark.parametrize("size", [(256, 512, 4096), (256, 528, 4112)])
def test_each_cta_fetches_rows_of_whole_sectors(size: tuple[int, int, int]) -> None:
    code = lower_to_llvm(plain_matmul, arrays(*size), (2, 3), 256)
    text, _ = assemble(code)
    assert not code.clustered and "multicast" not in text and "barrier.cluster" not in text


def test_kernels_for_gpus_without_clusters_have_no_clusters() -> None:
    kernel, _ = run_gpu_passes(plain_matmul, arrays(256, 520, 4104), (2, 3), 256, arch="sm_100a")
    assert not multicast_loads(kernel)


@pytest.mark.machine_code
@pytest.mark.parametrize("transposed", [False, pytest.param(True, marks=pytest.mark.slow)])
@sampled(
    2,
    ("m", "n", "blocks"),
    [
        (136, 40, 3),
        (64, 264, 2),
        *(
            pytest.param(*size, marks=pytest.mark.slow)
            for size in [(136, 40, 2), (136, 40, 4), (200, 136, 2)]
        ),
    ],
)
def test_two_ctas_in_the_model_of_instructions_have_correct_results(
    m: int, n: int, blocks: int, transposed: bool
) -> None:
    """Odd and even numbers of tiles, in columns and in one row, with and without a remainder of blocks."""
    k, tile = 200, shapes.Tile(64, 128, 64, stages=2, groups=1)
    x = numbers(m, k, dtype=HALF)
    y = numbers(*((n, k) if transposed else (k, n)), dtype=HALF, seed=1)
    z = tg.full((m, n), float("nan"), dtype=HALF)
    kernel = gemm.matmul_kernel(HALF, tile, transposed, gemm.Epilogue(HALF))
    args = [x, y, 0, 1.0, 0.0, z]
    code = lower_to_llvm(kernel, args, (blocks,), 256)
    assert code.clustered
    run_together(code, kernel, args, (blocks, 256), blocks)
    right = to_float64(y).T if transposed else to_float64(y)
    np.testing.assert_array_equal(
        to_float64(z), (to_float64(x) @ right).astype(z.numpy().dtype).astype(np.float64)
    )


# The schedule ---------------------------------------------------------------------------------------------------------

SIZES = [(256, 520, 136), (1000, 264, 72), (640, 1288, 200), (8, 8, 8), (1300, 264, 8)]


@pytest.mark.parametrize("blocks", [2, 4, 6, 132])
@pytest.mark.parametrize("size", SIZES)
def test_ctas_of_a_cluster_iterate_in_lockstep_and_multicast_tiles(
    size: tuple[int, int, int], blocks: int
) -> None:
    """In all blocks of several launches, both CTAs of a cluster run the same number of iterations, agree on the tiles
    that they multicast, and multicast exactly the equal tiles. Every tile is stored once."""
    m, n, k = size
    kernel, _ = compile_automatic(*size)
    accesses = ClusterAccesses(kernel, (-(-m // M), -(-n // N)), {0: (m, k), 1: (k, n), 2: (m, n)}, blocks)
    stored_offsets: list[tuple[int, ...]] = []
    for first in range(0, blocks, 2):
        first_cta, second_cta = accesses.copies(first), accesses.copies(first + 1)
        assert len(first_cta) == len(second_cta)
        for own_copy, peer_copy in zip(first_cta, second_cta, strict=True):
            assert own_copy.array == peer_copy.array and own_copy.is_shared == peer_copy.is_shared == (
                own_copy.offset == peer_copy.offset
            )
        stored_offsets += [*accesses.stores(first), *accesses.stores(first + 1)]
    offsets_in_bounds = sorted(offset for offset in stored_offsets if offset[0] < m)
    assert offsets_in_bounds == [(i, j) for i in range(0, m, M) for j in range(0, n, N)]


@pytest.mark.parametrize(
    ("splits", "transposed"),
    rest_slow(product((1, 3), (False, True)), lambda splits, transposed: transposed == (splits == 1)),
)
@sampled(3, "tile", shapes.TENSOR_CORES, ids=lambda t: f"{t.rows}x{t.columns}")
def test_clusters_of_library_matmuls_are_proved(tile: shapes.Tile, splits: int, transposed: bool) -> None:
    kernel, compilation = compile_with_roles(256, 520, 4104, tile.with_splits(splits), transposed)
    assert len(multicast_loads(kernel)) == 2
    verdict = check_schedule(kernel, compilation)
    assert verdict.passed, verdict.message


def test_automatic_schedules_with_clusters_are_proved() -> None:
    kernel, compilation = compile_automatic(256, 520, 4104)
    assert len(multicast_loads(kernel)) == 2 and check_schedule(kernel, compilation).passed


# Tiles that are not multicast -----------------------------------------------------------------------------------------


def test_side_effects_are_not_duplicated_in_a_cluster() -> None:
    @tg.kernel
    def add_tiles(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], rows: int, columns: int):
        left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=3)
        right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=3)
        with tg.ws(0):
            for i, j in tg.persistent_tiles((rows, columns)):
                tg.tile_pipe_load(left, a, offset=(i * M, 0))
                tg.tile_pipe_load(right, b, offset=(0, j * N))
        with tg.ws(1, 2):
            for i, j in tg.persistent_tiles((rows, columns)):
                total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
                tg.tile_atomic_add(c, total, offset=(i * M, j * N))

    a, b, _ = arrays(256, 520, 4104)
    kernel, _ = run_gpu_passes(add_tiles, [a, b, tg.zeros((256, 520)), 2, 3], (2,), 384)
    assert any(isinstance(op, BulkLoad) for op in kernel.walk()) and not multicast_loads(kernel)


def test_loops_that_differ_between_blocks_are_not_shared() -> None:
    @tg.kernel
    def triangular(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[HALF], rows: int, columns: int):
        left = tg.tile_pipe(shape=(M, K), dtype=HALF, stages=3)
        right = tg.tile_pipe(shape=(K, N), dtype=HALF, stages=3)
        with tg.ws(0):
            for i, j in tg.persistent_tiles((rows, columns)):
                for k in range(i + 1):
                    tg.tile_pipe_load(left, a, offset=(i * M, k * K))
                    tg.tile_pipe_load(right, b, offset=(k * K, j * N))
        with tg.ws(1, 2):
            for i, j in tg.persistent_tiles((rows, columns)):
                total = tg.tile_zeros(shape=(M, N), dtype=tg.float32)
                for _k in range(i + 1):
                    tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
                tg.tile_store(c, tg.tile_astype(total, HALF), offset=(i * M, j * N))

    arguments = [*arrays(256, 520, 4104), 2, 3]
    kernel, _ = run_gpu_passes(triangular, arguments, (2,), 384)
    assert any(isinstance(op, BulkLoad) for op in kernel.walk()) and not multicast_loads(kernel)


# Verdicts on wrong schedules of clusters ------------------------------------------------------------------------------


def mutations() -> Iterator[tuple[str, Any]]:
    def compare_other_operand(kernel: Kernel) -> None:
        """Equal right tiles do not imply equal left tiles."""
        left, right = multicast_loads(kernel)
        left.operands[-1] = right.operands[-1]

    def compare_own_row(kernel: Kernel) -> None:
        """Row 0 is compared with the row of the other block: equal in one block, different in the other."""
        is_shared = multicast_loads(kernel)[0].operands[-1].owner
        assert isinstance(is_shared, Op)
        equal = is_shared.operands[1].owner
        assert isinstance(equal, Op)
        zero = next(
            op.result for op in kernel.walk() if op.attrs.get("value") == 0 and op.result.type == tg.int32
        )
        equal.operands[0] = zero

    def ignore_column(kernel: Kernel) -> None:
        is_shared = multicast_loads(kernel)[1].operands[-1].owner
        assert isinstance(is_shared, Op)
        multicast_loads(kernel)[1].operands[-1] = is_shared.operands[0]

    def own_trip_count(kernel: Kernel) -> None:
        """The trip count of the loop is the number of tiles of the block, not of the cluster."""
        for op in kernel.walk():
            if op.NAME == "for" and op.operands[1].owner.NAME == "cluster.end":  # type: ignore[union-attr]
                op.operands[1] = op.operands[1].owner.operands[0]  # type: ignore[union-attr]

    yield "another tile", compare_other_operand
    yield "one-sided", compare_own_row
    yield "always", ignore_column
    yield "own end", own_trip_count


MUTATED = dict(mutations())


@sampled(
    2, "name", rest_slow(((name,) for name in MUTATED), lambda name: name in ("another tile", "own end"))
)
def test_mutated_clusters_are_not_proved(name: str) -> None:
    kernel, compilation = compile_automatic(256, 520, 4104)
    MUTATED[name](kernel)
    verdict = check_schedule(kernel, compilation)
    assert verdict.status == "unproved" and "the two CTAs of a cluster" in verdict.message
