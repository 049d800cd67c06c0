"""The guards of a launch, which are checked before the launch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tegula.check.guards import Leaf, from_row, leaves
from tegula.errors import LaunchError
from tegula.ir import Kernel
from tegula.runtime.pack import FORMATS
from tegula.types import ArrayType, DType, element_bytes, is_element

SLOT = 8
"""The size in bytes of a slot of packed arguments; each argument takes whole slots."""


class LaunchGuards:
    """The guards of one form of a kernel. `rows`: the guards as a cache entry stores them."""

    def __init__(self, kernel: Kernel, rows: Sequence[Sequence[Any]]) -> None:
        self.name, self.guards = kernel.name, [from_row(row) for row in rows]
        self.parameters = list(zip(kernel.param_names, (p.type for p in kernel.params), strict=True))

    def check(self, packed: bytes) -> None:
        """Raise LaunchError for packed arguments that do not satisfy a guard."""
        numbers = self._numbers(packed)
        for guard in self.guards:
            if not guard.holds(numbers.__getitem__):
                asked = ", ".join(f"{self._named(k, d)} = {numbers[k, d]}" for k, d in leaves(guard.term))
                place = f"line {guard.loc.line} of {guard.loc.file}"
                what = f"kernel {self.name}: a launch must satisfy '{guard.text}' ({place}), not with {asked}"
                raise LaunchError(what, "the schedule is proved for launches that satisfy it")

    def _named(self, parameter: int, dim: int) -> str:
        name = self.parameters[parameter][0]
        return name if dim < 0 else f"{name}.shape[{dim}]"

    def _numbers(self, packed: bytes) -> dict[Leaf, int]:
        """The integer arguments and the lengths of arrays, by parameter and dimension."""
        found: dict[Leaf, int] = {}
        at = 0
        for k, (_, t) in enumerate(self.parameters):
            if isinstance(t, ArrayType):
                lengths = struct.unpack_from(f"<{t.ndim}q", packed, at + SLOT)
                found |= {(k, d): n for d, n in enumerate(lengths)}
                at += SLOT * (1 + 2 * t.ndim)
                continue
            if isinstance(t, DType) and not t.is_float:
                found[k, -1] = int(struct.unpack_from(f"<{FORMATS[t.name]}", packed, at)[0])
            assert is_element(t)
            at += -(-element_bytes(t) // SLOT) * SLOT
        return found
