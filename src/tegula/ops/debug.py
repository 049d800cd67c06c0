"""Print and assert, ops that report to the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.ir import Op
from tegula.ir.fields import attr, operand, variadic
from tegula.ops.base import require, require_range, types
from tegula.types import TileType, Type, bool_, components, is_element

MAX_PRINTED_VALUES = 12
"""The maximum number of values in the message of an assert."""


class Print(Op):
    """Prints a line of text once per lane. Attributes: `parts`: the line as a tuple; a string is printed unchanged, a
    None prints the next operand, and a tuple with a format of C prints the next operand in this format; `end`: the text
    after the line, a new line by default."""

    __slots__ = ()
    NAME = "print"
    PURE = False
    OBSERVED = True
    values = variadic()
    parts = attr()
    end = attr("\n")

    def infer(self) -> Sequence[Type]:
        for t in types(self.values):
            require(is_element(t), f"cannot print a {t}")
        return []

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> str:
        """The text that one lane prints, without the end; operands: its scalars, vectors and matrices."""
        values = iter(operands)
        return "".join(
            part if isinstance(part, str) else _text(next(values), part) for part in attrs["parts"]
        )


class PrintTile(Op):
    """Prints tiles once per block, with the attributes of `print`. Attribute `elements`: the positions of operands with
    one element that are printed as a scalar. The default of `parts` prints the only operand."""

    __slots__ = ()
    NAME = "print.tile"
    PURE = False
    OBSERVED = True
    COOPERATIVE = True
    values = variadic()
    parts = attr((None,))
    elements = attr(())
    end = attr("\n")

    def infer(self) -> Sequence[Type]:
        for k, t in enumerate(types(self.values)):
            require(isinstance(t, TileType), f"expected a tile, got {t}")
            single = isinstance(t, TileType) and t.size == 1
            require(single or k not in self.elements, f"{t} has more than one element")
        expected = sum(part is None for part in self.parts)
        require(
            expected == len(self.values),
            f"the text has {expected} placeholders for {len(self.values)} values",
        )
        return []

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> str:
        """The text that a block prints, without the end; tiles have shape [*shape, *element_shape]."""
        single = attrs.get("elements", ())
        values = [x[0] if k in single else x for k, x in enumerate(operands)]
        return Print.ref({"parts": attrs.get("parts", (None,))}, *(np.asarray(x) for x in values))


class Assert(Op):
    """Fails the launch if the condition is false; attribute `message`. The first failure is reported with its block and
    lane; the kernel continues. Operands: the condition, and values of the lane for the message, whose text is then the
    attribute `parts`, as in `print`."""

    __slots__ = ()
    NAME = "assert"
    PURE = False
    OBSERVED = True
    condition = operand()
    values = variadic()
    message = attr()
    parts = attr(())

    def infer(self) -> Sequence[Type]:
        require(self.condition.type == bool_, f"an assert needs a bool, got {self.condition.type}")
        for t in types(self.values):
            require(
                is_element(t), f"the message of an assert cannot show a {t}", "print it before the assert"
            )
        count = sum(components(t) for t in types(self.values) if is_element(t))
        message = f"the message of an assert can show at most {MAX_PRINTED_VALUES} numbers, got {count}"
        require_range(count <= MAX_PRINTED_VALUES, message, "print further numbers before the assert")
        return []

    @staticmethod
    def text(attrs: Mapping[str, Any], *operands: np.ndarray) -> str:
        """The message of one lane; operands: its values."""
        return Print.ref(attrs, *operands) if attrs.get("parts") else str(attrs.get("message") or "")


class Breakpoint(Op):
    """Stops each lane that executes the op in the debugger. Without a debugger, machine code ends with a trap
    signal."""

    __slots__ = ()
    NAME = "breakpoint"
    PURE = False
    OBSERVED = True
    EACH_LANE = True

    def infer(self) -> Sequence[Type]:
        return []


def _text(x: np.ndarray, form: Sequence[str] | None = None) -> str:
    """A scalar in a format of C, else in the fewest digits that identify it; vectors and matrices as nested lists of
    scalars."""
    if form:
        (specifier,) = form
        return specifier % (float(x) if x.dtype.kind not in "biu" else int(x))
    if x.ndim == 0:
        return str(x[()])
    return f"[{', '.join(_text(item) for item in x)}]"
