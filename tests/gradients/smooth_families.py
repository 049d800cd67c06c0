"""Smooth programs with quaternions, transforms, small matrices, structs, variables that functions set, sorts, gathers
and factors of matrices."""

from __future__ import annotations

from collections.abc import Mapping

from smooth_programs import BLOCK, SmoothProgram

import tegula as tg


@tg.struct
class Mass:
    v: tg.vec3d
    m: tg.float64


FUNCTIONS = {
    "advance": "def advance(x: tg.InOut[D], y: D):\n    x = tamed(x * 0.5 + y * y)\n    return x * y\n",
    "moved": "def moved(s: Mass, by: D):\n    s.v.y += by * s.m\n    s.v.xz *= by\n"
    "    s.m = tamed(s.m + by)\n    return s\n",
}
QUAT = "tg.normalize(tg.quatd({0}, {1}, {2}, D(1.5)))"
VECTOR = "tg.vec3d({1}, {2}, {0})"
MATRIX = "(tg.identity(3, dtype=D) * D(3.0) + tg.outer(tg.vec3d({0}, {1}, {2}), tg.vec3d({2}, D(0.4), {0})) * D(0.3))"
NUMBERS = {
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
    "number": ("tg.erfcinv(tamed({0}) * 0.5 + 1.0)", "tg.lerp({0}, {1}, 0.3)", "tg.erf({0}) * {2}"),
}


class SmoothFamilies(SmoothProgram):
    """A random program, half of whose statements come from these families."""

    names: Mapping[str, object] = {"Mass": Mass}

    def __init__(self, seed: int) -> None:
        self.used: set[str] = set()
        super().__init__(seed)

    def statement(self, depth: int) -> None:
        if self.r.random() < 0.5:
            super().statement(depth)
            return
        chosen = self.r.choice(
            (*NUMBERS, *NUMBERS, "in_out", "struct", "sort", "factor", "gather", "scatter", "axes")
        )
        self.used.add(chosen)
        if chosen in NUMBERS:
            self.named(self.r.choice(NUMBERS[chosen]).format(*self.three()))
        else:
            getattr(self, chosen)()

    def three(self) -> list[str]:
        """Three numbers of each thread, bounded, with names."""
        names: list[str] = []
        for _ in range(3):
            names.append(self.fresh("x"))
            self.add(f"{names[-1]} = tamed({self.scalar(True, 1)})")
        return names

    def named(self, text: str) -> None:
        name = self.fresh("s")
        self.add(f"{name} = {text}")
        self.varying.append(name)

    def in_out(self) -> None:
        self.functions["advance"] = FUNCTIONS["advance"]
        x, y, _ = self.three()
        self.named(f"advance({x}, {y})")
        self.named(f"{x} * 1.0")

    def struct(self) -> None:
        self.functions["moved"] = FUNCTIONS["moved"]
        x, y, z = self.three()
        made = self.fresh("b")
        self.add(f"{made} = Mass(tg.vec3d({x}, {y}, {z}), {x} * {y})")
        self.add(f"{made} = moved({made}, {z})")
        self.named(f"tg.dot({made}.v, tg.vec3d({y}, D(0.5), {x})) + {made}.m")

    def sort(self) -> None:
        keys, values, (x, *_) = self.fresh("k"), self.fresh("v"), self.three()
        self.add(f"{keys}, {values} = tg.tile(float(j * 5 % {BLOCK})), tg.tile({x})")
        self.add(f"tg.tile_sort({keys}, {values})")
        self.named(f"tg.untile({values})")

    def gather(self) -> None:
        x, *_ = self.three()
        self.named(f"tg.untile(tg.tile({x})[tg.tile(j * 3 % {BLOCK} // 2)])")

    def scatter(self) -> None:
        """Assignments and additions at indices, some of which are equal, and where a mask is true."""
        t, (x, y, z) = self.fresh("t"), self.three()
        self.add(f"{t} = tg.tile({x}) * 1.0")
        self.add(f"{t}[tg.tile(j * 3 % {BLOCK} // 2)] = tg.tile({y})")
        self.add(f"{t}[tg.tile(j * 5 % {BLOCK} // 3)] += tg.tile({z}) * tg.tile({x})")
        self.add(f"{t}[tg.tile(j % 3) == 1] = tg.tile({y}) * tg.tile({z})")
        self.named(f"tg.untile({t})")

    def axes(self) -> None:
        """Running sums along a dimension, and matmuls of batches."""
        x, y, _ = self.three()
        self.named(f"tg.untile(tg.tile({x}).reshape(2, -1).cumsum(axis=1).reshape(-1)) * 0.3")
        batches = f"(tg.tile({x}).reshape(-1, 2, 2) @ tg.tile({y}).reshape(-1, 2, 2)).reshape(-1)"
        self.named(f"tg.untile({batches}) * 0.3")

    def factor(self) -> None:
        a, f = self.fresh("t"), self.fresh("t")
        self.add(f"{a} = tamed({self.tile((4, 4), 1)})")
        diagonal = "tg.tile_full(4, D(3.0), dtype=D)"
        self.add(f"{f} = tg.tile_cholesky(tg.tile_diag_add({a} @ tg.tile_transpose({a}) * 0.1, {diagonal}))")
        self.tiles[f] = (4, 4)
        if self.r.random() < 0.5:
            s = self.fresh("t")
            self.add(f"{s} = tg.tile_lower_solve({f}, tamed({self.tile((4,), 1)}))")
            self.tiles[s] = (4,)
