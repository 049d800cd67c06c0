"""Divergent control flow of the lanes of a vector: a path is executed if any lane takes the path, with the other lanes
masked."""

from __future__ import annotations

from collections.abc import Callable

from tegula.codegen.control import trips
from tegula.codegen.elements import STRAIGHT
from tegula.codegen.loops import CarriedRegisters
from tegula.codegen.poll import Iterations
from tegula.codegen.scalar import Components
from tegula.codegen.state import State
from tegula.codegen.text import register_type, vector_of
from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayLoad, ArrayStore
from tegula.ops.buffer import BufGet, BufSet
from tegula.ops.control import For, If, While, Yield
from tegula.types import scalar_of

Body = Callable[[Region], None]

CHEAP_OPS = 12
"""The maximum number of ops of a branch that is cheaper than a mispredicted jump."""

ACCESSES = (ArrayLoad, ArrayStore, BufGet, BufSet)


def divergent(s: State, op: Op, body: Body) -> None:
    """Lower an `if`, `for` or `while` whose condition differs between lanes. `body` lowers a region."""
    outer = s.mask
    if isinstance(op, If):
        _if(s, op, body)
    elif isinstance(op, For):
        _for(s, op, body)
    elif isinstance(op, While):
        _while(s, op, body)
    s.mask = outer


def _intersect(s: State, mask: str, condition: str) -> str:
    """The lanes of the mask where the condition holds."""
    flag = vector_of("i1", s.width)
    if not mask:
        return condition
    if mask not in s.wide_masks:
        return s.code.emit(f"and {flag} {mask}, {condition}")
    t = _wide_type(s)
    wide = s.code.emit(f"sext {flag} {condition} to {t}")
    return _of_wide(s, s.code.emit(f"and {t} {s.wide_masks[mask]}, {wide}"))


def _wide_type(s: State) -> str:
    """The type of masks on processors without mask registers: a vector of integers that fills a vector register. LLVM
    would pack vectors of bools at the end of every basic block."""
    return vector_of(f"i{s.target.vector_bytes * 8 // s.width}", s.width)


def _of_wide(s: State, wide: str) -> str:
    """The mask for a vector of -1 and 0."""
    mask = s.code.emit(f"icmp slt {_wide_type(s)} {wide}, zeroinitializer")
    s.wide_masks[mask] = wide
    return mask


def _to_wide(s: State, mask: str) -> str:
    if not mask:
        return f"splat (i{s.target.vector_bytes * 8 // s.width} -1)"
    if mask in s.wide_masks:
        return s.wide_masks[mask]
    return s.code.emit(f"sext {vector_of('i1', s.width)} {mask} to {_wide_type(s)}")


def _any(s: State, mask: str) -> str:
    """Whether any lane is active."""
    if mask in s.wide_masks:
        # The comparison is separate from the mask's comparison, so that LLVM can sink the latter to its uses and the
        # mask takes no register.
        mask = s.code.emit(f"icmp ne {_wide_type(s)} {s.wide_masks[mask]}, zeroinitializer")
    bits = s.code.emit(f"bitcast {vector_of('i1', s.width)} {mask} to i{s.width}")
    return s.code.emit(f"icmp ne i{s.width} {bits}, 0")


# Branches ------------------------------------------------------------------------------------------------------------


def _if(s: State, op: If, body: Body) -> None:
    flag, outer = vector_of("i1", s.width), s.mask
    condition = s.spread(op.condition, s.width)[0]
    negated = s.code.emit(f"xor {flag} {condition}, splat (i1 true)")
    branch_values = [
        _branch_values(s, region, _intersect(s, outer, test), body)
        for region, test in zip(op.regions, (condition, negated), strict=True)
    ]
    for k, result in enumerate(op.results):
        t = register_type(scalar_of(result.type), s.width)  # type: ignore[arg-type]
        s.scalars[result] = tuple(
            s.code.emit(f"select {flag} {condition}, {t} {a}, {t} {b}")
            for a, b in zip(branch_values[0][k], branch_values[1][k], strict=True)
        )


def _branch_values(s: State, region: Region, mask: str, body: Body) -> list[Components]:
    """The values that one branch yields in each lane. A run-time test skips a branch that no lane takes."""
    yielded, code = region.yielded, s.code
    s.mask = mask
    if _is_cheap(s, region):
        body(region)
        return [s.spread(v, s.width) for v in yielded]
    run, done = code.label("any_active"), code.label("none_active")
    code.branch(_any(s, mask), run, done)
    before = code.block
    code.define_label(run)
    body(region)
    values = [s.spread(v, s.width) for v in yielded]
    last = code.block
    code.jump(done)
    code.define_label(done)
    return [
        tuple(code.phi(_type(s, v), ("zeroinitializer", before), (x, last)) for x in components)
        for v, components in zip(yielded, values, strict=True)
    ]


def _type(s: State, value: Value) -> str:
    return register_type(scalar_of(value.type), s.width)  # type: ignore[arg-type]


def _is_cheap(s: State, region: Region) -> bool:
    """Whether a branch is cheap and safe to run with no lane active."""
    ops = [op for op in region.walk() if not isinstance(op, Yield | S.Const)]
    return len(ops) <= CHEAP_OPS and all(_is_speculatable(s, op) for op in ops)


def _is_speculatable(s: State, op: Op) -> bool:
    """Whether an op has no effect in masked lanes: the op is pure, or accesses memory per lane."""
    if isinstance(op, ACCESSES):
        return any(s.known.varying(v) for v in [op.target, *op.indices])
    return isinstance(op, STRAIGHT) or (isinstance(op, If) and op in s.known.divergent)


# Loops ---------------------------------------------------------------------------------------------------------------


def _for(s: State, op: For, body: Body) -> None:
    """Lower a `for` in which all lanes iterate together; lanes that have finished are masked."""
    code, width, outer = s.code, s.width, s.mask
    region = op.body
    t = register_type(op.start.type, 1)  # type: ignore[arg-type]
    vector = vector_of(t, width)
    start, step = (s.spread(v, width)[0] for v in (op.start, op.step))
    carried = CarriedRegisters(s, op.initial, [op.arguments], op.results)
    count = trips(s, op, width)
    loop_label, body_label, done = code.label("for"), code.label("trip"), code.label("endfor")
    index, trip = code.fresh("n"), code.fresh("n")
    iterations = Iterations(s, op, loop_label, done)
    iterations.open()
    phi_line = len(code.lines)
    code.line("")
    carried.open()
    trip_vector = s.memory.splat(trip, op.start.type, width)  # type: ignore[arg-type]
    active = _intersect(s, outer, code.emit(f"icmp ult {vector} {trip_vector}, {count}"))
    iterations.test(_any(s, active), body_label, trip, t)
    code.define_label(body_label)
    s.mask = active
    s.scalars[op.index] = (index,)
    body(region)
    carried.close(region.yielded, active)
    next_index = code.emit(f"add {vector} {index}, {step}")
    next_trip = code.emit(f"add {t} {trip}, 1")
    code.lines[phi_line] = iterations.close(
        lambda before, last: [
            f"  {index} = phi {vector} [ {start}, %{before} ], [ {next_index}, %{last} ]",
            f"  {trip} = phi {t} [ 0, %{before} ], [ {next_trip}, %{last} ]",
            *carried.phis(before, last),
        ]
    )
    code.define_label(done)
    carried.finish()


def _while(s: State, op: While, body: Body) -> None:
    """Lower a `while` that runs until the condition fails in all lanes; lanes whose condition failed keep their carried
    values."""
    code, width, has_mask_registers = s.code, s.width, s.target.mask_registers
    t = vector_of("i1", width) if has_mask_registers else _wide_type(s)
    outer = (s.mask or "splat (i1 true)") if has_mask_registers else _to_wide(s, s.mask)
    condition, region = op.condition, op.body
    carried = CarriedRegisters(s, op.initial, op.entries, op.results)
    loop_label, body_label, done = code.label("while"), code.label("trip"), code.label("endwhile")
    iterations = Iterations(s, op, loop_label, done)
    iterations.open()
    phi_line = len(code.lines)
    code.line("")
    mask = code.fresh("k")
    carried.open()
    alive = s.mask = mask if has_mask_registers else _of_wide(s, mask)
    body(condition)
    active = _intersect(s, alive, s.spread(condition.yielded[0], width)[0])
    iterations.test(_any(s, active), body_label)
    code.define_label(body_label)
    s.mask = _of_wide(s, s.wide_masks[active]) if active in s.wide_masks else active
    body(region)
    carried.close(region.yielded, s.mask)
    active_wide = active if has_mask_registers else _to_wide(s, active)
    code.lines[phi_line] = iterations.close(
        lambda before, last: [
            f"  {mask} = phi {t} [ {outer}, %{before} ], [ {active_wide}, %{last} ]",
            *carried.phis(before, last),
        ]
    )
    code.define_label(done)
    carried.finish()
