"""Parameters that take constants, arguments by name and by default, and None for arrays."""

from __future__ import annotations

import pickle
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

import tegula as tg
from tegula.errors import LaunchError, NotConstant, TypeMismatch, UnknownAttribute, WrongArguments
from tegula.interp import run
from tegula.ir import AccessClass, LaunchClass
from tegula.passes.pipeline import prepare
from tegula.runtime.compile import trace
from tegula.runtime.inspection import inspect_for_gpu
from tegula.runtime.kernel import Specialisation
from tegula.runtime.library import library
from tegula.target import get_cuda_target
from tegula.types import ArrayType, float32

F = np.float32
pytestmark = pytest.mark.machine_code(some=True)


@tg.func
def powered(x: Any, n: tg.constexpr[int]):
    r = x
    for _ in tg.static(range(n - 1)):
        r *= x
    return r


Mode = tg.constexpr["up", "down"]


@tg.kernel
def mapped(
    a: tg.array[float],
    b: tg.array[Any],
    N: tg.constexpr,
    op: tg.constexpr = tg.sin,
    dtype: tg.constexpr = float,
    offsets: tg.constexpr = (),
    flag: tg.constexpr[bool] = True,
    mode: Mode = "up",
):
    t = tg.tile_map(op, tg.tile_load(a, shape=N))
    for part in offsets:
        for x in part:
            t += float(x)
    if flag:
        t = -t
    if mode == "down":
        t = tg.tile_map(op, t)
    tg.tile_store(b, tg.tile_astype(t, dtype))


X = np.arange(8, dtype=F)


def launch_result(*positional: Any, out: Any = None, **named: Any) -> np.ndarray:
    b = np.zeros(8, F) if out is None else out
    tg.launch_tiled(
        mapped, 1, {"a": X, "b": b, **dict(zip(("N", "op"), positional, strict=False)), **named}, block_dim=32
    )
    return b


def test_parameters_take_constants_of_every_kind() -> None:
    """Shapes, functions of the language and of the user, dtypes, nested tuples, flags, strings."""
    np.testing.assert_allclose(launch_result(8), -np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(launch_result(4)[4:], 0)
    np.testing.assert_allclose(launch_result(8, tg.cos), -np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(launch_result(8, flag=False), np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(launch_result(8, offsets=((1, 2), (0.5,))), -np.sin(X) - 3.5, rtol=1e-6)
    np.testing.assert_allclose(launch_result(8, mode="down"), np.sin(-np.sin(X)), rtol=1e-5)
    assert np.array_equal(launch_result(8, op=squared, dtype=tg.int32, out=np.zeros(8, np.int32)), -(X**2))


@tg.func
def squared(x: float):
    return powered(x, 2)


class Pair(NamedTuple):
    rows: int
    columns: int


@tg.kernel
def scaled(a: tg.array[tg.float16], s: tg.constexpr, shape: tg.constexpr[tuple] = (1,)):
    s = s * 1  # a variable whose initial value is the constant
    rows = shape[0]
    a[tg.tid()] = a[tg.tid()] * tg.float16(s) + tg.float16(rows)


def test_equal_constants_of_different_types_are_different() -> None:
    """1, 1.0 and True, 0.0 and -0.0 compare equal."""
    ids = {id(scaled.bind(s=s)) for s in (1, 1.0, True, 0.0, -0.0, (1,), (1.0,), "1")}
    assert len(ids) == 8
    assert scaled.bind(s=2) is scaled.bind(s=2)
    a = np.ones(4, np.float16)
    tg.launch(scaled, 4, [a, 3, Pair(2, 5)])
    assert np.array_equal(a, [5, 5, 5, 5])


def test_values_that_are_not_constants_are_refused() -> None:
    a = np.ones(4, np.float16)
    cases = [
        ([1], "a constant must be hashable, but a list is not", "pass a tuple"),
        ({}, "a dict is not", "number, string, dtype"),
        (X, "a ndarray is not", "number, string, dtype"),
        (object(), "cannot be a constant of a kernel", "pass the value as an argument"),
        (lambda x: x, "cannot be a constant", "@tg.func"),
    ]
    for value, message, help in cases:
        with pytest.raises(LaunchError, match="kernel scaled: argument 's'") as error:
            tg.launch(scaled, 4, [a, value])
        assert message in error.value.message and help in error.value.help
    with pytest.raises(LaunchError, match="argument 'shape': expected a constant of type tuple, got 3"):
        tg.launch(scaled, 4, [a, 1, 3])
    for value in (2.5, True, "x"):
        with pytest.raises(LaunchError, match="expected a constant of type int"):
            tg.launch(counted, 4, [X, value])
    with pytest.raises(LaunchError, match="constant 'up' or 'down', got 'left'"):
        launch_result(8, mode="left")
    with pytest.raises(LaunchError, match="has no parameter 'M' to bind"):
        scaled.bind(M=1)
    with pytest.raises(LaunchError, match="parameter 'a' takes no constant"):
        scaled.bind(a=1)


@tg.kernel
def counted(a: tg.array[float], n: tg.constexpr[int]):
    a[tg.tid()] = float(n)


@tg.kernel
def run_time_power(a: tg.array[float], n: int):
    a[0] = powered(a[0], n)


def test_a_run_time_value_is_not_a_constant() -> None:
    with pytest.raises(NotConstant, match="argument 'n' of powered") as error:
        tg.launch(run_time_power, 1, [X.copy(), 3])
    assert "tg.constexpr" in error.value.help


@tg.func
def cubed(x: float, variant: tg.constexpr):
    if variant == "twice":
        return 2.0 * x * x * x
    return x * x * x


@tg.func_grad(cubed)
def cubed_gradient(x: float, variant: tg.constexpr, adj: float):
    tg.adjoint[x] += adj * (100.0 if variant == "twice" else 10.0)


@tg.kernel
def graded(x: tg.array[float], y: tg.array[float], variant: tg.constexpr, s: tg.array[float] | None = None):
    i = tg.tid()
    v = cubed(x[i], variant)
    if s is not None:
        v = v * s[i]
    y[i] = v


def test_gradients_use_constant_parameters() -> None:
    """Tapes, adjoint launches and functions with a declared gradient, also with absent arrays."""
    for variant, factor in (("twice", 100.0), ("once", 10.0)):
        x, y = tg.array(X, requires_grad=True), tg.zeros(8, requires_grad=True)
        with tg.Tape() as tape:
            tg.launch(graded, 8, [x, y, variant])
        tape.backward(grads={y: tg.ones(8)})
        assert np.array_equal(x.grad.numpy(), np.full(8, factor, F))
    s, g = tg.array(X), tg.zeros(8)
    arguments = {"x": tg.array(X), "s": s, "variant": "once"}
    tg.launch(graded, 8, arguments, {"y": tg.zeros(8)}, {"x": g}, {"y": tg.ones(8)}, adjoint=True)
    assert np.array_equal(g.numpy(), 10.0 * X)


def test_the_interpreter_and_gpus_accept_constant_parameters() -> None:
    bound = counted.bind(n=7)
    types = (ArrayType(float32, 1),)
    launch = LaunchClass(1, 32, (False,), True, False)
    a = np.zeros(32, F)
    run(trace(bound, types, launch, (AccessClass(),)), [a], [32], 32)
    assert np.array_equal(a, np.full(32, 7, F))
    expected = Specialisation(types, launch, (AccessClass(),))
    kernel = trace(bound, types, launch, expected.access)
    prepare(kernel)
    actual = inspect_for_gpu(bound, expected, kernel, get_cuda_target("sm_90a"), {})
    assert str(0x40E00000) in actual.assembly()  # 7.0
    assert "n: the constant 7" in actual.text()
    with pytest.raises(WrongArguments, match="the value of 'n' is not known"):
        counted.check()
    assert counted.check(tg.array[float], 7).status == "no schedule"
    assert bound.trace(types, launch, (), library()).params


def test_bound_kernels_are_cached_and_pickled() -> None:
    counted.unload()
    a = np.zeros(4, F)
    for n in (1, 2, 1):
        tg.launch(counted, 4, [a, n])
    assert len(counted.compiled) == 2
    assert "n: the constant 2" in counted.explain()
    assert pickle.loads(pickle.dumps(counted.bind(n=2))) is counted.bind(n=2)


def test_constants_have_separate_entries_on_disk(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "kernel_cache_dir", str(tmp_path))
    a = np.zeros(4, F)
    for n in (11, 12, 11):
        counted.unload()
        tg.launch(counted, 4, [a, n])
        assert a[0] == n
    assert [form.from_cache for form in counted.compiled] == [True]
    assert len([p for p in tmp_path.iterdir() if not p.name.startswith(".")]) == 2


# Arguments by name, and defaults --------------------------------------------------------------------------------------


@tg.kernel
def affine(x: tg.array[float], y: tg.array[float], s: float = 2.0, c: float = 1.0):
    i = tg.tid()
    y[i] = x[i] * s + c


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        (["x"], ["y"], 2 * X + 1),
        (["x", "y", 3.0], [], 3 * X + 1),
        ({"x": "x", "y": "y", "c": 0.0}, (), 2 * X),
        ({"x": "x", "s": 1.0}, {"y": "y"}, X + 1),
        ({"s": 0.0, "c": 5.0}, ["x", "y"], 0 * X + 5),
        (["x"], {"y": "y", "c": 7.0}, 2 * X + 7),
    ],
)
def test_launches_take_arguments_by_name_and_by_default(
    inputs: Any, outputs: Any, expected: np.ndarray
) -> None:
    arrays = {"x": X, "y": np.zeros(8, F)}

    def with_arrays(part: Any) -> Any:
        if isinstance(part, dict):
            return {k: arrays.get(x, x) if isinstance(x, str) else x for k, x in part.items()}
        return [arrays.get(x, x) if isinstance(x, str) else x for x in part]

    tg.launch(affine, 8, with_arrays(inputs), with_arrays(outputs))
    assert np.array_equal(arrays["y"], expected)
    arrays["y"][:] = 0
    tg.launch_tiled(affine, [1], with_arrays(inputs), with_arrays(outputs), block_dim=8)
    assert arrays["y"][0] == expected[0]


def test_arguments_of_wrong_types_are_refused() -> None:
    y = np.zeros(8, F)
    for inputs, outputs, message in [
        ({"x": X, "z": y}, (), "kernel affine has no parameter 'z'"),
        ({"x": X}, {"x": y}, "argument 'x' is given twice"),
        ({"x": X}, (), r"kernel affine takes 4 arguments \(x, y, s, c\), got 1: without 'y'"),
        ([X], (), r"kernel affine takes 4 arguments \(x, y, s, c\), got 1"),
        ([X, y, 1.0, 2.0, 3.0], (), "got 5"),
        (tg.array(X), (), "inputs must be a list of arguments"),
    ]:
        with pytest.raises(LaunchError, match=message):
            tg.launch(affine, 8, inputs, outputs)


def test_functions_take_default_and_named_arguments() -> None:
    @tg.func
    def line(x: float, s: float = 2.0, n: tg.constexpr = 3):
        return x * s + float(n)

    @tg.kernel
    def k(y: tg.array[float]):
        y[0] = line(1.0)
        y[1] = line(1.0, n=5)
        y[2] = line(s=4.0, x=1.0)

        def inner(x: float, n: tg.constexpr):
            t = tg.tile_zeros(shape=n)
            return x + float(t.shape[0])

        y[3] = inner(1.0, 6)

    y = np.zeros(4, F)
    tg.launch(k, 1, [y])
    assert y.tolist() == [5.0, 7.0, 7.0, 7.0]


# None for arrays ------------------------------------------------------------------------------------------------------


@tg.func
def first(x: tg.array[float]):
    if x:
        return x[0]
    return -1.0


@tg.kernel
def optional(y: tg.array[float], a: tg.array[float], b: tg.array | None = None, c: Any = None):
    i = tg.tid()
    v = first(a)
    if a and i >= 0:
        v += a[i]
    if b is not None:
        v += 10.0 * b[i]
    if not c:
        v += 100.0
    y[i] = v


def test_none_is_accepted_for_arrays() -> None:
    y, ones = np.zeros(2, F), np.ones(2, F)
    for a, b, c, expected in [
        (None, None, None, 99.0),
        (ones, None, None, 102.0),
        (None, ones, None, 109.0),
        (ones, ones, tg.array(ones), 12.0),
    ]:
        tg.launch(optional, 2, [y, a, b, c])
        assert y.tolist() == [expected, expected]
    tg.launch(optional, 2, [y, ones])
    assert y[0] == 102.0


def test_errors_name_a_none_array_that_is_accessed() -> None:
    @tg.kernel
    def read(y: tg.array[float], a: tg.array[float]):
        y[0] = a[0]

    @tg.kernel
    def measured(y: tg.array[float], a: tg.array[float]):
        y[0] = float(a.shape[0])

    for kernel, error in ((read, TypeMismatch), (measured, UnknownAttribute)):
        with pytest.raises(error) as caught:
            tg.launch(kernel, 1, [X, None])
        assert "note: 'a' is None in this launch" in str(caught.value)
        assert "help: pass an array, or guard the access: if a is not None:" in str(caught.value)
    with pytest.raises(LaunchError, match="argument 's': expected float32, got None"):
        tg.launch(affine, 8, [X, X.copy(), None])


# Annotations ----------------------------------------------------------------------------------------------------------


@tg.func
def stack_count(s: tg.tile_stack(capacity=64, dtype=int)):
    return tg.tile_stack_count(s)


@tg.kernel
def annotated(n: tg.array[int], b: tg.array[float, Literal[2]], c: tg.array):
    i = tg.tid()
    s = tg.tile_stack(capacity=64, dtype=int)
    tg.tile_stack_push(s, i)
    n[i] = stack_count(s) + int(b[0, 1]) + len(c.shape)


def test_annotations_with_any_rank_are_accepted() -> None:
    n, b = np.zeros(8, np.int32), np.ones((2, 2), F)
    for c in (X, b, np.ones((1, 1, 1), np.int64)):
        tg.launch(annotated, 8, [n, b, c], block_dim=32)
        assert n.tolist() == [9 + c.ndim] * 8
    with pytest.raises(LaunchError, match=r"expected array2d\[float32\], got array1d\[float32\]"):
        tg.launch(annotated, 8, [n, X, b], block_dim=32)
    with pytest.raises(LaunchError, match="argument 'c': expected an array, got float"):
        tg.launch(annotated, 8, [n, b, 3.0], block_dim=32)


def test_a_stack_of_another_capacity_is_refused() -> None:
    @tg.kernel
    def k(n: tg.array[int]):
        n[0] = stack_count(tg.tile_stack(capacity=32, dtype=int))

    with pytest.raises(WrongArguments, match=r"must be tile_stack\(64, int32\), got tile_stack\(32, int32\)"):
        tg.launch(k, 8, [np.zeros(1, np.int32)], block_dim=32)


def test_invalid_annotations_are_refused() -> None:
    with pytest.raises(TypeError, match=r"tg\.array\[float, Literal\[2\]\]"):
        tg.array[float, 2]
    with pytest.raises(TypeError, match="capacity of a stack must be a positive integer"):
        tg.tile_stack(capacity=0, dtype=int)


# Recorded launches ----------------------------------------------------------------------------------------------------


def test_a_recorded_command_launches_again() -> None:
    y = np.zeros(8, F)
    command = tg.launch(affine, 8, {"x": X}, [y], record_cmd=True)
    assert isinstance(command, tg.Launch)
    assert not y.any()
    command.launch()
    assert np.array_equal(y, 2 * X + 1)
    command.set_param_by_name("s", 3.0)
    command.set_param_at_index(3, 0.0)
    command.set_dim(4)
    command.launch()
    assert np.array_equal(y, [*(3 * X[:4]), *(2 * X[4:] + 1)])
    command.set_params([y, y, 0.0, 1.0])
    command.set_dim((8,))
    command.launch()
    assert np.array_equal(y, np.ones(8, F))
    for wrong in (
        lambda: command.set_param_by_name("z", 1),
        lambda: command.set_param_at_index(4, 1),
        lambda: command.set_params([y]),
        lambda: tg.launch(3, 8, record_cmd=True),
    ):
        with pytest.raises(LaunchError):
            wrong()


def test_recorded_commands_of_adjoints_and_blocks_launch_again() -> None:
    x, y = tg.array(X), tg.zeros(8)
    g = tg.zeros(8)
    command = tg.launch(affine, 8, [x], [y], adj_outputs=[tg.ones(8)], adjoint=True, record_cmd=True)
    command.set_param_by_name("x", g, adjoint=True)
    command.launch()
    assert np.array_equal(g.numpy(), np.full(8, 2, F))
    b = np.zeros(8, F)
    command = tg.launch_tiled(mapped, 1, [X, b, 8], block_dim=32, record_cmd=True)
    command.set_param_by_name("op", tg.cos)
    command.launch()
    np.testing.assert_allclose(b, -np.cos(X), rtol=1e-6)


def test_tuned_kernels_accept_constant_parameters() -> None:
    @tg.autotune(BM=[4, 8])
    @tg.kernel
    def k(
        a: tg.array[float],
        b: tg.array[float],
        op: tg.constexpr,
        BM: tg.constexpr[int],
        c: tg.array[float] = None,
    ):
        for i in range(tg.static(8 // BM)):
            t = tg.tile_load(a, shape=BM, offset=i * BM)
            if c is not None:
                t = t + tg.tile_load(c, shape=BM, offset=i * BM)
            tg.tile_store(b, tg.tile_map(op, t), offset=i * BM)

    b = np.zeros(8, F)
    for op, numpy_function in ((tg.sin, np.sin), (tg.cos, np.cos)):
        tg.launch_tiled(k, 1, [X, b, op], block_dim=32)
        np.testing.assert_allclose(b, numpy_function(X), rtol=1e-5)
    tg.launch_tiled(k, 1, {"a": X, "op": tg.sin, "c": X}, [b], block_dim=32)
    np.testing.assert_allclose(b, np.sin(2 * X), rtol=1e-5)
    assert len(k.reports) == 3
