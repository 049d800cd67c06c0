"""Roles: `with` blocks at the end of a kernel, each traced to a region of one `roles` op."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tegula import errors as E
from tegula.dataclass import dataclass
from tegula.ir import Region, Value
from tegula.lang.capture import Builtin
from tegula.lang.elected import ElectedTracer
from tegula.lang.flow import targets
from tegula.lang.loops import Bounds
from tegula.lang.place_roles import MAX_GROUPS, PlacedRole, RoleRequest, place_roles
from tegula.lang.state import MARKS, UNBOUND, is_element_value
from tegula.ops.array import ArrayShape
from tegula.ops.base import Elementwise
from tegula.ops.buffer import BufNew
from tegula.ops.builder import LITERALS
from tegula.ops.control import Yield
from tegula.ops.convert import Cast
from tegula.ops.debug import Assert
from tegula.ops.integer_ranges import INDEX_RANGE, IntegerRanges
from tegula.ops.lane import BlockCount, BlockIndex
from tegula.ops.roles import WARP, WARP_GROUP, Roles
from tegula.ops.scalar import Const, Max, Min, Select
from tegula.types import int32, int64

DEFAULT_RASTER = 8
KINDS = (Builtin("ws"), Builtin("role"))


@dataclass(frozen=True, slots=True)
class Role:
    """A traced role: its request for warps and registers, and its body."""

    request: RoleRequest
    body: Region


class RoleTracer(ElectedTracer):
    """The part of the tracer that builds roles, and loops over a block's output tiles. `body`: the kernel's region;
    `roles`: the roles traced so far."""

    body: Region
    roles: list[Role]
    differentiable: bool

    def trace_with(self, node: ast.With) -> None:
        """Trace a statement `with tg.role(...)`: one role of the kernel."""
        request = self._request(node)
        if not self.frame.is_kernel or self.builder.region is not self.body:
            raise E.RolePlacement(
                request.loc,
                what="roles must be at the top level of a kernel, not in a branch, loop or function",
            )
        self._check_outer_names(node, request.name)
        before = self.builder.lanes
        self.builder.lanes = request.warps * WARP
        try:
            paths = self.path(self.frame.names, lambda: self.block(node.body))
        finally:
            self.builder.lanes = before
        self.mark(node.items[0].context_expr)
        with self.within(paths.region):
            self.builder.emit(Yield, [])
        self.roles.append(Role(request, paths.region))

    def tile_bounds(self, call: ast.Call) -> Bounds:
        """The bounds of a loop over this block's chunk of a grid's tiles: the loop counts tile numbers, and its target
        is bound to the row and column of each tile."""
        args = [self.expr(a) for a in call.args]
        keywords = {keyword.arg: self.constants(self.expr(keyword.value)) for keyword in call.keywords}
        raster = keywords.pop("raster", DEFAULT_RASTER)
        fits = len(args) == 1 and isinstance(args[0], tuple) and len(args[0]) == 2 and not keywords
        if not fits or not _is_count(raster):
            message = (
                "persistent_tiles takes the numbers of rows and of columns, and raster=, a positive constant"
            )
            help = "for example tg.persistent_tiles((rows, columns), raster=8)"
            raise E.WrongArguments(self.location(call), what=message, help=help)
        b = self.builder
        self.mark(call)
        with self.errors_at(call):
            rows, columns = (b.cast(b.index(x), int32) for x in args[0])
            if not all(map(_follows_from_lengths, (rows, columns))):
                rows = self._checked_rows(rows, columns)
            bounds = (b.one(BlockIndex, []), b.binary("mul", rows, columns), b.one(BlockCount, []))
            return Bounds(*bounds, None, item=lambda number: self._tile(number, rows, columns, raster))

    def _checked_rows(self, rows: Value, columns: Value) -> Value:
        """The number of rows, at least 0. Builds an assertion that the number of tiles fits int32, except for the
        gradient, which has a block for each tile and computes its row and column separately."""
        b, ranges = self.builder, IntegerRanges()
        if not ranges.nonnegative(rows):
            rows = b.one(Max, [rows, b.const(0, int32)])
        if (
            max(x * y for x in ranges.of(rows) for y in ranges.of(columns)) > INDEX_RANGE[1]
            and not self.differentiable
        ):
            tiles = b.binary("mul", b.cast(rows, int64), b.cast(columns, int64))
            fits = b.compare("le", tiles, b.const(INDEX_RANGE[1], int64))
            b.emit(Assert, [fits], {"message": f"tg.persistent_tiles has at most {INDEX_RANGE[1]} tiles"})
        return rows

    def _tile(self, number: Value, rows: Value, columns: Value, raster: int) -> tuple[Value, Value]:
        """The row and column of a tile, given its number. Tiles are numbered in groups of `raster` rows, column by
        column in each; for gradients row by row, which can be inverted."""
        b = self.builder
        if self.differentiable:
            return b.binary("floordiv", number, columns), b.binary("mod", number, columns)
        if max(abs(n) for n in IntegerRanges().of(columns)) * raster > INDEX_RANGE[1]:
            # With fewer rows than `raster`, all tiles are in one group, whose size is their number and cannot overflow.
            group = b.binary("mul", columns, b.one(Min, [rows, b.const(raster, int32)]))
        else:
            group = b.binary("mul", columns, raster)
        first = b.binary("mul", b.binary("floordiv", number, group), raster)
        height = b.one(Min, [b.binary("sub", rows, first), b.const(raster, int32)])
        position = b.binary("mod", number, group)
        return b.binary("add", first, b.binary("mod", position, height)), b.binary(
            "floordiv", position, height
        )

    def _request(self, node: ast.With) -> RoleRequest:
        """The request of a role, from the head of its `with`."""
        call = node.items[0].context_expr
        kind = self.expr(call.func) if isinstance(call, ast.Call) else None
        if not isinstance(call, ast.Call) or kind not in KINDS:
            help = "'with' starts a role: with tg.ws(0): or with tg.role('load', warps=1):"
            raise E.UnsupportedPython(
                self.location(node.items[0].context_expr), what="this 'with'", help=help
            )
        if len(node.items) > 1 or node.items[0].optional_vars is not None:
            help = "give each role a 'with' of its own"
            raise E.UnsupportedPython(self.location(call), what="several roles in one 'with'", help=help)
        args = [self.constants(self.expr(a)) for a in call.args]
        keywords: dict[str, Any] = {}
        for keyword in call.keywords:
            keywords[str(keyword.arg)] = self.constants(self.expr(keyword.value))
        loc = self.location(call)
        registers = _budget(loc, keywords.pop("registers", 0))
        if kind == Builtin("ws"):
            return _groups(loc, args, keywords, registers)
        return self._named_role(call, args, keywords, registers)

    def _named_role(
        self, call: ast.Call, args: Sequence[Any], keywords: dict[str, Any], registers: int
    ) -> RoleRequest:
        loc = self.location(call)
        name = args[0] if len(args) == 1 else None
        counts = [(k, keywords[k]) for k in ("warps", "warp_groups") if k in keywords]
        if not isinstance(name, str) or not name or len(counts) != 1 or len(keywords) != 1:
            message = "a role has a name and either warps= or warp_groups="
            raise E.WrongArguments(loc, what=message, help="for example tg.role('load', warps=1)")
        unit, count = counts[0]
        if not _is_count(count):
            raise E.RoleGroups(loc, what=f"{unit}= must be a positive number, got {count!r}")
        if any(r.request.name == name for r in self.roles):
            raise E.RoleGroups(
                loc, what=f"two roles have the name '{name}'", help="give them different names"
            )
        return RoleRequest(name, loc, count * (4 if unit == "warp_groups" else 1), registers)

    def _check_outer_names(self, node: ast.With, role: str) -> None:
        """Refuse assignments to names that are bound before the roles, and changes of their components."""
        seen: set[str] = set()
        for name, target, rebinds in targets(node.body):
            known = self.frame.names.get(name, UNBOUND)
            is_value = is_element_value(known) or isinstance(known, LITERALS)
            if not isinstance(known, MARKS) and (rebinds or is_value) and name not in seen:
                seen.add(name)
                self.record(E.OuterNameInRole(self.location(target), name=name, role=role))

    @property
    def after_roles(self) -> bool:
        return bool(self.roles) and self.builder.region is self.body

    def check_after_roles(self, statement: ast.stmt) -> None:
        """Refuse statements after the roles, except `pass` and an empty return."""
        if not self.after_roles or isinstance(statement, ast.With | ast.Pass):
            return
        if isinstance(statement, ast.Return) and statement.value is None:
            return
        message = "a statement follows the roles, which must be the last statements of a kernel"
        raise E.RolePlacement(
            self.location(statement), what=message, notes=[(self.roles[0].request.loc, "a role")]
        )

    def finish_roles(self) -> None:
        """Build the `roles` op of all roles that were traced."""
        if not self.roles:
            return
        requests = [role.request for role in self.roles]
        placed = place_roles(requests)
        self.builder.loc = requests[0].loc
        for op in self.body.ops:
            if isinstance(op, BufNew):
                op.between_roles = True
        self.builder.emit(Roles, [], attributes(requests, placed), [role.body for role in self.roles])


def attributes(requests: Sequence[RoleRequest], placed: Sequence[PlacedRole]) -> dict[str, Any]:
    """The attributes of a `roles` op: the name, warps and registers per thread of each role."""
    return {
        "names": tuple(w.name for w in requests),
        "warps": tuple((p.first, p.count) for p in placed),
        "registers": tuple(p.registers for p in placed),
    }


def _follows_from_lengths(value: Value) -> bool:
    """Whether a number is computed from lengths of arrays, so that memory bounds the number of tiles."""
    leaves, worklist = set[type](), [value]
    while worklist:
        owner = worklist.pop().owner
        if isinstance(owner, Elementwise | Cast | Select):
            worklist.extend(owner.operands)
        else:
            leaves.add(type(owner))
    return ArrayShape in leaves and leaves <= {ArrayShape, Const}


def _is_count(x: object) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x > 0


def _budget(loc: Any, x: object) -> int:
    if x in (0, None):
        return 0
    if not _is_count(x) or not isinstance(x, int) or x % 8 or not 24 <= x <= 256:
        raise E.RoleRegisters(
            loc, what=f"a register budget must be a multiple of 8 from 24 to 256, got {x!r}"
        )
    return x


def _groups(loc: Any, groups: Sequence[Any], keywords: dict[str, Any], registers: int) -> RoleRequest:
    """The request of a role for warp groups whose numbers the user gives."""
    if keywords:
        raise E.WrongArguments(
            loc, what=f"ws has no parameter '{next(iter(keywords))}'", help="tg.ws(1, 2, registers=240)"
        )
    if not groups or not all(type(g) is int and g >= 0 for g in groups):
        raise E.RoleGroups(
            loc, what="tg.ws takes one or more numbers of warp groups", help="for example tg.ws(0)"
        )
    order = sorted(groups)
    if len(set(order)) < len(order):
        raise E.RoleGroups(loc, what=f"warp group {_duplicate(order)} is named twice")
    if order[-1] >= MAX_GROUPS:
        message = f"a block has {MAX_GROUPS} warp groups of {WARP_GROUP} threads, 0 to {MAX_GROUPS - 1}"
        raise E.RoleGroups(loc, what=f"there is no warp group {order[-1]}: {message}")
    if order[-1] - order[0] >= len(order):
        consecutive = ", ".join(str(order[0] + k) for k in range(len(order)))
        message = f"the warp groups of a role must be consecutive, got {', '.join(map(str, order))}"
        help = f"renumber the roles so that this one has tg.ws({consecutive}): the numbers are only labels"
        raise E.RoleGroups(loc, what=message, help=help)
    name = "ws" + "+".join(map(str, order))
    return RoleRequest(name, loc, 4 * len(order), registers, 4 * order[0])


def _duplicate(order: Sequence[int]) -> int:
    return next(g for g in order if order.count(g) > 1)
