"""Resolution of a launch's arguments to a compiled form of the kernel and its packed arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tegula.dataclass import replace
from tegula.errors import LaunchError
from tegula.ir import AccessClass, LaunchClass
from tegula.lang.captures import unchanged
from tegula.lang.definition import Parameter
from tegula.ops.roles import WARP_GROUP, Roles, block_threads
from tegula.runtime import fast_path
from tegula.runtime.array import array
from tegula.runtime.config import config
from tegula.runtime.description import SPECIALISATIONS, device_of
from tegula.runtime.device import CPU, Device
from tegula.runtime.element_range import ElementRange
from tegula.runtime.kernel import Kernel, Specialisation
from tegula.runtime.library import library
from tegula.runtime.pack import adopt_argument
from tegula.types import ArrayType, Type

if TYPE_CHECKING:
    from tegula.runtime.fast_path import Form
    from tegula.runtime.launch import LaunchPlan

DIRECT_TYPES = frozenset({array, int, float, bool})
"""The types of arguments that are not converted."""


def resolve(kernel: Kernel, plan: LaunchPlan, args: tuple[Any, ...]) -> tuple[Form, bytes, bool]:
    """The compiled form for the arguments, their packed bytes, and whether an argument is another library's array.
    LaunchError for arguments that do not fit."""
    original = args
    args = tegula_arguments(kernel, args)
    has_foreign = args is not original
    form = kernel.fast_path(plan, args)
    if form is not None:
        return form[0], form[1], has_foreign
    packed = packed_arguments(kernel, args)
    ids, pairs = [n for n, _ in packed], overlaps(args)
    key = (plan.launch_id, plan.grid, *ids, *pairs, config.code)
    forms = kernel.forms.get(key)
    if forms is None:
        forms = kernel.forms_for(_specialised(kernel, plan, ids, pairs))
        fast_path.put_bounded(kernel.forms, key, forms)
    compiled = forms.current(plan.blocks)
    for k in compiled.writes:
        if not args[k].writeable:
            raise LaunchError(
                f"kernel {kernel.name}: argument '{kernel.parameters[k].name}' is written, but its memory is "
                "read-only",
                "pass a copy: tg.array(...)",
            )
    if not pairs:
        arrays = [a.launch_id for a in args if type(a) is array]
        fast_path.put_bounded(kernel.ready, fast_path.key(plan, arrays), compiled)
        if kernel.native is None and compiled.device.is_cuda:
            from tegula.runtime.cuda.native import deferred_launch

            kernel.native = deferred_launch(kernel)
    return compiled, b"".join([data for _, data in packed]) + plan.packed, has_foreign


def requested_specialisation(kernel: Kernel, plan: LaunchPlan, args: tuple[Any, ...]) -> Specialisation:
    """The specialisation of a launch with given arguments, whose arrays are Tegula arrays. LaunchError for arguments
    that do not fit."""
    return _specialised(kernel, plan, [n for n, _ in packed_arguments(kernel, args)], overlaps(args))


def _specialised(
    kernel: Kernel, plan: LaunchPlan, ids: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> Specialisation:
    specialisations = [SPECIALISATIONS[n] for n in ids]
    result = specialisation(specialisations, plan.launch, pairs, _device_of(kernel, plan, specialisations))
    return replace(result, grid=plan.grid) if result.device.is_cuda else result


def tegula_arguments(kernel: Kernel, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, with other libraries' arrays as `tg.array` on the same memory."""
    if DIRECT_TYPES.issuperset(map(type, args)):
        return args
    parameters = kernel.parameters
    if len(args) != len(parameters):
        return args
    try:
        return tuple([adopt_argument(p, value) for p, value in zip(parameters, args, strict=True)])
    except LaunchError as error:
        raise LaunchError(f"kernel {kernel.name}: {error.message}", error.help) from error.__cause__


def packed_arguments(kernel: Kernel, args: tuple[Any, ...]) -> list[tuple[int, bytes]]:
    """The launch id of each argument's specialisation, with the argument's bytes."""
    packers = kernel.packers
    if len(args) != len(packers):
        raise argument_count_error(kernel, kernel.parameters, len(args))
    try:
        return [pack(value) for pack, value in zip(packers, args, strict=True)]
    except LaunchError as error:
        raise LaunchError(f"kernel {kernel.name}: {error.message}", error.help) from error.__cause__


def argument_count_error(kernel: Kernel, parameters: Sequence[Parameter], count: int) -> LaunchError:
    """The error for a number of arguments that differs from the number of parameters."""
    names = ", ".join(p.name for p in parameters)
    help = "inputs=[...] and outputs=[...] together are the arguments, in the order of the parameters"
    return LaunchError(f"kernel {kernel.name} takes {len(parameters)} arguments ({names}), got {count}", help)


def role_threads(kernel: Kernel, args: Sequence[Any], ndim: int) -> int | None:
    """The block size that the roles of a kernel need for a launch with these arguments over `ndim` dimensions; None
    without roles. The function traces the kernel once for each state of the captures."""
    for captured, threads in kernel.role_threads:
        if all(map(unchanged, captured)):
            return threads
    packed = packed_arguments(kernel, tegula_arguments(kernel, tuple(args)))
    launch = LaunchClass(ndim, WARP_GROUP, (True,) * (ndim - 1) + (False,), True, False)
    key = specialisation([SPECIALISATIONS[n] for n, _ in packed], launch, ())
    traced = kernel.trace(key.types, launch, key.access, library())
    threads = next((block_threads(op) for op in traced.body.ops if isinstance(op, Roles)), None)
    kernel.role_threads.append((traced.captured, threads))
    return threads


def overlaps(args: tuple[Any, ...]) -> list[tuple[int, int]]:
    """Pairs of array arguments that share bytes."""
    arrays = [(k, a, a.low, a.high) for k, a in enumerate(args) if type(a) is array]
    overlapping: list[tuple[int, int]] = []
    for position, (i, a, low, high) in enumerate(arrays):
        for j, b, other_low, other_high in arrays[position + 1 :]:
            if low < other_high and other_low < high and ElementRange.of(a).overlaps(ElementRange.of(b)):
                overlapping.append((i, j))
    return overlapping


def _device_of(kernel: Kernel, plan: LaunchPlan, arguments: Sequence[Any]) -> Device:
    """The device of the arrays among the arguments; LaunchError if they are on several devices."""
    devices = {
        p.name: device_of(x)
        for p, x in zip(kernel.parameters, arguments, strict=True)
        if isinstance(x, tuple)
    }
    if len(set(devices.values())) > 1:
        locations = ", ".join(f"'{name}' is on {device}" for name, device in devices.items())
        raise LaunchError(
            f"kernel {kernel.name}: the arrays are on several devices: {locations}",
            "copy the arrays to one device: a.to(device)",
        )
    return next(iter(devices.values()), plan.device)


def specialisation(
    forms: Sequence[Any], launch: LaunchClass, overlap: Sequence[tuple[int, int]], device: Device = CPU
) -> Specialisation:
    """The specialisation of a form: `forms` has the specialisation of each argument, `overlap` the pairs of arrays that
    share bytes."""
    types: list[Type] = []
    access: list[AccessClass | None] = []
    for k, argument in enumerate(forms):
        if isinstance(argument, tuple):
            dtype, ndim, access_class = argument[:3]
            aliases = tuple(sorted({j for pair in overlap for j in pair if k in pair and j != k}))
            types.append(ArrayType(dtype, ndim))
            access.append(replace(access_class, aliases=aliases))
        else:
            types.append(argument)
            access.append(None)
    return Specialisation(tuple(types), launch, tuple(access), device)
