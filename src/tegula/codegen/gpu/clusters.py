"""2-CTA clusters. A launch with an odd number of CTAs has no clusters, and each CTA is its own peer."""

from __future__ import annotations

from tegula.codegen.gpu.state import GpuState
from tegula.codegen.text import register_type
from tegula.ir import Op, Value
from tegula.ops.schedule import ClusterEnd, ClusterPeer, MbarrierNew
from tegula.types import scalar_of


def cluster_size(s: GpuState) -> str:
    """The number of CTAs in the cluster, 1 or 2."""
    return s.first("call i32 @llvm.nvvm.read.ptx.sreg.cluster.nctaid.x()")


def rank(s: GpuState) -> str:
    """The rank of the CTA in its cluster."""
    return s.first("call i32 @llvm.nvvm.read.ptx.sreg.cluster.ctaid.x()")


def other_rank(s: GpuState) -> str:
    """The rank of the peer CTA, or this CTA's own rank if it has no peer."""
    return s.first(f"xor i32 {rank(s)}, {s.first(f'sub i32 {cluster_size(s)}, 1')}")


def of_cluster(barrier: Value) -> bool:
    """Whether both CTAs of a cluster arrive at a barrier."""
    return isinstance(barrier.owner, MbarrierNew) and bool(barrier.owner.cluster)


def cluster_end(s: GpuState, op: ClusterEnd) -> None:
    """Lower `cluster.end`: the operand rounded up to a multiple of the cluster size."""
    code, (t, size, size_minus_1) = s.code, _size(s, op)
    rounded_up = code.emit(f"add {t} {s.scalar(op.number)}, {size_minus_1}")
    s.scalars[op.result] = (code.emit(f"and {t} {rounded_up}, {code.emit(f'sub {t} 0, {size}')}"),)


def cluster_peer(s: GpuState, op: ClusterPeer) -> None:
    """Lower `cluster.peer`: the operand with its lowest bit flipped, because the first index of a cluster is even; the
    operand itself without clusters."""
    t, _, size_minus_1 = _size(s, op)
    s.scalars[op.result] = (s.code.emit(f"xor {t} {s.scalar(op.number)}, {size_minus_1}"),)


def _size(s: GpuState, op: Op) -> tuple[str, str, str]:
    """The LLVM type of the result, and the cluster size and the cluster size minus 1 in this type."""
    t = register_type(scalar_of(op.result.type), 1)  # type: ignore[arg-type]
    size = cluster_size(s) if t == "i32" else s.code.emit(f"zext nneg i32 {cluster_size(s)} to {t}")
    return t, size, s.code.emit(f"sub {t} {size}, 1")
