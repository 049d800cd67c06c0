"""Launch objects: `tg.launch(..., record_cmd=True)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.errors import LaunchError, suggestion
from tegula.runtime.arguments import paired_arguments

if TYPE_CHECKING:
    from tegula.runtime.cuda.stream import Stream
    from tegula.runtime.kernel import Kernel, KernelChoice


class Launch:
    """A repeatable launch, whose arguments and dimensions may be changed.

    tg.launch and tg.launch_tiled with record_cmd=True return a Launch without running it. Changes apply to later runs.
    Arrays are referenced, not copied, so that a run reads their current elements.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        kernel: Kernel | KernelChoice,
        dim: Any,
        inputs: tuple[Any, Any],
        outputs: tuple[Any, Any],
        options: Mapping[str, Any],
    ) -> None:
        """`run`: tg.launch; `inputs`, `outputs`: arguments with their gradients; `options`: the other keyword
        arguments."""
        self.kernel = kernel
        self.dim = dim
        self._run = run
        self._options = dict(options)
        pairs = paired_arguments(kernel, inputs, outputs)
        self._arguments = [x.argument for x in pairs]
        self._gradients = [x.gradient for x in pairs]

    def launch(self, stream: Stream | None = None) -> None:
        """Runs the kernel.

        Parameters:
            stream: a stream of a CUDA device; by default the stream given when the launch was made, or this thread's
                stream.
        Raises:
            launch: the arguments or the dimensions do not fit.
            RuntimeError: as for tg.launch.
        """
        options = {**self._options, **({} if stream is None else {"stream": stream})}
        if options.get("adjoint"):
            options["adj_inputs"] = self._gradients
        self._run(self.kernel, self.dim, self._arguments, **options)

    def set_dim(self, dim: Any) -> None:
        """Sets the number of threads in each dimension; the next run checks it.

        Parameters:
            dim: as for tg.launch; in a tiled launch the threads of a block are the last dimension.
        Raises:
            nothing.
        """
        self.dim = dim

    def set_params(self, values: Sequence[Any]) -> None:
        """Sets all arguments.

        Parameters:
            values: a list of the arguments, in the order of the parameters.
        Raises:
            launch: the number of arguments differs from the number of parameters.
        """
        if len(values) != len(self._arguments):
            names = ", ".join(p.name for p in self.kernel.parameters)
            message = f"kernel {self.kernel.name} takes {len(self._arguments)} arguments ({names}), got {len(values)}"
            raise LaunchError(message, "pass all arguments, or set one: set_param_by_name(name, value)")
        self._arguments[:] = values

    def set_param_at_index(self, index: int, value: Any, adjoint: bool = False) -> None:
        """Sets one argument.

        Parameters:
            index: an int, the position of the parameter, from 0.
            value: the argument.
            adjoint: whether `value` is the gradient of the argument, for a launch with adjoint=True; False
                by default.
        Raises:
            launch: there is no such parameter.
        """
        if not 0 <= index < len(self._arguments):
            message = f"kernel {self.kernel.name} has no parameter at index {index}"
            raise LaunchError(message, f"the parameters are 0 to {len(self._arguments) - 1}")
        (self._gradients if adjoint else self._arguments)[index] = value

    def set_param_by_name(self, name: str, value: Any, adjoint: bool = False) -> None:
        """Sets one argument.

        Parameters:
            name: the name of the parameter.
            value: the argument.
            adjoint: whether `value` is the gradient of the argument, for a launch with adjoint=True; False
                by default.
        Raises:
            launch: there is no such parameter.
        """
        names = [p.name for p in self.kernel.parameters]
        if name not in names:
            raise LaunchError(f"kernel {self.kernel.name} has no parameter '{name}'", suggestion(name, names))
        self.set_param_at_index(names.index(name), value, adjoint)

    def __repr__(self) -> str:
        return f"<tegula launch of {self.kernel.name}, dim={self.dim}>"
