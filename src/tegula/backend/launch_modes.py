"""The bits of the mode of a launch in machine code, apart from its text, which launches on CPUs do not need."""

from __future__ import annotations

TILED, DESCRIBE = 1, 2
"""Whether the launch dimensions count blocks, and whether only the key of the launch is returned."""

__all__ = ["DESCRIBE", "TILED"]
