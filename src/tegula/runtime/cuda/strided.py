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
  %rest = phi i64 [ %flat, %entry ], [ %quotient, %step ]
  %to = phi i64 [ 0, %entry ], [ %to.1, %step ]
  %from = phi i64 [ 0, %entry ], [ %from.1, %step ]
  %more = icmp sgt i64 %d, 0
  br i1 %more, label %step, label %move
step:
  %d.1 = sub i64 %d, 1
  %at = getelementptr i64, ptr %args, i64 %d.1
  %extent.p = getelementptr i8, ptr %at, i64 32
  %extent = load i64, ptr %extent.p, align 8
  %quotient = udiv i64 %rest, %extent
  %whole = mul i64 %quotient, %extent
  %index = sub i64 %rest, %whole
  %to.p = getelementptr i8, ptr %at, i64 80
  %to.stride = load i64, ptr %to.p, align 8
  %to.step = mul i64 %index, %to.stride
  %to.1 = add i64 %to, %to.step
  %from.p = getelementptr i8, ptr %at, i64 128
  %from.stride = load i64, ptr %from.p, align 8
  %from.step = mul i64 %index, %from.stride
  %from.1 = add i64 %from, %from.step
  br label %head
move:
  %read = getelementptr i8, ptr %source, i64 %from
  %value = load i<BITS>, ptr %read, align <SIZE>
  %write = getelementptr i8, ptr %target, i64 %to
  store i<BITS> %value, ptr %write, align <SIZE>
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
  %before = mul i64 %block.64, <THREADS>
  %first = add i64 %before, %tid.64
  %stride = mul i64 %blocks.64, <THREADS>
  %count.p = getelementptr i8, ptr %args, i64 16
  %count = load i64, ptr %count.p, align 8
  br label %head
head:
  %flat = phi i64 [ %first, %entry ], [ %next, %body ]
  %in = icmp slt i64 %flat, %count
  br i1 %in, label %body, label %out
body:
  call void @element<SIZE>(ptr %args, i64 %flat)
  %next = add i64 %flat, %stride
  br label %head
out:
  ret void
}
"""

DECLARATIONS = """
attributes #0 = { nounwind "nvvm.maxntid"="<THREADS>" }
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
"""


def filled(text: str, size: int) -> str:
    """The text of a template for elements of `size` bytes."""
    numbers = {"SIZE": size, "BITS": 8 * size, "BYTES": ARGUMENTS.size, "THREADS": THREADS}
    for name, value in numbers.items():
        text = text.replace(f"<{name}>", str(value))
    return text


def kernels_text() -> str:
    """LLVM IR of the kernels copy1, copy2, copy4 and copy8."""
    return "".join(filled(ELEMENT + KERNEL, size) for size in SIZES) + filled(DECLARATIONS, 1)


def arguments(target: np.ndarray, source: np.ndarray) -> bytes:
    """The packed arguments of the kernels, with the fewest dimensions that describe both arrays."""
    dims: list[tuple[int, int, int]] = []
    for n, to, from_ in zip(target.shape, target.strides, source.strides, strict=True):
        if n == 1:
            continue
        if dims and dims[-1][1] == n * to and dims[-1][2] == n * from_:
            dims[-1] = (dims[-1][0] * n, to, from_)
        else:
            dims.append((n, to, from_))
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
        for each in SIZES:
            _functions[context, each] = module.function(f"copy{each}", threads=THREADS), module
        function = _functions[context, size]
    return function[0]


def copy_strided(stream: Stream, target: np.ndarray, source: np.ndarray) -> None:
    """Copy elements in the order of the stream, between arrays of one shape and dtype that do not overlap."""
    function = _function(stream.context, target.itemsize)
    blocks = min(-(-target.size // THREADS), MAX_BLOCKS)
    enqueue(stream, function, blocks, THREADS, 0, arguments(target, source), "copy")
