"""Automatic schedules: loops over loaded tiles and their matmuls become the roles and pipes that users could write."""

from tegula.passes.specialise.plan import Choice, RolePlan
from tegula.passes.specialise.specialise import Schedule, make_roles, specialise, with_less

__all__ = ["Choice", "RolePlan", "Schedule", "make_roles", "specialise", "with_less"]
