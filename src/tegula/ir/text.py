"""The text form of the IR: a printer and a parser that are each other's inverse.

One op a line, `%3.name: type = op %1, %2 [attribute = value]`, with regions in braces below it. Values are numbered in
program order and attributes are sorted, so that equal kernels have equal text. Text after `//` in a line is a comment.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NoReturn

from tegula.dataclass import field_names
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir.kernel import AccessClass, Kernel, LaunchClass
from tegula.ir.values import REGISTRY, Op, Region, Value
from tegula.source import UNKNOWN, Location
from tegula.types import (
    DTYPES,
    ArrayType,
    BufType,
    DType,
    ElementType,
    MatType,
    MbarrierType,
    NamedBarrierType,
    PipeType,
    StackType,
    TileType,
    Type,
    VecType,
    quaternion,
    transformation,
)

with deferred_imports():
    from hashlib import sha256

INDENT = "  "
MAX_REPEATED = 64
"""The maximum length of tuples whose text is made for each op with the tuple."""
_NAN = struct.pack(">d", math.nan)
_NUMBERS = frozenset({int, float})
_TYPES = (
    *(DType, VecType, MatType, TileType, BufType, ArrayType),
    *(StackType, PipeType, MbarrierType, NamedBarrierType),
)


# Printing ---------------------------------------------------------------------------------------------------


def print_kernel(
    kernel: Kernel,
    locations: bool = False,
    remarks: Mapping[Value, str] | None = None,
    has_digests: bool = False,
) -> str:
    """The kernel's text. Without `locations`, source locations are left out (in attributes too), so that the text does
    not change when a file is edited elsewhere. `remarks`: comments on values, which follow the kernel; `has_digests`:
    whether long tables of floats are replaced by digests, in a text for comparisons. InternalError for an attribute
    that has no text form."""
    printer = _Printer(locations, has_digests)
    printer.kernel(kernel)
    printer.lines += [f"// {n}: {remarks[v]}" for v, n in printer.numbers.items() if remarks and v in remarks]
    return "\n".join(printer.lines) + "\n"


def print_op(op: Op) -> str:
    """The text of one op and its regions; values from outside are numbered in the order in which they appear."""
    printer = _Printer(locations=False)
    inside = {v for nested in op.walk() for v in nested.results}
    inside |= {a for nested in op.walk() for region in nested.regions for a in region.args}
    for nested in op.walk():
        for operand in nested.operands:
            if operand not in inside and operand not in printer.numbers:
                printer.define(operand)
    printer.op(op, "")
    return "\n".join(printer.lines)


class _Printer:
    def __init__(self, locations: bool, has_digests: bool = False) -> None:
        self.locations, self.has_digests = locations, has_digests
        self.long_tuples: dict[int, str] = {}
        self.lines: list[str] = []
        self.numbers: dict[Value, str] = {}
        self.types: dict[Type, str] = {}

    def kernel(self, kernel: Kernel) -> None:
        self.lines.append(f"kernel {json.dumps(kernel.name)}{self.location_reference(kernel.loc)} {{")
        self.lines.append(f"{INDENT}launch {self.attributes(_record(kernel.launch))}")
        if kernel.schedule:
            self.lines.append(f"{INDENT}schedule {self.attributes(kernel.schedule)}")
        for name, value, access in zip(kernel.param_names, kernel.params, kernel.access, strict=True):
            known = f" {self.attributes(_record(access))}" if access is not None else ""
            self.lines.append(f"{INDENT}param {json.dumps(name)} {self.define(value)}{known}")
        for op in kernel.body.ops:
            self.op(op, INDENT)
        self.lines.append("}")

    def define(self, value: Value) -> str:
        number = self.numbers[value] = f"%{len(self.numbers)}"
        type_text = self.types.get(value.type)
        if type_text is None:
            type_text = self.types[value.type] = value.type.notation
        name = value.name
        if not name:
            return f"{number}: {type_text}"
        return f"{number}.{name if name.isidentifier() and name.isascii() else json.dumps(name)}: {type_text}"

    def op(self, op: Op, indent: str) -> None:
        # Operands first: a loop's results must not be numbered where a broken loop uses them as operands.
        operands = ", ".join([self.numbers.get(v, "%undefined") for v in op.operands])
        text = f"{op.NAME} {operands}" if operands else op.NAME
        if op.results:
            text = f"{', '.join([self.define(v) for v in op.results])} = {text}"
        if op.attrs:
            text = f"{text} {self.attributes(op.attrs)}"
        if self.locations:
            text += self.location_reference(op.loc)
        self.lines.append(indent + text)
        for region in op.regions:
            self.region(region, indent)

    def region(self, region: Region, indent: str) -> None:
        arguments = f" ({', '.join([self.define(v) for v in region.args])})" if region.args else ""
        self.lines[-1] += f"{arguments} {{"
        inner = indent + INDENT
        for op in region.ops:
            self.op(op, inner)
        self.lines.append(f"{indent}}}")

    def attributes(self, attrs: Mapping[str, Any]) -> str:
        return f"[{', '.join([f'{k} = {self.attribute(attrs[k])}' for k in sorted(attrs)])}]"

    def attribute(self, value: Any) -> str:
        kind = type(value)
        if kind is str:
            return json.dumps(value)
        if kind is bool or value is None:
            return str(value).lower()
        if kind is int:
            return repr(value)
        if kind is float:
            return _float(value)
        if kind is tuple and len(value) > MAX_REPEATED:
            # The ops of a kernel share the objects of its tables.
            if id(value) not in self.long_tuples:
                self.long_tuples[id(value)] = self.long_tuple(value)
            return self.long_tuples[id(value)]
        if kind is tuple:
            return self.tuple(value)
        if kind in _TYPES:
            return value.notation
        if kind is Location:
            return self.location(value)
        raise InternalError(f"an attribute of type {kind.__name__} has no text form: {value!r}")

    def long_tuple(self, value: tuple[Any, ...]) -> str:
        if self.has_digests and set(map(type, value)) == {float}:
            digest = sha256(struct.pack(f"<{len(value)}d", *value)).hexdigest()
            return f"{len(value)} floats {digest}"
        return self.tuple(value)

    def tuple(self, value: tuple[Any, ...]) -> str:
        text = repr(value) if _NUMBERS.issuperset(map(type, value)) else "nan"
        if "nan" not in text:  # Python's text of plain numbers is the same
            return text
        inner = ", ".join([self.attribute(v) for v in value])
        return f"({inner},)" if len(value) == 1 else f"({inner})"

    def location_reference(self, loc: Location) -> str:
        return f" at {self.location(loc)}" if self.locations and loc != UNKNOWN else ""

    def location(self, loc: Location) -> str:
        if not self.locations:
            return "loc()"
        caller = f", {self.location(loc.caller)}" if loc.caller is not None else ""
        file, function = json.dumps(loc.file), json.dumps(loc.function)
        return f"loc({file}, {loc.line}, {loc.column}, {loc.end_column}, {function}{caller})"


OPTIONAL: dict[str, Any] = {"long": (), "columns": False, "on_gpu": None, "scale": ()}
"""The attributes of launches and accesses that are left out if they have these values."""


def _record(record: LaunchClass | AccessClass) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in field_names(record)}
    return {name: value for name, value in fields.items() if name not in OPTIONAL or value != OPTIONAL[name]}


def _float(value: float) -> str:
    if math.isnan(value):
        bits = struct.pack(">d", value)
        return "nan" if bits == _NAN else f"nan_{bits.hex()}"
    return repr(value)


# Parsing ----------------------------------------------------------------------------------------------------

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TOKENS = (
    r"(?:\s|//[^\n]*)+",
    rf"%(?:undefined|\d+)(?:\.(?:[A-Za-z_]\w*|{_QUOTED}))?",
    _QUOTED,
    r"(?:TYPES)<[^<>\s]*(?:<[^<>\s]*>[^<>\s]*)*>",
    r"-?(?:inf\b|\d+(?:\.\d+)?(?:e[+-]?\d+)?)",
    r"[A-Za-z_][\w.]*",
    r"[\[\](){},:=]",
)


@cache
def _token() -> re.Pattern[str]:
    """The regular expression of tokens, compiled when the first text is parsed: launches from the disk cache never
    need it."""
    return re.compile("|".join(_TOKENS).replace("TYPES", "|".join(_TYPE_PARSERS)), re.ASCII)


def parse_kernel(text: str) -> Kernel:
    """The kernel with the given text. Raises InternalError with the line where the text is not valid."""
    parser = _Parser(text)
    kernel = parser.kernel()
    if parser.peek():
        parser.fail("text after the kernel")
    return kernel


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens, self.starts = _tokens(text)
        self.at = 0
        self.values: dict[str, Value] = {}

    def peek(self) -> str:
        return self.tokens[self.at]

    def next(self) -> str:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            self.fail(f"expected '{token}', found '{self.peek()}'")

    def fail(self, message: str) -> NoReturn:
        line = self.text.count("\n", 0, self.starts[min(self.at, len(self.starts) - 1)]) + 1
        raise InternalError(f"line {line} of the IR text: {message}")

    def kernel(self) -> Kernel:
        self.expect("kernel")
        name, loc = self.string(), self.parse_location()
        self.expect("{")
        self.expect("launch")
        launch = self.record(LaunchClass)
        schedule = self.attributes() if self.accept("schedule") else {}
        body = Region()
        names: list[str] = []
        access: list[AccessClass | None] = []
        while self.accept("param"):
            names.append(self.string())
            value = self.definition(body)
            body.args.append(value)
            access.append(self.record(AccessClass) if self.peek() == "[" else None)
        self.ops(body)
        kernel = Kernel(name, names, body, launch, access, loc)
        kernel.schedule = schedule
        return kernel

    def ops(self, region: Region) -> None:
        while not self.accept("}"):
            region.append(self.op())

    def op(self) -> Op:
        results: list[tuple[str, str, Type]] = []
        if self.peek()[:1] == "%":
            results.append(self.declaration())
            while self.accept(","):
                results.append(self.declaration())
            self.expect("=")
        name = self.next()
        cls = REGISTRY.get(name)
        if cls is None:
            self.at -= 1
            self.fail(f"no op is called '{name}'")
        operands: list[Value] = []
        # A result of the next op starts like an operand, but is followed by its type.
        while self.peek()[:1] == "%" and self.tokens[self.at + 1] != ":":
            operands.append(self.use())
            if not self.accept(","):
                break
        attrs = self.attributes() if self.peek() == "[" else {}
        loc = self.parse_location()
        regions: list[Region] = []
        while self.peek() in ("(", "{"):
            regions.append(self.region())
        op = cls(operands, [t for _, _, t in results], attrs, regions, loc)
        for value, (number, value_name, _) in zip(op.results, results, strict=True):
            value.name = value_name
            self.bind(number, value)
        return op

    def region(self) -> Region:
        region = Region()
        if self.accept("("):
            while not self.accept(")"):
                region.args.append(self.definition(region))
                self.accept(",")
        self.expect("{")
        self.ops(region)
        return region

    def declaration(self) -> tuple[str, str, Type]:
        token = self.next()
        number, _, name = token.partition(".")
        if number[:1] != "%":
            self.fail(f"expected a value, found '{token}'")
        self.expect(":")
        return number, json.loads(name) if name[:1] == '"' else name, self.type()

    def definition(self, owner: Region) -> Value:
        number, name, type = self.declaration()
        value = Value(type, owner, name)
        self.bind(number, value)
        return value

    def bind(self, number: str, value: Value) -> None:
        if number in self.values:
            self.fail(f"{number} is defined twice")
        self.values[number] = value

    def use(self) -> Value:
        token = self.next()
        if token not in self.values:
            self.at -= 1
            self.fail(f"{token} is used before its definition")
        return self.values[token]

    def type(self) -> Type:
        token = self.next()
        parsed = parse_type(token)
        if parsed is None:
            self.fail(f"'{token}' is not a type")
        return parsed

    def attributes(self) -> dict[str, Any]:
        self.expect("[")
        out: dict[str, Any] = {}
        while not self.accept("]"):
            key = self.next()
            self.expect("=")
            out[key] = self.attribute()
            self.accept(",")
        return out

    def attribute(self) -> Any:
        token = self.next()
        if token == "(":
            items: list[Any] = []
            while not self.accept(")"):
                items.append(self.attribute())
                self.accept(",")
            return tuple(items)
        if token in _WORDS:
            return _WORDS[token]
        if token[0] == '"':
            return json.loads(token)
        if re.match(r"-?(?:inf|\d)", token):
            return int(token) if token.lstrip("-").isdigit() else float(token)
        if token.startswith("nan_"):
            return struct.unpack(">d", bytes.fromhex(token[4:]))[0]
        if token == "loc":
            self.at -= 1
            return self.location()
        parsed = parse_type(token)
        if parsed is None:
            self.fail(f"'{token}' is not an attribute's value")
        return parsed

    def parse_location(self) -> Location:
        return self.location() if self.accept("at") else UNKNOWN

    def location(self) -> Location:
        self.expect("loc")
        self.expect("(")
        if self.accept(")"):
            return UNKNOWN
        file = self.string()
        numbers: list[int] = []
        for _ in range(3):
            self.expect(",")
            numbers.append(int(self.next()))
        self.expect(",")
        function = self.string()
        caller = self.location() if self.accept(",") else None
        self.expect(")")
        return Location(file, *numbers, function=function, caller=caller)

    def string(self) -> str:
        token = self.next()
        if token[:1] != '"':
            self.fail(f"expected a string, found '{token}'")
        return json.loads(token)

    def record(self, cls: Callable[..., Any]) -> Any:
        try:
            return cls(**self.attributes())
        except TypeError as error:
            self.fail(str(error))


def _tokens(text: str) -> tuple[list[str], list[int]]:
    """All tokens, followed by empty tokens that mark the end, and the offset of each token."""
    tokens: list[str] = []
    starts: list[int] = []
    end = 0
    for match in _token().finditer(text):
        if match.start() != end:
            break
        end = match.end()
        token = match.group()
        if not token[0].isspace() and token[:2] != "//":
            tokens.append(token)
            starts.append(match.start())
    if end != len(text):
        line = text.count("\n", 0, end) + 1
        raise InternalError(f"line {line} of the IR text: unexpected '{text[end : end + 10]}'")
    return [*tokens, "", ""], [*starts, end, end]


_WORDS: dict[str, Any] = {"true": True, "false": False, "none": None, "nan": math.nan}


@cache
def parse_type(text: str) -> Type | None:
    """The type whose `notation` is the text, or None."""
    if text in DTYPES:
        return DTYPES[text]
    head, _, rest = text.partition("<")
    if head not in _TYPE_PARSERS or rest[-1:] != ">":
        return None
    parts = _split(rest[:-1])
    try:
        return _TYPE_PARSERS[head](parts)
    except (KeyError, ValueError, IndexError, TypeError):
        return None


def _split(text: str) -> list[str]:
    """The parts between the commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "<[") - (c in ">]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def parse_element(text: str) -> ElementType:
    """The element type whose `str` is the text; ValueError if there is none."""
    parsed = parse_type(text)
    if isinstance(parsed, DType | VecType | MatType):
        return parsed
    raise ValueError(text)


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.strip("[]").split(",") if n)


def _flag(parts: list[str]) -> bool:
    if parts not in ([], ["partial"]):
        raise ValueError(parts)
    return bool(parts)


_TYPE_PARSERS: dict[str, Callable[[list[str]], Type]] = {
    "vec": lambda p: VecType(int(p[0]), DTYPES[p[1]]),
    "quat": lambda p: quaternion(DTYPES[p[0]]),
    "transform": lambda p: transformation(DTYPES[p[0]]),
    "mat": lambda p: MatType(int(p[0]), int(p[1]), DTYPES[p[2]]),
    "tile": lambda p: TileType(parse_element(p[0]), _shape(p[1]), _flag(p[2:])),
    "buf": lambda p: BufType(parse_element(p[0]), _shape(p[1]), p[2], _flag(p[3:])),
    "array": lambda p: ArrayType(parse_element(p[0]), int(p[1])),
    "stack": lambda p: StackType(parse_element(p[0]), int(p[1])),
    "mbarrier": lambda p: MbarrierType(int(p[0])),
    "named_barrier": lambda p: NamedBarrierType(int(p[0])),
    "pipe": lambda p: PipeType(parse_element(p[0]), _shape(p[1]), int(p[2])),
}
