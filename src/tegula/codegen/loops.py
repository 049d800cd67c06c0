"""Loop-carried values in registers."""

from __future__ import annotations

from tegula.codegen.scalar import ACCESS_COMPONENTS, Components, packed
from tegula.codegen.state import State
from tegula.codegen.text import Code, register_type, scalar_type, vector_of
from tegula.ir import Value
from tegula.ops.base import element
from tegula.types import DType, VecType, components, scalar_of


def vector_register(s: State, value: Value) -> str:
    """The LLVM type of the vector register that a value fills; "" for other values."""
    t = value.type
    if not s.code.packs or not isinstance(t, VecType) or components(t) not in ACCESS_COMPONENTS:
        return ""
    scalar = scalar_of(t)
    if scalar.is_bool or s.width_of(value) != 1:
        return ""
    return f"<{components(t)} x {scalar_type(scalar)}>"


def joined_registers(
    s: State, results: list[Value], yielded: list[list[Components]], ends: list[str]
) -> dict[Value, Components]:
    """The components of the results of a branch, joined from the values at the ends of both sides' blocks. Phis precede
    all other instructions of a block, also the extraction of components from vector registers."""
    code = s.code
    joined_values: dict[Value, Components] = {}
    vectors: dict[Value, str] = {}
    for r, a, b in zip(results, *yielded, strict=True):
        vector_type, scalar = vector_register(s, r), scalar_of(element(r.type))
        sides = [_packed_vector(code, parts, scalar) for parts in (a, b)] if vector_type else []
        if vector_type and all(sides):
            vectors[r] = code.phi(vector_type, *zip(sides, ends, strict=True))
        else:
            t = register_type(scalar, s.width_of(r))
            joined_values[r] = tuple(
                code.phi(t, *zip(pair, ends, strict=True)) for pair in zip(a, b, strict=True)
            )
    for r, vector in vectors.items():
        t = element(r.type)
        joined_values[r] = code.unpacked(scalar_type(scalar_of(t)), components(t), vector)
    return joined_values


def _packed_vector(code: Code, parts: Components, dtype: DType) -> str:
    """The vector register or vector constant with these components; "" for components in separate registers."""
    if parts not in code.packed and (len(set(parts)) > 1 or parts[0].startswith("%")):
        return ""
    return packed(code, parts, dtype, len(parts))


class CarriedRegisters:
    """The values that a loop carries in registers, one phi for each component. `arguments`: the block arguments of each
    of the loop's regions."""

    def __init__(
        self, s: State, initial: list[Value], arguments: list[list[Value]], results: list[Value]
    ) -> None:
        self.s, self.arguments, self.results = s, arguments, results
        self.initial = [s.spread(v, s.width_of(r)) for v, r in zip(initial, results, strict=True)]
        self.types = [vector_register(s, r) for r in results]
        self.packed = [self._packed(r, parts) for r, parts in zip(results, self.initial, strict=True)]
        self.registers: list[Components] = []
        self.next: list[Components] = []
        self.next_vectors: list[str] = []

    def _packed(self, result: Value, parts: Components) -> str:
        """The vector register with the components of a value that fills it; "" for other values."""
        if not vector_register(self.s, result):
            return ""
        return packed(self.s.code, parts, scalar_of(element(result.type)), len(parts))

    def open(self) -> None:
        """Name the carried values in the loop header."""
        code = self.s.code
        self.registers = [tuple(code.fresh("k") for _ in parts) for parts in self.initial]
        for names, t in zip(self.registers, self.types, strict=True):
            if t:
                code.join(names, code.fresh("v"))
        for group in self.arguments:
            self.s.scalars.update(zip(group, self.registers, strict=True))

    def close(self, yielded: list[Value], active: str = "") -> None:
        """Set the values of the next iteration. `active`: the mask of the lanes that ran the current iteration; other
        lanes keep their values."""
        s = self.s
        vectors = [s.spread(v, s.width_of(r)) for v, r in zip(yielded, self.results, strict=True)]
        self.next = (
            [
                self._select_active(r, active, *pair)
                for r, *pair in zip(self.results, vectors, self.registers, strict=True)
            ]
            if active
            else vectors
        )
        self.next_vectors = [s.code.packed.get(parts, "") for parts in self.next]

    def _select_active(
        self, result: Value, active: str, computed: Components, carried: Components
    ) -> Components:
        t = register_type(scalar_of(element(result.type)), self.s.width)
        flag = vector_of("i1", self.s.width)
        return tuple(
            self.s.code.emit(f"select {flag} {active}, {t} {a}, {t} {b}")
            for a, b in zip(computed, carried, strict=True)
        )

    def phis(self, preheader: str, latch: str) -> list[str]:
        """The phi instructions of the carried values in the loop header. A value that iterations compute in a vector
        register stays in a vector register, and its components are extracted from the phi."""
        phis: list[str] = []
        extracts: list[str] = []
        for k, (r, names) in enumerate(zip(self.results, self.registers, strict=True)):
            t, vector_type = register_type(scalar_of(element(r.type)), self.s.width_of(r)), self.types[k]
            if vector_type and self.next_vectors[k]:
                vector = self.s.code.packed[names]
                phis.append(
                    f"  {vector} = phi {vector_type} [ {self.packed[k]}, %{preheader} ], "
                    f"[ {self.next_vectors[k]}, %{latch} ]"
                )
                extracts += [
                    f"  {name} = extractelement {vector_type} {vector}, i32 {i}"
                    for i, name in enumerate(names)
                ]
                continue
            for name, a, b in zip(names, self.initial[k], self.next[k], strict=True):
                phis.append(f"  {name} = phi {t} [ {a}, %{preheader} ], [ {b}, %{latch} ]")
            if vector_type:
                extracts += self._insert_lines(vector_type, t, names)
        return [*phis, *extracts]

    def _insert_lines(self, vector_type: str, t: str, names: Components) -> list[str]:
        """The instructions that build a vector register from its components."""
        value = "poison"
        lines: list[str] = []
        for i, name in enumerate(names):
            target = self.s.code.fresh("v") if i < len(names) - 1 else self.s.code.packed[names]
            lines.append(f"  {target} = insertelement {vector_type} {value}, {t} {name}, i32 {i}")
            value = target
        return lines

    def finish(self) -> None:
        """Bind the results to the values of the loop header at the exit."""
        self.s.scalars.update(zip(self.results, self.registers, strict=True))
