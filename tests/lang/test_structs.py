"""Structs in the language: invalid uses in kernels, and the errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tegula as tg
from tegula.ir import Kernel, LaunchClass
from tegula.lang.annotations import array_annotation
from tegula.lang.structs import leaf_parameters
from tegula.runtime.library import library
from tegula.types import ArrayType


@tg.struct
class Body:
    mass: float
    position: tg.vec3
    kind: tg.int8


@tg.struct
class Other:
    mass: float


@tg.struct
class Holder:
    body: Body
    data: tg.array[float]


@tg.func
def mass(b: Body) -> float:
    return b.mass


@tg.func
def first(a: Body, b: Body) -> float:
    return a.mass


@tg.func
def printed(b: Body) -> Body:
    print(b.mass)
    return b


TYPES = [array_annotation(Body, 1), array_annotation(Other, 1), array_annotation(float, 1), Holder]


def traced(body: str) -> Kernel:
    """The IR of a kernel with arrays of Body, Other and float, and with a Holder."""
    lines = "\n".join("    " + line for line in body.splitlines())
    text = f"def k(a: tg.array[Body], o: tg.array[Other], x: tg.array[float], h: Holder):\n    i = tg.tid()\n{lines}\n"
    namespace: dict[str, Any] = dict(globals())
    exec(text, namespace)
    kernel = tg.kernel(source=text)(namespace["k"])
    leaves = [p.annotation for p in leaf_parameters(kernel.definition.parameters)]
    types = [ArrayType(t.dtype, t.ndim) if hasattr(t, "ndim") else t for t in leaves]
    return kernel.trace(types, LaunchClass(1, 64, (False,), False, False), (), library())


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("s = a[i] + a[i]", tg.CompileError, "'a[i] + a[i]' is not defined for Body"),
        ("s = a[i] == a[i]", TypeError, "cannot compare Body and Body"),
        ("if a[i]:\n    x[i] = 1.0", TypeError, "a condition must be a scalar, got Body"),
        ("p, q, r = a[i]", TypeError, "cannot unpack Body"),
        ("x[i] = a[i][0]", TypeError, "a value of the struct Body has no items"),
        ("x[i] = a[i].mas", AttributeError, "Body has no attribute 'mas' ... did you mean 'mass'?"),
        ("a[i].weight = 1.0", AttributeError, "Body has no attribute 'weight' ... choose from: kind, mass, position"),
        ("x[i] = a.mass", AttributeError, "has no attribute 'mass' ... take the field of an element: a[i].mass"),
        ("s = Body(1.0, tg.vec3())", TypeError, "Body has 3 fields, got 2 arguments ... Body(mass, position, kind)"),
        ("s = Other(weight=1.0)", TypeError, "Other has no field 'weight'"),
        ("s = Other(1)", TypeError, "the field 'mass' holds float32, but the value is 1 ... write 1.0"),
        ("s = Body()\ns.position = Other()", TypeError, "the field 'position' holds vec3, but the value is Other"),
        ("a[i] = Other()", TypeError, "array1d[Body] holds values of Body, but the value is Other"),
        ("a[i] += a[i]", TypeError, "operators are not defined for values of the struct Body ... a[i].x += 1.0"),
        ("tg.atomic_add(a, i, a[i])", TypeError, "atomic_add does not take values of the struct Body"),
        ("s = Body()\nif i > 1:\n    s = Other()\nx[i] = s.mass", tg.CompileError, "Body on another"),
        ("for k in range(3):\n    h.data = x\nx[i] = h.data[0]", tg.CompileError, "'h'"),
        ("s = mass(o[i])", TypeError, "argument 'b' of mass must be Body, got Other"),
        ("t = tg.tile_ones(4, dtype=Body)", TypeError, "tile_ones does not take values of the struct Body"),
        ("t = tg.tile_arange(4, dtype=Body)", TypeError, "tile_arange() requires a numeric scalar dtype, got Body"),
        ("t = tg.tile_min(tg.tile_load(a, 4))", TypeError, "tile_min does not take values of the struct Body"),
        (
            "t = tg.tile_argmin(tg.tile_load(a, 4))",
            TypeError,
            "tile_argmin: 'a' must not be a tile of structs, got one of the struct Body",
        ),
        ("t = tg.sin(tg.tile_load(a, 4))", TypeError, "no overload accepts sin(tile[Body, 4])"),
        ("t = tg.tile_load(a, 4) * 2.0", TypeError, "'*' is not defined for tiles of structs ... are + and -"),
        ("t = tg.tile_load(a, 4)\nt |= t", TypeError, "bitwise inplace operators are not defined for tiles"),
        ("t = tg.tile_load(a, 4)\nt[0] &= a[0]", TypeError, "bitwise inplace operators are not defined"),
        ("t = tg.tile_load(a, 4)\nt += tg.tile_load(o, 4)", TypeError, "the value is tile[Other, 4]"),
        ("tg.tile_store(x, tg.tile_load(a, 4))", TypeError, "tile_store: 'a' must be of the struct Body"),
        ("tg.tile_store(o, tg.tile_load(a, 4))", TypeError, "the arguments are of different structs: Other and Body"),
        ("t = tg.tile_reduce(tg.min, tg.tile_load(a, 4))", TypeError, "tile_reduce: no overload of 'min' takes two"),
        ("t = tg.tile_reduce(first, tg.tile_load(a, 4))", TypeError, "must return the tile element type"),
        ("t = tg.tile_reduce(first, tg.tile_load(a, 4), axis=0)", TypeError, "only over all elements"),
        ("t = tg.tile_map(printed, tg.tile_load(a, 4))", TypeError, "the function can neither print nor change memory"),
        ("t = tg.tile_zeros(4, dtype=Holder)\nx[i] = t[0].data[0]", TypeError, "kernels cannot read"),
        ("t = tg.tile_full(4, value=h, dtype=Holder)", TypeError, "is an array, which kernels cannot store"),
    ],
)  # fmt: skip
def test_invalid_uses_of_structs_are_refused(body: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        traced(body)
    pattern = ".*".join(re.escape(part) for part in message.split(" ... "))
    assert re.search(pattern, str(caught.value), re.S), caught.value


def test_reading_one_field_of_an_element_loads_no_other_field() -> None:
    kernel = traced("x[i] = a[i].position.y\na[i].mass += 1.0\nq = h.body")
    ops = [op.NAME for op in kernel.walk()]
    assert ops.count("array.load") == 1 and ops.count("array.atomic") == 1


def test_unchanged_fields_of_structs_are_not_carried_by_loops() -> None:
    kernel = traced("for k in range(3):\n    h.body.mass += h.data[k]\nx[i] = h.body.mass")
    (loop,) = [op for op in kernel.walk() if op.NAME == "for"]
    assert [str(v.type) for v in loop.results] == ["float32", "vec3", "int8"]


def test_a_map_to_structs_becomes_one_map_for_each_leaf() -> None:
    kernel = traced("def f(b: Body): return Other(b.mass * 2.0)\nt = tg.tile_map(f, tg.tile_load(a, 4))")
    assert [op.NAME for op in kernel.walk()].count("tile.map") == 1
