"""The SIMD width of `lanes` ops."""

from __future__ import annotations

from tegula.codegen.elements import STRAIGHT
from tegula.codegen.state import State
from tegula.ir import Op
from tegula.ops.array import ArrayAtomic, ArrayCas
from tegula.ops.buffer import BufExchange, BufUpdate
from tegula.ops.control import Yield
from tegula.ops.debug import Assert, Print
from tegula.ops.lane import LaneFence, Lanes
from tegula.ops.structures import StructureAdd, StructureLoad, StructurePrefetch, StructureValue
from tegula.types import components, is_element, scalar_of

NOT_VECTORISED = (Print, Assert, LaneFence, StructureLoad, StructureValue, StructureAdd, StructurePrefetch)
"""The ops that are not vectorised: reports to the host, fences, and traversals of spatial structures, in which lanes
diverge."""

MIN_LANES = 4
"""The minimum number of lanes: with fewer lanes the overhead of masks and gathers exceeds the gain."""

MAX_COMPONENTS = 16
"""The maximum number of components of a vectorised value; vectors of larger values would be spilled."""


def lane_width(s: State, op: Lanes) -> int:
    """The SIMD width, a power of two. The width is 1 for code that reports to the host, whose reports name lanes and
    are in lane order, for traversals of structures, and for code that consists mostly of serial ops."""
    ops = [o for o in op.body.walk() if not isinstance(o, Yield)]
    if s.debug or any(isinstance(o, NOT_VECTORISED) for o in ops):
        return 1
    varying = [o for o in ops if any(s.known.varying(r) for r in o.results)]
    arithmetic = sum(isinstance(o, STRAIGHT) for o in varying)
    if sum(is_serial(s, o) for o in ops) * 4 > arithmetic + 2:
        return 1
    if any(is_element(r.type) and components(r.type) > MAX_COMPONENTS for o in varying for r in o.results):  # type: ignore[arg-type]
        return 1
    width = s.target.vector_bytes // _predominant_bytes(varying)
    while width > s.block_dim:
        width //= 2
    return width if width >= MIN_LANES else 1


def is_serial(s: State, op: Op) -> bool:
    """Whether an op is serial across lanes at any width, because lanes may update the same element."""
    if not isinstance(op, BufUpdate):
        return isinstance(op, ArrayAtomic | ArrayCas | BufExchange)
    buffer, _, *index = op.operands
    if s.known.varying(buffer) or not any(s.known.varying(i) for i in index):
        return True
    return not s.independence.lanes_are_disjoint(op)


def _predominant_bytes(ops: list[Op]) -> int:
    """The predominant size of floats in bytes, or of integers in code without floats; thread indices have 4 bytes.
    Vectors of other element sizes take two registers or half a register."""
    types = [scalar_of(r.type) for op in ops for r in op.results if is_element(r.type)]  # type: ignore[arg-type]
    floats = [t for t in types if t.is_float] or types
    doubles = sum(t.bits == 64 for t in floats)
    return 8 if doubles * 2 > len(floats) else 4
