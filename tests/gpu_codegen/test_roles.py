"""Roles and pipes as code for Hopper: one test for each statement of docs/hopper.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm

from support.hopper_roles import (
    HALF,
    STAGES,
    K,
    M,
    N,
    arrays,
    chained_matmuls,
    matmul,
    pushed_operand,
    two_producers,
    two_readers,
)
from tegula.backend import ptx
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu import GpuCode
from tegula.runtime.launch import block_size

TESTS = Path(__file__).parents[1]


def compile_kernel(kernel: Any, args: Sequence[Any]) -> GpuCode:
    return lower_to_llvm(kernel, args, (1,), block_size(kernel, None, args))


@pytest.fixture(scope="module")
def texts() -> dict[str, tuple[GpuCode, str]]:
    """Each kernel as LLVM IR and PTX, by name."""
    compiled: dict[str, tuple[GpuCode, str]] = {}
    for kernel, out in (
        (matmul, HALF),
        (two_producers, float),
        (pushed_operand, float),
        (chained_matmuls, float),
        (two_readers, float),
    ):
        code = compile_kernel(kernel, [*arrays(HALF, HALF, out), 4])
        compiled[kernel.name] = code, compile_ptx(code.text, "sm_90a")
    return compiled


Texts = dict[str, tuple[GpuCode, str]]


def barrier_counts(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"mbarrier\.init\.shared::cta\.b64 \[[^]]*\], (\d+)", text)]


def test_pipes_of_two_producers_have_barriers_of_their_own(texts: Texts) -> None:
    assert len(barrier_counts(texts["two_producers"][1])) == 2 * 2 * STAGES


def test_pipes_in_lockstep_share_a_pair_of_barriers(texts: Texts) -> None:
    assert len(barrier_counts(texts["matmul"][1])) == 2 * STAGES


def test_arrivals_count_the_participating_warps(texts: Texts) -> None:
    assert sorted(barrier_counts(texts["matmul"][1])) == [1] * STAGES + [8] * STAGES
    # One arrival with the bytes of a copy; four warps that push; four warps that release each pipe.
    assert sorted(barrier_counts(texts["pushed_operand"][1])) == [1] * STAGES + [4] * 3 * STAGES


def test_bytes_that_will_arrive_are_announced_once_a_stage(texts: Texts) -> None:
    expected_bytes = re.findall(r"expect_tx\.shared::cta\.b64 _, \[[^]]*\], (\d+)", texts["matmul"][1])
    assert expected_bytes == [str(2 * (M * K + K * N))]
    expected_bytes = re.findall(r"expect_tx\.shared::cta\.b64 _, \[[^]]*\], (\d+)", texts["two_producers"][1])
    assert sorted(expected_bytes) == sorted([str(2 * M * K), str(2 * K * N)])


def test_one_thread_initialises_barriers_and_fences_before_the_block_barrier(texts: Texts) -> None:
    text = texts["matmul"][1]
    last, fence = text.rindex("mbarrier.init"), text.index("fence.mbarrier_init.release.cluster")
    barrier = re.search(r"bar\.sync\s+0;", text)
    assert barrier is not None and last < fence < barrier.start() < text.index("mbarrier.try_wait")


def test_every_warp_group_sets_its_registers_once_before_its_roles(texts: Texts) -> None:
    text = texts["two_producers"][1]
    assert re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 \d+", text) == []
    text = texts["matmul"][1]
    budgets = [int(n) for n in re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32 (\d+)", text)]
    assert budgets == [24, 240] and all(n % 8 == 0 for n in budgets)
    assert 24 * 128 + 240 * 256 <= int(re.findall(r"\.maxnreg (\d+)", text)[0]) * 384
    assert ".maxntid 384" in text


def test_a_matmul_is_fenced_committed_and_waited_for(texts: Texts) -> None:
    text = texts["matmul"][1]
    steps = [line.split()[0] for line in text.splitlines() if line.startswith("wgmma")]
    assert steps == [
        "wgmma.fence.sync.aligned;",
        *["wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"] * (K // 16),
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned",
    ]
    assert "wgmma.wait_group.sync.aligned 1;" in text and "wgmma.wait_group.sync.aligned 0;" in text


def test_writes_for_tensor_cores_are_fenced_before_the_arrival(texts: Texts) -> None:
    text = texts["pushed_operand"][1]
    fence = text.index("fence.proxy.async.shared::cta")
    assert text.rindex("st.shared", 0, fence) < fence < text.index("mbarrier.arrive.shared::cta", fence)


def test_reads_are_fenced_before_copies_refill_the_stage(texts: Texts) -> None:
    """A fence between the last load of a stage, by ordinary loads or ldmatrix, and the arrival that releases it."""
    text = texts["two_readers"][1]
    reads = [m.start() for m in re.finditer(r"\bld\.shared|ldmatrix", text)]
    releases = [m.start() for m in re.finditer(r"mbarrier\.arrive\.shared::cta", text)]
    assert "ldmatrix" in text and re.search(r"\bld\.shared", text) and len(releases) == 2
    for release in releases:
        read = max(position for position in reads if position < release)
        assert "fence.proxy.async.shared::cta" in text[read:release]


def test_a_computed_left_operand_stays_in_registers(texts: Texts) -> None:
    code, text = texts["chained_matmuls"]
    assert not re.search(r"\bld\.shared", text)
    assert len(re.findall(r"m64n64k16\.f32\.bf16\.bf16 \{[^}]*\}, \{", text)) == N // 16


def test_tiles_of_different_roles_and_stages_share_no_bytes(texts: Texts) -> None:
    for code, _ in texts.values():
        allocations = list(zip(code.shared.offsets, code.shared.intervals, strict=True))
        for (x, a), (y, b) in combinations(allocations, 2):
            assert x + a.size <= y or y + b.size <= x


def test_the_bytes_of_barriers_are_never_reused(texts: Texts) -> None:
    for code, _ in texts.values():
        end = max(i.end for i in code.shared.intervals)
        barriers = [i for i in code.shared.intervals if i.name.endswith((".full", ".empty"))]
        assert len(barriers) >= 2 and all(i.end == end for i in barriers)


def test_arrays_that_no_tensor_map_describes_are_copied_by_threads() -> None:
    code = compile_kernel(matmul, [*arrays(HALF, HALF, HALF, align=False), 4])
    assert not code.maps
    text = compile_ptx(code.text, "sm_90a")
    assert "cp.async.bulk" not in text and "wgmma.mma_async" in text and "fence.proxy.async" in text


def test_results_of_whole_rows_are_stored_by_bulk_copies(texts: Texts) -> None:
    code, text = texts["matmul"]
    assert [m.box for m in code.maps] == [(M, 64), (K, 64), (64, 64)]
    assert "stmatrix" in text and "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group" in text
    assert not re.search(r"\bst\.global", text)
    assert "cp.async.bulk.wait_group 0;" in text


def test_all_warps_synchronise_after_the_roles(texts: Texts) -> None:
    for _, text in texts.values():
        end = text.rindex("ret;")
        assert re.search(r"bar(rier)?\.sync[^;]*0;\s*$", text[:end].rstrip())


@pytest.mark.skipif(not ptx.candidates(), reason="there is no ptxas")
@pytest.mark.parametrize(
    "name", ["matmul", "two_producers", "pushed_operand", "chained_matmuls", "two_readers"]
)
def test_kernels_with_roles_assemble_without_warnings(texts: Texts, name: str) -> None:
    code, _ = texts[name]
    _, cubin = assemble(code)
    assert cubin.spill_bytes == 0


def test_the_page_on_hopper_names_tests_that_exist() -> None:
    page = (TESTS.parent / "docs" / "hopper.md").read_text()
    this_file = Path(__file__).read_text()
    for name in set(re.findall(r"`(test_\w+)`", page)):
        assert f"def {name}(" in this_file, name
    for path in set(re.findall(r"tests/[\w/]+(?:\.py)?", page)):
        assert (TESTS.parent / path).exists(), path
    mutants = (TESTS / "support" / "mutated_schedules.py").read_text()
    for statement in (
        "one barrier for two announcements",
        "staging overlaps a stage",
        "stores in flight at the end",
    ):
        assert statement in page and f'"{statement}"' in mutants
    for program in set(re.findall(r"role_registers_\w+", page)):
        assert (TESTS / "errors" / "programs" / f"{program}.py").exists(), program
