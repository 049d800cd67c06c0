"""The exchange of values between lanes of a segment."""

from __future__ import annotations

from typing import Any

import numpy as np

from tegula.interp.machine import Machine, Mask, handles
from tegula.ops.exchange import (
    LaneBallot,
    LaneCollect,
    LaneMatch,
    LaneReduce,
    LaneShuffle,
    LaneXor,
    SegmentOp,
)
from tegula.types import DType, from_numpy


class Segments:
    """The lanes of a machine in rows of `width`; the last row may have absent lanes."""

    def __init__(self, m: Machine, op: SegmentOp) -> None:
        self.m, self.width = m, op.width
        self.rows = -(-m.lanes // op.width)
        self.present = self.in_rows(m.present, np.bool_(False))

    def in_rows(self, x: np.ndarray, missing: Any) -> np.ndarray:
        """Per-lane values in rows, with `missing` for lanes after the machine's last lane."""
        result = np.full((self.rows * self.width, *x.shape[1:]), missing, x.dtype)
        result[: self.m.lanes] = x
        return result.reshape((self.rows, self.width, *x.shape[1:]))

    def own_or(self, x: np.ndarray, missing: Any = 0) -> np.ndarray:
        """Per-lane values in rows, with `missing` for lanes that are not present."""
        result = self.in_rows(x, missing)
        result[~self.present] = missing
        return result

    def lanes(self, rows: np.ndarray) -> np.ndarray:
        """Values arranged in rows, as values per lane of the machine."""
        return rows.reshape((-1, *rows.shape[2:]))[: self.m.lanes].copy()

    def shuffled(self, x: np.ndarray, source: np.ndarray) -> np.ndarray:
        """The value that each lane receives from lane `source`, modulo the width, of its row."""
        at = self.in_rows(source, 0) & (self.width - 1)
        return self.lanes(self.own_or(x)[np.arange(self.rows)[:, None], at.astype(np.intp)])


@handles(LaneShuffle)
def run_shuffle(m: Machine, op: LaneShuffle, mask: Mask) -> Any:
    return Segments(m, op).shuffled(m.env[op.value], m.env[op.source])


@handles(LaneXor)
def run_xor(m: Machine, op: LaneXor, mask: Mask) -> Any:
    flipped = int(m.group(op.mask)) & (op.width - 1)
    return Segments(m, op).shuffled(m.env[op.value], np.arange(m.lanes) ^ flipped)


@handles(LaneCollect)
def run_collect(m: Machine, op: LaneCollect, mask: Mask) -> Any:
    rows = Segments(m, op)
    value, target = rows.own_or(m.env[op.value]), rows.in_rows(m.env[op.target], 0) & (op.width - 1)
    result = np.zeros_like(value)
    for lane in range(op.width):
        at = np.arange(rows.rows), target[:, lane].astype(np.intp)
        result[at] = result[at] + value[:, lane]
    return rows.lanes(result)


@handles(LaneReduce)
def run_reduce(m: Machine, op: LaneReduce, mask: Mask) -> Any:
    rows, x = Segments(m, op), m.env[op.value]
    reduced = rows.own_or(x, neutral(op.op, from_numpy(x.dtype)))
    while reduced.shape[1] > 1:
        half = reduced.shape[1] // 2
        reduced = op.combine.ref({}, reduced[:, :half], reduced[:, half:])  # type: ignore[attr-defined]
    return rows.lanes(np.repeat(reduced, op.width, axis=1))


def neutral(op: str, dtype: DType) -> Any:
    """The neutral element of a combination."""
    if op == "add":
        return -0.0 if dtype.is_float else 0
    if dtype.is_float:
        return np.nan
    if dtype.is_bool:
        return op == "min"
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    return low + (1 << dtype.bits) - 1 if op == "min" else low


@handles(LaneBallot)
def run_ballot(m: Machine, op: LaneBallot, mask: Mask) -> Any:
    rows = Segments(m, op)
    return rows.lanes(np.repeat(_bits(rows.own_or(m.env[op.value])), op.width, axis=1))


@handles(LaneMatch)
def run_match(m: Machine, op: LaneMatch, mask: Mask) -> Any:
    rows = Segments(m, op)
    x = rows.own_or(m.env[op.value])
    same = (x[:, :, None] == x[:, None, :]) & rows.present[:, None, :]
    return rows.lanes(_bits(same)[..., 0])


def _bits(flags: np.ndarray) -> np.ndarray:
    """Flags along the last dimension as a bit mask."""
    weights = np.uint32(1) << np.arange(flags.shape[-1], dtype=np.uint32)
    return np.where(flags, weights, np.uint32(0)).sum(-1, keepdims=True, dtype=np.uint32)


__all__ = ["Segments"]
