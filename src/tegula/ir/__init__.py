"""The IR: SSA values, ops with named operands, structured regions, kernels.

values: what everything is made of; fields: names for what ops are given; interfaces: what passes ask of ops;
kernel: a body with parameters; text: printer and parser; verify: what holds between passes; rewrite: walking,
replacing, cloning, dead code."""

from tegula.ir.interfaces import (
    AtomicUpdate,
    BranchLike,
    CallLike,
    Carried,
    Carrier,
    ConstantLike,
    ElementAccess,
    LoopLike,
    MatmulLike,
    Synchronising,
    TileAccess,
    ViewLike,
    numbered,
    root,
)
from tegula.ir.kernel import (
    ALONE,
    AT_ONCE,
    LOOPED,
    READ,
    WAITED,
    AccessClass,
    Kernel,
    LaunchClass,
    LaunchOverlap,
)
from tegula.ir.values import REGISTRY, Access, Builder, Effect, Op, Region, TypeRule, Value

__all__ = [
    "ALONE",
    "AT_ONCE",
    "LOOPED",
    "READ",
    "REGISTRY",
    "WAITED",
    "Access",
    "AccessClass",
    "AtomicUpdate",
    "BranchLike",
    "Builder",
    "CallLike",
    "Carried",
    "Carrier",
    "ConstantLike",
    "Effect",
    "ElementAccess",
    "Kernel",
    "LaunchClass",
    "LaunchOverlap",
    "LoopLike",
    "MatmulLike",
    "Op",
    "Region",
    "Synchronising",
    "TileAccess",
    "TypeRule",
    "Value",
    "ViewLike",
    "numbered",
    "root",
]
