"""LLVM IR text to machine code. The only file that imports llvmlite."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from tegula.backend.loader import undefined_symbols
from tegula.backend.memory_functions import MEMORY_FUNCTIONS, NAMES
from tegula.errors import InternalError
from tegula.target import CpuTarget

_MEMORY_INTRINSICS = tuple(f"llvm.{name}." for name in sorted(NAMES))


@cache
def _machine(target: CpuTarget) -> Any:
    """LLVM's compiler for a target; safe for several threads, because llvmlite runs one call at a time."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    made = llvm.Target.from_triple(target.triple)
    return made.create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small", jit=False
    )


def _parsed(ir_text: str, target: CpuTarget, context: Any) -> Any:
    """A verified module. LLVM's message of an error holds the line it complains about."""
    if " asm " in ir_text and target.triple.split("-")[0] != llvm.get_default_triple().split("-")[0]:
        # LLVM would end the process: llvmlite has no assembler for other processors than its own.
        raise InternalError(f"inline assembly cannot be compiled for {target.triple} on this machine")
    try:
        module = llvm.parse_assembly(ir_text, context=context)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refused the generated code: {error}") from error
    module.triple = target.triple
    module.data_layout = str(_machine(target).target_data)
    return module


def _optimise(module: Any, target: CpuTarget) -> None:
    """LLVM's O2 without unrolling and without joining scalars into vectors: the code comes vectorised and blocked, and
    they cost a third more time."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # LLVM 22 vectorises loops with wrapping narrow indices wrongly: see docs/design/002-loop-vectoriser.md.
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(_machine(target), options)
    builder.getModulePassManager().run(module, builder)


def _final(ir_text: str, target: CpuTarget, optimise: bool, complete: bool) -> Any:
    """A module ready for code generation. `complete`: with the memory functions even if no need for them is seen."""
    # A context of its own, so that types and constants go with the module.
    context = llvm.create_context()
    module = _parsed(ir_text, target, context)
    if optimise:
        _optimise(module, target)
    called = (f.name for f in module.functions if f.is_declaration)
    if complete or any(name.startswith(_MEMORY_INTRINSICS) or name in NAMES for name in called):
        module.link_in(_parsed(MEMORY_FUNCTIONS, target, context))
    return module


def compile_object(ir_text: str, target: CpuTarget, optimise: bool = True) -> bytes:
    """LLVM IR text as a position-independent ELF object without undefined symbols.

    InternalError if LLVM refuses the text, with the line, or if the object calls a function it does not hold."""
    made = _machine(target).emit_object(_final(ir_text, target, optimise, complete=False))
    missing = undefined_symbols(made)
    if missing and NAMES.issuperset(missing):
        made = _machine(target).emit_object(_final(ir_text, target, optimise, complete=True))
        missing = undefined_symbols(made)
    if missing:
        raise InternalError(f"generated code calls functions that it does not hold: {', '.join(missing)}")
    return made


def assembly(ir_text: str, target: CpuTarget, optimise: bool = True) -> str:
    """The machine code as assembly text."""
    return _machine(target).emit_assembly(_final(ir_text, target, optimise, complete=False))
