"""The guards of a launch, which are checked before the launch. Arguments that satisfy the guards are cached."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from tegula.check.guards import Leaf, from_row, leaves, require
from tegula.ir import Kernel
from tegula.runtime.pack import FORMATS
from tegula.types import ArrayType, DType, element_bytes, is_element

MAX_CACHED = 4096
"""The maximum number of cached sets of arguments that satisfy the guards of a form."""
SLOT = 8
"""The size in bytes of a slot of packed arguments; each argument takes whole slots."""


class LaunchGuards:
    """The guards of one form of a kernel. `rows`: the guards as a cache entry stores them; `positions`: the positions
    of the arguments that guards depend on."""

    def __init__(self, kernel: Kernel, rows: Sequence[Sequence[Any]]) -> None:
        self.kernel, self.guards = kernel, [from_row(row) for row in rows]
        read_leaves = sorted({leaf for guard in self.guards for leaf in leaves(guard.term)})
        self.positions = tuple(dict.fromkeys(k for k, _ in read_leaves))
        self.leaves, self.unpack = self._layout(frozenset(read_leaves))
        self.satisfied: set[tuple[int, ...]] = set()

    def check(self, packed: bytes) -> None:
        """Raise LaunchError for packed arguments that do not satisfy a guard."""
        values = self.unpack(packed)
        if values not in self.satisfied:
            numbers = dict(zip(self.leaves, map(int, values), strict=True))
            require(self.kernel, self.guards, numbers.__getitem__)
            if len(self.satisfied) >= MAX_CACHED:
                self.satisfied.clear()
            self.satisfied.add(values)

    def _layout(
        self, read_leaves: frozenset[Leaf]
    ) -> tuple[tuple[Leaf, ...], Callable[[bytes], tuple[int, ...]]]:
        """The integer arguments and lengths that guards depend on, in the order of packed arguments, and the function
        that reads them."""
        leaves: list[Leaf] = []
        format_text = "<"
        for k, t in enumerate(p.type for p in self.kernel.params):
            if isinstance(t, ArrayType):
                slots = [(k, d) if (k, d) in read_leaves else None for d in range(t.ndim)]
                format_text += (
                    f"{SLOT}x" + "".join("q" if s else f"{SLOT}x" for s in slots) + f"{SLOT * t.ndim}x"
                )
                leaves += [s for s in slots if s]
                continue
            assert is_element(t)
            slot_bytes = -(-element_bytes(t) // SLOT) * SLOT
            if isinstance(t, DType) and (k, -1) in read_leaves:
                leaves.append((k, -1))
                format_text += f"{FORMATS[t.name]}{slot_bytes - t.bits // 8}x"
            else:
                format_text += f"{slot_bytes}x"
        return tuple(leaves), struct.Struct(format_text).unpack_from
