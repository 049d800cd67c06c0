"""Translates the text of a kernel with roles to Python generators, one for each role, which yield the operations on
barriers, pipes and shared tiles. Integers wrap as in the language.

Only the constructs of generated schedules are supported: scalars, loops, branches, barriers, pipes, shared tiles and
matmuls."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

ROLE_OPERATIONS = (
    "mbarrier_wait", "mbarrier_arrive", "mbarrier_expect_bytes", "tile_load_async", "tile_store_async", "store_commit",
    "store_wait", "fence_async", "named_barrier_sync", "named_barrier_arrive", "tile_pipe_load", "tile_pipe_push",
    "tile_pipe_pop", "tile_pipe_release", "tile_matmul", "tile_matmul_wait",
)  # fmt: skip
"""The functions whose calls roles yield to the simulation."""
VIEW_ARGUMENTS = {"tile_load_async": (1,), "tile_store_async": (1,), "tile_matmul": (0, 1)}
"""The positions of the arguments of asynchronous operations that are views of shared tiles: views are not read when the
operation is issued."""


class Refused(Exception):
    """Raised if an assert of the kernel fails or the kernel reads outside an array: the launch is not evidence of a
    fault."""


# Numbers --------------------------------------------------------------------------------------------------------------


class TypedInt(int):
    """An integer of another type than int32."""

    bits: int
    signed: bool


def wrap_integer(bits: int, signed: bool, x: Any) -> Any:
    if isinstance(x, float):
        x = 0 if x != x else int(x)
    wrapped = int(x) & ((1 << bits) - 1)
    if signed and wrapped >> (bits - 1):
        wrapped -= 1 << bits
    if bits == 32 and signed:
        return wrapped
    result = TypedInt(wrapped)
    result.bits, result.signed = bits, signed
    return result


def _floor_divide(a: int, b: int) -> int:
    return a // b if b else 0


def _truncating_divide(a: int, b: int) -> int:
    q = abs(a) // abs(b) if b else 0
    return q if (a < 0) == (b < 0) else -q


def _remainder(a: int, b: int) -> int:
    return a - _truncating_divide(a, b) * b if b else 0


def _shift_left(a: int, b: int) -> int:
    return a << b if 0 <= b < 64 else 0


def _shift_right(a: int, b: int) -> int:
    return a >> b if 0 <= b < 64 else (-1 if a < 0 else 0)


OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: _floor_divide, ast.Mod: _remainder,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: _shift_left,
    ast.RShift: _shift_right, ast.Div: _truncating_divide,
}  # fmt: skip
NAMES = {kind.__name__: function for kind, function in OPERATORS.items()}


def binary_operation(name: str, a: Any, b: Any) -> Any:
    """The result of a binary operation of the language."""
    if isinstance(a, Tile) or isinstance(b, Tile):
        return Tile()
    if isinstance(a, float) or isinstance(b, float):
        return float(np.float32(NAMES[name](np.float32(a), np.float32(b))))
    typed_operand = a if isinstance(a, TypedInt) else b
    x = NAMES[name](int(a), int(b))
    if isinstance(typed_operand, TypedInt):
        return wrap_integer(typed_operand.bits, typed_operand.signed, x)
    return x if -0x8000_0000 <= x <= 0x7FFF_FFFF else wrap_integer(32, True, x)


def element(array: Any, index: Any) -> Any:
    """An element of an array or a tile."""
    if isinstance(array, Tile):
        return array.value
    position = index if isinstance(index, tuple) else (index,)
    if any(not 0 <= i < n for i, n in zip(position, array.shape, strict=True)):
        raise Refused(f"element {index} of an array of shape {array.shape}")
    return array[index].item()


# Values in kernels ---------------------------------------------------------------------------------------------------


class Tile:
    """A tile in registers. `value`: the value of all elements, if control flow depends on it; `matmul`: the number of
    the last matmul that accumulates into the tile."""

    def __init__(self, value: Any = 0) -> None:
        self.value, self.matmul = value, 0


class Ring:
    """A shared tile, with or without stages. `units`: whether tensor cores read the tile directly."""

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self.shape, self.units = tuple(shape), dtype.bits == 16
        self.bytes = int(np.prod(shape)) * dtype.bits // 8


class StageView:
    """A view of one stage of a ring, or of the whole ring (stage -1)."""

    def __init__(self, ring: Ring, stage: Any) -> None:
        self.ring, self.stage = ring, stage if isinstance(stage, int) else -1
        self.bytes = ring.bytes // (ring.shape[0] if self.stage >= 0 else 1)


class Barriers:
    """The mbarriers of a number of stages, each of which expects `count` arrivals."""

    def __init__(self, count: int, stages: int = 1) -> None:
        self.count, self.stages = count, stages


class NamedBarrier:
    """A named barrier that counts warps."""

    def __init__(self, warps: int) -> None:
        self.warps = warps


class Pipe:
    """A pipe. `consumers`: the roles that pop items."""

    def __init__(self, shape: Sequence[int], dtype: Any = None, stages: int = 2) -> None:
        self.stages, self.consumers, self.fetched = stages, set[int](), False


class _Type:
    def __init__(self, bits: int, signed: bool = True, real: bool = False) -> None:
        self.bits, self.signed, self.real = bits, signed, real

    def __call__(self, x: Any) -> Any:
        return float(np.float32(x)) if self.real else wrap_integer(self.bits, self.signed, x)


def _persistent_tiles(
    grid: Sequence[int], block: int, blocks: int, raster: int = 8
) -> Iterator[tuple[int, int]]:
    rows, columns = grid
    for t in range(block, rows * columns, blocks):
        height = min(raster, rows - t // (raster * columns) * raster)
        first, inside = t // (raster * columns) * raster, t % (raster * columns)
        yield first + inside % height, inside // height


class Language:
    """The object that is bound to `tg` in kernels. `block`, `blocks`: the index of the block, and the number of
    blocks."""

    bfloat16, float16, float32, int32 = (
        _Type(16, real=True),
        _Type(16, real=True),
        _Type(32, real=True),
        _Type(32),
    )
    int8, uint8, int16, uint16 = _Type(8), _Type(8, False), _Type(16), _Type(16, False)
    uint32, int64 = _Type(32, False), _Type(64)

    def __init__(self, block: int, blocks: int) -> None:
        self.block, self.blocks = block, blocks
        self.counts: dict[tuple[int, int], int] = {}

    def tid(self) -> int:
        return self.block

    def mbarrier(self, count: int, stages: int = 1) -> Barriers:
        return Barriers(count, stages)

    def named_barrier(self, warps: int) -> NamedBarrier:
        return NamedBarrier(warps)

    def tile_empty(self, shape: Sequence[int], dtype: Any = None, storage: str = "shared") -> Ring:
        return Ring(shape, dtype)

    def tile_pipe(self, shape: Sequence[int], dtype: Any = None, stages: int = 2) -> Pipe:
        return Pipe(shape, dtype, stages)

    def persistent_tiles(self, grid: Sequence[int], raster: int = 8) -> Iterator[tuple[int, int]]:
        return _persistent_tiles(grid, self.block, self.blocks, raster)

    def min(self, *operand: Any) -> Any:
        return min(operand)

    def max(self, *operand: Any) -> Any:
        return max(operand)

    def abs(self, x: int) -> int:
        return wrap_integer(32, True, abs(x))

    def atomic_add(self, array: Any, index: int, by: int) -> int:
        """An atomic addition in a launch of one block."""
        old = self.counts.get((id(array), index), 0)
        self.counts[id(array), index] = old + by
        return old

    def group_lane(self) -> int:
        return 0

    def uniform(self, x: Any) -> Any:
        return x

    def tile_full(self, shape: Sequence[int], value: Any = 0, dtype: Any = None) -> Tile:
        return Tile(value)

    def _tile(self, *_: Any, **__: Any) -> Tile:
        return Tile()

    tile_zeros = tile_load = tile_sum = tile_astype = _tile

    def tile_store(self, array: Any, tile: Any, offset: Any = None) -> None:
        pass


# Text -----------------------------------------------------------------------------------------------------------------


class _RoleRewriter(ast.NodeTransformer):
    """Rewrites scalar operations everywhere, and in roles also operations on barriers and reads of shared tiles."""

    def __init__(self, rings: set[str]) -> None:
        self.rings, self.role, self.elected = rings, -1, False

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _call("_binary_operation", ast.Constant(type(node.op).__name__), node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            return _call("_binary_operation", ast.Constant("Sub"), ast.Constant(0), node.operand)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        assert isinstance(node.target, ast.Name)
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.Assign([node.target], self.visit(value))

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if self.role >= 0 and isinstance(target, ast.Subscript):
            value = self.visit(node.value)
            if isinstance(target.value, ast.Name) and target.value.id in self.rings:
                return ast.Expr(self._yield_operation("write", [self._view(target), value]))
            return ast.Expr(self._yield_operation("put", [target.value, self.visit(target.slice), value]))
        self.generic_visit(node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.rings:
            return self._yield_operation("read", [self._view(node)])
        if isinstance(node.value, ast.Attribute):
            return self.generic_visit(node)
        return _call("_element", self.visit(node.value), self.visit(node.slice))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if self.role >= 0 and node.id in self.rings and isinstance(node.ctx, ast.Load):
            return self._yield_operation("read", [self._view(node)])
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.Expr(_call("_check_assert", self.visit(node.test)))

    def visit_If(self, node: ast.If) -> Any:
        if ast.unparse(node.test) == "tg.elect()":
            self.elected = True
            body = [self.visit(inner) for inner in node.body]
            self.elected = False
            return body
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name not in ROLE_OPERATIONS:
            return self.generic_visit(node)
        view_arguments = VIEW_ARGUMENTS.get(name, ())
        args = [
            self._view(a) if k in view_arguments and self._shared(a) else self.visit(a)
            for k, a in enumerate(node.args)
        ]
        keywords = [(k.arg or "", self.visit(k.value)) for k in node.keywords if k.arg != "offset"]
        return self._yield_operation(name, args, keywords)

    def _shared(self, node: ast.expr) -> bool:
        base = node.value if isinstance(node, ast.Subscript) else node
        return isinstance(base, ast.Name) and base.id in self.rings

    def _view(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Name):
            return _call("_view", ast.Name(node.id, ast.Load()), ast.Constant(None))
        assert isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
        is_full_view = isinstance(node.slice, ast.Tuple | ast.Slice)
        index = ast.Constant(None) if is_full_view else self.visit(node.slice)
        return _call("_view", ast.Name(node.value.id, ast.Load()), index)

    def _yield_operation(
        self, name: str, args: list[Any], keywords: Sequence[tuple[str, Any]] = ()
    ) -> ast.expr:
        named = ast.Dict([ast.Constant(k) for k, _ in keywords], [v for _, v in keywords])
        return ast.Yield(
            ast.Tuple(
                [ast.Constant(name), ast.Constant(self.elected), ast.Tuple(args, ast.Load()), named],
                ast.Load(),
            )
        )


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _check_assert(condition: Any) -> None:
    if not condition:
        raise Refused("an assert fails")


def _warps(call: ast.expr) -> int:
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
    if call.func.attr == "ws":
        return 4 * len(call.args)
    named = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    return named["warps"] if "warps" in named else 4 * named["warp_groups"]


class Schedule:
    """The roles of a kernel. `parameters`: the names of the parameters, in order; `warps`: the number of warps of each
    role; `consumers`: the roles that pop each pipe; `fetched`: the pipes that asynchronous copies fill."""

    def __init__(self, text: str) -> None:
        kernel = ast.parse(text).body[0]
        assert isinstance(kernel, ast.FunctionDef)
        self.parameters = [a.arg for a in kernel.args.args]
        before = [s for s in kernel.body if not isinstance(s, ast.With)]
        roles = [s for s in kernel.body if isinstance(s, ast.With)]
        self.warps = [_warps(role.items[0].context_expr) for role in roles]
        rings = {name for s in before for name in _names_bound_to(s, "tile_empty")}
        pipes = [name for s in before for name in _names_bound_to(s, "tile_pipe")]
        self.consumers = {p: [k for k, r in enumerate(roles) if _calls(r, "tile_pipe_pop", p)] for p in pipes}
        self.fetched = [p for p in pipes if any(_calls(r, "tile_pipe_load", p) for r in roles)]
        rewrite = _RoleRewriter(rings)
        body: list[ast.stmt] = [rewrite.visit(s) for s in before]
        names: list[ast.expr] = []
        for k, role in enumerate(roles):
            rewrite.role = k
            inner: list[ast.stmt] = []
            for s in role.body:
                result = rewrite.visit(s)
                inner += result if isinstance(result, list) else [result]
            inner.append(ast.If(ast.Constant(False), [ast.Expr(ast.Yield())], []))
            function = ast.parse(f"def role_{k}(): pass").body[0]
            assert isinstance(function, ast.FunctionDef)
            function.body = inner
            body.append(function)
            names.append(ast.Name(f"role_{k}", ast.Load()))
        pipe_table = ast.Dict([ast.Constant(p) for p in pipes], [ast.Name(p, ast.Load()) for p in pipes])
        body.append(ast.Return(ast.Tuple([ast.List(names, ast.Load()), pipe_table], ast.Load())))
        kernel.body, kernel.decorator_list, kernel.returns = body, [], None
        for a in kernel.args.args:
            a.annotation = None
        self._code = compile(ast.fix_missing_locations(ast.Module([kernel], [])), "<schedule>", "exec")
        self.name = kernel.name

    def roles(self, args: dict[str, Any], block: int = 0, blocks: int = 1) -> list[Iterator[Any]]:
        """The operations of each role in a launch with the arguments. Raises Refused."""
        language = Language(block, blocks)
        names: dict[str, Any] = {
            "tg": language, "float": language.float32, "int": language.int32, "_binary_operation": binary_operation,
            "_element": element, "_view": StageView, "_check_assert": _check_assert,
        }  # fmt: skip
        exec(self._code, names)
        arguments = {
            name: np.array(v) if isinstance(v := args[name], np.ndarray) else v for name in self.parameters
        }
        functions, pipes = names[self.name](**arguments)
        for name, pipe in pipes.items():
            pipe.consumers = self.consumers[name]
            pipe.fetched = name in self.fetched
        return [function() for function in functions]


def _names_bound_to(statement: ast.stmt, constructor: str) -> list[str]:
    """The names that a statement binds to results of a function of `tg`."""
    if not isinstance(statement, ast.Assign):
        return []
    target, value = statement.targets[0], statement.value
    is_unpacking = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
    pairs = zip(target.elts, value.elts, strict=True) if is_unpacking else [(target, value)]  # type: ignore[attr-defined]
    return [ast.unparse(t) for t, v in pairs if ast.unparse(v).startswith(f"tg.{constructor}(")]


def _calls(role: ast.With, name: str, pipe: str) -> bool:
    return any(
        isinstance(n, ast.Call) and ast.unparse(n.func) == f"tg.{name}" and ast.unparse(n.args[0]) == pipe
        for n in ast.walk(role)
    )


@lru_cache(maxsize=32)
def schedule(text: str) -> Schedule:
    return Schedule(text)
