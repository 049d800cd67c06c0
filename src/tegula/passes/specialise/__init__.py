"""Automatic schedules: loops over loaded tiles and their matmuls become roles and pipes, as users write them."""

from tegula.passes.specialise.plan import Choice, RolePlan
from tegula.passes.specialise.specialise import Schedule, make_roles, specialise, with_less

__all__ = ["Choice", "RolePlan", "Schedule", "make_roles", "specialise", "with_less"]
