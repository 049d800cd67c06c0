"""Tables of constants, parts of vectors, and parts of tiles as vectors: equal results on all targets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from agreement import agree, assert_same_bits
from gpu_code import assemble
from lowering import Launch, agrees
from simt import run_together

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.target import get_cuda_target

COSINES = np.cos(np.arange(1024) * 0.1)
NUMBERS = np.arange(96).reshape(8, 12)
FLAGS = NUMBERS % 5 > 2


@tg.kernel
def tables(n: tg.array[int], o: tg.array2d[float]):
    i = tg.tid()
    cosines, numbers = tg.table(COSINES, tg.float32), tg.table(NUMBERS, tg.bfloat16)
    k = n[i]
    o[0, i] = cosines[k]
    o[1, i] = float(numbers[k % 8, 3])
    row = numbers[k % 8]
    o[2, i] = float(row[11]) + cosines[5] * cosines[-1]
    o[3, i] = float(FLAGS[k % 8, tg.int64(i % 12)])
    o[4, i] = float(NUMBERS[tg.uint8(k), 2])


@tg.kernel
def parts(n: tg.array[int], o: tg.array2d[float]):
    i = tg.tid()
    x = float(n[i])
    v = tg.vector(x, x + 1.0, x + 2.0, x + 3.0)
    v[0:4:2] = v[1:3]
    v[3:] = 7.0
    m = tg.matrix(v[0], v[1], v[2], v[3], 5.0, 6.0, shape=(2, 3))
    m[:, 0] = m[1, ::2]
    c, d = m[:, 1], m[::-1, 1:]
    for k in (0, 1, 2, 3):
        o[k, i] = v[k]
    o[4, i] = c[0] + 2.0 * c[1] + 3.0 * d[0, 0] + 4.0 * d[0, 1] + 5.0 * d[1, 1] + 6.0 * m[1, 0]


@tg.kernel
def parts_of_tiles(n: tg.array[int], o: tg.array2d[float]):
    i = tg.tid()
    s = tg.tile_zeros(shape=(32, 4), storage="shared")
    lane = tg.group_lane()
    for k in (0, 1, 2, 3):
        s[lane, k] = float(n[i] + k)
    v = tg.vector(s[31 - lane, 1:4])
    m = tg.matrix(s[4:6, :2])
    for k in (0, 1, 2):
        o[k, i] = v[k]
    o[3, i] = m[0, 1] - m[1, 0]


@pytest.mark.machine_code
@pytest.mark.parametrize("kernel", [tables, parts, parts_of_tiles], ids=["tables", "parts", "parts_of_tiles"])
def test_tables_and_parts_of_vectors_agree_on_all_targets(kernel: Any) -> None:
    n = tg.array(np.random.default_rng(0).integers(-1500, 1500, 64).astype(np.int32))
    launch = Launch(kernel, [n, tg.zeros((5, 64))], (64,), 32)
    expected = agree(kernel, launch.args, 64, 32)
    lowered_kernel, compilation = agrees(launch)
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target())
    actual = [tg.clone(a) for a in launch.args]
    run_together(code, kernel, actual, launch.dims, 2)
    assert_same_bits(actual[1].numpy(), expected[1])
    check(kernel, n.numpy().astype(np.int64), expected[1], assemble(code)[0])


def check(kernel: Any, n: np.ndarray, o: np.ndarray, text: str) -> None:
    if kernel is tables:
        index = np.where(n < 0, n + 1024, n)
        index = np.where((index >= 0) & (index < 1024), index, 1023)
        np.testing.assert_array_equal(o[0], COSINES.astype(np.float32)[index])
        row = np.fmod(n, 8) % 8
        np.testing.assert_array_equal(o[3], FLAGS[row, np.arange(64) % 12])
        byte = n % 256
        np.testing.assert_array_equal(o[4], NUMBERS[np.where(byte < 8, byte, 7), 2])
        assert len(re.findall(r"^\.global \.align 16 \.b(8|64) table", text, re.M)) == 4, (
            "each table occurs once"
        )
        (words,) = re.findall(r"\.b64 table\d+\[512\] = \{(.*)\};", text)
        data = np.array([int(word, 0) for word in words.split(",")], np.uint64)
        np.testing.assert_array_equal(data.view(np.float32), COSINES.astype(np.float32))
        assert re.search(r"ld\.global\.nc", text)
    if kernel is parts:
        np.testing.assert_array_equal(o[:4], [n + 1, n + 1, n + 2, np.full(64, 7)])
    if kernel is parts_of_tiles:
        reshaped = n.reshape(2, 32)
        np.testing.assert_array_equal(o[0], (reshaped[:, ::-1] + 1).ravel())
        np.testing.assert_array_equal(o[3], np.repeat(reshaped[:, 4] + 1 - reshaped[:, 5], 32))


@tg.kernel
def odd_tables(n: tg.array[int], o: tg.array2d[tg.float64]):
    i = tg.tid()
    o[0, i] = tg.float64(tg.table(COSINES[:65], tg.float32)[n[i]])
    o[1, i] = tg.table(COSINES[:65])[n[i]] + tg.table(COSINES[:65])[64]


@pytest.mark.machine_code
def test_tables_of_odd_lengths_are_padded_in_ptx() -> None:
    n = tg.array(np.arange(64, dtype=np.int32) + 1)
    launch = Launch(odd_tables, [n, tg.zeros((2, 64), dtype=tg.float64)], (64,), 32)
    lowered_kernel, compilation = agrees(launch)
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target())
    run_together(code, odd_tables, launch.args, launch.dims, 2)
    expected = np.stack((COSINES[1:65].astype(np.float32), COSINES[1:65] + COSINES[64]))
    np.testing.assert_array_equal(launch.args[1].numpy(), expected)
    text = assemble(code)[0]
    assert sorted(re.findall(r"\.b64 table\d+\[(\d+)\]", text)) == ["33", "65"]


ROWS, LONG = COSINES[:128].reshape(32, 4), np.tile(COSINES, 16)


@tg.kernel
def tables_in_loops(count: int, n: tg.array[int], o: tg.array2d[float]):
    i = tg.tid()
    x, y, z = 0.0, 0.0, 0.0
    for k in range(count):
        x += tg.table(ROWS, tg.float32)[k, 3]
        y += tg.table(COSINES, tg.float32)[k + n[i]]
        z += tg.table(LONG, tg.float32)[k]
    o[0, i], o[1, i], o[2, i] = x, y, z


@pytest.mark.machine_code
def test_small_tables_are_in_constant_memory_if_all_threads_read_the_same_element() -> None:
    n = tg.array(np.arange(64, dtype=np.int32))
    launch = Launch(tables_in_loops, [20, n, tg.zeros((3, 64))], (64,), 32)
    lowered_kernel, compilation = agrees(launch)
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target())
    run_together(code, tables_in_loops, launch.args, launch.dims, 2)
    o = launch.args[2].numpy()
    np.testing.assert_allclose(o[0], COSINES[3:83:4].sum(), atol=1e-5)
    np.testing.assert_allclose(o[1, :2], [COSINES[:20].sum(), COSINES[1:21].sum()], atol=1e-5)
    np.testing.assert_allclose(o[2], COSINES[:20].sum(), atol=1e-5)
    text = assemble(code)[0]
    spaces = re.findall(r"^\.(\w+) \.align 16 \.b64 table\d+\[(\d+)\]", text, re.M)
    assert sorted(spaces) == [("const", "64"), ("global", "512"), ("global", "8192")]


@tg.kernel
def tables_of_elements(step: int, o: tg.array2d[float]):
    def scaled(x, k):
        return x * tg.table(ROWS, tg.float32)[k, step]

    t = tg.tile_map(scaled, tg.tile_ones(shape=32, dtype=float), tg.tile_arange(32, dtype=int))
    tg.tile_store(o[0], t)


@pytest.mark.machine_code
def test_tables_that_threads_read_for_different_elements_of_tiles_are_in_global_memory() -> None:
    launch = Launch(tables_of_elements, [2, tg.zeros((1, 32))], (1, 32), 32)
    lowered_kernel, compilation = agrees(launch)
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target())
    run_together(code, tables_of_elements, launch.args, launch.dims, 2)
    np.testing.assert_array_equal(launch.args[1].numpy()[0], ROWS[:, 2].astype(np.float32))
    assert re.findall(r"^\.(\w+) \.align 16 \.b64 table", assemble(code)[0], re.M) == ["global"]


REFUSED_EXPRESSIONS = {
    "COSINES + x": ("type-mismatch", "read elements of the table"),
    "tg.table(COSINES, tg.int8)[i]": ("out-of-range", "int8"),
    "tg.table(x)[i]": ("type-mismatch", "needs a NumPy array"),
    "COSINES[2000]": ("out-of-range", "index 2000"),
    "NUMBERS[i, 1:3][0]": ("type-mismatch", "slices"),
    "tg.vector(x, x)[i:][0]": ("not-constant", "slice of a vector"),
    "tg.vector(x, x)[2:][0]": ("out-of-range", "empty"),
    "tg.vector(tg.tile_zeros(shape=(2, 2)))[0]": ("type-mismatch", "a tile of 1 dimensions"),
}


@pytest.mark.parametrize("expression", REFUSED_EXPRESSIONS)
def test_invalid_uses_of_tables_and_parts_are_refused(expression: str) -> None:
    text = f"def kernel(a: tg.array[float]):\n    i = tg.tid()\n    x = a[i]\n    y = {expression}\n"
    space: dict[str, Any] = {"tg": tg, "COSINES": COSINES, "NUMBERS": NUMBERS}
    exec(text, space)
    code, message = REFUSED_EXPRESSIONS[expression]
    with pytest.raises(tg.CompileError) as raised:
        tg.launch(tg.kernel(source=text)(space["kernel"]), 8, [tg.zeros(8)], block_dim=8)
    assert raised.value.CODE == code and message in str(raised.value)
