"""A Python function seen by the compiler: its source, parameters and the names it captures."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

from tegula.dataclass import dataclass
from tegula.errors import SourceNotFound, TypeMismatch
from tegula.lang.annotations import ANY, Annotation, resolve
from tegula.lang.flow import Flow
from tegula.source import FunctionSource, Location, parse_function

NO_DEFAULT: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its name, resolved annotation (ANY where there is none) and default value."""

    name: str
    annotation: Annotation
    default: Any = NO_DEFAULT


ANNOTATIONS = "annotate with a scalar, vector or matrix type, tg.array1d[...] to tg.array4d[...], or nothing"


class Definition:
    """A Python function, parsed when first needed. `source`: its text, where Python does not keep it; `constants`:
    values that variables which it sees have in the place of their own, by name."""

    def __init__(
        self,
        function: Callable[..., Any],
        source: str | None = None,
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(function, FunctionType):
            raise TypeError(f"expected a function, got {function!r}")
        if function.__name__ == "<lambda>" or inspect.iscoroutinefunction(function):
            raise TypeError(f"expected a function defined with 'def', got {function!r}")
        self.function = function
        self.name = function.__name__
        self.constants = constants or {}
        self._text = source
        self._source: FunctionSource | None = None
        self._flow: Flow | None = None
        self._parameters: list[Parameter] | None = None

    @property
    def source(self) -> FunctionSource:
        """The parsed source; SourceNotFound if Python does not have it."""
        if self._source is None:
            try:
                self._source = parse_function(self.function, self._text)
            except (OSError, SyntaxError) as e:
                raise SourceNotFound(self.location, name=self.name) from e
        return self._source

    @property
    def flow(self) -> Flow:
        if self._flow is None:
            self._flow = Flow(self.source.tree)
        return self._flow

    @property
    def location(self) -> Location:
        """Where the function is defined."""
        code = self.function.__code__
        return Location(code.co_filename, code.co_firstlineno, function=self.name)

    def parameter_location(self, name: str) -> Location:
        """Where a parameter stands in the source; the definition where there is no source."""
        try:
            tree = self.source.tree
        except SourceNotFound:
            return self.location
        arguments = [
            *tree.args.posonlyargs,
            *tree.args.args,
            *tree.args.kwonlyargs,
            tree.args.vararg,
            tree.args.kwarg,
        ]
        return next(self.source.location(a) for a in arguments if a is not None and a.arg == name)

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters; TypeMismatch where an annotation stands for no type."""
        if self._parameters is None:
            signature = inspect.signature(self.function)
            self._parameters = [self._parameter(p) for p in signature.parameters.values()]
        return self._parameters

    def _parameter(self, p: inspect.Parameter) -> Parameter:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise TypeMismatch(
                self.parameter_location(p.name), what=f"'{p.name}': kernels take no * or ** parameters"
            )
        if p.annotation is p.empty:
            return Parameter(p.name, ANY, p.default)
        try:
            return Parameter(p.name, resolve(self._evaluated(p.annotation)), p.default)
        except (TypeError, NameError, AttributeError, SyntaxError) as e:
            what = f"the annotation of '{p.name}': {e}"
            raise TypeMismatch(self.parameter_location(p.name), what=what, help=ANNOTATIONS) from e

    def _evaluated(self, annotation: object) -> object:
        """Annotations are strings under `from __future__ import annotations`, and where they are quoted."""
        while isinstance(annotation, str):
            annotation = eval(annotation, self.function.__globals__, self.closure())
        return annotation

    def closure(self) -> dict[str, Any]:
        """The variables of enclosing Python functions that this one uses and that are bound by now."""
        out: dict[str, Any] = {}
        for name, cell in zip(
            self.function.__code__.co_freevars, self.function.__closure__ or (), strict=True
        ):
            try:
                out[name] = cell.cell_contents
            except ValueError:  # not bound yet
                continue
        return out

    def with_constants(self, constants: Mapping[str, Any]) -> Definition:
        """The same function where these variables have these values, also in the functions that it calls."""
        return Definition(self.function, self._text, {**self.constants, **constants})

    def variable(self, name: str) -> tuple[int, str]:
        """Which variable a free name is: equal for functions that share it."""
        free = self.function.__code__.co_freevars
        if name in free:
            return id((self.function.__closure__ or ())[free.index(name)]), name
        return id(self.function.__globals__), name

    def lookup(self, name: str) -> Any:
        """What a free name means in Python; KeyError if nothing."""
        closure = self.closure()
        if name in closure:
            return closure[name]
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        return vars(builtins)[name]


class FuncDef:
    """A function that kernels call (`@tg.func`). `overloads` lists all definitions of the name, in source order;
    `in_float32`: on 16-bit floats it means its float32 result, rounded once; `gradient`: what gives its derivative;
    `replay`: what runs in its place where gradients need its result again."""

    def __init__(self, definition: Definition, overloads: list[FuncDef] | None = None) -> None:
        self.definition = definition
        self.name = definition.name
        self.overloads: list[FuncDef] = overloads if overloads is not None else []
        self.overloads.append(self)
        self.in_float32 = False
        self.gradient: FuncDef | None = None
        self.replay: FuncDef | None = None
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.name
        self.__module__ = definition.function.__module__
        self.__wrapped__ = definition.function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Outside kernels: the Python function itself."""
        return self.definition.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tegula function {self.name}>"


class PublicFunction:
    """A function of the language as an object that Python code can import and pass around."""

    def __init__(self, name: str, doc: str | None = None) -> None:
        self.name = name
        self.__name__ = name
        self.__doc__ = doc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{self.name} works inside kernels only")

    def __repr__(self) -> str:
        return f"<tegula function {self.name}>"


def signature_text(name: str, types: Sequence[object]) -> str:
    return f"{name}({', '.join(map(str, types))})"
