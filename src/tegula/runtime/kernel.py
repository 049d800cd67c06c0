"""`@tg.kernel`: kernels for launches, with inspection of their compiled forms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from tegula.collection import paused_collection
from tegula.dataclass import dataclass
from tegula.errors import LaunchError, TypeMismatch
from tegula.ir import AccessClass, LaunchClass
from tegula.lang.annotations import ANY, Annotation, ArrayAnnotation
from tegula.lang.captures import Captured, refresh, unchanged
from tegula.lang.constants import takes_constant
from tegula.lang.decorators import KernelDef, KernelOptions, kernel_options
from tegula.lang.definition import ANNOTATIONS, Definition, Parameter
from tegula.lang.structs import leaves_of
from tegula.runtime.argument_flattening import Flattener, make_flattener
from tegula.runtime.config import config
from tegula.runtime.device import CPU, Device
from tegula.runtime.fast_path import FastPath, Ready, make_fast_path
from tegula.runtime.pack import Packer, packer
from tegula.types import Type, is_element

if TYPE_CHECKING:
    from tegula.check.verdict import Verdict
    from tegula.passes.specialise import BlockCosts
    from tegula.runtime.fast_path import Form
    from tegula.runtime.inspection import CudaInspection, Inspection
    from tegula.runtime.modules import Module

SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Specialisation:
    """The properties of a launch for which a form of a kernel is compiled. `grid`: the grid of blocks of a launch on a
    GPU, for which the scale of the launch class is still to be chosen."""

    types: tuple[Type, ...]
    launch: LaunchClass
    access: tuple[AccessClass | None, ...]
    device: Device = CPU
    grid: tuple[int, ...] = ()


class Forms:
    """The compiled forms of a kernel for one specialisation, one for each state of the captures."""

    def __init__(self, kernel: Kernel, specialisation: Specialisation) -> None:
        self.kernel = kernel
        self.specialisation = specialisation
        self.compiled: list[Form] = []

    def current(self, blocks: int | None = None) -> Form:
        """The form for the current values of captured names, compiled on demand. `blocks`: the number of blocks of the
        launch, None for many."""
        for form in self.compiled:
            if all(map(unchanged, form.captured)):
                form.captured = tuple(map(refresh, form.captured))
                return form
        with paused_collection():
            form = self._form_for_grid() if self.specialisation.grid else self._compile(blocks)
        self.compiled.append(form)
        return form

    def _form_for_grid(self) -> Form:
        """The form with the fastest logical blocks for the grid; launches of other grids may share this form."""
        from tegula.runtime.block_scales import with_scale

        return self.kernel.forms_for(with_scale(self.kernel, self.specialisation)).current()

    def _compile(self, blocks: int | None) -> Form:
        from tegula.runtime.compile import compile_kernel

        specialisation = self.specialisation
        form = compile_kernel(
            self.kernel,
            specialisation.types,
            specialisation.launch,
            specialisation.access,
            specialisation.device,
            blocks,
        )
        self.kernel.last_specialisation = self.specialisation
        self.kernel.origin.last_compiled = self.kernel
        return form


class KernelChoice:
    """A substitute for a kernel in launches, which chooses a kernel for the arguments."""

    name: str
    parameters: list[Parameter]

    def choose(
        self,
        dim: Any,
        args: tuple[Any, ...],
        block_dim: int | None,
        tiled: bool,
        device: Device | str | None = None,
        stream: Any = None,
    ) -> tuple[Kernel, Any, int | None]:
        """The kernel to launch, with its dimensions and threads per block (None: the kernel's own)."""
        raise NotImplementedError


class Kernel(KernelDef):
    """A kernel. Launch it with `tg.launch` or `tg.launch_tiled`."""

    takes_constants = False
    constant_positions: frozenset[int] = frozenset()
    """The positions of the parameters that take constants."""

    def __new__(cls, func: Any, *arguments: Any, **options: Any) -> Self:
        kind: Any = cls
        if cls is Kernel:
            definition = _definition(func)
            if definition.takes_constants or definition.has_compounds:
                kind = GenericKernel
        return object.__new__(kind)

    def __init__(
        self,
        func: Definition | Callable[..., Any],
        options: KernelOptions | None = None,
        origin: Kernel | None = None,
        key: str | None = None,
        module: object = None,
    ) -> None:
        """`func`: the decorated function; `origin`: the kernel of which this kernel is a variant with bound parameters;
        `key`: the kernel's name in messages; `module`: the kernel's module."""
        super().__init__(_definition(func), options or KernelOptions(module=module))
        self.name = key or self.name
        self.origin: Kernel = self if origin is None else origin
        self.last_compiled: Kernel = self
        """The kernel whose form was compiled last: this kernel, or a variant with bound parameters."""
        self.variants: dict[Hashable, Kernel] = {}
        """Kernels with bound parameters, by the values (see `runtime.arguments`)."""
        self.block_costs: dict[Any, list[tuple[tuple[Captured, ...], BlockCosts]]] = {}
        """The costs of blocks of all sizes, by specialisations and states of the captures (see `block_scales`)."""
        self.forms: dict[Any, Forms] = {}
        """Compiled forms, by the keys that `resolve` makes from the arguments."""
        self.ready: Ready = {}
        self.cached_reads: dict[Form, list[int]] = {}
        """The positions of the arrays that compiled forms may read, cached for tapes (see `records.read`)."""
        self.last_specialisation: Specialisation | None = None
        self.native: Any = None
        """The machine code for launches on GPUs (see `runtime.cuda.native`); None before the first launch in Python."""
        self.written: frozenset[int] = frozenset()
        """The positions of the arrays that launches in machine code may write."""
        self.adjoints: dict[tuple[int, ...], Any] = {}
        """The adjoint kernels, by the positions of the arrays that have gradients."""
        self.role_threads: list[tuple[tuple[Captured, ...], int | None]] = []
        """The block sizes that the roles need, by the state of the captures (see `resolve.role_threads`)."""
        self._forms: dict[Any, Forms] = {}
        self._leaf_kernels: dict[tuple[Annotation, ...] | None, Kernel] = {}
        """Leaf kernels, by the types of the parameters; None for the declared types."""
        self._packers: list[Packer] | None = None

    @property
    def key(self) -> str:
        """The kernel's name in messages."""
        return self.name

    @property
    def module(self) -> Module:
        """The module of the kernel: the module of its function, or the `module` option."""
        from tegula.runtime.modules import Module, get_module

        named_module = self.options.module
        name = named_module if isinstance(named_module, str) and named_module != "unique" else self.__module__
        return named_module if isinstance(named_module, Module) else get_module(name)

    def bind(self, **values: Any) -> Kernel:
        """The kernel specialised for values of some of its parameters.

        Parameters:
            **values: constants, by the names of parameters that are annotated with tg.constexpr, or None for
                arrays.
        Returns:
            a kernel of the other parameters, the same object for the same values.
        Raises:
            launch: there is no such parameter, or it does not take the value.
        """
        from tegula.runtime.arguments import bind

        return bind(self, values)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is self:
            return super().__reduce__()
        return _bind_values, (self.origin, self.definition.bound)

    @property
    def packers(self) -> list[Packer]:
        """The packer of each argument, which checks and packs it."""
        if self._packers is None:
            for p in self.parameters:
                self._check_parameter(p)
            self._packers = [packer(p) for p in self.parameters]
        return self._packers

    @cached_property
    def fast_path(self) -> FastPath:
        """The fast path of the kernel's launches (see `runtime.fast_path`)."""
        return make_fast_path(self.parameters, self.ready)

    @cached_property
    def is_compound(self) -> bool:
        """Whether there are compound parameters (structs or indexed arrays), which launches flatten to leaves."""
        return leaves_of(self.definition) is not self.definition

    def kernel_of_leaves(self, annotations: tuple[Annotation, ...] | None = None) -> Kernel:
        """The leaf kernel: the kernel whose parameters are the leaves of the compound parameters.

        Parameters:
            annotations: the type of each parameter where some are not annotated; None for the declared types.
        Returns:
            a kernel, the same for the same types.
        Raises:
            nothing.
        """
        cached = self._leaf_kernels.get(annotations)
        if cached is None:
            definition = self.definition if annotations is None else self.definition.typed(annotations)
            cached = self._leaf_kernels[annotations] = variant(self, leaves_of(definition))
        return cached

    def _check_parameter(self, p: Parameter) -> None:
        """TypeMismatch for an annotation of a type that launches cannot pass."""
        if p.annotation is ANY or isinstance(p.annotation, ArrayAnnotation) or is_element(p.annotation):
            return
        name = getattr(p.annotation, "__name__", str(p.annotation))
        message = f"the annotation of '{p.name}' is {name}, which a launch cannot pass"
        raise TypeMismatch(self.definition.parameter_location(p.name), what=message, help=ANNOTATIONS)

    def forms_for(self, specialisation: Specialisation) -> Forms:
        """The compiled forms for a specialisation in the current modes.

        Parameters:
            specialisation: the types of the arguments, the class of the launch, how arrays are accessed, and the
                device.
        Returns:
            the forms, possibly none yet.
        Raises:
            nothing.
        """
        key = (specialisation, config.code)
        return self._forms.setdefault(key, Forms(self, specialisation))

    @property
    def compiled(self) -> list[Form]:
        """All forms that were compiled or read from the disk cache, in this order; forms of variants with bound
        parameters last."""
        own_forms = [*dict.fromkeys(form for forms in self._forms.values() for form in forms.compiled)]
        other_kernels = dict.fromkeys([*self._leaf_kernels.values(), *self.variants.values()])
        return own_forms + [form for variant in other_kernels for form in variant.compiled]

    def unload(self) -> None:
        """Forgets all compiled forms of the kernel.

        Raises:
            nothing.
        """
        self.native = None
        self.ready.clear()
        self.cached_reads.clear()
        self.forms.clear()
        self.block_costs.clear()
        self.adjoints.clear()
        self._forms.clear()
        self._leaf_kernels.clear()
        self.role_threads.clear()
        self.variants.clear()
        self.last_specialisation, self.last_compiled = None, self

    # Inspection -----------------------------------------------------------------------------------------------------

    def stages(self) -> dict[str, str]:
        """The IR of the form compiled last, after each pass, as text.

        Returns:
            a dictionary of texts by the name of the pass; "source" is the IR from the frontend.
        Raises:
            launch: the kernel was not launched yet.
        """
        return self._inspect().stages

    def ir(self, stage: str = SOURCE) -> str:
        """The IR of the form compiled last, after a pass.

        Parameters:
            stage: the name of the pass, a string; by default "source", the IR from the frontend.
        Returns:
            the text.
        Raises:
            launch: the kernel was not launched yet.
            ValueError: there is no such stage.
        """
        stages = self.stages()
        if stage not in stages:
            raise ValueError(f"there is no compilation stage {stage!r}; stages: {', '.join(stages)}")
        return stages[stage]

    def llvm(self) -> str:
        """The LLVM IR of the form compiled last.

        Returns:
            the text.
        Raises:
            launch: the kernel was not launched yet.
        """
        return self._inspect().code.text

    def assembly(self) -> str:
        """The machine code of the form compiled last as text; PTX for a GPU.

        Returns:
            the text.
        Raises:
            launch: the kernel was not launched yet.
        """
        return self._inspect().assembly()

    def ptx(self) -> str:
        """The PTX of the form compiled last.

        Returns:
            the text.
        Raises:
            launch: the kernel was not launched yet, or last on the CPU.
        """
        return self._inspect_for_gpu().assembly()

    def sass(self) -> str:
        """The machine code of the form compiled last, for a GPU.

        Returns:
            the text.
        Raises:
            launch: the kernel was not launched yet, or last on the CPU.
            RuntimeError: there is no ptxas or no disassembler (CUDA's toolkit).
        """
        return self._inspect_for_gpu().machine_code().sass()

    def explain(self) -> str:
        """An explanation of the form compiled last as text.

        Returns:
            a text: launch class, arguments, lane loops, memory of each tile; for a GPU also threads, shared memory,
            registers, and for each matmul the unit that computes it, and why it is not a wgmma.
        Raises:
            launch: the kernel was not launched yet.
        """
        return self._inspect().text()

    def check(self, *types: Any, block_dim: int | None = None, target: str = "sm_90a") -> Verdict:
        """Checks the schedule of the roles of the kernel: by a proof for every launch, or by exploration of some
        launches.

        Parameters:
            *types: the types of the arguments, written as annotations; by default the parameters' annotations.
            block_dim: the number of threads in a block; by default the block size of the kernel.
            target: the name of the GPU's architecture, "sm_90a" by default. No GPU is needed.
        Returns:
            a verdict, whose `status` is the answer (docs/checker.md).
        Raises:
            RuntimeError: the kernel cannot be compiled for the GPU (tg.CompileError).
            ValueError: there is no such target.
            TypeError: a type is not a type of the language.
        """
        from tegula.runtime.check import check_kernel

        return check_kernel(self, types, block_dim, target)

    def _inspect(self) -> Inspection | CudaInspection:
        from tegula.runtime.inspection import inspect

        return inspect(self.last_compiled, self.last_compiled._require_specialisation())

    def _inspect_for_gpu(self) -> CudaInspection:
        from tegula.runtime.inspection import CudaInspection

        inspection = self._inspect()
        if not isinstance(inspection, CudaInspection):
            help = "launch the kernel with arrays on a GPU first; assembly() shows CPU code"
            raise LaunchError(f"kernel {self.name} was last compiled for a CPU", help)
        return inspection

    def _require_specialisation(self) -> Specialisation:
        if self.last_specialisation is None:
            raise LaunchError(f"kernel {self.name} has not been compiled yet", "launch the kernel first")
        return self.last_specialisation


class GenericKernel(Kernel):
    """A kernel with constants, structs or indexed arrays as parameters. Launches bind constants, flatten the other
    arguments to leaves, and run the kernel of the leaves."""

    def __init__(self, func: Any, *arguments: Any, **options: Any) -> None:
        super().__init__(func, *arguments, **options)
        self.takes_constants = self.definition.takes_constants

    @cached_property
    def flatten_arguments(self) -> Flattener:
        """The function that flattens arguments to the arguments of the leaf kernel."""
        return make_flattener(self.parameters)

    @cached_property
    def constant_positions(self) -> frozenset[int]:
        """The positions of the parameters that take constants."""
        return frozenset(k for k, p in enumerate(self.parameters) if takes_constant(p.annotation))


def variant(kernel: Kernel, definition: Definition) -> Kernel:
    """A kernel with the same options and a definition with other parameters."""
    return Kernel(definition, kernel.options, kernel.origin, kernel.name)


def _definition(function: Definition | Callable[..., Any]) -> Definition:
    return function if isinstance(function, Definition) else Definition(function)


def _bind_values(origin: Kernel, values: dict[str, Any]) -> Kernel:
    return origin.bind(**values)


def kernel(
    function: Callable[..., Any] | None = None, /, *, source: str | None = None, **options: Any
) -> Any:
    """Makes a Python function a kernel; a decorator with or without arguments.

    Parameters:
        function: the function; None for a decorator with arguments.
        source: the source text of the function, if Python does not keep it (exec).
        **options: `block_dim`: the default number of threads in a block; `enable_backward`: whether there are
            gradients; `check`: "proof" or "bounded", the required check of schedules; `specialize`, `consumers`,
            `stages`, `registers`, `persistent`, `raster`: decisions of automatic schedules (docs/schedules.md).
            `module`, `launch_bounds`, `grid_stride`, `name`, `cuda_max_registers`, `cluster_dim`,
            `enable_cuda_smem_spilling` and `module_options` are accepted and change no result.
    Returns:
        a kernel, for tg.launch.
    Raises:
        wrong-arguments: there is no such option.
        TypeError: the decorated object is not a function made by `def`.
    Gradient:
        derived from the kernel; tg.func_grad sets the adjoint of a function.
    """
    parsed_options = kernel_options(options, sys._getframe(1))

    def wrap(f: Callable[..., Any]) -> Kernel:
        return Kernel(Definition(f, source), parsed_options)

    return wrap if function is None else wrap(function)
