"""Annotations of parameters, and their types."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin

from tegula.dataclass import dataclass
from tegula.signature import (
    PATTERNS,
    ConstantPattern,
    Dtypes,
    Element,
    ElementPattern,
    Extent,
    Extents,
    OptionalPattern,
    Pattern,
    Tile,
    TilePattern,
    constexpr,
)
from tegula.structs import StructType
from tegula.types import ArrayType, BufType, ElementType, StackType, TileType, element_type, is_element


class _Any:
    """The annotation of a generic parameter, which matches any type."""

    def __repr__(self) -> str:
        return "Any"


ANY = _Any()


@dataclass(frozen=True, slots=True)
class ArrayAnnotation:
    """`tg.array[T]`, `tg.array2d[T]`, `tg.array(dtype=T, ndim=n)`; a missing dtype or number of dimensions matches
    every one."""

    dtype: ElementType | _Any
    ndim: int | _Any

    def __str__(self) -> str:
        return f"array{self.ndim}d[{self.dtype}]"

    def __or__(self, other: object) -> ArrayAnnotation:
        """`tg.array[T] | None`: every array parameter accepts None."""
        return self if other is None else NotImplemented

    def matches(self, t: object) -> bool:
        """Whether a type is an array of this dtype and number of dimensions."""
        return isinstance(t, ArrayType) and _is_equal(self.ndim, t.ndim) and _is_equal(self.dtype, t.dtype)


@dataclass(frozen=True, slots=True)
class IndexedAnnotation:
    """An array indexed by index arrays: `tg.indexedarray[T]`, `tg.indexedarray2d[T]`, `tg.indexedarray(dtype=T,
    ndim=n)`."""

    array: ArrayAnnotation
    is_indexed: ClassVar[bool] = True

    @property
    def dtype(self) -> ElementType | _Any:
        """The type of the elements."""
        return self.array.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        assert isinstance(self.array.ndim, int)
        return self.array.ndim

    def __str__(self) -> str:
        return f"indexed {self.array}"

    def __or__(self, other: object) -> IndexedAnnotation:
        """`tg.indexedarray[T] | None`: every array parameter accepts None."""
        return self if other is None else NotImplemented

    def matches(self, t: object) -> bool:
        """Whether a type is an array of this dtype and number of dimensions; in kernels arrays and indexed arrays have
        one type."""
        return self.array.matches(t)


@dataclass(frozen=True, slots=True)
class TileAnnotation:
    """`tg.tile[T, M, N]`, `tg.tile(dtype=T, shape=(M, N))`; Any matches every dtype or extent."""

    dtype: ElementType | _Any
    shape: tuple[int | _Any, ...]

    def __str__(self) -> str:
        return f"tile[{', '.join(map(str, (self.dtype, *self.shape)))}]"

    def matches(self, t: object) -> bool:
        """Whether a type is a tile of this dtype and shape."""
        return (
            isinstance(t, TileType | BufType)
            and len(t.shape) == len(self.shape)
            and all(_is_equal(n, m) for n, m in zip(self.shape, t.shape, strict=True))
            and _is_equal(self.dtype, t.dtype)
        )

    @property
    def pattern(self) -> TilePattern:
        """The pattern of this annotation in the signature of a cooperative function."""
        dtype = Element if isinstance(self.dtype, _Any) else self.dtype
        shape = (Extent(f"n{k}") if isinstance(n, _Any) else n for k, n in enumerate(self.shape))
        return TilePattern(dtype, tuple(shape))


@dataclass(frozen=True, slots=True)
class StackAnnotation:
    """`tg.tile_stack(capacity=n, dtype=T)` as the type of a parameter."""

    dtype: ElementType
    capacity: int

    def __str__(self) -> str:
        return str(StackType(self.dtype, self.capacity))

    def matches(self, t: object) -> bool:
        """Whether a type is a stack of this dtype and capacity."""
        return t == StackType(self.dtype, self.capacity)


def stack_annotation(capacity: int, dtype: object) -> StackAnnotation:
    """The annotation `tg.tile_stack(capacity=n, dtype=T)`. TypeError for a capacity that is not a positive integer."""
    if type(capacity) is not int or capacity < 1:
        raise TypeError(f"the capacity of a stack must be a positive integer, got {capacity!r}")
    return StackAnnotation(element_type(dtype), capacity)


def _is_equal(pattern: object, actual: object) -> bool:
    return pattern is ANY or pattern == actual


def element_or_any(annotation: object) -> ElementType | _Any:
    """The element type of an annotation, or ANY; TypeError for other annotations."""
    return ANY if is_any(annotation) else element_type(annotation)


def is_any(annotation: object) -> bool:
    """Whether an annotation matches every type."""
    return annotation is Any or annotation is ANY or annotation is None


def array_annotation(item: object, ndim: int) -> ArrayAnnotation:
    """The annotation `tg.array[item]` (ndim 1), `tg.array2d[item]`, ...; `tg.array[T, Literal[2]]` has two
    dimensions."""
    if isinstance(item, tuple):
        item, *rest = item
        literal = get_args(rest[0]) if len(rest) == 1 and get_origin(rest[0]) is Literal else ()
        if len(literal) != 1 or type(literal[0]) is not int:
            raise TypeError(
                "an array type needs a dtype and a number of dimensions: tg.array[float, Literal[2]]"
            )
        ndim = literal[0]
    return ArrayAnnotation(element_or_any(item), ndim)


def tile_annotation(dtype: object, shape: int | tuple[object, ...]) -> TileAnnotation:
    """The annotation `tg.tile[dtype, *shape]`. TypeError if an extent is neither an int nor Any."""
    entries = shape if isinstance(shape, tuple) else (shape,)
    extents: list[int | _Any] = []
    for n in entries:
        if is_any(n):
            extents.append(ANY)
        elif isinstance(n, int) and not isinstance(n, bool):
            extents.append(n)
        else:
            raise TypeError(f"{n!r} is not a tile extent: use a number")
    return TileAnnotation(element_or_any(dtype), tuple(extents))


class tile:
    """A tile, as an annotation: `tile[float, M, N]` or `tile(dtype=float, shape=(M, N))`."""

    def __new__(cls, dtype: object = None, shape: int | tuple[object, ...] = ()) -> TileAnnotation:
        return tile_annotation(dtype, shape)

    def __class_getitem__(cls, item: object) -> TileAnnotation | TilePattern:
        """The annotation of a tile; with letters, a class of dtypes or `...`, the pattern of a parameter of a
        cooperative function."""
        dtype, *shape = item if isinstance(item, tuple) else (item,)
        if isinstance(dtype, Dtypes):
            return Tile[item]
        if any(n is ... or isinstance(n, Extent | Extents) for n in shape):
            return Tile[Element if is_any(dtype) else element_type(dtype), *shape]
        return tile_annotation(dtype, tuple(shape))


@dataclass(frozen=True, slots=True)
class _Arrays:
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES."""

    ndim: int
    kind: str = "array"

    def __getitem__(self, item: object) -> ArrayAnnotation | IndexedAnnotation:
        annotation = array_annotation(item, self.ndim)
        return annotation if self.kind == "array" else IndexedAnnotation(annotation)

    def __call__(self, data: object = None, dtype: object = None, *args: Any, **kwargs: Any) -> Any:
        memory = args or not {"shape", "ptr"}.isdisjoint(kwargs)
        if not memory and (data is None or (dtype is None and not kwargs and _is_annotation(data))):
            return self[dtype if data is None else data]
        return CLASSES[self.kind](data, dtype, *args, ndim=self.ndim, **kwargs)


def _is_annotation(item: object) -> bool:
    """Whether the only argument of `array1d(...)` is an element type, and not data."""
    try:
        element_or_any(item)
    except (TypeError, KeyError):
        return False
    return True


CLASSES: dict[str, Any] = {}
"""The classes of arrays by name, which the runtime adds when it is loaded."""

array1d, array2d, array3d, array4d = (_Arrays(n) for n in (1, 2, 3, 4))
indexedarray1d, indexedarray2d, indexedarray3d, indexedarray4d = (
    _Arrays(n, "indexedarray") for n in (1, 2, 3, 4)
)


Annotation = (
    ElementType
    | StructType
    | ArrayAnnotation
    | IndexedAnnotation
    | TileAnnotation
    | StackAnnotation
    | Pattern
    | OptionalPattern
    | ElementPattern
    | Dtypes
    | type
    | _Any
)
GENERIC = "__tegula_annotation__"
"""The attribute of a class with the annotation that the class stands for. If the annotation is a struct, launches pass
`in_kernels()` of an instance."""
ARRAYS = ArrayAnnotation(ANY, ANY)
"""Arrays of every dtype and number of dimensions: `tg.array`."""


def is_compound(annotation: object) -> bool:
    """Whether an annotation is a struct, an array of structs or an indexed array."""
    of_structs = isinstance(annotation, ArrayAnnotation) and isinstance(annotation.dtype, StructType)
    return of_structs or isinstance(annotation, StructType | IndexedAnnotation)


def constant_pattern(annotation: object) -> object:
    """The pattern of any constant for `tg.constexpr`; other annotations unchanged."""
    return ConstantPattern(object) if annotation is constexpr else annotation


def _optional_type(union: object) -> object:
    """The type T of `T | None`; TypeError for another union."""
    types = [part for part in get_args(union) if part is not NoneType]
    if len(types) != 1:
        raise TypeError(f"{union!r} is not a type that kernels support")
    return types[0]


def resolve(annotation: object) -> Annotation:
    """The Tegula annotation for an annotation object; TypeError if it has no meaning in kernels.

    Classes other than float, int and bool (str, a Callable, ...) are unchanged."""
    if is_any(annotation):
        return ANY
    if get_origin(annotation) in (Union, UnionType):
        annotation = _optional_type(annotation)
    annotation = constant_pattern(getattr(annotation, GENERIC, annotation))
    annotation_types = (ArrayAnnotation, IndexedAnnotation, TileAnnotation, StackAnnotation)
    if isinstance(annotation, (*annotation_types, StructType, ElementPattern, *PATTERNS)) or is_element(
        annotation
    ):
        return annotation
    dtype, ndim = getattr(annotation, "dtype", None), getattr(annotation, "ndim", None)
    if dtype is not None and isinstance(ndim, int):
        return array_annotation(dtype, ndim)
    try:
        return element_type(annotation)
    except (TypeError, KeyError):
        pass
    if annotation is tile:
        return ANY
    if isinstance(annotation, type) or callable(annotation):
        return annotation  # type: ignore[return-value]
    raise TypeError(f"{annotation!r} is not a type that kernels support")
