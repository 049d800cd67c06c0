"""The standard library as functions that kernels call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from tegula.lang.capture import CONSTANTS, SPECIAL
from tegula.lang.definition import Definition, FuncDef
from tegula.lang.overloads import Parameter
from tegula.ops import PUBLIC
from tegula.ops.documented import Family, Kind, completed, group_parameters
from tegula.signature import ElementPattern
from tegula.types import DTYPES, NAMED_ELEMENTS, DType, uint32

OPS_AND_FUNCTIONS = frozenset({"mod"})
"""The names of library functions that are also names of ops."""
TILE_PREFIXES = ("tile_", "_tile_")
"""The prefixes of the names of cooperative functions, and of block-wide queries."""
INPLACE = "_inplace"
"""The end of the names of in-place forms."""
_DEFINED_ELSEWHERE = (
    PUBLIC.keys() | DTYPES.keys() | NAMED_ELEMENTS.keys() | CONSTANTS.keys() | set(SPECIAL)
) - OPS_AND_FUNCTIONS


class Library(Mapping[str, FuncDef]):
    """The functions of `tegula.stdlib` by public name, each with its overloads.

    A module is imported on the first lookup of one of its functions."""

    def __getitem__(self, name: str) -> FuncDef:
        if name in _DEFINED_ELSEWHERE:
            raise KeyError(name)
        function = _tile_function(name) or _inplace(name) or _function(name)
        if function is None:
            raise KeyError(name)
        return function

    def __iter__(self) -> Iterator[str]:
        return chain(_names(), _tile_names())

    def __len__(self) -> int:
        return len(_names()) + len(_tile_names())


NARROW_FLOATS = ("float16", "bfloat16")
"""The floats for which functions of numbers compute in float32."""
NUMBERS = Family(
    {"Returns": "a value of the type of `x`."}, {"out-of-range": "a literal does not fit its dtype"}
)
"""The text that the docstrings of functions of numbers share."""
VECTORS = Family(
    raises={
        "mixed-scalar-types": "the dtypes of the arguments differ",
        "out-of-range": "a literal does not fit its dtype",
        "shape-mismatch": "the shapes of tiles, whose elements are arguments too, do not broadcast",
    }
)
"""The text that the docstrings of functions of vectors share."""


STATE = Kind(
    "the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other argument is "
    "not changed.",
    {"unsupported-python": "a variable would advance in an expression that may not be evaluated"},
)
"""The kind of parameters that a function modifies for its caller."""


def documentation(f: FuncDef) -> str:
    """The docstring of a library function: the docstring of its first overload. For functions of numbers, the accepted
    dtypes are the union over all overloads."""
    from tegula.stdlib import COMPOUND_FUNCTIONS, FAMILIES

    first, text = f.definitions[0], f.definitions[0].__doc__ or ""
    if f.name in COMPOUND_FUNCTIONS:
        rows = ((STATE if p.changed and p.annotation == uint32 else None, p.name) for p in f.all_parameters)
        return completed(text, group_parameters(rows), FAMILIES.get(f.name))
    if any(isinstance(p.annotation, ElementPattern) for p in first.definition.parameters):
        return completed(text, group_parameters(map(_describe_pattern, f.all_parameters)), VECTORS)
    parameters = [p for definition in f.definitions for p in definition.definition.parameters]
    dtypes = [p.annotation for p in parameters if isinstance(p.annotation, DType)]
    names = [p.name for p in first.definition.parameters]
    if len(dtypes) < len(parameters) or f.name.startswith(TILE_PREFIXES):
        return completed(text, f.rows)
    kind = _numbers({t.name for t in dtypes}, f.in_float32, is_several=len(names) > 1)
    return completed(text, [(kind, names)], NUMBERS)


def _describe_pattern(p: Parameter) -> tuple[Kind | None, str]:
    """The kind and the name of a parameter; parameters of one pattern have one kind."""
    return (_kind(p.annotation) if isinstance(p.annotation, ElementPattern) else None), p.name


@cache
def _kind(pattern: ElementPattern) -> Kind:
    return Kind(f"{pattern.described}.")


def _numbers(scalars: set[str], in_float32: bool, is_several: bool) -> Kind:
    """The kind of parameters that accept these dtypes; `is_several`: whether several parameters have one dtype."""
    names = [
        n for n in DTYPES if n in scalars or (in_float32 and "float32" in scalars and n in NARROW_FLOATS)
    ]
    names.sort(key=lambda n: (DTYPES[n].kind, DTYPES[n].bits))
    dtype_list = f"{', '.join(names[:-1])} or {names[-1]}"
    excluded = "" if any(DTYPES[n].is_int for n in names) else "integers (nor their literals), "
    reasons = {"wrong-arguments": f"no overload takes {excluded}bools, float8, quaternions or transforms"}
    if not is_several:
        return Kind(
            f"a {dtype_list} scalar, a vector or matrix of these, or a tile of such elements.", reasons
        )
    reasons["mixed-scalar-types"] = "vectors or matrices differ in type"
    reasons["shape-mismatch"] = "the shapes of tiles do not broadcast"
    compound = "vectors or matrices of one type"
    message = f"{dtype_list} scalars of one dtype, {compound}, or tiles of such elements, which broadcast."
    return Kind(message, reasons)


@cache
def library() -> Library:
    """The standard library."""
    return Library()


@cache
def _tile_function(name: str) -> FuncDef | None:
    """A cooperative function, but no in-place form, or an internal function of such functions; None if there is
    none."""
    if not name.lstrip("_").startswith(TILE_PREFIXES[0]):
        return None
    from tegula.declaration import DECLARED, PARTS
    from tegula.lang.cooperative import CooperativeDef
    from tegula.stdlib import import_definitions
    from tegula.stdlib.tiles import PACKAGES

    import_definitions(PACKAGES, name)
    if name in PARTS:
        return _with_overloads(PARTS[name])
    return CooperativeDef.of_library(DECLARED[name]) if name in DECLARED else None


@cache
def _inplace(name: str) -> FuncDef | None:
    """The in-place form with this name of a cooperative function, made on demand; None if there is none."""
    from tegula.lang.cooperative import CooperativeDef

    function = _tile_function(name.removesuffix(INPLACE)) if name.endswith(INPLACE) else None
    if not isinstance(function, CooperativeDef) or function.overwritten is None:
        return None
    return function.inplace


@cache
def _tile_names() -> list[str]:
    """The names of the cooperative functions, each followed by the name of its in-place form, and of the internal
    functions."""
    from tegula.stdlib.tiles import DECLARED, PARTS

    forms = [(name, f"{name}{INPLACE}") for name in (*PARTS, *DECLARED)]
    return [x for name, inplace in forms for x in (name, *([inplace] if _inplace(inplace) else []))]


@cache
def _function(name: str) -> FuncDef | None:
    """A function that is not cooperative; None if there is none."""
    from tegula.stdlib import PACKAGES, import_definitions
    from tegula.stdlib.registry import COMPOUND_FUNCTIONS, FUNCTIONS

    import_definitions(PACKAGES, name)
    overloads = COMPOUND_FUNCTIONS.get(name) or FUNCTIONS.get(name)
    return None if overloads is None else _with_overloads(overloads, in_float32=name[0] != "_")


@cache
def _names() -> list[str]:
    """The names of the functions that are not cooperative."""
    from tegula.stdlib import COMPOUND_FUNCTIONS, FUNCTIONS

    return [*dict.fromkeys((*FUNCTIONS, *COMPOUND_FUNCTIONS))]


def _with_overloads(functions: Sequence[Callable[..., Any]], in_float32: bool = False) -> FuncDef:
    """A function of the library with its overloads. `in_float32`: whether float16 and bfloat16 results are computed in
    float32 and rounded once more."""
    definition: FuncDef | None = None
    for function in functions:
        overloads_before = definition.definitions if definition is not None else ()
        definition = FuncDef(Definition(function, library=True), overloads_before)
        definition.in_float32 = in_float32
    assert definition is not None
    return definition
