"""Derivatives in forward mode: the interpreter runs a kernel once, with a tangent for each float.

A float is represented by a complex number: the real part is the value, the imaginary part the tangent. Ops that move,
select or add floats apply to both parts, so the interpreter runs them unchanged. The tables below have the derivatives
of other ops on floats and of library functions, taken from calculus and not from adjoints. An op in no table is an
error.

A launch maps the state of all its arrays to another state. J is the derivative of this map. An adjoint launch maps the
gradients w after the launch to the gradients J^T w before the launch. So <w, J v> = <J^T w, v> for all v and w, up to
rounding; `compare` computes both sides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, pi, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.exceptions import ComplexWarning

import tegula as tg
from tegula.errors import InternalError
from tegula.interp.exchange import Segments
from tegula.interp.launch import arguments, run_blocks
from tegula.interp.machine import HANDLERS, Machine, Mask
from tegula.interp.roles import RoleMachine, run_roles
from tegula.ir import Kernel, Op, Region, Value
from tegula.lang.kernel import trace
from tegula.ops.convert import convert
from tegula.ops.exchange import LaneReduce
from tegula.ops.gradient import has_adjoint
from tegula.ops.linear import TileMatmul
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.kernel import Specialisation
from tegula.runtime.launch import plan
from tegula.runtime.library import library
from tegula.runtime.resolve import overlaps, specialisation
from tegula.types import ArrayType, ElementType, TileType, is_element, scalar_of, to_numpy

# Slopes ---------------------------------------------------------------------------------------------------------------

Slopes = Callable[..., tuple[Any, ...]]
"""A function from the operands to the partial derivatives by each operand."""


def _extreme_slopes(x: np.ndarray, y: np.ndarray, first: np.ndarray) -> tuple[Any, ...]:
    """The partial derivatives of min or max: 1 for the extreme, and half for each of two equal operands. A number is
    preferred to NaN."""
    first_slope = np.where(x == y, 0.5, (first | np.isnan(y)) * 1.0)
    return first_slope, 1.0 - first_slope


def _copysign_slopes(x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    return np.sign(x) * np.copysign(1.0, y), 0.0


OPS: dict[str, Slopes] = {
    "add": lambda x, y: (1.0, 1.0),
    "sub": lambda x, y: (1.0, -1.0),
    "mul": lambda x, y: (y, x),
    "div": lambda x, y: (1.0 / y, -x / y / y),
    "fma": lambda x, y, z: (y, x, 1.0),
    "min": lambda x, y: _extreme_slopes(x, y, x < y),
    "max": lambda x, y: _extreme_slopes(x, y, x > y),
    "neg": lambda x: (-1.0,),
    "abs": lambda x: (np.sign(x),),
    "sqrt": lambda x: (0.5 / np.sqrt(x),),
    "fast.exp2": lambda x: (np.exp2(x) * log(2),),
    "copysign": _copysign_slopes,
    "floordiv": lambda x, y: (0.0, 0.0),
    **dict.fromkeys(("floor", "ceil", "trunc", "rint"), lambda x: (0.0,)),
}
"""Derivatives of ops on floats; docs/gradients.md defines the derivatives at kinks."""


def _pow_slopes(x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    base_slope = np.where(y == 0.0, 0.0, y * np.power(x, y - 1.0))
    return base_slope, np.where(x > 0.0, np.power(x, y) * np.log(np.where(x > 0.0, x, 1.0)), 0.0)


def _hypot_slopes(x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    size = np.hypot(x, y)
    size = np.where(size == 0.0, 1.0, size)
    return x / size, y / size


def _erfinv_slope(x: np.ndarray) -> tuple[Any, ...]:
    """The derivative of erfinv, from the quantile q of the normal distribution: erf(q / sqrt(2)) is x."""
    q = np.vectorize(NormalDist().inv_cdf, otypes=[float])(0.5 + 0.5 * x)
    return (sqrt(pi) / 2.0 * np.exp(0.5 * q * q),)


def _erfcinv_slope(x: np.ndarray) -> tuple[Any, ...]:
    """The negated derivative of erfinv at 1 - x; finite at the ends of the domain, which are the arguments of lanes
    without data."""
    (slope,) = _erfinv_slope(np.clip(1.0 - x, -1.0 + 1e-12, 1.0 - 1e-12))
    return (-slope,)


FUNCTIONS: dict[str, Slopes] = {
    "exp": lambda x: (np.exp(x),),
    "exp2": lambda x: (np.exp2(x) * log(2),),
    "exp10": lambda x: (np.power(10.0, x) * log(10),),
    "expm1": lambda x: (np.exp(x),),
    "sinh": lambda x: (np.cosh(x),),
    "cosh": lambda x: (np.sinh(x),),
    "tanh": lambda x: (1.0 / np.cosh(x) ** 2,),
    "log": lambda x: (1.0 / x,),
    "log2": lambda x: (1.0 / x / log(2),),
    "log10": lambda x: (1.0 / x / log(10),),
    "log1p": lambda x: (1.0 / (1.0 + x),),
    "cbrt": lambda x: (1.0 / (3.0 * np.cbrt(x) ** 2),),
    "sin": lambda x: (np.cos(x),),
    "cos": lambda x: (-np.sin(x),),
    "tan": lambda x: (1.0 / np.cos(x) ** 2,),
    "asin": lambda x: (1.0 / np.sqrt((1.0 - x) * (1.0 + x)),),
    "acos": lambda x: (-1.0 / np.sqrt((1.0 - x) * (1.0 + x)),),
    "atan": lambda x: (1.0 / (1.0 + x * x),),
    "erf": lambda x: (2.0 / sqrt(pi) * np.exp(-x * x),),
    "erfc": lambda x: (-2.0 / sqrt(pi) * np.exp(-x * x),),
    "erfinv": _erfinv_slope,
    "erfcinv": _erfcinv_slope,
    "pow": _pow_slopes,
    "hypot": _hypot_slopes,
    "length": lambda v: (v / np.sqrt((v * v).sum(-1, keepdims=True)),),
    "mod": lambda x, y: (1.0, -np.trunc(x / y)),
    "atan2": lambda y, x: (x / (x * x + y * y), -y / (x * x + y * y)),
}
"""Derivatives of library functions that declare a derivative."""

LINEAR = frozenset({
    *("select", "vec.make", "vec.splat", "vec.extract", "vec.insert", "vec.part"),
    *("lane.shuffle", "lane.xor", "lane.collect", "lane.spill", "lane.reload"),
    *("array.load", "array.store", "array.atomic", "array.view", "array.shape"),
    *("array.gather", "array.scatter", "array.scatter_atomic"),
    *("buf.new", "buf.read", "buf.write", "buf.view", "buf.reshape", "buf.get", "buf.set", "buf.update"),
    *("tile.full", "tile.empty", "tile.arange", "tile.load", "tile.store", "tile.atomic", "tile.map"),
    *("tile.fill_absent", "tile.mark_partial", "tile.broadcast", "tile.reshape", "tile.permute", "tile.slice"),
    *("tile.extract", "tile.gather", "tile.concat", "tile.reduce", "tile.matmul_wait"),
    *("tile.from_lanes", "tile.to_lanes", "tile.from_thread", "lane.uniform", "lanes"),
    *("yield", "if", "for", "while"),
    *("pipe.new", "pipe.load", "pipe.push", "pipe.pop", "pipe.release"),
})  # fmt: skip
"""Ops that apply to tangents as to values; ops in regions are handled separately."""
DISCRETE = frozenset({"cmp", "classify", "bitcast", "print", "print.tile", "assert", "structure.prefetch"})
"""Ops that read values only, and whose results have no tangent."""


# The machine ----------------------------------------------------------------------------------------------------------


def with_tangent(value: np.ndarray, tangent: Any) -> np.ndarray:
    """Floats with their tangents as complex numbers. (Multiplication by 1j would turn infinities into NaN.)"""
    out = np.empty(np.shape(value), np.complex128)
    out.real, out.imag = value, tangent
    return out


def scaled_tangent(slope: Any, tangent: np.ndarray) -> np.ndarray:
    """A tangent times a slope; a tangent of 0 stays 0 even if the slope is infinite or NaN."""
    return np.where(tangent == 0.0, 0.0, slope * tangent)


def element_type(t: Any) -> ElementType:
    """The element type of a tile type, or the type itself."""
    return t if is_element(t) else t.dtype


class TangentMachine(Machine):
    """Lanes whose floats have tangents."""

    def zeros(self, t: ElementType, *shape: int) -> np.ndarray:
        result = super().zeros(t, *shape)
        return result.astype(np.complex128) if scalar_of(t).is_float else result

    def elements(self, count: int, present: Mask) -> Machine:
        return TangentMachine(count, present, self.report, self.block)

    def execute(self, op: Op, cls: type[Op], mask: Mask) -> Any:
        out = self.execute_op(op, cls, mask)
        if len(op.results) == 1:
            return self.as_dual(op.results[0], out)
        return tuple(self.as_dual(v, x) for v, x in zip(op.results, out or (), strict=True))

    def as_dual(self, value: Value, x: Any) -> Any:
        """The result of an op with zero tangents, if the op returned values only."""
        t = value.type
        if isinstance(t, TileType) or is_element(t):
            return x.astype(np.complex128) if has_adjoint(t) and x.dtype != np.complex128 else x
        return x

    def execute_op(self, op: Op, cls: type[Op], mask: Mask) -> Any:
        if op.NAME in RULES:
            return RULES[op.NAME](self, op, mask)
        if op.NAME in LINEAR or not any(has_adjoint(v.type) for v in op.operands):
            return super().execute(op, cls, mask)
        if op.NAME in DISCRETE:
            return self.execute_on_values(op, cls, mask)
        if op.NAME not in OPS:
            raise InternalError(f"{op.loc}: {op.NAME} has no tangent")
        return self.apply_slopes(
            self.execute_on_values(op, cls, mask), OPS[op.NAME], [self.env[v] for v in op.operands]
        )

    def value_of(self, value: Value) -> np.ndarray:
        """The value without its tangent, in its own type."""
        x = self.env[value]
        return x.real.astype(to_numpy(scalar_of(element_type(value.type)))) if x.dtype == np.complex128 else x

    def apply_slopes(self, value: np.ndarray, slopes: Slopes, xs: Sequence[np.ndarray]) -> np.ndarray:
        if not any(x.imag.any() for x in xs):
            return value
        result = slopes(*(x.real for x in xs))
        parts = [
            scaled_tangent(s, x.imag).reshape(*value.shape, -1).sum(-1)
            for s, x in zip(result, xs, strict=True)
        ]
        return with_tangent(value, sum(parts))

    def execute_on_values(self, op: Op, cls: type[Op], mask: Mask) -> Any:
        """The result of an op for operands without tangents."""
        saved_values = {v: self.env[v] for v in op.operands}
        self.env.update((v, self.value_of(v)) for v in op.operands)
        out = super().execute(op, cls, mask)
        self.env.update(saved_values)
        return out


class TangentRole(TangentMachine, RoleMachine):
    """The lanes of a role, whose floats have tangents."""


def _cast(m: TangentMachine, op: Op, mask: Mask) -> Any:
    """A conversion: rounding does not change tangents, and integers have no tangents."""
    (x,) = op.operands
    to = op.attrs["to"]
    value = convert(m.value_of(x), to_numpy(to))
    return with_tangent(value, m.env[x].imag) if to.is_float and has_adjoint(x.type) else value


def _matmul(m: TangentMachine, op: Op, mask: Mask) -> Any:
    """alpha * a @ b + beta * c, with the tangents of all operands."""
    tiles, factors = op.operands[:3], op.operands[3:]
    value = TileMatmul.ref(op.attrs, *map(m.value_of, tiles), *(m.value_of(v)[0] for v in factors), rank=2)
    if not has_adjoint(op.operands[0].type):
        return value
    a, b, c, alpha, beta = (m.group(v) for v in op.operands)
    terms = [
        (alpha.imag, a.real @ b.real),
        (alpha.real, a.imag @ b.real + a.real @ b.imag),
        (beta.imag, c.real),
        (beta.real, c.imag),
    ]
    return with_tangent(value, sum(factor * part for factor, part in terms))


def _call(m: TangentMachine, op: Op, mask: Mask) -> Any:
    """A library function by its table of derivatives, or a user's function by its declared derivative."""
    body, rule = op.regions
    args = [m.value_of(v) for v in op.operands]
    result = _call_on_values(m, body, args, mask)
    xs = [m.env[v] for v in op.operands if has_adjoint(v.type)]
    slopes = FUNCTIONS.get(op.attrs["name"])
    if slopes is not None:
        return m.apply_slopes(result[0], slopes, xs)
    floats = [k for k, v in enumerate(op.results) if has_adjoint(v.type)]
    out = [with_tangent(x, 0.0) if k in floats else x for k, x in enumerate(result)]
    for k in floats:
        for indices in np.ndindex(result[k].shape[1:]):
            seeds = {i: np.zeros_like(result[i]) for i in floats}
            seeds[k][(slice(None), *indices)] = 1.0
            gradients = _call_on_values(m, rule, [*args, *result, *seeds.values()], mask)
            parts = [
                scaled_tangent(gradient, x.imag).reshape(m.lanes, -1)
                for gradient, x in zip(gradients, xs, strict=True)
            ]
            out[k].imag[(slice(None), *indices)] = np.concatenate(parts, axis=1).sum(1)
    return out[0] if len(out) == 1 else tuple(out)


def _call_on_values(m: Machine, function: Region, args: Sequence[np.ndarray], mask: Mask) -> list[Any]:
    """The results of a function of elements for values without tangents."""
    return Machine(m.lanes, m.present, m.report, m.block).region(function, args, mask)


def _atomic(m: TangentMachine, op: Op, mask: Mask) -> Any:
    """An atomic. Sums are linear; other atomics of floats with gradients are errors."""
    if has_adjoint(op.operands[0].type) and op.attrs["op"] not in ("add", "sub", "exch"):
        raise InternalError(f"{op.loc}: {op.NAME} {op.attrs['op']} has no tangent")
    return HANDLERS[type(op)](m, op, mask)


def _segment(m: TangentMachine, op: Op, mask: Mask) -> Any:
    """A reduction over segments. Sums are linear; equal extremes have the mean of their tangents."""
    assert isinstance(op, LaneReduce)
    value = m.execute_on_values(op, LaneReduce, mask)
    if not has_adjoint(op.value.type):
        return value
    rows, x = Segments(m, op), m.env[op.value]
    is_selected = np.ones_like(value, bool) if op.op == "add" else m.value_of(op.value) == value
    total = rows.own_or(np.where(is_selected, x.imag, 0.0)).sum(1, keepdims=True)
    count = 1 if op.op == "add" else rows.own_or(is_selected * 1.0).sum(1, keepdims=True)
    return with_tangent(value, rows.lanes(np.repeat(total / count, op.width, axis=1)))


def _cooperative(m: TangentMachine, op: Op, mask: Mask) -> Any:
    """A cooperative function, by the tangents of its ops; its declared adjoint is not used."""
    result = m.region(op.regions[0], [m.env[v] for v in op.operands], mask)
    return result[0] if len(result) == 1 else tuple(result)


def _roles(m: TangentMachine, op: Op, mask: Mask) -> None:
    run_roles(m, op, mask, TangentRole)


RULES: dict[str, Callable[[TangentMachine, Op, Mask], Any]] = {
    **{
        "cast": _cast,
        "tile.matmul": _matmul,
        "call": _call,
        "call.cooperative": _cooperative,
        "lane.reduce": _segment,
        "roles": _roles,
    },
    **dict.fromkeys(("array.atomic", "array.scatter_atomic", "tile.atomic", "buf.update"), _atomic),
}
"""Ops that need a rule of their own instead of a table entry."""


# Launches -------------------------------------------------------------------------------------------------------------


def trace_differentiable(kernel: Any, args: Sequence[Any], dims: Sequence[int], block_dim: int) -> Kernel:
    """The traced IR from which an adjoint is built: functions with a declared derivative are calls."""
    packed = [pack(value) for pack, value in zip(kernel.packers, args, strict=True)]
    specialisations = [SPECIALISATIONS[number] for number, _ in packed]
    return _traced(
        kernel, specialisation(specialisations, plan(tuple(dims), block_dim).launch, overlaps(tuple(args)))
    )


@lru_cache(maxsize=16)
def _traced(kernel: Any, expected: Specialisation) -> Kernel:
    """The IR of a launch, traced once for all launches of a specialisation; the machine does not modify the IR."""
    return trace(
        kernel.definition, expected.types, expected.launch, expected.access, library(), differentiable=True
    )


def forward(
    kernel: Any, args: Sequence[Any], tangents: Sequence[Any], dims: Sequence[int], block_dim: int
) -> tuple[list[Any], list[Any]]:
    """The arguments after a launch and their tangents, for given tangents before the launch (None: 0). The arguments
    are not modified."""
    traced = trace_differentiable(kernel, args, dims, block_dim)
    host_values = [np.array(a.numpy()) if isinstance(a, tg.array) else a for a in args]
    values = arguments(traced, host_values, dims, block_dim)
    for k, (p, x) in enumerate(zip(traced.params, values, strict=True)):
        if has_adjoint(p.type):
            values[k] = with_tangent(x.astype(np.float64), 0.0 if tangents[k] is None else tangents[k])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ComplexWarning)
        run_blocks(traced, values, tuple(dims), TangentMachine, lambda line: None)
    has_gradient = [has_adjoint(p.type) and isinstance(p.type, ArrayType) for p in traced.params]
    return [x.real if k else x for k, x in zip(has_gradient, values, strict=True)], [
        x.imag if k else None for k, x in zip(has_gradient, values, strict=True)
    ]


@dataclass
class DotProductSides:
    """<w, J v> and <J^T w, v>; the sum of the magnitudes of their terms; and the largest relative difference between
    the values of the two runs."""

    forward: float
    reverse: float
    size: float
    value_difference: float

    @property
    def error(self) -> float:
        return abs(self.forward - self.reverse) / (self.size or 1.0)

    def __str__(self) -> str:
        return f"{self.forward:.17g} forward, {self.reverse:.17g} in reverse, terms sum to {self.size:.3g}"


def compare(
    kernel: Any, dims: Sequence[int], args: Sequence[Any], block_dim: int, seed: int = 0
) -> DotProductSides:
    """Both sides for random v and w, for the arrays with gradients; the arguments are not modified."""
    rng = np.random.default_rng(seed)
    copies = [tg.clone(a) if isinstance(a, tg.array) else a for a in args]
    active = {k: a.numpy().shape for k, a in enumerate(args) if isinstance(a, tg.array) and a.requires_grad}
    v = {k: rng.standard_normal(shape) for k, shape in active.items()}
    grads = {k: tg.array(rng.standard_normal(s), dtype=args[k].grad.dtype) for k, s in active.items()}
    w = {k: to_float64(g) for k, g in grads.items()}
    values, jv = forward(kernel, copies, [v.get(k) for k in range(len(args))], dims, block_dim)
    adjoint = [grads.get(k) for k in range(len(args))]
    tg.launch(kernel, dims, copies, [], adjoint, [], adjoint=True, block_dim=block_dim, record_tape=False)
    tg.launch(kernel, dims, copies, [], block_dim=block_dim, record_tape=False)
    after = {k: to_float64(copies[k]) for k in active}
    return identity_sides(v, w, values, jv, after, {k: to_float64(g) for k, g in grads.items()})


def identity_sides(
    v: Mapping[int, np.ndarray],
    w: Mapping[int, np.ndarray],
    values: Sequence[np.ndarray],
    jv: Sequence[np.ndarray],
    after: Mapping[int, np.ndarray],
    gradients_before: Mapping[int, np.ndarray],
) -> DotProductSides:
    """Both sides, from the results of forward mode, the arrays `after` the launch and the gradients before the launch,
    by the positions of the arguments."""
    terms = [
        np.concatenate([(x[k] * y[k]).reshape(-1) for k in v]) for x, y in ((w, jv), (gradients_before, v))
    ]
    forward_sum, reverse_sum = (float(t.sum()) for t in terms)
    size = max(float(np.abs(t).sum()) for t in terms)
    return DotProductSides(
        forward_sum, reverse_sum, size, max(_relative_difference(after[k], values[k]) for k in v)
    )


def to_float64(a: tg.array) -> np.ndarray:
    return a.numpy().astype(np.float64)


def _relative_difference(x: np.ndarray, y: np.ndarray) -> float:
    differences = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
    return float(differences.max(initial=0.0)) / max(float(np.nanmax(np.abs(x), initial=0.0)), 1e-300)
