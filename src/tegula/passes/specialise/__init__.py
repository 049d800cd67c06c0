"""Automatic schedules: warp specialisation of loops over loaded tiles and matmuls, which generates the roles and pipes
of a hand-written schedule."""

from tegula.deferred import deferred_imports
from tegula.passes.specialise.schedule import BlockCosts, Choice, Failure, RolePlan, Schedule
from tegula.passes.specialise.specialise import block_costs, make_roles, specialise

with deferred_imports():
    from tegula.passes.specialise.search import next_schedule

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
