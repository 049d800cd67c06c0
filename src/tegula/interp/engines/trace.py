"""The trace of each role in one launch, op by op. Scalars are interpreted; tiles are represented by slots, because
their contents depend on the execution order of engines."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.errors import InternalError
from tegula.interp.engines.bytes import Footprints, UnitSet
from tegula.interp.lowered import BlockDistribution, spread_view
from tegula.interp.machine import Machine, Mask, RunValue
from tegula.interp.report import RunReport
from tegula.ir import Carrier, Op, Region, Value
from tegula.ops import events as E
from tegula.ops.buffer import BufRead, buffer_type
from tegula.ops.control import is_condition
from tegula.ops.roles import WARP_GROUP
from tegula.ops.schedule import BulkLoad, BulkStore, MbarrierNew, MbarrierReady, NamedNew
from tegula.types import ArrayType, BufType, MbarrierType, NamedBarrierType, TileType

CONTROL = ("if", "for", "while")
MAX_STEPS = 50_000


class Unsupported(InternalError):
    """The kernel has an op that cannot be replayed."""


class InvalidLaunch(Exception):
    """A launch fails in every order."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text


class EngineSlot(int):
    """The number of a value that is unknown before engines run."""


@dataclass(frozen=True, slots=True)
class Acts:
    """An event, and the bytes that each warp of the role accesses in it."""

    event: E.Event
    unit_sets: tuple[UnitSet, ...]


@dataclass(slots=True)
class EngineStep:
    """An op that a role executes. `acts`: its events; `environment`: operands that depend only on scalars;
    `operand_slots`: the slots among the operands; `result_slots`: the slots of its results; `key`: the other inputs of
    its results; `turn`: the number of earlier executions of the op by the role; `stores`: whether the op writes to an
    array."""

    op: Op
    acts: tuple[Acts, ...]
    environment: dict[Value, RunValue]
    operand_slots: dict[Value, EngineSlot]
    result_slots: tuple[EngineSlot, ...]
    key: tuple[Any, ...]
    turn: int
    stores: bool


class Recorder(Machine):
    """The threads of a block or of a role, whose ops are recorded in `steps`."""

    def __init__(
        self, lanes: int, present: Mask, report: RunReport, block: int, tid: Sequence[np.ndarray],
        distribution: BlockDistribution, shared: np.ndarray, footprints: Footprints, used: AbstractSet[Value],
    ) -> None:  # fmt: skip
        super().__init__(lanes, present, report, block, tid)
        self.layouts, self.allocations, self.threads = distribution.layouts, distribution.allocations, lanes
        self.shared, self.footprints, self.used = shared, footprints, used
        self.steps: list[EngineStep] = []
        self.ready = False
        self.created_barriers: list[Op] = []
        """The initialised barriers that are not visible to all threads yet."""
        self.turns: dict[Op, int] = {}
        self.slots = 0
        self.independent = False
        self.active = present

    def op(self, op: Op, mask: Mask) -> None:
        if isinstance(op, Carrier):
            self._require_uniform(op, [v for v in op.control_operands if v in op.operands])
            super().op(op, mask)
        elif isinstance(op, MbarrierNew):
            self.created_barriers.append(op)
            self.env[op.result] = op.result
        elif isinstance(op, NamedNew):
            self.env[op.result] = op.result
        elif isinstance(op, MbarrierReady):
            self.created_barriers.clear()
        elif isinstance(op, BufRead) and op.result not in self.used:
            pass  # code generation ignores the op
        elif E.has_events(op):
            self._record(op, mask, True)
        elif self._is_replayed(op):
            self._record(op, mask, False)
        else:
            super().op(op, mask)
            if self.report.failure is not None:
                raise InvalidLaunch("stage", str(self.report.failure))

    def region(self, region: Region, args: Sequence[RunValue], mask: Mask) -> list[RunValue]:
        out = super().region(region, args, mask)
        parent = region.parent
        if parent is not None and is_condition(region):
            self._require_uniform(parent, region.yielded[:1])
        return out

    def _require_uniform(self, op: Op, values: Sequence[Value]) -> None:
        if any(isinstance(self.env[v], EngineSlot) for v in values):
            raise Unsupported(f"{op.loc}: {op.NAME} depends on a value that threads compute")

    def _is_replayed(self, op: Op) -> bool:
        """Whether the op is executed in the replay: it uses tiles or values computed from tiles, or stores."""
        values = [*op.results, *_free(op)]
        return any(isinstance(v.type, TileType) for v in values) or any(
            isinstance(self.env.get(v), EngineSlot) for v in values
        ) or any(e.kind in ("write", "atomic") for inner in op.walk() for e in inner.effects())  # fmt: skip

    def merge(self, op: Op, value: Value, mask: Mask, new: RunValue, old: RunValue) -> RunValue:
        if new is old or not (isinstance(new, EngineSlot) or isinstance(old, EngineSlot)):
            return super().merge(op, value, mask, new, old)
        raise Unsupported(f"{op.loc}: threads diverge at a select of tiles")

    # Steps ------------------------------------------------------------------------------------------------------

    def _record(self, op: Op, mask: Mask, acts: bool) -> None:
        if acts and not np.array_equal(mask, self.present):
            raise Unsupported(f"{op.loc}: threads diverge around {op.NAME}")
        if len(self.steps) > MAX_STEPS:
            raise InvalidLaunch("endless", f"{op.loc}: the role does more than {MAX_STEPS} ops")
        if isinstance(op.results[0].type, BufType) if op.results else False:
            self.env[op.results[0]] = self.new_buffer(op)
        values = dict.fromkeys([*_free(op)])
        operands = {v: self.env[v] for v in values if isinstance(self.env.get(v), EngineSlot)}
        environment = {v: self.env[v] for v in values if v in self.env and v not in operands}
        slots = () if _is_buffer(op) else tuple(self._slot() for _ in op.results)
        actions = tuple(self._acts(op, event) for event in E.events(op, _Known(self, op))) if acts else ()
        turn = self.turns[op] = self.turns.get(op, -1) + 1
        self.steps.append(
            EngineStep(op, actions, environment, operands, slots, _key(op, environment), turn, _stores(op))
        )
        if not _is_buffer(op):
            self.env.update(zip(op.results, slots, strict=True))

    def _slot(self) -> EngineSlot:
        self.slots += 1
        return EngineSlot(self.slots)

    def _acts(self, op: Op, event: E.Event) -> Acts:
        return Acts(event, self.footprints.of(self, op, event))

    # Memory -----------------------------------------------------------------------------------------------------

    def new_buffer(self, op: Op) -> RunValue:
        t, allocation = buffer_type(op.results[0].type), self.allocations[op.results[0]]
        return spread_view(self.shared, allocation.offset, t.dtype, t.shape, allocation.strides)

    def range_of(self, value: Value) -> tuple[int, int]:
        """The byte range of a buffer, end exclusive."""
        array = self.env[value]
        if isinstance(array, list):
            raise Unsupported(f"threads hold different buffers as {value.name or 'a value'}")
        start = array.__array_interface__["data"][0] - self.shared.__array_interface__["data"][0]
        spans = (s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True))
        return start, start + sum(spans) + array.itemsize


def _stores(op: Op) -> bool:
    written = (e for inner in op.walk() for e in inner.effects() if e.kind in ("write", "atomic"))
    return not isinstance(op, BulkStore) and any(
        e.value is None or isinstance(e.value.type, ArrayType) for e in written
    )


def _is_buffer(op: Op) -> bool:
    return bool(op.results) and isinstance(op.results[0].type, BufType)


def _free(op: Op) -> list[Value]:
    """The outer values that an op and its regions use."""
    defined = {r for inner in op.walk() for r in inner.results}
    defined |= {a for inner in op.walk() for region in inner.regions for a in region.args}
    return [v for inner in op.walk() for v in inner.operands if v not in defined]


def _key(op: Op, environment: dict[Value, RunValue]) -> tuple[Any, ...]:
    """The key of an op's result: its inputs besides slots and shared memory. Copies of the same tile by any op have the
    same key."""
    identity = op.NAME if isinstance(op, BulkLoad) else op
    return (
        identity,
        *(
            _key_of_value(v, x)
            for v, x in environment.items()
            if not isinstance(v.type, BufType | MbarrierType | NamedBarrierType)
        ),
    )


def _key_of_value(value: Value, x: RunValue) -> Any:
    if isinstance(value.type, ArrayType):
        return (x.__array_interface__["data"][0], x.shape) if isinstance(x, np.ndarray) else id(x)
    same = (x == x[:1]).all()
    return x[0].tobytes() if same else x.tobytes()


class _Known:
    """The operands of an op, as the event table reads them (ops.events.Known)."""

    def __init__(self, machine: Recorder, op: Op) -> None:
        self.machine, self.op = machine, op

    def number(self, value: Value) -> int:
        self.machine._require_uniform(self.op, [value])
        return int(self.machine.group(value))

    def bytes(self, buffer: Value) -> E.Bytes:
        return E.Bytes(*self.machine.range_of(buffer), buffer)

    def warp_groups(self, op: Op) -> int:
        return max(1, self.machine.threads // WARP_GROUP)
