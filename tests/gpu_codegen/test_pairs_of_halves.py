"""Arithmetic on pairs of float16, bytes of words, and bits read as vectors, on all targets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from lowering import agrees, tiled
from simt import run_together

import tegula as tg

lang: Any = tg
RESULTS = 9


@tg.kernel
def halves(
    x: tg.array1d[tg.uint32], y: tg.array1d[tg.uint32], z: tg.array2d[float], out: tg.array2d[tg.uint32]
):
    i = tg.tid()
    a, b = tg.bitcast(x[i], tg.vec2h), tg.bitcast(y[i], tg.vec2h)
    c = tg.vec2h(tg.float16(z[i, 0]), tg.float16(z[i, 1]))
    out[i, 0] = tg.bitcast(a + b, tg.uint32)
    out[i, 1] = tg.bitcast(a - c, tg.uint32)
    out[i, 2] = tg.bitcast(tg.cw_mul(a, b), tg.uint32)
    out[i, 3] = tg.bitcast(tg.fma(a, b, c), tg.uint32)
    out[i, 4] = tg.bitcast(tg.min(a, b), tg.uint32)
    out[i, 5] = tg.bitcast(tg.max(tg.max(a, b), c), tg.uint32)
    out[i, 6] = tg.bitcast(c, tg.uint32)
    out[i, 7] = lang._permute_bytes(x[i], y[i], tg.uint32(0xFDB9))
    out[i, 8] = lang._dot_bytes(x[i], y[i], x[i])


def operands(count: int) -> list[np.ndarray]:
    """Pairs of float16 with all kinds of numbers, as words, and pairs of float32."""
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 1 << 16, (count, 2)).astype(np.uint16) for _ in range(2)]
    for x in words:
        x[::3] = rng.standard_normal((len(x[::3]), 2)).astype(np.float16).view(np.uint16)
    z = rng.standard_normal((count, 2)).astype(np.float32) * 2.0 ** rng.integers(-30, 20, (count, 1))
    # The float32 sum of these factors and addend is halfway between two float16 numbers, which the exact sum is not.
    words[0][0], words[1][0], z[0] = 0x3C03, 0x3E00, 2.0**-24
    return [*(x.view(np.uint32)[:, 0] for x in words), z.astype(np.float32)]


def expected(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    a, b = (v[:, None].view(np.float16) for v in (x, y))
    with np.errstate(all="ignore"):
        c = z.astype(np.float16)
        exact_sum = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
        results = [a + b, a - c, a * b, exact_sum.astype(np.float16), np.fmin(a, b)]
        results += [np.fmax(np.fmax(a, b), c), c]
    return np.stack(results, 1)


def check(args: list[tg.array]) -> None:
    x, y, z, out = (a.numpy() for a in args)
    floats, words = np.ascontiguousarray(out[:, :7]).view(np.float16).reshape(-1, 7, 2), out[:, 7:]
    np.testing.assert_array_equal(floats, expected(x, y, z))
    ax, ay = (v[:, None].view(np.uint8) for v in (x, y))
    signs = np.stack([ax[:, 1], ax[:, 3], ay[:, 1], ay[:, 3]], 1) >> 7
    np.testing.assert_array_equal(words[:, 0], (signs * np.uint8(255)).view(np.uint32)[:, 0])
    total = (ax.view(np.int8).astype(np.int64) * ay).sum(1) + x
    np.testing.assert_array_equal(words[:, 1], total.astype(np.uint32))


def arguments(count: int) -> list[tg.array]:
    return [*(tg.array(x) for x in operands(count)), tg.zeros((count, RESULTS), dtype=tg.uint32)]


@pytest.mark.machine_code
def test_pairs_of_halves_are_rounded_once() -> None:
    args = arguments(2000)
    tg.launch(halves, 2000, args[:3], args[3:])
    check(args)
    args = arguments(64)
    agrees(tiled(halves, args, (), 64))


@pytest.mark.machine_code
@pytest.mark.cpu
def test_pairs_of_halves_take_one_instruction() -> None:
    args = arguments(64)
    code = lower_to_llvm(halves, args, (), 64)
    run_together(code, halves, args, (64,), 1)
    check(args)
    text, _ = assemble(code)
    instructions = re.findall(
        r"\b(?:(?:add|sub|mul|fma)\.rn|min|max)\.f16x?2?|\bcvt\.rn\.f16\S*|prmt|dp4a\S*", text
    )
    names = ("add.rn", "sub.rn", "mul.rn", "fma.rn", "min", "max", "max")
    expected_instructions = [*(f"{name}.f16x2" for name in names), "cvt.rn.f16x2.f32", "prmt", "dp4a.s32.u32"]
    assert sorted(instructions) == sorted(expected_instructions)


@tg.kernel
def read_as_other_vectors(x: tg.array1d[tg.uint64], y: tg.array1d[tg.uint64], z: tg.array1d[tg.vec4h]):
    i = tg.tid()
    half = tg.bitcast(x[i], tg.vec4h)
    z[i] = half
    words = tg.bitcast(tg.vec2h(half[1], half[0]), tg.uint32)
    y[i] = (tg.uint64(words) << tg.uint64(32)) | tg.uint64(tg.bitcast(tg.vec2h(half[3], half[2]), tg.uint32))


@pytest.mark.machine_code
def test_bits_are_read_as_vectors() -> None:
    words = np.random.default_rng(1).integers(0, 1 << 62, 100).astype(np.uint64)
    halves_of_words = words.view(np.uint16).reshape(-1, 4)
    # Payloads of NaNs may change.
    halves_of_words[(halves_of_words & 0x7C00) == 0x7C00] = 0
    args = [tg.array(words), tg.zeros(100, dtype=tg.uint64), tg.zeros(100, dtype=tg.vec4h)]
    tg.launch(read_as_other_vectors, 100, args[:1], args[1:])
    np.testing.assert_array_equal(args[2].numpy().view(np.uint16), halves_of_words)
    swapped = np.ascontiguousarray(halves_of_words[:, [3, 2, 1, 0]]).view(np.uint64)[:, 0]
    np.testing.assert_array_equal(args[1].numpy(), swapped)
    agrees(tiled(read_as_other_vectors, args, (), 100))


@tg.kernel
def read_too_much(x: tg.array1d[tg.uint32], y: tg.array1d[tg.vec3h]):
    i = tg.tid()
    y[i] = tg.bitcast(x[i], tg.vec3h)


def test_a_vector_of_another_size_is_refused() -> None:
    with pytest.raises(tg.errors.CompileError, match="the widths differ"):
        tg.launch(read_too_much, 1, [tg.zeros(1, dtype=tg.uint32)], [tg.zeros(1, dtype=tg.vec3h)])
