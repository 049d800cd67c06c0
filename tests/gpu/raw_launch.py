"""The kernel of tests/backend/vector_add.py on a device, without launch and its checks."""

from __future__ import annotations

import struct

from vector_add import BLOCK, VECTOR_ADD

import tegula as tg
from tegula.runtime.cuda.context import context, target
from tegula.runtime.cuda.launch import enqueue
from tegula.runtime.cuda.module import LoadedModule, assembled
from tegula.runtime.cuda.stream import Stream, stream_on
from tegula.runtime.pack import NO_REPORT


class VectorAdd:
    """c = a + b. `by_driver`: compiled by the driver from PTX."""

    def __init__(self, device: str = "cuda:0", by_driver: bool = False) -> None:
        self.device = tg.get_device(device)
        gpu_target = target(self.device.ordinal)
        if by_driver:
            from tegula.backend.llvm import compile_ptx

            code, is_ptx = compile_ptx(VECTOR_ADD, gpu_target.arch).encode() + b"\0", True
        else:
            cubin = assembled(VECTOR_ADD, gpu_target)
            code, is_ptx = cubin.code, cubin.is_ptx
        self.module = LoadedModule(context(self.device.ordinal), code, is_ptx)
        self.function = self.module.function("kernel", threads=BLOCK)

    def __call__(self, a: tg.array, b: tg.array, c: tg.array, stream: Stream | None = None) -> None:
        n = a.size
        packed = a.packed + b.packed + c.packed + struct.pack("<2q", n, n) + NO_REPORT
        on_stream = stream or stream_on(self.device)
        enqueue(on_stream, self.function, -(-n // BLOCK), BLOCK, 0, packed[:96], "vector_add")
