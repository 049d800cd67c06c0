"""Report sites: source locations in a kernel that report to the host, and the records of the reports."""

from __future__ import annotations

from typing import Any

from tegula.dataclass import dataclass
from tegula.ops.debug import PrintTile
from tegula.source import Location
from tegula.types import TileType

RECORD_SLOTS = 16
RECORD_BYTES = 8 * RECORD_SLOTS
RECORD_HEADER = 4
TABLE_SLOT = 2
"""The index of the word with the address of the table of spatial structures; the words before are the number of records
and the deadlock flag."""
RECORDS = 4096
VALUES = RECORD_SLOTS - RECORD_HEADER + 1
"""The number of values that one record of a print holds."""


@dataclass(frozen=True, slots=True)
class Site:
    """A print, an assert or a bounds check. `data`: the data for the host's message."""

    kind: str
    loc: Location
    data: dict[str, Any]


def printed_tiles(op: PrintTile) -> dict[str, Any]:
    """The shape and element type of each tile of a `print.tile`, for the host."""
    tiles = [v.type for v in op.operands if isinstance(v.type, TileType)]
    return {
        "parts": list(op.parts),
        "end": op.end,
        "elements": list(op.elements),
        "shapes": [list(t.shape) for t in tiles],
        "types": [t.dtype for t in tiles],
    }
