"""Groups: the threads that run a cooperative op, which are the threads of the enclosing role, or else of the block."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Op, Region
from tegula.ops.roles import WARP, WARP_GROUP, Roles, block_threads
from tegula.ops.schedule import ELECTABLE, BulkLoad, BulkPrefetch, MbarrierExpect, MbarrierWait
from tegula.passes.runner import GpuCompilation


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive warps of a block. `number`: the 1-based index of the role, or 0 for the block."""

    first: int
    warps: int
    number: int = 0

    @property
    def threads(self) -> int:
        """The number of threads of the group."""
        return self.warps * WARP

    @property
    def warp_groups(self) -> int:
        """The number of warp groups of the group; 0 if the group does not consist of whole warp groups."""
        full_group = WARP_GROUP // WARP
        return 0 if self.first % full_group or self.warps % full_group else self.warps // full_group


def count_threads(kernel: Kernel, context: GpuCompilation) -> None:
    """Set the number of threads of a block: the lanes, rounded up to whole warps, or the threads of the roles."""
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    lanes = -(-kernel.launch.block_dim // WARP) * WARP
    context.threads = lanes if roles is None else block_threads(roles)


def role_of(location: Op | Region | None) -> Region | None:
    """The role region that contains an op or region, or the region itself; None outside of roles."""
    while location is not None:
        if isinstance(location, Region) and isinstance(location.parent, Roles):
            return location
        location = location.parent
    return None


def group_of(location: Op | Region | None, block_threads: int) -> Group:
    """The group whose threads run an op or region together. `block_threads`: the threads of the block, whole warps."""
    region = role_of(location)
    if region is None:
        return Group(0, block_threads // WARP)
    roles = region.parent
    assert isinstance(roles, Roles)
    role_index = roles.roles.index(region)
    first, warps = roles.warps[role_index]
    return Group(first, warps, role_index + 1)


def only_starts_copies(region: Region) -> bool:
    """Whether all ops of a role can run in one warp."""
    return all(_can_run_in_one_warp(op) for op in region.walk())


def _can_run_in_one_warp(op: Op) -> bool:
    if isinstance(op, BulkLoad | MbarrierExpect | MbarrierWait):
        return True
    if isinstance(op, (*ELECTABLE, BulkPrefetch)) and op.elected:
        return True
    return not op.COOPERATIVE and all(e.kind == "read" for e in op.effects())
