"""PTX instructions that assemblers translate wrongly are replaced by equivalent ones."""

import pytest

from tegula.backend.ptx_repairs import repair_ptx


def test_neg_and_abs_of_integers_are_replaced() -> None:
    assert repair_ptx("\tneg.s16 \t%rs2, %rs1;") == "\tnot.b16 %rs2, %rs1;\tadd.s16 %rs2, %rs2, 1;"
    repaired = repair_ptx("\tabs.s64 \t%rd2, %rd1;")
    assert (
        "abs" not in repaired
        and "shr.s64 sign, %rd1, 63;" in repaired
        and repaired.count("{") == repaired.count("}") == 1
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("max.u16 \t%rs5, %rs4, 1;", ("cvt.u32.u16 a, %rs4;", "mov.b32 b, 1;", "max.u32 a, a, b;")),
        ("min.s16 \t%rs5, %rs4, -3;", ("cvt.s32.s16 a, %rs4;", "mov.b32 b, -3;", "min.s32 a, a, b;")),
        ("min.u16 \t%rs5, -1, %rs4;", ("mov.b32 a, 65535;", "cvt.u32.u16 b, %rs4;")),
    ],
)
def test_min_and_max_of_16_bit_integers_are_replaced(line: str, expected: tuple[str, ...]) -> None:
    repaired = repair_ptx("\t" + line)
    assert all(part in repaired for part in expected) and repaired.endswith("cvt.u16.u32 %rs5, a; }")


def test_other_ptx_instructions_are_unchanged() -> None:
    text = "\tneg.f32 \t%r1, %r2;\n\tmax.s32 \t%r1, %r2, %r3;\n\tabs.f64 \t%rd1, %rd2;\n"
    assert repair_ptx(text) == text
