"""A small loader for the ELF objects that LLVM emits: maps them, relocates them, finds their functions.

With it a cached kernel runs without llvmlite."""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from tegula.errors import InternalError

ALLOC, WRITE = 0x2, 0x1
NOBITS, RELA, SYMTAB = 8, 4, 2
X86_64, AARCH64 = 62, 183
PAGE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Section:
    name: int
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    section: int
    value: int


class _Elf:
    """The parts of a relocatable ELF64 file that loading needs."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise InternalError("not a little-endian ELF64 object")
        self.data = data
        (self.machine,) = struct.unpack_from("<H", data, 18)
        (start,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        self.sections = [self._section(start + k * size) for k in range(count)]
        self.symbols = list(self._symbols())

    def _section(self, at: int) -> Section:
        name, kind, flags, _, offset, size, link, info, align, _ = struct.unpack_from("<IIQQQQIIQQ", self.data, at)
        return Section(name, kind, flags, offset, size, link, info, max(align, 1))

    def _symbols(self) -> Iterator[Symbol]:
        for table in (s for s in self.sections if s.kind == SYMTAB):
            names = self.sections[table.link].offset
            for at in range(table.offset, table.offset + table.size, 24):
                name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
                end = self.data.index(b"\0", names + name)
                yield Symbol(self.data[names + name : end].decode(), section, value)

    def relocations(self) -> Iterator[tuple[Section, int, int, int, int]]:
        """(relocated section, offset in it, type, symbol index, addend)."""
        for table in self.sections:
            if table.kind == RELA and self.sections[table.info].flags & ALLOC:
                for at in range(table.offset, table.offset + table.size, 24):
                    offset, info, addend = struct.unpack_from("<QQq", self.data, at)
                    yield self.sections[table.info], offset, info & 0xFFFFFFFF, info >> 32, addend


def undefined_symbols(data: bytes) -> list[str]:
    """The names that an object needs from elsewhere."""
    return [s.name for s in _Elf(data).symbols if s.section == 0 and s.name and s.name != "_GLOBAL_OFFSET_TABLE_"]


class LoadedObject:
    """Code in memory, executable and read-only from construction on; freed with the object."""

    def __init__(self, data: bytes) -> None:
        elf = _Elf(data)
        missing = undefined_symbols(data)
        if missing:
            raise InternalError(f"the object needs functions it does not hold: {', '.join(missing)}")
        places, size = _layout(elf)
        slots = _got_slots(elf)
        got = -(-size // 8) * 8
        total = -(-(got + 8 * len(slots)) // PAGE) * PAGE
        self._map = mmap.mmap(-1, total, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        for section, at in places.items():
            if section.kind != NOBITS:
                self._map[at : at + section.size] = data[section.offset : section.offset + section.size]
        self._addresses = {
            s.name: self._base + places[elf.sections[s.section]] + s.value
            for s in elf.symbols
            if s.name and 0 < s.section < len(elf.sections) and elf.sections[s.section] in places
        }
        self._relocate(elf, places, got, slots)
        self._protect(total)

    def _relocate(self, elf: _Elf, places: dict[Section, int], got: int, slots: dict[int, int]) -> None:
        for symbol, slot in slots.items():
            struct.pack_into("<Q", self._map, got + 8 * slot, self._symbol(elf, places, symbol))
        for section, offset, kind, symbol, addend in elf.relocations():
            at = places[section] + offset
            target = self._symbol(elf, places, symbol) + addend
            if _uses_got(elf.machine, kind):
                target = self._base + got + 8 * slots[symbol] + addend
            _apply(elf.machine, self._map, at, kind, target, self._base + at)

    def _symbol(self, elf: _Elf, places: dict[Section, int], index: int) -> int:
        symbol = elf.symbols[index]
        if symbol.section >= len(elf.sections):
            return symbol.value
        return self._base + places[elf.sections[symbol.section]] + symbol.value

    def _protect(self, total: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(self._base), ctypes.c_size_t(total), mmap.PROT_READ | mmap.PROT_EXEC):
            raise InternalError(f"cannot make code executable: errno {ctypes.get_errno()}")

    def address(self, symbol: str) -> int:
        """Where a function or constant lies; KeyError for a name that the object does not define."""
        return self._addresses[symbol]


def _layout(elf: _Elf) -> tuple[dict[Section, int], int]:
    """Offsets of the sections that occupy memory, and the bytes they need."""
    places: dict[Section, int] = {}
    end = 0
    for section in elf.sections:
        if section.flags & ALLOC and section.size:
            align = max(section.align, 16)
            places[section] = -(-end // align) * align
            end = places[section] + section.size
        elif section.flags & ALLOC:
            places[section] = end
    return places, end


def _uses_got(machine: int, kind: int) -> bool:
    return machine == X86_64 and kind in (9, 41, 42)


def _got_slots(elf: _Elf) -> dict[int, int]:
    slots: dict[int, int] = {}
    for _, _, kind, symbol, _ in elf.relocations():
        if _uses_got(elf.machine, kind):
            slots.setdefault(symbol, len(slots))
    return slots


def _apply(machine: int, memory: mmap.mmap, at: int, kind: int, target: int, place: int) -> None:
    if machine == X86_64:
        _apply_x86(memory, at, kind, target, place)
    elif machine == AARCH64:
        _apply_aarch64(memory, at, kind, target, place)
    else:
        raise InternalError(f"cannot load code for machine {machine}")


def _apply_x86(memory: mmap.mmap, at: int, kind: int, target: int, place: int) -> None:
    if kind == 1:  # R_X86_64_64
        struct.pack_into("<Q", memory, at, target & 0xFFFFFFFFFFFFFFFF)
    elif kind in (2, 4, 9, 41, 42):  # PC32, PLT32, GOTPCREL, GOTPCRELX, REX_GOTPCRELX
        struct.pack_into("<i", memory, at, target - place)
    elif kind == 24:  # PC64
        struct.pack_into("<q", memory, at, target - place)
    else:
        raise InternalError(f"relocation {kind} is not known for x86-64")


def _apply_aarch64(memory: mmap.mmap, at: int, kind: int, target: int, place: int) -> None:
    (word,) = struct.unpack_from("<I", memory, at)
    if kind == 257:  # ABS64
        struct.pack_into("<Q", memory, at, target & 0xFFFFFFFFFFFFFFFF)
        return
    if kind == 261:  # PREL32
        struct.pack_into("<i", memory, at, target - place)
        return
    if kind in (275, 276):  # ADR_PREL_PG_HI21
        pages = ((target >> 12) - (place >> 12)) & 0x1FFFFF
        word |= (pages & 3) << 29 | (pages >> 2) << 5
    elif kind in (282, 283):  # JUMP26, CALL26
        word |= ((target - place) >> 2) & 0x3FFFFFF
    elif kind in _LOW12:  # ADD_ABS_LO12, LDST8 .. LDST128
        word |= ((target & 0xFFF) >> _LOW12[kind]) << 10
    else:
        raise InternalError(f"relocation {kind} is not known for aarch64")
    struct.pack_into("<I", memory, at, word)


_LOW12 = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}


def load(data: bytes) -> LoadedObject:
    """Map an object into memory; InternalError if it cannot be loaded."""
    return LoadedObject(data)
