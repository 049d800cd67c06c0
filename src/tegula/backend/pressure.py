"""The register pressure of PTX: the number of registers that the values of a kernel need at once.

ptxas chooses the order of statements and reports the number of registers afterwards. The pressure of the text says, in
a tenth of the time, whether fewer registers are likely to be enough."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tegula.dataclass import dataclass, field

REGISTERS_OF_TYPE = {"pred": 0, "b64": 2, "f64": 2, "s64": 2, "u64": 2, "b128": 4}
"""The 32-bit registers of a value by the type of its declaration; 1 for other types."""

_DECLARATION = re.compile(r"\.reg \.(\w+)\s+(%\w+)<")
_REGISTER = re.compile(r"%[a-z]+\d+")
_LABEL = re.compile(r"\$\w+")
# The predicate that guards a statement, the operation, the first operand, and the other operands.
_STATEMENT = re.compile(r"\t(?:\{ )?(?:@!?(%\w+) )?\s*([a-z][\w.:]*)\s*(\{[^}]*\}|[^,;]*)(.*)")


@dataclass(frozen=True, slots=True)
class Pressure:
    """The 32-bit registers that values of a thread need at once. `peak`: the maximum at a statement, in the order of
    the text; `between`: the maximum at the boundaries of basic blocks, which the order of statements in the blocks does
    not change. Values that all threads of a block share count nothing, because they are in registers of a warp or in
    constant memory, and addresses in shared memory have one register."""

    peak: int
    between: int


@dataclass(slots=True)
class _Block:
    """A basic block. `statements`: the values that each statement defines, and those that it reads; `targets`: the
    labels of branches at the end. Sets of values are integers with a bit for each value."""

    statements: list[tuple[int, int]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    falls_through: bool = True
    live_in: int = 0
    live_out: int = 0

    def summary(self) -> tuple[int, int]:
        """The values that the block reads before it defines them, and the values that it defines."""
        read = defined = 0
        for targets, sources in self.statements:
            read |= sources & ~defined
            defined |= targets
        return read, defined


@dataclass(slots=True)
class _Definition:
    """The operation that defines a value, and its operands: values, and text."""

    value: int
    operation: str
    sources: list[int]
    text: str

    def is_uniform(self, uniform: set[int]) -> bool:
        """Whether all threads of a block compute the same value. `uniform`: the values that are known to be uniform."""
        if self.sources:
            return uniform.issuperset(self.sources) and not self.operation.startswith(("ld", "atom", "shfl"))
        is_of_thread = "%tid" in self.text or "%lane" in self.text
        return self.operation.startswith(("ld.param", "mov")) and not is_of_thread

    def is_shared_address(self, shared: set[int]) -> bool:
        """Whether the value is an address in shared memory. `shared`: the values that are known to be addresses."""
        if self.sources:
            return self.operation == "add.s64" and not shared.isdisjoint(self.sources)
        return self.operation == "mov.b64" and "shared" in self.text


@dataclass(slots=True)
class _Program:
    """The basic blocks of a kernel. `numbers`: of values by name; `widths`: the 32-bit registers of each value."""

    types: dict[str, int]
    blocks: list[_Block] = field(default_factory=lambda: [_Block()])
    labels: dict[str, _Block] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    widths: list[int] = field(default_factory=list)
    definitions: list[_Definition] = field(default_factory=list)

    def values(self, names: Iterable[str]) -> list[int]:
        """The numbers of values."""
        numbers: list[int] = []
        for name in names:
            value = self.numbers.get(name)
            if value is None:
                value = self.numbers[name] = len(self.widths)
                self.widths.append(self.types.get(name.rstrip("0123456789"), 1))
            numbers.append(value)
        return numbers

    def add(self, guard: str | None, operation: str, first: str, others: str) -> None:
        """Append a statement."""
        block = self.blocks[-1]
        guards = _set(self.values([guard])) if guard else 0
        if operation in ("bra", "bra.uni", "ret", "exit"):
            block.statements.append((0, guards))
            block.targets += _LABEL.findall(first)
            block.falls_through = guard is not None
            self.blocks.append(_Block())
            return
        # A first operand that is an address is read, and so are the operands of barriers; others are written.
        if first.startswith("[") or operation.startswith("bar"):
            first, others = "", first + others
        written = self.values(_REGISTER.findall(first))
        read = self.values(_REGISTER.findall(others))
        targets = _set(written)
        block.statements.append((targets, _set(read) | (guards | targets if guard else 0)))
        for value in written:
            self.definitions.append(_Definition(value, operation, read, others))


def register_pressure(ptx: str) -> Pressure:
    """The register pressure of a kernel."""
    program = _read(ptx)
    _reduce_widths(program)
    _find_live_values(program)
    single = _set(value for value, width in enumerate(program.widths) if width >= 1)
    double = _set(value for value, width in enumerate(program.widths) if width >= 2)
    peak = between = 0
    for block in program.blocks:
        live = block.live_out
        pressure = (live & single).bit_count() + (live & double).bit_count()
        between = max(between, pressure)
        for targets, sources in reversed(block.statements):
            live = live & ~targets | sources
            pressure = (live & single).bit_count() + (live & double).bit_count()
            if pressure > peak:
                peak = pressure
        between = max(between, pressure)
    return Pressure(max(peak, between), between)


def _set(values: Iterable[int]) -> int:
    result = 0
    for value in values:
        result |= 1 << value
    return result


def _read(ptx: str) -> _Program:
    """The basic blocks of the text of one kernel."""
    body = ptx.partition(".entry")[2]
    program = _Program({name: REGISTERS_OF_TYPE.get(kind, 1) for kind, name in _DECLARATION.findall(body)})
    # A repaired statement is two statements on a line.
    for line in body.replace(";\t", ";\n\t").split("\n"):
        if line.startswith("$"):
            if program.blocks[-1].statements:
                program.blocks.append(_Block())
            program.labels[line.partition(":")[0]] = program.blocks[-1]
        elif statement := _STATEMENT.match(line):
            program.add(*statement.groups())
    return program


def _reduce_widths(program: _Program) -> None:
    """Set the widths of values that need no registers of a thread, or one instead of two. A value with several
    definitions is carried by a loop or a branch, and keeps its width."""
    counts = [0] * len(program.widths)
    for definition in program.definitions:
        counts[definition.value] += 1
    uniform: set[int] = set()
    shared: set[int] = set()
    for definition in program.definitions:
        value = definition.value
        if counts[value] > 1:
            continue
        if definition.is_shared_address(shared):
            shared.add(value)
            program.widths[value] = 1
        if definition.is_uniform(uniform):
            uniform.add(value)
            program.widths[value] = 0


def _find_live_values(program: _Program) -> None:
    """Set the values that are live at the start and at the end of each block."""
    blocks = program.blocks
    successors = [
        [program.labels[name] for name in block.targets] + (following if block.falls_through else [])
        for block, following in zip(blocks, [*([b] for b in blocks[1:]), []], strict=True)
    ]
    summaries = [block.summary() for block in blocks]
    is_changed = True
    while is_changed:
        is_changed = False
        for block, after, (read, defined) in zip(
            reversed(blocks), reversed(successors), reversed(summaries), strict=True
        ):
            block.live_out = 0
            for successor in after:
                block.live_out |= successor.live_in
            live_in = read | (block.live_out & ~defined)
            is_changed |= live_in != block.live_in
            block.live_in = live_in
