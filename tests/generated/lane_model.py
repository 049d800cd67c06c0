"""A model of a kernel of one block, statement by statement on NumPy arrays; it reads the kernel's own source.

All lanes finish a statement before any lane begins the next. If several lanes write one element in a statement, the
last lane's write remains; on a GPU it may be any lane's, and the model reports where this makes a difference. A tile is
an array for each lane, because views may differ between lanes; slices and reshapes are NumPy's."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

Lanes = np.ndarray
"""A number for each lane; or which lanes are active."""
MAX_ITERATIONS = 200


def truncated_remainder(a: Lanes, b: Lanes) -> Lanes:
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b)))


def floored(a: Lanes, b: Lanes) -> Lanes:
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b)))


OPS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.BitXor: operator.xor,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.Mod: truncated_remainder,
    ast.FloorDiv: floored,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"tg.min": np.minimum, "tg.max": np.maximum}


class Model:
    """Runs the body of a kernel with `lanes` lanes on int32. `tiles`, `numbers`, `arrays`: the values of names before;
    `backwards`: lanes write in the opposite order, so that the first lane's write remains. `fixed`: False once several
    lanes have written different numbers to one element in a statement."""

    def __init__(
        self,
        lanes: int,
        tiles: Mapping[str, np.ndarray],
        numbers: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        backwards: bool = False,
    ) -> None:
        self.lanes, self.backwards, self.fixed = lanes, backwards, True
        self.names: dict[str, Any] = {name: [tile] * lanes for name, tile in tiles.items()}
        self.names |= {name: np.broadcast_to(np.array(v, np.int32), lanes) for name, v in numbers.items()}
        self.arrays = arrays

    def run(self, text: str) -> None:
        with np.errstate(all="ignore"):
            self.block(ast.parse(text).body, np.ones(self.lanes, np.bool_))

    # Statements ------------------------------------------------------------------------------------------------------

    def block(self, body: Sequence[ast.stmt], active: Lanes) -> None:
        for statement in body:
            self.STATEMENTS[type(statement)](self, statement, active)

    def assign(self, s: ast.Assign, active: Lanes) -> None:
        (target,) = s.targets
        if isinstance(target, ast.Tuple) and isinstance(s.value, ast.Tuple):
            values = [self.value(v, active) for v in s.value.elts]
            for t, value in zip(target.elts, values, strict=True):
                self.store(t, value, active)
        else:
            self.store(target, self.value(s.value, active), active)

    def store(self, target: ast.expr, value: Any, active: Lanes) -> None:
        if isinstance(target, ast.Subscript):
            tile, index = self.element(target, active)
            for lane in self.writers(active):
                tile[lane][index(lane)] = value[lane]
            lost = (tile[lane][index(lane)] != value[lane] for lane in self.writers(active))
            self.fixed = self.fixed and not any(lost)
            return
        assert isinstance(target, ast.Name)
        old = self.names.get(target.id)
        if isinstance(value, list):
            new_value = old if isinstance(old, list) else value
            self.names[target.id] = [
                v if on else k for v, k, on in zip(value, new_value, active, strict=True)
            ]
        else:
            self.names[target.id] = value if old is None else np.where(active, value, old)

    def writers(self, active: Lanes) -> list[int]:
        """The lanes in the order in which they write."""
        return np.flatnonzero(active)[:: -1 if self.backwards else 1].tolist()

    def augassign(self, s: ast.AugAssign, active: Lanes) -> None:
        value = self.value(s.value, active)
        if isinstance(s.op, ast.Mult) or isinstance(s.target, ast.Name):
            old = self.value(s.target, active)
            self.store(s.target, OPS[type(s.op)](old, value), active)
            return
        assert isinstance(s.target, ast.Subscript)
        tile, index = self.element(s.target, active)
        for lane in self.writers(active):
            tile[lane][index(lane)] = OPS[type(s.op)](tile[lane][index(lane)], value[lane])

    def branch(self, s: ast.If, active: Lanes) -> None:
        holds = self.value(s.test, active)
        if (active & holds).any():
            self.block(s.body, active & holds)
        if (active & ~holds).any():
            self.block(s.orelse, active & ~holds)

    def loop(self, s: ast.For, active: Lanes) -> None:
        assert isinstance(s.iter, ast.Call) and isinstance(s.target, ast.Name)
        bounds = [self.value(v, active) for v in s.iter.args]
        zero, step_of_one = np.zeros(self.lanes, np.int32), np.ones(self.lanes, np.int32)
        start, stop, step = [zero, bounds[0], step_of_one] if len(bounds) == 1 else [*bounds, step_of_one][:3]
        for k in range(MAX_ITERATIONS):
            index = start + np.int32(k) * step
            active_here = active & np.where(step > 0, index < stop, index > stop)
            if not active_here.any():
                return
            self.names[s.target.id] = index
            self.block(s.body, active_here)
        raise OverflowError

    def repeat(self, s: ast.While, active: Lanes) -> None:
        for _ in range(MAX_ITERATIONS):
            active = active & self.value(s.test, active)
            if not active.any():
                return
            self.block(s.body, active)
        raise OverflowError

    STATEMENTS: ClassVar[dict[type, Any]] = {
        ast.Assign: assign,
        ast.AugAssign: augassign,
        ast.If: branch,
        ast.For: loop,
        ast.While: repeat,
    }

    # Expressions -----------------------------------------------------------------------------------------------------

    def value(self, e: ast.expr, active: Lanes) -> Any:
        if isinstance(e, ast.Name):
            return self.names[e.id]
        if isinstance(e, ast.Constant):
            return np.full(self.lanes, e.value, np.int32)
        if isinstance(e, ast.UnaryOp):
            return -self.value(e.operand, active)
        if isinstance(e, ast.BinOp):
            return OPS[type(e.op)](self.value(e.left, active), self.value(e.right, active))
        if isinstance(e, ast.Compare):
            return OPS[type(e.ops[0])](self.value(e.left, active), self.value(e.comparators[0], active))
        if isinstance(e, ast.IfExp):
            holds = self.value(e.test, active)
            first, second = self.value(e.body, active & holds), self.value(e.orelse, active & ~holds)
            return np.where(holds, first, second)
        if isinstance(e, ast.Call):
            return self.call(e, active)
        assert isinstance(e, ast.Subscript), ast.dump(e)
        return self.subscript(e, active)

    def call(self, e: ast.Call, active: Lanes) -> Any:
        name = ast.unparse(e.func)
        if name == "tg.tile_reshape":
            shape = ast.literal_eval(e.args[1])
            reshaped = [tile.reshape(shape) for tile in self.value(e.args[0], active)]
            assert all(
                np.may_share_memory(m, t)
                for m, t in zip(reshaped, self.value(e.args[0], active), strict=True)
            )
            return reshaped
        if name == "tg.tile_view":
            return self.window(e, active)
        return FUNCTIONS[name](*(self.value(v, active) for v in e.args))

    def window(self, e: ast.Call, active: Lanes) -> list[np.ndarray]:
        """A part of a 1-D tile from an offset of each lane."""
        offset, shape = (keyword.value for keyword in e.keywords)
        first, n = self.value(offset, active), ast.literal_eval(shape)
        elements = list(self.value(e.args[0], active))
        for lane in np.flatnonzero(active):
            if not 0 <= first[lane] <= len(elements[lane]) - n:
                raise IndexError
            elements[lane] = elements[lane][first[lane] : first[lane] + n]
        if not active.any():
            return elements
        some = elements[int(np.flatnonzero(active)[0])]
        return [m if on else some for m, on in zip(elements, active, strict=True)]

    def subscript(self, e: ast.Subscript, active: Lanes) -> Any:
        if isinstance(e.value, ast.Name) and e.value.id in self.arrays:
            array, index = self.arrays[e.value.id], self.value(e.slice, active)
            return np.array([array[index[k]] if on else 0 for k, on in enumerate(active)], np.int32)
        tile, index = self.element(e, active)
        elements = [tile[lane][index(lane)] if on else None for lane, on in enumerate(active)]
        some = next(v for v in [*elements, np.int32(0)] if v is not None)
        if np.ndim(some):
            return [some if v is None else v for v in elements]
        return np.array([0 if v is None else v for v in elements], np.int32)

    def element(self, e: ast.Subscript, active: Lanes) -> tuple[list[np.ndarray], Callable[[int], Any]]:
        """The tile of each lane, and the index in it; IndexError outside."""
        parts = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        indices = [_slice(p) for p in parts]
        numbers = [
            None if m is not None else self.value(p, active) for m, p in zip(indices, parts, strict=True)
        ]
        return self.value(e.value, active), lambda lane: tuple(
            m if m is not None else int(n[lane]) for m, n in zip(indices, numbers, strict=True)
        )


def _slice(e: ast.expr) -> slice | None:
    if not isinstance(e, ast.Slice):
        return None
    return slice(*(None if v is None else ast.literal_eval(v) for v in (e.lower, e.upper, e.step)))
