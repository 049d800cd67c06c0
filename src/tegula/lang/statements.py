"""Statements. An error ends its statement; the names that the statement would bind are marked, and tracing
continues."""

from __future__ import annotations

import ast
from collections.abc import Callable
from copy import copy
from typing import Any

from tegula import errors as E
from tegula.ir import TypeRule, Value, root
from tegula.lang.annotations import ANY, ArrayAnnotation, TileAnnotation
from tegula.lang.capture import Builtin
from tegula.lang.expressions import BINARY, rank_of
from tegula.lang.flow import bindings
from tegula.lang.printing import FormattedText, build_assert
from tegula.lang.roles import RoleTracer
from tegula.lang.state import BREAK, CONTINUE, FAILED, RESULT, RETURN, LocalFunction, Reported, describe_type
from tegula.lang.thread_arrays import check_changed, kind_of
from tegula.ops.builder import LITERALS
from tegula.ops.indexing import is_atomic, neutral
from tegula.ops.structs import Columns, Fields, StructValue, with_parts
from tegula.types import ArrayType, BufType, MatType, TileType, VecType, is_element

UNSUPPORTED = {
    ast.Try: "try", ast.ClassDef: "a class", ast.Global: "global", ast.Nonlocal: "nonlocal",
    ast.Import: "import", ast.ImportFrom: "import", ast.Delete: "del", ast.Raise: "raise", ast.Match: "match",
    ast.AsyncFunctionDef: "async", ast.AsyncFor: "async", ast.AsyncWith: "async",
}  # fmt: skip
HINTS = {
    ast.Raise: "use assert", ast.Match: "use if and elif", ast.Delete: "remove the statement: names are local",
    ast.Import: "import the module at the top of the file", ast.ImportFrom: "import the module at the top of the file",
    ast.Global: "store the value in an array argument", ast.Try: "test for the error with an if",
}  # fmt: skip


class Statements(RoleTracer):
    """The part of the tracer that traces statements other than branches and loops."""

    def statement(self, node: ast.stmt) -> None:
        """Trace a statement; errors are collected, and tracing continues after the statement."""
        method = getattr(self, f"_{type(node).__name__}", None)
        try:
            if method is None:
                message = f"'{UNSUPPORTED.get(type(node), type(node).__name__)}'"
                raise E.UnsupportedPython(self.location(node), help=HINTS.get(type(node), ""), what=message)
            self.check_after_roles(node)
            with self.errors_at(node):
                method(node)
        except E.CompileError as error:
            self.record(error)
            self._mark_failed(node)
        except Reported:
            self._mark_failed(node)

    def _mark_failed(self, node: ast.stmt) -> None:
        names = bindings([node])
        for name in names.rebound:
            self.frame.names[name] = FAILED
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            x = self.frame.names.get(node.target.id)
            if not (isinstance(x, Value) and isinstance(x.type, BufType)):
                self.frame.names[node.target.id] = FAILED

    # Simple statements -----------------------------------------------------------------------------------------------

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.expr(node.value)

    def _Assert(self, node: ast.Assert) -> None:
        message = "" if node.msg is None else self.expr(node.msg)
        if not isinstance(message, (str, FormattedText)):
            raise E.NotConstant(self.location(node.msg), what="the message of an assert")
        condition = self.condition(node.test)
        self.mark(node)
        test = self.builder.value(condition) if isinstance(condition, bool) else condition
        build_assert(self, test, message or ast.unparse(node.test))

    def _FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")) != "func":
                raise E.UnsupportedPython(self.location(decorator), what="this decorator")
        self.frame.names[node.name] = LocalFunction(node, self.frame)

    def _Return(self, node: ast.Return) -> None:
        result = None
        try:
            result = None if node.value is None else self.expr(node.value)
            if self.frame.is_kernel and result is not None:
                help = "store the value in an array argument"
                raise E.TypeMismatch(self.location(node), what="a kernel returns no value", help=help)
            result = self._returned(result)
        except E.CompileError as error:
            self.record(error)
            result = FAILED
        except Reported:
            result = FAILED
        self.frame.return_at = self.frame.return_at or self.location(node)
        self.frame.names[RETURN] = True
        if result is not None:
            self.frame.names[RESULT] = result
            kind = kind_of(self.builder, result)
            if kind:
                self.frame.thread_arrays[RESULT] = kind

    def _returned(self, x: Any) -> Any:
        """The result of a function: shared tiles by reference, other tiles by value."""
        if isinstance(x, tuple):
            return with_parts(x, map(self._returned, x))
        if isinstance(x, Value) and x in self.has_name_if:
            x = self.bound(x)
            self.objects.discard(x)
        if isinstance(x, Value) and isinstance(x.type, BufType) and x.type.storage == "register":
            return self._returned_value(x) if x in self.objects else x
        return x

    def _returned_value(self, x: Value) -> Value:
        """The value of a named register tile. On some path the tile may be a shared tile, which is returned itself."""
        if root(x) not in self.joined.merged and root(x) not in self.joined.copied:
            return self.builder.tile(x, partial=True)
        value_object = self.second_name(x)
        self.objects.discard(value_object)
        return value_object

    def _Break(self, node: ast.Break) -> None:
        self.frame.names[BREAK] = True

    def _Continue(self, node: ast.Continue) -> None:
        self.frame.names[CONTINUE] = True

    def _With(self, node: ast.With) -> None:
        self.trace_with(node)

    def _For(self, node: ast.For) -> None:
        self.trace_for(node)

    def _While(self, node: ast.While) -> None:
        self.trace_while(node)

    # Assignment ------------------------------------------------------------------------------------------------------

    def _Assign(self, node: ast.Assign) -> None:
        value = self._thread_indices(node)
        if value is None:
            value = self.expr(node.value)
            self.mark(node)
            if value is None and isinstance(node.value, ast.Call):
                raise E.TypeMismatch(self.location(node.value), what="the call returns no value")
        for target in node.targets:
            self.assign(target, value, node.value)

    def _thread_indices(self, node: ast.Assign) -> Any:
        """i, j = tg.tid(): as many leading components as there are names."""
        target, call = node.targets[0], node.value
        if not (isinstance(target, (ast.Tuple, ast.List)) and isinstance(call, ast.Call)):
            return None
        if call.args or call.keywords or not isinstance(call.func, (ast.Name, ast.Attribute)):
            return None
        if self.expr(call.func) != Builtin("tid"):
            return None
        return tuple(self.thread_index(len(target.elts), call))

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            return
        value = self.expr(node.value)
        declared = self._annotation(node.annotation)
        self.mark(node)
        if is_element(declared) and isinstance(value, LITERALS):
            value = self.builder.value(value, declared)
        fits = (
            not isinstance(declared, (ArrayAnnotation, TileAnnotation))
            or isinstance(value, Value)
            and declared.matches(value.type)
        ) and (not is_element(declared) or isinstance(value, Value) and value.type == declared)
        if not fits:
            message = f"'{ast.unparse(node.target)}' is declared {declared}, but the value is {describe_type(value)}"
            raise E.TypeMismatch(self.location(node), what=message)
        self.assign(node.target, value, node.value)

    def _annotation(self, node: ast.expr) -> Any:
        try:
            return self.annotation(node)
        except E.CompileError:
            return ANY
        except TypeError as e:
            raise E.TypeMismatch(self.location(node), what=str(e)) from None

    def assign(self, target: ast.expr, value: Any, source: ast.expr | None = None) -> None:
        """target = value, for every kind of target. `source`: the expression of the value."""
        self.mark(target)
        if isinstance(target, ast.Name):
            with self.errors_at(target):
                self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value)
        elif isinstance(target, (ast.Subscript, ast.Attribute)):
            with self.errors_at(target):
                assigned = self.assign_target(target)
                self.mark(target)
                with self.written(*([(source, value)] if source is not None else [])):
                    assigned.set(value)
        else:
            raise E.UnsupportedPython(self.location(target), what=f"assignment to '{ast.unparse(target)}'")

    def _unpack(self, target: ast.Tuple | ast.List, value: Any) -> None:
        if any(isinstance(part, ast.Starred) for part in target.elts):
            raise E.UnsupportedPython(self.location(target), what="'*' unpacking")
        value = self.items(value)
        if not isinstance(value, tuple) or isinstance(value, Fields):
            message = f"cannot unpack {describe_type(value)}"
            raise E.TypeMismatch(self.location(target), what=message)
        if len(value) != len(target.elts):
            message = f"cannot unpack {len(value)} values into {len(target.elts)} names"
            raise E.TypeMismatch(self.location(target), what=message)
        for part, x in zip(target.elts, value, strict=True):
            self.assign(part, x)

    def _AugAssign(self, node: ast.AugAssign) -> None:
        op = BINARY[type(node.op)]
        if isinstance(node.target, ast.Name):
            name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
            before = self.expr(name)
            value = self.expr(node.value)
            self.mark(node)
            if isinstance(before, Value) and isinstance(before.type, BufType):
                with self.written((name, before), (node.value, value)):
                    self.builder.inplace(op, before, value)
            elif isinstance(before, Columns) and not isinstance(before.type, ArrayType):
                self.update_tile(op, before, value)
            elif isinstance(before, (Value, Columns)) and isinstance(before.type, ArrayType):
                raise E.TypeMismatch(self.location(node), what="an array cannot be assigned as a whole")
            else:
                with self.written((name, before), (node.value, value)):
                    result = self.binary(op, before, value, node)
                self.bind(node.target.id, result)
            return
        target = self.assign_target(node.target)
        value = self.expr(node.value)
        self.mark(node)
        with self.written((node.target, target.element()), (node.value, value)):
            target.update(op, value)

    def assign_target(self, node: ast.expr) -> AssignTarget:
        """The target of an assignment, which can be read and assigned; its subscripts are evaluated once."""
        if isinstance(node, ast.Name):
            return NameTarget(self, node)
        if isinstance(node, ast.Subscript):
            return ItemTarget(self, node)
        if isinstance(node, ast.Attribute):
            return self.assign_target(node.value).field(node)
        return AssignTarget(self, node)


class AssignTarget:
    """The target of an assignment. This base class is an expression that cannot be assigned as a whole; the memory of
    its value may still be written."""

    def __init__(self, tracer: Statements, node: ast.expr) -> None:
        self.tracer = tracer
        self.node = node

    def element(self) -> Any:
        """The type of the target's value that operators convert literals to."""
        return None

    def get(self) -> Any:
        """The current value of the target."""
        return self.tracer.expr(self.node)

    def set(self, value: Any) -> None:
        """Assign a value to the target."""
        raise TypeRule(f"'{ast.unparse(self.node)}' is not a valid assignment target")

    def update(self, op: str, value: Any) -> None:
        """Combine a value with the current value of the target."""
        self.set(self.tracer.binary(op, self.get(), value, self.node))

    def accumulate(self, op: str, change: Callable[[Value], Any]) -> bool:
        """Combine some components of the target with values atomically, if possible. Returns whether it was possible.
        `change` inserts the values into a neutral value."""
        return False

    def field(self, node: ast.Attribute) -> AssignTarget:
        """The target of an attribute of this target's value."""
        return AttributeTarget(self.tracer, node, self)


class NameTarget(AssignTarget):
    """A name as the target of an assignment."""

    def set(self, value: Any) -> None:
        """Bind the name to a value."""
        assert isinstance(self.node, ast.Name)
        name = self.node.id
        if name not in self.tracer.frame.names:
            raise E.UnsupportedPython(
                self.tracer.location(self.node), what=f"assigning to the outer name '{name}'"
            )
        check_changed(self.tracer.frame.thread_arrays.get(name), name)
        self.tracer.bind(name, value)


class ItemTarget(AssignTarget):
    """owner[index]. Vectors and matrices are values: the owner gets a new one."""

    def __init__(self, tracer: Statements, node: ast.Subscript) -> None:
        super().__init__(tracer, node)
        self.owner_target = tracer.assign_target(node.value)
        self.owner = self.owner_target.get()
        self.index = tracer.index(node.slice, self.owner)

    def field(self, node: ast.Attribute) -> AssignTarget:
        """A field of a struct in an array or tile: the element of the array or tile of that field."""
        if not isinstance(self.owner, Columns):
            return super().field(node)
        target = copy(self)
        target.node, target.owner = node, self.owner.field(node.attr)
        return target

    def element(self) -> Any:
        t = self.owner.type if isinstance(self.owner, Value) else None
        return getattr(t, "dtype", None)

    def _build(self, build: Any) -> Any:
        return self.tracer.with_constants(build, self.index)

    def _is_value(self) -> bool:
        return isinstance(self.owner, Value) and isinstance(self.owner.type, (VecType, MatType))

    def get(self) -> Any:
        """The element, view or entry at the index."""
        if isinstance(self.owner, Columns):
            return self.tracer.by_index(self.owner, self.index)
        if isinstance(self.owner, tuple):
            return self.tracer.item(self.owner, self.index, self.node)
        return self._build(lambda i: self.tracer.builder.subscript(self.owner, i))

    def set(self, value: Any) -> None:
        """Write a value at the index."""
        if isinstance(self.owner, Columns):
            self.tracer.set_by_index(self.owner, self.index, value)
            return
        self._require_memory()
        value = self.tracer.typed(value)
        build = self._build(lambda i: self.tracer.builder.assign_subscript(self.owner, i, value))
        if self._is_value():
            self.owner_target.set(build)

    def update(self, op: str, value: Any) -> None:
        """Combine a value with the element at the index; additions are atomic."""
        if isinstance(self.owner, Columns):
            self.tracer.update_by_index(op, self.owner, self.index, value)
            return
        self._require_memory()
        value = self.tracer.typed(value)
        change = self.tracer.builder.assign_subscript
        if self._is_value() and self.owner_target.accumulate(
            op, lambda neutral: self._build(lambda i: change(neutral, i, value))
        ):
            return
        build = self._build(lambda i: self.tracer.builder.update_subscript(op, self.owner, i, value))
        if self._is_value():
            self.owner_target.set(build)

    def accumulate(self, op: str, change: Callable[[Value], Any]) -> bool:
        """Combine the element of an array or tile with a value whose other components are neutral, if `op` is atomic by
        component."""
        t = self.owner.type if isinstance(self.owner, Value) else None
        if not isinstance(t, (ArrayType, BufType)) or len(self.index) != rank_of(self.owner):
            return False
        if any(isinstance(i, slice) or self.tracer.builder.is_tile(i) for i in self.index):
            return False
        if not is_atomic(op, t.dtype):
            return False
        self.update(op, change(self.tracer.builder.const(neutral(op, t.dtype), t.dtype)))
        return True

    def _require_memory(self) -> None:
        if isinstance(self.owner, tuple):
            raise TypeRule("tuples cannot be changed")
        if isinstance(self.owner, Value) and isinstance(self.owner.type, TileType):
            raise TypeRule("this tile has no name", "bind the tile to a name before changing it")


class AttributeTarget(AssignTarget):
    """owner.x of a vector or struct."""

    def __init__(self, tracer: Statements, node: ast.Attribute, owner: AssignTarget) -> None:
        super().__init__(tracer, node)
        self.owner_target = owner
        self.owner = owner.get()
        self.attribute = node.attr

    def get(self) -> Any:
        """The component or field that the attribute names."""
        if isinstance(self.owner, StructValue):
            return self.owner.field(self.attribute)
        if not isinstance(self.owner, Value):
            return self.tracer.expr(self.node)
        return self.tracer.builder.attribute(self.owner, self.attribute)

    def set(self, value: Any) -> None:
        """Write the component or field that the attribute names."""
        if isinstance(self.owner, StructValue):
            self.owner_target.set(self.tracer.with_field(self.owner, self.attribute, value))
            return
        builder = self.tracer.builder
        self.owner_target.set(builder.assign_attribute(self.owner, self.attribute, self.tracer.typed(value)))

    def update(self, op: str, value: Any) -> None:
        """Combine a value with the object of the attribute in place; in arrays and tiles additions are atomic."""
        if isinstance(self.owner, StructValue):
            super().update(op, value)
            return
        change, typed = self.tracer.builder.assign_attribute, self.tracer.typed(value)
        if not self.owner_target.accumulate(op, lambda neutral: change(neutral, self.attribute, typed)):
            super().update(op, value)
