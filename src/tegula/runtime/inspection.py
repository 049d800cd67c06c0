"""The report of a compiled kernel: launch class, memory, registers, matmuls and roles."""

from __future__ import annotations

import math

from tegula.backend.ptx import Cubin
from tegula.check.verdict import Verdict
from tegula.codegen.gpu import GpuCode
from tegula.codegen.kernel import CpuCode, lower_kernel
from tegula.dataclass import dataclass
from tegula.ir import AccessClass, Op
from tegula.ir import Kernel as KernelIR
from tegula.ir.text import print_kernel
from tegula.lang.constants import stable_form
from tegula.ops.lane import Lanes
from tegula.ops.roles import WARP, PipeNew, Roles, block_threads, pipe_endpoints, pipe_type
from tegula.passes.pipeline import for_cpu, prepare
from tegula.passes.select_matmuls import explain_matmuls
from tegula.passes.uniform_operands import group_operands, view_index
from tegula.passes.uniformity import analyse
from tegula.runtime.automatic import build
from tegula.runtime.compile import trace
from tegula.runtime.config import config
from tegula.runtime.device import CPU
from tegula.runtime.kernel import SOURCE, Kernel, Specialisation
from tegula.target import CpuTarget, CudaTarget, get_target
from tegula.types import element_bytes


@dataclass(frozen=True, slots=True)
class Inspection:
    """One compiled form of a kernel: its IR after each pass, and its code."""

    kernel: Kernel
    specialisation: Specialisation
    final: KernelIR
    stages: dict[str, str]
    roles: list[str]
    target: CpuTarget
    code: CpuCode

    def assembly(self) -> str:
        """The machine code as text."""
        from tegula.backend.llvm import assembly

        return assembly(self.code.text, self.target)

    def text(self) -> str:
        """The explanation of a compiled form as text."""
        loops = sum(isinstance(op, Lanes) for op in self.final.walk())
        lines = [f"{self.kernel.name}: {self.specialisation.launch}", f"target: {self.target.key}"]
        lines += [*_arguments(self.kernel, self.specialisation), *self.roles]
        lines.append(f"lane loops: {loops} (the lanes synchronise before and after each)")
        plan = self.code.scratch
        lines.append(
            f"scratch memory per thread: {plan.total:,} bytes of {CPU.max_shared_memory_per_block:,}"
        )
        lines += plan.table()
        copied_lines = sorted({loc.chain()[-1].line for loc in self.code.copies})
        location = f" (loops in lines {', '.join(map(str, copied_lines))})" if copied_lines else ""
        lines.append(f"tiles copied for the next iteration of a loop: {len(self.code.copies)}{location}")
        vector_blocks = self.code.vectorised
        if vector_blocks.kernel is not None:
            lines.append(
                f"blocks side by side in vector registers: {vector_blocks.lanes}; one by one in launches of fewer "
                "blocks for each pair of threads"
            )
        elif vector_blocks.reason:
            lines.append(f"blocks run one by one: {vector_blocks.reason}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class CudaInspection:
    """One form of a kernel for a GPU: its IR after each pass, and its code."""

    kernel: Kernel
    specialisation: Specialisation
    stages: dict[str, str]
    roles: list[str]
    target: CudaTarget
    code: GpuCode
    cubin: Cubin
    schedule: str
    verdict: Verdict
    matmuls: list[str]

    def assembly(self) -> str:
        """The PTX of the compiled form."""
        from tegula.backend.llvm import compile_ptx

        return compile_ptx(self.code.text, self.target.arch)

    def machine_code(self) -> Cubin:
        """The machine code from ptxas; PTX if there is no ptxas."""
        return self.cubin

    def text(self) -> str:
        """The explanation of a compiled form as text."""
        code_text = self.machine_code()
        lines = [f"{self.kernel.name}: {self.specialisation.launch}", f"target: {self.target.key}"]
        lines += [
            *_arguments(self.kernel, self.specialisation),
            f"automatic schedule: {self.schedule}",
            *self.roles,
        ]
        lines += self.matmuls
        lines.append(f"schedule: {self.verdict.report()}")
        lines.append(f"threads per block: {self.code.threads}")
        if self.code.max_warps > 1:
            lines.append(f"blocks per CTA: up to {self.code.max_warps * self.code.per_warp}")
        lines.append(
            f"shared memory per block: {self.code.shared_bytes:,} bytes of {self.target.shared_per_block:,}"
        )
        if code_text.is_ptx:
            lines.append("registers: unknown until the driver compiles the kernel; install ptxas to see them")
        else:
            lines.append(
                f"registers per thread: {code_text.registers}, spilled {code_text.spill_bytes} bytes"
            )
        return "\n".join(lines)


def _arguments(kernel: Kernel, specialised: Specialisation) -> list[str]:
    rows = zip(kernel.parameters, specialised.types, specialised.access, strict=True)
    bound = [
        f"  {name}: the constant {stable_form(value)}" for name, value in kernel.definition.bound.items()
    ]
    return [f"  {parameter.name}: {t}{_access_text(access)}" for parameter, t, access in rows] + bound


def inspect(kernel: Kernel, specialised: Specialisation) -> Inspection | CudaInspection:
    """Recompile a form up to LLVM IR, and record the IR after each pass."""
    ir = trace(kernel, specialised.types, specialised.launch, specialised.access, specialised.device)
    stages = {SOURCE: print_kernel(ir)}

    def record_stage(name: str, kernel: KernelIR) -> None:
        stages[name] = print_kernel(kernel)

    prepare(ir, record_stage)
    if specialised.device.is_cuda:
        from tegula.runtime.cuda.context import target as target_of

        device_target = target_of(specialised.device.ordinal)
        return inspect_for_gpu(kernel, specialised, ir, device_target, stages)
    operand_notes = explain_operands(ir)
    roles, compilation = [*explain_roles(ir), *operand_notes], for_cpu(ir, record_stage)
    target, debug = get_target(config.cpu_target), config.mode == "debug"
    return Inspection(
        kernel, specialised, ir, stages, roles, target, lower_kernel(ir, compilation, target, debug)
    )


def inspect_for_gpu(
    kernel: Kernel, specialised: Specialisation, ir: KernelIR, target: CudaTarget, stages: dict[str, str]
) -> CudaInspection:
    """Compile a form for a GPU from its prepared IR, which is modified in place; the IR after each pass is added to
    `stages`."""
    roles, matmuls, operand_notes = list[str](), list[str](), explain_operands(ir)

    def record_stage(name: str, kernel: KernelIR) -> None:
        stages[name] = print_kernel(kernel)
        if name == "lower_pipes":
            matmuls[:] = explain_matmuls(kernel)
        if name == "split_lanes":
            roles[:] = explain_roles(kernel)

    built = build(ir, target, config.mode == "debug", record_stage)
    return CudaInspection(
        kernel,
        specialised,
        stages,
        [*roles, *operand_notes],
        target,
        built.code,
        built.cubin,
        "\n  ".join(map(str, (built.schedule, *built.schedule.rejected))),
        built.verdict,
        matmuls,
    )


def _access_text(access: AccessClass | None) -> str:
    if access is None:
        return ""
    known = {
        "packed": access.dense,
        "unit stride": access.contiguous,
        "unit stride along columns": access.columns,
    }
    kind = next((text for text, holds in known.items() if holds), "strided")
    overlap = f", overlaps arguments {', '.join(map(str, access.aliases))}" if access.aliases else ""
    return f" ({kind}, {access.align}-byte aligned{overlap})"


def explain_operands(kernel: KernelIR) -> list[str]:
    """The lane-varying scalar operands of tile functions as text; thread 0's value is used."""
    uniformity = analyse(kernel)
    operands: dict[tuple[int, str], None] = {}
    for op in kernel.walk():
        assert isinstance(op, Op)
        views = [view_index(v, uniformity) for v in op.operands] if op.COOPERATIVE else []
        for text in [*(text for _, text in group_operands(op, uniformity)), *filter(None, views)]:
            operands[op.loc.line, text] = None
    lines = [f"  {text} (line {line})" for line, text in sorted(operands)]
    return (
        ["these operands may differ between threads of a block; thread 0's value is used:", *lines]
        if lines
        else []
    )


def explain_roles(kernel: KernelIR) -> list[str]:
    """The roles of a kernel and the pipes between them as text; no lines for a kernel without roles."""
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    if roles is None:
        return []
    names, threads = roles.names, 0
    lines = ["roles:"]
    for name, (first, count), registers in zip(names, roles.warps, roles.registers, strict=True):
        warps = f"warps {first} to {first + count - 1}" if count > 1 else f"warp {first}"
        budget = f"{registers} registers a thread" if registers else "registers chosen by the compiler"
        lines.append(f"  {name}: {warps} ({count * WARP} threads), {budget}")
        threads += count * WARP
    idle = block_threads(roles) - threads
    lines += [f"  idle: {idle} threads"] if idle else []
    pipes = [op for op in kernel.body.ops if isinstance(op, PipeNew)]
    return lines + (["pipes:"] if pipes else []) + [_pipe(roles, op) for op in pipes]


def _pipe(roles: Roles, pipe: Op) -> str:
    t = pipe_type(pipe.result.type)
    size = t.stages * math.prod(t.shape) * element_bytes(t.dtype)
    tiles = f"{t.stages} stage{'s' * (t.stages > 1)} of {t.dtype} {'x'.join(map(str, t.shape))}"
    producers, consumers = (
        [roles.names[k] for k in indices] for indices in pipe_endpoints(roles, pipe.result)
    )
    direction = f"from {', '.join(producers) or 'no role'} to {', '.join(consumers) or 'no role'}"
    return f"  {pipe.result.name or 'pipe'}: {tiles} ({size:,} bytes), {direction}"
