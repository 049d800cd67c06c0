"""`kernel.check()`: the verdict on a kernel's schedule, without a GPU and without arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tegula.backend.cache import Entry
from tegula.check.schedule import check_certificate, check_schedule
from tegula.check.verdict import NO_SCHEDULE, PROVED, REFUTED, UNPROVED, Verdict, from_summary
from tegula.dataclass import replace
from tegula.errors import BulkAccess, WrongArguments
from tegula.ir import AccessClass, LaunchClass
from tegula.ir import Kernel as KernelIR
from tegula.lang.annotations import ANY, ArrayAnnotation, resolve
from tegula.lang.constants import takes_constant
from tegula.lang.overloads import NO_DEFAULT
from tegula.lang.structs import leaf_parameters
from tegula.ops.lane import Tid
from tegula.ops.roles import WARP_GROUP, Roles, block_threads
from tegula.passes.pipeline import prepare
from tegula.passes.runner import GpuCompilation
from tegula.runtime.arguments import bind, with_constants
from tegula.runtime.automatic import checked
from tegula.runtime.compile import cache_text, trace
from tegula.runtime.config import config
from tegula.runtime.kernel import Kernel
from tegula.runtime.launch import MAX_DIMS
from tegula.runtime.library import library
from tegula.runtime.store import disk_cache
from tegula.target import get_cuda_target
from tegula.types import ArrayType, Type

PACKED = AccessClass(align=64, contiguous=True, dense=True, bulk=True)
STRIDED = AccessClass()
"""The access classes of packed, aligned arrays, which bulk copies can read, and of arrays of any strides; their
schedules differ."""
ORDER = (REFUTED, UNPROVED, PROVED, NO_SCHEDULE)
"""The statuses of verdicts, the worst first."""


def check_kernel(kernel: Kernel, arguments: Sequence[Any], block_dim: int | None, target: str) -> Verdict:
    """The verdict for arguments of the given types: the worse of the verdicts for packed arrays and for any arrays. A
    kernel with explicit copies takes packed arrays only."""
    verdicts: list[Verdict] = []
    for _, verdict in check_forms(kernel, arguments, block_dim, target):
        if not verdict.accepted:
            return verdict
        verdicts.append(verdict)
    return min(verdicts, key=lambda v: ORDER.index(v.status))


def check_forms(
    kernel: Kernel,
    arguments: Sequence[Any],
    block_dim: int | None,
    target: str,
    certificates: Mapping[str, Mapping[str, Any]] | None = None,
) -> Iterator[tuple[str, Verdict]]:
    """The verdict for each kind of arrays; proved verdicts are cached on disk. `certificates`: certificates by kind of
    arrays, with which the verifier alone decides, without the cache."""
    kernel, arguments = _with_constants(kernel, arguments)
    types = argument_types(kernel, arguments)
    for arrays, array_access in (("packed", PACKED), ("any", STRIDED)):
        access = tuple(array_access if isinstance(t, ArrayType) else None for t in types)
        ndim, threads = _shape(kernel, types, access)
        launch = LaunchClass(ndim, block_dim or threads, (True,) * (ndim - 1) + (False,), True, False)
        kernel_ir = trace(kernel, types, launch, access)
        store = disk_cache() if certificates is None else None
        name = store.key(["check", cache_text(kernel_ir, False), target]) if store is not None else ""
        entry = store.get(name) if store is not None else None
        if entry is not None:
            yield arrays, from_summary(entry.metadata)
            continue
        prepare(kernel_ir)
        try:
            compilation, verdict = checked(
                kernel_ir, get_cuda_target(target), check=_schedule_check(certificates, arrays)
            )
        except BulkAccess:
            if array_access is PACKED:
                raise
            return
        verdict = replace(verdict, automatic=str(compilation.schedule))
        if store is not None and verdict.status in (PROVED, NO_SCHEDULE):
            store.put(name, Entry(dict(verdict.summary()), b""))
        yield arrays, verdict


def _with_constants(kernel: Kernel, arguments: Sequence[Any]) -> tuple[Kernel, Sequence[Any]]:
    """The kernel with constants and absent arrays bound, and the given types. Constants without a value have their
    defaults; WrongArguments for a constant without a default."""
    if len(arguments) == len(kernel.parameters):
        return with_constants(kernel, arguments)[:2]
    if arguments or not kernel.takes_constants:
        return kernel, arguments
    constants = [p for p in kernel.parameters if takes_constant(p.annotation)]
    unknown = next((p for p in constants if p.default is NO_DEFAULT), None)
    if unknown is not None:
        message = f"the value of '{unknown.name}' is not known"
        help = f"{kernel.name}.bind({unknown.name}=...).check()"
        raise WrongArguments(kernel.definition.parameter_location(unknown.name), what=message, help=help)
    return bind(kernel, {p.name: p.default for p in constants}), arguments


def _schedule_check(
    certificates: Mapping[str, Mapping[str, Any]] | None, arrays: str
) -> Callable[[KernelIR, GpuCompilation], Verdict]:
    if certificates is None:
        return check_schedule
    kind_certificates = certificates.get(arrays, {})
    return lambda kernel, compilation: check_certificate(kernel, compilation, kind_certificates)


def argument_types(kernel: Kernel, arguments: Sequence[Any]) -> tuple[Type, ...]:
    """The types of the arguments: the given types, else the annotations of the parameters. WrongArguments if they do
    not determine a type."""
    annotations = [resolve(a) for a in arguments] if arguments else [p.annotation for p in kernel.parameters]
    if len(annotations) != len(kernel.parameters):
        message = (
            f"kernel {kernel.name} takes {len(kernel.parameters)} arguments, got {len(annotations)} types"
        )
        raise WrongArguments(kernel.definition.location, what=message)
    types: list[Type] = []
    typed = [replace(p, annotation=t) for p, t in zip(kernel.parameters, annotations, strict=True)]
    for p in leaf_parameters(typed):
        annotation = p.annotation
        is_array = isinstance(annotation, ArrayAnnotation)
        if annotation is ANY or (is_array and ANY in (annotation.dtype, annotation.ndim)):
            message = f"the type of '{p.name}' is not known"
            help = f"{kernel.name}.check(...) takes the type of each argument, as annotations are written"
            raise WrongArguments(kernel.definition.parameter_location(p.name), what=message, help=help)
        types.append(ArrayType(annotation.dtype, annotation.ndim) if is_array else annotation)  # type: ignore[arg-type, union-attr]
    return tuple(types)


def _shape(kernel: Kernel, types: Sequence[Type], access: Sequence[AccessClass | None]) -> tuple[int, int]:
    """The minimum number of dimensions, threads included, of a launch in which the last dimension is the threads of a
    block, as roles require; and the number of threads per block that the roles need."""
    launch = LaunchClass(MAX_DIMS, WARP_GROUP, (True,) * (MAX_DIMS - 1) + (False,), True, False)
    kernel_ir = kernel.trace(types, launch, access, library())
    index_count = max((len(op.results) for op in kernel_ir.walk() if isinstance(op, Tid)), default=1)
    ndim = min(1 + index_count, MAX_DIMS)
    roles = next((op for op in kernel_ir.body.ops if isinstance(op, Roles)), None)
    return ndim, block_threads(roles) if roles is not None else kernel.options.block_dim or config.block_dim
