"""A parser of relocatable ELF64 files for the loader."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tegula.dataclass import dataclass
from tegula.errors import InternalError

X86_64, AARCH64 = 62, 183
SYMTAB, RELA, NOBITS, REL = 2, 4, 8, 9
WRITE, ALLOC, EXECUTE, THREAD_LOCAL = 0x1, 0x2, 0x4, 0x400
UNDEFINED, ABSOLUTE, COMMON = 0, 0xFFF1, 0xFFF2
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")


@dataclass(frozen=True, slots=True)
class Section:
    """One section header. `info`: in a relocation table, the index of the section to relocate."""

    index: int
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int

    @property
    def is_loaded(self) -> bool:
        """Whether running code needs the section. Unwind tables are not loaded, because they are never registered."""
        return bool(self.flags & ALLOC) and self.name != ".eh_frame"


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol of an object file: its name, its section, and its offset in that section."""

    name: str
    section: int
    value: int


class Elf:
    """A parsed object. Raises InternalError if the bytes are not a little-endian ELF64 object, or are truncated."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01":
            raise InternalError("the object file is not a little-endian ELF64 file")
        self.data = data
        try:
            self.machine = struct.unpack_from("<H", data, 18)[0]
            self.sections = self._sections()
            self.symbols = self._symbols()
        except (struct.error, IndexError, ValueError) as error:
            raise InternalError(f"the object file is damaged: {error}") from error
        if any(s.offset + s.size > len(data) for s in self.sections if s.kind != NOBITS):
            raise InternalError("the object file is damaged: a section extends beyond the end of the file")

    def _sections(self) -> list[Section]:
        (start,) = struct.unpack_from("<Q", self.data, 40)
        size, count, strings_index = struct.unpack_from("<HHH", self.data, 58)
        rows = [_SECTION.unpack_from(self.data, start + k * size) for k in range(count)]
        strings = rows[strings_index][4]
        return [
            Section(k, self._text(strings + name), kind, flags, offset, size, link, info, max(align, 1))
            for k, (name, kind, flags, _, offset, size, link, info, align, _) in enumerate(rows)
        ]

    def _symbols(self) -> list[Symbol]:
        for table in self.sections:
            if table.kind == SYMTAB:
                names = self.sections[table.link].offset
                rows = _SYMBOL.iter_unpack(self.data[table.offset : table.offset + table.size])
                return [
                    Symbol(self._text(names + name), section, value) for name, _, _, section, value, _ in rows
                ]
        return []

    def _text(self, start: int) -> str:
        return self.data[start : self.data.index(b"\0", start)].decode()

    def relocations(self) -> Iterator[tuple[Section, int, int, int, int]]:
        """The relocations of sections that are loaded: (section, offset in the section, kind, symbol index, addend)."""
        for table in self.sections:
            if table.kind not in (RELA, REL) or not self.sections[table.info].is_loaded:
                continue
            if table.kind == REL:
                raise InternalError(
                    f"unsupported relocations without addends (SHT_REL) in section {table.name}"
                )
            section = self.sections[table.info]
            for offset, info, addend in _RELOCATION.iter_unpack(
                self.data[table.offset : table.offset + table.size]
            ):
                yield section, offset, info & 0xFFFFFFFF, info >> 32, addend

    def undefined(self) -> list[str]:
        """The names of symbols that the object uses but does not define."""
        return sorted(
            {
                s.name
                for s in self.symbols
                if s.section == UNDEFINED and s.name and s.name != "_GLOBAL_OFFSET_TABLE_"
            }
        )
