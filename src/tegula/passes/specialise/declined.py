"""The reason why a kernel gets no automatic roles."""

from __future__ import annotations

from tegula.source import UNKNOWN, Location


class Declined(Exception):
    """Raised if a kernel gets no automatic roles, with the `reason` and the location `loc` of the op that prevents
    them."""

    def __init__(self, reason: str, loc: Location = UNKNOWN) -> None:
        super().__init__(reason)
        self.reason, self.loc = reason, loc


class NoRegisters(Declined):
    """The tiles that are live at a matmul do not fit in registers."""
