"""Base classes of ops, the registry of public functions, and checks of operands and types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tegula.ir import Op, TypeRule, Value
from tegula.ir.fields import operand
from tegula.ops.structs import FieldWise
from tegula.types import (
    MAX_COMPONENTS,
    ArrayType,
    BufType,
    DType,
    ElementType,
    MatType,
    PipeType,
    StackType,
    TileType,
    Type,
    VecType,
    components,
    is_element,
    scalar_of,
)

if TYPE_CHECKING:
    from tegula.ops.documented import Family

PUBLIC: dict[str, Callable[..., Any]] = {}
FAMILIES: dict[str, Family] = {}
"""The family of each public function whose docstring shares text with other functions, by the function's name."""

STAR_ARGUMENTS: dict[str, tuple[str, ...]] = {}
"""The names of the arguments of a public function's `*` parameter, by the function's name."""
INDICES = ("i", "j", "k", "l")
"""The keyword names of an element's indices."""

FIELDWISE: dict[str, FieldWise] = {}
"""The treatment of struct arguments by public functions, by the function's name. Other functions refuse structs."""


def public(
    name: str, family: Family | None = None, fields: FieldWise | None = None, rest: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that makes a build function available to kernels as `tg.<name>`. `fields`: the treatment of
    struct arguments.

    The function's first parameter is the `OpBuilder`; the others are the public signature. Its docstring, the kinds of
    its parameters and its family are the public documentation (`ops/documented.py`). `rest`: the keyword names of a `*`
    parameter's arguments, in order."""

    def register(build: Callable[..., Any]) -> Callable[..., Any]:
        PUBLIC[name] = build
        if family is not None:
            FAMILIES[name] = family
        if fields is not None:
            FIELDWISE[name] = fields
        if rest:
            STAR_ARGUMENTS[name] = tuple(rest)
        return build

    return register


def require(condition: object, message: str, help: str = "") -> None:
    """Raise TypeRule with the message unless the condition holds."""
    if not condition:
        raise TypeRule(message, help)


def require_range(condition: object, message: str, help: str = "", culprit: object = None) -> None:
    """Raise a TypeRule that is reported as OutOfRange unless a condition on constants holds."""
    if not condition:
        raise TypeRule(message, help, "OutOfRange", culprit=culprit)


def require_type(actual: Type, expected: Type, holder: str) -> None:
    """Raise TypeRule unless a value to be stored has the given type. `holder`: the start of the message, such as "the
    array holds"."""
    if actual != expected:
        raise TypeRule(f"{holder} {expected}, but the value is {actual}", expected=expected)


def require_components(t: VecType | MatType) -> None:
    """Raise TypeRule for a vector or matrix with more than MAX_COMPONENTS components."""
    if components(t) > MAX_COMPONENTS:
        raise TypeRule(
            f"{t} has {components(t):,} components, more than {MAX_COMPONENTS:,}",
            "use a tile for more components",
        )


USAGE_HELP: dict[type, str] = {
    ArrayType: "read one of its elements, as in a[i], or a tile, as in tg.tile_load(a, shape=32)",
    TileType: "take one of its elements, as in t[0], or use a function of tiles",
    BufType: "take one of its elements, as in t[0], or use a function of tiles",
    StackType: "pop a value with tg.tile_stack_pop",
    PipeType: "pop a tile with tg.tile_pipe_pop",
}
"""Help texts on how to use a value that is not a scalar, vector or matrix, by the class of its type."""


def types(values: Sequence[Value]) -> list[Type]:
    """The types of values."""
    return [v.type for v in values]


def element(t: Type) -> ElementType:
    """The type as an element type; raises TypeRule for any other type."""
    if not is_element(t):
        raise TypeRule(f"expected a scalar, vector or matrix, got {t}", USAGE_HELP.get(type(t), ""))
    return t


class Elementwise(Op):
    """A lane op on scalars, vectors and matrices of one element type, component by component.

    `ref(attrs, *arrays)` defines the op on NumPy arrays of equal shape."""

    __slots__ = ()
    KINDS: ClassVar[str] = "iuf"
    ONLY: ClassVar[DType | None] = None
    """The only type of numbers; None for all types of `KINDS`."""

    @classmethod
    def takes(cls, dtype: DType) -> bool:
        """Whether the op is defined for numbers of a type."""
        return dtype.kind in cls.KINDS if cls.ONLY is None else dtype == cls.ONLY

    def infer(self) -> Sequence[Type]:
        first, *others = [element(v.type) for v in self.operands]
        for other in others:
            if other is not first and other != first:
                raise TypeRule(
                    f"'{self.NAME}' mixes {first} and {other}",
                    cast_help(first, other),
                    "MixedScalars",
                    op=self.NAME,
                    left=first,
                    right=other,
                )
        require(self.takes(scalar_of(first)), f"{self.NAME} is not defined for {first}")
        return [self.result_type(first)]

    @classmethod
    def result_type(cls, operand: ElementType) -> ElementType:
        """The type of the result, given the types of the operands."""
        return operand

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class Unary(Elementwise):
    """An elementwise op on one operand."""

    __slots__ = ()
    x = operand()


class Binary(Elementwise):
    """An elementwise op on two operands. `TAKES_PART`: for integers the result is a quotient, a remainder or some bits
    of the first operand, so that different values of the operand may give equal results; `KEEPS_ORDER`: of these, it is
    a quotient. `FLIPS_BITS`: the second operand selects the bits of the first one that the result has inverted."""

    __slots__ = ()
    TAKES_PART: ClassVar[bool] = False
    KEEPS_ORDER: ClassVar[bool] = False
    FLIPS_BITS: ClassVar[bool] = False
    a = operand()
    b = operand()


def cast_help(left: Type, right: Type) -> str:
    """A help text with the cast that makes two scalar types agree."""
    if isinstance(left, DType) and isinstance(right, DType):
        target = wider(left, right)
        source = right if target == left else left
        return f"cast the {source} operand: tg.{target}(...)"
    return ""


def wider(a: DType, b: DType) -> DType:
    """The wider of two scalar types, to which a cast should convert."""
    rank = {"b": 0, "u": 1, "i": 1, "f": 2}
    return max(a, b, key=lambda d: (rank[d.kind], d.bits))
