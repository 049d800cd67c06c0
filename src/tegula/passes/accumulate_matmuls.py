"""Makes a matmul add to the tile that its result is added to: `acc * s + a @ b` then needs one tile of accumulators and
no addition.

The order in which a matmul sums is unspecified, so that the other term may be the first of the sum. The matmul
moves to the addition. The other term must be in registers before the matmul anyway: a tile that a loop carries, the
result of a loop or of another matmul, or a map of these. A tile that is loaded is added after the matmul, so that its
load may overlap with the matmul."""

from __future__ import annotations

from collections import Counter

from tegula.ir import Kernel, LoopLike, MatmulLike, Op, Region, Value
from tegula.ir.rewrite import erase_dead, replace
from tegula.ops.linear import matmul_from_zeros
from tegula.ops.tile import addend_tiles, unbroadcast_inputs
from tegula.passes.runner import Compilation


def accumulate_matmuls(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place."""
    uses = Counter(v for op in kernel.walk() for v in op.operands)
    mapping: dict[Value, Value] = {}
    _region(kernel.body, uses, mapping)
    if mapping:
        replace(kernel.body, mapping)
        erase_dead(kernel)


def _region(region: Region, uses: Counter[Value], mapping: dict[Value, Value]) -> None:
    """Rewrite the additions of a region and of nested regions. The function records the result of each matmul in
    `mapping`, by the result of the addition that the matmul replaces."""
    ops = list[Op]()
    for op in region.ops:
        for nested in op.regions:
            _region(nested, uses, mapping)
        op.substitute(mapping)
        pair = _matmul_and_addend(op, uses, ops)
        if pair is None:
            ops.append(op)
            continue
        matmul, addend = pair
        ops.remove(matmul)
        ops.append(matmul)
        matmul.c = addend
        (matmul_result,), (added,) = matmul.results, op.results
        matmul_result.name = matmul_result.name or added.name
        mapping[added], uses[matmul_result] = matmul_result, uses[added]
    region.ops = ops


def _matmul_and_addend(op: Op, uses: Counter[Value], before: list[Op]) -> tuple[MatmulLike, Value] | None:
    """The later operand of an addition that is a matmul which can start from the other operand, and this other operand;
    None if there is none. `before`: the ops of the region before the addition."""
    a, b = addend_tiles(op) or (None, None)
    for term, addend in ((b, a), (a, b)):
        matmul = matmul_from_zeros(term)
        if (
            matmul is not None
            and term is not None
            and addend is not None
            and addend.type == term.type
            and uses[term] == 1
            and matmul in before
            and all(passed.PURE for passed in before[before.index(matmul) + 1 :])
            and _in_registers(addend, matmul)
        ):
            return matmul, addend
    return None


def _in_registers(tile: Value, matmul: Op) -> bool:
    """Whether a tile is in registers before a matmul of the same region, however the ops are ordered."""
    owner = tile.owner
    if not isinstance(owner, Op) or owner.parent is not matmul.parent:
        return True
    inputs = unbroadcast_inputs(owner)
    if inputs:
        return all(_in_registers(v, matmul) for v in inputs)
    return isinstance(owner, LoopLike | MatmulLike)
