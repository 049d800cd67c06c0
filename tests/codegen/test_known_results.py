"""A basic block computes each number once; instructions with effects and reads of memory stay."""

from __future__ import annotations

from tegula.codegen.text import Code


def code() -> Code:
    result = Code()
    result.reuses = True
    return result


def test_a_block_computes_a_number_once() -> None:
    c = code()
    first = c.emit("mul i64 %i, 16")
    assert c.emit("mul i64 %i, 16") == first
    assert c.call("fma", "f32", "float", "float %a, float %b, float %c") == c.call(
        "fma", "f32", "float", "float %a, float %b, float %c"
    )
    assert len(c.lines) == 2
    c.define_label("next")
    assert c.emit("mul i64 %i, 16") != first


def test_neutral_operands_leave_the_other_operand() -> None:
    c = code()
    assert [c.emit("add i32 %n, 0"), c.emit("sub nsw i64 %n, 0"), c.emit("mul i64 %n, 1")] == ["%n"] * 3
    assert c.emit("sub i64 0, %n") != "%n" != c.emit("add i64 %n, 10") and c.emit("fadd float %n, 0") != "%n"


def test_reads_and_calls_are_repeated() -> None:
    c = code()
    for text in (
        "load i64, ptr %p, align 8",
        "call i32 %f(i64 %watch)",
        'call i64 asm sideeffect "rdtsc", "={rax}"()',
        "call <4 x float> @llvm.masked.load.v4f32.p0(ptr %p, <4 x i1> %m, <4 x float> %v)",
        "phi i64 [ 0, %a ], [ %n, %b ]",
        "atomicrmw add ptr %p, i64 1 monotonic",
    ):
        assert c.emit(text) != c.emit(text)
