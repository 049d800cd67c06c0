"""Runs the GPU code of a block or a 2-CTA cluster on the CPU. Threads run one at a time; instructions that synchronise
threads act as in the PTX manual when all threads have reached them. Copies and matmuls complete as soon as they are
issued.

Shared memory has addresses of 32 bits, 1 KB into a window of 256 KB, as on a GPU; the shared memory of the second CTA
of a cluster is in the next window."""

from __future__ import annotations

import ctypes
import re
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from fibers import END_REQUEST, REQUEST_TEXT, Fibers
from gpu_code import define_tables
from memory_order import AccessOrder
from tensor_cores import multiply_group, multiply_warp, swizzled_offset, to_tf32

from tegula.backend.llvm import compile_object
from tegula.backend.loader import LoadedObject, load
from tegula.codegen.gpu import GpuCode
from tegula.ops.scalar import DotBytes, Fma, PermuteBytes
from tegula.target import get_target

WINDOW_START, SHARED_START, WINDOW_BYTES = 0x10000000, 0x10000400, 1 << 18
CALL = re.compile(
    r'^(?P<head>\s*(?:%\S+ = )?)call (?P<type>.+?) (?P<callee>@llvm\.nvvm\.[\w.]+|asm (?:sideeffect )?"[^"]*", "[^"]*")'
    r"\((?P<args>.*)\)(?: convergent)?$",
    re.MULTILINE,
)
SPECIAL_REGISTERS = {
    "read.ptx.sreg.tid.y": "lshr i32 %thread, 5",
    "read.ptx.sreg.ctaid.x": "add i32 %block_index, 0",
    "read.ptx.sreg.nctaid.x": "add i32 %grid, 0",
}


EMULATED = """
define internal i16 @round_bfloat(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %top = lshr i32 %sum, 16
  %short = trunc i32 %top to i16
  ret i16 %short
}
define internal i32 @fused_bfloats(<2 x bfloat> %x, <2 x bfloat> %y, <2 x bfloat> %z) {
  %a = fpext <2 x bfloat> %x to <2 x float>
  %b = fpext <2 x bfloat> %y to <2 x float>
  %c = fpext <2 x bfloat> %z to <2 x float>
  %sum = call <2 x float> @llvm.fma.v2f32(<2 x float> %a, <2 x float> %b, <2 x float> %c)
  %first = extractelement <2 x float> %sum, i32 0
  %second = extractelement <2 x float> %sum, i32 1
  %low = call i16 @round_bfloat(float %first)
  %high = call i16 @round_bfloat(float %second)
  %one = insertelement <2 x i16> poison, i16 %low, i32 0
  %two = insertelement <2 x i16> %one, i16 %high, i32 1
  %result = bitcast <2 x i16> %two to i32
  ret i32 %result
}
define internal void @report_access(ptr %x, i64 %info) noinline {
  %words = alloca [2 x i64]
  %address = ptrtoint ptr %x to i64
  %offset = sub i64 %address, FIRST_ADDRESS
  %is.shared = icmp ult i64 %offset, BYTE_COUNT
  br i1 %is.shared, label %report, label %done
report:
  store i64 %address, ptr %words
  %second = getelementptr i64, ptr %words, i64 1
  store i64 %info, ptr %second
  call void @request(i64 -2, ptr %words)
  br label %done
done:
  ret void
}
""".replace("FIRST_ADDRESS", str(SHARED_START)).replace("BYTE_COUNT", str(WINDOW_BYTES))
"""LLVM text of instructions that the CPU lacks, and of the function that reports an access to shared memory."""


ACCESS = re.compile(
    r"^  (?:%\S+ = )?(?P<verb>load|store) (?P<type><[^>]+>|\w+)[ ,].*?ptr (?P<address>%[\w.]+), align .*$",
    re.MULTILINE,
)
ACCESS_REQUEST = -2
TYPE_BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}


def run_together(
    code: GpuCode,
    kernel: Any,
    args: Sequence[Any],
    dims: Sequence[int],
    blocks: int,
    order: AccessOrder | None = None,
    report: int = 0,
    rows: int = 1,
) -> None:
    """Run all blocks one after another; the threads of each block are concurrent. `dims`: the dimensions of the launch,
    including threads; `blocks`: the number of CTAs. `order` records the accesses to shared memory of a launch of one
    block. `report`: the address of memory for reports, if the kernel prints or asserts. `rows`: the number of blocks of
    the launch in each CTA."""
    total = int(np.prod(dims))
    packed = b"".join(pack(a)[1] for pack, a in zip(kernel.packers, args, strict=True))
    packed += b"".join(n.to_bytes(8, "little") for n in (*dims, total, report))
    size = 2 if code.clustered and blocks % 2 == 0 else 1
    text = define_tables(code.text)
    source = _instrument_accesses(text) if order else text
    assert rows == 1 or rows <= code.max_warps
    texts = [_translate(source, rank, size, rows if code.max_warps > 1 else 0) for rank in range(size)]
    objects = [(load(compile_object(text, get_target())), callees) for text, callees in texts]
    for first in range(0, blocks, size):
        cluster = _Cluster(code.threads * size * rows)
        cluster.blocks = [_Block(code, *objects[k], packed, args, k, cluster, order) for k in range(size)]
        cluster.run(first, blocks)


def _matches(values: list[int]) -> list[int]:
    return [sum((x == y) << k for k, y in enumerate(values)) for x in values]


def _reduce(kind: str, values: list[int]) -> int:
    """The result of `redux.sync` for 32-bit integers."""
    signed = [x - (x >> 31 << 32) for x in values]
    combined = {
        "add": sum(values),
        "umin": min(values),
        "umax": max(values),
        "min": min(signed),
        "max": max(signed),
    }
    return combined[kind] & 0xFFFFFFFF


def _instrument_accesses(text: str) -> str:
    """The module with a call before each load and store of vectors and scalars."""

    def with_report(access: re.Match[str]) -> str:
        count, _, element = access["type"].strip("<>").rpartition(" x ")
        bits = TYPE_BITS.get(element) or int(element[1:])
        info = -(-bits * int(count or 1) // 8) * 2 + (access["verb"] == "store")
        return f"  call void @report_access(ptr {access['address']}, i64 {info})\n{access[0]}"

    return ACCESS.sub(with_report, text)


def _translate(text: str, rank: int, size: int, rows: int) -> tuple[str, list[str]]:
    """The module for this CPU, with a function for each instruction that the CPU lacks, and the names of these
    instructions. `rank`: of the block in a cluster of `size`; `rows`: the number of warps of a CTA, each of which is a
    block, or 0."""
    registers = SPECIAL_REGISTERS | {
        "read.ptx.sreg.cluster.ctaid.x": f"add i32 {rank}, 0",
        "read.ptx.sreg.cluster.nctaid.x": f"add i32 {size}, 0",
        "read.ptx.sreg.tid.x": "and i32 %thread, 31" if rows else "add i32 %thread, 0",
        "read.ptx.sreg.ntid.y": f"add i32 {rows}, 0",
    }
    text = re.sub(r"^(@shared = .*|attributes .*)$", "", text, flags=re.MULTILINE)
    signature = "define void @kernel(ptr %args, i32 %thread, i32 %block_index, i32 %grid) {"
    text = re.sub(r"define ptx_kernel void @kernel\(.*$", signature, text, flags=re.MULTILINE)
    text = re.sub(r" addrspace\(\d\)", "", text).replace(
        "@shared", f"inttoptr (i64 {SHARED_START + rank * WINDOW_BYTES} to ptr)"
    )
    text = re.sub(
        r"addrspacecast ptr (.+) to ptr$", r"getelementptr i8, ptr \1, i64 0", text, flags=re.MULTILINE
    )
    rounding = r"\1.bits = call i16 @round_bfloat(float \2)\n\1 = bitcast i16 \1.bits to bfloat"
    text = re.sub(r"(%\S+) = fptrunc float (\S+) to bfloat", rounding, text)
    pair, zeros = "<2 x bfloat>", "splat (bfloat 0xR8000)"
    fused = rf"\1.word = call i32 @fused_bfloats(\2)\n\1 = bitcast i32 \1.word to {pair}"
    product = rf"\1 = call {pair} @llvm.fma.v2bf16({pair} \2, {pair} \3, {pair} {zeros})"
    text = re.sub(rf"(%\S+) = fmul {pair} (%\S+), (.+)$", product, text, flags=re.MULTILINE)
    text = re.sub(rf"(%\S+) = call {pair} @llvm.fma.v2bf16\((.+)\)$", fused, text, flags=re.MULTILINE)
    text = re.sub(r"@llvm\.(fma\.(?:v2)?f16)\(", r"@llvm.nvvm.\1(", text)
    declared: dict[tuple[str, str, tuple[str, ...]], int] = {}

    def replace_call(call: re.Match[str]) -> str:
        intrinsic, args = call["callee"], call["args"].split(", ") if call["args"] else []
        register_text = registers.get(intrinsic.removeprefix("@llvm.nvvm."))
        if register_text is not None:
            return call["head"] + register_text
        key = intrinsic, call["type"], tuple(a.rsplit(" ", 1)[0] for a in args)
        number = declared.setdefault(key, len(declared))
        return f"{call['head']}call {call['type']} @hook{number}({call['args']})"

    text = CALL.sub(replace_call, text)
    functions = [_function(number, *key) for key, number in declared.items()]
    assert "nvvm.m" not in text and " asm " not in text
    return "\n".join([text, *functions, EMULATED, REQUEST_TEXT]), [key[0] for key in declared]


def _function(number: int, intrinsic: str, result: str, types: tuple[str, ...]) -> str:
    """A function that sends a request with its arguments in memory, 8 bytes each. The answer replaces the arguments by
    the results."""
    parts = result[1:-1].split(",") if result.startswith("{") else [] if result == "void" else [result]
    slots = max(1, len(parts), len(types))
    lines = [f"  %words = alloca [{slots} x i64]"]
    for k, t in enumerate(types):
        lines += [f"  %p{k} = getelementptr i64, ptr %words, i64 {k}", f"  store {t} %x{k}, ptr %p{k}"]
    lines.append(f"  call void @request(i64 {number}, ptr %words)")
    returned = "poison"
    for k, t in enumerate(parts):
        t = t.strip()
        lines += [f"  %q{k} = getelementptr i64, ptr %words, i64 {k}", f"  %r{k} = load {t}, ptr %q{k}"]
        if result.startswith("{"):
            lines.append(f"  %s{k} = insertvalue {result} {returned}, {t} %r{k}, {k}")
            returned = f"%s{k}"
        else:
            returned = f"%r{k}"
    lines.append(f"  ret {result} {returned}" if parts else "  ret void")
    arguments = ", ".join(f"{t} %x{k}" for k, t in enumerate(types))
    return "\n".join([f"define internal {result} @hook{number}({arguments}) noinline {{", *lines, "}"])


def _without_subnormals(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0.0), x), x)


Step = Generator[None, Any, Any]
"""An instruction that a thread has reached: a generator that yields where the thread must wait, and receives the
result."""


class _Thread:
    """A thread of a block. `fiber`: the index of the thread in the cluster."""

    def __init__(self, block: _Block, number: int, fiber: int) -> None:
        self.block, self.number, self.fiber = block, number, fiber
        self.step: Step | None = None


class _Mbarrier:
    def __init__(self, count: int) -> None:
        self.count = self.pending = count
        self.bytes = self.phase = 0

    def arrive(self, bytes_to_arrive: int = 0, arrived: int = 0, count: int = 1) -> None:
        self.bytes += bytes_to_arrive - arrived
        self.pending -= count
        assert self.pending >= 0
        if self.pending == 0 and self.bytes == 0:
            self.pending, self.phase = self.count, self.phase ^ 1


class _Cluster:
    """The state that the CTAs of a cluster, or a single CTA, share: the runnable threads and the waiting threads."""

    def __init__(self, threads: int) -> None:
        self.blocks: list[_Block] = []
        self.mbarriers: dict[int, _Mbarrier] = {}
        self.fibers, self.count = Fibers(threads), threads
        self.ready: deque[tuple[_Thread, Any]] = deque()
        self.gathered: dict[Any, list[tuple[int, _Thread, Any]]] = {}
        self.waiting: dict[int, list[_Thread]] = {}

    def run(self, first: int, grid: int) -> None:
        """Run all threads; the threads of block `first` run before the threads of the next block."""
        for rank, block in enumerate(self.blocks):
            block.connect()
            threads = self.count // len(self.blocks)
            for number in range(threads):
                thread = _Thread(block, number, rank * threads + number)
                self.fibers.begin(thread.fiber, block.object.address("begin"))
                thread.step = block.start(thread, first + rank, grid)
                self.ready.append((thread, None))
        running_count = self.count
        while self.ready:
            running_count -= self._run_thread(*self.ready.popleft())
        assert running_count == 0, "threads wait without end"

    def _run_thread(self, thread: _Thread, request_value: Any) -> bool:
        """Run a thread until the thread waits for others. Returns whether the thread has ended."""
        block = thread.block
        while True:
            if thread.step is not None:
                try:
                    thread.step.send(request_value)
                    return False
                except StopIteration:
                    thread.step, request_value = None, None
            number, address = self.fibers.run(thread.fiber)
            if number == END_REQUEST:
                return True
            if number == ACCESS_REQUEST:
                block.report_access(thread, address)
            else:
                thread.step = block.instruction(thread, block.callees[number], address)

    def synchronise(
        self, key: Any, size: int, thread: _Thread, value: Any, act: Callable[..., Sequence[Any]]
    ) -> Step:
        """A collective step of `size` threads: the last thread that arrives executes the step for all, in the order of
        the threads."""
        present = self.gathered.setdefault(key, [])
        present.append((thread.fiber, thread, value))
        if len(present) < size:
            return (yield)
        del self.gathered[key]
        present.sort(key=lambda entry: entry[0])
        result = act([operand for _, _, operand in present])
        self.ready.extend(
            (waiting_thread, x)
            for (_, waiting_thread, _), x in zip(present, result, strict=True)
            if waiting_thread is not thread
        )
        return next(
            x for (_, waiting_thread, _), x in zip(present, result, strict=True) if waiting_thread is thread
        )

    def phase_ended(self, address: int) -> None:
        """Resume the threads that wait for a phase of a memory barrier."""
        self.ready.extend((thread, None) for thread in self.waiting.pop(address, ()))


class _Block:
    def __init__(
        self, code: GpuCode, object_: LoadedObject, callees: list[str], packed: bytes, args: Sequence[Any], rank: int,
        cluster: _Cluster, order: AccessOrder | None,
    ) -> None:  # fmt: skip
        self.order = order
        self.code, self.object, self.callees, self.args = code, object_, callees, args
        self.cluster, self.window = cluster, WINDOW_START + rank * WINDOW_BYTES
        self.buffer = ctypes.create_string_buffer(len(packed) + 64 + 64 + 128 * len(code.maps))
        self.arguments = -(-ctypes.addressof(self.buffer) // 64) * 64
        ctypes.memmove(self.arguments, packed, len(packed))
        self.maps = self.arguments + -(-len(packed) // 64) * 64
        self.memory = _map_window(self.window)
        self.memory[:] = 0xFF
        self.mbarriers = cluster.mbarriers

    def connect(self) -> None:
        self.cluster.fibers.connect(self.object.address("connect"))

    def start(self, thread: _Thread, number: int, grid: int) -> Step:
        """Pass the arguments and the indices of a starting thread to the code."""
        mailbox = self.cluster.fibers.mailbox
        mailbox.arguments, mailbox.thread, mailbox.block, mailbox.grid = (
            self.arguments,
            thread.number,
            number,
            grid,
        )
        yield from ()

    def report_access(self, thread: _Thread, start: int) -> None:
        address, info = (ctypes.c_uint64 * 2).from_address(start)
        assert self.order is not None
        self.order.access(thread.number, address, info // 2, bool(info % 2))

    # Instructions ----------------------------------------------------------------------------------------------------

    def instruction(self, thread: _Thread, intrinsic: str, address: int) -> Step:
        words = (ctypes.c_uint64 * 4096).from_address(address)
        name = intrinsic.removeprefix("@llvm.nvvm.")
        if intrinsic.startswith("asm"):
            yield from self._assembly(thread, intrinsic.split('"')[1], intrinsic.split('"')[3], words)
        elif name == "barrier.cta.sync.aligned.all":
            yield from self._synchronise(thread, "all", self.code.threads)
        elif name == "barrier.cta.sync.aligned.count":
            yield from self._synchronise(thread, words[0] & 0xFFFFFFFF, words[1] & 0xFFFFFFFF)
        elif name == "bar.warp.sync":
            yield from self._synchronise(thread, ("warp", thread.number // 32), 32)
        elif name == "elect.sync":
            words[0], words[1] = 0, int(thread.number % 32 == 0)
        elif name.startswith("shfl.sync."):
            mode, selector, clamp = name.split(".")[2], words[2] & 0xFFFFFFFF, words[3]
            words[0] = yield from self._shuffle(thread, mode, words[1], selector, clamp)
        elif name.startswith("vote.ballot.sync"):
            words[0] = yield from self._warp(
                thread, words[1] & 1, lambda operands: [sum(x << k for k, x in enumerate(operands))] * 32
            )
        elif name == "vote.all.sync":
            words[0] = yield from self._warp(thread, words[1] & 1, lambda flags: [int(all(flags))] * 32)
        elif name.startswith("match.any.sync"):
            mask = (1 << int(name.rpartition("i")[2])) - 1
            words[0] = yield from self._warp(thread, words[1] & mask, _matches)
        elif name.startswith("redux.sync"):
            kind = name.rpartition(".")[2]
            words[0] = yield from self._warp(
                thread, words[0] & 0xFFFFFFFF, lambda operands: [_reduce(kind, operands)] * 32
            )
        elif name.startswith("rsqrt.approx.ftz"):
            words[0] = self._reciprocal_root(words[0])
        elif name.startswith("rcp.approx.ftz"):
            words[0] = self._reciprocal(words[0], name.endswith(".d"))
        elif name.startswith("ldmatrix"):
            words[:4] = yield from self._warp(
                thread, words[0], lambda operands: self._matrices(thread, operands, ".trans" in name)
            )
        elif name.startswith("mma."):
            yield from self._mma(thread, name, words, 10)
        elif name in ("fma.f16", "fma.v2f16"):
            values = [np.array([word & 0xFFFFFFFF], np.uint32).view(np.float16) for word in words[:3]]
            words[0] = int(Fma.ref({}, *values).view(np.uint32)[0])
        elif name in ("prmt", "idp4a.s.u"):
            op = PermuteBytes if name == "prmt" else DotBytes
            values = [np.array([word & 0xFFFFFFFF], np.uint32) for word in words[:3]]
            words[0] = int(op.ref({}, *values)[0])
        elif name == "e4m3x2.to.f16x2.rn":
            pair = np.array([words[0] & 0xFFFF], np.uint16).view(ml_dtypes.float8_e4m3fn).astype(np.float16)
            words[0] = int(pair.view(np.uint32)[0])
        elif name.startswith("cp.async.") and "shared.global" in name:
            size = int(re.findall(r"global\.(\d+)", name)[0])
            inside = words[2] & 0xFFFFFFFF if name.endswith(".s") else size
            ctypes.memset(words[0], 0, size)
            ctypes.memmove(words[0], words[1], inside)
        else:
            assert name in ("cp.async.commit.group", "cp.async.wait.group"), name

    def _shuffle(self, thread: _Thread, mode: str, value: int, selector: int, clamp: int) -> Step:
        """The result of `shfl.sync` by the PTX manual: a lane without a source lane keeps its own value."""
        segment, last = clamp >> 8 & 31, clamp & 31

        def source(lane: int) -> int:
            first = lane & segment
            end = first | (last & ~segment)
            source_lane = {"idx": first | (selector & 31 & ~segment), "bfly": lane ^ (selector & 31)}[mode]
            return source_lane if source_lane <= end else lane

        # Each lane has its own source lane.
        own = value, source(thread.number % 32)
        return self._warp(
            thread, own, lambda operands: [operands[source_lane][0] for _, source_lane in operands]
        )

    def _reciprocal(self, word: int, wide: bool) -> int:
        """The reciprocal with the largest allowed error: the upper half of a float64, or a float32 without
        subnormals."""
        with np.errstate(all="ignore"):
            if wide:
                return (
                    int((1.0 / np.array([word], np.uint64).view(np.float64)).view(np.uint64)[0]) >> 32 << 32
                )
            x = _without_subnormals(np.array([word & 0xFFFFFFFF], np.uint32).view(np.float32))
            return int(_without_subnormals(np.float32(1.0) / x).view(np.uint32)[0])

    def _reciprocal_root(self, word: int) -> int:
        """The reciprocal square root of a float32, one unit in the last place too small if it is inexact, as the
        instruction may be."""
        x = _without_subnormals(np.array([word & 0xFFFFFFFF], np.uint32).view(np.float32))
        with np.errstate(all="ignore"):
            exact = 1.0 / np.sqrt(x.astype(np.float64))
            result = exact.astype(np.float32)
        if np.isfinite(result[0]) and result[0] != exact[0]:
            result = np.nextafter(result, np.float32(0))
        return int(result.view(np.uint32)[0])

    def _synchronise(self, thread: _Thread, key: Any, count: int) -> Step:
        def all_arrived(present: list[int]) -> list[None]:
            if self.order:
                self.order.synchronise(present, is_warp=isinstance(key, tuple))
            return [None] * count

        return self.cluster.synchronise((self.window, key, count), count, thread, thread.number, all_arrived)

    def _collective(
        self, thread: _Thread, size: int, value: Any, act: Callable[[list[Any]], Sequence[Any]]
    ) -> Step:
        """The collective operations of a warp or a warp group."""
        return self.cluster.synchronise((self.window, size, thread.number // size), size, thread, value, act)

    def _warp(self, thread: _Thread, value: Any, act: Callable[[list[Any]], Sequence[Any]]) -> Step:
        return self._collective(thread, 32, value, act)

    def _matrices(self, thread: _Thread, rows: list[int], transposed: bool) -> list[list[int]]:
        """Four 8 x 8 matrices of 16-bit elements. Each lane gives the address of a row."""
        assert all(r % 16 == 0 for r in rows), "a row of a matrix is not aligned"
        assert all(SHARED_START - WINDOW_START <= r - self.window < WINDOW_BYTES for r in rows), (
            "a row of a matrix is not in shared memory"
        )
        self._accesses(thread, rows, False)
        matrices = np.stack([np.frombuffer(ctypes.string_at(r, 16), np.uint16) for r in rows]).reshape(
            4, 8, 8
        )
        if transposed:
            matrices = matrices.transpose(0, 2, 1)
        pairs = np.ascontiguousarray(matrices).view(np.uint32).reshape(4, 32)
        return [[int(x) for x in pairs[:, lane]] for lane in range(32)]

    def _store_matrices(self, thread: _Thread, words_of_lanes: list[list[int]]) -> list[None]:
        """Store four 8 x 8 matrices of 16-bit elements, of which a lane holds adjacent pairs, to rows whose addresses
        the lanes give."""
        values = np.array(words_of_lanes, np.uint32)
        rows = np.ascontiguousarray(values[:, 1:].T).view(np.uint8).reshape(32, 16)
        self._accesses(thread, [int(address) for address in values[:, 0]], True)
        for address, row in zip(values[:, 0], rows, strict=True):
            assert address % 16 == 0
            self.memory[int(address) - self.window : int(address) - self.window + 16] = row
        return [None] * 32

    def _accesses(self, thread: _Thread, rows: list[int], writes: bool) -> None:
        """Record the accesses of rows of 16 bytes, each by the lane that gave the address."""
        if self.order:
            first = thread.number // 32 * 32
            for lane, row in enumerate(rows):
                self.order.access(first + lane, row, 16, writes)

    def _mma(self, thread: _Thread, name: str, words: Any, count: int) -> Step:
        """`count`: the number of argument words. The results replace the first words."""
        accumulators = yield from self._warp(
            thread, words[:count], lambda operands: multiply_warp(name, np.array(operands, np.uint64))
        )
        words[: len(accumulators)] = [int(x) for x in accumulators]

    def _assembly(self, thread: _Thread, text: str, constraints: str, words: Any) -> Step:
        if text.startswith("cvt.rna.tf32"):
            words[0] = int(to_tf32(np.array([words[0] & 0xFFFFFFFF], np.uint32))[0])
        elif text.startswith("mma.sync"):
            kinds = [c for c in constraints.split(",") if not c.startswith("~")]
            yield from self._mma(thread, text, words, sum(not c.startswith("=") for c in kinds))
        elif "wgmma.mma_async" in text:
            outputs = sum(c.startswith("=") for c in constraints.split(","))
            inputs = sum(c[0] not in "=~" for c in constraints.split(","))
            operand_words = [int(w) & 0xFFFFFFFF for w in words[:inputs]]
            accumulators = yield from self._collective(
                thread,
                128,
                operand_words,
                lambda operands: multiply_group(text, outputs, operands, self.memory),
            )
            words[: len(accumulators)] = [int(x) for x in accumulators]
        elif not text or "wgmma.wait_group" in text:
            pass  # tied registers keep their values
        elif text.startswith("mov.b"):
            pass  # the result replaces the operand
        elif "cp.async.bulk.tensor" in text:
            self._bulk(thread, text, words)
        elif text.startswith("stmatrix.sync.aligned.m8n8.x4.shared::cta"):
            operand_words = [int(w) & 0xFFFFFFFF for w in words[:5]]
            yield from self._warp(
                thread, operand_words, lambda operands: self._store_matrices(thread, operands)
            )
        elif text.startswith("barrier.cluster.arrive") and "barrier.cluster.wait" in text:
            count = self.cluster.count
            yield from self.cluster.synchronise("cluster", count, thread, None, lambda operands: operands)
        elif "mapa.shared::cluster" in text:
            self._arrive_at_both(words)
        elif text.startswith("mbarrier") or "mbarrier.try_wait" in text:
            yield from self._mbarrier(thread, text, words)
        else:
            known = (
                "fence.",
                "griddepcontrol.",
                "setmaxnreg.",
                "cp.async.bulk.wait_group",
                "cp.async.bulk.commit_group",
                "{ .reg .pred P; setp.eq.u32 P, $1, 0; @P pref",
            )
            assert text.startswith(known), text

    def _mbarrier(self, thread: _Thread, text: str, words: Any) -> Step:
        address = words[0] & 0xFFFFFFFF
        if "init" in text:
            count = re.findall(r", (\d+);", text)
            self.mbarriers[address] = _Mbarrier(int(count[0]) if count else words[1] & 0xFFFFFFFF)
        elif "try_wait" in text:
            parity = words[1] & 1
            while self.mbarriers[address].phase == parity:
                self.cluster.waiting.setdefault(address, []).append(thread)
                yield
            if self.order:
                self.order.wait(thread.number, address)
        else:
            expected = re.findall(r"expect_tx.*, (\d+);", text)
            if self.order:
                self.order.arrive(thread.number, address)
            self._arrived(address, int(expected[0]) if expected else 0)

    def _arrived(self, address: int, bytes_to_arrive: int = 0, arrived: int = 0, count: int = 1) -> None:
        barrier = self.mbarriers[address]
        phase = barrier.phase
        barrier.arrive(bytes_to_arrive, arrived, count)
        if barrier.phase != phase:
            if self.order:
                self.order.complete_phase(address)
            self.cluster.phase_ended(address)

    def _arrive_at_both(self, words: Any) -> None:
        """Arrive at a barrier, and at the same barrier of the other CTA."""
        address, own, peer_address = (w & 0xFFFFFFFF for w in words[:3])
        for rank in {own, peer_address}:
            self._arrived(address + (rank - own) * WINDOW_BYTES)

    def _bulk(self, thread: _Thread, text: str, words: Any) -> None:
        """Copy a box between an array and the shared memory of this block, or of all blocks of the cluster for a
        multicast."""
        loads = "shared::cluster.global" in text
        shared, tensor_map, first = (words[0], words[1], 3) if loads else (words[1], words[0], 2)
        number, rest = divmod(tensor_map - self.maps, 128)
        assert rest == 0
        tensor = self.code.maps[number]
        array = self.args[tensor.parameter]
        size, rank = array.dtype.bits // 8, len(tensor.box)
        coordinates = [ctypes.c_int32(words[first + d] & 0xFFFFFFFF).value for d in range(rank)][::-1]
        offsets = (
            np.arange(int(np.prod(tensor.box)) * size).reshape(-1, size) + (shared & 0xFFFFFFFF) - self.window
        )
        addresses = swizzled_offset(offsets, tensor.row_bytes)
        index = np.stack(np.unravel_index(np.arange(len(offsets)), tensor.box), 1) + coordinates
        inside = ((index >= 0) & (index < array.shape)).all(1)
        box = self.memory[addresses]
        if inside.any():
            source = index[inside] @ np.array(array.strides)
            first, span = int(source.min()), int(np.ptp(source)) + size
            array_bytes = np.ctypeslib.as_array((ctypes.c_uint8 * span).from_address(array.ptr + first))
            array_offsets = (source - first)[:, None] + np.arange(size)
            if loads:
                box[inside] = array_bytes[array_offsets]
            else:
                array_bytes[array_offsets] = box[inside]
        if loads:
            box[~inside] = 0
            if tensor.elements == "tf32":
                box = to_tf32(box.view(np.uint32)).view(np.uint8).reshape(box.shape)
            for block in self.cluster.blocks if ".multicast::cluster" in text else [self]:
                block.memory[addresses] = box
                barrier = (words[2] & 0xFFFFFFFF) + block.window - self.window
                if self.order:
                    self.order.copy(thread.number, (addresses + self.window).flatten().tolist(), barrier)
                self._arrived(barrier, arrived=box.size, count=0)


def _map_window(address: int) -> np.ndarray:
    """Map a window of addresses for shared memory."""
    private_anonymous_fixed = 0x02 | 0x20 | 0x10
    mmap = ctypes.CDLL(None).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    assert mmap(address, WINDOW_BYTES, 3, private_anonymous_fixed, -1, 0) == address
    return np.ctypeslib.as_array((ctypes.c_uint8 * WINDOW_BYTES).from_address(address))
