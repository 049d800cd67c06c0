"""Families of statements on tiles: constructors, subscripts, sorts, reductions, scans, matmuls, structs, random
numbers, factorisations and transforms of small matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from families import family

if TYPE_CHECKING:
    from family_programs import FamilyProgram


# References -----------------------------------------------------------------------------------------------------------


def draw_normal(state: Any) -> Any:
    """A normally distributed number, drawn from a state of the generator."""
    from family_programs import pcg

    first = pcg(state)
    second = pcg(first)
    f, g = ((s >> np.uint64(8)) / 2.0**24 for s in (first, second))
    return np.sqrt(-2 * np.log(f + 5.96e-8)) * np.cos(2 * np.pi * g)


def heaviest(bodies: Any) -> int:
    return int(np.argmax(bodies["n"]))


def replaced(t: Any, position: Any, value: Any) -> Any:
    array = np.array(t)
    array[position] = value
    return array


def added_at(tile: Any, index: Any, value: Any) -> Any:
    array = np.array(tile)
    np.add.at(array, index, value)
    return array


def untile(p: FamilyProgram, tile: str) -> str:
    """The expression that gives each thread the tile's element at the thread's index; the tile has an element for each
    thread."""
    return f"tg.untile({tile})"


# Constructors and shapes ----------------------------------------------------------------------------------------------


@family
def like_constructors(p: FamilyProgram) -> None:
    x, y, k = p.operand("int"), p.operand("int"), p.rng.randint(-5, 5)
    t = p.fresh_name("t")
    p.emit(f"{t} = tg.tile({x})\ne{t} = tg.tile_empty_like({t})\ntg.tile_assign(e{t}, tg.tile({y}))", "pass")
    text = p.rng.choice(
        (
            (f"tg.tile_full_like({t}, {k}) + e{t}", f"{k} + {y}", y.bound + 5),
            (f"tg.tile_ones_like({t}) * {t} - tg.tile_zeros_like(e{t})", f"{x} + 0", x.bound),
            (f"tg.tile_full_like({t}, {k}.0, dtype=float).astype(int) + {t}", f"{k} + {x}", x.bound + 5),
        )
    )
    p.define("int", untile(p, text[0]), *text[1:])


@family
def tile_selects(p: FamilyProgram) -> None:
    """tile_where with broadcasts, and with conditions that are tiles of bools."""
    x, y = p.operand("int"), p.operand("int")
    k = p.rng.choice((2, 4))
    text, reference = p.rng.choice(
        (
            (f"tg.tile_where(tg.tile({x}) > tg.tile({y}), tg.tile({x}), 7)", f"np.where({x} > {y}, {x}, 7)"),
            (
                f"tg.tile_where((tg.tile({x}) > 0) & ~(tg.tile({y}) > 2), tg.tile({y}), tg.tile({x}))",
                f"np.where(({x} > 0) & ~({y} > 2), {y}, {x})",
            ),
            (
                f"tg.tile_where(tg.tile_arange({k}, dtype=int)[None, :] > 0, tg.tile({x}).reshape(-1, "
                f"{k}), tg.tile({y}).reshape(-1, {k})).reshape(-1)",
                f"np.where(np.arange({k}) > 0, {x}.reshape(-1, {k}), {y}.reshape(-1, {k})).ravel()",
            ),
        )
    )
    p.define("int", untile(p, text), reference, x.bound + y.bound + 7)


@family
def new_axes(p: FamilyProgram) -> None:
    """Outer combinations of two tiles by t[:, None]."""
    x, y = p.operand("int"), p.operand("int")
    t = p.fresh_name("t")
    operator, bound = p.rng.choice(
        (("+", x.bound + y.bound), ("*", x.bound * y.bound), ("-", x.bound + y.bound))
    )
    p.emit(
        f"{t} = tg.tile({x})[:8][:, None] {operator} tg.tile({y})[None, :8]",
        f"{t} = {x}[:8, None] {operator} {y}[None, :8]",
    )
    if bound * 8 < 1e6:
        p.define("int", f"{t}[j % 8, ({x} & 7)]", f"{t}[j % 8, {x} & 7]", bound)
        p.define("int", f"tg.tile_sum({t}, axis=0)[j % 8]", f"{t}.sum(0)[j % 8]", bound * 8)
        p.define("int", f"{t}.T[j // 2 % 8, 1]", f"{t}[1, j // 2 % 8]", bound)


@family
def shapes(p: FamilyProgram) -> None:
    """Slices with steps, permutations, padding and concatenation."""
    x, y = p.operand("int"), p.operand("int")
    k = p.rng.choice((2, 4))
    text, reference = p.rng.choice(
        (
            (f"tg.tile({x})[::-1]", f"{x}[::-1]"),
            (
                f"tg.tile_concat((tg.tile({x})[::2], tg.tile({y})[1::2]))",
                f"np.concatenate([{x}[::2], {y}[1::2]])",
            ),
            (
                f"tg.tile_permute(tg.tile({x}).reshape(2, {k}, -1), (2, 0, 1)).reshape(-1)",
                f"{x}.reshape(2, {k}, -1).transpose(2, 0, 1).ravel()",
            ),
            (f"tg.tile({x}).reshape({k}, -1).T.reshape(-1)", f"{x}.reshape({k}, -1).T.ravel()"),
            (
                f"tg.tile_pad(tg.tile({x})[3:], ((1, 2),), value=-4)",
                f"np.pad({x}[3:], (1, 2), constant_values=-4)",
            ),
            (
                f"tg.tile_zeros_like(tg.tile({y})) + tg.tile({x})[2:3]",
                f"{x}[2] + 0 * {x}",
            ),
            (f"tg.tile_squeeze(tg.tile({x}).reshape(1, -1, 1))", f"{x} + 0"),
            (
                f"tg.tile_concat((tg.tile({x}), tg.tile({y})))[3:{p.lanes + 3}]",
                f"np.concatenate([{x}, {y}])[3:{p.lanes + 3}]",
            ),
        )
    )
    p.define("int", untile(p, text), reference, x.bound + y.bound + 4)


@family
def views(p: FamilyProgram) -> None:
    """Views of a tile in memory: an assignment through one view is visible through the other views."""
    x, y, t = p.operand("int"), p.operand("int"), p.fresh_name("t")
    k = p.rng.randint(0, 3)
    storage = p.rng.choice(("register", "shared"))
    p.emit(
        f"{t} = tg.tile_zeros({p.lanes}, dtype=int, storage='{storage}')\n{t} += tg.tile({x})\n"
        f"v{t} = {t}[{k}:{k} + 4]\nv{t} += tg.tile({y})[:4]\n"
        f"w{t} = {t}.reshape(2, -1)\nw{t}[1, {k}] = v{t}[1]\n{t}[::2] = {t}[1::2]",
        f"{t} = {x} + 0\nv{t} = {t}[{k}:{k} + 4]\nv{t} += {y}[:4]\nw{t} = {t}.reshape(2, -1)\n"
        f"w{t}[1, {k}] = v{t}[1]\n{t}[::2] = {t}[1::2].copy()",
    )
    p.define("int", untile(p, t), f"{t} + 0", x.bound + y.bound)
    p.define("int", f"w{t}[1, j % 4] - v{t}[2]", f"w{t}[1, j % 4] - v{t}[2]", 2 * (x.bound + y.bound))


@family
def gathers(p: FamilyProgram) -> None:
    """Rows and elements gathered by tiles of indices, and assignments to gathered elements."""
    x, y, t = p.operand("int"), p.operand("int"), p.fresh_name("t")
    p.emit(
        f"{t} = tg.tile_load(sq, (4, 4)).astype(int)\ni{t}, c{t} = tg.tile({x} & 3), tg.tile({y} & 3)\n"
        f"r{t} = {t}[i{t}]\n{t}[i{t}, c{t}] += tg.tile({y} % 50)\n{t}[c{t}[:2]] += 1",
        f"{t} = D['sq'].astype(int)\ni{t}, c{t} = {x} & 3, {y} & 3\nr{t} = {t}[i{t}]\n"
        f"{t} = added_at({t}, (i{t}, c{t}), remainder({y}, 50))\n{t} = added_at({t}, (c{t}[:2],), 1)",
    )
    p.define("int", f"r{t}[j, 1]", f"r{t}[j, 1]", 4)
    p.define("int", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 4 + 50 * p.lanes)
    text = f"tg.tile_slice_indexed({t}, c{t}, axis=1)[2, j]"
    p.define("int", text, f"{t}[:, c{t}][2, j]", 4 + 50 * p.lanes)


# Sorts ----------------------------------------------------------------------------------------------------------------


@family
def sorts(p: FamilyProgram) -> None:
    x, y, t = p.operand("int"), p.operand("int"), p.fresh_name("t")
    descending = p.rng.random() < 0.5
    direction = f"descending={descending}"
    sign = "-" if descending else ""
    kind = p.rng.choice(("keys", "lines", "argsort", "topk", "floats"))
    p.families.add(f"sorts of {kind}")
    if kind == "keys":
        p.emit(f"{t} = tg.tile({x})\ntg.tile_sort({t}, {t}, {direction})", f"{t} = {sign}np.sort({sign}{x})")
        p.define("int", untile(p, t), f"{t} + 0", x.bound)
    elif kind == "lines":
        axis = p.rng.randint(0, 1)
        p.emit(
            f"{t}, v{t} = tg.tile({x}).reshape(4, -1), tg.tile({y}).reshape(4, -1)\n"
            f"tg.tile_sort({t}, v{t}, axis={axis}, {direction})",
            f"o{t} = np.argsort({sign}{x}.reshape(4, -1), {axis}, kind='stable')\n"
            f"v{t} = np.take_along_axis({y}.reshape(4, -1), o{t}, {axis})",
        )
        p.define("int", untile(p, f"v{t}.reshape(-1)"), f"v{t}.ravel()", y.bound)
    elif kind == "argsort":
        text = f"tg.tile_argsort(tg.tile({x}).reshape(-1, 4), axis=1, {direction}).reshape(-1)"
        p.define("int", untile(p, text), f"np.argsort({sign}{x}.reshape(-1, 4), 1, kind='stable').ravel()", 4)
    elif kind == "topk":
        k = p.rng.randint(1, 8)
        p.emit(
            f"{t}, i{t} = tg.tile_topk(tg.tile({x}), {k})",
            f"i{t} = np.argsort(-{x}, kind='stable')[:{k}]\n{t} = {x}[i{t}]",
        )
        p.define("int", f"{t}[j % {k}]", f"{t}[j % {k}]", x.bound)
        p.define("int", f"i{t}[j % {k}]", f"i{t}[j % {k}]", p.lanes)
    else:
        f = p.operand("float")
        p.emit(
            f"{t}, v{t} = tg.tile({f}), tg.tile({x})\ntg.tile_sort({t}, v{t}, {direction})",
            f"o{t} = np.argsort({sign}{f} + 0.0, kind='stable')",
        )
        # The language sorts -0.0 before 0.0, so only the keys are compared.
        p.define("float", untile(p, t) + " + 0.0", f"{f}[o{t}] + 0.0", f.bound, f.denominator)


@family
def order_statistics(p: FamilyProgram) -> None:
    x, f = p.operand("int"), p.operand("float")
    p.define(
        "float",
        f"tg.tile_median(tg.tile({f}))[0] + float(j)",
        f"np.median({f}) + j",
        f.bound + p.lanes,
        2 * f.denominator,
    )
    p.define(
        "int",
        f"tg.tile_histogram(tg.tile({x} % 9), 8)[j % 8]",
        f"np.histogram(remainder({x}, 9), 8, (-0.5, 7.5))[0][j % 8]",
        p.lanes,
    )


# Reductions and scans -------------------------------------------------------------------------------------------------

LARGER = """
@tg.func
def larger(x: int, y: int):
    return tg.max(x, y)
"""


@family
def reductions(p: FamilyProgram) -> None:
    x, y = p.operand("int"), p.operand("int")
    p.functions.append(LARGER)
    cube, plain = f"tg.tile({x}).reshape(2, -1, 2)", f"{x}.reshape(2, -1, 2)"
    text, reference, bound = p.rng.choice(
        [
            (
                f"tg.tile_sum({cube}, axis=(0, 2))[j % {p.lanes // 4}]",
                f"{plain}.sum((0, 2))[j % {p.lanes // 4}]",
                4 * x.bound,
            ),
            (
                f"tg.tile_max({cube}, axis=1, keepdims=True)[j % 2, 0, 1]",
                f"{plain}.max(1)[j % 2, 1]",
                x.bound,
            ),
            (
                f"tg.tile_reduce(larger, {cube}, axis=-1)[1, j % {p.lanes // 4}]",
                f"{plain}.max(-1)[1, j % {p.lanes // 4}]",
                x.bound,
            ),
            (
                f"tg.tile_reduce(lambda p, q: p + q, tg.tile({x}))[0] - j",
                f"{x}.sum() - j",
                (x.bound + 1) * p.lanes,
            ),
            (f"{cube}.min(axis=0)[j % {p.lanes // 4}, 1]", f"{plain}.min(0)[j % {p.lanes // 4}, 1]", x.bound),
            (f"tg.tile_argmax({cube}, axis=1)[j % 2, 0]", f"{plain}.argmax(1)[j % 2, 0]", p.lanes),
            (f"tg.tile_argmin(tg.tile({x}))[0] + j", f"{x}.argmin() + j", 2 * p.lanes),
            (
                f"tg.tile_dot(tg.tile({x}) % 50, tg.tile({y}) % 50)[0] - j",
                f"(remainder({x}, 50) * remainder({y}, 50)).sum() - j",
                2501 * p.lanes,
            ),
            (
                f"int(tg.tile_any(tg.tile({x}) > 5)[0]) + 2 * int((tg.tile({y}) > -5).all()[0]) + j",
                f"({x} > 5).any() + 2 * ({y} > -5).all() + j",
                p.lanes + 3,
            ),
            (f"int(({cube} > 0).any(axis=1)[0, j % 2])", f"({plain} > 0).any(1)[0, j % 2] * 1", 1),
        ]
    )
    p.define("int", text, reference, bound)


@family
def scans(p: FamilyProgram) -> None:
    x, f, t = p.operand("int"), p.operand("float"), p.fresh_name("t")
    axis, rows = p.rng.randint(-2, 1), p.rng.choice((2, 4))
    plane, plain = f"tg.tile({x}).reshape({rows}, -1)", f"{x}.reshape({rows}, -1)"
    text, reference = p.rng.choice(
        [
            (f"tg.tile_scan_max_inclusive({plane}, axis={axis})", f"np.maximum.accumulate({plain}, {axis})"),
            (f"tg.tile_scan_min_inclusive({plane}, axis={axis})", f"np.minimum.accumulate({plain}, {axis})"),
            (f"tg.tile_scan_exclusive({plane}, axis={axis})", f"np.cumsum({plain}, {axis}) - {plain}"),
            (f"tg.tile_cumsum({plane}, axis={axis})", f"np.cumsum({plain}, {axis})"),
            (f"tg.tile_cumsum({plane})", f"np.cumsum({plain})"),
        ]
    )
    p.define("int", untile(p, f"{text}.reshape(-1)"), f"np.ravel({reference})", x.bound * p.lanes)
    p.emit(
        f"{t} = tg.tile({f})\ntg.tile_cumsum_inplace({t})\ntg.tile_scan_max_inclusive_inplace({t})", "pass"
    )
    p.define(
        "float",
        untile(p, t) + " + 0.0",
        f"np.maximum.accumulate(np.cumsum({f})) + 0.0",
        f.bound * p.lanes,
        f.denominator,
    )


# Matmuls --------------------------------------------------------------------------------------------------------------


@family
def matmuls(p: FamilyProgram) -> None:
    """Matmuls with another accumulator type, with alpha and beta, and in a pipelined loop over chunks."""
    x, t = p.operand("int"), p.fresh_name("t")
    kind = p.rng.choice(("halves", "bytes", "factors", "loop", "types"))
    p.families.add(f"matmuls of {kind}")
    if kind in ("halves", "bytes"):
        narrow, wide = ("tg.float16", "float") if kind == "halves" else ("tg.int8", "int")
        p.emit(
            f"{t} = tg.tile({x} % 9).reshape(-1, 4).astype({narrow})\n"
            f"{t} = tg.tile_matmul({t}, tg.tile_transpose({t}), dtype={wide})",
            f"{t} = remainder({x}, 9).reshape(-1, 4)\n{t} = {t} @ {t}.T",
        )
        n = p.lanes // 4
        p.define("int" if kind == "bytes" else "float", f"{t}[j % {n}, j // 4]", f"{t}[j % {n}, j // 4]", 256)
    elif kind == "factors":
        p.emit(
            f"{t} = tg.tile_ones((4, 4))\ntg.tile_matmul(tg.tile_load(sq, (4, 4)), tg.tile_load(spd[b], "
            f"(4, 4)), {t}, alpha=2.0, beta=-3.0)",
            f"{t} = 2 * D['sq'] @ D['spd'][b] - 3",
        )
        p.define("float", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 2 * 4 * 3 * 64 + 3)
    elif kind == "loop":
        stages = p.rng.choice((2, 3))
        p.emit(
            f"{t} = tg.tile_zeros((4, 4))\nfor k{t} in tg.pipelined(0, n, stages={stages}):\n"
            f"    {t} += tg.tile_load(sq, (4, 4)) @ tg.tile_load(spd[k{t} % 2], (4, 4)) * float(k{t} + 1)",
            f"{t} = sum(D['sq'] @ D['spd'][k % 2] * (k + 1) for k in range(n))",
        )
        p.define("float", f"{t}[j // 4 % 4, j % 4]", f"{t}[j // 4 % 4, j % 4]", 6 * 4 * 3 * 64)
    else:
        dtype = p.rng.choice(("tg.float64", "tg.float16", "tg.bfloat16", "tg.int64", "tg.uint8"))
        p.emit(
            f"{t} = (tg.tile({x}) & 3).reshape(4, -1).astype({dtype})\n{t} = {t} @ {t}.T",
            f"{t} = ({x} & 3).reshape(4, -1)\n{t} = {t} @ {t}.T" + (" & 255" if "uint8" in dtype else ""),
        )
        # Sums are at most 9 * 16, which fits 8 bits.
        p.define("int", f"int({t}[j % 4, j // 4 % 4])", f"{t}[j % 4, j // 4 % 4]", 256)


# Values of threads in tiles -------------------------------------------------------------------------------------------


@family
def thread_values(p: FamilyProgram) -> None:
    x, y, v, t = p.operand("int"), p.operand("int"), p.operand("vec"), p.fresh_name("t")
    kind = p.rng.choice(("from_thread", "scatter", "masked", "local", "extract", "stack", "writes"))
    p.families.add(f"thread_values by {kind}")
    k = p.rng.randint(0, 7)
    if kind == "from_thread":
        p.emit(
            f"{t} = tg.tile_from_thread(4, {x}, {k})\nv{t} = tg.tile_from_thread((2, 2), {v}, {k} // 2)",
            "pass",
        )
        p.define("int", f"{t}[j % 4] + j", f"{x}[{k}] + j", x.bound + p.lanes)
        p.define("vec", f"v{t}[j % 2, 1] + {v}", f"{v}[{k // 2}] + {v}", 2 * v.bound, v.denominator)
    elif kind == "scatter":
        p.emit(
            f"{t} = tg.tile_zeros((4, 2), dtype=int)\ntg.tile_scatter_add({t}, {x} & 3, {y} & 1, {y}, {x} > 0)",
            f"{t} = added_at(np.zeros((4, 2), int), ({x} & 3, {y} & 1), np.where({x} > 0, {y}, 0))",
        )
        p.define("int", f"{t}[j % 4, j // 4 % 2]", f"{t}[j % 4, j // 4 % 2]", y.bound * p.lanes)
    elif kind == "masked":
        p.emit(
            f"{t} = tg.tile({y})\ntg.tile_scatter_masked({t}, (j * 3 + {k}) % {p.lanes}, {x}, {x} > {y})",
            f"{t} = {y} + 0\n{t}[((j * 3 + {k}) % {p.lanes})[{x} > {y}]] = {x}[{x} > {y}]",
        )
        p.define("int", untile(p, t), f"{t} + 0", x.bound + y.bound)
    elif kind == "local":
        p.emit(
            f"{t} = tg.tile_local(tg.tile_concat((tg.tile({x}), tg.tile({y}))).reshape(8, -1), (4, "
            f"{p.lanes // 4}))\n"
            f"{t} = {t} + {t}\nv{t} = tg.tile_from_local({t}, (4, {p.lanes // 4}), (8, {p.lanes // 4}))",
            f"v{t} = 2 * np.concatenate([{x}, {y}]).reshape(8, -1)",
        )
        p.define(
            "int", f"{t}[1, 0]", f"v{t}[4 + j // {p.lanes // 4}, j % {p.lanes // 4}]", 2 * (x.bound + y.bound)
        )
        p.define("int", f"v{t}[j % 8, j // 8]", f"v{t}[j % 8, j // 8]", 2 * (x.bound + y.bound))
    elif kind == "extract":
        text = f"tg.tile_extract(tg.tile({x}).reshape(-1, 4), j // 4, {y} & 3)"
        p.define("int", text, f"{x}.reshape(-1, 4)[j // 4, {y} & 3]", x.bound)
    elif kind == "stack":
        p.emit(
            f"{t} = tg.tile_stack({p.lanes}, int)\ntg.tile_stack_push({t}, {x}, {y} > 0)\n"
            f"c{t} = tg.tile_stack_count({t})\n"
            f"v{t}, s{t} = tg.tile_stack_pop({t})\nv{t} = tg.where(s{t} >= 0, v{t}, 0)",
            f"c{t} = ({y} > 0).sum() + 0 * j\nv{t} = {x}[{y} > 0].sum() + 0 * j",
        )
        p.define("int", f"c{t} + j", f"c{t} + j", 2 * p.lanes)
        p.define("int", f"tg.tile_sum(tg.tile(v{t}))[0] - j", f"v{t} - j", x.bound * p.lanes + p.lanes)
    else:
        p.emit(
            f"{t} = tg.tile_zeros({p.lanes}, dtype=int, storage='shared')\n{t}[(j + {k}) % {p.lanes}] = {x}\n"
            f"if {x} > {y}:\n    {t}[{y} & 7] += 2\n{t}[j ^ 1] -= {y}",
            f"{t} = np.zeros({p.lanes}, int)\n{t}[(j + {k}) % {p.lanes}] = {x}\n"
            f"{t} = added_at({t}, {y} & 7, np.where({x} > {y}, 2, 0))\n{t}[j ^ 1] -= {y}",
        )
        p.define(
            "int",
            f"{t}[(j * 5 + 2) % {p.lanes}]",
            f"{t}[(j * 5 + 2) % {p.lanes}]",
            x.bound + y.bound + 2 * p.lanes,
        )


@family
def algebra(p: FamilyProgram) -> None:
    """Additions to diagonals, axpy, and tiles of vectors, quaternions, matrices and bools."""
    x, f, v, q, m, t = (*(p.operand(k) for k in ("int", "float", "vec", "quat", "mat")), p.fresh_name("t"))
    kind = p.rng.choice(("diagonal", "axpy", "vectors", "quaternions", "matrices", "bools"))
    p.families.add(f"algebra of {kind}")
    if kind == "diagonal":
        p.emit(
            f"{t} = tg.tile_diag_add(tg.tile({f})[:4][:, None] * tg.tile_ones((1, 4)), tg.tile({f})[4:8])",
            f"{t} = {f}[:4, None] * np.ones((1, 4)) + np.diag({f}[4:8])",
        )
        p.define("float", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 2 * f.bound, f.denominator)
    elif kind == "axpy":
        p.emit(
            f"{t} = tg.tile({f})\ntg.tile_axpy(-0.5, tg.tile({f})[::-1], {t})\ntg.tile_axpy(2.0, {t}[1:2], {t})",
            f"{t} = {f} - 0.5 * {f}[::-1]\n{t} = {t} + 2 * {t}[1]",
        )
        p.define("float", untile(p, t) + " + 0.0", f"{t} + 0.0", 4.5 * f.bound, 2 * f.denominator)
    elif kind == "vectors":
        p.emit(
            f"{t} = tg.tile({v}, preserve_type=True)\n{t}[::2] = {t}[1::2]\n"
            f"m{t} = tg.tile_map(tg.cross, {t}, tg.vec3(1.0, 0.0, 2.0))",
            f"{t} = {v}.copy()\n{t}[::2] = {t}[1::2]\nm{t} = np.cross({t}, [1, 0, 2])",
        )
        p.define(
            "vec", f"m{t}[{p.lanes} - 1 - j] + {t}[0]", f"m{t}[::-1] + {t}[0]", 4 * v.bound, v.denominator
        )
    elif kind == "quaternions":
        p.emit(
            f"{t} = tg.tile({q}, preserve_type=True)\n"
            f"r{t} = tg.tile_map(tg.quat_rotate, {t}, tg.tile({v}, preserve_type=True))",
            f"r{t} = quat_rotate({q}, {v})",
        )
        p.define("vec", f"r{t}[j ^ 1]", f"r{t}[j ^ 1]", 1.8 * v.bound, 4 * v.denominator)
        p.define("quat", f"{t}[j ^ 1] * {t}[j]", f"quat_multiply({q}[j ^ 1], {q})", 1, 2)
    elif kind == "matrices":
        p.emit(
            f"{t} = tg.tile({m}, preserve_type=True)\ns{t} = tg.tile_sum({t})[0]",
            f"s{t} = {m}.sum(0) + 0 * {m}",
        )
        p.define("mat", f"{t}[j ^ 3] - {m}", f"{m}[j ^ 3] - {m}", 2 * m.bound, m.denominator)
        p.define("mat", f"s{t}", f"s{t}", p.lanes * m.bound, m.denominator)
    else:
        text = (
            f"((tg.tile({x}) > 2) ^ (tg.tile({f}) > 0.0)).astype(int) + (tg.tile({x}) == 0).astype(int) * 2"
        )
        p.define("int", untile(p, text), f"(({x} > 2) ^ ({f} > 0)) * 1 + ({x} == 0) * 2", 3)


HEAVIER = """
@tg.func
def heavier(p: Body, q: Body):
    if q.n > p.n:
        return q
    return p
"""


@family
def structs(p: FamilyProgram) -> None:
    """Tiles of structs: loads, views, elements, sums, maps and reductions."""
    b, x, t = p.operand("body"), p.operand("int"), p.fresh_name("t")
    p.functions.append(HEAVIER)
    p.emit(
        f"{t} = tg.tile_load(bodies, 8)\nif j == 0:\n    {t}[3] = {b}\n    {t}[{x} & 1].n += 40\n"
        f"s{t} = tg.tile_sum(tg.tile_load(bodies, 8)[2:6])[0]\n"
        f"h{t} = tg.tile_reduce(heavier, tg.tile_load(bodies, 8))[0]",
        f"{t} = {{k: D['bodies'][k].astype(float if k != 'n' else int) for k in 'nvq'}}\n"
        f"for k in 'nvq':\n    {t}[k][3] = {b}[k][0]\n{t}['n'][{x}[0] & 1] += 40\n"
        f"s{t} = {{k: D['bodies'][k][2:6].astype(float if k != 'n' else int).sum(0) for k in 'nvq'}}\n"
        f"h{t} = D['bodies'][heaviest(D['bodies'])]",
    )
    p.define("int", f"{t}[j % 4].n - s{t}.n", f"{t}['n'][j % 4] - s{t}['n']", b.bound + 100)
    p.define(
        "vec", f"{t}[3 - j % 4].v + s{t}.v", f"{t}['v'][3 - j % 4] + s{t}['v']", b.bound + 12, b.denominator
    )
    p.define("int", f"h{t}.n + j", f"h{t}['n'] + j", p.lanes + 9)


# Random numbers -------------------------------------------------------------------------------------------------------


@family
def random_tiles(p: FamilyProgram) -> None:
    t, seed = p.fresh_name("t"), p.rng.randint(0, 99)
    kind = p.rng.choice(("normal", "uniform", "integer"))
    p.emit(f"{t} = tg.rand_init({seed}, b)", f"{t} = int(rand_init({seed}, b))")
    p.families.add(f"random_tiles of {kind}")
    if kind == "normal":
        text, reference = (
            f"tg.tile_randn((2, 4), {t})[j % 2, j // 2 % 4]",
            f"draw_normal(pcg((j % 2 * 4 + j // 2 % 4 + {t}) & MASK))",
        )
        p.define("rounded", text, reference, 6)
    elif kind == "uniform":
        text = f"tg.floor(tg.tile_randf((2, 4), {t}) * 16.0)[j % 2, j // 2 % 4]"
        p.define(
            "float",
            text,
            f"np.floor((pcg(pcg((j % 2 * 4 + j // 2 % 4 + {t}) & MASK)) >> np.uint64(8)) / 2.0**20)",
            16,
        )
    else:
        text = f"tg.tile_randi({p.lanes}, {t}, -5, 20)"
        p.define("int", untile(p, text), f"rand_int(pcg(pcg((j + {t}) & MASK)), -5, 20)", 20)


# Small matrices and transforms ----------------------------------------------------------------------------------------


@family
def solvers(p: FamilyProgram) -> None:
    """Factorisations and solutions; solutions by Cholesky factors with powers of two on their diagonals are exact."""
    t, index_text = p.fresh_name("t"), "[j % 4, j // 4 % 4]"
    load = "tg.tile_load({}[b], (4, 4))"
    kind = p.rng.choice(("solve", "inverse", "determinant", "cholesky_solve", "upper", "lu"))
    p.families.add(f"solvers by {kind}")
    permuted, rhs = load.format("permuted"), "tg.tile_load(rhs[b], 4)"
    if kind == "solve":
        p.define("rounded", f"tg.tile_solve({permuted}, {rhs})[j % 4]", "D['x'][b][j % 4]", 4)
    elif kind == "inverse":
        p.emit(f"{t} = tg.tile_inverse({permuted}) @ {permuted}", "pass")
        p.define("rounded", f"{t}{index_text}", f"np.eye(4){index_text}", 1)
    elif kind == "determinant":
        text = f"tg.tile_determinant({permuted})[0] + float(j)"
        p.define("rounded", text, "np.linalg.det(D['permuted'][b]) + j", 16 + p.lanes)
    elif kind == "cholesky_solve":
        p.emit(f"{t} = tg.tile_cholesky({load.format('spd')})", "pass")
        text = f"tg.tile_cholesky_solve({t}, {load.format('spd')} @ tg.tile_load(sq, (4, 4))){index_text}"
        p.define("float", text, f"D['sq']{index_text}", 3)
    elif kind == "upper":
        p.emit(f"{t} = tg.tile_cholesky({load.format('spd')}, fill_mode='upper')", "pass")
        p.define("rounded", f"({t}.T @ {t}){index_text}", f"D['spd'][b]{index_text}", 64)
    else:
        p.emit(f"{t}, p{t} = tg.tile_lu({permuted})", "pass")
        p.define("rounded", f"tg.tile_lu_solve({t}, p{t}, {rhs})[j % 4]", "D['x'][b][j % 4]", 4)


@family
def decompositions(p: FamilyProgram) -> None:
    """Decompositions with rounded results: eigenvalues, singular values, QR factors and least squares."""
    t, index_text = p.fresh_name("t"), "[j % 4, j // 4 % 4]"
    kind = p.rng.choice(("eigh", "svd", "qr", "lstsq"))
    p.families.add(f"decompositions by {kind}")
    square, spd = "tg.tile_load(sq, (4, 4))", "tg.tile_load(spd[b], (4, 4))"
    if kind == "eigh":
        p.emit(f"w{t}, {t} = tg.tile_eigh({spd})", "pass")
        p.define("rounded", f"w{t}[j % 4]", "np.linalg.eigvalsh(D['spd'][b])[j % 4]", 64)
        p.define("rounded", f"({t} * w{t}[None, :] @ {t}.T){index_text}", f"D['spd'][b]{index_text}", 64)
    elif kind == "svd":
        p.emit(f"{t}, s{t}, v{t} = tg.tile_svd({square})", "pass")
        p.define("rounded", f"s{t}[j % 4]", "np.linalg.svd(D['sq'])[1][j % 4]", 16)
    elif kind == "qr":
        p.emit(f"{t}, r{t} = tg.tile_qr({square})", "pass")
        p.define("rounded", f"({t} @ r{t}){index_text}", f"D['sq']{index_text}", 3)
        p.define("rounded", f"({t}.T @ {t}){index_text}", f"np.eye(4){index_text}", 1)
    else:
        p.define(
            "rounded",
            f"tg.tile_lstsq({spd}[:, :2], tg.tile_load(rhs[b], 4))[j % 2]",
            "np.linalg.lstsq(D['spd'][b][:, :2], D['rhs'][b], rcond=None)[0][j % 2]",
            99,
        )


@family
def transforms(p: FamilyProgram) -> None:
    x, y, t = p.operand("int"), p.operand("int"), p.fresh_name("t")
    kind = p.rng.choice(("fft", "ifft", "fft2", "rfft", "dct", "rounded"))
    p.families.add(f"transforms by {kind}")
    bound = 4 * (x.bound + y.bound)
    if bound > 1e5:
        return
    text = f"tg.tile_map(lambda p, q: tg.vec2(p, q), tg.tile(float({x})), tg.tile(float({y}))).reshape(-1, 4)"
    plain = f"({x} + 1j * {y}).reshape(-1, 4)"
    part = p.rng.choice((("[0]", "real"), ("[1]", "imag")))
    index = "[j // 4, j % 4]"
    if kind in ("fft", "ifft"):
        p.emit(
            f"{t} = {text}\ntg.tile_{kind}({t})",
            f"{t} = np.round(np.fft.{kind}({plain}){' * 4' if kind == 'ifft' else ''})",
        )
        p.define("float", f"{t}{index}{part[0]} + 0.0", f"{t}.{part[1]}{index} + 0.0", bound)
    elif kind == "fft2":
        p.emit(f"{t} = {text}[:2]\ntg.tile_fft2({t})", f"{t} = np.round(np.fft.fft2({plain}[:2]))")
        p.define(
            "float",
            f"{t}[j // 4 % 2, j % 4]{part[0]} + 0.0",
            f"{t}.{part[1]}[j // 4 % 2, j % 4] + 0.0",
            2 * bound,
        )
    elif kind == "rfft":
        p.emit(
            f"{t} = tg.tile_rfft(tg.tile(float({x})).reshape(-1, 4))",
            f"{t} = np.round(np.fft.rfft({x}.reshape(-1, 4)))",
        )
        p.define("float", f"{t}[j // 4, j % 3]{part[0]} + 0.0", f"{t}.{part[1]}[j // 4, j % 3] + 0.0", bound)
        p.define(
            "float", f"tg.tile_irfft({t}, 4){index} + 0.0", f"4.0 * {x}.reshape(-1, 4){index}", 4 * x.bound
        )
    elif kind == "dct":
        p.define(
            "rounded",
            f"tg.tile_idct(tg.tile_dct(tg.tile(float({x})).reshape(-1, 8)))[j // 8, j % 8]",
            f"16.0 * {x}",
            x.bound,
        )
    else:
        p.emit(f"{t} = {text}.reshape(-1, 8)\ntg.tile_fft({t})", f"{t} = np.fft.fft({plain}.reshape(-1, 8))")
        p.define("rounded", f"{t}[j // 8, j % 8]{part[0]}", f"{t}.{part[1]}[j // 8, j % 8]", bound)
