"""Random kernels with statements of all families of ops, and their meaning in Python.

Each statement is written twice: in the language, and on NumPy arrays in float64 with one row for each thread of a
block. All numbers are small multiples of powers of two, so that every order of exact operations gives the same; rounded
numbers, of `near`, are compared with a tolerance. The families of this file are methods; others are the functions of
FAMILIES."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import memory_families
import numpy as np
import tile_families
import value_families
from families import FAMILIES, Term

import tegula as tg

BLOCKS, TRIPS = 2, 3
LANES = (8, 8, 32, 64)
"""Numbers of threads of a block."""
ROWS = 64
"""The number of values of one kind that a program stores, and of rows of cells that it changes."""
MASK = 0xFFFFFFFF
MODULES = (value_families, tile_families, memory_families)


@tg.struct
class Body:
    n: int
    v: tg.vec3
    q: tg.quat


FUNCTIONS = """
@tg.func
def step(x: tg.InOut[int], y: int):
    x = x % 1000 + y
    return x - 2 * y


@tg.func
def moved(b: Body, by: tg.vec3):
    b.v += tg.quat_rotate(b.q, by)
    b.n = b.n % 50 + 1
    b.v.y -= 1.0
    return b


@tg.func
def doubled(b: Body):
    b.n *= 2
    return b
"""


# The meaning of functions on one row for each thread ------------------------------------------------------------------


def pcg(s: Any) -> Any:
    b = (np.asarray(s, np.uint64) * 747796405 + 2891336453) & MASK
    c = (((b >> ((b >> np.uint64(28)) + np.uint64(4))) ^ b) * np.uint64(277803737)) & MASK
    return (c >> np.uint64(22)) ^ c


def init(seed: int, offset: Any) -> Any:
    return pcg((seed + pcg(offset)) & MASK)


def ranged(state: Any, low: int, high: int) -> Any:
    return (state % np.uint64(high - low)).astype(np.int64) + low


def times(a: Any, b: Any) -> Any:
    u, v, s, t = a[..., :3], b[..., :3], a[..., 3:], b[..., 3:]
    return np.concatenate([s * v + t * u + np.cross(u, v), s * t - (u * v).sum(-1, keepdims=True)], -1)


def conjugate(q: Any) -> Any:
    return q * [-1, -1, -1, 1]


def rotated(q: Any, v: Any) -> Any:
    pure = np.concatenate([v, np.zeros((*v.shape[:-1], 1))], -1)
    return times(times(q, pure), conjugate(q))[..., :3]


def rotation(q: Any) -> Any:
    return np.stack([rotated(q, np.broadcast_to(e, (*q.shape[:-1], 3))) for e in np.eye(3)], -1)


def skew(v: Any) -> Any:
    return -np.cross(v[..., None, :], np.eye(3))


def select(c: Any, x: Any, y: Any) -> Any:
    return np.where(c.reshape(-1, *[1] * (x.ndim - 1)), x, y)


def remainder(x: Any, n: int) -> Any:
    return np.sign(x) * (np.abs(x) % n)


def advanced(b: dict[str, Any], by: Any) -> dict[str, Any]:
    v = b["v"] + rotated(b["q"], by)
    return {"n": remainder(b["n"], 50) + 1, "v": v - [0, 1, 0], "q": b["q"]}


def floats(x: Any) -> Any:
    """float32 of exact numbers."""
    return np.asarray(x, np.float32)


def scattered(counts: Any, b: int, position: Any, x: Any) -> None:
    np.add.at(counts, (b, position), x)


# Data -----------------------------------------------------------------------------------------------------------------


def data(seed: int) -> dict[str, Any]:
    """The arrays of a launch, as NumPy has them."""
    rng = np.random.default_rng(seed)
    half = np.array(np.meshgrid(*[[-0.5, 0.5]] * 4)).reshape(4, -1).T
    units = np.concatenate([np.eye(4), -np.eye(4), half])[rng.permutation(24)]
    low = np.tril(rng.integers(-2, 3, (BLOCKS, 4, 4)), -1) + np.eye(4) * 2.0 ** rng.integers(
        0, 2, (BLOCKS, 1, 4)
    )
    x = rng.integers(-3, 4, (BLOCKS, 4)).astype(float)
    sq = rng.integers(-3, 4, (4, 4)).astype(float)
    solvable = low[:, rng.permutation(4)]
    bodies = np.zeros(8, Body.numpy_dtype())
    bodies["n"], bodies["v"], bodies["q"] = rng.integers(-9, 9, 8), rng.integers(-3, 4, (8, 3)), units[:8]
    return {
        "a": rng.integers(-8, 9, (BLOCKS, 128)),
        "units": units,
        "mats": rng.integers(-2, 3, (8, 3, 3)).astype(float),
        "bodies": bodies,
        "low": low,
        "spd": low @ low.transpose(0, 2, 1),
        "x": x,
        "y": np.einsum("bij,bj->bi", low, x),
        "picked": rng.integers(0, 16, 6),
        "sq": sq,
        "mixed": solvable,
        "right": np.einsum("bij,bj->bi", solvable, x),
        "cells": rng.integers(-9, 10, (BLOCKS, ROWS, 64)),
        "sorted": np.sort(rng.integers(-20, 20, 32)),
    }


PARAMETERS = """n: int, a: tg.array2d[int], units: tg.array[tg.quat], mats: tg.array[tg.mat33], bodies: tg.array[Body],
    spd: tg.array3d[float], y: tg.array2d[float], ia: tg.indexedarray[int], sq: tg.array2d[float],
    mixed: tg.array3d[float], right: tg.array2d[float], ordered: tg.array[int],
    counts: tg.array2d[int], cells: tg.array3d[int], fcells: tg.array3d[float], out: tg.array3d[int],
    fout: tg.array3d[float], vout: tg.array3d[tg.vec3], qout: tg.array3d[tg.quat], mout: tg.array3d[tg.mat33],
    bout: tg.array3d[Body], near: tg.array3d[float]"""
RESULTS = ("counts", "cells", "fcells", "out", "fout", "vout", "qout", "mout", "bout", "near")
RESULT_OF_KIND = {
    "int": "out",
    "float": "fout",
    "vec": "vout",
    "quat": "qout",
    "mat": "mout",
    "body": "bout",
    "near": "near",
}
"""The array for the values of each kind."""
RESULT_TYPES = (int, int, float, int, float, tg.vec3, tg.quat, tg.mat33, Body, float)


@dataclass
class FamilyProgram:
    """One program: `text`, a kernel, and `meaning`, a function of one block."""

    seed: int
    lines: list[tuple[str, str]] = field(default_factory=list)
    known: dict[str, list[Term]] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)
    functions: list[str] = field(default_factory=list)
    count: int = 0
    rows: int = 0

    def __post_init__(self) -> None:
        self.r = random.Random(self.seed)
        self.data = data(self.seed % 97)
        self.lanes = self.r.choice(LANES)
        self.start()
        for _ in range(self.r.randint(4, 8)):
            self.statement()
        self.results()
        body = "\n".join("    " + line for text, _ in self.lines for line in text.split("\n"))
        twin = "\n".join("    " + line for _, text in self.lines for line in text.split("\n"))
        functions = "\n\n".join((FUNCTIONS, *dict.fromkeys(self.functions)))
        self.text = f"{functions}\n\n@tg.kernel\ndef kernel({PARAMETERS}):\n    b, j = tg.tid()\n{body}\n"
        self.meaning = f"def block(n, b, j, lines, {', '.join(RESULTS)}):\n{twin}\n"

    def __str__(self) -> str:
        return f"{self.text}\n{self.meaning}"

    # Writing ----------------------------------------------------------------------------------------------------------

    def both(self, text: str, meaning: str) -> None:
        self.lines.append((text, meaning))

    def fresh(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def row(self) -> int:
        """A row of cells that no other statement changes."""
        self.rows += 1
        return self.rows - 1

    def new(
        self, kind: str, text: str, meaning: str, bound: float = 1.0, denominator: float = 1.0
    ) -> Term | None:
        """A value with a name, if its numbers are small enough."""
        term = Term(self.fresh(kind[0]), bound, denominator)
        if not term.fits():
            return None
        self.both(f"{term} = {text}", f"{term} = {meaning}")
        self.known.setdefault(kind, []).append(term)
        return term

    def pick(self, kind: str) -> Term:
        return self.r.choice(self.known[kind][-5:])

    def start(self) -> None:
        self.both("state = tg.rand_init(7, b * 100 + j)", "state = init(7, b * 100 + j)")
        self.new("int", "a[b, j]", "D['a'][b, j]", 8)
        self.new("int", "j - 3", "j - 3", self.lanes)
        for _ in range(2):
            k = self.r.randint(0, 3)
            self.new("quat", f"units[(j + {k}) % 24]", f"D['units'][(j + {k}) % 24]", 1, 2)
            self.new("mat", f"mats[(j + {k}) % 8]", f"D['mats'][(j + {k}) % 8]", 2)
        self.new("float", "float(a[b, 127 - j])", "1.0 * D['a'][b, 127 - j]", 8)
        self.new(
            "vec", "tg.vec3(float(j), 2.0, -1.0)", "np.stack([j, 0 * j + 2, 0 * j - 1.0], -1)", self.lanes
        )
        self.new(
            "body",
            "bodies[j % 8]",
            "{k: D['bodies'][k][j % 8].astype(float if k != 'n' else int) for k in 'nvq'}",
            9,
            2,
        )

    def statement(self) -> None:
        own = [
            *(self.number, self.real, self.vector, self.quaternion, self.matrix, self.body),
            *(self.drawn, self.in_out, self.branch, self.loop, self.of_tiles, self.factor, self.atomic),
            *(self.at_places, self.of_axes),
        ]
        chosen = self.r.choice(own * 2 + FAMILIES)
        self.families.add(chosen.__name__)
        if chosen in FAMILIES:
            chosen(self)
        else:
            chosen()

    # Values of each thread --------------------------------------------------------------------------------------------

    def number(self) -> None:
        x, y = self.pick("int"), self.pick("int")
        for text, meaning, bound in [
            self.r.choice(
                [
                    (f"{x.name} + {y.name}", f"{x.name} + {y.name}", x.bound + y.bound),
                    (f"{x.name} * {y.name}", f"{x.name} * {y.name}", x.bound * y.bound),
                    (f"{x.name} // 3", f"{x.name} // 3", x.bound),
                    (f"{x.name} % 7", f"remainder({x.name}, 7)", 7),
                    (f"tg.max({x.name}, {y.name})", f"np.maximum({x.name}, {y.name})", x.bound + y.bound),
                    (f"tg.sign({x.name})", f"np.where({x.name} < 0, -1, 1)", 1),
                    (
                        f"tg.bit_count({x.name})",
                        f"np.array([bin(int(k) & 0xFFFFFFFF).count('1') for k in {x.name}])",
                        32,
                    ),
                    (f"ia[({x.name} & 3) + 1]", f"D['a'][0][D['picked']][({x.name} & 3) + 1]", 8),
                    (
                        f"tg.where({x.name} < {y.name}, {x.name}, 5)",
                        f"np.where({x.name} < {y.name}, {x.name}, 5)",
                        x.bound + 5,
                    ),
                ]
            )
        ]:
            self.new("int", text, meaning, bound)

    def real(self) -> None:
        f, v, w, m, q = (self.pick(k) for k in ("float", "vec", "vec", "mat", "quat"))
        k = self.r.randint(0, 2)
        options = [
            (f"tg.dot({v.name}, {w.name})", f"({v.name} * {w.name}).sum(-1)", 3 * v.bound * w.bound, (v, w)),
            (f"{v.name}[{k}] + {w.name}.y", f"{v.name}[:, {k}] + {w.name}[:, 1]", v.bound + w.bound, (v, w)),
            (f"{f.name} * 0.5", f"{f.name} * 0.5", f.bound, (f, Term("", 1, 2))),
            (f"tg.floor({f.name} * 0.5)", f"np.floor({f.name} * 0.5)", f.bound, ()),
            (f"tg.trace({m.name})", f"np.trace({m.name}, axis1=1, axis2=2)", 3 * m.bound, (m,)),
            (
                f"tg.determinant({m.name})",
                f"({m.name}[:, 0] * np.cross({m.name}[:, 1], {m.name}[:, 2])).sum(-1)",
                6 * m.bound**3,
                (m, m, m),
            ),
            (f"tg.ddot({m.name}, {m.name})", f"({m.name} ** 2).sum((1, 2))", 9 * m.bound**2, (m, m)),
            (f"tg.length_sq({q.name}) + {q.name}.w", f"1.0 + {q.name}[:, 3]", 2, (q, q)),
        ]
        text, meaning, bound, parts = self.r.choice(options)
        self.new("float", text, meaning, bound, float(np.prod([p.denominator for p in parts])))

    def vector(self) -> None:
        f, v, w, m, q = (self.pick(k) for k in ("float", "vec", "vec", "mat", "quat"))
        k = self.r.randint(0, 2)
        options = [
            (f"{v.name} + {w.name}", f"{v.name} + {w.name}", v.bound + w.bound, (v, w)),
            (f"{v.name} * {f.name}", f"{v.name} * {f.name}[:, None]", v.bound * f.bound, (v, f)),
            (f"tg.cross({v.name}, {w.name})", f"np.cross({v.name}, {w.name})", 2 * v.bound * w.bound, (v, w)),
            (
                f"{m.name} @ {v.name}",
                f"np.einsum('lij,lj->li', {m.name}, {v.name})",
                3 * m.bound * v.bound,
                (m, v),
            ),
            (f"tg.quat_rotate({q.name}, {v.name})", f"rotated({q.name}, {v.name})", 1.8 * v.bound, (v, q, q)),
            (
                f"tg.quat_rotate_inv({q.name}, {v.name})",
                f"rotated(conjugate({q.name}), {v.name})",
                1.8 * v.bound,
                (v, q, q),
            ),
            (f"{m.name}[{k}]", f"{m.name}[:, {k}]", m.bound, (m,)),
            (f"{m.name}[:, {k}]", f"{m.name}[:, :, {k}]", m.bound, (m,)),
            (f"{v.name}.zxy", f"{v.name}[:, [2, 0, 1]]", v.bound, (v,)),
            (
                f"tg.vec3({f.name}, {v.name}.yx)",
                f"np.stack([{f.name}, {v.name}[:, 1], {v.name}[:, 0]], -1)",
                v.bound + f.bound,
                (v, f),
            ),
            (f"tg.get_diag({m.name})", f"np.diagonal({m.name}, axis1=1, axis2=2)", m.bound, (m,)),
        ]
        text, meaning, bound, parts = self.r.choice(options)
        self.new("vec", text, meaning, bound, float(np.prod([p.denominator for p in parts])))

    def quaternion(self) -> None:
        q, r, x = self.pick("quat"), self.pick("quat"), self.pick("int")
        text, meaning = self.r.choice(
            [
                (f"{q.name} * {r.name}", f"times({q.name}, {r.name})"),
                (f"tg.quat_inverse({q.name})", f"conjugate({q.name})"),
                (f"tg.normalize({q.name} * 4.0)", q.name),
                (
                    f"tg.where({x.name} > 0, {q.name}, {r.name})",
                    f"select({x.name} > 0, {q.name}, {r.name})",
                ),
            ]
        )
        self.new("quat", text, meaning, 1, 2)

    def matrix(self) -> None:
        m, o, v, w, q = (self.pick(k) for k in ("mat", "mat", "vec", "vec", "quat"))
        f = self.pick("float")
        unit = f"tg.mat33(1.0, {f.name}, 2.0, 0.0, 1.0, -{f.name}, 0.0, 0.0, 1.0)"
        inverse = (
            f"np.stack([np.array([[1, -x, -x * x - 2], [0, 1, x], [0, 0, 1]], float) for x in {f.name}])"
        )
        options = [
            (f"{m.name} + {o.name}", f"{m.name} + {o.name}", m.bound + o.bound, (m, o)),
            (f"{m.name} @ {o.name}", f"{m.name} @ {o.name}", 3 * m.bound * o.bound, (m, o)),
            (f"{m.name}.T", f"{m.name}.transpose(0, 2, 1)", m.bound, (m,)),
            (
                f"tg.outer({v.name}, {w.name})",
                f"{v.name}[:, :, None] * {w.name}[:, None, :]",
                v.bound * w.bound,
                (v, w),
            ),
            (f"tg.skew({v.name})", f"skew({v.name})", v.bound, (v,)),
            (f"tg.diag({v.name})", f"{v.name}[:, :, None] * np.eye(3)", v.bound, (v,)),
            (f"tg.quat_to_matrix({q.name})", f"rotation({q.name})", 1, (q, q)),
            (f"tg.inverse({unit})", inverse, f.bound**2 + 2, (f, f)),
        ]
        text, meaning, bound, parts = self.r.choice(options)
        self.new("mat", text, meaning, bound, float(np.prod([p.denominator for p in parts])))

    def body(self) -> None:
        b, v, q, x = (self.pick(k) for k in ("body", "vec", "quat", "int"))
        size, denominator = b.bound + 3 * v.bound + 1, b.denominator * v.denominator * 4
        kind = self.r.randint(0, 3)
        if kind == 0:
            names = f"{{'n': {x.name}, 'v': {v.name}, 'q': {q.name}}}"
            self.new(
                "body", f"Body({x.name}, {v.name}, {q.name})", names, x.bound + v.bound, 2 * v.denominator
            )
        elif kind == 1:
            text, meaning = f"moved({b.name}, {v.name})", f"advanced({b.name}, {v.name})"
            self.new("body", text, meaning, max(size, 60), denominator)
        elif kind == 2:
            self.new("vec", f"{b.name}.v", f"{b.name}['v']", b.bound, b.denominator)
            self.new("int", f"{b.name}.n", f"{b.name}['n'].astype(int)", b.bound)
        else:
            tile = "tg.tile_map(doubled, tg.tile_load(bodies, 8))"
            self.count += 1
            t = f"t{self.count}"
            self.both(f"{t} = {tile}", f"{t} = 2 * D['bodies']['n'].astype(int)")
            self.new("int", f"{t}[7 - j % 8].n", f"{t}[7 - j % 8]", 18)

    def drawn(self) -> None:
        low, high = self.r.randint(-9, 0), self.r.randint(1, 9)
        self.both("pass", "state = pcg(state)")
        self.new("int", f"tg.randi(state, {low}, {high})", f"ranged(state, {low}, {high})", 9)
        if self.r.random() < 0.5:
            self.both("pass", "state = pcg(state)")
            self.new(
                "float", "tg.floor(tg.randf(state) * 8.0)", "np.floor((state >> np.uint64(8)) / 2.0**21)", 8
            )

    def in_out(self) -> None:
        x, y = self.pick("int"), self.pick("int")
        if x.bound + y.bound > 1e5:
            return
        self.count += 1
        z = f"z{self.count}"
        self.both(f"{z} = {x.name} + 0", f"{z} = remainder({x.name}, 1000) + {y.name}")
        self.new("int", f"step({z}, {y.name})", f"{z} - 2 * {y.name}", 1000 + 3 * y.bound)
        self.new("int", f"{z} * 1", z, 1000 + y.bound)

    # Control flow -----------------------------------------------------------------------------------------------------

    def branch(self) -> None:
        """Some threads draw a number, and set a variable and a quaternion."""
        x, y, q, r = self.pick("int"), self.pick("int"), self.pick("quat"), self.pick("quat")
        self.count += 1
        k = self.count
        self.both(
            f"c{k} = {x.name} + 0\np{k} = {q.name} * 1.0\nif {x.name} > {y.name}:\n"
            f"    c{k} = tg.randi(state, 0, 6)\n    p{k} = {q.name} * {r.name}",
            f"mask = {x.name} > {y.name}\nstate = np.where(mask, pcg(state), state)\n"
            f"c{k} = np.where(mask, ranged(state, 0, 6), {x.name})\n"
            f"p{k} = select(mask, times({q.name}, {r.name}), {q.name})",
        )
        self.known["int"].append(Term(f"c{k}", x.bound + 6))
        self.known["quat"].append(Term(f"p{k}", 1, 2))

    def loop(self) -> None:
        x, q, r, b = self.pick("int"), self.pick("quat"), self.pick("quat"), self.pick("body")
        times_run = self.r.choice(("n", "2", "4"))
        self.count += 1
        k = self.count
        self.both(
            f"c{k} = {x.name} + 0\np{k} = {q.name} * 1.0\nd{k} = {b.name}\nfor k{k} in range({times_run}):\n"
            f"    c{k} = (c{k} * 3 + k{k}) % 101\n    c{k} += tg.randi(state, 0, 5)\n    p{k} = p{k} * {r.name}\n"
            f"    d{k}.n = step(c{k}, k{k})",
            f"c{k}, p{k}, d{k} = {x.name}, {q.name}, dict({b.name})\nfor k{k} in range({times_run}):\n"
            f"    c{k} = remainder(c{k} * 3 + k{k}, 101)\n    state = pcg(state)\n"
            f"    c{k} = c{k} + ranged(state, 0, 5)\n    p{k} = times(p{k}, {r.name})\n"
            f"    c{k} = remainder(c{k}, 1000) + k{k}\n    d{k}['n'] = c{k} - 2 * k{k}",
        )
        self.known["int"].append(Term(f"c{k}", max(x.bound, 120)))
        self.known["quat"].append(Term(f"p{k}", 1, 2))
        self.known["body"].append(Term(f"d{k}", max(b.bound, 120), b.denominator))

    # Tiles ------------------------------------------------------------------------------------------------------------

    def of_tiles(self) -> None:
        x, y, v = self.pick("int"), self.pick("int"), self.pick("vec")
        self.count += 1
        k = self.count
        kind = self.r.choice(("sort", "scan", "gather", "sum", "random", "vectors", "matmul"))
        self.families.add(kind)
        if kind == "sort":
            self.both(
                f"k{k}, v{k} = tg.tile({x.name}), tg.tile({y.name})\ntg.tile_sort(k{k}, v{k})",
                f"o{k} = np.argsort({x.name}, kind='stable')",
            )
            self.new("int", f"tg.untile(v{k})", f"{y.name}[o{k}]", y.bound)
        elif kind == "scan":
            text = f"tg.untile(tg.tile_scan_inclusive(tg.tile({x.name})))"
            self.new("int", text, f"np.cumsum({x.name})", x.bound * self.lanes)
        elif kind == "gather":
            text = f"tg.untile(tg.tile({x.name})[tg.tile({y.name} & 7)])"
            self.new("int", text, f"{x.name}[{y.name} & 7]", x.bound)
        elif kind == "sum":
            text = f"tg.tile_sum(tg.tile({x.name}))[0] + j"
            self.new("int", text, f"{x.name}.sum() + j", self.lanes * (x.bound + 1))
        elif kind == "random":
            self.both(f"t{k} = tg.tile_randi(8, tg.rand_init(5, b), 0, 50)", f"t{k} = int(init(5, b))")
            self.new("int", f"t{k}[7 - j % 8]", f"ranged(pcg(pcg((7 - j % 8 + t{k}) & MASK)), 0, 50)", 50)
        elif kind == "vectors":
            text = f"tg.tile_sum(tg.tile({v.name}, preserve_type=True))[0] + {v.name}"
            self.new("vec", text, f"{v.name}.sum(0) + {v.name}", v.bound * (self.lanes + 1), v.denominator)
        else:
            self.both(f"s{k} = tg.tile_load(sq, (4, 4))\np{k} = s{k} @ tg.tile_transpose(s{k})", "pass")
            self.new("float", f"p{k}[j % 4, 2]", "(D['sq'] @ D['sq'].T)[j % 4, 2]", 36)

    def at_places(self) -> None:
        """Loads, stores and additions at indices that threads have, some of them left out by a mask."""
        x, y = self.pick("int"), self.pick("int")
        self.count += 1
        k = self.count
        kind = self.r.choice(("indexed", "scattered", "assigned", "pairs", "masked"))
        self.families.add(kind)
        if kind == "indexed":
            self.both(
                f"w{k} = tg.tile({x.name}) > 0\nt{k} = tg.tile_load_indexed("
                f"a[b], tg.tile({y.name} % 140), shape={self.lanes}, mask=w{k}, other=-2)",
                f"o{k} = remainder({y.name}, 140)\ni{k} = ({x.name} > 0) & (o{k} >= 0) & (o{k} < 128)\n"
                f"t{k} = np.where(i{k}, D['a'][b][np.where(i{k}, o{k}, 0)], -2)",
            )
            self.new("int", f"tg.untile(t{k})", f"t{k} + 0", 8)
        elif kind == "scattered":
            self.both(
                f"t{k} = tg.tile_zeros({self.lanes}, dtype=int)\nt{k}[tg.tile({y.name} & 7)] = tg.tile({x.name})\n"
                f"t{k}[tg.tile({x.name} & 3)] += tg.tile({y.name})",
                f"t{k} = 0 * j\nt{k}[{y.name} & 7] = {x.name}\nnp.add.at(t{k}, {x.name} & 3, {y.name})",
            )
            self.new("int", f"tg.untile(t{k})", f"t{k} + 0", x.bound + self.lanes * y.bound)
        elif kind == "assigned":
            self.both(
                f"t{k} = tg.tile_map(tg.add, tg.tile({x.name}), 0)\nt{k}[t{k} > 2] = tg.tile({y.name})",
                f"t{k} = np.where({x.name} > 2, {y.name}, {x.name})",
            )
            self.new("int", f"tg.untile(t{k})", f"t{k} + 0", x.bound + y.bound)
        elif kind == "pairs":
            text = f"tg.untile(tg.tile_load(sq, (4, 4))[tg.tile({x.name} & 3), tg.tile({y.name} & 3)])"
            self.new("float", text, f"D['sq'][{x.name} & 3, {y.name} & 3]", 3)
        else:
            self.both(
                f"u{k} = tg.tile({y.name})\n"
                f"tg.tile_atomic_add_indexed(counts[b], tg.tile({x.name} & 3), u{k}, mask=u{k} < 3)",
                f"scattered(counts, b, ({x.name} & 3)[{y.name} < 3], {y.name}[{y.name} < 3])",
            )

    def of_axes(self) -> None:
        """Scans, extremes, counts and matmuls along dimensions."""
        x, y = self.pick("int"), self.pick("int")
        self.count += 1
        k = self.count
        kind = self.r.choice(("running", "extreme", "counted", "batched", "column"))
        self.families.add(kind)
        if kind == "running":
            axis, rows = self.r.randint(0, 1), self.r.choice((1, 2, 4))
            text = f"tg.tile({x.name}).reshape({rows}, -1).cumsum(axis={axis}).reshape(-1)"
            meaning = f"np.cumsum({x.name}.reshape({rows}, -1), {axis}).ravel()"
            self.new("int", f"tg.untile({text})", meaning, x.bound * self.lanes)
        elif kind == "extreme":
            name = self.r.choice(("argmax", "argmin", "max", "min"))
            text = f"tg.tile({x.name}).reshape(-1, 2).{name}(axis=1)[j // 2]"
            self.new("int", text, f"{x.name}.reshape(-1, 2).{name}(1)[j // 2]", x.bound)
        elif kind == "counted":
            text = f"(tg.tile({x.name}) > tg.tile({y.name})).sum()[0] + j"
            self.new("int", text, f"({x.name} > {y.name}).sum() + j", 2 * self.lanes)
        elif kind == "batched":
            self.both(f"s{k} = tg.tile_load(sq, (4, 4)).reshape(4, 2, 2)\np{k} = s{k} @ s{k}", "pass")
            meaning = "np.matmul(*[D['sq'].reshape(4, 2, 2)] * 2)[j % 4, 1, 0]"
            self.new("float", f"p{k}[j % 4, 1, 0]", meaning, 18)
        else:
            self.both(f"s{k} = tg.tile_load(sq, (4, 4)) @ tg.tile_load(sq, (4, 4))[:, 1]", "pass")
            self.new("float", f"s{k}[j % 4]", "(D['sq'] @ D['sq'][:, 1])[j % 4]", 36)

    def factor(self) -> None:
        self.count += 1
        k = self.count
        self.both(f"f{k} = tg.tile_cholesky(tg.tile_load(spd[b], (4, 4)))", "pass")
        if self.r.random() < 0.5:
            self.new("float", f"f{k}[j % 4, j // 4 % 4]", "D['low'][b][j % 4, j // 4 % 4]", 4)
        else:
            self.both(f"g{k} = tg.tile_lower_solve(f{k}, tg.tile_load(y[b], 4))", "pass")
            self.new("float", f"g{k}[3 - j % 4]", "D['x'][b][3 - j % 4]", 4)

    def atomic(self) -> None:
        x, y = self.pick("int"), self.pick("int")
        index = f"{x.name} & 3"
        self.both(
            f"tg.atomic_add(counts, (b, {index}), {y.name})", f"scattered(counts, b, {index}, {y.name})"
        )

    # Results ----------------------------------------------------------------------------------------------------------

    def results(self) -> None:
        """Stores the values that are in scope at the end."""
        for kind, terms in self.known.items():
            result_array = RESULT_OF_KIND[kind]
            for row, t in enumerate(terms[-6:]):
                if kind == "body":
                    meaning = f"for k in 'nvq':\n    {result_array}[k][b, {row}, j] = {t}[k]"
                    self.both(f"{result_array}[b, {row}, j] = {t}", meaning)
                else:
                    self.both(f"{result_array}[b, {row}, j] = {t}", f"{result_array}[b, {row}, j] = {t}")

    # Running ----------------------------------------------------------------------------------------------------------

    def kernel(self) -> Any:
        return tg.exec(self.text, {"tg": tg, "Body": Body})["kernel"]

    def arguments(self) -> list[Any]:
        d = self.data
        indexed = tg.indexedarray(
            tg.array(d["a"][0].astype(np.int32)), [tg.array(d["picked"].astype(np.int32))]
        )
        return [
            *(TRIPS, tg.array(d["a"].astype(np.int32)), tg.array(d["units"], dtype=tg.quat)),
            *(tg.array(d["mats"], dtype=tg.mat33), tg.array(d["bodies"], dtype=Body)),
            *(tg.array(d["spd"], dtype=float), tg.array(d["y"], dtype=float), indexed),
            *(tg.array(d["sq"], dtype=float), tg.array(d["mixed"], dtype=float)),
            *(tg.array(d["right"], dtype=float), tg.array(d["sorted"].astype(np.int32))),
            *(
                tg.array(initial, dtype=dtype)
                for initial, dtype in zip(self.started(), RESULT_TYPES, strict=True)
            ),
        ]

    def started(self) -> list[np.ndarray]:
        """The contents of the result arrays before the launch."""
        cells = self.data["cells"][..., : self.lanes]
        grid = (BLOCKS, ROWS, self.lanes)
        return [
            *(np.zeros((BLOCKS, 4), np.int32), cells.astype(np.int32), cells.astype(np.float32)),
            *(np.zeros(grid, np.int32), np.zeros(grid, np.float32), np.zeros((*grid, 3), np.float32)),
            *(np.zeros((*grid, 4), np.float32), np.zeros((*grid, 3, 3), np.float32)),
            *(np.zeros(grid, Body.numpy_dtype()), np.zeros(grid, np.float32)),
        ]

    def expected(self) -> tuple[list[np.ndarray], list[str]]:
        """The contents of the result arrays after the launch, and the printed lines."""
        space = {
            **globals(),
            **{name: value for m in MODULES for name, value in vars(m).items()},
            "D": self.data,
        }
        exec(self.meaning, space)
        arrays, lines = self.started(), list[str]()
        arrays = [
            x if x.dtype.names else x.astype(np.int64 if x.dtype.kind == "i" else np.float64) for x in arrays
        ]
        for b in range(BLOCKS):
            space["block"](TRIPS, b, np.arange(self.lanes), lines, *arrays)
        return arrays, lines
