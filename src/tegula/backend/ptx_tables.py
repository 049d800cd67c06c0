"""Tables of constants that LLVM only declares, because reading and printing their values takes as long as the code of a
short kernel. In LLVM's text a comment after the declaration has the values, as words of 8 bytes."""

from __future__ import annotations

import re

_TABLE = re.compile(r"^@(\w+) = external [^;\n]*; (.*)$", re.M)
_DECLARATION = re.compile(r"^\.extern (\.(?:global|const) \.align \d+) \.b8 (\w+)\[\d+\];$", re.M)


def define_tables(ptx: str, ir_text: str) -> str:
    """PTX with definitions in place of the declarations of the tables in LLVM's text that the PTX reads."""
    words_of = dict(_TABLE.findall(ir_text[: ir_text.find("\ndefine ")]))

    def defined(declaration: re.Match[str]) -> str:
        start, name = declaration.groups()
        words = words_of[name]
        return f"{start} .b64 {name}[{words.count(',') + 1}] = {{{words}}};"

    return _DECLARATION.sub(defined, ptx) if words_of else ptx
