"""Equal loops of a kernel become calls of one function: LLVM's time grows with the number of loops and of lines.

Only loops that a block, or a group of blocks side by side, runs once are shared, so that a call takes little of the
time. Two loops are equal if their texts are equal up to the names of registers and labels. The registers that a loop
reads become the parameters of its function, and those that the code after the loop reads become its results. A loop
that ends the kernel, if the kernel was cancelled, has a further result, whether the kernel goes on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set

from tegula.dataclass import dataclass

NAME_OR_STRING = re.compile(r'("[^"]*"|%[\w.]+)')
"""Matches a register, a label in an operand, or a string, in which a percent sign has another meaning."""

REGISTER = re.compile(r"%([\w.]+)")
DEFINITION = re.compile(r"^  %([\w.]+) = (.*)$", re.M)
LABEL = re.compile(r"^([\w.]+):$", re.M)
TARGET = re.compile(r"label %([\w.]+)")
_TYPE = r"(ptr|i\d+|float|double|half|<\d+ x (?:i\d+|float|double|half)>)"
RESULT_TYPE = (
    re.compile(rf"load {_TYPE}, "),
    re.compile(rf"phi {_TYPE} "),
    re.compile(rf"(?:add|sub|mul|and|or|xor|[su]div|[su]rem|shl|lshr|ashr)(?: nsw| nuw)* {_TYPE} "),
    re.compile(rf"f(?:add|sub|mul|div|rem|neg)(?: [a-z]+)*? {_TYPE} "),
    re.compile(rf"select (?:i1|<\d+ x i1>) [^,]+, {_TYPE} "),
    re.compile(rf"insertelement {_TYPE} "),
    re.compile(rf"call {_TYPE} @"),
    re.compile(rf"(?:sext|zext|trunc|inttoptr|ptrtoint|sitofp|uitofp) .* to {_TYPE}$"),
)
"""Patterns of instructions with a result of a scalar type or of a vector, which is the group."""
COMPARISON = re.compile(r"[if]cmp \w+ (<\d+ x )?")
"""Matches a comparison. The group is the beginning of the type of vectors."""

PARAMETERS = {"args": "ptr", "scratch": "ptr", "first": "i64", "end": "i64"}
"""The types of the kernel's parameters."""


@dataclass(frozen=True, slots=True)
class LoopText:
    """The lines [start, end) of a loop, from the label of its header on. `before`: the label of the block that enters
    the loop; `after`: the label of the block after the loop, which follows the lines."""

    start: int
    end: int
    before: str
    after: str
    text: str


def share_equal_loops(entry: Sequence[str], lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lines of a kernel's function with calls instead of equal loops, and the functions that they call.
    `entry`: the first lines of the function."""
    split_lines = "\n".join(lines).split("\n")
    renamed: defaultdict[str, list[tuple[LoopText, list[str]]]] = defaultdict(list)
    for similar in _similar(_loops_of_a_block(split_lines)):
        for loop in similar:
            text, names = _renamed(loop)
            renamed[text].append((loop, names))
    equal = {text: group for text, group in renamed.items() if len(group) > 1}
    if not equal:
        return list(lines), []
    shared = [loop for group in equal.values() for loop, _ in group]
    definitions, used_elsewhere = _other_names(entry, split_lines, shared)
    calls: dict[LoopText, list[str]] = {}
    functions: list[str] = []
    for text, group in equal.items():
        arguments = _arguments(text, group, definitions)
        results = _results(text, group, used_elsewhere)
        if arguments is not None and results is not None:
            symbol = f"@shared{len(functions)}"
            functions.append(_function(symbol, text, arguments, results))
            calls.update(
                (loop, _call(symbol, loop, k, arguments, results)) for k, (loop, _) in enumerate(group)
            )
    return _with_calls(split_lines, calls), functions


def _similar(loops: Sequence[LoopText]) -> Iterator[list[LoopText]]:
    """Groups of loops that may be equal."""
    by_length: defaultdict[int, list[LoopText]] = defaultdict(list)
    for loop in loops:
        by_length[loop.end - loop.start].append(loop)
    for group in by_length.values():
        similar: defaultdict[str, list[LoopText]] = defaultdict(list)
        for loop in group if len(group) > 1 else ():
            similar[REGISTER.sub("%", LABEL.sub("", loop.text))].append(loop)
        yield from (g for g in similar.values() if len(g) > 1)


def _loops_of_a_block(lines: Sequence[str]) -> list[LoopText]:
    """The outermost loops inside the loop over blocks that can be functions: with one exit, to the lines after."""
    labels: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if line[-1:] == ":":
            labels[line[:-1]] = number
        elif line[:5] == "  br ":
            spans += [(labels[x], number + 1) for x in TARGET.findall(line) if x in labels]
    blocks = dict(zip(labels.values(), ["entry", *labels], strict=False))
    outermost = min(spans, default=(0, 0))
    position = outermost[0]
    loops: list[LoopText] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start <= position or end > outermost[1] or lines[start - 1] != f"  br label %{lines[start][:-1]}":
            continue
        position = max(position, end)
        following = lines[end : end + 2]
        if not following[0].endswith(":") or " = phi " in following[1]:
            continue
        after = following[0][:-1]
        inside = range(start, end)
        branches = "\n".join(line for line in lines[start:end] if line[:5] == "  br ")
        if all(target == after or labels.get(target) in inside for target in TARGET.findall(branches)):
            loops.append(LoopText(start, end, blocks[start], after, "\n".join(lines[start:end])))
    return loops


def _other_names(
    entry: Sequence[str], lines: Sequence[str], loops: Sequence[LoopText]
) -> tuple[dict[str, str], set[str]]:
    """The instructions by the name of the result, and the names that are used outside the loop that defines them."""
    outside, position = list(entry), 0
    for loop in sorted(loops, key=lambda x: x.start):
        outside += lines[position : loop.start]
        position = loop.end
    outside += lines[position:]
    definitions = {name[3:]: rest for name, found, rest in (x.partition(" = ") for x in outside) if found}
    text = "\n".join(outside)
    used = {*REGISTER.findall(text)}
    for loop in loops:
        defined = dict(DEFINITION.findall(loop.text))
        used |= {*REGISTER.findall(loop.text)} - defined.keys()
        definitions.update(defined)
    return definitions, used


class _Numbers(dict[str, str]):
    """New names of registers and labels, with their percent sign, by number."""

    def __missing__(self, name: str) -> str:
        self[name] = number = f"%x{len(self) - 2}"
        return number


def _renamed(loop: LoopText) -> tuple[str, list[str]]:
    """The text of a loop with registers and labels numbered by first use, and their names by number."""
    numbers = _Numbers({f"%{loop.before}": "%entry", f"%{loop.after}": "%done"})
    parts = NAME_OR_STRING.split(loop.text)
    parts[1::2] = [numbers[part] if part[0] == "%" else part for part in parts[1::2]]
    text = LABEL.sub(lambda match: numbers["%" + match[1]][1:] + ":", "".join(parts))
    return text, [name[1:] for name in list(numbers)[2:]]


@dataclass(frozen=True, slots=True)
class Shared:
    """A parameter or a result of a shared loop. `values`: the register for each of the loops; `is_unaliased`: whether
    no other parameter leads to the same memory."""

    name: str
    type: str
    values: list[str]
    is_unaliased: bool = False


def _arguments(
    text: str, group: Sequence[tuple[LoopText, list[str]]], definitions: Mapping[str, str]
) -> list[Shared] | None:
    """The registers that equal loops read; None if a type is not known."""
    inside = {name for name, _ in DEFINITION.findall(text)} | {*LABEL.findall(text)}
    arguments: list[Shared] = []
    for k, values in enumerate(zip(*(names for _, names in group), strict=True)):
        if f"x{k}" in inside:
            continue
        types = {_type_of(v, definitions) for v in values}
        if len(types) > 1 or None in types:
            return None
        is_stack = all(definitions.get(v, "").startswith("alloca ") for v in values)
        arguments.append(Shared(f"x{k}", str(types.pop()), list(values), is_stack))
    pieces = ("alloca ", "getelementptr inbounds i8, ptr %scratch, ")
    pointers = [v for a in arguments if a.type == "ptr" for v in a.values]
    if all(definitions.get(v, "").startswith(pieces) for v in pointers):
        return arguments
    return [Shared(a.name, a.type, a.values) for a in arguments]


def _results(
    text: str, group: Sequence[tuple[LoopText, list[str]]], used_elsewhere: Set[str]
) -> list[Shared] | None:
    """The registers of equal loops that other code reads; None if a type is not known."""
    inside = dict(DEFINITION.findall(text))
    results: list[Shared] = []
    for k, values in enumerate(zip(*(names for _, names in group), strict=True)):
        if f"x{k}" in inside and not used_elsewhere.isdisjoint(values):
            t = _type_of(f"x{k}", inside)
            if t is None:
                return None
            results.append(Shared(f"x{k}", t, list(values)))
    return results


def _type_of(name: str, definitions: Mapping[str, str]) -> str | None:
    """The type of a register, if it is a number, a pointer or a vector of numbers."""
    instruction = definitions.get(name)
    if instruction is None:
        return PARAMETERS.get(name)
    if instruction.startswith(("alloca ", "getelementptr ")):
        return None if " x ptr>" in instruction else "ptr"
    comparison = COMPARISON.match(instruction)
    if comparison:
        return f"{comparison[1]}i1>" if comparison[1] else "i1"
    return next((m[1] for pattern in RESULT_TYPE if (m := pattern.match(instruction))), None)


CANCELLED = "  ret i32 1\n"
"""The instruction that ends a kernel that was cancelled."""


ESCAPE = re.compile(r"ptrtoint|store ptr|(?:select|phi) (?:i1 \S+ )?ptr|call [^\n]*@(?!llvm\.)")
"""Matches an instruction by which an address may be stored or returned."""
OTHER_MEMORY = re.compile(r"inttoptr|load ptr|volatile|asm |@(?!llvm\.)")
"""Matches an instruction that may access other memory than the parameters point to."""


def _record(text: str, results: Sequence[Shared]) -> str:
    """The type that the function of a loop returns: whether the kernel goes on, if the loop may end it, and the
    results."""
    types = [*["i1"] * (CANCELLED in text), *(r.type for r in results)]
    return f"{{ {', '.join(types)} }}" if types else "void"


def _function(symbol: str, text: str, arguments: Sequence[Shared], results: Sequence[Shared]) -> str:
    attributes = {"ptr": " nocapture" * (ESCAPE.search(text) is None)}
    parameters = ", ".join(
        f"{a.type}{' noalias' * a.is_unaliased}{attributes.get(a.type, '')} %{a.name}" for a in arguments
    )
    effects = " memory(argmem: readwrite, inaccessiblemem: readwrite)" * (OTHER_MEMORY.search(text) is None)
    record, value = _record(text, results), "poison"
    lines = [
        f"define internal {record} {symbol}({parameters}) #1{effects} {{",
        f"entry:\n  br label %{text[: text.index(':')]}",
        (text + "\n").replace(CANCELLED, f"  ret {record} zeroinitializer\n") + "done:",
    ]
    fields = [*["i1 true"] * (CANCELLED in text), *(f"{r.type} %{r.name}" for r in results)]
    for position, result in enumerate(fields):
        lines.append(f"  %result{position} = insertvalue {record} {value}, {result}, {position}")
        value = f"%result{position}"
    return "\n".join([*lines, "  ret void" if record == "void" else f"  ret {record} {value}", "}"])


def _call(
    symbol: str, loop: LoopText, k: int, arguments: Sequence[Shared], results: Sequence[Shared]
) -> list[str]:
    """The lines instead of loop `k` of several equal ones."""
    record, name = _record(loop.text, results), f"{loop.after}.call"
    call = f"call {record} {symbol}({', '.join(f'{a.type} %{a.values[k]}' for a in arguments)})"
    if record == "void":
        return [f"  {call}", f"  br label %{loop.after}"]
    may_cancel = CANCELLED in loop.text
    lines = [f"  %{name} = {call}"]
    for position, result in enumerate(results, int(may_cancel)):
        lines.append(f"  %{result.values[k]} = extractvalue {record} %{name}, {position}")
    if not may_cancel:
        return [*lines, f"  br label %{loop.after}"]
    return [
        *lines,
        f"  %{name}.continues = extractvalue {record} %{name}, 0",
        f"  br i1 %{name}.continues, label %{loop.after}, label %{name}.stop",
        f"{name}.stop:",
        CANCELLED.rstrip("\n"),
    ]


def _with_calls(lines: Sequence[str], calls: Mapping[LoopText, Sequence[str]]) -> list[str]:
    """The lines with others instead of each loop and of the jump to the loop."""
    result: list[str] = []
    position = 0
    for loop, call in sorted(calls.items(), key=lambda item: item[0].start):
        result += [*lines[position : loop.start - 1], *call]
        position = loop.end
    return [*result, *lines[position:]]


__all__ = ["share_equal_loops"]
