"""A hand-written LLVM kernel in the form of the code generator: c = a + b for three packed arrays of float32.

Its only parameter points to the packed arguments of a launch: the descriptors of the arrays (address, extent, stride),
the launch dimension, the number of threads, the address of the report."""

ARGUMENT_BYTES = 96
BLOCK = 256

VECTOR_ADD = """
define ptx_kernel void @kernel(ptr byval([96 x i8]) align 16 "nvvm.grid_constant" %args) #0 {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %cta = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %cta, 256
  %i.32 = add i32 %base, %tid
  %i = zext i32 %i.32 to i64
  %total.p = getelementptr i8, ptr %args, i64 80
  %total = load i64, ptr %total.p
  %in = icmp slt i64 %i, %total
  br i1 %in, label %work, label %out
work:
  %a = load ptr, ptr %args
  %b.p = getelementptr i8, ptr %args, i64 24
  %b = load ptr, ptr %b.p
  %c.p = getelementptr i8, ptr %args, i64 48
  %c = load ptr, ptr %c.p
  %ap = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %ap
  %bp = getelementptr float, ptr %b, i64 %i
  %y = load float, ptr %bp
  %s = fadd float %x, %y
  %cp = getelementptr float, ptr %c, i64 %i
  store float %s, ptr %cp
  br label %out
out:
  ret void
}
attributes #0 = { "nvvm.maxntid"="256" }
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
"""
