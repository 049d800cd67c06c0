"""Kernels: a body, named parameters, and the properties that the kernel is specialised on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tegula.dataclass import dataclass
from tegula.ir.values import AnyOp, Op, Region, Value
from tegula.source import UNKNOWN, Location

Scale = tuple[tuple[int, int], ...]
"""The size of a logical block in blocks of the launch: a fraction (numerator, denominator) for each dimension of the
grid."""


@dataclass(frozen=True, slots=True)
class LaunchClass:
    """The properties of a launch that a kernel is specialised on.

    `ndim` counts launch dimensions; `uniform[k]`: component k of `tid` is the same in all lanes of a block (the product
    of the later dimensions is a multiple of block_dim); `last_is_block`: the last dimension equals block_dim, so the
    last component is the lane; `partial`: the last block may have fewer lanes than block_dim. `scale`: the size of
    logical blocks (attribute of `logical_blocks`) that suits the grid better than the blocks of the launch; empty if
    there is none. `on_gpu`: whether the kernel is compiled for a GPU; None for a kernel of all devices, with both
    alternatives of programs that depend on the device."""

    ndim: int
    block_dim: int
    uniform: tuple[bool, ...]
    last_is_block: bool
    partial: bool
    scale: Scale = ()
    on_gpu: bool | None = None

    def __str__(self) -> str:
        kinds = ", ".join("uniform" if u else "varying" for u in self.uniform)
        return f"launch of {self.ndim} dims ({kinds}) with block_dim {self.block_dim}"


@dataclass(frozen=True, slots=True)
class AccessClass:
    """The properties of an array argument, known at launch, that a kernel is specialised on.

    `align`: a number of bytes, 1 to 64, that divides the base address and all strides except the innermost;
    `contiguous`: the last dimension has unit stride; `dense`: the whole array is packed row-major; `aliases`: positions
    of the other array arguments whose bytes overlap the array's; `bulk`: a tensor map can describe the array; `long`:
    the dimensions of 2**31 elements and more, whose lengths int32, the type of shapes in kernels, does not hold;
    `columns`: the dimension before the last has unit stride, and the last has not."""

    align: int = 1
    contiguous: bool = False
    dense: bool = False
    aliases: tuple[int, ...] = ()
    bulk: bool = False
    long: tuple[int, ...] = ()
    columns: bool = False

    def unit_dimension(self, rank: int) -> int | None:
        """The dimension with unit stride of an array of `rank` dimensions; None if there is none, or an earlier one."""
        return rank - 1 if self.contiguous else rank - 2 if self.columns else None


AT_ONCE, LOOPED, WAITED, READ = "at once", "looped", "waited", "read"
"""The time at which a launch lets the next launch of its stream start: its own start; the end of its last loop; its
start, once all launches before it are complete; and, in addition, the end of all its reads."""


class LaunchOverlap(NamedTuple):
    """The overlap of a launch with its neighbours in a stream. `waits_at_end`: the launch waits for earlier launches
    only at its end, because the previous launch lets it start when all its dependencies are complete; `next_starts`:
    the time at which the next launch may start."""

    waits_at_end: bool = False
    next_starts: str = AT_ONCE


NO_OVERLAP = LaunchOverlap()


class Kernel:
    """A kernel specialised on argument types and launch class: named parameters and a body. `captured`: the objects
    that the frontend read from outside the kernel's source, in its own representation. `schedule`: the user's choices
    for automatic schedules, by keyword. `bounded`: whether, if no proof is found, a schedule is accepted after an
    exploration of some launches. `overlap`: how a launch overlaps with the other launches of an adjoint."""

    __slots__ = (
        "access",
        "body",
        "bounded",
        "captured",
        "launch",
        "loc",
        "name",
        "overlap",
        "param_names",
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
        self.overlap = NO_OVERLAP

    @property
    def params(self) -> list[Value]:
        """The values of the parameters."""
        return self.body.args

    def walk(self) -> Iterator[Op]:
        """All ops of the kernel, outer ones first."""
        return self.body.walk()


class Contents:
    """The ops of a kernel at a time, in program order, and their classes, for queries of a kernel that does not
    change."""

    __slots__ = ("classes", "ops")

    def __init__(self, kernel: Kernel) -> None:
        self.ops = [*kernel.walk()]
        self.classes = {*map(type, self.ops)}

    def have(self, *kinds: type[Op]) -> bool:
        """Whether there is an op of one of these classes."""
        return any(issubclass(c, kinds) for c in self.classes)

    def of(self, *kinds: type[AnyOp]) -> list[AnyOp]:
        """The ops of these classes."""
        return [op for op in self.ops if isinstance(op, kinds)] if self.have(*kinds) else []
