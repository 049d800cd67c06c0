"""The live range of each piece of scratch memory: from the first access to the last, extended over every loop that uses
the piece and began after the allocation of the piece.

A piece is allocated at the lowering of the op that defines its object, stack or value. Control flow is structured and
the text of the function is in program order, so the iterations of a loop are one range of lines. A piece allocated
inside an iteration carries no data between iterations. A piece allocated before the loop may carry data: the text shows
uses of addresses, but not whether an iteration writes an element before it reads the element, and the live part of a
stack depends on its count. The live range of such a piece is the whole loop."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping

POINTER = re.compile(r"ptr>?(?: align \d+)? (%\w+)")
POINTER_USE = re.compile("ptr>? (?:%|align)")
"""Matches a line that uses a pointer or a vector of pointers."""

DERIVED = re.compile(r"  (%\w+) = (?!load |icmp |call )")
"""Matches a register that may be an address derived from the instruction's operands."""

UNREAD = re.compile(r"  store (?!ptr|volatile|atomic|<\d+ x ptr)|  %\w+ = getelementptr ")
"""Matches a store of numbers, or the computation of an address."""

PHI = re.compile(r"(%\w+) = phi ptr ([^\n]*)")
INCOMING = re.compile(r"\[ (%\w+), %(\w+) \]")
TARGET = re.compile(r"label %(\w+)")

Span = tuple[int, int]


def lifetimes(lines: list[str], pieces: Mapping[str, int], kept: Container[str] = ()) -> dict[str, Span]:
    """The live range [first line, end) of each register in `pieces` that the lines use, once stores to pieces that
    nothing reads have become empty lines. `pieces`: for each register with the address of a piece, the number of lines
    at the allocation; `kept`: pieces that other code reads."""
    reader = _Reader(pieces)
    for number, line in enumerate(lines):
        if "\n" not in line:
            reader.read(number, line, True)
            continue
        for part in line.split("\n"):
            reader.read(number, part, False)
    for piece, numbers in reader.unread(kept):
        del reader.uses[piece]
        for number in numbers:
            lines[number] = ""
    loops = _Loops(reader.loops)
    return {piece: loops.extend(pieces[piece], *span) for piece, span in reader.spans().items()}


class _Reader:
    """Reads a function line by line. A phi counts as a piece of its own until all lines are read, because its incoming
    values may be defined later."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.origins = {piece: frozenset((piece,)) for piece in pieces}
        self.uses: dict[str, Span] = {}
        self.read_pieces: set[str] = set()
        self.unread_lines: dict[str, list[int]] = {}
        self.phis: dict[str, list[str]] = {}
        self.incoming: list[tuple[str, str]] = []
        self.labels: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        self.loops: list[Span] = []
        self.block = "entry"

    def read(self, number: int, line: str, is_whole: bool) -> None:
        """Read a line. `is_whole`: whether the entry of this number has no other line."""
        if "ptr" in line:
            if POINTER_USE.search(line):
                self._access(number, line, is_whole)
            for name, incoming in PHI.findall(line) if "phi ptr" in line else ():
                uses = INCOMING.findall(incoming)
                self.phis[name] = [pointer for pointer, _ in uses]
                self.origins[name] = frozenset((name,))
                self.incoming += uses
        elif "br " in line:
            self.ends[self.block] = number
            self.loops += [(self.labels[t], number + 1) for t in TARGET.findall(line) if t in self.labels]
        elif line.endswith(":"):
            self.block = line[:-1]
            self.labels[self.block] = number

    def _access(self, number: int, line: str, is_whole: bool) -> None:
        origins = self.origins
        pieces_read: frozenset[str] = frozenset()
        for pointer in POINTER.findall(line):
            pieces_read |= origins.get(pointer, frozenset())
        if pieces_read:
            self._use(pieces_read, number)
            derived = DERIVED.match(line)
            if derived:
                origins[derived[1]] = pieces_read
            if is_whole and len(pieces_read) == 1 and UNREAD.match(line):
                (piece,) = pieces_read
                self.unread_lines.setdefault(piece, []).append(number)
            else:
                self.read_pieces |= pieces_read

    def _use(self, pieces: Iterable[str], number: int) -> None:
        for piece in pieces:
            first, end = self.uses.get(piece, (number, number + 1))
            self.uses[piece] = min(first, number), max(end, number + 1)

    def unread(self, kept: Container[str]) -> list[tuple[str, list[int]]]:
        """The pieces that are only written, with the numbers of their lines."""
        phis = set().union(*(self.origins.get(pointer, ()) for pointer, _ in self.incoming), self.phis)
        return [
            (piece, numbers)
            for piece, numbers in self.unread_lines.items()
            if piece not in self.read_pieces and piece not in phis and piece not in kept
        ]

    def spans(self) -> dict[str, Span]:
        """The pieces with the range of their uses. An incoming value of a phi is live to the end of its predecessor
        block."""
        for pointer, label in self.incoming:
            self._use(self.origins.get(pointer, ()), self.ends[label])
        for phi in self.phis:
            if phi in self.uses:
                first, end = self.uses[phi]
                for number in (first, end - 1):
                    self._use(self._pieces(phi), number)
        return {piece: span for piece, span in self.uses.items() if piece not in self.phis}

    def _pieces(self, phi: str) -> set[str]:
        """The pieces whose address a phi may hold, directly or through other phis."""
        pieces, worklist = {phi}, [phi]
        while worklist:
            origins = (self.origins.get(p, frozenset()) for p in self.phis.get(worklist.pop(), []))
            new_pieces = set().union(*origins) - pieces
            pieces |= new_pieces
            worklist += new_pieces
        return pieces - self.phis.keys()


class _Loops:
    """The loop nest of a function. `loops`: the range of lines [first, end) of each loop."""

    def __init__(self, loops: list[Span]) -> None:
        self.loops = sorted(loops, key=lambda loop: (loop[0], -loop[1]))
        self.heads = [head for head, _ in self.loops]
        self.parents: list[int] = []
        enclosing = [-1]
        for head, _ in self.loops:
            while enclosing[-1] >= 0 and self.loops[enclosing[-1]][1] <= head:
                enclosing.pop()
            self.parents.append(enclosing[-1])
            enclosing.append(len(self.parents) - 1)

    def enclosing(self, line: int) -> Iterator[Span]:
        """The loops that contain a line, innermost first."""
        loop = bisect_right(self.heads, line) - 1
        while loop >= 0:
            if line < self.loops[loop][1]:
                yield self.loops[loop]
            loop = self.parents[loop]

    def extend(self, allocation: int, first: int, end: int) -> Span:
        """The live range of a piece with uses in [first, end): extended over every loop with a use, unless the loop
        contains the allocation and all uses. `allocation`: the line of the allocation."""
        start, last = first, end
        for head, loop_end in self.enclosing(first):
            if allocation < head or loop_end < end:
                start = head
        for head, loop_end in self.enclosing(end - 1):
            if allocation < head or first < head:
                last = loop_end
        return start, last
