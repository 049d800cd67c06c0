"""Address arithmetic of GPU code, whose loads and stores add a constant to an address."""

from __future__ import annotations

from tegula.codegen.memory import MemoryEmitter
from tegula.codegen.text import Code


class GpuMemory(MemoryEmitter):
    """Address arithmetic that keeps the constants of sums separate, so that elements at constant distances share one
    computed address. LLVM cannot separate the constant of a sum that it has replaced by a bitwise or."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self._sums: dict[str, tuple[str, int]] = {}

    def add(self, a: str, b: str) -> str:
        """The sum of two integers of 64 bits, as the sum of a register and a constant if a term has a constant."""
        (x, first_constant), (y, second_constant) = self.separated_constant(a), self.separated_constant(b)
        variable, constant = super().add(x, y), first_constant + second_constant
        if not constant or variable == "0":
            return variable if not constant else str(constant)
        name = self.code.emit(f"add i64 {variable}, {constant}")
        self._sums[name] = variable, constant
        return name

    def separated_constant(self, index: str) -> tuple[str, int]:
        """An index as the sum of a register (or "0") and a constant."""
        if index.startswith("%"):
            return self._sums.get(index, (index, 0))
        return "0", int(index)
