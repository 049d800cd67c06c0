"""Attacks by number: a schedule that is wrong in some launch, or a schedule that is correct in all."""

from __future__ import annotations

import re
from random import Random

import numpy as np

from support.attacks import clusters, judge, lowered, walks
from support.attacks.faults import FAULTS
from support.attacks.lowered import SKIPPED, LoweredMutation
from support.attacks.pipes import MAKERS
from support.attacks.program import Args, Line, LoopForm, Program, Staging, defaults, shifted, wrong_stagings
from support.attacks.rows import CLASSES, ROWS
from support.attacks.scheduler import scheduler
from support.attacks.simulate import Refused, TooManyEvents
from support.attacks.simulate import fault as simulated
from support.attacks.triggers import filled, free_parameters, trigger
from support.attacks.walks import LoopPair
from tegula.dataclass import dataclass, replace
from tegula.errors import CompileError
from tegula.ir import Kernel
from tegula.passes.runner import GpuCompilation


@dataclass(frozen=True, slots=True)
class Attack:
    """A schedule. `rows`: the rows to which the schedule belongs; `name`: its parts; `args`: of the faulty launch,
    empty if it is correct; `fault`: found by the simulation of this launch; `guarded`: a guard on the factors of trip
    counts may exclude it; `twin`: the correct program, if there is one; `sizes`: launches of a correct one; `row`: the
    requested row; `mutation`: the change after lowering."""

    seed: int
    rows: tuple[str, ...]
    name: str
    text: str
    args: Args
    fault: str = ""
    guarded: bool = False
    twin: str = ""
    sizes: tuple[Args, ...] = ()
    row: str = ""
    mutation: LoweredMutation | None = None

    def verdict(self) -> tuple[str, str]:
        """The checker's verdict and its reason."""
        if self.mutation is None:
            return judge.verdict(self.text, self.args)
        wrong = (lambda: judge.replay_arguments(self.text, self.args)) if self.args else None
        return lowered.verdict(*self._lowered(), wrong)

    def proof(self) -> tuple[str, str]:
        """The verdict on packed arrays without a search for a fault: "proved", "guarded", "unproved", or "refused"."""
        try:
            kernel = judge.lowered(judge.kernel_of(self.text)) if self.mutation is None else self._lowered()
        except CompileError as e:
            return "refused", str(e).partition("\n")[0]
        return judge.proof(
            *kernel, (lambda: judge.replay_arguments(self.text, self.args)) if self.args else None
        )

    def replay(self, args: Args, count: int) -> str:
        """The fault in a number of orders of a launch, or ""."""
        if self.mutation is None:
            return judge.replay(self.text, args, count)
        return judge.replayed(
            *self._lowered(), judge.replay_arguments(self.text, args), count, self.mutation.block
        )

    def _lowered(self) -> tuple[Kernel, GpuCompilation]:
        assert self.mutation is not None
        result = lowered.mutated(
            judge.kernel_of(self.text), self.mutation, clusters.ODD_ROWS if self.paired else None
        )
        assert result is not None
        return result

    @property
    def paired(self) -> bool:
        """Whether CTAs form 2-CTA clusters."""
        return "persistent_tiles" in self.text


CLASS_OF_RING = {
    "late release": "late release", "waited for twice": "late release", "matmuls that overlap": "late release",
    "copies out that overlap": "late release", "a chain": "chained roles", "two readers": "chained roles",
    "two fetchers": "chained roles", "feedback": "chained roles", "keys": "key change",
    "named barriers": "named barriers", "ping-pong": "named barriers", "a chain of pipes": "chained roles",
    "a pipe with two readers": "chained roles", "pipes there and back": "chained roles",
    "one pipe ahead of another": "late release",
}  # fmt: skip


def simulate(text: str, args: Args, orders: int = 8, seed: int = 0) -> str:
    """The fault of a launch, or ""; "" for a launch that is refused or too long."""
    try:
        return simulated(text, args, orders, seed)
    except (Refused, TooManyEvents):
        return ""


def launch(rng: Random, walk: LoopPair, items: int, more: Args) -> Args:
    """The arguments of a launch with at least a number of items, with some replaced."""
    sized = walk.sized(rng, items)
    args = defaults(4 * items + 40)
    for name, value in sized.items():
        if isinstance(value, np.ndarray):
            value = np.concatenate([value, np.zeros(max(0, len(args[name]) - len(value)), value.dtype)])
        args[name] = value
    if "keys" not in sized:
        args["keys"] = _runs(rng, len(args["keys"]))
    return filled(args, more)


def _runs(rng: Random, count: int) -> np.ndarray:
    """Keys that are equal for several items."""
    out, key = [], 0
    while len(out) < count:
        key += 1
        out += [key] * rng.randrange(1, 5)
    return np.array(out[:count], np.int32)


# Right ----------------------------------------------------------------------------------------------------------------

SIZES = (0, 1, 2, 3, 5, 9, 17, 40)


def _pair(rng: Random, row: str, wrong: bool) -> tuple[LoopPair, str, Program]:
    """A walk and a ring, one of which is of the row's class if the row is a class."""
    names = tuple(n for n in MAKERS if CLASS_OF_RING.get(n) == row) or tuple(MAKERS)
    makers, weights = WALKS_OF.get(row, walks.MAKERS), None
    if row == "sliding window":
        weights = [3, 1, 3, 1, 3, 1]
    if row not in WALKS_OF and rng.random() < 0.85:
        makers, weights = list(PLAIN_WALKS), list(PLAIN_WALKS.values())
    walk = rng.choices(makers, weights)[0](rng, wrong)
    name = rng.choice(names)
    return walk, name, MAKERS[name](rng, walk)


WALKS_OF = {
    "sliding window": [walks.window, walks.split, walks.stream, walks.steps, walks.rows_of, walks.persistent],
    "data-dependent": [walks.equal_conditions], "residue against division": [walks.residues],
    "flattened against nested": [walks.flattened], "max against parts": [walks.two_part_maximum],
    "preconditions": [walks.conditioned],
}  # fmt: skip
PLAIN_WALKS = {walks.one_loop: 5, walks.rows_of: 2, walks.window: 2}


def _rows(walk: LoopPair, name: str, *others: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(r for r in (walk.row, CLASS_OF_RING.get(name, ""), *others) if r))


def right_attack(seed: int, row: str = "") -> Attack:
    """A schedule that is correct in all launches, and some of these launches."""
    rng, row = Random(f"right {seed}"), row or CLASSES[seed % len(CLASSES)]
    if row == "clusters":
        walk, (text, _) = walks.one_loop(rng, False), clusters.matmuls(rng)
        sizes = tuple(launch(rng, walk, 1, {"m": m, "n": n}) for m, n in ((1, 1), (2, 3), (3, 5)))
        return Attack(seed, (row,), "pairs", text, {}, sizes=sizes, row=row, mutation=lowered.NO_MUTATION)
    if row == "preconditions" and rng.random() < 0.6:
        for _ in range(MAX_TRIES):
            result = rng.choice((_started_anew, _excluded))(rng, False)
            if result is not None:
                rows, _, parts, built, sizes, _ = result
                assert isinstance(built, Program)
                return Attack(seed, rows[:1], parts, built.text, {}, sizes=tuple(sizes), row=row)
    if row == "dynamic scheduler":
        walk = walks.one_loop(rng, False)
        sizes = tuple(launch(rng, walk, items, {"m": 2, "keys": {0: 0}}) for items in SIZES)
        return Attack(seed, (row,), "dynamic scheduler", scheduler(rng)[0], {}, sizes=sizes, row=row)
    walk, name, built = _pair(rng, row, False)
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
TAME = (1, 4, 7)


def _scheduler(rng: Random, row: str) -> Found:
    """Roles that receive the numbers of their tiles."""
    walk = walks.one_loop(rng, False)
    walk_trigger = trigger(rng, walk, rng.random() < 0.3)
    twin, _ = scheduler(Random(first := rng.random()))
    text, name = scheduler(Random(first), re.sub(r"\bk\b", "t", walk_trigger.text))
    rows = ("dynamic scheduler", "O3", "O8", "corpus 14", "corpus 16")
    launches = [
        launch(rng, walk, walk_trigger.items + more, {"m": 2, "keys": {0: 0}, **walk_trigger.args})
        for more in (6, 12)
    ]
    return rows, walk, f"dynamic scheduler, {name}: {walk_trigger.text}", text, launches, twin


def wrong_attack(seed: int, row: str = "") -> Attack:
    """A schedule that is wrong in a launch which is named."""
    row = row or ROWS[seed % len(ROWS)]
    for k in range(MAX_TRIES):
        result = _tried(Random(f"wrong {seed} {row} {k}"), seed, row)
        if result is not None:
            return result
    raise LookupError(f"no attack on {row} from seed {seed}")


def _after_lowering(rng: Random, seed: int, row: str) -> Attack | None:
    """A change of the lowered form of a correct program."""
    walk, name, result = _pair(rng, row, False)
    lowered_mutation = lowered.mutation(rng, row)
    if "clusters" in lowered_mutation.rows:
        return _in_pairs(rng, seed, row, lowered_mutation)
    if row not in (*lowered_mutation.rows, *_rows(walk, name)) or lowered.SPARE not in free_parameters(walk):
        return None
    result.preamble.append(f"spare = {lowered.SPARE} + 1")
    args = launch(rng, walk, lowered_mutation.items, lowered_mutation.args)
    rows = _rows(walk, name, *lowered_mutation.rows)
    parts = f"{walk.name}, {name}, lowered: {lowered_mutation.name}"
    return _replayed(
        Attack(seed, rows, parts, result.text, args, twin=result.text, row=row, mutation=lowered_mutation)
    )


def _in_pairs(rng: Random, seed: int, row: str, lowered_mutation: LoweredMutation) -> Attack | None:
    text, stages = clusters.matmuls(rng)
    walk = walks.one_loop(rng, False)
    if rng.random() < 0.5:
        lowered_mutation, fault = clusters.mutation(rng, stages)
        args = launch(rng, walk, 1, lowered_mutation.args)
        result = Attack(
            seed,
            lowered_mutation.rows,
            f"pairs: {lowered_mutation.name}",
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
            f"pairs: {lowered_mutation.name}",
            text,
            args,
            "",
            row=row,
            mutation=lowered_mutation,
        )
    )


def _replayed(attack: Attack) -> Attack | None:
    """The attack if it fails in a replay, with the failure."""
    try:
        fault = attack.replay(attack.args, 14)
    except (AssertionError, CompileError):
        return None
    return replace(attack, fault=fault) if fault and not fault.startswith("unknown") else None


ONLY_LOWERED = {*lowered.IMPOSSIBLE, "clusters"} - {"corpus 13", "corpus 22"}
ASSERTED = {"preconditions": 0.6, "expert mbarriers": 0.1, "O1": 0.1, "O4": 0.1}
SOMETIMES_LOWERED = {r for _, rows in SKIPPED.values() for r in rows} | {"corpus 13", "corpus 22"}


def _tried(rng: Random, seed: int, row: str) -> Attack | None:
    if row in ONLY_LOWERED or row in SOMETIMES_LOWERED and rng.random() < 0.12:
        return _after_lowering(rng, seed, row)
    if row == "corpus 23":
        return _divergent(rng, seed)
    if row in ASSERTED and rng.random() < ASSERTED[row]:
        result = rng.choice((_started_anew, _excluded))(rng, True)
    else:
        makers = (_in_walks, _in_stages, *(_in_lines,) * 8)
        result = (_scheduler if row == "dynamic scheduler" else rng.choice(makers))(rng, row)
    if result is None:
        return None
    rows, walk, name, built, launches, twin = result
    if row not in rows:
        return None
    text = built if isinstance(built, str) else built.text
    for args in launches:
        simulation = simulate(text, args, 4)
        if simulation:
            break
    else:
        return None
    tame = [launch(rng, walk, items, {}) for items in TAME]
    if rng.random() < 0.9 and any(simulate(text, args, 2) for args in tame):
        return None
    return Attack(seed, rows, name, text, args, simulation, walk.guarded, twin, row=row)


Found = tuple[tuple[str, ...], LoopPair, str, Program | str, list[Args], str] | None
"""The rows, the parts, the launches that may be faulty, and the correct program's text if there is one."""


def _in_walks(rng: Random, row: str) -> Found:
    """Two roles with unequal trip counts."""
    walk, name, result = _pair(rng, row, True)
    rows = _rows(
        walk, name, "O3", "O8", "corpus 4", "corpus 16", *(("corpus 17",) if "data" in walk.row else ())
    )
    return (
        rows,
        walk,
        f"{walk.name}, {name}",
        result,
        [launch(rng, walk, 5, special) for special in walk.special],
        "",
    )


def _in_stages(rng: Random, row: str) -> Found:
    """A role computes stages and phases that are wrong from some item on."""
    walk, name, result = _pair(rng, row, False)
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
    return (
        rows,
        walk,
        f"{walk.name}, {name}, other stages",
        result,
        [launch(rng, walk, items + 20, args) for _ in range(2)],
        twin,
    )


def _in_lines(rng: Random, row: str) -> Found:
    """A line of a role is left out, moved or changed where a condition holds."""
    fitting = [f for f in FAULTS if row in f.rows] or FAULTS
    fault = rng.choices(fitting, [f.weight for f in fitting])[0]
    for _ in range(MAX_TRIES):
        walk, name, result = _pair(rng, row, False)
        twin = result.text
        launch_trigger = trigger(rng, walk, fault.on_launch or rng.random() < 0.15)
        text = launch_trigger.text
        if fault.harmless == "first" and rng.random() < 0.7:
            text = f"{text} or k < 1"
        if fault.harmless == "last" and walk.count and rng.random() < 0.7:
            text = f"{text} or k >= {walk.count} - {result.stages}"
        if fault.mutate(rng, result, text):
            break
    else:
        return None
    rows = _rows(walk, name, *fault.rows)
    launches = [launch(rng, walk, launch_trigger.items + more, launch_trigger.args) for more in (14, 22, 30)]
    return rows, walk, f"{walk.name}, {name}, {fault.name}: {text}", result, launches, twin


CLOSED = (
    "fetch and read", "write and read", "fetch and copy out", "fetch and multiply", "two readers", "two fetchers",
    "write and multiply", "write and copy out",
)  # fmt: skip
"""Rings that are described by stage and phase alone."""


def _started_anew(rng: Random, wrong: bool) -> Found:
    """Two consecutive loops that both count their items from 0; right if an assert says that the first loop ends with
    the stage and phase of its start."""
    walk = walks.one_loop(rng, False)
    name = rng.choice(CLOSED)
    result = MAKERS[name](rng, walk)
    S = result.stages
    if any("k >= " in line.text for role in result.roles for line in role.body):
        return None
    twice = LoopForm(((("for k in range(n):",), ()), (("for k in range(m):",), ())))
    for role in result.roles:
        role.form, role.staging = twice, Staging(start=(f"s, phase = k % {S}, k // {S} & 1",))
    result.asserts = [rng.choice((f"assert n % {2 * S} == 0", f"assert n >= 0 and n % {4 * S} == {2 * S}"))]
    sizes = [
        launch(rng, walk, 40, {"n": n, "m": m}) for n in (2 * S, 6 * S) for m in (0, 1, S, 2 * S + 1, 13)
    ]
    if not wrong:
        return (
            ("preconditions", "expert mbarriers"),
            walk,
            f"loops that start anew, {name}",
            result,
            sizes,
            "",
        )
    twin = result.text
    result.asserts = [f"assert n % {S} == 0"] if S > 1 else ["assert n >= 0"]
    sizes = [launch(rng, walk, 40, {"n": n * S, "m": 2 * S + 3}) for n in (1, 3, 5)]
    rows = ("preconditions", "expert mbarriers", "O1", "O4", "corpus 6")
    return rows, walk, f"loops that start anew, {name}: too little asserted", result, sizes, twin


def _excluded(rng: Random, wrong: bool) -> Found:
    """An assert that excludes all launches in which a line is changed, or only some of them."""
    fault = rng.choices(FAULTS, [f.weight for f in FAULTS])[0]
    walk, name, result = _pair(rng, "", False)
    launch_trigger, names = trigger(rng, walk, True), free_parameters(walk)
    free_name = next((p for p in names if p not in launch_trigger.text), "")
    if not free_name or "(n" in launch_trigger.text or not fault.mutate(rng, result, launch_trigger.text):
        return None
    rows, parts = (
        ("preconditions", *fault.rows),
        f"assert, {walk.name}, {name}, {fault.name}: {launch_trigger.text}",
    )
    some = f" or {free_name} > 1000"
    result.asserts.append(f"assert not ({launch_trigger.text})")
    if not wrong:
        return rows, walk, parts, result, [launch(rng, walk, items, {}) for items in SIZES], ""
    twin = result.text
    result.asserts[-1] += some
    return (
        rows,
        walk,
        parts + some,
        result,
        [launch(rng, walk, n, {**launch_trigger.args, free_name: 2000}) for n in (14, 22, 30)],
        twin,
    )


def _divergent(rng: Random, seed: int) -> Attack | None:
    """Some threads of a role alone wait, arrive or fill: the language refuses that."""
    walk, name, result = _pair(rng, "", False)
    twin = result.text
    positions = [
        (r, k) for r in result.roles for k, line in enumerate(r.body) if not r.elected and "tg." in line.text
    ]
    if not positions:
        return None
    role, k = rng.choice(positions)
    some = rng.choice(
        ("tg.group_lane() < 16", "tg.group_lane() % 2 == 0", "tg.group_lane() == k", "tg.group_lane() > m")
    )
    role.body[k] = Line(role.body[k].tag, f"if {some}:\n" + "\n".join(shifted([role.body[k].text])))
    rows = _rows(walk, name, "corpus 23")
    fault = "the other threads of the warp do not take part"
    return Attack(
        seed,
        rows,
        f"{walk.name}, {name}, {some}",
        result.text,
        launch(rng, walk, 9, {}),
        fault,
        twin=twin,
        row="corpus 23",
    )
