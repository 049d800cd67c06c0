"""Random expressions over tiles and scalars, whose value does not depend on the order of evaluation.

All floats are small integral numbers: `Term.bound` is the largest magnitude of a term, and operands are clamped before
a result could need rounding. Integers wrap and need no bound."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from choices import ChoiceSource

INTS = ("int32", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = ("float32", "int32", *FLOATS[1:], *INTS[1:])
INPUT_SHAPE = (12, 12)
SMALL_BOUND = 8
WIDE_BOUND = 64

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Name:
    """A variable: a tile of `shape`, or a scalar if `shape` is (). `uniform`: all lanes have the same value."""

    text: str
    dtype: str
    shape: Shape = ()
    uniform: bool = True
    shared: bool = False
    bound: float = SMALL_BOUND


@dataclass(frozen=True)
class Term:
    text: str
    bound: float


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


def is_in_range(dtype: str, value: int) -> bool:
    """Whether a number is in the range of a type, if the type is an integer type."""
    return is_float(dtype) or value <= np.iinfo(dtype).max


def literal(value: int, dtype: str) -> str:
    return f"{float(value)}" if is_float(dtype) else str(value)


class Expressions:
    """Random expressions over the names in scope. `cooperative`: all threads of the block reach the expression, so that
    cooperative functions may be called."""

    def __init__(self, choices: ChoiceSource, block_dim: int) -> None:
        self.choices = choices
        self.block_dim = block_dim
        self.scope: list[Name] = []
        self.inputs: dict[str, str] = {}
        self.functions: dict[str, list[str]] = {}
        self.cooperative = True

    # Terms -----------------------------------------------------------------------------------------------------------

    def term(self, dtype: str, shape: Shape = (), uniform: bool = False, depth: int = 2) -> Term:
        """A tile of a shape, or a scalar; `uniform`: all lanes have the same scalar."""
        if depth == 0 or self.choices.chance(25):
            return self.leaf(dtype, shape, uniform)
        kinds = [
            (4, self.arithmetic),
            (2, self.unary),
            (2, self.select),
            (2, self.cast),
            (1, self.call_expression),
        ]
        if not is_float(dtype):
            kinds.append((3, self.bitwise))
        if shape and self.cooperative:
            kinds += [
                (3, self.shape_expression),
                (2, self.reduction),
                (1, self.scan),
                (2, self.matmul_expression),
            ]
        return self.choices.choose_weighted(kinds)(dtype, shape, uniform, depth - 1)

    def bounded_term(
        self, dtype: str, shape: Shape, uniform: bool, depth: int, limit: int = WIDE_BOUND
    ) -> Term:
        """A term whose magnitude is at most `limit`, if the term is a float."""
        term = self.term(dtype, shape, uniform, depth)
        return term if not is_float(dtype) or term.bound <= limit else self.clamped(term, dtype)

    def with_positive_zero(self, term: Term, dtype: str) -> Term:
        """A sum in which -0.0 is replaced by 0.0: the sign of a zero depends on whether the additions start from 0."""
        return Term(f"({term.text} + 0.0)", term.bound) if is_float(dtype) else term

    def clamped(self, term: Term, dtype: str) -> Term:
        return Term(
            f"tg.clamp({term.text}, {literal(-SMALL_BOUND, dtype)}, {literal(SMALL_BOUND, dtype)})",
            SMALL_BOUND,
        )

    def small_text(self, dtype: str, shape: Shape = (), uniform: bool = False, depth: int = 2) -> str:
        """The text of a term whose magnitude, if it is a float, is at most SMALL_BOUND."""
        return self.bounded_term(dtype, shape, uniform, depth, SMALL_BOUND).text

    # Leaves ----------------------------------------------------------------------------------------------------------

    def names_in_scope(self, dtype: str, shape: Shape, uniform: bool) -> list[Name]:
        return [
            n
            for n in self.scope
            if n.dtype == dtype and n.shape == shape and (n.uniform or not uniform or shape)
        ]

    def leaf(self, dtype: str, shape: Shape, uniform: bool) -> Term:
        candidates = self.names_in_scope(dtype, shape, uniform)
        if candidates and self.choices.chance(75):
            name = self.choices.choose(candidates)
            return Term(name.text, name.bound)
        return self.tile_leaf(dtype, shape) if shape else self.scalar_leaf(dtype, uniform)

    def tile_leaf(self, dtype: str, shape: Shape, storage: str | None = None) -> Term:
        storage = storage or self.choices.choose(["register", "shared"])
        storage_option = f', storage="{storage}"'
        kinds = ["load", "load", "zeros", "ones", "full"]
        if len(shape) == 1 and is_in_range(dtype, shape[0] - 1):
            kinds.append("arange")
        if shape == (self.block_dim,):
            kinds += ["tile", "tile"]
        kind = self.choices.choose(kinds)
        self.choices.note(
            f"tile_{kind}" if kind != "tile" else "tile", f"dtype {dtype}", f"storage {storage}"
        )
        if kind == "load":
            return Term(f"tg.tile_load({self.source(dtype, shape)}{storage_option})", SMALL_BOUND)
        if kind in ("zeros", "ones"):
            return Term(f"tg.tile_{kind}({shape}, dtype=tg.{dtype}{storage_option})", 1)
        if kind == "full":
            value = self.bounded_term(dtype, (), True, 1, SMALL_BOUND)
            return Term(f"tg.tile_full({shape}, tg.{dtype}({value.text}){storage_option})", SMALL_BOUND)
        if kind == "arange":
            return Term(f"tg.tile_arange(0, {shape[0]}, dtype=tg.{dtype}{storage_option})", shape[0])
        return Term(f"tg.tile({self.small_text(dtype, (), False, 1)})", SMALL_BOUND)

    def source(self, dtype: str, shape: Shape) -> str:
        """The array, shape and offset of a load, sometimes past the edge of the array."""
        array = self.inputs.setdefault(dtype, f"x_{dtype}")
        indices = [self.choices.choose(["0", "i", "n", str(self.choices.number(1, 11))]) for _ in shape]
        if len(shape) == 1:
            row = self.choices.choose(["i", "n", "3"])
            fill = f", fill={literal(3, dtype)}" if self.choices.chance(20) else ""
            return f"{array}[{row}], shape={shape[0]}, offset={indices[0]}{fill}"
        if len(shape) == 3:
            return f"{array}_3, shape={shape}, offset=({', '.join(indices)})"
        return f"{array}, shape={shape}, offset=({', '.join(indices)})"

    def scalar_leaf(self, dtype: str, uniform: bool) -> Term:
        tiles = [n for n in self.scope if n.shape and n.dtype == dtype and n.shape != (0,)]
        kinds = [(2, "literal"), (2, "index")]
        if tiles:
            kinds.append((3 if self.cooperative else 1, "element"))
        if not uniform:
            kinds.append((2, "lane array"))
            if self.cooperative and any(n.shape == (self.block_dim,) for n in tiles):
                kinds.append((9, "untile"))
        kind = self.choices.choose_weighted(kinds)
        self.choices.note(f"scalar {kind}", f"dtype {dtype}")
        if kind == "literal":
            return Term(f"tg.{dtype}({literal(self.choices.number(0, SMALL_BOUND), dtype)})", SMALL_BOUND)
        if kind == "index":
            return Term(f"tg.{dtype}({self.index(uniform)})", 40)
        if kind == "lane array":
            array = self.inputs.setdefault(dtype, f"x_{dtype}")
            return Term(f"{array}[{self.index(uniform)} % 12, {self.index(uniform)} % 12]", SMALL_BOUND)
        if kind == "untile":
            name = self.choices.choose([n for n in tiles if n.shape == (self.block_dim,)])
            return Term(f"tg.untile({name.text})", name.bound)
        name = self.choices.choose(tiles)
        position = ", ".join(f"{self.index(uniform)} % {extent}" for extent in name.shape)
        return Term(f"{name.text}[{position}]", name.bound)

    def index(self, uniform: bool) -> str:
        """An expression for a non-negative int32."""
        options = ["0", "i", "n", "5"] if uniform else ["j", "i", "n", "(j + 1)", "(j * 3)", "7"]
        counters = [n.text for n in self.scope if n.text.startswith("k") and (n.uniform or not uniform)]
        return self.choices.choose(options + counters)

    # Operations ------------------------------------------------------------------------------------------------------

    def arithmetic(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        op = self.choices.choose(["+", "-", "*", "min", "max", "%", "//", "/"])
        self.choices.note(f"op {op}", f"op {op} {'float' if is_float(dtype) else 'int'}")
        a = self.bounded_term(dtype, shape, uniform, depth)
        scalar = shape and self.choices.chance(30)
        b = self.bounded_term(dtype, () if scalar else shape, uniform or bool(scalar), depth)
        if scalar and op in "+-*" and self.choices.chance(50):
            a, b = b, a
        if op in ("min", "max"):
            return Term(f"tg.{op}({a.text}, {b.text})", max(a.bound, b.bound))
        text = f"({a.text} {op} {b.text})"
        if op in "+-":
            return Term(text, a.bound + b.bound)
        if op == "*":
            return Term(text, a.bound * b.bound)
        if not is_float(dtype):
            return Term(text, math.inf)
        if op == "/":
            return Term(
                f"tg.floor(tg.clamp({text}, {float(-SMALL_BOUND)}, {float(SMALL_BOUND)}))", SMALL_BOUND
            )
        divisor = self.choices.choose(["2.0", "3.0", "-3.0"])
        return Term(f"({a.text} {op} {divisor})", a.bound)

    def unary(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        op = self.choices.choose(
            ["-", "abs", "clamp", "floor", "sqrt"] if is_float(dtype) else ["-", "abs", "~", "clamp"]
        )
        self.choices.note(f"op {'neg' if op == '-' else op}")
        a = self.bounded_term(dtype, shape, uniform, depth)
        if op in "-~":
            return Term(f"({op}{a.text})", a.bound)
        if op == "clamp":
            low = literal(0 if dtype.startswith("u") else -3, dtype)
            return Term(f"tg.clamp({a.text}, {low}, {literal(5, dtype)})", 5)
        if op == "sqrt":
            return Term(f"tg.floor(tg.sqrt(tg.abs({a.text})))", a.bound)
        return Term(f"tg.{op}({a.text})", a.bound)

    def bitwise(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        op = self.choices.choose(["&", "|", "^", "<<", ">>"])
        self.choices.note(f"op {op}")
        a = self.term(dtype, shape, uniform, depth)
        b = self.term(dtype, shape, uniform, depth)
        return Term(f"({a.text} {op} {b.text})", math.inf)

    def condition(self, shape: Shape = (), uniform: bool = False, depth: int = 1) -> str:
        dtype = self.choices.choose(DTYPES)
        compare = self.choices.choose(["<", "<=", "==", "!=", ">", ">="])
        self.choices.note(f"op {compare}")
        a, b = self.term(dtype, shape, uniform, depth), self.term(dtype, shape, uniform, 0)
        return f"({a.text} {compare} {b.text})"

    def select(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        a, b = (
            self.bounded_term(dtype, shape, uniform, depth),
            self.bounded_term(dtype, shape, uniform, depth),
        )
        if shape or self.choices.chance(50):
            self.choices.note("where")
            test = self.condition(shape, uniform, 1)
            return Term(f"tg.where({test}, {a.text}, {b.text})", max(a.bound, b.bound))
        self.choices.note("conditional expression")
        test = self.condition((), True if self.cooperative else uniform, 1)
        return Term(f"({a.text} if {test} else {b.text})", max(a.bound, b.bound))

    def cast(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        source_dtype = self.choices.choose(DTYPES)
        self.choices.note("cast")
        a = self.term(source_dtype, shape, uniform, depth)
        text = f"tg.tile_astype({a.text}, tg.{dtype})" if shape else f"tg.{dtype}({a.text})"
        term = Term(text, a.bound if is_float(source_dtype) else math.inf)
        return self.clamped(term, dtype) if is_float(dtype) and term.bound > WIDE_BOUND else term

    def call_expression(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        candidates = self.functions.get(dtype)
        if not candidates:
            return self.leaf(dtype, shape, uniform)
        name = self.choices.choose(candidates)
        a, b = (self.bounded_term(dtype, shape, uniform, depth, SMALL_BOUND) for _ in range(2))
        self.choices.note("tile_map" if shape else "call")
        return Term(
            f"tg.tile_map({name}, {a.text}, {b.text})" if shape else f"{name}({a.text}, {b.text})",
            SMALL_BOUND,
        )

    # Tiles -----------------------------------------------------------------------------------------------------------

    def shape_expression(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        size = math.prod(shape)
        kinds = ["reshape", "slice", "broadcast"]
        kinds += ["transpose"] if len(shape) == 2 else []
        kinds += ["concat"] if shape[0] % 2 == 0 else []
        kind = self.choices.choose(kinds)
        self.choices.note(kind)
        if kind == "transpose":
            a = self.term(dtype, shape[::-1], uniform, depth)
            return Term(f"tg.tile_transpose({a.text})", a.bound)
        if kind == "reshape":
            a = self.term(dtype, (size,) if len(shape) > 1 else (1, size), uniform, depth)
            return Term(f"tg.tile_reshape(tg.copy({a.text}), {shape})", a.bound)
        if kind == "broadcast":
            a = self.term(dtype, (*shape[:-1], 1), uniform, depth)
            return Term(f"tg.copy(tg.tile_broadcast({a.text}, {shape}))", a.bound)
        if kind == "concat":
            half = (shape[0] // 2, *shape[1:])
            a, b = self.term(dtype, half, uniform, depth), self.term(dtype, half, uniform, depth)
            return Term(f"tg.tile_concat(({a.text}, {b.text}), axis=0)", max(a.bound, b.bound))
        step = self.choices.choose([1, 2, -1])
        extra = self.choices.number(0, 2)
        padded_shape = (shape[0] * abs(step) + extra, *shape[1:])
        a = self.term(dtype, padded_shape, uniform, depth)
        part = f"{extra}:" if step != -1 else f"{shape[0] - 1}::-1"
        part += f":{step}" if step == 2 else ""
        return Term(f"{a.text}[{part}]" if self._is_name(a) else f"({a.text})[{part}]", a.bound)

    @staticmethod
    def _is_name(a: Term) -> bool:
        return a.text.isidentifier()

    def reduction(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        """A reduction along an axis with a result of the given shape, or a reduction of all elements, broadcast to the
        shape."""
        kind = self.choices.choose(["sum", "min", "max", "reduce"])
        self.choices.note(f"tile_{kind}")
        function = "tg.tile_reduce(tg.max, " if kind == "reduce" else f"tg.tile_{kind}("
        extent = self.choices.choose([4, 3, 8])
        growth = extent if kind == "sum" else 1
        if len(shape) <= 2 and self.choices.chance(60):
            self.choices.note("axis reduction")
            axis = self.choices.number(0, len(shape))
            a = self.bounded_term(dtype, (*shape[:axis], extent, *shape[axis:]), uniform, depth, SMALL_BOUND)
            return self.with_positive_zero(Term(f"{function}{a.text}, axis={axis})", a.bound * growth), dtype)
        a = self.bounded_term(dtype, (extent,), uniform, depth, SMALL_BOUND)
        reduced_text = self._with_rank(f"{function}{a.text})", len(shape))
        return self.with_positive_zero(
            Term(f"tg.copy(tg.tile_broadcast({reduced_text}, {shape}))", a.bound * growth), dtype
        )

    @staticmethod
    def _with_rank(text: str, rank: int) -> str:
        return text if rank == 1 else f"tg.tile_reshape(tg.copy({text}), {(1,) * rank})"

    def scan(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        kind = self.choices.choose(["inclusive", "exclusive", "max_inclusive", "min_inclusive"])
        if is_float(dtype) and dtype.endswith("16"):
            kind = "max_inclusive"
        self.choices.note(f"tile_scan_{kind}")
        a = self.bounded_term(dtype, shape, uniform, depth, SMALL_BOUND)
        growth = math.prod(shape) if kind.endswith("clusive") and "_" not in kind else 1
        return self.with_positive_zero(Term(f"tg.tile_scan_{kind}({a.text})", a.bound * growth), dtype)

    def matmul_expression(self, dtype: str, shape: Shape, uniform: bool, depth: int) -> Term:
        if len(shape) != 2:
            return self.arithmetic(dtype, shape, uniform, depth)
        inner = self.choices.choose([4, 3, 8])
        self.choices.note("matmul")
        a = self.bounded_term(dtype, (shape[0], inner), uniform, depth, SMALL_BOUND)
        b = self.bounded_term(dtype, (inner, shape[1]), uniform, depth, SMALL_BOUND)
        return self.with_positive_zero(Term(f"({a.text} @ {b.text})", a.bound * b.bound * inner), dtype)
