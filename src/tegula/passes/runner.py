"""Passes, their contexts, and the function that runs a pipeline.

A pass maps valid IR to valid IR. A pipeline is a tuple of passes; each target has a pipeline (`pipeline.py`,
`pipeline_gpu.py`). All passes have the signature `run(kernel, context)`: they modify the kernel in place, and raise an
error for an invalid program of the user."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from tegula.dataclass import dataclass, field
from tegula.ir import Contents, Kernel, Op
from tegula.ir.verify import Verified, verify

if TYPE_CHECKING:
    from tegula.passes.assign_layouts import Layouts
    from tegula.passes.insert_barriers import BarrierAnalysis
    from tegula.passes.place_shared import SharedMemory
    from tegula.passes.specialise import Schedule
    from tegula.passes.uniformity import Uniformity
    from tegula.target import CudaTarget

Observer = Callable[[str, Kernel], None]
"""A function that is called after each pass with the name of the pass and the kernel."""
VERIFY_EACH = "TEGULA_VERIFY_PASSES"
"""The environment variable with which kernels are verified after each pass, so that the error names the pass. Tests set
it."""


@dataclass(slots=True)
class Compilation:
    """The context of the passes on one kernel.

    Fields without a default are results of analyses. An `Analysis` of the pipeline sets the field, later passes keep it
    up to date, and earlier passes must not read it. `uniformity`: values that passes add and that are not in the
    analysis are uniform."""

    uniformity: Uniformity = field(init=False)


@dataclass(slots=True)
class CpuCompilation(Compilation):
    """The context of the passes for a CPU. `orients`: whether there are arrays in column-major order whose tiles may be
    transposed."""

    orients: bool = False


@dataclass(slots=True)
class GpuCompilation(Compilation):
    """The context of the passes for a GPU.

    `debug`: whether reports name lanes and blocks, so that blocks are not merged. `selected`: a schedule that has been
    selected for the kernel already, if any; `reload`: whether operands of matmuls are loaded again to save shared
    memory; `schedule`: the schedule after `specialise`. `threads`: the threads of a block; `lanes`: the lanes of a warp
    among which tiles are distributed, fewer than 32 if blocks can share a warp; `layouts`: the distribution of tile
    values over threads; `shared`: the allocation of shared memory; `barriers`: the barriers that the kernel
    needs, from the passes that ask for them until barriers are inserted."""

    target: CudaTarget
    debug: bool = False
    selected: Schedule | None = None
    reload: bool = False
    schedule: Schedule = field(init=False)
    threads: int = field(init=False)
    lanes: int = 32
    layouts: Layouts = field(init=False)
    shared: SharedMemory = field(init=False)
    barriers: BarrierAnalysis | None = None


PassContext = TypeVar("PassContext", bound=Compilation, contravariant=True)
Context = TypeVar("Context", bound=Compilation)


def _always(context: Compilation) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Pass(Generic[PassContext]):
    """A step of a pipeline, with the name of its function. `when`: the predicate of contexts in which the pass runs;
    `acts_on`: classes of which a kernel has an op if the pass has any effect. Empty: the pass may affect every
    kernel."""

    run: Callable[[Kernel, PassContext], None]
    when: Callable[[PassContext], bool] = _always
    acts_on: tuple[type[Op], ...] = ()

    @property
    def name(self) -> str:
        """The name of the pass, which is the name of its function."""
        return self.run.__name__


@dataclass(frozen=True, slots=True)
class Analysis(Pass[PassContext]):
    """A pass that does not modify the kernel, but sets a field of the context or checks the user's program."""


def run(
    passes: Sequence[Pass[Context]],
    kernel: Kernel,
    context: Context,
    observe: Observer | None = None,
    is_last: bool = False,
) -> Context:
    """Run the passes in order, except those without ops to act on, and return the context. The kernel is verified
    before the first pass, or after the last one if code is generated then (`is_last`), from the result of an earlier
    pipeline; with TEGULA_VERIFY_PASSES=1 before the first and after each pass, which the verifier's error names."""
    verifies_each = os.environ.get(VERIFY_EACH, "0") not in ("", "0")
    known = Verified(image=[] if verifies_each else None)
    contents: Contents | None = None
    if verifies_each or not is_last:
        _verify(kernel, known, f"before pass {passes[0].name}")
    for step in passes:
        if not step.when(context):
            continue
        changes = not isinstance(step, Analysis)
        if not step.acts_on or (contents := contents or Contents(kernel)).have(*step.acts_on):
            step.run(kernel, context)
            if changes:
                contents = None
                if verifies_each:
                    _verify(kernel, known, f"after pass {step.name}")
        if changes and observe is not None:
            observe(step.name, kernel)
    if is_last and not verifies_each:
        _verify(kernel, known, f"after all passes; {VERIFY_EACH}=1 names the pass")
    return context


def _verify(kernel: Kernel, known: Verified, stage: str) -> None:
    try:
        verify(kernel, known)
    except Exception as error:
        error.add_note(stage)
        raise
