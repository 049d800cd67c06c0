"""Families of statements on values of single threads: expressions, bits, casts, thread-local arrays, functions, spatial
vectors, transforms, exchanges between threads, tables and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from families import Term, family

if TYPE_CHECKING:
    from family_programs import FamilyProgram


# References of functions, on arrays with one row for each thread ------------------------------------------------------


def wrap_signed(x: Any, bits: int) -> Any:
    """The signed number that the low `bits` bits represent."""
    half = 1 << (bits - 1)
    return (np.asarray(x, np.int64) + half) % (2 * half) - half


def bit_texts(x: Any, base: int = 32) -> list[str]:
    """The bits of each number as text, most significant bit first."""
    return [format(int(k) & ((1 << base) - 1), f"0{base}b") for k in np.ravel(x)]


def bit_counts(x: Any) -> Any:
    return np.array([d.count("1") for d in bit_texts(x)])


def leading_zeros(x: Any) -> Any:
    return np.array([(d + "1").index("1") for d in bit_texts(x)])


def trailing_zeros(x: Any) -> Any:
    return np.array([(d[::-1] + "1").index("1") for d in bit_texts(x)])


def reverse_bits(x: Any) -> Any:
    return wrap_signed([int(d[::-1], 2) for d in bit_texts(x)], 32)


def bottom(s: Any) -> Any:
    return s[..., 3:]


def top(s: Any) -> Any:
    return s[..., :3]


def motion_cross(a: Any, b: Any) -> Any:
    cross = np.cross
    return np.concatenate([cross(top(a), top(b)), cross(bottom(a), top(b)) + cross(top(a), bottom(b))], -1)


def force_cross(a: Any, b: Any) -> Any:
    cross = np.cross
    return np.concatenate([cross(top(a), top(b)) + cross(bottom(a), bottom(b)), cross(top(a), bottom(b))], -1)


def segments(x: Any, width: int) -> Any:
    """The values of adjacent threads, with one row for each segment of `width` threads."""
    return np.reshape(x, (-1, width))


def repeated_by_segment(rows: Any, width: int) -> Any:
    """The value of each segment, repeated for all of its threads."""
    return np.repeat(np.ravel(rows), width)


def lane_collect(x: Any, target: Any, width: int) -> Any:
    array = np.zeros(len(x), np.int64)
    np.add.at(array, np.arange(len(x)) // width * width + target, x)
    return array


def match_any(x: Any, width: int) -> Any:
    rows = segments(x, width)
    equal = rows[:, :, None] == rows[:, None, :]
    return (equal * (1 << np.arange(width))).sum(-1).ravel()


# Expressions ----------------------------------------------------------------------------------------------------------


@family
def walrus(p: FamilyProgram) -> None:
    x, y, w = p.operand("int"), p.operand("int"), p.fresh_name("w")
    p.define(
        "int",
        f"({w} := {x} + {y}) * 2 - {w} % 5",
        f"({x} + {y}) * 2 - remainder({x} + {y}, 5)",
        2 * (x.bound + y.bound) + 5,
    )
    p.terms["int"].append(Term(w, x.bound + y.bound))
    c = p.fresh_name("c")
    p.emit(
        f"{c} = 1\nif (v{c} := {w} % 7) > 2:\n    {c} = v{c} * 3",
        f"v{c} = remainder({x} + {y}, 7)\n{w} = {x} + {y}\n{c} = np.where(v{c} > 2, v{c} * 3, 1)",
    )
    p.terms["int"].append(Term(c, 20))


@family
def lambdas(p: FamilyProgram) -> None:
    x, y, f = p.operand("int"), p.operand("int"), p.fresh_name("f")
    k = p.rng.randint(1, 4)
    text = f"tg.untile(tg.tile_map(lambda p, q: p * {k} + tg.max(q, {k}), tg.tile({x}), tg.tile({y})))"
    p.define("int", text, f"{x} * {k} + np.maximum({y}, {k})", k * x.bound + y.bound + k)
    p.emit(f"{f} = lambda p, q=3: (p % 10) * (p % 10) + q", "pass")
    p.define(
        "int",
        f"{f}({x}) - {f}({y}, {k})",
        f"remainder({x}, 10) ** 2 + 3 - remainder({y}, 10) ** 2 - {k}",
        200,
    )


@family
def comparisons(p: FamilyProgram) -> None:
    x, y, z = p.operand("int"), p.operand("int"), p.operand("int")
    p.define(
        "int",
        f"int({x} in (1, {y}, 3)) + int({z} not in (0, {x}))",
        f"(({x} == 1) | ({x} == {y}) | ({x} == 3)) * 1 + (({z} != 0) & ({z} != {x}))",
        2,
    )
    p.define(
        "int",
        f"{z} if {x} < {y} <= {z} else {x}",
        f"np.where(({x} < {y}) & ({y} <= {z}), {z}, {x})",
        max(x.bound, z.bound),
    )
    p.define(
        "int", f"int({x} > 0 and {y} > 0 or not {z} > 0)", f"((({x} > 0) & ({y} > 0)) | ~({z} > 0)) * 1", 1
    )


@family
def loops_over_sequences(p: FamilyProgram) -> None:
    """Loops over tuples, vectors, enumerate and zip."""
    x, y, v = p.operand("int"), p.operand("int"), p.operand("vec")
    s, f = p.fresh_name("s"), p.fresh_name("f")
    p.emit(
        f"{s} = 0\nfor i, c in enumerate(({x}, {y}, 3)):\n    {s} += c * (i + 1)\n"
        f"for p, q in zip(({x}, {y}), range(2, 4)):\n    {s} -= p * q",
        f"{s} = {x} + 2 * {y} + 9 - 2 * {x} - 3 * {y}",
    )
    p.terms["int"].append(Term(s, x.bound + y.bound + 9)) if 3 * (x.bound + y.bound) < 1e6 else None
    p.emit(
        f"{f} = 0.0\nfor i, c in enumerate({v}):\n    {f} = {f} * 0.5 + c",
        f"{f} = {v}[:, 0] * 0.25 + {v}[:, 1] * 0.5 + {v}[:, 2]",
    )
    result = Term(f, 2 * v.bound, 4 * v.denominator)
    if result.fits():
        p.terms["float"].append(result)


@family
def lane_while(p: FamilyProgram) -> None:
    """A loop whose trip count differs between threads, with break and continue."""
    x, c = p.operand("int"), p.fresh_name("c")
    k, m = p.rng.randint(2, 5), p.rng.randint(2, 4)
    p.emit(
        f"{c}, n{c}, m{c} = {x} % 100, 0, 0\nwhile {c} > 1:\n    {c} //= {k}\n    n{c} += 1\n"
        f"    if {c} % {m} == 0:\n"
        f"        continue\n    m{c} += {c}\n    if m{c} > 30:\n        break",
        f"{c} = remainder({x}, 100)\nn{c}, m{c} = 0 * {c}, 0 * {c}\nruns = {c} > 1\nwhile runs.any():\n"
        f"    {c} = np.where(runs, {c} // {k}, {c})\n    n{c} = n{c} + runs\n"
        f"    adds = runs & (remainder({c}, {m}) != 0)\n    m{c} = np.where(adds, m{c} + {c}, m{c})\n"
        f"    runs = runs & ({c} > 1) & ~(adds & (m{c} > 30))",
    )
    p.terms["int"] += [Term(c, 100), Term(f"n{c}", 10), Term(f"m{c}", 100)]


# Integers -------------------------------------------------------------------------------------------------------------


@family
def bits(p: FamilyProgram) -> None:
    x, y = p.operand("int"), p.operand("int")
    k = p.rng.randint(0, 9)
    text, reference, bound = p.rng.choice(
        [
            (f"({x} & {y}) % 4099", f"remainder({x} & {y}, 4099)", 4099),
            (f"({x} | {y}) % 4099", f"remainder({x} | {y}, 4099)", 4099),
            (f"({x} ^ ~{y}) % 4099", f"remainder({x} ^ ~{y}, 4099)", 4099),
            (f"{x} >> {k}", f"{x} >> {k}", x.bound + 1),
            (f"({x} << ({y} & 31)) % 4099", f"remainder(wrap_signed({x} << ({y} & 31), 32), 4099)", 4099),
            (f"tg.rshift({x}, 40) + tg.lshift({x}, 33)", f"np.where({x} < 0, -1, 0)", 1),
            (f"tg.clz({x}) * 100 + tg.ctz({y})", f"leading_zeros({x}) * 100 + trailing_zeros({y})", 3300),
            (f"tg.brev({x}) % 4099", f"remainder(reverse_bits({x}), 4099)", 4099),
            (f"tg.invert({x}) + tg.bit_count({y})", f"~{x} + bit_counts({y})", x.bound + 33),
            (f"int(tg.uint32({x}) // 3u32 % 1000u32)".replace("u32", ""), f"({x} & MASK) // 3 % 1000", 1000),
            (f"int(tg.uint32({x}) >> tg.uint32(20))", f"({x} & MASK) >> 20", 4096),
        ]
    )
    p.define("int", text, reference, bound)


@family
def narrow_integers(p: FamilyProgram) -> None:
    """Integers of 8, 16 and 64 bits; overflow wraps."""
    x, y = p.operand("int"), p.operand("int")
    text, reference, bound = p.rng.choice(
        [
            (
                f"int(tg.int8({x}) * tg.int8({y}))",
                f"wrap_signed(wrap_signed({x}, 8) * wrap_signed({y}, 8), 8)",
                128,
            ),
            (f"int(tg.uint8({x}) + tg.uint8({y}))", f"(({x} & 255) + ({y} & 255)) & 255", 255),
            (f"int(tg.int16({x}) // tg.int16(7))", f"wrap_signed({x}, 16) // 7", 32768),
            (f"int(tg.uint16({x}) // tg.uint16(3) % tg.uint16(100))", f"({x} & 65535) // 3 % 100", 100),
            (
                f"int(tg.int64({x}) * tg.int64({y}) * tg.int64(1000003) % tg.int64(4099))",
                f"remainder({x} * {y} * 1000003, 4099)",
                4099,
            ),
            (
                f"int((tg.int64({x}) << tg.int64(40)) >> tg.int64(38)) + int(tg.int64({y}) // tg.int64(-3))",
                f"{x} * 4 + {y} // -3",
                4 * x.bound + y.bound,
            ),
            (f"int(tg.uint64({x}) >> tg.uint64(50))", f"np.where({x} < 0, 16383, 0)", 16383),
            (
                f"int(tg.int8({x}) < tg.int8({y})) + int(tg.uint16({x}) < tg.uint16({y}))",
                f"(wrap_signed({x}, 8) < wrap_signed({y}, 8)) * 1 + (({x} & 65535) < ({y} & 65535))",
                2,
            ),
        ]
    )
    p.define("int", text, reference, bound)


@family
def casts(p: FamilyProgram) -> None:
    x, f = p.operand("int"), p.operand("float")
    text, reference, bound = p.rng.choice(
        [
            (f"int({f})", f"np.trunc({f}).astype(int)", f.bound),
            (
                f"tg.bitcast({f} + 0.0, int) % 4099",
                f"remainder(to_float32({f} + 0.0).view(np.int32).astype(int), 4099)",
                4099,
            ),
            (f"int(tg.bitcast({x}, tg.uint32) % tg.uint32(100))", f"({x} & MASK) % 100", 100),
            (f"int(tg.int8({f}))", f"np.clip(np.trunc({f}), -128, 127).astype(int)", 128),
            (f"int(tg.uint8({f}))", f"np.clip(np.trunc({f}), 0, 255).astype(int)", 255),
            (f"int(bool({f})) + int({x} > 0)", f"({f} != 0) * 1 + ({x} > 0)", 2),
        ]
    )
    p.define("int", text, reference, bound)
    text, reference, bound = p.rng.choice(
        [
            (f"float(tg.float16({x} % 500))", f"1.0 * remainder({x}, 500)", 500),
            (f"float(tg.bfloat16({x} % 200))", f"1.0 * remainder({x}, 200)", 200),
            (f"float(tg.float64({f}) * tg.float64(0.5) * tg.float64(2.0))", f"{f} + 0.0", f.bound),
            (
                f"float(tg.float16({x} % 40) * tg.float16(2.0) + tg.float16(1.0))",
                f"remainder({x}, 40) * 2.0 + 1",
                81,
            ),
            (f"float({x} > 0) + float(tg.uint8({x}))", f"1.0 * ({x} > 0) + ({x} & 255)", 256),
        ]
    )
    p.define("float", text, reference, bound, f.denominator)


# Floats ---------------------------------------------------------------------------------------------------------------


@family
def rounding(p: FamilyProgram) -> None:
    f, g = p.operand("float"), p.operand("float")
    options = [
        (f"tg.trunc({f})", f"np.trunc({f})", f.bound, 1),
        (f"tg.ceil({f}) + tg.rint({g})", f"np.ceil({f}) + np.rint({g})", f.bound + g.bound + 2, 1),
        (f"tg.round({f})", f"np.copysign(np.floor(np.abs({f}) + 0.5), {f})", f.bound + 1, 1),
        (f"tg.frac({f}) + 0.0", f"{f} - np.trunc({f})", 1, f.denominator),
        (
            f"tg.copysign({f}, {g} - 0.5)",
            f"np.where({g} < 0.5, -np.abs({f}), np.abs({f}))",
            f.bound,
            f.denominator,
        ),
        (f"tg.step({f}) + tg.nonzero({g})", f"({f} < 0) * 1.0 + ({g} != 0)", 2, 1),
        (
            f"tg.fma({f}, {g}, {f})",
            f"{f} * {g} + {f}",
            f.bound * (g.bound + 1),
            f.denominator * g.denominator,
        ),
        (f"tg.lerp({f}, {g}, 0.5)", f"({f} + {g}) / 2", f.bound + g.bound, 2 * f.denominator * g.denominator),
        (f"tg.clamp({f}, -2.0, 5.0)", f"np.clip({f}, -2, 5)", 5, f.denominator),
        (f"tg.sqrt({f} * {f})", f"np.abs({f})", f.bound, f.denominator**2),
        (f"{f} % 4.0", f"np.fmod({f}, 4)", 4, f.denominator),
        (
            f"({f} - {g}) // 2.0",
            f"np.floor(({f} - {g}) / 2)",
            f.bound + g.bound,
            f.denominator * g.denominator * 2,
        ),
        (
            f"tg.max({f}, {g}) - tg.min({f}, {g})",
            f"np.abs({f} - {g})",
            f.bound + g.bound,
            f.denominator * g.denominator,
        ),
    ]
    text, reference, bound, denominator = p.rng.choice(options)
    p.define("float", text, reference, bound, denominator)


@family
def component_assignments(p: FamilyProgram) -> None:
    """Assignments to components, slices, rows and columns of vectors and matrices."""
    v, w, m, f = p.operand("vec"), p.operand("vec"), p.operand("mat"), p.operand("float")
    a, b = p.fresh_name("v"), p.fresh_name("m")
    p.emit(
        f"{a} = {v} * 1.0\n{a}.xz = {w}.yx\n{a}[1:] += {w}[:2]\n{a}.y -= {f}",
        f"{a} = {v} * 1.0\n{a}[:, [0, 2]] = {w}[:, [1, 0]]\n{a}[:, 1:] += {w}[:, :2]\n{a}[:, 1] -= {f}",
    )
    p.emit(
        f"{b} = {m} * 1.0\n{b}[1] = {v}\n{b}[:, 2] = {w}\n{b}[0, 1] += {f}\n{b}[:2, :2] = {b}[1:, 1:]",
        f"{b} = {m} * 1.0\n{b}[:, 1] = {v}\n{b}[:, :, 2] = {w}\n{b}[:, 0, 1] += {f}\n"
        f"{b}[:, :2, :2] = {b}[:, 1:, 1:].copy()",
    )
    bound, denominator = v.bound + 2 * w.bound + f.bound, v.denominator * w.denominator * f.denominator
    if Term("", bound + m.bound, denominator * m.denominator).fits():
        p.terms["vec"].append(Term(a, bound, denominator))
        p.terms["mat"].append(Term(b, bound + m.bound, denominator * m.denominator))


@family
def spatial_vectors(p: FamilyProgram) -> None:
    u, v, w, q = p.operand("vec"), p.operand("vec"), p.operand("vec"), p.operand("quat")
    a, b = p.fresh_name("s"), p.fresh_name("s")
    p.emit(
        f"{a}, {b} = tg.spatial_vector({u}, {v}), tg.spatial_vector({v}, {w})",
        f"{a}, {b} = np.concatenate([{u}, {v}], -1), np.concatenate([{v}, {w}], -1)",
    )
    size = max(u.bound, v.bound, w.bound)
    denominator = u.denominator * v.denominator * w.denominator
    p.define("float", f"tg.spatial_dot({a}, {b})", f"({a} * {b}).sum(-1)", 6 * size**2, denominator**2)
    name, reference = p.rng.choice((("cross", "motion_cross"), ("cross_dual", "force_cross")))
    p.define(
        "vec",
        f"tg.spatial_top(tg.spatial_{name}({a}, {b}))",
        f"top({reference}({a}, {b}))",
        4 * size**2,
        denominator**2,
    )
    p.define(
        "vec",
        f"tg.spatial_bottom(tg.spatial_{name}({a}, {b}))",
        f"bottom({reference}({a}, {b}))",
        4 * size**2,
        denominator**2,
    )
    p.define(
        "vec",
        f"tg.velocity_at_point({a}, {w})",
        f"{v} + np.cross({u}, {w})",
        size + 2 * size**2,
        denominator**2,
    )
    p.define(
        "vec",
        f"tg.transform_point(tg.transform({u}, {q}) * tg.transform({v}, {q}), {w})",
        f"quat_rotate({q}, quat_rotate({q}, {w}) + {v}) + {u}",
        6 * size,
        16 * denominator,
    )
    p.define(
        "vec",
        f"tg.transform_point(tg.transform_inverse(tg.transform({u}, {q})), {w})",
        f"quat_rotate(conjugate({q}), {w} - {u})",
        4 * size,
        4 * denominator,
    )


# Functions and thread-local arrays ------------------------------------------------------------------------------------


@family
def thread_array(p: FamilyProgram) -> None:
    """A one-dimensional thread-local array, written and read at indices known at run time."""
    x, y, s = p.operand("int"), p.operand("int"), p.fresh_name("s")
    k = p.rng.randint(0, 3)
    p.emit(
        f"l{s} = tg.zeros(shape=4, dtype=int)\nl{s}[{x} & 3] = {y}\nl{s}[{y} & 3] += {x}\nl{s}[{k}] -= 1\n"
        f"{s} = 0\n"
        f"for k{s} in range(4):\n    {s} = {s} * 2 + l{s}[k{s}]",
        f"l{s} = np.zeros((len(j), 4), int)\nl{s}[j, {x} & 3] = {y}\nl{s}[j, {y} & 3] += {x}\nl{s}[:, {k}] -= 1\n"
        f"{s} = (l{s} * [8, 4, 2, 1]).sum(-1)",
    )
    bound = 15 * (x.bound + y.bound + 1)
    if bound < 1e6:
        p.terms["int"].append(Term(s, bound))
        p.define("int", f"l{s}[j & 3]", f"l{s}[j, j & 3]", bound)


@family
def thread_matrix(p: FamilyProgram) -> None:
    """A two-dimensional thread-local array in a loop whose iterations read elements that earlier iterations wrote."""
    x, s = p.operand("int"), p.fresh_name("s")
    p.emit(
        f"l{s} = tg.zeros(shape=(3, 4), dtype=int)\nfor k{s} in range(12):\n"
        f"    l{s}[k{s} // 4, k{s} % 4] = l{s}[(k{s} + 11) % 12 // 4, (k{s} + 11) % 4] * 2 % 97 + {x} % 10",
        f"l{s} = np.zeros((len(j), 12), int)\nfor k{s} in range(12):\n"
        f"    l{s}[:, k{s}] = remainder(l{s}[:, (k{s} + 11) % 12] * 2, 97) + remainder({x}, 10)",
    )
    p.define("int", f"l{s}[j % 3, ({x} & 3)]", f"l{s}[j, j % 3 * 4 + ({x} & 3)]", 110)


PAIR = """
@tg.func
def pair(x: int, y: int, k: int = 2):
    if x > y:
        return x - y * k, y
    return y, x + k
"""
WEIGHTED_SUM = """
@tg.func
def summed(x: int, n: tg.constexpr[int]):
    result = x * 0
    for k in tg.static(range(n)):
        result += x * (k + 1)
    return result
"""


@family
def calls(p: FamilyProgram) -> None:
    """Functions with several results, default arguments, early returns and constant parameters."""
    x, y, s = p.operand("int"), p.operand("int"), p.fresh_name("s")
    k = p.rng.randint(1, 4)
    p.functions += [PAIR, WEIGHTED_SUM]
    p.emit(
        f"{s}, t{s} = pair({x}, {y})\nu{s}, {s} = pair({s}, t{s}, k={k})",
        f"more = {x} > {y}\n{s}, t{s} = np.where(more, {x} - {y} * 2, {y}), np.where(more, {y}, {x} + 2)\n"
        f"more = {s} > t{s}\n"
        f"u{s}, {s} = np.where(more, {s} - t{s} * {k}, t{s}), np.where(more, t{s}, {s} + {k})",
    )
    bound = 20 * (x.bound + y.bound + 2)
    if bound < 1e6:
        p.terms["int"] += [Term(s, bound), Term(f"u{s}", bound)]
    p.define("int", f"summed({x}, {k})", f"{x} * {k * (k + 1) // 2}", x.bound * 10)


@family
def unrolled_loops(p: FamilyProgram) -> None:
    x, v, s = p.operand("int"), p.operand("vec"), p.fresh_name("s")
    p.emit(
        f"{s}, f{s} = 0, 0.0\nfor k in tg.unrolled(3):\n    if ({x} >> k) & 1 == 1:\n"
        f"        {s} += k + 1\n    f{s} += {v}[k] * float(k)",
        f"{s} = sum((({x} >> k) & 1) * (k + 1) for k in range(3))\nf{s} = {v}[:, 1] + 2 * {v}[:, 2]",
    )
    p.terms["int"].append(Term(s, 6))
    if Term("", 3 * v.bound, v.denominator).fits():
        p.terms["float"].append(Term(f"f{s}", 3 * v.bound, v.denominator))


# Threads with each other, and tables ----------------------------------------------------------------------------------


@family
def exchanges(p: FamilyProgram) -> None:
    x, y, width = p.operand("int"), p.operand("int"), p.rng.choice((2, 4, 8))
    mask = p.rng.randint(1, width - 1)
    text, reference, bound = p.rng.choice(
        [
            (
                f"tg.lane_sum({x}, {width})",
                f"repeated_by_segment(segments({x}, {width}).sum(1), {width})",
                x.bound * width,
            ),
            (
                f"tg.lane_max({x}, {width})",
                f"repeated_by_segment(segments({x}, {width}).max(1), {width})",
                x.bound,
            ),
            (
                f"tg.lane_min({x}, {width})",
                f"repeated_by_segment(segments({x}, {width}).min(1), {width})",
                x.bound,
            ),
            (
                f"tg.lane_argmax({x}, {width})",
                f"repeated_by_segment(segments({x}, {width}).argmax(1), {width})",
                width,
            ),
            (
                f"tg.lane_argmin({x}, {width})",
                f"repeated_by_segment(segments({x}, {width}).argmin(1), {width})",
                width,
            ),
            (f"tg.lane_xor({x}, {mask}, {width})", f"{x}[j ^ {mask}]", x.bound),
            (
                f"tg.lane_shuffle({x}, {y} & {width - 1}, {width})",
                f"{x}[j // {width} * {width} + ({y} & {width - 1})]",
                x.bound,
            ),
            (
                f"tg.lane_collect({x}, {y} & {width - 1}, {width})",
                f"lane_collect({x}, {y} & {width - 1}, {width})",
                x.bound * width,
            ),
            (
                f"int(tg.lane_ballot({x} > {y}, {width}))",
                f"repeated_by_segment((segments({x} > {y}, {width}) << np.arange({width})).sum(1), {width})",
                256,
            ),
            (f"int(tg.match_any({x} % 3, {width}))", f"match_any(remainder({x}, 3), {width})", 256),
        ]
    )
    p.define("int", text, reference, bound)


@family
def exchanged_vectors(p: FamilyProgram) -> None:
    v, width = p.operand("vec"), p.rng.choice((2, 4, 8))
    p.define(
        "vec",
        f"tg.lane_xor({v}, {width - 1}, {width}) + {v}",
        f"{v}[j ^ {width - 1}] + {v}",
        2 * v.bound,
        v.denominator,
    )
    p.define(
        "vec",
        f"tg.lane_sum({v}, {width})",
        f"np.repeat({v}.reshape(-1, {width}, 3).sum(1), {width}, 0)",
        width * v.bound,
        v.denominator,
    )


@family
def binary_searches(p: FamilyProgram) -> None:
    x, y = p.operand("int"), p.operand("int")
    p.define(
        "int", f"tg.lower_bound(ordered, {x} % 25)", f"np.searchsorted(D['sorted'], remainder({x}, 25))", 32
    )
    low, high = p.rng.randint(0, 10), p.rng.randint(11, 32)
    p.define(
        "int",
        f"tg.lower_bound(ordered, {low}, {high}, {y} % 25)",
        f"{low} + np.searchsorted(D['sorted'][{low}:{high}], remainder({y}, 25))",
        32,
    )


@family
def prints(p: FamilyProgram) -> None:
    """A line that the first thread of each block prints."""
    x, f, v = p.operand("int"), p.operand("float"), p.operand("vec")
    i = p.name_count
    p.emit(
        f'if j == 0:\n    print(f"{i} {{b}} {{{x}}} {{{x}:5d}} {{{f}:.3f}} {{{v}.y + 0.0}} {{{x} > 0}}")',
        f"lines.append(f'{i} {{b}} {{{x}[0]}} {{{x}[0]:5d}} {{{f}[0] + 0.0:.3f}} {{float({v}[0, 1] + "
        f"0.0)}} {{bool({x}[0] > 0)}}')",
    )
