"""The element indices at which two lanes access a tile, resolved through views to the object: linear forms over the
lanes, the iterations of loops, and values that are equal in both lanes.

Forms are exact. Arithmetic that may wrap gets a variable for the number of wraps; quotients, remainders, minima and
maxima are variables with the inequalities that define them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from math import prod

from tegula.dataclass import dataclass, field
from tegula.ir import Op, Region, Value
from tegula.layout import COPY, Layout
from tegula.ops import scalar as S
from tegula.ops.buffer import BufReshape, BufView, buffer_type
from tegula.ops.control import For, If, While
from tegula.ops.convert import Cast
from tegula.ops.integer_ranges import MAX_LANES, IntegerRanges, Range, range_of_type
from tegula.ops.lane import LaneIndex, Lanes, Tid
from tegula.ops.roles import WARP, Roles
from tegula.passes.inequalities import Atom, Form, constant, less_than, plus, times
from tegula.passes.uniformity import Uniformity

MAX_WRAPS = 3
"""The maximum number of wrap counts that are distinguished."""
MAX_CASES = 16
"""The maximum number of combinations of cases that are tried."""


class Variable:
    """An integer variable of a scope. `side`: the lane that the variable belongs to, None for both lanes; `key`: the
    quantity that the variable represents in the scope. A scope has one object for each key and side, so that variables
    are compared and hashed by identity; a key holds further variables, to any depth."""

    __slots__ = ("key", "side")

    def __init__(self, key: Hashable, side: str | None) -> None:
        self.key, self.side = key, side


@dataclass(slots=True)
class Facts:
    """Constraints on a variable: `equal`, forms that are 0; `nonnegative`, forms that are 0 or more; `cases`, the
    numbers that it may equal, each with further non-negative forms for that case."""

    variable: Atom
    equal: list[Form] = field(default_factory=list[Form])
    nonnegative: list[Form] = field(default_factory=list[Form])
    cases: list[tuple[int, list[Form]]] = field(default_factory=list[tuple[int, list[Form]]])


class LanePairScope:
    """Two lanes, "a" and "b", in one run of `region`, each in any iteration of the loops inside. `lockstep_region`: the
    enclosing region that all lanes run in lockstep, in which both lanes have the same result of each read."""

    def __init__(
        self, region: Region, lockstep_region: Region, known: Uniformity, ranges: IntegerRanges
    ) -> None:
        self.region, self.lockstep_region = region, lockstep_region
        self.known, self.ranges = known, ranges
        self.facts: dict[Atom, Facts] = {}
        self.variables: dict[tuple[Hashable, str | None], Variable] = {}
        self.exchanges: dict[Atom, tuple[LaneSide, Value, Value]] = {}
        self.stable_values: dict[Value, bool] = {}
        self.a, self.b = LaneSide(self, "a"), LaneSide(self, "b")

    def is_common(self, value: Value) -> bool:
        """Whether a value is the same in both lanes, in all iterations."""
        return not self.known.varying(value) and self.stable(value)

    def stable(self, value: Value) -> bool:
        """Whether a value does not change within a lane during the run of the region."""
        if value not in self.stable_values:
            self.stable_values[value] = self._stable(value)
        return self.stable_values[value]

    def _stable(self, value: Value) -> bool:
        owner = value.owner
        if isinstance(owner, Region):
            return owner.parent is None or not self.holds(owner.parent)
        if not isinstance(owner, Op):
            return True
        if owner.regions or not owner.PURE:
            return owner.parent is self.lockstep_region or not _is_inside(owner, self.lockstep_region)
        return not self.holds(owner) or all(self.stable(v) for v in owner.operands)

    def holds(self, op: Op) -> bool:
        """Whether an op is in the region, at any depth."""
        return _is_inside(op, self.region)

    def lanes(self) -> int:
        """The number of lanes of the role that contains the region, or of the block."""
        region: Region | None = self.region
        while region is not None and region.parent is not None:
            roles = region.parent
            if isinstance(roles, Roles):
                return WARP * roles.warps[roles.roles.index(region)][1]
            region = roles.parent
        return self.known.launch.block_dim

    def facts_of(self, forms: Sequence[Form]) -> list[Facts]:
        """The facts of all variables in the forms and, transitively, in these facts."""
        facts_of_atoms: dict[Atom, Facts] = {}
        queue = [atom for terms, _ in forms for atom in terms]
        while queue:
            atom = queue.pop()
            if atom in facts_of_atoms or atom not in self.facts:
                continue
            facts = facts_of_atoms[atom] = self.facts[atom]
            related = [*facts.equal, *facts.nonnegative, *(f for _, forms in facts.cases for f in forms)]
            queue += [further for terms, _ in related for further in terms]
        return list(facts_of_atoms.values())

    def symmetric_forms(self, equal: Sequence[Form]) -> Iterator[Form]:
        """Forms that are 0 as a consequence of equations on `x ^ y` with one y for both lanes: if `x ^ y` of one lane
        is x of the other, then `x ^ y` of the other is x of the first; if `x ^ y` is the same in both, so is x."""
        for terms, number in equal:
            for atom in terms:
                if atom not in self.exchanges or abs(terms[atom]) != 1:
                    continue
                side, value, x = self.exchanges[atom]
                other = self.b if side is self.a else self.a
                rest = {k: n for k, n in terms.items() if k != atom}, number
                equals = times(rest, -terms[atom])
                if equals == other.form(x):
                    yield plus(other.form(value), side.form(x), -1)
                if equals == other.form(value):
                    yield plus(other.form(x), side.form(x), -1)

    def possible_cases(self, facts: Sequence[Facts]) -> Iterator[tuple[dict[Atom, int], list[Form]]]:
        """For each combination of cases, the numbers of its variables and the forms that are then 0 or more."""
        case_lists = [[(f.variable, *case) for case in f.cases] for f in facts if f.cases]
        if prod(map(len, case_lists)) > MAX_CASES:
            yield {}, []
            return
        for chosen in product(*case_lists):
            yield {atom: n for atom, n, _ in chosen}, [form for _, _, forms in chosen for form in forms]


def _is_inside(op: Op, region: Region) -> bool:
    ancestor: Op | None = op
    while ancestor is not None and ancestor.parent is not None:
        if ancestor.parent is region:
            return True
        ancestor = ancestor.parent.parent
    return False


class LaneSide:
    """One of the two lanes of a scope, in one iteration of each loop."""

    def __init__(self, scope: LanePairScope, side: str) -> None:
        self.scope, self.side = scope, side
        self.forms: dict[Value, Form] = {}
        self.quotients: dict[Atom, dict[int, tuple[Form, Form]]] = {}
        self.lane: Form = self._new("lane", (0, scope.lanes() - 1), False)

    # Elements --------------------------------------------------------------------------------------------------------

    def place(self, buffer: Value, index: Sequence[Form]) -> tuple[list[Form], list[Form]]:
        """The index in the object, one form for each dimension, of an element of a view; and the forms that are
        non-negative because the index is in the bounds of each view in the chain (out-of-bounds accesses are
        undefined)."""
        at, inside = list(index), list[Form]()
        while True:
            inside += _inside(at, buffer_type(buffer.type).shape)
            owner = buffer.owner
            if isinstance(owner, BufView):
                at = self._in_view(owner, at)
            elif isinstance(owner, BufReshape):
                at = self._in_reshape(owner, at)
            else:
                return at, inside
            buffer = owner.buffer

    def _in_view(self, view: BufView, at: Sequence[Form]) -> list[Form]:
        starts = [self.form(v) for v in view.starts]
        dims: Sequence[int] = view.dims
        steps: Sequence[int] = view.steps
        for i, dim, step in zip(at, dims, steps, strict=True):
            if dim >= 0:
                starts[dim] = plus(starts[dim], i, step)
        return starts

    def _in_reshape(self, view: BufReshape, at: Sequence[Form]) -> list[Form]:
        """The index in the source with the same row-major position as an index in the view."""
        shape = buffer_type(view.buffer.type).shape
        number = row_major(at, buffer_type(view.result.type).shape)
        if len(shape) == 1:
            return [number]
        key = ("reshaped", view, tuple((frozenset(terms.items()), n) for terms, n in at))
        dimensions = [self._new((*key, d), (0, n - 1), False) for d, n in enumerate(shape)]
        for (atom,) in (terms for terms, _ in dimensions):
            self.scope.facts[atom].equal.append(plus(number, row_major(dimensions, shape), -1))
        return dimensions

    def at_layout(self, layout: Layout, owners: bool) -> tuple[list[Form], Form]:
        """The coordinates of an element that a thread holds, and the thread. `owners`: only the owner among the threads
        that hold copies of the element."""
        key = (layout, owners)
        at, thread = [constant(0) for _ in layout.shape], constant(0)
        for k, (modes, of_threads) in enumerate(((layout.threads, True), (layout.registers, False))):
            period = 1
            for n, mode in enumerate(modes):
                copy = mode.dim == COPY
                size = 1 if copy and owners else mode.size
                digit = self._new((key, k, n), (0, size - 1), False)
                if not copy:
                    at[mode.dim] = plus(at[mode.dim], digit, mode.stride)
                if of_threads:
                    thread = plus(thread, digit, period)
                period *= mode.size
        return at, thread

    def group(self, thread: Form, size: int) -> Form:
        """The index of a thread's group of `size` consecutive threads."""
        return thread if size == 1 else self._divided(thread, size, (0, MAX_LANES), False)[0]

    # Conditions ------------------------------------------------------------------------------------------------------

    def guards(self, op: Op) -> Iterator[Form]:
        """The forms that are non-negative at an op, from the conditions of the enclosing branches and loops."""
        region = op.parent
        while region is not None and region.parent is not None:
            outer = region.parent
            if isinstance(outer, If):
                yield from self._implied(outer.condition, region is outer.then)
            elif isinstance(outer, While) and region is outer.body:
                yield from self._implied(outer.condition.yielded[0], True)
            region = outer.parent

    def _implied(self, condition: Value, holds: bool) -> Iterator[Form]:
        owner = condition.owner
        if isinstance(owner, Lanes):
            yield from self._implied(owner.body.yielded[owner.results.index(condition)], holds)
        elif isinstance(owner, S.And if holds else S.Or):
            for v in owner.operands:
                yield from self._implied(v, holds)
        elif isinstance(owner, S.Not):
            yield from self._implied(owner.x, not holds)
        elif isinstance(owner, S.Cmp) and all(range_of_type(v.type) is not None for v in owner.operands):
            yield from self._comparison_forms(owner, holds)

    def _comparison_forms(self, comparison: S.Cmp, holds: bool) -> Iterator[Form]:
        a, b = (self.form(v) for v in comparison.operands)
        pred = comparison.pred if holds else NEGATED[comparison.pred]
        if pred in ("le", "eq"):
            yield plus(b, a, -1)
        if pred in ("ge", "eq"):
            yield plus(a, b, -1)
        if pred == "lt":
            yield less_than(a, b)
        if pred == "gt":
            yield less_than(b, a)

    # Values ----------------------------------------------------------------------------------------------------------

    def form(self, value: Value) -> Form:
        """The form of an integer value in this lane, in its iteration."""
        if value not in self.forms:
            self.forms[value] = self._form(value)
        return self.forms[value]

    def _form(self, value: Value) -> Form:
        bounds, owner = self.scope.ranges.of(value), value.owner
        if bounds[0] == bounds[1]:
            return constant(bounds[0])
        if isinstance(owner, Region):
            return self._argument(value, owner, bounds)
        if isinstance(owner, LaneIndex):
            return self.lane
        if isinstance(owner, Tid) and self._counts_lanes(value, owner):
            if bounds == (0, self.scope.lanes() - 1):
                return self.lane
            first = self._new((value, "first"), bounds, self.scope.stable(value))
            return plus(first, self.lane)
        if isinstance(owner, Lanes):
            return self.form(owner.body.yielded[owner.results.index(value)])
        form = self._computed(value, owner) if isinstance(owner, Op) else None
        return form or self._opaque(value, bounds)

    def _opaque(self, value: Value, bounds: Range) -> Form:
        return self._new(value, bounds, self.scope.is_common(value))

    def _new(self, key: Hashable, bounds: Range, is_common: bool) -> Form:
        """A form of one variable with these bounds, shared by both sides if `is_common`, else this side's own."""
        variable_key = key, None if is_common else self.side
        atom = self.scope.variables.setdefault(variable_key, Variable(*variable_key))
        form: Form = {atom: 1}, 0
        if atom not in self.scope.facts:
            facts = self.scope.facts[atom] = Facts(atom)
            facts.nonnegative += [plus(form, constant(-bounds[0])), plus(constant(bounds[1]), form, -1)]
        return form

    def _counts_lanes(self, value: Value, tid: Tid) -> bool:
        """Whether a component of the thread index increases by one from each lane to the next."""
        launch, k = self.scope.known.launch, tid.results.index(value)
        if k != launch.ndim - 1:
            return False
        return launch.last_is_block or launch.ndim == 1 or launch.uniform[k - 1]

    def _argument(self, value: Value, region: Region, bounds: Range) -> Form:
        """The form of an argument of a loop's body: an index is start + iteration * step; a carried value is opaque."""
        loop = region.parent
        if isinstance(loop, While):
            arguments = next(carried.arguments for carried in loop.carried if value in carried.arguments)
            return self._opaque(arguments[0], bounds)
        if not isinstance(loop, For) or loop.index is not value or self.scope.is_common(value):
            return self._opaque(value, bounds)
        start, stop, step = loop.bounds
        step_range = self.scope.ranges.of(step)
        if step_range[0] != step_range[1] or not step_range[0]:
            return self._opaque(value, bounds)
        index = plus(self.form(start), self.iteration(loop), step_range[0])
        (atom,) = self.iteration(loop)[0]
        facts, stop_form = self.scope.facts[atom], self.form(stop)
        facts.nonnegative.append(
            less_than(index, stop_form) if step_range[0] > 0 else less_than(stop_form, index)
        )
        return index

    def iteration(self, loop: Op) -> Form:
        """The number of iterations of a loop that this lane has completed, as a form."""
        return self._new((loop, "iteration"), (0, (1 << 64) - 1), not self.scope.holds(loop))

    def _computed(self, value: Value, op: Op) -> Form | None:
        """The form of a result of arithmetic; None if no linear form is known."""
        if len(op.operands) not in (1, 2, 3) or any(range_of_type(v.type) is None for v in op.operands):
            return None
        if isinstance(op, S.Select):
            return self._python_index(value, op)
        constants = [low if low == high else None for low, high in map(self.scope.ranges.of, op.operands)]
        if isinstance(op, S.Add | S.Sub | S.Neg | Cast):
            return self._wrapping(value, self._sum(op), self.scope.ranges.exact(op))
        if isinstance(op, S.Mul) and None in constants and constants != [None, None]:
            factor = next(n for n in constants if n is not None)
            form = self.form(op.a if constants[0] is None else op.b)
            return self._wrapping(value, times(form, factor), self.scope.ranges.exact(op))
        if isinstance(op, S.Shl) and constants[1] is not None and 0 <= constants[1] < 31:
            low, high = self.scope.ranges.of(op.a)
            form, factor = self.form(op.a), 1 << constants[1]
            return self._wrapping(value, times(form, factor), (low * factor, high * factor))
        if isinstance(op, S.Min | S.Max):
            return self._extreme(value, op)
        if isinstance(op, S.Xor):
            return self._xor(value, op)
        return self._quotient_or_remainder(op, constants[-1])

    def _sum(self, op: Op) -> Form:
        first, *rest = (self.form(v) for v in op.operands)
        if isinstance(op, S.Neg):
            return times(first, -1)
        return plus(first, rest[0], -1 if isinstance(op, S.Sub) else 1) if rest else first

    def _wrapping(self, value: Value, exact: Form, bounds: Range | None) -> Form | None:
        """The form of an exact sum after wrapping in its type; None if there are too many possible wrap counts."""
        type_range = range_of_type(value.type)
        if bounds is None or type_range is None or type_range == (0, 1):
            return None
        size = type_range[1] - type_range[0] + 1
        low, high = ((n - type_range[0]) // size for n in bounds)
        if low == high == 0:
            return exact
        if high - low >= MAX_WRAPS:
            return None
        wraps = self._new((value, "wraps"), (low, high), self.scope.is_common(value))
        wrapped = plus(exact, wraps, -size)
        (atom,) = wraps[0]
        facts = self.scope.facts[atom]
        if not facts.cases:
            bounds_of_wraps = [
                plus(wrapped, constant(-type_range[0])),
                plus(constant(type_range[1]), wrapped, -1),
            ]
            facts.cases = [(n, [*_equal(wraps, n), *bounds_of_wraps]) for n in range(low, high + 1)]
        return wrapped

    def _python_index(self, value: Value, op: S.Select) -> Form | None:
        """The form of `i + n if i < 0 else i`, a Python index that may count from the end."""
        test, wrapped, index = (v.owner if k < 2 else v for k, v in enumerate(op.operands))
        if not (isinstance(test, S.Cmp) and isinstance(wrapped, S.Add) and isinstance(index, Value)):
            return None
        size = self.scope.ranges.of(wrapped.b)
        tests_sign = test.pred == "lt" and test.a is index
        if not tests_sign or self.scope.ranges.of(test.b) != (0, 0):
            return None
        if wrapped.a is not index or size[0] != size[1] or size[0] < 0:
            return None
        added = self._new((value, "added"), (0, 1), self.scope.is_common(value))
        (atom,) = added[0]
        at, facts = self.form(index), self.scope.facts[atom]
        facts.cases = [(0, [*_equal(added, 0), at]), (1, [*_equal(added, 1), less_than(at, constant(0))])]
        return plus(at, added, size[0])

    def _extreme(self, value: Value, op: S.Min | S.Max) -> Form:
        form = self._opaque(value, self.scope.ranges.of(value))
        (atom,) = form[0]
        sign = 1 if isinstance(op, S.Max) else -1
        for v in op.operands:
            self.scope.facts[atom].nonnegative.append(times(plus(form, self.form(v), -1), sign))
        return form

    def _xor(self, value: Value, op: S.Xor) -> Form | None:
        """The form of `x ^ y` with one y for both lanes, or with a y below a power of two, which changes only the
        remainder of x modulo that power, and not the quotient."""
        form = self._opaque(value, self.scope.ranges.of(value))
        (atom,) = form[0]
        known = False
        for x, y in ((op.a, op.b), (op.b, op.a)):
            low, high = self.scope.ranges.of(y)
            if low >= 0 and self.scope.ranges.nonnegative(x) and high < MAX_XOR_OPERAND:
                bits = 1 << high.bit_length()
                quotient, _ = self._divided(
                    self.form(x), bits, self.scope.ranges.of(x), self.scope.is_common(x)
                )
                low_bits = self._new((value, "place"), (0, bits - 1), self.scope.is_common(value))
                equation = plus(plus(form, quotient, -bits), low_bits, -1)
                self.scope.facts[atom].equal.append(equation)
                known = True
            if self.scope.is_common(y) and not self.scope.is_common(x):
                self.scope.exchanges[atom] = self, value, x
                return form
            if known:
                return form
        return None

    def _quotient_or_remainder(self, op: Op, divisor: int | None) -> Form | None:
        """The quotient, rounded down, or the remainder of a division by a constant."""
        if divisor is None or not isinstance(op, S.Div | S.FloorDiv | S.Mod | S.Shr | S.And):
            return None
        x = op.a
        low, high = self.scope.ranges.of(x)
        is_quotient = isinstance(op, S.FloorDiv) or (isinstance(op, S.Div) and low >= 0)
        is_remainder = isinstance(op, S.Mod) and low >= 0
        if isinstance(op, S.Shr) and 0 <= divisor < 31:
            is_quotient, divisor = True, 1 << divisor
        if isinstance(op, S.And) and divisor & (divisor + 1) == 0:
            is_remainder, divisor = True, divisor + 1
        if divisor <= 0 or not (is_quotient or is_remainder):
            return None
        quotient_form, remainder_form = self._divided(
            self.form(x), divisor, (low, high), self.scope.is_common(x)
        )
        return quotient_form if is_quotient else remainder_form

    def _divided(self, x: Form, divisor: int, bounds: Range, is_common: bool) -> tuple[Form, Form]:
        """The quotient, rounded down, and the remainder of a form with known bounds."""
        key = frozenset(x[0].items()), x[1]
        known = self.quotients.setdefault(key, {})
        if divisor not in known:
            quotient = self._new(
                (key, divisor, "quotient"), (bounds[0] // divisor, bounds[1] // divisor), is_common
            )
            remainder = self._new((key, divisor, "remainder"), (0, divisor - 1), is_common)
            (atom,), (remainder_atom,) = quotient[0], remainder[0]
            equation = plus(plus(x, quotient, -divisor), remainder, -1)
            self.scope.facts[atom].equal = [equation]
            self.scope.facts[remainder_atom].equal = [equation]
            known[divisor] = quotient, remainder
            for multiple in known:
                for small, big in ((multiple, divisor), (divisor, multiple)):
                    if big > small and big % small == 0 and WARP in (small, big):
                        self._relate_quotients(
                            known[small][0], known[big][0], big // small, (key, small, big), is_common
                        )
        return known[divisor]

    def _relate_quotients(self, small: Form, big: Form, ratio: int, key: Hashable, is_common: bool) -> None:
        """Relate two quotients of one form: dividing by a multiple of a divisor divides that divisor's quotient."""
        (atom,) = small[0]
        digit = self._new((key, "nested"), (0, ratio - 1), is_common)
        self.scope.facts[atom].equal.append(plus(plus(small, big, -ratio), digit, -1))


MAX_XOR_OPERAND = 1 << 20
"""The exclusive limit on y for which `x ^ y` is related to the quotient of x."""
NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def _equal(form: Form, number: int) -> list[Form]:
    """The two forms that are non-negative if and only if a form equals a number."""
    return [plus(form, constant(-number)), plus(constant(number), form, -1)]


def _inside(at: Sequence[Form], shape: Sequence[int]) -> Iterator[Form]:
    for i, n in zip(at, shape, strict=False):
        yield i
        yield less_than(i, constant(n))


def row_major(at: Sequence[Form], shape: Sequence[int]) -> Form:
    """The row-major position of an index, as a form."""
    total = constant(0)
    for i, n in zip(at, shape, strict=True):
        total = plus(times(total, n), i)
    return total
