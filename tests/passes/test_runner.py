"""The runner of passes: order, verification, observers; and every pass is in one pipeline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pass_files
import pytest

from tegula.errors import CompileError, InternalError
from tegula.ir import Kernel
from tegula.ir.text import parse_kernel, print_kernel
from tegula.ops.scalar import Mul, Neg
from tegula.passes.pipeline import FOR_CPU, PREPARE
from tegula.passes.pipeline_gpu import FOR_GPU
from tegula.passes.runner import VERIFY_EACH, Analysis, Compilation, CpuCompilation, GpuCompilation, Pass, run
from tegula.target import get_cuda_target

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


@pytest.mark.parametrize("is_last", [False, True])
def test_only_the_last_result_is_verified_outside_of_tests(is_last: bool, monkeypatch: Any) -> None:
    monkeypatch.delenv(VERIFY_EACH)
    kernel, passes = parse_kernel(TEXT), (Pass(corrupt), Pass(leave_unchanged))
    if not is_last:
        run(passes, kernel, Compilation())
        return
    with pytest.raises(InternalError, match="must end in 'yield'") as caught:
        run(passes, kernel, Compilation(), is_last=True)
    assert caught.value.__notes__ == ["after all passes; TEGULA_VERIFY_PASSES=1 names the pass"]


def test_the_kernel_before_the_first_pass_is_verified_too() -> None:
    kernel = parse_kernel(TEXT)
    kernel.body.ops.pop()
    with pytest.raises(InternalError) as caught:
        run((Pass(leave_unchanged),), kernel, Compilation())
    assert caught.value.__notes__ == ["before pass leave_unchanged"]


def test_results_of_analyses_are_absent_before_the_analysis() -> None:
    with pytest.raises(AttributeError, match="uniformity"):
        Compilation().uniformity


@pytest.mark.parametrize("classes, runs", [((), True), ((Mul, Neg), True), ((Mul,), False)])
def test_a_pass_without_ops_to_act_on_is_left_out(classes: tuple[Any, ...], runs: bool) -> None:
    kernel = parse_kernel(TEXT)
    run((Pass(drop, acts_on=classes),), kernel, Compilation())
    assert len(kernel.body.ops) == (1 if runs else 2)


def test_a_pass_is_left_out_if_an_earlier_pass_has_erased_its_ops() -> None:
    run((Pass(drop), Pass(corrupt, acts_on=(Neg,))), parse_kernel(TEXT), Compilation())


def _all_passes(kernel: Kernel, change: Callable[[Any], Any]) -> list[str]:
    """The texts of a kernel after the passes for CPUs and, from the same start, for GPUs."""
    texts: list[str] = []
    text = print_kernel(kernel)
    for passes, context in (
        (FOR_CPU, CpuCompilation(orients=True)),
        (FOR_GPU, GpuCompilation(get_cuda_target("sm_90a"))),
    ):
        copy = parse_kernel(text)
        run([*map(change, PREPARE)], copy, Compilation())
        run([*map(change, passes)], copy, context, lambda _, k: texts.append(print_kernel(k)))
    return texts


def _always(step: Any) -> Any:
    """The pass, for every kernel."""
    return step if isinstance(step, Analysis) else Pass(step.run, step.when)


@pytest.mark.parametrize("path", pass_files.of_passes(PREPARE), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_passes_change_no_kernel_that_they_do_not_act_on(path: Path) -> None:
    """The kernels of other tests give the same text with the passes that are left out."""
    _, text = pass_files.split(path.read_text().partition(pass_files.LINE)[0])
    try:
        expected = _all_passes(parse_kernel(text), _always)
    except CompileError as error:
        with pytest.raises(type(error)):
            _all_passes(parse_kernel(text), lambda step: step)
        return
    assert _all_passes(parse_kernel(text), lambda step: step) == expected
