"""Reports of a running kernel to the host: prints, failed asserts, accesses outside arrays."""

from __future__ import annotations

import ctypes
import math
import struct
import threading
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.backend.pool import run
from tegula.codegen.sites import RECORD_HEADER, RECORD_SLOTS, RECORDS, TABLE_SLOT, VALUES, Site
from tegula.dataclass import dataclass
from tegula.errors import (
    BrokenPromise,
    Deadlock,
    DifferingOperand,
    DivisionByZero,
    KernelAssertion,
    OutOfBounds,
    RunError,
)
from tegula.handles import HOST
from tegula.ir.text import parse_element
from tegula.ops.debug import Assert, Print
from tegula.ops.roles import describe_wait_for_pipe
from tegula.ops.schedule import describe_wait_at
from tegula.runtime.pack import NO_REPORT
from tegula.source import Location
from tegula.types import (
    ElementType,
    components,
    element_shape,
    scalar_of,
    to_numpy,
)

if TYPE_CHECKING:
    from tegula.runtime.compile import Compiled
    from tegula.runtime.cuda.compile import CudaCompiled


_warning_registry: dict[Any, Any] = {}
"""The registry of Python's warnings, so that there is one warning for each line."""


class _ReportBuffer:
    """The report buffer. Between launches all words are zero except the address of the table of structures. `pointer`:
    the address of the buffer in packed arguments."""

    def __init__(self) -> None:
        self.words = np.zeros((RECORDS + 1) * RECORD_SLOTS, np.int64)
        address = self.words.ctypes.data
        self.pointer = struct.pack("<Q", address)
        self.count = ctypes.c_int64.from_address(address)
        self.words[TABLE_SLOT] = HOST.address

    def read_and_clear(self, compiled: Compiled) -> Reports:
        """Copy the records, and clear the memory."""
        record_count = min(self.count.value, RECORDS)
        words = self.words[: RECORD_SLOTS * (record_count + 1)]
        rows = words[RECORD_SLOTS:].reshape(record_count, RECORD_SLOTS).copy()
        reports = Reports(compiled, self.count.value, rows)
        words.fill(0)
        self.words[TABLE_SLOT] = HOST.address
        return reports


class _ThreadBuffer(threading.local):
    """The buffer of this thread; None while a launch uses the buffer."""

    memory: _ReportBuffer | None = None


_thread = _ThreadBuffer()


def run_reporting(compiled: Compiled, packed: bytes, blocks: int, threads: int | None = None) -> None:
    """Run a kernel with sites, on at most `threads` threads; print its output and raise its first failure.

    A nested launch, in a signal handler, has a buffer of its own; the buffer of an interrupted launch is dropped."""
    memory, _thread.memory = _thread.memory or _ReportBuffer(), None
    args = packed[: -len(NO_REPORT)] + memory.pointer
    run(compiled.function, args, blocks, compiled.scratch_bytes, threads)
    if not memory.count.value:
        _thread.memory = memory
        return
    reports = memory.read_and_clear(compiled)
    _thread.memory = memory
    reports.deliver()


@dataclass(frozen=True, slots=True)
class Reports:
    """The records of one launch: `count`, the number of records, and `rows`, the records that fit the buffer."""

    compiled: Compiled | CudaCompiled
    count: int
    rows: np.ndarray

    def deliver(self) -> None:
        """Print the output of the kernel, in the order of blocks and lanes, and raise the error of the first
        failure."""
        count, rows = self.count, self.rows
        sites = self.compiled.sites
        printed = [row for row in rows if sites[row[0]].kind in ("print", "tile")]
        self._print(printed)
        self._warn_of_differing_operands({int(row[0]) for row in rows if sites[row[0]].kind == "differing"})
        failures = [row for row in rows if sites[row[0]].kind not in ("print", "tile", "differing")]
        if count > RECORDS:
            print(f"({count - RECORDS} more reports were lost)")
        if failures:
            first = min(failures, key=lambda row: (row[1], row[2], row[0]))
            waits = [row for row in failures if row[1] == first[1] and sites[row[0]].kind == "wait"]
            raise self._failure(first) if sites[first[0]].kind != "wait" else self._deadlock(waits)

    def _warn_of_differing_operands(self, numbers: set[int]) -> None:
        """Warn, once per line, of thread-varying operands for which thread 0's value is used."""
        sites = [self.compiled.sites[number] for number in sorted(numbers)]
        operands = {(site.loc.file, site.loc.line, site.data["operand"]): None for site in sites}
        for file, line, operand in operands:
            message = f"{operand} differs between threads of a block: thread 0's value is used"
            text = f"{message} (in kernel {self.compiled.kernel.name})"
            warnings.warn_explicit(text, DifferingOperand, file, line, registry=_warning_registry)

    def _print(self, rows: list[np.ndarray]) -> None:
        # Threads may be in different iterations of a loop, but the records of each thread are in order, so that the
        # next record of a thread belongs to the first incomplete tile without an element of the thread.
        incomplete: dict[tuple[int, int], list[dict[int, np.ndarray]]] = {}
        incomplete_prints: dict[tuple[int, int, int], list[np.ndarray]] = {}
        for row in sorted(rows, key=lambda row: row[1]):
            site = self.compiled.sites[row[0]]
            if site.kind == "print":
                # The records of one thread are in order.
                slots = incomplete_prints.setdefault((int(row[0]), int(row[1]), int(row[2])), [])
                slots.append(row[RECORD_HEADER - 1 :])
                if len(slots) * VALUES >= sum(map(components, _types(site))):
                    _print(site, _values(site, np.concatenate(slots)))
                    slots.clear()
                continue
            tiles, index = incomplete.setdefault((int(row[0]), int(row[1])), []), int(row[3])
            elements = next((element for element in tiles if index not in element), None)
            if elements is None:
                elements = dict[int, np.ndarray]()
                tiles.append(elements)
            elements[index] = row[RECORD_HEADER:]
            if len(elements) == sum(map(math.prod, site.data["shapes"])):
                _print(site, _tiles(site, tiles.pop(0)))

    def _deadlock(self, rows: list[np.ndarray]) -> Deadlock:
        """The error with the waits of all roles of a block. A role without a wait has ended."""
        sites = [self.compiled.sites[row[0]] for row in rows]
        waiting_roles = {site.data["role"] for site in sites}
        texts: list[tuple[Location, str]] = []
        for site, row in zip(sites, rows, strict=True):
            data, names = site.data, site.data["names"]
            awaited = [(name, k not in waiting_roles) for k, name in enumerate(names) if int(row[4]) >> k & 1]
            role = names[data["role"]]
            number, stage = int(row[3]), int(row[5])
            if "barrier" in data:
                text = describe_wait_at(role, data["barrier"], stage, number, awaited)
            else:
                text = describe_wait_for_pipe(
                    role, data["pipe"], data["stages"], data["fills"], number, awaited
                )
            texts.append((site.loc, text))
        pipes = all("pipe" in site.data for site in sites)
        return Deadlock(self.compiled.kernel.name, int(rows[0][1]), texts, pipes)

    def _failure(self, row: np.ndarray) -> RunError:
        site = self.compiled.sites[row[0]]
        error, text, help = _failure_message(site, [int(n) for n in row[3:]])
        location = f"in block {row[1]}, thread {row[2]} of kernel {self.compiled.kernel.name}"
        return error(f"{text} ({location})", site.loc, help)


def _failure_message(site: Site, values: list[int]) -> tuple[type[RunError], str, str]:
    """The class, text and help of a failure."""
    data, rank = site.data, site.data.get("rank", 0)
    index_text, shape_text = _joined(values[:rank]), _joined(values[rank : 2 * rank])
    array = f"'{data['array']}'" if data.get("array") else "the tile"
    if site.kind == "assert":
        values_text = _values(site, np.array(values, np.int64)) if data.get("parts") else []
        return KernelAssertion, f"assertion failed: {Assert.text(data, *values_text)}", ""
    if site.kind == "division":
        return (
            DivisionByZero,
            "integer division by zero",
            "test the divisor first; outside debug mode the quotient is 0",
        )
    if site.kind == "uniform":
        text = "the argument of tg.uniform differs between threads of the block"
        return (
            BrokenPromise,
            text,
            "pass a value that is equal in all threads; outside debug mode every thread uses the value of thread 0",
        )
    if site.kind == "misaligned":
        text = f"aligned=True, but offset ({index_text}) of {array} is not 16-byte aligned"
        return BrokenPromise, text, "leave out aligned=True, or load from offsets at multiples of 16 bytes"
    if site.kind == "strided":
        text = f"aligned=True, but {array} is not packed row-major"
        return BrokenPromise, text, "leave out aligned=True, or launch with a copy of the array"
    if site.kind == "tile bounds":
        tile = f"a tile of shape ({_joined(data['shape'])}) at offset ({index_text})"
        text = f"{tile} leaves {array} of shape ({shape_text})"
        return (
            OutOfBounds,
            text,
            "leave out bounds_check=False and aligned=True where a tile may leave its array",
        )
    text = f"index ({index_text}) is outside {array} of shape ({shape_text})"
    return OutOfBounds, text, "guard the access with an if; outside debug mode the access is undefined"


def _joined(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) + ("," if len(numbers) == 1 else "")


def _types(site: Site) -> list[ElementType]:
    return [parse_element(t) if isinstance(t, str) else t for t in site.data["types"]]


def _element(t: ElementType, slots: np.ndarray) -> np.ndarray:
    """The element whose scalars are in the slots, one scalar per slot."""
    scalar = scalar_of(t)
    scalar_bytes = b"".join(
        struct.pack("<q", int(slot))[: scalar.bits // 8] for slot in slots[: components(t)]
    )
    return np.frombuffer(scalar_bytes, to_numpy(scalar)).reshape(element_shape(t))


def _values(site: Site, slots: np.ndarray) -> list[np.ndarray]:
    """The values of a print by each thread."""
    values: list[np.ndarray] = []
    for t in _types(site):
        values.append(_element(t, slots))
        slots = slots[components(t) :]
    return values


def _tiles(site: Site, elements: dict[int, np.ndarray]) -> list[np.ndarray]:
    """The tiles of a print by each block, from the records of their elements."""
    tiles: list[np.ndarray] = []
    first = 0
    for k, (shape, t) in enumerate(zip(site.data["shapes"], _types(site), strict=True)):
        size = math.prod(shape)
        values = np.stack([_element(t, elements[first + n]) for n in range(size)])
        tiles.append(values[0] if k in site.data["elements"] else values.reshape(*shape, *element_shape(t)))
        first += size
    return tiles


def _print(site: Site, values: list[np.ndarray]) -> None:
    end = site.data.get("end")
    print(Print.ref(site.data, *values), end="\n" if end is None else end)
