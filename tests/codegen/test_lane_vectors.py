"""The LLVM text of lane loops: vectors where lanes can run together, scalar code where they cannot."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled
from tegula.target import NAMED


@pytest.fixture(autouse=True)
def target() -> Iterator[None]:
    original = tg.config.cpu_target
    tg.config.cpu_target = "x86-64-v3"
    yield
    tg.config.cpu_target = original


def code(kernel: Any, dim: int | tuple[int, ...], args: list[Any], block_dim: int = 64) -> str:
    tg.launch(kernel, dim, inputs=args, block_dim=block_dim)
    return kernel.llvm()


def zeros(n: int, dtype: Any = tg.float32) -> tg.array:
    return tg.zeros(n, dtype=dtype)


@tg.kernel
def scaled(a: float, x: tg.array[Any], y: tg.array[Any]):
    i = tg.tid()
    y[i] = x[i] + x[i]


@pytest.mark.machine_code
def test_straight_code_loads_and_stores_vectors() -> None:
    text = code(scaled, 256, [2.0, zeros(256), zeros(256)])
    assert "load <8 x float>" in text and "store <8 x float>" in text and "fadd <8 x float>" in text
    assert "fadd float" not in text, "no lane is left over"
    assert "masked" not in text


@pytest.mark.machine_code
def test_remainder_lanes_are_scalarised() -> None:
    assert "fadd float" in code(scaled, 250, [2.0, zeros(250), zeros(250)])
    assert "fadd float" in code(scaled, 100, [2.0, zeros(100), zeros(100)], 20)


@pytest.mark.machine_code
def test_the_size_of_most_floats_decides_the_vector_width() -> None:
    wide = code(scaled, 256, [2.0, zeros(256, tg.float64), zeros(256, tg.float64)])
    assert "fadd <4 x double>" in wide
    assert "add <8 x i8>" in code(scaled, 256, [2.0, zeros(256, tg.int8), zeros(256, tg.int8)])


@tg.kernel
def branch_on_sign(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    if x[i] > 0.0:
        y[i] = x[i] + 1.0


@pytest.mark.machine_code
def test_divergent_branches_are_masks() -> None:
    text = code(branch_on_sign, 256, [zeros(256), zeros(256)])
    assert "@llvm.masked.store.v8f32" in text
    assert not re.search(r"br i1 .*%then", text)
    assert re.search(r"all_active\d+:\n  store <8 x float>", text), (
        "masked stores are slow without mask registers"
    )


@tg.kernel
def long_branch(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    if x[i] > 0.0:
        y[i] = tg.exp(tg.log(x[i]))


@pytest.mark.machine_code
def test_long_branches_are_skipped_where_no_lane_is_active() -> None:
    skips = re.compile(r"icmp ne i8 %\w+, 0\n  br i1")
    assert skips.search(code(long_branch, 256, [zeros(256), zeros(256)]))
    assert not skips.search(code(branch_on_sign, 256, [zeros(256), zeros(256)]))


@tg.kernel
def halved(x: tg.array[int]):
    i = tg.tid()
    n = x[i]
    steps = 0
    while n > 0:
        n = n >> 1
        steps += 1
    x[i] = steps


@pytest.mark.machine_code
def test_divergent_loops_keep_values_of_finished_lanes() -> None:
    text = code(halved, 256, [tg.array(np.arange(256, dtype=np.int32))])
    assert re.search(r"select <8 x i1> %\w+, <8 x i32>", text)


@pytest.mark.machine_code
def test_loops_carry_masks_in_the_processor_format() -> None:
    x = tg.array(np.arange(256, dtype=np.int32))
    assert "phi <8 x i1>" not in code(halved, 256, [x])
    tg.config.cpu_target = "x86-64-v4"
    assert "phi <16 x i1>" in halved.llvm()


@tg.kernel
def gathered(index: tg.array[int], x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    y[i] = x[index[i]] * 2.0


@pytest.mark.machine_code
def test_addresses_without_a_stride_are_gathered() -> None:
    text = code(gathered, 256, [zeros(256, tg.int32), zeros(256), zeros(256)])
    assert "@llvm.masked.gather.v8f32" in text and "store <8 x float>" in text


@tg.kernel
def points(x: tg.array[tg.vec3], y: tg.array[float]):
    i = tg.tid()
    y[i] = tg.dot(x[i], x[i])


@pytest.mark.machine_code
def test_components_of_neighbouring_vectors_are_deinterleaved() -> None:
    text = code(points, 256, [tg.zeros(256, dtype=tg.vec3), zeros(256)])
    assert "load <24 x float>" in text and "gather" not in text


@tg.kernel
def plane(x: tg.array2d[float], y: tg.array2d[float]):
    i, j = tg.tid()
    y[i, j] = x[i, j] + 1.0


@pytest.mark.machine_code
def test_rows_that_end_inside_a_vector_are_tested_for_contiguity() -> None:
    args = [tg.zeros((8, 100)), tg.zeros((8, 100))]
    text = code(plane, (8, 100), args)
    assert "load <8 x float>" in text and "masked.gather" in text
    assert "masked.gather" not in code(plane, (8, 128), [tg.zeros((8, 128)), tg.zeros((8, 128))])


@tg.kernel
def counted(x: tg.array[int], y: tg.array[int]):
    i = tg.tid()
    tg.atomic_add(y, x[i], 1)


@tg.kernel
def printing(x: tg.array[float]):
    i = tg.tid()
    x[i] = x[i] * 2.0
    if x[i] > 1e30:
        print(x[i])


@pytest.mark.machine_code
def test_reports_and_atomics_are_scalarised() -> None:
    assert "<8 x " not in code(counted, 256, [zeros(256, tg.int32), zeros(256, tg.int32)])
    assert "<8 x " not in code(printing, 256, [zeros(256)])


@pytest.mark.machine_code
def test_debug_mode_scalarises_lanes() -> None:
    tg.config.mode = "debug"
    try:
        assert "<8 x " not in code(scaled, 256, [2.0, zeros(256), zeros(256)])
    finally:
        tg.config.mode = "release"


GATHERS = """
import sys
from tegula.backend.llvm import compile_object
from tegula.codegen.memory import MemoryEmitter
from tegula.codegen.text import Code
from tegula.target import NAMED
from tegula.types import DTYPES, scalar_of

target = NAMED[sys.argv[1]]
for dtype in DTYPES.values():
    for width in (4, 8, 16):
        code = Code()
        memory = MemoryEmitter(code)
        code.line(f"%m = load <{width} x i1>, ptr %p")
        pointers = code.emit(f"load <{width} x ptr>, ptr %p")
        gathered = memory.gather(pointers, dtype, width, "%m")
        memory.scatter(pointers, gathered, dtype, width, "%m")
        loaded = memory.load("%p", dtype, 3 * width)
        parts = memory.separated(loaded, dtype, width, 3)
        memory.masked_store("%p", memory.interleaved(parts, dtype, width), dtype, 3 * width,
                            memory.shuffled("%m", "poison", "i1", width, sorted([*range(width)] * 3)))
        body = "\\n".join(code.lines)
        compile_object("define void @f(ptr %p) {\\n" + body + "\\n  ret void\\n}\\n", target)
print("compiled")
"""


@sampled(3, "name", sorted(NAMED))
def test_gathers_and_interleaving_compile_for_every_target_and_type(name: str) -> None:
    """Compiled in a separate process, because code that LLVM cannot lower ends the process."""
    completed = subprocess.run(
        [sys.executable, "-c", GATHERS, name], capture_output=True, text=True, check=False
    )
    assert completed.stdout == "compiled\n", completed.stderr


@tg.kernel
def polynomial(x: tg.array[float], c: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    total = 0.0
    for k in range(c.shape[0]):
        total = total * x[i] + c[k]
    y[i] = total


@tg.kernel
def relayed(x: tg.array[float], y: tg.array[float]):
    i, j = tg.tid()
    t = tg.tile_zeros(64, dtype=float, storage="shared")
    t[j] = x[j]
    for k in range(4):
        t[j] = t[(j + k) % 64]
    y[j] = t[j]


def lane_loops(kernel: Any) -> int:
    return len(re.findall(r"^ *(?:%.* = )?lanes\b", kernel.ir("split_lanes"), re.M))


@pytest.mark.machine_code
def test_uniform_loops_are_not_split() -> None:
    """Values carried by lanes stay in registers."""
    text = code(polynomial, 256, [zeros(256), zeros(5), zeros(256)])
    assert lane_loops(polynomial) == 1 and re.search(r"= phi <8 x float>", text)


@pytest.mark.machine_code
def test_loops_are_split_where_lanes_synchronise_in_different_iterations() -> None:
    x = zeros(64)
    tg.launch_tiled(relayed, 1, inputs=[x, zeros(64)], block_dim=64)
    assert lane_loops(relayed) > 1
