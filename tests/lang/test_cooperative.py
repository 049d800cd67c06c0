"""Cooperative functions that users write: signatures, programs, tiles that change, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from traced_kernels import launched, ops_named, traced, zeros

import tegula as tg
from tegula import testing
from tegula.errors import InternalError
from tegula.ir.verify import verify
from tegula.ops.cooperative import CooperativeCall
from tegula.passes.pipeline import prepare

N, M = tg.Extent("N"), tg.Extent("M")
Number = tg.Dtypes("Number", tg.float32, tg.int32)
MOST = "most"
K = tg.Extent("K", value=lambda N, M: min(N, M))


@tg.cooperative
def scaled_rows(a: tg.tile[Number, N, M], by: tg.tile[Number, N]) -> tg.tile[Number, N, M]:
    """Each row times a number."""
    return a * tg.tile_reshape(by, (by.shape[0], 1))


@tg.cooperative
def reversed_in_place(a: tg.InOut[tg.tile[Number, N]], b: tg.InOut[tg.tile[Number, N]]):
    """Two tiles reversed in place, and exchanged."""
    n = a.shape[0]
    tg.tile_assign(a, a[n - 1 :: -1])
    tg.tile_assign(b, b[n - 1 :: -1])


@tg.cooperative
def total(a: tg.tile[Number, ..., N], power: tg.constexpr[1, 2] = 1) -> tg.tile[Number, ..., 1]:
    """The sum of powers along the last dimension."""
    if power == 2:
        return tg.tile_sum(a * a)
    return tg.tile_sum(a)


def error_of(kernel: Any, *args: Any, **launch: Any) -> str:
    with pytest.raises(tg.CompileError) as caught:
        launched(kernel, *args, **launch)
    return str(caught.value)


def test_a_cooperative_call_is_one_isolated_op() -> None:
    @tg.kernel
    def run(x: tg.array2d[float], y: tg.array1d[float], z: tg.array2d[float]):
        tg.tile_store(z, scaled_rows(tg.tile_load(x, shape=(2, 3)), tg.tile_load(y, shape=2)))

    x, y, z = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([2, 3], np.float32), zeros(2, 3)
    kernel = traced(run, x, y, z)
    (call,) = ops_named(kernel, "call.cooperative")
    assert call.name == "scaled_rows" and call.COOPERATIVE and call.ISOLATED
    prepare(kernel)
    assert not any(isinstance(op, CooperativeCall) for op in kernel.walk())
    launched(run, x, y, z)
    np.testing.assert_array_equal(z, x * y[:, None])


def test_shapes_that_do_not_unify_are_named_with_the_line() -> None:
    @tg.kernel
    def run(x: tg.array2d[float], z: tg.array2d[float]):
        a = tg.tile_load(x, shape=(2, 3))
        by = tg.tile_zeros(shape=4)
        tg.tile_store(z, scaled_rows(a, by))

    text = error_of(run, zeros(2, 3), zeros(2, 3))
    assert "error[shape-mismatch]: scaled_rows: 'a' and 'by': shapes (2, 3) and (4,) do not fit" in text
    assert (
        "tg.tile_store(z, scaled_rows(a, by))" in text and "N is 2 in 'a'" in text and "and 4 in 'by'" in text
    )


def test_invalid_calls_of_cooperative_functions_are_refused() -> None:
    @tg.kernel
    def of_two_dtypes(x: tg.array2d[float]):
        scaled_rows(tg.tile_load(x, shape=(2, 3)), tg.tile_zeros(shape=2, dtype=int))

    @tg.kernel
    def of_bytes(x: tg.array2d[float]):
        scaled_rows(tg.tile_zeros(shape=(2, 3), dtype=tg.uint8), tg.tile_zeros(shape=2, dtype=tg.uint8))

    @tg.kernel
    def too_few(x: tg.array2d[float]):
        scaled_rows(tg.tile_load(x, shape=(2, 3)))

    @tg.kernel
    def a_number(x: tg.array2d[float]):
        scaled_rows(1.0, tg.tile_zeros(shape=2))

    @tg.kernel
    def a_value(x: tg.array2d[float]):
        reversed_in_place(tg.tile_load(x[0], shape=3), tg.tile_zeros(shape=3))

    @tg.kernel
    def another_constant(x: tg.array2d[float]):
        total(tg.tile_load(x[0], shape=3), 3)

    @tg.kernel
    def no_constant(x: tg.array2d[float], k: int):
        total(tg.tile_load(x[0], shape=3), k)

    for kernel, message in (
        (of_two_dtypes, "'by' is of int32 and 'a' of float32"),
        (of_bytes, "must be of float32, int32, got uint8"),
        (too_few, "scaled_rows lacks argument 'by'"),
        (a_number, "'a' must be a tile[Number, N, M], got float32"),
        (a_value, "it must be a tile bound to a name"),
        (another_constant, "'power' must be 1 or 2, got 3"),
    ):
        assert message in error_of(kernel, zeros(2, 3)), kernel.name
    assert "'power' of total must be a compile-time constant" in error_of(
        no_constant, zeros(2, 3), np.int32(1)
    )


def test_tiles_that_a_function_changes_may_be_the_same_tile() -> None:
    @tg.kernel
    def run(x: tg.array1d[float], y: tg.array1d[float], z: tg.array1d[float]):
        a, b, c = tg.tile_load(x, shape=3), tg.tile_load(y, shape=3), tg.tile_load(x, shape=3)
        reversed_in_place(a, b)
        reversed_in_place(c, c)
        tg.tile_store(x, a)
        tg.tile_store(y, b)
        tg.tile_store(z, c)

    x, y, z = np.arange(3, dtype=np.float32), np.arange(3, 6, dtype=np.float32), zeros(3)
    launched(run, x, y, z)
    assert x.tolist() == z.tolist() == [2, 1, 0] and y.tolist() == [5, 4, 3]


def test_cooperative_programs_run_for_each_element_of_a_batch() -> None:
    @tg.kernel
    def run(x: tg.array3d[float], y: tg.array3d[float], z: tg.array1d[float]):
        t = tg.tile_load(x, shape=(2, 3, 4))
        tg.tile_store(y, total(t, power=2))
        tg.tile_store(z, total(tg.tile_load(x[0, 0], shape=4)))

    x, y, z = np.arange(24, dtype=np.float32).reshape(2, 3, 4), zeros(2, 3, 1), zeros(1)
    launched(run, x, y, z)
    np.testing.assert_array_equal(y, (x * x).sum(-1, keepdims=True))
    assert z[0] == x[0, 0].sum()


def test_the_first_program_that_fits_size_and_group_is_chosen() -> None:
    @tg.cooperative
    def which(a: tg.tile[Number, N]) -> tg.tile[Number, N]:
        return a * 0.0 + 3.0

    @which.program(when=lambda N: N <= 2)
    def small(a):
        return a * 0.0 + 1.0

    @which.program(when=lambda N, group: N <= group)
    def wide(a):
        return a * 0.0 + 2.0

    @tg.kernel
    def run(x: tg.array1d[float], y: tg.array1d[float], z: tg.array1d[float]):
        tg.tile_store(x, which(tg.tile_load(x, shape=2)))
        tg.tile_store(y, which(tg.tile_load(y, shape=4)))
        tg.tile_store(z, which(tg.tile_load(z, shape=5)))

    x, y, z = zeros(2), zeros(4), zeros(5)
    launched(run, x, y, z)
    assert (x[0], y[0], z[0]) == (1, 2, 3)


def test_cooperative_functions_take_numbers_and_return_several_results() -> None:
    @tg.cooperative
    def extremes(a: tg.tile[Number, N], limit: float) -> tuple[tg.tile[Number, 1], tg.tile[Number, 1]]:
        return tg.tile_min(tg.where(a > limit, limit, a)), tg.tile_max(a)

    @tg.kernel
    def run(x: tg.array1d[float], y: tg.array1d[float]):
        least, most = extremes(tg.tile_load(x, shape=4), -1.5)
        tg.tile_store(y, least)
        tg.tile_store(y, most, offset=1)

    y = zeros(2)
    launched(run, np.arange(4, dtype=np.float32), y)
    assert y.tolist() == [-1.5, 3]


def test_lanes_of_cooperative_functions_are_numbered_within_the_group() -> None:
    @tg.cooperative
    def reads_thread_index(a: tg.tile[Number, N]) -> tg.tile[Number, N]:
        i = tg.tid()
        return a

    @tg.kernel
    def run(x: tg.array1d[float]):
        tg.tile_store(x, reads_thread_index(tg.tile_load(x, shape=4)))

    text = error_of(run, zeros(4))
    assert (
        "tg.tid in reads_thread_index, which has no position in the launch," in text
        and "tg.group_lane()" in text
    )


def test_all_threads_reach_a_cooperative_call_and_its_body() -> None:
    @tg.cooperative
    def divergent(a: tg.tile[Number, N]) -> tg.tile[Number, N]:
        if tg.group_lane() < 2:
            a = a + tg.tile_sum(a)
        return a

    @tg.kernel
    def divergent_body(x: tg.array1d[float]):
        tg.tile_store(x, divergent(tg.tile_load(x, shape=4)))

    @tg.kernel
    def call_in_branch(x: tg.array2d[float]):
        i, t = tg.tid()
        a = tg.tile_load(x, shape=(2, 3))
        if t < 2:
            b = total(a)

    for kernel, args, op in ((divergent_body, zeros(4), "tile_sum"), (call_in_branch, zeros(2, 3), "total")):
        kernel = traced(kernel, args)
        with pytest.raises(tg.CompileError, match=f"{op} is cooperative"):
            prepare(kernel)


def test_a_program_that_does_not_return_its_signature_is_refused() -> None:
    @tg.cooperative
    def shorter(a: tg.tile[Number, N]) -> tg.tile[Number, N]:
        return a[1:]

    @tg.kernel
    def run(x: tg.array1d[float]):
        tg.tile_store(x, shorter(tg.tile_load(x, shape=4)))

    text = error_of(run, zeros(4))
    assert "this program of shorter returns tile[float32, 3], but the signature says tile[Number, N]" in text
    assert "here N = 4, Number = float32" in text


def test_a_cooperative_parameter_without_a_type_is_refused() -> None:
    @tg.cooperative
    def untyped(a) -> tg.tile[Number, N]:
        return a

    @tg.kernel
    def run(x: tg.array1d[float]):
        tg.tile_store(x, untyped(tg.tile_load(x, shape=4)))

    assert "'a' of the cooperative function untyped needs a type" in error_of(run, zeros(4))


def test_the_result_of_a_cooperative_call_may_overwrite_a_parameter() -> None:
    scale_rows = scaled_rows.inplace

    @tg.kernel
    def run(x: tg.array2d[float], y: tg.array1d[float]):
        t = tg.tile_load(x, shape=(2, 3))
        scale_rows(t, tg.tile_load(y, shape=2))
        tg.tile_store(x, t)

    x, y = np.ones((2, 3), np.float32), np.array([2, 3], np.float32)
    launched(run, x, y)
    assert x[:, 0].tolist() == [2, 3]
    assert total.overwritten is None and reversed_in_place.overwritten is None


@pytest.mark.machine_code
def test_launches_use_cooperative_programs_that_are_added() -> None:
    @tg.cooperative
    def incremented(a: tg.tile[Number, N]) -> tg.tile[Number, N]:
        return a + 1.0

    @tg.kernel
    def run(x: tg.array1d[float]):
        tg.tile_store(x, incremented(tg.tile_load(x, shape=4)))

    x = tg.zeros(4)
    tg.launch_tiled(run, dim=1, inputs=[x], block_dim=32)
    assert x.numpy()[0] == 1

    @incremented.program
    def other(a):
        return a + 10.0

    tg.launch_tiled(run, dim=1, inputs=[x], block_dim=32)
    assert x.numpy()[0] == 11


@pytest.mark.machine_code
def test_adjoints_of_cooperative_functions_are_derived_unless_declared() -> None:
    @tg.cooperative
    def squared(a: tg.tile[tg.Real, ..., N]) -> tg.tile[tg.Real, ..., N]:
        return a * a

    @tg.kernel
    def run(x: tg.array2d[tg.float64], y: tg.array2d[tg.float64]):
        tg.tile_store(y, squared(tg.tile_load(x, shape=(2, 3))))

    def slopes() -> np.ndarray:
        x = tg.array(np.arange(6.0).reshape(2, 3), requires_grad=True)
        y = tg.zeros((2, 3), dtype=tg.float64, requires_grad=True)
        with tg.Tape() as tape:
            tg.launch_tiled(run, dim=1, inputs=[x], outputs=[y], block_dim=32)
        tape.backward(grads={y: tg.ones((2, 3), dtype=tg.float64)})
        return x.grad.numpy()

    np.testing.assert_array_equal(slopes(), 2 * np.arange(6.0).reshape(2, 3))

    @squared.vjp(keep=("a", "result"))
    def wrong_on_purpose(a, result, grad):
        return 100.0 * grad + a + result

    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(slopes(), 100 + x + x * x)


@pytest.mark.machine_code
def test_a_declared_adjoint_gets_the_values_that_the_program_saves() -> None:
    @tg.cooperative
    def doubled(a: tg.tile[tg.Real, N]) -> tg.tile[tg.Real, N]:
        return 2.0 * a

    @doubled.vjp(keep="result")
    def adjoint(a, grad):
        return 2.0 * grad

    @tg.kernel
    def run(x: tg.array1d[float], y: tg.array1d[float]):
        tg.tile_store(y, doubled(tg.tile_load(x, shape=4)))

    x, y = tg.zeros(4, requires_grad=True), tg.zeros(4, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(run, dim=1, inputs=[x], outputs=[y], block_dim=32)
    with pytest.raises(tg.CompileError, match="'a' is not a parameter of") as caught:
        tape.backward(grads={y: tg.ones(4)})
    assert "choose from: result, grad" in str(caught.value)


def test_a_cooperative_call_from_python_runs_the_reference() -> None:
    @tg.cooperative
    def halved(a: tg.tile[tg.Real, N]) -> tg.tile[tg.Real, N]:
        return 0.5 * a

    with pytest.raises(RuntimeError, match="inside kernels only"):
        halved(np.ones(3))

    @halved.reference
    def reference(a):
        return a / 2

    assert halved(np.ones(3)).tolist() == [0.5] * 3


def test_the_verifier_refuses_outer_values_in_a_cooperative_call() -> None:
    @tg.kernel
    def run(x: tg.array1d[float]):
        tg.tile_store(x, total(tg.tile_load(x, shape=4)))

    kernel = traced(run, zeros(4))
    (call,) = ops_named(kernel, "call.cooperative")
    (inner_op,) = (op for op in call.function.walk() if op.NAME == "buf.new")
    inner_op.tile = call.arguments[0]
    with pytest.raises(InternalError, match="is not defined before this use"):
        verify(kernel)


@tg.cooperative
def doubled(a: tg.tile[tg.Real, N]) -> tg.tile[tg.Real, N]:
    return a + a


@tg.kernel
def call_with_doubled(x: tg.array1d[float], y: tg.array1d[float]):
    tg.tile_store(y, doubled(tg.tile_load(x, shape=4)))


def error_with_part(part: Any, kernel: Any = call_with_doubled, gradient: bool = False) -> str:
    """The error of a launch while `doubled` has an additional part."""
    original = doubled.variants, doubled.rule
    try:
        part()
        x, y = tg.zeros(4, requires_grad=gradient), tg.zeros(4, requires_grad=gradient)
        with pytest.raises(tg.CompileError) as caught, tg.Tape() as tape:
            tg.launch_tiled(kernel, dim=1, inputs=[x], outputs=[y], block_dim=32)
            tape.backward(grads={y: tg.ones(4)})
    finally:
        doubled.variants, doubled.rule = original
    return str(caught.value)


@pytest.mark.machine_code
def test_invalid_parts_of_cooperative_functions_are_refused_at_their_lines() -> None:
    def unknown_letter() -> None:
        @doubled.program(when=lambda K: K > 2)
        def program(a):
            return a

    def two_results() -> None:
        @doubled.program
        def program(a):
            return a, a

    def shorter_adjoint() -> None:
        @doubled.vjp
        def adjoint(grad):
            return grad[:2]

    def unknown_kept() -> None:
        @doubled.vjp(keep="results")
        def adjoint(grad):
            return grad

    def calls_itself() -> None:
        @doubled.program
        def program(a):
            return doubled(a)

    for part, gradient, message in (
        (unknown_letter, False, ("the condition of a program of doubled takes 'K'", "N, Real, group")),
        (
            two_results,
            False,
            ("returns 2 values, but the signature says 1", "return a, a", "-> tile[Real, N]"),
        ),
        (shorter_adjoint, True, ("returns tile[float32, 2], not tile[float32, 4]", "return grad[:2]")),
        (unknown_kept, True, ("the adjoint of doubled cannot keep 'results'", "choose from: a, result")),
        (calls_itself, False, ("program calls itself", "return doubled(a)")),
    ):
        text = error_with_part(part, gradient=gradient)
        assert all(words in text for words in message), text


@pytest.mark.machine_code
def test_parts_of_cooperative_functions_may_be_given_as_text() -> None:
    square, slope = "def square(a):\n    return a * a\n", "def slope(a, grad):\n    return 2.0 * a * grad\n"
    namespace: dict[str, Any] = {"tg": tg}
    exec(square + slope, namespace)

    @tg.cooperative
    def squared(a: tg.tile[tg.Real, N]) -> tg.tile[tg.Real, N]: ...

    squared.program(namespace["square"], source=square)
    squared.vjp(namespace["slope"], keep="a", source=slope)
    squared.reference(lambda a: a * a)
    squared.samples(lambda rng: iter([tg.Sample(rng.standard_normal(5), differentiable=True)]))
    testing.check(squared, block_dims=(1, 33))


def test_cooperative_signatures_take_plain_dtypes() -> None:
    S = tg.Extents("S")
    assert str(tg.tile[float, ..., N]) == str(tg.tile[tg.float32, ..., N]) == "tile[float32, ..., N]"
    assert str(tg.tile[tg.int32, *S]) == "tile[int32, *S]"
    assert str(tg.InOut[tg.tile[float, 3]]) == "InOut[tile[float32, 3]]"


@pytest.mark.machine_code
def test_cooperative_programs_treat_absent_lanes_as_kernels_do() -> None:
    @tg.cooperative
    def least(a: tg.tile[Number, N]) -> tg.tile[Number, 1]:
        return tg.tile_min(a)

    @least.vjp(keep=("a", "result"))
    def adjoint(a, result, grad):
        return tg.where(a == result, grad, 0.0)

    @tg.kernel
    def run(x: tg.array[float], y: tg.array[float]):
        i = tg.tid()
        tg.tile_store(y, least(tg.tile(x[i])), offset=tg.uniform(i) // 4)

    x = tg.array(np.array([3, 5, 4, 6, 9, 7], np.float32), requires_grad=True)
    y = tg.zeros(2, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(run, 6, inputs=[x], outputs=[y], block_dim=4)
    tape.backward(grads={y: tg.ones(2)})
    assert y.numpy().tolist() == [3, 7] and x.grad.numpy().tolist() == [1, 0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("samples", "reference", "message"),
    [
        ([], np.asarray, "has no samples"),
        ([tg.Sample(np.ones(3))], None, "has no reference"),
        ([tg.Sample(np.ones(3))], lambda a: a[:1], r"has shape \(3,\), the result of the reference \(1,\)"),
        ([tg.Sample(np.ones(3))], lambda a: (a, a), "returns 2 results, but its signature has 1"),
        ([tg.Sample(np.ones(3), 4)], np.asarray, "too many positional arguments"),
        ([tg.Sample()], np.asarray, "missing a required argument: 'a'"),
    ],
)
def test_requirements_of_a_cooperative_check_are_reported(
    samples: list[tg.Sample], reference: Any, message: str
) -> None:
    @tg.cooperative
    def identity(a: tg.tile[tg.Real, N]) -> tg.tile[tg.Real, N]:
        return a

    identity.samples(lambda rng: iter(samples))
    identity.numpy = reference
    with pytest.raises((TypeError, ValueError, tg.CompileError), match=message):
        testing.check(identity, block_dims=(1,))


def test_constants_select_results_and_extents_are_inferred() -> None:
    @tg.cooperative
    def diagonal(
        a: tg.tile[Number, ..., N, M], most: tg.constexpr[bool] = False
    ) -> tuple[tg.tile[Number, ..., K], tg.Asked[MOST, tg.tile[Number, ..., 1]]]:
        k = tg.tile_reshape(tg.tile_arange(a.shape[0], dtype=int), (a.shape[0], 1))
        j = tg.tile_reshape(tg.tile_arange(a.shape[1], dtype=int), (1, a.shape[1]))
        low = tg.tile_sum(tg.where(k == j, a, 0.0), axis=0)[:2]
        return low, tg.tile_max(a)

    @diagonal.reference
    def reference(a, most=False):
        return np.diagonal(a, axis1=-2, axis2=-1), a.max((-2, -1))[..., None]

    @tg.kernel
    def run(x: tg.array3d[float], y: tg.array2d[float], z: tg.array2d[float]):
        t = tg.tile_load(x, shape=(2, 2, 3))
        low, high = diagonal(t, most=True)
        tg.tile_store(y, low + diagonal(t))
        tg.tile_store(z, high)

    x, y, z = np.arange(12, dtype=np.float32).reshape(2, 2, 3), zeros(2, 2), zeros(2, 1)
    launched(run, x, y, z)
    assert y.tolist() == [[0, 8], [12, 20]] and z.tolist() == [[5], [11]]
    assert diagonal(x).tolist() == [[0, 4], [6, 10]] and diagonal(x, most=True)[1].tolist() == [[5], [11]]
    with pytest.raises(TypeError, match="Asked takes the name of a constant"):
        tg.Asked[1, tg.tile[Number, N]]


@tg.func
def doubled_into(buffer: tg.tile[Number, N], x, lane):
    buffer[lane] = x * type(x)(2)
    return buffer.shape[0]


@tg.kernel
def reversed_doubles(a: tg.array2d[float], out: tg.array2d[float]):
    i, lane = tg.tid()
    buffer = tg.tile_empty(shape=4, dtype=float, storage="shared")
    n = doubled_into(buffer, a[i, lane], lane)
    out[i, lane] = buffer[n - 1 - lane]


@pytest.mark.machine_code
def test_functions_of_elements_take_whole_tiles_in_shared_memory() -> None:
    """A parameter that is annotated as a tile takes the tile, not the element of a thread, and the function can change
    the tile."""
    a = np.arange(8, dtype=np.float32).reshape(2, 4)
    interpreted, on_cpu = zeros(2, 4), tg.zeros((2, 4))
    launched(reversed_doubles, a, interpreted, dims=(2, 4), block_dim=4)
    tg.launch_tiled(reversed_doubles, (2,), [tg.array(a)], [on_cpu], block_dim=4)
    np.testing.assert_array_equal(interpreted, 2 * a[:, ::-1])
    np.testing.assert_array_equal(on_cpu.numpy(), 2 * a[:, ::-1])


@tg.func
def first_sum(a: tg.tile[Number, N], b: tg.tile[Number, N]):
    return a[0] + b[0]


def test_tiles_that_do_not_unify_with_the_patterns_of_a_function_of_elements_are_refused() -> None:
    @tg.kernel
    def run(out: tg.array1d[float]):
        buffer = tg.tile_empty(shape=(2, 2), dtype=float, storage="shared")
        out[0] = float(doubled_into(buffer, 1.0, 0))

    @tg.kernel
    def run_two(out: tg.array1d[float]):
        a = tg.tile_empty(shape=2, dtype=float, storage="shared")
        out[0] = first_sum(a, tg.tile_empty(shape=3, dtype=float, storage="shared"))

    for kernel, says in (
        (run, "argument 'buffer' of doubled_into must be tile[Number, N], got tile[float32, 2, 2]"),
        (run_two, "argument 'b' of first_sum must be tile[Number, N], got tile[float32, 3]"),
    ):
        assert says in error_of(kernel, zeros(1))
