"""Guards: conditions that a launch must satisfy for a proof to hold. A certificate names values of the kernel; the host
computes them from arguments and array lengths, in unbounded integers, before the launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tegula.check.scheduled import MAX_BOUND, OfLaunch, asserts
from tegula.dataclass import dataclass
from tegula.errors import LaunchError
from tegula.ir import BranchLike, ConstantLike, Kernel, Op, Value
from tegula.ops.array import ArrayShape
from tegula.ops.debug import Assert
from tegula.ops.scalar import Cmp
from tegula.source import Location
from tegula.types import DTYPES, DType

Leaf: TypeAlias = tuple[int, int]
"""An argument of a launch: its parameter, and -1; or the length of an array: its parameter, and the dimension."""
Term: TypeAlias = Any
"""An integer, ["given", parameter, dimension], or [op, type, attribute, *terms]: plain lists, which a cache entry can
store."""
MAX_EXTENT = 2**31 - 1
"""The maximum extent of an array dimension in kernels."""
TEXTS = {
    "fits": "a number that determines trip counts of role loops is at most 2^28 in magnitude",
    "factor": "a factor of a trip count is not negative",
}


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on the arguments of a launch: an assert of the kernel, or a bound that keeps a trip count within its
    type. `term`: the number or condition that the host computes; `kind`: as in certificates."""

    kind: str
    term: Term
    text: str
    loc: Location

    def __str__(self) -> str:
        return f"{self.text} (line {self.loc.line}; checked at each launch)"

    def holds(self, value_of: Callable[[Leaf], int]) -> bool:
        """Whether a launch satisfies the guard; false where an intermediate integer overflows its type."""
        try:
            n = value(self.term, value_of)
        except OverflowError:
            return False
        return (
            bool(n)
            if self.kind == "assert"
            else n >= 0
            if self.kind == "factor"
            else -MAX_BOUND <= n <= MAX_BOUND
        )

    def row(self) -> list[Any]:
        """The guard as a JSON-compatible list for a cache entry."""
        at = self.loc
        return [self.kind, self.term, self.text, [at.file, at.line, at.column, at.end_column, at.function]]


def require(kernel: Kernel, guards: Sequence[Guard], value_of: Callable[[Leaf], int]) -> None:
    """Raise LaunchError for a launch of a kernel that does not satisfy one of the guards."""
    for guard in guards:
        if not guard.holds(value_of):
            arguments = ", ".join(f"{_named(kernel, leaf)} = {value_of(leaf)}" for leaf in leaves(guard.term))
            location = f"line {guard.loc.line} of {guard.loc.file}"
            message = (
                f"kernel {kernel.name}: the launch does not satisfy '{guard.text}' ({location}): {arguments}"
            )
            raise LaunchError(message, "the schedule is proved only for launches that satisfy this condition")


def requiring(kernel: Kernel, guards: Sequence[Guard]) -> Callable[[Sequence[Any]], None]:
    """A function that raises LaunchError for arguments of a kernel, arrays and numbers, that do not satisfy a guard."""

    def read_leaf(args: Sequence[Any], leaf: Leaf) -> int:
        k, dim = leaf
        return int(args[k]) if dim < 0 else args[k].shape[dim]

    return lambda args: require(kernel, guards, lambda leaf: read_leaf(args, leaf))


def _named(kernel: Kernel, leaf: Leaf) -> str:
    name = kernel.param_names[leaf[0]]
    return name if leaf[1] < 0 else f"{name}.shape[{leaf[1]}]"


def from_row(row: Sequence[Any]) -> Guard:
    """The guard of a row that a cache entry stores."""
    kind, term, text, location = row
    return Guard(kind, term, text, Location(*location))


def asserted(kernel: Kernel) -> tuple[Guard, ...]:
    """The asserts before a kernel's roles whose conditions depend on arguments and array lengths alone."""
    known = OfLaunch(kernel)
    conditions = dict.fromkeys(op.condition for op in asserts(kernel) if known(op.condition))
    return tuple(_guard(kernel, "assert", v) for v in conditions)


def of_certificate(kernel: Kernel, certificate: Mapping[str, Any]) -> tuple[Guard, ...]:
    """The guards that a certificate assumes."""
    values = list(kernel.params)
    for op in kernel.walk():
        for region in op.regions:
            values.extend(region.args)
        values.extend(op.results)
    return tuple(_guard(kernel, kind, values[k]) for kind, k in certificate["guards"])


def _guard(kernel: Kernel, kind: str, v: Value) -> Guard:
    assertion = next((op for op in kernel.walk() if isinstance(op, Assert) and op.condition is v), None)
    owner = assertion if kind == "assert" else v.owner
    loc = (owner.loc if isinstance(owner, Op) else kernel.loc).chain()[-1]
    text = str(assertion.message) if kind == "assert" and assertion is not None else TEXTS[kind]
    return Guard(kind, _term(kernel, v), text, loc)


def _term(kernel: Kernel, v: Value) -> Term:
    op = v.owner
    if v in kernel.params:
        return ["given", kernel.params.index(v), -1]
    if isinstance(op, ArrayShape):
        return ["given", kernel.params.index(op.array), op.dim]
    if isinstance(op, ConstantLike):
        return int(op.value)
    if isinstance(op, BranchLike):
        ends = (region.yielded[op.results.index(v)] for region in op.alternatives)
        return ["if", v.type.notation, "", *(_term(kernel, x) for x in (*op.control_operands, *ends))]
    assert isinstance(op, Op)
    compares = op.pred if isinstance(op, Cmp) else ""
    return [op.NAME, v.type.notation, compares, *(_term(kernel, x) for x in op.operands)]


def leaves(t: Term) -> list[Leaf]:
    """The arguments and lengths in a term, in order."""
    if not isinstance(t, list):
        return []
    if t[0] == "given":
        return [(t[1], t[2])]
    return list(dict.fromkeys(leaf for x in t[3:] for leaf in leaves(x)))


def value(t: Term, value_of: Callable[[Leaf], int]) -> int:
    """The value of a term; OverflowError where an intermediate integer does not fit its type."""
    if not isinstance(t, list):
        return int(t)
    if t[0] == "given":
        n = value_of((t[1], t[2]))
        if t[2] >= 0 and n > MAX_EXTENT:
            raise OverflowError
        return n
    name, kind, attribute, *args = t
    if name == "if":  # only the selected operand is computed
        return value(args[1 if value(args[0], value_of) else 2], value_of)
    table = OF_BOOLS if kind == "bool" and name in OF_BOOLS else VALUES
    result = int(table[f"{name}.{attribute}" if attribute else name](*(value(x, value_of) for x in args)))
    low, high = limits(DTYPES[kind])
    if not low <= result <= high:
        raise OverflowError
    return result


def limits(t: DType) -> tuple[int, int]:
    """The minimum and the maximum of an integer type."""
    if t.is_bool:
        return 0, 1
    half = 1 << (t.bits - 1)
    return (-half, half - 1) if t.is_signed else (0, 2 * half - 1)


def _div(x: int, y: int) -> int:
    """A quotient rounded toward zero; 0 for a division by zero, as in kernels."""
    if not y:
        return 0
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _shifted(x: int, amount: int) -> int:
    if not 0 <= amount < 64:
        raise OverflowError
    return x << amount if amount else x


VALUES: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
    "div": _div,
    "floordiv": lambda x, y: x // y if y else 0,
    "mod": lambda x, y: x - y * _div(x, y) if y else 0,
    "min": min,
    "max": max,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x: ~x,
    "shl": _shifted,
    "shr": lambda x, y: x >> y if 0 <= y < 64 else _shifted(x, y),
    "cast": lambda x: x,
    "select": lambda c, x, y: x if c else y,
    "cmp.eq": lambda x, y: x == y,
    "cmp.ne": lambda x, y: x != y,
    "cmp.lt": lambda x, y: x < y,
    "cmp.le": lambda x, y: x <= y,
    "cmp.gt": lambda x, y: x > y,
    "cmp.ge": lambda x, y: x >= y,
}
"""The result of each op for integers."""
OF_BOOLS: dict[str, Callable[..., int]] = {"not": lambda x: not x, "cast": bool}
"""The result of each op with a bool result, where it differs from that for integers."""
