"""Loop-carried values in registers."""

from __future__ import annotations

from tegula.codegen.scalar import Components
from tegula.codegen.state import State
from tegula.codegen.text import register_type, vector_of
from tegula.ir import Value
from tegula.types import scalar_of


class CarriedRegisters:
    """The values that a loop carries in registers, one phi for each component. `arguments`: the block arguments of each
    of the loop's regions."""

    def __init__(
        self, s: State, initial: list[Value], arguments: list[list[Value]], results: list[Value]
    ) -> None:
        self.s, self.arguments, self.results = s, arguments, results
        self.initial = [s.spread(v, s.width_of(r)) for v, r in zip(initial, results, strict=True)]
        self.registers: list[Components] = []
        self.next: list[Components] = []

    def open(self) -> None:
        """Name the carried values in the loop header."""
        self.registers = [tuple(self.s.code.fresh("k") for _ in parts) for parts in self.initial]
        for group in self.arguments:
            self.s.scalars.update(zip(group, self.registers, strict=True))

    def close(self, yielded: list[Value], active: str = "") -> None:
        """Set the values of the next iteration. `active`: the lanes that ran the current iteration; other lanes keep
        their values."""
        s = self.s
        made = [s.spread(v, s.width_of(r)) for v, r in zip(yielded, self.results, strict=True)]
        self.next = (
            [
                self._kept(r, active, *pair)
                for r, *pair in zip(self.results, made, self.registers, strict=True)
            ]
            if active
            else made
        )

    def _kept(self, result: Value, active: str, made: Components, before: Components) -> Components:
        t = register_type(scalar_of(result.type), self.s.width)  # type: ignore[arg-type]
        flag = vector_of("i1", self.s.width)
        return tuple(
            self.s.code.emit(f"select {flag} {active}, {t} {a}, {t} {b}")
            for a, b in zip(made, before, strict=True)
        )

    def phis(self, before: str, last: str) -> list[str]:
        """The phi instructions of the carried scalars in the loop header."""
        out: list[str] = []
        for r, names, first, following in zip(
            self.results, self.registers, self.initial, self.next, strict=True
        ):
            t = register_type(scalar_of(r.type), self.s.width_of(r))  # type: ignore[arg-type]
            for name, a, b in zip(names, first, following, strict=True):
                out.append(f"  {name} = phi {t} [ {a}, %{before} ], [ {b}, %{last} ]")
        return out

    def finish(self) -> None:
        """Bind the results to the values of the loop header at the exit."""
        self.s.scalars.update(zip(self.results, self.registers, strict=True))
