"""Launches on the CPU that tapes do not record, and whose arguments are resolved once: kernels that run repeatedly with
the same arguments, or with arguments of the same types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.runtime.arguments import flattened_call
from tegula.runtime.compile import Compiled
from tegula.runtime.config import config
from tegula.runtime.kernel import Kernel
from tegula.runtime.launch import plan
from tegula.runtime.resolve import packed_arguments, resolve


class PreparedLaunch:
    """A launch whose arguments do not change.

    Parameters:
        kernel: a kernel.
        dim: an int, the number of threads.
        inputs: the arguments; the launch keeps its arrays alive.
        block_dim: the number of threads of a block; by default 1, so that threads do not run in the lanes of vector
            registers.
    Raises:
        launch: the arguments do not fit.
    """

    def __init__(self, kernel: Kernel, dim: int, inputs: Sequence[Any], block_dim: int = 1) -> None:
        self._kernel, self._args = flattened_call(kernel, tuple(inputs))
        self._plan = plan((dim,), block_dim)
        self._code = -1

    def run(self) -> None:
        """Run the kernel.

        Raises:
            RuntimeError: the kernel fails.
        """
        if self._code != config.code:
            # Switches such as the debug mode select other code.
            compiled, self._packed, _ = resolve(self._kernel, self._plan, self._args)
            assert isinstance(compiled, Compiled), "the arguments are on the CPU"
            self._compiled, self._code = compiled, config.code
        self._compiled.launch(self._plan.blocks, self._packed, self._args, None, False)


class RepeatedLaunch:
    """Launches of a kernel in blocks of one thread. Pairs of arrays that share memory are the same in each launch.

    Parameters:
        kernel: a kernel.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._forms: dict[tuple[Any, ...], Compiled] = {}

    def run(self, dim: int, inputs: Sequence[Any]) -> None:
        """Run the kernel.

        Parameters:
            dim: the number of threads.
            inputs: the arguments.
        Raises:
            launch: the arguments do not fit.
            RuntimeError: the kernel fails.
        """
        kernel, args = flattened_call(self._kernel, tuple(inputs))
        self._launch(dim, kernel, args, packed_arguments(kernel, args))

    def run_in_order(self, dims: Sequence[int], inputs: Sequence[Any]) -> None:
        """Run consecutive ranges of threads one after the other. The last parameter of the kernel, an int32, is the
        number of the first thread of a range.

        Parameters:
            dims: the numbers of threads of the ranges.
            inputs: the other arguments.
        Raises:
            launch: the arguments do not fit.
            RuntimeError: the kernel fails.
        """
        kernel, args = flattened_call(self._kernel, (*inputs, 0))
        packed, first = packed_arguments(kernel, args), 0
        for dim in dims:
            packed[-1] = kernel.packers[-1](first)
            self._launch(dim, kernel, args, packed)
            first += dim

    def _launch(self, dim: int, kernel: Kernel, args: Sequence[Any], packed: list[tuple[int, bytes]]) -> None:
        """Run the kernel with packed arguments, each with the number of its specialisation."""
        launch_plan = plan((dim,), 1)
        key = (
            kernel,
            launch_plan.launch_id,
            launch_plan.grid,
            config.code,
            *[number for number, _ in packed],
        )
        compiled = self._forms.get(key)
        if compiled is None:
            form = resolve(kernel, launch_plan, tuple(args))[0]
            assert isinstance(form, Compiled), "the arguments are on the CPU"
            compiled = self._forms[key] = form
        argument_bytes = b"".join([data for _, data in packed]) + launch_plan.packed
        compiled.launch(launch_plan.blocks, argument_bytes, args, None, False)
