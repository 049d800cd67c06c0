"""Objects compiled from LLVM text, and the loader that maps them into memory."""

from __future__ import annotations

import ctypes
import gc
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_kernels import NAMES, TARGETS, loaded

from tegula.backend.elf import AARCH64, X86_64, Elf
from tegula.backend.llvm import assembly, compile_object
from tegula.backend.loader import load, undefined_symbols
from tegula.backend.relocation import apply
from tegula.dataclass import replace
from tegula.errors import InternalError
from tegula.target import NAMED, get_target

i64, i32, pointer = ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p
every_target = pytest.mark.parametrize("target", TARGETS, ids=NAMES)

TABLES = """
@squares = internal constant [8 x i32] [i32 0, i32 1, i32 4, i32 9, i32 16, i32 25, i32 36, i32 49], align 64
@places = internal constant [2 x ptr] [ptr @squares, ptr @counter]
@functions = internal constant [2 x ptr] [ptr @double, ptr @negate]
@counter = internal global i32 40
@zeros = internal global [1000 x i64] zeroinitializer, align 64
@exported = global i64 7
define i64 @double(i64 %x) noinline { %r = shl i64 %x, 1 ret i64 %r }
define i64 @negate(i64 %x) noinline { %r = sub i64 0, %x ret i64 %r }
define i32 @square(i64 %k) {
  %p = getelementptr [8 x i32], ptr @squares, i64 0, i64 %k
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @through(i64 %k) {
  %p = getelementptr [2 x ptr], ptr @places, i64 0, i64 %k
  %q = load ptr, ptr %p
  %v = load i32, ptr %q
  ret i32 %v
}
define i64 @choose(i64 %k, i64 %x) {
  %p = getelementptr [2 x ptr], ptr @functions, i64 0, i64 %k
  %f = load ptr, ptr %p
  %v = call i64 %f(i64 %x)
  ret i64 %v
}
define i32 @count() {
  %v = atomicrmw add ptr @counter, i32 1 monotonic
  ret i32 %v
}
define i64 @export() {
  %v = load i64, ptr @exported
  ret i64 %v
}
define i64 @chain(i64 %x) {
  %a = call i64 @double(i64 %x)
  %b = call i64 @negate(i64 %a)
  ret i64 %b
}
define ptr @zero(i64 %k) {
  %p = getelementptr [1000 x i64], ptr @zeros, i64 0, i64 %k
  ret ptr %p
}
define i64 @switched(i32 %k) {
  switch i32 %k, label %other [ i32 0, label %a i32 1, label %b i32 2, label %c i32 3, label %d i32 4, label %e ]
a: ret i64 11
b: %vb = call i64 @double(i64 21)
  ret i64 %vb
c: ret i64 -3
d: %vd = call i64 @negate(i64 9)
  ret i64 %vd
e: ret i64 500
other: ret i64 0
}
define void @scale(ptr %p) {
  %v = load <8 x float>, ptr %p, align 4
  %w = fmul <8 x float> %v, <float 1.0, float 2.0, float 3.0, float 4.0, float 5.0, float 6.0, float 7.0, float 8.5>
  store <8 x float> %w, ptr %p, align 4
  ret void
}
"""


@pytest.mark.machine_code
@every_target
@pytest.mark.parametrize("optimised", [True, False])
def test_loaded_objects_have_constants_variables_and_calls(target, optimised):
    code = load(compile_object(TABLES, replace(target, optimised=optimised)))

    def call(name: str, result: object, *args: object):
        return ctypes.CFUNCTYPE(result, *(type(a) for a in args))(code.address(name))(*args)

    assert [call("square", i32, i64(k)) for k in range(8)] == [k * k for k in range(8)]
    assert [call("through", i32, i64(k)) for k in range(2)] == [0, 40]
    assert [call("choose", i64, i64(k), i64(21)) for k in range(2)] == [42, -21]
    assert [call("count", i32) for _ in range(3)] == [40, 41, 42]
    assert [call("switched", i64, i32(k)) for k in range(6)] == [11, 42, -3, -9, 500, 0]
    assert (call("export", i64), call("chain", i64, i64(5))) == (7, -10)
    assert i64.from_address(code.address("exported")).value == 7
    assert i64.from_address(call("zero", pointer, i64(999))).value == 0
    values = np.ones(8, np.float32)
    call("scale", None, pointer(values.ctypes.data))
    np.testing.assert_array_equal(values, [1, 2, 3, 4, 5, 6, 7, 8.5])


@pytest.mark.machine_code
def test_constants_of_objects_are_aligned_to_cache_lines():
    code = load(compile_object(TABLES.replace("internal constant [8", "constant [8"), get_target()))
    assert code.address("squares") % 64 == 0


def mappings(start: int, end: int) -> set[str]:
    """The permissions of the pages of a range."""
    result = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(x, 16) for x in line.split()[0].split("-"))
        if low < end and start < high:
            result.add(line.split()[1][:3])
    return result


@pytest.mark.machine_code
def test_no_page_of_an_object_is_writable_and_executable():
    code = load(compile_object(TABLES.replace("internal ", ""), get_target()))
    first = code.address("double") & -4096
    assert mappings(first, first + 1) == {"r-x"}
    assert mappings(code.address("squares"), code.address("squares") + 1) == {"r--"}
    assert mappings(code.address("places"), code.address("places") + 1) == {"r--"}
    assert mappings(code.address("counter"), code.address("counter") + 1) == {"rw-"}
    assert mappings(first, first + code.nbytes) == {"r-x", "r--", "rw-"}


@pytest.mark.machine_code
def test_memory_of_an_object_is_freed_with_the_object():
    code = loaded("define i64 @f() { ret i64 3 }")
    address = code.address("f")
    assert mappings(address, address + 1) == {"r-x"}
    del code
    gc.collect()
    assert "r-x" not in mappings(address, address + 1)


@pytest.mark.machine_code
def test_an_unknown_symbol_of_an_object_is_refused():
    with pytest.raises(KeyError):
        loaded("define i64 @f() { ret i64 3 }").address("g")


# Refusals -------------------------------------------------------------------------------------------------------------


CALLS_OUT = (
    "declare i64 @elsewhere(i64)\ndefine i64 @f(i64 %x) { %r = call i64 @elsewhere(i64 %x) ret i64 %r }"
)
REMAINDER = "define double @f(double %a, double %b) { %r = frem double %a, %b ret double %r }"


@pytest.mark.parametrize(("text", "name"), [(CALLS_OUT, "elsewhere"), (REMAINDER, "fmod")])
def test_code_that_calls_out_is_refused(text, name):
    with pytest.raises(InternalError, match=name):
        compile_object(text, get_target())


def emitted(text: str) -> bytes:
    """An object as LLVM emits it, without the loader's checks."""
    import llvmlite.binding as llvm

    from tegula.backend import llvm as tegula_llvm

    machine = tegula_llvm._machine(get_target())
    return machine.emit_object(llvm.parse_assembly(text))


def test_the_loader_refuses_undefined_symbols():
    data = emitted(CALLS_OUT)
    assert undefined_symbols(data) == ["elsewhere"]
    with pytest.raises(InternalError, match="elsewhere"):
        load(data)


def test_the_loader_refuses_thread_local_data():
    text = "@mine = thread_local(localexec) global i64 3\ndefine ptr @f() { ret ptr @mine }"
    with pytest.raises(InternalError, match="thread-local"):
        load(emitted(text))


def test_the_loader_refuses_code_of_another_processor():
    foreign_target = "armv8.2" if get_target().is_x86 else "x86-64-v3"
    with pytest.raises(InternalError, match="cannot run"):
        load(compile_object("define i64 @f() { ret i64 3 }", NAMED[foreign_target]))


@given(st.binary(max_size=200))
def test_the_loader_refuses_invalid_objects(data):
    with pytest.raises(InternalError):
        load(data)


@given(st.integers(0, 1000))
def test_the_loader_refuses_truncated_objects(length):
    object_bytes = SMALL_OBJECT
    with pytest.raises(InternalError):
        load(object_bytes[: length % len(object_bytes)])


SMALL_OBJECT = compile_object("define i64 @f() { ret i64 3 }", get_target())


def test_invalid_llvm_text_is_reported_with_its_line():
    with pytest.raises(InternalError, match=r"%missing") as error:
        compile_object("define i64 @f() {\n  %r = add i64 %missing, 1\n  ret i64 %r\n}", get_target())
    assert "%r = add i64 %missing, 1" in str(error.value)


def test_objects_are_printed_as_assembly():
    assert "f:" in assembly("define i64 @f() { ret i64 3 }", get_target())


# The memory functions -------------------------------------------------------------------------------------------------


MEMORY = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
define void @set(ptr %to, i8 %v, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %to, i8 %v, i64 %n, i1 false)
  ret void
}
define void @copy(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}
define void @move(ptr %to, ptr %from, i64 %n) {
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %from, i64 %n, i1 false)
  ret void
}
"""
SIZES = [*range(70), 95, 96, 97, 127, 128, 129, 255, 256, 1000, 4099]


@pytest.mark.machine_code
@every_target
def test_memcpy_and_memset_of_every_size_match_numpy(target):
    code = loaded(MEMORY, target)
    fill = ctypes.CFUNCTYPE(None, pointer, ctypes.c_uint8, i64)(code.address("set"))
    copy = ctypes.CFUNCTYPE(None, pointer, pointer, i64)(code.address("copy"))
    source = np.random.default_rng(0).integers(0, 256, 5000).astype(np.uint8)
    for n in SIZES:
        for index in (8, 13):
            actual, expected = np.zeros(5000, np.uint8), np.zeros(5000, np.uint8)
            copy(actual.ctypes.data + index, source.ctypes.data + 3, n)
            expected[index : index + n] = source[3 : 3 + n]
            np.testing.assert_array_equal(actual, expected)
            fill(actual.ctypes.data + index, 0xA7, n)
            expected[index : index + n] = 0xA7
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.machine_code
@every_target
def test_memmove_within_one_buffer_matches_numpy(target):
    code = loaded(MEMORY, target)
    move = ctypes.CFUNCTYPE(None, pointer, pointer, i64)(code.address("move"))
    source = np.random.default_rng(0).integers(0, 256, 1500).astype(np.uint8)
    for n in (0, 1, 2, 3, 5, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, 128, 200, 999):
        for distance in (-100, -64, -33, -32, -31, -8, -1, 0, 1, 7, 31, 32, 33, 64, 100, 300):
            actual, expected = source.copy(), source.copy()
            move(actual.ctypes.data + 120 + distance, actual.ctypes.data + 120, n)
            expected[120 + distance : 120 + distance + n] = source[120 : 120 + n]
            np.testing.assert_array_equal(actual, expected)


@pytest.mark.machine_code
@every_target
@pytest.mark.parametrize("attributes", ["", '"no-builtins"'])
def test_loops_that_copy_and_fill_match_numpy(target, attributes):
    text = f"""
define void @fill(ptr noalias %to, i64 %n) {attributes} {{
entry: br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr i8, ptr %to, i64 %i
  store i8 0, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %out
out: ret void
}}
define void @copy(ptr noalias %to, ptr noalias %from, i64 %n) {attributes} {{
entry: br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr i64, ptr %to, i64 %i
  %q = getelementptr i64, ptr %from, i64 %i
  %v = load i64, ptr %q
  store i64 %v, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %out
out: ret void
}}"""
    code = loaded(text, target)
    actual, source = np.ones(2000, np.int64), np.arange(2000)
    ctypes.CFUNCTYPE(None, pointer, i64)(code.address("fill"))(actual.ctypes.data, 1000 * 8)
    assert actual.sum() == 1000
    ctypes.CFUNCTYPE(None, pointer, pointer, i64)(code.address("copy"))(
        actual.ctypes.data, source.ctypes.data, 1500
    )
    np.testing.assert_array_equal(actual, np.where(np.arange(2000) < 1500, np.arange(2000), 1))


def test_objects_of_every_target_are_self_contained():
    for target in NAMED.values():
        assert undefined_symbols(compile_object(MEMORY, target)) == []


# Relocations ----------------------------------------------------------------------------------------------------------


@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from([2, 4, 9, 41, 42]))
def test_x86_relocations_encode_distances(distance, kind):
    image = bytearray(8)
    apply(X86_64, image, 2, kind, 0x7F0000000000 + distance, 0x7F0000000000)
    assert struct.unpack_from("<i", image, 2) == (distance,)


@pytest.mark.parametrize(
    ("kind", "target"), [(2, 1 << 31), (2, -(1 << 31) - 1), (10, 1 << 32), (11, 1 << 31)]
)
def test_an_x86_relocation_out_of_range_is_refused(kind, target):
    with pytest.raises(InternalError, match="out of range of relocation"):
        apply(X86_64, bytearray(8), 0, kind, target, 0)


def test_unknown_relocations_are_refused():
    for machine in (X86_64, AARCH64):
        with pytest.raises(InternalError, match="not known"):
            apply(machine, bytearray(8), 0, 999, 0, 0)


@given(st.integers(-(2**25), 2**25 - 1), st.integers(0, 2**40))
def test_arm_relocations_encode_call_distances(words, address):
    address = (address + 2**28) * 4
    image = bytearray(struct.pack("<I", 0x94000000))
    apply(AARCH64, image, 0, 283, address + 4 * words, address)
    (word,) = struct.unpack("<I", image)
    assert word >> 26 == 0x25
    field = word & 0x3FFFFFF
    assert field - (field >> 25 << 26) == words


@given(st.integers(0, 2**31), st.integers(0, 2**31))
def test_arm_relocations_encode_an_address_in_two_halves(target, address):
    address &= -4
    image = bytearray(struct.pack("<II", 0x90000000, 0x91000000))
    apply(AARCH64, image, 0, 275, target, address)
    apply(AARCH64, image, 4, 277, target, address + 4)
    page, low = struct.unpack("<II", image)
    pages = (page >> 29 & 3) | (page >> 5 & 0x7FFFF) << 2
    pages -= pages >> 20 << 21
    assert (address & -4096) + (pages << 12) + (low >> 10 & 0xFFF) == target


def test_arm_objects_use_only_known_relocations():
    data = compile_object(TABLES, NAMED["armv8.2"])
    elf = Elf(data)
    kinds = {kind for _, _, kind, _, _ in elf.relocations()}
    for kind in kinds:
        apply(AARCH64, bytearray(8), 0, kind, 4096, 0)
    assert kinds
