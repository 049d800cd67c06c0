"""Objects of Python that kernels capture for their attributes, and static expressions of shapes and dtypes."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import tegula as tg
from tegula.ir import LaunchClass
from tegula.runtime.library import library
from tegula.types import ArrayType

Pair = namedtuple("Pair", "a b")


class Sizes(NamedTuple):
    rows: int = 3
    scale: float = 0.5
    pair: Pair = Pair(2.0, 3)


@dataclass(frozen=True)
class Options:
    sizes: Sizes
    shift: float

    @property
    def twice(self) -> float:
        return 2 * self.shift


class Colour(Enum):
    RED = 4


OPTIONS, SETTINGS = Options(Sizes(), 10.0), SimpleNamespace(step=100.0)


@tg.kernel
def reads_attributes(out: tg.array[float]):
    a, b = OPTIONS.sizes.pair
    total = a + float(b) + OPTIONS.sizes[1] + OPTIONS.sizes.pair.a
    for _ in range(OPTIONS.sizes.rows):
        total += OPTIONS.twice
    for x in OPTIONS.sizes.pair:
        total += float(x)
    out[tg.tid()] = total + SETTINGS.step + float(Colour.RED.value)


@tg.kernel
def takes_constants(out: tg.array[float], options: tg.constexpr, pair: tg.constexpr):
    out[tg.tid()] = options.shift + pair.a


@tg.kernel
def reads_static_shapes(v: tg.vec3, a: tg.array2d[float], out: tg.array[float]):
    m = tg.identity(n=tg.static(len(v) + 1), dtype=tg.static(a.dtype))
    t = tg.tile_zeros(shape=(4, tg.static(a.ndim)), dtype=float)
    total = m[3, 3]
    for k in range(tg.static(len(v))):
        total += v[k]
    out[tg.tid()] = total + float(tg.static(t.shape[1] * 10))


@pytest.mark.machine_code
def test_named_tuples_dataclasses_and_enumerations_are_read_by_attribute() -> None:
    out = tg.zeros(1)
    tg.launch(reads_attributes, 1, inputs=[out])
    assert out.item() == 2.0 + 3.0 + 0.5 + 2.0 + 3 * 20.0 + 5.0 + 100.0 + 4.0


@pytest.mark.machine_code
def test_the_next_launch_uses_a_changed_captured_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    out = tg.zeros(1)
    tg.launch(reads_attributes, 1, inputs=[out])
    first_result = out.item()
    monkeypatch.setattr(SETTINGS, "step", 200.0)
    tg.launch(reads_attributes, 1, inputs=[out])
    assert out.item() == first_result + 100.0


@pytest.mark.machine_code
def test_constants_of_a_kernel_may_be_dataclasses_and_named_tuples() -> None:
    out = tg.zeros(1)
    for options, pair, expected in (
        (OPTIONS, Pair(1.0, 2), 11.0),
        (Options(Sizes(), 20.0), Pair(1.0, 2), 21.0),
        (OPTIONS, Pair(5.0, 2), 15.0),
    ):
        tg.launch(takes_constants, 1, inputs=[out, options, pair])
        assert out.item() == expected


@pytest.mark.machine_code
def test_lengths_shapes_and_dtypes_of_values_are_static() -> None:
    out = tg.zeros(1)
    tg.launch(reads_static_shapes, 1, inputs=[tg.vec3(1.0, 2.0, 3.0), tg.zeros((1, 1)), out], block_dim=1)
    assert out.item() == 1.0 + 6.0 + 20.0


@tg.kernel
def constructs_types(out: tg.array[float]):
    v = tg.types.vector(length=3, dtype=float)
    v[1] = 2.0
    m = tg.types.matrix(shape=(2, 2), dtype=float)
    m[1, 0] = 3.0
    out[0] = v[0] + v[1] + v[2] + m[1, 0] + m[0, 1] + tg.types.quaternion(1.0, 0.0, 0.0, 5.0)[3]


@pytest.mark.machine_code
def test_kernels_call_functions_that_return_types() -> None:
    out = tg.zeros(1)
    tg.launch(constructs_types, 1, inputs=[out])
    assert out.item() == 10.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = OPTIONS.sizes.row", "has no attribute 'row'\n.*\n.*\nhelp: did you mean 'rows'"),
        ("x = OPTIONS.shft", "Options has no attribute 'shft'\n.*\n.*\nhelp: did you mean 'shift'"),
        ("out[0] = OPTIONS", "got the Python object Options"),
        ("x = OPTIONS.sizes.count(1)", "a named tuple has no attribute 'count'"),
        ("x = tg.static(len(out))", r"'len\(out\)' must be a compile-time constant"),
        ("x = tg.static(out.shape[0])", "'out.shape' must be a compile-time constant"),
        ("x = tg.static(v[0] + 1.0)", "'v' must be a compile-time constant"),
        ("x = out[0] + tg.sin", "is not defined for sin"),
    ],
)
def test_invalid_uses_of_captured_objects_are_refused(line: str, message: str) -> None:
    text = f"def k(v: tg.vec3, out: tg.array[float]):\n    {line}\n"
    space = dict(globals())
    exec(text, space)
    with pytest.raises(tg.CompileError, match=message):
        types = [tg.vec3, ArrayType(tg.float32, 1)]
        tg.kernel(source=text)(space["k"]).trace(
            types, LaunchClass(1, 64, (False,), False, False), (), library()
        )
