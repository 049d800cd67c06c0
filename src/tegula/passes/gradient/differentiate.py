"""The adjoint of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.errors import NoGradient, OverwrittenArray
from tegula.ir import AccessClass, Kernel, Region, Value
from tegula.ir.rewrite import erase_dead
from tegula.ops.buffer import BufNew
from tegula.ops.control import Yield
from tegula.ops.gradient import Unreplayable, adjoint_type
from tegula.passes.gradient.activity import Activity, memory_root
from tegula.passes.gradient.differentiation import Differentiation
from tegula.passes.gradient.gather import gather
from tegula.passes.gradient.hazards import Hazards
from tegula.passes.gradient.iterations import shorten
from tegula.passes.gradient.order import among_blocks, among_lanes
from tegula.passes.gradient.owners import own_gradients
from tegula.passes.gradient.replay import named
from tegula.passes.gradient.reverse import Reverse
from tegula.passes.gradient.steps import AdjointStep
from tegula.passes.inline_calls import put_in_place
from tegula.passes.overlap import overlap
from tegula.passes.pipeline import check, settle
from tegula.passes.runner import Analysis, Compilation, Pass, run
from tegula.passes.simplify import simplify
from tegula.passes.uniformity import analyse
from tegula.types import ArrayType

PREFIX = "adj_"


def differentiate(
    kernel: Kernel, positions: tuple[int, ...], access: tuple[AccessClass | None, ...]
) -> Kernel:
    """The kernel that reads the gradients of what a kernel wrote and adds to those of what it read. Its parameters are
    the kernel's own, then a gradient for each array at `positions`, with its access class. The forward kernel is
    changed; it has no roles. NoGradient and OverwrittenArray where there is no right gradient."""
    check(kernel)
    _name_carried(kernel)
    settle(kernel)
    put_in_place(kernel.body, lambda call: not call.has_rule)
    arrays = [kernel.params[k] for k in positions]
    body = Region()
    activity = Activity(kernel.body, arrays, arrays)
    _check_connected(kernel, activity, arrays)
    launch = kernel.launch
    made = Reverse(body, activity, analyse(kernel), Hazards(kernel), launch.block_dim, launch.partial)
    made.loc = kernel.loc
    made.scope.primals.update({p: body.add_argument(p.type) for p in kernel.params})
    made.scope.shadows.update({a: body.add_argument(adjoint_type(a.type)) for a in arrays})
    made.sweep(kernel.body.ops[:-1])
    made.backwards(kernel.body.ops[:-1])
    made.emit(Yield, [])
    names = [*kernel.param_names, *(PREFIX + kernel.param_names[k] for k in positions)]
    adjoint = Kernel(
        f"{kernel.name}_adjoint", names, body, kernel.launch, [*kernel.access, *access], kernel.loc
    )
    adjoint.captured = kernel.captured
    # The sweep leaves ops that use what is not there, and that nothing uses.
    put_in_place(body)
    erase_dead(adjoint, objects=True)
    gradients = _unshared(adjoint, len(kernel.params))
    run(ADJOINT, adjoint, Differentiation(gradients, made.replays, kernel))
    return adjoint


def erase_unused(kernel: Kernel, context: Compilation) -> None:
    """Erase ops that nothing observable depends on, and writes of tile objects that nothing reads."""
    erase_dead(kernel, objects=True)


def check_replayed(kernel: Kernel, context: Differentiation) -> None:
    """NoGradient and OverwrittenArray for values that the gradient needs and that running ops again does not give."""
    forward = context.forward
    assert forward is not None
    written = [forward.params[k] for k in range(len(forward.params)) if _is_written(forward, k)]
    for op in kernel.walk():
        if isinstance(op, Unreplayable):
            raise NoGradient(op.loc, op=op.what, why="it cannot run a second time to give its result again")
        for effect in op.effects():
            if effect.kind != "read" or effect.value is None or not isinstance(effect.value.type, ArrayType):
                continue
            k = kernel.params.index(memory_root(effect.value))
            if k < len(forward.params) and any(
                w is forward.params[k] or overlap(forward, w, forward.params[k]) for w in written
            ):
                raise OverwrittenArray(op.loc, array=forward.param_names[k])


ADJOINT = (
    Pass(shorten),
    Pass(erase_unused),
    Pass(simplify),
    Analysis(check_replayed),
    Pass(own_gradients),
)
"""What the sweep has made becomes an adjoint: it does nothing that it need not, and adds plainly where it can. What
maps take without making anything of it is not needed either."""


def _name_carried(kernel: Kernel) -> None:
    """Give what loops carry the names of the objects that hold it in them."""
    for op in kernel.walk():
        if isinstance(op, BufNew) and isinstance(op.tile.owner, Region):
            op.tile.name = op.tile.name or op.result.name


def split(adjoint: Kernel, count: int, ordered: bool = False) -> list[AdjointStep]:
    """The launches that an adjoint kernel, which is changed, becomes so that blocks own what they add to. `count`: the
    parameters of its forward kernel, which come first; `ordered`: as many additions as possible in a fixed order."""
    return gather(adjoint, adjoint.params[count:], _unshared(adjoint, count), ordered)


def check_order(steps: Sequence[AdjointStep]) -> None:
    """NoGradient for an addition of gradients whose order is not fixed where blocks and lanes run side by side."""
    for step in steps:
        found = among_blocks(step.kernel) or among_lanes(step.kernel)
        if found is not None:
            why = "several threads add to one element of a gradient, in an order that is not fixed"
            help = "leave tg.config.deterministic off, or load tiles at multiples of block and loop indices"
            raise NoGradient(found.loc, op=named(found), why=why, help=help)


def _unshared(adjoint: Kernel, first: int) -> list[Value]:
    """The gradient arrays whose bytes no other array of the launch has."""
    return [
        p
        for p, known in zip(adjoint.params[first:], adjoint.access[first:], strict=True)
        if known and not known.aliases
    ]


def _check_connected(kernel: Kernel, activity: Activity, arrays: list[Value]) -> None:
    """Refuse arrays without a gradient through which one would have to flow."""
    for op in kernel.walk():
        for effect in op.effects():
            root = memory_root(effect.value) if effect.value is not None else None
            if root is None or effect.kind == "write" or root not in kernel.params or root in arrays:
                continue
            if root in activity:
                name = kernel.param_names[kernel.params.index(root)]
                why = f"'{name}' holds what depends on arrays with gradients, but has none itself"
                raise NoGradient(op.loc, op=named(op), why=why, help="make it with requires_grad=True")


def reads(adjoint: Kernel, count: int) -> set[int]:
    """The positions among the first `count` parameters of the arrays whose elements a kernel reads."""
    return {
        adjoint.params.index(memory_root(e.value))
        for op in adjoint.walk()
        for e in op.effects()
        if e.kind in ("read", "atomic")
        and e.value is not None
        and memory_root(e.value) in adjoint.params[:count]
    }


def _is_written(kernel: Kernel, k: int) -> bool:
    return any(
        e.kind in ("write", "atomic") and e.value is not None and memory_root(e.value) is kernel.params[k]
        for op in kernel.walk()
        for e in op.effects()
    )
