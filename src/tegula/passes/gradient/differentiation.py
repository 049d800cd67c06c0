"""What the passes on an adjoint kernel share."""

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
    """What is known of an adjoint kernel. `gradients`: the array parameters that the adjoint adds to and whose bytes
    no other array of the launch has; `replays`: its loops that run others again; `forward`: the kernel that it is the
    adjoint of."""

    gradients: Sequence[Value]
    replays: Sequence[LoopReplay] = ()
    forward: Kernel | None = None
