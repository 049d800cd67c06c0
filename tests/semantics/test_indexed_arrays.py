"""Arrays indexed by arrays of indices, in kernels and on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg


def random_indices(shape: tuple[int, ...], seed: int = 0) -> tuple[np.ndarray, list[Any]]:
    """Random data, and an array of random indices for each dimension; None for the second dimension."""
    rng = np.random.default_rng(seed)
    data = rng.standard_normal(shape).astype(np.float32)
    return data, [
        None if d == 1 else rng.permutation(n)[: n - 1].astype(np.int32) for d, n in enumerate(shape)
    ]


def indexed_elements(data: np.ndarray, indices: list[Any]) -> np.ndarray:
    full_indices = [np.arange(n) if i is None else i for n, i in zip(data.shape, indices, strict=True)]
    return data[np.ix_(*full_indices)]


@tg.kernel
def elements_1(a: tg.indexedarray1d[float], out: tg.array1d[float]):
    i = tg.tid()
    out[i] = a[i] * float(a.shape[0])
    a[i] = 7.0


@tg.kernel
def elements_2(a: tg.indexedarray2d[float], out: tg.array2d[float]):
    i, j = tg.tid()
    out[i, j] = a[i][j] * float(len(a))
    a[i, j] = 7.0


@tg.kernel
def elements_3(a: tg.indexedarray3d[float], out: tg.array3d[float]):
    i, j, k = tg.tid()
    out[i, j, k] = a[i, :, k][j] * float(a.shape[0])
    a[i, j, k] = 7.0


@tg.kernel
def elements_4(a: tg.indexedarray4d[float], out: tg.array4d[float]):
    i, j, k, m = tg.tid()
    out[i, j, k, m] = a[i, j, k, m] * float(a.shape[0])
    a[i, j, k, m] = 7.0


@pytest.mark.machine_code
@pytest.mark.parametrize("kernel", [elements_1, elements_2, elements_3, elements_4], ids=lambda k: k.name)
def test_elements_of_indexed_arrays_match_numpy(kernel: Any) -> None:
    shape = (4, 3, 5, 2)[: int(kernel.name[-1])]
    data, indices = random_indices(shape)
    a = tg.array(data)
    view = tg.indexedarray(a, indices)
    expected = indexed_elements(data, indices)
    assert view.shape == expected.shape and view.ndim == len(shape) and view.size == expected.size
    np.testing.assert_array_equal(view.numpy(), expected)
    np.testing.assert_array_equal(view.contiguous().numpy(), expected)
    out = tg.zeros(expected.shape)
    tg.launch(kernel, expected.shape, [view], [out])
    np.testing.assert_array_equal(out.numpy(), expected * expected.shape[0])
    assert (view.numpy() == 7).all() and (a.numpy() == 7).sum() == expected.size


@tg.func
def double_element(a: tg.array1d[float], i: int):
    return a[i] * 2.0


@tg.kernel
def sums(a: tg.indexedarray1d[float], b: tg.array1d[float], previous: tg.array1d[float]):
    i = tg.tid()
    previous[i] = tg.atomic_add(a, i, b[i])
    a[i] += double_element(a[1:], 0) * 0.0
    tg.atomic_max(a, i, 3.0)


@pytest.mark.machine_code
def test_atomics_and_functions_accept_indexed_arrays() -> None:
    a = tg.array([1.0, 2.0, 3.0, 4.0])
    previous = tg.zeros(3)
    tg.launch(sums, 3, [tg.indexedarray(a, [[3, 1, 0]]), tg.array([10.0, 20.0, 1.0])], [previous])
    assert a.list() == [3.0, 22.0, 3.0, 14.0] and previous.list() == [4.0, 2.0, 1.0]


@tg.kernel
def tiles(a: tg.indexedarray2d[float], out: tg.array2d[float]):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=(2, 4), offset=(i * 2 - 1, 1), fill=-1.0)
    tg.tile_store(out, t * t, offset=(i * 2, 0))


@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [1, 3, 32])
def test_tiles_of_indexed_arrays_are_loaded(block_dim: int) -> None:
    data, indices = random_indices((5, 4))
    x = tg.array(data, requires_grad=True)
    out = tg.zeros((4, 4), requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(tiles, 2, [tg.indexedarray(x, indices)], [out], block_dim=block_dim)
    expected = np.full((4, 4), -1.0, np.float32)
    expected[1:, :3] = indexed_elements(data, indices)[:3, 1:]
    np.testing.assert_allclose(out.numpy(), expected**2, rtol=1e-6)
    tape.backward(grads={out: tg.ones((4, 4))})
    grad = np.zeros_like(data)
    grad[indices[0][:3], 1:] = 2 * data[indices[0][:3], 1:]
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), grad, rtol=1e-6)


@tg.kernel
def store_tripled(x: tg.array1d[float], a: tg.indexedarray1d[float]):
    tg.tile_store(a, tg.tile_load(x, shape=5) * 3.0, offset=-1)


@tg.kernel
def add_tile(x: tg.array1d[float], a: tg.indexedarray1d[float]):
    tg.tile_atomic_add(a, tg.tile_load(x, shape=5), offset=-1)


@tg.kernel
def atomic_extremes(x: tg.array1d[float], a: tg.indexedarray1d[float], previous: tg.array1d[float]):
    t = tg.tile_load(x, shape=5)
    tg.tile_store(previous, tg.tile_atomic_max(a, t, offset=-1))
    tg.tile_atomic_min(a, t * 0.0 + 4.0, offset=-1)


@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [2, 32])
def test_tiles_of_indexed_arrays_are_stored_and_added(block_dim: int) -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0], np.float32)
    for kernel, expected in ((store_tripled, [9.0, 1.0, 12.0, 6.0]), (add_tile, [4.0, 1.0, 5.0, 3.0])):
        x = tg.array(values, requires_grad=True)
        a = tg.ones(4, requires_grad=True)
        view = tg.indexedarray(a, [[3, 0, 2]])
        with tg.Tape() as tape:
            tg.launch_tiled(kernel, 1, [x], [view], block_dim=block_dim)
        assert a.list() == expected
        seed = tg.array([10.0, 20.0, 30.0, 40.0])
        tape.backward(grads={a: seed})
        scale = 3.0 if kernel is store_tripled else 1.0
        assert x.grad is not None
        assert x.grad.list() == [0.0, 40.0 * scale, 10.0 * scale, 30.0 * scale, 0.0]
    a, previous = tg.array([3.5, 2.0, 1.0, 0.0]), tg.zeros(5)
    tg.launch_tiled(
        atomic_extremes,
        1,
        [tg.array(values), tg.indexedarray(a, [[3, 0, 2]])],
        [previous],
        block_dim=block_dim,
    )
    assert previous.list() == [0.0, 0.0, 3.5, 1.0, 0.0] and a.list() == [3.5, 2.0, 4.0, 2.0]


@tg.kernel
def load_per_thread(x: tg.array1d[float], a: tg.indexedarray1d[float]):
    i = tg.tid()
    tg.tile_store(
        a,
        tg.tile(x[i]) + tg.tile_load(a, shape=tg.block_dim(), offset=i - i % tg.block_dim()),
        offset=i - i % tg.block_dim(),
    )


@pytest.mark.machine_code
def test_indexed_arrays_in_partial_blocks_match_numpy() -> None:
    a = tg.ones(8)
    view = tg.indexedarray(a, [[7, 6, 5, 4, 3, 2, 1, 0]])
    tg.launch(load_per_thread, 6, [tg.array(np.arange(6, dtype=np.float32))], [view], block_dim=4)
    assert view.list() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 1.0]


def test_annotations_of_indexed_arrays_are_equal() -> None:
    for annotation in (
        tg.indexedarray(dtype=float, ndim=2),
        tg.indexedarray2d(float),
        tg.indexedarray2d[float],
    ):
        assert str(annotation) == "indexed array2d[float32]"
    assert type(tg.indexedarray1d(tg.zeros(2), [[0]])) is tg.indexedarray


@pytest.mark.machine_code
def test_indexed_arrays_work_on_the_host() -> None:
    a = tg.array(np.arange(6, dtype=np.float32).reshape(2, 3), requires_grad=True)
    view = a[:, tg.array([2, 0])]
    assert type(view) is tg.indexedarray and view.list() == [[2.0, 0.0], [5.0, 3.0]]
    assert tg.map(lambda x: x * 10.0, view).list() == [[20.0, 0.0], [50.0, 30.0]]
    with tg.Tape() as tape:
        loss = (view.contiguous() * 2.0).sum()
    tape.backward(loss)
    assert a.grad is not None and a.grad.list() == [[2.0, 0.0, 2.0]] * 2
    assert view.grad is not None and view.grad.list() == [[2.0, 2.0]] * 2
    assert view.fill_(9.0) is view and a.list() == [[9.0, 1.0, 9.0], [9.0, 4.0, 9.0]]


@pytest.mark.machine_code
def test_a_plain_array_is_accepted_for_an_indexed_array() -> None:
    out = tg.zeros(3)
    tg.launch(elements_1, 3, [tg.array([1.0, 2.0, 3.0])], [out])
    assert out.list() == [3.0, 6.0, 9.0]


@pytest.mark.machine_code
def test_adjoint_launches_accept_indexed_arrays() -> None:
    x = tg.array([1.0, 2.0, 3.0], requires_grad=True)
    grad = tg.array([1.0, 1.0])
    tg.launch(
        elements_1,
        2,
        [tg.indexedarray(x, [[2, 0]])],
        [tg.zeros(2)],
        adj_outputs=[grad],
        adjoint=True,
        block_dim=2,
    )
    assert x.grad is not None and x.grad.list() == [2.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((np.zeros(3),), ValueError, "tg.array"),
        ((tg.zeros(3), [[0], [0]]), ValueError, "2 arrays of indices"),
        ((tg.zeros(3), [[[0]]]), ValueError, "must be a 1-D array of int32"),
        ((tg.zeros(3), [[3]]), IndexError, "from 0 to 2"),
        ((tg.zeros(3), [[-1]]), IndexError, "from 0 to 2"),
        ((tg.zeros(3), [[0]], int), ValueError, "but dtype is int32"),
        ((tg.zeros(3), [[0]], float, 2), ValueError, "but ndim is 2"),
        ((tg.zeros(3), tg.zeros(1)), ValueError, "int32"),
    ],
)
def test_invalid_indexed_arrays_are_refused(
    arguments: tuple[Any, ...], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        tg.indexedarray(*arguments)


def test_annotations_of_parameters_are_checked() -> None:
    view = tg.indexedarray(tg.zeros(3), [[0]])
    with pytest.raises(tg.LaunchError, match="argument 'x' is an indexed array"):
        tg.launch_tiled(add_tile, 1, [view], [view], block_dim=4)
    with pytest.raises(tg.LaunchError, match="indexed array1d"):
        tg.launch_tiled(add_tile, 1, [tg.zeros(5)], [1.0], block_dim=4)
    with pytest.raises(tg.LaunchError, match="expected"):
        tg.launch(elements_2, (1, 1), [view], [tg.zeros((1, 1))])


@tg.kernel
def store_out_of_bounds(a: tg.indexedarray1d[float]):
    a[tg.tid() + 2] = 1.0


@pytest.mark.machine_code
@pytest.mark.cpu
def test_debug_mode_reports_indices_out_of_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "mode", "debug")
    with pytest.raises(tg.OutOfBounds):
        tg.launch(store_out_of_bounds, 1, [tg.indexedarray(tg.zeros(3), [[0, 1]])])


@pytest.mark.machine_code
def test_operators_of_indexed_arrays_match_numpy() -> None:
    a = tg.array([1.0, 2.0, 3.0])
    view = tg.indexedarray(a, [[2, 0]])
    assert (2.0 * view + view).list() == [9.0, 3.0] and (-view).list() == [-3.0, -1.0]
    assert (np.ones(2, np.float32) - view).list() == [-2.0, 0.0] and (view @ view).list() == [10.0]
    view += tg.array([10.0, 20.0])
    assert type(view) is tg.indexedarray and a.list() == [21.0, 2.0, 13.0]
    view -= a[:2]
    assert a.list() == [19.0, 2.0, -8.0]


@pytest.mark.machine_code
def test_integers_and_slices_with_index_arrays_match_numpy() -> None:
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a, indices = tg.array(data), tg.array([2, 0])
    np.testing.assert_array_equal(a[1, indices].numpy(), data[1, [2, 0]])
    np.testing.assert_array_equal(a[:, indices, 1:].numpy(), data[:, [2, 0], 1:])
    np.testing.assert_array_equal(
        a[0, indices, indices].contiguous().numpy(), data[0][np.ix_([2, 0], [2, 0])]
    )


@tg.kernel
def unannotated(a, out):
    i = tg.tid()
    out[i] = a[i] + a[i]


@pytest.mark.machine_code
def test_parameters_without_annotation_accept_indexed_arrays() -> None:
    for dtype in (tg.float64, tg.int32):
        x, out = tg.array([1, 2, 3], dtype=dtype), tg.zeros(2, dtype=dtype)
        view = tg.indexedarray(x, [[2, 0]])
        for a, expected in ((view, [6, 2]), (x, [2, 4]), (view, [6, 2])):
            tg.launch(unannotated, 2, [a], [out])
            assert out.list() == expected
    x, out = tg.array([1.0, 2.0], requires_grad=True), tg.zeros(1, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(unannotated, 1, [tg.indexedarray(x, [[1]])], [out])
    tape.backward(out)
    assert x.grad is not None and x.grad.list() == [0.0, 2.0]
