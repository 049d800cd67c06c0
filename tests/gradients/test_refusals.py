"""The closed list in docs/gradients.md: each row is refused with an error that names the op and its line, and the same
op is accepted if no gradient flows through it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_kernels import D

import tegula as tg

PAGE = Path(__file__).parent.parent.parent / "docs" / "gradients.md"
N = 8
ROWS: dict[str, str] = {
    "float(int(x))": "A float made of an integer",
    "argmin": "A float made of an integer",
    "argmax": "A float made of an integer",
    "bitcast": "`bitcast` of floats",
    "result_of_atomic": "What an atomic or",
    "result_of_tile_atomic": "What an atomic or",
    "compare_and_swap": "What an atomic or",
    "atomic_exch_of_a_constant": "What an atomic or",
    "atomic_min_of_a_constant": "What an atomic or",
    "tile_atomic_max_of_a_constant": "What an atomic or",
    "compare_and_swap_of_tiles": "What an atomic or",
    "atomic_max": "What an atomic or",
    "atomic_exch": "What an atomic or",
    "tile_atomic_min": "What an atomic or",
    "stack": "Stacks",
    "fill": "`fill=` of `tile_load` and `other=`",
    "other": "`fill=` of `tile_load` and `other=`",
    "reduce": "`tile_reduce`",
    "overwritten": "Elements of an array that the kernel reads",
    "writers": "An element of a tile that several threads",
    "uneven_loop": "Elements of a tile that changes",
    "changing_condition": "A `while` whose condition",
}
"""The row of the page for each refused kernel."""
TESTED_BY_OTHER_FILES = {
    "Kernels with roles": "tests/errors/programs/no_gradient_roles.py",
    "Gradients of gradients": "tests/interop: only other libraries request them",
}
REFUSED: dict[str, tuple[Any, str, str, tuple[Any, ...]]] = {}


def refused(
    name: str, op: str, source_text: str, *array_types: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a kernel(a, y, *arrays) whose gradient is refused because of `op`, at the text `source_text`.
    `array_types`: the dtypes of further arrays with one element."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        REFUSED[name] = (tg.kernel(function), op, source_text, array_types)
        return function

    return register


@refused("float(int(x))", "through D:", "D(int(a[i]))")
def rounded(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = D(int(a[i])) * a[i]


@refused("argmin", "through D:", "D(tg.tile_argmin(t)[0])")
def smallest(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    t = tg.tile_load(a, shape=N)
    y[i] = D(tg.tile_argmin(t)[0])


@refused("argmax", "through D:", "D(tg.tile_argmax(t)[0])")
def largest(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    t = tg.tile_load(a, shape=N)
    y[i] = D(tg.tile_argmax(t)[0])


@refused("bitcast", "bitcast", "tg.bitcast(a[i], tg.int64)")
def bits(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = tg.bitcast(tg.bitcast(a[i], tg.int64), D)


@refused("result_of_atomic", "atomic_add", "tg.atomic_add(y, 0, a[i])")
def result_of_atomic(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = tg.atomic_add(y, 0, a[i])


@refused("result_of_tile_atomic", "tile_atomic_add", "tg.tile_atomic_add(y, tg.tile_load(a, shape=N))")
def result_of_tile_atomic(a: tg.array[D], y: tg.array[D], z: tg.array[D]):
    t = tg.tile_atomic_add(y, tg.tile_load(a, shape=N))
    tg.tile_store(y, t * 2.0)


@refused("compare_and_swap", "atomic_cas", "tg.atomic_cas(y, i, 0.0, a[i])")
def swap(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = tg.atomic_cas(y, i, 0.0, a[i])


@refused("atomic_exch_of_a_constant", "atomic_exch", "tg.atomic_exch(y, i, 5.0)")
def overwritten(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = a[i] * 2.0
    tg.atomic_exch(y, i, 5.0)


@refused("atomic_min_of_a_constant", "atomic_min", "tg.atomic_min(y, i, 5.0)")
def atomic_minimum_with_constant(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = a[i] * 2.0
    tg.atomic_min(y, i, 5.0)


@refused("tile_atomic_max_of_a_constant", "tile_atomic_max", "tg.tile_atomic_max(y, tg.tile_zeros(N, D))")
def tile_atomic_maximum_with_constant(a: tg.array[D], y: tg.array[D]):
    tg.tile_store(y, tg.tile_load(a, shape=N) * 2.0)
    tg.tile_atomic_max(y, tg.tile_zeros(N, D))


@refused(
    "compare_and_swap_of_tiles",
    "tile_atomic_cas",
    "tg.tile_atomic_cas(y, tg.tile_zeros(N, D), tg.tile_load(a, shape=N))",
)
def swap_tiles(a: tg.array[D], y: tg.array[D]):
    tg.tile_atomic_cas(y, tg.tile_zeros(N, D), tg.tile_load(a, shape=N))


@refused("atomic_max", "atomic_max", "tg.atomic_max(y, 0, a[i])")
def highest(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    tg.atomic_max(y, 0, a[i])


@refused("atomic_exch", "atomic_exch", "tg.atomic_exch(y, i, a[i])")
def exchanged(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    tg.atomic_exch(y, i, a[i])


@refused("tile_atomic_min", "tile_atomic_min", "tg.tile_atomic_min(y, tg.tile_load(a, shape=N))")
def lowest(a: tg.array[D], y: tg.array[D]):
    tg.tile_atomic_min(y, tg.tile_load(a, shape=N))


@refused("stack", "tile_stack_pop", "tg.tile_stack_pop(s)")
def stacked(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    s = tg.tile_stack(N, D)
    tg.tile_stack_push(s, a[i])
    x, slot = tg.tile_stack_pop(s)
    y[i] = x


@refused("fill", "tile_load", "tg.tile_load(a, shape=16, fill=a[0])")
def filled(a: tg.array[D], y: tg.array[D]):
    t = tg.tile_load(a, shape=16, fill=a[0])
    tg.tile_store(y, t[8:16])


@refused(
    "other", "tile_load_indexed", "tg.tile_load_indexed(a, tg.tile_arange(N, dtype=int), shape=N, other=a[0])"
)
def replaced(a: tg.array[D], y: tg.array[D]):
    tg.tile_store(y, tg.tile_load_indexed(a, tg.tile_arange(N, dtype=int), shape=N, other=a[0]))


@tg.func
def multiply(x: D, y: D):
    return x * y


@refused("reduce", "tile_reduce", "tg.tile_reduce(multiply, tg.tile_load(a, shape=N))")
def matmul(a: tg.array[D], y: tg.array[D]):
    tg.tile_store(y, tg.tile_reduce(multiply, tg.tile_load(a, shape=N)))


@refused("overwritten", "'y'", "y[i]")
def update_in_place(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = y[i] * a[i]


@refused("writers", "writing an element", "t[0] = a[i]")
def contended(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    t = tg.tile_zeros(N, dtype=D, storage="shared")
    t[0] = a[i]
    tg.tile_store(y, t)


@refused("uneven_loop", "reading an element", "t[i]")
def uneven_loop(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    t = tg.tile_load(a, shape=N, storage="shared")
    x = a[i]
    for _ in range(i):
        x = x * t[i]
        t[i] = x
    y[i] = x


@tg.func
def next_number(counter: tg.array[int]):
    return tg.atomic_add(counter, 0, 1)


@refused("changing_condition", "atomic_add", "tg.atomic_add(counter, 0, 1)", tg.int32)
def changing_condition(a: tg.array[D], y: tg.array[D], counter: tg.array[int]):
    i = tg.tid()
    x = a[i]
    while next_number(counter) < 4:
        x = x * a[0]
    y[i] = x


@pytest.mark.machine_code
def test_a_constant_that_is_also_a_loop_start_is_not_a_fill_value_with_a_gradient() -> None:
    @tg.kernel
    def sums(a: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        total = D(0.0)
        for k in range(3):
            total = total + a[k] * a[i]
        t = tg.tile_load(a, shape=16)
        y[i] = total * tg.tile_sum(t)[0]

    rng = np.random.default_rng(0)
    a = tg.array(rng.standard_normal(N), dtype=D, requires_grad=True)
    assert tg.gradcheck(sums, N, [a], [tg.zeros(N, dtype=D, requires_grad=True)], block_dim=N)


def run(name: str, **options: Any) -> None:
    kernel, _, _, array_types = REFUSED[name]
    a = tg.ones(N, dtype=D, requires_grad=options.get("adjoint", False))
    y = tg.zeros(N, dtype=D, requires_grad=options.get("adjoint", False))
    extra = [y] if name == "result_of_tile_atomic" else [tg.zeros(1, dtype=t) for t in array_types]
    tg.launch(kernel, N, [a], [y, *extra], block_dim=N, **options)


@pytest.mark.parametrize("name", ROWS)
def test_kernels_without_a_gradient_are_refused_at_their_line(name: str) -> None:
    _, op, source_text, _ = REFUSED[name]
    with pytest.raises(tg.CompileError) as raised:
        run(name, adjoint=True)
    error = raised.value
    assert error.CODE == ("overwritten-array" if name == "overwritten" else "no-gradient"), error
    assert op in error.message
    assert error.loc is not None
    assert source_text in error.loc.text()
    assert error.help


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ROWS)
def test_kernels_without_a_gradient_run(name: str) -> None:
    run(name)


def test_the_page_on_gradients_lists_the_refused_ops() -> None:
    text = PAGE.read_text()
    table = text[text.index("## What is refused") :]
    rows = [row.strip() for row in re.findall(r"^\| (.*?) \|", table, re.M)][1:]
    listed_rows = {*ROWS.values(), *TESTED_BY_OTHER_FILES}
    assert [row for row in rows if not any(row.startswith(start) for start in listed_rows)] == []
    assert [start for start in listed_rows if not any(row.startswith(start) for row in rows)] == []
    assert set(REFUSED) == set(ROWS)
