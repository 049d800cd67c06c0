"""Operations on literals and constants give the results of the same operations at run time."""

from __future__ import annotations

import math
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from agreement import assert_same_bits

import tegula as tg
from support.campaigns import chunks

FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 0.1, 2.5, -7.25, 1e30, -8.0, 1e-40)
INTEGERS = (0, 1, -1, 2, -2, 3, 7, -7, 30, 64, -(2**31), 2**31 - 1)
COMMON_EXPRESSIONS = (
    *(
        "a + b",
        "a - b",
        "a * b",
        "a / b",
        "a // b",
        "a % b",
        "tg.min(a, b)",
        "max(a, b)",
        "tg.clamp(a, b, a)",
    ),
    *(
        "tg.mod(a, b)",
        "tg.floordiv(a, b)",
        "tg.abs(a)",
        "-a",
        "tg.where(a < b, a, b)",
        "tg.where(a == b, b, a)",
    ),
)
FLOAT_EXPRESSIONS = (
    *("tg.copysign(a, b)", "tg.fma(a, b, a)", "tg.round(a)", "tg.floor(a)", "tg.ceil(a)", "tg.trunc(a)"),
    *("round(a)", "tg.sqrt(a)", "tg.sign(a)"),
)
INTEGER_EXPRESSIONS = (
    "a & b",
    "a | b",
    "a ^ b",
    "a << b",
    "a >> b",
    "~a",
    "tg.bit_and(a, b)",
    "a ** 3",
    "tg.mul(a, b)",
)
DIVISIONS = ("a / b", "a // b", "a % b", "tg.mod(a, b)", "tg.floordiv(a, b)")
Case = tuple[str, Any, Any]


def literal_text(x: Any) -> str:
    """A number as a literal in a kernel; numbers without a literal are captured by name."""
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if math.isnan(x) else "inf" if x > 0 else "(-inf)"
    return f"({x!r})"


def values(cases: list[Case], dtype: Any, operand_form: str) -> np.ndarray:
    """The results of expressions, each with two numbers. `operand_form`: "literals", "names" of constants of the type,
    or "arguments"."""
    lines = ["def compute(x: tg.array1d[T], y: tg.array1d[T]):"]
    for k, (expression, a, b) in enumerate(cases):
        if operand_form == "literals":
            expression = re.sub(
                r"\b[ab]\b", lambda m, a=a, b=b: literal_text(a if m[0] == "a" else b), expression
            )
        elif operand_form == "names":
            lines += [f"    a = T({literal_text(a)})", f"    b = T({literal_text(b)})"]
        else:
            lines += [f"    a = x[{2 * k}]", f"    b = x[{2 * k + 1}]"]
        lines.append(f"    y[{k}] = {expression}")
    space: dict[str, Any] = {"tg": tg, "T": dtype, "nan": math.nan, "inf": math.inf}
    text = "\n".join(lines) + "\n"
    exec(text, space)
    out = tg.zeros(len(cases), dtype=dtype)
    numbers = np.array([x for _, *pair in cases for x in pair], out.numpy().dtype)
    tg.launch(tg.kernel(source=text)(space["compute"]), 1, inputs=[tg.array(numbers)], outputs=[out])
    return out.numpy()


def sampled_cases(dtype: Any, count: int, seed: int, operand_form: str) -> list[Case]:
    """Cases with equal results at compile time and run time: no overflow and no division by 0."""
    numbers = FLOATS if dtype.is_float else INTEGERS
    expressions = (
        *COMMON_EXPRESSIONS,
        *(FLOAT_EXPRESSIONS if dtype is tg.float32 else () if dtype.is_float else INTEGER_EXPRESSIONS),
    )
    combinations = [(e, a, b) for e, a, b in product(expressions, numbers, numbers)]
    if not dtype.is_float:
        combinations = [(e, a, b) for e, a, b in combinations if b or e not in DIVISIONS]
        if operand_form == "literals":
            combinations = [
                (e, a, b)
                for e, a, b in combinations
                if ("<<" not in e or b < 32) and ("**" not in e or abs(a) < 99)
            ]
    elif dtype is tg.float32 and operand_form == "literals":
        # Literals are added in float64.
        combinations = [
            (e, a, b) for e, a, b in combinations if e in (*FLOAT_EXPRESSIONS, "tg.min(a, b)", "max(a, b)")
        ]
    rng = np.random.default_rng(seed)
    return [
        combinations[k] for k in rng.choice(len(combinations), min(count, len(combinations)), replace=False)
    ]


def check(dtype: Any, operand_form: str, count: int, seed: int) -> None:
    cases = sampled_cases(dtype, count, seed, operand_form)
    assert_same_bits(values(cases, dtype, operand_form), values(cases, dtype, "arguments"))


@pytest.mark.machine_code
@pytest.mark.parametrize(("dtype", "operand_form"), [(tg.float64, "literals"), (tg.int64, "names")], ids=str)
def test_constants_are_computed_like_arguments(dtype: Any, operand_form: str) -> None:
    check(dtype, operand_form, 20, 1)


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", chunks(range(12)))
@pytest.mark.parametrize("operand_form", ["literals", "names"])
@pytest.mark.parametrize("dtype", [tg.float32, tg.float64, tg.int64], ids=str)
def test_many_constants_are_computed_like_arguments(dtype: Any, operand_form: str, seed: int) -> None:
    check(dtype, operand_form, 150, 2 + seed)


@pytest.mark.machine_code
def test_powers_of_literals_match_pow_of_c() -> None:
    """Powers as in C's pow; integers with a negative exponent are floats."""
    cases = [("a ** b", a, b) for a, b in product(FLOATS, FLOATS)] + [("a ** b", 2, -1), ("a ** b", 0, -1)]
    with np.errstate(all="ignore"):
        expected = np.power(*(np.array([c[k] for c in cases], np.float64) for k in (1, 2)))
    np.testing.assert_array_equal(values(cases, tg.float64, "literals"), expected)


@pytest.mark.cpu
@pytest.mark.parametrize(
    "text",
    [
        "7 % 0",
        "7 // 0",
        "2 ** 100000",
        "1 << 100000",
        "min(1, 2.0)",
        "-True",
        "abs(True)",
        "True & 3",
        "1 + 2.0",
    ],
)
def test_invalid_operations_on_literals_are_refused(text: str) -> None:
    source = f"def compute(y: tg.array1d[tg.int32]):\n    y[0] = {text}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(source, space)
    with pytest.raises(tg.CompileError):
        tg.launch(tg.kernel(source=source)(space["compute"]), 1, outputs=[tg.zeros(1, dtype=tg.int32)])


@pytest.mark.machine_code
def test_mod_of_integers_has_the_sign_of_the_dividend() -> None:
    (actual,) = values([("tg.mod(a, b)", -7, 4)], tg.int32, "arguments")
    assert actual == -3
