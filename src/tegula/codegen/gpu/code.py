"""The generated code of a kernel for GPUs, with the data that its launches need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.gpu.maps import TensorMap
from tegula.dataclass import dataclass
from tegula.errors import InternalError
from tegula.ops.roles import WARP_GROUP
from tegula.passes.plan_memory import MemoryMap

if TYPE_CHECKING:
    from tegula.codegen.sites import Site

WARP_SCHEDULERS = 4
"""The number of warp schedulers of an SM, each of which has a fourth of the registers."""


@dataclass(frozen=True, slots=True)
class GpuCode:
    """LLVM IR of a kernel, with the shared memory and the threads per block of its launch. `multiplies`: whether the
    kernel has matmuls, whose operands benefit from many registers. `maps`: the tensor maps that follow the arguments.
    `budgets`: the registers per thread of each warp group, if roles change them; each thread then starts with
    `start_registers`, and the code must be assembled for exactly this number. `clustered`: whether the kernel is
    launched in 2-CTA clusters. `max_warps`: the maximum number of warps of a CTA, each of which runs `per_warp`
    separate blocks with `part_bytes` of shared memory; the second dimension of the CTA numbers the warps.
    `tile_registers`: the registers of tiles that each thread holds while it extracts lines from the tiles."""

    text: str
    shared: MemoryMap
    threads: int
    sites: list[Site]
    multiplies: bool = False
    maps: tuple[TensorMap, ...] = ()
    start_registers: int = 0
    budgets: tuple[int, ...] = ()
    clustered: bool = False
    max_warps: int = 1
    per_warp: int = 1
    part_bytes: int = 0
    tile_registers: int = 0

    @property
    def occupancy_threads(self) -> int:
        """The threads per CTA of a kernel that is bound by memory latency, for which occupancy matters more than
        registers per thread; 0 for other kernels. Launches choose how many blocks share a CTA, so the CTA has as many
        as there are warp schedulers, which all run the same number of warps."""
        return 0 if self.multiplies or self.budgets else self.threads * self._occupancy_warps

    @property
    def _occupancy_warps(self) -> int:
        return min(self.max_warps, WARP_SCHEDULERS)

    @property
    def cta_bytes(self) -> int:
        """The bytes of dynamic shared memory of a CTA with `occupancy_threads` threads."""
        return self.shared_bytes * self._occupancy_warps

    def check_registers(self, assembled: int) -> None:
        """Raise InternalError if the roles cannot change the number of registers of code that was assembled for
        `assembled` registers per thread: `setmaxnreg.dec` must lower the number, `.inc` must raise it, and only
        released registers can be added."""
        if not self.budgets:
            return
        if assembled != self.start_registers:
            message = f"the roles start with {self.start_registers} registers a thread"
            raise InternalError(f"{message}, but the code was assembled for {assembled}")
        if sum(self.budgets) * WARP_GROUP > assembled * self.threads:
            raise InternalError(
                f"the roles request {self.budgets} registers a thread, in a block that starts with {assembled} a thread"
            )

    @property
    def shared_bytes(self) -> int:
        """The bytes of dynamic shared memory of a block, or of the blocks of a warp."""
        return self.part_bytes * self.per_warp or self.shared.total
