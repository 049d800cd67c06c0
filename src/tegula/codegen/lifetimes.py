"""The live range of each piece of scratch memory: from the first access to the last, extended over every loop that uses
the piece and began after the allocation of the piece.

A piece is allocated at the lowering of the op that defines its object, stack or value. Control flow is structured and
the text of the function is in program order, so the iterations of a loop are one range of lines. A piece allocated
inside an iteration carries no data between iterations. A piece allocated before the loop may carry data, because the
text shows only the uses of addresses: the elements that an iteration writes before it reads them are known only at run
time, and the live part of a stack depends on its count. The live range of such a piece is the whole loop."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

POINTER = re.compile(r"ptr>?(?: align \d+)? (%\w+)")
NAMED = re.compile("ptr>? (?:%|align)")
"""The text before a pointer, or a vector of pointers, in a line that uses one."""

RESULT = re.compile(r"  (%\w+) = (?!load |icmp |call )")
"""Matches a register that may be an address derived from the instruction's operands."""

PHI = re.compile(r"(%\w+) = phi ptr ([^\n]*)")
INCOMING = re.compile(r"\[ (%\w+), %(\w+) \]")
TARGET = re.compile(r"label %(\w+)")

Span = tuple[int, int]


def lifetimes(lines: list[str], pieces: Mapping[str, int]) -> dict[str, Span]:
    """The live range [first line, end) of each register in `pieces` that the lines use. `pieces`: for each register
    with the address of a piece, the number of lines at the allocation."""
    reader = _Reader(pieces)
    for at, line in enumerate(lines):
        reader.read(at, line)
    loops = _Loops(reader.loops)
    return {piece: loops.extended(pieces[piece], *span) for piece, span in reader.spans().items()}


class _Reader:
    """Reads a function line by line. A phi counts as a piece of its own until all lines are read, because its incoming
    values may be defined later."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.origins = {piece: frozenset((piece,)) for piece in pieces}
        self.used: dict[str, Span] = {}
        self.phis: dict[str, list[str]] = {}
        self.passed: list[tuple[str, str]] = []
        self.labels: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.loops: list[Span] = []
        self.block = "entry"

    def read(self, at: int, line: str) -> None:
        if NAMED.search(line):
            self._access(at, line)
        elif "br " in line:
            self.ends[self.block] = at
            self.loops += [(self.labels[t], at + 1) for t in TARGET.findall(line) if t in self.labels]
        elif line.endswith(":"):
            self.block = line[:-1]
            self.labels[self.block] = at
        elif "phi ptr" in line:
            for name, incoming in PHI.findall(line):
                uses = INCOMING.findall(incoming)
                self.phis[name] = [pointer for pointer, _ in uses]
                self.origins[name] = frozenset((name,))
                self.passed += uses

    def _access(self, at: int, line: str) -> None:
        known = self.origins
        pieces_read: frozenset[str] = frozenset()
        for pointer in POINTER.findall(line):
            pieces_read |= known.get(pointer, frozenset())
        if pieces_read:
            self._use(pieces_read, at)
            derived = RESULT.match(line)
            if derived:
                known[derived[1]] = pieces_read

    def _use(self, pieces: Iterable[str], at: int) -> None:
        for piece in pieces:
            first, end = self.used.get(piece, (at, at + 1))
            self.used[piece] = min(first, at), max(end, at + 1)

    def spans(self) -> dict[str, Span]:
        """The pieces with the range of their uses. An incoming value of a phi is live to the end of its predecessor
        block."""
        for pointer, label in self.passed:
            self._use(self.origins.get(pointer, ()), self.ends[label])
        for phi in self.phis:
            if phi in self.used:
                first, end = self.used[phi]
                for at in (first, end - 1):
                    self._use(self._pieces(phi), at)
        return {piece: span for piece, span in self.used.items() if piece not in self.phis}

    def _pieces(self, phi: str) -> set[str]:
        """The pieces whose address a phi may hold, directly or through other phis."""
        pieces, left = {phi}, [phi]
        while left:
            origins = (self.origins.get(p, frozenset()) for p in self.phis.get(left.pop(), []))
            fresh = set().union(*origins) - pieces
            pieces |= fresh
            left += fresh
        return pieces - self.phis.keys()


class _Loops:
    """The loop nest of a function. `loops`: the range of lines [first, end) of each loop."""

    def __init__(self, loops: list[Span]) -> None:
        self.loops = sorted(loops, key=lambda loop: (loop[0], -loop[1]))
        self.heads = [head for head, _ in self.loops]
        self.parents: list[int] = []
        open_ones = [-1]
        for head, _ in self.loops:
            while open_ones[-1] >= 0 and self.loops[open_ones[-1]][1] <= head:
                open_ones.pop()
            self.parents.append(open_ones[-1])
            open_ones.append(len(self.parents) - 1)

    def around(self, line: int) -> Iterator[Span]:
        """The loops that contain a line, innermost first."""
        at = bisect_right(self.heads, line) - 1
        while at >= 0:
            if line < self.loops[at][1]:
                yield self.loops[at]
            at = self.parents[at]

    def extended(self, extended_to: int, first: int, end: int) -> Span:
        """A range extended over every loop with a use of the piece, unless the loop contains the allocation and all
        uses."""
        start, last = first, end
        for head, after in self.around(first):
            if extended_to < head or after < end:
                start = head
        for head, after in self.around(end - 1):
            if extended_to < head or first < head:
                last = after
        return start, last
