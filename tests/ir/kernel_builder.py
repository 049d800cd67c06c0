"""Builds kernels op by op for tests; result types are inferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tegula.interp import run
from tegula.ir import REGISTRY, Kernel, LaunchClass, Op, Region, Value
from tegula.ir.verify import verify
from tegula.source import Location
from tegula.types import Type, bool_, float32, int32


class KernelBuilder:
    """A kernel under construction. A call appends an op and returns its results, or the op if it has none."""

    def __init__(self, *params: Type, block_dim: int = 4, ndim: int = 1) -> None:
        self.body = self.insertion_region = Region(params)
        self.params = self.body.args
        self.launch = LaunchClass(ndim, block_dim, (False,) * ndim, False, True)
        self.line = 0

    def __call__(self, name: str, *operands: Value, regions: Sequence[Region] = (), **attrs: Any) -> Any:
        self.line += 1
        cls: Any = REGISTRY[name]
        op: Op = self.insertion_region.append(
            cls.typed(operands, attrs, regions, Location("kernel.py", self.line))
        )
        return op if not op.results else op.results[0] if len(op.results) == 1 else op.results

    def const(self, value: Any, t: Type = int32) -> Value:
        return self("const", value=value, type=t)

    def f(self, value: float) -> Value:
        return self.const(value, float32)

    def tid(self) -> Value:
        return self("tid", count=1)

    def cmp(self, pred: str, a: Value, b: Value) -> Value:
        return self("cmp", a, b, pred=pred)

    def cmp_int(self, pred: str, a: Value, b: Value) -> Value:
        return self("cast", self.cmp(pred, a, b), to=int32)

    def region(self, types: Sequence[Type], body: Callable[..., Any]) -> Region:
        """A region with arguments of the types; `body` takes them and returns the values to yield."""
        outer, self.insertion_region = self.insertion_region, Region(types)
        out = body(*self.insertion_region.args)
        self(
            "yield",
            *([] if not isinstance(out, Value | list | tuple) else [out] if isinstance(out, Value) else out),
        )
        result, self.insertion_region = self.insertion_region, outer
        return result

    def if_(
        self, condition: Value, then: Callable[[], Any], otherwise: Callable[[], Any] = lambda: None
    ) -> Any:
        return self("if", condition, regions=[self.region((), then), self.region((), otherwise)])

    def for_(
        self, stop: Value, initial: Sequence[Value], body: Callable[..., Any], start: int = 0, step: int = 1
    ) -> Any:
        bounds = [self.const(start, stop.type), stop, self.const(step, stop.type)]
        region = self.region([stop.type, *(v.type for v in initial)], body)
        return self("for", *bounds, *initial, regions=[region])

    def while_(
        self, initial: Sequence[Value], condition: Callable[..., Value], body: Callable[..., Any]
    ) -> Any:
        types = [v.type for v in initial]
        return self("while", *initial, regions=[self.region(types, condition), self.region(types, body)])

    def map(self, body: Callable[..., Value], *operands: Value) -> Value:
        types = [v.type.dtype if hasattr(v.type, "shape") else v.type for v in operands]
        return self("tile.map", *operands, regions=[self.region(types, body)])

    def finish(self) -> Kernel:
        """The verified kernel; parameters are called p0, p1, ..."""
        self("yield")
        kernel = Kernel("made", [f"p{k}" for k in range(len(self.params))], self.body, self.launch)
        verify(kernel)
        return kernel

    def run(self, *args: Any, lanes: int | None = None, dims: Sequence[int] = ()) -> list[str]:
        """Finish the kernel and launch it over one block, `lanes` threads, or `dims`. Returns the printed lines."""
        lines: list[str] = []
        run(self.finish(), args, dims or (lanes or self.launch.block_dim,), print_line=lines.append)
        return lines


def lanes_of(builder: KernelBuilder, out: Value, value: Value) -> None:
    """Store each thread's value in out[tid]."""
    builder("array.store", out, value, builder.tid())


__all__ = ["KernelBuilder", "bool_", "lanes_of", "np"]
