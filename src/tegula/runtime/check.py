"""`kernel.check()`: the verdict on a kernel's schedule, without a GPU and without arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.check.verdict import Verdict
from tegula.dataclass import replace
from tegula.errors import BulkAccess, WrongArguments
from tegula.ir import AccessClass, LaunchClass
from tegula.lang.annotations import ANY, ArrayAnnotation, resolve
from tegula.ops.lane import Tid
from tegula.ops.roles import WARP_GROUP, Roles, block_threads
from tegula.passes.pipeline import prepare
from tegula.runtime.automatic import checked
from tegula.runtime.compile import trace
from tegula.runtime.config import config
from tegula.runtime.kernel import Kernel
from tegula.runtime.launch import MAX_DIMS
from tegula.runtime.library import library
from tegula.target import get_cuda_target
from tegula.types import ArrayType, Type

PACKED = AccessClass(align=64, contiguous=True, dense=True, bulk=True)
STRIDED = AccessClass()
"""Arrays that bulk copies can read, and arrays of which nothing is known: their schedules differ."""


def check_kernel(kernel: Kernel, given: Sequence[Any], block_dim: int | None, target: str) -> Verdict:
    """The verdict for arguments of these types; of packed arrays and of any others, the worse one. A kernel that copies
    by hand takes none but packed ones."""
    types = argument_types(kernel, given)
    verdicts: list[Verdict] = []
    for known in (PACKED, STRIDED):
        access = tuple(known if isinstance(t, ArrayType) else None for t in types)
        ndim, threads = _shape(kernel, types, access)
        launch = LaunchClass(ndim, block_dim or threads, (True,) * (ndim - 1) + (False,), True, False)
        made = trace(kernel, types, launch, access)
        prepare(made)
        try:
            spread, found = checked(made, get_cuda_target(target))
        except BulkAccess:
            if known is PACKED:
                raise
            break
        found = replace(found, automatic=str(spread.schedule))
        if not found.passed:
            return found
        verdicts.append(found)
    return next((v for v in verdicts if not v.proved), verdicts[0])


def argument_types(kernel: Kernel, given: Sequence[Any]) -> tuple[Type, ...]:
    """What the arguments are: as given, else as the parameters are annotated. WrongArguments where that says too
    little."""
    annotations = [resolve(a) for a in given] if given else [p.annotation for p in kernel.parameters]
    if len(annotations) != len(kernel.parameters):
        what = f"{kernel.name} takes {len(kernel.parameters)} arguments, got {len(annotations)} types"
        raise WrongArguments(kernel.definition.location, what=what)
    types: list[Type] = []
    for p, annotation in zip(kernel.parameters, annotations, strict=True):
        if annotation is ANY or (isinstance(annotation, ArrayAnnotation) and annotation.dtype is ANY):
            what = f"the type of '{p.name}' is not known"
            help = f"{kernel.name}.check(...) takes the type of each argument, as annotations are written"
            raise WrongArguments(kernel.definition.parameter_location(p.name), what=what, help=help)
        is_array = isinstance(annotation, ArrayAnnotation)
        types.append(ArrayType(annotation.dtype, annotation.ndim) if is_array else annotation)  # type: ignore[arg-type, union-attr]
    return tuple(types)


def _shape(kernel: Kernel, types: Sequence[Type], access: Sequence[AccessClass | None]) -> tuple[int, int]:
    """The fewest dimensions, threads included, of a launch that gives each block its own thread indices, as roles want
    them; and the threads that its roles need."""
    launch = LaunchClass(MAX_DIMS, WARP_GROUP, (True,) * (MAX_DIMS - 1) + (False,), True, False)
    made = kernel.trace(types, launch, access, library())
    named = max((len(op.results) for op in made.walk() if isinstance(op, Tid)), default=1)
    ndim = min(1 + named, MAX_DIMS)
    roles = next((op for op in made.body.ops if isinstance(op, Roles)), None)
    return ndim, block_threads(roles) if roles is not None else kernel.options.block_dim or config.block_dim
