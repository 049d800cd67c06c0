"""A model of tensor core instructions on the registers of a warp or warp group, written from the PTX manual: sections
"Matrix Fragments for mma.m...", "Register Fragments" of wgmma, "Canonical Layouts", "Matrix Descriptor Format"."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

NUMPY_DTYPES = {
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
    a, b = NUMPY_DTYPES[left], NUMPY_DTYPES[right]
    bits = a.itemsize * 8
    register_counts = (m * k * bits // 32 // max(32, bits), k * n * bits // 32 // max(32, bits), m * n // 32)
    assert words.shape == (32, sum(register_counts)), (name, words.shape)
    registers = np.split(words, np.cumsum(register_counts)[:2], axis=1)
    operand_word = np.uint64 if bits == 64 else np.uint32
    elements = [
        np.ascontiguousarray(p.astype(operand_word)).view(t)
        for p, t in zip(registers[:2], (a, b), strict=True)
    ]
    if left == "tf32":
        assert not any((p.astype(np.uint32) & np.uint32(0x1FFF)).any() for p in registers[:2]), (
            "an operand is not rounded"
        )
    A, B = np.full((m, k), np.nan), np.full((k, n), np.nan)
    A[_element_positions(left_element, (m, n, k), bits, elements[0].shape[1])] = elements[0]
    B[_element_positions(right_element, (m, n, k), bits, elements[1].shape[1])] = elements[1]
    accumulator_dtype = {"f64": np.float64, "s8": np.int32, "u8": np.int32}.get(left, np.float32)
    accumulator_word = np.uint64 if accumulator_dtype is np.float64 else np.uint32
    C = np.ascontiguousarray(registers[2].astype(accumulator_word)).view(accumulator_dtype)
    exact = (A @ B)[_result_positions(register_counts[2])] + C.astype(np.float64)
    D = (
        exact.astype(np.int64).astype(np.int32)
        if accumulator_dtype is np.int32
        else exact.astype(accumulator_dtype)
    )
    return D.view(accumulator_word).astype(np.uint64)


@cache
def _element_positions(element: Any, shape: tuple[int, int, int], bits: int, count: int) -> Any:
    """The positions of the elements of all lanes."""
    result = np.array([[element(shape, bits, lane, i) for i in range(count)] for lane in range(32)])
    return result[..., 0], result[..., 1]


@cache
def _result_positions(count: int) -> Any:
    result = np.array([[result_element(lane, i) for i in range(count)] for lane in range(32)])
    return result[..., 0], result[..., 1]


# Warp groups ---------------------------------------------------------------------------------------------------------


def swizzled_offset(offset: Any, row_bytes: int) -> Any:
    """The swizzled offset of a byte: the index of the 16-byte unit is combined by exclusive or with the index of the
    128-byte row."""
    mask = row_bytes // 16 - 1 if row_bytes else 0
    return offset ^ ((offset >> 7 & mask) << 4)


def read_matrix(
    memory: np.ndarray, descriptor: int, across: int, depth: int, dtype: np.dtype, mn_major: bool
) -> np.ndarray:
    """The matrix of shape (across, depth) that a descriptor describes. `mn_major`: whether elements are contiguous
    along M or N, instead of K."""
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
    addresses = swizzled_offset(start + offset, row)[..., None] + np.arange(size)
    assert addresses.max() < memory.size
    return np.ascontiguousarray(memory[addresses]).view(dtype)[..., 0]


def group_element(thread: int, i: int) -> tuple[int, int]:
    """(row, column) of element i that a thread of a warp group holds of D."""
    lane = thread % 32
    return thread // 32 * 16 + lane // 4 + 8 * (i // 2 % 2), i // 4 * 8 + lane % 4 * 2 + i % 2


@cache
def _group_positions(count: int) -> Any:
    result = np.array([[group_element(thread, i) for i in range(count)] for thread in range(128)])
    return result[..., 0], result[..., 1]


def multiply_group(
    text: str, outputs: int, words_of_threads: list[list[int]], memory: np.ndarray
) -> list[list[int]]:
    """The accumulators after the assembly of matmuls of a warp group. `words_of_threads`: the inputs of each thread,
    which begin with the accumulators if these are inputs."""
    tied = len(words_of_threads[0]) >= outputs
    words = np.array(words_of_threads, np.uint64)
    accumulators = words[:, :outputs].astype(np.uint32) if tied else np.zeros((128, outputs), np.uint32)
    names: dict[str, int] = {}
    low_word, fenced, is_uncommitted = 0, False, False

    def operand(token: str) -> np.ndarray:
        return words[:, int(token.strip(" {}$")) - outputs]

    for line in text.replace("\\0A", "\n").splitlines():
        op = line.split(" ")[0]
        if op == "add.u32":
            source, number = line.rstrip(";").split(", ")[1:]
            column = operand(source)
            assert (column == column[0]).all(), "threads disagree about an address"
            low_word = int(column[0]) + int(number)
        elif op == "mov.b64":
            name, high = re.findall(r"mov\.b64 (\w+), \{L, (\d+)\}", line)[0]
            names[name] = low_word | int(high) << 32
        elif op.startswith("wgmma.fence"):
            fenced = True
        elif op.startswith("wgmma.mma_async"):
            assert fenced
            accumulators, is_uncommitted = _run_wgmma(line, accumulators, names, operand, memory), True
        elif op.startswith("wgmma.commit_group"):
            is_uncommitted = False
    assert not is_uncommitted, "matmuls are not committed"
    return [[int(x) for x in row] for row in accumulators]


def _run_wgmma(
    line: str, accumulators: np.ndarray, names: dict[str, int], operand: Any, memory: np.ndarray
) -> np.ndarray:
    """The accumulators after one wgmma instruction."""
    types = re.findall(r"aligned\.(m64n\d+k\d+)\.(\w+)\.(\w+)\.(\w+) ", line)
    ((shape, accumulator_type, left, right),) = types
    n, k = (int(x) for x in re.findall(r"n(\d+)k(\d+)", shape)[0])
    accumulator_text, operand_text = re.findall(r"\{([^}]*)\}, (.*);", line)[0]
    registers = [int(x.strip(" $")) for x in accumulator_text.split(",")]
    assert len(registers) == n // 2 and registers == list(range(registers[0], registers[0] + n // 2))
    in_registers = operand_text.startswith("{")
    source, operand_text = (
        (re.findall(r"(\{[^}]*\}), (.*)", operand_text)[0]) if in_registers else operand_text.split(", ", 1)
    )
    name, accumulate, *settings = operand_text.split(", ")
    a, b = NUMPY_DTYPES[left], NUMPY_DTYPES[right]
    assert k * a.itemsize == 32
    transposed = [False, False]
    if a.itemsize == 2:
        transposed = [False] * in_registers + [x == "1" for x in settings[2:]]
    assert len(settings) == (0 if accumulator_type == "s32" else 2) + (
        2 - in_registers if a.itemsize == 2 else 0
    ), line
    if in_registers:
        A = np.zeros((64, k))
        parts = np.stack([operand(x) for x in source.split(",")], 1).astype(np.uint32)
        elements = np.ascontiguousarray(parts).view(a)
        rows, columns = _element_positions(left_element, (16, 8, k), a.itemsize * 8, elements.shape[1])
        warps = np.arange(128)[:, None] // 32 * 16
        A[warps + np.tile(rows, (4, 1)), np.tile(columns, (4, 1))] = elements
    else:
        A = read_matrix(memory, names[source], 64, k, a, transposed[0]).astype(np.float64)
    B = read_matrix(memory, names[name], n, k, b, transposed[1]).astype(np.float64)
    if left == "tf32":
        for x in (A, B):
            assert not (x.astype(np.float32).view(np.uint32) & np.uint32(0x1FFF)).any(), (
                "an operand is not rounded"
            )
    matmul = np.nan_to_num(A, nan=1e30) @ np.nan_to_num(B, nan=1e30).T
    accumulator_dtype = np.float32 if accumulator_type == "f32" else np.int32
    positions = _group_positions(n // 2)
    out = accumulators.copy()
    sums = (
        np.ascontiguousarray(accumulators[:, registers]).view(accumulator_dtype).astype(np.float64)
        * (accumulate == "1")
        + matmul[positions]
    )
    result = (
        sums.astype(np.float32) if accumulator_dtype is np.float32 else sums.astype(np.int64).astype(np.int32)
    )
    out[:, registers] = result.view(np.uint32)
    return out
