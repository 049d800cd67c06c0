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
MAX_NAMED_CANDIDATES = 4
"""The number of failed candidates that an error names."""


class Tuned(KernelChoice):
    """The argument of `launch` and `launch_tiled` that represents the fastest of several kernels. `reports`: the tuning
    report of each class of launches, the latest last."""

    def __init__(
        self,
        source: Any,
        values: Sequence[Values],
        key: Sequence[str] | None,
        tolerance: float | None,
    ) -> None:
        self.key = key
        self.tolerance = tolerance
        self.reports: list[TuningReport] = []
        self._lock = threading.RLock()
        self._set_candidates(kernels(source, values), source_of(source))
        first = self.candidates[0].kernel
        self.name = self.__name__ = first.name
        self.__doc__ = first.__doc__
        for name in key or ():
            if name not in self._names:
                message = f"key names '{name}', which is not a parameter of kernel {first.name}"
                raise TuningError(message, f"the parameters are {', '.join(self._names)}")

    def _set_candidates(self, candidates: list[Candidate], text: str) -> None:
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
        """The fastest kernel for a launch, its dimensions and its number of threads per block. The first launch of a
        class runs all candidates and restores the arrays afterwards. Raises TuningError if no candidate can be
        chosen."""
        candidate = self.candidates[self._choice(dim, args, block_dim, tiled, device, stream)]
        if callable(dim):
            dim = call_with(dim, candidate.values, "dim")
        return candidate.kernel, dim, block_dim if candidate.block_dim is None else candidate.block_dim

    def _choice(
        self, dim: Any, args: tuple[Any, ...], block_dim: int | None, tiled: bool, device: Any, stream: Any
    ) -> int:
        """The index of the fastest candidate. Values of constants and absent arrays are part of the class; each leaf of
        a struct or of an indexed array is an argument."""
        constants_bound = flattened_call(self.candidates[0].kernel, args)
        if constants_bound.kernel is not self.candidates[0].kernel:
            variant = self._variants.get(constants_bound.kernel) or self._variant(
                constants_bound.kernel, args
            )
            return variant._choice(dim, constants_bound.arguments, block_dim, tiled, device, stream)
        arguments = tegula_arguments(constants_bound.kernel, args)
        launch_class = (tiled, block_dim, config.code, *self._class(arguments))
        chosen = self._chosen.get(launch_class)
        if chosen is None:
            chosen = self._tune_class(launch_class, Request(dim, arguments, block_dim, tiled, device, stream))
        return chosen

    def _variant(self, first: Kernel, args: tuple[Any, ...]) -> Tuned:
        """The candidates with the constants of a launch bound and its structs flattened into leaves. `first`: the
        kernel of the first candidate."""
        copied = copy(self)
        bound = [replace(c, kernel=flattened_call(c.kernel, args).kernel) for c in self.candidates]
        copied._set_candidates(bound, f"{self._text}\n{describe(first.definition.bound)}")
        if self.key is not None:
            copied.key = [
                leaf for leaf in copied._names if leaf in self.key or leaf.partition(".")[0] in self.key
            ]
        return self._variants.setdefault(first, copied)

    def _tune_class(self, launch_class: tuple[Any, ...], request: Request) -> int:
        """The index of the candidate to run for launches of a class. Only one thread tunes; concurrent launches
        wait."""
        with self._lock:
            if launch_class not in self._chosen:
                report = self._report_for(request)
                self.reports.append(report)
                self._chosen[launch_class] = report.chosen
        return self._chosen[launch_class]

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
        return ", ".join(f"{n} {_shape_text(map(_length_class_text, a.shape))}" for n, a in arrays)

    # Tuning ----------------------------------------------------------------------------------------------------------

    def _report_for(self, request: Request) -> TuningReport:
        """The report for a launch, from the cached choice or from running the candidates."""
        launch_class = self._stable_class(request.arguments)
        report = TuningReport(self.name, launch_class, [Outcome(c) for c in self.candidates])
        traced, device = self._trace(request, report)
        texts = [digest(print_kernel(k)) if k is not None else "" for k in traced]
        first_digest = next(text for text in texts if text)
        values = [describe(c.values) for c in self.candidates]
        options = [str(request.tiled), str(request.block_dim), config.mode, str(self.tolerance)]
        store = ResultStore(
            [self._text, *values, launch_class, *options, first_digest, describe_device(device)]
        )
        chosen = store.get(texts)
        if chosen is not None:
            report.chosen, report.remembered = chosen, True
            return report
        self._forbid_recording(device, request)
        with recording.paused(), Progress(self.name) as progress:
            runnable = self._compile(traced, device, report, progress)
            if not runnable:
                raise self._no_candidate_error(report, "no candidate can be compiled")
            self._choose_fastest(request, traced, runnable, device, report, progress)
        store.put(report.chosen, texts[report.chosen])
        return report

    def _trace(self, request: Request, report: TuningReport) -> tuple[list[KernelIR | None], Device]:
        """The IR of each candidate and the device; for a candidate that cannot be traced, None, with the reason in the
        report."""
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
        self, kernels: Sequence[KernelIR | None], device: Device, report: TuningReport, progress: Progress
    ) -> list[int]:
        """Compile the candidates and check the schedules of candidates with roles. Returns the indices of the
        candidates that can run."""
        jobs = [(k, kernel_ir) for k, kernel_ir in enumerate(kernels) if kernel_ir is not None]
        progress.step("compiling", len(jobs))
        for (k, _), failure in zip(
            jobs, build_all([job(kernel_ir, device) for _, kernel_ir in jobs], progress.advance), strict=True
        ):
            report.outcomes[k].dropped = failure
        return [k for k, _ in jobs if not report.outcomes[k].dropped]

    def _choose_fastest(
        self,
        request: Request,
        traced: Sequence[KernelIR | None],
        runnable: Sequence[int],
        device: Device,
        report: TuningReport,
        progress: Progress,
    ) -> None:
        """Run the candidates, compare their results, time the candidates whose results agree, and set the report's
        choice."""
        # Work that other libraries have queued on the arrays must be complete before the trial changes them.
        synchronize_device(device)
        trial = Trial(request, [candidate for k in runnable if (candidate := traced[k]) is not None])
        if not trial.written:
            message = f"kernel {self.name} writes no array elements, so that results of candidates cannot be compared"
            raise TuningError(message, "launch one kernel without tg.autotune")
        candidates = [outcome.candidate for outcome in report.outcomes]
        try:
            results: dict[int, Result] = {}
            progress.step("comparing results", len(runnable))
            for k in runnable:
                try:
                    results[k] = trial.result(candidates[k], lambda: synchronize_device(device))
                except TegulaError as error:
                    if is_lost(device):
                        message = f"kernel {self.name}: candidate {candidates[k]} makes {device} unusable"
                        help = "leave the candidate out, and start a new process"
                        raise TuningError(f"{message}: {first_line(str(error))}", help) from error
                    report.outcomes[k].dropped = str(error)
                progress.advance()
            agreeing = self._keep_agreeing(results, report)
            progress.step("timing", REPEATS)
            trial.restore()
            calls = [_runner(request, candidates[k]) for k in agreeing]
            times = time_calls(calls, trial.make_restore, clock_for(device), progress.advance)
            for k, seconds in zip(agreeing, times, strict=True):
                report.outcomes[k].seconds = seconds
            report.chosen = agreeing[times.index(min(times))]
        finally:
            if not is_lost(device):
                trial.restore()
                synchronize_device(device)

    def _keep_agreeing(self, results: Mapping[int, Result], report: TuningReport) -> list[int]:
        """The indices of the candidates in the largest group of agreeing results; the other candidates are dropped with
        a warning. Raises TuningError if no candidate ran, or if two groups are equally large."""
        import warnings

        if not results:
            raise self._no_candidate_error(report, "no candidate runs to completion")
        candidates = list(results)
        groups = group_agreeing(list(results.values()), self.tolerance)
        if len(groups) > 1 and len(groups[0]) == len(groups[1]):
            examples = "; ".join(
                str(report.outcomes[candidates[g[0]]].candidate) for g in groups[:MAX_NAMED_CANDIDATES]
            )
            summary = f"{len(groups)} different results, none of them the most frequent"
            disagreement = f"the candidates of kernel {self.name} give {summary}"
            help = "remove the wrong candidates, or allow a larger relative difference: tolerance=..."
            raise TuningError(f"{disagreement}: {examples}", help)
        for group in groups[1:]:
            for k in group:
                outcome = report.outcomes[candidates[k]]
                outcome.dropped = f"its result differs from the result of {len(groups[0])} others"
                message = f"kernel {self.name}: candidate {outcome.candidate} is dropped: {outcome.dropped}"
                warnings.warn(message, RuntimeWarning, stacklevel=6)
        return [candidates[k] for k in groups[0]]

    def _no_candidate_error(self, report: TuningReport, reason: str) -> TuningError:
        dropped = report.dropped
        omitted = len(dropped) - MAX_NAMED_CANDIDATES
        lines = [
            *reasons(dropped[:MAX_NAMED_CANDIDATES]),
            *([f"  and {omitted} more"] if omitted > 0 else []),
        ]
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


def _length_class_text(n: int) -> str:
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
    """Makes launches run the fastest of several variants of a kernel; a decorator above @tg.kernel, or above a function
    that takes the values and returns a kernel.

    The first launch of each class compiles and runs the candidates. Candidates are dropped if they fail, if their
    schedule is not accepted, or if their result differs from the result of most others. The remaining candidates are
    timed, and the choice is stored on disk. A class is a set of arguments with equal types, layouts and lengths, as
    selected by `key`. Arrays are restored afterwards.

    Parameters:
        made_of: the kernel or the function; None where there are arguments.
        configs: candidates, a list of dictionaries of values; by default all combinations of `values`.
        where: a function whose parameters are names of values, true for the candidates to keep; all candidates by
            default.
        key: the names of parameters whose exact lengths or values define the class of a launch; by default, lengths are
            in one class if they have the same next power of 2 and the same largest power of 2 that divides them.
        tolerance: the largest relative difference between floats of two results; by default a bound for sums in another
            order.
        **values: lists of values: for variables that the kernel and its functions read, for constants that the kernel
            takes (tg.constexpr), and for `block_dim`.
    Returns:
        an object that is launched like a kernel; `dim` may be a function of the values that are its parameters.
    Raises:
        tuning: candidates cannot be created, none can be chosen, or `key` or `tolerance` is invalid.
    """
    if tolerance is not None and not 0.0 <= tolerance < float("inf"):
        raise TuningError(
            f"tolerance must be finite and not negative, got {tolerance}", "for example tolerance=1e-3"
        )
    if isinstance(key, str):
        raise TuningError(f"key must be a list of names of parameters, got {key!r}", f"write key=[{key!r}]")
    candidates = combinations(configs, values, where)

    def wrap(made_of: Any) -> Tuned:
        return Tuned(made_of, candidates, key, tolerance)

    return wrap if made_of is None else wrap(made_of)
