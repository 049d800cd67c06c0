"""The replay of schedules by engines: results, and detected faults."""

from __future__ import annotations

import importlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from replays import failure, ready, sample_orders
from schedules import (
    Mutation,
    adding,
    chain,
    count,
    drop,
    flip,
    lowered,
    lowered_late,
    move_before,
    move_to_end,
    on_top,
    registers,
    two_producers,
)
from schedules import gemm as persistent

import tegula as tg
from support import handwritten_schedules
from support.campaigns import sampled
from tegula.check.schedule import check_schedule
from tegula.interp.engines.launch import EngineLaunch
from tegula.interp.engines.values import Values
from tegula.kernels import gemm, shapes
from tegula.types import to_numpy

attention: Any = importlib.import_module("tegula.kernels.attention")
bf16 = ml_dtypes.bfloat16
ORDERS = 40


def integers(*shape: int, dtype: Any = bf16) -> np.ndarray:
    return np.random.default_rng(len(shape) + shape[-1]).integers(-2, 3, shape).astype(dtype)


def gemm_arguments(k: int = 264) -> list[Any]:
    return [integers(200, k), integers(k, 200), np.zeros((200, 200), bf16)]


def chain_arguments(n: int = 5) -> list[Any]:
    return [integers(128, 64 * n), integers(64 * n, 128), np.zeros((128, 128), np.float32), n]


def register_arguments(n: int = 5) -> list[Any]:
    return [integers(64, 64 * n), integers(64 * n, 128), np.zeros((64, 128), np.float32), n]


def producer_arguments(n: int = 7) -> list[Any]:
    x, y = (integers(n, 256, dtype=np.float32) for _ in range(2))
    return [x, y, np.zeros((n, 256), np.float32), n]


KERNELS = {
    "gemm": (persistent, gemm_arguments),
    "chain": (chain, chain_arguments),
    "registers": (registers, register_arguments),
    "two producers": (two_producers, producer_arguments),
}


def replay_and_store(kernel: Any, args: list[Any], ndim: int = 2, threads: int = 384) -> None:
    """Replay a launch in many orders, require equal results, and store the results in the arrays."""
    launch = EngineLaunch(ready(*lowered(kernel, ndim)), args, (*(1,) * (ndim - 1), threads))
    results = [launch.run(order) for order in sample_orders(launch, ORDERS)]
    assert all(x == results[0] for x in results)
    Values(launch).store(results[-1])


@pytest.mark.parametrize("depth", [8, 64, 264])
def test_replays_of_a_matmul_in_many_orders_have_one_result(depth: int) -> None:
    a, b, c = args = gemm_arguments(depth)
    replay_and_store(persistent(), args)
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(bf16))


@pytest.mark.parametrize("n", [1, 2, 5])
def test_replays_of_a_chain_in_many_orders_have_one_result(n: int) -> None:
    a, b, c, _ = args = chain_arguments(n)
    replay_and_store(chain(), args)
    assert np.array_equal(c, a.astype(np.float32) ** 2 @ b.astype(np.float32))


def test_replays_of_additions_in_many_orders_have_one_result() -> None:
    a, b, c, n = chain_arguments(3)
    c += 1
    replay_and_store(adding(), [a, b, c, n])
    assert np.array_equal(c, 1 + 2 * (a.astype(np.float32) @ b.astype(np.float32)))


def test_a_matmul_that_reads_registers_waits_in_its_iteration() -> None:
    a, b, c, _ = args = register_arguments()
    replay_and_store(registers(), args, threads=256)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    launch = EngineLaunch(ready(*lowered_late(registers())), args, (1, 256))
    results = [launch.run(order) for order in sample_orders(launch, ORDERS)]
    assert any(x != results[0] for x in results)


def test_replays_of_two_producers_in_many_orders_have_one_result() -> None:
    x, y, out, _ = args = producer_arguments()
    replay_and_store(two_producers(), args)
    assert np.array_equal(out, x * y)


def test_replays_of_attention_in_many_orders_have_one_result() -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, n, 128)).astype(bf16) for n in (256, 480, 480))
    lse, out = np.zeros((1, 1, 256), np.float32), np.zeros((1, 1, 256, 128), bf16)
    _, scalars = attention.launch_shape(q.shape, k.shape, 16, 1, False)
    replay_and_store(
        attention.forward(tg.bfloat16, 128, False, False, True), [q, k, v, 0.1275, *scalars, lse, out]
    )
    s = q[0, 0].astype(np.float32) @ k[0, 0].astype(np.float32).T * (0.1275 * np.log(2))
    w = np.exp(s - s.max(1, keepdims=True))
    expected = w @ v[0, 0].astype(np.float32) / w.sum(1, keepdims=True)
    assert np.abs(out[0, 0].astype(np.float32) - expected).max() < 0.01
    assert np.abs(lse[0, 0] - np.log(np.exp(s).sum(1))).max() < 1e-3


LIBRARY: dict[str, tuple[Any, str, str, list[tuple[int, ...]]]] = {
    "large tiles": (shapes.TENSOR_CORES[0], "bfloat16", "default", [(256, 256), (256, 256), (256, 256)]),
    "small tiles": (shapes.TENSOR_CORES[-1], "float16", "default", [(128, 640), (640, 128), (128, 128)]),
    "eight bits": (shapes.candidates(tg.float8_e4m3, False)[0], "float8_e4m3", "default", [(256, 768)] * 2),
    "tf32": (shapes.candidates(tg.float32, False, "tf32")[0], "float32", "tf32", [(256, 192)] * 2),
    "without tensor cores": (
        shapes.VECTOR_UNITS[0],
        "float32",
        "default",
        [(128, 96), (96, 128), (128, 128)],
    ),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_replays_of_library_matmuls_have_correct_results(name: str) -> None:
    tile, dtype, precision, sizes = LIBRARY[name]
    b_transposed = len(sizes) == 2
    operand, result = getattr(tg, dtype), "bfloat16" if dtype.startswith("float8") else dtype
    epilogue = gemm.Epilogue(getattr(tg, result), exact=dtype == "float32" and precision == "default")
    kernel, compilation = lowered(gemm.matmul_kernel(operand, tile, b_transposed, epilogue, precision))
    a, b = (np.zeros(size, to_numpy(operand)) for size in sizes[:2])
    c = np.zeros((sizes[0][0], sizes[1][0 if b_transposed else 1]), to_numpy(getattr(tg, result)))
    assert failure(ready(kernel, compilation), [a, b, 0, 1.0, 0.0, c], (1, compilation.threads), 20) == ""


BY_HAND = {
    "copies": [np.zeros((7, handwritten_schedules.ROW), np.float32)] * 2,
    "matmul": [np.zeros(shape, np.float32) for shape in ((16 * 2, 56), (56, 16 * 2), (16 * 2, 16 * 2))],
    "staged_out": [np.zeros((28, handwritten_schedules.ROW), np.float32)] * 2,
    "alternating_roles": [np.zeros((14, handwritten_schedules.ROW), np.float32)] * 2,
    "one_buffer": [np.zeros((7, handwritten_schedules.ROW), np.float32)] * 2,
}


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("n", [0, 1, 7])
def test_replays_of_schedules_by_hand_have_one_result(name: str, n: int) -> None:
    grid = (1, 1) if name == "matmul" else (1,)
    kernel, compilation = lowered(getattr(handwritten_schedules, name), len(grid) + 1)
    assert (
        failure(ready(kernel, compilation), [*BY_HAND[name], n], (*grid, compilation.threads), ORDERS) == ""
    )


@pytest.mark.parametrize(
    ("name", "mutate", "kinds"),
    [
        ("copies", drop("fence.async"), {"fence"}),
        ("copies", drop("mbarrier.wait"), {"race", "arrivals"}),
        ("staged_out", drop("fence.async"), {"fence"}),
        ("staged_out", drop("bulk.wait"), {"race"}),
        ("staged_out", drop("bulk.wait", "", 1), {"unfinished"}),
        ("staged_out", drop("bulk.commit"), {"race", "unfinished"}),
        ("alternating_roles", drop("named.arrive", "", 1), {"deadlock"}),
        ("one_buffer", drop("mbarrier.arrive"), {"deadlock"}),
    ],
)
def test_replays_of_wrong_schedules_by_hand_fail(name: str, mutate: Mutation, kinds: set[str]) -> None:
    """The replay fails, and the checker refutes the schedule too."""
    kernel, compilation = lowered(getattr(handwritten_schedules, name))
    mutate(kernel, compilation)
    actual = failure(ready(kernel, compilation), [*BY_HAND[name], 7], (1, compilation.threads), ORDERS)
    assert actual.partition(":")[0] in kinds, actual
    assert check_schedule(kernel, compilation).status == "refuted"


WRONG_SCHEDULES: dict[str, tuple[str, Mutation, set[str]]] = {
    "a dropped wait for a full stage": ("gemm", drop("mbarrier.wait", "left.full"), {"race"}),
    "a dropped wait for a free stage": ("gemm", drop("mbarrier.wait", "left.empty"), {"race", "arrivals"}),
    "a release before the wait": ("gemm", move_to_end("group.mma_wait"), {"race"}),
    "no wait for matmuls": ("gemm", drop("group.mma_wait"), {"race"}),
    "too few arrivals": ("gemm", count("left.empty", -1), {"race", "deadlock"}),
    "a flipped phase": ("gemm", flip("mbarrier.wait", 2, "left.full"), {"race", "deadlock"}),
    "stores at the end": ("gemm", drop("bulk.wait"), {"unfinished"}),
    "staging in a stage": ("gemm", on_top("staging", "left"), {"race"}),
    "barriers not published": ("gemm", drop("mbarrier.ready"), {"barrier"}),
    "a dropped fence after a push": ("chain", drop("fence.async", "", 1), {"fence"}),
    "a dropped fence after reads": ("chain", drop("fence.async"), {"fence"}),
    "a fence after the arrival": (
        "chain",
        move_before("mbarrier.arrive", "left.full", "fence.async"),
        {"fence", "race"},
    ),
    "two pipes overlap": ("two producers", on_top("right", "left"), {"race"}),
    "no release": ("two producers", drop("mbarrier.arrive", "right.empty"), {"deadlock"}),
}


@sampled(3, "name", WRONG_SCHEDULES)
def test_replays_of_wrong_schedules_fail(name: str) -> None:
    """The replay fails in one of the first orders."""
    kernel, mutate, kinds = WRONG_SCHEDULES[name]
    make_kernel, make_arguments = KERNELS[kernel]
    kernel, compilation = lowered(make_kernel())
    mutate(kernel, compilation)
    assert failure(ready(kernel, compilation), make_arguments(), (1, 384), ORDERS).partition(":")[0] in kinds


@pytest.mark.parametrize("occurrence", [0, 1])
def test_a_dropped_fence_changes_replayed_values(occurrence: int) -> None:
    """A copy overtakes the reads before it, or tensor cores read old values."""
    kernel, compilation = lowered(chain())
    drop("fence.async", "", occurrence)(kernel, compilation)
    assert failure(
        ready(kernel, compilation), chain_arguments(), (1, 384), ORDERS, ignore_races=True
    ).startswith("value")
