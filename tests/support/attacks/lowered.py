"""Correct schedules that are mutated after lowering: faults that kernels cannot express, and faults in the lowered form
of pipes. A fault occurs always, or under a condition that is built from ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from support.attacks.judge import lowered as lower
from support.attacks.judge import status_and_reason
from support.attacks.program import LaunchArguments
from tegula.check.schedule import check_schedule
from tegula.dataclass import dataclass, replace
from tegula.errors import CompileError
from tegula.ir import AccessClass, Kernel, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, Yield
from tegula.ops.lane import BlockIndex
from tegula.ops.roles import Roles
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, MbarrierType, bool_, int32

Mutation = Callable[[Kernel, GpuCompilation], bool]
"""A change of a lowered kernel. Returns False if the kernel has no op that it can change."""
SPARE = "v"
"""A parameter that correct programs do not use."""


@dataclass(frozen=True, slots=True)
class LoweredMutation:
    """A mutation of a lowered kernel. `args`: the arguments that the condition requires; `items`: the number of items
    of the launch; `block`: the index of the faulty block, 0 or 1."""

    name: str
    rows: tuple[str, ...]
    mutate: Mutation
    args: LaunchArguments
    items: int = 9
    block: int = 0


NO_MUTATION = LoweredMutation("nothing", (), lambda kernel, compilation: True, {})


def mutated(
    plain: Any, lowered_mutation: LoweredMutation, access: AccessClass | None = None
) -> tuple[Kernel, GpuCompilation] | None:
    """A lowered kernel with a mutation, or None if the mutation does not apply."""
    kernel, compilation = lower(plain, access)
    return (kernel, compilation) if lowered_mutation.mutate(kernel, compilation) else None


def verdict(
    kernel: Kernel, compilation: GpuCompilation, launch: Callable[[], Sequence[Any]] | None = None
) -> tuple[str, str]:
    """The status of the verdict, and the reason."""
    try:
        actual = check_schedule(kernel, compilation)
    except CompileError as e:
        return "refused", str(e).partition("\n")[0]
    except Exception as e:
        return "crash", f"{type(e).__name__}: {e}"
    return status_and_reason(actual, launch)


# Conditions-----------------------------------------------------------------------------------------------------------


def _roles(kernel: Kernel) -> Roles:
    return next(op for op in kernel.body.ops if isinstance(op, Roles))


def _ops_named(kernel: Kernel, names: Sequence[str]) -> list[Op]:
    """The ops of roles with one of the names and without results."""
    return [op for op in _roles(kernel).walk() if op.NAME in names and not op.results]


def _insert(op: Op, new: Op) -> Op:
    """Insert an op before another op."""
    assert op.parent is not None
    new.loc, new.parent = op.loc, op.parent
    op.parent.ops.insert(op.parent.ops.index(op), new)
    return new


def _const(op: Op, value: int) -> Value:
    return _insert(op, S.Const([], [int32], {"type": int32, "value": value})).result


def _cmp(op: Op, kind: str, a: Value, b: Value) -> Value:
    return _insert(op, S.Cmp([a, b], [bool_], {"pred": kind})).result


def _index(op: Op) -> Value | None:
    """The index of the innermost loop around an op, or None."""
    region = op.parent
    while region is not None and region.parent is not None:
        if isinstance(region.parent, For) and region.args[0].type == int32:
            return region.args[0]
        region = region.parent.parent
    return None


Condition = Callable[[Op, Kernel], Value | None]


def _spare(kernel: Kernel) -> Value:
    return next(p for p in kernel.params if p.name == SPARE)


def _spare_equals(value: int) -> Condition:
    return lambda op, kernel: _cmp(op, "eq", _spare(kernel), _const(op, value))


def _product_overflows(value: int) -> Condition:
    """The index times the spare parameter is less than 0."""

    def condition(op: Op, kernel: Kernel) -> Value | None:
        index = _index(op)
        if index is None:
            return None
        product = _insert(op, S.Mul([index, _spare(kernel)], [int32])).result
        return _cmp(op, "lt", product, _const(op, 0))

    return condition


def _sum_wraps(value: int) -> Condition:
    """The sum of the spare parameter and a constant is less than the parameter."""

    def condition(op: Op, kernel: Kernel) -> Value:
        more = _insert(op, S.Add([_spare(kernel), _const(op, value)], [int32])).result
        return _cmp(op, "lt", more, _spare(kernel))

    return condition


def _item_equals(value: int) -> Condition:
    def condition(op: Op, kernel: Kernel) -> Value | None:
        index = _index(op)
        return None if index is None else _cmp(op, "eq", index, _const(op, value))

    return condition


def _in_odd_blocks(condition: Condition) -> Condition:
    def odd(op: Op, kernel: Kernel) -> Value | None:
        holds = condition(op, kernel)
        if holds is None:
            return None
        block = _insert(op, BlockIndex([], [int32])).result
        bit = _insert(op, S.And([block, _const(op, 1)], [int32])).result
        return _insert(op, S.And([holds, _cmp(op, "eq", bit, _const(op, 1))], [bool_])).result

    return odd


def random_condition(rng: Random) -> tuple[str, Condition, LaunchArguments, int]:
    """A random condition: its text, its builder, and the arguments and number of items for which it holds."""
    value, t = rng.choice((23, 4711, -(2**31), 1 << 20)), rng.choice((5, 9, 17, 24))
    return rng.choice(
        [
            (f"v == {value}", _spare_equals(value), {SPARE: value}, 9),
            ("k * v < 0", _product_overflows(0), {SPARE: 1 << 28}, 18),
            ("k * v < 0", _product_overflows(0), {SPARE: 1 << 27}, 24),
            ("v + 100 < v", _sum_wraps(100), {SPARE: 2**31 - 50}, 9),
            (f"k == {t}", _item_equals(t), {}, t + 9),
        ]
    )


# Dropped ops-----------------------------------------------------------------------------------------------------------

DROPPABLE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "wait": (("mbarrier.wait", "named.sync"), ("O3", "O5", "corpus 7", "corpus 17")),
    "arrival": (("mbarrier.arrive",), ("O2", "O3", "corpus 14", "corpus 16")),
    "announcement": (("mbarrier.expect",), ("O2", "corpus 9")),
    "copy": (("bulk.load",), ("O2", "corpus 9", "corpus 14")),
    "fence": (("fence.async",), ("O6", "corpus 11")),
    "wait for matmuls": (("group.mma_wait",), ("O7", "O5", "corpus 8", "corpus 21")),
    "wait for stores": (("bulk.wait",), ("O8", "O5", "corpus 12", "corpus 18")),
}
"""Kinds of ops that may be dropped, with the names of the ops and the rows that this breaks."""


def drop_op_if(rng: Random, row: str) -> LoweredMutation:
    """A mutation that drops an op if a condition holds."""
    candidates_by_row = [name for name, (_, rows) in DROPPABLE.items() if row in rows] or list(DROPPABLE)
    name = rng.choice(candidates_by_row)
    ops, rows = DROPPABLE[name]
    text, condition, args, items = random_condition(rng)
    odd = row == "clusters"
    if odd:
        condition, rows = _in_odd_blocks(condition), (*rows, "clusters")
    position = rng.random()

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> bool:
        candidates = _ops_named(kernel, ops)
        return bool(candidates) and drop_op(candidates[int(position * len(candidates))], condition, kernel)

    condition_text = " in odd blocks" if odd else ""
    return LoweredMutation(f"no {name} if {text}{condition_text}", rows, mutate, args, items, int(odd))


def drop_op(op: Op, condition: Condition, kernel: Kernel) -> bool:
    holds = condition(op, kernel)
    if holds is None:
        return False
    branch = If([_insert(op, S.Not([holds], [bool_])).result], [], None, [Region(), Region()], op.loc)
    _insert(op, branch)
    assert op.parent is not None
    op.parent.ops.remove(op)
    branch.regions[0].append(op)
    for region in branch.regions:
        region.append(Yield())
    return True


# Changes that kernels cannot express ---------------------------------------------------------------------------------


def no_publication(rng: Random, row: str) -> LoweredMutation:
    def mutate(kernel: Kernel, compilation: GpuCompilation) -> bool:
        ready = next((op for op in kernel.body.ops if op.NAME == "mbarrier.ready"), None)
        if ready is not None:
            kernel.body.ops.remove(ready)
        return ready is not None

    return LoweredMutation(
        "barriers are used before their initialisation is visible", ("corpus 10",), mutate, {}
    )


def overlap_allocations(rng: Random, row: str) -> LoweredMutation:
    """Make a buffer or a barrier start in the last bytes of another allocation."""
    first, second, unconditional = rng.random(), rng.random(), rng.random() < 0.3

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> bool:
        allocations = compilation.shared.allocations
        used = {v for op in _roles(kernel).walk() for v in op.operands}
        buffers = [v for v in allocations if isinstance(v.type, BufType) and v in used]
        moved = [v for v in allocations if v in used and isinstance(v.type, BufType | MbarrierType)]
        if len(moved) < 2 or not buffers:
            return False
        below = buffers[int(first * len(buffers))]
        others = [v for v in moved if v is not below]
        above = others[int(second * len(others))]
        index = allocations[below]
        align = 1024 if index.size >= 8192 else 128
        offset = index.offset if unconditional else index.offset + max(0, index.size - align)
        allocations[above] = replace(allocations[above], offset=offset)
        return True

    return LoweredMutation("two allocations overlap", ("corpus 20", "corpus 13"), mutate, {}, 17)


def other_arrivals(rng: Random, row: str) -> LoweredMutation:
    """A barrier that counts idle warps, or only one of two warp groups."""
    position, change = rng.random(), rng.choice((1, 3, 4) if row == "corpus 2" else (-4, -1, 4))

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> bool:
        results = [op for op in kernel.body.ops if op.NAME == "mbarrier.new"]
        if not results:
            return False
        op = results[int(position * len(results))]
        op.attrs["arrivals"] += change
        return op.attrs["arrivals"] > 0

    return LoweredMutation(
        f"arrival count changed by {change:+}",
        ("corpus 2",) if change > 0 else ("corpus 22",),
        mutate,
        {},
        17,
    )


def other_registers(rng: Random, row: str) -> LoweredMutation:
    """More registers than a block has, or a different number in one warp group."""
    value, position = rng.choice((256, 248, 20, 100, 264)), rng.random()

    def mutate(kernel: Kernel, compilation: GpuCompilation) -> bool:
        roles = _roles(kernel)
        registers = list(roles.attrs["registers"])
        registers[int(position * len(registers))] = value
        if value in (256, 248):
            registers = [value] * len(registers)
        roles.attrs["registers"] = tuple(registers)
        return True

    return LoweredMutation(f"{value} registers", ("corpus 3",), mutate, {})


LOWERED_ONLY = {
    "corpus 2": other_arrivals, "corpus 3": other_registers, "corpus 10": no_publication,
    "corpus 13": overlap_allocations,
    "corpus 20": overlap_allocations, "corpus 22": other_arrivals,
}  # fmt: skip


def mutation(rng: Random, row: str) -> LoweredMutation:
    """A mutation that breaks a row."""
    return LOWERED_ONLY.get(row, drop_op_if)(rng, row)
