"""The context of the passes on an adjoint kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Value
from tegula.passes.runner import Compilation

if TYPE_CHECKING:
    from tegula.passes.gradient.iterations import LoopReplay


@dataclass(slots=True)
class Differentiation(Compilation):
    """The context of an adjoint kernel. `gradients`: the gradient arrays that share no memory with other arrays of the
    launch; `replays`: the loops that recompute forward loops; `forward`: the forward kernel."""

    gradients: Sequence[Value]
    replays: Sequence[LoopReplay] = ()
    forward: Kernel | None = None
