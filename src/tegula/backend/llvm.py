"""Compilation of LLVM IR text to machine code. No other file imports llvmlite."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any

from tegula.backend.loader import undefined_symbols
from tegula.backend.memory_functions import MEMORY_FUNCTIONS, NAMES
from tegula.backend.package_files import package_files
from tegula.backend.switch import NAMES as SWITCHES
from tegula.backend.switch import switch_text
from tegula.backend.tools import start_wanted_digest
from tegula.codegen.attributes import FEW_PASSES
from tegula.errors import InternalError
from tegula.target import CpuTarget, CudaTarget, get_cuda_target

with package_files():
    import llvmlite.binding as llvm
    from llvmlite.binding.newpassmanagers import NewPassManager

# The number of memory accesses of a loop above which LLVM skips scalar promotion (LICM), which takes quadratic time: a
# third of the compile time of a matmul of small tiles. Value numbering finds the same redundancies afterwards. LLVM's
# default is 250; the option exists in LLVM 9 to 22 and is process-wide.
if 9 <= llvm.llvm_version_info[0] <= 22:
    llvm.set_option("tegula", "-licm-mssa-max-acc-promotion=64")

# The number of basic blocks above which CodeGenPrepare visits again only the blocks that it has changed, instead of the
# whole function after each change: half of the time of code generation for long straight-line code, with the same
# result. LLVM's default is 10,000.
if 17 <= llvm.llvm_version_info[0] <= 22:
    llvm.set_option("tegula", "-cgpp-huge-func=0")

# Straight-line strength reduction, which GPU code gets, computes an address from an earlier one. LLVM 22 proves that
# the earlier instruction is no more often poison than its value requires, and where a proof fails tries the next one:
# up to three quarters of the time of code generation, for the same PTX. Flags of instructions (`nuw` of trip counts,
# `nneg` of lanes, `inbounds` of clamped indices) hold wherever generated code has them.
if llvm.llvm_version_info[0] == 22:
    llvm.set_option("tegula", "-enable-poison-reuse-guard=false")

_MEMORY_INTRINSICS = tuple(f"llvm.{name}." for name in sorted(NAMES))


@cache
def _machine(target: CpuTarget) -> Any:
    """LLVM's target machine. Several threads may use the machine, because llvmlite runs one call at a time."""
    if target.is_x86 == llvm.get_default_triple().startswith("x86_64"):
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    target_machine = llvm.Target.from_triple(target.triple)
    options = {"cpu": target.cpu, "features": target.features, "opt": 3 if target.optimised else 0}
    return target_machine.create_target_machine(**options, reloc="pic", codemodel="small", jit=False)


def _parse_module(ir_text: str, target: CpuTarget, context: Any) -> Any:
    """A verified module. Errors have LLVM's message, with the offending line."""
    if " asm " in ir_text and target.triple.split("-")[0] != llvm.get_default_triple().split("-")[0]:
        # LLVM would abort the process, because llvmlite has no assembler for foreign processors.
        raise InternalError(f"inline assembly cannot be compiled for {target.triple} on this machine")
    try:
        module = llvm.parse_assembly(ir_text, context=context)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refused the generated code: {error}") from error
    module.triple = target.triple
    module.data_layout = str(_machine(target).target_data)
    return module


def _optimise(module: Any, target: CpuTarget, has_few_passes: bool) -> None:
    """Run the passes of LLVM's O2 between inlining and vectorisation once, or a few of them, which replace memory of
    the stack by registers and combine instructions, in a fifth of the time.

    The code is already inlined, vectorised and blocked; the whole O2 pipeline takes twice as long for the same
    instructions."""
    builder = _pass_builder(_machine(target), speed_level=2)
    _simplify_functions(
        module, builder, _few_passes() if has_few_passes else builder.getFunctionPassManager()
    )


def _few_passes() -> Any:
    """The passes for code of tiles."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_reassociate_pass()
    passes.add_aggressive_dce_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    return passes


def _simplify_functions(module: Any, builder: Any, function_passes: Any) -> None:
    """Inline the functions that must be inlined, run passes on each function, and remove unused declarations."""
    _inline_functions(module, builder)
    with _disposed(function_passes) as passes:
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)
    with _disposed(llvm.create_new_module_pass_manager()) as strip:
        strip.add_global_dead_code_eliminate_pass()
        strip.run(module, builder)


def _inline_functions(module: Any, builder: Any) -> None:
    """Inline the functions that must be inlined."""
    with _disposed(llvm.create_new_module_pass_manager()) as passes:
        passes.add_always_inliner_pass()
        passes.run(module, builder)


def _pass_builder(machine: Any, speed_level: int) -> Any:
    """The builder of passes for one module. The code is already vectorised and unrolled."""
    options = llvm.create_pipeline_tuning_options(speed_level=speed_level)
    # LLVM 22 vectorises loops with wrapping narrow indices wrongly: see docs/design/002-loop-vectoriser.md.
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    return llvm.create_pass_builder(machine, options)


@contextmanager
def _disposed(passes: Any) -> Iterator[Any]:
    """Free a pass manager after use. llvmlite 0.50 leaks it, because `close` resolves to an empty method of a base
    class. See docs/design/040-memory-that-llvmlite-keeps.md."""
    try:
        yield passes
    finally:
        NewPassManager._dispose(passes)
        passes.detach()


def _prepare_module(ir_text: str, target: CpuTarget, complete: bool) -> Any:
    """A module ready for code generation. `complete`: whether to link the memory functions even if no call is
    visible."""
    # The module has its own context, so that types and constants are freed with the module.
    context = llvm.create_context()
    module = _parse_module(ir_text, target, context)
    if target.optimised:
        _optimise(module, target, FEW_PASSES in ir_text)
    elif " alwaysinline " in ir_text:
        _inline_functions(module, _pass_builder(_machine(target), speed_level=1))
    called = [f.name for f in module.functions if f.is_declaration]
    if SWITCHES.intersection(called):
        module.link_in(_parse_module(switch_text(target.is_x86), target, context))
    if complete or any(name.startswith(_MEMORY_INTRINSICS) or name in NAMES for name in called):
        module.link_in(_parse_module(MEMORY_FUNCTIONS, target, context))
    return module


_options = RLock()
_reduces = True


@contextmanager
def _strength_reduction(is_run: bool) -> Iterator[None]:
    """A context in which code generation runs loop strength reduction or not: it takes two fifths of the time. LLVM's
    option is of the process, so that threads generate code one after the other."""
    global _reduces
    with _options:
        if is_run is not _reduces and 17 <= llvm.llvm_version_info[0] <= 22:
            llvm.set_option("tegula", f"-disable-lsr={str(not is_run).lower()}")
            _reduces = is_run
        yield


def compile_object(ir_text: str, target: CpuTarget) -> bytes:
    """The position-independent ELF object for LLVM IR text, without undefined symbols.

    InternalError, with the line, if LLVM refuses the text, or if the object calls an undefined function."""
    start_wanted_digest()
    reduces = FEW_PASSES not in ir_text
    with _strength_reduction(reduces):
        object_code = _machine(target).emit_object(_prepare_module(ir_text, target, complete=False))
    missing = undefined_symbols(object_code)
    if missing and NAMES.issuperset(missing):
        with _strength_reduction(reduces):
            object_code = _machine(target).emit_object(_prepare_module(ir_text, target, complete=True))
        missing = undefined_symbols(object_code)
    if missing:
        raise InternalError(f"generated code calls undefined functions: {', '.join(missing)}")
    return object_code


def assembly(ir_text: str, target: CpuTarget) -> str:
    """The machine code as assembly text."""
    with _strength_reduction(FEW_PASSES not in ir_text):
        return _machine(target).emit_assembly(_prepare_module(ir_text, target, complete=False))


# PTX -----------------------------------------------------------------------------------------------------------------

# Mathematical intrinsics without PTX, for which LLVM would abort the process.
_WITHOUT_PTX = (
    r"llvm\.((?:exp|exp10|log|log2|log10|pow|powi|tan|sinh|cosh|asin|acos|atan|atan2|modf|sincos)\.\S+"
    r"|(?:exp2|sin|cos|tanh)\.f64)"
)
# Intrinsics with approximate PTX only, which the call must allow.
_APPROXIMATE = r"llvm\.(sin|cos|tanh)\.[bf]\w+"


@cache
def _cuda_machine(target: CudaTarget) -> Any:
    # llvmlite cannot initialise a single foreign target.
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target_machine = llvm.Target.from_triple(target.triple)
    # At level 3 the code generator runs global value numbering twice, for a third of its time; at 2 it removes common
    # subexpressions instead, and ptxas emits the same or equivalent machine code.
    return target_machine.create_target_machine(cpu=target.arch, features=target.features, opt=2)


def compile_ptx(ir_text: str, arch: str) -> str:
    """LLVM IR text as PTX for a GPU generation such as "sm_90a".

    InternalError, with the line, if LLVM refuses the text, or if the text calls undefined functions; ValueError for an
    unknown `arch`."""
    from tegula.backend.frame_addresses import fold_frame_addresses
    from tegula.backend.ptx_repairs import repair_ptx
    from tegula.backend.ptx_tables import define_tables

    target = get_cuda_target(arch)
    start_wanted_digest()
    module = _ptx_module(ir_text, target)
    called = [f.name for f in module.functions if f.is_declaration]
    _check_intrinsics(called, ir_text)
    missing = [name for name in called if not name.startswith("llvm.")]
    if missing:
        raise InternalError(f"generated code calls undefined functions: {', '.join(missing)}")
    _optimise_ptx(module, target)
    with _strength_reduction(True):
        ptx = repair_ptx(fold_frame_addresses(_cuda_machine(target).emit_assembly(module)))
    return define_tables(ptx, ir_text)


def _ptx_module(ir_text: str, target: CudaTarget) -> Any:
    machine = _cuda_machine(target)
    try:
        module = llvm.parse_assembly(ir_text, context=llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refused the generated code: {error}") from error
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    return module


def _check_intrinsics(called: Sequence[str], ir_text: str) -> None:
    for name in called:
        if mathematical := re.fullmatch(_WITHOUT_PTX, name):
            raise InternalError(f"llvm.{mathematical[1]} has no PTX")
        if not (mathematical := re.fullmatch(_APPROXIMATE, name)):
            continue
        for call in re.finditer(rf"\bcall([^\n@]*)@{re.escape(name)}\([^\n]*", ir_text):
            if not {"afn", "fast"} & set(call[1].split()):
                raise InternalError(
                    f"llvm.{mathematical[1]} has PTX only as an approximation (afn): {call[0].strip()}"
                )


def _optimise_ptx(module: Any, target: CudaTarget) -> None:
    """Run LLVM's O1 passes between inlining and the final module passes, without unrolling, because ptxas allocates
    registers, schedules and unrolls. The whole O1 pipeline takes twice as long for nearly the same instructions."""
    builder = _pass_builder(_cuda_machine(target), speed_level=1)
    _simplify_functions(module, builder, builder.getFunctionPassManager())
