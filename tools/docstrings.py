"""Finds faults of docstrings.

Usage: python tools/docstrings.py [NAME...]       with names (tile_load, array.reshape): only the faults of these

Functions and classes that users call have docstrings with sections, in the order of `SECTIONS` (see "Docstrings" in
CONTRIBUTING.md). Every other public definition has a docstring that begins with a sentence, overrides a definition that
has one, or implements an op whose class has one. Docstrings are read from syntax trees, except docstrings of kernel
functions, which are assembled from declarations (`ops/documented.py`). The declarations also say which functions have a
gradient (`stated_gradients.py`) and which arguments are refused."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from syntax_trees import tree_of

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tegula"

SECTIONS = ("Parameters", "Returns", "Raises", "Gradient", "Source")
ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): \S")
CODE = re.compile(r"([a-z][a-z-]*|[A-Z]\w+(?:Error|Mismatch|Exit)?): \S")
PART_DECORATOR = re.compile(r"_?tile_\w+\.(program|vjp|reference|samples)\b")
"""Decorators that add a part to a cooperative function of the library; the function has the docstring."""
NO_ERRORS = "nothing."
ACCEPTED = re.compile(
    r"\b(scalars?|numbers?|vectors?|vec\d\w*|matri(x|ces)|quaternions?|transforms?|tiles?|stacks?|pipes?|barriers?|arrays?|"
    r"u?ints?\d*|integers?|floats?\d*|bools?|whether|True|False|strings?|texts?|constants?|dtypes?|types?|functions?|kernels?|"
    r"tuples?|pairs?|lists?|sequences?|dictionar(y|ies)|objects?|values?|arguments?|variables?|names?|paths?|files?|folders?|"
    r"axis|axes|dimensions?|lengths?|shapes?|index|indices|registers|bytes|ids?|devices?|streams?|graphs?|events?|structs?|"
    r"elements?|seeds?|keywords?|class|anything)\b|^as (of|for)\b|accepted and change|^is refused"
)
"""Words for the shape, dtype, unit or kind of arguments, one of which the entry of a parameter has."""
PYTHON_ERRORS = (
    "AssertionError",
    "AttributeError",
    "BufferError",
    "IndexError",
    "KeyError",
    "OSError",
    "RuntimeError",
    "TypeError",
    "SyntaxError",
    "ValueError",
)
OP_DECORATOR = re.compile(r"(handles|accesses|does)\(")
"""Decorators of functions that implement an op, whose class has the docstring, as its method `ref` does."""
FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)
WRAPPERS = (
    *("kernels/__init__.py", "algorithms/__init__.py", "autograd/__init__.py", "optim/__init__.py"),
    *("torch.py", "jax.py", "testing.py"),
)
"""Files of the host's interface, besides api.py."""


class DocumentedObject(NamedTuple):
    """A function or class that users call: its docstring, the names of its parameters, and the sections it must
    have."""

    name: str
    text: str
    parameters: tuple[str, ...]
    needed: tuple[str, ...]
    declared: object = None
    """The declaration of a kernel function: a build function, or a function of the library."""


# Functions and classes that users call --------------------------------------------------------------------------------


def kernel_functions() -> Iterator[DocumentedObject]:
    """The functions that kernels call: builders of ops, and the first overload of each function of the standard
    library."""
    from tegula.lang.cooperative import CooperativeDef, Inplace
    from tegula.ops import PUBLIC
    from tegula.ops.documented import documentation
    from tegula.runtime.library import OPS_AND_FUNCTIONS, library
    from tegula.runtime.library import documentation as library_documentation

    for name, build in sorted(PUBLIC.items()):
        if not name.startswith("_"):
            signature = inspect.signature(build)
            _, *parameters = signature.parameters.values()
            required_sections = _required_sections(
                [p.name for p in parameters], signature.return_annotation not in (None, "None")
            )
            result = tuple(map(_starred_name, parameters))
            yield DocumentedObject(
                name,
                documentation(name),
                result,
                (*required_sections, "Gradient"),
                None if name in OPS_AND_FUNCTIONS else build,
            )
    for name, f in sorted(library().items()):
        if not name.startswith("_"):
            names = tuple(p.name for p in f.all_parameters)
            cooperative = isinstance(f, CooperativeDef | Inplace)
            returns = _returns(f) if not cooperative else isinstance(f, CooperativeDef) and bool(f.results)
            yield DocumentedObject(
                name, library_documentation(f), names, (*_required_sections(names, returns), "Gradient"), f
            )


def _returns(f: Any) -> bool:
    """Whether the first overload of a function of the library returns something."""
    nodes = ast.walk(f.definitions[0].definition.source.tree)
    return any(isinstance(n, ast.Return) and n.value is not None for n in nodes)


def host_functions() -> Iterator[DocumentedObject]:
    """The functions and classes of the host's interface, with the public methods of classes."""
    for cls in tree_of(SOURCE / "types.py").body:
        for node in cls.body if isinstance(cls, ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef) and node.name == "__call__":  # tg.float32(2), in kernels too
                function = _function(f"{cls.name}.__call__", node, skip=1)
                yield function._replace(needed=(*function.needed, "Gradient"))
    for name, node in sorted(_host_definitions()):
        if isinstance(node, ast.ClassDef):
            yield from _class(name, node)
        else:
            yield _function(name, node)


def _class(name: str, node: ast.ClassDef) -> Iterator[DocumentedObject]:
    """A class and its public methods. The class docstring has the parameters of its `__init__`, if it defines one."""
    methods = {n.name: n for n in node.body if isinstance(n, FUNCTION_NODES)}
    initialiser = methods.get("__init__")
    names = tuple(_names(initialiser.args))[1:] if initialiser is not None else ()
    if node.name not in NOT_CONSTRUCTED:
        required_sections = _required_sections(names, returns=False) if initialiser is not None else ()
        yield DocumentedObject(name, ast.get_docstring(node) or "", names, required_sections)
    for method in methods.values():
        if not method.name.startswith("_") and not _is_property(method):
            yield _function(f"{name}.{method.name}", method, skip=0 if _is_static(method) else 1)


NOT_CONSTRUCTED = ("Device", "Graph", "JaxFunction", "Kernel", "Launch", "PublicFunction", "TorchFunction")
"""Classes whose objects users do not construct."""


def _function(name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, skip: int = 0) -> DocumentedObject:
    names = tuple(_names(node.args))[skip:]
    returns = node.returns is None or ast.unparse(node.returns) not in ("None", "NoReturn")
    kernel_sections = ("Gradient",) if name in _names_of_tracer() else ()
    return DocumentedObject(
        name, ast.get_docstring(node) or "", names, (*_required_sections(names, returns), *kernel_sections)
    )


@cache
def _names_of_tracer() -> frozenset[str]:
    """Kernel functions that are built into the tracer, marked by `f.__tegula_builtin__ = ...`."""
    marks = (
        n.targets[0] for n in tree_of(SOURCE / "lang" / "decorators.py").body if isinstance(n, ast.Assign)
    )
    return frozenset(
        ast.unparse(m.value) for m in marks if isinstance(m, ast.Attribute) and m.attr == "__tegula_builtin__"
    )


def _host_definitions() -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """The public names of the host's interface with their definitions."""
    api = tree_of(SOURCE / "api.py")
    definitions: dict[str, tuple[str, str]] = {}
    for node in api.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tegula."):
            definitions |= {a.asname or a.name: (node.module or "", a.name) for a in node.names}
    for node in ast.walk(api):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "LAZY":
            raise AssertionError("LAZY of api.py has an annotation now: read it here")
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAZY":
            definitions |= {name: (module, name) for name, module in _lazy(node.value)}
    for path in WRAPPERS:
        module = "tegula." + path.removesuffix(".py").replace("/__init__", "").replace("/", ".")
        tree = tree_of(SOURCE / path)
        module_definitions = [n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
        definitions |= {
            f"{module[7:]}.{n.name}": (module, n.name)
            for n in module_definitions
            if not n.name.startswith("_")
        }
        for node in ast.walk(tree) if path.endswith("__init__.py") else ():
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tegula."):
                definitions |= {f"{module[7:]}.{a.name}": (node.module, a.name) for a in node.names}
    for name, (module, defined) in definitions.items():
        if name.startswith("_"):
            continue
        if module == "tegula.errors":
            continue  # exceptions, which docs/errors.md is about
        result = _definition(module, defined)
        if result is not None:
            yield name, result


def _lazy(node: ast.expr) -> Iterator[tuple[str, str]]:
    """The names and modules of a dictionary whose entries may be `dict.fromkeys` of several names and one module."""
    assert isinstance(node, ast.Dict)
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            yield ast.literal_eval(key), ast.literal_eval(value)
        else:
            assert isinstance(value, ast.Call)
            names, module = (ast.literal_eval(a) for a in value.args)
            yield from ((name, module) for name in names)


def _definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    """The last definition of a name in a module, or in the module that it is imported from; None for an object."""
    path = SOURCE.joinpath(*module.split(".")[1:])
    tree = tree_of(path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py")
    definitions = [n for n in tree.body if isinstance(n, (ast.ClassDef, ast.FunctionDef)) and n.name == name]
    if definitions:
        return definitions[-1]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            return _definition(node.module or "", name)
    return None


def _required_sections(parameters: object, returns: bool) -> tuple[str, ...]:
    return (*(("Parameters",) if parameters else ()), *(("Returns",) if returns else ()), "Raises")


def _names(args: ast.arguments) -> Iterator[str]:
    yield from (a.arg for a in (*args.posonlyargs, *args.args))
    if args.vararg is not None:
        yield f"*{args.vararg.arg}"
    yield from (a.arg for a in args.kwonlyargs)
    if args.kwarg is not None:
        yield f"**{args.kwarg.arg}"


def _starred_name(p: inspect.Parameter) -> str:
    return {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(re.search(r"property|\.setter", ast.unparse(d)) for d in node.decorator_list)


def _is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(d) == "staticmethod" for d in node.decorator_list)


# Faults of a docstring ------------------------------------------------------------------------------------------------


def faults(function: DocumentedObject) -> list[str]:
    """The faults of the docstring of a function or class that users call, as text."""
    text, sections, order = _split(function.text)
    messages: list[str] = []
    if not re.match(r"[^\n].*?\.(\s|$)", text, re.DOTALL):
        messages.append("no sentence first")
    messages += [f"no section {name}" for name in function.needed if name not in sections]
    messages += [f"no such section: {name}" for name in order if name not in SECTIONS]
    if order != sorted(order, key=lambda s: SECTIONS.index(s) if s in SECTIONS else 99):
        messages.append(f"sections in another order: {', '.join(order)}")
    messages += [f"nothing in section {name}" for name, lines in sections.items() if not lines]
    messages += _parameter_faults(sections.get("Parameters"), function.parameters)
    messages += _raise_faults(sections.get("Raises", []))
    return messages + (
        _declared_faults(function, sections) if function.declared is not None and not messages else []
    )


def _declared_faults(function: DocumentedObject, sections: dict[str, list[str]]) -> list[str]:
    """The contradictions between the docstring of a kernel function and the gradients and errors that it declares."""
    from stated_gradients import gradient_faults

    from tegula.declaration import Refused
    from tegula.lang.cooperative import CooperativeDef, Inplace
    from tegula.ops.documented import Family
    from tegula.stdlib import FAMILIES
    from tegula.testing import samples

    gradient_text = " ".join(sections["Gradient"])
    if inspect.isfunction(function.declared):
        return gradient_faults(function.declared, gradient_text, " ".join(sections.get("Returns", [])))
    definition = function.declared.of if isinstance(function.declared, Inplace) else function.declared
    if not isinstance(definition, CooperativeDef):
        declared = FAMILIES.get(function.name, Family()).sections.get("Gradient", "")
        is_contradiction = (
            re.match("none|refused", gradient_text)
            and gradient_text not in declared
            and "of the draw" not in gradient_text
        )
        return [f"gradient: the library has one, not {gradient_text}"] if is_contradiction else []
    stated = {line.partition(":")[0] for line in sections["Raises"]}
    function_samples = samples(definition)
    messages = [
        f"errors: a sample is refused with {x.code}"
        for x in function_samples
        if isinstance(x, Refused) and x.code not in stated
    ]
    if re.match("none|refused", gradient_text) and any(x.differentiable for x in function_samples):
        messages.append(f"gradient: a sample is differentiable, not {gradient_text}")
    if not re.match("none|refused", gradient_text) and not any(x.differentiable for x in function_samples):
        messages.append("gradient: no sample is differentiable")
    return messages


def _parameter_faults(lines: list[str] | None, parameters: tuple[str, ...]) -> list[str]:
    if lines is None:
        return []
    named = [m[1] for line in lines if not line.startswith(" ") and (m := ENTRY.match(line))]
    documented = [name for entry in named for name in entry.split(", ")]
    if documented != [*parameters]:
        return [f"parameters {', '.join(parameters)}; documented: {', '.join(documented)}"]
    entries = re.split(r"\n(?! )", "\n".join(lines))
    entries_without_kind = [e.partition(":")[0] for e in entries if not ACCEPTED.search(e.partition(": ")[2])]
    return (
        [f"no shape, dtype, unit or kind of argument: {', '.join(entries_without_kind)}"]
        if entries_without_kind
        else []
    )


def _raise_faults(lines: list[str]) -> list[str]:
    if lines == [NO_ERRORS]:
        return []
    messages: list[str] = []
    for line in lines:
        if line.startswith(" "):
            continue
        entry = CODE.match(line)
        if entry is None:
            messages.append(f"no error code and reason: {line}")
        elif entry[1] not in codes() and entry[1] not in PYTHON_ERRORS:
            messages.append(f"no such error: {entry[1]}")
    return messages


def _split(text: str) -> tuple[str, dict[str, list[str]], list[str]]:
    """The text in front of the sections, the lines of each section without their indent, and the titles in order."""
    sections: dict[str, list[str]] = {}
    order: list[str] = []
    before: list[str] = []
    for line in text.splitlines():
        if (title := re.fullmatch(r"([A-Z]\w+):", line)) is not None:
            order.append(title[1])
            sections[title[1]] = []
        elif not order:
            before.append(line)
        elif line.strip():
            sections[order[-1]].append(line.removeprefix("    "))
    return "\n".join(before), sections, order


@cache
def codes() -> frozenset[str]:
    """The codes of docs/errors.md."""
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^## ([a-z-]+)$", text, re.MULTILINE))


# All other public definitions -----------------------------------------------------------------------------------------


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def public_definitions(
    path: Path,
) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, list[ast.ClassDef]]]:
    """The public classes, functions and methods of a file, by qualified name, with their enclosing classes. Overloads
    for type checkers, setters, implementations of ops and local definitions are left out."""

    def definitions_in(
        body: list[ast.stmt], enclosing: list[ast.ClassDef]
    ) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, list[ast.ClassDef]]]:
        for node in body:
            if not isinstance(node, (ast.ClassDef, *FUNCTION_NODES)) or node.name.startswith("_"):
                continue
            decorators = [ast.unparse(d) for d in node.decorator_list]
            if any(PART_DECORATOR.match(d) or OP_DECORATOR.match(d) for d in decorators):
                continue
            if any(re.search(r"\boverload\b|\.setter", d) for d in decorators):
                continue
            if node.name == "ref" and enclosing and "staticmethod" in decorators:
                continue
            yield ".".join([*(c.name for c in enclosing), node.name]), node, enclosing
            if isinstance(node, ast.ClassDef):
                yield from definitions_in(node.body, [*enclosing, node])

    yield from definitions_in(tree_of(path).body, [])


@cache
def _classes() -> dict[str, list[ast.ClassDef]]:
    """All classes of modules of the package, by name."""
    by_name: dict[str, list[ast.ClassDef]] = {}
    for path in files():
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                by_name.setdefault(node.name, []).append(node)
    return by_name


def _inherits(cls: ast.ClassDef, name: str, visited: frozenset[str] = frozenset()) -> bool:
    """Whether a class inherits a documented method of a name."""
    for base in cls.bases:
        base_name = ast.unparse(base).split("[")[0].split(".")[-1]
        for parent in _classes().get(base_name, []) if base_name not in visited else ():
            for node in parent.body:
                if isinstance(node, FUNCTION_NODES) and node.name == name and ast.get_docstring(node):
                    return True
            if _inherits(parent, name, visited | {base_name}):
                return True
    return False


def without_docstring() -> dict[str, list[str]]:
    """The public definitions of each file that have no docstring and inherit none."""
    first = {path: _first_overloads(path) for path in (SOURCE / "stdlib").glob("*.py")}
    missing: dict[str, list[str]] = {}
    for path in files():
        for name, node, enclosing in public_definitions(path):
            inherited = bool(enclosing) and _inherits(enclosing[-1], node.name)
            is_overload = path in first and id(node) not in first[path]
            if not ast.get_docstring(node) and not inherited and not is_overload:
                missing.setdefault(path.relative_to(SOURCE).as_posix(), []).append(name)
    return missing


SENTENCE = re.compile(r"(?!`\w+`:).*?[.:](\s|$)")
"""The first sentence of a docstring, which must not be the description of a field."""
NOT_NOUNS = """
    a about above across after again all also an and another any are as at be been before after being below
    between both but by can could do does done down during each either else even ever every few for from had has
    have having he her here his how i if in into is it its itself just least less like many may might more most
    much must neither never no none nor not nothing now of off on once one only onto or other others our out
    over own same shall should since so some something still such than that the their them then there these they
    this those though three through to too two under unless until up upon we were what when where whether which
    while who whom whose why will with within without would yet you your
"""


def without_noun() -> dict[str, list[str]]:
    """The public definitions of each file whose docstring has no noun in its first sentence: only code, pronouns,
    articles, prepositions, conjunctions and auxiliary verbs."""
    missing: dict[str, list[str]] = {}
    for path in files():
        for name, node, _ in public_definitions(path):
            text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            if text and not _has_noun(text):
                missing.setdefault(path.relative_to(SOURCE).as_posix(), []).append(name)
    return missing


def _has_noun(text: str) -> bool:
    first = SENTENCE.match(text)
    not_nouns = frozenset(NOT_NOUNS.split())
    words = re.findall(r"[A-Za-z]{2,}", re.sub(r"`[^`]*`", "", first[0])) if first is not None else []
    return any(word.lower() not in not_nouns for word in words)


def _first_overloads(path: Path) -> set[int]:
    """The identities of the first definition of each name in a file of the standard library."""
    first: dict[str, ast.stmt] = {}
    for node in tree_of(path).body:
        if isinstance(node, FUNCTION_NODES):
            first.setdefault(node.name, node)
    return {id(node) for node in first.values()}


# All faults -----------------------------------------------------------------------------------------------------------


def docstring_faults() -> dict[str, list[str]]:
    """The docstring faults of functions that users call, by the name of the function."""
    messages: dict[str, list[str]] = {}
    for function in (*kernel_functions(), *host_functions()):
        if found_faults := faults(function):
            messages.setdefault(function.name, []).extend(found_faults)
    return messages


def all_faults() -> list[str]:
    """The faults of all docstrings, each with the name of its definition."""
    return [
        *(f"{name}: {'; '.join(messages)}" for name, messages in docstring_faults().items()),
        *(
            f"{path}: {name} has no docstring"
            for path, names in without_docstring().items()
            for name in names
        ),
        *(
            f"{path}: the docstring of {name} does not begin with a sentence with a noun"
            for path, names in without_noun().items()
            for name in names
        ),
    ]


def main() -> int:
    """Print the faults of the named docstrings, or of all docstrings. Returns 1 if a docstring has faults."""
    faults_by_name, requested = docstring_faults(), sys.argv[1:]
    lines = (
        [f"{name}: {'; '.join(faults_by_name[name])}" for name in requested if name in faults_by_name]
        if requested
        else all_faults()
    )
    print("\n".join(lines) or "no faults")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
