"""Blocks of a 2-CTA cluster that fetch tiles for each other: the schedule is proved only if both blocks execute the
same iterations."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from proofs import outcome

from support.attacks import clusters, judge, lowered
from tegula.ir import Kernel
from tegula.ops import scalar as S
from tegula.ops.lane import BlockIndex
from tegula.ops.schedule import BulkLoad, ClusterEnd, MbarrierNew
from tegula.types import bool_


def random_cluster_kernel(seed: int) -> Any:
    text, _ = clusters.matmuls(Random(seed))
    result = lowered.mutated(judge.kernel_of(text), lowered.NO_MUTATION, clusters.ODD_ROWS)
    assert result is not None
    return result


def multicast_load(kernel: Kernel) -> BulkLoad:
    return next(op for op in kernel.walk() if isinstance(op, BulkLoad) and op.cluster)


def release_in_one_cta(kernel: Kernel) -> None:
    """Release stages in one CTA only."""
    for op in kernel.walk():
        if isinstance(op, MbarrierNew):
            op.cluster = False


def always_multicast(kernel: Kernel) -> None:
    """Multicast different tiles as if they were equal."""
    op = multicast_load(kernel)
    assert op.parent is not None
    true = S.Const([], [bool_], {"type": bool_, "value": True})
    true.parent, true.loc = op.parent, op.loc
    op.parent.ops.insert(op.parent.ops.index(op), true)
    op.both = true.result


def allow_unequal_iterations(kernel: Kernel) -> None:
    """Let one CTA execute one iteration more than the other."""
    for end in [op for op in kernel.walk() if isinstance(op, ClusterEnd)]:
        for op in kernel.walk():
            op.operands = [end.number if v is end.result else v for v in op.operands]


def multicast_by_block_index(kernel: Kernel) -> None:
    """Let the index of the block decide whether a copy is multicast."""
    op = multicast_load(kernel)
    index = next(o for o in kernel.walk() if isinstance(o, BlockIndex))
    assert op.parent is not None and op.both is not None
    zero = S.Const([], [index.result.type], {"type": index.result.type, "value": 0})
    first = S.Cmp([index.result, zero.result], [bool_], {"pred": "eq"})
    conjunction = S.And([op.both, first.result], [bool_])
    for o in (zero, first, conjunction):
        o.parent, o.loc = op.parent, op.loc
        op.parent.ops.insert(op.parent.ops.index(op), o)
    op.both = conjunction.result


def compare_with_wrong_index(kernel: Kernel) -> None:
    """Compare the tile of a CTA with a tile that the peer CTA does not compute."""
    conjunction: Any = multicast_load(kernel).both
    same = next(v.owner for v in conjunction.owner.operands if isinstance(v.owner, S.Cmp))
    right = same.b.owner
    assert isinstance(right, S.Add) and right.parent is not None
    wrong = S.Sub(right.operands, [right.result.type])
    wrong.parent, wrong.loc = right.parent, right.loc
    right.parent.ops.insert(right.parent.ops.index(right), wrong)
    same.b = wrong.result


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_schedules_of_clusters_are_proved(seed: int) -> None:
    assert outcome(random_cluster_kernel(seed)) == "proved"


@pytest.mark.parametrize(
    "mutate",
    [
        release_in_one_cta,
        always_multicast,
        allow_unequal_iterations,
        multicast_by_block_index,
        compare_with_wrong_index,
    ],
)
def test_faulty_variants_of_clusters_are_not_proved(mutate: Callable[[Kernel], None]) -> None:
    kernel, compilation = random_cluster_kernel(0)
    mutate(kernel)
    assert outcome((kernel, compilation)) != "proved"
