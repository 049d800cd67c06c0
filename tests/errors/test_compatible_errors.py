"""The classes and words of errors that programs written for other tile languages look for."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import tegula as tg
from tegula.ir import LaunchClass
from tegula.runtime.library import library
from tegula.types import ArrayType, BufType, MbarrierType, NamedBarrierType, PipeType, StackType, TileType

VECTORS, NUMBERS = ArrayType(tg.vec3, 1), ArrayType(tg.float32, 1)
numbers = count()

WrongProgram = tuple[type[Exception] | tuple[type[Exception], ...], str, str, list[Any]]
"""The classes of an error, words of its message, the body of a kernel, and the types of its parameters a, b, ..."""

WRONG_PROGRAMS: list[WrongProgram] = [
    (
        ValueError,
        r"tile_broadcast\(\) output must have between one and four dimensions, got 5",
        "tg.tile_broadcast(tg.tile_zeros(4), (1, 1, 1, 1, 4))",
        [],
    ),
    *(
        (
            ValueError,
            rf"tile_squeeze\(\) axis {axis} is out of bounds for tile with 3 dimensions",
            f"tg.tile_squeeze(tg.tile_zeros((1, 2, 1)), axis={axis})",
            [],
        )
        for axis in (3, -4)
    ),
    *(
        (
            ValueError,
            words,
            f"tg.tile_matmul(tg.tile_zeros((8, 8)), tg.tile_zeros((8, 8)), precision={argument})",
            types,
        )
        for words, argument, types in (
            ("precision must be the string literal 'default' or 'tf32', got 'tf31'", "'tf31'", []),
            (
                "precision must be the string literal 'default' or 'tf32', got a non-literal argument",
                "a",
                [tg.int32],
            ),
        )
    ),
    *(
        (TypeError, words, f"t = tg.tile_load(a, shape=4)\nu = {text}", [VECTORS])
        for words, text in (
            (r"Cannot divide tile<.*> by .*: at least one operand must be a scalar type", "t / tg.vec3(1.0)"),
            (r"Cannot divide .* by tile<.*>: at least one operand must be a scalar type", "tg.vec3(1.0) / t"),
            (
                r"Cannot multiply tile<.*> by .*: at least one operand must be a scalar type",
                "t * tg.vec3(1.0)",
            ),
            (
                r"Cannot multiply .* by tile<.*>: at least one operand must be a scalar type",
                "tg.vec3(1.0) * t",
            ),
            (r"element type must be scalar", "t * t"),
            (r"element type must be scalar", "t / t"),
        )
    ),
    *(
        (TypeError, "does not support complex tiles", f"t = tg.tile_zeros((4, 4), dtype=tg.{t})\n{text}", [])
        for t in ("vec2h", "vec2f", "vec2d")
        for text in (
            "tg.tile_matmul(t, t)",
            "tg.tile_matmul(t, t, t)",
            "tg.tile_matmul(t, t, t, precision='tf32')",
        )
    ),
    *(
        ((RuntimeError, ValueError), words, f"tg.tile_arange({argument})", [])
        for words, argument in (
            ("tile_arange.*step cannot be zero", "0, 10, 0, dtype=int"),
            ("tile_arange.*step cannot be zero", "0.0, 1.0e-46, 1.0e-46, dtype=tg.float32"),
            ("non-empty range|zero-length", "5, 5, dtype=int"),
            ("non-empty range|zero-length", "0, -5, dtype=int"),
            ("non-empty range|zero-length", "0, 10, -1, dtype=int"),
            ("has too many elements to count", "0.0, 1.0, 5.0e-324, dtype=tg.float64"),
            ("has too many elements to count", "0.0, float('inf'), 1.0, dtype=tg.float32"),
        )
    ),
    *(
        ((RuntimeError, TypeError), words, f"tg.tile_arange({argument})", types)
        for words, argument, types in (
            (r"tile_arange\(\) accepts at most 3 positional arguments, got 4", "5, 5, 1, 99, dtype=int", []),
            (
                r"tile_arange\(\) arguments must be compile time constants, but stop is not",
                "0, a, 1, dtype=int",
                [tg.int32],
            ),
            (r"tile_arange\(\) requires a numeric scalar dtype", "0, 6, dtype=tg.bool", []),
            (r"tile_arange\(\) requires a numeric scalar dtype", "0, 4, dtype=tg.vec3", []),
        )
    ),
    *(
        (bases, words, f"t = tg.tile_ones(shape=(8, 6), dtype=float)\n{text}", types)
        for bases, words, text, types in (
            ((RuntimeError, ValueError), "out of bounds", "u = t[100, :]", []),
            ((RuntimeError, ValueError), "out of bounds", "u = tg.tile_view(t, offset=(8,))", []),
            ((RuntimeError, ValueError), "empty tile|zero-length", "u = t[4:4, :]", []),
            ((RuntimeError, ValueError), "empty tile|zero-length", "u = t[2147483647:]", []),
            ((RuntimeError, ValueError), "empty tile|zero-length", "u = t[:-2147483648]", []),
            (
                (RuntimeError, ValueError),
                "compile-time constant",
                "u = tg.tile_view(t, offset=(slice(0, a, 1),))",
                [tg.int32],
            ),
            (
                (RuntimeError, ValueError),
                "'shape' together with a slice",
                "u = tg.tile_view(t, offset=(slice(0, 2, 1), slice(0, 3, 1)), shape=(2, 3))",
                [],
            ),
            ((RuntimeError, TypeError), "must be integers or slices", "u = t[1.5, :]", []),
            (
                (RuntimeError, ValueError, TypeError),
                "must be integers or slices",
                "u = tg.tile_view(t, offset=(1.5,))",
                [],
            ),
            (
                (RuntimeError, ValueError),
                "integer index tile",
                "i = tg.tile_arange(0.0, 8.0, 1.0, dtype=float)\nu = t[i, :]",
                [],
            ),
            (
                (RuntimeError, ValueError),
                "shape mismatch|does not fit",
                "t[0:4, :] = tg.tile_ones(shape=(5, 6), dtype=float)",
                [],
            ),
        )
    ),
    ((RuntimeError, ValueError), "positive integer", "tg.tile_stack(capacity=0, dtype=int)", []),
    (
        (RuntimeError, TypeError),
        "does not match",
        "s = tg.tile_stack(4, int)\ntg.tile_stack_push(s, 1.0, True)",
        [],
    ),
    (RuntimeError, "tile_stack|overload", "tg.tile_stack(capacity=True, dtype=int)", []),
]


def failure(body: str, types: list[Any]) -> tg.CompileError:
    """The error of a kernel with this body, for parameters of these types."""
    text = f"def wrong({', '.join('abcd'[: len(types)])}):\n    " + body.replace("\n", "\n    ") + "\n"
    scope: dict[str, Any] = {"tg": tg}
    exec(compile(text, f"<wrong {next(numbers)}>", "exec"), scope)
    kernel = tg.kernel(source=text)(scope["wrong"])
    with pytest.raises(tg.CompileError) as caught:
        kernel.trace(types, LaunchClass(1, 32, (False,), True, False), (), library())
    return caught.value


@pytest.mark.parametrize(("bases", "words", "body", "types"), WRONG_PROGRAMS)
def test_errors_have_the_classes_and_words_of_other_tile_languages(
    bases: Any, words: str, body: str, types: list[Any]
) -> None:
    error = failure(body, types)
    assert isinstance(error, bases)
    assert re.search(words, str(error)), str(error)


TILE = "t = tg.tile_zeros(4)\n"


@pytest.mark.parametrize(
    ("body", "message", "help"),
    [
        (
            TILE + "u = tg.tile_zeros(3, (t, t))",
            "tile_zeros: a tuple of 2 is not an element type",
            "signature: ",
        ),
        (
            TILE + "u = tg.tile_zeros(3, t)",
            "a value of type tile[float32, 4] is not an element type",
            "signature: ",
        ),
        (
            TILE + "x = a[t]",
            "an index must be an integer index tile, got tile[float32, 4]",
            "",
        ),
        (
            TILE + "u = tg.tile_load(a, shape=4, other=1.0)",
            "other= is the value of the elements that mask= does not select, and there is no mask",
            "the value of elements outside of the array is fill=",
        ),
        (
            "a = tg.tile_zeros((4, 4), tg.float16)\ns = tg.tile_zeros((4, 4), float)\ns += a @ a",
            "'+=' mixes float32 and float16",
            "sum in float32: tg.tile_matmul(a, a, dtype=float)",
        ),
        (TILE + "x = t[t > 0.0]", "tile[float32, 4] cannot be indexed by a mask", "tg.where(mask, x, t)"),
        (
            TILE + "if t > 0.0:\n    a[0] = 1.0",
            "a condition must be a scalar",
            "tg.tile_max(tg.where(t > 0.0",
        ),
        ("x = tg.exp(tg.quat())", "no overload accepts exp(quat)", "overloads: exp(float32); exp(float64)"),
        (
            "x = tg.mod(a, a)",
            "expected a scalar, vector or matrix, got array1d[float32]",
            "read one of its elements",
        ),
    ],
)
def test_errors_about_types_name_a_remedy(body: str, message: str, help: str) -> None:
    error = failure(body, [NUMBERS])
    assert message in error.message and help in error.help


INTERNAL = re.compile(
    r"\b(buf|vec|mat|array|stack|pipe|mbarrier|named_barrier)<|\btile<[^<>]*\[|,partial>|%\w*:"
)
"""The notation of types and values in the text of the IR."""


def test_text_of_the_ir_in_messages_is_recognised() -> None:
    types: list[Any] = [
        tg.vec3,
        tg.mat22,
        NUMBERS,
        TileType(tg.float32, (4,), True),
        BufType(tg.float32, (4,)),
    ]
    types += [StackType(tg.int32, 4), PipeType(tg.float32, (4, 4), 2), MbarrierType(1), NamedBarrierType(4)]
    for t in types:
        assert INTERNAL.search(t.notation) and not INTERNAL.search(str(t)), t


def test_no_message_has_the_text_of_the_ir() -> None:
    for file in sorted((Path(__file__).parent / "programs").glob("*.txt")):
        assert not INTERNAL.search(file.read_text()), file.name
