"""Relocations of x86-64 and AArch64 objects, applied to an image before it is mapped."""

from __future__ import annotations

import struct

from tegula.backend.elf import AARCH64, X86_64
from tegula.errors import InternalError

_GOT = {X86_64: frozenset({9, 41, 42}), AARCH64: frozenset({311, 312})}


def uses_got(machine: int, kind: int) -> bool:
    """Whether a relocation refers to the symbol's GOT entry, not to the symbol."""
    return kind in _GOT.get(machine, ())


def apply(machine: int, image: bytearray, position: int, kind: int, target: int, address: int) -> None:
    """Write one relocation at address `position` of the image, which runs at address `address`.

    `target`: the target address, addend included. InternalError for an unknown kind or a distance that does not fit."""
    try:
        if machine == X86_64:
            _apply_x86(image, position, kind, target, address)
        else:
            _apply_aarch64(image, position, kind, target, address)
    except struct.error as error:
        raise InternalError(
            f"the target {target:#x} is out of range of relocation {kind} at {address:#x}"
        ) from error


def _apply_x86(image: bytearray, position: int, kind: int, target: int, address: int) -> None:
    if kind in (2, 4, 9, 41, 42):  # PC32, PLT32, GOTPCREL, GOTPCRELX, REX_GOTPCRELX
        struct.pack_into("<i", image, position, target - address)
    elif kind == 1:  # 64
        struct.pack_into("<Q", image, position, target & 0xFFFFFFFFFFFFFFFF)
    elif kind == 24:  # PC64
        struct.pack_into("<q", image, position, target - address)
    elif kind == 10:  # 32
        struct.pack_into("<I", image, position, target)
    elif kind == 11:  # 32S
        struct.pack_into("<i", image, position, target)
    elif kind != 0:
        raise InternalError(f"relocation {kind} is not known for x86-64")


# Log2 of the access size that scales the low 12 bits: ADD and 8-bit, 16-, 32-, 64-, 128-bit loads and stores, and the
# 64-bit load of a table entry.
_LOW12 = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}


def _apply_aarch64(image: bytearray, position: int, kind: int, target: int, address: int) -> None:
    if kind == 257:  # ABS64
        struct.pack_into("<Q", image, position, target & 0xFFFFFFFFFFFFFFFF)
    elif kind == 260:  # PREL64
        struct.pack_into("<q", image, position, target - address)
    elif kind == 261:  # PREL32
        struct.pack_into("<i", image, position, target - address)
    elif kind in (275, 276, 311):  # ADR_PREL_PG_HI21, the same unchecked, ADR_GOT_PAGE
        pages = _signed((target >> 12) - (address >> 12), 21, kind)
        _insert(image, position, 3 << 29 | 0x7FFFF << 5, (pages & 3) << 29 | (pages >> 2) << 5)
    elif kind == 274:  # ADR_PREL_LO21
        distance = _signed(target - address, 21, kind)
        _insert(image, position, 3 << 29 | 0x7FFFF << 5, (distance & 3) << 29 | (distance >> 2) << 5)
    elif kind in (282, 283):  # JUMP26, CALL26
        _insert(image, position, 0x3FFFFFF, _signed((target - address) >> 2, 26, kind))
    elif kind == 280:  # CONDBR19
        _insert(image, position, 0x7FFFF << 5, _signed((target - address) >> 2, 19, kind) << 5)
    elif kind in _LOW12:
        _insert(image, position, 0xFFF << 10, ((target & 0xFFF) >> _LOW12[kind]) << 10)
    elif kind != 0:
        raise InternalError(f"relocation {kind} is not known for aarch64")


def _insert(image: bytearray, position: int, mask: int, bits: int) -> None:
    """Replace the masked bits of an instruction by `bits`."""
    (word,) = struct.unpack_from("<I", image, position)
    struct.pack_into("<I", image, position, word & ~mask | bits)


def _signed(value: int, bits: int, kind: int) -> int:
    """The value as a two's complement field of `bits` bits. InternalError if it does not fit."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise InternalError(f"relocation {kind} does not reach: {value} needs more than {bits} bits")
    return value & (1 << bits) - 1
