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
LOOK = "SYNCS.PHASECHK"
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
    """The control flow graph of a kernel: the `spans` of instructions of its basic blocks, and the successors of
    each."""

    spans: tuple[tuple[int, int], ...]
    follow: tuple[tuple[int, ...], ...]


def graph(code: Code) -> Graph:
    """The control flow graph. Blocks start at branch targets, after branches and exits, and before tests of mbarriers;
    other labels are ignored, because nvdisasm prints some of them and cuobjdump none."""
    count = len(code.instructions)
    ends = (k + 1 for k, i in enumerate(code.instructions) if i.family in ("BRA", "EXIT"))
    looks = (k for k, i in enumerate(code.instructions) if i.name.startswith(LOOK))
    successors_of = (code.labels.get(i.target, count) for i in code.instructions)
    cuts = sorted(
        {0, count, *(block_start for block_start in successors_of if block_start < count), *ends, *looks}
    )
    spans = tuple(pairwise(cuts))
    block_at = {start: k for k, (start, _) in enumerate(spans)}
    follow: list[tuple[int, ...]] = []
    for k, (_, end) in enumerate(spans):
        last = code.instructions[end - 1]
        goes_on = last.predicated or last.family not in ("BRA", "EXIT")
        successors = [k + 1] if goes_on and k + 1 < len(spans) else []
        successors += (
            [block_at[code.labels[last.target]]] if code.labels.get(last.target, count) < count else []
        )
        follow.append(tuple(successors))
    return Graph(spans, tuple(follow))


def loops(flow: Graph) -> list[frozenset[int]]:
    """The blocks of each natural loop: the blocks that reach a back edge without passing through the head of the
    loop."""
    before: list[list[int]] = [[] for _ in flow.spans]
    for k, following in enumerate(flow.follow):
        for block in following:
            before[block].append(k)
    heads: dict[int, set[int]] = {}
    dominators = _dominators(flow, before)
    for k, following in enumerate(flow.follow):
        for head in following:
            if head in dominators.get(k, ()):
                heads.setdefault(head, {head}).update(_reaching(k, head, before))
    return [frozenset(body) for body in heads.values()]


def _reaching(tail: int, head: int, before: list[list[int]]) -> set[int]:
    result, pending = {head}, [tail]
    while pending:
        block = pending.pop()
        if block not in result:
            result.add(block)
            pending += before[block]
    return result


def _dominators(flow: Graph, before: list[list[int]]) -> dict[int, set[int]]:
    """The dominators of each reachable block."""
    order, pending = dict.fromkeys([0]), [0]
    while pending:
        for block in flow.follow[pending.pop()]:
            if block not in order:
                order[block] = None
                pending.append(block)
    dominators = {block: set(order) for block in order}
    dominators[0] = {0}
    changed = True
    while changed:
        changed = False
        for block in order:
            incoming = [dominators[b] for b in before[block] if b in dominators]
            new = set.intersection(*incoming) | {block} if block and incoming else {block}
            if new != dominators[block]:
                dominators[block], changed = new, True
    return dominators


def main_loop(code: Code) -> Sequence[Instruction]:
    """The innermost loop with tensor-core instructions that has the most of them, the longest if there are several; the
    longest innermost loop of code without such loops; empty for code without loops. Loops and blocks that only wait are
    ignored, and so are loops without tensor-core instructions, such as loops of rare quotients, within a loop with such
    instructions."""
    flow = graph(code)

    def body(blocks: frozenset[int]) -> list[Instruction]:
        spans = (code.instructions[slice(*flow.spans[k])] for k in sorted(blocks))
        return [i for span in spans if not _only_waits(span) for i in span]

    working = [loop for loop in loops(flow) if body(loop)]
    able = [loop for loop in working if counts(body(loop))["tensor"]] or working
    innermost = [loop for loop in able if not any(candidate < loop for candidate in able)]
    return max(map(body, innermost), key=lambda b: (counts(b)["tensor"], len(b)), default=())


def _only_waits(body: Sequence[Instruction]) -> bool:
    return all(i.name.startswith(LOOK) or i.family in ("BRA", "NANOSLEEP", "NOP") for i in body)


def counts(body: Sequence[Instruction]) -> dict[str, int]:
    """The number of instructions of each family, and under "instructions" of all instructions except padding."""
    result = {family: sum(i.family in names for i in body) for family, names in FAMILIES.items()}
    return {"instructions": sum(i.family != "NOP" for i in body), **result}


def waits(body: Sequence[Instruction]) -> list[int]:
    """For each wait for wgmma, in order, the number of groups that it leaves in flight."""
    left = (re.search(r"gsb0, (0x[0-9a-f]+)", i.operands) for i in body if i.name == "WARPGROUP.DEPBAR.LE")
    return [int(wait[1], 16) for wait in left if wait]
