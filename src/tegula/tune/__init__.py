"""The choice of the fastest of several variants of a kernel: `tg.autotune`."""

from tegula.tune.tuned import Tuned, autotune

__all__ = ["Tuned", "autotune"]
