"""Which threads do a cooperative op together: those of the role that it stands in, else those of the block."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import Op, Region
from tegula.ops.base import TileOp
from tegula.ops.roles import WARP, WARP_GROUP, Roles
from tegula.ops.schedule import BulkLoad, MbarrierExpect, MbarrierWait


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive warps of a block. `number`: of the role among its siblings, from 1; 0 is the block."""

    first: int
    warps: int
    number: int = 0

    @property
    def threads(self) -> int:
        return self.warps * WARP

    @property
    def warp_groups(self) -> int:
        """How many warp groups it consists of; 0 where it is not made of whole ones."""
        whole = WARP_GROUP // WARP
        return 0 if self.first % whole or self.warps % whole else self.warps // whole


def role_of(at: Op | Region | None) -> Region | None:
    """The region of the role that encloses an op or region, or is it."""
    while at is not None:
        if isinstance(at, Region) and isinstance(at.parent, Roles):
            return at
        at = at.parent
    return None


def group_of(at: Op | Region | None, block_threads: int) -> Group:
    """The group whose threads run an op or region together. `block_threads`: of the block, whole warps."""
    region = role_of(at)
    if region is None:
        return Group(0, block_threads // WARP)
    roles = region.parent
    assert isinstance(roles, Roles)
    at_role = roles.regions.index(region)
    first, warps = roles.attrs["warps"][at_role]
    return Group(first, warps, at_role + 1)


def only_starts_copies(region: Region) -> bool:
    """Whether a role does nothing that needs more than one of its warps."""
    return all(_of_one_warp(op) for op in region.walk())


def _of_one_warp(op: Op) -> bool:
    assert isinstance(op, TileOp)
    if isinstance(op, BulkLoad | MbarrierExpect | MbarrierWait) or op.attrs.get("elected"):
        return True
    return not op.COOPERATIVE and all(e.kind == "read" for e in op.effects())
