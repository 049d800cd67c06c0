"""Tapes: launches are recorded, then run backwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.dataclass import dataclass
from tegula.errors import LaunchError
from tegula.lang.captures import unchanged
from tegula.runtime.adjoint import Adjoint
from tegula.runtime.array import array
from tegula.runtime.launch import run_adjoint
from tegula.runtime.recording import recording
from tegula.runtime.tensors import versions
from tegula.types import scalar_of

if TYPE_CHECKING:
    from tegula.ir import Kernel as KernelIR
    from tegula.runtime.kernel import Kernel
    from tegula.runtime.launch import Plan
    from tegula.runtime.quick import Form


@dataclass(frozen=True, slots=True)
class Record:
    """A launch, the compiled form that ran, and how many writes the tape had seen after it. `given`: the arguments as
    they were passed, whose memory `args` show; `versions`: how often each of PyTorch's tensors was written."""

    kernel: Kernel
    plan: Plan
    given: Sequence[Any]
    args: Sequence[Any]
    form: Form
    time: int
    versions: dict[int, int]

    def floats(self, positions: Iterable[int]) -> Iterator[tuple[int, array]]:
        """The arrays of floats at some positions."""
        for k in positions:
            a = self.args[k]
            if isinstance(a, array) and scalar_of(a.dtype).is_float:
                yield k, a

    @property
    def has_gradient(self) -> bool:
        return any(isinstance(a, array) and a.requires_grad for a in self.args)


def read(kernel: KernelIR) -> list[int]:
    """Positions of the array parameters that a kernel may read."""
    from tegula.passes.overlap import array_root

    effects = (e for op in kernel.walk() for e in op.effects() if e.kind != "write" and e.value is not None)
    roots = {array_root(e.value) for e in effects if e.value is not None}
    return [k for k, p in enumerate(kernel.params) if p in roots]


class Tape:
    """Records the launches of this thread in a `with` block, and computes gradients of what they wrote.

        with tg.Tape() as tape:
            tg.launch(kernel, dim, inputs=[x], outputs=[loss])
        tape.backward(loss)
        x.grad

    Gradients flow through arrays with `requires_grad`, intermediate ones too. A value that the gradients need must not
    be overwritten before `backward`; launches and methods of arrays that do are found, writes through NumPy are not."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._writes: dict[tuple[Any, int, int], int] = {}
        self._time = 0
        self._spent = False

    @staticmethod
    def active() -> Tape | None:
        """The tape whose `with` block runs in this thread, if there is one."""
        found = recording.tape
        return found if isinstance(found, Tape) else None

    def __enter__(self) -> Tape:
        if recording.tape is not None:
            raise LaunchError("a tape is recording already", "leave its with block first")
        recording.tape = self
        return self

    def __exit__(self, *error: object) -> None:
        recording.tape = None

    # Observing -------------------------------------------------------------------------------------------------------

    def launched(
        self, kernel: Kernel, plan: Plan, given: Sequence[Any], args: Sequence[Any], form: Form
    ) -> None:
        """A kernel was launched while the tape recorded."""
        known = versions(given)
        self.records.append(Record(kernel, plan, tuple(given), tuple(args), form, self._time, known))

    def written(self, target: Any) -> None:
        """An array was written, by a launch or by one of its methods."""
        if self.records or recording.tape is self:
            self._time += 1
            self._writes[target.device, target.low, target.high] = self._time

    # Gradients -------------------------------------------------------------------------------------------------------

    def backward(self, loss: array | None = None, grads: Mapping[array, Any] | None = None) -> None:
        """Add to the gradients of all arrays with `requires_grad` that were used: the derivative of `loss`, an array of
        one element, or the product of the derivatives with `grads`, gradients by array (which stay as they are).

        LaunchError for a second call without `zero()` between, and where an array that is needed was overwritten."""
        if self._spent:
            raise LaunchError(
                "the tape was run backwards already", "record it again, or call tape.zero() before"
            )
        seeds = self._seeds(loss, grads)
        self._check_connected()
        self._spent = True
        for target, seed in seeds:
            assert target.grad is not None
            target.grad.assign(seed)
        for record in reversed(self.records):
            run_adjoint(
                record.kernel,
                record.plan,
                record.given,
                check=lambda adjoint, at=record: self._check(at, adjoint),
            )
        for target, seed in seeds:
            assert target.grad is not None
            target.grad.assign(seed)

    def _seeds(self, loss: array | None, grads: Mapping[array, Any] | None) -> list[tuple[array, array]]:
        """The gradients that are known at the end, each a copy."""
        if (loss is None) == (grads is None):
            raise LaunchError(
                "backward takes either a loss or gradients", "tape.backward(loss), or grads={array: gradient}"
            )
        given: Mapping[array, Any] = grads or {}
        if loss is not None:
            if loss.size != 1:
                help = "sum it in a kernel, or pass grads={loss: ...}"
                raise LaunchError(f"a loss has one element, this array has shape {loss.shape}", help)
            given = {loss: None}
        out: list[tuple[array, array]] = []
        for target, seed in given.items():
            if target.grad is None:
                raise LaunchError("the array has no gradient", "make it with requires_grad=True")
            made = array(shape=target.shape, dtype=target.grad.dtype, device=target.device)
            out.append((target, made.fill_(1) if seed is None else made.assign(seed)))
        return out

    def _check_connected(self) -> None:
        """LaunchError where a gradient would get lost in an array that has none."""
        lost: list[tuple[Record, int, array]] = []
        for record in self.records:
            if not record.has_gradient:
                continue
            for k, a in record.floats(read(record.form.kernel)) if lost else ():
                for writer, at, source in lost:
                    if a.device == source.device and a.low < source.high and source.low < a.high:
                        name, made = record.kernel.parameters[k].name, writer.kernel.parameters[at].name
                        raise LaunchError(
                            f"kernel {record.kernel.name}: argument '{name}' is what kernel {writer.kernel.name} wrote "
                            f"as '{made}', an array without a gradient, so none would flow through it",
                            "make it with requires_grad=True, or launch the first kernel with record_tape=False",
                        )
            lost += [(record, k, a) for k, a in record.floats(record.form.writes) if not a.requires_grad]

    def _check(self, record: Record, adjoint: Adjoint) -> None:
        """LaunchError where an array that the adjoint reads was written after the launch, or what the kernel captures
        was changed."""
        name = record.kernel.name
        if not all(map(unchanged, record.form.captured)):
            raise LaunchError(
                f"kernel {name}: what it captures was changed between the launch and its gradient",
                "pass what changes as an argument",
            )
        now = versions(record.given)
        for k in sorted(adjoint.reads):
            a = record.args[k]
            written = now.get(k) != record.versions.get(k) or any(
                time > record.time and device == a.device and low < a.high and a.low < high
                for (device, low, high), time in self._writes.items()
            )
            if written:
                raise LaunchError(
                    f"kernel {name}: the gradient needs argument '{record.kernel.parameters[k].name}' as it was at "
                    "the launch, but it was overwritten since",
                    "write the later result to another array",
                )

    @property
    def gradients(self) -> dict[array, array]:
        """The gradient of each array of the recorded launches that has one."""
        return {a: a.grad for a in self._arrays() if a.grad is not None}

    def _arrays(self) -> Iterator[array]:
        for record in self.records:
            yield from (a for a in record.args if isinstance(a, array))

    def zero(self) -> None:
        """Set the gradients of all arrays of the recorded launches to zero."""
        for grad in self.gradients.values():
            grad.zero_()
        self._spent = False

    def reset(self) -> None:
        """Forget the launches."""
        self.records.clear()
        self._writes.clear()
        self._spent = False
