"""A loader for the ELF objects that LLVM emits.

A cached kernel runs without llvmlite."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Callable
from typing import Any

from tegula.backend.elf import (
    AARCH64,
    ABSOLUTE,
    EXECUTE,
    NOBITS,
    THREAD_LOCAL,
    UNDEFINED,
    WRITE,
    X86_64,
    Elf,
    Section,
)
from tegula.backend.relocation import apply, uses_got
from tegula.errors import InternalError

PAGE = mmap.PAGESIZE
# Constants are aligned to cache lines, because vector code loads whole lines.
CONSTANT_ALIGN = 64
_MACHINES = {"x86_64": X86_64, "aarch64": AARCH64, "arm64": AARCH64}


def _function(name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype, function.argtypes = result, arguments
    return function


_size, _pointer, _int = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
_mmap = _function("mmap", _pointer, _pointer, _size, _int, _int, _int, ctypes.c_long)
_munmap = _function("munmap", _int, _pointer, _size)
_mprotect = _function("mprotect", _int, _pointer, _size, _int)


def undefined_symbols(data: bytes) -> list[str]:
    """The names of symbols that an object uses and does not define."""
    return Elf(data).undefined()


def map_memory(size: int) -> int:
    """The address of fresh zeroed pages, private to this process; MemoryError if the mapping fails."""
    address = _mmap(
        None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    if address is None or address == _pointer(-1).value:
        raise MemoryError(f"cannot map {size} bytes: errno {ctypes.get_errno()}")
    return address


class LoadedObject:
    """Code in memory: functions executable and not writable, constants read-only, variables writable.

    The memory is unmapped with the object, except while the interpreter shuts down, because a thread may still execute
    the code."""

    def __init__(self, data: bytes) -> None:
        self._base = 0
        elf = Elf(data)
        _check_loadable(elf)
        slots = _got_slots(elf)
        layout = _Layout(elf, len(slots))
        self._size = layout.size
        base = map_memory(layout.size)
        self._base = base
        image = _image(elf, layout)
        addresses = [_address(elf, layout, base, k) for k in range(len(elf.symbols))]
        _relocate(elf, layout, base, image, slots, addresses)
        (ctypes.c_char * layout.size).from_address(base)[:] = bytes(image)
        self._addresses = {
            s.name: a
            for s, a in zip(elf.symbols, addresses, strict=True)
            if s.name and s.section in layout.offsets
        }
        _protect(base, layout)

    def address(self, symbol: str) -> int:
        """The address of a function or constant; KeyError for a name that the object does not define."""
        return self._addresses[symbol]

    @property
    def nbytes(self) -> int:
        """The size of the object in memory, in bytes."""
        return self._size

    # Default arguments, because module globals may be gone while the interpreter shuts down.
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing, unmap: Any = _munmap) -> None:
        if self._base and not is_finalizing():
            unmap(self._base, self._size)


def load(data: bytes) -> LoadedObject:
    """Map an object into memory; InternalError if it cannot be loaded."""
    return LoadedObject(data)


def _check_loadable(elf: Elf) -> None:
    """Raise InternalError for an object of another processor or kind."""
    if elf.machine != _MACHINES.get(platform.machine()):
        raise InternalError(f"code for ELF machine {elf.machine} cannot run on {platform.machine()}")
    missing = elf.undefined()
    if missing:
        raise InternalError(f"the object needs undefined functions: {', '.join(missing)}")
    for section in elf.sections:
        if section.flags & THREAD_LOCAL:
            raise InternalError(f"thread-local data in {section.name} cannot be loaded")


class _Layout:
    """Offsets of the sections: code, then constants and the global offset table, then variables, each group on separate
    pages."""

    def __init__(self, elf: Elf, slots: int) -> None:
        self.offsets: dict[int, int] = {}
        sections = [s for s in elf.sections if s.is_loaded]
        relro = (".data.rel.ro",)
        writes = [s for s in sections if s.flags & WRITE and not s.name.startswith(relro)]
        code = [s for s in sections if s.flags & EXECUTE]
        constants = [s for s in sections if s not in code and s not in writes]
        self.code_end = self._assign_offsets(code, 0)
        end = self._assign_offsets(constants, self.code_end, 8 * slots)
        self.table_start = end - 8 * slots
        self.constants_end = _round_up(end, PAGE)
        self.size = max(_round_up(self._assign_offsets(writes, self.constants_end), PAGE), PAGE)

    def _assign_offsets(self, sections: list[Section], start: int, extra: int = 0) -> int:
        """Assign offsets to sections, starting at a page boundary. Returns the end of the last page, or of `extra`
        bytes after the last section."""
        end = start
        for section in sections:
            end = _round_up(end, max(section.align, CONSTANT_ALIGN))
            self.offsets[section.index] = end
            end += section.size
        return _round_up(end, 8) + extra if extra else _round_up(end, PAGE)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _image(elf: Elf, layout: _Layout) -> bytearray:
    image = bytearray(layout.size)
    for index, start in layout.offsets.items():
        section = elf.sections[index]
        if section.kind != NOBITS:
            image[start : start + section.size] = elf.data[section.offset : section.offset + section.size]
    return image


def _address(elf: Elf, layout: _Layout, base: int, index: int) -> int:
    """The address of a symbol; 0 for a symbol in a section that is not loaded."""
    symbol = elf.symbols[index]
    if symbol.section == ABSOLUTE:
        return symbol.value
    if symbol.section != UNDEFINED and symbol.section >= len(elf.sections):
        raise InternalError(
            f"symbol {symbol.name} is in the special section {symbol.section:#x}, which the loader does not support"
        )
    offset = layout.offsets.get(symbol.section)
    return 0 if offset is None else base + offset + symbol.value


def _got_slots(elf: Elf) -> dict[int, int]:
    """The slot in the global offset table of each symbol whose address is read from the table, by symbol index."""
    slots: dict[int, int] = {}
    for _, _, kind, symbol, _ in elf.relocations():
        if uses_got(elf.machine, kind):
            slots.setdefault(symbol, len(slots))
    return slots


def _relocate(
    elf: Elf, layout: _Layout, base: int, image: bytearray, slots: dict[int, int], addresses: list[int]
) -> None:
    for symbol, slot in slots.items():
        position = layout.table_start + 8 * slot
        image[position : position + 8] = addresses[symbol].to_bytes(8, "little")
    for section, offset, kind, symbol, addend in elf.relocations():
        position = layout.offsets[section.index] + offset
        if uses_got(elf.machine, kind):
            target = base + layout.table_start + 8 * slots[symbol]
        else:
            target = addresses[symbol]
            if target == 0 and kind != 0:
                raise InternalError(
                    f"a relocation in section {section.name} refers to a section that is not loaded"
                )
        apply(elf.machine, image, position, kind, target + addend, base + position)


def _protect(base: int, layout: _Layout) -> None:
    """Remove write access from code and constants: no page is ever both writable and executable."""
    ranges = [
        (0, layout.code_end, mmap.PROT_READ | mmap.PROT_EXEC),
        (layout.code_end, layout.constants_end, mmap.PROT_READ),
    ]
    for start, end, access in ranges:
        if end > start and _mprotect(base + start, end - start, access):
            raise InternalError(f"cannot protect code in memory: errno {ctypes.get_errno()}")
    if platform.machine() != "x86_64":
        _function("__clear_cache", None, _pointer, _pointer)(base, base + layout.code_end)
