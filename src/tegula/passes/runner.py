"""What passes are, what they share, and what runs them.

A pass takes valid IR and leaves valid IR. A pipeline is a tuple of passes, one for each target (`pipeline.py`,
`pipeline_gpu.py`). All passes have one signature, `run(kernel, context)`: they change the kernel in place, and raise
what is wrong with the user's program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from tegula.dataclass import dataclass, field
from tegula.ir import Kernel
from tegula.ir.verify import Fitting, verify

if TYPE_CHECKING:
    from tegula.passes.assign_layouts import Layouts
    from tegula.passes.place_shared import SharedMemory
    from tegula.passes.reach import AccessReach
    from tegula.passes.specialise import Schedule
    from tegula.passes.uniformity import Uniformity
    from tegula.target import CudaTarget

Observer = Callable[[str, Kernel], None]
"""Is told the name of each pass that has run, and shown the kernel."""


@dataclass(slots=True)
class Compilation:
    """What the passes on one kernel share.

    Fields without a value are results of analyses. Each is set by an `Analysis` of the pipeline, holds from there to
    the end, and is kept up to date by the passes that follow; passes before it must not ask for it. `uniformity`: of
    the values that passes add, those that are not in it are the same in all lanes."""

    uniformity: Uniformity = field(init=False)


@dataclass(slots=True)
class GpuCompilation(Compilation):
    """The same for a GPU: the kernel is spread over the threads of a block.

    `debug`: reports tell lanes and blocks apart, so that neither are merged. `earlier`: what was made of the kernel
    automatically before, if anything was; `schedule`: the same after `specialise`. `threads`: of a block; `layouts`: of
    the tile values over them; `shared`: where buffers lie; `reach`: which threads access what, once that is asked."""

    target: CudaTarget
    debug: bool = False
    earlier: Schedule | None = None
    schedule: Schedule = field(init=False)
    threads: int = field(init=False)
    layouts: Layouts = field(init=False)
    shared: SharedMemory = field(init=False)
    reach: AccessReach | None = None


Given = TypeVar("Given", bound=Compilation, contravariant=True)
Context = TypeVar("Context", bound=Compilation)


def _always(context: Compilation) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Pass(Generic[Given]):
    """A step of a pipeline, called as its function. `when`: whether a compilation takes it."""

    run: Callable[[Kernel, Given], None]
    when: Callable[[Given], bool] = _always

    @property
    def name(self) -> str:
        """The name of the pass, that of its function."""
        return self.run.__name__


@dataclass(frozen=True, slots=True)
class Analysis(Pass[Given]):
    """A pass that leaves the kernel as it is: it sets a field of the context, or checks what the user wrote."""


def run(
    passes: Sequence[Pass[Context]], kernel: Kernel, context: Context, observe: Observer | None = None
) -> Context:
    """Run the passes in order and verify the kernel before the first and after each; the error names the pass. The
    context again."""
    fitting: Fitting = {}
    _verify(kernel, fitting, f"before pass {passes[0].name}")
    for step in passes:
        if not step.when(context):
            continue
        step.run(kernel, context)
        if isinstance(step, Analysis):
            continue
        _verify(kernel, fitting, f"after pass {step.name}")
        if observe is not None:
            observe(step.name, kernel)
    return context


def _verify(kernel: Kernel, fitting: Fitting, where: str) -> None:
    try:
        verify(kernel, fitting)
    except Exception as error:
        error.add_note(where)
        raise
