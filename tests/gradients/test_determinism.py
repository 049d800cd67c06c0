"""`tg.config.deterministic`: gradients have the same bits in every run, for any number of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.passes.gradient import BUSY_BLOCKS, ForwardLaunch, check_order, split_adjoint
from tegula.runtime.adjoint import adjoint_of
from tegula.runtime.launch import plan
from tegula.runtime.resolve import requested_specialisation


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    tg.config.deterministic = True
    yield
    tg.config.deterministic = False


@tg.kernel
def gather_per_thread(x: tg.array[float], indices: tg.array[int], y: tg.array[float]):
    i = tg.tid()
    y[i] = x[indices[i]] * x[0]


@tg.kernel
def load_at_index(x: tg.array[float], indices: tg.array[int], y: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(x, shape=4, offset=indices[i])
    tg.tile_store(y[i], t * t)


@tg.kernel
def weighted_rows(x: tg.array2d[float], w: tg.array[float], y: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(y[i], tg.tile_load(x[i], shape=64) * tg.tile_load(w, shape=64))


def gradient_bytes() -> bytes:
    """The gradients of the three kernels, for data whose sums depend on the order of additions."""
    rng = np.random.default_rng(0)
    thread_count, block_count = 4_000_000, 60_000
    x = tg.array(rng.standard_normal(16), dtype=float, requires_grad=True)
    indices = tg.array(rng.integers(0, 8, thread_count), dtype=int)
    results = [tg.zeros(s, requires_grad=True) for s in (thread_count, (block_count, 4))]
    with tg.Tape() as tape:
        tg.launch(gather_per_thread, thread_count, inputs=[x, indices], outputs=[results[0]], block_dim=64)
        tg.launch_tiled(load_at_index, block_count, inputs=[x, indices], outputs=[results[1]], block_dim=32)
    tape.backward(grads={y: rng.standard_normal(y.shape) for y in results})
    return x.grad.numpy().tobytes() + weighted_gradient_bytes()


def weighted_gradient_bytes() -> bytes:
    """The gradients of a kernel whose weights get a sum over all blocks."""
    rng = np.random.default_rng(1)
    rows = tg.array(rng.standard_normal((3000, 64)), dtype=float, requires_grad=True)
    w = tg.array(rng.standard_normal(64), dtype=float, requires_grad=True)
    y = tg.zeros((3000, 64), requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(weighted_rows, 3000, inputs=[rows, w], outputs=[y], block_dim=32)
    tape.backward(grads={y: rng.standard_normal(y.shape)})
    return rows.grad.numpy().tobytes() + w.grad.numpy().tobytes()


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.cpu
def test_gradients_do_not_depend_on_threads() -> None:
    script = (
        "import test_determinism as t, sys; t.tg.config.deterministic = True; "
        "sys.stdout.buffer.write(t.gradient_bytes())"
    )
    path = os.pathsep.join(p for p in sys.path if p)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "TEGULA_NUM_THREADS": threads, "PYTHONPATH": path},
            check=True,
            capture_output=True,
        ).stdout
        for threads in ("1", "3")
    }
    assert outputs == {gradient_bytes()}


@pytest.mark.machine_code
def test_gradient_sums_of_all_blocks_have_the_same_bits_in_every_run() -> None:
    assert len({weighted_gradient_bytes() for _ in range(3)}) == 1


@pytest.mark.machine_code
def test_deterministic_mode_refuses_unordered_additions_of_threads(on_device: str) -> None:
    """On CPUs one thread computes the sum, block after block."""
    x, indices, y = (
        tg.ones(16, requires_grad=True),
        tg.zeros(8, dtype=int),
        tg.zeros((8, 4), requires_grad=True),
    )
    with tg.Tape() as tape:
        tg.launch_tiled(load_at_index, 8, inputs=[x, indices], outputs=[y], block_dim=32)
    if on_device == "cpu":
        tape.backward(grads={y: tg.ones((8, 4))})
        assert x.grad.numpy().tolist() == [16.0] * 4 + [0.0] * 12
    else:
        with pytest.raises(tg.CompileError, match="in an unspecified order"):
            tape.backward(grads={y: tg.ones((8, 4))})


def adjoint_steps(kernel: Any, args: list[Any], dims: tuple[int, ...], block: int) -> Any:
    positions = tuple(k for k, a in enumerate(args) if a.requires_grad)
    adjoint = adjoint_of(kernel, positions)
    all_args = (*args, *(args[k].grad for k in positions))
    specialised = requested_specialisation(adjoint, plan(dims, block), all_args)
    return split_adjoint(
        adjoint.trace(specialised.types, specialised.launch, specialised.access), len(args), True
    )


def test_deterministic_mode_refuses_orders_that_gpus_do_not_keep() -> None:
    x, indices = tg.zeros(16, requires_grad=True), tg.zeros(8, dtype=int)
    for kernel, y, dims in (
        (gather_per_thread, tg.zeros(8), (8,)),
        (load_at_index, tg.zeros((8, 4)), (8, 32)),
    ):
        y.requires_grad = True
        with pytest.raises(tg.CompileError, match="in an unspecified order"):
            check_order(adjoint_steps(kernel, [x, indices, y], dims, dims[-1]))


def test_owners_and_chunks_keep_their_order_on_gpus() -> None:
    args = [tg.zeros(s, requires_grad=True) for s in ((8, 64), 64, (8, 64))]
    check_order(adjoint_steps(weighted_rows, args, (8, 32), 32))


def test_large_gradient_sums_are_split_into_chunks() -> None:
    @tg.kernel
    def large(x: tg.array2d[float], w: tg.array[float], y: tg.array2d[float]):
        i = tg.tid()
        tg.tile_store(y[i], tg.tile_load(x[i], shape=1024) * tg.tile_load(w, shape=1024))

    args = [tg.zeros(s, requires_grad=True) for s in ((8, 1024), 1024, (8, 1024))]
    check_order(adjoint_steps(large, args, (8, 8), 8))


def test_the_number_of_chunks_is_the_number_of_resident_blocks() -> None:
    """Lanes with many elements need many registers, so fewer chunks are resident; on CPUs the number is the same for
    all kernels."""

    @tg.kernel
    def large(x: tg.array2d[float], w: tg.array[float], y: tg.array2d[float]):
        i = tg.tid()
        tg.tile_store(y[i], tg.tile_load(x[i], shape=2048) * tg.tile_load(w, shape=2048))

    for kernel, width, block, chunks in ((weighted_rows, 64, 32, 8), (large, 2048, 64, 5)):
        args = [tg.zeros(s, requires_grad=True) for s in ((8, width), width, (8, width))]
        (chunk_count,) = adjoint_steps(kernel, args, (8, block), block)[0].grid
        rows, multiprocessors = 100_000, 100
        gpu_chunks = ForwardLaunch((rows, block), {}, BUSY_BLOCKS * multiprocessors, True).number(chunk_count)
        assert 0.9 * chunks * multiprocessors < gpu_chunks <= chunks * multiprocessors
        assert ForwardLaunch((rows, block), {}, 32).number(chunk_count) == 32


@pytest.mark.parametrize("is_gpu", [False, True])
@pytest.mark.parametrize("rows", [1, 31, 33, 500])
def test_chunks_of_gradient_sums_contain_each_block_once(rows: int, is_gpu: bool) -> None:
    args = [tg.zeros(s, requires_grad=True) for s in ((rows, 64), 64, (rows, 64))]
    step = adjoint_steps(weighted_rows, args, (rows, 32), 32)[0]
    launch = ForwardLaunch((rows, 32), {}, 32, is_gpu)
    (chunk_count,) = launch.numbers(step.grid)
    length, total, first_stride, stride = launch.numbers(step.counts)
    covered_rows = [
        chunk * first_stride + k * stride
        for chunk in range(chunk_count)
        for k in range(min(length, (total - chunk * first_stride + stride - 1) // stride))
    ]
    assert sorted(covered_rows) == list(range(rows))
    assert stride == (chunk_count if is_gpu else 1), "on GPUs adjacent chunks run at the same time"
