"""The verifier catches each kind of broken IR."""

import pytest
from kernel_builder import KernelBuilder

from tegula.errors import InternalError
from tegula.ir import REGISTRY, Kernel, Op, Region, Value
from tegula.ir.verify import Verified, verify
from tegula.types import TileType, float32, int32

VALID: list[tuple[Kernel, Verified]] = []
"""The kernels of `make`, which the tests break afterwards, and the results of their verification."""


def make() -> tuple[KernelBuilder, Kernel]:
    """x, n; y = x + x; for over n adding y; if; map over a tile."""
    m = KernelBuilder(float32, int32)
    x, n = m.params
    y = m("add", x, x)
    total = m.for_(n, [x], lambda i, a: m("mul", a, y))
    m.if_(m.cmp("lt", total, x), lambda: x, lambda: y)
    m.map(lambda a: m("neg", a), m("tile.full", x, shape=(4,)))
    kernel, verified = m.finish(), Verified(image=[])
    verify(kernel, verified)
    VALID.append((kernel, verified))
    return m, kernel


def op_named(kernel: Kernel, name: str) -> Op:
    return next(op for op in kernel.walk() if op.NAME == name)


def refuse(kernel: Kernel, message: str) -> None:
    for verified in (None, *(results for valid, results in VALID if valid is kernel)):
        with pytest.raises(InternalError, match=message):
            verify(kernel, verified)


def test_the_verifier_accepts_valid_ir():
    verify(make()[1])


def test_a_kernel_that_has_not_changed_is_accepted_again():
    _, k = make()
    (verified,) = (results for valid, results in VALID if valid is k)
    image = verified.image
    verify(k, verified)
    assert verified.image is image
    op_named(k, "mul").operands.reverse()
    verify(k, verified)
    assert verified.image is not image


def test_an_op_that_leaves_its_region_and_keeps_its_parent_is_refused():
    _, k = make()
    loop = op_named(k, "for")
    k.body.ops.insert(k.body.ops.index(loop) + 1, loop.regions[0].ops.pop())
    refuse(k, "must end in 'yield'")


def test_a_result_whose_type_changes_is_refused():
    _, k = make()
    op_named(k, "mul").results[0].type = int32
    refuse(k, "mul at .*results should be")


def test_a_use_before_its_definition_is_refused():
    _, k = make()
    k.body.ops[0], k.body.ops[1] = k.body.ops[1], k.body.ops[0]
    k.body.ops.insert(0, k.body.ops.pop(named_at(k, "mul")))
    refuse(k, "not defined before this use")


def named_at(kernel: Kernel, name: str) -> int:
    """The position in the body of the op that is, or contains, the op of a given name."""
    return next(k for k, op in enumerate(kernel.body.ops) if any(o.NAME == name for o in op.walk()))


def test_a_use_of_a_value_of_a_nested_region_is_refused():
    _, k = make()
    op_named(k, "cmp").operands[0] = op_named(k, "mul").results[0]
    refuse(k, "cmp at kernel.py:.*not defined before this use")


def test_a_use_of_a_value_of_a_sibling_region_is_refused():
    _, k = make()
    then, else_region = op_named(k, "if").regions
    op = REGISTRY["neg"]([k.params[0]], [float32])
    op.parent = then
    then.ops.insert(0, op)
    else_region.terminator.operands[0] = op.results[0]
    refuse(k, "yield at .*not defined")


def test_an_op_that_uses_its_own_result_is_refused():
    _, k = make()
    add = op_named(k, "add")
    add.operands[0] = add.results[0]
    refuse(k, "add at kernel.py:1:1: operand .* not defined")


def test_a_map_that_uses_outer_values_is_refused():
    _, k = make()
    op_named(k, "neg").operands[0] = k.params[0]
    refuse(k, "neg at .*not defined")


def test_a_map_with_cooperative_ops_is_refused():
    _, k = make()
    region = op_named(k, "tile.map").regions[0]
    op = REGISTRY["tile.full"]([region.args[0]], [TileType(float32, (2,))], {"shape": (2,)})
    op.parent = region
    region.ops.insert(0, op)
    refuse(k, "tile.full .*cooperative op inside tile.map")


@pytest.mark.parametrize("holder", ["for", "if", "tile.map"])
def test_a_region_without_yield_is_refused(holder):
    _, k = make()
    op_named(k, holder).regions[0].ops.pop()
    refuse(k, "must end in 'yield'")


def test_a_body_without_yield_is_refused():
    _, k = make()
    k.body.ops.pop()
    refuse(k, "must end in 'yield'")


def test_two_yields_in_a_region_are_refused():
    _, k = make()
    k.body.append(REGISTRY["yield"]())
    refuse(k, "yield .*not at its end")


def test_result_types_that_differ_from_inferred_types_are_refused():
    _, k = make()
    op_named(k, "add").results[0].type = int32
    refuse(k, r"add at kernel.py.*should be \(float32\), not \(int32\)")


def test_operands_that_type_inference_refuses_are_refused():
    _, k = make()
    op_named(k, "add").operands[1] = k.params[1]
    refuse(k, "add at .*mixes float32 and int32")


def test_a_missing_attribute_is_refused():
    _, k = make()
    del op_named(k, "tile.full").attrs["shape"]
    refuse(k, "tile.full at .*the op lacks the attribute shape")


def test_a_missing_region_is_refused():
    _, k = make()
    op_named(k, "if").regions.pop()
    refuse(k, "if at .*malformed")


def test_a_branch_with_arguments_is_refused():
    _, k = make()
    region = op_named(k, "if").regions[0]
    region.args.append(Value(int32, region))
    refuse(k, "take no arguments")


def test_an_op_with_a_wrong_parent_is_refused():
    _, k = make()
    op_named(k, "add").parent = None
    refuse(k, "add at .*parent")


def test_a_region_with_a_wrong_parent_is_refused():
    _, k = make()
    op_named(k, "for").regions[0].parent = op_named(k, "if")
    refuse(k, "for at .*parent")


def test_a_body_with_a_parent_is_refused():
    _, k = make()
    k.body.parent = op_named(k, "if")
    refuse(k, "body has a parent")


def test_an_op_that_appears_twice_is_refused():
    _, k = make()
    k.body.ops.insert(1, k.body.ops[0])
    refuse(k, "add at .*appears twice")


def test_a_region_that_appears_twice_is_refused():
    _, k = make()
    op = op_named(k, "if")
    op.regions[1] = op.regions[0]
    refuse(k, "if at .*region appears twice")


def test_a_result_of_another_op_is_refused():
    _, k = make()
    op_named(k, "mul").results = op_named(k, "add").results
    refuse(k, "mul at .*belongs to another")


def test_an_argument_of_another_region_is_refused():
    _, k = make()
    op_named(k, "tile.map").regions[0].args = [Value(float32, Region())]
    refuse(k, "tile.map at .*belongs to another")


def test_an_unregistered_op_is_refused():
    class UnregisteredOp(Op):
        __slots__ = ()

    _, k = make()
    op = UnregisteredOp()
    op.parent = k.body
    k.body.ops.insert(0, op)
    refuse(k, "UnregisteredOp at .*not registered")


def test_parameters_without_names_are_refused():
    _, k = make()
    k.param_names.pop()
    refuse(k, r"parameters, names and access classes: \(2, 1, 2\)")


def test_verifier_errors_name_the_op_and_the_kernel():
    _, k = make()
    op_named(k, "mul").operands[1] = k.params[1]
    refuse(k, "kernel made: mul at kernel.py:4:1")
