"""Conditions that hold in few iterations of few launches, and the arguments for which they hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from support.attacks.program import LaunchArguments
from support.attacks.walks import LoopPair
from tegula.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Trigger:
    """A condition that holds in few iterations. `text`: the source of the condition; `items`: the least number of items
    for which the condition can hold; `args`: the arguments of a launch in which the condition holds; for arrays, a
    dictionary of single elements."""

    text: str
    items: int
    args: LaunchArguments


def free_parameters(walk: LoopPair) -> list[str]:
    """The integer parameters that the loops of a schedule do not use."""
    text = " ".join([*walk.preamble, *walk.asserts, walk.count, str(walk.first), str(walk.second)])
    used = set(re.findall(r"\b[a-z]+\b", text))
    return [name for name in ("m", "c", "d", "e", "u", "v") if name not in used]


TriggerParts = tuple[str, int, LaunchArguments]
TriggerBuilder = Callable[[Random, Sequence[str], str], TriggerParts]
ITEM_TRIGGERS: dict[TriggerBuilder, int] = {}
LAUNCH_TRIGGERS: dict[TriggerBuilder, int] = {}
"""The builders of triggers with their weights. A builder gets the names of free parameters and an expression for the
number of items."""


def condition_on_items(weight: int) -> Callable[[TriggerBuilder], TriggerBuilder]:
    def register(builder: TriggerBuilder) -> TriggerBuilder:
        ITEM_TRIGGERS[builder] = weight
        return builder

    return register


def condition_on_launches(weight: int) -> Callable[[TriggerBuilder], TriggerBuilder]:
    def register(builder: TriggerBuilder) -> TriggerBuilder:
        LAUNCH_TRIGGERS[builder] = weight
        return builder

    return register


def _weighted_choice(rng: Random, builders: dict[TriggerBuilder, int]) -> TriggerBuilder:
    return rng.choices(list(builders), list(builders.values()))[0]


def trigger(rng: Random, walk: LoopPair, launches: bool = False) -> Trigger:
    """A random trigger. `launches`: whether the condition depends on the launch only, not on the item."""
    names = free_parameters(walk)
    rng.shuffle(names)
    text, items, args = _weighted_choice(rng, LAUNCH_TRIGGERS if launches else ITEM_TRIGGERS)(
        rng, names, walk.count
    )
    if not launches and rng.random() < 0.2:
        launch_text, _, more = _weighted_choice(rng, LAUNCH_TRIGGERS)(rng, names, "")
        if not set(more) & set(args):
            text, args = f"{text} and {launch_text}", {**args, **more}
    return Trigger(text, items, args)


def _late_item(rng: Random) -> int:
    return rng.choice((5, 9, 13, 17, 17, 24, 33, 48, 64, 65, 100, 128, 150, 257, 1025))


# Conditions on items---------------------------------------------------------------------------------------------------


@condition_on_items(1)
def one_item(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    t = _late_item(rng)
    return (
        rng.choice((f"k == {t}", f"k * 2 == {2 * t}", f"k > {t - 1} and k < {t + 1}", f"k - {t} == 0")),
        t,
        {},
    )


@condition_on_items(1)
def from_the_end(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    if not count:
        return one_item(rng, p, count)
    t = rng.choice((5, 8, 20, 40))
    return rng.choice((f"{count} - k == {t}", f"k == {count} - {t} and k > {t}")), 2 * t + 3, {}


@condition_on_items(1)
def at_an_argument(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    t, by = rng.randrange(4, 30), rng.choice((0, 11, 40, -60))
    text, args = rng.choice(
        [
            (f"k == {p[0]} + {by}" if by >= 0 else f"k == {p[0]} - {-by}", {p[0]: t - by}),
            (f"k == {p[0]} * {p[1]}", {p[0]: t, p[1]: 1}),
            (f"k % 8 == 5 and k // 8 == {p[0]}", {p[0]: t // 8}),
            (f"tg.max(k, {p[0]}) != {p[0]} and k == {p[0]} + 1", {p[0]: t}),
        ]
    )
    return text, t + 14, args


@condition_on_items(8)
def related_elements(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    t = rng.randrange(4, 40)
    text, args = rng.choice(
        [
            ("g[k] != g[k + 1] and g[k] > 8", {"g": {t: 9}}),
            ("g[k] == k + 3 and g[k] > 5", {"g": {t: t + 3}}),
            (f"g[k] + {p[0]} == 0 and g[k] > 3", {"g": {t: 5}, p[0]: -5}),
            (f"g[k] == {p[0]} and {p[0]} > 20", {"g": {t: 25}, p[0]: 25}),
            (f"g[k] == k + {t} and g[k] > 30", {"g": {t + 20: 2 * t + 20}}),
            (f"g[k] - 2 * k == {p[0]} and {p[0]} > 7", {"g": {t: 2 * t + 31}, p[0]: 31}),
            (f"g[k] * {p[0]} < 0 and {p[0]} > 0 and g[k] > 0", {"g": {t: 1 << 16}, p[0]: 1 << 15}),
            (f"g[k] + {p[0]} < {p[0]} and g[k] > 0", {"g": {t: 1 << 30}, p[0]: 1 << 30}),
            ("w[k] != w[k]", {"w": {t: float("nan")}}),
        ]
    )
    return text, t, args


@condition_on_items(3)
def plain_elements(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    t, v = rng.randrange(4, 40), rng.choice((7, -1, 1 << 20, 12345))
    text, args = rng.choice(
        [
            (f"g[k] == {v}", {"g": {t: v}}),
            ("g[k] > g[k + 1] and g[k + 1] == 0", {"g": {t: 9}}),
            ("g[k + 1] - g[k] > 50", {"g": {t + 1: 60}}),
            ("g[k] + g[k + 1] + g[k + 2] == 77", {"g": {t: 70, t + 2: 7}}),
            ("g[k] > 40 and g[k] < 43", {"g": {t: 42}}),
            (f"g[g[k]] == {v}", {"g": {t: 3, 3: v}}),
            (f"g[k] - g[k + 1] == {p[0]} and {p[0]} > 0", {"g": {t: 25}, p[0]: 25}),
            ("g[k] % 100 == 77", {"g": {t: 177}}),
            ("g[k] >> 8 == k and k > 0", {"g": {t: t << 8}}),
            ("w[k] > 3.0", {"w": {t: 3.5}}),
            ("not (w[k] <= w[k + 1] or w[k] > w[k + 1])", {"w": {t: float("nan")}}),
            ("w[k] > w[k + 1] and w[k] < 0.5", {"w": {t: 0.25}}),
            ("w[k] * 3.0 == 1.5", {"w": {t: 0.5}}),
            ("w[k] < -1.0", {"w": {t: -2.0}}),
        ]
    )
    return text, t, args


@condition_on_items(18)
def narrow_conversions(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    """A condition on bits that a conversion to a narrower type drops."""
    return rng.choice(
        [
            ("int(tg.int8(k)) < 0", 128, {}),
            ("tg.int8(k) < tg.int8(0)", 128, {}),
            ("int(tg.uint8(k)) != k", 256, {}),
            ("int(tg.uint8(k * 3)) < k", 86, {}),
            ("int(tg.int16(k * 300)) < 0", 110, {}),
            ("int(tg.uint8(k + 200)) < k", 56, {}),
            (f"int(tg.uint8({p[0]} + k)) < k % 4 and {p[0]} != 0", 20, {p[0]: 240}),
            (f"int(tg.int16({p[0]} + k)) < {p[0]}", 20, {p[0]: 32750}),
            (f"tg.uint32({p[0]} - k) > tg.uint32({p[0]}) and {p[0]} != 0", 20, {p[0]: 11}),
            ("k << 25 < 0 and k % 3 == 0", 66, {}),
            ("k << 26 < 0", 32, {}),
            (f"k << {p[0]} < 0 and {p[0]} > 20", 20, {p[0]: 27}),
        ]
    )


@condition_on_items(1)
def bit_patterns(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    return rng.choice(
        [
            ("k > 16 and k & k - 1 == 0", 32, {}),
            ("k * 20000003 < 0", 110, {}),
            ("k * k % 61 == 60 and k > 10", 61, {}),
            (f"k * {p[0]} // {p[0]} != k and {p[0]} != 0", 40, {p[0]: 1 << 27}),
            (f"k * k * {p[0]} < 0 and {p[0]} > 0", 18, {p[0]: 1 << 23}),
            (
                f"g[k] // {p[1]} == {p[0]} and {p[0]} > 9 and {p[1]} > 5",
                9,
                {"g": {9: 100}, p[0]: 10, p[1]: 10},
            ),
            ("g[k] * g[k + 1] < 0", 12, {"g": {11: -3, 12: 8}}),
            ("g[k] * g[k] < 0", 13, {"g": {13: 50000}}),
            ("k // 7 == 9 and k % 7 == 3", 66, {}),
            ("(k ^ 85) == 16", 69, {}),
            ("k * 2654435 >> 20 & 31 == 30", 80, {}),
        ]
    )


@condition_on_items(24)
def item_overflow(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    big, t, (p, o) = rng.choice((1 << 28, 1 << 27, 150_000_000)), rng.randrange(5, 30), p[:2]
    return rng.choice(
        [
            (f"k * {p} < 0 and {p} > 0", 18, {p: big}),
            (f"(k * {p} < 0) != (k > 0 and {p} < 0)", 18, {p: big}),
            (f"k + {p} < {p}", t, {p: 2**31 - t}),
            (f"{p} - k > {p}", t, {p: -(2**31) + t - 1}),
            (f"{p} + k * {o} < {p} and {o} > 0", t, {p: 2**31 - 1000, o: 1000 // t + 1}),
            (f"k * {p} * {o} < 0 and {p} > 0 and {o} > 0", 18, {p: 1 << 14, o: 1 << 13}),
            (f"(k + {p}) // 2 < {p} // 2 and {p} > 0", t, {p: 2**31 - t}),
            (f"tg.abs({p} - k) < 0", t, {p: -(2**31) + t - 1}),
            (f"k % 2 == 1 and k * {p} < 0 and {p} > 0", 20, {p: big}),
        ]
    )


# Conditions on launches------------------------------------------------------------------------------------------------


@condition_on_launches(1)
def exact_value(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    v = rng.choice((-7, 23, 37, 101, 4711, 1 << 20, -(2**31)))
    return f"{p[0]} == {v}", 0, {p[0]: v}


@condition_on_launches(1)
def out_of_range(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    v = rng.choice((60, 1000, 65536, 1 << 30))
    return rng.choice([(f"{p[0]} > {v}", 0, {p[0]: v + 7}), (f"{p[0]} < -{v}", 0, {p[0]: -v - 7})])


@condition_on_launches(1)
def argument_bit(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    b = rng.choice((6, 9, 13, 21, 30))
    return f"{p[0]} >> {b} & 1 == 1", 0, {p[0]: 1 << b}


@condition_on_launches(1)
def argument_remainder(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    d = rng.choice((37, 61, 97, 256, 1000))
    r = rng.randrange(20, d)
    return f"{p[0]} % {d} == {r}", 0, {p[0]: r + d * rng.randrange(5)}


@condition_on_launches(14)
def number_of_items(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    if not count:
        return argument_overflow(rng, p, count)
    d = rng.choice((11, 13, 17, 29, 37))
    r = rng.randrange(4, d)
    text = rng.choice(
        (f"({count}) % {d} == {r} and ({count}) > {d}", f"({count} - {r}) % {d} == 0 and {count} != {r}")
    )
    return text, d + r - 14, {"n": d + r} if count == "n" else {}


@condition_on_launches(16)
def argument_overflow(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    p, o = p[:2]
    return rng.choice(
        [
            (f"{p} > 0 and {p} * {p} < 0", 0, {p: 50000}),
            (f"{p} + 100 < {p}", 0, {p: 2**31 - 50}),
            (f"{p} > 0 and {p} * 3 // 3 != {p}", 0, {p: 1 << 30}),
            (f"tg.abs({p}) < 0", 0, {p: -(2**31)}),
            (f"{p} > 0 and {o} > 0 and {p} * {o} <= 0", 0, {p: 1 << 16, o: 1 << 16}),
            (f"{p} > 0 and {o} > 0 and {p} + {o} < 0", 0, {p: 1 << 30, o: 1 << 30}),
            (f"{p} - {o} > 0 and {p} < {o}", 0, {p: -(2**31), o: 5}),
            (f"tg.min({p}, {o}) - tg.max({p}, {o}) > 0", 0, {p: -(2**31), o: 5}),
        ]
    )


@condition_on_launches(10)
def two_arguments(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    p, o = p[:2]
    return rng.choice(
        [
            (f"{p} * {o} == 391", 0, {p: 17, o: 23}),
            (f"{p} * {p} == {o} + 5 and {p} > 7", 0, {p: 11, o: 116}),
            (f"{p} % 7 == 3 and {o} % 5 == 2 and {p} > {o} + 90", 0, {p: 108, o: 12}),
            (f"({p} ^ {o}) == 4097", 0, {p: 4096, o: 1}),
            (f"{p} // 9 == {o} and {o} > 30", 0, {p: 300, o: 33}),
            (f"{p} * 3 + {o} * 5 == 1000 and {p} > 0 and {o} > 0", 0, {p: 5, o: 197}),
        ]
    )


@condition_on_launches(1)
def uniform_element(rng: Random, p: Sequence[str], count: str) -> TriggerParts:
    v = rng.choice((3, -9, 65535))
    return rng.choice(
        [(f"g[0] == {v}", 0, {"g": {0: v}}), ("w[1] > 2.0", 0, {"w": {1: 2.5}}), ("g[1] < g[2]", 0, {"g": {2: 1}}),
         ("g[0] + g[1] == 100 and g[0] > g[1]", 0, {"g": {0: 60, 1: 40}}),
         ("w[0] != w[0]", 0, {"w": {0: float("nan")}})]
    )  # fmt: skip


def with_replacements(args: LaunchArguments, replacements: LaunchArguments) -> LaunchArguments:
    """The arguments with replacements; for arrays, single elements are replaced."""
    out = dict(args)
    for name, value in replacements.items():
        if isinstance(value, dict):
            array = np.array(out[name])
            for k, v in value.items():
                if k < len(array):
                    array[k] = v
            out[name] = array
        else:
            out[name] = value
    return out
