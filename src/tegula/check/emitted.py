"""The check that the PTX of a kernel executes the synchronisation of its lowered roles, in an order that the IR allows.

Each instruction that synchronises, or starts an asynchronous operation, is annotated with the number of its op
(`ir.numbered`). The sequences of numbers along paths through the PTX form the language of a finite automaton, and so do
the sequences along paths through the IR. The language of the PTX must be a subset of the IR's, every instruction must
be in the lowering of its op, and every op must have an instruction, unless the whole enclosing loop has been removed.
LLVM may therefore unroll, peel and rotate loops and duplicate branches; it must not drop, repeat, merge or reorder any
instruction that the proof covers. Premises: branch conditions and addresses are computed correctly, ptxas keeps the
order of these instructions, and an op issues as many instructions as its lowering says (copies of several boxes)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tegula.dataclass import dataclass, field
from tegula.errors import InternalError
from tegula.ir import BranchLike, Kernel, LoopLike, Op, Region, Synchronising, numbered
from tegula.ops.roles import roles_by_warp


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A difference between PTX and IR: the line of the PTX, the op of the instructions in this line, and the fault."""

    line: int
    op: Op | None
    description: str


def disagreement(ptx: str, kernel: Kernel) -> Disagreement | None:
    """The first difference between the PTX and the IR of a lowered kernel with roles; None if they agree."""
    numbers = numbered(kernel.body)
    ops = list(numbers)
    code = Code(ptx)
    for step in code.steps:
        fault = _instruction_fault(step, ops)
        if fault:
            return Disagreement(step.line, ops[step.number] if 0 <= step.number < len(ops) else None, fault)
    emitted_steps = {step.number for step in code.steps}
    iterations = {_iteration(op) for op, number in numbers.items() if number in emitted_steps}
    for op, number in numbers.items():
        if number not in emitted_steps and _iteration(op) in iterations:
            return Disagreement(0, op, f"{op.NAME} has no instruction")
    return _first_deviation(code, Paths(kernel, numbers), ops)


def require(ptx: str, kernel: Kernel) -> None:
    """Raise InternalError, with the op and its location, if the PTX of a lowered kernel with roles disagrees with the
    kernel: the proof of its schedule would not hold for the code."""
    difference = disagreement(ptx, kernel)
    if difference is None:
        return
    op = difference.op.NAME if difference.op is not None else "the roles"
    location = difference.op.loc if difference.op is not None else kernel.loc
    raise InternalError(
        f"kernel {kernel.name}: the PTX does not match {op} at {location}: {difference.description} "
        f"(line {difference.line} of the PTX)"
    )


def _iteration(op: Op) -> Region | None:
    """The body of the innermost loop, or the role, that encloses an op. LLVM may remove a loop that has no
    iterations."""
    region = op.parent
    while region is not None and isinstance(region.parent, BranchLike):
        region = region.parent.parent
    return region


# Instructions ---------------------------------------------------------------------------------------------------------

SYNCHRONISING = re.compile(
    r"\b(mbarrier\.(try_wait|test_wait|arrive)|cp\.(reduce\.)?async\.bulk\.(?!prefetch)|wgmma\.|fence\.proxy\.async|"
    r"mapa\.|stmatrix\.)[^;]*;"
)
"""The instructions of numbered ops; each of them needs a number."""


def _instruction_fault(step: Step, ops: list[Synchronising]) -> str:
    """The fault of the instructions of one step, as text; empty if the op lowers to these instructions."""
    if step.number < 0:
        return f"no op has the instruction {step.instructions[0]}"
    if step.number >= len(ops):
        return f"there is no op {step.number}"
    pattern = re.compile(ops[step.number].instructions)
    unexpected = [instruction for instruction in step.instructions if not pattern.match(instruction)]
    return f"{ops[step.number].NAME} does not lower to {unexpected[0]}" if unexpected else ""


# Paths through PTX ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """The instructions of one inline assembly statement, and the op number in its annotation; -1 without an
    annotation."""

    line: int
    number: int
    instructions: tuple[str, ...]


@dataclass(slots=True)
class Block:
    """A basic block; `next`: the labels of its successors; `ends`: whether the kernel may end after the block."""

    steps: list[Step] = field(default_factory=list)
    next: list[str] = field(default_factory=list)
    ends: bool = False


_LABEL = re.compile(r"^(\$?\w+):")
_BRANCH = re.compile(r"^\s*(@!?%\w+\s+)?bra(\.uni)?\s+(\$?\w+)\s*;")
_TABLE = re.compile(r"^\s*(@!?%\w+\s+)?brx\.idx(\.uni)?\s+%\w+,\s*(\$?\w+)\s*;")
_END = re.compile(r"^\s*(@!?%\w+\s+)?(ret|exit|trap)(\.uni)?\s*;")
_OP_NUMBER = re.compile(r"// op (\d+)")
_BARRIER = re.compile(r"\b(bar|barrier)(\.cta)?\.(sync|arrive)\b[^;]*;")


class Code:
    """The blocks of a kernel's PTX, by label; the first one is called "". The annotation of a barrier precedes the
    barrier."""

    def __init__(self, ptx: str) -> None:
        self.blocks: dict[str, Block] = {"": Block()}
        block, label, barrier_number = self.blocks[""], "", -1
        lines = ptx.splitlines()
        inside, number, first, texts = False, -1, 0, list[str]()
        tables = self._tables(lines)
        begin = next(k for k, line in enumerate(lines) if ".entry" in line)
        for k, line in enumerate(lines[begin:], begin + 1):
            text = line.strip()
            if text.startswith("// begin inline asm"):
                inside, number, first, texts = True, -1, k, []
            elif text.startswith("// end inline asm"):
                inside = False
                mnemonics = tuple(m[0] for m in SYNCHRONISING.finditer(" ".join(texts)))
                if number >= 0 and not mnemonics:
                    barrier_number = number
                elif mnemonics:
                    block.steps.append(Step(first, number, mnemonics))
            elif inside:
                annotation = _OP_NUMBER.search(line)
                number = int(annotation[1]) if annotation else number
                texts.append(line.partition("//")[0].strip())
            elif label_match := _LABEL.match(line):
                label = label_match[1]
                if label in tables:
                    continue
                block.next.append(label)
                block = self.blocks.setdefault(label, Block())
            elif branch := _BRANCH.match(line):
                block.next.append(branch[3])
                block = self._after(block, bool(branch[1]), k)
            elif table := _TABLE.match(line):
                block.next += tables[table[3]]
                block = self._after(block, bool(table[1]), k)
            elif end := _END.match(line):
                block.ends = end[2] != "trap"
                block = self._after(block, bool(end[1]), k)
            elif barrier_number >= 0 and (barrier := _BARRIER.search(text)):
                block.steps.append(Step(k, barrier_number, (barrier[0],)))
                barrier_number = -1
            elif text.startswith("}") and line.startswith("}"):
                break

    def _after(self, block: Block, conditional: bool, line: int) -> Block:
        """The block after a branch."""
        label = f"line {line}"
        if conditional:
            block.next.append(label)
        return self.blocks.setdefault(label, Block())

    @staticmethod
    def _tables(lines: list[str]) -> dict[str, list[str]]:
        """The targets of jumps by index, by the label of the list."""
        text = "\n".join(lines)
        matches = re.finditer(r"^\s*(\$?\w+):\s*\.branchtargets\s+([^;]*);", text, re.M)
        return {m[1]: [x.strip() for x in m[2].split(",")] for m in matches}

    @property
    def steps(self) -> Iterator[Step]:
        """The steps of all blocks, in the order of the PTX."""
        for block in self.blocks.values():
            yield from block.steps


# Paths through the IR -------------------------------------------------------------------------------------------------


class Paths:
    """The paths through a kernel's IR as a finite automaton: for each state, its edges as (op number, next state), with
    -1 for an epsilon edge. An op may lower to several instructions, so its number may be repeated."""

    def __init__(self, kernel: Kernel, numbers: dict[Synchronising, int]) -> None:
        self.numbers = numbers
        self.edges: list[list[tuple[int, int]]] = [[]]
        self.end = self._region(kernel.body, 0)

    def _state(self, *before: int) -> int:
        self.edges.append([])
        for state in before:
            self.edges[state].append((-1, len(self.edges) - 1))
        return len(self.edges) - 1

    def _region(self, region: Region, start: int) -> int:
        for op in region.ops:
            start = self._op(op, start)
        return start

    def _op(self, op: Op, start: int) -> int:
        if isinstance(op, Synchronising) and op in self.numbers:
            number = self.numbers[op]
            end = self._state()
            self.edges[start].append((number, end))
            self.edges[end].append((number, end))
            return self._state(start, end) if op.is_single_thread else end
        if not any(nested in self.numbers for region in op.regions for nested in region.walk()):
            return start
        if isinstance(op, LoopLike):
            head = self._state(start)
            decided = head
            for header in op.headers:
                decided = self._region(header, decided)
            self.edges[self._region(op.body, decided)].append((-1, head))
            return self._state(decided)
        if roles := roles_by_warp(op):
            # The roles are a chain of branches in order: each warp takes one of them, selected by the warp's index.
            for region in roles:
                start = self._state(start, self._region(region, self._state(start)))
            return start
        if isinstance(op, BranchLike):
            return self._state(*(self._region(region, self._state(start)) for region in op.regions))
        raise InternalError(f"{op.NAME} contains ops that synchronise, but is not a loop or a branch")

    def closed(self, states: Iterable[int]) -> frozenset[int]:
        """The epsilon closure of a set of states."""
        closure, pending = set[int](), list(states)
        while pending:
            at = pending.pop()
            if at not in closure:
                closure.add(at)
                pending += [to for number, to in self.edges[at] if number < 0]
        return frozenset(closure)

    def after(self, states: frozenset[int], number: int) -> frozenset[int]:
        """The states reached from a set of states by an op's number; empty if no path has this number next."""
        return self.closed(to for at in states for n, to in self.edges[at] if n == number)


def _first_deviation(code: Code, paths: Paths, ops: list[Synchronising]) -> Disagreement | None:
    """The first step at which a path through the PTX leaves all paths through the IR; None if there is none."""
    pending = [("", paths.closed([0]))]
    visited = set(pending)
    while pending:
        label, states = pending.pop()
        block = code.blocks[label]
        for step in block.steps:
            states = paths.after(states, step.number)
            if not states:
                op = ops[step.number]
                return Disagreement(step.line, op, f"{op.NAME} is not a successor of the preceding op")
        if block.ends and paths.end not in states:
            return Disagreement(0, None, "the kernel ends before its roles do")
        for label in block.next:
            if (label, states) not in visited:
                visited.add((label, states))
                pending.append((label, states))
    return None
