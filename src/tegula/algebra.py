"""The algebra of quaternions and transforms, which are vectors in memory, and of plain vectors.

Each vector type has an algebra, which determines multiplication, named parts and the unit element. Loads, stores, sums,
gradients and generated code depend on the components alone."""

from __future__ import annotations

from typing import Any

from tegula.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NamedPart:
    """A named part of a vector: the components with the indices `picked`, as a vector of `algebra`, or as a scalar if
    `algebra` is None."""

    name: str
    picked: tuple[int, ...]
    algebra: Algebra | None = None


@dataclass(frozen=True, slots=True)
class Algebra:
    """An algebra of vectors. `length`: the number of components, 0 for any; `parts`: the named parts; `one`: the
    components of an element of `tile_ones`; `unit`: the components of the multiplicative identity, which is normalize's
    result for zeros; `optional`: the number of trailing components that may be omitted and default to those of `unit`;
    `fills`: whether one number sets all components; `multiply`: the function that `*` of two elements calls, "" if
    there is none; `help`: the function to call with an element and a plain vector."""

    name: str
    length: int = 0
    parts: tuple[NamedPart, ...] = ()
    one: tuple[float, ...] = ()
    unit: tuple[float, ...] = ()
    optional: int = 0
    fills: bool = True
    multiply: str = ""
    help: str = ""

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> Any:
        """Pickle the algebra by name, because there is one object for each algebra."""
        return _named, (self.name,)

    @property
    def is_plain(self) -> bool:
        """Whether this is the algebra of plain vectors, whose components are alike."""
        return not self.length

    def part(self, name: str, length: int) -> NamedPart | None:
        """The named part of a vector of `length` components, or the components that a swizzle lists, as in `v.xy`; None
        if the vector has no such part."""
        part = next((p for p in self.parts if p.name == name), None) or self._listed(name)
        return part if part is not None and max(part.picked) < length else None

    def _listed(self, name: str) -> NamedPart | None:
        listed = {p.name: p.picked for p in self.parts if p.algebra is None}
        if not 2 <= len(name) <= MAX_LISTED or not listed.keys() >= set(name):
            return None
        return NamedPart(name, tuple(k for letter in name for k in listed[letter]), VECTOR)


MAX_LISTED = 4
"""The maximum number of coordinates in one swizzle."""
_COORDINATES = tuple(NamedPart(name, (k,)) for k, name in enumerate("xyzw"))

VECTOR = Algebra("vec", parts=_COORDINATES)
QUATERNION = Algebra(
    "quat",
    length=4,
    parts=_COORDINATES,
    one=(1.0, 0.0, 0.0, 0.0),
    unit=(0.0, 0.0, 0.0, 1.0),
    fills=False,
    multiply="quat_multiply",
    help="rotate a vector with tg.quat_rotate",
)
TRANSFORM = Algebra(
    "transform",
    length=7,
    parts=(NamedPart("p", (0, 1, 2), VECTOR), NamedPart("q", (3, 4, 5, 6), QUATERNION)),
    one=(1.0,) * 7,
    unit=(0.0, 0.0, 0.0, *QUATERNION.unit),
    optional=4,
    multiply="transform_multiply",
    help="apply a transform with tg.transform_point or tg.transform_vector",
)
ALGEBRAS = {a.name: a for a in (VECTOR, QUATERNION, TRANSFORM)}


def _named(name: str) -> Algebra:
    return ALGEBRAS[name]
