"""GPU code of one block, or of a pair, run on the processor: a thread for each of its threads, and what the PTX manual
says of the instructions by which they work together. Copies and products are done where they are started.

Shared memory lies where its addresses have 32 bits, 1 KB into a window of 256 KB, as on a GPU; that of the second block
of a pair lies in the next window."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from lane_order import Order
from tensor_cores import multiply_group, multiply_warp, swizzled, to_tf32

from tegula.backend.llvm import compile_object
from tegula.backend.loader import load
from tegula.codegen.gpu import GpuCode
from tegula.target import get_target

WINDOW, SHARED, BYTES = 0x10000000, 0x10000400, 1 << 18
PATIENCE = 300.0
"""Seconds after which threads that wait for each other have lost each other."""
CALL = re.compile(
    r'^(?P<head>\s*(?:%\S+ = )?)call (?P<type>.+?) (?P<what>@llvm\.nvvm\.[\w.]+|asm (?:sideeffect )?"[^"]*", "[^"]*")'
    r"\((?P<args>.*)\)(?: convergent)?$",
    re.MULTILINE,
)
GIVEN = {
    "read.ptx.sreg.tid.x": "%thread",
    "read.ptx.sreg.ctaid.x": "%number",
    "read.ptx.sreg.nctaid.x": "%grid",
}


OWN = """
@entry = internal global ptr null
define void @enter(ptr %x) {
  store ptr %x, ptr @entry
  ret void
}
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
  %made = bitcast <2 x i16> %two to i32
  ret i32 %made
}
define internal void @accessed(ptr %x, i64 %info) noinline {
  %at = alloca [2 x i64]
  %address = ptrtoint ptr %x to i64
  %offset = sub i64 %address, LOWEST
  %near = icmp ult i64 %offset, MANY
  br i1 %near, label %tell, label %done
tell:
  store i64 %address, ptr %at
  %second = getelementptr i64, ptr %at, i64 1
  store i64 %info, ptr %second
  %back = load ptr, ptr @entry
  call void %back(i64 -1, ptr %at)
  br label %done
done:
  ret void
}
""".replace("LOWEST", str(SHARED)).replace("MANY", str(BYTES))
"""Where to call back, and what this processor has no instruction for."""


ACCESS = re.compile(
    r"^  (?:%\S+ = )?(?P<verb>load|store) (?P<type><[^>]+>|\w+)[ ,].*?ptr (?P<at>%[\w.]+), align .*$",
    re.MULTILINE,
)
ACCESSED = -1
BITS = {"float": 32, "double": 64, "half": 16, "bfloat": 16, "ptr": 64}


def run_together(
    code: GpuCode,
    kernel: Any,
    args: Sequence[Any],
    dims: Sequence[int],
    blocks: int,
    order: Order | None = None,
) -> None:
    """All blocks one after the other, the threads of each at once. `dims`: of the launch, threads included; `blocks`:
    of the hardware. `order`: is told what threads do to shared memory, of a launch of one block."""
    total = int(np.prod(dims))
    packed = b"".join(pack(a)[1] for pack, a in zip(kernel.packers, args, strict=True))
    packed += b"".join(n.to_bytes(8, "little") for n in (*dims, total, 0))
    size = 2 if code.paired and blocks % 2 == 0 else 1
    source = _watched(code.text) if order else code.text
    texts = [_translated(source, rank, size) for rank in range(size)]
    for first in range(0, blocks, size):
        cluster = _Cluster(code.threads * size)
        cluster.blocks = [_Block(code, *texts[k], packed, args, k, cluster, order) for k in range(size)]
        threads = [t for k, block in enumerate(cluster.blocks) for t in block.threads(first + k, blocks)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(2 * PATIENCE)
            assert not t.is_alive() or cluster.errors, "threads wait for ever"
        if cluster.errors:
            raise cluster.errors[0]


def _matches(given: list[int]) -> list[int]:
    return [sum((x == y) << k for k, y in enumerate(given)) for x in given]


def _together(kind: str, given: list[int]) -> int:
    """32-bit integers combined by `redux.sync`."""
    signed = [x - (x >> 31 << 32) for x in given]
    made = {"add": sum(given), "umin": min(given), "umax": max(given), "min": min(signed), "max": max(signed)}
    return made[kind] & 0xFFFFFFFF


def _watched(text: str) -> str:
    """With a call before each load and store of vectors and scalars."""

    def told(access: re.Match[str]) -> str:
        count, _, element = access["type"].strip("<>").rpartition(" x ")
        bits = BITS.get(element) or int(element[1:])
        info = -(-bits * int(count or 1) // 8) * 2 + (access["verb"] == "store")
        return f"  call void @accessed(ptr {access['at']}, i64 {info})\n{access[0]}"

    return ACCESS.sub(told, text)


def _translated(text: str, rank: int, size: int) -> tuple[str, list[str]]:
    """The module for this processor, with a function for each instruction that is not the processor's, and their
    names. `rank`: of the block in a cluster of `size`."""
    known = GIVEN | {
        "read.ptx.sreg.cluster.ctaid.x": str(rank),
        "read.ptx.sreg.cluster.nctaid.x": str(size),
    }
    text = re.sub(r"^(@shared = .*|attributes .*)$", "", text, flags=re.MULTILINE)
    start = "define void @kernel(ptr %args, i32 %thread, i32 %number, i32 %grid) {"
    text = re.sub(r"define ptx_kernel void @kernel\(.*$", start, text, flags=re.MULTILINE)
    text = re.sub(r" addrspace\(\d\)", "", text).replace(
        "@shared", f"inttoptr (i64 {SHARED + rank * BYTES} to ptr)"
    )
    text = re.sub(
        r"addrspacecast ptr (.+) to ptr$", r"getelementptr i8, ptr \1, i64 0", text, flags=re.MULTILINE
    )
    rounding = r"\1.bits = call i16 @round_bfloat(float \2)\n\1 = bitcast i16 \1.bits to bfloat"
    text = re.sub(r"(%\S+) = fptrunc float (\S+) to bfloat", rounding, text)
    pair, nothing = "<2 x bfloat>", "splat (bfloat 0xR8000)"
    fused = rf"\1.word = call i32 @fused_bfloats(\2)\n\1 = bitcast i32 \1.word to {pair}"
    product = rf"\1 = call {pair} @llvm.fma.v2bf16({pair} \2, {pair} \3, {pair} {nothing})"
    text = re.sub(rf"(%\S+) = fmul {pair} (%\S+), (.+)$", product, text, flags=re.MULTILINE)
    text = re.sub(rf"(%\S+) = call {pair} @llvm.fma.v2bf16\((.+)\)$", fused, text, flags=re.MULTILINE)
    made: dict[tuple[str, str, tuple[str, ...]], int] = {}

    def replaced(call: re.Match[str]) -> str:
        what, args = call["what"], call["args"].split(", ") if call["args"] else []
        given = known.get(what.removeprefix("@llvm.nvvm."))
        if given is not None:
            return f"{call['head']}add i32 {given}, 0"
        key = what, call["type"], tuple(a.rsplit(" ", 1)[0] for a in args)
        number = made.setdefault(key, len(made))
        return f"{call['head']}call {call['type']} @hook{number}({call['args']})"

    text = CALL.sub(replaced, text)
    functions = [_function(number, *key) for key, number in made.items()]
    assert "nvvm.m" not in text and " asm " not in text
    return "\n".join([text, *functions, OWN]), [key[0] for key in made]


def _function(number: int, what: str, result: str, types: tuple[str, ...]) -> str:
    """Calls back with its arguments in memory, 8 bytes each, where the results come back."""
    parts = result[1:-1].split(",") if result.startswith("{") else [] if result == "void" else [result]
    slots = max(1, len(parts), len(types))
    lines = [f"  %at = alloca [{slots} x i64]", "  %back = load ptr, ptr @entry"]
    for k, t in enumerate(types):
        lines += [f"  %p{k} = getelementptr i64, ptr %at, i64 {k}", f"  store {t} %x{k}, ptr %p{k}"]
    lines.append(f"  call void %back(i64 {number}, ptr %at)")
    made = "poison"
    for k, t in enumerate(parts):
        t = t.strip()
        lines += [f"  %q{k} = getelementptr i64, ptr %at, i64 {k}", f"  %r{k} = load {t}, ptr %q{k}"]
        if result.startswith("{"):
            lines.append(f"  %s{k} = insertvalue {result} {made}, {t} %r{k}, {k}")
            made = f"%s{k}"
        else:
            made = f"%r{k}"
    lines.append(f"  ret {result} {made}" if parts else "  ret void")
    arguments = ", ".join(f"{t} %x{k}" for k, t in enumerate(types))
    return "\n".join([f"define internal {result} @hook{number}({arguments}) noinline {{", *lines, "}"])


def _without_subnormals(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0.0), x), x)


class _Meeting:
    """Threads that do one thing together, time and again: the last one does it for all."""

    def __init__(self, threads: int) -> None:
        self.given: list[Any] = [None] * threads
        self.made: Sequence[Any] = []
        self.first, self.second = threading.Barrier(threads), threading.Barrier(threads)

    def together(self, number: int, value: Any, act: Callable[[list[Any]], Sequence[Any]]) -> Any:
        self.given[number] = value
        if self.first.wait(PATIENCE) == 0:
            try:
                self.made = act(self.given)
            except BaseException:
                self.second.abort()
                raise
        self.second.wait(PATIENCE)
        return self.made[number]


class _Mbarrier:
    def __init__(self, count: int) -> None:
        self.count = self.pending = count
        self.bytes = self.phase = 0

    def arrive(self, bytes_to_come: int = 0, arrived: int = 0, count: int = 1) -> None:
        self.bytes += bytes_to_come - arrived
        self.pending -= count
        assert self.pending >= 0
        if self.pending == 0 and self.bytes == 0:
            self.pending, self.phase = self.count, self.phase ^ 1


class _Cluster:
    """What the blocks of a pair have in common, or what a block by itself has."""

    def __init__(self, threads: int) -> None:
        self.blocks: list[_Block] = []
        self.mbarriers: dict[int, _Mbarrier] = {}
        self.lock = threading.Condition()
        self.errors: list[BaseException] = []
        self.all = threading.Barrier(threads)

    def fail(self, error: BaseException) -> None:
        self.errors.insert(0, error)
        meetings = [m for b in self.blocks for m in b.meetings.values()]
        barriers = [x for b in self.blocks for x in b.barriers.values()]
        for barrier in [self.all, *barriers, *(x for m in meetings for x in (m.first, m.second))]:
            barrier.abort()
        with self.lock:
            self.lock.notify_all()


class _Block:
    def __init__(
        self, code: GpuCode, text: str, callees: list[str], packed: bytes, args: Sequence[Any], rank: int,
        cluster: _Cluster, order: Order | None,
    ) -> None:  # fmt: skip
        self.order, self.present = order, dict[Any, list[int]]()
        self.code, self.callees, self.args = code, callees, args
        self.cluster, self.window = cluster, WINDOW + rank * BYTES
        self.object = load(compile_object(text, get_target()))
        self.kept = ctypes.create_string_buffer(len(packed) + 64 + 64 + 128 * len(code.maps))
        self.arguments = -(-ctypes.addressof(self.kept) // 64) * 64
        ctypes.memmove(self.arguments, packed, len(packed))
        self.maps = self.arguments + -(-len(packed) // 64) * 64
        self.memory = _window(self.window)
        self.memory[:] = 0xFF
        self.me = threading.local()
        self.meetings: dict[Any, _Meeting] = {}
        self.barriers: dict[Any, threading.Barrier] = {}
        self.mbarriers, self.lock, self.errors = cluster.mbarriers, cluster.lock, cluster.errors

    def threads(self, block: int, blocks: int) -> list[threading.Thread]:
        """The threads of the block, to be started."""
        back = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(self._called)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.object.address("enter"))(
            ctypes.cast(back, ctypes.c_void_p)
        )
        function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int32] * 3)(
            self.object.address("kernel")
        )

        def one(thread: int) -> None:
            self.me.thread = thread
            function(self.arguments, thread, block, blocks)

        self.entries = back, function
        return [threading.Thread(target=one, args=(k,), daemon=True) for k in range(self.code.threads)]

    def _called(self, number: int, at: int) -> None:
        if self.errors:
            return
        try:
            if number == ACCESSED:
                self._accessed(at)
            else:
                self._instruction(self.callees[number], at)
        except threading.BrokenBarrierError as error:
            if not self.errors:
                self.errors.append(error)
        except BaseException as error:
            self.cluster.fail(error)

    def _accessed(self, at: int) -> None:
        address, info = (ctypes.c_uint64 * 2).from_address(at)
        assert self.order is not None
        with self.lock:
            self.order.access(self.me.thread, address, info // 2, bool(info % 2))

    # Instructions ----------------------------------------------------------------------------------------------------

    def _instruction(self, what: str, at: int) -> None:
        words = (ctypes.c_uint64 * 4096).from_address(at)
        thread = self.me.thread
        name = what.removeprefix("@llvm.nvvm.")
        if what.startswith("asm"):
            self._assembly(what.split('"')[1], what.split('"')[3], words)
        elif name == "barrier.cta.sync.aligned.all":
            self._meet("all", self.code.threads)
        elif name == "barrier.cta.sync.aligned.count":
            self._meet((words[0] & 0xFFFFFFFF), words[1] & 0xFFFFFFFF)
        elif name == "bar.warp.sync":
            self._meet(("warp", thread // 32), 32)
        elif name == "elect.sync":
            words[0], words[1] = 0, int(thread % 32 == 0)
        elif name.startswith("shfl.sync."):
            words[0] = self._exchanged(name.split(".")[2], words[1], words[2] & 0xFFFFFFFF, words[3])
        elif name.startswith("vote.ballot.sync"):
            words[0] = self._warp(words[1] & 1, lambda given: [sum(x << k for k, x in enumerate(given))] * 32)
        elif name.startswith("match.any.sync"):
            mask = (1 << int(name.rpartition("i")[2])) - 1
            words[0] = self._warp(words[1] & mask, _matches)
        elif name.startswith("redux.sync"):
            kind = name.rpartition(".")[2]
            words[0] = self._warp(words[0] & 0xFFFFFFFF, lambda given: [_together(kind, given)] * 32)
        elif name.startswith("rsqrt.approx.ftz"):
            words[0] = self._root(words[0])
        elif name.startswith("rcp.approx.ftz"):
            words[0] = self._reciprocal(words[0], name.endswith(".d"))
        elif name.startswith("ldmatrix"):
            words[:4] = self._warp(words[0], lambda given: self._matrices(given, ".trans" in name))
        elif name.startswith("mma."):
            self._mma(name, words, 10)
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

    def _exchanged(self, mode: str, value: int, by: int, clamp: int) -> int:
        """As the PTX manual says of `shfl.sync`: a lane keeps its own value where there is no such lane."""
        segment, last = clamp >> 8 & 31, clamp & 31

        def source(lane: int) -> int:
            first = lane & segment
            end = first | (last & ~segment)
            at = {"idx": first | (by & 31 & ~segment), "bfly": lane ^ (by & 31), "up": lane - (by & 31)}[mode]
            return at if (at >= end if mode == "up" else at <= end) else lane

        # Each lane names its own source.
        own = value, source(self.me.thread % 32)
        return self._warp(own, lambda given: [given[at][0] for _, at in given])

    def _reciprocal(self, word: int, wide: bool) -> int:
        """As exact as it can be: the upper half of a float64, a float32 without subnormal numbers."""
        with np.errstate(all="ignore"):
            if wide:
                return (
                    int((1.0 / np.array([word], np.uint64).view(np.float64)).view(np.uint64)[0]) >> 32 << 32
                )
            x = _without_subnormals(np.array([word & 0xFFFFFFFF], np.uint32).view(np.float32))
            return int(_without_subnormals(np.float32(1.0) / x).view(np.uint32)[0])

    def _root(self, word: int) -> int:
        """One over the root of a float32, a unit in the last place too small where that is not the exact one: so
        approximate may an instruction be."""
        x = _without_subnormals(np.array([word & 0xFFFFFFFF], np.uint32).view(np.float32))
        with np.errstate(all="ignore"):
            exact = 1.0 / np.sqrt(x.astype(np.float64))
            found = exact.astype(np.float32)
        if np.isfinite(found[0]) and found[0] != exact[0]:
            found = np.nextafter(found, np.float32(0))
        return int(found.view(np.uint32)[0])

    def _meet(self, key: Any, count: int) -> None:
        with self.lock:
            present = self.present.setdefault((key, count), [])
            barrier = self.barriers.setdefault(
                (key, count), threading.Barrier(count, lambda: self._met(key, present))
            )
            present.append(self.me.thread)
        barrier.wait(PATIENCE)

    def _met(self, key: Any, present: list[int]) -> None:
        if self.order:
            with self.lock:
                self.order.meet(present, of_a_warp=isinstance(key, tuple))
        present.clear()

    def _together(self, size: int, value: Any, act: Callable[[list[Any]], Sequence[Any]]) -> Any:
        """What threads of a warp or a warp group do together."""
        group, number = divmod(self.me.thread, size)
        with self.lock:
            meeting = self.meetings.setdefault((size, group), _Meeting(size))
        return meeting.together(number, value, act)

    def _warp(self, value: Any, act: Callable[[list[Any]], Sequence[Any]]) -> Any:
        return self._together(32, value, act)

    def _matrices(self, rows: list[int], turned: bool) -> list[list[int]]:
        """Four 8 x 8 matrices of 16 bits, whose rows the lanes name, eight each."""
        assert all(r % 16 == 0 for r in rows), "a row of a matrix is not aligned"
        assert all(SHARED - WINDOW <= r - self.window < BYTES for r in rows), (
            "a row of a matrix is not in shared memory"
        )
        self._accesses(rows, False)
        whole = np.stack([np.frombuffer(ctypes.string_at(r, 16), np.uint16) for r in rows]).reshape(4, 8, 8)
        if turned:
            whole = whole.transpose(0, 2, 1)
        pairs = np.ascontiguousarray(whole).view(np.uint32).reshape(4, 32)
        return [[int(x) for x in pairs[:, lane]] for lane in range(32)]

    def _store_matrices(self, given: list[list[int]]) -> list[None]:
        """Four 8 x 8 matrices of 16 bits, of which a lane holds two neighbours, to rows that the lanes name."""
        values = np.array(given, np.uint32)
        rows = np.ascontiguousarray(values[:, 1:].T).view(np.uint8).reshape(32, 16)
        self._accesses([int(at) for at in values[:, 0]], True)
        for at, row in zip(values[:, 0], rows, strict=True):
            assert at % 16 == 0
            self.memory[int(at) - self.window : int(at) - self.window + 16] = row
        return [None] * 32

    def _accesses(self, rows: list[int], writes: bool) -> None:
        """Of rows of 16 bytes, each by the lane that names it."""
        if self.order:
            first = self.me.thread // 32 * 32
            with self.lock:
                for lane, row in enumerate(rows):
                    self.order.access(first + lane, row, 16, writes)

    def _mma(self, name: str, words: Any, count: int) -> None:
        """`count`: of the arguments; the results take the place of the first."""
        made = self._warp(
            [int(w) for w in words[:count]], lambda given: multiply_warp(name, np.array(given, np.uint64))
        )
        words[: len(made)] = [int(x) for x in made]

    def _assembly(self, text: str, constraints: str, words: Any) -> None:
        if text.startswith("cvt.rna.tf32"):
            words[0] = int(to_tf32(np.array([words[0] & 0xFFFFFFFF], np.uint32))[0])
        elif text.startswith("mma.sync"):
            kinds = [c for c in constraints.split(",") if not c.startswith("~")]
            self._mma(text, words, sum(not c.startswith("=") for c in kinds))
        elif "wgmma.mma_async" in text:
            outputs = sum(c.startswith("=") for c in constraints.split(","))
            inputs = sum(c[0] not in "=~" for c in constraints.split(","))
            given = [int(w) & 0xFFFFFFFF for w in words[:inputs]]
            made = self._together(128, given, lambda all_: multiply_group(text, outputs, all_, self.memory))
            words[: len(made)] = [int(x) for x in made]
        elif not text or "wgmma.wait_group" in text:
            pass  # tied registers are where they were
        elif text.startswith("mov.b"):
            pass  # the result takes the place of the operand
        elif "cp.async.bulk.tensor" in text:
            self._bulk(text, words)
        elif text.startswith("stmatrix.sync.aligned.m8n8.x4.shared::cta"):
            self._warp([int(w) & 0xFFFFFFFF for w in words[:5]], self._store_matrices)
        elif text.startswith("barrier.cluster.arrive") and "barrier.cluster.wait" in text:
            self.cluster.all.wait(PATIENCE)
        elif "mapa.shared::cluster" in text:
            self._arrive_at_both(words)
        elif text.startswith("mbarrier") or "mbarrier.try_wait" in text:
            self._mbarrier(text, words)
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

    def _mbarrier(self, text: str, words: Any) -> None:
        at = words[0] & 0xFFFFFFFF
        with self.lock:
            if "init" in text:
                count = re.findall(r", (\d+);", text)
                self.mbarriers[at] = _Mbarrier(int(count[0]) if count else words[1] & 0xFFFFFFFF)
            elif "try_wait" in text:
                parity = words[1] & 1
                ready = self.lock.wait_for(
                    lambda: self.mbarriers[at].phase != parity or self.errors, PATIENCE
                )
                assert ready, "a wait for a memory barrier does not end"
                if self.order:
                    self.order.wait(self.me.thread, at)
            else:
                expected = re.findall(r"expect_tx.*, (\d+);", text)
                if self.order:
                    self.order.arrive(self.me.thread, at)
                self._arrived(at, int(expected[0]) if expected else 0)
            self.lock.notify_all()

    def _arrived(self, at: int, bytes_to_come: int = 0, arrived: int = 0, count: int = 1) -> None:
        barrier = self.mbarriers[at]
        phase = barrier.phase
        barrier.arrive(bytes_to_come, arrived, count)
        if self.order and barrier.phase != phase:
            self.order.phase_ends(at)

    def _arrive_at_both(self, words: Any) -> None:
        """At a barrier, and at the other block's at the same place."""
        at, own, other = (w & 0xFFFFFFFF for w in words[:3])
        with self.lock:
            for rank in {own, other}:
                self.mbarriers[at + (rank - own) * BYTES].arrive()
            self.lock.notify_all()

    def _bulk(self, text: str, words: Any) -> None:
        """A box between an array and shared memory, of this block or of all that the mask names, which is all."""
        loads = "shared::cluster.global" in text
        shared, where, first = (words[0], words[1], 3) if loads else (words[1], words[0], 2)
        number, rest = divmod(where - self.maps, 128)
        assert rest == 0
        tensor = self.code.maps[number]
        array = self.args[tensor.parameter]
        size, rank = array.dtype.bits // 8, len(tensor.box)
        at = [ctypes.c_int32(words[first + d] & 0xFFFFFFFF).value for d in range(rank)][::-1]
        offsets = (
            np.arange(int(np.prod(tensor.box)) * size).reshape(-1, size) + (shared & 0xFFFFFFFF) - self.window
        )
        places = swizzled(offsets, tensor.row_bytes)
        index = np.stack(np.unravel_index(np.arange(len(offsets)), tensor.box), 1) + at
        inside = ((index >= 0) & (index < array.shape)).all(1)
        source = array.ptr + index @ np.array(array.strides)
        box = self.memory[places]
        for k in np.flatnonzero(inside):
            if loads:
                box[k] = np.frombuffer(ctypes.string_at(int(source[k]), size), np.uint8)
            else:
                ctypes.memmove(int(source[k]), box[k].tobytes(), size)
        if loads:
            box[~inside] = 0
            if tensor.elements == "tf32":
                box = to_tf32(box.view(np.uint32)).view(np.uint8).reshape(box.shape)
            for block in self.cluster.blocks if ".multicast::cluster" in text else [self]:
                block.memory[places] = box
                barrier = (words[2] & 0xFFFFFFFF) + block.window - self.window
                with self.lock:
                    if self.order:
                        self.order.copy(self.me.thread, (places + self.window).flatten().tolist(), barrier)
                    self._arrived(barrier, arrived=box.size, count=0)
                    self.lock.notify_all()


def _window(at: int) -> np.ndarray:
    """A window that shared memory lies in."""
    private_anonymous_fixed = 0x02 | 0x20 | 0x10
    mmap = ctypes.CDLL(None).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    assert mmap(at, BYTES, 3, private_anonymous_fixed, -1, 0) == at
    return np.ctypeslib.as_array((ctypes.c_uint8 * BYTES).from_address(at))
