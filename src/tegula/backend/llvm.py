"""LLVM IR text to machine code. The only file that imports llvmlite."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from tegula.backend.loader import undefined_symbols
from tegula.errors import InternalError
from tegula.target import CpuTarget

# The loops that LLVM itself turns into calls of these: the objects must not call out.
MEMORY_FUNCTIONS = """
define internal ptr @memset(ptr %to, i32 %value, i64 %n) #99 {
  %byte = trunc i32 %value to i8
  %r = call { ptr, i64 } asm sideeffect "rep stosb", "={rdi},={rcx},0,1,{al},~{memory}"(ptr %to, i64 %n, i8 %byte)
  ret ptr %to
}
define internal ptr @memcpy(ptr %to, ptr %from, i64 %n) #99 {
  %r = call { ptr, ptr, i64 } asm sideeffect "rep movsb", "={rdi},={rsi},={rcx},0,1,2,~{memory}"(ptr %to, ptr %from, i64 %n)
  ret ptr %to
}
@llvm.used = appending global [2 x ptr] [ptr @memset, ptr @memcpy], section "llvm.metadata"
attributes #99 = { noinline nounwind "no-builtins" }
"""


@cache
def _machine(target: CpuTarget) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    made = llvm.Target.from_triple(target.triple)
    return made.create_target_machine(
        cpu=target.cpu, features=target.features, opt=3, reloc="pic", codemodel="small", jit=False
    )


def _optimised(ir_text: str, target: CpuTarget) -> Any:
    machine = _machine(target)
    try:
        module = llvm.parse_assembly(ir_text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refused the generated code: {error}") from error
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


def compile_object(ir_text: str, target: CpuTarget) -> bytes:
    """LLVM IR text as a position-independent ELF object without undefined symbols.

    InternalError if LLVM refuses the text or the object calls a function it does not hold."""
    module = _optimised(ir_text, target)
    made = _machine(target).emit_object(module)
    missing = undefined_symbols(made)
    if missing and target.triple.startswith("x86_64") and set(missing) <= {"memset", "memcpy"}:
        return compile_object(ir_text + MEMORY_FUNCTIONS, target)
    if missing:
        raise InternalError(f"generated code calls functions that it does not hold: {', '.join(missing)}")
    return made


def assembly(ir_text: str, target: CpuTarget) -> str:
    """The optimised machine code as assembly text."""
    return _machine(target).emit_assembly(_optimised(ir_text, target))
