"""Counts of instructions in disassembled machine code for Hopper: of a kernel, and of its main loop."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_LABEL = re.compile(r"^(\.L_\w+):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_GUARD = re.compile(r"^!?U?P\d, `")
_TARGET = re.compile(r"`\((\.L_\w+)\)|(0x[0-9a-f]+)$")

FAMILIES: dict[str, tuple[str, ...]] = {
    "tensor": ("HGMMA", "IGMMA", "QGMMA", "BGMMA", "HMMA", "IMMA", "QMMA", "DMMA"),
    "barriers": ("BAR", "WARPSYNC"),
    "shared": ("LDS", "STS", "LDSM", "STSM", "ATOMS"),
    "global": ("LDG", "STG", "LDGSTS", "RED", "REDG", "ATOM", "ATOMG"),
    "bulk": ("UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED", "UTMAPF"),
    "local": ("LDL", "STL"),
    "shuffles": ("SHFL", "REDUX"),
}
"""The families of instructions that are counted, by the first part of the name."""
PHASE_TEST = "SYNCS.PHASECHK"
"""The instruction that tests the phase of an mbarrier; a loop with no other work is a wait."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction: `name` with its modifiers, `operands` as text; `target`: the label of a branch, or "";
    `predicated`: whether some threads may not execute it."""

    name: str
    operands: str
    target: str = ""
    predicated: bool = False

    @property
    def family(self) -> str:
        return self.name.split(".")[0]


@dataclass(frozen=True, slots=True)
class Code:
    """The instructions of a kernel in order, and the position of the instruction after each label."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]


def read(sass: str) -> Code:
    """Parse the output of nvdisasm or cuobjdump for one kernel."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    addresses: dict[str, int] = {}
    for line in sass.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif match := _INSTRUCTION.match(line):
            address, predicate, name, operands = match.groups()
            addresses[f"0x{int(address, 16):x}"] = len(instructions)
            target = _TARGET.search(operands) if name.startswith("BRA") else None
            predicated = predicate is not None or _GUARD.search(operands) is not None
            instructions.append(
                Instruction(name, operands, (target[1] or target[2]) if target else "", predicated)
            )
    # cuobjdump prints addresses as branch targets.
    labels |= {i.target: addresses[i.target] for i in instructions if i.target in addresses}
    return Code(tuple(instructions), labels)


@dataclass(frozen=True, slots=True)
class Graph:
    """The control flow graph of a kernel: the `spans` of instructions of its basic blocks, and the `successors` of each
    block."""

    spans: tuple[tuple[int, int], ...]
    successors: tuple[tuple[int, ...], ...]


def graph(code: Code) -> Graph:
    """The control flow graph. Blocks start at branch targets, after branches and exits, and before tests of mbarriers;
    other labels are ignored, because nvdisasm prints some of them and cuobjdump none."""
    count = len(code.instructions)
    ends = (k + 1 for k, i in enumerate(code.instructions) if i.family in ("BRA", "EXIT"))
    phase_tests = (k for k, i in enumerate(code.instructions) if i.name.startswith(PHASE_TEST))
    successors_of = (code.labels.get(i.target, count) for i in code.instructions)
    leaders = sorted(
        {
            0,
            count,
            *(block_start for block_start in successors_of if block_start < count),
            *ends,
            *phase_tests,
        }
    )
    spans = tuple(pairwise(leaders))
    block_at = {start: k for k, (start, _) in enumerate(spans)}
    successor_lists: list[tuple[int, ...]] = []
    for k, (_, end) in enumerate(spans):
        last = code.instructions[end - 1]
        falls_through = last.predicated or last.family not in ("BRA", "EXIT")
        successors = [k + 1] if falls_through and k + 1 < len(spans) else []
        successors += (
            [block_at[code.labels[last.target]]] if code.labels.get(last.target, count) < count else []
        )
        successor_lists.append(tuple(successors))
    return Graph(spans, tuple(successor_lists))


def loops(flow: Graph) -> list[frozenset[int]]:
    """The blocks of each natural loop: the blocks that reach a back edge without passing through the loop's header."""
    predecessors: list[list[int]] = [[] for _ in flow.spans]
    for k, successors in enumerate(flow.successors):
        for block in successors:
            predecessors[block].append(k)
    heads: dict[int, set[int]] = {}
    dominators = _dominators(flow, predecessors)
    for k, successors in enumerate(flow.successors):
        for head in successors:
            if head in dominators.get(k, ()):
                heads.setdefault(head, {head}).update(_loop_body(k, head, predecessors))
    return [frozenset(body) for body in heads.values()]


def _loop_body(tail: int, head: int, predecessors: list[list[int]]) -> set[int]:
    result, pending = {head}, [tail]
    while pending:
        block = pending.pop()
        if block not in result:
            result.add(block)
            pending += predecessors[block]
    return result


def _dominators(flow: Graph, predecessors: list[list[int]]) -> dict[int, set[int]]:
    """The dominators of each reachable block."""
    order, pending = dict.fromkeys([0]), [0]
    while pending:
        for block in flow.successors[pending.pop()]:
            if block not in order:
                order[block] = None
                pending.append(block)
    dominators = {block: set(order) for block in order}
    dominators[0] = {0}
    changed = True
    while changed:
        changed = False
        for block in order:
            incoming = [dominators[b] for b in predecessors[block] if b in dominators]
            new = set.intersection(*incoming) | {block} if block and incoming else {block}
            if new != dominators[block]:
                dominators[block], changed = new, True
    return dominators


def main_loop(code: Code) -> Sequence[Instruction]:
    """The innermost loop with the most tensor-core instructions, and among equals the longest; the longest innermost
    loop if no loop has such instructions; empty for code without loops. The function ignores loops and blocks that only
    wait, and loops without tensor-core instructions within a loop with such instructions."""
    flow = graph(code)

    def body(blocks: frozenset[int]) -> list[Instruction]:
        spans = (code.instructions[slice(*flow.spans[k])] for k in sorted(blocks))
        return [i for span in spans if not _only_waits(span) for i in span]

    working_loops = [loop for loop in loops(flow) if body(loop)]
    tensor_loops = [loop for loop in working_loops if counts(body(loop))["tensor"]] or working_loops
    innermost = [loop for loop in tensor_loops if not any(candidate < loop for candidate in tensor_loops)]
    return max(map(body, innermost), key=lambda b: (counts(b)["tensor"], len(b)), default=())


def _only_waits(body: Sequence[Instruction]) -> bool:
    return all(i.name.startswith(PHASE_TEST) or i.family in ("BRA", "NANOSLEEP", "NOP") for i in body)


def counts(body: Sequence[Instruction]) -> dict[str, int]:
    """The number of instructions of each family, and under "instructions" of all instructions except padding."""
    result = {family: sum(i.family in names for i in body) for family, names in FAMILIES.items()}
    return {"instructions": sum(i.family != "NOP" for i in body), **result}


def waits(body: Sequence[Instruction]) -> list[int]:
    """For each wait for wgmma, in order, the number of groups that it leaves in flight."""
    wait_counts = (
        re.search(r"gsb0, (0x[0-9a-f]+)", i.operands) for i in body if i.name == "WARPGROUP.DEPBAR.LE"
    )
    return [int(wait[1], 16) for wait in wait_counts if wait]
