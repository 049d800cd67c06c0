"""Random kernels with statements of all families of ops, and a reference in Python.

Each statement is emitted twice: in the language, and on NumPy arrays in float64 with one row for each thread of a
block. All numbers are small multiples of powers of two, so that exact operations give the same result in every order;
results of kind `rounded` are compared with a tolerance. The families of this file are methods; other families are the
functions of FAMILIES."""

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
from support.array_order import column_major

BLOCKS, TRIPS = 2, 3
COLUMN_MAJOR_PERIOD = 3
"""The arrays of every third program are in column-major order."""
LANES = (8, 8, 32, 64)
"""The candidates for the number of threads of a block."""
ROWS = 64
"""The number of rows of each result array, and of the rows of cells that a program modifies."""
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


# References of functions, on arrays with one row for each thread ------------------------------------------------------


def pcg(s: Any) -> Any:
    b = (np.asarray(s, np.uint64) * 747796405 + 2891336453) & MASK
    c = (((b >> ((b >> np.uint64(28)) + np.uint64(4))) ^ b) * np.uint64(277803737)) & MASK
    return (c >> np.uint64(22)) ^ c


def rand_init(seed: int, offset: Any) -> Any:
    return pcg((seed + pcg(offset)) & MASK)


def rand_int(state: Any, low: int, high: int) -> Any:
    return (state % np.uint64(high - low)).astype(np.int64) + low


def quat_multiply(a: Any, b: Any) -> Any:
    u, v, s, t = a[..., :3], b[..., :3], a[..., 3:], b[..., 3:]
    return np.concatenate([s * v + t * u + np.cross(u, v), s * t - (u * v).sum(-1, keepdims=True)], -1)


def conjugate(q: Any) -> Any:
    return q * [-1, -1, -1, 1]


def quat_rotate(q: Any, v: Any) -> Any:
    pure = np.concatenate([v, np.zeros((*v.shape[:-1], 1))], -1)
    return quat_multiply(quat_multiply(q, pure), conjugate(q))[..., :3]


def rotation_matrix(q: Any) -> Any:
    return np.stack([quat_rotate(q, np.broadcast_to(e, (*q.shape[:-1], 3))) for e in np.eye(3)], -1)


def skew(v: Any) -> Any:
    return -np.cross(v[..., None, :], np.eye(3))


def select(c: Any, x: Any, y: Any) -> Any:
    return np.where(c.reshape(-1, *[1] * (x.ndim - 1)), x, y)


def remainder(x: Any, n: int) -> Any:
    return np.sign(x) * (np.abs(x) % n)


def moved_bodies(b: dict[str, Any], displacement: Any) -> dict[str, Any]:
    v = b["v"] + quat_rotate(b["q"], displacement)
    return {"n": remainder(b["n"], 50) + 1, "v": v - [0, 1, 0], "q": b["q"]}


def to_float32(x: Any) -> Any:
    """Exactly representable numbers as float32."""
    return np.asarray(x, np.float32)


def add_at(counts: Any, b: int, position: Any, x: Any) -> None:
    np.add.at(counts, (b, position), x)


# Data -----------------------------------------------------------------------------------------------------------------


def launch_data(seed: int) -> dict[str, Any]:
    """The arrays of a launch, as NumPy arrays."""
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
        "indices": rng.integers(0, 16, 6),
        "sq": sq,
        "permuted": solvable,
        "rhs": np.einsum("bij,bj->bi", solvable, x),
        "cells": rng.integers(-9, 10, (BLOCKS, ROWS, 64)),
        "sorted": np.sort(rng.integers(-20, 20, 32)),
    }


PARAMETERS = """n: int, a: tg.array2d[int], units: tg.array[tg.quat], mats: tg.array[tg.mat33], bodies: tg.array[Body],
    spd: tg.array3d[float], y: tg.array2d[float], ia: tg.indexedarray[int], sq: tg.array2d[float],
    permuted: tg.array3d[float], rhs: tg.array2d[float], ordered: tg.array[int],
    counts: tg.array2d[int], cells: tg.array3d[int], fcells: tg.array3d[float], out: tg.array3d[int],
    fout: tg.array3d[float], vout: tg.array3d[tg.vec3], qout: tg.array3d[tg.quat], mout: tg.array3d[tg.mat33],
    bout: tg.array3d[Body], rounded: tg.array3d[float]"""
RESULTS = ("counts", "cells", "fcells", "out", "fout", "vout", "qout", "mout", "bout", "rounded")
RESULT_OF_KIND = {
    "int": "out",
    "float": "fout",
    "vec": "vout",
    "quat": "qout",
    "mat": "mout",
    "body": "bout",
    "rounded": "rounded",
}
"""The array for the values of each kind."""
RESULT_TYPES = (int, int, float, int, float, tg.vec3, tg.quat, tg.mat33, Body, float)


@dataclass
class FamilyProgram:
    """A program: `text`, a kernel, and `reference`, a Python function that computes the results of one block."""

    seed: int
    lines: list[tuple[str, str]] = field(default_factory=list)
    terms: dict[str, list[Term]] = field(default_factory=dict)
    families: set[str] = field(default_factory=set)
    functions: list[str] = field(default_factory=list)
    name_count: int = 0
    row_count: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.data = launch_data(self.seed % 97)
        self.lanes = self.rng.choice(LANES)
        self.define_inputs()
        for _ in range(self.rng.randint(4, 8)):
            self.statement()
        self.store_results()
        body = "\n".join("    " + line for text, _ in self.lines for line in text.split("\n"))
        reference_body = "\n".join("    " + line for _, text in self.lines for line in text.split("\n"))
        functions = "\n\n".join((FUNCTIONS, *dict.fromkeys(self.functions)))
        self.text = f"{functions}\n\n@tg.kernel\ndef kernel({PARAMETERS}):\n    b, j = tg.tid()\n{body}\n"
        self.reference = f"def block(n, b, j, lines, {', '.join(RESULTS)}):\n{reference_body}\n"

    def __str__(self) -> str:
        return f"{self.text}\n{self.reference}"

    # Writing ----------------------------------------------------------------------------------------------------------

    def emit(self, text: str, reference: str) -> None:
        self.lines.append((text, reference))

    def fresh_name(self, letter: str) -> str:
        self.name_count += 1
        return f"{letter}{self.name_count}"

    def new_row(self) -> int:
        """The index of a row of cells that no other statement modifies."""
        self.row_count += 1
        return self.row_count - 1

    def define(
        self, kind: str, text: str, reference: str, bound: float = 1.0, denominator: float = 1.0
    ) -> Term | None:
        """Define a value with a fresh name if its numbers are small enough. Returns the value, or None."""
        term = Term(self.fresh_name(kind[0]), bound, denominator)
        if not term.fits():
            return None
        self.emit(f"{term} = {text}", f"{term} = {reference}")
        self.terms.setdefault(kind, []).append(term)
        return term

    def operand(self, kind: str) -> Term:
        return self.rng.choice(self.terms[kind][-5:])

    def define_inputs(self) -> None:
        self.emit("state = tg.rand_init(7, b * 100 + j)", "state = rand_init(7, b * 100 + j)")
        self.define("int", "a[b, j]", "D['a'][b, j]", 8)
        self.define("int", "j - 3", "j - 3", self.lanes)
        for _ in range(2):
            k = self.rng.randint(0, 3)
            self.define("quat", f"units[(j + {k}) % 24]", f"D['units'][(j + {k}) % 24]", 1, 2)
            self.define("mat", f"mats[(j + {k}) % 8]", f"D['mats'][(j + {k}) % 8]", 2)
        self.define("float", "float(a[b, 127 - j])", "1.0 * D['a'][b, 127 - j]", 8)
        self.define(
            "vec", "tg.vec3(float(j), 2.0, -1.0)", "np.stack([j, 0 * j + 2, 0 * j - 1.0], -1)", self.lanes
        )
        self.define(
            "body",
            "bodies[j % 8]",
            "{k: D['bodies'][k][j % 8].astype(float if k != 'n' else int) for k in 'nvq'}",
            9,
            2,
        )

    def statement(self) -> None:
        methods = [
            *(self.number, self.real, self.vector, self.quaternion, self.matrix, self.body),
            *(
                self.random_numbers,
                self.in_out,
                self.branch,
                self.loop,
                self.tile_functions,
                self.cholesky_factor,
                self.atomic,
            ),
            *(self.indexed_accesses, self.axis_functions),
        ]
        family = self.rng.choice(methods * 2 + FAMILIES)
        self.families.add(family.__name__)
        if family in FAMILIES:
            family(self)
        else:
            family()

    # Values of each thread --------------------------------------------------------------------------------------------

    def number(self) -> None:
        x, y = self.operand("int"), self.operand("int")
        for text, reference, bound in [
            self.rng.choice(
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
                    (f"ia[({x.name} & 3) + 1]", f"D['a'][0][D['indices']][({x.name} & 3) + 1]", 8),
                    (
                        f"tg.where({x.name} < {y.name}, {x.name}, 5)",
                        f"np.where({x.name} < {y.name}, {x.name}, 5)",
                        x.bound + 5,
                    ),
                ]
            )
        ]:
            self.define("int", text, reference, bound)

    def real(self) -> None:
        f, v, w, m, q = (self.operand(k) for k in ("float", "vec", "vec", "mat", "quat"))
        k = self.rng.randint(0, 2)
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
        text, reference, bound, parts = self.rng.choice(options)
        self.define("float", text, reference, bound, float(np.prod([p.denominator for p in parts])))

    def vector(self) -> None:
        f, v, w, m, q = (self.operand(k) for k in ("float", "vec", "vec", "mat", "quat"))
        k = self.rng.randint(0, 2)
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
            (
                f"tg.quat_rotate({q.name}, {v.name})",
                f"quat_rotate({q.name}, {v.name})",
                1.8 * v.bound,
                (v, q, q),
            ),
            (
                f"tg.quat_rotate_inv({q.name}, {v.name})",
                f"quat_rotate(conjugate({q.name}), {v.name})",
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
        text, reference, bound, parts = self.rng.choice(options)
        self.define("vec", text, reference, bound, float(np.prod([p.denominator for p in parts])))

    def quaternion(self) -> None:
        q, r, x = self.operand("quat"), self.operand("quat"), self.operand("int")
        text, reference = self.rng.choice(
            [
                (f"{q.name} * {r.name}", f"quat_multiply({q.name}, {r.name})"),
                (f"tg.quat_inverse({q.name})", f"conjugate({q.name})"),
                (f"tg.normalize({q.name} * 4.0)", q.name),
                (
                    f"tg.where({x.name} > 0, {q.name}, {r.name})",
                    f"select({x.name} > 0, {q.name}, {r.name})",
                ),
            ]
        )
        self.define("quat", text, reference, 1, 2)

    def matrix(self) -> None:
        m, o, v, w, q = (self.operand(k) for k in ("mat", "mat", "vec", "vec", "quat"))
        f = self.operand("float")
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
            (f"tg.quat_to_matrix({q.name})", f"rotation_matrix({q.name})", 1, (q, q)),
            (f"tg.inverse({unit})", inverse, f.bound**2 + 2, (f, f)),
        ]
        text, reference, bound, parts = self.rng.choice(options)
        self.define("mat", text, reference, bound, float(np.prod([p.denominator for p in parts])))

    def body(self) -> None:
        b, v, q, x = (self.operand(k) for k in ("body", "vec", "quat", "int"))
        size, denominator = b.bound + 3 * v.bound + 1, b.denominator * v.denominator * 4
        kind = self.rng.randint(0, 3)
        if kind == 0:
            names = f"{{'n': {x.name}, 'v': {v.name}, 'q': {q.name}}}"
            self.define(
                "body", f"Body({x.name}, {v.name}, {q.name})", names, x.bound + v.bound, 2 * v.denominator
            )
        elif kind == 1:
            text, reference = f"moved({b.name}, {v.name})", f"moved_bodies({b.name}, {v.name})"
            self.define("body", text, reference, max(size, 60), denominator)
        elif kind == 2:
            self.define("vec", f"{b.name}.v", f"{b.name}['v']", b.bound, b.denominator)
            self.define("int", f"{b.name}.n", f"{b.name}['n'].astype(int)", b.bound)
        else:
            tile = "tg.tile_map(doubled, tg.tile_load(bodies, 8))"
            self.name_count += 1
            t = f"t{self.name_count}"
            self.emit(f"{t} = {tile}", f"{t} = 2 * D['bodies']['n'].astype(int)")
            self.define("int", f"{t}[7 - j % 8].n", f"{t}[7 - j % 8]", 18)

    def random_numbers(self) -> None:
        low, high = self.rng.randint(-9, 0), self.rng.randint(1, 9)
        self.emit("pass", "state = pcg(state)")
        self.define("int", f"tg.randi(state, {low}, {high})", f"rand_int(state, {low}, {high})", 9)
        if self.rng.random() < 0.5:
            self.emit("pass", "state = pcg(state)")
            self.define(
                "float", "tg.floor(tg.randf(state) * 8.0)", "np.floor((state >> np.uint64(8)) / 2.0**21)", 8
            )

    def in_out(self) -> None:
        x, y = self.operand("int"), self.operand("int")
        if x.bound + y.bound > 1e5:
            return
        self.name_count += 1
        z = f"z{self.name_count}"
        self.emit(f"{z} = {x.name} + 0", f"{z} = remainder({x.name}, 1000) + {y.name}")
        self.define("int", f"step({z}, {y.name})", f"{z} - 2 * {y.name}", 1000 + 3 * y.bound)
        self.define("int", f"{z} * 1", z, 1000 + y.bound)

    # Control flow -----------------------------------------------------------------------------------------------------

    def branch(self) -> None:
        """A branch in which some threads draw a random number, and assign an integer and a quaternion."""
        x, y, q, r = self.operand("int"), self.operand("int"), self.operand("quat"), self.operand("quat")
        self.name_count += 1
        k = self.name_count
        self.emit(
            f"c{k} = {x.name} + 0\np{k} = {q.name} * 1.0\nif {x.name} > {y.name}:\n"
            f"    c{k} = tg.randi(state, 0, 6)\n    p{k} = {q.name} * {r.name}",
            f"mask = {x.name} > {y.name}\nstate = np.where(mask, pcg(state), state)\n"
            f"c{k} = np.where(mask, rand_int(state, 0, 6), {x.name})\n"
            f"p{k} = select(mask, quat_multiply({q.name}, {r.name}), {q.name})",
        )
        self.terms["int"].append(Term(f"c{k}", x.bound + 6))
        self.terms["quat"].append(Term(f"p{k}", 1, 2))

    def loop(self) -> None:
        x, q, r, b = self.operand("int"), self.operand("quat"), self.operand("quat"), self.operand("body")
        trip_count = self.rng.choice(("n", "2", "4"))
        self.name_count += 1
        k = self.name_count
        self.emit(
            f"c{k} = {x.name} + 0\np{k} = {q.name} * 1.0\nd{k} = {b.name}\nfor k{k} in range({trip_count}):\n"
            f"    c{k} = (c{k} * 3 + k{k}) % 101\n    c{k} += tg.randi(state, 0, 5)\n    p{k} = p{k} * {r.name}\n"
            f"    d{k}.n = step(c{k}, k{k})",
            f"c{k}, p{k}, d{k} = {x.name}, {q.name}, dict({b.name})\nfor k{k} in range({trip_count}):\n"
            f"    c{k} = remainder(c{k} * 3 + k{k}, 101)\n    state = pcg(state)\n"
            f"    c{k} = c{k} + rand_int(state, 0, 5)\n    p{k} = quat_multiply(p{k}, {r.name})\n"
            f"    c{k} = remainder(c{k}, 1000) + k{k}\n    d{k}['n'] = c{k} - 2 * k{k}",
        )
        self.terms["int"].append(Term(f"c{k}", max(x.bound, 120)))
        self.terms["quat"].append(Term(f"p{k}", 1, 2))
        self.terms["body"].append(Term(f"d{k}", max(b.bound, 120), b.denominator))

    # Tiles ------------------------------------------------------------------------------------------------------------

    def tile_functions(self) -> None:
        x, y, v = self.operand("int"), self.operand("int"), self.operand("vec")
        self.name_count += 1
        k = self.name_count
        kind = self.rng.choice(("sort", "scan", "gather", "sum", "random", "vectors", "matmul"))
        self.families.add(kind)
        if kind == "sort":
            self.emit(
                f"k{k}, v{k} = tg.tile({x.name}), tg.tile({y.name})\ntg.tile_sort(k{k}, v{k})",
                f"o{k} = np.argsort({x.name}, kind='stable')",
            )
            self.define("int", f"tg.untile(v{k})", f"{y.name}[o{k}]", y.bound)
        elif kind == "scan":
            text = f"tg.untile(tg.tile_scan_inclusive(tg.tile({x.name})))"
            self.define("int", text, f"np.cumsum({x.name})", x.bound * self.lanes)
        elif kind == "gather":
            text = f"tg.untile(tg.tile({x.name})[tg.tile({y.name} & 7)])"
            self.define("int", text, f"{x.name}[{y.name} & 7]", x.bound)
        elif kind == "sum":
            text = f"tg.tile_sum(tg.tile({x.name}))[0] + j"
            self.define("int", text, f"{x.name}.sum() + j", self.lanes * (x.bound + 1))
        elif kind == "random":
            self.emit(f"t{k} = tg.tile_randi(8, tg.rand_init(5, b), 0, 50)", f"t{k} = int(rand_init(5, b))")
            self.define(
                "int", f"t{k}[7 - j % 8]", f"rand_int(pcg(pcg((7 - j % 8 + t{k}) & MASK)), 0, 50)", 50
            )
        elif kind == "vectors":
            text = f"tg.tile_sum(tg.tile({v.name}, preserve_type=True))[0] + {v.name}"
            self.define("vec", text, f"{v.name}.sum(0) + {v.name}", v.bound * (self.lanes + 1), v.denominator)
        else:
            self.emit(f"s{k} = tg.tile_load(sq, (4, 4))\np{k} = s{k} @ tg.tile_transpose(s{k})", "pass")
            self.define("float", f"p{k}[j % 4, 2]", "(D['sq'] @ D['sq'].T)[j % 4, 2]", 36)

    def indexed_accesses(self) -> None:
        """Loads, stores and additions at indices that differ between threads, some of them masked off."""
        x, y = self.operand("int"), self.operand("int")
        self.name_count += 1
        k = self.name_count
        kind = self.rng.choice(("indexed", "scattered", "assigned", "pairs", "masked"))
        self.families.add(kind)
        if kind == "indexed":
            self.emit(
                f"w{k} = tg.tile({x.name}) > 0\nt{k} = tg.tile_load_indexed("
                f"a[b], tg.tile({y.name} % 140), shape={self.lanes}, mask=w{k}, other=-2)",
                f"o{k} = remainder({y.name}, 140)\ni{k} = ({x.name} > 0) & (o{k} >= 0) & (o{k} < 128)\n"
                f"t{k} = np.where(i{k}, D['a'][b][np.where(i{k}, o{k}, 0)], -2)",
            )
            self.define("int", f"tg.untile(t{k})", f"t{k} + 0", 8)
        elif kind == "scattered":
            self.emit(
                f"t{k} = tg.tile_zeros({self.lanes}, dtype=int)\nt{k}[tg.tile({y.name} & 7)] = tg.tile({x.name})\n"
                f"t{k}[tg.tile({x.name} & 3)] += tg.tile({y.name})",
                f"t{k} = 0 * j\nt{k}[{y.name} & 7] = {x.name}\nnp.add.at(t{k}, {x.name} & 3, {y.name})",
            )
            self.define("int", f"tg.untile(t{k})", f"t{k} + 0", x.bound + self.lanes * y.bound)
        elif kind == "assigned":
            self.emit(
                f"t{k} = tg.tile_map(tg.add, tg.tile({x.name}), 0)\nt{k}[t{k} > 2] = tg.tile({y.name})",
                f"t{k} = np.where({x.name} > 2, {y.name}, {x.name})",
            )
            self.define("int", f"tg.untile(t{k})", f"t{k} + 0", x.bound + y.bound)
        elif kind == "pairs":
            text = f"tg.untile(tg.tile_load(sq, (4, 4))[tg.tile({x.name} & 3), tg.tile({y.name} & 3)])"
            self.define("float", text, f"D['sq'][{x.name} & 3, {y.name} & 3]", 3)
        else:
            self.emit(
                f"u{k} = tg.tile({y.name})\n"
                f"tg.tile_atomic_add_indexed(counts[b], tg.tile({x.name} & 3), u{k}, mask=u{k} < 3)",
                f"add_at(counts, b, ({x.name} & 3)[{y.name} < 3], {y.name}[{y.name} < 3])",
            )

    def axis_functions(self) -> None:
        """Scans, extremes, counts and matmuls along one dimension."""
        x, y = self.operand("int"), self.operand("int")
        self.name_count += 1
        k = self.name_count
        kind = self.rng.choice(("running", "extreme", "counted", "batched", "column"))
        self.families.add(kind)
        if kind == "running":
            axis, rows = self.rng.randint(0, 1), self.rng.choice((1, 2, 4))
            text = f"tg.tile({x.name}).reshape({rows}, -1).cumsum(axis={axis}).reshape(-1)"
            reference = f"np.cumsum({x.name}.reshape({rows}, -1), {axis}).ravel()"
            self.define("int", f"tg.untile({text})", reference, x.bound * self.lanes)
        elif kind == "extreme":
            name = self.rng.choice(("argmax", "argmin", "max", "min"))
            text = f"tg.tile({x.name}).reshape(-1, 2).{name}(axis=1)[j // 2]"
            self.define("int", text, f"{x.name}.reshape(-1, 2).{name}(1)[j // 2]", x.bound)
        elif kind == "counted":
            text = f"(tg.tile({x.name}) > tg.tile({y.name})).sum()[0] + j"
            self.define("int", text, f"({x.name} > {y.name}).sum() + j", 2 * self.lanes)
        elif kind == "batched":
            self.emit(f"s{k} = tg.tile_load(sq, (4, 4)).reshape(4, 2, 2)\np{k} = s{k} @ s{k}", "pass")
            reference = "np.matmul(*[D['sq'].reshape(4, 2, 2)] * 2)[j % 4, 1, 0]"
            self.define("float", f"p{k}[j % 4, 1, 0]", reference, 18)
        else:
            self.emit(f"s{k} = tg.tile_load(sq, (4, 4)) @ tg.tile_load(sq, (4, 4))[:, 1]", "pass")
            self.define("float", f"s{k}[j % 4]", "(D['sq'] @ D['sq'][:, 1])[j % 4]", 36)

    def cholesky_factor(self) -> None:
        self.name_count += 1
        k = self.name_count
        self.emit(f"f{k} = tg.tile_cholesky(tg.tile_load(spd[b], (4, 4)))", "pass")
        if self.rng.random() < 0.5:
            self.define("float", f"f{k}[j % 4, j // 4 % 4]", "D['low'][b][j % 4, j // 4 % 4]", 4)
        else:
            self.emit(f"g{k} = tg.tile_lower_solve(f{k}, tg.tile_load(y[b], 4))", "pass")
            self.define("float", f"g{k}[3 - j % 4]", "D['x'][b][3 - j % 4]", 4)

    def atomic(self) -> None:
        x, y = self.operand("int"), self.operand("int")
        index = f"{x.name} & 3"
        self.emit(f"tg.atomic_add(counts, (b, {index}), {y.name})", f"add_at(counts, b, {index}, {y.name})")

    # Results ----------------------------------------------------------------------------------------------------------

    def store_results(self) -> None:
        """Store the most recent values of each kind."""
        for kind, terms in self.terms.items():
            result_array = RESULT_OF_KIND[kind]
            for row, t in enumerate(terms[-6:]):
                if kind == "body":
                    reference = f"for k in 'nvq':\n    {result_array}[k][b, {row}, j] = {t}[k]"
                    self.emit(f"{result_array}[b, {row}, j] = {t}", reference)
                else:
                    self.emit(f"{result_array}[b, {row}, j] = {t}", f"{result_array}[b, {row}, j] = {t}")

    # Running ----------------------------------------------------------------------------------------------------------

    def kernel(self) -> Any:
        return tg.exec(self.text, {"tg": tg, "Body": Body})["kernel"]

    def arguments(self) -> list[Any]:
        d = self.data
        indexed = tg.indexedarray(
            tg.array(d["a"][0].astype(np.int32)), [tg.array(d["indices"].astype(np.int32))]
        )
        arguments = [
            *(TRIPS, tg.array(d["a"].astype(np.int32)), tg.array(d["units"], dtype=tg.quat)),
            *(tg.array(d["mats"], dtype=tg.mat33), tg.array(d["bodies"], dtype=Body)),
            *(tg.array(d["spd"], dtype=float), tg.array(d["y"], dtype=float), indexed),
            *(tg.array(d["sq"], dtype=float), tg.array(d["permuted"], dtype=float)),
            *(tg.array(d["rhs"], dtype=float), tg.array(d["sorted"].astype(np.int32))),
            *(
                tg.array(initial, dtype=dtype)
                for initial, dtype in zip(self.initial_results(), RESULT_TYPES, strict=True)
            ),
        ]
        if self.seed % COLUMN_MAJOR_PERIOD:
            return arguments
        return [column_major(x) if isinstance(x, tg.array) and len(x.shape) > 1 else x for x in arguments]

    def initial_results(self) -> list[np.ndarray]:
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
            **{name: value for module in MODULES for name, value in vars(module).items()},
            "D": self.data,
        }
        exec(self.reference, space)
        arrays, lines = self.initial_results(), list[str]()
        arrays = [
            x if x.dtype.names else x.astype(np.int64 if x.dtype.kind == "i" else np.float64) for x in arrays
        ]
        for b in range(BLOCKS):
            space["block"](TRIPS, b, np.arange(self.lanes), lines, *arrays)
        return arrays, lines
