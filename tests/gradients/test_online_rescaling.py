"""Loops that rescale sums while a maximum grows: their adjoints store no values if no result depends on the maximum,
the gauge of the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.loop_kernels import D
from tegula.ir import Kernel, LoopLike
from tegula.lang.kernel import trace
from tegula.passes.gradient.online_rescaling import remove_rescaling
from tegula.passes.inline_calls import inline_selected
from tegula.passes.pipeline import fix_rounding
from tegula.runtime.adjoint import adjoint_of
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.launch import plan
from tegula.runtime.library import library
from tegula.runtime.resolve import overlaps, specialisation

ROWS, COLUMNS, WIDTH = 4, 8, 4


@tg.func
def natural_power(x: Any):
    return tg.exp(x)


@tg.func
def binary_power(x: Any):
    return tg.exp2(x)


@tg.func
def maximum(top: Any, s: Any):
    return tg.max(top, tg.tile_max(s, axis=1, keepdims=True))


@tg.func
def lazy_maximum(top: Any, s: Any):
    high = tg.tile_max(s, axis=1, keepdims=True)
    return tg.where(high > top + 2.0, high, top)


@tg.func
def mean(top: Any, s: Any):
    return tg.tile_sum(s, axis=1, keepdims=True) * 0.125


@tg.func
def difference(top: Any, new_top: Any):
    return top - new_top


@tg.func
def clamped_difference(top: Any, new_top: Any):
    return tg.max(top - new_top, -1.0)


@tg.func
def decayed_difference(top: Any, new_top: Any):
    return top - new_top - 0.5


@tg.func
def halved_difference(top: Any, new_top: Any):
    return (top - new_top) * 0.5


@tg.func
def quotient(acc: Any, total: Any, top: Any):
    return acc * tg.tile_broadcast(1.0 / total, shape=(ROWS, WIDTH))


@tg.func
def logarithm(acc: Any, total: Any, top: Any):
    return quotient(acc, total, top) + tg.tile_broadcast(top + tg.log(total), shape=(ROWS, WIDTH))


@tg.func
def quotient_with_sink(acc: Any, total: Any, top: Any):
    return quotient(acc, total + tg.exp(0.3 - top), top)


@tg.func
def unscaled_sum(acc: Any, total: Any, top: Any):
    return acc


@tg.func
def quotient_plus_gauge(acc: Any, total: Any, top: Any):
    return quotient(acc, total, top) + tg.tile_broadcast(top, shape=(ROWS, WIDTH))


@tg.func
def sum_plus_gauge(acc: Any, total: Any, top: Any):
    return acc + tg.tile_broadcast(top, shape=(ROWS, WIDTH))


@tg.func
def quotients_of_other_rows(acc: Any, total: Any, top: Any):
    return total @ tg.tile_transpose(1.0 / total)


@tg.func
def gauge_in_other_units(acc: Any, total: Any, top: Any):
    return (tg.tile_broadcast(top, shape=(ROWS, WIDTH)) * 1e-8 + 0.0 * quotient(acc, total, top)) * 1e8


@tg.func
def exp(x: D):
    return tg.exp(x) + 0.2 * x


@tg.func_grad(exp)
def exp_gradient(x: D, g: D):
    tg.adjoint[x] += g * (tg.exp(x) + 0.2)


@tg.func
def function_named_exp(x: Any):
    return tg.tile_map(exp, x)


@tg.func
def slightly_decayed_difference(top: Any, new_top: Any):
    return top - new_top - 1e-7


def loop(
    gauge: Any = maximum,
    exponential: Any = natural_power,
    rescaled_difference: Any = difference,
    epilogue: Any = quotient,
    start: float = 0.0,
):
    """Weighted means of the rows of `V`, with exponentials of `S` as weights, by a loop over tiles of columns of
    `S`."""

    @tg.kernel
    def kernel(S: tg.array2d[D], V: tg.array2d[D], out: tg.array2d[D]):
        i = tg.tid()
        top = tg.tile_full(shape=(ROWS, 1), value=-1e30, dtype=D)
        total = tg.tile_full(shape=(ROWS, 1), value=start, dtype=D)
        acc = tg.tile_zeros(shape=(ROWS, WIDTH), dtype=D)
        for n in range(S.shape[1] // COLUMNS):
            s = tg.tile_load(S, shape=(ROWS, COLUMNS), offset=(i * ROWS, n * COLUMNS))
            new_top = gauge(top, s)
            p = exponential(s - tg.tile_broadcast(new_top, shape=(ROWS, COLUMNS)))
            rescaling = exponential(rescaled_difference(top, new_top))
            total = total * rescaling + tg.tile_sum(p, axis=1, keepdims=True)
            acc = acc * tg.tile_broadcast(rescaling, shape=(ROWS, WIDTH))
            v = tg.tile_load(V, shape=(COLUMNS, WIDTH), offset=(n * COLUMNS, 0))
            tg.tile_matmul(p, v, acc)
            top = new_top
        tg.tile_store(out, epilogue(acc, total, top), offset=(i * ROWS, 0))

    return kernel


@tg.kernel
def difference_of_two(S: tg.array2d[D], V: tg.array2d[D], out: tg.array2d[D]):
    a = tg.tile_full(shape=(ROWS, 1), value=-1e30, dtype=D)
    b = tg.tile_full(shape=(ROWS, 1), value=-1e30, dtype=D)
    x, y = tg.tile_zeros(shape=(ROWS, 1), dtype=D), tg.tile_zeros(shape=(ROWS, 1), dtype=D)
    for n in range(S.shape[1] // COLUMNS):
        s = tg.tile_load(S, shape=(ROWS, COLUMNS), offset=(0, n * COLUMNS))
        new_a, new_b = maximum(a, s), maximum(b, -s)
        x = x * tg.exp(a - new_a) + tg.tile_sum(
            tg.exp(s - tg.tile_broadcast(new_a, shape=(ROWS, COLUMNS))), axis=1, keepdims=True
        )
        y = y * tg.exp(b - new_b) + tg.tile_sum(
            tg.exp(-s - tg.tile_broadcast(new_b, shape=(ROWS, COLUMNS))), axis=1, keepdims=True
        )
        a, b = new_a, new_b
    tg.tile_store(out, tg.tile_broadcast(a + tg.log(x) - b - tg.log(y), shape=(ROWS, WIDTH)))


ACCEPTED = {
    "maximum": loop(),
    "powers of 2": loop(exponential=binary_power),
    "lazy maximum": loop(gauge=lazy_maximum),
    "mean": loop(gauge=mean),
    "logarithm of the sum": loop(epilogue=logarithm),
    "sink": loop(epilogue=quotient_with_sink),
}
REFUSED = {
    "clamped difference": loop(rescaled_difference=clamped_difference),
    "decayed difference": loop(rescaled_difference=decayed_difference),
    "wrong power": loop(rescaled_difference=halved_difference),
    "unscaled sum": loop(epilogue=unscaled_sum),
    "gauge among the results": loop(epilogue=quotient_plus_gauge),
    "another base": loop(exponential=binary_power, epilogue=logarithm),
    "initial sum": loop(start=1.0),
    "gauge plus a sum": loop(epilogue=sum_plus_gauge),
    "quotients by other rows": loop(epilogue=quotients_of_other_rows),
    "gauge in large units": loop(epilogue=gauge_in_other_units),
    "function named like a power": loop(exponential=function_named_exp),
    "slightly decayed difference": loop(rescaled_difference=slightly_decayed_difference),
}
SLOW_LOOPS = (
    "powers of 2",
    "lazy maximum",
    "mean",
    "sink",
    "decayed difference",
    "wrong power",
    "unscaled sum",
    "initial sum",
)
SLOW_LOOPS += (
    "gauge plus a sum",
    "quotients by other rows",
    "gauge in large units",
    "slightly decayed difference",
)
SLOW_LOOPS += ("function named like a power",)
DIFFERENTIATED = (
    *("maximum", "logarithm of the sum", "clamped difference", "gauge among the results", "two gauges"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_LOOPS),
)


def arrays(tiles: int = 3) -> list[Any]:
    random = np.random.default_rng(tiles)
    shapes = (ROWS, tiles * COLUMNS), (tiles * COLUMNS, WIDTH)
    s, v = (tg.array(random.uniform(-2, 2, shape), dtype=D, requires_grad=True) for shape in shapes)
    return [s, v, tg.zeros((ROWS, WIDTH), dtype=D, requires_grad=True)]


def forward(source: Any) -> Kernel:
    """The forward kernel before differentiation."""
    args = tuple(arrays())
    specialisations = [SPECIALISATIONS[pack(a)[0]] for pack, a in zip(source.packers, args, strict=True)]
    specialised = specialisation(specialisations, plan((1, 32), 32).launch, overlaps(args))
    launch_types = specialised.types, specialised.launch, specialised.access
    kernel = trace(source.definition, *launch_types, library(), differentiable=True)
    fix_rounding(kernel)
    inline_selected(kernel.body, lambda call: not call.has_rule)
    return kernel


@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED])
def test_exactly_the_loops_without_a_dependency_on_the_gauge_are_rescaled(name: str) -> None:
    kernel = forward({**ACCEPTED, **REFUSED}[name])
    result = remove_rescaling(kernel)
    sums = [loop for loop in kernel.walk() if isinstance(loop, LoopLike)][1:]
    assert [len(loop.results) for loop in sums] == ([2] if name in ACCEPTED else [])
    assert len(result.results) == 2 * len(sums)
    assert len(result.constants) == (1 if name in ACCEPTED else 0)


def test_loops_with_two_gauges_are_rescaled() -> None:
    kernel = forward(difference_of_two)
    result = remove_rescaling(kernel)
    *_, last = [loop for loop in kernel.walk() if isinstance(loop, LoopLike)]
    assert len(last.results) == len(result.constants) == 2


@pytest.mark.machine_code
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_of_loops_that_rescale_sums_are_correct(name: str) -> None:
    *inputs, out = arrays()
    kernel = difference_of_two if name == "two gauges" else {**ACCEPTED, **REFUSED}[name]
    tg.gradcheck(kernel, (1, 32), inputs, [out], block_dim=32, directions=3)


@pytest.mark.slow
@pytest.mark.machine_code
def test_gradients_of_scores_in_large_units_are_correct() -> None:
    @tg.kernel
    def kernel(S: tg.array2d[D], out: tg.array2d[D]):
        top = tg.tile_full(shape=(ROWS, 1), value=-1e30, dtype=D)
        total = tg.tile_full(shape=(ROWS, 1), value=0.0, dtype=D)
        for n in range(S.shape[1] // COLUMNS):
            s = tg.tile_load(S, shape=(ROWS, COLUMNS), offset=(0, n * COLUMNS)) * 3e6
            new_top = maximum(top, s)
            p = tg.exp(3e-7 * s - 3e-7 * new_top)
            total = total * tg.exp(3e-7 * (top - new_top)) + tg.tile_sum(p, axis=1, keepdims=True)
            top = new_top
        tg.tile_store(out, 3e-7 * top + tg.log(total), offset=(0, 0))

    s, _, out = arrays()
    tg.gradcheck(kernel, (1, 32), [s], [out], block_dim=32, directions=3)


@pytest.mark.machine_code
def test_no_value_is_stored_for_the_backward_pass() -> None:
    kernel = ACCEPTED["maximum"]
    s, v, out = arrays(9)
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, dim=[1], inputs=[s, v], outputs=[out], block_dim=32)
    tape.backward(grads={out: np.ones((ROWS, WIDTH))})
    assert "kept for the gradient: nothing" in adjoint_of(kernel, (0, 1, 2)).memory_report()
