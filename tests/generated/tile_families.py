"""Families of statements on tiles: makers, subscripts, sorts, reductions, scans, matmuls, structs, random numbers,
factors and transforms of small matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from families import family

if TYPE_CHECKING:
    from family_programs import FamilyProgram


# Meanings -------------------------------------------------------------------------------------------------------------


def normal(state: Any) -> Any:
    """A draw of the normal distribution, from the state before it."""
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


def added(t: Any, position: Any, value: Any) -> Any:
    array = np.array(t)
    np.add.at(array, position, value)
    return array


def lanes(p: FamilyProgram, tile: str) -> str:
    """The elements of a tile of as many elements as the block has threads, each at its thread."""
    return f"tg.untile({tile})"


# Makers and shapes ----------------------------------------------------------------------------------------------------


@family
def zeros_and_ones_like(p: FamilyProgram) -> None:
    x, y, k = p.pick("int"), p.pick("int"), p.r.randint(-5, 5)
    t = p.fresh("t")
    p.both(f"{t} = tg.tile({x})\ne{t} = tg.tile_empty_like({t})\ntg.tile_assign(e{t}, tg.tile({y}))", "pass")
    text = p.r.choice(
        (
            (f"tg.tile_full_like({t}, {k}) + e{t}", f"{k} + {y}", y.bound + 5),
            (f"tg.tile_ones_like({t}) * {t} - tg.tile_zeros_like(e{t})", f"{x} + 0", x.bound),
            (f"tg.tile_full_like({t}, {k}.0, dtype=float).astype(int) + {t}", f"{k} + {x}", x.bound + 5),
        )
    )
    p.new("int", lanes(p, text[0]), *text[1:])


@family
def chosen_tiles(p: FamilyProgram) -> None:
    """tile_where with broadcasts, and conditions of tiles of bools."""
    x, y = p.pick("int"), p.pick("int")
    k = p.r.choice((2, 4))
    text, meaning = p.r.choice(
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
    p.new("int", lanes(p, text), meaning, x.bound + y.bound + 7)


@family
def new_axes(p: FamilyProgram) -> None:
    """Outer combinations by t[:, None]."""
    x, y = p.pick("int"), p.pick("int")
    t = p.fresh("t")
    op, bound = p.r.choice((("+", x.bound + y.bound), ("*", x.bound * y.bound), ("-", x.bound + y.bound)))
    p.both(
        f"{t} = tg.tile({x})[:8][:, None] {op} tg.tile({y})[None, :8]",
        f"{t} = {x}[:8, None] {op} {y}[None, :8]",
    )
    if bound * 8 < 1e6:
        p.new("int", f"{t}[j % 8, ({x} & 7)]", f"{t}[j % 8, {x} & 7]", bound)
        p.new("int", f"tg.tile_sum({t}, axis=0)[j % 8]", f"{t}.sum(0)[j % 8]", bound * 8)
        p.new("int", f"{t}.T[j // 2 % 8, 1]", f"{t}[1, j // 2 % 8]", bound)


@family
def shapes(p: FamilyProgram) -> None:
    """Slices with steps, permutations, pads, concatenations."""
    x, y = p.pick("int"), p.pick("int")
    k = p.r.choice((2, 4))
    text, meaning = p.r.choice(
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
    p.new("int", lanes(p, text), meaning, x.bound + y.bound + 4)


@family
def views(p: FamilyProgram) -> None:
    """Views of a tile in memory: an assignment through one view is visible through the others."""
    x, y, t = p.pick("int"), p.pick("int"), p.fresh("t")
    k = p.r.randint(0, 3)
    storage = p.r.choice(("register", "shared"))
    p.both(
        f"{t} = tg.tile_zeros({p.lanes}, dtype=int, storage='{storage}')\n{t} += tg.tile({x})\n"
        f"v{t} = {t}[{k}:{k} + 4]\nv{t} += tg.tile({y})[:4]\n"
        f"w{t} = {t}.reshape(2, -1)\nw{t}[1, {k}] = v{t}[1]\n{t}[::2] = {t}[1::2]",
        f"{t} = {x} + 0\nv{t} = {t}[{k}:{k} + 4]\nv{t} += {y}[:4]\nw{t} = {t}.reshape(2, -1)\n"
        f"w{t}[1, {k}] = v{t}[1]\n{t}[::2] = {t}[1::2].copy()",
    )
    p.new("int", lanes(p, t), f"{t} + 0", x.bound + y.bound)
    p.new("int", f"w{t}[1, j % 4] - v{t}[2]", f"w{t}[1, j % 4] - v{t}[2]", 2 * (x.bound + y.bound))


@family
def gathers(p: FamilyProgram) -> None:
    """Rows and elements by tiles of indices, and assignments to them."""
    x, y, t = p.pick("int"), p.pick("int"), p.fresh("t")
    p.both(
        f"{t} = tg.tile_load(sq, (4, 4)).astype(int)\ni{t}, c{t} = tg.tile({x} & 3), tg.tile({y} & 3)\n"
        f"r{t} = {t}[i{t}]\n{t}[i{t}, c{t}] += tg.tile({y} % 50)\n{t}[c{t}[:2]] += 1",
        f"{t} = D['sq'].astype(int)\ni{t}, c{t} = {x} & 3, {y} & 3\nr{t} = {t}[i{t}]\n"
        f"{t} = added({t}, (i{t}, c{t}), remainder({y}, 50))\n{t} = added({t}, (c{t}[:2],), 1)",
    )
    p.new("int", f"r{t}[j, 1]", f"r{t}[j, 1]", 4)
    p.new("int", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 4 + 50 * p.lanes)
    text = f"tg.tile_slice_indexed({t}, c{t}, axis=1)[2, j]"
    p.new("int", text, f"{t}[:, c{t}][2, j]", 4 + 50 * p.lanes)


# Sorts ----------------------------------------------------------------------------------------------------------------


@family
def orders(p: FamilyProgram) -> None:
    x, y, t = p.pick("int"), p.pick("int"), p.fresh("t")
    down = p.r.random() < 0.5
    way = f"descending={down}"
    sign = "-" if down else ""
    kind = p.r.choice(("keys", "lines", "argsort", "topk", "floats"))
    p.families.add(f"orders of {kind}")
    if kind == "keys":
        p.both(f"{t} = tg.tile({x})\ntg.tile_sort({t}, {t}, {way})", f"{t} = {sign}np.sort({sign}{x})")
        p.new("int", lanes(p, t), f"{t} + 0", x.bound)
    elif kind == "lines":
        axis = p.r.randint(0, 1)
        p.both(
            f"{t}, v{t} = tg.tile({x}).reshape(4, -1), tg.tile({y}).reshape(4, -1)\n"
            f"tg.tile_sort({t}, v{t}, axis={axis}, {way})",
            f"o{t} = np.argsort({sign}{x}.reshape(4, -1), {axis}, kind='stable')\n"
            f"v{t} = np.take_along_axis({y}.reshape(4, -1), o{t}, {axis})",
        )
        p.new("int", lanes(p, f"v{t}.reshape(-1)"), f"v{t}.ravel()", y.bound)
    elif kind == "argsort":
        text = f"tg.tile_argsort(tg.tile({x}).reshape(-1, 4), axis=1, {way}).reshape(-1)"
        p.new("int", lanes(p, text), f"np.argsort({sign}{x}.reshape(-1, 4), 1, kind='stable').ravel()", 4)
    elif kind == "topk":
        k = p.r.randint(1, 8)
        p.both(
            f"{t}, i{t} = tg.tile_topk(tg.tile({x}), {k})",
            f"i{t} = np.argsort(-{x}, kind='stable')[:{k}]\n{t} = {x}[i{t}]",
        )
        p.new("int", f"{t}[j % {k}]", f"{t}[j % {k}]", x.bound)
        p.new("int", f"i{t}[j % {k}]", f"i{t}[j % {k}]", p.lanes)
    else:
        f = p.pick("float")
        p.both(
            f"{t}, v{t} = tg.tile({f}), tg.tile({x})\ntg.tile_sort({t}, v{t}, {way})",
            f"o{t} = np.argsort({sign}{f} + 0.0, kind='stable')",
        )
        # -0.0 is below 0.0 for the language: keys only.
        p.new("float", lanes(p, t) + " + 0.0", f"{f}[o{t}] + 0.0", f.bound, f.denominator)


@family
def middles(p: FamilyProgram) -> None:
    x, f = p.pick("int"), p.pick("float")
    p.new(
        "float",
        f"tg.tile_median(tg.tile({f}))[0] + float(j)",
        f"np.median({f}) + j",
        f.bound + p.lanes,
        2 * f.denominator,
    )
    p.new(
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
    x, y = p.pick("int"), p.pick("int")
    p.functions.append(LARGER)
    cube, plain = f"tg.tile({x}).reshape(2, -1, 2)", f"{x}.reshape(2, -1, 2)"
    text, meaning, bound = p.r.choice(
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
    p.new("int", text, meaning, bound)


@family
def scans(p: FamilyProgram) -> None:
    x, f, t = p.pick("int"), p.pick("float"), p.fresh("t")
    axis, rows = p.r.randint(-2, 1), p.r.choice((2, 4))
    plane, plain = f"tg.tile({x}).reshape({rows}, -1)", f"{x}.reshape({rows}, -1)"
    text, meaning = p.r.choice(
        [
            (f"tg.tile_scan_max_inclusive({plane}, axis={axis})", f"np.maximum.accumulate({plain}, {axis})"),
            (f"tg.tile_scan_min_inclusive({plane}, axis={axis})", f"np.minimum.accumulate({plain}, {axis})"),
            (f"tg.tile_scan_exclusive({plane}, axis={axis})", f"np.cumsum({plain}, {axis}) - {plain}"),
            (f"tg.tile_cumsum({plane}, axis={axis})", f"np.cumsum({plain}, {axis})"),
            (f"tg.tile_cumsum({plane})", f"np.cumsum({plain})"),
        ]
    )
    p.new("int", lanes(p, f"{text}.reshape(-1)"), f"np.ravel({meaning})", x.bound * p.lanes)
    p.both(
        f"{t} = tg.tile({f})\ntg.tile_cumsum_inplace({t})\ntg.tile_scan_max_inclusive_inplace({t})", "pass"
    )
    p.new(
        "float",
        lanes(p, t) + " + 0.0",
        f"np.maximum.accumulate(np.cumsum({f})) + 0.0",
        f.bound * p.lanes,
        f.denominator,
    )


# Matmuls --------------------------------------------------------------------------------------------------------------


@family
def matmuls(p: FamilyProgram) -> None:
    """Sums of another type, factors, chunks in a pipelined loop."""
    x, t = p.pick("int"), p.fresh("t")
    kind = p.r.choice(("halves", "bytes", "factors", "loop", "types"))
    p.families.add(f"matmuls of {kind}")
    if kind in ("halves", "bytes"):
        narrow, wide = ("tg.float16", "float") if kind == "halves" else ("tg.int8", "int")
        p.both(
            f"{t} = tg.tile({x} % 9).reshape(-1, 4).astype({narrow})\n"
            f"{t} = tg.tile_matmul({t}, tg.tile_transpose({t}), dtype={wide})",
            f"{t} = remainder({x}, 9).reshape(-1, 4)\n{t} = {t} @ {t}.T",
        )
        n = p.lanes // 4
        p.new("int" if kind == "bytes" else "float", f"{t}[j % {n}, j // 4]", f"{t}[j % {n}, j // 4]", 256)
    elif kind == "factors":
        p.both(
            f"{t} = tg.tile_ones((4, 4))\ntg.tile_matmul(tg.tile_load(sq, (4, 4)), tg.tile_load(spd[b], "
            f"(4, 4)), {t}, alpha=2.0, beta=-3.0)",
            f"{t} = 2 * D['sq'] @ D['spd'][b] - 3",
        )
        p.new("float", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 2 * 4 * 3 * 64 + 3)
    elif kind == "loop":
        stages = p.r.choice((2, 3))
        p.both(
            f"{t} = tg.tile_zeros((4, 4))\nfor k{t} in tg.pipelined(0, n, stages={stages}):\n"
            f"    {t} += tg.tile_load(sq, (4, 4)) @ tg.tile_load(spd[k{t} % 2], (4, 4)) * float(k{t} + 1)",
            f"{t} = sum(D['sq'] @ D['spd'][k % 2] * (k + 1) for k in range(n))",
        )
        p.new("float", f"{t}[j // 4 % 4, j % 4]", f"{t}[j // 4 % 4, j % 4]", 6 * 4 * 3 * 64)
    else:
        dtype = p.r.choice(("tg.float64", "tg.float16", "tg.bfloat16", "tg.int64", "tg.uint8"))
        p.both(
            f"{t} = (tg.tile({x}) & 3).reshape(4, -1).astype({dtype})\n{t} = {t} @ {t}.T",
            f"{t} = ({x} & 3).reshape(4, -1)\n{t} = {t} @ {t}.T" + (" & 255" if "uint8" in dtype else ""),
        )
        # Sums up to 9 * 16, which have 8 bits.
        p.new("int", f"int({t}[j % 4, j // 4 % 4])", f"{t}[j % 4, j // 4 % 4]", 256)


# Values of threads in tiles -------------------------------------------------------------------------------------------


@family
def of_threads(p: FamilyProgram) -> None:
    x, y, v, t = p.pick("int"), p.pick("int"), p.pick("vec"), p.fresh("t")
    kind = p.r.choice(("from_thread", "scatter", "masked", "local", "extract", "stack", "writes"))
    p.families.add(f"of_threads by {kind}")
    k = p.r.randint(0, 7)
    if kind == "from_thread":
        p.both(
            f"{t} = tg.tile_from_thread(4, {x}, {k})\nv{t} = tg.tile_from_thread((2, 2), {v}, {k} // 2)",
            "pass",
        )
        p.new("int", f"{t}[j % 4] + j", f"{x}[{k}] + j", x.bound + p.lanes)
        p.new("vec", f"v{t}[j % 2, 1] + {v}", f"{v}[{k // 2}] + {v}", 2 * v.bound, v.denominator)
    elif kind == "scatter":
        p.both(
            f"{t} = tg.tile_zeros((4, 2), dtype=int)\ntg.tile_scatter_add({t}, {x} & 3, {y} & 1, {y}, {x} > 0)",
            f"{t} = added(np.zeros((4, 2), int), ({x} & 3, {y} & 1), np.where({x} > 0, {y}, 0))",
        )
        p.new("int", f"{t}[j % 4, j // 4 % 2]", f"{t}[j % 4, j // 4 % 2]", y.bound * p.lanes)
    elif kind == "masked":
        p.both(
            f"{t} = tg.tile({y})\ntg.tile_scatter_masked({t}, (j * 3 + {k}) % {p.lanes}, {x}, {x} > {y})",
            f"{t} = {y} + 0\n{t}[((j * 3 + {k}) % {p.lanes})[{x} > {y}]] = {x}[{x} > {y}]",
        )
        p.new("int", lanes(p, t), f"{t} + 0", x.bound + y.bound)
    elif kind == "local":
        p.both(
            f"{t} = tg.tile_local(tg.tile_concat((tg.tile({x}), tg.tile({y}))).reshape(8, -1), (4, "
            f"{p.lanes // 4}))\n"
            f"{t} = {t} + {t}\nv{t} = tg.tile_from_local({t}, (4, {p.lanes // 4}), (8, {p.lanes // 4}))",
            f"v{t} = 2 * np.concatenate([{x}, {y}]).reshape(8, -1)",
        )
        p.new(
            "int", f"{t}[1, 0]", f"v{t}[4 + j // {p.lanes // 4}, j % {p.lanes // 4}]", 2 * (x.bound + y.bound)
        )
        p.new("int", f"v{t}[j % 8, j // 8]", f"v{t}[j % 8, j // 8]", 2 * (x.bound + y.bound))
    elif kind == "extract":
        text = f"tg.tile_extract(tg.tile({x}).reshape(-1, 4), j // 4, {y} & 3)"
        p.new("int", text, f"{x}.reshape(-1, 4)[j // 4, {y} & 3]", x.bound)
    elif kind == "stack":
        p.both(
            f"{t} = tg.tile_stack({p.lanes}, int)\ntg.tile_stack_push({t}, {x}, {y} > 0)\n"
            f"c{t} = tg.tile_stack_count({t})\n"
            f"v{t}, s{t} = tg.tile_stack_pop({t})\nv{t} = tg.where(s{t} >= 0, v{t}, 0)",
            f"c{t} = ({y} > 0).sum() + 0 * j\nv{t} = {x}[{y} > 0].sum() + 0 * j",
        )
        p.new("int", f"c{t} + j", f"c{t} + j", 2 * p.lanes)
        p.new("int", f"tg.tile_sum(tg.tile(v{t}))[0] - j", f"v{t} - j", x.bound * p.lanes + p.lanes)
    else:
        p.both(
            f"{t} = tg.tile_zeros({p.lanes}, dtype=int, storage='shared')\n{t}[(j + {k}) % {p.lanes}] = {x}\n"
            f"if {x} > {y}:\n    {t}[{y} & 7] += 2\n{t}[j ^ 1] -= {y}",
            f"{t} = np.zeros({p.lanes}, int)\n{t}[(j + {k}) % {p.lanes}] = {x}\n"
            f"{t} = added({t}, {y} & 7, np.where({x} > {y}, 2, 0))\n{t}[j ^ 1] -= {y}",
        )
        p.new(
            "int",
            f"{t}[(j * 5 + 2) % {p.lanes}]",
            f"{t}[(j * 5 + 2) % {p.lanes}]",
            x.bound + y.bound + 2 * p.lanes,
        )


@family
def algebra(p: FamilyProgram) -> None:
    """Additions to diagonals, multiples of tiles, tiles of vectors, quaternions and matrices."""
    x, f, v, q, m, t = (*(p.pick(k) for k in ("int", "float", "vec", "quat", "mat")), p.fresh("t"))
    kind = p.r.choice(("diagonal", "axpy", "vectors", "quaternions", "matrices", "bools"))
    p.families.add(f"algebra of {kind}")
    if kind == "diagonal":
        p.both(
            f"{t} = tg.tile_diag_add(tg.tile({f})[:4][:, None] * tg.tile_ones((1, 4)), tg.tile({f})[4:8])",
            f"{t} = {f}[:4, None] * np.ones((1, 4)) + np.diag({f}[4:8])",
        )
        p.new("float", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 2 * f.bound, f.denominator)
    elif kind == "axpy":
        p.both(
            f"{t} = tg.tile({f})\ntg.tile_axpy(-0.5, tg.tile({f})[::-1], {t})\ntg.tile_axpy(2.0, {t}[1:2], {t})",
            f"{t} = {f} - 0.5 * {f}[::-1]\n{t} = {t} + 2 * {t}[1]",
        )
        p.new("float", lanes(p, t) + " + 0.0", f"{t} + 0.0", 4.5 * f.bound, 2 * f.denominator)
    elif kind == "vectors":
        p.both(
            f"{t} = tg.tile({v}, preserve_type=True)\n{t}[::2] = {t}[1::2]\n"
            f"m{t} = tg.tile_map(tg.cross, {t}, tg.vec3(1.0, 0.0, 2.0))",
            f"{t} = {v}.copy()\n{t}[::2] = {t}[1::2]\nm{t} = np.cross({t}, [1, 0, 2])",
        )
        p.new("vec", f"m{t}[{p.lanes} - 1 - j] + {t}[0]", f"m{t}[::-1] + {t}[0]", 4 * v.bound, v.denominator)
    elif kind == "quaternions":
        p.both(
            f"{t} = tg.tile({q}, preserve_type=True)\n"
            f"r{t} = tg.tile_map(tg.quat_rotate, {t}, tg.tile({v}, preserve_type=True))",
            f"r{t} = rotated({q}, {v})",
        )
        p.new("vec", f"r{t}[j ^ 1]", f"r{t}[j ^ 1]", 1.8 * v.bound, 4 * v.denominator)
        p.new("quat", f"{t}[j ^ 1] * {t}[j]", f"times({q}[j ^ 1], {q})", 1, 2)
    elif kind == "matrices":
        p.both(
            f"{t} = tg.tile({m}, preserve_type=True)\ns{t} = tg.tile_sum({t})[0]",
            f"s{t} = {m}.sum(0) + 0 * {m}",
        )
        p.new("mat", f"{t}[j ^ 3] - {m}", f"{m}[j ^ 3] - {m}", 2 * m.bound, m.denominator)
        p.new("mat", f"s{t}", f"s{t}", p.lanes * m.bound, m.denominator)
    else:
        text = (
            f"((tg.tile({x}) > 2) ^ (tg.tile({f}) > 0.0)).astype(int) + (tg.tile({x}) == 0).astype(int) * 2"
        )
        p.new("int", lanes(p, text), f"(({x} > 2) ^ ({f} > 0)) * 1 + ({x} == 0) * 2", 3)


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
    b, x, t = p.pick("body"), p.pick("int"), p.fresh("t")
    p.functions.append(HEAVIER)
    p.both(
        f"{t} = tg.tile_load(bodies, 8)\nif j == 0:\n    {t}[3] = {b}\n    {t}[{x} & 1].n += 40\n"
        f"s{t} = tg.tile_sum(tg.tile_load(bodies, 8)[2:6])[0]\n"
        f"h{t} = tg.tile_reduce(heavier, tg.tile_load(bodies, 8))[0]",
        f"{t} = {{k: D['bodies'][k].astype(float if k != 'n' else int) for k in 'nvq'}}\n"
        f"for k in 'nvq':\n    {t}[k][3] = {b}[k][0]\n{t}['n'][{x}[0] & 1] += 40\n"
        f"s{t} = {{k: D['bodies'][k][2:6].astype(float if k != 'n' else int).sum(0) for k in 'nvq'}}\n"
        f"h{t} = D['bodies'][heaviest(D['bodies'])]",
    )
    p.new("int", f"{t}[j % 4].n - s{t}.n", f"{t}['n'][j % 4] - s{t}['n']", b.bound + 100)
    p.new(
        "vec", f"{t}[3 - j % 4].v + s{t}.v", f"{t}['v'][3 - j % 4] + s{t}['v']", b.bound + 12, b.denominator
    )
    p.new("int", f"h{t}.n + j", f"h{t}['n'] + j", p.lanes + 9)


# Random numbers -------------------------------------------------------------------------------------------------------


@family
def draws(p: FamilyProgram) -> None:
    t, seed = p.fresh("t"), p.r.randint(0, 99)
    kind = p.r.choice(("normal", "uniform", "whole"))
    p.both(f"{t} = tg.rand_init({seed}, b)", f"{t} = int(init({seed}, b))")
    p.families.add(f"draws of {kind}")
    if kind == "normal":
        text, meaning = (
            f"tg.tile_randn((2, 4), {t})[j % 2, j // 2 % 4]",
            f"normal(pcg((j % 2 * 4 + j // 2 % 4 + {t}) & MASK))",
        )
        p.new("near", text, meaning, 6)
    elif kind == "uniform":
        text = f"tg.floor(tg.tile_randf((2, 4), {t}) * 16.0)[j % 2, j // 2 % 4]"
        p.new(
            "float",
            text,
            f"np.floor((pcg(pcg((j % 2 * 4 + j // 2 % 4 + {t}) & MASK)) >> np.uint64(8)) / 2.0**20)",
            16,
        )
    else:
        text = f"tg.tile_randi({p.lanes}, {t}, -5, 20)"
        p.new("int", lanes(p, text), f"ranged(pcg(pcg((j + {t}) & MASK)), -5, 20)", 20)


# Small matrices and transforms ----------------------------------------------------------------------------------------


@family
def solvers(p: FamilyProgram) -> None:
    """Factors and solutions; solutions by Cholesky factors with powers of two on their diagonals are exact."""
    t, index_text = p.fresh("t"), "[j % 4, j // 4 % 4]"
    load = "tg.tile_load({}[b], (4, 4))"
    kind = p.r.choice(("solve", "inverse", "determinant", "cholesky_solve", "upper", "lu"))
    p.families.add(f"solvers by {kind}")
    mixed, right = load.format("mixed"), "tg.tile_load(right[b], 4)"
    if kind == "solve":
        p.new("near", f"tg.tile_solve({mixed}, {right})[j % 4]", "D['x'][b][j % 4]", 4)
    elif kind == "inverse":
        p.both(f"{t} = tg.tile_inverse({mixed}) @ {mixed}", "pass")
        p.new("near", f"{t}{index_text}", f"np.eye(4){index_text}", 1)
    elif kind == "determinant":
        text = f"tg.tile_determinant({mixed})[0] + float(j)"
        p.new("near", text, "np.linalg.det(D['mixed'][b]) + j", 16 + p.lanes)
    elif kind == "cholesky_solve":
        p.both(f"{t} = tg.tile_cholesky({load.format('spd')})", "pass")
        text = f"tg.tile_cholesky_solve({t}, {load.format('spd')} @ tg.tile_load(sq, (4, 4))){index_text}"
        p.new("float", text, f"D['sq']{index_text}", 3)
    elif kind == "upper":
        p.both(f"{t} = tg.tile_cholesky({load.format('spd')}, fill_mode='upper')", "pass")
        p.new("near", f"({t}.T @ {t}){index_text}", f"D['spd'][b]{index_text}", 64)
    else:
        p.both(f"{t}, p{t} = tg.tile_lu({mixed})", "pass")
        p.new("near", f"tg.tile_lu_solve({t}, p{t}, {right})[j % 4]", "D['x'][b][j % 4]", 4)


@family
def decompositions(p: FamilyProgram) -> None:
    """Functions with rounded results: eigenvalues, singular values, orthogonal factors, least squares."""
    t, index_text = p.fresh("t"), "[j % 4, j // 4 % 4]"
    kind = p.r.choice(("eigh", "svd", "qr", "lstsq"))
    p.families.add(f"decompositions by {kind}")
    square, spd = "tg.tile_load(sq, (4, 4))", "tg.tile_load(spd[b], (4, 4))"
    if kind == "eigh":
        p.both(f"w{t}, {t} = tg.tile_eigh({spd})", "pass")
        p.new("near", f"w{t}[j % 4]", "np.linalg.eigvalsh(D['spd'][b])[j % 4]", 64)
        p.new("near", f"({t} * w{t}[None, :] @ {t}.T){index_text}", f"D['spd'][b]{index_text}", 64)
    elif kind == "svd":
        p.both(f"{t}, s{t}, v{t} = tg.tile_svd({square})", "pass")
        p.new("near", f"s{t}[j % 4]", "np.linalg.svd(D['sq'])[1][j % 4]", 16)
    elif kind == "qr":
        p.both(f"{t}, r{t} = tg.tile_qr({square})", "pass")
        p.new("near", f"({t} @ r{t}){index_text}", f"D['sq']{index_text}", 3)
        p.new("near", f"({t}.T @ {t}){index_text}", f"np.eye(4){index_text}", 1)
    else:
        p.new(
            "near",
            f"tg.tile_lstsq({spd}[:, :2], tg.tile_load(right[b], 4))[j % 2]",
            "np.linalg.lstsq(D['spd'][b][:, :2], D['right'][b], rcond=None)[0][j % 2]",
            99,
        )


@family
def transforms(p: FamilyProgram) -> None:
    x, y, t = p.pick("int"), p.pick("int"), p.fresh("t")
    kind = p.r.choice(("fft", "ifft", "fft2", "rfft", "dct", "near"))
    p.families.add(f"transforms by {kind}")
    bound = 4 * (x.bound + y.bound)
    if bound > 1e5:
        return
    text = f"tg.tile_map(lambda p, q: tg.vec2(p, q), tg.tile(float({x})), tg.tile(float({y}))).reshape(-1, 4)"
    plain = f"({x} + 1j * {y}).reshape(-1, 4)"
    part = p.r.choice((("[0]", "real"), ("[1]", "imag")))
    index = "[j // 4, j % 4]"
    if kind in ("fft", "ifft"):
        p.both(
            f"{t} = {text}\ntg.tile_{kind}({t})",
            f"{t} = np.round(np.fft.{kind}({plain}){' * 4' if kind == 'ifft' else ''})",
        )
        p.new("float", f"{t}{index}{part[0]} + 0.0", f"{t}.{part[1]}{index} + 0.0", bound)
    elif kind == "fft2":
        p.both(f"{t} = {text}[:2]\ntg.tile_fft2({t})", f"{t} = np.round(np.fft.fft2({plain}[:2]))")
        p.new(
            "float",
            f"{t}[j // 4 % 2, j % 4]{part[0]} + 0.0",
            f"{t}.{part[1]}[j // 4 % 2, j % 4] + 0.0",
            2 * bound,
        )
    elif kind == "rfft":
        p.both(
            f"{t} = tg.tile_rfft(tg.tile(float({x})).reshape(-1, 4))",
            f"{t} = np.round(np.fft.rfft({x}.reshape(-1, 4)))",
        )
        p.new("float", f"{t}[j // 4, j % 3]{part[0]} + 0.0", f"{t}.{part[1]}[j // 4, j % 3] + 0.0", bound)
        p.new("float", f"tg.tile_irfft({t}, 4){index} + 0.0", f"4.0 * {x}.reshape(-1, 4){index}", 4 * x.bound)
    elif kind == "dct":
        p.new(
            "near",
            f"tg.tile_idct(tg.tile_dct(tg.tile(float({x})).reshape(-1, 8)))[j // 8, j % 8]",
            f"16.0 * {x}",
            x.bound,
        )
    else:
        p.both(f"{t} = {text}.reshape(-1, 8)\ntg.tile_fft({t})", f"{t} = np.fft.fft({plain}.reshape(-1, 8))")
        p.new("near", f"{t}[j // 8, j % 8]{part[0]}", f"{t}.{part[1]}[j // 8, j % 8]", bound)
