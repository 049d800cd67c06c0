"""The report of a launch to the host: printed lines and the first failure."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

from tegula.dataclass import dataclass, field
from tegula.errors import (
    BrokenPromise,
    DifferingOperand,
    DivisionByZero,
    KernelAssertion,
    OutOfBounds,
    TegulaError,
)
from tegula.ir import ArrayViewLike, Kernel, Op, Value, ViewLike
from tegula.types import ArrayType


@dataclass(slots=True)
class RunReport:
    """The report of a launch. `print_line`: takes each printed line; `failure`: the first failure, raised after the
    launch. `pending`: text printed since the last line end. `debug`: whether to run the checks of debug mode; `warned`:
    the operands, with their lines, for which a warning about differing lanes was given."""

    kernel: Kernel
    print_line: Callable[[str], None]
    failure: TegulaError | None = None
    pending: str = ""
    debug: bool = False
    warned: dict[tuple[str, int, str], None] = field(default_factory=dict[tuple[str, int, str], None])

    def printed(self, text: str, end: str | None) -> None:
        """Print a text, followed by `end`; None stands for a new line."""
        *lines, self.pending = (self.pending + text + ("\n" if end is None else end)).split("\n")
        for line in lines:
            self.print_line(line)

    def finish(self) -> None:
        """Print the text after the last line end; raise the first failure."""
        if self.pending:
            self.print_line(self.pending)
        for file, line, operand in self.warned:
            message = f"{operand} differs between threads of a block: thread 0's value is used"
            text = f"{message} (in kernel {self.kernel.name})"
            warnings.warn_explicit(text, DifferingOperand, file, line)
        if self.failure is not None:
            raise self.failure

    def differing(self, op: Op, operand: str) -> None:
        """Record an operand, by the user's name, that differs between lanes although lane 0's value is used."""
        if operand:
            self.warned[op.loc.file, op.loc.line, operand] = None

    def out_of_bounds(
        self, op: Op, value: Value, index: Sequence[int], shape: Sequence[int], block: int, lane: int
    ) -> None:
        """Record an access outside an array or tile, unless there is an earlier failure."""
        if self.failure is None:
            at = ", ".join(map(str, index))
            self.failure = OutOfBounds(
                f"{op.loc}: kernel {self.kernel.name}, {op.NAME}: index ({at}) is outside "
                f"{self.name(value)} of shape {tuple(shape)}; block {block}, lane {lane}"
            )

    def assertion(self, op: Op, message: str, block: int, lane: int) -> None:
        """Record a failed assert, unless there is an earlier failure."""
        if self.failure is None:
            text = f": {message}" if message else ""
            self.failure = KernelAssertion(
                f"{op.loc}: kernel {self.kernel.name}: assertion failed{text}; block {block}, lane {lane}"
            )

    def division(self, op: Op, block: int, lane: int) -> None:
        """Record an integer division by zero, unless there is an earlier failure."""
        if self.failure is None:
            self.failure = DivisionByZero(
                f"{op.loc}: kernel {self.kernel.name}: integer division by zero; block {block}, lane {lane}"
            )

    def varying(self, op: Op, block: int, lane: int) -> None:
        """Record that a lane passed another value than lane 0 to tg.uniform, unless there is an earlier failure."""
        if self.failure is None:
            self.failure = BrokenPromise(
                f"{op.loc}: kernel {self.kernel.name}: the argument of tg.uniform differs between threads; "
                f"block {block}, lane {lane}"
            )

    def name(self, value: Value) -> str:
        """The user's name for an array or tile, through views; "a tile" or "an array" without a name."""
        current: Value | None = value
        while current is not None:
            if current in self.kernel.params:
                return f"'{self.kernel.param_names[self.kernel.params.index(current)]}'"
            if current.name:
                return f"'{current.name}'"
            owner = current.owner
            current = (
                owner.shown
                if isinstance(owner, ViewLike)
                else owner.array
                if isinstance(owner, ArrayViewLike)
                else None
            )
        return "an array" if isinstance(value.type, ArrayType) else "a tile"
