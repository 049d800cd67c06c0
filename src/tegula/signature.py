"""Signatures of cooperative functions: extents, classes of dtypes, tiles that the function modifies. A call is checked
by unifying the signature's patterns with the types of the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from tegula.dataclass import dataclass, field
from tegula.structs import StructType
from tegula.types import (
    DType,
    ElementType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
    is_element,
    scalar_of,
    uint32,
    uint64,
    with_scalar,
)

Shape: TypeAlias = tuple[int, ...]


class Extent:
    """A letter for the extent of a dimension in the signature of a cooperative function: the same number in all
    occurrences, and the value of the constant parameter of the same name, if there is one.

    Parameters:
        name: a string.
        optional: whether the dimension may be missing, together with all following dimensions.
        value: for results, a function of other letters by name that gives the number; None by default.
    Raises:
        nothing.
    """

    __slots__ = ("name", "optional", "value")

    def __init__(self, name: str, *, optional: bool = False, value: Callable[..., int] | None = None) -> None:
        self.name = name
        self.optional = optional
        self.value = value

    def __repr__(self) -> str:
        return self.name


class Extents:
    """A name for all dimensions of a tile, of any rank, in the signature of a cooperative function, as in
    `tg.tile[tg.Key, *S]`: the same shape in all occurrences.

    Parameters:
        name: a string.
        value: for results, a function of other letters and of constant parameters by name that gives all lengths as a
            tuple; None by default.
    Raises:
        nothing.
    """

    __slots__ = ("name", "value")

    def __init__(self, name: str, *, value: Callable[..., Shape] | None = None) -> None:
        self.name = name
        self.value = value

    def __iter__(self) -> Iterator[Extents]:
        yield self

    def __repr__(self) -> str:
        return f"*{self.name}"


class Dtypes:
    """A class of dtypes in the signature of a cooperative function: a call selects one member, the same in all
    occurrences.

    Parameters:
        name: a string.
        *members: dtypes; without members any dtype of scalars, vectors or matrices, which may differ between tiles.
        computed: a dictionary from members to the dtypes in which programs run instead; results are rounded once.
        compound: whether vectors and matrices of the members are members too; False by default.
        value: for results, a function of the dtypes of other classes by name that gives the dtype; None by default.
    Raises:
        nothing.
    """

    __slots__ = ("compound", "computed", "members", "name", "value")

    def __init__(
        self,
        name: str,
        *members: ElementType,
        computed: Mapping[DType, DType] | None = None,
        compound: bool = False,
        value: Callable[..., ElementType] | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.members = members
        self.computed = dict(computed or {})
        self.compound = compound

    def __repr__(self) -> str:
        return self.name

    @property
    def described(self) -> str:
        """The members as text for messages."""
        each = ", ".join(map(str, self.members))
        return f"{each}, or vectors or matrices of these" if self.compound else each or "any dtype"


def is_in(dtypes: Dtypes, t: ElementType) -> bool:
    """Whether a dtype is a member of a class."""
    return not dtypes.members or (scalar_of(t) if dtypes.compound else t) in dtypes.members


def run_in(dtypes: Dtypes, t: ElementType) -> ElementType:
    """The dtype in which programs run for an argument's dtype."""
    scalar = scalar_of(t)
    return with_scalar(t, dtypes.computed.get(scalar, scalar)) if scalar == t or dtypes.compound else t


Real = Dtypes("Real", float16, bfloat16, float32, float64, computed={float16: float32, bfloat16: float32})
"""Floats; float16 and bfloat16 are computed in float32."""
Key = Dtypes("Key", float32, float64, int32, int64, uint32, uint64)
"""The dtypes of keys of `tile_sort`."""
Element = Dtypes("Element")
"""All element types of tiles."""

Entry: TypeAlias = "int | Extent | Extents"


@dataclass(frozen=True, slots=True)
class TilePattern:
    """The pattern of a tile. `batch`: the tile may have leading batch dimensions, the same in all tiles with `batch`;
    programs run on one element of the batch."""

    dtype: Dtypes | ElementType
    shape: tuple[Entry, ...]
    batch: bool = False

    def __str__(self) -> str:
        dims = [*(["..."] if self.batch else []), *(_entry(n) for n in self.shape)]
        return f"tile[{', '.join([str(self.dtype), *dims])}]"

    @property
    def forms(self) -> list[tuple[Entry, ...]]:
        """The shapes without and with optional dimensions."""
        cuts = [k for k, n in enumerate(self.shape) if isinstance(n, Extent) and n.optional]
        return [self.shape[:k] for k in cuts] + [self.shape]


@dataclass(frozen=True, slots=True)
class OptionalPattern:
    """The pattern of a result that a call gives where the constant parameter `name` is true."""

    name: str
    tile: TilePattern

    def __str__(self) -> str:
        return f"Asked[{self.name!r}, {self.tile}]"


@dataclass(frozen=True, slots=True)
class InOutPattern:
    """The pattern of a tile that the function changes."""

    tile: TilePattern

    def __str__(self) -> str:
        return f"InOut[{self.tile}]"


@dataclass(frozen=True, slots=True)
class InOutElement:
    """A parameter of a function of elements that the function changes for its caller. `type`: the annotation of its
    value."""

    type: Any

    def __str__(self) -> str:
        return f"InOut[{self.type}]"


@dataclass(frozen=True, slots=True)
class ConstantPattern:
    """The pattern of a compile-time constant: a value of a Python type, or one of `choices`."""

    kind: type
    choices: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.kind is object:
            return "constexpr"
        return f"constexpr[{', '.join(map(repr, self.choices)) or self.kind.__name__}]"

    @property
    def described(self) -> str:
        """The accepted values in words."""
        if self.kind is object:
            return "that kernels can capture"
        return " or ".join(map(repr, self.choices)) or f"of type {self.kind.__name__}"

    def has(self, x: object) -> bool:
        """Whether the parameter takes a value. True and 1 are different values."""
        is_of_kind = isinstance(x, self.kind) and not (self.kind is int and isinstance(x, bool))
        return is_of_kind and (not self.choices or any(x == c for c in self.choices))


@dataclass(frozen=True, slots=True)
class NumberPattern:
    """The pattern of a scalar that is the same in all threads of the group."""

    dtype: Dtypes | ElementType

    def __str__(self) -> str:
        return str(self.dtype)


@dataclass(frozen=True, slots=True)
class ElementPattern:
    """An element type over any float dtype, the same in all parameters of a function. `of`: the element type over
    float32; `described`: its name in messages."""

    of: ElementType
    described: str

    def __str__(self) -> str:
        return self.described

    def matches(self, t: object) -> bool:
        """Whether a type matches the pattern."""
        return is_element(t) and scalar_of(t) in FLOATS and with_scalar(t, float32) == self.of


FLOATS = (float16, bfloat16, float32, float64)

Pattern: TypeAlias = TilePattern | InOutPattern | ConstantPattern | NumberPattern
PATTERNS = (TilePattern, OptionalPattern, InOutPattern, ConstantPattern, NumberPattern, Dtypes)


def _entry(n: Entry) -> str:
    return f"{n}?" if isinstance(n, Extent) and n.optional else str(n)


def extents_of_form(form: Sequence[Entry]) -> Extents | None:
    """The name for all dimensions of a tile, if the pattern has one."""
    return next((n for n in form if isinstance(n, Extents)), None)


def scalar_bound(annotations: Sequence[object], types: Sequence[object]) -> DType | None:
    """The dtype that the arguments of a function give to its patterns of elements; None if no argument determines
    it."""
    bound = (
        t for a, t in zip(annotations, types, strict=True) if isinstance(a, ElementPattern) and a.matches(t)
    )
    first: Any = next(bound, None)
    return None if first is None else scalar_of(first)


class _Tile:
    """`Tile[Real, ..., N, N]`: a tile as an annotation of a cooperative function."""

    def __class_getitem__(cls, item: Any) -> TilePattern:
        dtype, *shape = item if isinstance(item, tuple) else (item,)
        batch = bool(shape) and shape[0] is ...
        entries = tuple(shape[batch:])
        for n in entries:
            if not isinstance(n, int | Extent | Extents) or isinstance(n, bool):
                raise TypeError(f"{n!r} is not an extent of a tile: use a number or a tg.Extent")
        if any(isinstance(n, Extents) for n in entries) and (batch or len(entries) > 1):
            raise TypeError(
                "tg.Extents stands for all dimensions of a tile and cannot be combined with other extents"
            )
        if not isinstance(dtype, Dtypes) and not is_element(dtype):
            raise TypeError(f"{dtype!r} is not a dtype or a class of dtypes (tg.Dtypes)")
        return TilePattern(dtype, entries, batch)


class _InOut:
    """`InOut[Tile[...]]`: a tile that the function changes. Two such arguments may be the same tile. `InOut[uint32]`: a
    variable of the caller that a function of elements changes; its type may be a pattern of elements."""

    def __class_getitem__(cls, item: Any) -> InOutPattern | InOutElement:
        tile = getattr(item, "pattern", item)
        if isinstance(tile, TilePattern):
            return InOutPattern(tile)
        known = is_element(item) or isinstance(item, ElementPattern | StructType)
        if item is not Any and not known and item not in (float, int, bool):
            raise TypeError(f"InOut takes a tile, or a scalar, vector, matrix or struct type, got {item!r}")
        return InOutElement(item)


class _Asked:
    """`Asked["info", Tile[int32, ..., 1]]`: a result that programs always return, and that a call gives where the
    constant parameter of that name is true."""

    def __class_getitem__(cls, item: Any) -> OptionalPattern:
        name, tile = item if isinstance(item, tuple) and len(item) == 2 else (None, item)
        pattern = getattr(tile, "pattern", tile)
        if not isinstance(name, str) or not isinstance(pattern, TilePattern):
            raise TypeError(f"Asked takes the name of a constant parameter and a tile, got {item!r}")
        return OptionalPattern(name, pattern)


class _Constexpr:
    """A parameter of a kernel or function whose value is known when a kernel is compiled: `constexpr`, any value that
    kernels can capture; `constexpr[int]`, a value of this Python type; `constexpr["a", "b"]`, one of these values."""

    def __class_getitem__(cls, item: Any) -> ConstantPattern:
        if isinstance(item, type):
            return ConstantPattern(item)
        choices = item if isinstance(item, tuple) else (item,)
        kinds = {type(c) for c in choices}
        if len(kinds) != 1:
            raise TypeError(f"constexpr takes a Python type, or values of one type, got {item!r}")
        return ConstantPattern(kinds.pop(), choices)


# Type checkers see `Any`, because parameters with these annotations are tiles and constants in programs.
Tile: Any = _Tile
InOut: Any = _InOut
Asked: Any = _Asked
constexpr: Any = _Constexpr


# Unifying -------------------------------------------------------------------------------------------------------------


class SignatureMismatch(Exception):
    """Raised if an argument does not fit the signature. `shapes`: the two mismatched shapes, if any."""

    def __init__(
        self, parameter: str, fault: str, help: str = "", shapes: tuple[Shape, Shape] | None = None
    ) -> None:
        super().__init__(fault)
        self.parameter = parameter
        self.what = fault
        self.help = help
        self.shapes = shapes


@dataclass(slots=True)
class Unified:
    """The extents of letters and the dtypes of classes in a call. `core`: the shape of each tile without the batch
    dimensions. `batch`: the batch dimensions; None before the first tile with a batch. `constants`: the constant
    arguments by name."""

    letters: dict[str, int | Shape]
    dtypes: dict[str, ElementType]
    core: dict[str, Shape]
    batch: Shape | None = None
    constants: dict[str, Any] = field(default_factory=dict)

    def extent(self, n: Entry) -> int | Shape:
        """The extent of a dimension of a result; -1 for a letter that no argument determines."""
        if isinstance(n, int):
            return n
        if n.value is None:
            return self.letters.get(n.name, -1)
        return _evaluate(n.value, {**self.constants, **self.letters})

    def dtype(self, known: Dtypes | ElementType) -> ElementType | None:
        """The dtype of a result; None for a class that no argument determines."""
        if not isinstance(known, Dtypes):
            return known
        return self.dtypes.get(known.name) if known.value is None else _evaluate(known.value, self.dtypes)

    @property
    def facts(self) -> dict[str, Any]:
        """The extents of letters and the dtypes of classes, by name."""
        return {**self.letters, **self.dtypes}


def _evaluate(value: Callable[..., Any], known: Mapping[str, Any]) -> Any:
    """Call a function of letters or classes of dtypes with the values of its parameters."""
    return value(**{name: known[name] for name in inspect.signature(value).parameters})


@dataclass(frozen=True, slots=True)
class TileArgument:
    """The dtype and shape of a tile argument."""

    dtype: ElementType
    shape: Shape


class Unifier:
    """Unifies the tiles of a call, one after another. `origin`: by letter or class, the first parameter with the
    letter, its pattern and its shape."""

    def __init__(self) -> None:
        self.unified = Unified({}, {}, {})
        self.origin: dict[str, tuple[str, TilePattern, Shape]] = {}

    def tiles(self, arguments: Sequence[tuple[str, TilePattern, TileArgument]]) -> Unified:
        """Unify tiles with their patterns; SignatureMismatch if a tile does not fit. Tiles with optional extents are
        last, because the other tiles determine the batch."""
        for name, pattern, tile in sorted(arguments, key=lambda argument: len(argument[1].forms)):
            self.dtype(name, pattern.dtype, tile.dtype)
            self._tile(name, pattern, tile)
        return self.unified

    def constant(self, name: str, value: object) -> None:
        """Record a constant argument; an integer is also the extent of the same name."""
        self.unified.constants[name] = value
        if isinstance(value, int) and not isinstance(value, bool):
            self.unified.letters[name] = value

    def dtype(self, name: str, expected: Dtypes | ElementType, actual: ElementType) -> None:
        """Unify a parameter's dtype with its pattern; SignatureMismatch if it does not fit."""
        if not isinstance(expected, Dtypes):
            if actual != expected:
                raise SignatureMismatch(name, f"'{name}' must be of {expected}, got {actual}")
            return
        if not is_in(expected, actual):
            raise SignatureMismatch(name, f"'{name}' must be of {expected.described}, got {actual}")
        if expected.members and self.unified.dtypes.setdefault(expected.name, actual) != actual:
            first_name, *_ = self.origin["dtype " + expected.name]
            message = f"'{name}' is of {actual} and '{first_name}' of {self.unified.dtypes[expected.name]}"
            raise SignatureMismatch(name, message, "convert one of the arguments: tg.tile_astype")
        self.origin.setdefault("dtype " + expected.name, (name, TilePattern(expected, ()), ()))

    def _tile(self, name: str, pattern: TilePattern, tile: TileArgument) -> None:
        first_mismatch: SignatureMismatch | None = None
        for form in self._forms(pattern, tile.shape):
            state = dict(self.unified.letters), self.unified.batch, dict(self.origin)
            try:
                self._shape(name, pattern, form, tile.shape)
                return
            except SignatureMismatch as e:
                self.unified.letters, self.unified.batch, self.origin = state
                first_mismatch = first_mismatch or e
        if first_mismatch is None and pattern.batch and "batch" in self.origin:
            first_name, _, origin_shape = self.origin["batch"]
            help = f"the batch of '{first_name}' is {self.unified.batch}, '{name}' is a {pattern}"
            fault = f"the batches of '{first_name}' and '{name}'"
            raise SignatureMismatch(name, fault, help, (origin_shape, tile.shape))
        if first_mismatch is None:
            message = f"'{name}' must be a {pattern}, got the shape {tile.shape}"
            raise SignatureMismatch(name, message)
        raise first_mismatch

    def _forms(self, pattern: TilePattern, shape: Shape) -> Iterator[tuple[Entry, ...]]:
        for form in pattern.forms:
            extra = len(shape) - len(form)
            if extents_of_form(form) is not None:
                fits = True
            elif pattern.batch:
                fits = extra == len(self.unified.batch) if self.unified.batch is not None else extra >= 0
            else:
                fits = extra == 0
            if fits:
                yield form

    def _shape(self, name: str, pattern: TilePattern, form: tuple[Entry, ...], shape: Shape) -> None:
        all_extents = extents_of_form(form)
        batch_rank = 0 if all_extents is not None else len(shape) - len(form)
        batch, core = shape[:batch_rank], shape[batch_rank:]
        dimensions = [(all_extents, shape)] if all_extents is not None else zip(form, core, strict=True)
        for entry, n in dimensions:
            letter = None if isinstance(entry, int) else entry.name
            known = entry if isinstance(entry, int) else self.unified.letters.setdefault(entry.name, n)
            if letter is not None:
                self.origin.setdefault(letter, (name, pattern, shape))
            if known != n:
                raise self._differ(name, pattern, shape, letter, known, n)
        if pattern.batch:
            if self.unified.batch is not None and self.unified.batch != batch:
                first_name, _, origin_shape = self.origin["batch"]
                message = (
                    f"the batches of '{first_name}' and '{name}' differ: {self.unified.batch} and {batch}"
                )
                raise SignatureMismatch(name, message, shapes=(origin_shape, shape))
            self.unified.batch = batch
            self.origin.setdefault("batch", (name, pattern, shape))
        self.unified.core[name] = core

    def _differ(
        self,
        name: str,
        pattern: TilePattern,
        shape: Shape,
        letter: str | None,
        known: int | Shape,
        n: int | Shape,
    ) -> SignatureMismatch:
        if letter is None:
            return SignatureMismatch(name, f"'{name}' must be a {pattern}, got the shape {shape}")
        first_name, origin_pattern, origin_shape = self.origin[letter]
        if first_name == name:  # a constant, or another dimension
            message = f"'{name}' must be a {pattern}, got the shape {shape}: {letter} is {known} and {n}"
            return SignatureMismatch(name, message)
        help = f"{letter} is {known} in '{first_name}', a {origin_pattern}, and {n} in '{name}', a {pattern}"
        return SignatureMismatch(name, f"'{first_name}' and '{name}'", help, (origin_shape, shape))


__all__ = [
    "PATTERNS",
    "ConstantPattern",
    "Dtypes",
    "Element",
    "Extent",
    "Extents",
    "InOut",
    "InOutElement",
    "InOutPattern",
    "Key",
    "NumberPattern",
    "Pattern",
    "Real",
    "SignatureMismatch",
    "Tile",
    "TileArgument",
    "TilePattern",
    "Unified",
    "Unifier",
    "constexpr",
    "extents_of_form",
    "is_in",
    "run_in",
]
