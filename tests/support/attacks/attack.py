"""Attacks by number: a schedule that is wrong in some launch, or a schedule that is correct in all launches."""

from __future__ import annotations

import re
from random import Random
from typing import NamedTuple

import numpy as np

from support.attacks import clusters, judge, lowered, walks
from support.attacks.faults import FAULTS
from support.attacks.lowered import DROPPABLE, LoweredMutation
from support.attacks.pipes import RINGS
from support.attacks.program import (
    LaunchArguments,
    Line,
    LoopForm,
    Program,
    Staging,
    defaults,
    indented,
    wrong_stagings,
)
from support.attacks.rows import CLASSES, ROWS
from support.attacks.scheduler import scheduler
from support.attacks.simulate import Refused, TooManyEvents
from support.attacks.simulate import fault as find_fault
from support.attacks.triggers import free_parameters, trigger, with_replacements
from support.attacks.walks import LoopPair
from tegula.dataclass import dataclass, replace
from tegula.errors import CompileError
from tegula.ir import Kernel
from tegula.passes.runner import GpuCompilation


@dataclass(frozen=True, slots=True)
class Attack:
    """A generated schedule. `rows`: the rows that the schedule belongs to; `name`: the names of its parts; `args`: the
    arguments of the faulty launch, empty if the schedule is correct; `fault`: the fault that the simulation of this
    launch finds; `guarded`: a guard on the factors of trip counts may exclude the launch; `twin`: the text of the
    correct program, or ""; `sizes`: launches of a correct schedule; `row`: the row that was requested; `mutation`: the
    change after lowering."""

    seed: int
    rows: tuple[str, ...]
    name: str
    text: str
    args: LaunchArguments
    fault: str = ""
    guarded: bool = False
    twin: str = ""
    sizes: tuple[LaunchArguments, ...] = ()
    row: str = ""
    mutation: LoweredMutation | None = None

    def verdict(self) -> tuple[str, str]:
        """The checker's verdict and its reason."""
        if self.mutation is None:
            return judge.verdict(self.text, self.args)
        wrong = (lambda: judge.replay_arguments(self.text, self.args)) if self.args else None
        return lowered.verdict(*self._lowered(), wrong)

    def proof(self) -> tuple[str, str]:
        """The verdict on packed arrays without a search for a fault: "proved", "guarded", "unproved" or "refused", and
        the reason."""
        try:
            kernel = judge.lowered(judge.kernel_of(self.text)) if self.mutation is None else self._lowered()
        except CompileError as e:
            return "refused", str(e).partition("\n")[0]
        return judge.proof(
            *kernel, (lambda: judge.replay_arguments(self.text, self.args)) if self.args else None
        )

    def replay(self, args: LaunchArguments, count: int) -> str:
        """The fault in the first `count` orders of a launch, or ""."""
        if self.mutation is None:
            return judge.replay(self.text, args, count)
        return judge.replay_lowered(
            *self._lowered(), judge.replay_arguments(self.text, args), count, self.mutation.block
        )

    def _lowered(self) -> tuple[Kernel, GpuCompilation]:
        assert self.mutation is not None
        result = lowered.mutated(
            judge.kernel_of(self.text), self.mutation, clusters.ODD_ROWS if self.uses_clusters else None
        )
        assert result is not None
        return result

    @property
    def uses_clusters(self) -> bool:
        """Whether CTAs form 2-CTA clusters."""
        return "persistent_tiles" in self.text


ROW_BY_RING = {
    "late release": "late release", "waited for twice": "late release", "matmuls that overlap": "late release",
    "copies out that overlap": "late release", "a chain": "chained roles", "two readers": "chained roles",
    "two fetchers": "chained roles", "feedback": "chained roles", "keys": "key change",
    "named barriers": "named barriers", "ping-pong": "named barriers", "a chain of pipes": "chained roles",
    "a pipe with two readers": "chained roles", "pipes there and back": "chained roles",
    "one pipe ahead of another": "late release",
}  # fmt: skip


def simulate(text: str, args: LaunchArguments, orders: int = 8, seed: int = 0) -> str:
    """The fault of a launch, or "" if there is none, or if the launch is refused or too long."""
    try:
        return find_fault(text, args, orders, seed)
    except (Refused, TooManyEvents):
        return ""


def launch(rng: Random, walk: LoopPair, items: int, replacements: LaunchArguments) -> LaunchArguments:
    """The arguments of a launch with at least `items` items, with replacements."""
    arguments_by_name = walk.launch_args(rng, items)
    args = defaults(4 * items + 40)
    for name, value in arguments_by_name.items():
        if isinstance(value, np.ndarray):
            value = np.concatenate([value, np.zeros(max(0, len(args[name]) - len(value)), value.dtype)])
        args[name] = value
    if "keys" not in arguments_by_name:
        args["keys"] = _repeated_keys(rng, len(args["keys"]))
    return with_replacements(args, replacements)


def _repeated_keys(rng: Random, count: int) -> np.ndarray:
    """Keys that are equal for one to four consecutive items."""
    out, key = [], 0
    while len(out) < count:
        key += 1
        out += [key] * rng.randrange(1, 5)
    return np.array(out[:count], np.int32)


# Correct --------------------------------------------------------------------------------------------------------------

SIZES = (0, 1, 2, 3, 5, 9, 17, 40)


class Candidate(NamedTuple):
    """A schedule that may become an attack. `name`: the names of its parts; `launches`: the launches that may be
    faulty, or the launches of a correct schedule; `twin`: the text of the correct program, or ""."""

    rows: tuple[str, ...]
    walk: LoopPair
    name: str
    program: Program | str
    launches: list[LaunchArguments]
    twin: str = ""


def _random_program(rng: Random, row: str, wrong: bool) -> tuple[LoopPair, str, Program]:
    """A loop pair, the name of a ring, and the program. If the row is a class, the pair or the ring belongs to the
    row."""
    names = tuple(n for n in RINGS if ROW_BY_RING.get(n) == row) or tuple(RINGS)
    makers, weights = WALKS_BY_ROW.get(row, walks.WALKS), None
    if row == "sliding window":
        weights = [3, 1, 3, 1, 3, 1]
    if row not in WALKS_BY_ROW and rng.random() < 0.85:
        makers, weights = list(PLAIN_WALKS), list(PLAIN_WALKS.values())
    walk = rng.choices(makers, weights)[0](rng, wrong)
    name = rng.choice(names)
    return walk, name, RINGS[name](rng, walk)


WALKS_BY_ROW = {
    "sliding window": [walks.window, walks.split, walks.stream, walks.steps, walks.csr_rows, walks.persistent],
    "data-dependent": [walks.equal_conditions], "residue against division": [walks.residues],
    "flattened against nested": [walks.flattened], "max against parts": [walks.two_part_maximum],
    "preconditions": [walks.equal_under_assert],
}  # fmt: skip
PLAIN_WALKS = {walks.one_loop: 5, walks.csr_rows: 2, walks.window: 2}


def _rows(walk: LoopPair, name: str, *others: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(r for r in (walk.row, ROW_BY_RING.get(name, ""), *others) if r))


def right_attack(seed: int, row: str = "") -> Attack:
    """A schedule that is correct in all launches, with some of the launches."""
    rng, row = Random(f"right {seed}"), row or CLASSES[seed % len(CLASSES)]
    if row == "clusters":
        walk, (text, _) = walks.one_loop(rng, False), clusters.matmuls(rng)
        sizes = tuple(launch(rng, walk, 1, {"m": m, "n": n}) for m, n in ((1, 1), (2, 3), (3, 5)))
        return Attack(seed, (row,), "clusters", text, {}, sizes=sizes, row=row, mutation=lowered.NO_MUTATION)
    if row == "preconditions" and rng.random() < 0.6:
        for _ in range(MAX_TRIES):
            candidate = rng.choice((_restarted_loops, _excluded_by_assert))(rng, False)
            if candidate is not None:
                assert isinstance(candidate.program, Program)
                rows, text, sizes = candidate.rows[:1], candidate.program.text, tuple(candidate.launches)
                return Attack(seed, rows, candidate.name, text, {}, sizes=sizes, row=row)
    if row == "dynamic scheduler":
        walk = walks.one_loop(rng, False)
        sizes = tuple(launch(rng, walk, items, {"m": 2, "keys": {0: 0}}) for items in SIZES)
        return Attack(seed, (row,), "dynamic scheduler", scheduler(rng)[0], {}, sizes=sizes, row=row)
    walk, name, built = _random_program(rng, row, False)
    sizes = tuple(launch(rng, walk, items, {}) for items in SIZES)
    return Attack(
        seed,
        _rows(walk, name, "expert mbarriers"),
        f"{walk.name}, {name}",
        built.text,
        {},
        sizes=sizes,
        row=row,
    )


# Wrong ----------------------------------------------------------------------------------------------------------------

MAX_TRIES = 60
SMALL_SIZES = (1, 4, 7)


def _wrong_scheduler(rng: Random, row: str) -> Candidate | None:
    """Roles that receive the indices of their tiles from a role that draws them; one role is faulty."""
    walk = walks.one_loop(rng, False)
    walk_trigger = trigger(rng, walk, rng.random() < 0.3)
    twin, _ = scheduler(Random(first := rng.random()))
    text, name = scheduler(Random(first), re.sub(r"\bk\b", "t", walk_trigger.text))
    rows = ("dynamic scheduler", "O3", "O8", "corpus 14", "corpus 16")
    launches = [
        launch(rng, walk, walk_trigger.items + more, {"m": 2, "keys": {0: 0}, **walk_trigger.args})
        for more in (6, 12)
    ]
    return Candidate(rows, walk, f"dynamic scheduler, {name}: {walk_trigger.text}", text, launches, twin)


def wrong_attack(seed: int, row: str = "") -> Attack:
    """A schedule with the arguments of a launch in which it is wrong."""
    row = row or ROWS[seed % len(ROWS)]
    for k in range(MAX_TRIES):
        result = _try_attack(Random(f"wrong {seed} {row} {k}"), seed, row)
        if result is not None:
            return result
    raise LookupError(f"no attack on {row} from seed {seed}")


def _mutate_lowered(rng: Random, seed: int, row: str) -> Attack | None:
    """A mutation of the lowered form of a correct program."""
    walk, name, result = _random_program(rng, row, False)
    lowered_mutation = lowered.mutation(rng, row)
    if "clusters" in lowered_mutation.rows:
        return _mutate_cluster(rng, seed, row, lowered_mutation)
    if row not in (*lowered_mutation.rows, *_rows(walk, name)) or lowered.SPARE not in free_parameters(walk):
        return None
    result.preamble.append(f"spare = {lowered.SPARE} + 1")
    args = launch(rng, walk, lowered_mutation.items, lowered_mutation.args)
    rows = _rows(walk, name, *lowered_mutation.rows)
    parts = f"{walk.name}, {name}, lowered: {lowered_mutation.name}"
    return _replayed(
        Attack(seed, rows, parts, result.text, args, twin=result.text, row=row, mutation=lowered_mutation)
    )


def _mutate_cluster(rng: Random, seed: int, row: str, lowered_mutation: LoweredMutation) -> Attack | None:
    text, stages = clusters.matmuls(rng)
    walk = walks.one_loop(rng, False)
    if rng.random() < 0.5:
        lowered_mutation, fault = clusters.mutation(rng, stages)
        args = launch(rng, walk, 1, lowered_mutation.args)
        result = Attack(
            seed,
            lowered_mutation.rows,
            f"clusters: {lowered_mutation.name}",
            text,
            args,
            fault,
            row=row,
            mutation=lowered_mutation,
        )
        kernel = judge.kernel_of(text)
        return result if fault and lowered.mutated(kernel, lowered_mutation, clusters.ODD_ROWS) else None
    args = launch(rng, walk, 1, {"m": 3, "n": lowered_mutation.items, **lowered_mutation.args})
    return _replayed(
        Attack(
            seed,
            lowered_mutation.rows,
            f"clusters: {lowered_mutation.name}",
            text,
            args,
            "",
            row=row,
            mutation=lowered_mutation,
        )
    )


def _replayed(attack: Attack) -> Attack | None:
    """The attack with the fault of its replay, or None if the replay finds none."""
    try:
        fault = attack.replay(attack.args, 14)
    except (AssertionError, CompileError):
        return None
    return replace(attack, fault=fault) if fault and not fault.startswith("unknown") else None


ONLY_LOWERED = {*lowered.LOWERED_ONLY, "clusters"} - {"corpus 13", "corpus 22"}
ASSERT_PROBABILITY = {"preconditions": 0.6, "expert mbarriers": 0.1, "O1": 0.1, "O4": 0.1}
SOMETIMES_LOWERED = {r for _, rows in DROPPABLE.values() for r in rows} | {"corpus 13", "corpus 22"}


def _try_attack(rng: Random, seed: int, row: str) -> Attack | None:
    if row in ONLY_LOWERED or row in SOMETIMES_LOWERED and rng.random() < 0.12:
        return _mutate_lowered(rng, seed, row)
    if row == "corpus 23":
        return _divergent_line(rng, seed)
    if row in ASSERT_PROBABILITY and rng.random() < ASSERT_PROBABILITY[row]:
        candidate = rng.choice((_restarted_loops, _excluded_by_assert))(rng, True)
    else:
        makers = (_unequal_trip_counts, _wrong_stages, *(_changed_line,) * 8)
        candidate = (_wrong_scheduler if row == "dynamic scheduler" else rng.choice(makers))(rng, row)
    if candidate is None or row not in candidate.rows:
        return None
    text = candidate.program if isinstance(candidate.program, str) else candidate.program.text
    for args in candidate.launches:
        simulation = simulate(text, args, 4)
        if simulation:
            break
    else:
        return None
    small_launches = [launch(rng, candidate.walk, items, {}) for items in SMALL_SIZES]
    if rng.random() < 0.9 and any(simulate(text, args, 2) for args in small_launches):
        return None
    return Attack(
        seed,
        candidate.rows,
        candidate.name,
        text,
        args,
        simulation,
        candidate.walk.guarded,
        candidate.twin,
        row=row,
    )


def _unequal_trip_counts(rng: Random, row: str) -> Candidate | None:
    """Two roles whose trip counts differ in some launches."""
    walk, name, result = _random_program(rng, row, True)
    rows = _rows(
        walk, name, "O3", "O8", "corpus 4", "corpus 16", *(("corpus 17",) if "data" in walk.row else ())
    )
    return Candidate(
        rows,
        walk,
        f"{walk.name}, {name}",
        result,
        [launch(rng, walk, 5, faulty_args) for faulty_args in walk.faulty_args],
    )


def _wrong_stages(rng: Random, row: str) -> Candidate | None:
    """A role computes stages and phases that are wrong from some item on."""
    walk, name, result = _random_program(rng, row, False)
    twin = result.text
    roles = [r for r in result.roles if re.search(r"\bphase\b", str(r.body))]
    if not result.stages or not roles:
        return None
    staging, items, args = wrong_stagings(rng, result.stages)
    if not set(args) <= set(free_parameters(walk)):
        return None
    for role in roles if rng.random() < 0.3 else [rng.choice(roles)]:
        role.staging = staging
    rows = _rows(walk, name, "O1", "O4", "corpus 6", "expert mbarriers")
    return Candidate(
        rows,
        walk,
        f"{walk.name}, {name}, other stages",
        result,
        [launch(rng, walk, items + 20, args) for _ in range(2)],
        twin,
    )


def _changed_line(rng: Random, row: str) -> Candidate | None:
    """A line of a role is dropped, moved or changed if a condition holds."""
    candidates = [f for f in FAULTS if row in f.rows] or FAULTS
    fault = rng.choices(candidates, [f.weight for f in candidates])[0]
    for _ in range(MAX_TRIES):
        walk, name, result = _random_program(rng, row, False)
        twin = result.text
        launch_trigger = trigger(rng, walk, fault.on_launch or rng.random() < 0.15)
        text = launch_trigger.text
        if fault.harmless_for == "first" and rng.random() < 0.7:
            text = f"{text} or k < 1"
        if fault.harmless_for == "last" and walk.count and rng.random() < 0.7:
            text = f"{text} or k >= {walk.count} - {result.stages}"
        if fault.mutate(rng, result, text):
            break
    else:
        return None
    rows = _rows(walk, name, *fault.rows)
    launches = [launch(rng, walk, launch_trigger.items + more, launch_trigger.args) for more in (14, 22, 30)]
    return Candidate(rows, walk, f"{walk.name}, {name}, {fault.name}: {text}", result, launches, twin)


STATELESS_RINGS = (
    "fetch and read", "write and read", "fetch and copy out", "fetch and multiply", "two readers", "two fetchers",
    "write and multiply", "write and copy out",
)  # fmt: skip
"""Rings whose roles have no state besides stage and phase."""


def _restarted_loops(rng: Random, wrong: bool) -> Candidate | None:
    """Two consecutive loops that both count their items from 0. The schedule is correct if an assert ensures that the
    first loop ends with the stage and phase with which it started."""
    walk = walks.one_loop(rng, False)
    name = rng.choice(STATELESS_RINGS)
    result = RINGS[name](rng, walk)
    S = result.stages
    if any("k >= " in line.text for role in result.roles for line in role.body):
        return None
    two_loops = LoopForm(((("for k in range(n):",), ()), (("for k in range(m):",), ())))
    for role in result.roles:
        role.form, role.staging = two_loops, Staging(start=(f"s, phase = k % {S}, k // {S} & 1",))
    result.asserts = [rng.choice((f"assert n % {2 * S} == 0", f"assert n >= 0 and n % {4 * S} == {2 * S}"))]
    sizes = [
        launch(rng, walk, 40, {"n": n, "m": m}) for n in (2 * S, 6 * S) for m in (0, 1, S, 2 * S + 1, 13)
    ]
    if not wrong:
        return Candidate(
            ("preconditions", "expert mbarriers"),
            walk,
            f"restarted loops, {name}",
            result,
            sizes,
        )
    twin = result.text
    result.asserts = [f"assert n % {S} == 0"] if S > 1 else ["assert n >= 0"]
    sizes = [launch(rng, walk, 40, {"n": n * S, "m": 2 * S + 3}) for n in (1, 3, 5)]
    rows = ("preconditions", "expert mbarriers", "O1", "O4", "corpus 6")
    return Candidate(rows, walk, f"restarted loops, {name}: assert too weak", result, sizes, twin)


def _excluded_by_assert(rng: Random, wrong: bool) -> Candidate | None:
    """An assert that excludes all launches in which a line is changed, or, in a wrong schedule, only some of them."""
    fault = rng.choices(FAULTS, [f.weight for f in FAULTS])[0]
    walk, name, result = _random_program(rng, "", False)
    launch_trigger, names = trigger(rng, walk, True), free_parameters(walk)
    free_name = next((p for p in names if p not in launch_trigger.text), "")
    if not free_name or "(n" in launch_trigger.text or not fault.mutate(rng, result, launch_trigger.text):
        return None
    rows, parts = (
        ("preconditions", *fault.rows),
        f"assert, {walk.name}, {name}, {fault.name}: {launch_trigger.text}",
    )
    weaker = f" or {free_name} > 1000"
    result.asserts.append(f"assert not ({launch_trigger.text})")
    if not wrong:
        return Candidate(rows, walk, parts, result, [launch(rng, walk, items, {}) for items in SIZES])
    twin = result.text
    result.asserts[-1] += weaker
    return Candidate(
        rows,
        walk,
        parts + weaker,
        result,
        [launch(rng, walk, n, {**launch_trigger.args, free_name: 2000}) for n in (14, 22, 30)],
        twin,
    )


def _divergent_line(rng: Random, seed: int) -> Attack | None:
    """Only some threads of a role wait, arrive or fill, which the language refuses."""
    walk, name, result = _random_program(rng, "", False)
    twin = result.text
    positions = [
        (r, k) for r in result.roles for k, line in enumerate(r.body) if not r.elected and "tg." in line.text
    ]
    if not positions:
        return None
    role, k = rng.choice(positions)
    condition = rng.choice(
        ("tg.group_lane() < 16", "tg.group_lane() % 2 == 0", "tg.group_lane() == k", "tg.group_lane() > m")
    )
    role.body[k] = Line(role.body[k].tag, f"if {condition}:\n" + "\n".join(indented([role.body[k].text])))
    rows = _rows(walk, name, "corpus 23")
    fault = "the other threads of the warp do not participate"
    return Attack(
        seed,
        rows,
        f"{walk.name}, {name}, {condition}",
        result.text,
        launch(rng, walk, 9, {}),
        fault,
        twin=twin,
        row="corpus 23",
    )
