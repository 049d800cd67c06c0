"""The candidates of a tuned kernel: their values and their kernels."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from tegula.dataclass import dataclass
from tegula.errors import SourceNotFound, TuningError
from tegula.lang.constants import stable_form, takes_constant
from tegula.lang.definition import FuncDef
from tegula.runtime.kernel import Kernel, variant

BLOCK = "block_dim"
"""The name of a candidate's number of threads per block, the only value that is an argument of the launch."""
Values = Mapping[str, Any]
VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel, the values from which it was created, and the number of threads per block if the values have one."""

    values: Values
    kernel: Kernel
    block_dim: int | None

    def __str__(self) -> str:
        return describe(self.values)


def describe(values: Values) -> str:
    """The values as one line of text that is the same in every process."""
    return ", ".join(f"{name}={stable_form(value)}" for name, value in values.items())


def combinations(
    configs: Sequence[Values] | None,
    lists: Mapping[str, Sequence[Any]],
    condition: Callable[..., bool] | None,
) -> list[dict[str, Any]]:
    """The values of every candidate: `configs`, or all combinations of `lists`, for which `condition` holds. Raises
    TuningError if there are none."""
    if (configs is None) == (not lists):
        message = "candidates are given either as lists of values or as configs=[...]"
        raise TuningError(message, "for example tg.autotune(BM=[64, 128], block_dim=[128, 256])")
    for name, values in lists.items():
        if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
            message = f"the values of '{name}' must be a list, got {values!r}"
            raise TuningError(message, f"write {name}=[...], with at least one value")
    candidates = [dict(c) for c in configs] if configs is not None else list(_cartesian(lists))
    if len({frozenset(c) for c in candidates}) > 1:
        names = " and ".join(sorted({describe(dict.fromkeys(c, "...")) for c in candidates}))
        raise TuningError("all candidates must give values to the same names", f"the candidates name {names}")
    selected = (
        candidates if condition is None else [c for c in candidates if call_with(condition, c, "where")]
    )
    if not selected:
        help = "where=... must hold for at least one combination" if candidates else "configs=[...] is empty"
        raise TuningError("the list of candidates is empty", help)
    return selected


def _cartesian(lists: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def call_with(function: Callable[..., Any], values: Values, purpose: str) -> Any:
    """The result of a function for the values of a candidate that are parameters of the function."""
    code = getattr(function, "__code__", None)
    if code is not None and not code.co_flags & VARIADIC and not code.co_posonlyargcount:
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if all(name in values for name in names):
            return function(**{name: values[name] for name in names})
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function(**values)
    unknown = [p.name for p in parameters if p.default is p.empty and p.name not in values]
    if unknown:
        help = f"the candidates have values for {', '.join(values)}"
        raise TuningError(f"{purpose} takes '{unknown[0]}', which no candidate has", help)
    return function(**{p.name: values[p.name] for p in parameters if p.name in values})


def kernels(source: Any, values: Sequence[Values]) -> list[Candidate]:
    """The candidates of a kernel whose captured variables take the values, or of a function that returns a kernel for
    the values. Raises TuningError for names that the kernel or function does not have."""
    if isinstance(source, Kernel):
        return [_with_constants(source, v) for v in values]
    if isinstance(source, FuncDef) or not callable(source):
        message = f"tg.autotune takes a kernel, or a function that returns one, got {source!r}"
        raise TuningError(
            message, "put the decorator above @tg.kernel, or above the function that returns the kernel"
        )
    return [_call_factory(source, v) for v in values]


def _with_constants(kernel: Kernel, values: Values) -> Candidate:
    constants = {name: value for name, value in values.items() if name != BLOCK}
    constant_parameters = [
        p.name for p in kernel.parameters if takes_constant(p.annotation) and p.name in constants
    ]
    if constant_parameters:
        kernel = kernel.bind(**{name: constants.pop(name) for name in constant_parameters})
    for name in constants:
        try:
            kernel.definition.lookup(name)
        except KeyError:
            message = f"kernel {kernel.name} reads no variable '{name}'"
            help = "candidates give values to variables that the kernel reads, its constants, and block_dim"
            raise TuningError(message, help) from None
    specialised = variant(kernel, kernel.definition.with_constants(constants))
    return Candidate(values, specialised, values.get(BLOCK))


def _call_factory(function: Callable[..., Any], values: Values) -> Candidate:
    signature = inspect.signature(function)
    takes_block = BLOCK in signature.parameters
    arguments = {name: value for name, value in values.items() if name != BLOCK or takes_block}
    name = getattr(function, "__name__", repr(function))
    try:
        signature.bind(**arguments)
    except TypeError as error:
        message = f"the candidates do not fit {name}{signature}: {error}"
        raise TuningError(message, "the parameters must be the names of the candidates' values") from None
    kernel = function(**arguments)
    if not isinstance(kernel, Kernel):
        raise TuningError(
            f"{name} must return a kernel, got {kernel!r}", "return the kernel that @tg.kernel created"
        )
    return Candidate(values, kernel, values.get(BLOCK))


def source_of(source: Any) -> str:
    """The source of a kernel or of the function around it, or its name where Python does not keep the source."""
    if isinstance(source, Kernel):
        try:
            return ast.unparse(source.definition.source.tree)
        except SourceNotFound:
            return source.name
    try:
        return inspect.getsource(inspect.unwrap(getattr(source, "func", source)))
    except (OSError, TypeError):
        return getattr(source, "__qualname__", repr(source))
