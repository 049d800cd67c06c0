"""Tapes: launches, and copies by methods of arrays, are recorded, then run backwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.deferred import deferred_imports
from tegula.errors import LaunchError
from tegula.lang.captures import unchanged
from tegula.runtime.array import array
from tegula.runtime.element_range import ElementRange
from tegula.runtime.launch import run_adjoint
from tegula.runtime.recording import recording
from tegula.runtime.records import AdjointRecord, AssignmentRecord, CallRecord, LaunchRecord, Record, clear
from tegula.runtime.tensors import versions
from tegula.structs import StructType
from tegula.types import components

with deferred_imports():
    from tegula.runtime.adjoint import gradients
    from tegula.runtime.gradient_flow import check_flow
    from tegula.runtime.retained import RetainedGradients
    from tegula.runtime.seeds import Seeds

if TYPE_CHECKING:
    from tegula.runtime.adjoint import Adjoint
    from tegula.runtime.fast_path import Form
    from tegula.runtime.kernel import Kernel
    from tegula.runtime.launch import LaunchPlan


class Tape:
    """Records the launches of the calling thread in a `with` block, and the methods of arrays that overwrite elements,
    and computes gradients.

        with tg.Tape() as tape:
            tg.launch(kernel, dim, inputs=[x], outputs=[loss])
        tape.backward(loss)
        x.grad

    Gradients flow through arrays with `requires_grad`, intermediate ones too. A value that the gradients need must not
    be overwritten before `backward`. Overwrites by launches and by methods of arrays are errors; writes through NumPy
    are not detected.

    Raises:
        launch: on entry: a tape of this thread is recording already.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._writes: dict[ElementRange, int] = {}
        self._write_count = 0
        self._has_run_backward = False

    def __repr__(self) -> str:
        return f"<tegula tape of {len(self.records)} records{', run backwards' if self._has_run_backward else ''}>"

    @staticmethod
    def active() -> Tape | None:
        """The tape whose `with` block runs in this thread.

        Returns:
            the tape, or None.
        Raises:
            nothing.
        """
        tape = recording.tape
        return tape if isinstance(tape, Tape) else None

    def __enter__(self) -> Tape:
        if recording.tape is not None:
            raise LaunchError("another tape is recording already", "leave the with block of that tape first")
        recording.tape = self
        return self

    def __exit__(self, *error: object) -> None:
        recording.tape = None

    # Notifications ---------------------------------------------------------------------------------------------------

    def launched(
        self, kernel: Kernel, plan: LaunchPlan, arguments: Sequence[Any], args: Sequence[Any], form: Form
    ) -> None:
        """Records a launch of a kernel; called by launches.

        Parameters:
            kernel: the kernel.
            plan: the shape of the launch.
            arguments: a list of the arguments before their conversion.
            args: the arguments as arrays and numbers.
            form: the compiled form that ran, an object.
        Raises:
            nothing.
        """
        tensor_versions = versions(arguments)
        self.records.append(
            LaunchRecord(
                kernel, plan, tuple(arguments), tuple(args), form, self._write_count, tensor_versions
            )
        )

    def assigned(self, target: array, source: array | None, new: bool) -> None:
        """Records that a method overwrote an array; called by methods of arrays.

        Parameters:
            target: the array.
            source: the array that was copied; None for constants.
            new: whether the method created the array.
        Raises:
            nothing.
        """
        if not isinstance(target.dtype, StructType):
            self.records.append(AssignmentRecord(target, source, new))
            return
        sources = source.leaves if source is not None else (None,) * len(target.leaves)
        self.records += [AssignmentRecord(t, s, new) for t, s in zip(target.leaves, sources, strict=True)]

    def differentiated(self, name: str, args: Sequence[Any], gradients: Mapping[int, array]) -> None:
        """Records a run of a kernel's adjoint.

        Parameters:
            name: the name of the kernel.
            args: a list of the arguments.
            gradients: a dictionary of the gradients of arguments by position.
        Raises:
            nothing.
        """
        self.records.append(AdjointRecord(name, args, gradients))

    def written(self, target: Any) -> None:
        """Notes that a launch or a method of arrays wrote an array.

        Parameters:
            target: the array.
        Raises:
            nothing.
        """
        if self.records or recording.tape is self:
            self._write_count += 1
            self._writes[ElementRange.of(target)] = self._write_count

    def record_func(self, backward: Callable[[], object], arrays: Sequence[array]) -> None:
        """Records a function that a backward run calls between the adjoints of the later and the earlier launches, as
        the adjoint of work without kernels.

        Parameters:
            backward: a function without parameters, whose launches no tape records.
            arrays: a list of the arrays whose gradients the function accesses, for `zero` and `gradients`.
        Raises:
            launch: one of the arrays has no gradient.
        """
        for a in arrays:
            if not isinstance(a, array) or a.grad is None:
                raise LaunchError(
                    "record_func: one of the arrays has no gradient",
                    "create the array with requires_grad=True",
                )
        self.records.append(CallRecord(backward, arrays))

    # Gradients -------------------------------------------------------------------------------------------------------

    def backward(self, loss: array | None = None, grads: Mapping[array, Any] | None = None) -> None:
        """Adds the derivatives of a loss, or of seeds, to the gradients of all recorded arrays with `requires_grad`.

        Parameters:
            loss: an array of one number, whose gradient is initialised with 1.
            grads: a dictionary from arrays to their gradients, which are not modified; an array without a gradient gets
                this gradient. Without `loss` and `grads`, the gradients of the recorded arrays are the seeds.
        Raises:
            launch: the tape ran backwards already without tg.Tape.zero, the loss has more elements or no gradient, a
                required array was overwritten, or a gradient would be lost.
            no-gradient: a gradient would flow through an op without a gradient.
            overwritten-array: a kernel overwrites an array that its gradient needs.
        """
        if self._has_run_backward:
            raise LaunchError(
                "the backward pass of this tape has run already",
                "record the launches again, or call tape.zero() first",
            )
        outer_tape = recording.tape
        with recording.paused():
            seeds = Seeds(_loss_gradients(loss, grads))
            check_flow(self.records, seeds.targets)
            self._has_run_backward = True
            saved_gradients, retained = seeds.apply(self.records), RetainedGradients()
            for record in reversed(self.records):
                retained.save(record)
                if isinstance(record, AssignmentRecord):
                    record.propagate_gradient()
                elif isinstance(record, CallRecord):
                    record.backward()
                elif isinstance(record, LaunchRecord):
                    run_adjoint(
                        record.kernel,
                        record.plan,
                        record.raw_arguments,
                        check=lambda adjoint, at=record: self._check(at, adjoint),
                    )
            retained.restore()
            saved_gradients.restore()
        for record in self.records if outer_tape is not None and outer_tape is not self else ():
            if isinstance(record, LaunchRecord):
                recording.differentiated(record.kernel.name, record.arguments, gradients(record.arguments))

    def _check(self, record: LaunchRecord, adjoint: Adjoint) -> None:
        """Raise LaunchError if an array that the adjoint reads was written after the launch, or an object that the
        kernel captures was changed."""
        name = record.kernel.name
        if not all(map(unchanged, record.form.captured)):
            raise LaunchError(
                f"kernel {name}: a captured object has changed between the launch and its gradient",
                "pass changing values as arguments",
            )
        if adjoint.queries:
            self._check_structures(record)
        current_versions = versions(record.raw_arguments)
        for k in sorted(adjoint.reads):
            needed = ElementRange.of(record.arguments[k])
            written = current_versions.get(k) != record.versions.get(k) or any(
                time > record.time and needed.overlaps(overwritten)
                for overwritten, time in self._writes.items()
            )
            if written:
                needed = record.kernel.parameters[k].name
                raise LaunchError(
                    f"kernel {name}: the gradient needs argument '{needed}' as it was at the launch, but a later "
                    "operation has overwritten the array",
                    "write the later result to another array",
                )

    def _check_structures(self, record: LaunchRecord) -> None:
        """Raise LaunchError if a structure that a launch queried has changed since."""
        for name, structure, version in record.structures:
            ranges = [(k, ElementRange.of(a)) for k, a in structure.differentiable()]
            written = [
                f"{k} of "
                for k, elements in ranges
                for overwritten, time in self._writes.items()
                if time > record.time and elements.overlaps(overwritten)
            ]
            if written or structure.version != version:
                raise LaunchError(
                    f"kernel {record.kernel.name}: the gradient queries {name} again, but {(written or [''])[0]}"
                    f"the {structure.label} was changed since the launch",
                    "create a structure for each launch, or run backward before the structure changes",
                )

    def get_adjoint(self, a: object) -> array | None:
        """The gradient of an argument of a launch.

        Parameters:
            a: an argument, of any type.
        Returns:
            the gradient if the argument is an array with a gradient, else None.
        Raises:
            nothing.
        """
        return a.grad if isinstance(a, array) else None

    @property
    def gradients(self) -> dict[array, array]:
        """The gradients of the arrays of the recorded launches, by array."""
        return {a: a.grad for a in self._arrays() if a.grad is not None}

    def _arrays(self) -> Iterator[array]:
        for record in self.records:
            yield from (a.whole for a in record.arrays)

    def zero(self) -> None:
        """Sets the gradients of all recorded arrays to 0, so that the tape can run backwards again.

        Raises:
            nothing.
        """
        for grad in self.gradients.values():
            clear(grad)
        self._has_run_backward = False

    def reset(self) -> None:
        """Forgets the records, and sets the gradients of all recorded arrays to 0.

        Raises:
            nothing.
        """
        self.zero()
        self.records.clear()
        self._writes.clear()

    def visualize(
        self,
        filename: str | None = None,
        *,
        hide_readonly_arrays: bool = False,
        array_labels: Mapping[array, str] | None = None,
        track_inputs: Sequence[array] = (),
        track_outputs: Sequence[array] = (),
        track_input_names: Sequence[str] = (),
        track_output_names: Sequence[str] = (),
        graph_direction: str = "LR",
    ) -> str:
        """The recorded launches and copies, and the arrays between them, as a graph in the language of
        Graphviz.

        Parameters:
            filename: the path of the file to write; None to write no file.
            hide_readonly_arrays: whether arrays that are only read are omitted; False by default.
            array_labels: a dictionary from arrays to their labels; parameter names by default.
            track_inputs, track_outputs: arrays that are always shown.
            track_input_names, track_output_names: the names of the tracked arrays.
            graph_direction: a string, the direction of the layout: LR, RL, TB or BT; LR by default.
        Returns:
            the graph's text.
        Raises:
            OSError: the file cannot be written.
        """
        from tegula.runtime.tape_graph import TapeGraph

        labels = {id(a): name for a, name in (array_labels or {}).items()}
        for arrays, names in ((track_inputs, track_input_names), (track_outputs, track_output_names)):
            labels.update({id(a): name for a, name in zip(arrays, names, strict=False)})
        tracked = [*track_inputs, *track_outputs]
        text = TapeGraph(self.records, labels, hide_readonly_arrays, tracked).text(graph_direction)
        if filename is not None:
            with open(filename, "w", encoding="utf-8") as file:
                file.write(text)
        return text


def _loss_gradients(loss: array | None, grads: Mapping[array, Any] | None) -> Mapping[array, Any] | None:
    """The seeds by array, where None means ones; None instead of a mapping if the current gradients are the seeds."""
    if loss is None:
        return grads
    if not isinstance(loss, array):
        message = f"a loss is an array of one number, got a value of type {type(loss).__name__}"
        raise LaunchError(message, "pass the array that a recorded launch wrote")
    if loss.size * components(loss.dtype) != 1:
        help = "sum the elements in a kernel, or pass grads={loss: ...}"
        element_text = f" of {loss.dtype}" if components(loss.dtype) != 1 else ""
        raise LaunchError(
            f"the loss must have one element, got an array of shape {loss.shape}{element_text}", help
        )
    return {**(grads or {}), loss: None}
