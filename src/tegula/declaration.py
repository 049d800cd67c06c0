"""Declarations of cooperative functions: a signature, programs, a reference, an adjoint, samples. `tg.cooperative`
declares users' functions in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from tegula.dataclass import dataclass

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Variant:
    """A program of a cooperative function. `when`: a predicate on the program's use, whose parameters are extents,
    constants, `group` (the number of threads) and `partial` (whether tiles are partial) by name; None: always."""

    function: Any
    when: Function | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """The adjoint as a program. `keep`: its arguments besides adjoints and constants: "result" or names of
    parameters."""

    function: Any
    keep: tuple[str, ...]


class Sample:
    """Arguments that a cooperative function takes, for the tests that follow from its declaration.

    Parameters:
        *args: NumPy arrays for tiles, numbers, constants.
        tolerance: the largest difference of results from the reference, in units of the last place of the largest
            number of each; 0: results equal the reference, signs of zeros included.
        differentiable: whether derivatives at these arguments are compared with finite differences.
        **named: arguments by name.
    Raises:
        nothing.
    """

    def __init__(
        self, *args: Any, tolerance: float = 64.0, differentiable: bool = False, **named: Any
    ) -> None:
        self.arguments = args
        self.named = named
        self.tolerance = tolerance
        self.differentiable = differentiable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_arguments_text(self.arguments, self.named)})"


class Refused(Sample):
    """Arguments that a cooperative function does not take.

    Parameters:
        *args: as for `Sample`.
        code: a string, the code of the error.
        says: strings that the text of the error contains.
        **named: arguments by name.
    Raises:
        nothing.
    """

    def __init__(self, *args: Any, code: str, says: tuple[str, ...] = (), **named: Any) -> None:
        super().__init__(*args, **named)
        self.code = code
        self.says = says


def _arguments_text(args: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    def one(x: Any) -> str:
        return f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else repr(x)

    return ", ".join([*map(one, args), *(f"{key}={one(x)}" for key, x in named.items())])


class Parts:
    """The parts of a cooperative function, as declared in its file. `add` converts each function that is declared."""

    def __init__(self, function: Function) -> None:
        self.declared = function
        self.variants: tuple[Variant, ...] = ()
        self.rule: Rule | None = None
        self.numpy: Function | None = None
        self.examples: Callable[[np.random.Generator], Iterator[Sample]] | None = None
        self.count_threads: Function | None = None

    def add(self, function: Function, source: str | None = None) -> Any:
        """The object that is stored for a program or adjoint. `source`: the source text, if Python does not keep it."""
        return function

    def program(
        self, function: Any = None, /, *, when: Function | None = None, source: str | None = None
    ) -> Any:
        """Add a program, which takes a subset of the parameters by name. The first program whose `when` holds runs;
        `when` takes extents of the signature, constants, `group` (the number of threads) and `partial` (whether tiles
        are partial)."""

        def wrap(f: Function) -> Any:
            self.variants = (*self.variants, Variant(self.add(f, source), when))
            return f

        return wrap if function is None else wrap(function)

    def vjp(
        self, function: Any = None, /, *, keep: str | tuple[str, ...] = (), source: str | None = None
    ) -> Any:
        """Set the adjoint, a program that returns the increments of the float parameters' adjoints, in order. It takes
        `grad`, the adjoint of the result (a tuple for several results), `grad_x` for a tile x that the function
        changes, constants, and the arguments in `keep`: "result", or parameters by name, with their values before the
        call."""

        def wrap(f: Function) -> Any:
            self.rule = Rule(self.add(f, source), (keep,) if isinstance(keep, str) else tuple(keep))
            return f

        return wrap if function is None else wrap(function)

    def reference(self, function: Function) -> Function:
        """Set the reference, a NumPy function of float64 arrays for tiles of floats. It returns the results, followed
        by the tiles that the function changes."""
        self.numpy = function
        return function

    def samples(self, function: Function) -> Function:
        """Set the samples, a generator that takes a `np.random.Generator` and yields `tg.Sample` and `tg.Refused`."""
        self.examples = function
        return function

    def threads(self, function: Function) -> Function:
        """Set the number of threads of a block that calls the function once, for `tg.over_batches` on a GPU: a function
        of extents and dtypes of the signature and of constants. 0 is the default number; a parameter with a default is
        an extent that may be missing."""
        self.count_threads = function
        return function


DECLARED: dict[str, Parts] = {}
"""The cooperative functions of the standard library by name."""


PARTS: dict[str, list[Function]] = {}
"""Internal functions of elements and of per-thread values that programs of the library call, by name, in overload
order."""


def part(function: Function) -> Function:
    """Add an internal function of the library's programs; its name begins with `_tile_`."""
    PARTS.setdefault(function.__name__, []).append(function)
    return function


def cooperative(function: Function) -> Any:
    """Add a cooperative function to the standard library."""
    DECLARED[function.__name__] = parts = Parts(function)
    return parts


__all__ = ["DECLARED", "PARTS", "Parts", "Refused", "Rule", "Sample", "Variant", "cooperative", "part"]
