"""Addresses of a thread's memory in PTX.

LLVM computes the generic address of a variable in the thread's memory once, and converts it for `ld.local` wherever the
variable is read; both steps are dropped only within one basic block. ptxas keeps the generic address in a register and
converts it for each access, although the address is a constant."""

from __future__ import annotations

import re
from collections import Counter

_GENERIC = re.compile(r"^\tadd\.u64 \t(%rd\d+), %SP, (\d+);$", re.MULTILINE)
_CONVERSION = re.compile(r"^\tcvta\.to\.local\.u64 \t(%rd\d+), (%rd\d+);$", re.MULTILINE)
_RESULT = re.compile(r"^\t(?:@!?%p\d+ )?(?!st\.)[\w.:]+ *\t(%rd\d+)\b", re.MULTILINE)


def fold_frame_addresses(ptx: str) -> str:
    """An equivalent program in which accesses of variables in the thread's memory do not convert addresses."""
    offsets = dict(_GENERIC.findall(ptx))
    if not offsets:
        return ptx
    # Values of several branches share a register.
    definitions = Counter(_RESULT.findall(ptx))

    def folded(conversion: re.Match[str]) -> str:
        target, source = conversion.groups()
        if source not in offsets or definitions[source] > 1:
            return conversion[0]
        return f"\tadd.u64 \t{target}, %SPL, {offsets[source]};"

    return _CONVERSION.sub(folded, ptx)
