"""mbarriers and bulk copies. The PTX manual describes the requirements of the hardware under the instructions'
names."""

from __future__ import annotations

from itertools import product

from tegula.codegen.gpu.control import emit_if
from tegula.codegen.gpu.maps import BITS, BYTES, TensorMap, maps_offset
from tegula.codegen.gpu.state import GpuState
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir import Op, Value, root
from tegula.ops.roles import WARP
from tegula.ops.schedule import (
    BulkLoad,
    BulkPrefetch,
    BulkStore,
    BulkWait,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    arrivals_at,
)
from tegula.passes.overlap import array_root
from tegula.passes.place_shared import ALIGNMENT, MBARRIER_BYTES
from tegula.types import ArrayType, BufType, element_bytes, scalar_of

with deferred_imports():
    from tegula.codegen.gpu.clusters import cluster_size, of_cluster, other_rank, rank
    from tegula.passes.bulk_access import alignment_elements, boxes, half_boxes, leading_indices
    from tegula.passes.name_barriers import named_barriers

ARRIVE_AT_BOTH = (
    "{ .reg .b32 A; .reg .pred P; setp.ne.u32 P, $1, $2; "
    "mbarrier.arrive.shared::cta.b64 _, [$0]; @P mapa.shared::cluster.u32 A, $0, $2; "
    "@P mbarrier.arrive.shared::cluster.b64 _, [A]; }"
)
"""Operands: the address of a barrier, `rank`, `other_rank`."""


def shared_address(s: GpuState, pointer: str) -> str:
    """The i32 address that instructions take, for a generic pointer to shared memory."""
    shared_pointer = s.code.emit(f"addrspacecast ptr {pointer} to ptr addrspace(3)")
    return s.code.emit(f"ptrtoint ptr addrspace(3) {shared_pointer} to i32")


def asm(s: GpuState, text: str, operands: list[tuple[str, str, str]]) -> None:
    """Inline assembly that accesses memory. Operands: constraint, type, register."""
    constraints = ",".join([*(c for c, _, _ in operands), "~{memory}"])
    args = ", ".join(f"{t} {x}" for _, t, x in operands)
    s.code.line(f'call void asm sideeffect "{text}{s.noted}", "{constraints}"({args}) convergent')


def elected(s: GpuState, first_warp: bool) -> str:
    """An i1 that is true in the elected thread of each warp, or (`first_warp`) of the group's first warp."""
    code = s.code
    if s.gpu.bulk_copies:
        pair = code.emit("call { i32, i1 } @llvm.nvvm.elect.sync(i32 -1)")
        is_elected = code.emit(f"extractvalue {{ i32, i1 }} {pair}, 1")
    else:
        is_elected = code.emit(f"icmp eq i32 {s.first(f'and i32 {s.lane32}, {WARP - 1}')}, 0")
    if not first_warp or s.threads == WARP:
        return is_elected
    return code.emit(f"and i1 {is_elected}, {code.emit(f'icmp ult i32 {s.lane32}, {WARP}')}")


# Memory barriers -----------------------------------------------------------------------------------------------------


def barrier_new(s: GpuState, op: MbarrierNew) -> None:
    """Lower `mbarrier.new`: the first thread initialises the barrier of each stage."""
    shared_pointer = s.first(f"addrspacecast ptr {s.shared(op.result)} to ptr addrspace(3)")
    address = s.barriers[op.result] = s.first(f"ptrtoint ptr addrspace(3) {shared_pointer} to i32")
    arrivals = op.arrivals

    def initialise() -> None:
        count = s.code.emit(f"mul i32 {cluster_size(s)}, {arrivals}") if of_cluster(op.result) else ""
        for k in range(op.stages):
            at = s.code.emit(f"add i32 {address}, {MBARRIER_BYTES * k}")
            text = f"mbarrier.init.shared::cta.b64 [$0], {'$1' if count else arrivals};"
            asm(s, text, [("r", "i32", at), *([("r", "i32", count)] if count else [])])

    emit_if(s, s.code.emit(f"icmp eq i32 {s.lane32}, 0"), initialise)


def barrier_ready(s: GpuState, op: Op) -> None:
    """Make new barriers visible: to bulk copies by a fence, to threads by synchronising them."""
    if s.gpu.bulk_copies:
        asm(s, "fence.mbarrier_init.release.cluster;", [])
    sync_all(s)


def sync_all(s: GpuState) -> None:
    """Synchronise all threads of the CTA, or of the 2-CTA cluster."""
    if s.clustered:
        asm(s, "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;", [])
    else:
        s.code.line("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")


def _address(s: GpuState, barriers: Value, stage: Value) -> str:
    """The address of a stage's barrier."""
    offset = s.code.emit(f"shl i32 {s.scalar(stage)}, 3")
    return s.code.emit(f"add i32 {s.barriers[barriers]}, {offset}")


def barrier_wait(s: GpuState, op: MbarrierWait) -> None:
    """Lower `mbarrier.wait`: a loop of `try_wait`, which suspends the thread for a time limit, or of `test_wait` on
    targets without `try_wait`."""
    address = _address(s, op.barriers, op.stage)
    test = "try_wait" if s.gpu.bulk_copies else "test_wait"
    text = f"{{ .reg .pred P; W: mbarrier.{test}.parity.shared::cta.b64 P, [$0], $1; @!P bra W; }}"
    operands = [("r", "i32", address), ("r", "i32", s.scalar(op.parity))]
    is_single = op.elected and s.threads > WARP
    in_first_warp = s.code.emit(f"icmp ult i32 {s.lane32}, {WARP}") if is_single else "true"
    emit_if(s, in_first_warp, lambda: asm(s, text, operands))


def barrier_arrive(s: GpuState, op: MbarrierArrive) -> None:
    """Lower `mbarrier.arrive`: one lane of each warp, or of the first warp only, arrives after the warp has
    synchronised."""
    address = _address(s, *op.operands)
    s.code.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)")
    single_thread = elected(s, first_warp=bool(op.elected))
    text, operands = "mbarrier.arrive.shared::cta.b64 _, [$0];", [("r", "i32", address)]
    if of_cluster(op.barriers):
        text, operands = ARRIVE_AT_BOTH, [*operands, ("r", "i32", rank(s)), ("r", "i32", other_rank(s))]
    emit_if(s, single_thread, lambda: asm(s, text, operands))


def barrier_expect(s: GpuState, op: MbarrierExpect) -> None:
    """Lower `mbarrier.expect`: one thread announces bytes and arrives."""
    address, count = _address(s, *op.operands), op.bytes
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {count};"
    emit_if(s, elected(s, first_warp=True), lambda: asm(s, text, [("r", "i32", address)]))


def fence_async(s: GpuState, op: Op) -> None:
    """Order the threads' accesses before later accesses of the async proxy, on targets with an async proxy."""
    if s.gpu.bulk_copies:
        asm(s, "fence.proxy.async.shared::cta;", [])


# Bulk copies ---------------------------------------------------------------------------------------------------------


def tensor_map(s: GpuState, array: Value, box: tuple[int, ...], row_bytes: int, elements: str = BITS) -> str:
    """The address of the tensor map of a parameter in the argument block, i64."""
    indices = leading_indices(array)
    assert indices is not None
    parameter = s.kernel.params.index(array_root(array))
    tensor_map_of_box = TensorMap(parameter, (*(1,) * len(indices), *box), row_bytes, elements)
    if tensor_map_of_box not in s.maps:
        s.maps.append(tensor_map_of_box)
    at = s.first(
        f"getelementptr i8, ptr %args, i64 {maps_offset(s.kernel) + BYTES * s.maps.index(tensor_map_of_box)}"
    )
    return s.first(f"ptrtoint ptr {at} to i64")


def prefetch_maps(s: GpuState) -> None:
    """Prefetch the tensor maps at the start of the kernel, by its first thread."""
    for k in range(len(s.maps)):
        at = s.first(f"getelementptr i8, ptr %args, i64 {maps_offset(s.kernel) + BYTES * k}")
        address = s.first(f"ptrtoint ptr {at} to i64")
        text = "{ .reg .pred P; setp.eq.u32 P, $1, 0; @P prefetch.tensormap [$0]; }"
        s.code.entry.append(f'  call void asm sideeffect "{text}", "l,r"(i64 {address}, i32 %lane32)')


def _coordinates(s: GpuState, array: Value, offsets: list[str]) -> list[str]:
    """The coordinates of a box in the array parameter, last dimension first."""
    indices = leading_indices(array)
    assert indices is not None
    return [*(s.scalar(v) for v in indices), *offsets][::-1]


def bulk_load(s: GpuState, op: Op) -> None:
    """Lower `bulk.load`, box by box. In a cluster whose CTAs copy the same tile, each CTA multicasts half of the boxes
    to both, and the barriers of both count the bytes."""
    assert isinstance(op, BulkLoad)
    buffer, barriers, stage, array = op.buffer, op.barriers, op.stage, op.array
    t, view = op.tile, s.buffers[buffer]
    _check_alignment(s, buffer)
    swizzle = getattr(view, "row_bytes", 0)
    clustered = bool(op.cluster)
    box = half_boxes(t) if clustered else boxes(t, bool(swizzle))
    assert box is not None
    map_address = tensor_map(s, array, box.shape, swizzle, "tf32" if op.to_tf32 else BITS)
    barrier = _address(s, barriers, stage)
    start = shared_address(s, s.memory.at(view, ["0"] * len(view.shape)))
    offsets = [s.scalar(v) for v in op.offset]
    offsets[-1] = as_promised(s, op, array, offsets[-1])
    # Boxes as wide as the tile are stacked along the rows.
    box_dim = 0 if clustered and box.shape[-1] == t.shape[-1] else len(offsets) - 1

    def copy(first: str, count: int, both_ctas: bool) -> None:
        """Start the copies of `count` boxes from box `first` on."""
        code = s.code
        for k in range(count):
            number = code.emit(f"add i32 {first}, {k}")
            coordinates = list(offsets)
            coordinates[box_dim] = code.emit(
                f"add i32 {coordinates[box_dim]}, {code.emit(f'mul i32 {number}, {box.shape[box_dim]}')}"
            )
            at = code.emit(f"add i32 {start}, {code.emit(f'mul i32 {number}, {box.bytes // box.count}')}")
            _start_load(s, array, map_address, at, barrier, coordinates, both_ctas)

    def start_copies() -> None:
        if not clustered:
            copy("0", box.count, False)
            return
        has_peer = s.code.emit(f"icmp ne i32 {rank(s)}, {other_rank(s)}")
        has_peer_and_item = s.code.emit(f"and i1 {has_peer}, {s.scalar(op.rest[-1])}")
        half = box.count // 2
        emit_if(s, has_peer_and_item, lambda: copy(s.code.emit(f"mul i32 {rank(s)}, {half}"), half, True))
        emit_if(s, s.code.emit(f"xor i1 {has_peer_and_item}, true"), lambda: copy("0", box.count, False))

    emit_if(s, elected(s, first_warp=True), start_copies)


def _start_load(
    s: GpuState, array: Value, map_address: str, to: str, barrier: str, offsets: list[str], both_ctas: bool
) -> None:
    """Start the copy of one box to the CTA's shared memory, or (`both_ctas`) to the same offset in both CTAs of a
    cluster."""
    coordinates = _coordinates(s, array, offsets)
    names = ", ".join(f"${3 + d}" for d in range(len(coordinates)))
    kind = f"tensor.{len(coordinates)}d.shared::cluster.global.mbarrier::complete_tx::bytes"
    text = f"cp.async.bulk.{kind} [$0], [$1, {{{names}}}], [$2];"
    if both_ctas:
        text = f"{{ .reg .b16 M; mov.b16 M, 3; {text[:-1].replace(kind, f'{kind}.multicast::cluster')}, M; }}"
    operands = [("r", "i32", to), ("l", "i64", map_address), ("r", "i32", barrier)]
    asm(s, text, [*operands, *(("r", "i32", c) for c in coordinates)])


def as_promised(s: GpuState, op: BulkLoad | BulkStore, array: Value, offset: str) -> str:
    """The offset of a copy in a row. If the kernel promises an aligned offset, an unaligned one is rounded down,
    because a fault would prevent the report of the violation, which is emitted separately."""
    assert isinstance(array.type, ArrayType)
    return s.code.emit(f"and i32 {offset}, -{alignment_elements(array.type)}") if op.aligned else offset


def _check_alignment(s: GpuState, buffer: Value) -> None:
    """InternalError if a buffer, or a stage of a ring, may be misaligned for bulk copies."""
    root_buffer = root(buffer)
    allocation = s.places[root_buffer]
    stage_bytes = (
        allocation.strides[0] * scalar_of(s.buffers[root_buffer].dtype).bits // 8
        if buffer is not root_buffer
        else 0
    )
    if allocation.offset % ALIGNMENT or stage_bytes % ALIGNMENT:
        raise InternalError(f"stages of {stage_bytes} bytes at {allocation.offset} cannot hold bulk copies")


def bulk_put(s: GpuState, op: Op) -> None:
    """Lower `bulk.put`: one thread starts the copy of a buffer to an array, box by box."""
    buffer, array, *indices = op.operands
    t, view = buffer.type, s.buffers[buffer]
    assert isinstance(t, BufType)
    swizzle = getattr(view, "row_bytes", 0)
    box = boxes(t, bool(swizzle))
    map_address = tensor_map(s, array, box.shape, swizzle)
    start = shared_address(s, s.memory.at(view, ["0"] * len(t.shape)))
    offsets = [s.scalar(v) for v in indices]

    def copy() -> None:
        for k in range(box.count):
            last = s.code.emit(f"add i32 {offsets[-1]}, {k * box.shape[-1]}")
            source = s.code.emit(f"add i32 {start}, {k * box.bytes // box.count}")
            start_store(s, array, map_address, source, [*offsets[:-1], last])

    emit_if(s, elected(s, first_warp=True), copy)


def bulk_prefetch(s: GpuState, op: BulkPrefetch) -> None:
    """Lower `bulk.prefetch`, box by box, with the tensor map of the following copies."""
    array, *indices = op.operands
    assert isinstance(array.type, ArrayType)
    shape, box, dtype = op.shape, op.box, scalar_of(array.type.dtype)
    map_address = tensor_map(s, array, box, box[-1] * element_bytes(dtype), dtype.name)
    offsets = [s.scalar(v) for v in indices]

    def start_prefetches() -> None:
        for first in product(*(range(0, n, m) for n, m in zip(shape, box, strict=True))):
            box_offsets = [s.code.emit(f"add i32 {v}, {n}") for v, n in zip(offsets, first, strict=True)]
            coordinates = _coordinates(s, array, box_offsets)
            names = ", ".join(f"${1 + d}" for d in range(len(coordinates)))
            text = f"cp.async.bulk.prefetch.tensor.{len(coordinates)}d.L2.global [$0, {{{names}}}];"
            asm(s, text, [("l", "i64", map_address), *(("r", "i32", c) for c in coordinates)])

    emit_if(s, elected(s, first_warp=True), start_prefetches)


def bulk_commit(s: GpuState, op: Op) -> None:
    """Lower `bulk.commit`: the elected thread commits its copies as a group."""
    emit_if(s, elected(s, first_warp=True), lambda: asm(s, "cp.async.bulk.commit_group;", []))


def bulk_wait(s: GpuState, op: BulkWait) -> None:
    """Lower `bulk.wait` in all threads; threads without bulk groups do not wait."""
    wait_for_copies(s, op.pending, op.read)


def wait_for_copies(s: GpuState, pending: int, read: bool) -> None:
    """Wait until at most `pending` copy groups of this thread are incomplete, or (`read`) have not yet read their
    source."""
    asm(s, f"cp.async.bulk.wait_group{'.read' if read else ''} {pending};", [])


def start_store(
    s: GpuState, array: Value, map_address: str, source: str, offsets: list[str], adds: bool = False
) -> None:
    """Start the copy of one box from shared memory to an array by its tensor map, or (`adds`) its addition to the
    array."""
    coordinates = _coordinates(s, array, offsets)
    names = ", ".join(f"${2 + d}" for d in range(len(coordinates)))
    kind = f"tensor.{len(coordinates)}d.global.shared::cta{'.add' if adds else ''}"
    text = f"cp.{'reduce.' if adds else ''}async.bulk.{kind}.bulk_group [$0, {{{names}}}], [$1];"
    asm(s, text, [("l", "i64", map_address), ("r", "i32", source), *(("r", "i32", c) for c in coordinates)])


# Named barriers -------------------------------------------------------------------------------------------------------


def named_new(s: GpuState, op: Op) -> None:
    """Lower `named.new`: choose the barrier numbers; the hardware needs no initialisation."""
    s.named = s.named or named_barriers(s.kernel, s.threads)


def named_sync(s: GpuState, op: Op) -> None:
    """Lower `named.sync`: arrive at the hardware's named barrier and wait."""
    _sync_at(s, op, "sync")


def named_arrive(s: GpuState, op: Op) -> None:
    """Lower `named.arrive`: arrive at the hardware's named barrier without waiting."""
    _sync_at(s, op, "arrive")


def _sync_at(s: GpuState, op: Op, instruction: str) -> None:
    (barrier,) = op.operands
    count = WARP * arrivals_at(barrier)
    s.code.line(f'call void asm sideeffect "{s.noted}", ""() convergent')
    s.code.line(
        f"call void @llvm.nvvm.barrier.cta.{instruction}.aligned.count(i32 {s.named[barrier]}, i32 {count})"
    )
