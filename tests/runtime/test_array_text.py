"""Arrays as text, and their elements as values of the host."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg


@tg.struct
class Point:
    """A struct with numbers in each kind of field."""

    where: tg.vec2
    kind: tg.int8
    seen: bool


@tg.struct
class Pair:
    """A struct of structs."""

    first: Point
    mass: float


@tg.struct
class Holder:
    """A struct with an array."""

    data: tg.array[float]


def test_repr_has_the_elements_and_the_layout_of_an_array() -> None:
    assert repr(tg.array([1, 2])) == "tg.array([1, 2], shape=(2,), dtype=int32, device=cpu)"
    lines = "tg.array([[1., 2.],\n          [3., 4.]], shape=(2, 2), dtype=float32, device=cpu)"
    assert repr(tg.array([[1.0, 2.0], [3.0, 4.0]])) == lines
    text = repr(tg.zeros(1, dtype=tg.vec2, requires_grad=True))
    assert text == "tg.array([[0., 0.]],\n         shape=(1,), dtype=vec2, device=cpu, requires_grad=True)"
    assert repr(tg.zeros((2, 0))) == "tg.array([], shape=(2, 0), dtype=float32, device=cpu)"
    picked = tg.indexedarray(tg.array([5, 6, 7]), [[2, 0]])
    assert repr(picked) == "tg.indexedarray([7, 5], shape=(2,), dtype=int32, device=cpu)"


@pytest.mark.parametrize("shape", [(5000,), (50, 100), (3, 7, 100), (2, 600, 1), (4, 5, 6, 70)])
def test_long_arrays_are_printed_like_numpy_arrays(shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(1).integers(-9, 100, shape).astype(np.int32)
    assert str(tg.array(data)) == str(data)
    assert str(tg.array(data)[::-1]) == str(data[::-1])


def test_long_arrays_are_not_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    read_all = tg.array.numpy
    monkeypatch.setattr(tg.array, "numpy", lambda a: (sizes.append(a.size), read_all(a))[1])
    a = tg.zeros((2000, 30))
    repr(a)
    assert max(n for n in sizes if n != a.size) == 9


def test_one_element_arrays_take_a_format() -> None:
    a = tg.array([1.25, 2.0])
    assert f"{a[0]:.1f} {a}" == "1.2 [1.25 2.  ]"
    with pytest.raises(
        TypeError, match=r"the format '.1f' applies to one number, but the array has shape \(2,\)"
    ):
        f"{a:.1f}"


def test_elements_of_structs_are_values_on_the_host() -> None:
    s = Pair()
    s.first.where, s.first.kind, s.first.seen, s.mass = (1.0, 2.0), -3, True, 0.5
    a = tg.array([[s, Pair()]], dtype=Pair)
    actual = a[0, 0].item()
    assert isinstance(actual, Pair) and str(actual) == str(s)
    ((first, second),) = a.tolist()
    assert str(first) == str(s) and second.mass == 0.0
    assert [x.kind for x in tg.zeros(2, dtype=Point).list()] == [0, 0]
    with pytest.raises(TypeError, match="'data' is an array"):
        tg.zeros(1, dtype=Holder).item()


def test_reshape_and_transpose_take_separate_arguments() -> None:
    a = tg.array(np.arange(24, dtype=np.float32).reshape(2, 3, 4), requires_grad=True)
    assert a.reshape(4, -1).shape == a.reshape((4, 6)).shape == (4, 6)
    assert (a.transpose(2, 0, 1).numpy() == a.numpy().transpose(2, 0, 1)).all()
    assert a.transpose(2, 0, 1).grad.shape == (4, 2, 3) and a.reshape(6, 4).grad.shape == (6, 4)


@pytest.mark.machine_code
def test_parts_of_indexed_arrays_are_printed() -> None:
    data = np.arange(12, dtype=np.float32).reshape(3, 4)
    a = tg.array(data)
    picked = tg.indexedarray(a, [[2, 0], None])
    expected = data[[2, 0]]
    for index in (0, -1, slice(1, None), (0, 1), (slice(None), 2), (slice(None, None, -1), slice(1, 3))):
        assert (picked[index].numpy() == expected[index]).all()
    assert picked.tolist() == expected.tolist() and [x.tolist() for x in picked] == expected.tolist()
    picked[0, 1] = 50.0
    picked[1] += 1.0
    assert a.numpy()[2, 1] == 50.0 and a.numpy()[0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert picked[0:1, 1:2].item() == 50.0
    for wrong in ((0, 0, 0), 1.0, None, True):
        with pytest.raises(IndexError, match="2 dimensions cannot be indexed"):
            picked[wrong]
    with pytest.raises(IndexError, match="out of bounds"):
        picked[2]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([0, 1], r"arrays of int32: a\[tg.array"),
        (np.array([True, False]), "masks need"),
        (1.0, "whole numbers"),
    ],
)
def test_errors_of_invalid_indices_name_valid_indices(index: object, message: str) -> None:
    with pytest.raises(IndexError, match=message):
        tg.zeros(2)[index]
