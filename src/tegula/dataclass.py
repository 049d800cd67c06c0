"""`dataclasses.dataclass` at a third of the import time.

Importing the compiler makes about 200 of these classes. With the standard library's decorator, which generates and
compiles six functions for each class, this took a tenth of the time of a first launch. This decorator generates only
`__init__`, on its first use, because most programs use a part of the classes, from code that is compiled once for all
classes. The classes work with `dataclasses.replace` and `fields`; `replace` of this module is faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, FrozenInstanceError, field
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_FIELDS = "__tegula_fields__"


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(*, frozen: bool = False, slots: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(field_specifiers=(field,))
def dataclass(cls: Any = None, /, *, frozen: bool = False, slots: bool = False) -> Any:
    """Make a class of its annotated names: `__init__`, `__repr__` and `__eq__` by value; `frozen`: immutable, with a
    `__hash__` by value; `slots`: without an instance dictionary. Methods that the class defines itself are kept. Fields
    are in the order of their definition, fields of base classes first; class variables and keyword-only fields are not
    supported."""

    def make(cls: Any) -> Any:
        return _decorated(cls, frozen, slots)

    return make if cls is None else make(cls)


def field_names(record: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass of this module, or of an instance of one."""
    return tuple(getattr(record, _FIELDS))


def replace(record: T, **changes: Any) -> T:
    """A copy of an instance of a dataclass of this module, with other values for some of its fields."""
    known: dict[str, Field[Any]] = getattr(record, _FIELDS)
    values = {name: getattr(record, name) for name, f in known.items() if f.init and name not in changes}
    return type(record)(**values, **changes)


def _decorated(cls: Any, frozen: bool, slots: bool) -> Any:
    known: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        known |= base.__dict__.get(_FIELDS, {})
    inherited = set(known)
    namespace = dict(cls.__dict__)
    for name, annotation in namespace.get("__annotations__", {}).items():
        default = namespace.pop(name, MISSING)
        declared = known[name] = default if isinstance(default, Field) else field(default=default)
        declared.name, declared.type = name, annotation
        if declared.default is not MISSING:
            namespace[name] = declared.default
    compared = tuple(f.name for f in known.values() if f.compare)
    methods = {
        "__init__": _InitOnUse(known, frozen, hasattr(cls, "__post_init__")),
        "__repr__": _repr(tuple(f.name for f in known.values() if f.repr)),
        "__eq__": _equal(compared),
        "__hash__": _hash(compared) if frozen else None,
    }
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
        methods["__reduce__"] = _reduce(tuple(name for name, f in known.items() if f.init))
    for name, method in methods.items():
        # Python sets __hash__ = None in a class that defines __eq__ alone.
        if name not in namespace or (name == "__hash__" and namespace[name] is None):
            namespace[name] = method
    namespace["__match_args__"] = tuple(f.name for f in known.values() if f.init)
    namespace[_FIELDS] = known
    namespace["__dataclass_fields__"] = _StandardFields()
    if slots:
        for name in known:
            namespace.pop(name, None)
        namespace["__slots__"] = tuple(n for n in known if n not in inherited)
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    new_class = type(cls)(cls.__name__, cls.__bases__, namespace)
    new_class.__qualname__ = cls.__qualname__
    return new_class


class _InitOnUse:
    """The `__init__` of a class until its first use, which generates the function that replaces it."""

    __slots__ = ("fields", "frozen", "owner", "then")
    owner: Any

    def __init__(self, fields: dict[str, Field[Any]], frozen: bool, then: bool) -> None:
        self.fields, self.frozen, self.then = fields, frozen, then

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner = owner

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        init = self.owner.__init__ = _init(self.fields, self.frozen, self.then)
        return init if instance is None else init.__get__(instance)


def _init(known: dict[str, Field[Any]], frozen: bool, then: bool) -> Any:
    """The `__init__` of a class: the code of one example with the names of the fields, because compiling a function
    for each class took a fortieth of the time of a first launch."""
    names = tuple(f.name for f in known.values() if f.init)
    count = len(names)
    is_default = [f.default is not MISSING or _is_made(f) for f in known.values() if f.init]
    if is_default != sorted(is_default):
        raise TypeError(f"a field without a default follows one with a default: {', '.join(known)}")
    example = _example(max(count, MANY_FIELDS))
    renamed = dict(zip(_numbers(count), names, strict=True))
    code = example.replace(
        co_argcount=count + 1,
        co_varnames=("self", *names, *example.co_varnames[count + 1 :]),
        co_consts=tuple(renamed.get(x, x) for x in example.co_consts),
    )
    defaults = tuple(f.default for f in known.values() if f.init)[count - sum(is_default) :]
    assign = object.__setattr__ if frozen else setattr
    scope = {"_set": assign, "_count": count}
    init = FunctionType(code, scope, "__init__", defaults)
    is_complete = not then and not any(map(_is_made, known.values()))
    return init if is_complete else _completed(init, known, then, assign)


MANY_FIELDS = 16
"""The number of fields up to which all classes share an example."""


def _numbers(count: int) -> list[str]:
    """The names of the fields of an example."""
    return [f"_{k}" for k in range(count)]


@cache
def _example(count: int) -> CodeType:
    """The code of the `__init__` of a class with at most `count` fields, which sets the first `_count` of them. A class
    with fewer parameters has the same code."""
    lines = [
        f"if _count == {k}: return\n _set(self, '{name}', {name})" for k, name in enumerate(_numbers(count))
    ]
    scope: dict[str, Any] = {}
    exec(f"def __init__({', '.join(('self', *_numbers(count)))}):\n " + "\n ".join((*lines, "pass")), scope)
    return scope["__init__"].__code__


def _completed(init: Any, known: Mapping[str, Field[Any]], then: bool, assign: Callable[..., None]) -> Any:
    """An `__init__` that passes defaults that functions make, sets the fields that are no parameters, and calls
    `__post_init__`."""
    parameters = [f for f in known.values() if f.init]
    makes: dict[str, Any] = {f.name: f.default_factory for f in known.values() if _is_made(f)}
    passed = [(k, f.name, makes[f.name]) for k, f in enumerate(parameters) if f.name in makes]
    others = {name: make for name, make in makes.items() if not known[name].init}

    def __init__(self: Any, *args: Any, **options: Any) -> None:
        count = len(args)
        for position, name, make in passed:
            if position >= count and name not in options:
                options[name] = make()
        init(self, *args, **options)
        for name, make in others.items():
            assign(self, name, make())
        if then:
            self.__post_init__()

    __init__.__wrapped__ = init  # the signature that `inspect` shows
    return __init__


def _is_made(f: Field[Any]) -> bool:
    """Whether a function makes the default of a field."""
    return f.default_factory is not MISSING


def _getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda x: ()
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda x: (get(x),)


def _equal(names: tuple[str, ...]) -> Any:
    get = _getter(names)

    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return get(self) == get(other)

    return __eq__


def _hash(names: tuple[str, ...]) -> Any:
    get = _getter(names)

    def __hash__(self: Any) -> int:
        return hash(get(self))

    return __hash__


def _reduce(names: tuple[str, ...]) -> Any:
    """The `__reduce__` of frozen classes: objects are pickled and copied by construction, because fields cannot be
    set."""
    get = _getter(names)

    def __reduce__(self: Any) -> Any:
        return type(self), get(self)

    return __reduce__


def _repr(names: tuple[str, ...]) -> Any:
    def __repr__(self: Any) -> str:
        parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({parts})"

    return __repr__


def _refuse(self: Any, name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r}")


class _StandardFields:
    """The attribute that `dataclasses.fields` and `replace` read, computed on access."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Field[Any]]:
        known: dict[str, Field[Any]] = getattr(owner, _FIELDS)
        for f in known.values():
            f._field_type = _ordinary()  # pyright: ignore
        return known


@cache
def _ordinary() -> Any:
    """The standard library's mark of ordinary fields, which are neither class variables nor for `__init__` only."""
    from dataclasses import make_dataclass

    return make_dataclass("Kind", ["x"]).__dataclass_fields__["x"]._field_type  # pyright: ignore


__all__ = ["dataclass", "field", "field_names", "replace"]
