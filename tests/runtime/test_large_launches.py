"""Launches of more threads, and arrays of more elements, than int32 can number: correct, or refused before a launch."""

import math
import random
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.backend.pool import _scratch
from tegula.interp.launch import _run_block
from tegula.interp.machine import Grid, Machine
from tegula.interp.report import RunReport
from tegula.runtime.launch import plan
from tegula.runtime.resolve import resolve

pytestmark = pytest.mark.cpu

LARGE = 2**31


@tg.kernel
def neighbour_indices(first_thread: tg.int64, d1: tg.int64, d2: tg.int64, d3: tg.int64, out: tg.array2d[int]):
    """The indices of the threads next to a thread; `d1` to `d3`: the lengths after the first dimension."""
    i, j, k, m = tg.tid()
    linear = ((tg.int64(i) * d1 + tg.int64(j)) * d2 + tg.int64(k)) * d3 + tg.int64(m) - first_thread
    if linear >= tg.int64(0) and linear < tg.int64(out.shape[0]):
        index = tg.int32(linear)
        out[index, 0] = i
        out[index, 1] = j
        out[index, 2] = k
        out[index, 3] = m


def random_dimensions(rng: random.Random) -> tuple[int, ...]:
    """Four dimensions with 2**31 threads and more; some are 1, some fit blocks, some do not."""
    while True:
        bits = [rng.choice([0, 1, 5, 10, 16, 20, 31]) for _ in range(4)]
        dims = tuple(max(1, 2**b + rng.choice([0, 0, -1, 1])) for b in bits)
        if LARGE <= math.prod(dims) < 2**62 and max(dims) <= LARGE:
            return dims


def results_of_block(dims: tuple[int, ...], block_dim: int, block: int) -> np.ndarray:
    """The results of the machine code of one block, the only block that runs."""
    first = block * block_dim
    out = tg.full((block_dim, 4), -1, int)
    args = (first, *dims[1:], out)
    launch_plan = plan(dims, block_dim)
    compiled, packed, _ = resolve(neighbour_indices, launch_plan, args)
    assert block < launch_plan.blocks
    compiled.function(packed, _scratch(compiled.scratch_bytes), block, block + 1)
    return out.numpy()


def expected(dims: tuple[int, ...], block_dim: int, block: int) -> np.ndarray:
    out = np.full((block_dim, 4), -1, np.int32)
    linear = np.arange(block * block_dim, min((block + 1) * block_dim, math.prod(dims)))
    out[: len(linear)] = np.stack(np.unravel_index(linear, dims), axis=1)
    return out


def check_random_launches(seed: int, count: int) -> None:
    rng = random.Random(seed)
    for _ in range(count):
        dims, block_dim = random_dimensions(rng), rng.choice([32, 64, 256, 100])
        blocks = -(-math.prod(dims) // block_dim)
        for block in (0, LARGE // block_dim - 1, blocks - 1, rng.randrange(blocks)):
            np.testing.assert_array_equal(
                results_of_block(dims, block_dim, block), expected(dims, block_dim, block)
            )


@pytest.mark.machine_code
def test_large_launch_dimensions_are_planned_correctly() -> None:
    check_random_launches(1, 1)


@pytest.mark.machine_code(some=True)  # this call loads the kernel first
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many_large_launch_dimensions_are_planned_correctly(seed: int) -> None:
    check_random_launches(seed + 100, 20)


@pytest.mark.machine_code(some=True)  # the first of these tests loads the kernel
@pytest.mark.slow
def test_the_interpreter_agrees_on_thread_indices_of_large_launches() -> None:
    rng = random.Random(5)
    for _ in range(10):
        dims, block_dim = random_dimensions(rng), 32
        block = rng.randrange(-(-math.prod(dims) // block_dim))
        launch_plan = plan(dims, block_dim)
        out = tg.full((block_dim, 4), -1, int)
        compiled, _, _ = resolve(neighbour_indices, launch_plan, (0, *dims[1:], out))
        values = [np.full(block_dim, n, np.int64) for n in (block * block_dim, *dims[1:])]
        grid = Grid(dims, launch_plan.blocks, launch_plan.blocks)
        kernel = neighbour_indices.trace(
            tuple(p.type for p in compiled.kernel.params), launch_plan.launch, compiled.kernel.access
        )
        _run_block(kernel, [*values, out.numpy()], grid, block, RunReport(kernel, print), Machine)
        np.testing.assert_array_equal(out.numpy(), expected(dims, block_dim, block))


@tg.kernel
def mark(was_launched: tg.array1d[int]):
    was_launched[0] = 1


@tg.kernel
def scaled(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    if i < 1:
        y[i] = x[i] * 2.0


TOO_LARGE = [LARGE + 1, LARGE + 2, 2**32, 2**40, float(LARGE + 1), np.int64(LARGE + 1), 10**30]


@pytest.mark.parametrize("n", TOO_LARGE, ids=str)
def test_launch_dimensions_without_an_index_are_refused(n: Any) -> None:
    """No launch runs: neither the launch itself, nor its adjoint, nor a launch that a tape has recorded."""
    was_launched, x, y = tg.zeros(1, int), tg.ones(1, requires_grad=True), tg.zeros(1, requires_grad=True)
    for dim in (n, [n], (1, n), (n, 1), (1, n, 1), [1, 1, 1, n], np.array([1, int(n)], object)):
        if np.ndim(dim) and len(dim) < 4:
            with pytest.raises(tg.LaunchError, match="2\\*\\*31"):
                tg.launch_tiled(mark, dim=dim, block_dim=32, inputs=[was_launched])
        with pytest.raises(tg.LaunchError, match="2\\*\\*31"):
            tg.launch(mark, dim=dim, inputs=[was_launched])
        with pytest.raises(tg.LaunchError, match="2\\*\\*31"):
            tg.launch(scaled, dim=dim, inputs=[x], outputs=[y], adjoint=True)
    assert was_launched.numpy()[0] == 0 and x.grad.numpy()[0] == 0.0


@tg.kernel
def each_tile(rows: int, columns: int, out: tg.array1d[int]):
    with tg.ws(0):
        for i, j in tg.persistent_tiles((rows, columns)):
            tg.atomic_add(out, 0, i + j)


@pytest.mark.machine_code
def test_block_indices_of_large_launches_are_correct() -> None:
    """Kernels that number their blocks in 32 bits are refused where there are more."""
    out = tg.zeros(1, int)
    tg.launch_tiled(each_tile, dim=3, inputs=[2, 2], outputs=[out])
    with pytest.raises(tg.LaunchError, match="blocks exceed the maximum"):
        tg.launch_tiled(each_tile, dim=(2**16, 2**15), inputs=[2, 2], outputs=[out])


# Arrays ---------------------------------------------------------------------------------------------------------------


def long_array(shape: tuple[int, ...]) -> tg.array:
    """A long array with one value for all elements, which takes no memory."""
    return tg.array(np.broadcast_to(np.int8(7), shape), copy=False)


def length_kernels() -> dict[str, tg.Kernel]:
    @tg.kernel
    def length(a: tg.array2d[tg.int8], out: tg.array1d[int]):
        out[0] = a.shape[0]

    @tg.kernel
    def of_view(a: tg.array2d[tg.int8], out: tg.array1d[int]):
        out[0] = len(a[:, 0])

    @tg.kernel
    def last(a: tg.array2d[tg.int8], out: tg.array1d[int]):
        out[0] = int(a[-1, 0])

    @tg.kernel
    def per_thread(a: tg.array2d[tg.int8], out: tg.array1d[int]):
        i = tg.tid()
        out[i] = a.shape[0] - i

    return {f.name: f for f in (length, of_view, last, per_thread)}


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("n", [LARGE - 1, LARGE, 2**33])
@pytest.mark.parametrize("name", ["length", "of_view", "last", "per_thread"])
def test_lengths_of_arrays_beyond_int32_are_refused(name: str, n: int) -> None:
    kernel, out = length_kernels()[name], tg.zeros(1, int)
    if n < LARGE:
        tg.launch(kernel, dim=1, block_dim=1, inputs=[long_array((n, 1)), out])
        assert out.numpy()[0] == (7 if name == "last" else n)
    else:
        with pytest.raises(tg.CompileError, match="int32"):
            tg.launch(kernel, dim=1, block_dim=1, inputs=[long_array((n, 1)), out])


@pytest.mark.machine_code
def test_short_dimensions_and_far_elements_of_long_arrays_are_read() -> None:
    """The lengths of other dimensions and distant elements can be read."""

    @tg.kernel
    def distant_element(a: tg.array2d[tg.int8], position: tg.int64, out: tg.array1d[int]):
        out[0] = a.shape[1] + int(a[position, 1])

    out = tg.zeros(1, int)
    tg.launch(distant_element, dim=1, block_dim=1, inputs=[long_array((2**33, 3)), 2**33 - 1, out])
    assert out.numpy()[0] == 10
