"""Structs on the host: values, their fields, arrays of them, and launches that take them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.runtime.cuda.memory import in_words
from tegula.runtime.element_range import ElementRange
from tegula.runtime.launch import plan
from tegula.types import scalar_of


@tg.struct
class Inner:
    """A struct that is nested in another one."""

    x: float
    v: tg.vec3


@tg.struct
class Outer:
    inner: Inner
    half: tg.float16
    flag: bool
    m: tg.mat22d
    data: tg.array2d[float]


@tg.struct
class Mixed:
    small: tg.int8
    inner: Inner
    wide: tg.float64
    flag: bool


def test_structs_start_as_zeros_and_convert_assigned_values() -> None:
    s = Outer()
    assert (s.inner.x, s.half, s.flag, s.data) == (0, 0, False, None) and not s.m.numpy().any()
    s.inner.x, s.inner.v, s.flag, s.m = 3, (1, 2, 3), True, [1, 2, 3, 4]
    s.half = 1 / 3
    assert s.inner.x == 3.0 and s.inner.v.dtype == tg.float32 and s.m.tolist() == [[1, 2], [3, 4]]
    assert s.half == float(np.float16(1 / 3)) and isinstance(s, Outer) and not isinstance(s, Inner)
    assert str(s.inner) == "Inner(x=3.0, v=[1.0, 2.0, 3.0])" and list(Outer.vars) == [
        "inner",
        "half",
        "flag",
        "m",
        "data",
    ]
    assert Inner.__doc__ == "A struct that is nested in another one."


def test_structs_are_constructed_by_position_or_name() -> None:
    s = Inner(3, (1, 2, 3))
    assert s.x == 3.0 and s.v == tg.vec3(1, 2, 3)
    second_struct = Inner(v=s.v, x=4)
    outer = Outer(second_struct, 0.5, True, [1, 2, 3, 4], None)
    second_struct.x = 9.0
    assert outer.inner.x == 4.0 and outer.m.tolist() == [[1, 2], [3, 4]] and outer.data is None


@pytest.mark.parametrize(
    ("args", "kwargs", "expected_message"),
    [
        ((1,), {}, "Inner has 2 fields, got 1 argument"),
        ((1, 2, 3), {}, "Inner has 2 fields, got 3 arguments"),
        ((1,), {"v": (1, 2, 3)}, "Inner has 2 fields, got 2 arguments"),
        ((), {"x": 1, "y": 2}, "Inner has no field 'y'"),
    ],
)
def test_structs_with_missing_fields_are_refused(args: Any, kwargs: Any, expected_message: str) -> None:
    with pytest.raises(tg.TegulaError, match="no-field") as refused:
        Inner(*args, **kwargs)
    assert expected_message in str(refused.value)
    assert "pass no fields or all fields: Inner(x, v), in order or all by name" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("haf", 1.0, "has no field 'haf'\nhelp: did you mean 'half'"),
        ("half", 1e9, "does not fit"),
        ("half", [1.0, 2.0], "holds a float16"),
        ("m", 1.0, "single value"),
        ("m", [1.0, 2.0, 3.0], "holds a mat22d"),
        ("inner", 1.0, "cannot be assigned a value of type float"),
        ("data", [1.0], "expects an array, got list"),
        ("data", tg.zeros((2, 2), dtype=int), "expects dtype float32, got int32"),
        ("data", tg.zeros(2), r"2 dimension\(s\), got 1"),
    ],
)
def test_values_that_do_not_fit_a_field_are_refused(name: str, value: Any, error: str) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError), match=error):
        setattr(Outer(), name, value)


def test_assignment_copies_a_struct() -> None:
    inner, s = Inner(), Outer()
    inner.x = 1.0
    s.inner = inner
    inner.x = 2.0
    assert s.inner.x == 1.0
    s.data = tg.ones((1, 1))
    t = Outer().assign(s)
    s.inner.x = 5.0
    assert t.inner.x == 1.0 and t.data is s.data and copy.copy(t).inner.x == 1.0
    assert t.to("cpu").data is s.data
    with pytest.raises(RuntimeError, match="a Outer cannot be assigned a value of type Inner"):
        t.assign(inner)


def test_invalid_struct_declarations_are_refused() -> None:
    with pytest.raises(RuntimeError, match="structs must be defined as base classes"):

        class Derived(Inner):
            y: float

    with pytest.raises(RuntimeError, match="structs must be defined as base classes"):

        @tg.struct
        class Subclass(dict):
            y: float

    with pytest.raises(
        TypeError, match=r"the field 'y' of the struct Text: <class 'str'> is neither a scalar, "
    ):

        @tg.struct
        class Text:
            y: str

    with pytest.raises(TypeError, match="cannot have the name 'assign'"):

        @tg.struct
        class ReservedField:
            assign: float


def test_structs_have_the_layout_of_c() -> None:
    layout = Mixed.numpy_dtype()
    offsets = {name: layout.fields[name][1] for name in layout.names}
    assert offsets == {"small": 0, "inner": 4, "wide": 24, "flag": 32} and layout.itemsize == 40
    assert layout["inner"]["v"] == np.dtype((np.float32, 3))
    s = Mixed()
    s.small, s.inner.v, s.flag = -3, (1, 2, 3), True
    assert s.numpy_value() == (-3, (0.0, [1.0, 2.0, 3.0]), 0.0, True)


@tg.struct
class WithArrays:
    flag: tg.int8
    data: tg.array[float]
    chosen: tg.indexedarray[float]
    tag: tg.int32


def test_fields_with_arrays_are_aligned_in_arrays_of_structs() -> None:
    """GPUs fault if an access of eight bytes is not aligned to eight bytes."""
    a = tg.zeros(3, dtype=WithArrays)
    assert a.strides[0] % 8 == 0
    for leaf in a.leaves:
        size = scalar_of(leaf.dtype).bits // 8
        assert leaf.ptr % size == 0 and leaf.strides[0] % size == 0, leaf.dtype


@tg.struct
class Six:
    a: tg.vec3
    b: tg.vec3


def test_arrays_of_structs_at_an_address_need_the_alignment_of_their_fields() -> None:
    a = tg.array(np.arange(24, dtype=np.float32).view(Six.numpy_dtype()), dtype=Six)
    b = tg.array(ptr=a.ptr + a.strides[0], dtype=Six, shape=2)
    np.testing.assert_array_equal(b.numpy(), a.numpy()[1:3])
    with pytest.raises(ValueError, match="not aligned"):
        tg.array(ptr=a.ptr + 2, dtype=Six, shape=2)


def test_arrays_of_structs_are_created_from_values_and_structured_data() -> None:
    values = [Mixed() for _ in range(3)]
    for k, s in enumerate(values):
        s.small, s.inner.v = k, (k, 0, 1)
    a = tg.array(values, dtype=Mixed)
    assert a.shape == (3,) and a.numpy()["inner"]["v"].tolist() == [[k, 0, 1] for k in range(3)]
    data = a.numpy().copy()
    shared = tg.array(data, dtype=Mixed, copy=False)
    data["wide"] = 7
    assert (shared.numpy()["wide"] == 7).all() and (tg.array(data, dtype=Mixed).numpy() == data).all()
    packed = data.astype([(name, data.dtype[name]) for name in data.dtype.names])
    assert (tg.array(packed, dtype=Mixed).numpy() == data).all()
    assert tg.array([values, values], dtype=Mixed).shape == (2, 3)
    assert (tg.full(2, values[2], dtype=Mixed).numpy() == a.numpy()[2]).all()
    a.assign([values[1]] * 3)
    assert (a.numpy()["small"] == 1).all() and not tg.zeros(2, dtype=Mixed).numpy()["flag"].any()
    with pytest.raises(ValueError, match="values of a struct with the fields small, inner, wide, flag"):
        tg.array([1.0, 2.0], dtype=Mixed)
    restored = pickle.loads(pickle.dumps(a))
    assert restored.dtype is Mixed and (restored.numpy() == a.numpy()).all()
    assert (copy.deepcopy(a).numpy() == a.numpy()).all()


def test_local_structs_are_not_pickled() -> None:
    @tg.struct
    class Local:
        x: float

    with pytest.raises(pickle.PicklingError, match="'Local' cannot be pickled"):
        pickle.dumps(Local())
    assert pickle.loads(pickle.dumps(Mixed())).small == 0


@tg.kernel
def filled(s: Outer, a: tg.array[Mixed], b: tg.array[Any], c: Any, n: int):
    i = tg.tid()
    a[i].inner.x = s.inner.x + s.data[0, 0] + float(n)
    b[i] = c
    a[i].wide = tg.float64(b[i].x)


@pytest.mark.machine_code
def test_launches_take_structs_for_parameters_of_any_type() -> None:
    s, c = Outer(), Inner()
    s.inner.x, s.data, c.x = 2.0, tg.full((1, 1), 3.0), 9.0
    a, b = tg.zeros(4, dtype=Mixed), tg.zeros(4, dtype=Inner)
    for _ in range(2):
        tg.launch(filled, 4, inputs=[s, a, b, c, 1])
    assert a.numpy()["inner"]["x"].tolist() == [6.0] * 4 and a.numpy()["wide"].tolist() == [9.0] * 4
    assert (b.numpy()["x"] == 9).all()


@pytest.mark.parametrize(
    ("index", "value", "error"),
    [
        (0, Inner(), "argument 's': expected a value of the struct Outer, got Inner"),
        (0, 1.0, "argument 's': expected a value of the struct Outer, got float"),
        (1, tg.zeros(4, dtype=Inner), r"argument 'a': expected array1d\[Mixed\], got array1d\[Inner\]"),
        (1, tg.zeros(4), r"argument 'a': expected array1d\[Mixed\], got array1d\[float32\]"),
    ],
)
def test_launches_refuse_other_structs(index: int, value: Any, error: str) -> None:
    s = Outer()
    s.data = tg.zeros((1, 1))
    args: list[Any] = [s, tg.zeros(4, dtype=Mixed), tg.zeros(4, dtype=Inner), Inner(), 1]
    args[index] = value
    with pytest.raises(tg.LaunchError, match=error):
        tg.launch(filled, 4, inputs=args)


def test_a_wrong_number_of_arguments_is_counted_as_written() -> None:
    with pytest.raises(tg.LaunchError, match=r"filled takes 5 arguments \(s, a, b, c, n\), got 1"):
        tg.launch(filled, 4, inputs=[Outer()])


def struct_named_ball():
    return tg.struct(type("Ball", (), {"__annotations__": {"x": float}}))


FIRST, SECOND = struct_named_ball(), struct_named_ball()


@tg.kernel
def scale_first(balls: tg.array[FIRST], ball: FIRST, y: tg.array[float]):
    y[0] = balls[0].x + ball.x


@pytest.mark.parametrize(("balls", "ball", "name"), [(SECOND, FIRST, "balls"), (FIRST, SECOND, "ball")])
def test_launches_distinguish_structs_of_one_name(balls: Any, ball: Any, name: str) -> None:
    with pytest.raises(tg.LaunchError) as caught:
        tg.launch(scale_first, 1, inputs=[tg.zeros(2, dtype=balls), ball(), tg.zeros(1)])
    message = f"argument '{name}' has a struct Ball that is not the struct of the annotation"
    help = "after a new definition of Ball, define its kernels again and create new values"
    assert str(caught.value) == f"error[launch]: kernel scale_first: {message}\nhelp: {help}"


@pytest.mark.machine_code
def test_launches_with_arrays_of_structs_take_the_fast_path() -> None:
    @tg.kernel
    def scaled(a: tg.array[Inner], f: float):
        i = tg.tid()
        a[i].x *= f

    a = tg.array(np.ones(3, Inner.numpy_dtype()), dtype=Inner)
    tg.launch(scaled, 3, inputs=[a, 2.0])
    assert scaled.kernel_of_leaves().fast_path(plan((3,), 256), (*a.leaves, 2.0)) is not None
    tg.launch(scaled, 3, inputs=[a, 2.0])
    assert a.numpy()["x"].tolist() == [4.0] * 3


@pytest.mark.machine_code
def test_arrays_of_structs_with_arrays_move_between_devices() -> None:
    @tg.kernel
    def reversed_order(a: tg.array[Outer], b: tg.array[Outer]):
        i = tg.tid()
        b[i] = a[a.shape[0] - 1 - i]

    values = [Outer() for _ in range(2)]
    for s in values:
        s.data = tg.ones((2, 3))
    a, b = tg.array(values, dtype=Outer), tg.zeros(2, dtype=Outer)
    tg.launch(reversed_order, 2, inputs=[a, b])
    actual = b.numpy()["data"]
    assert actual["data"].tolist() == [values[1].data.ptr, values[0].data.ptr]
    assert actual["shape"].tolist() == [[2, 3]] * 2 and actual["ndim"].tolist() == [2, 2]


def test_memory_of_structs_is_copied_in_words() -> None:
    data = np.zeros((4, 6), Mixed.numpy_dtype())
    data["inner"]["x"] = np.arange(24).reshape(4, 6)
    part = data[::2, ::-3]
    words = in_words(part)
    assert words.dtype == np.uint64 and words.shape == (2, 2, 5)
    assert (np.frombuffer(words.tobytes(), part.dtype).reshape(2, 2) == part).all()


@pytest.mark.parametrize(
    ("a", "b", "overlap"),
    [
        ((0, 4, 16), (4, 12, 16), False),
        ((0, 4, 16), (4, 12, 8), True),
        ((0, 8, 16), (4, 4, 16), True),
        ((0, 4, 16), (32, 4, -16), True),
        ((0, 4, 16), (36, 4, -16), False),
        ((0, 4, 24), (4, 4, 36), False),
        ((0, 4, 24), (12, 4, 36), True),
    ],
)
def test_interleaved_arrays_share_no_bytes(
    a: tuple[int, int, int], b: tuple[int, int, int], overlap: bool
) -> None:
    memory = np.zeros(512, np.uint8)

    def array(start: int, size: int, step: int) -> tg.array:
        data = np.lib.stride_tricks.as_strided(memory[start:].view(np.float32), (4, size // 4), (step, 4))
        return tg.array(data, dtype=tg.types.vector(size // 4, float) if size > 4 else None, copy=False)

    first, second = (ElementRange.of(array(*x)) for x in (a, b))
    assert first.overlaps(second) == second.overlaps(first) == overlap


# Arrays in structs ----------------------------------------------------------------------------------------------------


@tg.struct
class Rows:
    """A struct with an indexed array and one that may be None."""

    picked: tg.indexedarray[float]
    weights: tg.array[float] | None
    scale: float


@tg.struct
class Nested:
    rows: Rows
    shift: float


@tg.kernel
def weighted(s: Nested, out: tg.array[float]):
    i = tg.tid()
    x = s.rows.picked[i] * s.rows.scale + s.shift
    if s.rows.weights:
        x *= s.rows.weights[i]
    out[i] = x


def nested(data: tg.array) -> Nested:
    s = Nested()
    s.rows.picked, s.rows.scale, s.shift = tg.indexedarray(data, [[2, 0]]), 3.0, 1.0
    return s


@pytest.mark.machine_code
def test_structs_hold_indexed_arrays_and_absent_arrays() -> None:
    data, out = tg.array([1.0, 2.0, 4.0], requires_grad=True), tg.zeros(2, requires_grad=True)
    s = nested(data)
    tg.launch(weighted, 2, inputs=[s, out])
    assert out.numpy().tolist() == [13.0, 4.0]
    s.rows.weights = tg.array([10.0, 100.0], requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(weighted, 2, inputs={"s": s}, outputs=[out])
    assert out.numpy().tolist() == [130.0, 400.0]
    out.grad.fill_(1.0)
    tape.backward()
    assert data.grad.numpy().tolist() == [300.0, 0.0, 30.0]
    assert s.rows.weights.grad.numpy().tolist() == [13.0, 4.0]
    s.rows.weights = None
    out.grad.fill_(1.0)
    tg.launch(weighted, 2, inputs=[s], outputs=[out], adjoint=True)
    assert data.grad.numpy().tolist() == [303.0, 0.0, 33.0]


@pytest.mark.machine_code
def test_numbers_of_numpy_in_fields_take_the_fast_path() -> None:
    s = nested(tg.array([1.0, 2.0, 4.0]))
    s.rows.scale, s.rows.weights = np.float32(3), tg.ones(2)
    out = tg.zeros(2)
    tg.launch(weighted, 2, inputs=[s, out])
    leaves = weighted.flatten_arguments((s, out))
    assert leaves is not None and type(leaves[-3]) is float
    assert weighted.kernel_of_leaves().fast_path(plan((2,), 256), leaves) is not None


def test_errors_about_absent_arrays_of_structs_name_the_arrays() -> None:
    @tg.kernel
    def read(s: Nested, all: tg.array[Inner], rows: tg.indexedarray[float], out: tg.array[float]):
        i = tg.tid()
        out[i] = s.rows.weights[i] + all[i].x + rows[i]

    with pytest.raises(tg.CompileError, match=r"None cannot be indexed") as caught:
        tg.launch(read, 2, inputs=[nested(tg.zeros(3)), None, None, tg.zeros(2)])
    text = str(caught.value)
    assert text.count("is None in this launch") == 3 and "if s.rows.weights is not None:" in text
    assert all(f"'{name}' is None" in text for name in ("s.rows.weights", "all", "rows"))


def test_a_field_accepts_arrays_of_its_declared_kind() -> None:
    with pytest.raises(TypeError, match="expects an indexed array, got array"):
        Rows().picked = tg.zeros(2)
    with pytest.raises(TypeError, match="expects an array, got indexedarray"):
        Rows().weights = tg.indexedarray(tg.zeros(2), [[0]])
    with pytest.raises(TypeError, match="expects dtype float32, got int32"):
        Rows().picked = tg.indexedarray(tg.zeros(2, dtype=int), [[0]])


@pytest.mark.machine_code
def test_indexed_arrays_in_elements_are_moved_with_their_indices() -> None:
    @tg.kernel
    def swapped(a: tg.array[Rows], b: tg.array[Rows]):
        i = tg.tid()
        b[1 - i] = a[i]

    s = Rows()
    s.picked = tg.indexedarray(tg.zeros(3), [[2, 0]])
    a, b = tg.array([s, Rows()], dtype=Rows), tg.zeros(2, dtype=Rows)
    tg.launch(swapped, 2, inputs=[a, b])
    actual = b.numpy()["picked"]
    assert actual["data"].tolist() == [0, s.picked.data.ptr] and actual["shape"].tolist() == [[0], [3]]
    assert actual["indices"].tolist() == [[0], [s.picked.indices[0].ptr]]
    assert s.to("cpu").picked is s.picked


def test_fields_bound_to_different_arrays_by_branches_are_refused_by_name() -> None:
    @tg.kernel
    def either(s: Nested, t: Nested, out: tg.array[float]):
        i = tg.tid()
        u = s
        if i > 0:
            u = t
        out[i] = u.rows.picked[i]

    s = nested(tg.zeros(3))
    with pytest.raises(tg.CompileError, match=r"'u.rows.picked' is bound to different arrays"):
        tg.launch(either, 2, inputs=[s, s, tg.zeros(2)])


@pytest.mark.machine_code
def test_vectors_and_matrices_take_the_fast_path() -> None:
    @tg.kernel
    def moved_by(m: tg.mat22, v: tg.vec2, out: tg.array[tg.vec2]):
        out[tg.tid()] = m * v

    m, v, out = tg.mat22(1.0, 2.0, 3.0, 4.0), tg.vec2(5.0, 6.0), tg.zeros(1, dtype=tg.vec2)
    tg.launch(moved_by, 1, inputs=[m, v, out])
    assert moved_by.fast_path(plan((1,), 256), (m, v, out)) is not None
    assert moved_by.fast_path(plan((1,), 256), (m, tg.vec2d(5.0, 6.0), out)) is None
    tg.launch(moved_by, 1, inputs=[m, v, out])
    assert out.numpy().tolist() == [[17.0, 39.0]]
