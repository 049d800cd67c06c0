"""`@cooperative`: functions of tiles that all threads of a group run together, with a signature as their type rule."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, get_args, get_origin

from tegula.declaration import Parts, Rule, Variant
from tegula.errors import OutsideKernel, TypeMismatch
from tegula.lang.annotations import TileAnnotation, resolve
from tegula.lang.definition import Definition, FuncDef
from tegula.ops.documented import Kind, Row, assembled, group_parameters, joined, split
from tegula.signature import (
    PATTERNS,
    ConstantPattern,
    Dtypes,
    InOutPattern,
    NumberPattern,
    OptionalPattern,
    Pattern,
    TilePattern,
)
from tegula.types import is_element

CONSTANT = Kind("a constant.", {"not-constant": "{name} is known at run time only"})
CHANGED = Kind("a tile bound to a name.", {"popped-tile-changed": "{name} was popped from a pipe"})
HELP = "annotate with tg.tile[dtype, extents], tg.InOut[...], tg.constexpr[...], or a dtype"


class CooperativeDef(FuncDef, Parts):
    """A cooperative function. Parts that are added later take effect at the next launch."""

    def __init__(self, definition: Definition, library: bool = False) -> None:
        FuncDef.__init__(self, definition)
        Parts.__init__(self, definition.function)
        self.library = library

    def add(self, function: Callable[..., Any], source: str | None = None) -> FuncDef:
        return FuncDef(Definition(function, source, library=self.library))

    @classmethod
    def of_library(cls, parts: Parts) -> CooperativeDef:
        """The cooperative function of a declaration of the standard library."""
        definition = cls(Definition(parts.declared, library=True), library=True)
        definition.variants = tuple(Variant(definition.add(v.function), v.when) for v in parts.variants)
        if parts.rule is not None:
            definition.rule = Rule(definition.add(parts.rule.function), parts.rule.keep)
        definition.numpy, definition.examples = parts.numpy, parts.examples
        definition.count_threads = parts.count_threads
        return definition

    @cached_property
    def patterns(self) -> Mapping[str, Pattern]:
        """The pattern of each parameter's arguments; TypeMismatch if an annotation states none."""
        patterns: dict[str, Pattern] = {}
        for p in self.definition.parameters:
            pattern = _pattern(p.annotation)
            if pattern is None or isinstance(pattern, OptionalPattern):
                message = f"'{p.name}' of the cooperative function {self.name} needs a type"
                raise TypeMismatch(self.definition.parameter_location(p.name), what=message, help=HELP)
            patterns[p.name] = pattern
        return patterns

    @property
    def rows(self) -> list[Row]:
        """The parameters with the errors that the signature implies: for constants, and for tiles that are changed."""
        kinds = [(ConstantPattern, CONSTANT), (InOutPattern, CHANGED)]
        return group_parameters(
            (next((kind for cls, kind in kinds if isinstance(pattern, cls)), None), name)
            for name, pattern in self.patterns.items()
        )

    @property
    def results(self) -> tuple[TilePattern | NumberPattern, ...]:
        """The patterns of the results of programs."""
        return tuple(x.tile if isinstance(x, OptionalPattern) else x for x in self.all_results)

    @cached_property
    def all_results(self) -> tuple[TilePattern | NumberPattern | OptionalPattern, ...]:
        """The patterns of the results, with the names of the constants that ask for them."""
        declared = self.definition.returned
        annotations = get_args(declared) if self.returns_tuple else () if declared is None else (declared,)
        results = tuple(map(_pattern, annotations))
        if not all(isinstance(x, TilePattern | NumberPattern | OptionalPattern) for x in results):
            message = f"the result of the cooperative function {self.name} must be a tile, a number or a tuple of these"
            raise TypeMismatch(self.definition.location, what=message, help=HELP)
        return results  # pyright: ignore[reportReturnType]

    def returned(self, constants: Mapping[str, Any], results: Sequence[Any]) -> Any:
        """The results of a program that a call with these constants returns: a tuple, or a single result if the others
        are optional or no tuple is declared."""
        requested = [
            result
            for pattern, result in zip(self.all_results, results, strict=True)
            if not isinstance(pattern, OptionalPattern) or constants[pattern.name]
        ]
        single = len(requested) == 1 and (not self.returns_tuple or len(requested) < len(results))
        return None if not results else requested[0] if single else tuple(requested)

    @property
    def returns_tuple(self) -> bool:
        """Whether the function is annotated to return a tuple."""
        return get_origin(self.definition.returned) is tuple

    @property
    def changed(self) -> list[str]:
        """The names of the tile parameters that the function changes."""
        return [name for name, x in self.patterns.items() if isinstance(x, InOutPattern)]

    @property
    def all_programs(self) -> Iterator[Variant]:
        """The programs in the order in which they are tried: the function's own body, whose source is parsed only if no
        earlier program fits, is the last."""
        yield from self.variants
        yield from self._declared_variants

    def fitting_program(self, facts: Mapping[str, Any]) -> Variant | None:
        """The first program whose condition is satisfied by the facts of a call.

        Raises:
            KeyError: a condition takes an unknown fact; the arguments of the error are the program and the name of the
                fact.
        """
        for variant in self.all_programs:
            if variant.when is None:
                return variant
            names = [*inspect.signature(variant.when).parameters]
            for name in names:
                if name not in facts:
                    raise KeyError(variant, name)
            if variant.when(**{name: facts[name] for name in names}):
                return variant
        return None

    @property
    def conditions(self) -> str:
        """A help text with the conditions of the programs, without conditions that imply others."""
        decorators = (v.function.definition.source.tree.decorator_list for v in self.all_programs)
        calls = (d for decorator_list in decorators for d in decorator_list if isinstance(d, ast.Call))
        conditions = [k.value for d in calls for k in d.keywords if k.arg == "when"]
        terms = [_conjuncts(x.body if isinstance(x, ast.Lambda) else x) for x in conditions]
        weakest = [t for t in terms if not any(set(others) < set(t) for others in terms)]
        texts = dict.fromkeys(" and ".join(t) for t in weakest)
        return f"the implementations need {'; or '.join(texts)}" if texts else ""

    @cached_property
    def _declared_variants(self) -> tuple[Variant, ...]:
        """The function's own body, if it has one."""
        return () if _is_empty(self.definition.source.tree.body) else (Variant(FuncDef(self.definition)),)

    @property
    def inplace(self) -> Inplace:
        """The function that writes the result to the last parameter of its type; TypeMismatch if there is none."""
        target = self.overwritten
        if target is None:
            message = f"{self.name} has no parameter of the type of the result that could be overwritten"
            raise TypeMismatch(self.definition.location, what=message)
        return Inplace(self, target)

    @property
    def overwritten(self) -> str | None:
        """The parameter that `inplace` overwrites; None if the function has no in-place form."""
        required = [x for x in self.all_results if not isinstance(x, OptionalPattern)]
        if len(required) != 1 or self.changed:
            return None
        candidates = [name for name, x in self.patterns.items() if x == required[0]]
        return candidates[-1] if candidates else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the NumPy reference: outside kernels the function is its reference."""
        if self.numpy is None:
            raise OutsideKernel(None, name=self.name, what="tiles need a block of threads")
        result = self.numpy(*args, **kwargs)
        if not any(isinstance(x, OptionalPattern) for x in self.all_results):
            return result
        bound = inspect.signature(self.definition.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return self.returned(bound.arguments, result)


class Inplace(FuncDef):
    """A cooperative function that overwrites one of its parameters with its result."""

    def __init__(self, function: CooperativeDef, target: str) -> None:
        super().__init__(function.definition)
        self.of = function
        self.target = target
        self.name = self.__name__ = f"{function.name}_inplace"
        self.__doc__ = _inplace_docstring(function, target)

    @property
    def rows(self) -> list[Row]:
        """The rows of the function whose result overwrites a parameter."""
        return self.of.rows


def _inplace_docstring(function: CooperativeDef, target: str) -> str:
    """The docstring of the in-place form: the function's own, with its results and errors adapted."""
    _, sections = split(inspect.cleandoc(function.__doc__ or ""))
    sections.pop("Returns", None)
    if "Raises" in sections:
        errors = [e for e in sections["Raises"] if e != "nothing."]
        results = {
            "type-mismatch": f"`{target}` is not a tile bound to a name, or read-only",
            "popped-tile-changed": f"`{target}` was popped from a pipe",
        }
        sections["Raises"] = joined(errors, [results])
    return assembled(
        f"The function tg.{function.name}, whose result overwrites `{target}`: nothing is returned.", sections
    )


def _pattern(annotation: Any) -> Pattern | OptionalPattern | None:
    """The pattern that an annotation states for a cooperative function's parameter or result; None if it states
    none."""
    resolved = resolve(annotation)
    if isinstance(resolved, TileAnnotation):
        return resolved.pattern
    if isinstance(resolved, Dtypes) or is_element(resolved):
        return NumberPattern(resolved)
    return resolved if isinstance(resolved, PATTERNS) and not isinstance(resolved, Dtypes) else None


def _conjuncts(condition: ast.expr) -> list[str]:
    """The texts of the operands of an `and`, or of the condition itself."""
    if isinstance(condition, ast.BoolOp) and isinstance(condition.op, ast.And):
        return [ast.unparse(x) for x in condition.values]
    return [ast.unparse(condition)]


def _is_empty(body: list[ast.stmt]) -> bool:
    """Whether a function's body has no code besides a docstring, `...` or `pass`."""
    return all(
        isinstance(s, ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in body
    )


def cooperative(function: Any = None, /, *, source: str | None = None) -> Any:
    """Make a function of tiles a cooperative function, which all threads of a group (a role, or the block) run
    together.

    The annotations are its type rule: `tg.tile[tg.Real, ..., N, N]` with letters (`tg.Extent`) that stand for one
    number each, classes of dtypes (`tg.Dtypes`) and a leading `...` for batch dimensions, over which the program is
    repeated; `tg.InOut[tile]` for a tile that the function changes; `tg.constexpr[str]` for constants. The body is the
    program, unless the body is empty or a program added with `program` fits. `reference`, `vjp` and `samples` add the
    other parts (docs/cooperative.md).

    Parameters:
        function: a function of the language, with annotations.
        source: the source text of the function, a string, if Python does not keep it.
    Returns:
        the cooperative function, which kernels call; outside of kernels a call runs the reference.
    Raises:
        TypeError: `function` is not defined with `def`. Errors in annotations are raised at calls.
    """

    def wrap(f: Callable[..., Any]) -> CooperativeDef:
        return CooperativeDef(Definition(f, source))

    return wrap if function is None else wrap(function)


__all__ = ["CooperativeDef", "Inplace", "cooperative"]
