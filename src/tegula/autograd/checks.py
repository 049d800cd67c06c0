"""Checks that Jacobians by adjoints agree with Jacobians by finite differences."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

import tegula as tg
from tegula.autograd.evaluation import Evaluation, Mask, evaluation
from tegula.autograd.jacobians import by_adjoint, by_differences
from tegula.runtime.records import LaunchRecord

HEADER = ("input", "output", "largest difference", "adjoint", "differences", "relative", "")


def gradcheck(
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    show_summary: bool = True,
    restore_inputs: bool = True,
) -> bool:
    """Checks that the Jacobian by the adjoint agrees with the Jacobian by central differences, component by component.
    `tg.gradcheck` takes fewer launches, because it compares derivatives along random directions.

    Parameters:
        function, dim, inputs, outputs: as for `tg.autograd.jacobian`.
        eps: a float, the step of the differences; 1e-4 by default.
        atol: a float, the absolute tolerance; 1e-3 by default.
        rtol: a float, the tolerance relative to the differences; 1e-2 by default.
        raise_exception: whether a disagreement raises; True by default.
        input_output_mask, device, max_blocks, block_dim: as for `tg.autograd.jacobian`.
        max_inputs_per_var: the number of components of each input that are compared; all by default.
        max_outputs_per_var: the number of components of each output that are compared; all by default.
        show_summary: whether a table is printed; True by default.
        restore_inputs: whether the arguments have their old values afterwards; True by default, and always for
            kernels.
    Returns:
        True, or without `raise_exception` whether the Jacobians agree; NaN never agrees.
    Raises:
        ValueError: the Jacobians differ (tg.GradientMismatch, which is also an AssertionError).
        launch: there are no inputs or outputs, or `input_output_mask` names an argument that does not exist.
        no-gradient: an op between an input and an output has no gradient.
    """
    computation = evaluation(function, dim, inputs, outputs, block_dim, device, restore_inputs)
    max_components = max_inputs_per_var, max_outputs_per_var
    return _agree(
        computation, input_output_mask, max_components, eps, atol, rtol, raise_exception, show_summary
    )


def gradcheck_tape(
    tape: tg.Tape,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: Mapping[str, Mask] | None = None,
    blacklist_kernels: Collection[str] | None = None,
    whitelist_kernels: Collection[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
) -> bool:
    """Checks that the Jacobian of each recorded launch by the adjoint agrees with central differences, at the current
    values of the arrays.

    Parameters:
        tape: the tape with the recorded launches. The inputs of a launch are the arrays that it reads, the outputs the
            arrays that it writes.
        eps, atol, rtol, raise_exception: as for `gradcheck`.
        input_output_masks: a dictionary from names of kernels to lists of pairs of an input and an output.
        blacklist_kernels: the names of kernels that are not checked.
        whitelist_kernels: the names of kernels that are checked; all by default.
        max_inputs_per_var, max_outputs_per_var, show_summary: as for `gradcheck`.
        reverse_launches: whether the last launch is checked first; False by default.
        skip_to_launch_index: the number of launches that are left out; 0 by default.
    Returns:
        True, or without `raise_exception` whether all Jacobians agree.
    Raises:
        ValueError: Jacobians differ (tg.GradientMismatch).
        no-gradient: a kernel has no gradient.
    """
    records = [r for r in tape.records if isinstance(r, LaunchRecord)]
    if reverse_launches:
        records.reverse()
    max_components = max_inputs_per_var, max_outputs_per_var
    agrees = True
    for record in records[skip_to_launch_index:]:
        name = record.kernel.name
        if name in (blacklist_kernels or ()) or (whitelist_kernels and name not in whitelist_kernels):
            continue
        mask = (input_output_masks or {}).get(name)
        agrees &= _agree(
            _recorded(record), mask, max_components, eps, atol, rtol, raise_exception, show_summary
        )
    return agrees


def _recorded(record: LaunchRecord) -> Evaluation:
    """The evaluation that repeats a launch on a tape."""
    inputs, outputs = ([u.array for u in uses] for uses in (record.reads, record.writes))
    names = {id(a): p.name for p, a in zip(record.kernel.parameters, record.arguments, strict=True)}

    def run() -> Sequence[Any]:
        plan = record.plan
        tg.launch(record.kernel, plan.dims, record.arguments, block_dim=plan.launch.block_dim)
        return outputs

    return Evaluation(
        *(record.kernel.name, inputs, [names[id(a)] for a in inputs]),
        *(lambda k: names[id(outputs[k])], run, [*inputs, *outputs]),
    )


def _agree(
    computation: Evaluation,
    mask: Mask | None,
    max_components: tuple[int, int],
    eps: float,
    atol: float,
    rtol: float,
    raise_exception: bool,
    show_summary: bool,
) -> bool:
    """Whether both Jacobians of an evaluation agree. Prints a table and raises GradientMismatch on request."""
    adjoint_jacobians, numerical_jacobians = (
        by_adjoint(computation, mask, max_components[1]),
        by_differences(computation, mask, max_components[0], eps),
    )
    rows: list[tuple[str, ...]] = []
    mismatch = ""
    for (i, k), jacobian in adjoint_jacobians.items():
        adjoint, numerical = (
            x.numpy().reshape(len(x.numpy()), -1).astype(np.float64)
            for x in (jacobian, numerical_jacobians[i, k])
        )
        adjoint, numerical = (
            x[
                : max_components[1] if max_components[1] > 0 else None,
                : max_components[0] if max_components[0] > 0 else None,
            ]
            for x in (adjoint, numerical)
        )
        agrees = np.abs(adjoint - numerical) <= atol + rtol * np.abs(numerical)
        worst = np.unravel_index(
            np.argmax(np.where(np.isnan(adjoint - numerical), np.inf, np.abs(adjoint - numerical))),
            adjoint.shape,
        )
        names = computation.input_names[i], computation.output_name(k)
        index = tuple(int(x) for x in worst)
        difference = float(abs(adjoint[index] - numerical[index]))
        relative = difference / (abs(float(numerical[index])) + 1e-8)
        numbers = (
            f"{difference:.3e} at {index}",
            f"{adjoint[index]:.3e}",
            f"{numerical[index]:.3e}",
            f"{relative:.3e}",
        )
        rows.append((*names, *numbers, "passed" if agrees.all() else "FAILED"))
        if not agrees.all():
            mismatch = (
                f"{computation.name}: the derivative of '{names[1]}' by '{names[0]}' at {index} "
                f"is {adjoint[index]:.9g} by the adjoint, "
                f"{numerical[index]:.9g} by differences"
            )
    if show_summary:
        print(_table(computation.name, rows))
    if mismatch and raise_exception:
        raise tg.GradientMismatch(mismatch)
    return not mismatch


def _table(name: str, rows: Sequence[Sequence[str]]) -> str:
    """A table of the compared pairs as text."""
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    lines = [
        "  ".join(f"{x:{w}}" for x, w in zip(row, widths, strict=True)).rstrip() for row in (HEADER, *rows)
    ]
    return "\n".join([f"gradients of {name}:", *lines])
