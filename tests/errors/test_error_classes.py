"""Error classes derive from Python's exception classes."""

from __future__ import annotations

import inspect
from itertools import combinations
from random import Random

import golden
import pytest

import tegula as tg
from tegula import errors

BASES = {
    "TypeMismatch": (TypeError,),
    "MixedScalars": (TypeError,),
    "WrongArguments": (TypeError,),
    "ShapeMismatch": (ValueError, TypeError),
    "NotConstant": (ValueError, TypeError),
    "OutOfRange": (ValueError, IndexError),
    "UnknownAttribute": (AttributeError,),
    "UnknownName": (NameError, KeyError),
    "UnboundName": (NameError,),
    "LaunchError": (RuntimeError, ValueError, TypeError),
    "TuningError": (RuntimeError, ValueError, TypeError),
    "UnfitNumber": (ValueError,),
    "NoComparison": (TypeError,),
    "OutOfBounds": (RuntimeError, IndexError),
    "KernelAssertion": (RuntimeError, AssertionError),
    "DivisionByZero": (RuntimeError, ZeroDivisionError),
}
"""The built-in classes that users may rely on, besides RuntimeError for all compile errors."""
HOST_ERRORS = (errors.UnfitNumber, errors.NoComparison)
BUILT_IN_CLASSES = (
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    NameError,
    KeyError,
    AssertionError,
    ArithmeticError,
)


def classes() -> list[type]:
    error_classes = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, tg.TegulaError)]
    return [c for c in error_classes if getattr(c, "CODE", "")]


@pytest.mark.parametrize("cls", classes(), ids=lambda c: c.__name__)
def test_each_error_class_has_its_promised_bases(cls: type) -> None:
    assert issubclass(cls, RuntimeError) or cls in HOST_ERRORS
    expected_bases = BASES.get(cls.__name__, ())
    assert [b for b in BUILT_IN_CLASSES if issubclass(cls, b)] == [
        b for b in BUILT_IN_CLASSES if any(issubclass(p, b) for p in expected_bases)
    ]


def test_combined_errors_derive_from_the_classes_of_their_members() -> None:
    kinds = [c for c in classes() if issubclass(c, errors.CompileError) and c is not errors.CompileErrors]
    subsets = [*combinations(kinds, 2), *(Random(1).sample(kinds, n) for n in range(3, 20))]
    for subset in subsets:
        members = [c.__new__(c) for c in subset]
        for member in members:
            member.loc = None
        combined = errors.CompileErrors(members)
        for base in (*BUILT_IN_CLASSES, RuntimeError):
            expected = base is not NameError and any(issubclass(c, base) for c in subset)
            assert isinstance(combined, base) == expected, (subset, base)
        assert combined.errors == members
        # A later error of the same classes has the same class.
        assert type(errors.CompileErrors(members)) is type(combined)


RANGE = {
    "an axis": "tg.tile_squeeze(t, axis=3)",
    "dimensions": "tg.tile_zeros(shape=(1, 1, 1, 1, 1))",
    "an extent": "tg.tile_zeros(shape=(4, 0))",
    "an index": "t[0, 9]",
    "an empty slice": "t[2:2]",
    "a precision": "tg.tile_matmul(t, t, precision='float')",
    "a storage": "tg.tile_zeros(shape=4, storage='l2')",
    "an empty range": "tg.tile_arange(5, 5)",
    "a step": "tg.tile_arange(0, 4, 0)",
    "an infinite range": "tg.tile_arange(0.0, float('inf'))",
    "a range that is too long": "tg.tile_arange(0.0, 1e300)",
    "a capacity": "tg.tile_stack(0, int)",
    "a literal": "tg.int8(1000)",
    "an item": "(1, 2)[2]",
    "a permutation": "tg.tile_permute(t, (0, 0))",
    "elements": "tg.tile_reshape(t, (3, 3))",
    "a view": "tg.tile_view(t, offset=(0, 0), shape=(9, 9))",
    "a divisor": "5 // 0",
    "a width": "tg.tile_pad(t, ((-1, 0), (0, 0)))",
    "a length": "tg.vector(length=0)",
}


@pytest.mark.parametrize("message", RANGE)
def test_constants_outside_of_a_range_are_value_errors(message: str) -> None:
    text = f"def k(a: tg.array2d[float]):\n    t = tg.tile_load(a, shape=(4, 4))\n    x = {RANGE[message]}\n"
    names = {"tg": tg}
    exec(text, names)
    with pytest.raises(ValueError) as caught:
        tg.launch_tiled(tg.kernel(source=text)(names["k"]), 1, inputs=[tg.zeros((4, 4))], block_dim=32)
    assert isinstance(caught.value, tg.CompileError) and caught.value.help, str(caught.value)
    assert golden.printed(caught.value).count("\n") > 2
