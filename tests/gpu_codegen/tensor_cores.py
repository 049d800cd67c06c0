"""A model of tensor core instructions on the registers of a warp or warp group, written from the PTX manual: sections
"Matrix Fragments for mma.m...", "Register Fragments" of wgmma, "Canonical Layouts", "Matrix Descriptor Format"."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

ATOMS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "s8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def to_tf32(bits: np.ndarray) -> np.ndarray:
    """float32 rounded to 10 bits of fraction, ties away from zero."""
    return (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)


def left_element(shape: tuple[int, int, int], bits: int, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of element i that a lane holds of A."""
    group, thread = lane >> 2, lane % 4
    match (*shape, bits):
        case (8, 8, 4, 64):
            return group, thread
        case (16, 8, 4, 64):
            return group + 8 * i, thread
        case (16, 8, 8, 64 | 32):
            return (group if i in (0, 2) else group + 8), (thread if i < 2 else thread + 4)
        case (16, 8, 16, 64):
            return (group, i * 2 + thread) if i % 2 == 0 else (group + 8, i * 2 - 2 + thread)
        case (16, 8, 16, 16):
            row = group if 0 <= i < 2 or 4 <= i < 6 else group + 8
            return row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)
        case (16, 8, 32, 8):
            row = group if 0 <= i < 4 or 8 <= i < 12 else group + 8
            return row, thread * 4 + (i & 3) + (16 if i >= 8 else 0)
    raise AssertionError(shape)


def right_element(shape: tuple[int, int, int], bits: int, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of element i that a lane holds of B."""
    group, thread = lane >> 2, lane % 4
    match (*shape, bits):
        case (8 | 16, 8, 4, 64):
            return thread, group
        case (16, 8, 8, 64 | 32):
            return (thread if i == 0 else thread + 4), group
        case (16, 8, 16, 64):
            return thread + i * 4, group
        case (16, 8, 16, 16):
            return thread * 2 + (i & 1) + (8 if i >= 2 else 0), group
        case (16, 8, 32, 8):
            return thread * 4 + (i & 3) + (16 if i >= 4 else 0), group
    raise AssertionError(shape)


def result_element(lane: int, i: int) -> tuple[int, int]:
    """(row, column) of element i that a lane holds of C and D."""
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def multiply_warp(name: str, words: np.ndarray) -> np.ndarray:
    """The registers of D after an mma. `words`: the registers of A, B and C of each lane, 8 bytes each."""
    m, n, k = (int(x) for x in re.findall(r"m(\d+)n(\d+)k(\d+)", name)[0])
    kinds = [x for x in re.findall(r"\.([a-z]+\d+)(?=[.\s]|$)", name.split("row.col")[1])]
    left, right = kinds[1:3] if len(kinds) == 4 else kinds[:1] * 2 if kinds == ["bf16"] else ("f16", "f16")
    a, b = ATOMS[left], ATOMS[right]
    bits = a.itemsize * 8
    count = (m * k * bits // 32 // max(32, bits), k * n * bits // 32 // max(32, bits), m * n // 32)
    assert words.shape == (32, sum(count)), (name, words.shape)
    parts = np.split(words, np.cumsum(count)[:2], axis=1)
    width = np.uint64 if bits == 64 else np.uint32
    elements = [np.ascontiguousarray(p.astype(width)).view(t) for p, t in zip(parts[:2], (a, b), strict=True)]
    if left == "tf32":
        assert not any((p.astype(np.uint32) & np.uint32(0x1FFF)).any() for p in parts[:2]), (
            "an operand is not rounded"
        )
    A, B = np.full((m, k), np.nan), np.full((k, n), np.nan)
    A[_element_positions(left_element, (m, n, k), bits, elements[0].shape[1])] = elements[0]
    B[_element_positions(right_element, (m, n, k), bits, elements[1].shape[1])] = elements[1]
    total = {"f64": np.float64, "s8": np.int32, "u8": np.int32}.get(left, np.float32)
    wide = np.uint64 if total is np.float64 else np.uint32
    C = np.ascontiguousarray(parts[2].astype(wide)).view(total)
    exact = (A @ B)[_result_places(count[2])] + C.astype(np.float64)
    D = exact.astype(np.int64).astype(np.int32) if total is np.int32 else exact.astype(total)
    return D.view(wide).astype(np.uint64)


@cache
def _element_positions(element: Any, shape: tuple[int, int, int], bits: int, count: int) -> Any:
    """The positions of the elements of all lanes."""
    result = np.array([[element(shape, bits, lane, i) for i in range(count)] for lane in range(32)])
    return result[..., 0], result[..., 1]


@cache
def _result_places(count: int) -> Any:
    result = np.array([[result_element(lane, i) for i in range(count)] for lane in range(32)])
    return result[..., 0], result[..., 1]


# Warp groups ---------------------------------------------------------------------------------------------------------


def swizzled(offset: Any, row_bytes: int) -> Any:
    """The swizzled position of a byte: its unit of 16 bytes is exchanged by the number of its row of 128 bytes."""
    mask = row_bytes // 16 - 1 if row_bytes else 0
    return offset ^ ((offset >> 7 & mask) << 4)


def matrix(
    memory: np.ndarray, descriptor: int, across: int, depth: int, dtype: np.dtype, mn_major: bool
) -> np.ndarray:
    """The matrix (across, depth) of a descriptor. `mn_major`: the order of its elements, instead of K-major."""
    start, leading = (descriptor & 0x3FFF) << 4, (descriptor >> 16 & 0x3FFF) << 4
    stride, swizzle = (descriptor >> 32 & 0x3FFF) << 4, descriptor >> 62
    assert descriptor >> 49 & 7 == 0
    row = {1: 128, 2: 64, 3: 32}[swizzle]
    size = dtype.itemsize
    mn, k = np.meshgrid(np.arange(across), np.arange(depth), indexing="ij")
    if mn_major:
        elements_per_row = row // size
        offset = (
            mn % elements_per_row * size + mn // elements_per_row * leading + k % 8 * row + k // 8 * stride
        )
    else:
        offset = mn % 8 * row + mn // 8 * stride + k * size
    addresses = swizzled(start + offset, row)[..., None] + np.arange(size)
    assert addresses.max() < memory.size
    return np.ascontiguousarray(memory[addresses]).view(dtype)[..., 0]


def group_element(thread: int, i: int) -> tuple[int, int]:
    """(row, column) of element i that a thread of a warp group holds of D."""
    lane = thread % 32
    return thread // 32 * 16 + lane // 4 + 8 * (i // 2 % 2), i // 4 * 8 + lane % 4 * 2 + i % 2


@cache
def _group_places(count: int) -> Any:
    result = np.array([[group_element(thread, i) for i in range(count)] for thread in range(128)])
    return result[..., 0], result[..., 1]


def multiply_group(
    text: str, outputs: int, words_of_threads: list[list[int]], memory: np.ndarray
) -> list[list[int]]:
    """The accumulators after the assembly of a warp group's matmuls. `words_of_threads`: the inputs of each
    thread, which begin with the accumulators if these are inputs."""
    tied = len(words_of_threads[0]) >= outputs
    words = np.array(words_of_threads, np.uint64)
    accumulators = words[:, :outputs].astype(np.uint32) if tied else np.zeros((128, outputs), np.uint32)
    names: dict[str, int] = {}
    low, fenced, open_ = 0, False, False

    def operand(token: str) -> np.ndarray:
        return words[:, int(token.strip(" {}$")) - outputs]

    for line in text.replace("\\0A", "\n").splitlines():
        op = line.split(" ")[0]
        if op == "add.u32":
            source, number = line.rstrip(";").split(", ")[1:]
            column = operand(source)
            assert (column == column[0]).all(), "threads disagree about an address"
            low = int(column[0]) + int(number)
        elif op == "mov.b64":
            name, high = re.findall(r"mov\.b64 (\w+), \{L, (\d+)\}", line)[0]
            names[name] = low | int(high) << 32
        elif op.startswith("wgmma.fence"):
            fenced = True
        elif op.startswith("wgmma.mma_async"):
            assert fenced
            accumulators, open_ = _run_instruction(line, accumulators, names, operand, memory), True
        elif op.startswith("wgmma.commit_group"):
            open_ = False
    assert not open_, "matmuls are not committed"
    return [[int(x) for x in row] for row in accumulators]


def _run_instruction(
    line: str, accumulators: np.ndarray, names: dict[str, int], operand: Any, memory: np.ndarray
) -> np.ndarray:
    shape, total, left, right = re.findall(r"aligned\.(m64n\d+k\d+)\.(\w+)\.(\w+)\.(\w+) ", line)[0]
    n, k = (int(x) for x in re.findall(r"n(\d+)k(\d+)", shape)[0])
    sums, rest = re.findall(r"\{([^}]*)\}, (.*);", line)[0]
    registers = [int(x.strip(" $")) for x in sums.split(",")]
    assert len(registers) == n // 2 and registers == list(range(registers[0], registers[0] + n // 2))
    in_registers = rest.startswith("{")
    source, rest = (re.findall(r"(\{[^}]*\}), (.*)", rest)[0]) if in_registers else rest.split(", ", 1)
    name, adds, *settings = rest.split(", ")
    a, b = ATOMS[left], ATOMS[right]
    assert k * a.itemsize == 32
    transposed = [False, False]
    if a.itemsize == 2:
        transposed = [False] * in_registers + [x == "1" for x in settings[2:]]
    assert len(settings) == (0 if total == "s32" else 2) + (2 - in_registers if a.itemsize == 2 else 0), line
    if in_registers:
        A = np.zeros((64, k))
        parts = np.stack([operand(x) for x in source.split(",")], 1).astype(np.uint32)
        elements = np.ascontiguousarray(parts).view(a)
        rows, columns = _element_positions(left_element, (16, 8, k), a.itemsize * 8, elements.shape[1])
        warps = np.arange(128)[:, None] // 32 * 16
        A[warps + np.tile(rows, (4, 1)), np.tile(columns, (4, 1))] = elements
    else:
        A = matrix(memory, names[source], 64, k, a, transposed[0]).astype(np.float64)
    B = matrix(memory, names[name], n, k, b, transposed[1]).astype(np.float64)
    if left == "tf32":
        for x in (A, B):
            assert not (x.astype(np.float32).view(np.uint32) & np.uint32(0x1FFF)).any(), (
                "an operand is not rounded"
            )
    matmul = np.nan_to_num(A, nan=1e30) @ np.nan_to_num(B, nan=1e30).T
    kind = np.float32 if total == "f32" else np.int32
    positions = _group_places(n // 2)
    out = accumulators.copy()
    part = (
        np.ascontiguousarray(accumulators[:, registers]).view(kind).astype(np.float64) * (adds == "1")
        + matmul[positions]
    )
    fits = part.astype(np.float32) if kind is np.float32 else part.astype(np.int64).astype(np.int32)
    out[:, registers] = fits.view(np.uint32)
    return out
