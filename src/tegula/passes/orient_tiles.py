"""Accesses arrays in column-major order along columns.

Loops over the elements of a tile go along rows. Tiles that are combined element by element form a class. A class whose
stores, or loads without stores, access arrays with adjacent columns is computed as transposed tiles of transposed
arrays; other loads from such arrays load transposed tiles. Other ops take views of these tiles."""

from __future__ import annotations

from tegula.ir import AtomicUpdate, ElementwiseTiles, Kernel, Op, TileAccess, Value, exchanged
from tegula.ir.disjoint_sets import DisjointSets
from tegula.ir.rewrite import insert_after, insert_before, uses
from tegula.ops.array import ArrayTranspose
from tegula.ops.tile import TilePermute, tile_type
from tegula.passes.overlap import along_columns, has_adjacent_columns
from tegula.passes.runner import CpuCompilation
from tegula.types import TileType


def orient_tiles(kernel: Kernel, context: CpuCompilation) -> None:
    """Rewrite the kernel in place."""
    for ops in _classes(kernel):
        accesses = [op for op in ops if isinstance(op, TileAccess)]
        if any(op.aligned for op in accesses):
            continue
        if along_columns(kernel, accesses):
            _Transposition(kernel, ops).run()
            continue
        for access in accesses:
            if not access.writes and has_adjacent_columns(kernel, access):
                _Transposition(kernel, [access]).run()


def _classes(kernel: Kernel) -> list[list[Op]]:
    """The loads, stores and elementwise ops of each class of matrices, in program order."""
    ops, sets, classes = (
        [op for op in kernel.walk() if _permutes(op)],
        DisjointSets(),
        dict[Value, list[Op]](),
    )
    for op in ops:
        sets.join(_tiles(op))
    for op in ops:
        classes.setdefault(sets.find(_tiles(op)[0]), []).append(op)
    return [
        members
        for v, members in classes.items()
        if len(tile_type(v.type, partial=True).shape) > 1
        and not any(tile_type(t.type, partial=True).partial for op in members for t in _tiles(op))
    ]


def _permutes(op: Op) -> bool:
    """Whether the op of permuted tiles does the same."""
    if isinstance(op, TileAccess):
        return op.held is not None and not isinstance(op, AtomicUpdate)
    return isinstance(op, ElementwiseTiles) and op.PERMUTES


def _tiles(op: Op) -> list[Value]:
    return [v for v in (*op.results, *op.operands) if isinstance(v.type, TileType)]


class _Transposition:
    """The transposition of the tiles of ops. `transposed`: the transposed tile of each tile."""

    def __init__(self, kernel: Kernel, ops: list[Op]) -> None:
        self.kernel, self.ops, self.members = kernel, ops, set(ops)
        self.users = uses(kernel.body)
        self.transposed: dict[Value, Value] = {}

    def run(self) -> None:
        for op in self.ops:
            if isinstance(op, TileAccess) and not has_adjacent_columns(self.kernel, op):
                continue
            op.substitute({v: self._of(v, op) for v in op.operands if isinstance(v.type, TileType)})
            if isinstance(op, TileAccess):
                transpose = ArrayTranspose.typed([op.array], loc=op.loc)
                insert_before(op, [transpose])
                op.exchange(transpose.result)
            if op.results:
                self._set_result(op)

    def _of(self, tile: Value, user: Op) -> Value:
        """The transposed tile; of a tile that another op makes, a view before the user."""
        if tile in self.transposed:
            return self.transposed[tile]
        view = _permute(tile, user)
        insert_before(user, [view])
        return view.result

    def _set_result(self, op: Op) -> None:
        """Give an op that makes a transposed tile its result. Ops of other classes use a view."""
        old = op.result
        new = Value(op.infer()[0], op, old.name)
        op.results, self.transposed[old] = [new], new
        if any(user not in self.members for user, _ in self.users.get(old, ())):
            view = _permute(new, op)
            view.results, old.owner = [old], view
            insert_after(op, view)


def _permute(tile: Value, op: Op) -> TilePermute:
    perm = exchanged(range(len(tile_type(tile.type).shape)))
    return TilePermute.typed([tile], {"perm": perm}, loc=op.loc)
