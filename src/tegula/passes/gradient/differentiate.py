"""The adjoint of a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.errors import NoGradient, OverwrittenArray
from tegula.ir import AccessClass, Kernel, MemoryFence, Region, StructureRead, Value
from tegula.ir.rewrite import erase_dead
from tegula.ops.buffer import BufNew
from tegula.ops.control import Yield
from tegula.ops.gradient import Unreplayable, adjoint_type
from tegula.passes.gradient.activity import Activity, memory_root
from tegula.passes.gradient.differentiation import Differentiation
from tegula.passes.gradient.hazards import Hazards
from tegula.passes.gradient.iterations import shorten_recomputation
from tegula.passes.gradient.online_rescaling import remove_rescaling
from tegula.passes.gradient.order import find_block_conflict, find_lane_conflict
from tegula.passes.gradient.owner_kernels import owner_kernels
from tegula.passes.gradient.owners import own_gradients
from tegula.passes.gradient.replay import source_name
from tegula.passes.gradient.reverse import Reverse
from tegula.passes.gradient.shorten_live_ranges import shorten_live_ranges
from tegula.passes.gradient.steps import AdjointStep
from tegula.passes.inline_calls import inline_selected
from tegula.passes.overlap import overlap
from tegula.passes.pipeline import check, fix_rounding
from tegula.passes.runner import Analysis, Compilation, Pass, run
from tegula.passes.simplify import simplify
from tegula.passes.uniformity import analyse
from tegula.types import ArrayType

PREFIX = "adj_"


def differentiate(
    kernel: Kernel, positions: tuple[int, ...], access: tuple[AccessClass | None, ...]
) -> Kernel:
    """The adjoint kernel, which reads the gradients of the forward kernel's outputs, and adds to the gradients of its
    inputs. The parameters are the parameters of the forward kernel, then a gradient for each array at `positions`, with
    its access class. The forward kernel has no roles, and is modified. Raises NoGradient or OverwrittenArray if the
    gradient cannot be computed."""
    check(kernel)
    _name_carried(kernel)
    fix_rounding(kernel)
    inline_selected(kernel.body, lambda call: not call.has_rule)
    arrays = [kernel.params[k] for k in positions]
    body = Region()
    structures = [op.result for op in kernel.walk() if isinstance(op, StructureRead) and op.DIFFERENTIABLE]
    plain_sums = remove_rescaling(kernel)
    activity = Activity(kernel.body, [*arrays, *structures], arrays, plain_sums.constants)
    _check_connected(kernel, activity, arrays)
    _check_fences(kernel)
    launch = kernel.launch
    reverse = Reverse(body, activity, analyse(kernel), Hazards(kernel), launch.block_dim, launch.partial)
    reverse.known_results = plain_sums.results
    reverse.loc = kernel.loc
    reverse.scope.primals.update({p: body.add_argument(p.type) for p in kernel.params})
    reverse.scope.shadows.update({a: body.add_argument(adjoint_type(a.type)) for a in arrays})
    reverse.sweep(kernel.body.ops[:-1])
    reverse.backwards(kernel.body.ops[:-1])
    reverse.emit(Yield, [])
    names = [*kernel.param_names, *(PREFIX + kernel.param_names[k] for k in positions)]
    adjoint = Kernel(
        f"{kernel.name}_adjoint", names, body, kernel.launch, [*kernel.access, *access], kernel.loc
    )
    adjoint.captured = kernel.captured
    # The reverse sweep leaves dead ops, some of which have operands outside the adjoint kernel.
    inline_selected(body)
    erase_dead(adjoint, objects=True)
    gradients = _unaliased(adjoint, len(kernel.params))
    run(ADJOINT, adjoint, Differentiation(gradients, reverse.replays, kernel))
    return adjoint


def erase_unused(kernel: Kernel, context: Compilation) -> None:
    """Erase ops that nothing observable depends on, and writes of tile objects that nothing reads."""
    erase_dead(kernel, objects=True)


def check_replayed(kernel: Kernel, context: Differentiation) -> None:
    """Raise NoGradient or OverwrittenArray for values that the gradient needs and that cannot be recomputed."""
    forward = context.forward
    assert forward is not None
    written = [forward.params[k] for k in range(len(forward.params)) if _is_written(forward, k)]
    for op in kernel.walk():
        if isinstance(op, Unreplayable):
            raise NoGradient(op.loc, op=op.what, why="the result of the operation cannot be recomputed")
        for effect in op.effects():
            if effect.kind != "read" or effect.value is None or not isinstance(effect.value.type, ArrayType):
                continue
            k = kernel.params.index(memory_root(effect.value))
            if k < len(forward.params) and any(
                w is forward.params[k] or overlap(forward, w, forward.params[k]) for w in written
            ):
                raise OverwrittenArray(op.loc, array=forward.param_names[k])


ADJOINT = (
    Pass(shorten_recomputation),
    Pass(erase_unused),
    Pass(simplify),
    Pass(shorten_live_ranges),
    Analysis(check_replayed),
    Pass(own_gradients),
)
"""The passes after the reverse sweep: unused inputs of maps, dead ops and dead writes are erased, and atomic additions
become plain additions if one block owns the gradient."""


def _name_carried(kernel: Kernel) -> None:
    """Give tiles carried by loops the names of the objects that hold them in the loops."""
    for op in kernel.walk():
        if isinstance(op, BufNew) and isinstance(op.tile.owner, Region):
            op.tile.name = op.tile.name or op.result.name


def split_adjoint(adjoint: Kernel, count: int, ordered: bool = False) -> list[AdjointStep]:
    """Split an adjoint kernel, which is changed, into launches in which blocks own the gradients that they add to.
    `count`: the number of parameters of the forward kernel, which come first; `ordered`: perform as many additions as
    possible in a fixed order."""
    return owner_kernels(adjoint, adjoint.params[count:], _unaliased(adjoint, count), ordered)


def check_order(steps: Sequence[AdjointStep]) -> None:
    """Raise NoGradient for an addition of gradients whose order is not fixed, because blocks and lanes run
    concurrently."""
    for step in steps:
        conflict = find_block_conflict(step.kernel) or find_lane_conflict(step.kernel)
        if conflict is not None:
            reason = "several threads add to one element of a gradient, in an unspecified order"
            help = "leave tg.config.deterministic off, or load tiles at multiples of block and loop indices"
            raise NoGradient(conflict.loc, op=source_name(conflict), why=reason, help=help)


def _unaliased(adjoint: Kernel, first: int) -> list[Value]:
    """The gradient arrays that share no memory with other arrays of the launch."""
    return [
        p
        for p, access in zip(adjoint.params[first:], adjoint.access[first:], strict=True)
        if access and not access.aliases
    ]


def _check_fences(kernel: Kernel) -> None:
    """Raise NoGradient for a kernel whose blocks wait for each other."""
    for op in kernel.walk():
        if isinstance(op, MemoryFence):
            raise NoGradient(op.loc, op=source_name(op), why=op.NONDIFFERENTIABLE)


def _check_connected(kernel: Kernel, activity: Activity, arrays: list[Value]) -> None:
    """Raise NoGradient for arrays without a gradient through which a gradient would have to flow."""
    for op in kernel.walk():
        for effect in op.effects():
            root = memory_root(effect.value) if effect.value is not None else None
            if root is None or effect.kind == "write" or root not in kernel.params or root in arrays:
                continue
            if root in activity:
                name = kernel.param_names[kernel.params.index(root)]
                reason = f"'{name}' depends on arrays with gradients, but has no gradient itself"
                raise NoGradient(
                    op.loc, op=source_name(op), why=reason, help="create the array with requires_grad=True"
                )


def arrays_read(adjoint: Kernel, count: int) -> set[int]:
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
