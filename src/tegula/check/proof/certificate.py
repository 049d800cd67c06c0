"""Certificates as the prover writes them: docs/design/042-certificates.md says what they hold."""

from __future__ import annotations

from typing import Any, TypeAlias
from zlib import crc32

from tegula.ir import Kernel, Value

Certificate: TypeAlias = dict[str, Any]
"""A certificate, made of lists, dictionaries, numbers and strings alone, so that it can be stored and printed."""


def fingerprint(kernel: Kernel) -> int:
    """A checksum of the ops of a kernel, their operands, attributes and types, in order."""
    numbers: dict[Value, int] = {v: k for k, v in enumerate(kernel.params)}
    sum = 0
    for op in kernel.walk():
        for v in op.results:
            numbers[v] = len(numbers)
        for region in op.regions:
            for v in region.args:
                numbers[v] = len(numbers)
        attrs = sorted((k, str(x)) for k, x in op.attrs.items())
        results = [v.type.notation for v in op.results]
        line = (op.NAME, [numbers[v] for v in op.operands], results, attrs, len(op.regions))
        sum = crc32(str(line).encode(), sum)
    return sum
