"""Bindings of the free names of a kernel."""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tegula.composite import Composite
from tegula.dataclass import dataclass
from tegula.errors import UnknownAttribute, UnrolledTooFar, UnsupportedCapture, suggestion
from tegula.lang.definition import FuncDef, PublicFunction, PublicNamespace
from tegula.ops import PUBLIC
from tegula.ops.builder import DESCRIPTIONS
from tegula.ops.structs import NamedItems
from tegula.ops.table import MAX_TABLE_ELEMENTS
from tegula.source import Location
from tegula.structs import StructType
from tegula.types import DTYPES, NAMED_ELEMENTS, DType, MatType, VecType, counterpart, numpy_type

MAX_UNROLLED = 4096
"""The maximum number of compiled copies of a body in nested loops over constants."""

ALIASES: dict[str, object] = {"bool": DTYPES["bool"], "bool_": DTYPES["bool"]}
_CONSTANTS = {
    "pi": math.pi, "tau": math.tau, "two_pi": math.tau, "half_pi": math.pi / 2, "e": math.e, "inf": math.inf,
    "nan": math.nan, "phi": (1 + 5**0.5) / 2, "log2e": math.log2(math.e), "log10e": math.log10(math.e),
    "ln2": math.log(2), "ln10": math.log(10),
}  # fmt: skip
CONSTANTS: dict[str, float] = {**_CONSTANTS, **{name.upper(): x for name, x in _CONSTANTS.items()}}
BUILTINS = (
    "int",
    "float",
    "bool",
    "min",
    "max",
    "abs",
    "len",
    "round",
    "range",
    "enumerate",
    "zip",
    "print",
    "pow",
    "type",
    "sum",
    "slice",
)
SPECIAL = (
    *("tid", "static", "constant", "print", "range", "pipelined", "unrolled", "_rolled"),
    *("persistent_tiles", "ws", "role", "elect"),
)
"""Functions of the language that the tracer itself implements."""


USED_IN = {
    "range": "for i in range(...)",
    "enumerate": "for k, x in enumerate(...)",
    "zip": "for x, y in zip(...)",
    "pipelined": "for k in tg.pipelined(...)",
    "unrolled": "for k in tg.unrolled(...)",
    "_rolled": "for k in tg._rolled(...)",
    "persistent_tiles": "for i, j in tg.persistent_tiles(...)",
    "ws": "with tg.ws(...):",
    "role": "with tg.role(...):",
    "elect": "if tg.elect():",
}
"""Functions that may only be called at the head of a loop, a role or an `if`, with the statement to write."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A Python builtin, or a function of the language that the tracer itself implements."""

    name: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Namespace:
    """The module `tegula`, or a part of it such as `tegula.fast`."""

    prefix: str = ""
    module: Any = None

    @property
    def name(self) -> str:
        """The module's name in messages."""
        return f"module tegula{'.' + self.prefix if self.prefix else ''}"

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Opaque:
    """A Python object of which kernels use only attributes, such as a module, a class or a value of a dataclass."""

    object: Any

    @property
    def name(self) -> str:
        """The object's name in messages."""
        return f"{type(self.object).__name__} {getattr(self.object, '__name__', '')}".strip()

    def __repr__(self) -> str:
        return self.name


DESCRIPTIONS.update(
    {
        Builtin: lambda x: f"the function {x.name}",
        PublicFunction: lambda x: f"the function {x.name}",
        FuncDef: lambda x: f"the function {x.name}",
        StructType: lambda x: f"the struct {x.name}",
        Namespace: lambda x: f"the {x.name}",
        Opaque: lambda x: f"the Python object {x.name}",
    }
)

Library = Mapping[str, FuncDef]
MAKERS = VecType.__module__
"""The module of functions that create types, such as `vector` and `matrix`. In kernels these names are functions of the
language, which also create values."""


def capture(name: str, x: Any, loc: Location, help: str = "") -> Any:
    """A Python object as a binding; UnsupportedCapture, with `help` if given, for an object that kernels cannot use."""
    if x is None or isinstance(x, (str, DType, VecType, MatType, FuncDef, PublicFunction, StructType)):
        return x
    if isinstance(x, (bool, int, float)):
        return bool(x) if isinstance(x, bool) else int(x) if isinstance(x, int) else float(x)
    if isinstance(x, np.generic) and counterpart(x.dtype) is not None:
        return x
    if isinstance(x, Composite):
        return x.numpy()
    if isinstance(x, np.ndarray) and counterpart(x.dtype) is not None:
        if x.ndim == 0:
            return x[()]
        if 0 < x.size <= MAX_TABLE_ELEMENTS:
            return x
    if isinstance(x, (tuple, list)):
        parts = (capture(name, part, loc) for part in x)
        names = getattr(x, "_fields", None)
        return NamedItems(names, parts) if isinstance(x, tuple) and names else tuple(parts)
    if isinstance(x, range):
        # len() refuses ranges of more than 64 bits.
        check_unrolled(max(0, -(-(x.stop - x.start) // x.step)), loc)
        return tuple(x)
    if isinstance(x, PublicNamespace):
        return Namespace(x.__name__)
    if isinstance(x, ModuleType):
        return Namespace("", x) if x.__name__ == "tegula" else Opaque(x)
    if x is float or x is int or x is bool:
        return x
    dtype = numpy_type(x)
    if dtype is not None:
        return dtype
    for builtin in BUILTINS:
        if x is getattr(builtins, builtin):
            return Builtin(builtin)
    builtin = getattr(x, "__tegula_builtin__", None)
    if builtin:
        return Builtin(builtin)
    if isinstance(x, FunctionType) and x.__module__ == MAKERS and x.__name__ in PUBLIC:
        return PublicFunction(x.__name__)
    if isinstance(x, (type, SimpleNamespace, Enum)) or is_dataclass(x):
        return Opaque(x)
    raise UnsupportedCapture(loc, help=help or _capture_help(x), name=name, type=_kind(x))


def is_dataclass(x: object) -> bool:
    """Whether an object is a value of a dataclass."""
    return hasattr(type(x), "__dataclass_fields__")


def check_unrolled(count: int, loc: Location) -> None:
    """UnrolledTooFar if `count`, the number of copies of the body of a loop over constants, exceeds the limit."""
    if count > MAX_UNROLLED:
        written = f"{count:,}" if count.bit_length() < 256 else f"2**{count.bit_length() - 1} or more"
        raise UnrolledTooFar(loc, count=written, limit=MAX_UNROLLED)


def _kind(x: Any) -> str:
    return (
        "Python function" if isinstance(x, (FunctionType, BuiltinFunctionType)) else f"'{type(x).__name__}'"
    )


def _capture_help(x: Any) -> str:
    if isinstance(x, FunctionType):
        return "decorate the function with @tg.func"
    if callable(x):
        return "only functions of the language and @tg.func functions can be called in kernels"
    return "pass the value as an argument; numbers, strings, dtypes, functions, tuples and dataclasses can be captured"


def attribute(owner: Namespace | Opaque, name: str, library: Library, loc: Location) -> Any:
    """owner.name for modules and classes; UnknownAttribute if there is none."""
    if isinstance(owner, Opaque):
        if not hasattr(owner.object, name):
            fields = [key for key in dir(owner.object) if is_dataclass(owner.object) and key[0] != "_"]
            raise UnknownAttribute(
                loc, help=suggestion(name, fields) if fields else "", owner=owner.name, name=name
            )
        value = getattr(owner.object, name)
        is_public = isinstance(public(name, library), (PublicFunction, FuncDef))
        help = f"use tg.{name}" if is_public and not isinstance(value, FunctionType) else ""
        return capture(name, value, loc, help)
    full = f"{owner.prefix}.{name}" if owner.prefix else name
    value = public(full, library)
    if value is not None:
        return value
    if owner.module is not None and hasattr(owner.module, name):
        return capture(name, getattr(owner.module, name), loc)
    raise UnknownAttribute(loc, help=_similar(full, library), owner=owner.name, name=name)


def public(name: str, library: Library) -> Any:
    """The binding of `tegula.name` in kernels; None if there is none."""
    if name in SPECIAL:
        return Builtin(name)
    if name in PUBLIC:
        return PublicFunction(name)
    if name in library:
        return library[name]
    for table in (DTYPES, ALIASES, NAMED_ELEMENTS, CONSTANTS):
        if name in table:
            return table[name]
    if any(key.startswith(name + ".") for key in (*PUBLIC, *library)):
        return Namespace(name)
    return None


def _similar(name: str, library: Library) -> str:
    """A help text with the most similar known name. The prefix "tile_", which half of all names have, is ignored."""
    import difflib

    prefix = "tile_"
    known = [n for n in (*PUBLIC, *library, *DTYPES, *NAMED_ELEMENTS, *SPECIAL) if n[0] != "_"]
    known.sort(key=lambda n: n.startswith(prefix) == name.startswith(prefix))
    stems = {n.removeprefix(prefix): n for n in known}
    close = difflib.get_close_matches(name.removeprefix(prefix), stems, 1, cutoff=0.7)
    return f"did you mean '{stems[close[0]]}'?" if close else "dir(tegula) lists the names of the module"
