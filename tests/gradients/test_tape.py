"""Tapes, adjoint launches, and functions with custom gradients."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tegula as tg
from tegula.runtime.element_range import ElementRange
from tegula.runtime.gradient_flow import check_flow
from tegula.runtime.recording import recording

D = tg.float64


@tg.kernel
def sines(x: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = tg.sin(x[i])


@tg.kernel
def squares(y: tg.array[D], loss: tg.array[D]):
    tg.atomic_add(loss, 0, y[tg.tid()] * y[tg.tid()])


@tg.kernel
def constants(y: tg.array[D]):
    y[tg.tid()] = 2.0


def arrays(n: int = 8) -> tuple[tg.array, tg.array, tg.array]:
    x = tg.array(np.linspace(0.1, 1.0, n), dtype=D, requires_grad=True)
    return x, tg.zeros_like(x), tg.zeros(1, dtype=D, requires_grad=True)


def derivative(x: tg.array) -> np.ndarray:
    return 2 * np.sin(x.numpy()) * np.cos(x.numpy())


@pytest.mark.machine_code
def test_backward_differentiates_through_launches() -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), derivative(x))
    assert loss.grad.numpy().tolist() == [1.0]
    assert set(tape.gradients) == {x, y, loss}
    assert np.all(y.grad.numpy() == 0.0), "a store reads and clears the gradient of the stored elements"


@tg.kernel
def decaying_sum(x: tg.array[D], decay: D, y: tg.array[D]):
    i = tg.tid()
    old = tg.tile_load(y, shape=4, offset=i * 4)
    tg.tile_store(y, tg.tile_load(x, shape=4, offset=i * 4) + old * decay, offset=i * 4)


@pytest.mark.machine_code
def test_gradients_of_in_place_scaling_are_correct() -> None:
    """The gradient of a multiplication by a number needs only the number, not the overwritten elements."""
    x, y, loss = arrays()
    y.assign(np.arange(8.0))
    with tg.Tape() as tape:
        tg.launch_tiled(decaying_sum, 2, [x, 0.25], [y], block_dim=32)
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    tape.backward(loss)
    after = 2.0 * (x.numpy() + 0.25 * np.arange(8.0))
    np.testing.assert_allclose(x.grad.numpy(), after)
    np.testing.assert_allclose(y.grad.numpy(), 0.25 * after)


@pytest.mark.machine_code
def test_gradients_accumulate_until_they_are_cleared() -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), derivative(x))
    tape.zero()
    assert np.all(x.grad.numpy() == 0.0)
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), derivative(x))
    with pytest.raises(tg.LaunchError, match="has run already"):
        tape.backward(loss)


@pytest.mark.machine_code
def test_gradients_given_to_backward_are_unchanged() -> None:
    x, y, _ = arrays()
    seed = tg.array(np.arange(8.0), dtype=D)
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
    tape.backward(grads={y: seed})
    np.testing.assert_allclose(x.grad.numpy(), np.arange(8) * np.cos(x.numpy()))
    assert seed.numpy().tolist() == y.grad.numpy().tolist() == list(range(8))


@pytest.mark.machine_code
def test_a_later_store_hides_an_earlier_store() -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        tg.launch(constants, 4, outputs=[y])
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), np.where(np.arange(8) < 4, 0.0, derivative(x)))


@pytest.mark.machine_code
def test_views_share_gradients() -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 4, inputs=[x[::2]], outputs=[y[:4]])
        tg.launch(squares, 4, inputs=[y[:4]], outputs=[loss])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), np.where(np.arange(8) % 2, 0.0, derivative(x)))


@pytest.mark.machine_code
def test_launches_without_record_tape_are_not_recorded() -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y], record_tape=False)
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    tg.launch(constants, 8, outputs=[tg.zeros(8, dtype=D)])
    tape.backward(loss)
    assert np.all(x.grad.numpy() == 0.0)
    np.testing.assert_allclose(y.grad.numpy(), 2 * y.numpy())


@pytest.mark.machine_code
@pytest.mark.parametrize("overwrite", ["fill_", "zero_", "assign", "launch", "view"])
def test_overwritten_arrays_with_needed_values_are_refused(overwrite: str) -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    if overwrite == "launch":
        tg.launch(constants, 8, outputs=[y])
    elif overwrite == "view":
        y[2:3].fill_(1.0)
    else:
        getattr(y, overwrite)(*{"fill_": (1.0,), "assign": (np.ones(8),)}.get(overwrite, ()))
    with pytest.raises(tg.LaunchError, match="a later operation has overwritten"):
        tape.backward(loss)


@pytest.mark.machine_code
def test_overwriting_values_that_no_gradient_needs_is_accepted() -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
    y.fill_(7.0)
    del loss
    tape.backward(grads={y: np.ones(8)})
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.numpy()))


@pytest.mark.machine_code
def test_adjoint_launches_add_to_given_gradients() -> None:
    x, y, _ = arrays()
    gradient, seed = tg.zeros(8, dtype=D), tg.array(np.arange(8.0), dtype=D)
    tg.launch(sines, 8, [x], [y], adj_inputs=[gradient], adj_outputs=[seed], adjoint=True)
    np.testing.assert_allclose(gradient.numpy(), np.arange(8) * np.cos(x.numpy()))
    assert np.all(seed.numpy() == 0.0) and np.all(x.grad.numpy() == 0.0)
    tg.launch(sines, 8, [x], [y], adj_outputs=[tg.ones(8, dtype=D)], adjoint=True)
    np.testing.assert_allclose(x.grad.numpy(), np.cos(x.numpy()))


def test_a_second_active_tape_is_refused() -> None:
    with tg.Tape(), pytest.raises(tg.LaunchError, match="recording already"), tg.Tape():
        pass


def run_in_another_thread(action: Callable[[], object]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(action).result()


@pytest.mark.machine_code
def test_launches_of_other_threads_are_not_recorded() -> None:
    x, y, loss = arrays()
    a, b, _ = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        run_in_another_thread(lambda: tg.launch(sines, 8, inputs=[a], outputs=[b]))
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    assert len(tape.records) == 2
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), derivative(x))
    assert not a.grad.numpy().any()


@pytest.mark.machine_code
def test_each_thread_has_a_tape() -> None:
    result: list[np.ndarray] = []

    def work() -> None:
        x, y, loss = arrays()
        with tg.Tape() as tape:
            tg.launch(sines, 8, inputs=[x], outputs=[y])
            tg.launch(squares, 8, inputs=[y], outputs=[loss])
        tape.backward(loss)
        result.append(x.grad.numpy() - derivative(x))

    with tg.Tape() as outer:
        run_in_another_thread(work)
    assert not outer.records and np.allclose(result, 0.0)


@pytest.mark.machine_code
def test_an_array_overwritten_by_another_thread_is_refused() -> None:
    x, y, loss = arrays()
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    run_in_another_thread(lambda: tg.launch(constants, 8, outputs=[y]))
    with pytest.raises(tg.LaunchError, match="overwritten"):
        tape.backward(loss)


@pytest.mark.machine_code
def test_a_living_tape_is_notified_once_of_writes_to_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches outside tapes are as fast as without tapes, whichever arrays they write."""
    x, y, loss = arrays()
    other_arrays = arrays()[:2]
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        observed: list[tg.array] = []
        monkeypatch.setattr(tape, "written", observed.append)
        for _ in range(3):
            tg.launch(sines, 8, inputs=[other_arrays[0]], outputs=[other_arrays[1]], record_tape=False)
    assert len(observed) == 1 and observed[0] is other_arrays[1]
    for _ in range(3):
        tg.launch(sines, 8, inputs=[other_arrays[0]], outputs=[other_arrays[1]])
        tg.launch(squares, 8, inputs=[other_arrays[1]], outputs=[loss])
        run_in_another_thread(lambda: tg.launch(constants, 8, outputs=[y]))
    assert len(observed) == 3


@pytest.mark.machine_code
def test_writes_after_a_later_record_are_refused() -> None:
    """An array is written outside the tape, then read by a record, and written again."""
    x, y, loss = arrays()
    tape = tg.Tape()
    with tape:
        tg.launch(constants, 8, outputs=[y])
    tg.launch(sines, 8, inputs=[x], outputs=[y])
    with tape:
        tg.launch(squares, 8, inputs=[y], outputs=[loss])
    tg.launch(sines, 8, inputs=[x], outputs=[y])
    with pytest.raises(tg.LaunchError, match="argument 'y' as it was"):
        tape.backward(loss)


def test_writes_are_not_observed_after_the_last_tape() -> None:
    tape = tg.Tape()
    with tape:
        pass
    others = [watching_tape for watching_tape in recording.observers if watching_tape is not tape]
    assert recording.on
    del tape
    gc.collect()
    assert recording.on == bool(others)


@tg.func
def clip_with_gradient(x: D, low: D):
    return tg.max(x, low)


@tg.func_grad(clip_with_gradient)
def straight_through(x: D, low: D, g: D):
    tg.adjoint[x] += g
    if x < low:
        for _ in range(2):
            tg.adjoint[low] += 0.25 * g


@tg.func
def next_index(counter: tg.array[int], i: int):
    return tg.atomic_add(counter, i, 1)


@tg.func_replay(next_index)
def replayed_index(counter: tg.array[int], i: int):
    return i


@pytest.mark.machine_code
def test_functions_with_a_custom_gradient_use_the_gradient() -> None:
    @tg.kernel
    def clip(x: tg.array[D], low: tg.array[D], y: tg.array[D]):
        t = tg.tile_load(x, shape=4)
        tg.tile_store(y, tg.tile_map(clip_with_gradient, t, low[0]) * 2.0)

    x = tg.array([-1.0, 0.5, -2.0, 3.0], dtype=D, requires_grad=True)
    low, y = tg.zeros(1, dtype=D, requires_grad=True), tg.zeros(4, dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(clip, 1, inputs=[x, low], outputs=[y], block_dim=32)
    tape.backward(grads={y: [1.0, 2.0, 3.0, 4.0]})
    assert x.grad.numpy().tolist() == [2.0, 4.0, 6.0, 8.0]
    assert low.grad.numpy().tolist() == [4.0]


@pytest.mark.machine_code
def test_functions_with_side_effects_run_once_in_adjoints() -> None:
    @tg.kernel
    def take(x: tg.array[D], counter: tg.array[int], y: tg.array[D]):
        i = tg.tid()
        y[i] = x[next_index(counter, i)] * x[i]

    x, y, _ = arrays()
    counter = tg.array(np.arange(8), dtype=int)
    tg.gradcheck(take, 8, [x, counter], [y], block_dim=4)


@pytest.mark.machine_code
def test_gradcheck_finds_wrong_gradients() -> None:
    @tg.kernel
    def clip(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = clip_with_gradient(x[i] * x[i], 10.0)

    x, y, _ = arrays()
    assert not tg.gradcheck(clip, 8, [x], [y], raise_exception=False)
    with pytest.raises(tg.GradientMismatch, match="along a random direction"):
        tg.gradcheck(clip, 8, [x], [y])


@pytest.mark.machine_code
def test_kernels_without_backward_are_refused_on_tapes() -> None:
    @tg.kernel(enable_backward=False)
    def plain(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = x[i]

    x, y, _ = arrays()
    with tg.Tape() as tape:
        tg.launch(plain, 8, inputs=[x], outputs=[y])
    with pytest.raises(tg.LaunchError, match="enable_backward=False"):
        tape.backward(grads={y: np.ones(8)})


@pytest.mark.machine_code
def test_gradients_that_would_be_lost_are_refused() -> None:
    @tg.kernel
    def scale(y: tg.array[D], loss: tg.array[D]):
        i = tg.tid()
        y[i] = y[i] * 2.0
        tg.atomic_add(loss, 0, y[i])

    x, _, loss = arrays()
    y = tg.zeros(8, dtype=D)
    with tg.Tape() as tape:
        tg.launch(sines, 8, inputs=[x], outputs=[y])
        tg.launch(scale, 8, inputs=[y], outputs=[loss])
    with pytest.raises(tg.LaunchError, match="an array without a gradient"):
        tape.backward(loss)


def count_flow_comparisons(launches: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of comparisons of the memory of two arrays by the check that no gradient is lost, for a chain of
    launches."""
    x = tg.ones(8, dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        for _ in range(launches):
            y = tg.zeros_like(x, requires_grad=True)
            tg.launch(sines, 8, inputs=[x], outputs=[y])
            x = y
    count = 0
    overlaps = ElementRange.overlaps

    def counting_overlaps(self: ElementRange, other: ElementRange) -> bool:
        nonlocal count
        count += 1
        return overlaps(self, other)

    monkeypatch.setattr(ElementRange, "overlaps", counting_overlaps)
    check_flow(tape.records, [x])
    monkeypatch.undo()
    return count


@pytest.mark.machine_code
def test_the_check_of_a_long_tape_is_not_quadratic(monkeypatch: pytest.MonkeyPatch) -> None:
    assert count_flow_comparisons(60, monkeypatch) <= 2 * count_flow_comparisons(30, monkeypatch) + 4


@pytest.mark.machine_code
def test_writes_by_earlier_adjoints_are_observed() -> None:
    """The second lookup of an adjoint compares only arguments."""

    @tg.kernel
    def squares(x: tg.array[float], y: tg.array[float]):
        i = tg.tid()
        y[i] = x[i] * x[i]

    x, y = tg.ones(4, requires_grad=True), tg.zeros(4, requires_grad=True)
    second_array, seed, array = tg.ones(4), tg.ones(4), tg.zeros(4)
    for _ in range(2):
        with tg.Tape() as tape:
            tg.launch(squares, 4, inputs=[x], outputs=[y])
        tg.launch(squares, 4, [second_array], [array], adj_inputs=[x], adj_outputs=[seed], adjoint=True)
        with pytest.raises(tg.LaunchError, match="overwritten"):
            tape.backward(grads={y: np.ones(4)})


@tg.kernel
def overwritten_by_own_square(x: tg.array2d[D], y: tg.array2d[D]):
    t = tg.tile_load(x, shape=(4, 4))
    s = t
    t[0:2] = (s[:, ::-1] * s[:, ::-1])[1:3]
    tg.tile_store(y, t * 1.0)


@pytest.mark.machine_code
def test_gradients_of_tiles_overwritten_by_their_own_function_are_correct() -> None:
    """The derivative of the square needs the tile before the assignment."""
    values = np.random.default_rng(0).uniform(-1, 1, (4, 4))
    x, y = tg.array(values, dtype=D, requires_grad=True), tg.zeros((4, 4), dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(overwritten_by_own_square, 1, [x], [y], block_dim=32)
    seed = np.arange(16.0).reshape(4, 4)
    tape.backward(grads={y: seed})
    expected = np.concatenate([np.zeros((2, 4)), seed[2:]])
    expected[1:3] += 2.0 * values[1:3] * seed[0:2, ::-1]
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-12)


POWER_SCRIPT = """
import tegula as tg

@tg.kernel
def power(x: tg.array[float], n: int, out: tg.array[float]):
    y = x[0]
    for _ in range(n):
        y = y * y
    out[0] = y

x, out = tg.array([1.5], requires_grad=True), tg.zeros(1, requires_grad=True)
with tg.Tape() as tape:
    tg.launch(power, 1, inputs=[x, 3], outputs=[out])
tape.backward(loss=out)
"""


@pytest.mark.slow
@pytest.mark.machine_code
def test_a_tape_is_freed_with_the_names_of_its_module() -> None:
    """A live tape observes the launches of the process."""
    names = tg.exec(POWER_SCRIPT)
    tape = weakref.ref(names["tape"])
    assert tape() in recording.observers
    del names
    gc.collect()
    assert tape() is None
