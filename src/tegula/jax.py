"""Kernels as functions that JAX differentiates and compiles into its programs.

    from tegula.jax import function

    norms = function(kernel, dim=len, outputs=lambda x: x[:, 0], block_dim=64, tiled=True)
    jax.jit(jax.grad(lambda x: norms(x).sum()))(x)

Kernels run on the CPU, as callbacks. JAX is loaded by this module, not by `import tegula`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.function import ArrayDescription, KernelFunction, function_of, gradient_dtype
from tegula.runtime.kernel import Kernel
from tegula.runtime.resolve import packed_arguments
from tegula.types import DType, element_type, from_numpy, scalar_of, to_numpy

# Imported by name, so that type checkers do not need JAX.
jax: Any = import_module("jax")

NUMBERS = (bool, int, float, np.generic)


class JaxFunction:
    """A kernel as a function of JAX's arrays. Created by `function`."""

    def __init__(self, function: KernelFunction) -> None:
        self.function = function
        self.__name__ = function.name
        self.__doc__ = function.kernel.definition.function.__doc__

    def __call__(self, *inputs: Any) -> Any:
        """The outputs, which were zero before the launch: one, or a tuple, as described by `outputs`.

        LaunchError for arguments that do not fit; CompileError, with the line, if a gradient is needed that the kernel
        does not have."""
        f = self.function
        described, is_single = f.output_descriptions(inputs)
        outputs = tuple(_Shape(tuple(d.shape), _dtype(f, d.dtype)) for d in described)
        numbers = tuple(_Number(x) if isinstance(x, NUMBERS) else None for x in inputs)
        call = _call(f, f.dims(inputs), numbers, outputs)
        results = call(*[jax.numpy.asarray(x) for x in inputs if not isinstance(x, NUMBERS)])
        return results[0] if is_single else results


def function(
    kernel: Kernel, dim: Any, outputs: Any, *, block_dim: int | None = None, tiled: bool = False
) -> JaxFunction:
    """A kernel as a function of arrays that JAX differentiates in reverse, compiles and maps.

    Inputs are arrays and numbers. Kernels run on the CPU, as callbacks; `vmap` makes one launch after the
    other.

    Parameters:
        kernel: the kernel, whose first parameters are the inputs and whose last ones are the outputs.
        dim: the number of threads in each dimension, or a function of the inputs.
        outputs: a `jax.ShapeDtypeStruct` or an array like the output, or a sequence for a tuple; or a function of the
            inputs that uses only their shapes and dtypes.
        block_dim: the number of threads in a block; as for tg.launch by default.
        tiled: whether there is one block for each element of `dim`, as for tg.launch_tiled; False by default.
    Returns:
        a function of the inputs that creates the outputs, filled with zeros, launches the kernel and returns
        them.
    Raises:
        launch: `kernel` is not a kernel; in calls: the arguments do not fit.
    Gradient:
        the kernel's gradient; refused (no-gradient) where an op has none.
    """
    return JaxFunction(function_of(kernel, dim, outputs, block_dim, tiled))


# Arrays ---------------------------------------------------------------------------------------------------------------


def from_jax(data: Any, dtype: object = None) -> array:
    """A read-only view of a JAX array's memory: JAX arrays are immutable.

    Parameters:
        data: the array of JAX. Complex numbers become vec2f or vec2d.
        dtype: the element type; by default the dtype of `data`. Another scalar type makes a copy.
    Returns:
        an array, on the device of `data`.
    Raises:
        TypeError: `dtype` is not an element type.
        ValueError: `data` does not hold such elements.
        number: a number does not fit the dtype.
    """
    on_host = all(d.platform == "cpu" for d in data.devices())
    return array(np.asarray(data) if on_host else data, dtype, copy=False)


def to_jax(a: array) -> Any:
    """A JAX array with the elements of an array: a view of the array's memory where JAX accepts it, which then must not
    be written any more, else a copy.

    Parameters:
        a: the array; elements of vectors and matrices have their components in the last dimensions.
    Returns:
        a `jax.Array`.
    Raises:
        nothing.
    """
    if a.device.is_cpu and to_numpy(scalar_of(a.dtype)).isbuiltin != 1:
        return jax.numpy.asarray(a.numpy())  # NumPy exports no buffers of ml_dtypes types
    return jax.dlpack.from_dlpack(a.contiguous())


def dtype_to_jax(dtype: object) -> Any:
    """The JAX dtype of a scalar type.

    Parameters:
        dtype: the scalar type.
    Returns:
        a type of `jax.numpy`.
    Raises:
        TypeError: `dtype` is not a scalar type.
    """
    element = element_type(dtype)
    if not isinstance(element, DType):
        raise TypeError(f"{element} is not a scalar type")
    return jax.numpy.dtype(to_numpy(element)).type


def dtype_from_jax(dtype: Any) -> DType:
    """The scalar type of a JAX dtype.

    Parameters:
        dtype: a type of `jax.numpy`, or NumPy's.
    Returns:
        a scalar type.
    Raises:
        ValueError: there is no such scalar type.
    """
    return from_numpy(np.dtype(dtype))


# Parts of functions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Shape:
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def struct(self) -> Any:
        return jax.ShapeDtypeStruct(self.shape, self.dtype)


class _Number:
    """A number argument, known when a JAX program is traced. Numbers of different types are not equal."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.identity = (type(value), repr(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Number) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


def _dtype(f: KernelFunction, dtype: Any) -> np.dtype[Any]:
    """The dtype of an output; LaunchError for a dtype that JAX would convert to another."""
    numpy_dtype = np.dtype(dtype)
    if jax.dtypes.canonicalize_dtype(numpy_dtype) != numpy_dtype:
        help = 'call jax.config.update("jax_enable_x64", True) before the first array is created'
        raise LaunchError(
            f"kernel {f.name}: an output is of {numpy_dtype}, a type that JAX has not enabled", help
        )
    return numpy_dtype


@lru_cache(maxsize=1024)
def _call(
    f: KernelFunction, dims: tuple[int, ...], numbers: tuple[_Number | None, ...], outputs: tuple[_Shape, ...]
) -> Callable[..., tuple[Any, ...]]:
    """The function of arrays that JAX differentiates; the same object for equal calls, so that JAX compiles it once."""
    call = _Call(f, dims, numbers, outputs)
    with_vjp = jax.custom_vjp(call.run)
    with_vjp.defvjp(call.forward, call.backward, symbolic_zeros=True)
    return with_vjp


class _Call:
    """A call as a function of its arrays: its launch dimensions, its numbers and the shapes of its outputs."""

    def __init__(
        self,
        f: KernelFunction,
        dims: tuple[int, ...],
        numbers: tuple[_Number | None, ...],
        outputs: tuple[_Shape, ...],
    ) -> None:
        self.function, self.dims, self.numbers, self.outputs = f, dims, numbers, outputs
        self.count = len(numbers)
        self.positions = [k for k, n in enumerate(numbers) if n is None]
        """The positions of the arrays among the inputs."""
        self.run_once = _refuse_second_gradient(f, self.run)

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """The outputs in a JAX program."""
        # Wrong types raise errors here, while JAX traces, so that the traceback shows the user's line.
        packed_arguments(self.function.kernel, self.arguments_of(_placeholders(arrays)))
        structs = tuple(s.struct for s in self.outputs)
        return jax.pure_callback(self.launch, structs, *arrays, vmap_method="sequential")

    def launch(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        """The callback, which launches the kernel and returns the outputs."""
        args = self.arguments_of([np.asarray(a) for a in arrays])
        self.function.run(self.function.plan(self.dims, args), args, args, self.count)
        outputs = [a.numpy() for a in args[self.count :]]
        return tuple(a.reshape(s.shape) for a, s in zip(outputs, self.outputs, strict=True))

    def arguments_of(self, arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
        """All arguments, with new outputs. Numbers that JAX traces arrive as arrays."""
        f = self.function
        args: list[Any] = [None if n is None else n.value for n in self.numbers]
        for k, a in zip(self.positions, arrays, strict=True):
            args[k] = f.as_array(k, a) if f.is_array(k, a) else a.item()
        outputs = [f.as_array(k, np.zeros(s.shape, s.dtype)) for k, s in enumerate(self.outputs, self.count)]
        return f.arrays([*args, *outputs])

    # Gradients -------------------------------------------------------------------------------------------------------

    def forward(self, *primals: Any) -> tuple[Any, Any]:
        """The outputs, and the residuals: the gradient by the inputs that need one, and the arrays that it reads."""
        f, values = self.function, [p.value for p in primals]
        active = [k for k, p in zip(self.positions, primals, strict=True) if p.perturbed]
        for k, value in zip(self.positions, values, strict=True):
            if k in active and not f.is_array(k, value):
                name = f.kernel.parameters[k].name
                help = "make the parameter an array, or differentiate with respect to other arguments"
                raise LaunchError(
                    f"kernel {f.name}: argument '{name}' is a number, which has no gradient", help
                )
        outputs = self.run_once(*values)
        gradient = _Gradient(self, self.arguments_of(_placeholders(values)), active)
        args = {**dict(zip(self.positions, values, strict=True)), **dict(enumerate(outputs, self.count))}
        return outputs, (gradient, [args[k] for k in gradient.saved])

    def backward(self, residuals: Any, seeds: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients with respect to the inputs; None for inputs without a gradient."""
        gradient, saved = residuals
        grads = [
            jax.numpy.zeros(g.shape, g.dtype) if isinstance(g, jax.custom_derivatives.SymbolicZero) else g
            for g in (seeds[k - self.count] for k in gradient.outputs)
        ]
        gradients = dict(zip(gradient.inputs, gradient.call(*saved, *grads), strict=True))
        return tuple(gradients.get(k) for k in self.positions)


def _refuse_second_gradient(f: KernelFunction, run: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes a gradient and refuses to be differentiated."""

    def refuse(*_: Any) -> Any:
        raise LaunchError(
            f"kernel {f.name}: gradients of gradients are not supported",
            "write the gradient as a kernel of its own",
        )

    guarded = jax.custom_vjp(run)
    guarded.defvjp(refuse, refuse)
    return guarded


def _placeholders(arrays: Sequence[Any]) -> list[np.ndarray]:
    """Arrays of the same shapes and types whose elements are not read; numbers are 0."""
    return [np.empty(a.shape, a.dtype) if a.ndim else np.zeros((), a.dtype) for a in arrays]


@jax.tree_util.register_static
class _Gradient:
    """The gradient of a call by some of its inputs, without array elements. CompileError if there is no gradient."""

    def __init__(self, call: _Call, arrays: tuple[Any, ...], active: Sequence[int]) -> None:
        f = self.function = call.function
        self.plan = f.plan(call.dims, arrays)
        self.inputs = f.differentiable_positions(arrays, active)
        self.outputs = f.differentiable_positions(arrays, range(call.count, len(arrays)))
        self.needs = f.adjoint_needs(self.plan, arrays, (*self.inputs, *self.outputs))
        self.described = f.describe(arrays)
        computed = {k for k in call.positions if not isinstance(self.described[k], ArrayDescription)}
        self.saved = tuple(sorted(self.needs.positions | computed))
        """The positions of the arguments that the adjoint reads: arrays, and numbers that the program computes."""
        self.dtypes = {k: to_numpy(gradient_dtype(arrays[k])) for k in (*self.inputs, *self.outputs)}
        self.shapes = [_Shape(data.shape, data.dtype) for data in (arrays[k].numpy() for k in self.inputs)]
        """The shapes and dtypes of the inputs, which JAX requires of their gradients."""
        self.call = _refuse_second_gradient(f, self.run)

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """The gradients of the inputs in a JAX program, from the saved arrays and the gradients of the outputs."""
        structs = tuple(s.struct for s in self.shapes)
        return jax.pure_callback(self.launch, structs, *arrays, vmap_method="sequential")

    def launch(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        """The callback, which launches the adjoint and returns the gradients."""
        count = len(self.saved)
        saved = {k: np.asarray(a) for k, a in zip(self.saved, arrays[:count], strict=True)}
        inputs = zip(self.inputs, self.shapes, strict=True)
        grads = {k: np.zeros(s.shape, self.dtypes[k]) for k, s in inputs}
        # Copies, because the adjoint clears the gradients of the outputs.
        outputs = zip(self.outputs, arrays[count:], strict=True)
        grads |= {k: np.array(a, self.dtypes[k]) for k, a in outputs}
        described = [
            saved.pop(k).item() if k in saved and not isinstance(a, ArrayDescription) else a
            for k, a in enumerate(self.described)
        ]
        self.function.run_adjoint(self.plan, self.needs, described, saved, grads)
        return tuple(grads[k].astype(s.dtype) for k, s in zip(self.inputs, self.shapes, strict=True))
