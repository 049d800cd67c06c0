"""The register pressure of PTX text."""

from __future__ import annotations

import pytest

from tegula.backend.pressure import Pressure, register_pressure

KERNEL = """
.visible .entry kernel(.param .b64 p)
{{
	.reg .pred 	%p<9>;
	.reg .b32 	%r<99>;
	.reg .b64 	%rd<99>;
{}
	ret;
}}
"""


@pytest.mark.parametrize(("statements", "peak", "between"), [
    # Both addends are live before the sum, which replaces them.
    ("mov.u32 %r1, %tid.x; add.s32 %r2, %r1, 1; add.s32 %r3, %r2, %r1; st.shared.b32 [0], %r3;", 2, 0),
    ("mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; st.global.b32 [%rd1], %r1;", 3, 0),
    ("ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [0]; st.global.v4.b32 [0], {%r1, %r2, %r3, %r4};", 4, 0),
    ("mov.u32 %r1, %tid.x; setp.eq.b32 %p1, %r1, 0; @%p1 st.shared.b32 [0], 1;", 1, 0),
    # A guarded definition may leave the old value.
    ("mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; setp.eq.b32 %p1, %r1, %r2;"
     "@%p1 mov.b32 %r1, 5; st.shared.b32 [0], %r1;", 2, 0),
    ("mov.u32 %r1, %tid.x; bar.warp.sync %r1;", 1, 0),
    # What all threads share is in registers of the warp.
    ("ld.param.b64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;"
     "ld.global.b32 %r2, [%rd3]; st.global.b32 [%rd3], %r2;", 1, 0),
    # An address in shared memory has one register, another address two.
    ("mov.b64 %rd1, shared; ld.global.b64 %rd2, [0]; add.s64 %rd3, %rd1, %rd2; st.shared.b32 [%rd3], 0;", 2, 0),
    ("mov.b64 %rd1, shared; ld.global.b32 %r2, [0]; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;"
     "ld.shared.b32 %r1, [%rd3+4]; ld.shared.b32 %r2, [%rd3+8]; st.shared.v2.b32 [%rd3], {%r1, %r2};", 3, 0),
])  # fmt: skip
def test_the_peak_of_straight_code(statements: str, peak: int, between: int) -> None:
    assert _pressure(statements) == Pressure(peak, between)


def test_values_that_a_loop_carries_are_live_between_its_blocks() -> None:
    """%r1 and %r2 are carried; %r4 lives in the loop; %r5 is read only after the loop."""
    loop = """mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r5, %tid.z;
$L1:
	add.s32 %r4, %r2, %r1; add.s32 %r1, %r4, 1; add.s32 %r2, %r4, %r2;
	setp.lt.s32 %p1, %r1, 100; @%p1 bra $L1;
	st.shared.v2.b32 [0], {%r2, %r5};"""
    assert _pressure(loop) == Pressure(4, 3)


def test_only_one_side_of_a_branch_counts() -> None:
    branch = """mov.u32 %r1, %tid.x; setp.eq.b32 %p1, %r1, 0; @%p1 bra $L1;
	ld.shared.v2.b32 {%r2, %r3}, [0]; st.shared.v2.b32 [0], {%r2, %r3}; bra.uni $L2;
$L1:
	ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [0]; st.shared.v4.b32 [0], {%r4, %r5, %r6, %r7};
$L2:
	st.shared.b32 [0], %r1;"""
    assert _pressure(branch) == Pressure(5, 1)


def _pressure(statements: str) -> Pressure:
    lines = (
        statements.replace("; ", ";\n\t")
        .replace(";@", ";\n\t@")
        .replace(";l", ";\n\tl")
        .replace(";s", ";\n\ts")
    )
    return register_pressure(KERNEL.format(f"\t{lines}"))
