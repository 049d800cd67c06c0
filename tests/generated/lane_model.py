"""A NumPy model of a kernel of one block, which runs the kernel's source statement by statement.

All lanes finish a statement before any lane begins the next statement. If several lanes write one element in a
statement, the write of the last lane remains; on a GPU any of these writes may remain, and the model reports whether
this affects the result. A tile is a list with an array for each lane, because views may differ between lanes; slices
and reshapes are views of NumPy."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

Lanes = np.ndarray
"""A number for each lane, or a mask of the active lanes."""
MAX_ITERATIONS = 200


def truncated_remainder(a: Lanes, b: Lanes) -> Lanes:
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


def floor_divide(a: Lanes, b: Lanes) -> Lanes:
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))


OPS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitXor: operator.xor,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Mod: truncated_remainder,
    ast.FloorDiv: floor_divide,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"tg.min": np.minimum, "tg.max": np.maximum}


class Model:
    """Runs the body of a kernel with `lanes` lanes on int32. `tiles`, `scalars` and `arrays`: the values of names
    before the body; `reverse_lanes`: lanes write in reverse order, so that the write of the first lane remains.
    `deterministic`: False after several lanes have written different numbers to one element in a statement."""

    def __init__(
        self,
        lanes: int,
        tiles: Mapping[str, np.ndarray],
        scalars: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        reverse_lanes: bool = False,
    ) -> None:
        self.lanes, self.reverse_lanes, self.deterministic = lanes, reverse_lanes, True
        self.names: dict[str, Any] = {name: [tile] * lanes for name, tile in tiles.items()}
        self.names |= {name: np.broadcast_to(np.array(v, np.int32), lanes) for name, v in scalars.items()}
        self.arrays = arrays

    def run(self, text: str) -> None:
        with np.errstate(all="ignore"):
            self.block(ast.parse(text).body, np.ones(self.lanes, np.bool_))

    # Statements ------------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], active: Lanes) -> None:
        for statement in body:
            self.STATEMENTS[type(statement)](self, statement, active)

    def assign(self, node: ast.Assign, active: Lanes) -> None:
        (target,) = node.targets
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            values = [self.value(v, active) for v in node.value.elts]
            for t, value in zip(target.elts, values, strict=True):
                self.store(t, value, active)
        else:
            self.store(target, self.value(node.value, active), active)

    def store(self, target: ast.expr, value: Any, active: Lanes) -> None:
        if isinstance(target, ast.Subscript):
            tile, index = self.element(target, active)
            for lane in self.writers(active):
                tile[lane][index(lane)] = value[lane]
            overwritten = (tile[lane][index(lane)] != value[lane] for lane in self.writers(active))
            self.deterministic = self.deterministic and not any(overwritten)
            return
        assert isinstance(target, ast.Name)
        old = self.names.get(target.id)
        if isinstance(value, list):
            new_value = old if isinstance(old, list) else value
            self.names[target.id] = [
                v if on else previous for v, previous, on in zip(value, new_value, active, strict=True)
            ]
        else:
            self.names[target.id] = value if old is None else np.where(active, value, old)

    def writers(self, active: Lanes) -> list[int]:
        """The active lanes in the order of their writes."""
        return np.flatnonzero(active)[:: -1 if self.reverse_lanes else 1].tolist()

    def augassign(self, node: ast.AugAssign, active: Lanes) -> None:
        value = self.value(node.value, active)
        if isinstance(node.op, ast.Mult) or isinstance(node.target, ast.Name):
            old = self.value(node.target, active)
            self.store(node.target, OPS[type(node.op)](old, value), active)
            return
        assert isinstance(node.target, ast.Subscript)
        tile, index = self.element(node.target, active)
        for lane in self.writers(active):
            tile[lane][index(lane)] = OPS[type(node.op)](tile[lane][index(lane)], value[lane])

    def branch(self, node: ast.If, active: Lanes) -> None:
        condition = self.value(node.test, active)
        if (active & condition).any():
            self.block(node.body, active & condition)
        if (active & ~condition).any():
            self.block(node.orelse, active & ~condition)

    def loop(self, node: ast.For, active: Lanes) -> None:
        assert isinstance(node.iter, ast.Call) and isinstance(node.target, ast.Name)
        bounds = [self.value(v, active) for v in node.iter.args]
        zero, step_of_one = np.zeros(self.lanes, np.int32), np.ones(self.lanes, np.int32)
        start, stop, step = [zero, bounds[0], step_of_one] if len(bounds) == 1 else [*bounds, step_of_one][:3]
        for k in range(MAX_ITERATIONS):
            index = start + np.int32(k) * step
            active_in_iteration = active & np.where(step > 0, index < stop, index > stop)
            if not active_in_iteration.any():
                return
            self.names[node.target.id] = index
            self.block(node.body, active_in_iteration)
        raise OverflowError

    def while_loop(self, node: ast.While, active: Lanes) -> None:
        for _ in range(MAX_ITERATIONS):
            active = active & self.value(node.test, active)
            if not active.any():
                return
            self.block(node.body, active)
        raise OverflowError

    STATEMENTS: ClassVar[dict[type, Any]] = {
        ast.Assign: assign,
        ast.AugAssign: augassign,
        ast.If: branch,
        ast.For: loop,
        ast.While: while_loop,
    }

    # Expressions -----------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, active: Lanes) -> Any:
        if isinstance(node, ast.Name):
            return self.names[node.id]
        if isinstance(node, ast.Constant):
            return np.full(self.lanes, node.value, np.int32)
        if isinstance(node, ast.UnaryOp):
            return -self.value(node.operand, active)
        if isinstance(node, ast.BinOp):
            return OPS[type(node.op)](self.value(node.left, active), self.value(node.right, active))
        if isinstance(node, ast.Compare):
            return OPS[type(node.ops[0])](
                self.value(node.left, active), self.value(node.comparators[0], active)
            )
        if isinstance(node, ast.IfExp):
            condition = self.value(node.test, active)
            first, second = (
                self.value(node.body, active & condition),
                self.value(node.orelse, active & ~condition),
            )
            return np.where(condition, first, second)
        if isinstance(node, ast.Call):
            return self.call(node, active)
        assert isinstance(node, ast.Subscript), ast.dump(node)
        return self.subscript(node, active)

    def call(self, node: ast.Call, active: Lanes) -> Any:
        name = ast.unparse(node.func)
        if name == "tg.tile_reshape":
            shape = ast.literal_eval(node.args[1])
            reshaped = [tile.reshape(shape) for tile in self.value(node.args[0], active)]
            assert all(
                np.may_share_memory(m, t)
                for m, t in zip(reshaped, self.value(node.args[0], active), strict=True)
            )
            return reshaped
        if name == "tg.tile_view":
            return self.window(node, active)
        return FUNCTIONS[name](*(self.value(v, active) for v in node.args))

    def window(self, node: ast.Call, active: Lanes) -> list[np.ndarray]:
        """A view of `shape` elements of a 1-D tile, from an offset that may differ between lanes."""
        offset, shape = (keyword.value for keyword in node.keywords)
        first, n = self.value(offset, active), ast.literal_eval(shape)
        elements = list(self.value(node.args[0], active))
        for lane in np.flatnonzero(active):
            if not 0 <= first[lane] <= len(elements[lane]) - n:
                raise IndexError
            elements[lane] = elements[lane][first[lane] : first[lane] + n]
        if not active.any():
            return elements
        placeholder = elements[int(np.flatnonzero(active)[0])]
        return [m if on else placeholder for m, on in zip(elements, active, strict=True)]

    def subscript(self, node: ast.Subscript, active: Lanes) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in self.arrays:
            array, index = self.arrays[node.value.id], self.value(node.slice, active)
            return np.array([array[index[k]] if on else 0 for k, on in enumerate(active)], np.int32)
        tile, index = self.element(node, active)
        elements = [tile[lane][index(lane)] if on else None for lane, on in enumerate(active)]
        placeholder = next(v for v in [*elements, np.int32(0)] if v is not None)
        if np.ndim(placeholder):
            return [placeholder if v is None else v for v in elements]
        return np.array([0 if v is None else v for v in elements], np.int32)

    def element(self, node: ast.Subscript, active: Lanes) -> tuple[list[np.ndarray], Callable[[int], Any]]:
        """The tile of each lane, and a function from a lane to the index of its element. IndexError if an index is out
        of bounds."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        indices = [_slice(p) for p in parts]
        index_values = [
            None if m is not None else self.value(p, active) for m, p in zip(indices, parts, strict=True)
        ]
        return self.value(node.value, active), lambda lane: tuple(
            m if m is not None else int(n[lane]) for m, n in zip(indices, index_values, strict=True)
        )


def _slice(node: ast.expr) -> slice | None:
    if not isinstance(node, ast.Slice):
        return None
    return slice(*(None if v is None else ast.literal_eval(v) for v in (node.lower, node.upper, node.step)))
