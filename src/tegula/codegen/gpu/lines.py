"""The Python line of each instruction, as LLVM debug metadata that becomes PTX's line directives."""

from __future__ import annotations

import os

from tegula.source import UNKNOWN, Location

FIRST = 1 << 20
"""The first number of debug metadata; lower numbers are left to loop metadata."""


class LineTable:
    """Debug metadata of source locations, each defined once. `kernel`: the location of the kernel's definition."""

    def __init__(self, name: str, kernel: Location) -> None:
        self.nodes: dict[str, int] = {}
        file = self._file(kernel.file)
        unit = (
            f'distinct !DICompileUnit(language: DW_LANG_C, file: !{file}, producer: "tegula", isOptimized: true, '
            "runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )
        self.unit = self._node(unit)
        self.type = self._node(f"!DISubroutineType(types: !{self._node('!{null}')})")
        self.function = self._function(name, file, kernel.line)

    def mark(self, loc: Location) -> str:
        """The suffix that attaches a location to an instruction, with the call sites through which it was inlined."""
        return f", !dbg !{self._debug_location(loc)}"

    def metadata(self) -> str:
        """The text of all definitions, with the module flags that make LLVM read them."""
        version = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        lines = [f"!{number} = {text}" for text, number in self.nodes.items()]
        lines += [f"!llvm.dbg.cu = !{{!{self.unit}}}", f"!llvm.module.flags = !{{!{version}}}"]
        return "\n".join(lines) + "\n"

    def _debug_location(self, loc: Location) -> int:
        if loc.caller is None:
            location = loc if loc != UNKNOWN else Location("", 0)
            return self._location(location, self.function, "")
        scope = self._function(loc.function or "<lambda>", self._file(loc.file), 0)
        return self._location(loc, scope, f", inlinedAt: !{self._debug_location(loc.caller)}")

    def _location(self, loc: Location, scope: int, inlined: str) -> int:
        column = loc.column + 1 if loc.line else 0
        return self._node(f"!DILocation(line: {loc.line}, column: {column}, scope: !{scope}{inlined})")

    def _function(self, name: str, file: int, line: int) -> int:
        text = (
            f"distinct !DISubprogram(name: {_quoted(name)}, scope: !{file}, file: !{file}, line: {line}, "
            f"type: !{self.type}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{self.unit})"
        )
        return self._node(text)

    def _file(self, path: str) -> int:
        folder, name = os.path.split(os.path.abspath(path) if os.path.exists(path) else path)
        return self._node(f"!DIFile(filename: {_quoted(name)}, directory: {_quoted(folder)})")

    def _node(self, text: str) -> int:
        return self.nodes.setdefault(text, FIRST + len(self.nodes))


def _quoted(text: str) -> str:
    encoded = text.encode()
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in encoded) + '"'
