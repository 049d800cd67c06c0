"""LLVM IR text to PTX, and PTX to code for GPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from inspect import unwrap
from pathlib import Path

import pytest
from vector_add import ARGUMENT_BYTES, VECTOR_ADD

from tegula.backend import ptx
from tegula.backend.llvm import compile_ptx
from tegula.backend.pressure import Pressure, register_pressure
from tegula.backend.ptx import (
    Cubin,
    candidates,
    check_log,
    compile_cubin,
    compile_for_occupancy,
    fill_multiprocessor,
    identity,
    version,
)
from tegula.errors import InternalError
from tegula.target import CUDA_TARGETS, cuda_target_for, get_cuda_target

ASSEMBLERS = candidates()
started = contextmanager(unwrap(ptx.started))  # tests wait for no process otherwise
needs_ptxas = pytest.mark.skipif(not ASSEMBLERS, reason="needs ptxas: the extra 'offline' or a CUDA toolkit")


def program(folder: Path, script: str, name: str = "ptxas") -> str:
    """A shell script as a program."""
    result = folder / name
    result.parent.mkdir(parents=True, exist_ok=True)
    result.write_text(f"#!/bin/sh\n{script}\n")
    result.chmod(0o755)
    return str(result)


def test_llvm_text_of_a_kernel_becomes_ptx() -> None:
    text = compile_ptx(VECTOR_ADD, "sm_90a")
    assert ".target sm_90a" in text and ".version 8.0" in text
    assert f".entry kernel(\n\t.param .align 16 .b8 kernel_param_0[{ARGUMENT_BYTES}]" in text
    assert ".maxntid 256" in text
    # Arguments are read from the parameter itself, not from a copy in local memory.
    assert ".local" not in text and text.count("ld.global.b32") == 2


def test_an_unknown_gpu_architecture_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no CUDA target 'sm_1'; targets: sm_80"):
        compile_ptx(VECTOR_ADD, "sm_1")


def test_an_llvm_error_names_the_source_line() -> None:
    with pytest.raises(InternalError, match="LLVM refused the generated code"):
        compile_ptx("define void @k() { ret i32 0 }", "sm_90a")


def test_a_call_of_an_absent_function_is_refused() -> None:
    text = "declare float @expf(float)\ndefine float @f(float %x) {\n %y = call float @expf(float %x)\n ret float %y\n}"
    with pytest.raises(InternalError, match="undefined functions: expf"):
        compile_ptx(text, "sm_90a")


MATHEMATICS = """
define ptx_kernel void @k(ptr %p, {type} %x) {{
  %r = call {flag} {type} @llvm.{name}({type} %x)
  store {type} %r, ptr %p
  ret void
}}
declare {type} @llvm.{name}({type})
"""


@pytest.mark.parametrize(
    "name", ["exp.f32", "log2.f32", "exp2.f64", "sin.f64", "tan.f32", "tanh.f32", "cos.f32"]
)
def test_intrinsics_that_end_the_process_are_refused(name: str) -> None:
    type = "double" if name.endswith("64") else "float"
    with pytest.raises(InternalError, match=f"llvm.{name.split('.')[0]}.* has (no )?PTX"):
        compile_ptx(MATHEMATICS.format(name=name, type=type, flag=""), "sm_90a")


@pytest.mark.parametrize(("name", "instruction"), [("tanh.f32", "tanh.approx"), ("exp2.f32", "ex2.approx"),
                                                   ("sin.f32", "sin.approx"), ("sqrt.f32", "sqrt.rn")])  # fmt: skip
def test_mathematical_intrinsics_become_ptx_instructions(name: str, instruction: str) -> None:
    flag = "" if name == "sqrt.f32" else "afn"
    assert instruction in compile_ptx(MATHEMATICS.format(name=name, type="float", flag=flag), "sm_90a")


def test_cpu_kernels_initialise_no_gpu_target() -> None:
    code = """
from tegula.backend.llvm import compile_object
from tegula.target import get_target
compile_object("define void @kernel() { ret void }", get_target())
import llvmlite.binding as llvm
try:
    llvm.Target.from_triple("nvptx64-nvidia-cuda")
except RuntimeError:
    print("no such target")
"""
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout == "no such target\n"


# Targets --------------------------------------------------------------------------------------------------------------


def test_compute_capabilities_select_targets() -> None:
    assert cuda_target_for(9, 0) == get_cuda_target() == get_cuda_target("sm_90a")
    assert cuda_target_for(8, 8).arch == "sm_87"
    assert cuda_target_for(12, 1).arch == "sm_121a"
    for capability in ((7, 5), (9, 1), (11, 0)):
        with pytest.raises(RuntimeError, match="no target for GPUs of compute capability"):
            cuda_target_for(*capability)


def test_the_hopper_target_has_the_limits_of_the_device() -> None:
    target = get_cuda_target("sm_90a")
    assert (target.shared_per_block, target.shared_per_sm) == (232448, 233472)
    assert (target.tensor_cores, target.bulk_copies, target.capability) == ("wgmma", True, (9, 0))
    assert target.key == "nvptx64-nvidia-cuda/sm_90a/ptx80"


# ptxas ----------------------------------------------------------------------------------------------------------------


@needs_ptxas
@pytest.mark.parametrize("arch", CUDA_TARGETS)
def test_ptx_assembles_for_each_target(arch: str) -> None:
    cubin = compile_cubin(compile_ptx(VECTOR_ADD, arch), arch)
    assert cubin.code[:4] == b"\x7fELF" and not cubin.is_ptx
    assert 0 < cubin.registers < 32
    assert (cubin.spill_bytes, cubin.shared_bytes) == (0, 0)


@needs_ptxas
def test_spills_and_shared_memory_are_counted() -> None:
    text = """
.version 8.0
.target sm_90a
.address_size 64
.shared .align 4 .b8 tile[4096];
.visible .entry kernel(.param .u64 out) .maxntid 32
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd2, tile;
  ld.shared.b32 %r1, [tile];
  st.global.b32 [%rd1], %r1;
  ret;
}
"""
    assert compile_cubin(text, "sm_90a").shared_bytes == 4096


@needs_ptxas
def test_a_ptxas_error_is_raised_with_its_text() -> None:
    with pytest.raises(InternalError, match="refused the generated code:\n.*fatal"):
        compile_cubin(".version 8.0\n.target sm_90a\nnonsense", "sm_90a")


@needs_ptxas
def test_an_ignored_register_budget_is_a_failed_compile() -> None:
    text = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel()
{
  setmaxnreg.dec.sync.aligned.u32 40;
  ret;
}
"""
    with pytest.raises(InternalError, match="ptxas complains about the generated code:\n.*setmaxnreg"):
        compile_cubin(text, "sm_90a")


@pytest.mark.parametrize("line", [
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...",
    "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain minimum register requirement",
    "ptxas warning : Value of threads per SM for entry k is out of range. .minnctapersm will be ignored",
])  # fmt: skip
def test_warnings_of_ptxas_are_errors(line: str) -> None:
    with pytest.raises(InternalError, match="complains"):
        check_log(f"ptxas info    : 0 bytes gmem\n{line}\n")
    check_log("ptxas info    : Used 168 registers, used 5 barriers, 384 bytes smem\n")


@pytest.mark.parametrize(("registers", "threads", "shared_bytes", "blocks"), [
    (229, 128, 0, [3]),  # 3 blocks leave 168 registers, 4 leave 128
    (250, 128, 0, []),  # 3 blocks leave 168 registers, with which such a kernel spills
    (48, 128, 0, []),  # 13 blocks leave 32 registers, and 12 are fewer than 1.25 times 10
    (79, 128, 0, [8]),  # 9 blocks leave 56 registers
    (200, 64, 0, [6]),  # 5 blocks have 10 warps, 3 of them on some schedulers, which is room for 6
    (79, 128, 36 << 10, []),  # 6 blocks fit into registers, and into shared memory
    (79, 128, 24 << 10, [8]),
    (26, 256, 0, []),  # 8 blocks fit already
])  # fmt: skip
def test_more_blocks_are_tried_once_and_only_with_enough_registers(
    registers: int, threads: int, shared_bytes: int, blocks: list[int], tmp_path: Path
) -> None:
    """With a ptxas that always spills."""
    ptxas = program(
        tmp_path,
        f'while [ "$1" != -o ]; do shift; done; cp "$3" {tmp_path}/$(ls {tmp_path} | wc -l).ptx; printf code > "$2"\n'
        'echo "8 bytes spill stores, 8 bytes spill loads" >&2; echo "Used 32 registers" >&2',
    )
    cubin = Cubin(b"first", is_ptx=False, registers=registers)
    entry = f".maxntid {threads}\n"
    assert fill_multiprocessor(cubin, entry, "sm_90a", threads, ptxas, shared_bytes) is cubin
    attempts = sorted(tmp_path.glob("*.ptx"), key=lambda path: int(path.stem))
    assert [path.read_text() for path in attempts] == [f"{entry}.minnctapersm {n}\n" for n in blocks]


@pytest.mark.parametrize(("peak", "between", "blocks"), [
    (20, 0, [6]),  # 6 blocks of 128 threads leave 80 registers
    (90, 0, [5]),  # 5 blocks leave 96
    (110, 0, [5]),  # ptxas reorders statements, and 96 are nearly as many as without a limit
    (110, 97, []),  # no order of statements needs less than 97
])  # fmt: skip
def test_the_pressure_of_the_text_decides_on_more_blocks(
    peak: int, between: int, blocks: list[int], tmp_path: Path
) -> None:
    """With a ptxas that uses 98 registers."""
    ptxas = program(
        tmp_path,
        'while [ "$1" != -o ]; do shift; done; printf code > "$2"\n'
        f'grep -o "minnctapersm.*" "$3" >> {tmp_path}/limits; echo "Used 98 registers" >&2',
    )
    loads = [f"\tld.global.b32 %r{k}, [0];\n" for k in range(peak)]
    stores = [f"\tst.global.b32 [0], %r{k};\n" for k in range(peak)]
    loads[between:between] = ["$L1:\n"]
    text = (
        ".visible .entry kernel()\n.maxntid 128\n{\n\t.reg .b32 %r<199>;\n" + "".join(loads + stores) + "}\n"
    )
    assert register_pressure(text) == Pressure(peak, between)
    compile_for_occupancy(text, "sm_90a", 128, configured=ptxas)
    assert (tmp_path / "limits").read_text().split() == [x for n in blocks for x in ("minnctapersm", str(n))]


def test_ctas_smaller_than_the_maximum_limit_registers(tmp_path: Path) -> None:
    """With a ptxas that spills with 80 registers. 5 CTAs of 4 warps have 102 registers a thread."""
    ptxas = program(
        tmp_path,
        'while [ "$1" != -o ]; do shift; done; printf code > "$2"; registers=108; spilled=0\n'
        'grep -q "maxnreg 96" "$3" && registers=96\n'
        'grep -Eq "maxnreg [1-8]|minnctapersm" "$3" && spilled=8\n'
        'echo "$spilled bytes spill stores, 0 bytes spill loads" >&2; echo "Used $registers registers" >&2',
    )
    cubin = compile_for_occupancy(".maxntid 32, 8\n", "sm_90a", 128, configured=ptxas)
    assert (cubin.registers, cubin.spill_bytes) == (96, 0)
    cubin = compile_for_occupancy(".maxntid 32, 8\n", "sm_90a", 256, configured=ptxas)
    assert (cubin.registers, cubin.spill_bytes) == (108, 0)


@pytest.mark.parametrize(
    ("entry", "registers", "expected"),
    [
        *((".maxntid 32, 4\n", 80, 80), (".maxntid 128\n", 80, 56), (".maxntid 128\n", 40, 56)),
        *((".maxntid 128\n{\n\tbar.sync 0;\n}", 80, 56), (".maxntid 128\n{\n\tbar.sync 0;\n}", 40, 40)),
    ],
)
def test_kernels_with_enough_warps_are_assembled_once(
    entry: str, registers: int, expected: int, tmp_path: Path
) -> None:
    """24 warps are resident with 80 registers a thread, enough if warps run separate blocks; 48 with 40, enough if the
    warps of a block synchronise."""
    ptxas = program(
        tmp_path,
        f'while [ "$1" != -o ]; do shift; done; printf code > "$2"; registers={registers}\n'
        'grep -Eq "maxnreg|minnctapersm" "$3" && registers=56\n'
        'echo "Used $registers registers" >&2',
    )
    assert compile_for_occupancy(entry, "sm_90a", 128, configured=ptxas).registers == expected


@pytest.mark.parametrize(("max_threads", "expected"), [("32, 2", (176, 0)), ("64", (168, 16))])
def test_only_blocks_of_one_warp_get_more_registers_to_avoid_spills(
    max_threads: str, expected: tuple[int, int], tmp_path: Path
) -> None:
    """With a ptxas that spills with less than 176 registers. Other CTAs would have fewer resident warps."""
    ptxas = program(
        tmp_path,
        'while [ "$1" != -o ]; do shift; done; printf code > "$2"; registers=168; spilled=16\n'
        'grep -q "maxnreg 176" "$3" && registers=176 && spilled=0\n'
        'echo "$spilled bytes spill stores, 0 bytes spill loads" >&2; echo "Used $registers registers" >&2',
    )
    cubin = compile_for_occupancy(f".maxntid {max_threads}\n", "sm_90a", 64, configured=ptxas)
    assert (cubin.registers, cubin.spill_bytes) == expected


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "spilled"), [(64, 0, 0), (32, 50 << 10, 0), (255, 0, 8)]
)
def test_kernels_that_spill_with_few_registers_are_assembled_for_as_many_blocks(
    registers: int, shared_bytes: int, spilled: int, tmp_path: Path
) -> None:
    """With a ptxas that spills unless a number of CTAs is given: 4 in registers or in shared memory."""
    actual = program(
        tmp_path,
        'while [ "$1" != -o ]; do shift; done; printf code > "$2"; spilled=8\n'
        'grep -q "minnctapersm 4" "$3" && spilled=0\n'
        f'echo "$spilled bytes spill stores, 0 bytes spill loads" >&2; echo "Used {registers} registers" >&2',
    )
    cubin = compile_for_occupancy(".maxntid 32, 8\n", "sm_90a", 256, shared_bytes, configured=actual)
    assert (cubin.registers, cubin.spill_bytes) == (registers, spilled)


def test_code_with_fewer_spills_is_taken(tmp_path: Path) -> None:
    """With a ptxas that takes 32 registers unless a number of CTAs is given, and always spills."""
    ptxas = program(
        tmp_path,
        'while [ "$1" != -o ]; do shift; done; printf code > "$2"; registers=32; spilled=14404\n'
        'grep -q minnctapersm "$3" && registers=128 && spilled=1412\n'
        'echo "$spilled bytes spill stores, 0 bytes spill loads" >&2; echo "Used $registers registers" >&2',
    )
    cubin = compile_for_occupancy(".maxntid 512\n", "sm_90a", 512, 216 << 10, configured=ptxas)
    assert (cubin.registers, cubin.spill_bytes) == (128, 1412)


@pytest.mark.parametrize(("spilled", "runs"), [(0, [6]), (8, [6, None])])
def test_kernels_that_hold_many_registers_of_tiles_are_assembled_once(
    spilled: int, runs: list[int | None], tmp_path: Path
) -> None:
    """For 128 registers of tiles and 32 others; after spills the code is assembled without a limit."""
    ptxas = program(
        tmp_path,
        f'while [ "$1" != -o ]; do shift; done; cp "$3" {tmp_path}/$(ls {tmp_path} | wc -l).ptx; printf code > "$2"\n'
        f'echo "{spilled} bytes spill stores, 0 bytes spill loads" >&2; echo "Used 250 registers" >&2',
    )
    entry = ".maxntid 32, 2\n"
    compile_for_occupancy(entry, "sm_90a", 64, tile_registers=128, configured=ptxas)
    attempts = sorted(tmp_path.glob("*.ptx"), key=lambda path: int(path.stem))
    expected = [entry if n is None else f"{entry}.minnctapersm {n}\n" for n in runs]
    assert [path.read_text() for path in attempts][: len(expected)] == expected
    assert spilled or len(attempts) == 1


def test_a_ptxas_that_was_started_reads_the_first_ptx(tmp_path: Path) -> None:
    """With a ptxas that notes when it starts, and what it reads."""
    ptxas = program(
        tmp_path,
        f'echo start >> {tmp_path}/runs; while [ "$1" != -o ]; do shift; done; printf code > "$2"\n'
        f'echo "$(basename $3) $(head -n 1 $3)" >> {tmp_path}/runs',
    )
    with started("sm_90a", False, ptxas):
        assert [compile_cubin(text, "sm_90a", ptxas).code for text in ("first", "second")] == [b"code"] * 2
    assert (tmp_path / "runs").read_text().split("\n")[:-1] == [
        *("start", "stdin first"),
        *("start", "kernel.ptx second"),
    ]


FAST_COMPILE = '[ "$2" = --Ofast-compile=min ] || [ "$3" = --Ofast-compile=min ]'


def test_ptxas_without_the_option_of_fast_compiles_runs_again(tmp_path: Path) -> None:
    ptxas = program(
        tmp_path,
        f'if {FAST_COMPILE}; then echo "Unknown option" >&2; exit 1; fi\n'
        'while [ "$1" != -o ]; do shift; done; printf code > "$2"',
    )
    with started("sm_90a", False, ptxas, True):
        assert compile_cubin("text", "sm_90a", ptxas, fast_compile=True).code == b"code"


def test_fast_compiles_that_spill_registers_are_repeated(tmp_path: Path) -> None:
    ptxas = program(
        tmp_path,
        f'code=slow; if {FAST_COMPILE}; then code=fast; echo "8 bytes spill stores, 8 bytes spill loads"; fi\n'
        'while [ "$1" != -o ]; do shift; done; printf $code > "$2"',
    )
    assert compile_cubin("text", "sm_90a", ptxas, fast_compile=True).code == b"fast"
    assert compile_for_occupancy("text", "sm_90a", 0, configured=ptxas, fast_compile=True).code == b"slow"


def test_compiles_of_long_blocks_that_wait_for_memory_are_fast() -> None:
    short = "\ndefine void @kernel() {\nentry:\n" + "  %x = add i32 1, 2\nnext:\n" * 3000 + "}\n"
    long = short.replace("next:\n", "")
    assert (
        ptx.is_compiled_fast(long, True)
        and not ptx.is_compiled_fast(long, False)
        and not ptx.is_compiled_fast(short, True)
    )
    assert not ptx.is_compiled_fast(long.replace("add", "wgmma"), True)


def test_without_files_in_memory_ptxas_starts_with_the_ptx(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> int:
        raise OSError(name)

    monkeypatch.setattr(os, "memfd_create", refuse)
    ptxas = program(tmp_path, 'while [ "$1" != -o ]; do shift; done; basename "$3" > "$2"')
    with started("sm_90a", False, ptxas):
        assert compile_cubin("text", "sm_90a", ptxas).code == b"kernel.ptx\n"


def test_a_started_ptxas_leaves_no_open_files(tmp_path: Path) -> None:
    ptxas = program(tmp_path, 'while [ "$1" != -o ]; do shift; done; cat "$3" > "$2"')
    before = os.listdir("/proc/self/fd")
    with started("sm_90a", False, ptxas):
        assert compile_cubin("text", "sm_90a", ptxas).code == b"text"
    with pytest.raises(InternalError), started("sm_90a", False, str(tmp_path / "ptxas")):
        raise InternalError("")
    with pytest.raises(InternalError, match="cannot be started"), started("sm_90a", False, str(tmp_path)):
        pass
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("is_started", (True, False))
def test_work_is_done_while_ptxas_runs(is_started: bool, tmp_path: Path) -> None:
    """A ptxas that waits for the work before it reads more text than a pipe holds."""
    done, text = tmp_path / "done", "a" * 300_000
    ptxas = program(
        tmp_path,
        'while [ "$1" != -o ]; do shift; done\n'
        f'for k in $(seq 200); do [ -e {done} ] && cat "$3" > "$2" && exit 0; sleep 0.02; done; exit 1',
    )
    with started("sm_90a", False, ptxas) if is_started else nullcontext():
        assert compile_cubin(text, "sm_90a", ptxas, meanwhile=done.mkdir).code == text.encode()


def test_an_error_of_the_work_ends_ptxas(tmp_path: Path) -> None:
    ptxas = program(tmp_path, "exec sleep 60")
    with pytest.raises(ZeroDivisionError), started("sm_90a", False, ptxas):
        compile_cubin("text", "sm_90a", ptxas, meanwhile=lambda: 1 // 0)


def test_a_ptxas_that_was_started_in_vain_is_ended(tmp_path: Path) -> None:
    """For PTX without source lines, which needs other options, and after an error."""
    ptxas = program(
        tmp_path,
        f'while [ "$1" != -o ]; do shift; done; echo "$(basename $3)" >> {tmp_path}/runs; cat "$3" > "$2"',
    )
    with started("sm_90a", True, ptxas):
        assert compile_cubin("text", "sm_90a", ptxas).code == b"text"
    with pytest.raises(InternalError, match="stopped"), started("sm_90a", False, ptxas):
        raise InternalError("stopped")
    assert "kernel.ptx" in (tmp_path / "runs").read_text()
    with (
        pytest.raises(InternalError, match="ptxas cannot be started"),
        started("sm_90a", False, str(tmp_path)),
    ):
        pass


def test_without_ptxas_the_driver_gets_the_ptx() -> None:
    cubin = compile_cubin("text", "sm_90a", configured="driver")
    assert cubin.is_ptx and cubin.code == b"text\0"
    with pytest.raises(RuntimeError, match="install ptxas"):
        cubin.sass()
    assert identity("driver") == "driver"


def test_an_absent_configured_ptxas_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tg.config.ptxas is .*ptxas, which does not exist"):
        compile_cubin("text", "sm_90a", configured=str(tmp_path / "ptxas"))


def test_a_ptxas_that_is_too_old_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = "echo \"ptxas fatal : Value 'sm_90a' is not defined for option 'gpu-name'\" >&2; exit 1"
    program(tmp_path / "old" / "bin", old)
    new = program(
        tmp_path / "new",
        'while [ "$1" != -o ]; do shift; done; printf code > "$2"; echo "Used 7 registers, 16 bytes smem" >&2',
    )
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'new'}{os.pathsep}{os.environ['PATH']}")
    assert [Path(p).parent.name for p in candidates()[:2]] == ["bin", "new"]
    cubin = compile_cubin("text", "sm_90a")
    assert (cubin.code, cubin.registers, cubin.shared_bytes) == (b"code", 7, 16)
    assert new in identity()


def test_the_identity_of_a_ptxas_changes_with_its_program(tmp_path: Path) -> None:
    path = program(tmp_path, "exit 0")
    before = identity(path)
    Path(path).write_text("#!/bin/sh\nexit 0 # newer\n")
    assert identity(path) != before


def test_the_version_of_a_ptxas_is_read_from_its_output(tmp_path: Path) -> None:
    assert version(program(tmp_path, "echo Cuda compilation tools, release 13.0, V13.0.88")) == "13.0"
    assert version(program(tmp_path, "exit 3")) == "unknown"


def test_cubins_are_printed_as_sass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, 'test "$1" = -sass && cat "$2" && echo " EXIT"', name="cuobjdump")
    monkeypatch.setenv("CUDA_HOME", "")
    monkeypatch.setenv("CUDA_PATH", "")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert Cubin(b"FADD;", is_ptx=False).sass() == "FADD; EXIT\n"
