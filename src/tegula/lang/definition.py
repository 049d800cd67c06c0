"""A Python function for the compiler: its source, parameters and captured names."""

from __future__ import annotations

import builtins
import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from types import CodeType, FunctionType
from typing import Any

from tegula.dataclass import replace
from tegula.errors import SourceNotFound, TypeMismatch
from tegula.evaluation import evaluate
from tegula.lang.annotations import (
    ANY,
    GENERIC,
    Annotation,
    StackAnnotation,
    constant_pattern,
    is_compound,
    resolve,
    stack_annotation,
)
from tegula.lang.flow import Flow
from tegula.lang.function_source import (
    SourceChanged,
    source_from_text,
    source_of_function,
    source_of_library_function,
    text_of,
)
from tegula.lang.named import Named
from tegula.lang.overloads import Parameter
from tegula.ops.documented import Row
from tegula.signature import ConstantPattern, InOutElement
from tegula.source import FunctionSource, Location, Text

CHANGED = (
    "the file has changed since Python read it: restart Python, or import the module again; run text with "
    "tg.exec(text, namespace) instead of exec, or pass the text: @tg.kernel(source=...)"
)
INNERMOST = (
    "put @tg.kernel or @tg.func below other decorators: a function that another decorator has wrapped cannot be "
    "found"
)
ANNOTATIONS = "annotate with a scalar, vector or matrix type, tg.array1d[...] to tg.array4d[...], or nothing"


class Definition:
    """A Python function at its decoration, which is parsed on demand. `source`: the source text, if Python does not
    keep it; `constants`: values that override free variables, by name; `written`: the text of the file, if known;
    `library`: whether the function belongs to Tegula, whose files never change. `bound`: the values of constant
    parameters, which `parameters` omits."""

    _declared_parameters: list[Parameter] | None = None

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
        self.bound: dict[str, Any] = {}
        self.text = source
        self.library = library
        has_text = written is not None or source is not None or library
        self.written = written if has_text else text_of(function)
        self._source: FunctionSource | None = None
        self._flow: Flow | None = None
        self._parameters: list[Parameter] | None = None
        self._known_annotations = None if library else self._evaluate_string_annotations()

    @property
    def source(self) -> FunctionSource:
        """The parsed source; SourceNotFound if the source is not available, or belongs to another function."""
        if self._source is None:
            try:
                if self.text is not None:
                    self._source = source_from_text(self.function, self.text)
                elif self.library:
                    self._source = source_of_library_function(self.function)
                else:
                    self._source = source_of_function(self.function, self.written)
            except SourceChanged:
                message = f"the text of {self.name} does not match its compiled code"
                help = CHANGED if self.text is None else "pass the text of this function as source="
                raise SourceNotFound(self.location, help=help, what=message) from None
            except OSError:
                message = f"the source of {self.name} is not available"
                raise SourceNotFound(self.location, what=message) from None
        return self._source

    @property
    def flow(self) -> Flow:
        """The bindings and reads of names in the function."""
        if self._flow is None:
            self._flow = Flow(self.source.tree)
            self._flow.read_by_nested |= set(self.changed)  # the caller reads them at the end
        return self._flow

    @property
    def changed(self) -> list[str]:
        """The names of the parameters that the function modifies for its caller."""
        return [p.name for p in self.parameters if p.changed]

    @property
    def location(self) -> Location:
        """The location of the function's definition."""
        code = self.function.__code__
        return Location(code.co_filename, code.co_firstlineno, function=self.name)

    def parameter_location(self, name: str) -> Location:
        """The location of a parameter in the source; the location of the definition if there is no source."""
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
        base = name.partition(".")[0]
        return next(self.source.location(a) for a in arguments if a is not None and a.arg == base)

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters; TypeMismatch if an annotation names no type."""
        if self._parameters is None:
            signature = inspect.signature(self.function, follow_wrapped=False)
            rest = [p for p in signature.parameters.values() if p.name not in self.bound]
            self._parameters = [self._parameter(p) for p in rest]
        return self._parameters

    @property
    def returned(self) -> Any:
        """The object that annotates the result, evaluated but not resolved to a type; None if there is none."""
        annotation = self._annotations.get("return", self.function.__annotations__.get("return"))
        try:
            return self._evaluated(annotation)
        except (TypeError, NameError, AttributeError, SyntaxError) as e:
            message = f"the annotation of the result: {e}"
            raise TypeMismatch(self.location, what=message, help=ANNOTATIONS) from e

    @property
    def declared_parameters(self) -> list[Parameter]:
        """The parameters as written, before compound parameters are replaced by leaves."""
        return self.parameters if self._declared_parameters is None else self._declared_parameters

    def kernel_of_leaves(self, leaves: Sequence[Parameter]) -> Definition:
        """The definition with the leaves of its compound parameters as parameters."""
        definition = copy.copy(self)
        definition._declared_parameters, definition._parameters = self.parameters, list(leaves)
        return definition

    def typed(self, annotations: Sequence[Annotation]) -> Definition:
        """The definition with other types for its parameters."""
        definition = copy.copy(self)
        definition._parameters = [
            replace(p, annotation=t) for p, t in zip(self.parameters, annotations, strict=True)
        ]
        return definition

    def _parameter(self, p: inspect.Parameter) -> Parameter:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            message = f"'{p.name}': kernels take no * or ** parameters"
            help = INNERMOST if hasattr(self.function, "__wrapped__") else ""
            raise TypeMismatch(self.parameter_location(p.name), what=message, help=help)
        keyword_only = p.kind is p.KEYWORD_ONLY
        annotation = self._annotations.get(p.name, p.annotation)
        if annotation is p.empty:
            return Parameter(p.name, ANY, p.default, keyword_only)
        try:
            evaluated = self._evaluated(annotation)
            changed = isinstance(evaluated, InOutElement)
            return Parameter(
                p.name,
                resolve(evaluated.type if changed else evaluated),
                p.default,
                keyword_only,
                changed=changed,
            )
        except (TypeError, NameError, AttributeError, SyntaxError) as e:
            message = f"the annotation of '{p.name}': {e}"
            raise TypeMismatch(self.parameter_location(p.name), what=message, help=ANNOTATIONS) from e

    @property
    def _annotations(self) -> dict[str, Any]:
        """The values of string annotations; those of the library, which has many functions, are evaluated on
        demand."""
        if self._known_annotations is None:
            self._known_annotations = self._evaluate_string_annotations()
        return self._known_annotations

    def _evaluate_string_annotations(self) -> dict[str, Any]:
        """The values of string annotations, evaluated at the decoration as other annotations are. Names that are bound
        later are resolved at the first launch."""
        evaluated: dict[str, Any] = {}
        for name, annotation in self.function.__annotations__.items():
            if isinstance(annotation, str):
                with suppress(Exception):  # the first launch reports errors that remain
                    evaluated[name] = self._evaluated(annotation)
        return evaluated

    def _evaluated(self, annotation: object) -> object:
        """The value of an annotation, which is a string if quoted or under `from __future__ import annotations`."""
        while isinstance(annotation, str):
            annotation = eval(_compiled(annotation), self.function.__globals__, self.closure())
        return annotation

    def closure(self) -> dict[str, Any]:
        """The bound variables of enclosing Python functions that the function uses."""
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
        """The function with constants instead of variables, also in the functions that it calls."""
        definition = copy.copy(self)
        definition.constants = {**self.constants, **constants}
        return definition

    def bind(self, values: Mapping[str, Any]) -> Definition:
        """The function of the remaining parameters, with constants bound to some."""
        definition = copy.copy(self)
        definition.bound = {**self.bound, **values}
        definition._parameters = [p for p in self.parameters if p.name not in values]
        return definition

    def annotated(self, types: Mapping[str, Annotation]) -> Definition:
        """The function with other types for some parameters."""
        definition = copy.copy(self)
        definition._parameters = [
            replace(p, annotation=types.get(p.name, p.annotation)) for p in self.parameters
        ]
        return definition

    @property
    def takes_constants(self) -> bool:
        """Whether a parameter takes a constant, by the annotations that can be evaluated so far."""
        return any(isinstance(constant_pattern(a), ConstantPattern) for a in self._unbound_annotations())

    @property
    def has_compounds(self) -> bool:
        """Whether a parameter is a struct, an array of structs or an indexed array, by the annotations that can be
        evaluated so far."""
        return self._declared_parameters is None and any(
            is_compound(getattr(a, GENERIC, a)) for a in self._unbound_annotations()
        )

    def _unbound_annotations(self) -> list[Any]:
        """The annotations of the parameters that are not bound, without texts of unknown names."""
        annotations = {**self.function.__annotations__, **self._annotations}
        return [a for name, a in annotations.items() if name not in self.bound and name != "return"]

    def variable(self, name: str) -> tuple[int, str]:
        """The identity of the variable that a free name refers to: equal for functions that share the variable."""
        free = self.function.__code__.co_freevars
        if name in free:
            return id((self.function.__closure__ or ())[free.index(name)]), name
        return id(self.function.__globals__), name

    def lookup(self, name: str) -> Any:
        """The Python object of a free name; KeyError if the name is unbound."""
        free = self.function.__code__.co_freevars
        if name in free:
            with suppress(ValueError):  # not bound yet
                return (self.function.__closure__ or ())[free.index(name)].cell_contents
        if name in self.function.__globals__:
            return self.function.__globals__[name]
        return vars(builtins)[name]


class FuncDef(Named):
    """A function that kernels call (`@tg.func`). The object is immutable: a later definition of the same name is
    another object, whose `definitions` begin with the `earlier` ones that it joins.

    `in_float32`: whether 16-bit floats are computed in float32 and rounded once; `gradient`: the function that computes
    the derivative; `replay`: the function that gradients run to recompute the result."""

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

    @property
    def all_parameters(self) -> list[Parameter]:
        """The parameters of all definitions, each once, in order; parameters that are missing from some definitions
        have the default None."""
        parameter_lists = [f.definition.parameters for f in self.definitions]
        parameter_of = {p.name: p for parameters in reversed(parameter_lists) for p in parameters}
        order = dict.fromkeys(p.name for parameters in parameter_lists for p in parameters)
        shared = set.intersection(*({p.name for p in parameters} for parameters in parameter_lists))
        return [parameter_of[n] if n in shared else replace(parameter_of[n], default=None) for n in order]

    @property
    def positions_differ(self) -> bool:
        """Whether a parameter has another position in some definition than in the list of all parameters."""
        merged = [p.name for p in self.all_parameters]
        name_lists = ([p.name for p in f.definition.parameters] for f in self.definitions)
        return any(names != merged[: len(names)] for names in name_lists)

    @property
    def changes(self) -> bool:
        """Whether a definition modifies a parameter for its caller."""
        return any(f.definition.changed for f in self.definitions)

    @cached_property
    def overloads(self) -> tuple[FuncDef, ...]:
        """The overloads of the function, in source order; of definitions with the same parameter types, the last.
        TypeMismatch if an annotation names no type."""
        if len(self.definitions) == 1:
            return self.definitions
        last = {tuple(p.annotation for p in f.definition.parameters): f for f in self.definitions}
        return tuple(f for f in self.definitions if f in last.values())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in Python, with bit for bit the result of kernels. CompileError if a kernel with the call
        could not be compiled, or if the function needs a block of threads."""
        return evaluate(self, args, kwargs)

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
        """Call the function in Python, as in a kernel; CompileError if the function needs a block of threads."""
        return evaluate(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<tegula function {self.name}{self.__signature__ or ''}>"


class PublicNamespace:
    """A namespace of functions of the language, such as `tg.fast`.

    Parameters:
        name: the name of the namespace, a string.
        functions: a dictionary of functions by name.
    Raises:
        nothing.
    """

    def __init__(self, name: str, functions: Mapping[str, Any]) -> None:
        self.__name__ = name
        self.__doc__ = f"The functions {', '.join(f'tg.{name}.{each}' for each in functions)}."
        vars(self).update(functions)

    def __repr__(self) -> str:
        return f"<tegula functions {self.__name__}>"


class StackFunction(PublicFunction):
    """The function `tg.tile_stack`. Outside of kernels a call returns the type of a function's parameter."""

    def __call__(self, capacity: int, dtype: object) -> StackAnnotation:
        return stack_annotation(capacity, dtype)


@cache
def _compiled(annotation: str) -> CodeType:
    return compile(annotation.strip(), "<annotation>", "eval")


def signature_text(name: str, types: Sequence[object]) -> str:
    """The text of a call with argument types, for messages."""
    return f"{name}({', '.join(map(str, types))})"


def signatures(f: FuncDef) -> str:
    """The signatures of a function's overloads, as text."""
    return "; ".join(
        signature_text(c.name, [p.expected for p in c.definition.parameters]) for c in f.overloads
    )


def named_signatures(f: FuncDef) -> str:
    """The signatures with the names of the parameters, and with types where others are refused."""
    parameter_lists = [
        [p.name if p.annotation is ANY else f"{p.name}: {p.expected}" for p in c.definition.parameters]
        for c in f.overloads
    ]
    return "; ".join(signature_text(f.name, names) for names in parameter_lists)
