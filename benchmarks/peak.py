"""The measured peak rate of fused multiply-adds of this machine, which bounds every matmul."""

from __future__ import annotations

from tegula.backend.llvm import compile_object
from tegula.backend.loader import load
from tegula.backend.pool import KernelFunction, run
from tegula.target import get_target

CHAINS = 12
ITERATIONS = 400_000


def loop_text(width: int, scalar: str, suffix: str) -> str:
    """A kernel whose blocks each run ITERATIONS x CHAINS independent multiply-adds in registers."""
    t = f"<{width} x {scalar}>"
    names = range(CHAINS)
    phis = "\n".join(f"  %a{k} = phi {t} [ %x, %block ], [ %b{k}, %loop ]" for k in names)
    steps = "\n".join(f"  %b{k} = call {t} @llvm.fma.{suffix}({t} %a{k}, {t} %x, {t} %x)" for k in names)
    sums = "\n".join(f"  store {t} %b{k}, ptr %scratch, align 8" for k in names)
    bits = width * (64 if scalar == "double" else 32)
    return f"""
define i32 @kernel(ptr %args, ptr %scratch, i64 %first, i64 %end) #0 {{
entry:
  %x = load {t}, ptr %args, align 8
  br label %block
block:
  %n = phi i64 [ %first, %entry ], [ %m, %after ]
  br label %loop
loop:
  %i = phi i64 [ 0, %block ], [ %j, %loop ]
{phis}
{steps}
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, {ITERATIONS}
  br i1 %more, label %loop, label %after
after:
{sums.replace("store", "store volatile")}
  %m = add i64 %n, 1
  %again = icmp ult i64 %m, %end
  br i1 %again, label %block, label %done
done:
  ret i32 0
}}
attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" }}
"""


class PeakLoop:
    """Runs the loop on all cores. `work` is the number of floating-point operations of one call, in 1e9."""

    def __init__(self, scalar: str, blocks: int = 32) -> None:
        target = get_target()
        size = 8 if scalar == "double" else 4
        width = target.vector_bytes // size
        suffix = f"v{width}f{size * 8}"
        self.loaded = load(compile_object(loop_text(width, scalar, suffix), target))
        self.function = KernelFunction(self.loaded.address("kernel"))
        self.blocks = blocks
        self.work = 2 * width * CHAINS * ITERATIONS * blocks / 1e9

    def __call__(self) -> None:
        run(self.function, bytes(64), self.blocks, 64)
