"""Tracing of `if tg.elect():`, the code of one elected thread of a role: barriers, asynchronous copies, and loops
around these."""

from __future__ import annotations

import ast

from tegula import errors as E
from tegula.ir import Op
from tegula.lang.capture import Builtin
from tegula.lang.flow import targets
from tegula.lang.loops import Loops
from tegula.lang.state import FLAGS, MARKS, UNBOUND, Reported
from tegula.ops.control import For, If, While, Yield
from tegula.ops.schedule import ELECTABLE

ELECT = Builtin("elect")
CONTROL = (If, For, While, Yield)


class ElectedTracer(Loops):
    """Traces the branch in place, without an `if` op; its ops are marked as run by one thread."""

    def trace_if(self, node: ast.If, rest: list[ast.stmt]) -> bool:
        if not self._is_elect_call(node.test):
            return super().trace_if(node, rest)
        try:
            self._trace_elected(node)
        except E.CompileError as error:
            self.record(error)
        return False

    def _is_elect_call(self, test: ast.expr) -> bool:
        """Whether a condition is a call of tg.elect."""
        if not (isinstance(test, ast.Call) and isinstance(test.func, ast.Name | ast.Attribute)):
            return False
        try:
            return self.expr(test.func) == ELECT
        except (E.CompileError, Reported):
            return False

    def _trace_elected(self, node: ast.If) -> None:
        assert isinstance(node.test, ast.Call)
        if node.test.args or node.test.keywords:
            raise E.WrongArguments(self.location(node.test), what="elect takes no arguments")
        if node.orelse:
            raise E.ElectedBody(self.location(node.orelse[0]), what="an 'else' of 'if tg.elect():'")
        for name, target, _ in targets(node.body):
            if not isinstance(self.frame.names.get(name, UNBOUND), MARKS):
                message = f"'{name}' is bound before 'if tg.elect():' and changed inside it"
                raise E.ElectedBody(
                    self.location(target), what=message, help=f"bind '{name}' inside the branch"
                )
        outer, before = self.builder.region, self.builder.elected
        self.builder.elected = True
        try:
            path = self.path(self.frame.names, lambda: self.block(node.body))
        finally:
            self.builder.elected = before
        if any(path.names.get(flag, False) is not False for flag in FLAGS):
            raise E.ElectedBody(
                self.location(node), what="a jump out of a loop or the role around 'if tg.elect():'"
            )
        for op in path.region.walk():
            self._check_elected(op)
        for op in path.region.ops:
            outer.append(op)

    def _check_elected(self, op: Op) -> None:
        assert isinstance(op, Op)
        if isinstance(op, (*CONTROL, *ELECTABLE)):
            return
        if op.COOPERATIVE or any(e.kind != "read" for e in op.effects()):
            raise E.ElectedBody(op.loc, what=f"{op.loc.subject or op.NAME} is in 'if tg.elect():'")
