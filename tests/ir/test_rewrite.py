"""Walking, uses, replacing, cloning, dead code."""

import pytest
from kernel_builder import KernelBuilder

from tegula.ir import Kernel
from tegula.ir.rewrite import clone_region, erase_dead, replace, uses, walk, walk_regions
from tegula.ir.text import print_kernel
from tegula.ir.verify import verify
from tegula.types import ArrayType, TileType, float32, int32


def names(kernel: Kernel) -> list[str]:
    return [op.NAME for op in walk(kernel)]


def test_walk_is_in_program_order_and_regions_outer_first():
    m = KernelBuilder(int32)
    m.for_(m.params[0], [], lambda i: m.if_(m.cmp("lt", i, i), lambda: None))
    k = m.finish()
    assert names(k) == ["const", "const", "for", "cmp", "if", "yield", "yield", "yield", "yield"]
    assert [len(r.ops) for r in walk_regions(k.body)] == [4, 3, 1, 1]


def test_uses_and_replace_follow_chains_into_regions():
    m = KernelBuilder(float32)
    x = m.params[0]
    a, b = m("neg", x), m("abs", x)
    m.if_(m.cmp("lt", a, b), lambda: a, lambda: m("add", a, b))
    k = m.finish()
    assert [(op.NAME, operand_index) for op, operand_index in uses(k.body)[a]] == [
        ("cmp", 0),
        ("yield", 0),
        ("add", 0),
    ]
    replace(k.body, {a: b, b: x})
    actual = uses(k.body)
    assert a not in actual
    assert b not in actual
    assert len(actual[x]) == 7
    verify(k)


def test_cyclic_replacements_are_refused():
    m = KernelBuilder(float32, float32)
    a, b = m.params
    with pytest.raises(ValueError, match="never ends"):
        replace(m.finish().body, {a: b, b: a})


def test_a_clone_is_equal_and_separate():
    m = KernelBuilder(float32, int32)
    m.params[0].name = "x"
    m.for_(m.params[1], [m.params[0]], lambda i, a: m("add", a, a))
    k = m.finish()
    before = print_kernel(k, locations=True)
    copy = Kernel(k.name, k.param_names, clone_region(k.body, {}), k.launch, k.access, k.loc)
    verify(copy)
    assert print_kernel(copy, locations=True) == before
    copy.body.ops[0].attrs["value"] = 5
    copy.body.ops.pop(0)
    assert print_kernel(k, locations=True) == before


def test_dead_ops_without_effects_are_erased():
    m = KernelBuilder(ArrayType(float32, 1), float32)
    out, x = m.params
    i = m.tid()
    m("add", x, x)
    m("array.load", out, i)
    m("buf.new", m("tile.full", x, shape=(4,)), storage="shared")
    m.if_(m.cmp("lt", x, x), lambda: m("array.store", out, x, i))
    k = m.finish()
    erase_dead(k)
    verify(k)
    assert names(k) == ["tid", "cmp", "if", "array.store", "yield", "yield", "yield"]


def test_dead_carried_values_are_erased():
    m = KernelBuilder(ArrayType(float32, 1), int32, float32)
    out, n, x = m.params
    live, dead, _ = m.for_(n, [x, x, x], lambda i, a, b, c: (m("add", a, x), m("mul", b, b), a))
    low, _ = m.if_(m.cmp("lt", live, x), lambda: (live, dead), lambda: (x, x))
    last, _ = m.while_([low, x], lambda a, b: m.cmp("lt", a, x), lambda a, b: (m("add", a, a), m("neg", b)))
    m("array.store", out, last, m.const(0))
    k = m.finish()
    erase_dead(k)
    verify(k)
    loop, branch, wait = (next(o for o in walk(k) if o.NAME == name) for name in ("for", "if", "while"))
    assert (len(loop.results), len(branch.results), len(wait.results)) == (1, 1, 1)
    assert "mul" not in names(k)
    assert "neg" not in names(k)


def test_a_dead_variable_is_erased_even_if_its_first_and_last_value_are_live():
    m = KernelBuilder(ArrayType(float32, 1), int32, float32)
    out, n, x = m.params
    y = m("neg", x)
    m.for_(n, [y], lambda i, a: (m("array.store", out, y, i), [m("add", y, y)])[1])
    k = m.finish()
    erase_dead(k)
    verify(k)
    assert "add" not in names(k)
    assert not next(o for o in walk(k) if o.NAME == "for").operands[3:]


def test_carried_values_with_live_uses_are_not_erased():
    m = KernelBuilder(ArrayType(float32, 1), int32, float32)
    out, n, x = m.params
    _, b = m.for_(n, [x, x], lambda i, a, b: (m("add", a, a), m("mul", a, b)))
    m("array.store", out, b, m.const(0))
    k = m.finish()
    erase_dead(k)
    verify(k)
    assert len(next(o for o in walk(k) if o.NAME == "for").results) == 2


def test_operands_of_map_regions_remain_valid():
    m = KernelBuilder(ArrayType(float32, 1), float32)
    out, x = m.params
    t = m.map(lambda a: (m("neg", a), m("abs", a))[1], m("tile.full", x, shape=(4,)))
    m("tile.store", out, t, m.const(0), bounds_check=True, aligned=False)
    k = m.finish()
    erase_dead(k)
    verify(k)
    assert "neg" not in names(k)
    assert t.type == TileType(float32, (4,))
