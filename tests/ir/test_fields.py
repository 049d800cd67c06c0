"""Named fields of ops: operands and attributes are read and assigned by name and checked, and effects follow from
them."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_builder import KernelBuilder

from tegula.errors import InternalError
from tegula.ir import REGISTRY, Op, Value
from tegula.ir.fields import ARRIVE, ATOMIC, ISSUE, READ, WRITE, attr, operand, optional, output, variadic
from tegula.ir.verify import verify
from tegula.types import ArrayType, BufType, float32, int32


class OperandsAround(Op):
    """Two operands around any number of others, of which the last is per lane."""

    __slots__ = ()
    first = operand(READ, index=True)
    middle = variadic(WRITE)
    last = operand(lane=True)
    result_buffer = output(WRITE)
    size = attr()
    exact = attr(True)


class OptionalOperand(Op):
    """An operand that may be missing."""

    __slots__ = ()
    optional_operand = optional(READ)


def values(n: int) -> list[Value]:
    return [Value(int32, name=f"v{k}") for k in range(n)]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_fields_read_and_assign_operands_and_attributes(count: int) -> None:
    arguments = values(count)
    op = OperandsAround(arguments, [int32], {"size": 3})
    assert (op.first, op.middle, op.last) == (arguments[0], arguments[1:-1], arguments[-1])
    a, b, c = values(3)
    op.first, op.last, op.middle = a, c, [b, b, b, b]
    assert op.operands == [a, b, b, b, b, c] and op.middle == [b] * 4 and op.last is c
    op.middle = []
    assert op.operands == [a, c]


def test_attributes_without_a_default_are_required() -> None:
    op = OperandsAround(values(2), [int32], {"size": 3})
    assert op.size == 3 and op.exact is True and "exact" not in op.attrs
    op.exact = False
    assert op.attrs == {"size": 3, "exact": False}
    assert OperandsAround.signature.fault(op) == ""
    assert "lacks the attribute size" in OperandsAround.signature.fault(OperandsAround(values(2), [int32]))
    assert "no attribute sise" in OperandsAround.signature.fault(
        OperandsAround(values(2), [int32], {"size": 1, "sise": 2})
    )


def test_wrong_numbers_of_operands_are_refused() -> None:
    assert OperandsAround.signature.fault(OperandsAround(values(1), [], {"size": 1})).endswith(
        "first, *middle, last, got 1 operands"
    )
    assert OptionalOperand.signature.fault(OptionalOperand(values(2)))
    assert not OptionalOperand.signature.fault(OptionalOperand()) and not OptionalOperand.signature.fault(
        OptionalOperand(values(1))
    )


def test_a_missing_optional_operand_is_none() -> None:
    op = OptionalOperand()
    assert op.optional_operand is None and list(op.effects()) == []
    (v,) = values(1)
    op.optional_operand = v
    assert op.operands == [v] and [(e.kind, e.value) for e in op.effects()] == [(READ, v)]
    op.optional_operand = None
    assert op.operands == []


def test_effects_lanes_and_indices_follow_from_the_declaration() -> None:
    arguments = values(4)
    op = OperandsAround(arguments, [int32], {"size": 1})
    effects = [(e.kind, e.value) for e in op.effects()]
    assert effects == [(READ, arguments[0]), (WRITE, arguments[1]), (WRITE, arguments[2]), (WRITE, op.result)]
    assert OperandsAround.signature.lanes == (2,) and OperandsAround.signature.first_index == 0


def test_a_class_with_two_variadic_names_is_refused() -> None:
    with pytest.raises(TypeError, match="one variadic operand"):
        type("Two", (Op,), {"__slots__": (), "a": variadic(), "b": variadic()})
    with pytest.raises(TypeError, match="one variadic operand"):
        type("Early", (Op,), {"__slots__": (), "a": optional(), "b": operand()})


@pytest.mark.parametrize(
    ("name", "effects"),
    [
        ("buf.read", [READ]),
        ("buf.set", [WRITE]),
        ("buf.update", [ATOMIC]),
        ("buf.exchange", [READ, WRITE]),
        ("array.load", [READ]),
        ("tile.atomic", [ATOMIC]),
        ("group.async_copy", [ISSUE, READ]),
        ("stack.push", [READ, WRITE]),
    ],
)
def test_ops_have_their_documented_effects(name: str, effects: list[Any]) -> None:
    declared = [kind for f in REGISTRY[name].signature.effects for kind in f.effects]
    assert declared == effects


def test_waits_arrive_for_copies() -> None:
    buffers = [Value(BufType(float32, (4,), "shared")) for _ in range(2)]
    wait = REGISTRY["group.async_wait"].typed(buffers, {"pending": 0})
    assert [(e.kind, e.value) for e in wait.effects()] == [(ARRIVE, b) for b in buffers]


def test_every_op_declares_its_operands() -> None:
    """No op reads operands by position if its class can name them."""
    nameless = [n for n, c in REGISTRY.items() if not c.signature.operands and "perand" in (c.__doc__ or "")]
    assert nameless == []


def test_the_verifier_knows_the_declaration() -> None:
    k = KernelBuilder(ArrayType(float32, 1))
    load = REGISTRY["array.load"].typed([k.params[0], k.const(0)])
    load.attrs["hint"] = 1
    k.insertion_region.append(load)
    with pytest.raises(InternalError, match=r"array.load .*the op has no attribute hint"):
        verify(k.finish())
