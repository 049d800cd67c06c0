"""The compile report: reading of machine code, and that the committed report is up to date."""

from __future__ import annotations

import re

import pytest
from benchmarks.compile_report import machine_code, report
from benchmarks.compile_report.forms import forms

from support.campaigns import sampled
from tegula.backend import ptx
from tegula.passes.specialise import make_roles

COMMITTED = report.read()
DEFAULT_RUN_FORMS = ("softmax bfloat16", "library matmul bfloat16, tile 128x256", "automatic attention, exp2")
"""Forms that are compiled whenever tests run."""
SWEPT = "sweep: "
"""The beginning of the names of the sweep's forms, of which slow tests compile every second one."""

LOOPS = """
kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_outer:
        /*0010*/                   LDG.E R2, [R4.64] ;
.L_inner:
        /*0020*/                   WARPGROUP.ARRIVE ;
        /*0030*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR14], R5 ;
        /*0040*/              @!P0 BRA `(.L_wait) ;
.L_back:
        /*0050*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR12].tnspB, R24, gsb0 ;
        /*0060*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*0070*/               @P1 BRA `(.L_inner) ;
        /*0080*/                   STG.E [R4.64], R2 ;
        /*0090*/               @P2 BRA `(.L_outer) ;
        /*00a0*/                   EXIT ;
.L_wait:
        /*00b0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR14], R5 ;
        /*00c0*/              @!P0 BRA `(.L_wait) ;
        /*00d0*/                   BRA `(.L_back) ;
.L_end:
        /*00e0*/                   BRA `(.L_end);
        /*00f0*/                   NOP;
"""


def test_the_main_loop_is_the_innermost_loop_besides_waits() -> None:
    code = machine_code.read(LOOPS)
    loop = machine_code.main_loop(code)
    names = [i.name.split(".")[0] for i in loop]
    assert names == ["WARPGROUP", "HGMMA", "WARPGROUP", "BRA"]
    assert machine_code.counts(loop)["tensor"] == 1 and machine_code.waits(loop) == [1]
    assert machine_code.counts(code.instructions)["global"] == 2


def test_the_main_loop_does_not_depend_on_labels_that_no_branch_leads_to() -> None:
    """nvdisasm prints some of these labels, cuobjdump none: it prints addresses for branch targets."""
    line = "        /*0030*/"
    labelled = LOOPS.replace(line, f".L_look:\n{line}")
    addresses = {"outer": "0x10", "inner": "0x20", "back": "0x50", "wait": "0xb0", "end": "0xe0"}
    bare = re.sub(r"`\(\.L_(\w+)\)", lambda name: addresses[name[1]], re.sub(r"(?m)^\.L_\w+:\n", "", LOOPS))
    assert ".L_" not in bare
    loop = machine_code.main_loop(machine_code.read(LOOPS))
    assert [i.name for i in loop] == [i.name for i in machine_code.main_loop(machine_code.read(labelled))]
    assert [i.name for i in loop] == [i.name for i in machine_code.main_loop(machine_code.read(bare))]


def test_the_main_loop_may_contain_a_loop_without_tensor_cores() -> None:
    inner_loop = """.L_rare:
        /*0058*/                   FFMA R2, R2, R2, R2 ;
        /*005c*/               @P3 BRA `(.L_rare) ;
"""
    prefix = "        /*0060*/"
    loop = machine_code.main_loop(machine_code.read(LOOPS.replace(prefix, inner_loop + prefix)))
    assert machine_code.counts(loop)["tensor"] == 1 and machine_code.counts(loop)["instructions"] == 6


def test_code_without_loops_has_no_main_loop() -> None:
    code = machine_code.read(LOOPS.split(".L_outer")[0])
    assert len(code.instructions) == 1 and not machine_code.main_loop(code)


def test_differences_list_changes_without_times() -> None:
    row = {"name": "x", "registers": 8, "seconds": 1.0, "loop": {"tensor": 4}}
    assert report.differences({**row, "seconds": 2.0}, row) == []
    assert report.differences({**row, "loop": {"tensor": 8}}, row) == ["x: loop.tensor 4 -> 8"]
    assert report.differences(row, None) == ["x: new"]


def test_memory_for_some_second_stages_goes_to_the_operands_of_the_last_matmul_first() -> None:
    """Each of four tiles of 32 KiB has a stage, and two get a second one: keys and values, not the bias, which the
    softmax releases early, and not the queries, which are loaded once for a block."""
    ((_, kernel),) = forms()["sweep: attention, bias tile"]()
    plan = make_roles(kernel, report.TARGET).plan
    assert plan is not None and plan.persistent and plan.stages == (1, 2, 1, 2)


def test_every_form_is_in_the_report() -> None:
    names = list(forms())
    assert all(
        any(row == name or row.startswith(f"{name}, part") for row in COMMITTED["rows"]) for name in names
    )
    assert set(DEFAULT_RUN_FORMS) <= set(names)


def assert_equals_report(name: str) -> None:
    if report.assembler() != COMMITTED["ptxas"] or not ptx.candidates():
        pytest.skip(f"the report was made with ptxas {COMMITTED['ptxas']}")
    changes = [
        line
        for row in report.rows_of(name, forms()[name])
        for line in report.differences(row, COMMITTED["rows"].get(row["name"]))
    ]
    assert not changes, "\n".join(
        [
            *changes,
            "if the changes are intended: python -m benchmarks --compile-only, and name the reason in the commit",
        ]
    )


@sampled(2, "name", DEFAULT_RUN_FORMS)
def test_a_few_kernels_compile_to_the_report(name: str) -> None:
    assert_equals_report(name)


def forms_of_slow_tests() -> list[str]:
    """The forms that slow tests compile."""
    swept = [name for name in forms() if name.startswith(SWEPT)]
    return [name for name in forms() if name not in DEFAULT_RUN_FORMS and name not in swept[::2]]


@pytest.mark.slow(every=13)
@pytest.mark.machine_code(some=True)  # forms with meshes, which are built here
@pytest.mark.parametrize("name", forms_of_slow_tests())
def test_all_kernels_compile_to_the_report(name: str) -> None:
    assert_equals_report(name)
