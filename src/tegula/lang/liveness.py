"""Liveness analysis of names: a name is live after a statement if it may be read before it is rebound."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from tegula.dataclass import dataclass
from tegula.lang.nodes import walk

Names = frozenset[str]
NO_NAMES: Names = frozenset()


@dataclass(slots=True)
class _Loop:
    """The names that are live at the targets of `break` and of `continue`."""

    live_after_break: Names
    live_at_repeat: Names


class Liveness:
    """The live names of the statements of one function; names that nested functions read are not tracked.

    `after`: the names that are live after a statement, or after a path that has left the loop's body by `break` or
    `continue`, because the tracer joins such paths at the end of the body."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.after: dict[ast.AST, Names] = {}
        self._known: dict[ast.AST, Names] = {}
        self._block(body, NO_NAMES, None)

    def _block(self, statements: Sequence[ast.stmt], out: Names, loop: _Loop | None) -> Names:
        """The names that are live before the statements, given those that are live after them."""
        for statement in reversed(statements):
            self.after[statement] = out if loop is None else out | loop.live_after_break | loop.live_at_repeat
            out = self._before(statement, out, loop)
        return out

    def _before(self, node: ast.stmt, out: Names, loop: _Loop | None) -> Names:
        match node:
            case ast.Assign():
                return (out - _bound(node.targets)) | self._read(node)
            case ast.AnnAssign(value=ast.expr()):
                return (out - _bound([node.target])) | self._read(node)
            case ast.AugAssign(target=ast.Name(id=name)):
                return out | self._read(node) | {name}
            case ast.If():
                return (
                    self._read(node.test)
                    | self._block(node.body, out, loop)
                    | self._block(node.orelse, out, loop)
                )
            case ast.For():
                after_loop = self._block(node.orelse, out, loop)
                head = self._loop(node.body, out, after_loop | self._read(node.target), _bound([node.target]))
                return self._read(node.iter) | head
            case ast.While():
                return self._loop(
                    node.body, out, self._block(node.orelse, out, loop) | self._read(node.test), NO_NAMES
                )
            case ast.With():
                return (
                    out | self._block(node.body, out, loop) | frozenset().union(*map(self._read, node.items))
                )
            case ast.Break() | ast.Continue() if loop is not None:
                return loop.live_after_break if isinstance(node, ast.Break) else loop.live_at_repeat
            case ast.Return():
                return self._read(node)
            case _:
                return out | self._read(node)

    def _read(self, node: ast.AST) -> Names:
        """The names that are read anywhere in a node; the bodies of loops are analysed several times."""
        if node not in self._known:
            names = (n for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
            self._known[node] = frozenset(n.id for n in names)
        return self._known[node]

    def _loop(self, body: Sequence[ast.stmt], after_break: Names, head: Names, target: Names) -> Names:
        """The live names at a loop header; `head`: the names that are read in the header or later. Two passes reach the
        fixpoint: the second adds the names that the first found live at the start of the body."""
        for _ in range(2):
            head |= self._block(body, head, _Loop(after_break, head)) - target
        return head


def _bound(targets: Iterable[ast.expr]) -> Names:
    """The names that an assignment certainly rebinds."""
    out: Names = NO_NAMES
    for target in targets:
        if isinstance(target, ast.Name):
            out |= {target.id}
        elif isinstance(target, (ast.Tuple, ast.List)):
            out |= _bound(target.elts)
    return out
