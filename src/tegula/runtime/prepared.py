"""Launches on the CPU whose arguments are resolved once, for kernels that run repeatedly with the same arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.runtime.arguments import flattened_call
from tegula.runtime.compile import Compiled
from tegula.runtime.config import config
from tegula.runtime.kernel import Kernel
from tegula.runtime.launch import plan
from tegula.runtime.resolve import resolve


class PreparedLaunch:
    """A launch on the CPU that tapes do not record, and whose arguments do not change.

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
