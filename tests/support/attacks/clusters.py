"""2-CTA clusters whose CTAs fetch tiles for each other: programs that use them, mutations of these programs, and a
simulation of the two blocks on integers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from support.attacks.lowered import LoweredMutation
from tegula.ir import AccessClass, Kernel, Op, Value
from tegula.ops import scalar as S
from tegula.ops.schedule import BulkLoad, ClusterEnd
from tegula.passes.runner import GpuCompilation
from tegula.types import bool_

ODD_ROWS = AccessClass(align=16, contiguous=True, dense=True, bulk=True)
"""Arrays whose rows have any alignment: 2-CTA clusters multicast tiles of such arrays."""


def matmuls(rng: Random) -> tuple[str, int]:
    """The text of a matmul of persistent blocks, and its stages."""
    stages, raster, groups = rng.choice((2, 3, 4)), rng.choice((1, 2, 4, 8)), rng.choice((1, 2))
    rows, columns = 64 * groups, rng.choice((64, 128))
    steps = rng.choice(("(a.shape[1] + 63) // 64", "n", "n + 1"))
    text = f"""\
def kernel(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], out: tg.array2d[float], n: int, m: int, v: int):
    spare = v + 1
    left = tg.tile_pipe(shape=({rows}, 64), dtype=tg.bfloat16, stages={stages})
    right = tg.tile_pipe(shape=(64, {columns}), dtype=tg.bfloat16, stages={stages})
    with tg.ws(0):
        for i, j in tg.persistent_tiles((m, 3), raster={raster}):
            for k in range({steps}):
                tg.tile_pipe_load(left, a, offset=(i * {rows}, k * 64))
                tg.tile_pipe_load(right, b, offset=(k * 64, j * {columns}))
    with tg.ws({", ".join(str(1 + k) for k in range(groups))}):
        for i, j in tg.persistent_tiles((m, 3), raster={raster}):
            total = tg.tile_zeros(shape=({rows}, {columns}), dtype=tg.float32)
            for k in range({steps}):
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
            tg.tile_store(out, total, offset=(i * {rows}, j * {columns}))
"""
    return text, stages


# Two blocks on integers -----------------------------------------------------------------------------------------------


def cluster_fault(
    items: tuple[int, int],
    stages: int,
    assumes_shared: Callable[[int, int], bool],
    releases_in_both: bool = True,
    max_steps: int = 10_000,
) -> str:
    """The fault of a cluster in which each CTA fetches and consumes a number of items, or "". `assumes_shared`: whether
    a block assumes that both blocks copy the same item; `releases_in_both`: whether a release arrives in both blocks.
    Bytes are counted in halves of an item."""
    fetched, consumed, actual = [0, 0], [0, 0], [[0] * max(items), [0] * max(items)]
    for _ in range(max_steps):
        progressed = False
        for b in (0, 1):
            free = min(consumed) if releases_in_both else consumed[b]
            if fetched[b] < items[b] and fetched[b] - free < stages:
                k = fetched[b]
                if assumes_shared(b, k):
                    actual[b][k] += 1
                    if k >= items[1 - b]:
                        return f"item {k} of block {b} goes to a block that has ended"
                    if k - consumed[1 - b] >= stages:
                        return f"item {k} of block {b} overwrites item {consumed[1 - b]}, which block {1 - b} reads"
                    actual[1 - b][k] += 1
                else:
                    actual[b][k] += 2
                fetched[b], progressed = k + 1, True
            if consumed[b] < fetched[b] and actual[b][consumed[b]] == 2:
                consumed[b], progressed = consumed[b] + 1, True
            if any(n > 2 for n in actual[b]):
                return f"more bytes than were announced in block {b}"
        if not progressed:
            return (
                ""
                if consumed == list(items)
                else f"block 0 took {consumed[0]}, block 1 {consumed[1]} of {items}"
            )
    return ""


def _run_ahead_fault(stages: int, items: int) -> str:
    """The fault in an order in which one block is as far ahead as possible."""
    return cluster_fault((items, items), stages, lambda b, k: True, releases_in_both=False) or (
        f"block 0 may be {stages} items ahead of what block 1 has released" if items > stages else ""
    )


def _cluster_loads(kernel: Kernel) -> list[BulkLoad]:
    return [op for op in kernel.walk() if isinstance(op, BulkLoad) and op.attrs.get("cluster")]


def _insert(op: Op, new: Op) -> Value:
    assert op.parent is not None
    new.loc, new.parent = op.loc, op.parent
    op.parent.ops.insert(op.parent.ops.index(op), new)
    return new.result


def mutation(rng: Random, stages: int) -> tuple[LoweredMutation, str]:
    """A random mutation, and the fault of a simulation of two blocks with this mutation."""
    kind = rng.randrange(4)
    tiles, steps = 2 * rng.randrange(3, 40) + 1, rng.randrange(1, 20)
    position = rng.random()

    def odd_tile_count(kernel: Kernel, compilation: GpuCompilation) -> bool:
        """One block runs one iteration less if the number of tiles is odd."""
        ends = [op for op in kernel.walk() if isinstance(op, ClusterEnd)]
        if not ends:
            return False
        for end in ends if mutate_all else [ends[int(position * len(ends))]]:
            for op in kernel.walk():
                op.operands = [end.number if v is end.result else v for v in op.operands]
        return True

    mutate_all = rng.random() < 0.5

    def released_in_one_block(kernel: Kernel, compilation: GpuCompilation) -> bool:
        """A release arrives only in its own block."""
        results = [op for op in kernel.walk() if op.NAME == "mbarrier.new" and op.attrs.get("cluster")]
        for op in results:
            op.attrs["cluster"] = False
        return bool(results)

    def always_shared(kernel: Kernel, compilation: GpuCompilation) -> bool:
        """A copy is multicast whether or not both blocks need it."""
        result = _cluster_loads(kernel)
        if result:
            op = result[int(position * len(result))]
            op.operands[-1] = _insert(op, S.Const([], [bool_], {"type": bool_, "value": True}))
        return bool(result)

    def shared_in_one_block(kernel: Kernel, compilation: GpuCompilation) -> bool:
        """Only one of the blocks assumes that both blocks need the copy."""
        from tegula.ops.lane import BlockIndex
        from tegula.types import int32

        result = _cluster_loads(kernel)
        if result:
            op = result[int(position * len(result))]
            block = _insert(op, BlockIndex([], [int32]))
            zero = _insert(op, S.Const([], [int32], {"type": int32, "value": 0}))
            constant_one = _insert(op, S.Const([], [int32], {"type": int32, "value": 1}))
            bit = _insert(op, S.And([block, constant_one], [int32]))
            even = _insert(op, S.Cmp([bit, zero], [bool_], {"pred": "eq"}))
            op.operands[-1] = _insert(op, S.And([op.operands[-1], even], [bool_]))
        return bool(result)

    items = (tiles + 1) // 2 * steps
    mutations = [
        (
            "one block runs one iteration less",
            odd_tile_count,
            cluster_fault((items, items - steps), stages, lambda b, k: True),
        ),
        ("stages are released in one block", released_in_one_block, _run_ahead_fault(stages, items)),
        (
            "different tiles are assumed to be equal",
            always_shared,
            "tile 1 of block 1 differs from tile 0 of block 0, but is copied to both",
        ),
        (
            "one block assumes that the copy is shared",
            shared_in_one_block,
            cluster_fault((items, items), stages, lambda b, k: not b),
        ),
    ]
    name, mutate, fault = mutations[kind]
    return LoweredMutation(name, ("clusters", "O2", "O8"), mutate, {"m": -(-tiles // 3), "n": steps}), fault
