"""Cooperative functions of the library as GPU code: the lowered program gives the interpreter's results bit for bit,
without races, and assembles without spills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import assert_same_bits, traced
from gpu_code import assemble, lower_to_llvm
from lowering import lowered as lower_to_threads
from lowering import run_lowered, tiled

import tegula as tg
from support.campaigns import sampled
from tegula import interp, testing
from tegula.declaration import Refused, Sample
from tegula.passes.pipeline import prepare
from tegula.stdlib.tiles import DECLARED
from tegula.stdlib.tiles.lu import well_pivoted

MAX_ELEMENTS = 300
"""Elements of the samples that the interpreter runs."""


def accepted_samples(name: str) -> list[Sample]:
    accepted = [s for s in testing.samples(name) if not isinstance(s, Refused)]
    return [
        s for s in accepted if sum(x.size for x in s.arguments if isinstance(x, np.ndarray)) <= MAX_ELEMENTS
    ]


PUBLIC_FUNCTIONS = [name for name in sorted(DECLARED) if name[0] != "_"]
ALL_SAMPLES = [
    pytest.param(name, s, id=f"{name}-{k}")
    for name in PUBLIC_FUNCTIONS
    for k, s in enumerate(accepted_samples(name))
]
ONE_SAMPLE_PER_FUNCTION = [
    max((p for p in ALL_SAMPLES if p.values[0] == name), key=lambda p: p.values[1].differentiable)
    for name in PUBLIC_FUNCTIONS
]


COMPOSED_FUNCTIONS = (
    "tile_cholesky_solve",
    "tile_dct",
    "tile_determinant",
    "tile_eigh",
    "tile_fft2",
    "tile_idct",
    "tile_ifft",
    "tile_ifft2",
    "tile_inverse",
    "tile_irfft",
    "tile_lstsq",
    "tile_rfft",
    "tile_slogdet",
    "tile_solve",
    "tile_svd",
    "tile_topk",
)
"""Functions whose programs mostly call other functions. Their tests are marked slow."""


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.slow] if name in COMPOSED_FUNCTIONS else []


FUNCTIONS_WITH_SUMS = ("tile_eigh", "tile_lstsq", "tile_qr", "tile_slogdet", "tile_svd")
"""Functions whose programs sum floats, in an order that depends on the device."""


def check_equal(name: str, sample: Sample, actual: np.ndarray, expected: np.ndarray) -> None:
    if name in FUNCTIONS_WITH_SUMS:
        testing.check_close(actual, expected.astype(np.float64), sample.tolerance)
    else:
        assert_same_bits(actual, expected, name)


def complex_as_pairs(x: np.ndarray) -> np.ndarray:
    """A copy of an array, with complex numbers as pairs of floats."""
    return np.stack([x.real, x.imag], axis=-1) if x.dtype.kind == "c" else x.copy()


def run_in_interpreter(program: testing.SampleProgram, block_dim: int, on_gpu: bool) -> list[np.ndarray]:
    """The arrays after a run of the program in the interpreter, after contraction, which fixes the rounding. `on_gpu`:
    the program for GPUs, where functions have programs for each device."""
    args = [tg.array(x) for x in (*program.tiles, *program.outs)]
    kernel = traced(program.kernel, args, (1, block_dim), block_dim, on_gpu)
    prepare(kernel)
    arrays: list[Any] = [complex_as_pairs(x) for x in (*program.tiles, *program.outs)]
    interp.run(kernel, arrays, (1, block_dim), block_dim, print)
    return arrays


def check_lowered(name: str, sample: Sample, block_dim: int, on_cpu: bool = False) -> None:
    program = testing.program(name, sample)
    if on_cpu:
        expected = run_in_interpreter(program, block_dim, on_gpu=False)
        for a, b in zip(program.run(block_dim), expected[len(program.tiles) :], strict=True):
            check_equal(name, sample, a, b)
    expected = run_in_interpreter(program, block_dim, on_gpu=True)
    launch = tiled(program.kernel, [tg.array(x) for x in (*program.tiles, *program.outs)], (1,), block_dim)
    kernel, compilation = lower_to_threads(launch)
    actual, _ = run_lowered(kernel, compilation, launch)
    for a, b in zip(actual, expected, strict=True):
        check_equal(name, sample, a, b)


@sampled(
    3,
    ("name", "sample"),
    [pytest.param(*p.values, id=p.id, marks=marks(p.values[0])) for p in ONE_SAMPLE_PER_FUNCTION],
)
def test_lowered_cooperative_functions_match_the_interpreter(name: str, sample: Sample) -> None:
    check_lowered(name, sample, 33)


@pytest.mark.slow(every=17)
@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", [1, 33, 64])
@pytest.mark.parametrize(("name", "sample"), ALL_SAMPLES)
def test_all_lowered_cooperative_functions_match_cpu_and_interpreter(
    name: str, sample: Sample, block_dim: int
) -> None:
    check_lowered(name, sample, block_dim, on_cpu=True)


@pytest.mark.slow(every=1)
@pytest.mark.machine_code
@pytest.mark.parametrize(("name", "columns"), [("tile_lu", 0), ("tile_lower_solve", 2), ("tile_solve", 17)])
def test_functions_with_rows_in_the_lanes_of_a_warp_match_cpu_and_interpreter(
    name: str, columns: int
) -> None:
    rng = np.random.default_rng(columns)
    arguments = [well_pivoted(rng, 17, 17).astype(np.float32)]
    if columns:
        arguments.append(rng.standard_normal((17, columns)).astype(np.float32))
    check_lowered(name, Sample(*arguments), 32, on_cpu=True)


@pytest.mark.slow(every=13)
@pytest.mark.parametrize(
    ("name", "sample", "arch"),
    [
        pytest.param(*p.values, arch, id=f"{p.id}-{arch}")
        for arch, samples in (
            ("sm_80", ONE_SAMPLE_PER_FUNCTION),
            ("sm_90a", ALL_SAMPLES),
            ("sm_100a", ONE_SAMPLE_PER_FUNCTION),
        )
        for p in samples
    ],
)
def test_cooperative_functions_assemble_without_spills(name: str, sample: Sample, arch: str) -> None:
    program = testing.program(name, sample)
    _, code = assemble(
        lower_to_llvm(program.kernel, [*program.tiles, *program.outs], (1,), 64, arch=arch), arch
    )
    assert code.spill_bytes == 0


def test_kernels_have_the_programs_of_their_device_alone() -> None:
    """Transforms by warps exchange elements of threads; on CPUs threads are lanes of vectors."""

    @tg.kernel
    def transform(x: tg.array1d[tg.vec2f]):
        t = tg.tile_load(x, shape=64)
        tg.tile_fft(t)
        tg.tile_store(x, t)

    def names(on_gpu: bool | None) -> set[str]:
        kernel = traced(transform, [tg.zeros(64, tg.vec2f)], (1, 32), 32, on_gpu)
        return {op.NAME for op in kernel.walk()}

    exchanges = {"tile.to_lanes", "tile.from_lanes"}
    assert exchanges <= names(True)
    assert not exchanges & names(False)
    assert {*exchanges, "target.is_gpu"} <= names(None)
    assert "target.is_gpu" not in names(True) | names(False)
