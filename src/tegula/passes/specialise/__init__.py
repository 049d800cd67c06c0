"""Automatic schedules: warp specialisation of loops over loaded tiles and matmuls, which generates the roles and pipes
of a hand-written schedule."""

from tegula.passes.specialise.plan import Choice, RolePlan
from tegula.passes.specialise.scale_blocks import BlockCosts
from tegula.passes.specialise.search import Failure, next_schedule
from tegula.passes.specialise.specialise import Schedule, block_costs, make_roles, specialise

__all__ = [
    "BlockCosts",
    "Choice",
    "Failure",
    "RolePlan",
    "Schedule",
    "block_costs",
    "make_roles",
    "next_schedule",
    "specialise",
]
