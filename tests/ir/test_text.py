"""The printer and the parser are inverse."""

import math
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_builder import KernelBuilder

from tegula.errors import InternalError
from tegula.ir import REGISTRY, AccessClass, Kernel, LaunchClass, Region
from tegula.ir.text import parse_kernel, print_kernel, print_op
from tegula.ir.verify import verify
from tegula.source import UNKNOWN, Location
from tegula.types import (
    DTYPES,
    ArrayType,
    BufType,
    MatType,
    MbarrierType,
    PipeType,
    StackType,
    TileType,
    VecType,
    float32,
    int32,
)

dtypes = st.sampled_from(list(DTYPES.values()))
elements = st.one_of(
    dtypes,
    st.builds(VecType, st.integers(1, 9), dtypes),
    st.builds(MatType, st.integers(1, 9), st.integers(1, 9), dtypes),
)
shapes = st.lists(st.integers(1, 4096), min_size=1, max_size=4).map(tuple)
types = st.one_of(
    elements,
    st.builds(TileType, elements, shapes, st.booleans()),
    st.builds(BufType, elements, shapes, st.sampled_from(["register", "shared"]), st.booleans()),
    st.builds(ArrayType, elements, st.integers(1, 4)),
    st.builds(StackType, elements, st.integers(1, 1000)),
    st.builds(PipeType, elements, shapes, st.integers(1, 64)),
    st.builds(MbarrierType, st.integers(1, 64)),
)
locations = st.recursive(
    st.builds(Location, st.text(), st.integers(0), st.integers(0), st.integers(0), st.text()),
    lambda inner: st.builds(Location, st.text(), st.integers(0), caller=inner),
    max_leaves=3,
)
leaves = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.text(), types, locations)
attributes = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=8)


def is_identical(a: object, b: object) -> bool:
    """Equality that distinguishes 1 from 1.0 and True, -0.0 from 0.0, and NaNs by their bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(is_identical, a, b))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    return a == b


def same_region(a: Region, b: Region) -> bool:
    return [(v.type, v.name) for v in a.args] == [(v.type, v.name) for v in b.args] and all(
        x.NAME == y.NAME
        and x.loc == y.loc
        and x.attrs.keys() == y.attrs.keys()
        and all(is_identical(x.attrs[k], y.attrs[k]) for k in x.attrs)
        and [(v.type, v.name) for v in x.results] == [(v.type, v.name) for v in y.results]
        and all(map(same_region, x.regions, y.regions))
        for x, y in zip(a.ops, b.ops, strict=True)
    )


def kernel_with(attrs: dict, name: str = "", loc: Location = UNKNOWN) -> Kernel:
    body = Region([float32])
    body.args[0].name = name
    body.append(REGISTRY["const"]((), [float32], attrs, (), loc)).results[0].name = name
    body.append(REGISTRY["yield"]())
    return Kernel(name, [name], body, LaunchClass(1, 32, (True,), False, False), [None], loc)


@given(attributes, st.text(), locations)
@settings(deadline=None)
def test_attributes_names_and_locations_are_printed_and_parsed_unchanged(value, name, loc):
    result = kernel_with({"value": value}, name, loc)
    parsed = parse_kernel(print_kernel(result, locations=True))
    assert same_region(result.body, parsed.body)
    assert (parsed.name, parsed.param_names, parsed.loc, parsed.body.ops[0].loc) == (name, [name], loc, loc)


@given(types)
def test_types_are_printed_and_parsed_unchanged(t):
    assert is_identical(parse_kernel(print_kernel(kernel_with({"t": t}))).body.ops[0].attrs["t"], t)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1e16, 1e-7, -1, 1 << 70, True]
)
def test_numbers_are_printed_and_parsed_unchanged(value):
    assert is_identical(parse_kernel(print_kernel(kernel_with({"x": value}))).body.ops[0].attrs["x"], value)


def control_flow() -> Kernel:
    m = KernelBuilder(float32, int32, ArrayType(float32, 2))
    x, n, _ = m.params
    x.name = "x"
    total = m.for_(n, [x], lambda i, a: m("add", a, m("cast", i, to=float32)))
    low = m.if_(m.cmp("lt", total, x), lambda: total, lambda: x)
    m.while_([low, n], lambda a, k: m.cmp("lt", a, x), lambda a, k: (m("add", a, x), k))
    tile = m("tile.full", x, shape=(4, 8))
    m.map(lambda a, b: m("mul", a, b), tile, x)
    m("tid", count=2)
    kernel = m.finish()
    kernel.access = [None, None, AccessClass(16, True, False, (1, 2))]
    return kernel


@pytest.mark.parametrize("with_locations", [False, True])
def test_control_flow_is_printed_and_parsed_unchanged(with_locations):
    kernel = control_flow()
    text = print_kernel(kernel, with_locations)
    parsed = parse_kernel(text)
    verify(parsed)
    assert print_kernel(parsed, with_locations) == text
    assert (parsed.launch, parsed.access) == (kernel.launch, kernel.access)
    assert not with_locations or same_region(kernel.body, parsed.body)


def test_the_text_of_a_kernel_equals_the_golden_text():
    m = KernelBuilder(float32, int32)
    m.params[0].name = "x"
    m.for_(m.params[1], [m.params[0]], lambda i, a: m("add", a, a))
    assert (
        print_kernel(m.finish())
        == """kernel "made" {
  launch [block_dim = 4, last_is_block = false, ndim = 1, partial = true, uniform = (false,)]
  param "p0" %0.x: float32
  param "p1" %1: int32
  %2: int32 = const [type = int32, value = 0]
  %3: int32 = const [type = int32, value = 1]
  %4: float32 = for %2, %1, %3, %0 (%5: int32, %6: float32) {
    %7: float32 = add %6, %6
    yield %7
  }
  yield
}
"""
    )


def test_text_without_locations_is_independent_of_locations():
    location_first, reordered = ({"at": Location("a.py", 3), "k": 1}, {"k": 1, "at": Location("b.py", 9)})
    first = print_kernel(kernel_with(location_first, loc=Location("a.py", 1)))
    assert first == print_kernel(kernel_with(reordered, loc=Location("b.py", 2)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("add %6", "nonsense %6"), "line 8 of the IR text: no op is called 'nonsense'"),
        (("add %6", "add %99"), "line 8 .*%99 is used before"),
        (("%7: float32 =", "%6: float32 ="), "line 9 .*%6 is defined twice"),
        (("%7: float32 =", "%7: float99 ="), "line 8 .*'float99' is not a type"),
        (("yield %7", "yield %7 ]"), "line 9"),
        (("ndim = 1", "ndim = ?"), "line 2 .*unexpected '\\?"),
        (("ndim = 1", "dims = 1"), "line 3 .*dims"),
        (("yield\n}", "yield\n} }"), "text after the kernel"),
        (("yield\n}", "yield\n"), "no op is called ''"),
    ],
)
def test_invalid_ir_text_is_refused(change, message):
    m = KernelBuilder(float32, int32)
    m.for_(m.params[1], [m.params[0]], lambda i, a: m("add", a, a))
    text = print_kernel(m.finish())
    assert change[0] in text
    with pytest.raises(InternalError, match=message):
        parse_kernel(text.replace(*change))


def test_comments_in_ir_text_are_ignored() -> None:
    m = KernelBuilder(float32)
    m("add", m.params[0], m.params[0])
    m.params[0].name = "a // b"
    kernel = m.finish()
    text = print_kernel(kernel)
    commented = "// before\n" + text.replace("\n", " // and so on: %0 {\n") + "// after"
    assert print_kernel(parse_kernel(commented)) == text
    remarks = {kernel.params[0]: "a parameter", kernel.body.ops[0].result: "twice that"}
    assert print_kernel(kernel, remarks=remarks) == f"{text}// %0: a parameter\n// %1: twice that\n"


def test_attributes_without_a_text_form_are_refused():
    with pytest.raises(InternalError, match="no text form"):
        print_kernel(kernel_with({"x": [1]}))


def test_single_ops_and_invalid_ir_are_printed():
    m = KernelBuilder(float32)
    op = m("add", m.params[0], m.params[0]).owner
    assert print_op(op) == "%1: float32 = add %0, %0"
    misplaced = REGISTRY["neg"]([op.results[0]], [float32])
    m.body.ops.insert(0, misplaced)
    assert "neg %undefined" in print_kernel(Kernel("k", ["p"], m.body, m.launch))


def test_printing_500_ops_takes_milliseconds():
    m = KernelBuilder(float32)
    x = m.params[0]
    for _ in range(500):
        x = m("add", x, x)
    kernel = m.finish()

    def best(f) -> float:
        times = []
        for _ in range(5):
            start = time.process_time()
            f()
            times.append(time.process_time() - start)
        return min(times)

    text = print_kernel(kernel)
    # Ten times the usual time of the processor, which does not pass while other processes run.
    assert best(lambda: print_kernel(kernel)) < 0.02
    assert best(lambda: parse_kernel(text)) < 0.06
    assert best(lambda: verify(kernel)) < 0.02
