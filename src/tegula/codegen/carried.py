"""Loop-carried tiles in memory. Iterations exchange addresses of slots, which avoids most copies of tiles.

Each carried tile has a slot, whose address is a phi in the loop header. A yielded tile is written to a slot whose tile
is dead or to a spare slot, and the next iteration reads it there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from tegula.codegen import tiles
from tegula.codegen.state import State, tile_of
from tegula.codegen.storage import View
from tegula.codegen.sweep import fused, tree
from tegula.dataclass import dataclass, replace
from tegula.ir import Op, Region, Value
from tegula.ops.control import For, If, While, is_condition
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileFillAbsent, TileMap, TileMarkPartial, TilePermute, TileReshape, TileSlice
from tegula.types import TileType

VIEWS = (TileSlice, TilePermute, TileReshape)
"""The ops whose result aliases the operand."""

IN_PLACE = (TileMap, TileFillAbsent, TileMarkPartial)
"""The ops that can overwrite, in place, each element that they have read."""


@dataclass(slots=True)
class TileSlot:
    """Memory for one tile. `view`: the view in the current iteration; `first_address`: the address in the first
    iteration; `written`: the value that the current iteration writes; `next_address`: the address in the next
    iteration."""

    view: View
    first_address: str
    written: Value | None = None
    next_address: str = ""


class CarriedTiles:
    """The tiles among the values that one loop carries. The lowering of a loop calls `open`, `close`, `phis` and
    `finish`."""

    def __init__(
        self,
        s: State,
        loop: For | While,
        initial: list[Value],
        results: list[Value],
        arguments: list[list[Value]],
    ) -> None:
        self.s, self.loop, self.arguments, self.results = s, loop, arguments, results
        self.body = loop.body
        self.order = {op: k for k, op in enumerate(self.body.ops)}
        self.slots = [self._initial_slot(loop, v, r) for v, r in zip(initial, results, strict=True)]

    # Entry -----------------------------------------------------------------------------------------------------------

    def _initial_slot(self, loop: Op, initial: Value, result: Value) -> TileSlot:
        """The slot of a tile before the first iteration: the memory of the tile if the loop is its only use, else a
        copy."""
        s = self.s
        if _owns_memory(s, initial, loop):
            view = s.tiles[initial]
        else:
            view = s.result_memory(result, initial.name or "carried")
            tiles.materialise(s, initial, view)
        return self._slot(view)

    def _slot(self, view: View) -> TileSlot:
        pointer = self.s.code.fresh("h")
        # Slots are different memory in each iteration, whose other addresses no code of the iteration uses.
        self.s.code.contents.add_piece(pointer)
        return TileSlot(replace(view, pointer=pointer), view.pointer)

    def open(self) -> None:
        """Bind the carried tiles in the loop header, and offer slots to the ops of the body that compute the next
        iteration's tiles."""
        s = self.s
        for k, slot in enumerate(self.slots):
            for group in self.arguments:
                s.tiles[group[k]] = slot.view
        yielded_tiles = [v for v in self.body.yielded if isinstance(v.type, TileType)]
        for k, value in enumerate(yielded_tiles):
            if isinstance(value.owner, Op) and value.owner.parent is self.body:
                s.destinations[value] = partial(self._offer_slot, value, k)

    # An iteration ----------------------------------------------------------------------------------------------------

    def _offer_slot(self, value: Value, k: int) -> View:
        """A slot for `value`, which is about to be computed and becomes carried tile `k` of the next iteration: the
        slot of tile `k` if its contents are dead."""
        assert isinstance(value.owner, Op)
        carried = list(zip(self.slots, self.arguments[-1], strict=False))
        for slot, arg in [carried[k], *carried]:
            if slot.written is None and arg.type == value.type and self._is_dead(arg, value.owner):
                slot.written = value
                return slot.view
        return self._spare_slot(value).view

    def _spare_slot(self, value: Value) -> TileSlot:
        t: TileType = value.type  # type: ignore[assignment]
        slot = self._slot(self.s.allocate(value.name or "next", t.dtype, t.shape))
        slot.written = value
        self.slots.append(slot)
        return slot

    def _is_dead(self, arg: Value, op: Op) -> bool:
        """Whether a carried tile is dead after `op`, which may read each element before it overwrites the element."""
        position = self.order[op]
        for user in self._users(arg, op):
            use = self.order.get(user, len(self.order))
            if use > position or (use == position and not _overwrites(self.s, op, arg)):
                return False
        return True

    def _users(self, value: Value, last: Op) -> Iterator[Op]:
        """The ops of the body that read a tile's memory, directly or through views, fused ops, matmuls and loops, but
        not through `last`, whose result has separate memory."""
        s = self.s
        for user, position in s.users.get(value, []):
            ancestor = user
            while (
                ancestor.parent is not self.body
                and ancestor.parent is not None
                and ancestor.parent.parent is not None
            ):
                ancestor = ancestor.parent.parent
            yield ancestor
            is_alias = isinstance(user, (*VIEWS, For, While)) or (
                isinstance(user, TileMatmul) and position == 2
            )
            for result in user.results:
                aliases = is_alias or (user is not last and fused(s, result) is not None)
                if isinstance(result.type, TileType) and aliases:
                    yield from self._users(result, last)

    def close(self, yielded: list[Value]) -> None:
        """Choose the slot of each tile in the next iteration; a tile outside all slots is copied to a slot."""
        s = self.s
        for value in yielded:
            s.destinations.pop(value, None)
        assigned: list[TileSlot | None] = []
        for value in yielded:
            matching = [x for x in self.slots if x.view == s.tiles.get(value)]
            assigned.append(next((x for x in matching if not any(x is c for c in assigned)), None))
        pending = [k for k in range(len(yielded)) if assigned[k] is None]
        reads = {k: accessed(s, yielded[k]) for k in pending}
        for k in pending:
            other_reads = set().union(*(reads[j] for j in pending if j != k))
            target = self._target(k, yielded[k], assigned, reads[k], other_reads)
            assigned[k] = target
            if yielded[k] in s.tiles:
                s.copies.append(self.loop.loc)
            tiles.materialise(s, yielded[k], target.view)
        self._assign_next([c for c in assigned if c is not None])

    def _target(
        self,
        k: int,
        value: Value,
        assigned: list[TileSlot | None],
        own_reads: set[str],
        other_reads: set[str],
    ) -> TileSlot:
        """A dead slot for a tile that must be copied. A loop's result may be copied onto itself."""
        excluded = other_reads if isinstance(value.owner, (For, While)) else other_reads | own_reads
        claimed = [x for x in self.slots if x.written is value]
        for slot in [*claimed, self.slots[k], *self.slots]:
            fits = (slot.view.dtype, slot.view.shape) == (value.type.dtype, value.type.shape)  # type: ignore[union-attr]
            is_assigned = any(slot is c for c in assigned) or (
                slot.written is not None and slot.written is not value
            )
            if fits and not is_assigned and slot.view.pointer not in excluded:
                return slot
        return self._spare_slot(value)

    def _assign_next(self, assigned: list[TileSlot]) -> None:
        """Assign every slot its address in the next iteration; unassigned slots become spare slots."""
        free = [x for x in self.slots if not any(x is c for c in assigned)]
        for slot, source in zip(self.slots, assigned, strict=False):
            slot.next_address = source.view.pointer
        for slot in self.slots[len(assigned) :]:
            matching = next(
                x for x in free if (x.view.dtype, x.view.shape) == (slot.view.dtype, slot.view.shape)
            )
            free = [x for x in free if x is not matching]
            slot.next_address = matching.view.pointer

    # The frame -------------------------------------------------------------------------------------------------------

    def phis(self, before: str, last: str) -> list[str]:
        """The instructions of the slots' addresses in the loop header: phis, but no phi for an address that does not
        change, which would keep LLVM from replacing the memory by registers."""
        return [
            f"  {x.view.pointer} = getelementptr i8, ptr {x.first_address}, i64 0"
            if x.next_address == x.view.pointer
            else f"  {x.view.pointer} = phi ptr [ {x.first_address}, %{before} ], [ {x.next_address}, %{last} ]"
            for x in self.slots
        ]

    def finish(self) -> None:
        """Bind the results to the slots in the loop header after the last iteration."""
        s = self.s
        addresses = set().union(*(s.origins.get(x.first_address, {x.first_address}) for x in self.slots))
        for slot, result in zip(self.slots, self.results, strict=False):
            if slot.next_address == slot.view.pointer:
                s.tiles[result] = replace(slot.view, pointer=slot.first_address)
            else:
                s.tiles[result] = slot.view
                s.origins[slot.view.pointer] = addresses


def offer(s: State, region: Region, values: list[Value], slots: list[View]) -> None:
    """Offer memory for the values that a region yields, so that the values are computed in this memory without a
    copy."""
    for value, slot in zip(values, slots, strict=True):
        if isinstance(value.owner, Op) and value.owner.parent is region and value not in s.destinations:
            s.destinations[value] = lambda view=slot: view


def join(s: State, values: list[Value], slots: list[View]) -> None:
    """Copy the values that a branch yields to the memory of the join's results. The copies are parallel, because a loop
    in the branch may have left one value in the memory of another."""
    reads = [accessed(s, v) for v in values]
    pending: list[tuple[Value, View]] = []
    for k, (value, slot) in enumerate(zip(values, slots, strict=True)):
        s.destinations.pop(value, None)
        if any(other.pointer in reads[k] for other in slots if other is not slot):
            copy, t = Value(value.type, None), tile_of(value)
            s.tiles[copy] = tiles.materialise(s, value, s.allocate("aside", t.dtype, t.shape))
            value = copy
        pending.append((value, slot))
    for value, slot in pending:
        tiles.materialise(s, value, slot)


def accessed(s: State, value: Value) -> set[str]:
    """The addresses of all memory from which a tile is read or computed."""
    addresses: set[str] = set()
    for leaf in tree(s, value):
        while isinstance(leaf.owner, VIEWS):
            leaf = leaf.owner.tile
        if leaf in s.tiles:
            pointer = s.tiles[leaf].pointer
            addresses |= s.origins.get(pointer, {pointer})
    return addresses


def _overwrites(s: State, op: Op, arg: Value) -> bool:
    """Whether `op` reads only elements of a tile that `op` then overwrites."""
    if not isinstance(op, IN_PLACE):
        return False
    pointer = s.tiles[arg].pointer
    for operand in op.operands:
        if not isinstance(operand.type, TileType) or operand is arg:
            continue
        inner = fused(s, operand)
        if pointer in accessed(s, operand) and (inner is None or not _overwrites(s, inner, arg)):
            return False
    return True


def _owns_memory(s: State, value: Value, user: Op) -> bool:
    """Whether no other value aliases a tile's memory and `user` is its only reader."""
    if value not in s.tiles or len(s.users.get(value, [])) != 1:
        return False
    owner = value.owner
    if isinstance(owner, Region):
        return user.parent is owner and not is_condition(owner)
    owns = value in s.unaliased or isinstance(owner, (For, While, If, TileMatmul))
    return owns and isinstance(owner, Op) and owner.parent is user.parent


__all__ = ["VIEWS", "CarriedTiles", "join", "offer"]
