"""The values that a replay has stored; the interpreter computes each term once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tegula.errors import InternalError
from tegula.interp.engines.launch import EngineLaunch
from tegula.interp.engines.run import Name
from tegula.interp.engines.state import Term
from tegula.interp.engines.trace import EngineStep, Recorder
from tegula.interp.machine import HANDLERS, Machine
from tegula.interp.tiles import window
from tegula.ir import Op
from tegula.ops import events as E
from tegula.ops.buffer import BufRead, buffer_type
from tegula.ops.schedule import BulkLoad, BulkStore
from tegula.ops.tile import tile_type
from tegula.types import TileType, scalar_of, to_numpy

WRITTEN = ("write", "atomic", "issue")


class Mixed(Exception):
    """Raised for a term that is not a tile: parts of several tiles, a matmul in flight, or uninitialised memory."""


class Values:
    """The numbers of the terms of a launch."""

    def __init__(self, launch: EngineLaunch) -> None:
        self.names = {number: name for name, number in launch.prepared.terms.numbers.items()}
        self.steps = {s.key: (s, role) for role, steps in enumerate(launch.roles) for s in steps}
        self.machines = launch.machines
        self.value_of: dict[Term, Any] = {}

    def store(self, finals: Mapping[Name, Term]) -> None:
        """Write the tiles that a replay has stored to the launch's arrays. Mixed contents become all bits set."""
        stored: dict[Name, set[Term]] = {}
        for (role, op, turn, *_), term in finals.items():
            stored.setdefault((role, op, turn), set()).add(term)
        for (role, op, _turn), terms in sorted(stored.items(), key=lambda item: (item[0][0], item[0][2])):
            if isinstance(op, BulkStore):
                self._store_tile({self.names[t][2:] for t in terms if self._written(t)}, terms, role, op)
                continue
            for term in terms:
                _, key, inputs = self.names[term]
                step, _ = self.steps[key]
                self._run(step, role, inputs, ())

    def _written(self, term: Term) -> bool:
        return self.names[term][0] == "write"

    def _store_tile(self, pieces: set[Name], terms: set[Term], role: int, op: BulkStore) -> None:
        step = next(s for s, r in self.steps.values() if r == role and s.op is op)
        machine = self._machine(step, role)
        tile = tile_type(op.tile.type)
        t = TileType(tile.dtype, tile.shape)
        if len(pieces) == 1 and all(self._written(x) for x in terms):
            ((key, inputs),) = pieces
            step = self.steps[key][0]
            machine = self._machine(step, role)
            value = self.of(inputs[-1])
        else:
            value = np.full(t.shape, 255, np.uint8).astype(to_numpy(scalar_of(t.dtype)))
        inside, at = window(machine, op, t, op.array, op.offset)
        if op.adds:
            machine.group(op.array)[at] += value[inside]
        else:
            machine.group(op.array)[at] = value[inside]

    def of(self, term: Term) -> Any:
        """The tile or other value of a term."""
        if term not in self.value_of:
            self.value_of[term] = self._of(self.names[term])
        return self.value_of[term]

    def _of(self, name: Name) -> Any:
        kind, *rest = name
        if kind == "copy":
            step, role = self.steps[rest[0]]
            return self._copied_tile(step, role)
        if kind == "made":
            key, result, inputs = rest
            step, role = self.steps[key]
            out = self._run(step, role, inputs, ())
            return out[result] if len(step.result_slots) > 1 else out
        if kind == "matmul":
            key, source, inputs = rest
            step, role = self.steps[key]
            return self._run(step, role, inputs, source)
        if kind == "write":
            return self.of(rest[2][-1])
        raise Mixed(kind)

    def _copied_tile(self, step: EngineStep, role: int) -> np.ndarray:
        op, machine = step.op, self._machine(step, role)
        assert isinstance(op, BulkLoad)
        inside, at = window(machine, op, op.tile, op.array, op.offset)
        tile = np.zeros(op.tile.shape, to_numpy(scalar_of(op.tile.dtype)))
        tile[inside] = machine.group(op.array)[at]
        return tile.reshape(buffer_type(op.buffer.type).shape)

    def _run(self, step: EngineStep, role: int, inputs: Name, source: Name) -> Any:
        """The results of an op, given the terms of its slots and of the contents of its buffers."""
        op, machine = step.op, self._machine(step, role)
        buffers = [
            a.event.at.buffer for a in step.acts if isinstance(a.event, E.MemoryAccess) and not a.event.write
        ]
        for issue in (a.event for a in step.acts if isinstance(a.event, E.Issue)):
            buffers = [at.buffer for at in issue.operands]
        contents = source or inputs[: len(inputs) - len(step.operand_slots)]
        terms = inputs[len(inputs) - len(step.operand_slots) :]
        for value, term in zip(buffers, contents, strict=True):
            machine.env[value] = self._viewed(term, step.environment[value])
        for value, term in zip(step.operand_slots, terms, strict=True):
            machine.env[value] = self.of(term)
        if isinstance(op, BufRead):
            return machine.env[op.buffer]
        handler = HANDLERS.get(type(op))
        if handler is not None:
            return handler(machine, op, machine.present)
        if not isinstance(op, Op):
            raise InternalError(f"{op.loc}: the interpreter does not know {op.NAME}")
        return machine.by_reference(op, type(op))

    def _viewed(self, term: Term, view: np.ndarray) -> np.ndarray:
        """The elements of a view of a buffer that starts at the start of the written view."""
        tile, written = self.of(term), self._view(self.names[term])
        if (written.shape, written.strides) == (view.shape, view.strides):
            return tile
        memory = np.zeros(max(_extent(written), _extent(view)), np.uint8)
        np.ndarray(written.shape, tile.dtype, memory.data, 0, written.strides)[...] = tile
        return np.ndarray(view.shape, tile.dtype, memory.data, 0, view.strides).copy()

    def _view(self, name: Name) -> np.ndarray:
        """The view of the buffer through which a term was written."""
        step, _ = self.steps[name[1] if name[0] == "copy" else name[2]]
        value = next(e.value for e in step.op.effects() if e.kind in WRITTEN and e.value is not None)
        return step.environment[value] if value in step.environment else self.machines[0].new_buffer(step.op)

    def _machine(self, step: EngineStep, role: int) -> Machine:
        recorder: Recorder = self.machines[role]
        machine = Machine(recorder.lanes, recorder.present, recorder.report, recorder.block, recorder.tid)
        machine.grid, machine.blocks = recorder.grid, recorder.blocks
        machine.env.update(step.environment)
        return machine


def _extent(view: np.ndarray) -> int:
    return sum((n - 1) * stride for n, stride in zip(view.shape, view.strides, strict=True)) + view.itemsize
