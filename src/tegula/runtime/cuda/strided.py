"""Copies between arrays of any strides on one device, such as transposed, reversed or broadcast views."""

from __future__ import annotations

import struct

import numpy as np

from tegula.backend.cache import Entry
from tegula.runtime.cuda.context import Context, target
from tegula.runtime.cuda.launch import enqueue
from tegula.runtime.cuda.module import LoadedModule, assembled, compiled_entry, loaded
from tegula.runtime.cuda.stream import Stream

THREADS = 256
MAX_BLOCKS = 1 << 16
MAX_RANK = 6
"""The maximum number of dimensions of an array, including the dimensions of its elements."""
ARGUMENTS = struct.Struct(f"<4q{3 * MAX_RANK}q")
SIZES = (1, 2, 4, 8)

# Copies the element with a flat index. %args: target, source, count, rank, extents, strides of the target in bytes,
# strides of the source in bytes.
ELEMENT = """
define internal void @element<SIZE>(ptr %args, i64 %flat) alwaysinline {
entry:
  %target = load ptr, ptr %args, align 8
  %source.p = getelementptr i8, ptr %args, i64 8
  %source = load ptr, ptr %source.p, align 8
  %rank.p = getelementptr i8, ptr %args, i64 24
  %rank = load i64, ptr %rank.p, align 8
  br label %head
head:
  %d = phi i64 [ %rank, %entry ], [ %d.1, %step ]
  %remaining = phi i64 [ %flat, %entry ], [ %quotient, %step ]
  %target.offset = phi i64 [ 0, %entry ], [ %target.next, %step ]
  %source.offset = phi i64 [ 0, %entry ], [ %source.next, %step ]
  %has.dimension = icmp sgt i64 %d, 0
  br i1 %has.dimension, label %step, label %copy
step:
  %d.1 = sub i64 %d, 1
  %dimension.p = getelementptr i64, ptr %args, i64 %d.1
  %extent.p = getelementptr i8, ptr %dimension.p, i64 32
  %extent = load i64, ptr %extent.p, align 8
  %quotient = udiv i64 %remaining, %extent
  %multiple = mul i64 %quotient, %extent
  %index = sub i64 %remaining, %multiple
  %target.stride.p = getelementptr i8, ptr %dimension.p, i64 80
  %target.stride = load i64, ptr %target.stride.p, align 8
  %target.step = mul i64 %index, %target.stride
  %target.next = add i64 %target.offset, %target.step
  %source.stride.p = getelementptr i8, ptr %dimension.p, i64 128
  %source.stride = load i64, ptr %source.stride.p, align 8
  %source.step = mul i64 %index, %source.stride
  %source.next = add i64 %source.offset, %source.step
  br label %head
copy:
  %source.element = getelementptr i8, ptr %source, i64 %source.offset
  %value = load i<BITS>, ptr %source.element, align <SIZE>
  %target.element = getelementptr i8, ptr %target, i64 %target.offset
  store i<BITS> %value, ptr %target.element, align <SIZE>
  ret void
}
"""

KERNEL = """
define ptx_kernel void @copy<SIZE>(ptr byval([<BYTES> x i8]) align 16 "nvvm.grid_constant" %args) #0 {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %blocks = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %tid.64 = zext i32 %tid to i64
  %block.64 = zext i32 %block to i64
  %blocks.64 = zext i32 %blocks to i64
  %block.first = mul i64 %block.64, <THREADS>
  %first = add i64 %block.first, %tid.64
  %stride = mul i64 %blocks.64, <THREADS>
  %count.p = getelementptr i8, ptr %args, i64 16
  %count = load i64, ptr %count.p, align 8
  br label %head
head:
  %flat = phi i64 [ %first, %entry ], [ %next, %body ]
  %in.range = icmp slt i64 %flat, %count
  br i1 %in.range, label %body, label %done
body:
  call void @element<SIZE>(ptr %args, i64 %flat)
  %next = add i64 %flat, %stride
  br label %head
done:
  ret void
}
"""

DECLARATIONS = """
attributes #0 = { nounwind "nvvm.maxntid"="<THREADS>" }
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
"""


def fill_template(text: str, size: int) -> str:
    """The text of a template for elements of `size` bytes."""
    numbers = {"SIZE": size, "BITS": 8 * size, "BYTES": ARGUMENTS.size, "THREADS": THREADS}
    for name, value in numbers.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def kernels_text() -> str:
    """LLVM IR of the kernels copy1, copy2, copy4 and copy8."""
    return "".join(fill_template(ELEMENT + KERNEL, size) for size in SIZES) + fill_template(DECLARATIONS, 1)


def arguments(target: np.ndarray, source: np.ndarray) -> bytes:
    """The packed arguments of the kernels, with the fewest dimensions that describe both arrays."""
    dims: list[tuple[int, int, int]] = []
    for extent, target_stride, source_stride in zip(
        target.shape, target.strides, source.strides, strict=True
    ):
        if extent == 1:
            continue
        if dims and dims[-1][1] == extent * target_stride and dims[-1][2] == extent * source_stride:
            dims[-1] = (dims[-1][0] * extent, target_stride, source_stride)
        else:
            dims.append((extent, target_stride, source_stride))
    padding = [0] * (MAX_RANK - len(dims))
    columns = [x for k in range(3) for x in (*(d[k] for d in dims), *padding)]
    addresses = (a.__array_interface__["data"][0] for a in (target, source))
    return ARGUMENTS.pack(*addresses, target.size, len(dims), *columns)


_functions: dict[tuple[Context, int], tuple[int, LoadedModule]] = {}


def _function(context: Context, size: int) -> int:
    function = _functions.get((context, size))
    if function is None:
        text, device = kernels_text(), target(context.ordinal)

        def make() -> Entry:
            code = assembled(text, device)
            return Entry({"ptx": code.is_ptx}, code.code)

        module = loaded(context, compiled_entry([text], device, make)[0])
        for element_size in SIZES:
            _functions[context, element_size] = (
                module.function(f"copy{element_size}", threads=THREADS),
                module,
            )
        function = _functions[context, size]
    return function[0]


def copy_strided(stream: Stream, target: np.ndarray, source: np.ndarray) -> None:
    """Copy elements in the order of the stream, between arrays of one shape and dtype that do not overlap."""
    kernel = _function(stream.context, target.itemsize)
    blocks = min(-(-target.size // THREADS), MAX_BLOCKS)
    enqueue(stream, kernel, blocks, THREADS, 0, arguments(target, source), "copy")
