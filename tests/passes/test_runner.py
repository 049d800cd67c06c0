"""The runner of passes: order, verification, observers; and every pass is in one pipeline."""

from __future__ import annotations

import pytest

from tegula.errors import InternalError
from tegula.ir import Kernel
from tegula.ir.text import parse_kernel
from tegula.passes.runner import Analysis, Compilation, Pass, run

TEXT = """kernel "k" {
  launch [block_dim = 8, last_is_block = true, ndim = 1, partial = false, uniform = (false,)]
  param "x" %0.x: float32
  %1: float32 = neg %0
  yield
}
"""


def drop(kernel: Kernel, context: Compilation) -> None:
    del kernel.body.ops[0]


def corrupt(kernel: Kernel, context: Compilation) -> None:
    kernel.body.ops.pop()


def leave_unchanged(kernel: Kernel, context: Compilation) -> None:
    pass


def test_passes_run_in_order_and_show_their_ir() -> None:
    events: list[tuple[str, int]] = []
    passes = (Pass(leave_unchanged), Analysis(leave_unchanged), Pass(drop, when=lambda c: False), Pass(drop))
    context = Compilation()
    actual = run(passes, parse_kernel(TEXT), context, lambda name, k: events.append((name, len(k.body.ops))))
    assert events == [("leave_unchanged", 2), ("drop", 1)]
    assert actual is context


@pytest.mark.parametrize("last", [[], [Pass(drop)]])
def test_the_error_names_the_pass_that_breaks_the_kernel(last: list[Pass[Compilation]]) -> None:
    names: list[str] = []
    with pytest.raises(InternalError, match="must end in 'yield'") as caught:
        passes = (Pass(leave_unchanged), Pass(corrupt), *last)
        run(passes, parse_kernel(TEXT), Compilation(), lambda name, _: names.append(name))
    assert caught.value.__notes__ == ["after pass corrupt"]
    assert names == ["leave_unchanged"]


def test_the_kernel_before_the_first_pass_is_verified_too() -> None:
    kernel = parse_kernel(TEXT)
    kernel.body.ops.pop()
    with pytest.raises(InternalError) as caught:
        run((Pass(leave_unchanged),), kernel, Compilation())
    assert caught.value.__notes__ == ["before pass leave_unchanged"]


def test_results_of_analyses_are_absent_before_the_analysis() -> None:
    with pytest.raises(AttributeError, match="uniformity"):
        Compilation().uniformity
