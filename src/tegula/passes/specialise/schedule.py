"""The records of automatic schedules: the user's decisions, plans, failures, and costs of logical blocks."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import ceil, gcd, prod
from typing import Any

from tegula.dataclass import dataclass
from tegula.ir import Op, Scale
from tegula.source import UNKNOWN, Location

MAX_TIME_RATIO = 0.95
"""The maximum estimated time with logical blocks of another size, relative to the time with the blocks of the launch,
at which the other size is chosen."""
MAX_PARTS = 2**31
"""The exclusive limit of the number of parts along a dimension, which kernels count in 32 bits."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's decisions; None leaves a number to the cost model. `specialize`: whether the kernel may get roles;
    `overlap`: whether chains of matmuls may be overlapped. `split`: the number of iterations into which each iteration
    of a loop with matmuls is split. `scale`: the size of a logical block in blocks of the launch; empty: 1."""

    specialize: bool = True
    consumers: int | None = None
    stages: int | None = None
    registers: int | None = None
    persistent: bool | None = None
    raster: int | None = None
    overlap: bool = True
    split: int = 1
    scale: Scale = ()


@dataclass(frozen=True, slots=True)
class RolePlan:
    """The division of a kernel into roles. `consumers`: the number of consumer warp groups. `stages`: the number of
    stages of each pipe. `registers`: the registers of a consumer thread, 0 to derive them from the other roles.
    `persistent`: whether a CTA computes several output tiles, in groups of `raster` rows. `overlaps`: whether chains of
    matmuls are overlapped, which takes registers. `cycles`: the tensor core cycles of one iteration of the longest
    loop. `split`: the number of iterations into which each iteration of a loop with matmuls is split. `scale`: as in
    `Choice`."""

    consumers: int
    stages: tuple[int, ...]
    registers: int
    persistent: bool
    raster: int
    overlaps: bool = False
    cycles: int = 0
    split: int = 1
    scale: Scale = ()

    def __str__(self) -> str:
        groups = f"{self.consumers} warp group{'s' * (self.consumers > 1)}"
        rows = f" in groups of {self.raster} rows" if self.raster > 1 else ""
        reduced = [(n // gcd(n, d), d // gcd(n, d)) for n, d in self.scale]
        fractions = "x".join(f"{n}/{d}" if d > 1 else str(n) for n, d in reduced)
        scaled = f", each of {fractions} blocks of the launch" if self.scale else ""
        walk = f", persistent blocks{rows}{scaled}" if self.persistent else ""
        ring = f"{max(self.stages)} stage{'s' * (max(self.stages) > 1)}"
        split = f" of 1/{self.split} iteration" if self.split > 1 else ""
        return f"fetch with 1 warp group, multiply with {groups}, {ring}{split}{walk}"


@dataclass(frozen=True, slots=True)
class RejectedPlan:
    """A rejected plan, and the reason."""

    plan: RolePlan
    reason: str

    def __str__(self) -> str:
        return f"not used: {self.plan}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The outcome for a kernel: the plan of its roles, or the reason why it has none. `choice`: the decisions that led
    to the plan; `rejected`: the plans that were tried before. `before`: the ops of the body without roles."""

    plan: RolePlan | None = None
    reason: str = ""
    loc: Location = UNKNOWN
    before: tuple[Op, ...] = ()
    choice: Choice = Choice()
    rejected: tuple[RejectedPlan, ...] = ()

    def __str__(self) -> str:
        if self.plan is not None:
            return str(self.plan)
        line = f" (line {self.loc.line})" if self.loc.line else ""
        return f"one role: {self.reason}{line}"


class Failure(Enum):
    """The reason why a plan failed: the roles are unproved, need too many registers, or need too much shared memory."""

    UNPROVED = "unproved"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared memory"


@dataclass(frozen=True, slots=True)
class BlockCosts:
    """The cycles of an iteration of a logical block, by the size of the block, the size in the launch first; empty if
    no other size is possible. `once`: whether no block may be computed twice."""

    cycles: tuple[tuple[Scale, float], ...] = ()
    once: bool = False

    @classmethod
    def from_json(cls, data: Any) -> BlockCosts:
        """The costs from `json`."""
        scales = (
            (tuple((numerator, denominator) for numerator, denominator in scale), n)
            for scale, n in data["cycles"]
        )
        return cls(tuple(scales), data["once"])

    def json(self) -> dict[str, Any]:
        """The costs as JSON."""
        return {"cycles": self.cycles, "once": self.once}

    def best(self, grid: Sequence[int], multiprocessors: int) -> Scale:
        """The size of logical blocks with the least estimated time for a grid; empty if the blocks of the launch are as
        fast. The time of a launch is proportional to the number of blocks per SM, its waves."""
        if not self.cycles or 0 in grid:
            return ()
        times: dict[Scale, float] = {}
        for scale, cycles in self.cycles:
            if self._covers(grid, scale):
                blocks = prod(
                    ceil(n * denominator / numerator)
                    for n, (numerator, denominator) in zip(grid, scale, strict=True)
                )
                times[scale] = ceil(blocks / multiprocessors) * cycles
        limit = MAX_TIME_RATIO * times[self.cycles[0][0]]
        better = [scale for scale in times if times[scale] < limit]
        return min(better, key=lambda scale: (times[scale], _fractions(scale)), default=())

    def _covers(self, grid: Sequence[int], scale: Scale) -> bool:
        """Whether logical blocks of a size cover a grid, each inside the grid."""
        return all(
            numerator <= n * denominator < MAX_PARTS and not (self.once and n * denominator % numerator)
            for n, (numerator, denominator) in zip(grid, scale, strict=True)
        )


def _fractions(scale: Scale) -> tuple[float, ...]:
    return tuple(numerator / denominator for numerator, denominator in scale)
