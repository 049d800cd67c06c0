"""The measurements of the sweep on a GPU: every point, then the adjoint of every differentiable point."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch._functorch import config as functorch

import tegula as tg
from benchmarks.burst import ITERATIONS, Call, bursts
from benchmarks.measure import TOLERANCE, Row
from benchmarks.sweep.peers import Function, peers
from benchmarks.sweep.point import Array, Launch, Point, inputs, results
from benchmarks.sweep.points import GRADIENTS, PREFIX, points

DEVICE = "cuda"
SETS, LARGE = 3, 1 << 28
"""The number of sets of inputs, which calls use in rotation, and the bytes from which there is one set."""
SLOW_SECONDS, SLOW_ITERATIONS = 0.05, 3
"""The seconds from which a call is slow, and the number of timed iterations of slow calls."""
GRADIENT_TOLERANCE = 3.0
"""The tolerance of gradients, relative to the tolerance of results: an adjoint sums rounded numbers."""
PEER_TOLERANCE = 8.0
"""The tolerance of peers, relative to the tolerance of results, because peers may round more often. A peer with a
larger error is not compared."""
GRADIENT_WORK = {"GEMM": 2.0, "attention": 2.5}
"""The work of an adjoint, in units of the work of the forward launch."""
DTYPES = {
    "float8_e4m3": torch.float8_e4m3fn,
    **{name: getattr(torch, name) for name in ("float32", "float16", "bfloat16", "float64", "int8", "int32")},
}

# Graphs of compiled functions are kept, so that their backward runs can be timed alone.
if hasattr(functorch, "donated_buffer"):
    functorch.donated_buffer = False


def tensor(a: Array, seed: int) -> torch.Tensor:
    """A tensor with the values of an argument; elements of results are NaN, or -1."""
    dtype = DTYPES[a.dtype]
    if a.result:
        return torch.full(a.shape, float("nan") if a.differentiable else -1, device=DEVICE).to(dtype)
    if not isinstance(a.values, float | int):
        return torch.from_numpy(a.numpy(0).astype("float64")).to(DEVICE, dtype)
    generator = torch.Generator(DEVICE).manual_seed(seed)
    result = torch.randn(a.shape, generator=generator, device=DEVICE) * a.values
    return (result if a.differentiable else result.round().clamp(-127, 127)).to(dtype)


def tensors(launch: Launch, seed: int) -> list[Any]:
    """Tensors of random values for all arguments."""
    return [tensor(a, seed + 101 * k) if isinstance(a, Array) else a for k, a in enumerate(launch.arguments)]


def arrays_of(values: Sequence[Any]) -> list[Any]:
    """Arguments of a launch on the tensors' memory."""
    return [tg.array(v, copy=False) if isinstance(v, torch.Tensor) else v for v in values]


def to_float64(values: Sequence[Any], gradients: bool = False) -> list[Any]:
    """The values in float64, except for the tables. `gradients`: whether the floats collect gradients."""
    result: list[Any] = []
    for v in values:
        if isinstance(v, torch.Tensor) and v.dtype is not torch.int32:
            result.append(v.double().requires_grad_(gradients and v.is_floating_point()))
        else:
            result.append(v)
    return result


def as_tuple(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


class Errors:
    """The relative errors (2-norm) of several implementations of the same results, which are summed part by part."""

    def __init__(self, attempts: dict[str, Sequence[torch.Tensor]]) -> None:
        self.attempts = attempts
        self.differences: dict[tuple[str, int], float] = {}
        self.norms: dict[int, float] = {}

    def add(self, number: int, index: Any, expected: torch.Tensor) -> None:
        """Add a part of a result. An implementation without this result has no error for it."""
        expected = expected.detach()
        self.norms[number] = self.norms.get(number, 0.0) + float(expected.square().sum())
        for name, attempt in self.attempts.items():
            if number < len(attempt):
                square = float((attempt[number][index].double() - expected).square().sum())
                self.differences[name, number] = self.differences.get((name, number), 0.0) + square

    def of_attempt(self, name: str) -> list[float]:
        """The errors of an attempt, by the number of the result."""
        pairs = sorted((k, d) for (peer_name, k), d in self.differences.items() if peer_name == name)
        return [(d / max(self.norms[k], 1e-300)) ** 0.5 for k, d in pairs]


Attempt = tuple[Call, Sequence[torch.Tensor]]
"""An implementation, and its results for set 0."""


def measured_row(
    point: Point,
    name: str,
    run_kernel: Call,
    actual: dict[str, Attempt],
    errors: Errors,
    tolerances: Sequence[float],
    work: float,
    unit: str,
    sets: int,
    target: float | None,
    notes: list[str],
) -> Row:
    """The row of a correct result, against the fastest of the peers whose results are correct."""
    kernel_errors = errors.of_attempt("")
    for error, tolerance in zip(kernel_errors, tolerances, strict=True):
        if not error <= tolerance:
            raise AssertionError(f"relative error {error:.2e} is above {tolerance:.0e}")
    calls: dict[str, Call] = {}
    peer_tolerance = PEER_TOLERANCE * max(*tolerances, *known_tolerances(point))
    for peer, (call, _) in actual.items():
        large_errors = [e for e in errors.of_attempt(peer) if not e <= peer_tolerance]
        if large_errors:
            notes.append(f"{peer} computes something else: error {large_errors[0]:.1e}")
        else:
            calls[peer] = call
    is_slow = seconds_of(run_kernel) > SLOW_SECONDS
    timings = bursts(
        {"": run_kernel, **calls}, 1 if is_slow else sets, SLOW_ITERATIONS if is_slow else ITERATIONS
    )
    kernel_timing = timings.pop("")
    fastest = min(timings, key=lambda peer: timings[peer].median, default="")
    notes[:0] = [f"{kernel_timing.median * 1e3:.4f} ms"]
    notes += [f"{peer} {work / t.median:.4g}" for peer, t in timings.items() if peer != fastest]
    notes += [line for line in point.kernel.explain().splitlines() if line.startswith("automatic schedule")]
    value = work / kernel_timing.median
    row = Row(
        name,
        value,
        unit,
        threshold=None,
        error=max(kernel_errors),
        samples=len(kernel_timing.seconds) * kernel_timing.calls,
    )
    if fastest:
        pairs = zip(timings[fastest].seconds, kernel_timing.seconds, strict=True)
        row.peer, row.peer_value = fastest, work / timings[fastest].median
        row.ratio, row.threshold = statistics.median(p / m for p, m in pairs), target
    row.note = "; ".join(notes)
    return row


def known_tolerances(point: Point) -> list[float]:
    """The tolerances of the types of a point's arrays of floats."""
    return [TOLERANCE.get(a.dtype, 0.0) for a in point.full.arrays if a.differentiable]


def seconds_of(call: Call) -> float:
    """The seconds of one call, without the first."""
    call(0)
    torch.cuda.synchronize()
    start = time.perf_counter()
    call(0)
    torch.cuda.synchronize()
    return time.perf_counter() - start


def measured_peers(
    point: Point, arguments: Sequence[Any], attempt: Callable[[Function], Attempt], notes: list[str]
) -> dict[str, Attempt]:
    """The peers that run without an error, by name. For each other peer the notes state the reason."""
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    result: dict[str, Attempt] = {}
    for peer in peers(point):
        if peer.is_fallback and result:
            continue
        try:
            result[peer.name] = attempt(peer.prepare(*arguments))
            torch.cuda.synchronize()
        except Exception as error:
            result.pop(peer.name, None)
            notes.append(f"{peer.name} failed: {type(error).__name__}: {str(error).strip()[:160]}")
    return result


def copy_call(count: int, prepare: Call = lambda k: None) -> Attempt:
    """A copy that moves `count` bytes, after the call of `prepare`."""
    source, target = (torch.zeros(count // 2, dtype=torch.uint8, device=DEVICE) for _ in range(2))

    def call(k: int) -> None:
        prepare(k)
        target.copy_(source)

    return call, ()


def adjoint_bytes(launch: Launch) -> int:
    """The minimum bytes that an adjoint launch moves: inputs are read, their gradients are read and written, and the
    gradients of results are read and cleared."""
    return sum(a.bytes * (2 if a.result else 3 if a.differentiable else 1) for a in launch.arrays)


def forward(point: Point) -> Iterator[Row]:
    """A point against its peers."""
    launch, notes = point.full, list[str]()
    sets = SETS if launch.bytes < LARGE else 1
    values = [tensors(launch, seed) for seed in range(sets)]
    arrays, arguments = (
        [arrays_of(set_values) for set_values in values],
        [inputs(launch, set_values) for set_values in values],
    )

    def run(k: int) -> None:
        tg.launch_tiled(point.kernel, launch.grid, arrays[k], block_dim=point.threads)

    def attempt(function: Function) -> Attempt:
        return lambda k: function(*arguments[k]), as_tuple(function(*arguments[0]))

    run(0)
    result = measured_peers(point, arguments[0], attempt, notes)
    outputs = results(launch, values[0])
    errors = Errors({"": outputs, **{name: outcome for name, (_, outcome) in result.items()}})
    with torch.device(DEVICE), torch.no_grad():
        for number, index, expected in point.exact(torch, *to_float64(arguments[0])):
            errors.add(number, index, expected)
    if point.group == "rows":
        result["copy"] = copy_call(launch.bytes)
    unit, work = point.unit
    tolerances = [point.tolerance or TOLERANCE[a.dtype] for a in launch.arrays if a.result]
    yield measured_row(
        point, PREFIX + point.name, run, result, errors, tolerances, work, unit, sets, point.target, notes
    )


def gradients(point: Point) -> Iterator[Row]:
    """The adjoint of a point against the backward run of its peers. A launch clears the gradient of the result, and
    zeros are faster to multiply than other numbers. The gradient is therefore copied in before each launch, also for
    the peers."""
    launch, notes = point.full, list[str]()
    sets = SETS if launch.bytes < LARGE else 1
    values = [tensors(launch, seed) for seed in range(sets)]
    arguments = [inputs(launch, set_values) for set_values in values]
    arrays = [arrays_of(set_values) for set_values in values]
    for k in range(sets):
        tg.launch_tiled(point.kernel, launch.grid, arrays[k], block_dim=point.threads)
    seeds = [
        [tensor(Array(a.shape, a.dtype), 11 + seed + k) for k, a in enumerate(launch.arrays) if a.result]
        for seed in range(sets)
    ]
    for set_values, gradients_of in zip(values, seeds, strict=True):
        for output, gradient in zip(results(launch, set_values), gradients_of, strict=True):
            # Arrays that the launch does not write have no gradient, and neither in the peers.
            gradient.masked_fill_(output.isnan(), 0.0)
    seed_copies = [[torch.clone(g) for g in set_values] for set_values in seeds]
    grads = [
        adjoints(launch, set_values, results_of)
        for set_values, results_of in zip(values, seed_copies, strict=True)
    ]
    adjoint = [arrays_of(set_values) for set_values in grads]
    dims = (*launch.grid, point.threads)

    def copy_seeds(k: int) -> None:
        for target, source in zip(seed_copies[k], seeds[k], strict=True):
            target.copy_(source)

    def run(k: int) -> None:
        copy_seeds(k)
        tg.launch(point.kernel, dims, arrays[k], [], adjoint[k], [], adjoint=True, block_dim=point.threads)

    def attempt(function: Function) -> Attempt:
        graphs = [graph(function, argument) for argument in arguments]

        def call(k: int) -> Any:
            copy_seeds(k)
            outputs, leaves = graphs[k]
            return torch.autograd.grad(outputs, leaves, seeds[k][: len(outputs)], retain_graph=True)

        return call, call(0)

    run(0)
    result = measured_peers(point, arguments[0], attempt, notes)
    if point.group == "rows":
        result["copy"] = copy_call(adjoint_bytes(launch), copy_seeds)
    kernel_gradients = [
        g for a, g in zip(launch.arguments, grads[0], strict=True) if g is not None and not a.result
    ]
    errors = Errors(
        {
            "": [g.clone() for g in kernel_gradients],
            **{name: outcome for name, (_, outcome) in result.items()},
        }
    )
    exact = to_float64(arguments[0], gradients=True)
    with torch.device(DEVICE):
        for number, index, value in point.exact(torch, *exact):
            (value * seeds[0][number][index].double()).sum().backward(retain_graph=True)
    leaves = [v for v in exact if isinstance(v, torch.Tensor) and v.requires_grad]
    for number, leaf in enumerate(leaves):
        errors.add(number, ..., leaf.grad if leaf.grad is not None else torch.zeros_like(leaf))
    tolerance = GRADIENT_TOLERANCE * max(point.tolerance or 0.0, *known_tolerances(point))
    unit, work = point.unit
    if point.group in GRADIENT_WORK:
        work *= GRADIENT_WORK[point.group]
    else:
        # The seeds are read and written before each launch.
        work = (adjoint_bytes(launch) + 2 * sum(a.bytes for a in launch.arrays if a.result)) / 1e9
    name = PREFIX + point.name + GRADIENTS
    yield measured_row(
        *(point, name, run, result, errors, [tolerance] * len(kernel_gradients)),
        *(work, unit, sets, point.gradient_target, notes),
    )


def adjoints(launch: Launch, values: Sequence[Any], seed_copies: Sequence[torch.Tensor]) -> list[Any]:
    """The gradients of all arguments, zeros for inputs; None for arguments without a gradient."""
    remaining = iter(seed_copies)
    result: list[Any] = []
    for a, v in zip(launch.arguments, values, strict=True):
        if not isinstance(a, Array) or not a.differentiable:
            result.append(None)
        else:
            result.append(next(remaining) if a.result else torch.zeros_like(v))
    return result


def graph(
    function: Function, arguments: Sequence[Any]
) -> tuple[tuple[torch.Tensor, ...], list[torch.Tensor]]:
    """The results of a function with the graph of their gradients, and the inputs of the gradients."""
    leaves = [
        v.detach().requires_grad_() if isinstance(v, torch.Tensor) and v.is_floating_point() else v
        for v in arguments
    ]
    outputs = as_tuple(function(*leaves))
    return outputs, [v for v in leaves if isinstance(v, torch.Tensor) and v.requires_grad]


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    **{PREFIX + p.name: partial(forward, p) for p in points().values()},
    **{PREFIX + p.name + GRADIENTS: partial(gradients, p) for p in points().values() if p.gradient},
}
"""The cases by name, in order; each yields its row."""
