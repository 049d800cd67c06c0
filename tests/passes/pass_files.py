"""Tests of single passes as text: `<pass>/<idea>.ir` has the idea in a sentence, options, a kernel, a line `----`, and
the result of the pass: the kernel, `unchanged`, or the error that it raises.

Options, one per line: `target: cpu` or `target: sm_90a`; `debug: true`; `reload: true`; for passes of adjoints
`gradients: adj_x, adj_y`, the parameters that they add to. Analyses that come before the pass in its pipeline are run
on the kernel of the file. Results of analyses are shown as comments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from tegula.errors import CompileError
from tegula.ir import Kernel, Value
from tegula.ir.text import parse_kernel, print_kernel
from tegula.ops.lane import Lanes
from tegula.passes.gradient.differentiate import ADJOINT
from tegula.passes.gradient.differentiation import Differentiation
from tegula.passes.gradient.sequential import SEQUENTIALISE, Sequentialisation
from tegula.passes.pipeline import FIX_ROUNDING, FOR_CPU, PREPARE
from tegula.passes.pipeline_gpu import FOR_GPU
from tegula.passes.runner import Analysis, Compilation, CpuCompilation, GpuCompilation, Pass, run
from tegula.passes.uniformity import Uniformity, analyse
from tegula.target import get_cuda_target

FOLDER = Path(__file__).parent
LINE = "----\n"
Options = dict[str, str]
Remarks = dict[Value | str, str]
UNCHANGED = "unchanged\n"
PIPELINES: dict[str, tuple[Sequence[Pass[Any]], ...]] = {
    "cpu": (PREPARE, FIX_ROUNDING, FOR_CPU, ADJOINT, SEQUENTIALISE),
    "gpu": (PREPARE, FIX_ROUNDING, FOR_GPU, ADJOINT, SEQUENTIALISE),
}


class Kind(Enum):
    """The kind of a file's result."""

    ACTS = "the kernel changes"
    LEAVES = "the kernel does not change"
    FINDS = "the kernel does not change, and the pass reports results"
    REFUSES = "the pass raises an error for the user"


def files() -> list[Path]:
    return sorted(FOLDER.glob("*/*.ir"))


def of_passes(passes: Sequence[Pass[Any]]) -> list[Path]:
    """The files of some passes."""
    names = {step.name for step in passes}
    return [path for path in files() if path.parent.name in names]


def result(path: Path) -> tuple[str, str]:
    """The expected and the actual result of a file."""
    before_line, _, expected = path.read_text().partition(LINE)
    options, text = split(before_line)
    kernel = parse_kernel(text)
    before = print_kernel(kernel)
    try:
        remarks = applied(path.parent.name, kernel, options)
    except CompileError as error:
        return expected, f"{error}\n"
    values = {k: remark for k, remark in remarks.items() if isinstance(k, Value)}
    after, remark = print_kernel(kernel), print_kernel(kernel, remarks=values) + remarks.get("", "")
    return expected, remark if after != before else f"{UNCHANGED}{remark.removeprefix(after)}"


def kind(path: Path) -> Kind:
    """The kind of the expected result of a file."""
    _, _, expected = path.read_text().partition(LINE)
    if "error[" in expected:
        return Kind.REFUSES
    if not expected.startswith(UNCHANGED):
        return Kind.ACTS
    return Kind.LEAVES if expected == UNCHANGED else Kind.FINDS


def update(path: Path) -> None:
    """Write the actual result as the expected one."""
    before_line, _, _ = path.read_text().partition(LINE)
    path.write_text(f"{before_line}{LINE}{result(path)[1]}")


def split(text: str) -> tuple[Options, str]:
    """The options at the start of a file, and the kernel."""
    options: Options = {}
    lines = text.splitlines(keepends=True)
    start = next(k for k, line in enumerate(lines) if line.startswith("kernel "))
    for line in lines[:start]:
        key, colon, value = line.partition(":")
        if colon and not line.startswith("//"):
            options[key] = value.strip()
    return options, "".join(lines[start:])


def applied(name: str, kernel: Kernel, options: Options) -> Remarks:
    """Run the analyses that a pass of a pipeline needs, and then the pass. Returns the comments on values, and under no
    name the comments on the kernel."""
    target = options.pop("target", "cpu")
    pipelines = PIPELINES["cpu" if target == "cpu" else "gpu"]
    pipeline = next(p for p in pipelines if any(step.name == name for step in p))
    context = _context(pipeline, kernel, target, options)
    assert not options, f"unknown options {options}"
    index = next(k for k, step in enumerate(pipeline) if step.name == name)
    run((*filter(sets_a_field, pipeline[:index]), pipeline[index]), kernel, context)
    if hasattr(context, "uniformity"):
        assert not _missing(kernel, context.uniformity), (
            "the pass has not updated the values that differ between lanes"
        )
    return _REMARKS[name](context) if name in _REMARKS else {}


def _context(pipeline: object, kernel: Kernel, target: str, options: Options) -> Compilation:
    if pipeline is ADJOINT:
        names = [name.strip() for name in options.pop("gradients", "").split(",")]
        params = dict(zip(kernel.param_names, kernel.params, strict=True))
        return Differentiation([params[name] for name in names if name], forward=kernel)
    if pipeline is SEQUENTIALISE:
        return Sequentialisation()
    if pipeline is FOR_GPU:
        debug, reload = (options.pop(key, "") == "true" for key in ("debug", "reload"))
        return GpuCompilation(get_cuda_target(target), debug, reload=reload)
    return CpuCompilation(orients=options.pop("debug", "") != "true")


def _missing(kernel: Kernel, uniformity: Uniformity) -> set[Value]:
    """Values that differ between lanes by a fresh analysis, but not by the pass's; in lane code all may differ."""
    lanes = [op for op in kernel.walk() if isinstance(op, Lanes)]
    inside = {v for op in lanes for inner in op.body.walk() for v in inner.results}
    return analyse(kernel).values - uniformity.values - inside


def sets_a_field(step: Pass[Any]) -> bool:
    """Whether a step of a pipeline is an analysis that sets a field, and neither checks nor changes the kernel."""
    return isinstance(step, Analysis) and not step.name.startswith("check_")


def _varying(context: Any) -> Remarks:
    return dict.fromkeys(context.uniformity.values, "differs between lanes")


def _threads(context: Any) -> Remarks:
    return {"": f"// {context.threads} threads\n"}


def _schedule(context: Any) -> Remarks:
    return {"": f"// {context.schedule}\n"}


def _layouts(context: Any) -> Remarks:
    return {v: str(layout) for v, layout in context.layouts.items()}


def _allocations(context: Any) -> Remarks:
    def described(remark: Any) -> str:
        rows = f", rows of {remark.row_bytes} bytes swizzled" if remark.row_bytes else ""
        return f"bytes {remark.offset} to {remark.offset + remark.size}, strides {remark.strides}{rows}"

    return {v: described(allocation) for v, allocation in context.shared.allocations.items()}


_REMARKS: dict[str, Callable[[Any], Remarks]] = {
    "analyse_lanes": _varying,
    "assign_layouts": _layouts,
    "count_threads": _threads,
    "place_shared": _allocations,
    "reuse_shared": _allocations,
    "specialise": _schedule,
}
