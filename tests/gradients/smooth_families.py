"""Smooth programs with quaternions, transforms, small matrices, structs, InOut parameters, sorts, gathers, masks,
thread-local arrays, solvers, decompositions and Fourier transforms."""

from __future__ import annotations

from collections.abc import Mapping

from smooth_programs import BLOCK, SmoothProgram

import tegula as tg


@tg.struct
class Mass:
    v: tg.vec3d
    m: tg.float64


FUNCTIONS = {
    "advance": "def advance(x: tg.InOut[D], y: D):\n    x = squash(x * 0.5 + y * y)\n    return x * y\n",
    "move_mass": "def move_mass(s: Mass, by: D):\n    s.v.y += by * s.m\n    s.v.xz *= by\n"
    "    s.m = squash(s.m + by)\n    return s\n",
}
QUAT = "tg.normalize(tg.quatd({0}, {1}, {2}, D(1.5)))"
VECTOR = "tg.vec3d({1}, {2}, {0})"
MATRIX = "(tg.identity(3, dtype=D) * D(3.0) + tg.outer(tg.vec3d({0}, {1}, {2}), tg.vec3d({2}, D(0.4), {0})) * D(0.3))"
SCALAR_FORMS = {
    "quaternion": (
        f"tg.quat_rotate({QUAT}, {VECTOR}).y",
        f"({QUAT} * tg.quat_inverse(tg.quatd({{1}}, {{0}}, D(0.3), {{2}}))).z",
        f"tg.trace(tg.quat_to_matrix({QUAT}))",
        f"tg.quat_slerp({QUAT}, tg.quatd(D(0.5), D(0.5), D(0.5), D(0.5)), D(0.3)).x",
    ),
    "transform": (
        f"tg.transform_point(tg.transformd({VECTOR}, {QUAT}), tg.vec3d(D(1.0), {{0}}, D(2.0))).x",
        f"tg.spatial_dot(tg.vector({VECTOR}, {VECTOR}), tg.vector({VECTOR}.zxy, {VECTOR}))",
    ),
    "matrix": (
        f"tg.inverse({MATRIX})[0, 1] * 3.0",
        f"tg.determinant({MATRIX}) * 0.1",
        f"tg.ddot({MATRIX}, {MATRIX}.T) * 0.1",
        f"tg.qr3({MATRIX})[1][0, 2] * 0.3",
    ),
    "vector": (
        f"tg.norm_pseudo_huber({VECTOR}, 0.7)",
        f"tg.smooth_normalize({VECTOR}).z",
        f"tg.length(tg.sin({VECTOR}) + tg.vec3d(D(2.0)))",
        f"tg.dot({VECTOR}.xy, {VECTOR}.zz)",
    ),
    "lambda": (
        "tg.untile(tg.tile_map(lambda p, q: p * q + tg.sin(p), tg.tile({0}), tg.tile({1})))",
        "(lambda p, q: p * p * q)({0}, {2})",
        "(copied := {0} * {1}) * copied",
    ),
    "select": (
        "tg.untile(tg.tile_where(tg.tile(j % 3) == 0, tg.tile({0}), tg.tile({1}) * 2.0))",
        "tg.untile(tg.tile_where(tg.tile(j % 2) == 0, tg.tile({0}), {3}))",
        "({0} if j % 3 == 1 else {1} * {2})",
        "tg.where(j > 2, {0} * {1}, {2})",
    ),
    "load": (
        "tg.untile(tg.tile_load(a[1], shape={4}, offset=3, mask=tg.tile(j % 3) > 0, other=0.5)) * {0}",
        "tg.untile(tg.tile_load_indexed(a[2], tg.tile(j * 7 % 23 - 1), shape={4})) * {1}",
        "tg.untile(a[tg.tile(j * 3 % 8), tg.tile(j * 5 % 20)]) + {2}",
    ),
    "exchange": (
        "tg.lane_sum({0} * {1}, 4)",
        "tg.lane_xor({0}, 3, 8) * {1}",
        "tg.lane_shuffle({0}, (j * 3) % 8, 8) + {2}",
        "tg.lane_collect({0}, j // 2 % 4, 4)",
    ),
    "shape": (
        "tg.untile(tg.tile_permute(tg.tile({0}).reshape(2, 2, 2), (2, 0, 1)).reshape(-1)) * {1}",
        "(tg.tile({0})[:, None] * tg.tile({1})[None, :])[j, (j * 3) % {4}]",
        "tg.untile(tg.tile_concat((tg.tile({0})[::2], tg.tile({1})[1::2])))",
        "tg.untile(tg.tile_pad(tg.tile({0})[2:], ((1, 1),), value={3}))",
        "tg.tile_sum(tg.tile({0}).reshape(2, 2, 2), axis=(0, 2))[j % 2] * {1}",
        "tg.tile_dot(tg.tile({0}), tg.tile({1}))[0] * {2}",
        "tg.tile_from_thread(2, {0}, 3)[j % 2] * {1}",
    ),
    "number": ("tg.erfcinv(squash({0}) * 0.5 + 1.0)", "tg.lerp({0}, {1}, 0.3)", "tg.erf({0}) * {2}"),
}

OTHER_STATEMENTS = (
    *(
        "in_out",
        "struct",
        "sort",
        "cholesky",
        "gather",
        "scatter",
        "axis_functions",
        "thread_array",
        "order_statistics",
        "solvers",
    ),
    *("transform_of_rows", "sum_of_matmuls", "component_assignments"),
)


class SmoothFamilies(SmoothProgram):
    """A random program, half of whose statements belong to the families of this file."""

    names: Mapping[str, object] = {"Mass": Mass}

    def __init__(self, seed: int) -> None:
        self.families: set[str] = set()
        super().__init__(seed)

    def statement(self, depth: int) -> None:
        if self.rng.random() < 0.5:
            super().statement(depth)
            return
        family = self.rng.choice((*SCALAR_FORMS, *SCALAR_FORMS, *OTHER_STATEMENTS))
        self.families.add(family)
        if family in SCALAR_FORMS:
            self.new_varying(
                self.rng.choice(SCALAR_FORMS[family]).format(*self.three_scalars(), self.number(), BLOCK)
            )
        else:
            getattr(self, family)()

    def three_scalars(self) -> list[str]:
        """The names of three bounded scalars of each thread."""
        names: list[str] = []
        for _ in range(3):
            names.append(self.fresh_name("x"))
            self.emit(f"{names[-1]} = squash({self.scalar(True, 1)})")
        return names

    def new_varying(self, text: str) -> None:
        name = self.fresh_name("s")
        self.emit(f"{name} = {text}")
        self.varying.append(name)

    def in_out(self) -> None:
        self.functions["advance"] = FUNCTIONS["advance"]
        x, y, _ = self.three_scalars()
        self.new_varying(f"advance({x}, {y})")
        self.new_varying(f"{x} * 1.0")

    def struct(self) -> None:
        self.functions["move_mass"] = FUNCTIONS["move_mass"]
        x, y, z = self.three_scalars()
        name = self.fresh_name("b")
        self.emit(f"{name} = Mass(tg.vec3d({x}, {y}, {z}), {x} * {y})")
        self.emit(f"{name} = move_mass({name}, {z})")
        self.new_varying(f"tg.dot({name}.v, tg.vec3d({y}, D(0.5), {x})) + {name}.m")

    def sort(self) -> None:
        keys, values, (x, *_) = self.fresh_name("k"), self.fresh_name("v"), self.three_scalars()
        self.emit(f"{keys}, {values} = tg.tile(float(j * 5 % {BLOCK})), tg.tile({x})")
        self.emit(f"tg.tile_sort({keys}, {values})")
        self.new_varying(f"tg.untile({values})")

    def gather(self) -> None:
        x, *_ = self.three_scalars()
        self.new_varying(f"tg.untile(tg.tile({x})[tg.tile(j * 3 % {BLOCK} // 2)])")

    def scatter(self) -> None:
        """Assignments and additions at indices, some of which are equal, and assignments under a mask."""
        t, (x, y, z) = self.fresh_name("t"), self.three_scalars()
        self.emit(f"{t} = tg.tile({x}) * 1.0")
        self.emit(f"{t}[tg.tile(j * 3 % {BLOCK} // 2)] = tg.tile({y})")
        self.emit(f"{t}[tg.tile(j * 5 % {BLOCK} // 3)] += tg.tile({z}) * tg.tile({x})")
        self.emit(f"{t}[tg.tile(j % 3) == 1] = tg.tile({y}) * tg.tile({z})")
        self.new_varying(f"tg.untile({t})")

    def axis_functions(self) -> None:
        """Scans along a dimension, and batched matmuls."""
        x, y, _ = self.three_scalars()
        self.new_varying(f"tg.untile(tg.tile({x}).reshape(2, -1).cumsum(axis=1).reshape(-1)) * 0.3")
        batches = f"(tg.tile({x}).reshape(-1, 2, 2) @ tg.tile({y}).reshape(-1, 2, 2)).reshape(-1)"
        self.new_varying(f"tg.untile({batches}) * 0.3")

    def cholesky(self) -> None:
        a, f = self.fresh_name("t"), self.fresh_name("t")
        self.emit(f"{a} = squash({self.tile((4, 4), 1)})")
        diagonal = "tg.tile_full(4, D(3.0), dtype=D)"
        self.emit(f"{f} = tg.tile_cholesky(tg.tile_diag_add({a} @ tg.tile_transpose({a}) * 0.1, {diagonal}))")
        self.tiles[f] = (4, 4)
        if self.rng.random() < 0.5:
            s = self.fresh_name("t")
            self.emit(f"{s} = tg.tile_lower_solve({f}, squash({self.tile((4,), 1)}))")
            self.tiles[s] = (4,)

    def thread_array(self) -> None:
        """A thread-local array whose elements are assigned and added to at indices known at run time."""
        array, (x, y, z) = self.fresh_name("l"), self.three_scalars()
        self.emit(f"{array} = tg.zeros(shape=3, dtype=D)")
        self.emit(f"{array}[0] = {x}")
        self.emit(f"{array}[j % 3] = {y} * {x}")
        self.emit(f"{array}[(j + 1) % 3] += {z}")
        self.new_varying(f"{array}[j % 2] * {array}[2] + {array}[0]")

    def order_statistics(self) -> None:
        """The largest elements, the median, and a sort along a dimension."""
        t, (x, y, _) = self.fresh_name("t"), self.three_scalars()
        self.emit(f"{t}, i{t} = tg.tile_topk(tg.tile({x} + D(j * 5 % {BLOCK}) * 3.0), 3)")
        self.new_varying(f"{t}[j % 3] * {y}")
        self.new_varying(f"tg.tile_median(tg.tile({y} + D(j * 3 % {BLOCK}) * 3.0))[0] * {x}")
        self.emit(f"k{t}, v{t} = tg.tile(j * 5 % {BLOCK}).reshape(2, -1), tg.tile({x}).reshape(2, -1)")
        self.emit(f"tg.tile_sort(k{t}, v{t}, axis=1, descending=True)")
        self.new_varying(f"tg.untile(v{t}.reshape(-1))")

    def solvers(self) -> None:
        """Solutions, inverses, determinants, QR factors and eigenvalues."""
        a, f = self.fresh_name("t"), self.fresh_name("t")
        index_text = "[j % 4, j // 4 % 4]"
        self.emit(f"{a} = tg.tile_diag_add(squash({self.tile((4, 4), 1)}), tg.tile_full(4, D(3.0), dtype=D))")
        kind = self.rng.choice(("solve", "inverse", "lu", "determinant", "qr", "eigh", "upper"))
        self.families.add(kind)
        rhs = f"squash({self.tile((4,), 1)})"
        if kind == "solve":
            self.new_varying(f"tg.tile_solve({a}, {rhs})[j % 4]")
        elif kind == "inverse":
            self.new_varying(f"tg.tile_inverse({a}){index_text}")
        elif kind == "lu":
            self.emit(f"{f}, p{f} = tg.tile_lu({a})")
            self.new_varying(f"tg.tile_lu_solve({f}, p{f}, {rhs})[j % 4]")
        elif kind == "determinant":
            self.new_varying(f"tg.tile_determinant({a})[0] * 0.01")
        elif kind == "qr":
            self.emit(f"{f}, r{f} = tg.tile_qr({a})")
            self.new_varying(f"r{f}{index_text} * {f}[j % 4, 1] * 0.3")
        elif kind == "eigh":
            diagonal = "tg.tile_arange(4, dtype=int).astype(D) * 2.0"
            self.emit(f"{a} = tg.tile_diag_add(({a} + tg.tile_transpose({a})) * 0.1, {diagonal})")
            self.emit(f"w{f}, {f} = tg.tile_eigh({a})")
            self.new_varying(f"w{f}[j % 4] * 0.3")
            self.new_varying(f"({f} * w{f}[None, :] @ tg.tile_transpose({f})){index_text} * 0.3")
        else:
            self.new_varying(f"tg.tile_upper_solve({a}, {rhs})[j % 4]")

    def transform_of_rows(self) -> None:
        t, (x, y, z) = self.fresh_name("t"), self.three_scalars()
        pairs = f"tg.tile_map(lambda p, q: tg.vec2d(p, q), tg.tile({x}), tg.tile({y})).reshape(2, -1)"
        kind = self.rng.choice(("fft", "ifft", "rfft", "dct"))
        self.families.add(kind)
        if kind in ("fft", "ifft"):
            self.emit(f"{t} = {pairs}")
            self.emit(f"tg.tile_{kind}({t})")
            self.new_varying(f"{t}[j // 4 % 2, j % 4][j % 2] * 0.3 + {z}")
        elif kind == "rfft":
            self.new_varying(
                f"tg.tile_irfft(tg.tile_rfft(tg.tile({x}).reshape(2, -1)), 4)[j // 4 % 2, j % 4] * 0.2"
            )
        else:
            self.new_varying(f"tg.tile_dct(tg.tile({x}).reshape(2, -1))[j // 4 % 2, j % 4] * 0.3")

    def sum_of_matmuls(self) -> None:
        """A matmul with alpha and beta that accumulates into a tile in a loop."""
        t, (x, y, _) = self.fresh_name("t"), self.three_scalars()
        self.emit(f"{t} = tg.tile_full((2, 2), D(0.5), dtype=D)")
        self.emit(f"for k{t} in range(2):")
        left, rhs = f"tg.tile({x}).reshape(2, -1)", f"tg.tile({y}).reshape(-1, 2)"
        self.emit(f"    tg.tile_matmul({left}, {rhs}, {t}, alpha={self.number()}, beta={self.number()})")
        self.new_varying(f"{t}[j % 2, j // 2 % 2] * 0.3")

    def component_assignments(self) -> None:
        """Assignments to components, slices, rows and columns of vectors and matrices."""
        v, (x, y, z) = self.fresh_name("v"), self.three_scalars()
        self.emit(f"{v} = tg.vec3d({x}, {y}, {z})")
        self.emit(f"m{v} = tg.outer({v}, {v})")
        self.emit(f"{v}.xz = {v}.yx * {y}")
        self.emit(f"{v}[1:] += m{v}[0, :2]")
        self.emit(f"m{v}[1] = {v}")
        self.emit(f"m{v}[:, 2] = {v} * {z}")
        self.new_varying(f"tg.dot(m{v} @ {v}, {v}) * 0.2")
