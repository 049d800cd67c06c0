"""Why a kernel keeps one role."""

from __future__ import annotations

from tegula.source import UNKNOWN, Location


class Declined(Exception):
    """The kernel stays as it is; `loc` is where the reason stands."""

    def __init__(self, reason: str, loc: Location = UNKNOWN) -> None:
        super().__init__(reason)
        self.reason, self.loc = reason, loc
