"""Loops at the ends of their type, and programs of great length and depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from traced_kernels import launched, zeros

import tegula as tg
from tegula import errors as E
from tegula.lang import func
from tegula.lang.decorators import kernel

TYPES = {"int32": np.int32, "uint8": np.uint8, "int8": np.int8, "int64": np.int64, "uint64": np.uint64}


def kernel_of_source(source: str, **names: Any) -> Any:
    namespace: dict[str, Any] = {"tg": tg, **names}
    exec(source, namespace)
    return kernel(source=source)(namespace["k"])


def visited(dtype: str, bounds: tuple[int, int, int], known_step: bool) -> list[int]:
    """The indices that a loop with a break visits."""
    step = bounds[2] if known_step else "step"
    k = kernel_of_source(
        f"def k(out: tg.array1d[tg.{dtype}], count: tg.array1d[int], a: tg.{dtype}, b: tg.{dtype}, step: tg.{dtype}):\n"
        f"    n = 0\n"
        f"    for i in range(a, b, {step}):\n"
        f"        if n == 9:\n"
        f"            break\n"
        f"        out[n] = i\n"
        f"        n += 1\n"
        f"    count[0] = n\n"
    )
    t = TYPES[dtype]
    out, count = np.zeros(10, t), np.zeros(1, np.int32)
    launched(k, out, count, *(t(x) for x in bounds), dims=(1,), block_dim=1)
    return out[: count[0]].tolist()


@pytest.mark.parametrize("known_step", [True, False])
@pytest.mark.parametrize(
    ("dtype", "bounds"),
    [
        ("int32", (2**31 - 40, 2**31 - 1, 16)),
        ("int32", (2**31 - 3, 2**31 - 1, 1)),
        ("int32", (-(2**31) + 40, -(2**31), -16)),
        ("int32", (-(2**31), 2**31 - 1, 2**30)),
        ("int32", (2**31 - 1, -(2**31), -(2**30))),
        ("int32", (5, 5, 1)),
        ("int32", (5, 0, 3)),
        ("int8", (100, 127, 20)),
        ("int8", (-100, -128, -20)),
        ("int8", (-128, 127, 100)),
        ("uint8", (200, 255, 50)),
        ("uint8", (0, 255, 255)),
        ("uint8", (7, 3, 1)),
        ("int64", (2**63 - 5, 2**63 - 1, 3)),
        ("uint64", (2**64 - 5, 2**64 - 1, 3)),
    ],
)
def test_a_loop_with_break_stops_at_the_end_of_its_range(
    dtype: str, bounds: tuple[int, int, int], known_step: bool
) -> None:
    assert visited(dtype, bounds, known_step) == list(range(*bounds))[:9]


@pytest.mark.parametrize("statement", ["break", "pass"])
def test_a_step_of_0_fails_the_launch(statement: str) -> None:
    k = kernel_of_source(
        "def k(a: tg.array1d[float], step: int):\n"
        "    for i in range(0, 4, step):\n"
        f"        if a[i] > 0.0:\n            {statement}\n"
    )
    with pytest.raises(E.KernelAssertion, match=r"the step of range\(0, 4, step\) must not be 0"):
        launched(k, zeros(4), 0, dims=(1,), block_dim=1)


@pytest.mark.machine_code
@pytest.mark.parametrize("statement", ["break", "pass"])
def test_a_step_of_0_fails_the_launch_on_the_cpu(statement: str) -> None:
    k = kernel_of_source(
        "def k(a: tg.array1d[float], step: int):\n"
        "    for i in range(0, 4, step):\n"
        f"        if a[i] > 0.0:\n            {statement}\n"
    )
    public = tg.kernel(source=k.definition.text)(k.definition.function)
    with pytest.raises(tg.KernelAssertion, match=r"the step of range\(0, 4, step\) must not be 0"):
        tg.launch(public, dim=1, inputs=[tg.zeros(4), 0], block_dim=1)


@pytest.mark.parametrize("operator", ["+", "-", "and"])
def test_long_expressions_compile_and_match_python(operator: str) -> None:
    terms = f" {operator} ".join(["(x > 0.0)" if operator == "and" else "x"] * 1500)
    k = kernel_of_source(f"def k(a: tg.array1d[float]):\n    x = a[0]\n    a[0] = float({terms})\n")
    out = np.ones(1, np.float32)
    launched(k, out, dims=(1,), block_dim=1)
    assert out[0] == {"+": 1500, "-": -1498, "and": 1}[operator]


def nested_around(inner: Any) -> Any:
    @func
    def outer(x: float):
        return inner(x) + 1.0

    return outer


@func
def plain(x: float):
    return x


def test_deeply_nested_functions_compile() -> None:
    chain = plain
    for _ in range(200):
        chain = nested_around(chain)

    @kernel
    def k(a: tg.array1d[float]):
        a[0] = chain(a[0])

    out = zeros(1)
    launched(k, out, dims=(1,), block_dim=1)
    assert out[0] == 200


def test_a_long_chain_of_calls_is_shown_at_its_ends() -> None:
    @func
    def wrong(x: float):
        return x + 1

    chain = wrong
    for _ in range(50):
        chain = nested_around(chain)

    @kernel
    def k(a: tg.array1d[float]):
        a[0] = chain(a[0])

    with pytest.raises(E.MixedScalars) as caught:
        launched(k, zeros(1), dims=(1,), block_dim=1)
    assert str(caught.value).count("called from here") == 8
    assert "through 43 more calls" in str(caught.value)


def test_errors_of_deep_nesting_name_the_line() -> None:
    k = kernel_of_source(f"def k(a: tg.array1d[float]):\n    a[0] = {'abs(' * 90}a[0]{')' * 90}\n")
    launched(k, zeros(1), dims=(1,), block_dim=1)
    chain = plain
    for _ in range(3000):
        chain = nested_around(chain)

    @kernel
    def deep(a: tg.array1d[float]):
        a[0] = chain(a[0])

    with pytest.raises(E.TooDeep) as caught:
        launched(deep, zeros(1), dims=(1,), block_dim=1)
    assert caught.value.loc is not None and "chain(a[0])" in caught.value.loc.text()


def elifs(count: int) -> Any:
    tests = "".join(f"    elif n == {k}:\n        x = {k}.0\n" for k in range(count))
    return kernel_of_source(
        f"def k(a: tg.array1d[float], n: int):\n    x = 0.0\n    if n < 0:\n        x = 1.0\n{tests}    a[0] = x\n"
    )


def test_deeply_nested_blocks_compile_or_are_refused() -> None:
    out = zeros(1)
    launched(elifs(100), out, 77, dims=(1,), block_dim=1)
    assert out[0] == 77
    with pytest.raises(E.TooDeep) as caught:
        launched(elifs(150), out, 77, dims=(1,), block_dim=1)
    assert caught.value.loc is not None and "elif" in caught.value.loc.text()
