"""Choosing the fastest of several forms of a kernel: `tg.autotune`."""

from tegula.tune.tuned import Tuned, autotune

__all__ = ["Tuned", "autotune"]
