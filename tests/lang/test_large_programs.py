"""Tiles, stacks, vectors and unrolled loops that are too large are refused immediately; below the limit time and memory
grow linearly."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import pytest

import tegula as tg
from tegula import errors as E
from tegula.codegen.kernel import lower_kernel
from tegula.passes.pipeline import for_cpu, prepare
from tegula.runtime.compile import trace
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.launch import plan
from tegula.runtime.resolve import overlaps, specialisation
from tegula.target import get_target

SECONDS = 0.1


def kernel(*lines: str) -> Any:
    body = "\n".join(f"    {line}" for line in lines)
    text = f"def kernel(a: tg.array[float], out: tg.array[float]):\n    i, j = tg.tid()\n{body}\n"
    namespace: dict[str, Any] = {"tg": tg}
    exec(text, namespace)
    return tg.kernel(source=text)(namespace["kernel"])


def lowered(traced: Any) -> str:
    """The LLVM text of a kernel, which is not run."""
    args = [tg.zeros(64), tg.zeros(64)]
    packed = [pack(value) for pack, value in zip(traced.packers, args, strict=True)]
    specialised = specialisation(
        [SPECIALISATIONS[n] for n, _ in packed], plan((1, 8), 8).launch, overlaps(tuple(args))
    )
    ir = trace(traced, specialised.types, specialised.launch, specialised.access)
    prepare(ir)
    return lower_kernel(ir, for_cpu(ir), get_target()).text


HUGE_PROGRAMS = {
    "load": ["t = tg.tile_load(a, shape=10**9)"],
    "zeros": ["t = tg.tile_zeros((10**5, 10**5))"],
    "ones": ["t = tg.tile_ones((2**13, 2**13 + 1))"],
    "shared": ["t = tg.tile_zeros(2**26 + 1, storage='shared')"],
    "full": ["t = tg.tile_full((10**4, 10**3, 10), 1.0)"],
    "empty": ["t = tg.tile_empty(10**8)"],
    "more than 64 bits": ["t = tg.tile_zeros((2**62, 2**62))"],
    "arange": ["t = tg.tile_arange(10**9)"],
    "arange of floats": ["t = tg.tile_arange(0.0, 1e6, 1e-4)"],
    "arange of integers": ["t = tg.tile_arange(0, 10**10, 3, dtype=tg.int64)"],
    "broadcast": ["t = tg.tile_broadcast(tg.tile_zeros(1), (10**8,))"],
    "reshape": ["t = tg.tile_reshape(tg.tile_zeros(64), (10**9, 1))"],
    "outer": ["x = tg.tile_zeros((20000, 1))", "t = x * tg.tile_transpose(x)"],
    "outer, summed": ["x = tg.tile_zeros((20000, 1))", "t = tg.tile_sum(x + tg.tile_transpose(x))"],
    "where": ["x = tg.tile_zeros((20000, 1))", "y = tg.tile_transpose(x)", "t = tg.where(x > y, x, y)"],
    "matmul": ["x = tg.tile_zeros((20000, 1))", "t = x @ tg.tile_transpose(x)"],
    "concat": ["x = tg.tile_zeros(2**25 + 1)", "t = tg.tile_concat((x, x))"],
    "pad": ["t = tg.tile_pad(tg.tile_zeros(4), 10**9)"],
    "from thread": ["t = tg.tile_from_thread(shape=10**9, value=1.0, thread_idx=0)"],
    "indices": ["x = tg.tile_zeros(120000, dtype=int)", "t = tg.tile_zeros((4, 30000))[x]"],
    "vectors": ["t = tg.tile_zeros(10**9, dtype=tg.vec3)"],
    "stack": ["t = tg.tile_stack(10**9, int)"],
}


def refusal(traced: Any, error: type[E.CompileError]) -> E.CompileError:
    """The error of a launch, which must be raised within a time limit at least once of three times: Python may collect
    the garbage of other tests in between."""
    a = tg.zeros(64)
    seconds = list[float]()
    while len(seconds) < 3 and min(seconds, default=SECONDS) >= SECONDS:
        start = time.process_time()
        with pytest.raises(error) as caught:
            tg.launch_tiled(traced, dim=1, inputs=[a, a], block_dim=8)
        seconds.append(time.process_time() - start)
    assert min(seconds) < SECONDS
    return caught.value


@pytest.mark.parametrize("lines", HUGE_PROGRAMS.values(), ids=HUGE_PROGRAMS)
def test_huge_tiles_are_refused_at_once(lines: list[str]) -> None:
    for number in ("10**10", "10**9", "10**8", "10**5", "10**4", "2**62", "2**26", "2**25", "2**13"):
        lines = [line.replace(number, str(eval(number))) for line in lines]
    error = refusal(kernel(*lines), E.TileTooLarge)
    assert error.loc is not None and error.loc.line == 2 + len(lines)
    assert f"more than {2**26:,}" in error.message


@pytest.mark.parametrize(
    "line",
    [
        "v = tg.vector(length=10000, dtype=float)",
        "v = tg.identity(100)",
        "v = tg.matrix(0.0, shape=(64, 64))",
    ],
)
def test_long_vectors_are_refused_at_once(line: str) -> None:
    assert "more than 1,024" in refusal(kernel(line), E.TypeMismatch).message


def test_types_of_long_vectors_are_refused() -> None:
    for make in (lambda: tg.types.vector(10**9, float), lambda: tg.types.matrix((10**5, 10**5), float)):
        with pytest.raises(ValueError, match=r"more than 1,024; use a tile"):
            make()
    assert tg.types.vector(1024, float).length == 1024


@pytest.mark.parametrize(
    "lines",
    [
        ["for k in tg.static(range(1000000000)):", "    out[k] = 1.0"],
        ["for k in tg.static(range(0, 2**70, 3)):", "    out[k] = 1.0"],
        ["r = tg.static(range(5000))", "for k in r:", "    out[k] = 1.0"],
        [
            "for k in tg.static(range(100)):",
            "    for m in tg.static(range(100)):",
            "        out[k + m] = 1.0",
        ],
    ],
)
def test_loops_that_are_unrolled_too_far_are_refused(lines: list[str]) -> None:
    assert "more than 4,096" in refusal(kernel(*lines), E.UnrolledTooFar).message


BELOW_LIMIT = {
    "rows": "tg.tile_store(out, tg.tile_load(a, shape={n}) + 1.0)",
    "bytes": "tg.tile_store(out, tg.tile_astype(tg.tile_sum(tg.tile_zeros({n}, dtype=tg.int8)), float))",
    "in place": "t = tg.tile_zeros({n}); t[j] += 1.0; tg.tile_store(out, t)",
    "scan": "tg.tile_store(out, tg.tile_scan_inclusive(tg.tile_ones({n})))",
    "columns": "tg.tile_store(out, tg.tile_reshape(tg.tile_ones(({n}, 1)), {n}))",
}


@pytest.mark.parametrize("line", BELOW_LIMIT.values(), ids=BELOW_LIMIT)
def test_the_code_size_does_not_depend_on_the_tile_size(line: str) -> None:
    sizes: list[int] = []
    for n in (2**12, 2**26):
        tracemalloc.start()
        text = lowered(kernel(*line.format(n=n).split("; ")))
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(text) < 100_000
    assert sizes[1] < sizes[0] + (4 << 20)


UNROLLED = {
    "a number": "s = s * 1.5 + a[k]",
    "a fused tile": "t += tg.tile_load(a, shape=8, offset=k)",
    "a tile of tiles": "t = (t + 1.0) * t",
    "elements": "t[k % 8] += a[k]",
    "stores": "out[k] = a[k] + s",
    "a list of tiles": "u = tg.tile_load(a, shape=8, offset=k); t = t * 0.5 + u",
}


@pytest.mark.slow
@pytest.mark.parametrize("line", UNROLLED.values(), ids=UNROLLED)
def test_unrolled_loops_cost_time_in_proportion_to_their_length(line: str) -> None:
    """The time of LLVM is not tested; quadratic time would be 16 times as long."""

    def cost(n: int) -> float:
        body = [f"    {part}" for part in line.split("; ")]
        built_kernel = kernel(
            "s = 0.0", "t = tg.tile_zeros(8)", f"for k in tg.static(range({n})):", *body, "out[j] = s + t[0]"
        )
        start = time.process_time()
        lowered(built_kernel)
        return time.process_time() - start

    cost(10)
    limit = 8 * cost(500) + 0.5
    assert cost(2000) < limit or cost(2000) < limit


def chain(n: int) -> Any:
    """A kernel with 2 n ops on tiles, each on the result of the previous one."""
    return kernel(
        "t = tg.tile_load(a, shape=8)",
        f"for k in tg.static(range({n})):",
        "    t = t * 0.5 + 1.0",
        "tg.tile_store(out, t)",
    )


def test_long_chains_of_tiles_are_lowered_in_pieces() -> None:
    lowered(chain(300))


@pytest.mark.machine_code
@pytest.mark.slow
def test_long_chains_of_tiles_have_correct_results() -> None:
    out = tg.zeros(8)
    tg.launch_tiled(chain(1000), dim=1, inputs=[tg.ones(64), out], block_dim=8)
    assert out.numpy().tolist() == [2.0] * 8
