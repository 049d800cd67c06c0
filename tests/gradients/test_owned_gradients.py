"""Gradient tiles that a grid of blocks owns are summed by their owner block, in a loop, and written once.

The data are small integers, so sums are exact in any order, and so are the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from agreement import traced
from lowering import copies

import tegula as tg
from tegula import interp
from tegula.runtime import adjoint as adjoint_module
from tegula.runtime.adjoint import plan_launches
from tegula.runtime.device import CPU

T = 8


@pytest.fixture(params=["enough", "few"], autouse=True)
def owners(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a test with as many owner blocks as the device holds, and with so few that their work is split into
    chunks."""
    resident_blocks = 1 if request.param == "enough" else 64
    key = adjoint_module.AdjointProgram.key
    monkeypatch.setattr(adjoint_module, "busy_blocks", lambda device: resident_blocks)
    monkeypatch.setattr(adjoint_module.AdjointProgram, "key", lambda *a: (resident_blocks, *key(*a)))
    return request.param == "enough"


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(np.float64)


def gradient_array(data: np.ndarray, dtype: Any = tg.float32) -> Any:
    return tg.array(data, dtype=dtype, requires_grad=True)


def launched_adjoints(
    kernel: Any, grid: Any, inputs: list[Any], output: Any, g: np.ndarray, threads: int = 32
) -> list[Any]:
    """Run a kernel on a tape and its adjoint. Returns the kernels that were launched for the gradients."""
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, dim=grid, inputs=inputs, outputs=[output], block_dim=threads)
    tape.backward(grads={output: g})
    adjoint = list(kernel.adjoints.values())[-1]
    return list(adjoint.launched_parts)


def assert_owned(steps: list[Any], count: int) -> None:
    assert len({step.name.removesuffix("_in_chunks") for step in steps}) == count + 1
    assert not any("atomic" in step.ir() for step in steps)


@tg.kernel
def matmul(a, b, c):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in range((a.shape[1] + T - 1) // T):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, tg.tile_astype(total, c.dtype), offset=(i * T, j * T))


@pytest.mark.machine_code
@pytest.mark.parametrize("sizes", [(8, 8, 8), (24, 16, 40), (20, 13, 9), (8, 0, 8)])
def test_gradients_of_matmuls_are_gathered_by_owners(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b, g = integers(m, k), integers(k, n), integers(m, n)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((m, n), requires_grad=True)
    steps = launched_adjoints(matmul, (-(-m // T), -(-n // T)), [x, y], c, g)
    np.testing.assert_array_equal(x.grad.numpy(), g @ b.T)
    np.testing.assert_array_equal(y.grad.numpy(), a.T @ g)
    assert not c.grad.numpy().any() if n == 0 else True
    if n:
        assert_owned(steps, 2)


@pytest.mark.machine_code
@pytest.mark.parametrize("bounds", [(4, -1, -1), (4, -1, -2), (1, 5, 1), (0, 5, 2), (3, 3, -1), (2, 4, -1)])
def test_gradients_of_loops_with_any_start_and_step_are_gathered(bounds: tuple[int, int, int]) -> None:
    """An argument of the launch is the start of the loop, so it is the same in all blocks."""
    start, stop, step = bounds

    @tg.kernel
    def sum_range(a, b, first: int, last: int, c):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
        for k in range(first, last, step):
            x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
            y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
            tg.tile_matmul(x, y, total)
        tg.tile_store(c, total, offset=(i * T, j * T))

    a, b, g = integers(20, 36), integers(36, 13, seed=1), integers(20, 13, seed=2)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((20, 13), requires_grad=True)
    steps = launched_adjoints(sum_range, (3, 2), [x, y, start, stop], c, g)
    summed = np.isin(np.arange(36) // T, range(*bounds))
    np.testing.assert_array_equal(x.grad.numpy(), g @ b.T * summed)
    np.testing.assert_array_equal(y.grad.numpy(), (a * summed).T @ g)
    if len(range(*bounds)):
        assert_owned(steps, 2)


@pytest.mark.machine_code
def test_owners_of_gradient_tiles_add_to_existing_elements() -> None:
    a, b, g = integers(16, 8), integers(8, 24), integers(16, 24)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((16, 24), requires_grad=True)
    x.grad.fill_(5.0)
    launched_adjoints(matmul, (2, 3), [x, y], c, g)
    np.testing.assert_array_equal(x.grad.numpy(), g @ b.T + 5.0)


@pytest.mark.machine_code
def test_owners_of_gradient_tiles_are_one_loop_over_loads_and_a_matmul(owners: bool) -> None:
    """Automatic schedules need this form: no condition, one matmul, and bounds that are arguments."""
    a, b, g = integers(16, 8), integers(8, 24), integers(16, 24)
    steps = launched_adjoints(
        matmul, (2, 3), [gradient_array(a), gradient_array(b)], tg.zeros((16, 24), requires_grad=True), g
    )
    for step in (s for s in steps if "tile.matmul" in s.ir()):
        text = step.ir()
        assert text.count("tile.matmul") == text.count(" = for ") == 1
        assert text.count("tile.load") == 2 + owners
        assert not any(name in text for name in ("if ", "select", "cmp", "atomic"))
        assert 'param "blocks_' in text
    assert "tile.load" not in steps[-1].ir(), "the remaining launch clears the gradient of c"


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.bfloat16, tg.float16])
def test_gradients_of_narrow_matmuls_are_summed_in_float32(dtype: Any) -> None:
    m, n, k = 16, 256, 16
    a, b, g = integers(m, k), np.ones((k, n)), np.ones((m, n))
    b[:, ::2] = 3.0
    x, y, c = (
        gradient_array(a, dtype),
        gradient_array(b, dtype),
        tg.zeros((m, n), dtype=dtype, requires_grad=True),
    )
    steps = launched_adjoints(matmul, (m // T, n // T), [x, y], c, g)
    np.testing.assert_array_equal(x.grad.numpy().astype(float), g @ b.T)
    np.testing.assert_array_equal(y.grad.numpy().astype(float), a.T @ g)
    for step in (s for s in steps if "tile.matmul" in s.ir()):
        operands = [line for line in step.ir().splitlines() if "tile.matmul" in line]
        assert ": tile<float32" in operands[0]
        shared = step.name.endswith("_in_chunks")
        assert step.ir().count("cast") == (0 if shared else 2), (
            "the previous gradient is widened, and the sum is rounded once"
        )


@tg.kernel
def batched(a, b, c):
    n, i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in range(a.shape[2] // T):
        x = tg.tile_load(a[n], shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b[n], shape=(T, T), offset=(j * T, k * T))
        tg.tile_matmul(x, tg.tile_transpose(y), total)
    tg.tile_store(c[n], total, offset=(i * T, j * T))


@pytest.mark.machine_code
def test_gradients_of_batched_matmuls_are_gathered() -> None:
    a, b, g = integers(3, 16, 24), integers(3, 8, 24), integers(3, 16, 8)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((3, 16, 8), requires_grad=True)
    steps = launched_adjoints(batched, (3, 2, 1), [x, y], c, g)
    np.testing.assert_array_equal(x.grad.numpy(), g @ b)
    np.testing.assert_array_equal(y.grad.numpy(), g.swapaxes(1, 2) @ a)
    assert_owned(steps, 2)


@tg.kernel
def shared_weights(a, b, c):
    """b has no batch dimension: its owners loop over the batch and over the rows."""
    n, i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in tg.pipelined(a.shape[2] // T, stages=2):
        x = tg.tile_load(a[n], shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c[n], total * 2.0, offset=(i * T, j * T))


@pytest.mark.machine_code
def test_owners_of_gradient_tiles_loop_over_all_other_blocks() -> None:
    a, b, g = integers(3, 16, 24), integers(24, 8), integers(3, 16, 8)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((3, 16, 8), requires_grad=True)
    steps = launched_adjoints(shared_weights, (3, 2, 1), [x, y], c, g)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * g @ b.T)
    np.testing.assert_array_equal(y.grad.numpy(), 2.0 * np.einsum("nik,nij->kj", a, g))
    assert_owned(steps, 2)


@tg.kernel
def weighted_rows(a, v, y):
    i = tg.tid()
    total = tg.tile_zeros(shape=T, dtype=tg.float32)
    for k in range(a.shape[1] // T):
        total += tg.tile_load(a[i], shape=T, offset=k * T) * tg.tile_load(v, shape=T, offset=k * T)
    tg.tile_store(y, tg.tile_sum(total), offset=i)


@pytest.mark.machine_code
def test_gradients_of_a_vector_read_by_every_row_are_gathered() -> None:
    a, v, g = integers(6, 32), integers(32), integers(6)
    x, w, y = gradient_array(a), gradient_array(v), tg.zeros(6, requires_grad=True)
    steps = launched_adjoints(weighted_rows, 6, [x, w], y, g)
    np.testing.assert_array_equal(x.grad.numpy(), np.outer(g, v))
    np.testing.assert_array_equal(w.grad.numpy(), g @ a)
    assert_owned(steps, 1)


def zeros(shape: Sequence[int], dtype: Any, *_: Any) -> tg.array:
    """An allocation for sums."""
    return tg.zeros(shape, dtype)


@pytest.mark.machine_code
def test_owners_of_gradient_tiles_agree_with_the_interpreter() -> None:
    a, b, g = integers(16, 24), integers(24, 8), integers(16, 8)
    args = [tg.array(v, dtype=tg.float32) for v in (a, b, np.zeros((16, 8)), 0 * a, 0 * b, g)]
    matmul.unload()
    launched_adjoints(
        matmul, (2, 1), [gradient_array(a), gradient_array(b)], tg.zeros((16, 8), requires_grad=True), g
    )
    adjoint = list(matmul.adjoints.values())[-1]
    ((steps,),) = adjoint.steps.values()
    actual, rows, sums = copies(args), {}, {}
    for launch_step in plan_launches(steps, (2, 1, 32), args, CPU):
        part, dims, extra = launch_step.part, launch_step.dims, launch_step.extra(args, sums, zeros)
        arguments = (*args, *extra)
        interpreter_arguments = [*actual, *(x for x in extra if isinstance(x, int))]
        interpreter_arguments += [
            rows.setdefault(id(x), x.numpy().copy()) for x in extra if isinstance(x, tg.array)
        ]
        interp.run(traced(part, arguments, dims, 32), interpreter_arguments, dims, 32, print)
    np.testing.assert_array_equal(actual[3], g @ b.T)
    np.testing.assert_array_equal(actual[4], a.T @ g)
    assert not actual[5].any()


# Gradients that all blocks add to -------------------------------------------------------------------------------------


@tg.kernel
def scaled_rows(x, w, b, y):
    i = tg.tid()
    row = tg.tile_load(x[i], shape=24)
    tg.tile_store(y[i], row * tg.tile_load(w, shape=24) * row + tg.tile_load(b, shape=24))


@pytest.mark.machine_code
@pytest.mark.parametrize("rows", [1, 5, 64, 201])
def test_gradients_of_weights_of_rows_are_gathered(rows: int) -> None:
    x, w, b, g = integers(rows, 24), integers(24, seed=1), integers(24, seed=2), integers(rows, 24, seed=3)
    args = [gradient_array(v) for v in (x, w, b)]
    args[1].grad.fill_(1.0)
    steps = launched_adjoints(scaled_rows, rows, args, tg.zeros((rows, 24), requires_grad=True), g)
    np.testing.assert_array_equal(args[0].grad.numpy(), 2.0 * x * w * g)
    np.testing.assert_array_equal(args[1].grad.numpy(), (x * x * g).sum(0) + 1.0)
    np.testing.assert_array_equal(args[2].grad.numpy(), g.sum(0))
    assert_owned(steps, 1)  # one launch for both weights


@tg.kernel
def weights_loaded_twice(x, w, y):
    i = tg.tid()
    row = tg.tile_load(x[i], shape=16)
    left, right = tg.tile_load(w, shape=16), tg.tile_load(w, shape=16, offset=4)
    tg.tile_store(y[i], row * left + right)


@pytest.mark.machine_code
def test_gradients_of_weights_loaded_twice_are_gathered() -> None:
    """The sums of both loads are added to one array, one after the other."""
    x, w, g = integers(201, 16), integers(24, seed=1), integers(201, 16, seed=2)
    args = [gradient_array(v) for v in (x, w)]
    steps = launched_adjoints(weights_loaded_twice, 201, args, tg.zeros((201, 16), requires_grad=True), g)
    expected = np.zeros_like(w)
    expected[:16] += (x * g).sum(0)
    expected[4:20] += g.sum(0)
    np.testing.assert_array_equal(args[1].grad.numpy(), expected)
    assert_owned(steps, 1)


@tg.kernel
def scaled_grid(x, w, s, y):
    """w is indexed by no dimension of the grid, and neither is s, of which two elements are loaded."""
    i, j, k = tg.tid()
    t = tg.tile_load(x[i, j], shape=(2, 4), offset=(k * 2, 0))
    scale = tg.tile_load(s, shape=2, offset=1)
    tg.tile_store(y[i, j], t * tg.tile_load(w, shape=(2, 4), offset=(1, 2)) * scale[1], offset=(k * 2, 0))


@pytest.mark.machine_code
def test_gradients_of_weights_over_a_3d_grid_are_gathered() -> None:
    x, w, s, g = integers(3, 5, 14, 4), integers(3, 6), integers(3), integers(3, 5, 14, 4, seed=1)
    args = [gradient_array(v) for v in (x, w, s)]
    steps = launched_adjoints(scaled_grid, (3, 5, 7), args, tg.zeros(x.shape, requires_grad=True), g)
    terms, weight_tile = (x * g).reshape(3, 5, 7, 2, 4), w[1:3, 2:6]
    expected = np.zeros_like(w)
    expected[1:3, 2:6] = terms.sum((0, 1, 2)) * s[2]
    np.testing.assert_array_equal(args[0].grad.numpy(), np.tile(weight_tile, (7, 1)) * s[2] * g)
    np.testing.assert_array_equal(args[1].grad.numpy(), expected)
    np.testing.assert_array_equal(args[2].grad.numpy(), [0, 0, (terms * weight_tile).sum()])
    assert_owned(steps, 2)


@tg.kernel
def layer_norm(x, w, b, y):
    i = tg.tid()
    row = tg.tile_astype(tg.tile_load(x[i], shape=64), tg.float32)
    d = row - tg.tile_sum(row) / 64.0
    z = d * tg.rsqrt(tg.tile_sum(d * d) / 64.0 + 1e-5)
    weight = tg.tile_astype(tg.tile_load(w, shape=64), tg.float32)
    bias = tg.tile_astype(tg.tile_load(b, shape=64), tg.float32)
    tg.tile_store(y[i], tg.tile_astype(z * weight + bias, y.dtype))


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.bfloat16, tg.float16, tg.float32])
def test_gradients_of_short_weights_are_rounded_once(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    rows, step = 3000, {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 2.0**-17}[str(dtype)]
    x, w, b = (gradient_array(rng.standard_normal(s), dtype) for s in ((rows, 64), 64, 64))
    y = tg.zeros((rows, 64), dtype=dtype, requires_grad=True)
    g = tg.array(rng.uniform(0.5, 1.5, (rows, 64)), dtype=dtype)
    launched_adjoints(layer_norm, rows, [x, w, b], y, g)
    in_float64, gradient_in_float64 = (a.numpy().astype(np.float64) for a in (x, g))
    d = in_float64 - in_float64.mean(1, keepdims=True)
    z = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)
    for grad, terms in ((w.grad, gradient_in_float64 * z), (b.grad, gradient_in_float64)):
        expected, size = terms.sum(0), np.abs(terms).sum(0)
        difference = np.abs(grad.numpy().astype(np.float64) - expected)
        assert (difference <= step * np.abs(expected) + 1e-6 * size).all()


@tg.kernel
def embedding(x, indices: tg.array[int], y):
    """Rows are selected by data, as in an embedding."""
    i = tg.tid()
    tg.tile_store(
        y[i], tg.tile_load(x[indices[i]], shape=8) * tg.tile_load(x, shape=(1, 8), offset=(indices[i], 2))[0]
    )


@tg.kernel
def gathered_elements(x, indices: tg.array[int], y):
    i = tg.tid()
    y[i] = x[indices[i], 1] * x[indices[i], 2]


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.bfloat16, tg.float16])
def test_atomic_additions_are_rounded_once(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    n = 2000
    indices = rng.integers(0, 3, n)
    x, index = gradient_array(rng.integers(-2, 3, (3, 10)), dtype), tg.array(indices, dtype=int)
    y, z = (tg.zeros(s, dtype=dtype, requires_grad=True) for s in ((n, 8), n))
    g, h = rng.integers(0, 2, (n, 8)), rng.integers(0, 2, n)
    x.grad.fill_(1.0)
    with tg.Tape() as tape:
        tg.launch_tiled(embedding, n, inputs=[x, index], outputs=[y], block_dim=8)
        tg.launch(gathered_elements, n, inputs=[x, index], outputs=[z], block_dim=32)
    tape.backward(grads={y: g, z: h})
    value, expected = x.numpy().astype(np.float64), np.ones((3, 10))
    for k, j in enumerate(indices):
        expected[j, 1] += value[j, 2] * h[k]
        expected[j, 2] += value[j, 1] * h[k]
    expected = expected.astype(np.float32).astype(x.numpy().dtype).astype(np.float64)
    for k, j in enumerate(indices):
        expected[j, :8] += value[j, 2:10] * g[k]
        expected[j, 2:10] += value[j, :8] * g[k]
    np.testing.assert_array_equal(x.grad.numpy(), expected.astype(np.float32).astype(x.numpy().dtype))


# Tiles without owners -------------------------------------------------------------------------------------------------


@tg.kernel
def triangular(a, b, c):
    """The trip count depends on the block, so no grid determines the blocks that add to a tile."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in range(i + 1):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * T, j * T))


@pytest.mark.machine_code
def test_gradients_of_loops_that_depend_on_the_block_are_correct() -> None:
    a, b, g = (integers(24, 24, seed=k) for k in range(3))
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((24, 24), requires_grad=True)
    launched_adjoints(triangular, (3, 3), [x, y], c, g)
    lower = np.tril(np.ones((3, 3))).repeat(T, 0).repeat(T, 1)
    np.testing.assert_array_equal(x.grad.numpy(), lower * (g @ b.T))
    np.testing.assert_array_equal(y.grad.numpy(), (lower * a).T @ g)


@tg.kernel
def overlapping_windows(a, b, c):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in range(3):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * 4))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * T, j * T))


@pytest.mark.machine_code
def test_gradients_of_overlapping_windows_are_correct() -> None:
    a, b, g = integers(16, 16), integers(24, 16), integers(16, 16)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((16, 16), requires_grad=True)
    launched_adjoints(overlapping_windows, (2, 2), [x, y], c, g)
    windows = np.concatenate([a[:, k * 4 : k * 4 + T] for k in range(3)], 1)
    windows_gradient, expected = g @ b.T, np.zeros_like(a)
    for k in range(3):
        expected[:, k * 4 : k * 4 + T] += windows_gradient[:, k * T : (k + 1) * T]
    np.testing.assert_array_equal(x.grad.numpy(), expected)
    np.testing.assert_array_equal(y.grad.numpy(), windows.T @ g)


@tg.kernel
def dependent_iterations(a, b, c):
    """Each iteration depends on the previous iteration."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in range(a.shape[1] // T):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        total = total * x + y
    tg.tile_store(c, total, offset=(i * T, j * T))


@pytest.mark.machine_code
def test_gradients_of_dependent_iterations_are_correct() -> None:
    a, b, g = integers(8, 24), integers(24, 8), integers(8, 8)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((8, 8), requires_grad=True)
    launched_adjoints(dependent_iterations, (1, 1), [x, y], c, g)
    parts, rows, total, totals_before = np.split(a, 3, 1), np.split(b, 3, 0), np.zeros((8, 8)), []
    for p, r in zip(parts, rows, strict=True):
        totals_before.append(total)
        total = total * p + r
    grads: list[Any] = []
    for p, t in zip(parts[::-1], totals_before[::-1], strict=True):
        grads.append((g * t, g))
        g = g * p
    np.testing.assert_array_equal(x.grad.numpy(), np.concatenate([ga for ga, _ in grads[::-1]], 1))
    np.testing.assert_array_equal(y.grad.numpy(), np.concatenate([gb for _, gb in grads[::-1]], 0))


@pytest.mark.machine_code
def test_gradients_of_arrays_that_share_memory_are_correct() -> None:
    """x is both operands, so no block is the only owner of a tile of its gradient."""
    a, g = integers(16, 16), integers(16, 16)
    x, c = gradient_array(a), tg.zeros((16, 16), requires_grad=True)
    launched_adjoints(matmul, (2, 2), [x, x], c, g)
    np.testing.assert_array_equal(x.grad.numpy(), g @ a.T + a.T @ g)


@tg.kernel
def overwritten_store(a, b, c):
    """The first store of each tile is overwritten, and has no gradient."""
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in range(a.shape[1] // T):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
        tg.tile_store(c, total * 7.0, offset=(i * T, j * T))
    tg.tile_store(c, total, offset=(i * T, j * T))


@pytest.mark.machine_code
def test_a_gradient_cleared_before_use_is_correct() -> None:
    a, b, g = integers(16, 24), integers(24, 8), integers(16, 8)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((16, 8), requires_grad=True)
    launched_adjoints(overwritten_store, (2, 1), [x, y], c, g)
    np.testing.assert_array_equal(x.grad.numpy(), g @ b.T)
    np.testing.assert_array_equal(y.grad.numpy(), a.T @ g)


SCALE = 2.0


@tg.kernel
def scaled_matmul(a, b, c):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(T, T), dtype=tg.float32)
    for k in range(a.shape[1] // T):
        x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
        y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total * SCALE, offset=(i * T, j * T))


@pytest.mark.machine_code
def test_owners_follow_changes_of_captured_names() -> None:
    global SCALE
    a, b, g = integers(8, 8), integers(8, 8), integers(8, 8)
    x, y = gradient_array(a), gradient_array(b)
    for SCALE in (2.0, 3.0, 2.0):
        x.grad.zero_()
        launched_adjoints(scaled_matmul, (1, 1), [x, y], tg.zeros((8, 8), requires_grad=True), g)
        np.testing.assert_array_equal(x.grad.numpy(), SCALE * g @ b.T)
