"""The state of warps and barriers in a simulation of concurrent roles."""

from __future__ import annotations

from tegula.check.memory import Clock
from tegula.dataclass import dataclass, field
from tegula.ir import Op, Value
from tegula.passes.groups import Group
from tegula.types import NamedBarrierType


@dataclass(frozen=True, slots=True)
class Role:
    """A role as it is emitted. `one_warp`: whether the first warp executes the whole role, and the other warps nothing;
    `arrives`: the barriers at which the role may arrive."""

    name: str
    group: Group
    one_warp: bool
    arrives: frozenset[Value]


@dataclass(slots=True)
class Warp:
    """A simulated warp of a role. `weight`: the number of warps that it represents. `entry`, `fences`, `matmuls`,
    `copies`: the indices of its entries in clocks. `step`, `event`: its position in the trace; `synced`: whether all
    warps of its current synchronisation have arrived. `waits`: the number of its waits at each barrier; `arrivals`: the
    phase of its last arrival at each; `first_parity`: the parity of its first wait at each. `started_matmuls`,
    `copied`: the numbers of its matmuls and bulk groups; `open`: whether its current bulk group is uncommitted.
    `completed_waits`: the number of phases for which it has waited, by barrier, in the order of the last waits.
    `known_waits`: the waits that happened before, one bit each."""

    role: int
    weight: int
    number: int
    entry: int
    fences: int
    matmuls: int
    copies: int
    clock: Clock
    step: int = 0
    event: int = 0
    synced: bool = False
    waits: dict[int, int] = field(default_factory=dict[int, int])
    first_parity: dict[int, int] = field(default_factory=dict[int, int])
    arrivals: dict[int, int] = field(default_factory=dict[int, int])
    started_matmuls: int = 0
    copied: int = 0
    open: bool = False
    completed_waits: dict[int, int] = field(default_factory=dict[int, int])
    known_waits: int = 0


@dataclass(slots=True)
class Phase:
    """One stage of a barrier. `number`: index of the current phase; `pending`: arrivals that the phase lacks;
    `announced`, `copied`: bytes. `clock`: the joined clocks of arrivals; `clocks_of_phases`: the joined clocks of
    each previous phase. `waits_of_phases`: by phase, the warps whose wait for it has ended, each with the bit of the
    wait; `known_waits`, `known_waits_of_phases`: the
    waits that happened before the arrivals and copies, now and when each phase ended. `last`: the last arrival;
    `copies`: the copies that the barrier counts, by phase."""

    barrier: Value
    stage: int
    count: int
    entry: int
    number: int = 0
    pending: int = 0
    announced: int = 0
    copied: int = 0
    clock: Clock = field(default_factory=list[int])
    clocks_of_phases: list[Clock] = field(default_factory=list[Clock])
    waits_of_phases: dict[int, list[tuple[Warp, int]]] = field(
        default_factory=dict[int, list[tuple[Warp, int]]]
    )
    known_waits: int = 0
    known_waits_of_phases: list[int] = field(default_factory=list[int])
    last: Op | None = None
    copies: list[tuple[int, Op]] = field(default_factory=list[tuple[int, Op]])


def warp_weights(role: Role) -> list[int]:
    """For each simulated warp of a role, the number of warps that it represents."""
    if role.one_warp or role.group.warps == 1:
        return [1]
    if role.group.warp_groups > 1:
        return [1, 1, role.group.warps - 2]
    return [1, role.group.warps - 1]


def named(phase: Phase) -> str:
    """The name of a phase's barrier in messages, with the stage of an mbarrier."""
    if isinstance(phase.barrier.type, NamedBarrierType):
        return phase.barrier.name or "a named barrier"
    return f"{phase.barrier.name or 'a barrier'}[{phase.stage}]"
