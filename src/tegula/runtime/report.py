"""What a kernel reports to the host while it runs: prints, failed asserts, accesses outside arrays."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.codegen.sites import RECORD_HEADER, RECORD_SLOTS, RECORDS, Site
from tegula.errors import KernelAssertion, OutOfBounds
from tegula.types import DTYPES, DType, ElementType, MatType, VecType, components, element_shape, scalar_of, to_numpy


if TYPE_CHECKING:
    from tegula.runtime.compile import Compiled


class Reports:
    """The records of one launch."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.memory = np.zeros((RECORDS + 1) * RECORD_SLOTS, np.int64)
        self.address = self.memory.ctypes.data

    def deliver(self) -> None:
        """Print what was printed, in the order of blocks and lanes; raise for the first failure."""
        count = int(self.memory[0])
        kept = min(count, RECORDS)
        rows = self.memory[RECORD_SLOTS : RECORD_SLOTS * (kept + 1)].reshape(kept, RECORD_SLOTS)
        sites = self.compiled.sites
        printed = [row for row in rows if sites[row[0]].kind in ("print", "tile")]
        self._print(printed)
        failures = [row for row in rows if sites[row[0]].kind not in ("print", "tile")]
        if count > RECORDS:
            print(f"({count - RECORDS} more reports were lost)")
        if failures:
            raise self._failure(min(failures, key=lambda row: (row[1], row[2], row[0])))

    def _print(self, rows: list[np.ndarray]) -> None:
        tiles: dict[tuple[int, int], dict[int, Any]] = {}
        for row in sorted(rows, key=lambda row: row[1]):
            site = self.compiled.sites[row[0]]
            if site.kind == "print":
                print(_formatted(site, row[RECORD_HEADER - 1 :]))
                continue
            (t,) = _types(site)
            elements = tiles.setdefault((int(row[0]), int(row[1])), {})
            elements[int(row[3])] = _element(t, row[RECORD_HEADER:])
            size = int(np.prod(site.data["shape"]))
            if len(elements) == size:
                values = np.array([elements[k] for k in range(size)])
                print(values.reshape(*site.data["shape"], *element_shape(t)))

    def _failure(self, row: np.ndarray) -> Exception:
        site = self.compiled.sites[row[0]]
        name = self.compiled.kernel.name
        place = f"{site.loc}: in kernel {name}, block {row[1]}, thread {row[2]}"
        if site.kind == "assert":
            return KernelAssertion(f"{place}: {site.data['message']}")
        rank = site.data["rank"]
        at, shape = row[3 : 3 + rank], row[3 + rank : 3 + 2 * rank]
        index, extent = ", ".join(map(str, at)), ", ".join(map(str, shape))
        return OutOfBounds(f"{place}: index ({index}) is outside '{site.data['array']}' of shape ({extent})")


def _types(site: Site) -> list[ElementType]:
    return [_parsed(t) if isinstance(t, str) else t for t in site.data["types"]]


def _parsed(text: str) -> ElementType:
    if text in DTYPES:
        return DTYPES[text]
    kind, rest = text[:-1].split("<")
    *extents, name = rest.split(",")
    sizes = [int(n) for n in extents]
    return VecType(sizes[0], DTYPES[name]) if kind == "vec" else MatType(sizes[0], sizes[1], DTYPES[name])


def _element(t: ElementType, slots: np.ndarray) -> Any:
    scalar = scalar_of(t)
    values = [_scalar(scalar, int(slot)) for slot in slots[: components(t)]]
    return np.array(values).reshape(element_shape(t)) if element_shape(t) else values[0]


def _scalar(dtype: DType, bits: int) -> Any:
    raw = struct.pack("<q", bits)[: max(1, dtype.bits // 8)]
    return np.frombuffer(raw, to_numpy(dtype))[0].item()


def _formatted(site: Site, slots: np.ndarray) -> str:
    types = iter(_types(site))
    out: list[str] = []
    at = 0
    for part in site.data["parts"]:
        if part is None:
            t = next(types)
            out.append(str(_element(t, slots[at:])))
            at += components(t)
        else:
            out.append(part)
    return "".join(out)


__all__ = ["Reports"]
