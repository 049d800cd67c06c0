"""`tegula.dataclass` behaves like the dataclass of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle

import pytest

from tegula.dataclass import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Point:
    """A doc."""

    x: int
    y: int = 2
    note: str = field(default="", compare=False)

    @property
    def total(self) -> int:
        return self.x + self.y


@dataclass(slots=True)
class Base:
    names: list[str] = field(default_factory=list)
    later: int = field(init=False)


@dataclass(slots=True)
class Derived(Base):
    extra: int = 5

    def __post_init__(self) -> None:
        self.later = len(self.names)

    def base_repr(self) -> str:
        return Base.__repr__(self)


@dataclass(frozen=True)
class Open:
    x: int

    def __hash__(self) -> int:
        return 7


@dataclass
class Empty:
    pass


def test_dataclass_construction_and_repr_match_the_standard_library():
    assert repr(Point(1)) == "Point(x=1, y=2, note='')"
    assert Point(1, y=3).total == 4
    assert Point.__doc__ == "A doc."
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Point(1, z=2)  # type: ignore[call-arg]
    assert repr(Empty()) == "Empty()"
    assert Empty() == Empty()


def test_dataclass_equality_and_hash_match_the_standard_library():
    assert Point(1, 2, "a") == Point(1, 2, "b")
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
    assert Point(1) != Point(2)
    assert Point(1) != (1, 2, "")
    assert hash(Open(1)) == 7
    with pytest.raises(TypeError, match="unhashable"):
        hash(Base())


def test_frozen_dataclasses_with_slots_refuse_assignment():
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        del Point(1).x  # type: ignore[misc]
    assert not hasattr(Point(1), "__dict__")
    with pytest.raises(AttributeError):
        Base().other = 1  # type: ignore[attr-defined]
    assert Open(3).__dict__ == {"x": 3}


def test_dataclasses_support_factories_inheritance_and_post_init():
    derived, filled = Derived(), Derived(["a"], 6)
    derived.names.append("b")
    assert (derived.names, derived.later, derived.extra) == (["b"], 0, 5)
    assert (filled.later, filled.extra) == (1, 6)
    assert Derived().names == []
    assert Derived.__slots__ == ("extra",)
    assert filled.base_repr() == "Derived(names=['a'], later=1)"


def test_dataclasses_support_match_statements():
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_the_standard_library_accepts_the_dataclasses():
    assert dataclasses.is_dataclass(Point)
    assert [f.name for f in dataclasses.fields(Point)] == ["x", "y", "note"]
    assert dataclasses.replace(Point(1, note="n"), y=9) == Point(1, 9)
    assert dataclasses.replace(Point(1, note="n"), y=9).note == "n"
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "note": ""}
    assert copy.copy(Open(3)) == Open(3)
    assert pickle.loads(pickle.dumps(Open(3))) == Open(3)


def test_replace_keeps_other_fields_of_a_dataclass():
    assert replace(Point(1, 3, "here"), y=4) == dataclasses.replace(Point(1, 3, "here"), y=4) == Point(1, 4)
    assert replace(Point(1, note="here"), x=2).note == "here"
    assert replace(Derived(["a"]), extra=6).later == 1
    with pytest.raises(TypeError, match="unknown"):
        replace(Point(1), unknown=2)


def test_the_init_of_a_dataclass_is_generated_on_first_use():
    @dataclass(frozen=True)
    class First:
        x: int

    @dataclass(frozen=True)
    class Second(First):
        y: int = 2

    class Third(Second):
        def __init__(self, x: int) -> None:
            super().__init__(x, 3)

    placeholders = [type(vars(c)["__init__"]).__name__ for c in (First, Second)]
    assert placeholders == ["_InitOnUse", "_InitOnUse"]
    assert (Third(1).x, Third(1).y) == (1, 3)
    assert Second(4) == Second(4, 2)
    assert [inspect.isfunction(vars(c)["__init__"]) for c in (First, Second)] == [False, True]
    assert str(inspect.signature(First)) == "(x)"
    assert First(5).x == 5


def test_the_defaults_of_a_dataclass_follow_its_other_fields():
    wrong: type = dataclass(type("Wrong", (), {"__annotations__": {"x": "int", "y": "int"}, "x": 1}))
    with pytest.raises(TypeError, match="a field without a default follows one with a default: x, y"):
        wrong(1, 2)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40])
@pytest.mark.parametrize("frozen", [False, True])
def test_classes_of_any_number_of_fields_take_their_fields_in_order(count: int, frozen: bool):
    names = [f"x{k}" for k in range(count)]
    body: dict[str, object] = {"__annotations__": dict.fromkeys(names, "int")}
    own: type = dataclass(frozen=frozen)(type("Many", (), body))
    standard: type = dataclasses.dataclass(frozen=frozen)(type("Many", (), body))
    values = range(100, 100 + count)
    assert vars(own(*values)) == vars(own(**dict(zip(names, values, strict=True)))) == vars(standard(*values))
    assert list(inspect.signature(own).parameters) == names
    with pytest.raises(
        TypeError, match=rf"takes {count + 1} positional arguments? but {count + 2} were given"
    ):
        own(*values, 0)


def test_fields_are_set_in_the_way_of_their_class():
    @dataclass
    class Doubled:
        x: int
        more: list[int] = field(default_factory=list)

        def __setattr__(self, name: str, value: object) -> None:
            object.__setattr__(self, name, value * 2)  # type: ignore[operator]

    assert (Doubled(2).x, Doubled(2, [1]).more, Doubled(2).more) == (4, [1, 1], [])
