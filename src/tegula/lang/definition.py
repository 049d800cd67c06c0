"""A Python function seen by the compiler: its source, parameters and the names it captures."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from types import CodeType, FunctionType
from typing import Any

from tegula.errors import SourceNotFound, TypeMismatch, WrongArguments
from tegula.lang.annotations import ANY, resolve
from tegula.lang.flow import Flow
from tegula.lang.named import Named
from tegula.lang.overloads import Parameter, described, fit, on_the_host, ordered
from tegula.lang.written import Changed, given_text, parsed, text_of, trusted
from tegula.ops.documented import Row
from tegula.source import FunctionSource, Location, Text

CHANGED = (
    "the file has changed since Python read it: import it again, or start Python again; for a function made with exec, "
    "give its text: @tg.kernel(source=...)"
)
INNERMOST = "put @tg.kernel or @tg.func below other decorators: a function that another one wraps is not seen"
ANNOTATIONS = "annotate with a scalar, vector or matrix type, tg.array1d[...] to tg.array4d[...], or nothing"


class Definition:
    """A Python function at its decoration, parsed when its source is first needed. `source`: its text, if Python does
    not keep it; `constants`: values that replace those of its free variables, by name; `written`: the text of its
    file, if known; `library`: it is a function of Tegula's own, whose files never change."""

    def __init__(
        self,
        function: Callable[..., Any],
        source: str | None = None,
        constants: Mapping[str, Any] | None = None,
        written: Text | None = None,
        library: bool = False,
    ) -> None:
        if not isinstance(function, FunctionType):
            raise TypeError(f"expected a function, got {function!r}")
        if function.__name__ == "<lambda>" or inspect.iscoroutinefunction(function):
            raise TypeError(f"expected a function defined with 'def', got {function!r}")
        self.function = function
        self.name = function.__name__
        self.constants = constants or {}
        self.text = source
        self.library = library
        known = written is not None or source is not None or library
        self.written = written if known else text_of(function)
        self._source: FunctionSource | None = None
        self._flow: Flow | None = None
        self._parameters: list[Parameter] | None = None
        self._annotations = self._annotations_now()

    @property
    def source(self) -> FunctionSource:
        """The parsed source; SourceNotFound if Python does not have it, or has that of another function."""
        if self._source is None:
            try:
                if self.text is not None:
                    self._source = given_text(self.function, self.text)
                elif self.library:
                    self._source = trusted(self.function)
                else:
                    self._source = parsed(self.function, self.written)
            except Changed:
                what = f"the text of {self.name} is not what Python compiled it from"
                help = CHANGED if self.text is None else "give source= the text of this very function"
                raise SourceNotFound(self.location, help=help, what=what) from None
            except OSError:
                what = f"the source of {self.name} is not available"
                raise SourceNotFound(self.location, what=what) from None
        return self._source

    @property
    def flow(self) -> Flow:
        """The bindings and reads of names in the function."""
        if self._flow is None:
            self._flow = Flow(self.source.tree)
        return self._flow

    @property
    def location(self) -> Location:
        """The location of the function's definition."""
        code = self.function.__code__
        return Location(code.co_filename, code.co_firstlineno, function=self.name)

    def parameter_location(self, name: str) -> Location:
        """The location of a parameter in the source; of the definition if there is no source."""
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
        """The parameters; TypeMismatch if an annotation names no type."""
        if self._parameters is None:
            signature = inspect.signature(self.function, follow_wrapped=False)
            self._parameters = [self._parameter(p) for p in signature.parameters.values()]
        return self._parameters

    @property
    def returned(self) -> Any:
        """The object that annotates the result, evaluated but not resolved to a type; None if there is none."""
        annotation = self._annotations.get("return", self.function.__annotations__.get("return"))
        try:
            return self._evaluated(annotation)
        except (TypeError, NameError, AttributeError, SyntaxError) as e:
            what = f"the annotation of the result: {e}"
            raise TypeMismatch(self.location, what=what, help=ANNOTATIONS) from e

    def _parameter(self, p: inspect.Parameter) -> Parameter:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            what = f"'{p.name}': kernels take no * or ** parameters"
            help = INNERMOST if hasattr(self.function, "__wrapped__") else ""
            raise TypeMismatch(self.parameter_location(p.name), what=what, help=help)
        by_name = p.kind is p.KEYWORD_ONLY
        annotation = self._annotations.get(p.name, p.annotation)
        if annotation is p.empty:
            return Parameter(p.name, ANY, p.default, by_name)
        try:
            return Parameter(p.name, resolve(self._evaluated(annotation)), p.default, by_name)
        except (TypeError, NameError, AttributeError, SyntaxError) as e:
            what = f"the annotation of '{p.name}': {e}"
            raise TypeMismatch(self.parameter_location(p.name), what=what, help=ANNOTATIONS) from e

    def _annotations_now(self) -> dict[str, Any]:
        """The values at the decoration of annotations that are strings, as of other annotations. Names that are only
        bound later are left to the first launch."""
        found: dict[str, Any] = {}
        try:
            for name, annotation in self.function.__annotations__.items():
                if isinstance(annotation, str):
                    found[name] = self._evaluated(annotation)
        except Exception:  # the first launch reports what is wrong for good
            pass
        return found

    def _evaluated(self, annotation: object) -> object:
        """The value of an annotation, which is a string if quoted or under `from __future__ import annotations`."""
        while isinstance(annotation, str):
            annotation = eval(_compiled(annotation), self.function.__globals__, self.closure())
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
        """The function with constants in the place of variables, also in the functions that it calls."""
        return Definition(self.function, self.text, {**self.constants, **constants}, self.written)

    def with_parameters(self, parameters: Sequence[Parameter]) -> Definition:
        """The function with other annotations of its parameters."""
        made = Definition(self.function, self.text, self.constants, self.written, self.library)
        made._parameters = list(parameters)
        return made

    def variable(self, name: str) -> tuple[int, str]:
        """The identity of the variable that a free name refers to: equal for functions that share the variable."""
        free = self.function.__code__.co_freevars
        if name in free:
            return id((self.function.__closure__ or ())[free.index(name)]), name
        return id(self.function.__globals__), name

    def lookup(self, name: str) -> Any:
        """The Python object that a free name is bound to; KeyError if there is none."""
        closure = self.closure()
        if name in closure:
            return closure[name]
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        return vars(builtins)[name]


class FuncDef(Named):
    """A function that kernels call (`@tg.func`). It never changes what it does: one defined later under the same name
    is another object, whose `definitions` begin with the `earlier` ones that it joins.

    `in_float32`: on 16-bit floats it means its float32 result, rounded once; `gradient`: what gives its derivative;
    `replay`: what runs in its place where gradients need its result again."""

    def __init__(self, definition: Definition, earlier: Sequence[FuncDef] = (), frame: int = 0) -> None:
        """`frame`: the identity of the Python frame that the function is defined in."""
        self.definition = definition
        self.name = definition.name
        self.definitions: tuple[FuncDef, ...] = (*earlier, self)
        self.frame = frame
        self.in_float32 = False
        self.gradient: FuncDef | None = None
        self.replay: FuncDef | None = None
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.name
        self.__module__ = definition.function.__module__
        self.__wrapped__ = definition.function

    @property
    def rows(self) -> list[Row]:
        """The parameters as rows of the docstring, without a kind."""
        return [(None, [p.name]) for p in self.definition.parameters]

    @cached_property
    def overloads(self) -> tuple[FuncDef, ...]:
        """The definitions that calls choose from, in source order; of definitions with parameters of the same types,
        the last. TypeMismatch if an annotation names no type."""
        if len(self.definitions) == 1:
            return self.definitions
        last = {tuple(p.annotation for p in f.definition.parameters): f for f in self.definitions}
        return tuple(f for f in self.definitions if f in last.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call, outside kernels, the Python function whose parameters fit the arguments best. WrongArguments if none
        of several fits."""
        if len(self.definitions) == 1:
            return self.definition.function(*args, **kwargs)
        return self._fitting(args, kwargs).definition.function(*args, **kwargs)

    def _fitting(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FuncDef:
        best: tuple[int, FuncDef] | None = None
        for candidate in self.overloads:
            parameters = candidate.definition.parameters
            try:
                found = ordered(candidate.name, parameters, args, kwargs)
            except TypeError:
                continue
            types = [on_the_host(p.annotation, x) for p, x in zip(parameters, found, strict=True)]
            cost = fit(parameters, types, args, kwargs)
            if cost is not None and (best is None or cost <= best[0]):
                best = (cost, candidate)
        if best is not None:
            return best[1]
        types = [*map(described, args), *(f"{key}={described(x)}" for key, x in kwargs.items())]
        notes = [
            (f.definition.location, signature_text(f.name, [p.wanted for p in f.definition.parameters]))
            for f in self.overloads
        ]
        raise WrongArguments(None, what=f"no overload fits {signature_text(self.name, types)}", notes=notes)

    def __repr__(self) -> str:
        return f"<tegula function {self.name}>"


class PublicFunction:
    """A function of the language as an object that Python code can import and pass around."""

    def __init__(self, name: str, doc: str | None = None, signature: inspect.Signature | None = None) -> None:
        self.name = name
        self.__name__ = name
        self.__doc__ = doc
        self.__signature__ = signature

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"{self.name} works inside kernels only")

    def __repr__(self) -> str:
        return f"<tegula function {self.name}{self.__signature__ or ''}>"


@cache
def _compiled(annotation: str) -> CodeType:
    return compile(annotation.strip(), "<annotation>", "eval")


def signature_text(name: str, types: Sequence[object]) -> str:
    """A call with types for arguments, as messages write it."""
    return f"{name}({', '.join(map(str, types))})"
