"""Places in a kernel that report to the host, and the records they write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tegula.source import Location

RECORD_SLOTS = 16
RECORD_BYTES = 8 * RECORD_SLOTS
RECORD_HEADER = 4
RECORDS = 4096


@dataclass(frozen=True, slots=True)
class Site:
    """A print, an assert or a bounds check. `data`: what the host needs to put it into words."""

    kind: str
    loc: Location
    data: dict[str, Any]
