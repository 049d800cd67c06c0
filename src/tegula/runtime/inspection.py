"""What a compiled kernel looks like inside."""

from __future__ import annotations

from dataclasses import dataclass

from tegula.codegen.kernel import CpuCode, lower_kernel
from tegula.ir import AccessClass
from tegula.ir import Kernel as KernelIR
from tegula.passes.pipeline import for_cpu, prepare
from tegula.runtime.compile import trace
from tegula.runtime.config import config
from tegula.runtime.device import CPU
from tegula.runtime.kernel import SOURCE, Kernel, Specialisation
from tegula.target import CpuTarget, get_target
from tegula.text import print_kernel


@dataclass(frozen=True, slots=True)
class Inspection:
    """One compiled form of a kernel: its IR after each pass, and the code made of it."""

    kernel: Kernel
    wanted: Specialisation
    final: KernelIR
    stages: dict[str, str]
    target: CpuTarget
    code: CpuCode

    def assembly(self) -> str:
        from tegula.backend.llvm import assembly

        return assembly(self.code.text, self.target)

    def text(self) -> str:
        """For people."""
        loops = sum(op.NAME == "lanes" for op in self.final.walk())
        lines = [f"{self.kernel.name}: {self.wanted.launch}", f"target: {self.target.key}"]
        for parameter, t, access in zip(
            self.kernel.parameters, self.wanted.types, self.wanted.access, strict=True
        ):
            lines.append(f"  {parameter.name}: {t}{_described(access)}")
        lines.append(f"lane loops: {loops} (the lanes meet before and after each)")
        plan = self.code.scratch
        lines.append(
            f"scratch memory per thread: {plan.total:,} bytes of {CPU.max_shared_memory_per_block:,}"
        )
        lines += plan.table()
        places = sorted({loc.chain()[-1].line for loc in self.code.copies})
        where = f" (loops in lines {', '.join(map(str, places))})" if places else ""
        lines.append(f"tiles copied for the next round of a loop: {len(self.code.copies)}{where}")
        return "\n".join(lines)


def inspect(kernel: Kernel, wanted: Specialisation) -> Inspection:
    """Compile a form again, up to LLVM IR, and keep what each step made."""
    ir = trace(kernel, wanted.types, wanted.launch, wanted.access)
    stages = {SOURCE: print_kernel(ir)}

    def keep(name: str, kernel: KernelIR) -> None:
        stages[name] = print_kernel(kernel)

    prepare(ir, keep)
    known = for_cpu(ir, keep)
    target = get_target(config.cpu_target)
    return Inspection(
        kernel, wanted, ir, stages, target, lower_kernel(ir, known, target, config.mode == "debug")
    )


def _described(access: AccessClass | None) -> str:
    if access is None:
        return ""
    kind = "packed" if access.dense else "unit stride" if access.contiguous else "strided"
    overlap = f", overlaps arguments {', '.join(map(str, access.aliases))}" if access.aliases else ""
    return f" ({kind}, {access.align}-byte aligned{overlap})"
