"""The IR: SSA values, ops, regions. Control flow is structured; every region is a single block.

An op's class says what it is (see `ops/`); this file only knows how ops hang together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Any, ClassVar, NamedTuple

from tegula.dataclass import dataclass
from tegula.source import UNKNOWN, Location
from tegula.types import Type


class Value:
    """A result of an op or an argument of a region. `name` is the user's name for it, if any."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type: Type, owner: Op | Region | None = None, name: str = "") -> None:
        self.type = type
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Access(StrEnum):
    """What an op may do to memory."""

    READ = "read"
    """Its result depends on what is there."""
    WRITE = "write"
    """It changes what is there."""
    ATOMIC = "atomic"
    """It reads and changes each element at once, so that other atomic accesses come before or after."""
    IO = "io"
    """It is observed outside the kernel or by other threads, and keeps its place among ops like it."""
    ISSUE = "issue"
    """It starts an asynchronous write, which is done once an `ARRIVE` of it has passed."""
    ARRIVE = "arrive"
    """Asynchronous writes that were started before are done."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What an op does to memory; `value` is the array, buffer or stack, None for all that can be observed."""

    kind: str
    value: Value | None = None


class Op:
    """Base of all ops. Subclasses are declared in `ops/` and found in `ops.base.REGISTRY` by NAME."""

    __slots__ = ("attrs", "loc", "operands", "parent", "regions", "results")
    NAME: ClassVar[str] = ""

    def __init__(
        self,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
        loc: Location = UNKNOWN,
    ) -> None:
        self.operands: list[Value] = list(operands)
        self.results: list[Value] = [Value(t, self) for t in result_types]
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.regions: list[Region] = list(regions)
        self.loc = loc
        self.parent: Region | None = None
        for region in self.regions:
            region.parent = self

    @property
    def result(self) -> Value:
        assert len(self.results) == 1, f"{self.NAME} has {len(self.results)} results"
        return self.results[0]

    def effects(self) -> Sequence[Effect]:
        """What this op itself does to memory; nested ops speak for themselves."""
        return ()

    def walk(self) -> Iterator[Op]:
        """This op and all ops nested in it, in program order."""
        yield self
        yield from _walk(self.regions)

    def __repr__(self) -> str:
        return f"<{self.NAME} at {self.loc}>"


class Region:
    """A single block: arguments and a list of ops, the last of which is `yield`."""

    __slots__ = ("args", "ops", "parent")

    def __init__(self, arg_types: Sequence[Type] = ()) -> None:
        self.args: list[Value] = [Value(t, self) for t in arg_types]
        self.ops: list[Op] = []
        self.parent: Op | None = None

    def append(self, op: Op) -> Op:
        op.parent = self
        self.ops.append(op)
        return op

    def walk(self) -> Iterator[Op]:
        """All ops in it, in program order."""
        return _walk([self])

    @property
    def terminator(self) -> Op:
        return self.ops[-1]


def _walk(regions: Sequence[Region]) -> Iterator[Op]:
    """The ops of regions and those nested in them. Each region is seen as it is when its turn comes."""
    pending = [_ops(regions)]
    while pending:
        for op in pending[-1]:
            yield op
            if op.regions:
                pending.append(_ops(op.regions))
                break
        else:
            pending.pop()


def _ops(regions: Sequence[Region]) -> Iterator[Op]:
    return chain.from_iterable(list(region.ops) for region in regions)


@dataclass(frozen=True, slots=True)
class LaunchClass:
    """What a kernel is specialised on at launch (SEMANTICS.md "Launch class").

    `ndim` counts launch dimensions; `uniform[k]` says that component k of `tid` is the same in all lanes of a block
    (the product of the later dimensions is a multiple of block_dim); `last_is_block`: the last dimension equals
    block_dim, so the last component is the lane; `partial`: the last block may have fewer lanes than block_dim."""

    ndim: int
    block_dim: int
    uniform: tuple[bool, ...]
    last_is_block: bool
    partial: bool

    def __str__(self) -> str:
        kinds = ", ".join("uniform" if u else "varying" for u in self.uniform)
        return f"launch of {self.ndim} dims ({kinds}) with block_dim {self.block_dim}"


@dataclass(frozen=True, slots=True)
class AccessClass:
    """What is known of one array argument at launch.

    `align`: bytes that the base and all strides but the innermost are multiples of (1 to 64); `contiguous`: the last
    dimension has unit stride; `dense`: the whole array is packed row-major; `aliases`: positions of the other array
    arguments whose bytes overlap this one's; `bulk`: a tensor map can describe it; `long`: the dimensions of 2**31
    elements and more, whose lengths int32, the type of shapes in kernels, does not hold."""

    align: int = 1
    contiguous: bool = False
    dense: bool = False
    aliases: tuple[int, ...] = ()
    bulk: bool = False
    long: tuple[int, ...] = ()


AT_ONCE, LOOPED, WAITED, READ = "at once", "looped", "waited", "read"
"""When a launch lets the next one of its stream start: when it has started itself; when its last loop has ended; when
it has started and all launches before it are complete; when these are and it has read all that it reads."""


class Place(NamedTuple):
    """How a launch goes with its neighbours in a stream. `late`: it waits for those before it only at its end, because
    the one before lets it start when nothing can happen any more that it depends on; `lets`: see above."""

    late: bool = False
    lets: str = AT_ONCE


ALONE = Place()


class Kernel:
    """A kernel specialised on argument types and launch class: named parameters and a body. `captured`: what the
    frontend read from outside the kernel's source, in its own terms. `schedule`: what the user decided about automatic
    schedules, by keyword. `bounded`: whether a schedule will do of which some launches were explored, where no proof is
    found. `place`: among the launches of an adjoint."""

    __slots__ = (
        "access",
        "body",
        "bounded",
        "captured",
        "launch",
        "loc",
        "name",
        "param_names",
        "place",
        "schedule",
    )

    def __init__(
        self,
        name: str,
        param_names: Sequence[str],
        body: Region,
        launch: LaunchClass,
        access: Sequence[AccessClass | None] = (),
        loc: Location = UNKNOWN,
    ) -> None:
        self.name = name
        self.param_names = list(param_names)
        self.body = body
        self.launch = launch
        self.access = list(access) or [None] * len(body.args)
        self.loc = loc
        self.captured: tuple[Any, ...] = ()
        self.schedule: dict[str, Any] = {}
        self.bounded = False
        self.place = ALONE

    @property
    def params(self) -> list[Value]:
        return self.body.args

    def walk(self) -> Iterator[Op]:
        return self.body.walk()


class Builder:
    """Appends ops to a region. `loc` is given to every op built."""

    __slots__ = ("loc", "region")

    def __init__(self, region: Region, loc: Location = UNKNOWN) -> None:
        self.region = region
        self.loc = loc

    def insert(self, op: Op) -> Op:
        if op.loc is UNKNOWN:
            op.loc = self.loc
        return self.region.append(op)
