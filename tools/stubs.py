"""Writes src/tegula/__init__.pyi: the names of `tegula` for editors and type checkers.

Usage: python tools/stubs.py

Functions of kernels have the signatures that their declarations give, with Any for types that only the compiler knows;
names of the host are read from their modules. Docstrings are whole, since editors show them. Objects in annotations of
kernels that are not types to Python become Any. A name that is not listed is an error to type checkers."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tegula import api
from tegula.lang.capture import SPECIAL
from tegula.lang.cooperative import CooperativeDef, Inplace
from tegula.lang.definition import FuncDef
from tegula.lang.overloads import NO_DEFAULT, Parameter
from tegula.ops import PUBLIC
from tegula.ops.documented import documentation as of_op
from tegula.runtime.library import documentation, library
from tegula.signature import ConstantPattern, Dtypes
from tegula.types import DType, is_element

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "src" / "tegula" / "__init__.pyi"

INTRODUCTION = '''"""Tegula: a tile language embedded in Python, and its compiler. `import tegula as tg`."""

# Written by tools/stubs.py.

import typing
from typing import Any, TypeAlias
'''


ANNOTATION_CLASSES = ("array", "tile")
"""Classes that kernels annotate with."""
INDEXED = ("indexedarray1d", "indexedarray2d", "indexedarray3d", "indexedarray4d")
SUBSCRIPTED_ANNOTATIONS = (*ANNOTATION_CLASSES, "array1d", "array2d", "array3d", "array4d", *INDEXED)
"""Annotations with a dtype and extents, which are not types to Python."""
ALIASES = ("InOut", "constexpr")
"""Annotations of constants and tiles, whose arguments are other objects."""


def stub() -> str:
    """The text of the stub file."""
    imports = sorted(set(_imports()))
    imported_names = {line.rpartition(" as ")[2] for line in imports} | {*api.MODULES}
    special_names = sorted(
        name
        for name in SPECIAL
        if name[0] != "_" and name not in imported_names and not hasattr(builtins, name)
    )
    functions = sorted(
        name
        for name in {*PUBLIC, *library()}
        if name[0] != "_" and name not in (*imported_names, *ANNOTATION_CLASSES)
    )
    parts = [
        INTRODUCTION + "\n".join(imports),
        "__version__: str",
        "\n".join(f"{name} = _{part}" for name, part in _renamed()),
        _constants(),
        _element(),
        _types({*imported_names, *special_names, *functions}),
    ]
    parts += [_special_stub(name) for name in special_names]
    parts += [_function(name) for name in functions if "." not in name]
    for group in sorted({name.partition(".")[0] for name in functions if "." in name}):
        member_stubs = [_function(n, n.partition(".")[2]) for n in functions if n.startswith(group + ".")]
        lines = [textwrap.indent(f"@staticmethod\n{text}", "    ") for text in member_stubs]
        parts.append(f"class {group}:\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _imports() -> Iterator[str]:
    """Imports of the host's names from their modules: the names that api.py imports, and the names that it loads
    later."""
    for node in ast.parse((ROOT / "src" / "tegula" / "api.py").read_text(encoding="utf-8")).body:
        module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if isinstance(node, ast.ImportFrom) and module.startswith("tegula.") and module not in TABLES:
            for alias in node.names:
                name = alias.asname or alias.name
                result = api.NAMES.get(name)
                if result is not None and not _is_type(result) and not _is_for_kernels_only(result):
                    yield f"from {module} import {alias.name} as {name}"
    yield from (f"from {module} import {name} as {name}" for name, module in api.LAZY.items())
    for name, module in api.MODULES.items():
        package, _, part = module.rpartition(".")
        # Only a name that is imported as itself is public in a stub.
        yield f"from {package} import {part} as {name if part == name else f'_{part}'}"
    yield from (f"from builtins import {name} as {name}" for name in ("bool", "print", "range"))


def _renamed() -> Iterator[tuple[str, str]]:
    """Modules that have another name as parts of `tegula`: the public name and the name of the module."""
    parts = ((name, module.rpartition(".")[2]) for name, module in api.MODULES.items())
    yield from ((name, part) for name, part in parts if part != name)


TABLES = ("tegula.types", "tegula.ops", "tegula.lang.capture", "tegula.lang.definition")
"""Modules from which api.py imports tables of names."""


def _is_type(x: object) -> bool:
    """Whether an object is used in annotations of kernels and is not a class."""
    if getattr(x, "__name__", "") in ANNOTATION_CLASSES or x in (api.constexpr, api.InOut):
        return True
    return not isinstance(x, type) and not inspect.isfunction(x) and x is not api.config


def _is_for_kernels_only(x: Any) -> bool:
    """Whether only kernels can call a function, not Python code."""
    return inspect.isfunction(x) and x.__annotations__.get("return") == "NoReturn"


def _special_stub(name: str) -> str:
    """The stub of a function that is built into the tracer, whose result in kernels is an iterable, a context or a
    number."""
    result = api.NAMES.get(name)
    parameters = inspect.signature(result).parameters.values() if result is not None else ()
    doc = inspect.getdoc(result) if result is not None else None
    return f"def {name}({', '.join(map(_parameter, parameters))}) -> Any:\n    {_literal(doc or name)}"


def _constants() -> str:
    """The stubs of the language's numeric constants."""
    return "\n".join(f"{name}: float" for name, x in sorted(api.NAMES.items()) if isinstance(x, float))


def _types(other_names: set[str]) -> str:
    """Names that are only used in annotations of kernels, and dtypes."""
    other_names |= {name.partition(".")[0] for name in other_names}
    annotation_names = (
        name
        for name in api.public_names()
        if name not in other_names and not isinstance(api.NAMES[name], float)
    )
    return "\n".join(map(_type, annotation_names))


def _type(name: str) -> str:
    """A name for annotations in kernels. To type checkers a value of such a type is Any."""
    result = api.NAMES[name]
    if name in SUBSCRIPTED_ANNOTATIONS:
        init = "def __init__(self, *args: Any, **options: Any) -> None: ..."
        doc = _literal(inspect.getdoc(result) or "")
        class_getitem = "def __class_getitem__(cls, item: Any) -> Any: ..."
        return f"class {name}(Any):\n    {doc}\n    {init}\n    {class_getitem}"
    if name in ALIASES:
        return f"{name}: TypeAlias = Any"
    if isinstance(result, DType) and not result.is_float:
        return f"class {name}(_Element):\n    def __index__(self) -> int: ..."
    is_annotation = is_element(result) or isinstance(result, Dtypes)
    return f"class {name}(_Element): ..." if is_annotation else f"{name}: Any"


def _element() -> str:
    """The class of values annotated with a dtype, whose operations return Any. The class is not derived from Any,
    because type checkers could not compare dtypes then."""
    binary_operators = [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and",
        "or",
        "xor",
        "lshift",
        "rshift",
    ]
    names = [f"__{side}{op}__" for op in binary_operators for side in ("", "r")] + [
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
    ]
    lines = ["def __init__(self, *args: Any, **options: Any) -> None: ..."]
    lines += ["def __getattr__(self, name: str) -> Any: ...", "def __getitem__(self, index: Any) -> Any: ..."]
    lines += ["def __setitem__(self, index: Any, value: Any) -> None: ...", "def __iter__(self) -> Any: ..."]
    lines += [f"def {name}(self, other: Any) -> Any: ..." for name in names]
    lines += [f"def {name}(self) -> Any: ..." for name in ("__neg__", "__pos__", "__invert__", "__abs__")]
    lines += [f"def __{kind}__(self) -> {kind}: ..." for kind in ("float", "int")]
    return "\n".join(["class _Element:", *(f"    {line}" for line in lines)])


def _function(name: str, public_name: str = "") -> str:
    f = None if name in PUBLIC else library()[name]
    if isinstance(f, FuncDef) and f.positions_differ:
        return _overloads(f, public_name or name)
    parameters, result, doc = _signature(name)
    return f"def {public_name or name}({', '.join(parameters)}) -> {result}:\n    {_literal(doc)}"


def _overloads(f: FuncDef, name: str) -> str:
    """The overloads of a function whose definitions have the same parameter at different places."""
    parameter_lists = dict.fromkeys(
        ", ".join(_overload_parameter(p) for p in definition.definition.parameters)
        for definition in f.definitions
    )
    doc = _literal(inspect.cleandoc(documentation(f)))
    bodies = [f"\n    {doc}", *[" ..."] * (len(parameter_lists) - 1)]
    return "\n".join(
        f"@typing.overload\ndef {name}({parameters}) -> Any:{body}"
        for parameters, body in zip(parameter_lists, bodies, strict=True)
    )


def _overload_parameter(p: Parameter) -> str:
    return f"{p.name}: Any" + ("" if p.default is NO_DEFAULT else f" = {_default(p.default)}")


def _literal(doc: str) -> str:
    """A docstring as a string literal in the body of a function."""
    lines = doc.strip().replace("\\", "\\\\").splitlines()
    text = "\n".join(f"    {line}".rstrip() for line in lines).strip()
    return f'"""{text}\n    """' if len(lines) > 1 else f'"""{text}"""'


def _signature(name: str) -> tuple[list[str], str, str]:
    """Parameters and result of a function of kernels, as text, and its docstring."""
    if name in PUBLIC:
        signature = inspect.signature(PUBLIC[name])
        _, *parameters = signature.parameters.values()
        result = "None" if signature.return_annotation in (None, "None") else "Any"
        return [_parameter(p) for p in parameters], result, of_op(name)
    f = library()[name]
    doc = documentation(f)
    if isinstance(f, Inplace):
        return _pattern_parameters(f.of), "None", doc
    if isinstance(f, CooperativeDef):
        return _pattern_parameters(f), "Any" if f.results else "None", inspect.cleandoc(doc)
    assert isinstance(f, FuncDef)
    names = map(_overload_parameter, f.all_parameters)
    return sorted(names, key=lambda text: "=" in text), "Any", inspect.cleandoc(doc)


def _pattern_parameters(f: CooperativeDef) -> list[str]:
    defaults = {p.name: p.default for p in f.definition.parameters}
    result: list[str] = []
    for name, pattern in f.patterns.items():
        kind = pattern.kind.__name__ if isinstance(pattern, ConstantPattern) else "Any"
        default = defaults[name]
        result.append(f"{name}: {kind}" + ("" if default is inspect.Parameter.empty else f" = {default!r}"))
    return result


def _parameter(p: inspect.Parameter) -> str:
    star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
    return f"{star}{p.name}: Any" + ("" if p.default is p.empty else f" = {_default(p.default)}")


def _default(x: Any) -> str:
    return repr(x) if x is None or isinstance(x, bool | int | float | str) else "..."


def main() -> None:
    """Write the file."""
    PAGE.write_text(stub(), encoding="utf-8")


if __name__ == "__main__":
    main()
