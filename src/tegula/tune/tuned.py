"""`tg.autotune`: a kernel whose launches run the fastest of several candidates."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from tegula.dataclass import replace
from tegula.errors import LaunchError, TegulaError, TuningError
from tegula.ir import Kernel as KernelIR
from tegula.ir.text import print_kernel
from tegula.runtime.arguments import flattened_call
from tegula.runtime.array import array
from tegula.runtime.config import config
from tegula.runtime.device import CPU, Device, synchronize_device
from tegula.runtime.kernel import Kernel, KernelChoice
from tegula.runtime.recording import recording
from tegula.runtime.resolve import tegula_arguments
from tegula.tune.build import build_all, job
from tegula.tune.candidates import Candidate, Values, call_with, combinations, describe, kernels, source_of
from tegula.tune.clock import REPEATS, clock_for, time_calls
from tegula.tune.memory import ResultStore, describe_device, digest
from tegula.tune.progress import Progress
from tegula.tune.report import Outcome, TuningReport, first_line, reasons
from tegula.tune.results import Result, group_agreeing
from tegula.tune.trial import Request, Trial, is_lost

DIVISORS = 10
"""Two lengths are in different classes if their largest power-of-two divisors, capped at 2**DIVISORS, differ."""
NAMED = 4
"""The number of failed candidates that an error names."""


class Tuned(KernelChoice):
    """The argument of `launch` and `launch_tiled` that represents the fastest of several kernels. `reports`: the tuning
    report of each class of launches, the latest last."""

    def __init__(
        self,
        made_of: Any,
        values: Sequence[Values],
        key: Sequence[str] | None,
        tolerance: float | None,
    ) -> None:
        self.key = key
        self.tolerance = tolerance
        self.reports: list[TuningReport] = []
        self._lock = threading.RLock()
        self._begin(kernels(made_of, values), source_of(made_of))
        first = self.candidates[0].kernel
        self.name = self.__name__ = first.name
        self.__doc__ = first.__doc__
        for name in key or ():
            if name not in self._names:
                message = f"key names '{name}', which is not a parameter of kernel {first.name}"
                raise TuningError(message, f"the parameters are {', '.join(self._names)}")

    def _begin(self, candidates: list[Candidate], text: str) -> None:
        self.candidates = candidates
        self.parameters = candidates[0].kernel.parameters
        self._text = text
        self._chosen: dict[Any, int] = {}
        self._variants: dict[Kernel, Tuned] = {}
        self._names = [p.name for p in self.parameters]

    def choose(
        self,
        dim: Any,
        args: tuple[Any, ...],
        block_dim: int | None,
        tiled: bool,
        device: Device | str | None = None,
        stream: Any = None,
    ) -> tuple[Kernel, Any, int | None]:
        """The fastest kernel for arguments like these, found by running all candidates if it is not known. Arrays are
        then as they were before. TuningError if no candidate can be chosen."""
        candidate = self.candidates[self._position(dim, args, block_dim, tiled, device, stream)]
        if callable(dim):
            dim = call_with(dim, candidate.values, "dim")
        return candidate.kernel, dim, block_dim if candidate.block_dim is None else candidate.block_dim

    def _position(
        self, dim: Any, args: tuple[Any, ...], block_dim: int | None, tiled: bool, device: Any, stream: Any
    ) -> int:
        """The position of the fastest candidate. Each constant and each absent array selects a class; each leaf of a
        struct or an indexed array is an argument."""
        constants_bound = flattened_call(self.candidates[0].kernel, args)
        if constants_bound.kernel is not self.candidates[0].kernel:
            variant = self._variants.get(constants_bound.kernel) or self._variant(
                constants_bound.kernel, args
            )
            return variant._position(dim, constants_bound.arguments, block_dim, tiled, device, stream)
        own = tegula_arguments(constants_bound.kernel, args)
        kind = (tiled, block_dim, config.code, *self._class(own))
        chosen = self._chosen.get(kind)
        if chosen is None:
            chosen = self._tuned(kind, Request(dim, own, block_dim, tiled, device, stream))
        return chosen

    def _variant(self, first: Kernel, args: tuple[Any, ...]) -> Tuned:
        """The same candidates with the constants of a launch, for its leaves; `first`: the first of them."""
        copied = copy(self)
        bound = [replace(c, kernel=flattened_call(c.kernel, args).kernel) for c in self.candidates]
        copied._begin(bound, f"{self._text}\n{describe(first.definition.bound)}")
        if self.key is not None:
            copied.key = [
                leaf for leaf in copied._names if leaf in self.key or leaf.partition(".")[0] in self.key
            ]
        return self._variants.setdefault(first, copied)

    def _tuned(self, kind: tuple[Any, ...], request: Request) -> int:
        """The position of the candidate to run for launches of a class. Concurrent launches wait for one thread to
        tune."""
        with self._lock:
            if kind not in self._chosen:
                report = self._report(request)
                self.reports.append(report)
                self._chosen[kind] = report.chosen
        return self._chosen[kind]

    def forget(self) -> None:
        """Drop the choices in memory, so that the next launch of each class reads the disk cache or tunes again."""
        self._chosen.clear()
        self._variants.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        help = f"tg.launch_tiled({self.name}, dim=..., inputs=[...])"
        raise LaunchError(f"{self.name} is a kernel and cannot be called", help)

    def __repr__(self) -> str:
        return f"<tegula kernel {self.name}, the fastest of {len(self.candidates)}>"

    # Classes of launches ---------------------------------------------------------------------------------------------

    def _class(self, args: Sequence[Any]) -> list[Any]:
        """The key of a class: launches with equal keys run the same candidate."""
        if self.key is None:
            return [(a.launch_id, *map(_length_class, a.shape)) if type(a) is array else () for a in args]
        exact = [args[self._names.index(name)] for name in self.key]
        ids = [a.launch_id if type(a) is array else () for a in args]
        return [*ids, *((*a.shape,) if type(a) is array else a for a in exact)]

    def _stable_class(self, args: Sequence[Any]) -> str:
        """The class of a launch as text that is the same in every process."""
        pairs = list(zip(self._names, args, strict=True))
        if self.key is not None:
            pairs = [(name, value) for name, value in pairs if name in self.key]
            return ", ".join(f"{n} {_shape_text(a.shape) if type(a) is array else a}" for n, a in pairs)
        arrays = [(name, a) for name, a in pairs if type(a) is array]
        return ", ".join(f"{n} {_shape_text(map(_class_text, a.shape))}" for n, a in arrays)

    # Tuning ----------------------------------------------------------------------------------------------------------

    def _report(self, request: Request) -> TuningReport:
        """The report for a launch, from the cached choice or from running the candidates."""
        spoken = self._stable_class(request.arguments)
        report = TuningReport(self.name, spoken, [Outcome(c) for c in self.candidates])
        traced, device = self._trace(request, report)
        texts = [digest(print_kernel(k)) if k is not None else "" for k in traced]
        first = next(text for text in texts if text)
        values = [describe(c.values) for c in self.candidates]
        options = [str(request.tiled), str(request.block_dim), config.mode, str(self.tolerance)]
        memory = ResultStore([self._text, *values, spoken, *options, first, describe_device(device)])
        known = memory.get(texts)
        if known is not None:
            report.chosen, report.remembered = known, True
            return report
        self._forbid_recording(device, request)
        with recording.paused(), Progress(self.name) as progress:
            built = self._compile(traced, device, report, progress)
            if not built:
                raise self._no_candidate_error(report, "no candidate can be compiled")
            self._race(request, traced, built, device, report, progress)
        memory.put(report.chosen, texts[report.chosen])
        return report

    def _trace(self, request: Request, report: TuningReport) -> tuple[list[KernelIR | None], Device]:
        """The IR of each candidate and the device; None, with the reason in the report, for candidates that cannot be
        traced."""
        traced: list[KernelIR | None] = []
        device = CPU
        for outcome in report.outcomes:
            try:
                traced_kernel, device = request.traced(outcome.candidate)
                traced.append(traced_kernel)
            except TuningError:
                raise
            except TegulaError as error:
                outcome.dropped = str(error)
                traced.append(None)
        if not any(k is not None for k in traced):
            raise self._no_candidate_error(report, "no candidate can be launched with these arguments")
        return traced, device

    def _compile(
        self, traced: Sequence[KernelIR | None], device: Device, report: TuningReport, progress: Progress
    ) -> list[int]:
        """Compile the candidates and check the schedules of those with roles. Returns the positions of the candidates
        that can run."""
        jobs = [(k, kernel_ir) for k, kernel_ir in enumerate(traced) if kernel_ir is not None]
        progress.step("compiling", len(jobs))
        for (k, _), failure in zip(
            jobs, build_all([job(kernel_ir, device) for _, kernel_ir in jobs], progress.advance), strict=True
        ):
            report.outcomes[k].dropped = failure
        return [k for k, _ in jobs if not report.outcomes[k].dropped]

    def _race(
        self,
        request: Request,
        traced: Sequence[KernelIR | None],
        built: Sequence[int],
        device: Device,
        report: TuningReport,
        progress: Progress,
    ) -> None:
        """Run the candidates, compare their results, time those that agree, and set the report's choice."""
        # Work that other libraries have queued on the arrays must be complete before the trial changes them.
        synchronize_device(device)
        trial = Trial(request, [candidate for k in built if (candidate := traced[k]) is not None])
        if not trial.written:
            message = (
                f"kernel {self.name} writes no element of an array, so that its results cannot be compared"
            )
            raise TuningError(message, "launch one kernel without tg.autotune")
        candidates = [outcome.candidate for outcome in report.outcomes]
        try:
            results: dict[int, Result] = {}
            progress.step("comparing results", len(built))
            for k in built:
                try:
                    results[k] = trial.result(candidates[k], lambda: synchronize_device(device))
                except TegulaError as error:
                    if is_lost(device):
                        message = f"kernel {self.name}: candidate {candidates[k]} makes {device} unusable"
                        help = "leave the candidate out, and start a new process"
                        raise TuningError(f"{message}: {first_line(str(error))}", help) from error
                    report.outcomes[k].dropped = str(error)
                progress.advance()
            right = self._keep_agreeing(results, report)
            progress.step("timing", REPEATS)
            trial.restore()
            calls = [_runner(request, candidates[k]) for k in right]
            times = time_calls(calls, trial.make_restore, clock_for(device), progress.advance)
            for k, seconds in zip(right, times, strict=True):
                report.outcomes[k].seconds = seconds
            report.chosen = right[times.index(min(times))]
        finally:
            if not is_lost(device):
                trial.restore()
                synchronize_device(device)

    def _keep_agreeing(self, results: Mapping[int, Result], report: TuningReport) -> list[int]:
        """The candidates in the largest group of equal results; the others are dropped with a warning. TuningError if
        there is none, or if two groups are equally large."""
        import warnings

        if not results:
            raise self._no_candidate_error(report, "no candidate runs to completion")
        at = list(results)
        groups = group_agreeing(list(results.values()), self.tolerance)
        if len(groups) > 1 and len(groups[0]) == len(groups[1]):
            kinds = "; ".join(str(report.outcomes[at[g[0]]].candidate) for g in groups[:NAMED])
            many = f"{len(groups)} different results, none of them the most frequent"
            disagreement = f"the candidates of kernel {self.name} give {many}"
            help = "remove the wrong candidates, or allow a larger relative difference: tolerance=..."
            raise TuningError(f"{disagreement}: {kinds}", help)
        for group in groups[1:]:
            for k in group:
                outcome = report.outcomes[at[k]]
                outcome.dropped = f"its result differs from the result of {len(groups[0])} others"
                message = f"kernel {self.name}: candidate {outcome.candidate} is dropped: {outcome.dropped}"
                warnings.warn(message, RuntimeWarning, stacklevel=6)
        return [at[k] for k in groups[0]]

    def _no_candidate_error(self, report: TuningReport, reason: str) -> TuningError:
        dropped = report.dropped
        more = len(dropped) - NAMED
        lines = [*reasons(dropped[:NAMED]), *([f"  and {more} more"] if more > 0 else [])]
        text = "\n".join([f"kernel {self.name}: {reason}", *lines])
        error = TuningError(text, "launch one of the candidates without tg.autotune to see the whole error")
        return error

    def _forbid_recording(self, device: Device, request: Request) -> None:
        """Raise TuningError while launches are recorded, because candidates cannot run then."""
        if not device.is_cuda:
            return
        from tegula.runtime.cuda.graph import recording

        if recording.active:
            message = f"kernel {self.name} is launched in a recording before it is tuned"
            raise TuningError(message, "launch the kernel once with arguments of these types first")


def _runner(request: Request, candidate: Candidate) -> Callable[[], None]:
    return lambda: request.run(candidate)


def _length_class(n: int) -> tuple[int, int]:
    """The class of a length: the exponents of the next power of two and of the largest power of two that divides it."""
    return (n - 1).bit_length() if n > 0 else -1, min((n & -n).bit_length() - 1, DIVISORS)


def _class_text(n: int) -> str:
    bits, zeros = _length_class(n)
    return f"<={2**bits}/{2**zeros}" if bits >= 0 else "0"


def _shape_text(lengths: Any) -> str:
    return "x".join(map(str, lengths))


def autotune(
    made_of: Any = None,
    /,
    *,
    configs: Sequence[Mapping[str, Any]] | None = None,
    where: Callable[..., bool] | None = None,
    key: Sequence[str] | None = None,
    tolerance: float | None = None,
    **values: Sequence[Any],
) -> Any:
    """Makes launches run the fastest of several forms of a kernel; a decorator above @tg.kernel, or above a
    function that takes the values and returns a kernel.

    The first launch of each class compiles the candidates, drops those whose schedule does not pass, whose result
    differs from most others or that fail, times the rest, and keeps the choice on disk. A class is a set of arguments
    with equal types, layouts and lengths, as selected by `key`. Arrays are restored afterwards.

    Parameters:
        made_of: the kernel or the function; None where there are arguments.
        configs: candidates, a list of dictionaries of values; by default all combinations of `values`.
        where: a function whose parameters are names of values, true for the candidates to keep; all candidates by
            default.
        key: the names of parameters whose exact lengths or values tell classes of launches apart; by default
            lengths up to the next power of 2, with the same power of 2 that divides them.
        tolerance: the largest relative difference between floats of two results; by default a bound for sums in another
            order.
        **values: for each variable that the kernel and its functions read, each constant that it takes
            (tg.constexpr), and for `block_dim`, the list of values that it is to have.
    Returns:
        an object that is launched like a kernel; `dim` may be a function of the values that are its parameters.
    Raises:
        tuning: candidates cannot be made, none can be chosen, or `key` or `tolerance` is wrong.
    """
    if tolerance is not None and not 0.0 <= tolerance < float("inf"):
        raise TuningError(f"tolerance must not be negative, got {tolerance}", "for example tolerance=1e-3")
    if isinstance(key, str):
        raise TuningError(f"key must be a list of names of parameters, got {key!r}", f"write key=[{key!r}]")
    candidates = combinations(configs, values, where)

    def wrap(made_of: Any) -> Tuned:
        return Tuned(made_of, candidates, key, tolerance)

    return wrap if made_of is None else wrap(made_of)
