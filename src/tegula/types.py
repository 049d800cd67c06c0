"""Types of the language and of the IR: element types, tiles, buffers, arrays, stacks, pipes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeAlias, TypeGuard, cast

import numpy as np

from tegula.algebra import QUATERNION, TRANSFORM, VECTOR, Algebra
from tegula.composite import Composite, Matrix, Vector, composite
from tegula.dataclass import dataclass
from tegula.fitting import fitted, listed, truncated


class Compound:
    """The type of a struct (`structs.py`): an element type of host arrays that kernels flatten. The functions of this
    module treat it as a scalar type."""

    __slots__ = ()
    kind = "s"
    is_int = is_bool = is_signed = False

    @property
    def dtype(self) -> Compound:
        """The type itself, which is also the type of its components."""
        return self

    def numpy_dtype(self) -> np.dtype[Any]:
        """The layout in memory."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DType:
    """A scalar type. `kind` is "b" (bool), "i" (signed), "u" (unsigned) or "f" (float); `bits` its width in memory."""

    name: str
    kind: str
    bits: int

    __eq__, __hash__ = object.__eq__, object.__hash__  # There is one object for each type.

    def __str__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        """The name of the type, like a class's `__name__`."""
        return self.name

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        return self.name

    def __repr__(self) -> str:
        return f"tg.{self.name}"

    def __reduce__(self) -> Any:
        """Pickle the type by name, because there is one object for each type."""
        return _named, (self.name,)

    def __call__(self, value: object = 0) -> Any:
        """A number of this type, as in tg.float32(2): in kernels the cast of a value, tg.cast; on the host the NumPy
        scalar. Floats are truncated to integers.

        Parameters:
            value: a number, vector or matrix, in kernels also a tile, of which each component is converted; 0 by
                default.
        Returns:
            a value of the shape of `value` with components of this type.
        Raises:
            number: on the host: `value` is outside the range of the type, or not a number.
            type-mismatch: in kernels: `value` is not a scalar, vector, matrix or tile, or there are several arguments.
            out-of-range: in kernels: a literal does not fit an integer type.
        Gradient:
            the adjoint, converted; refused (no-gradient) where floats became integers on the way.
        """
        numpy_dtype = to_numpy(self)
        data = listed(value, numpy_dtype)
        if self.is_int:
            data = truncated(data)
        elif self.is_bool:
            data = data != 0
        number: Any = fitted(data, numpy_dtype, self.name)
        if isinstance(value, (Vector, Matrix)):
            return composite(of_shape(value.shape, self), np.array(number))
        return number[()]

    @property
    def is_float(self) -> bool:
        """Whether the type is a float type."""
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        """Whether the type is an integer type, signed or not."""
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        """Whether the type is bool."""
        return self.kind == "b"

    @property
    def is_signed(self) -> bool:
        """Whether the type has negative numbers."""
        return self.kind in "if"


bool_ = DType("bool", "b", 8)
int8 = DType("int8", "i", 8)
int16 = DType("int16", "i", 16)
int32 = DType("int32", "i", 32)
int64 = DType("int64", "i", 64)
uint8 = DType("uint8", "u", 8)
uint16 = DType("uint16", "u", 16)
uint32 = DType("uint32", "u", 32)
uint64 = DType("uint64", "u", 64)
float16 = DType("float16", "f", 16)
bfloat16 = DType("bfloat16", "f", 16)
float32 = DType("float32", "f", 32)
float64 = DType("float64", "f", 64)
float8_e4m3 = DType("float8_e4m3", "f", 8)
float8_e5m2 = DType("float8_e5m2", "f", 8)

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        *(bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64),
        *(float16, bfloat16, float32, float64, float8_e4m3, float8_e5m2),
    )
}


def _named(name: str) -> DType:
    return DTYPES[name]


_ML_DTYPES = {bfloat16: "bfloat16", float8_e4m3: "float8_e4m3fn", float8_e5m2: "float8_e5m2"}
"""The NumPy types that ml_dtypes defines, which is imported on first use."""
_NUMPY: dict[DType, np.dtype] = {d: np.dtype(d.name) for d in DTYPES.values() if d not in _ML_DTYPES}
_BY_NUMPY_NAME: dict[str, DType] = {_ML_DTYPES.get(d, d.name): d for d in DTYPES.values()}


@dataclass(frozen=True, slots=True)
class VecType:
    """A vector of `length` scalars, stored contiguously, with the algebra of plain vectors, quaternions or
    transforms."""

    length: int
    dtype: DType
    algebra: Algebra = VECTOR

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        length = f"{self.length}," if self.algebra.is_plain else ""
        return f"{self.algebra.name}<{length}{self.dtype}>"

    def __str__(self) -> str:
        return _named_element(self, "")

    __repr__ = __str__

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape (length,)."""
        return (self.length,)

    @property
    def memory_dtype(self) -> np.dtype:
        """NumPy's type of the components."""
        return to_numpy(self.dtype)

    @property
    def short_name(self) -> str:
        """The name that begins the text of a value: vec3f, or vector(5, float32)."""
        return short_name(self)

    def part(self, name: str) -> tuple[tuple[int, ...], VecType | None] | None:
        """The indices of the components of a named part, and the part's type, None for a scalar; None if there is no
        such part."""
        part = self.algebra.part(name, self.length)
        if part is None:
            return None
        return part.picked, part.algebra and VecType(len(part.picked), self.dtype, part.algebra)

    def of_shape(self, shape: tuple[int, ...]) -> VecType | MatType:
        """The type of vectors or matrices of another shape with the same dtype."""
        return of_shape(shape, self.dtype)

    def __instancecheck__(self, value: object) -> bool:
        """Whether a host value is of this type."""
        return isinstance(value, Composite) and value.type == self

    def __call__(self, *values: object) -> Vector:
        """A vector of this type, as in tg.vec3(1.0, 2.0, 3.0); on the host a small value with the algebra of kernels.

        Parameters:
            *values: the components, numbers of the dtype of the vector, or vectors of several; or one number for all;
                or none, for zeros. One vector of this length is converted. On the host also a list or array of
                components. A transform without a rotation has the identity. A quaternion cannot be filled with one
                number.
        Returns:
            the vector.
        Raises:
            ValueError: on the host: the number of components differs.
            number: on the host: a number does not fit the dtype, or is not a number.
            type-mismatch: in kernels: a component has another dtype, or their number differs.
            out-of-range: in kernels: a literal does not fit the dtype.
        Gradient:
            each component gets the adjoint's component; the sum of all for one number that fills them.
        """
        parts: list[object] = []
        for value in values:
            parts.extend(cast(Any, value) if np.ndim(cast(Any, value)) else [value])
        missing = self.length - len(parts)
        if missing and missing == self.algebra.optional:
            parts += self.algebra.unit[-missing:]
        if len(parts) == 1 and not self.algebra.fills:
            raise ValueError(f"{self} takes {self.length} numbers, got 1")
        return _filled(self, tuple(parts))


@dataclass(frozen=True, slots=True)
class MatType:
    """A matrix of `rows` by `cols` scalars, stored row-major."""

    rows: int
    cols: int
    dtype: DType

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        return f"mat<{self.rows},{self.cols},{self.dtype}>"

    def __str__(self) -> str:
        return _named_element(self, "")

    __repr__ = __str__

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape (rows, cols)."""
        return (self.rows, self.cols)

    @property
    def memory_dtype(self) -> np.dtype:
        """NumPy's type of the entries."""
        return to_numpy(self.dtype)

    @property
    def short_name(self) -> str:
        """The name that begins the text of a value: mat22f, or matrix((2, 3), float32)."""
        return short_name(self)

    def part(self, name: str) -> None:
        """The named part; always None, because matrices have no named parts."""
        return

    def of_shape(self, shape: tuple[int, ...]) -> VecType | MatType:
        """The type of vectors or matrices of another shape with the same dtype."""
        return of_shape(shape, self.dtype)

    def __instancecheck__(self, value: object) -> bool:
        """Whether a host value is of this type."""
        return isinstance(value, Composite) and value.type == self

    def __call__(self, *values: object) -> Matrix:
        """A matrix of this type, as in tg.mat22(1.0, 2.0, 3.0, 4.0); on the host a small value with the algebra of
        kernels.

        Parameters:
            *values: the entries, row by row, numbers of the dtype of the matrix; or the rows, as vectors; or one
                matrix of this shape, which is converted; or one number for all entries; or none, for zeros. On the host
                also a list or array of them.
        Returns:
            the matrix.
        Raises:
            ValueError: on the host: the number of entries differs.
            number: on the host: a number does not fit the dtype, or is not a number.
            type-mismatch: in kernels: an entry has another dtype, or their number differs.
            out-of-range: in kernels: a literal does not fit the dtype.
        Gradient:
            each entry gets the adjoint's entry; the sum of all for one number that fills them.
        """
        return _filled(self, values)


def _filled(t: VecType | MatType, values: tuple[Any, ...]) -> Any:
    memory_dtype, count = t.memory_dtype, math.prod(t.extents)
    if len(values) <= 1 and np.ndim(values[0] if values else 0) == 0:
        values = tuple(values[:1] or (0,)) * count
    data = fitted(listed(values, memory_dtype), memory_dtype, t.dtype.name)
    if data.size != count:
        raise ValueError(
            f"{count} numbers of {t.dtype} are needed, or one number for all components, got {data.size}"
        )
    return composite(t, np.array(data).reshape(t.extents))


def of_shape(shape: tuple[int, ...], dtype: DType) -> VecType | MatType:
    """The type of vectors (one length) or matrices (rows and columns); ValueError for an empty one."""
    if 0 in shape:
        raise ValueError("a vector or matrix has 1 or more components")
    return VecType(shape[0], dtype) if len(shape) == 1 else MatType(shape[0], shape[1], dtype)


SUFFIXES = {
    "float16": "h", "float32": "f", "float64": "d", "int8": "b", "uint8": "ub", "int16": "s", "uint16": "us",
    "int32": "i", "uint32": "ui", "int64": "l", "uint64": "ul",
}  # fmt: skip
"""The suffix of vector and matrix type names, by scalar type."""


def short_name(t: VecType | MatType) -> str:
    """The name of a type: vec3f and mat22d if such a name exists, else vector(5, float32) and matrix((2, 3),
    float32)."""
    return _named_element(t, SUFFIXES["float32"])


def _named_element(t: VecType | MatType, float32_suffix: str) -> str:
    """The name of an element type, with the suffix `float32_suffix` if its scalar type is float32."""
    suffix = float32_suffix if t.dtype == float32 else SUFFIXES.get(t.dtype.name)
    if not algebra_of(t).is_plain:
        return f"{algebra_of(t).name}[{t.dtype}]" if suffix is None else f"{algebra_of(t).name}{suffix}"
    kind = "vec" if isinstance(t, VecType) else "mat"
    if suffix is not None and set(t.extents) <= {2, 3, 4} and len(set(t.extents)) == 1:
        return f"{kind}{''.join(map(str, t.extents))}{suffix}"
    return f"vector({t.length}, {t.dtype})" if isinstance(t, VecType) else f"matrix({t.extents}, {t.dtype})"


ElementType: TypeAlias = DType | VecType | MatType


@dataclass(frozen=True, slots=True)
class TileType:
    """A tile value: `shape` elements of `dtype`, owned by the execution group.

    `partial`: the last dimension runs over the lanes of the block, some of which may be absent (SEMANTICS "Partial
    blocks"): reductions, scans and stores skip the elements of absent lanes."""

    dtype: ElementType
    shape: tuple[int, ...]
    partial: bool = False

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        partial = ",partial" if self.partial else ""
        return f"tile<{self.dtype.notation},[{','.join(map(str, self.shape))}]{partial}>"

    def __str__(self) -> str:
        return f"tile{_contents(self.dtype, *self.shape)}"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def rows(self) -> TileType:
        """The matrix of the same rows if the tile has more than two dimensions, else the type itself."""
        if len(self.shape) <= 2:
            return self
        return TileType(self.dtype, (math.prod(self.shape[:-1]), self.shape[-1]), self.partial)


@dataclass(frozen=True, slots=True)
class BufType:
    """A mutable tile object. `storage`: the declared storage, "register" or "shared".

    A `partial` object holds a partial tile; the elements of absent lanes are 0."""

    dtype: ElementType
    shape: tuple[int, ...]
    storage: str = "register"
    partial: bool = False

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        partial = ",partial" if self.partial else ""
        return f"buf<{self.dtype.notation},[{','.join(map(str, self.shape))}],{self.storage}{partial}>"

    def __str__(self) -> str:
        return str(self.tile)

    @property
    def tile(self) -> TileType:
        """The type of the tile value that the object holds."""
        return TileType(self.dtype, self.shape, self.partial)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array in global memory with `ndim` dimensions, arbitrary strides."""

    dtype: ElementType
    ndim: int

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        return f"array<{self.dtype.notation},{self.ndim}>"

    def __str__(self) -> str:
        return f"array{self.ndim}d{_contents(self.dtype)}"


@dataclass(frozen=True, slots=True)
class StackType:
    """A block-scoped stack of at most `capacity` elements."""

    dtype: ElementType
    capacity: int

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        return f"stack<{self.dtype.notation},{self.capacity}>"

    def __str__(self) -> str:
        return f"tile_stack({self.capacity}, {self.dtype})"


@dataclass(frozen=True, slots=True)
class PipeType:
    """A circular buffer of `stages` tiles in shared memory, from one role to others."""

    dtype: ElementType
    shape: tuple[int, ...]
    stages: int

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        return f"pipe<{self.dtype.notation},[{','.join(map(str, self.shape))}],{self.stages}>"

    def __str__(self) -> str:
        return f"tile_pipe{_contents(self.dtype, *self.shape)}"


@dataclass(frozen=True, slots=True)
class MbarrierType:
    """Memory barriers in shared memory, one for each of `stages`."""

    stages: int

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        return f"mbarrier<{self.stages}>"

    def __str__(self) -> str:
        return "tg.mbarrier"


@dataclass(frozen=True, slots=True)
class NamedBarrierType:
    """A barrier that counts `warps`."""

    warps: int

    @property
    def notation(self) -> str:
        """The type in the text of the IR."""
        return f"named_barrier<{self.warps}>"

    def __str__(self) -> str:
        return "tg.named_barrier"


Type: TypeAlias = (
    DType
    | VecType
    | MatType
    | TileType
    | BufType
    | ArrayType
    | StackType
    | PipeType
    | MbarrierType
    | NamedBarrierType
)


def scalar_of(t: ElementType) -> DType:
    """The scalar type of an element type's components."""
    return t if isinstance(t, DType) else t.dtype


def algebra_of(t: object) -> Algebra:
    """The algebra of a vector type; the algebra of plain vectors for other types."""
    return t.algebra if isinstance(t, VecType) else VECTOR


def element_shape(t: ElementType) -> tuple[int, ...]:
    """The shape of an element: () for a scalar, (length,) for a vector, (rows, cols) for a matrix."""
    return t.extents if isinstance(t, (VecType, MatType)) else ()


@cache
def components(t: ElementType) -> int:
    """The number of scalars in an element."""
    return math.prod(element_shape(t))


def with_scalar(t: ElementType, scalar: DType) -> ElementType:
    """The element type of the same shape over another scalar type."""
    if isinstance(t, VecType):
        return VecType(t.length, scalar, t.algebra)
    if isinstance(t, MatType):
        return MatType(t.rows, t.cols, scalar)
    return scalar


def element_bytes(t: ElementType) -> int:
    """The size of one element in memory, in bytes."""
    return components(t) * scalar_of(t).bits // 8


def is_element(t: object) -> TypeGuard[ElementType]:
    """Whether a type is an element type: a scalar, vector or matrix."""
    return isinstance(t, (DType, VecType, MatType))


def to_numpy(t: DType) -> np.dtype:
    """The NumPy dtype of a scalar type (ml_dtypes for bfloat16 and the 8-bit floats)."""
    numpy_dtype = _NUMPY.get(t)
    if isinstance(t, Compound):
        return t.numpy_dtype()
    if numpy_dtype is None:
        import ml_dtypes

        numpy_dtype = _NUMPY[t] = np.dtype(getattr(ml_dtypes, _ML_DTYPES[t]))
    return numpy_dtype


@cache
def counterpart(dtype: np.dtype[Any]) -> DType | None:
    """The scalar type of a NumPy dtype; None if there is none."""
    scalar = _BY_NUMPY_NAME.get(dtype.name)
    return scalar if scalar is not None and to_numpy(scalar) == dtype else None


@cache
def from_numpy(dtype: np.dtype) -> DType:
    """The scalar type of a NumPy dtype; ValueError if there is none."""
    scalar = counterpart(np.dtype(dtype))
    if scalar is None:
        raise ValueError(f"NumPy dtype {dtype} has no counterpart; supported: {', '.join(DTYPES)}")
    return scalar


def numpy_type(x: Any) -> DType | None:
    """The scalar type of a NumPy scalar type, given as a class or as a dtype; None for other values."""
    is_class = isinstance(x, type) and issubclass(x, np.generic)
    return counterpart(np.dtype(cast(Any, x))) if is_class or isinstance(x, np.dtype) else None


def is_narrow_float(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy's type is a float of 8 or 16 bits, whose arithmetic is that of float32 rounded once."""
    t = counterpart(dtype)
    return t is not None and t.is_float and t.bits <= 16


def element_type(annotation: object) -> ElementType:
    """The element type of a Python annotation or dtype argument; TypeError if there is none.

    Python's float, int and bool mean float32, int32 and bool; NumPy's types mean the types of the same name."""
    if isinstance(annotation, (DType, VecType, MatType, Compound)):
        return cast("ElementType", annotation)
    for builtin, dtype in ((float, float32), (int, int32), (bool, bool_)):
        if annotation is builtin:
            return dtype
    element = numpy_type(annotation)
    if element is not None:
        return element
    type_name = getattr(annotation, "type", None)
    text = repr(annotation) if type_name is None else f"a value of type {type_name}"
    if isinstance(annotation, tuple):
        text = f"a tuple of {len(cast(tuple[Any, ...], annotation))}"
    raise TypeError(f"{text} is not an element type such as tg.float32 or tg.vec3")


def host_value(t: ElementType, data: np.ndarray) -> Any:
    """An element as a host value: a NumPy number, or a vector or matrix on the memory of `data`."""
    return data[()] if isinstance(t, DType) else composite(t, data)


def _contents(*parts: object) -> str:
    """The arguments in brackets of an annotation."""
    return f"[{', '.join(map(str, parts))}]"


def _types_by_suffix(prefix: str, type_of: Callable[[DType], ElementType]) -> dict[str, ElementType]:
    by_prefix = {prefix + suffix: type_of(DTYPES[name]) for name, suffix in SUFFIXES.items()}
    return {**by_prefix, prefix: by_prefix[prefix + "f"]}


def _float_types_by_suffix(prefix: str, type_of: Callable[[DType], ElementType]) -> dict[str, ElementType]:
    return {name: t for name, t in _types_by_suffix(prefix, type_of).items() if scalar_of(t).is_float}


# vec2 .. vec4d, mat22 .. mat44d: the names users write, by suffix of the scalar type.
NAMED_ELEMENTS: dict[str, ElementType] = {
    **{k: v for n in (2, 3, 4) for k, v in _types_by_suffix(f"vec{n}", partial(VecType, n)).items()},
    **{k: v for n in (2, 3, 4) for k, v in _types_by_suffix(f"mat{n}{n}", partial(MatType, n, n)).items()},
    **_float_types_by_suffix("quat", lambda t: VecType(4, t, QUATERNION)),
    **_float_types_by_suffix("transform", lambda t: VecType(7, t, TRANSFORM)),
    **_float_types_by_suffix("spatial_vector", partial(VecType, 6)),
    **_float_types_by_suffix("spatial_matrix", partial(MatType, 6, 6)),
}


MAX_COMPONENTS = 1024
"""The limit on components of a vector or matrix, which a thread holds in registers."""


def vector(length: int, dtype: object) -> VecType:
    """The type of vectors of `length` components of `dtype`; ValueError for more than MAX_COMPONENTS."""
    check_components(f"a vector of length {length:,}", length)
    return VecType(length, scalar_of(element_type(dtype)))


def matrix(shape: tuple[int, int], dtype: object) -> MatType:
    """The type of `shape` = (rows, cols) matrices of `dtype`; ValueError for more than MAX_COMPONENTS entries."""
    check_components(f"a matrix of shape {tuple(shape)}", shape[0] * shape[1])
    return MatType(shape[0], shape[1], scalar_of(element_type(dtype)))


def quaternion(dtype: object) -> VecType:
    """The type of quaternions (x, y, z, w) of `dtype`, a type of floats."""
    return _of_algebra(QUATERNION, dtype)


def transformation(dtype: object) -> VecType:
    """The type of transforms of `dtype`, a type of floats: three numbers of a translation and four of a quaternion."""
    return _of_algebra(TRANSFORM, dtype)


def _of_algebra(algebra: Algebra, dtype: object) -> VecType:
    scalar = scalar_of(element_type(dtype))
    if not scalar.is_float:
        raise TypeError(f"the components of a {algebra.name} must be floats, not {scalar}")
    return VecType(algebra.length, scalar, algebra)


def check_components(subject: str, count: int) -> None:
    """Raise ValueError for a vector or matrix, described by `subject`, with too many components."""
    if count > MAX_COMPONENTS:
        raise ValueError(
            f"{subject} has {count:,} components, more than {MAX_COMPONENTS:,}; use a tile or an array for more"
        )


def type_size_in_bytes(t: Any) -> int:
    """The bytes of one element of a type.

    Parameters:
        t: a scalar, vector or matrix type, or float, int or bool.
    Returns:
        a positive integer.
    Raises:
        TypeError: `t` is not an element type.
    """
    return element_bytes(element_type(t))
