"""The public names of `tegula`, resolved on first use."""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from tegula.declaration import Refused, Sample
from tegula.deferred import deferred_imports as _deferred_imports
from tegula.errors import (
    BrokenPromise,
    CompileError,
    Deadlock,
    DifferingOperand,
    DivisionByZero,
    KernelAssertion,
    LaunchError,
    OutOfBounds,
    RunError,
    TegulaError,
    TuningError,
)
from tegula.evaluation import set_evaluator as _set_evaluator
from tegula.lang.annotations import (
    array1d,
    array2d,
    array3d,
    array4d,
    indexedarray1d,
    indexedarray2d,
    indexedarray3d,
    indexedarray4d,
    tile,
)
from tegula.lang.capture import CONSTANTS
from tegula.lang.cooperative import cooperative
from tegula.lang.decorators import (
    adjoint,
    constant,
    elect,
    func,
    func_grad,
    func_native,
    func_replay,
    persistent_tiles,
    pipelined,
    role,
    static,
    tid,
    unrolled,
    ws,
)
from tegula.lang.definition import PublicFunction, PublicNamespace, StackFunction
from tegula.lang.prompt_text import execute as exec
from tegula.lang.structs import struct
from tegula.ops import PUBLIC
from tegula.runtime.array import array
from tegula.runtime.config import LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARNING, config
from tegula.runtime.device import (
    Device,
    ScopedDevice,
    get_cuda_device,
    get_cuda_device_count,
    get_cuda_devices,
    get_device,
    get_devices,
    get_preferred_device,
    is_cpu_available,
    is_cuda_available,
    set_device,
    synchronize,
    synchronize_device,
)
from tegula.runtime.indexed_array import indexedarray
from tegula.runtime.kernel import Kernel, kernel
from tegula.runtime.launch import launch, launch_tiled
from tegula.runtime.make_arrays import (
    clone,
    copy,
    empty,
    empty_like,
    from_dlpack,
    from_ptr,
    full,
    full_like,
    ones,
    ones_like,
    to_dlpack,
    zeros,
    zeros_like,
)
from tegula.runtime.make_arrays import from_numpy_array as from_numpy
from tegula.signature import Asked, Dtypes, Element, Extent, Extents, InOut, Key, Real, constexpr
from tegula.types import DTYPES, NAMED_ELEMENTS

with _deferred_imports():
    from tegula.runtime.host_calls import evaluate as _evaluate

_set_evaluator(_evaluate)

_NOT_PUBLIC = (
    *("annotations", "Any", "Callable", "builtins", "import_module", "inspect"),
    *(
        "CONSTANTS",
        "DTYPES",
        "NAMED_ELEMENTS",
        "PUBLIC",
        "PublicFunction",
        "PublicNamespace",
        "StackFunction",
    ),
)
NAMES: dict[str, Any] = {
    **{k: v for k, v in globals().items() if not k.startswith("_") and k not in _NOT_PUBLIC},
    "bool_": DTYPES["bool"],
    "print": builtins.print,
    "range": builtins.range,
    **CONSTANTS,
    **DTYPES,
    **NAMED_ELEMENTS,
}

MODULES = {
    **{name: f"tegula.{name}" for name in ("autograd", "kernels", "optim", "testing", "types")},
    "utils": "tegula.algorithms",
}
"""The public parts of the package, by public name, loaded on first use."""
OPTIONAL = ("jax", "torch")
"""The parts that need other libraries, which are public after their import."""
# Rarely used names; their modules are loaded on first use.
LAZY = {
    "autotune": "tegula.tune",
    **dict.fromkeys(("GradientMismatch", "gradcheck"), "tegula.runtime.gradcheck"),
    "Tape": "tegula.runtime.tape",
    "launch_key": "tegula.runtime.launch_key",
    **dict.fromkeys(("ScopedLogLevel", "get_suggested_block_size"), "tegula.runtime.modules"),
    **dict.fromkeys(("capture_if", "capture_while"), "tegula.runtime.dependent_work"),
    **dict.fromkeys(("Module", "get_module", "init", "load_module", "force_load"), "tegula.runtime.modules"),
    **dict.fromkeys(("get_module_options", "set_module_options", "overload"), "tegula.runtime.modules"),
    **dict.fromkeys(
        ("device_to_torch", "dtype_from_numpy", "dtype_to_numpy", "is_device_available"),
        "tegula.runtime.modules",
    ),
    "Launch": "tegula.runtime.command",
    "ScopedTimer": "tegula.runtime.scoped_timer",
    **dict.fromkeys(
        ("Bvh", "BvhQuery", "BvhQueryTiled", "Mesh", "bvh_overlaps", "is_cubql_available"), "tegula.spatial"
    ),
    **dict.fromkeys(("MeshQuery", "MeshQueryAABB", "MeshQueryAABBTiled"), "tegula.spatial"),
    **dict.fromkeys(("MeshQueryPoint", "MeshQueryRay"), "tegula.spatial"),
    **dict.fromkeys(("HashGrid", "HashGridQuery"), "tegula.spatial"),
    "map": "tegula.runtime.mapping",
    "over_batches": "tegula.runtime.over_batches",
    **dict.fromkeys(
        ("dtype_from_torch", "dtype_to_torch", "from_torch", "stream_to_torch", "to_torch"), "tegula.torch"
    ),
    **dict.fromkeys(("dtype_from_jax", "dtype_to_jax", "from_jax", "to_jax"), "tegula.jax"),
    **dict.fromkeys(("Event", "ScopedStream", "Stream"), "tegula.runtime.cuda.stream"),
    **dict.fromkeys(
        ("get_stream", "set_stream", "stream_from_torch", "synchronize_stream"), "tegula.runtime.cuda.stream"
    ),
    **dict.fromkeys(
        ("get_event_elapsed_time", "record_event", "synchronize_event"), "tegula.runtime.cuda.stream"
    ),
    **dict.fromkeys(("wait_event", "wait_stream"), "tegula.runtime.cuda.stream"),
    **dict.fromkeys(
        ("Graph", "ScopedCapture", "capture_begin", "capture_end", "capture_launch"),
        "tegula.runtime.cuda.graph",
    ),
}
"""Public names by the module that defines them."""


def lookup(name: str) -> Any:
    """The public object of a name; AttributeError if there is none.

    Functions that work only inside kernels are created on first use."""
    if name in MODULES:
        return import_module(MODULES[name])
    if name in LAZY:
        try:
            return getattr(import_module(LAZY[name]), name)
        except ModuleNotFoundError as error:
            raise AttributeError(f"tegula.{name} needs a package that is not installed: {error}") from error
    if name in PUBLIC:
        from tegula.ops.documented import documentation

        wrapper = StackFunction if name == "tile_stack" else PublicFunction
        return wrapper(name, documentation(name), _signature(PUBLIC[name], skip=1))
    if not name.startswith("_"):
        from tegula.runtime.library import documentation as of_library
        from tegula.runtime.library import library

        function = library().get(name)
        if function is not None:
            return PublicFunction(name, of_library(function), _library_signature(function))
        inside = [f for f in PUBLIC if f.startswith(name + ".")]
        if inside:
            return PublicNamespace(name, {f.partition(".")[2]: lookup(f) for f in inside})
    import sys

    # Python adds the most similar name when it prints the error.
    raise AttributeError(f"tegula has no name {name!r}", name=name, obj=sys.modules["tegula"])


def public_names() -> list[str]:
    """All names of the package, including functions that work only inside kernels, without the parts whose required
    library is not installed."""
    from importlib.util import find_spec

    from tegula.runtime.library import library

    functions = (name.partition(".")[0] for name in (*PUBLIC, *library()))
    absent = {f"tegula.{part}" for part in OPTIONAL if find_spec(part) is None}
    lazy = (name for name, module in LAZY.items() if module not in absent)
    return sorted({*NAMES, *lazy, *MODULES, *(name for name in functions if name[0] != "_")})


def _library_signature(f: Any) -> inspect.Signature:
    """The signature with which kernels call a function of the library."""
    if len(f.definitions) == 1:
        return _signature(f.definition.function, skip=0)
    each = [[p.name for p in overload.definition.parameters] for overload in f.definitions]
    # Parameters after the common leading parameters of all definitions are passed by name if their positions differ.
    shared = next((k for k, names in enumerate(zip(*each, strict=False)) if len({*names}) > 1), None)
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(
            p.name, kinds[f.positions_differ and p.name not in each[0][:shared]], default=p.default
        )
        for p in f.all_parameters
    ]
    return inspect.Signature(sorted(parameters, key=lambda p: (p.kind, p.default is not p.empty)))


def _signature(function: Callable[..., Any], skip: int) -> inspect.Signature:
    """The signature with which kernels call a function: parameters and defaults, without the builder of ops that the
    function may take."""
    parameters = [*inspect.signature(function).parameters.values()][skip:]
    return inspect.Signature([p.replace(annotation=inspect.Parameter.empty) for p in parameters])


__all__ = [
    *(
        "BrokenPromise",
        "CompileError",
        "Deadlock",
        "Device",
        "DivisionByZero",
        "KernelAssertion",
        "LaunchError",
        "OutOfBounds",
    ),
    *("RunError", "ScopedDevice", "TegulaError", "TuningError"),
    *("array", "array1d", "array2d", "array3d", "array4d", "clone", "config", "constant", "copy", "empty"),
    *(
        "elect",
        "empty_like",
        "from_dlpack",
        "from_numpy",
        "full",
        "full_like",
        "func",
        "func_grad",
        "func_native",
        "func_replay",
        "get_device",
        "get_devices",
    ),
    *(
        "Kernel",
        "is_cpu_available",
        "kernel",
        "launch",
        "launch_tiled",
        "lookup",
        "ones",
        "ones_like",
        "persistent_tiles",
        "pipelined",
        "role",
        "set_device",
        "static",
        "tid",
        "unrolled",
        "ws",
    ),
    *(
        "get_cuda_device",
        "get_cuda_device_count",
        "get_cuda_devices",
        "get_preferred_device",
        "is_cuda_available",
    ),
    *("synchronize", "synchronize_device", "tile", "zeros", "zeros_like"),
]
