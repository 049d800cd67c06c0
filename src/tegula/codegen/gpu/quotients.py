"""Quotients and square roots of float32, several at a time.

A division refines an approximate reciprocal in a few steps, which are exact as long as all numbers are normal;
otherwise a subroutine divides. ptxas emits a test and a branch for every quotient, so that quotients do not overlap.
Here the numbers are scaled so that the fast path covers nearly all divisions, zeros and infinite divisors included, and
a single branch leads to a loop that handles all other divisions. Square roots are likewise refined from an approximate
reciprocal root, except for very small and infinite numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import inf

from tegula.codegen.text import Code, constant, register_type
from tegula.ops import scalar as S
from tegula.types import DType, float32, float64

DIVIDEND_SCALE, DIVISOR_SCALE = 2.0**48, 2.0**-4
"""Scale factors. Dividends are multiplied by `DIVIDEND_SCALE`, so that the remainder is exact even for the smallest
number; divisors by `DIVISOR_SCALE`, so that the reciprocal of the largest divisor is a normal number."""
INFINITE_DIVISOR = 2.0**127
"""The substitute for an infinite divisor: larger than any scaled divisor, with a reciprocal that is flushed to 0."""
MIN_NORMAL = 2.0**-126
"""The smallest normal float32."""
MIN_BITS, INFINITE_BITS = (127 - 100) << 23, 255 << 23
"""The float32 bits of 2 ** -100, above which the remainder of a root is exact, and of infinity."""
PINNED_TYPES = {"float": "f", "double": "d", "i32": "r", "i64": "l"}
"""The LLVM types of numbers that can be pinned, with the constraint of an operand."""

Rolled = Callable[[], str]
"""A function that returns the metadata of a loop that is not unrolled."""


def batched_functions(rolled: Rolled) -> dict[type, Callable[[Code, Sequence[Sequence[str]]], list[str]]]:
    """The functions that emit divisions and square roots of several elements, by the class of the op."""
    return {S.Div: partial(quotients, rolled=rolled), S.Sqrt: partial(roots, rolled=rolled)}


def quotients(code: Code, pairs: Sequence[Sequence[str]], rolled: Rolled) -> list[str]:
    """The correctly rounded quotient a / b of each pair."""
    fast = [_approximate_quotient(code, a, b) for a, b in pairs]
    error_bits = [code.emit(f"bitcast float {x} to i32") for _, x in fast]
    any_error = reduce(lambda a, b: code.emit(f"or i32 {a}, {b}"), error_bits)
    may_be_wrong = code.emit(f"icmp ne i32 {any_error}, 0")
    return _select_or_recompute(code, may_be_wrong, pairs, [q for q, _ in fast], _exact_quotient, rolled)


def roots(code: Code, numbers: Sequence[Sequence[str]], rolled: Rolled) -> list[str]:
    """The correctly rounded square root of each number."""
    fast, may_be_wrong = list[str](), list[str]()
    for (x,) in numbers:
        approximate_rsqrt = code.emit(f"call float @llvm.nvvm.rsqrt.approx.ftz.f(float {x})")
        root, half = code.emit(f"fmul float {x}, {approximate_rsqrt}"), _times(code, approximate_rsqrt, 0.5)
        residual = _fma(code, code.emit(f"fneg float {root}"), root, x)
        fast.append(_fma(code, residual, half, root))
        bits = code.emit(f"bitcast float {x} to i32")
        exponent_offset = code.emit(f"sub i32 {bits}, {MIN_BITS}")
        may_be_wrong.append(code.emit(f"icmp uge i32 {exponent_offset}, {INFINITE_BITS - MIN_BITS}"))
    any_may_be_wrong = reduce(lambda a, b: code.emit(f"or i1 {a}, {b}"), may_be_wrong)
    return _select_or_recompute(code, any_may_be_wrong, numbers, fast, _root, rolled)


def _select_or_recompute(
    code: Code,
    may_be_wrong: str,
    operands: Sequence[Sequence[str]],
    fast: list[str],
    recompute: Callable[[Code, Sequence[str], str], str],
    rolled: Rolled,
) -> list[str]:
    """The `fast` numbers, or, where `may_be_wrong` holds, the numbers that `recompute` computes from the operands and
    the fast number, on a rarely taken branch."""
    slow_label, done, fast_block = code.label("rare"), code.label("divided"), code.block
    code.branch(may_be_wrong, slow_label, done)
    code.define_label(slow_label)
    results = _scalarised(code, operands, fast, recompute, rolled)
    last = code.block
    code.jump(done)
    code.define_label(done)
    return [code.phi("float", (a, fast_block), (b, last)) for a, b in zip(fast, results, strict=True)]


def _scalarised(
    code: Code,
    operands: Sequence[Sequence[str]],
    fast: list[str],
    recompute: Callable[[Code, Sequence[str], str], str],
    rolled: Rolled,
) -> list[str]:
    """The results of `recompute` for each element, computed in a loop, so that the code of `recompute` is emitted once:
    the body handles the first of the carried numbers and moves the others forward. Operands that are equal for all
    elements are not carried."""
    count, columns = len(fast), list(zip(*operands, strict=True))
    carried = [x for column in columns if len(set(column)) > 1 for x in column]
    with code.loop("0", str(count), "1", [("float", x) for x in (*carried, *fast)], rolled()) as loop:
        queues = [loop.values[k : k + count] for k in range(0, len(loop.values), count)]
        *operand_queues, results = queues
        remaining = iter(operand_queues)
        arguments = [next(remaining)[0] if len(set(column)) > 1 else column[0] for column in columns]
        exact = recompute(code, arguments, results[0])
        loop.next = [x for queue in operand_queues for x in (*queue[1:], queue[-1])] + [*results[1:], exact]
    return loop.results[-count:]


def pinned(code: Code, x: str, type: str) -> str:
    """A number whose computation is pinned to this point. LLVM would sink computations that use quotients below the
    branches of all other quotients, and computations of elements that are stored into the branch around the store,
    which increases register pressure. Numbers of other sizes than 32 and 64 bits are not pinned."""
    if type not in PINNED_TYPES:
        return x
    return code.emit(f'call {type} asm sideeffect "", "={PINNED_TYPES[type]},0"({type} {x})')


def _root(code: Code, operands: Sequence[str], fast: str) -> str:
    """The square root by the instruction that is correct for all numbers."""
    return code.call("sqrt", "f32", "float", f"float {operands[0]}")


def _exact_quotient(code: Code, operands: Sequence[str], fast: str) -> str:
    """The quotient, recomputed if the fast result is not a normal number and may be wrong."""
    slow, done, before = code.label("slow"), code.label("sure"), code.block
    magnitude = code.call("fabs", "f32", "float", f"float {fast}")
    is_subnormal = code.emit(f"fcmp ult float {magnitude}, {_number(MIN_NORMAL)}")
    may_be_wrong = code.emit(
        f"or i1 {is_subnormal}, {code.emit(f'fcmp oeq float {magnitude}, {_number(inf)}')}"
    )
    code.branch(may_be_wrong, slow, done)
    code.define_label(slow)
    quotient, last = _float64_quotient(code, *operands), code.block
    code.jump(done)
    code.define_label(done)
    return code.phi("float", (fast, before), (quotient, last))


def _approximate_quotient(code: Code, a: str, b: str) -> tuple[str, str]:
    """The quotient, and a number that is not 0 if the quotient may be wrong, because scaling back rounded a second time
    or a step resulted in NaN."""
    divisor = code.call(
        "minimum",
        "f32",
        "float",
        f"float {_times(code, b, DIVISOR_SCALE)}, float {_number(INFINITE_DIVISOR)}",
    )
    negated_divisor = code.emit(f"fneg float {divisor}")
    approximate_reciprocal = code.emit(f"call float @llvm.nvvm.rcp.approx.ftz.f(float {divisor})")
    reciprocal = _fma(
        code,
        approximate_reciprocal,
        _fma(code, negated_divisor, approximate_reciprocal, _number(1.0)),
        approximate_reciprocal,
    )
    if a == _number(1.0):
        return _scaled(code, reciprocal, DIVISOR_SCALE)
    dividend = _times(code, a, DIVIDEND_SCALE)
    quotient = code.emit(f"fmul float {dividend}, {reciprocal}")
    refined = _fma(code, _fma(code, negated_divisor, quotient, dividend), reciprocal, quotient)
    result, error = _scaled(code, refined, DIVISOR_SCALE / DIVIDEND_SCALE)
    # The sum of opposite zeros is +0, also for a quotient of -0.
    return code.call("copysign", "f32", "float", f"float {result}, float {quotient}"), error


def _float64_quotient(code: Code, a: str, b: str) -> str:
    """The quotient computed in float64, in which all float32 numbers are normal: the quotient of two float32 numbers is
    never so close to the midpoint of two float32 numbers that double rounding changes the result. If the refinement
    results in NaN, an operand is zero or infinite, and the product with the approximate reciprocal is exact; otherwise
    the product has the sign of a zero result."""
    dividend, divisor = (code.emit(f"fpext float {x} to double") for x in (a, b))
    negated_divisor = code.emit(f"fneg double {divisor}")
    reciprocal = code.emit(f"call double @llvm.nvvm.rcp.approx.ftz.d(double {divisor})")
    approximate_quotient = code.emit(f"fmul double {dividend}, {reciprocal}")
    for _ in range(2):
        error = _fma(code, negated_divisor, reciprocal, constant(float64, 1.0), float64)
        reciprocal = _fma(code, reciprocal, error, reciprocal, float64)
    quotient = code.emit(f"fmul double {dividend}, {reciprocal}")
    refined = _fma(
        code, _fma(code, negated_divisor, quotient, dividend, float64), reciprocal, quotient, float64
    )
    is_nan = code.emit(f"fcmp uno double {refined}, {refined}")
    signed = code.call("copysign", "f64", "double", f"double {refined}, double {approximate_quotient}")
    result = code.emit(f"select i1 {is_nan}, double {approximate_quotient}, double {signed}")
    return code.emit(f"fptrunc double {result} to float")


def _scaled(code: Code, x: str, scale: float) -> tuple[str, str]:
    """The product of x and the power of two `scale`, and the rounding error, which is 0, never -0, if the product is
    exact."""
    result = _times(code, x, scale)
    return result, _fma(code, result, _number(-1.0 / scale), x)


def _times(code: Code, x: str, factor: float) -> str:
    return code.emit(f"fmul float {x}, {_number(factor)}")


def _fma(code: Code, a: str, b: str, c: str, dtype: DType = float32) -> str:
    t = register_type(dtype, 1)
    return code.call("fma", f"f{dtype.bits}", t, f"{t} {a}, {t} {b}, {t} {c}")


def _number(x: float) -> str:
    return constant(float32, x)
