"""Random kernels with kinks and jumps, and with more ops on tiles. Their gradients are checked in forward mode, since
finite differences across a kink are meaningless."""

from __future__ import annotations

from smooth_programs import BLOCK, SmoothProgram

BRANCHES = """def branches(x: D, y: D):
    t = x * y
    if x > y:
        t = tg.sin(t) * x
    else:
        t += tg.abs(x)
    for _ in range(2):
        t = t * 0.5 + x
    return t
"""
VECTORS = """def vectors(x: D, y: D):
    v = tg.vec3d(x, y, x * y)
    w = tg.cross(v, tg.vec3d(y, 1.0, x))
    w[1] = w[0] * 0.5
    m = tg.outer(v, w)
    return tg.dot(m * v, w) * 0.1 + tg.trace(m) * 0.1
"""
SCALAR_FORMS = (
    *("tg.abs({})", "tg.max({}, 0.2)", "tg.min({}, 0.1)", "tg.clamp({}, -0.5, 0.5)", "tg.copysign({}, -0.5)"),
    *("tg.floor({0}) * {0} * 0.1", "tg.where({0} > 0.1, {0}, {0} * 0.25)", "tg.sign({0}) * {0}"),
    *("tg.fma({0}, {0}, 0.25) * 0.3", "D({0} > 0.0) * {0}", "tg.mod({}, 0.7)", "tg.atan2({}, 1.5)"),
    *("tg.exp(-tg.abs({}))", "tg.log1p(tg.abs({}))", "tg.hypot({}, 0.5)", "tg.cbrt(tg.abs({}) + 3.0)"),
)
TILE_FORMS = (
    *("tg.where({x} > 0.0, {x}, {y})", "tg.max({x}, {y})", "tg.min({x}, {y} * 0.5)", "tg.copysign({x}, {y})"),
    *(
        "tg.tile_scan_max_inclusive({x})",
        "tg.tile_scan_min_inclusive({x})",
        "tg.tile_scan_exclusive({x}) * 0.3",
    ),
    *("({x} + tg.tile_max({y}) * {y})", "({x} * tg.tile_min({y}))"),
    *("tg.tile_map(branches, {x}, {y})", "tg.tile_map(branches, {x}, {s})", "tg.tile_map(vectors, {x}, {y})"),
)
MATRIX_FORMS = (
    *("({x} * tg.tile_max({y}, axis=0, keepdims=True))", "({x} - tg.tile_min({y}, axis=1, keepdims=True))"),
    *("tg.tile_diag_add({x}, tg.tile_sum({y}, axis=0))", "tg.copy(tg.tile_broadcast(({x})[2:3], (4, 4)))"),
    *("tg.tile_concat((({x})[1:3], ({y})[0:2]), axis=0)", "({x})[:, ::-1]"),
    *("tg.tile_reshape(tg.tile_reshape({x}, (2, 8)) * 0.5, (4, 4))", "tg.tile_pad(({x})[1:3, 1:3], 1, 0.5)"),
    "({x})[tg.tile_arange(4, dtype=int) // 2 * 3, :]",
)
VECTOR_FORMS = (
    *("tg.tile_concat((({x})[{n} // 2 :], ({y})[: {n} // 2]), axis=0)", "tg.tile_full({n}, {s}, dtype=D)"),
    *("tg.copy(tg.tile_broadcast(({x})[1:2], ({n},)))", "({x})[tg.tile_arange({n}, dtype=int) - 2]"),
    "tg.tile_sum(tg.tile_broadcast(tg.tile_reshape({x}, ({n}, 1)), ({n}, {n})) * ({y}), axis=1)",
)
LANE_FORMS = ("tg.tile(tg.untile({x}) * {s})", "tg.tile_from_thread({n}, {s}, 3)")


class KinkedProgram(SmoothProgram):
    """A random program with kinks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.functions = {"branches": BRANCHES, "vectors": VECTORS, **self.functions}

    def smooth_function(self, x: str) -> str:
        return (
            self.rng.choice(SCALAR_FORMS).format(x) if self.rng.random() < 0.6 else super().smooth_function(x)
        )

    def tile(self, shape: tuple[int, ...], depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.6:
            return super().tile(shape, depth)
        forms = TILE_FORMS + (MATRIX_FORMS if len(shape) == 2 else VECTOR_FORMS)
        form = self.rng.choice(forms + LANE_FORMS * (shape == (BLOCK,)))
        x, y = self.tile(shape, depth - 1), self.tile(shape, depth - 1)
        return form.format(x=f"({x})", y=f"({y})", s=self.scalar(form in LANE_FORMS, 1), n=shape[0])
