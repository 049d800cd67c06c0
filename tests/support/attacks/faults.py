"""Faults of a ring of stages that occur if a condition holds."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

from support.attacks.program import Line, Program, Role, Staging, indented
from tegula.dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault. `rows`: the obligations and corpus entries that the fault breaks; `mutate`: the change, which returns
    False if the program has no line for the fault; `on_launch`: the condition depends on the launch, not on the item;
    `harmless_for`: "first" or "last" if the fault has no effect for the first or last items, as many as the ring has
    stages, or ""; `weight`: the frequency, largest for faults without a branch, because their text shows no special
    case."""

    name: str
    rows: tuple[str, ...]
    mutate: Callable[[Random, Program, str], bool]
    on_launch: bool = False
    harmless_for: str = ""
    weight: int = 1


FAULTS: list[Fault] = []
Mutation = Callable[[Random, Program, str], bool]


def fault(
    name: str, *rows: str, on_launch: bool = False, harmless_for: str = "", weight: int = 1
) -> Callable[[Mutation], Mutation]:
    def register(mutate: Mutation) -> Mutation:
        FAULTS.append(Fault(name, rows, mutate, on_launch, harmless_for, weight))
        return mutate

    return register


def tagged_lines(program: Program, *tags: str) -> list[tuple[Role, int]]:
    return [(r, k) for r in program.roles for k, line in enumerate(r.body) if line.tag in tags]


def random_tagged_line(rng: Random, program: Program, *tags: str) -> tuple[Role, int] | None:
    result = tagged_lines(program, *tags)
    return rng.choice(result) if result else None


def guarded_by_not(text: str, condition: str) -> str:
    return "\n".join([f"if not ({condition}):", *indented([text])])


def guarded_by(text: str, condition: str) -> str:
    return "\n".join([f"if {condition}:", *indented([text])])


def drop_line(*tags: str) -> Mutation:
    """Skip a line if the condition holds."""

    def mutate(rng: Random, program: Program, condition: str) -> bool:
        position = random_tagged_line(rng, program, *tags)
        if not position:
            return False
        role, k = position
        role.body[k] = Line(role.body[k].tag, guarded_by_not(role.body[k].text, condition))
        return True

    return mutate


def repeat_line(*tags: str) -> Mutation:
    """Repeat a line if the condition holds."""

    def mutate(rng: Random, program: Program, condition: str) -> bool:
        position = random_tagged_line(rng, program, *tags)
        if not position:
            return False
        role, k = position
        role.body.insert(k, Line("more", guarded_by(role.body[k].text, condition)))
        return True

    return mutate


def move_before(tag: str, *over: str) -> Mutation:
    """Move a line before the first line with one of the tags `over` if the condition holds."""

    def mutate(rng: Random, program: Program, condition: str) -> bool:
        positions = [
            (r, k) for r, k in tagged_lines(program, tag) if any(line.tag in over for line in r.body[:k])
        ]
        if not positions:
            return False
        role, k = rng.choice(positions)
        first = next(j for j, line in enumerate(role.body) if line.tag in over)
        line = role.body[k]
        role.body[k] = Line(tag, guarded_by_not(line.text, condition))
        role.body.insert(first, Line(tag, guarded_by(line.text, condition)))
        return True

    return mutate


def move_after(tag: str, over: str) -> Mutation:
    """Move a line after the last line with the tag `over` if the condition holds."""

    def mutate(rng: Random, program: Program, condition: str) -> bool:
        positions = [
            (r, k) for r, k in tagged_lines(program, tag) if any(line.tag == over for line in r.body[k + 1 :])
        ]
        if not positions:
            return False
        role, k = rng.choice(positions)
        last = max(j for j, line in enumerate(role.body) if line.tag == over)
        line = role.body[k]
        role.body.insert(last + 1, Line(tag, guarded_by(line.text, condition)))
        role.body[k] = Line(tag, guarded_by_not(line.text, condition))
        return True

    return mutate


def replace_part(pattern: str, template: str, *tags: str) -> Mutation:
    """Replace part of a line if the condition holds; `template` has fields for the condition and the old part."""

    def mutate(rng: Random, program: Program, condition: str) -> bool:
        match = [(r, k) for r, k in tagged_lines(program, *tags) if re.search(pattern, r.body[k].text)]
        if not match:
            return False
        role, k = rng.choice(match)
        line = role.body[k]
        text = re.sub(pattern, lambda m: template.format(at=condition, old=m.group()), line.text, count=1)
        role.body[k] = Line(line.tag, text)
        return True

    return mutate


FULL, EMPTY = ("arrive full", "expect"), ("arrive",)


@fault("the opposite phase", "O1", "O4", "corpus 6", "expert mbarriers", weight=9)
def flip_phase(rng: Random, program: Program, condition: str) -> bool:
    return replace_part(r"\bphase\b", "({old} ^ int({at}))", "wait", "wait empty")(rng, program, condition)


@fault("a constant phase", "O1", "O4", "corpus 6", "expert mbarriers", weight=9)
def constant_phase(rng: Random, program: Program, condition: str) -> bool:
    return replace_part(r"\bphase\b", "({old} if not ({at}) else 0)", "wait", "wait empty")(
        rng, program, condition
    )


def use_other_stage(*tags: str, last: bool = False) -> Mutation:
    """Make a line use another stage if the condition holds; `last`: change only the last occurrence, the stage at which
    copies are counted."""

    def mutate(rng: Random, program: Program, condition: str) -> bool:
        if (stages := program.stages) <= 1:
            return False
        other_stage = "({old} + int({at})) % " + str(stages)
        return replace_part(r"\bs(?=\)$)" if last else r"\bs\b", other_stage, *tags)(rng, program, condition)

    return mutate


fault("an arrival at another stage", "O1", "O2", "O3", "corpus 14", "corpus 16", "late release", weight=9)(
    use_other_stage("arrive")
)
fault("an arrival at another full barrier", "O1", "O2", "corpus 15", "corpus 14", weight=9)(
    use_other_stage("arrive full")
)
fault("announced at another stage", "O1", "O2", "corpus 9", "corpus 14", weight=9)(use_other_stage("expect"))
fault("a copy to another stage", "O1", "O5", "corpus 7", "corpus 5", weight=9)(use_other_stage("load"))
fault("a copy counted at another stage", "O2", "corpus 9", "corpus 1", weight=9)(
    use_other_stage("load", last=True)
)
fault("a wait at another stage", "O1", "O3", "O4", "corpus 17", "corpus 5", weight=9)(
    use_other_stage("wait", "wait empty")
)
fault("a read of another stage", "O1", "O5", "corpus 24", weight=9)(use_other_stage("read"))
fault("written to another stage", "O1", "O5", "corpus 7", "corpus 15", weight=9)(
    use_other_stage("write", "own write")
)
fault("copied out of another stage", "O1", "O5", "corpus 12", "corpus 13", "corpus 18", weight=9)(
    use_other_stage("out", "own out")
)
fault("a matmul of another stage", "O1", "O5", "O7", "corpus 8", "corpus 21", weight=9)(
    use_other_stage("matmul")
)


@fault("stages in another order", "O1", "O4", "expert mbarriers", weight=9)
def rotate_stages(rng: Random, program: Program, condition: str) -> bool:
    """All lines of a role use the next stage if the condition holds."""
    if (stages := program.stages) <= 1:
        return False
    role = rng.choice(program.roles)
    if not any(re.search(r"\bs\b", line.text) for line in role.body):
        return False
    role.body.insert(0, Line("moved", f"stage = (s + int({condition})) % {stages}"))
    for k, line in enumerate(role.body[1:], 1):
        role.body[k] = Line(line.tag, re.sub(r"\bs\b", "stage", line.text))
    if role.elected:
        role.body[0] = Line("moved", "pass")
        role.body = [
            Line(x.tag, re.sub(r"\bstage\b(?!s)", f"((s + int({condition})) % {stages})", x.text))
            for x in role.body[1:]
        ]
    return True


fault("no arrival", "O2", "O3", "corpus 16", "corpus 14", harmless_for="last")(
    drop_line(*EMPTY, "arrive full")
)
fault("one arrival too many", "O2", "O4", "corpus 1", "corpus 15", harmless_for="last")(
    repeat_line(*EMPTY, "arrive full")
)
fault("nothing announced", "O2", "corpus 9")(drop_line("expect"))
fault("announced twice", "O2", "corpus 9", "corpus 1")(repeat_line("expect"))


@fault("other bytes in the last tile", "O2", "corpus 9")
def announce_other_bytes(rng: Random, program: Program, condition: str) -> bool:
    position = random_tagged_line(rng, program, "expect")
    if not position:
        return False
    role, k = position
    text = role.body[k].text
    size = int(re.search(r"(\d+)\)$", text).group(1))  # type: ignore[union-attr]
    replacement = text.replace(f"{size})", f"{rng.choice((size // 2, size + 16, 2 * size, size - 16))})")
    role.body[k] = Line(
        "expect", "\n".join([f"if {condition}:", *indented([replacement]), "else:", *indented([text])])
    )
    return True


fault("no copy", "O2", "corpus 9", "corpus 14")(drop_line("load"))
fault("one copy too many", "O2", "corpus 9", "corpus 5")(repeat_line("load"))
fault("no wait of the reader", "O3", "O5", "corpus 17", "corpus 7")(drop_line("wait"))
fault("no wait of the writer", "O3", "O5", "corpus 7", "corpus 5", harmless_for="first")(
    drop_line("wait empty")
)
fault("a wait after the read", "O3", "O5", "corpus 17")(move_after("wait", "read"))
fault("a wait after the write", "O3", "O5", "corpus 7", "corpus 5", harmless_for="first")(
    move_after("wait empty", "write")
)
fault("a wait after the copy", "O5", "O3", "corpus 7", "corpus 5", harmless_for="first")(
    move_after("wait empty", "load")
)
fault("released before it is read", "O5", "corpus 24", "corpus 8", "late release", harmless_for="last")(
    move_before("arrive", "read", "write", "out")
)
fault("announced before the stage is free", "O4", "corpus 5", harmless_for="first")(
    move_before("expect", "wait empty")
)
fault("released before the matmul", "O5", "O7", "corpus 8", "late release", harmless_for="last")(
    move_before("arrive", "matmul")
)
fault("released before the wait for the matmul", "O5", "O7", "corpus 8", "late release", harmless_for="last")(
    move_before("arrive", "matmul wait")
)
fault("no wait for the matmul", "O7", "O5", "corpus 8", "corpus 21", harmless_for="last")(
    drop_line("matmul wait")
)
fault("filled before it is written", "O5", "corpus 15")(move_before("arrive full", "write"))
fault("no fence", "O6", "corpus 11", harmless_for="last", weight=9)(drop_line("fence"))
fault("a fence after the arrival", "O6", "corpus 11", harmless_for="last")(move_after("fence", "arrive"))
fault("a fence after the announcement", "O6", "corpus 11", "corpus 21")(move_after("fence", "arrive full"))
fault("a fence before the read", "O6", "corpus 11")(move_before("fence", "read", "write", "own write"))
fault("no wait for the copy out", "O5", "O8", "corpus 12", "corpus 18", weight=9)(drop_line("out wait"))
fault("released before the copy out", "O5", "corpus 12", "corpus 24", harmless_for="last")(
    move_before("arrive", "out wait", "out")
)
fault("no commit of the copy out", "O8", "O5", "corpus 12", "corpus 18", weight=9)(drop_line("commit"))
fault("no synchronisation of the warps", "O5", "corpus 17", "corpus 22", weight=9)(drop_line("sync"))
fault("an arrival before the warps synchronise", "O5", "corpus 22", harmless_for="last")(
    move_before("arrive", "sync")
)
fault("read again after the release", "O5", "corpus 24", "corpus 12", "late release", harmless_for="last")(
    move_after("read", "arrive")
)
fault("written without waiting for the copy out", "O5", "corpus 12", "corpus 13", harmless_for="first")(
    move_after("out wait", "own write")
)


@fault(
    "one more operation in flight",
    "O7",
    "O5",
    "O8",
    "corpus 8",
    "corpus 12",
    "late release",
    harmless_for="last",
)
def leave_one_more_in_flight(rng: Random, program: Program, condition: str) -> bool:
    positions = [
        (r, k) for r, k in tagged_lines(program, "matmul wait", "out wait") if "pending=" in r.body[k].text
    ]
    if not positions:
        return False
    role, k = rng.choice(positions)
    line = role.body[k]
    replacement = re.sub(r"pending=(\d)", lambda m: f"pending={int(m.group(1)) + 1}", line.text)
    role.body[k] = Line(
        line.tag, "\n".join([f"if {condition}:", *indented([replacement]), "else:", *indented([line.text])])
    )
    return True


@fault("a role leaves its loop early", "O3", "O8", "corpus 14", "corpus 16", "corpus 4")
def leave_loop(rng: Random, program: Program, condition: str) -> bool:
    """A role leaves its loop if the condition holds."""
    role = rng.choice(program.roles)
    role.end.insert(0, guarded_by("break", condition))
    return True


@fault("another stage is released", "O1", "O2", "corpus 7", "late release", weight=9)
def release_too_early(rng: Random, program: Program, condition: str) -> bool:
    positions = [(r, k) for r, k in tagged_lines(program, "arrive") if "(k - " in r.body[k].text]
    if not positions:
        return False
    role, k = rng.choice(positions)
    line = role.body[k]
    role.body[k] = Line(
        line.tag, re.sub(r"k - (\d)\)", lambda m: f"k - {m.group(1)} + int({condition}))", line.text)
    )
    return True


@fault("another key condition", "O5", "O2", "key change")
def other_key(rng: Random, program: Program, condition: str) -> bool:
    position = random_tagged_line(rng, program, "key")
    if not position:
        return False
    role, k = position
    line = role.body[k]
    key_test = rng.choice(
        (f"(keys[k] != keys[k - 1] and not ({condition}))", f"(keys[k] != keys[k - 1] or {condition})")
    )
    role.body[k] = Line("key", line.text.replace("keys[k] != keys[k - 1]", key_test, 1))
    return True


@fault("the stage of the previous key is not released", "O5", "O3", "key change")
def keep_stage_of_key(rng: Random, program: Program, condition: str) -> bool:
    positions = [
        (r, k)
        for r, k in tagged_lines(program, "key")
        if "unused, at" in r.body[k].text and "arrive" in r.body[k].text
    ]
    if not positions:
        return False
    role, k = positions[0]
    line = role.body[k]
    role.body[k] = Line("key", line.text.replace("    if k > 0:", f"    if k > 0 and not ({condition}):", 1))
    return True


@fault("the stage of a key is released before its last read", "O5", "key change")
def release_stage_of_key_early(rng: Random, program: Program, condition: str) -> bool:
    """The reader releases the stage in the iteration before the key changes."""
    positions = [(r, k) for r, k in tagged_lines(program, "key") if "arrive" in r.body[k].text]
    if not positions:
        return False
    role, k = positions[0]
    line = role.body[k]
    ring = re.search(r"unused, at % (\d)", line.text)
    assert ring
    role.body[k] = Line("key", line.text.replace("    if k > 0:", "    if k > 0 and not gone:", 1))
    role.before.append("gone = False")
    give = f"    tg.fence_async()\n    tg.mbarrier_arrive(unused, at % {ring.group(1)})"
    role.body.insert(k + 1, Line("gone", f"gone = {condition}\nif gone:\n{give}"))
    return True


@fault("another number of arrivals at a named barrier", "named barriers", "O2", "corpus 19")
def arrive_another_number_of_times(rng: Random, program: Program, condition: str) -> bool:
    """A role arrives once more, or once less."""
    positions = [
        (r, k) for r in program.roles for k, line in enumerate(r.body) if "named_barrier" in line.text
    ]
    if not positions:
        return False
    role, k = rng.choice(positions)
    line = role.body[k]
    if "arrive" in line.text and rng.random() < 0.5:
        role.body[k] = Line(line.tag, f"{line.text}\n{guarded_by(line.text, condition)}")
    else:
        role.body[k] = Line(line.tag, guarded_by_not(line.text, condition))
    return True


@fault("arrives where it should wait", "named barriers", "O3", "O5", "corpus 19")
def arrive_instead_of_wait(rng: Random, program: Program, condition: str) -> bool:
    positions = [
        (r, k) for r in program.roles for k, line in enumerate(r.body) if "named_barrier_sync" in line.text
    ]
    if not positions:
        return False
    role, k = rng.choice(positions)
    line = role.body[k]
    replacement = line.text.replace("sync", "arrive")
    role.body[k] = Line(
        line.tag, "\n".join([f"if {condition}:", *indented([replacement]), "else:", *indented([line.text])])
    )
    return True


@fault("no initial arrival", "named barriers", "O3", "corpus 19", on_launch=True, weight=9)
def skip_initial_arrival(rng: Random, program: Program, condition: str) -> bool:
    role = next((r for r in program.roles if r.before and "named_barrier_arrive" in r.before[-1]), None)
    if role is None:
        return False
    role.before[-1] = guarded_by_not(role.before[-1], condition)
    return True


@fault("one iteration less", "O3", "O8", "corpus 16", "corpus 4", on_launch=True)
def leave_before_loop(rng: Random, program: Program, condition: str) -> bool:
    """A role leaves its loop at an item if the launch satisfies the condition."""
    role = rng.choice(program.roles)
    if role.elected:
        return False
    role.body.insert(0, Line("leave", guarded_by("break", f"k == {rng.choice((3, 9, 20))} and {condition}")))
    return True


@fault("copies in flight at the end", "O8", "corpus 18", on_launch=True, weight=9)
def drop_final_wait(rng: Random, program: Program, condition: str) -> bool:
    positions = [
        (r, k)
        for r in program.roles
        for k, line in enumerate(r.after)
        if "wait" in line and "named" not in line
    ]
    if not positions:
        return False
    role, k = rng.choice(positions)
    role.after[k] = guarded_by_not(role.after[k], condition)
    return True


@fault("an additional copy after the loop", "O8", "corpus 18", "corpus 14", on_launch=True)
def copy_to_unawaited_stage(rng: Random, program: Program, condition: str) -> bool:
    """An additional copy to a stage that no role waits for."""
    positions = [(r, k) for r, k in tagged_lines(program, "expect") if not r.elected]
    if not positions:
        return False
    role, _ = positions[0]
    text = "\n".join(line.text for line in role.body if line.tag in ("expect", "load"))
    text = re.sub(r"\bs\b", "0", text).replace("k", "0")
    wait = "tg.mbarrier_wait(empty, 0, 1)"
    role.after.append(guarded_by(f"{wait}\n{text}".replace("bar0ier", "barrier"), condition))
    return True


@fault("the accumulator is used while a matmul is in flight", "O7", "corpus 21", on_launch=True)
def use_accumulator_in_flight(rng: Random, program: Program, condition: str) -> bool:
    candidates = [r for r in program.roles for line in r.after if "tile_matmul_wait" in line]
    if not candidates:
        return False
    candidates[0].after[0] = guarded_by_not("tg.tile_matmul_wait()", condition)
    return True


fault("a tile not fetched", "O3", "corpus 16", "corpus 4")(drop_line("fill"))
fault("a tile fetched twice", "O3", "O8", "corpus 16", "corpus 18", "corpus 14")(repeat_line("fill"))


@fault("filled further ahead", "O3", "corpus 5", "late release", on_launch=True, weight=9)
def fill_further_ahead(rng: Random, program: Program, condition: str) -> bool:
    """Fill more items ahead than the ring has stages."""
    positions = [k for k, line in enumerate(program.preamble) if line.startswith("ahead = ")]
    if not positions:
        return False
    program.preamble[positions[0]] += f" + {rng.choice((3, 5, 9))} * int({condition})"
    return True


def use_neighbouring_item(*tags: str) -> Mutation:
    """A line uses the previous or the next item."""

    def mutate(rng: Random, program: Program, condition: str) -> bool:
        match = [
            (r, k) for r, k in tagged_lines(program, *tags) if re.search(r"\bs\b|\bphase\b", r.body[k].text)
        ]
        if not match or (stages := program.stages) < 1:
            return False
        role, k = rng.choice(match)
        item = f"(k {rng.choice('+-')} int({condition}))"
        text = re.sub(r"\bs\b", f"{item} % {stages}", role.body[k].text)
        role.body[k] = Line(role.body[k].tag, re.sub(r"\bphase\b", f"({item} // {stages} & 1)", text))
        return True

    return mutate


fault("a wait for another item", "O1", "O3", "O4", "corpus 5", "corpus 17", weight=9)(
    use_neighbouring_item("wait", "wait empty")
)
fault("another item is released", "O2", "O5", "corpus 7", "late release", weight=9)(
    use_neighbouring_item("arrive")
)
fault("another item is read", "O5", "O1", "corpus 24", weight=6)(
    use_neighbouring_item("read", "matmul", "out")
)


@fault(
    "too many first items without a wait",
    "O3",
    "O5",
    "corpus 5",
    "corpus 7",
    "late release",
    on_launch=True,
    weight=5,
)
def skip_first_waits(rng: Random, program: Program, condition: str) -> bool:
    """Skip the wait of more initial items than the ring has stages."""
    position = random_tagged_line(rng, program, "wait empty")
    if not position or (stages := program.stages) < 1:
        return False
    role, k = position
    text = role.body[k].text.rpartition("\n")[2].strip()
    first_wait = f"{stages} + {rng.choice((1, 2, stages))} * int({condition})"
    role.body[k] = Line(
        "wait empty", f"if k >= {first_wait}:\n    {text}" if "+= other" not in text else role.body[k].text
    )
    return "+= other" not in text


@fault("a carried stage or phase takes another step", "O1", "O4", "expert mbarriers", "corpus 6", weight=9)
def change_carried_step(rng: Random, program: Program, condition: str) -> bool:
    """A loop-carried stage or phase takes another step."""
    positions = [
        (r, k) for r in program.roles for k, line in enumerate(r.staging.end) if "+=" in line or "^=" in line
    ]
    if not positions:
        return False
    role, k = rng.choice(positions)
    end = list(role.staging.end)
    step = f"tg.uint8({condition})" if "uint8" in end[k] else f"int({condition})"
    end[k] = f"{end[k]} {'+' if '+=' in end[k] else '^'} {step}"
    role.staging = replace(role.staging, end=tuple(end))
    return True


@fault(
    "a ring that starts at another item", "O1", "O4", "expert mbarriers", "corpus 6", on_launch=True, weight=9
)
def start_at_other_item(rng: Random, program: Program, condition: str) -> bool:
    """All roles start counting their items at another index: stages wrap before phases change."""
    stages = program.stages
    users = [r for r in program.roles if any(re.search(r"\bphase\b", line.text) for line in r.body)]
    if stages < 2 or not users or "k >=" in str(users) or len(users) < len(program.roles):
        return False
    first_item = rng.choice((1, stages, 2 * stages - 1))
    for role in users:
        item = f"(k + {first_item} * int({condition}))"
        role.staging = Staging(start=(f"s, phase = {item} % {stages}, {item} // {stages} & 1",))
    return True
