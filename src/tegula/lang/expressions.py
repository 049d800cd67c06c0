"""Expressions: each method builds the ops of one kind of node and returns the node's value."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from tegula import errors as E
from tegula.ir import Op, Region, TypeRule, Value
from tegula.lang import explain
from tegula.lang.capture import Builtin, Namespace, Opaque, attribute, capture
from tegula.lang.definition import FuncDef, PublicFunction
from tegula.lang.in_out import reject_updates
from tegula.lang.methods import method
from tegula.lang.printing import FormattedText
from tegula.lang.state import (
    Conflict,
    Failed,
    Frame,
    LocalFunction,
    PartlyBound,
    Reported,
    Unbound,
    describe_type,
)
from tegula.lang.struct_accesses import StructAccesses, StructElement
from tegula.lang.thread_arrays import mark, mark_part
from tegula.ops import scalar as S
from tegula.ops.builder import LITERALS, MAX_VECTOR
from tegula.ops.control import If, Yield
from tegula.ops.literals import SYMBOLS
from tegula.ops.structs import INPLACE_OPERATORS, Columns, Fields, NamedItems, StructValue
from tegula.source import Location
from tegula.types import ArrayType, BufType, DType, MatType, TileType, VecType, bool_, is_element, scalar_of

BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "not"}
COMPARE = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
FOLDED = ("add", "sub", "mul", "floordiv", "mod", "div")
UNSUPPORTED = {
    ast.ListComp: "a list comprehension", ast.SetComp: "a set comprehension",
    ast.DictComp: "a dict comprehension", ast.GeneratorExp: "a generator expression", ast.Dict: "a dict",
    ast.Set: "a set", ast.Await: "await",
    ast.Yield: "yield", ast.YieldFrom: "yield", ast.Starred: "'*' unpacking",
}  # fmt: skip
HINTS: dict[type[ast.expr], str] = {
    ast.ListComp: "write a loop, or use tile functions",
}
MAX_SPECULATED_OPS = 12
"""The maximum number of pure ops that are speculated instead of branched around."""


class Expressions(StructAccesses):
    """The part of the tracer that evaluates expressions."""

    def expr(self, node: ast.expr) -> Any:
        """The value of an expression."""
        value = self.expr_or_reference(node)
        return value.read(self) if isinstance(value, StructElement) else value

    def expr_or_reference(self, node: ast.expr) -> Any:
        """The value of an expression, or the location of a struct in an array or tile, of which the caller may read a
        single field."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            message = UNSUPPORTED.get(type(node), f"'{ast.unparse(node)}'")
            raise E.UnsupportedPython(self.location(node), help=HINTS.get(type(node), ""), what=message)
        try:
            return method(node)
        except TypeRule as rule:
            raise self.from_rule(rule, node) from None

    def _JoinedStr(self, node: ast.JoinedStr) -> Any:
        """An f-string: a string if all its parts are constants, else a text that print and assert take."""
        parts: list[tuple[Any, str]] = []
        for part in node.values:
            if isinstance(part, ast.Constant):
                parts.append((part.value, ""))
                continue
            assert isinstance(part, ast.FormattedValue)
            form = "" if part.format_spec is None else self.expr(part.format_spec)
            if not isinstance(form, str):
                raise E.NotConstant(self.location(part), what="the format of a value in an f-string")
            parts.append((self.expr(part.value), form))
        self.mark(node)
        return FormattedText.of(parts)

    # Names -----------------------------------------------------------------------------------------------------------

    def _Constant(self, node: ast.Constant) -> Any:
        if node.value is None or isinstance(node.value, (bool, int, float, str)):
            return node.value
        message = "'...'" if node.value is ... else f"a {type(node.value).__name__} constant"
        raise E.UnsupportedPython(self.location(node), what=message)

    def _Name(self, node: ast.Name) -> Any:
        return self.name(node.id, node, self.frame)

    def name(self, name: str, node: ast.AST, frame: Frame) -> Any:
        """The binding of a name: a local, a local of an enclosing kernel function, or a captured object."""
        if name in frame.names:
            x = frame.names[name]
            if isinstance(x, Failed):
                raise Reported
            if isinstance(x, Conflict):
                raise x.error(self.location(node))
            if isinstance(x, (Unbound, PartlyBound)):
                raise self._unbound(name, self.location(node), frame)
            if name in frame.thread_arrays:
                mark(self.builder, x, frame.thread_arrays[name])
            return x
        if name in frame.flow.locals:
            raise self._unbound(name, self.location(node), frame)
        if frame.outer is not None:
            return self.name(name, node, frame.outer)
        try:
            value = frame.lookup(name)
        except KeyError:
            raise E.UnknownName(self.location(node), help=self._similar(name, frame), name=name) from None
        return capture(name, value, self.location(node))

    def part(self, x: Any, node: ast.AST) -> Any:
        """A part of a tuple or struct. Raises the recorded error if branches have bound the part to values that cannot
        be merged."""
        if isinstance(x, Conflict):
            raise x.error(self.location(node))
        return x

    def _NamedExpr(self, node: ast.NamedExpr) -> Any:
        """The value of `(name := value)`, after binding the name."""
        x = self.expr(node.value)
        name = node.target.id
        if self.frame.conditional_context:
            message = f"':=' binds '{name}' in {self.frame.conditional_context}, which may not be evaluated"
            help = "assign the name in a separate statement"
            raise E.UnsupportedPython(self.location(node), what=message, help=help)
        self.bind(name, x)
        return self.frame.names[name]

    def _Lambda(self, node: ast.Lambda) -> LocalFunction:
        """A lambda as a local function that returns the expression."""
        returned = ast.copy_location(ast.Return(node.body), node.body)
        function = ast.FunctionDef("<lambda>", node.args, [returned], [])
        return LocalFunction(ast.copy_location(function, node), self.frame)

    def _unbound(self, name: str, loc: Location, frame: Frame) -> E.UnboundName:
        """The error for an unbound name, with a note for each place that binds it."""
        stores = [n for n in ast.walk(frame.source.tree) if isinstance(n, ast.Name) and n.id == name]
        lines = (frame.source.location(n, frame.caller) for n in stores if isinstance(n.ctx, ast.Store))
        notes = [(at, "bound here") for at in sorted(lines, key=lambda at: (at.line, at.column))]
        return E.UnboundName(loc, name=name, notes=notes)

    def _similar(self, name: str, frame: Frame) -> str:
        import difflib

        close = difflib.get_close_matches(name, [n for n in frame.names if n[0] != "%"], 1)
        return f"did you mean '{close[0]}'?" if close else ""

    def _Attribute(self, node: ast.Attribute) -> Any:
        owner = self.expr_or_reference(node.value)
        self.mark(node)
        if isinstance(owner, StructElement):
            return owner.field(self, node.attr)
        if isinstance(owner, StructValue):
            return self.part(owner.field(node.attr), node)
        if isinstance(owner, NamedItems):
            return owner.named(node.attr)
        if isinstance(owner, Columns):
            return self.attribute_of(owner, node.attr)
        if isinstance(owner, Opaque):
            self.captures.attribute(owner.object, node.attr)
        if isinstance(owner, (Namespace, Opaque)):
            return attribute(owner, node.attr, self.library, self.location(node))
        if isinstance(owner, (VecType, MatType)) and hasattr(type(owner), node.attr):
            return getattr(owner, node.attr)
        if isinstance(owner, np.ndarray) and owner.size <= MAX_VECTOR:
            owner = self.builder.value(owner)
        if not isinstance(owner, Value):
            raise E.UnknownAttribute(self.location(node), owner=describe_type(owner), name=node.attr)
        bound_method = method(owner, node.attr)
        return self.builder.attribute(owner, node.attr) if bound_method is None else bound_method

    # Collections -----------------------------------------------------------------------------------------------------

    def _Tuple(self, node: ast.Tuple | ast.List) -> Any:
        return tuple(x for part in node.elts for x in self._items(part))

    _List = _Tuple

    def _items(self, node: ast.expr) -> Any:
        """The items that an expression of a tuple display adds: one, or all items of a tuple after a '*'."""
        if not isinstance(node, ast.Starred):
            return (self.expr(node),)
        items = self.items(self.expr(node.value))
        if not isinstance(items, tuple):
            raise E.TypeMismatch(self.location(node), what=f"cannot unpack {describe_type(items)}")
        return items

    def index(self, node: ast.expr, owner: Any) -> tuple[Any, ...]:
        """The parts of a subscript of `owner`; `...` is replaced by a ':' for each missing dimension."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        dots = [k for k, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is ...]
        rank = rank_of(owner)
        if len(dots) != 1 or rank is None:
            indices = tuple(self._index_part(part) for part in parts)
            is_tuple = (
                len(indices) == 1 and isinstance(indices[0], tuple) and not isinstance(indices[0], Fields)
            )
            return indices[0] if is_tuple else indices
        before, after = parts[: dots[0]], parts[dots[0] + 1 :]
        added = sum(isinstance(part, ast.Constant) and part.value is None for part in parts)
        missing = [slice(None)] * max(0, rank + added - len(before) - len(after))
        return (*map(self._index_part, before), *missing, *map(self._index_part, after))

    def _index_part(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Slice):
            bounds = (None if b is None else self.expr(b) for b in (node.lower, node.upper, node.step))
            return slice(*bounds)
        return self.expr(node)

    def _Subscript(self, node: ast.Subscript) -> Any:
        owner = self.expr(node.value)
        index = self.index(node.slice, owner)
        self.mark(node)
        if isinstance(owner, Columns):
            return StructElement(owner, index)
        if isinstance(owner, tuple):
            return self.item(owner, index, node)
        if not isinstance(owner, (Value, np.ndarray)):
            raise E.TypeMismatch(self.location(node), what=f"{describe_type(owner)} cannot be indexed")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        with self.written(
            (node.value, owner), *(zip(parts, index, strict=True) if len(parts) == len(index) else ())
        ):
            result = self.with_constants(lambda i: self.builder.subscript(owner, i), index)
        mark_part(self.builder, owner, index, result)
        return result

    def item(self, owner: tuple[Any, ...], index: tuple[Any, ...], node: ast.AST) -> Any:
        """owner[i] for a tuple and a constant index or slice."""
        if isinstance(owner, Fields):
            message = f"a value of the struct {owner.struct} has no items"
            raise E.TypeMismatch(self.location(node), what=message, help="name a field, as in s.x")
        (i,) = index if len(index) == 1 else (None,)
        bounds = [i.start, i.stop, i.step] if isinstance(i, slice) else [i]
        numbers = [None if b is None and isinstance(i, slice) else self.constant_number(b) for b in bounds]
        if any(n is None and b is not None for n, b in zip(numbers, bounds, strict=True)) or i is None:
            raise E.NotConstant(self.location(node), what="the index of a tuple")
        try:
            return owner[slice(*numbers)] if isinstance(i, slice) else self.part(owner[numbers[0]], node)  # type: ignore[index]
        except IndexError:
            message = f"a tuple of {len(owner)} has no item {numbers[0]}"
            help = f"the items are 0 to {len(owner) - 1}" if owner else "the tuple is empty"
            raise E.OutOfRange(self.location(node), what=message, help=help) from None
        except (TypeError, ValueError):
            message = f"a tuple index must be an integer or a slice, got {numbers[0]!r}"
            raise E.TypeMismatch(self.location(node), what=message, help="write integers") from None

    # Operators -------------------------------------------------------------------------------------------------------

    def _BinOp(self, node: ast.BinOp) -> Any:
        """The value of a chain of operators, by a loop over its left operands, so that sums may have any length."""
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        left = self.expr(chain[-1].left)
        for part in reversed(chain):
            right = self.expr(part.right)
            self.mark(part)
            try:
                left = self.binary(BINARY[type(part.op)], left, right, part)
            except TypeRule as rule:
                rule.written = rule.written or ((part.left, left), (part.right, right))
                raise self.from_rule(rule, part) from None
        return left

    def binary(self, op: str, left: Any, right: Any, node: ast.AST) -> Any:
        """The value of a binary operator."""
        if isinstance(left, Columns) or isinstance(right, Columns):
            if op not in INPLACE_OPERATORS:
                raise TypeRule(
                    f"'{SYMBOLS[op]}' is not defined for tiles of structs", "the operators are + and -"
                )
            return self.public_call(op, [left, right], {}, node)
        tuples = isinstance(left, tuple) and isinstance(right, tuple)
        if tuples and op == "add" and not isinstance(left, Fields) and not isinstance(right, Fields):
            return left + right
        for side in (left, right):
            if not isinstance(side, (Value, np.generic, np.ndarray, *LITERALS)):
                message = f"'{ast.unparse(node)}' is not defined for {describe_type(side)}"
                raise E.TypeMismatch(self.location(node), what=message)
        folded = self._fold(op, left, right)
        return folded if folded is not None else self.builder.binary(op, self.typed(left), self.typed(right))

    def typed(self, x: Any) -> Any:
        """An operand for the builder: NumPy constants as Values of their type, literals as they are."""
        if isinstance(x, np.bool_):
            return bool(x)
        if isinstance(x, np.generic):
            from tegula.types import from_numpy

            return self.builder.const(x.item(), from_numpy(x.dtype))
        return self.builder.value(x) if isinstance(x, np.ndarray) else x

    def _fold(self, op: str, left: Any, right: Any) -> Value | None:
        """The constant result of integer arithmetic with constants bound to names; None if it is not constant."""
        typed = [x for x in (left, right) if isinstance(x, Value)]
        a, b = self.constant_number(left), self.constant_number(right)
        if op not in FOLDED or not typed or type(a) is not int or type(b) is not int:
            return None
        t = typed[0].type
        if any(x.type != t for x in typed) or (op in ("floordiv", "mod", "div") and b == 0):
            return None
        assert isinstance(t, DType)
        try:
            result = self.builder.binary(op, a, b)
        except TypeRule:  # undefined in Python, but defined at run time in kernels
            return None
        low = -(1 << (t.bits - 1)) if t.kind == "i" else 0
        return self.builder.const(result, t) if low <= result < low + (1 << t.bits) else None

    def _UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            test = self.condition(node.operand)
            self.mark(node)
            return self.builder.logical_not(test)
        x = self.expr(node.operand)
        self.mark(node)
        if not isinstance(x, (Value, np.generic, np.ndarray, *LITERALS)):
            raise E.TypeMismatch(self.location(node), what=f"{describe_type(x)} is not a number")
        number = self.constant_number(x)
        if isinstance(x, Value) and type(number) is int and isinstance(node.op, ast.USub) and number:
            t = x.type
            if isinstance(t, DType) and t.kind == "i" and number != -(1 << (t.bits - 1)):
                return self.builder.const(-number, t)
        return self.builder.unary(UNARY[type(node.op)], self.typed(x))

    def _Compare(self, node: ast.Compare) -> Any:
        """The value of a chain of comparisons, which evaluates each operand once and stops at the first that fails."""
        left = self.expr(node.left)
        return self._compare_chain(node, left, 0)

    def _compare_chain(self, node: ast.Compare, left: Any, k: int) -> Any:
        right = self.expr(node.comparators[k])
        first = self._compare_one(node, node.ops[k], left, right)
        if k + 1 == len(node.ops):
            return first
        if isinstance(first, Value) and first.type != bool_:
            raise E.TypeMismatch(self.location(node), what="tiles cannot be compared in a chain")
        return self.short_circuit("and", first, lambda: self._compare_chain(node, right, k + 1), node)

    def _compare_one(self, node: ast.Compare, op: ast.cmpop, left: Any, right: Any) -> Any:
        self.mark(node)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self._membership(node, left, right, isinstance(op, ast.In))
        numbers = (Value, np.generic, np.ndarray, *LITERALS)
        if isinstance(op, (ast.Is, ast.IsNot)):
            is_same = left is right or (not isinstance(left, Value) and left == right)
            return is_same == isinstance(op, ast.Is)
        if isinstance(left, numbers) and isinstance(right, numbers):
            with self.written(*self._written_operands(node, op, left, right)):
                return self.builder.compare(COMPARE[type(op)], self.typed(left), self.typed(right))
        return self._compare_static(node, op, left, right)

    def _membership(self, node: ast.Compare, left: Any, right: Any, inside: bool) -> Any:
        """The value of `x in items`, or of `x not in items`, for a tuple."""
        items = self.items(right)
        if not isinstance(items, tuple) or isinstance(items, Fields):
            help = "write a tuple, as in x in (1, 2), or compare with =="
            raise E.UnsupportedPython(self.location(node), what=f"'in' {describe_type(right)}", help=help)
        is_member: Any = False
        numbers = (Value, np.generic, np.ndarray, *LITERALS)
        for item in items:
            if isinstance(left, numbers) and isinstance(item, numbers):
                is_equal = self.builder.compare("eq", self.typed(left), self.typed(item))
            else:
                is_equal = self._compare_static(node, ast.Eq(), left, item)
            is_member = (
                self.builder.binary("or", is_member, is_equal)
                if isinstance(is_member, Value)
                else is_member or is_equal
            )
        return is_member if inside else self.builder.logical_not(is_member)

    def _written_operands(self, node: ast.Compare, op: ast.cmpop, left: Any, right: Any) -> explain.Written:
        k = node.ops.index(op)
        return [((node.left, *node.comparators)[k], left), (node.comparators[k], right)]

    def _compare_static(self, node: ast.Compare, op: ast.cmpop, left: Any, right: Any) -> bool:
        """The result, in Python, of comparing dtypes, strings, None, functions or tuples of constants."""
        if any(isinstance(x, Fields) for x in (left, right)):
            message = f"cannot compare {describe_type(left)} and {describe_type(right)}"
            raise E.TypeMismatch(self.location(node), what=message, help="compare their fields")
        builtin = {float: "float32", int: "int32", bool: "bool"}
        left, right = (
            str(builtin.get(x, x)) if is_element(x) or x in (float, int, bool) else x for x in (left, right)
        )
        if any(isinstance(x, Value) for x in (left, right)) or not isinstance(op, (ast.Eq, ast.NotEq)):
            message = f"cannot compare {describe_type(left)} and {describe_type(right)}"
            raise E.TypeMismatch(self.location(node), what=message)
        return (left == right) == isinstance(op, ast.Eq)

    # Conditions ------------------------------------------------------------------------------------------------------

    def condition(self, node: ast.expr) -> Any:
        """The node as a truth value: a Python bool where it is constant, otherwise a bool Value."""
        x = self.expr(node)
        self.mark(node)
        with self.errors_at(node), self.written((node, x)):
            return self.truth(x)

    def truth(self, x: Any) -> Any:
        """The truth of a value: a bool where it is known, else a bool scalar."""
        number = self.constant_number(x)
        if number is not None:
            return bool(number)
        if isinstance(x, Value) and isinstance(x.type, ArrayType):
            return True  # an absent array is None
        if isinstance(x, (Value, np.generic)):
            return self.builder.truth(self.typed(x))
        if x is None or (isinstance(x, (str, tuple)) and not isinstance(x, Fields)):
            return bool(x)
        raise TypeRule(
            f"a condition must be a scalar, got {describe_type(x)}",
            "compare the value with a number, as in x > 0",
        )

    def _BoolOp(self, node: ast.BoolOp) -> Any:
        op = "and" if isinstance(node.op, ast.And) else "or"
        result = self.condition(node.values[0])
        for part in node.values[1:]:
            result = self.short_circuit(op, result, lambda part=part: self.condition(part), node)
        return result

    def short_circuit(self, op: str, first: Any, rest: Any, node: ast.AST) -> Any:
        """`first` and/or `rest()`; `rest` is evaluated only if it is needed, or unconditionally if speculation is
        unobservable."""
        if isinstance(first, bool):
            return rest() if first == (op == "and") else first
        region = Region()
        with self.within(region), reject_updates(self.frame, f"an operand of '{op}'"):
            second = self.truth(rest())
            self.mark(node)
            if isinstance(second, bool):
                second = self.builder.const(second, bool_)
        if speculable(region):
            self.splice(region)
            return self.builder.binary(op, first, second)
        with self.within(region):
            self.builder.emit(Yield, [second])
        constant_region = Region()
        with self.within(constant_region):
            self.builder.emit(Yield, [self.builder.const(op == "or", bool_)])
        return self.builder.one(
            If, [first], None, (region, constant_region) if op == "and" else (constant_region, region)
        )

    def splice(self, region: Region) -> None:
        """Move a region's ops to the builder's insertion point."""
        for op in region.ops:
            self.builder.region.append(op)

    def _Call(self, node: ast.Call) -> Any:
        return self.call_node(node)


def rank_of(x: Any) -> int | None:
    """The number of dimensions of a tile or array; None for other values."""
    t = x.type if isinstance(x, Value) else None
    if isinstance(t, (TileType, BufType)):
        return len(t.shape)
    return t.ndim if isinstance(t, ArrayType) else None


def speculable(region: Region) -> bool:
    """Whether speculative execution of the region's ops is unobservable and cheap."""
    return len(region.ops) <= MAX_SPECULATED_OPS and all(_may_speculate(op) for op in region.ops)


def _may_speculate(op: Op) -> bool:
    """Whether an op can be speculated. Integer division cannot, because debug mode reports a zero divisor."""
    divides = isinstance(op, (S.Div, S.FloorDiv, S.Mod)) and scalar_of(op.result.type).is_int  # type: ignore[arg-type]
    return isinstance(op, Op) and op.PURE and not op.COOPERATIVE and not op.regions and not divides


__all__ = ["Builtin", "Expressions", "FuncDef", "LocalFunction", "PublicFunction", "speculable"]
