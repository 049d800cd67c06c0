"""The functions that run a role on its own stack, for kernels that call the functions.

`start_stack(save, top, function, argument)` saves the caller's state on the caller's stack, stores the stack pointer to
`save`, and calls the function on the stack that ends at `top`. `switch_stack(save, to)` saves the caller's state
likewise and resumes the call that stored the stack pointer `to`. The saved state is the callee-saved registers.

Both functions are linked after optimisation, so that LLVM cannot inline or analyse the functions."""

from __future__ import annotations

_X86 = {
    "start": (
        *("pushq %rbp", "pushq %rbx", "pushq %r12", "pushq %r13", "pushq %r14", "pushq %r15"),
        *("movq %rsp, (%rdi)", "movq %rsi, %rsp", "movq %rcx, %rdi", "callq *%rdx", "ud2"),
    ),
    "switch": (
        *("pushq %rbp", "pushq %rbx", "pushq %r12", "pushq %r13", "pushq %r14", "pushq %r15"),
        *("movq %rsp, (%rdi)", "movq %rsi, %rsp"),
        *("popq %r15", "popq %r14", "popq %r13", "popq %r12", "popq %rbx", "popq %rbp", "retq"),
    ),
}
_PAIRS = [f"x{k}, x{k + 1}" for k in range(19, 31, 2)] + [f"d{k}, d{k + 1}" for k in range(8, 16, 2)]
_PUSH = ("sub sp, sp, #160", *(f"stp {pair}, [sp, #{16 * k}]" for k, pair in enumerate(_PAIRS)))
_POP = (*(f"ldp {pair}, [sp, #{16 * k}]" for k, pair in enumerate(_PAIRS)), "add sp, sp, #160")
_ARM = {
    "start": (*_PUSH, "mov x9, sp", "str x9, [x0]", "mov sp, x1", "mov x0, x3", "blr x2", "brk #1"),
    "switch": (*_PUSH, "mov x9, sp", "str x9, [x0]", "mov sp, x1", *_POP, "ret"),
}

NAMES = frozenset({"start_stack", "switch_stack"})


def switch_text(x86: bool) -> str:
    """The LLVM IR of both functions, for x86-64 if `x86` is set, else for AArch64."""
    code = _X86 if x86 else _ARM
    return f"""
define hidden void @start_stack(ptr %save, ptr %top, ptr %function, ptr %argument) #0 {{
  {_assembly(code["start"])}
  unreachable
}}
define hidden void @switch_stack(ptr %save, ptr %to) #0 {{
  {_assembly(code["switch"])}
  unreachable
}}
attributes #0 = {{ naked noinline nounwind }}
"""


def _assembly(instructions: tuple[str, ...]) -> str:
    return f'call void asm sideeffect "{chr(92)}0A{(chr(92) + "0A").join(instructions)}", "~{{memory}}"()'
