"""Automatic schedules: loops over loaded tiles and their products become roles and pipes, as users write them."""

from tegula.passes.specialise.plan import Choice, Plan
from tegula.passes.specialise.specialise import Schedule, specialise, with_less

__all__ = ["Choice", "Plan", "Schedule", "specialise", "with_less"]
