"""`@kernel`, `@func`, `static` and `constant`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import FrameType
from typing import Any, NoReturn, TypeVar, overload

from tegula.dataclass import dataclass, field_names
from tegula.errors import LaunchError, UnsupportedPython, WrongArguments, suggestion
from tegula.ir import AccessClass, Kernel, LaunchClass
from tegula.lang.definition import Definition, FuncDef, Parameter
from tegula.lang.named import Named
from tegula.lang.prompt_text import is_typed
from tegula.source import Location
from tegula.types import Type

T = TypeVar("T")


PROOF, BOUNDED = "proof", "bounded"
WITHOUT_EFFECT = ("name", "cuda_max_registers", "enable_cuda_smem_spilling", "cluster_dim")
"""Options of `@kernel` that other tile languages have: accepted without effect."""
MODULE_OPTIONS = (
    *(
        "enable_backward",
        "mode",
        "block_dim",
        "fast_math",
        "max_unroll",
        "lineinfo",
        "quiet",
        "verbose",
        "log_level",
    ),
    *("verify_fp", "verify_cuda", "enable_cpu_blocks", "default_grid_stride"),
)
MATHDX = "enable_mathdx_"
"""The options that `module_options=` and `tg.config` accept, besides all names that begin with MATHDX."""


def known_module_option(name: str) -> bool:
    """Whether a name is a module option of other tile languages."""
    return name in MODULE_OPTIONS or name.startswith(MATHDX)


def kernel_options(options: Mapping[str, Any], caller: FrameType) -> KernelOptions:
    """The options of `@kernel(...)`. WrongArguments, at the line of the decorator, for an unknown option."""
    known = field_names(KernelOptions)
    location = Location(caller.f_code.co_filename, caller.f_lineno)
    module_options = options.get("module_options")
    for name in module_options or () if isinstance(module_options, Mapping) else ():
        if not known_module_option(name):
            raise unknown_option("module_options", name, MODULE_OPTIONS, location)
    accepted = (*WITHOUT_EFFECT, "module_options")
    for name in options:
        if name not in known and name not in accepted:
            raise unknown_option("tg.kernel", name, (*known, "source", *accepted), location)
    return KernelOptions(**{name: value for name, value in options.items() if name in known})


def unknown_option(context: str, name: str, known: Sequence[str], location: Location) -> WrongArguments:
    """The error for an unknown option, with the most similar known one."""
    return WrongArguments(location, what=f"{context} has no option '{name}'", help=suggestion(name, known))


@dataclass(frozen=True, slots=True)
class KernelOptions:
    """The options of `@kernel(...)`. `check`: the requirement on schedules, PROOF or BOUNDED. `launch_bounds` and
    `grid_stride` are accepted without effect on results. The keywords of SCHEDULE override the choices of automatic
    schedules (docs/schedules.md)."""

    enable_backward: bool | None = None
    module: object = None
    block_dim: int | None = None
    launch_bounds: int | tuple[int, ...] | None = None
    grid_stride: bool | None = None
    check: str = PROOF
    specialize: bool | None = None
    consumers: int | None = None
    stages: int | None = None
    registers: int | None = None
    persistent: bool | None = None
    raster: int | None = None

    def bounded(self, name: str) -> bool:
        """Whether an unproved schedule is accepted; LaunchError for an invalid value of `check`."""
        if self.check not in (PROOF, BOUNDED):
            help = f"'{BOUNDED}' accepts a schedule without a proof if no simulated launch has a fault"
            raise LaunchError(
                f"kernel {name}: check= must be '{PROOF}' or '{BOUNDED}', got {self.check!r}", help
            )
        return self.check == BOUNDED

    def schedule(self, name: str) -> dict[str, int | bool]:
        """The keywords of SCHEDULE that the user has set; LaunchError for an invalid value."""
        options: dict[str, int | bool] = {}
        for key, allowed in SCHEDULE.items():
            value = getattr(self, key)
            if value is None:
                continue
            if type(value) is not type(allowed[0]) or value not in allowed:
                flags = isinstance(allowed[0], bool)
                words = "True or False" if flags else f"from {allowed[0]} to {allowed[-1]}"
                if key == "registers":
                    words += ", a multiple of 8"
                raise LaunchError(
                    f"kernel {name}: {key}= must be {words}, got {value!r}", "docs/schedules.md lists them"
                )
            options[key] = value
        return options


SCHEDULE: dict[str, Sequence[int]] = {
    "specialize": (False, True),
    "consumers": range(1, 4),
    "stages": range(1, 65),
    "registers": range(24, 257, 8),
    "persistent": (False, True),
    "raster": range(1, 1025),
}
"""The keywords that override automatic schedules, and their values."""


class KernelDef(Named):
    """A kernel: a Python function that is traced for the types of a launch's arguments."""

    def __init__(self, definition: Definition, options: KernelOptions) -> None:
        self.definition = definition
        self.options = options
        self.name = definition.name
        self.__doc__ = definition.function.__doc__
        self.__name__ = definition.name
        self.__module__ = definition.function.__module__
        self.__wrapped__ = definition.function

    @property
    def parameters(self) -> list[Parameter]:
        """The declared names, annotations and defaults; raises an error for an annotation that is not a type."""
        return self.definition.parameters

    def trace(
        self,
        param_types: Sequence[Type],
        launch: LaunchClass,
        access: Sequence[AccessClass | None] = (),
        library: Mapping[str, FuncDef] | None = None,
    ) -> Kernel:
        """The IR of this kernel for parameter types and a launch class; CompileError for an invalid program."""
        from tegula.lang.kernel import trace  # the tracer is loaded for the first kernel that is traced

        kernel = trace(self.definition, param_types, launch, access, library)
        kernel.schedule = self.options.schedule(self.name)
        kernel.bounded = self.options.bounded(self.name)
        return kernel

    @cached_property
    def has_roles(self) -> bool:
        """Whether the kernel's source has roles. SourceNotFound if the source is not available."""
        return any(isinstance(s, ast.With) for s in ast.walk(self.definition.source.tree))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LaunchError(
            f"{self.name} is a kernel and cannot be called", f"tg.launch({self.name}, dim=..., inputs=[...])"
        )

    def __repr__(self) -> str:
        return f"<tegula kernel {self.name}>"


@overload
def kernel(function: Callable[..., Any], /) -> KernelDef: ...
@overload
def kernel(
    function: None = None,
    /,
    *,
    enable_backward: bool | None = None,
    module: object = None,
    block_dim: int | None = None,
    launch_bounds: int | tuple[int, ...] | None = None,
    grid_stride: bool | None = None,
    check: str = PROOF,
    specialize: bool | None = None,
    consumers: int | None = None,
    stages: int | None = None,
    registers: int | None = None,
    persistent: bool | None = None,
    raster: int | None = None,
    source: str | None = None,
    **accepted: Any,
) -> Callable[[Callable[..., Any]], KernelDef]: ...
def kernel(function: Any = None, /, *, source: str | None = None, **options: Any) -> Any:
    """Make a Python function a kernel, with or without arguments.

    `enable_backward`: whether gradients may be computed; `block_dim`: the default block size; `source`: the text of the
    function if Python does not keep it (exec)."""

    parsed_options = kernel_options(options, sys._getframe(1))

    def wrap(f: Callable[..., Any]) -> KernelDef:
        return KernelDef(Definition(f, source), parsed_options)

    return wrap if function is None else wrap(function)


def func(function: Any = None, /, *, source: str | None = None, **options: Any) -> Any:
    """Makes a Python function callable from kernels; a decorator with or without arguments.

    Definitions of one name in one scope are overloads, which differ in the types of their parameters; a definition with
    the same types replaces the earlier definition. Objects created before the redefinition keep their definitions.

    Parameters:
        function: the function; None for a decorator with arguments. Parameters without annotation, or with Any, take
            every type.
        source: the text of the function where Python does not keep it (exec).
        **options: `name` and `module` are accepted and change nothing.
    Returns:
        a function, which Python can call too.
    Raises:
        wrong-arguments: an option is unknown.
        TypeError: the decorated object is not a function defined with `def`.
    Gradient:
        derived, unless tg.func_grad sets the adjoint.
    """
    scope = sys._getframe(1)
    for option in options:
        if option not in ("name", "module"):  # accepted without effect
            location = Location(scope.f_code.co_filename, scope.f_lineno)
            raise unknown_option("tg.func", option, ("source", "name", "module"), location)

    def wrap(f: Callable[..., Any]) -> FuncDef:
        definition = Definition(f, source)
        return FuncDef(definition, _earlier_overloads(definition, scope), id(scope))

    return wrap if function is None else wrap(function)


def func_grad(forward: FuncDef, *, source: str | None = None) -> Callable[[Callable[..., Any]], FuncDef]:
    """Sets the gradient of a function; a decorator.

    Parameters:
        forward: a @tg.func of scalars, vectors and matrices.
        source: the text of the function where Python does not keep it (exec).
    Returns:
        a decorator of a function whose parameters are those of `forward`, then the adjoint of each result that is a
        float; the function adds the increment of the adjoint of argument x to tg.adjoint[x].
    Raises:
        TypeError: `forward` is not a @tg.func.
    """

    def wrap(f: Callable[..., Any]) -> FuncDef:
        _check_function(forward, "func_grad")
        forward.gradient = FuncDef(Definition(f, source))
        return forward.gradient

    return wrap


class _Adjoints:
    """In a function that tg.func_grad decorates, the adjoint of a parameter: `tg.adjoint[x] += 2.0 * a`."""

    def __getitem__(self, x: Any) -> Any:
        raise LaunchError("tg.adjoint works inside functions of tg.func_grad only", "decorate the function")

    def __repr__(self) -> str:
        return "<tegula adjoints>"


adjoint: Any = _Adjoints()


def func_replay(forward: FuncDef, *, source: str | None = None) -> Callable[[Callable[..., Any]], FuncDef]:
    """Sets the function that gradients run to recompute the results of another function; a decorator.

    Parameters:
        forward: a @tg.func, a function that must not run twice.
        source: the text of the function where Python does not keep it (exec).
    Returns:
        a decorator of a function of the same parameters and results.
    Raises:
        TypeError: `forward` is not a @tg.func.
    """

    def wrap(f: Callable[..., Any]) -> FuncDef:
        _check_function(forward, "func_replay")
        forward.replay = FuncDef(Definition(f, source))
        return forward.replay

    return wrap


def _check_function(f: object, decorator: str) -> None:
    if not isinstance(f, FuncDef):
        raise TypeError(f"{decorator} takes a function made with @tg.func, got {f!r}")


def _earlier_overloads(definition: Definition, scope: FrameType) -> tuple[FuncDef, ...]:
    """The earlier overloads of a new definition: the previous definitions of the same name in the same scope.

    Other objects bound to the name (a function from another module or from a factory, another function's object) are
    replaced, as in Python. A definition further down in the file, or in another version of the file, is replaced too,
    because the module, cell or loop is then running again. Text that is typed at the prompt never runs again."""
    function = definition.function
    known = scope.f_locals.get(function.__name__)
    if not isinstance(known, FuncDef):
        return ()
    before = known.definition.function
    same = before.__globals__ is function.__globals__ and before.__qualname__ == function.__qualname__
    if not same or (scope.f_locals is not scope.f_globals and known.frame != id(scope)):
        return ()
    last, code = before.__code__, function.__code__
    if is_typed(code.co_filename) and is_typed(last.co_filename):
        return known.definitions
    redefined = (
        known.definition.written is not definition.written or code.co_firstlineno <= last.co_firstlineno
    )
    if last.co_filename != code.co_filename or redefined:
        return ()
    return known.definitions


def constant(x: T) -> T:
    """Marks a value that kernels capture as a compile-time constant.

    Parameters:
        x: the value.
    Returns:
        the value itself.
    Raises:
        nothing.
    Gradient:
        none: the result is a constant.
    """
    return x


def static(x: T) -> T:
    """In a kernel, an expression that Python evaluates when the kernel is compiled.

    Parameters:
        x: the expression, of names from outside of the kernel and of constants.
    Returns:
        the value of the expression, a constant.
    Raises:
        unrolled-too-far: a loop over the value would be unrolled more than 4096 times.
    Gradient:
        none: the result is a constant.
    """
    return x


def pipelined(*bounds: int, stages: int = 3, specialize: bool = True) -> range:
    """The range of a loop in which GPUs may fetch tiles ahead, for tiles that are loaded for matmuls.

    Parameters:
        *bounds: as of range: (stop), (start, stop) or (start, stop, step), integers; the step is a constant.
        stages: the number of tiles that may be in flight, from 1 to 8; 3 by default.
        specialize: whether a role of its own may fetch the tiles, if the GPU has matmuls of warp groups
            (docs/schedules.md); True by default.
    Returns:
        range(*bounds), with a hint that changes no result and that the CPU ignores.
    Raises:
        wrong-arguments: `stages` is not a constant from 1 to 8, or `specialize` is not a constant bool.
        not-constant: the step is known at run time only.
        TypeError: outside of kernels: a bound is not an integer.
    Gradient:
        of the body, as of a loop over range(*bounds).
    """
    return range(*bounds)


def unrolled(*bounds: int) -> range:
    """The range of a loop that is unrolled completely; the index is a constant of the machine code.

    The compiler's passes process one body, so that the loop takes little longer to compile than a loop over
    range(*bounds). In the body the index is not a compile-time constant, so that extents and bounds of slices cannot
    depend on it.

    Parameters:
        *bounds: as of range: constants that give at most 4096 iterations.
    Returns:
        range(*bounds); it changes no result.
    Raises:
        not-constant: the bounds are known at run time only.
        unrolled-too-far: there are more than 4096 iterations.
        unsupported-python: the loop is left by break or return.
        TypeError: outside of kernels: the bounds are not integers.
    Gradient:
        of the body, as of a loop over range(*bounds).
    """
    return range(*bounds)


def persistent_tiles(grid: tuple[int, int], raster: int = 8) -> NoReturn:
    """In a kernel, a loop over the block's output tiles of a grid: `for i, j in tg.persistent_tiles((rows, columns))`.

    Block b of G takes every G-th tile from the b-th on. Every role of a block has the same tiles in the same
    order.

    Parameters:
        grid: the numbers of rows and columns of tiles, integers.
        raster: the number of rows of a group, in which tiles are numbered column by column, a constant int; 8 by
            default.
    Returns:
        pairs (i, j) of int32: the row and the column of a tile.
    Raises:
        launch: outside of kernels.
        wrong-arguments: `grid` is not a pair, or `raster` is not a positive constant.
        assertion: there are more than 2**31 - 1 tiles.
    Gradient:
        of the body, as of a launch with a block for each tile: see docs/gradients.md.
    """
    raise LaunchError("tg.persistent_tiles works in kernels only", "loop over range(...) here")


def ws(*groups: int, registers: int = 0) -> NoReturn:
    """In a kernel, a role of whole warp groups of 128 threads: `with tg.ws(1, 2):`.

    Parameters:
        *groups: the indices of the warp groups, constants, which must be consecutive.
        registers: registers per thread, a multiple of 8 from 24 to 256; 0, the default: the compiler chooses.
    Raises:
        launch: outside of kernels.
        role-placement: the role is not at the top level at the end of a kernel.
        role-groups: the groups are not consecutive, or have another role.
        role-registers: the registers are more than the hardware has.
    Gradient:
        of the kernel without roles: see docs/gradients.md.
    Source:
        PTX ISA, setmaxnreg.
    """
    raise LaunchError("tg.ws works in kernels only", "write 'with tg.ws(...):' in a kernel")


def role(name: str, warps: int = 0, warp_groups: int = 0, registers: int = 0) -> NoReturn:
    """In a kernel, a role with a number of warps, placed by the compiler: `with tg.role("load", warps=1):`.

    Parameters:
        name: the name, for messages.
        warps: the number of warps of 32 threads.
        warp_groups: the number of groups of 4 warps, an alternative to `warps`.
        registers: registers per thread, a multiple of 8 from 24 to 256; 0, the default: the compiler chooses. Roles
            that share a warp group have the same number.
    Raises:
        launch: outside of kernels.
        role-placement: the role is not at the top level at the end of a kernel.
        role-groups: there are not enough warps.
        role-registers: the registers are more than the hardware has.
    Gradient:
        of the kernel without roles: see docs/gradients.md.
    Source:
        PTX ISA, setmaxnreg.
    """
    raise LaunchError("tg.role works in kernels only", "write 'with tg.role(...):' in a kernel")


def tid() -> NoReturn:
    """In a kernel, the index of this thread in the launch: `i = tg.tid()`, or `i, j = tg.tid()` for a launch of two
    dimensions.

    The number of leading indices is the number of names. `tg.launch_tiled` adds a last dimension, the index of the
    thread in its block.

    Returns:
        an int32 from 0, or 1 to 4 of them, one for each name.
    Raises:
        launch: outside of kernels.
        wrong-arguments: the call has arguments, or there are more names than dimensions of the launch.
        unsupported-python: the call is in a cooperative function, which takes indices as parameters.
    Gradient:
        none: the result is an integer.
    Source:
        CUDA's blockIdx and threadIdx.
    """
    raise LaunchError("tg.tid works in kernels only", "write 'i = tg.tid()' in a kernel")


def elect() -> NoReturn:
    """In a role, a condition that is true in one elected thread: `if tg.elect():`.

    Returns:
        a bool, true in one thread of the role.
    Raises:
        launch: outside of kernels.
        elected-body: the branch has other code than barriers, asynchronous copies, waits, and loops around these.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, elect.sync.
    """
    raise LaunchError("tg.elect works in kernels only", "write 'if tg.elect():' in a role of a kernel")


def func_native(snippet: str, *args: Any, **options: Any) -> NoReturn:
    """Refuses functions in another language.

    Parameters:
        snippet: the text.
        *args: anything.
        **options: anything.
    Raises:
        unsupported-python: always.
    """
    caller = sys._getframe(1)
    location = Location(caller.f_code.co_filename, caller.f_lineno)
    help = "write the function in the language, as a @tg.func"
    raise UnsupportedPython(location, what="source text of another language (func_native)", help=help)


constant.__tegula_builtin__ = "constant"
pipelined.__tegula_builtin__ = "pipelined"
unrolled.__tegula_builtin__ = "unrolled"
static.__tegula_builtin__ = "static"
persistent_tiles.__tegula_builtin__ = "persistent_tiles"
ws.__tegula_builtin__ = "ws"
role.__tegula_builtin__ = "role"
elect.__tegula_builtin__ = "elect"
tid.__tegula_builtin__ = "tid"

__all__ = [
    *(
        "FuncDef",
        "KernelDef",
        "KernelOptions",
        "constant",
        "elect",
        "func",
        "func_grad",
        "func_native",
        "func_replay",
        "kernel",
        "persistent_tiles",
        "pipelined",
        "role",
        "static",
        "tid",
        "unrolled",
        "ws",
    ),
]
