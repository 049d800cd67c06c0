"""Tracing of blocks and `if` statements, and of code that only runs if no path has left the loop or the function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tegula.errors import CompileError
from tegula.ir import Region, Value
from tegula.lang.joins import Joins
from tegula.lang.state import FLAGS, RETURN, PartlyBound, Path, Reported
from tegula.types import bool_


class Branches(Joins):
    """The part of the tracer that builds `if` statements and conditional expressions."""

    def statement(self, node: ast.stmt) -> None:
        """Trace a statement."""
        raise NotImplementedError

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Trace statements until all paths have left the loop or function; if only some paths have left, guard the
        remaining statements."""
        for k, statement in enumerate(statements):
            left = self.has_left()
            if left is True:
                return
            if left is not False:
                self.guard(left, lambda k=k: self.block(statements[k:]), statements[-1])
                return
            if isinstance(statement, ast.If) and not self.after_roles:
                if self.trace_if(statement, statements[k + 1 :]):
                    return
            else:
                self.statement(statement)

    def has_left(self, flags: Sequence[str] = FLAGS) -> Any:
        """Whether this path has left the loop body or the function: a bool, or a Value if it depends on run-time
        conditions."""
        combined: Any = False
        for name in flags:
            flag = self.frame.names.get(name, False)
            if flag is True:
                return True
            if flag is not False:
                combined = flag if combined is False else self.builder.binary("or", combined, flag)
        return combined

    def after_return(self) -> dict[str, Any]:
        """The attributes of a branch or loop that threads skip if they have returned from the kernel."""
        if self.frame.is_kernel and self.frame.return_at is not None:
            return {"after_return": self.frame.return_at}
        return {}

    def guard(self, left: Value, rest: Callable[[], None], last: ast.AST) -> None:
        """Run `rest` only where the path has not left."""
        names = self.frame.names
        attrs: dict[str, Any] = {"leaves": True}
        attrs |= self.after_return() if names.get(RETURN, False) is not False else {}
        condition = self.builder.logical_not(left)
        bindings = {name: x.binding if isinstance(x, PartlyBound) else x for name, x in names.items()}
        bindings.update({name: False for name in FLAGS if name in names})
        first = self.path(bindings, rest)
        set_flags = [name for name in FLAGS if names.get(name, False) is not False]
        skipped = dict(names)
        for name in set_flags:
            if first.names[name] is False:  # `rest` does not set the flag
                first.names[name] = names[name]
            elif len(set_flags) == 1:  # no other flag guards the rest
                skipped[name] = True
        leaves_loop = set_flags != [RETURN]
        second = Path(Region(), skipped, "loop" if leaves_loop else "return")
        self.branch(condition, (first, second), lambda name: self.frame.flow.live_after(name, last), attrs)

    def path(self, names: dict[str, Any], trace: Callable[[], None]) -> Path:
        """Trace into a new region with its own copy of the names."""
        before = self.frame.names
        region = Region()
        self.frame.names = dict(names)
        try:
            with self.within(region):
                trace()
            return Path(region, self.frame.names)
        finally:
            self.frame.names = before

    def test(self, node: ast.expr) -> Any:
        """The traced condition; a placeholder for a condition with an error, so that errors in the guarded code are
        reported too."""
        try:
            return self.condition(node)
        except CompileError as error:
            self.record(error)
        except Reported:
            pass
        return self.builder.const(False, bool_)

    @property
    def after_roles(self) -> bool:
        """Whether the next statement follows the roles of a kernel."""
        raise NotImplementedError

    def trace_if(self, node: ast.If, rest: Sequence[ast.stmt]) -> bool:
        """Trace an `if` statement. Returns True if one side always leaves, so that the rest of the block was traced
        into the other side."""
        condition = self.test(node.test)
        if isinstance(condition, bool):
            self.block(node.body if condition else node.orelse)
            return False
        names = self.frame.names
        first = self.path(names, lambda: self.block(node.body))
        merges_rest = bool(first.exit)
        second_body = [*node.orelse, *rest] if merges_rest else node.orelse
        second = self.path(names, lambda: self.block(second_body))
        if second.exit and not merges_rest:
            merges_rest = True
            self.extend(first, rest)
        returned = merges_rest and any(p.names.get(RETURN, False) is not False for p in (first, second))
        last = rest[-1] if merges_rest and rest else node
        self.mark(node.test)
        self.branch(
            condition,
            (first, second),
            lambda name: self.frame.flow.live_after(name, last),
            {"leaves": True} | (self.after_return() if returned and rest else {}) if merges_rest else None,
        )
        return merges_rest

    def extend(self, path: Path, rest: Sequence[ast.stmt]) -> None:
        """Trace more statements at the end of a path."""
        before, self.frame.names = self.frame.names, path.names
        try:
            with self.within(path.region):
                self.block(rest)
            path.names = self.frame.names
        finally:
            self.frame.names = before
