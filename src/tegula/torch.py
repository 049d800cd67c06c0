"""Kernels as functions that PyTorch differentiates.

    from tegula.torch import function

    norms = function(kernel, dim=len, outputs=lambda x: x[:, 0], block_dim=64, tiled=True)
    norms(x).sum().backward()

PyTorch is loaded by this module, not by `import tegula`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.function import KernelFunction, function_of, gradient_dtype
from tegula.runtime.kernel import Kernel
from tegula.runtime.launch import LaunchPlan
from tegula.runtime.tensors import dtype_of, torch_name
from tegula.types import DType, VecType, element_type, scalar_of, to_numpy

# Imported by name, so that type checkers do not need PyTorch.
torch: Any = import_module("torch")


class TorchFunction:
    """A kernel as a function of tensors. Created by `function`."""

    def __init__(self, function: KernelFunction) -> None:
        self.function = function
        self.__name__ = function.name
        self.__doc__ = function.kernel.definition.function.__doc__

    def __call__(self, *inputs: Any) -> Any:
        """The outputs, new tensors that were zero before the launch: one, or a tuple, as described by `outputs`.

        LaunchError for arguments that do not fit; CompileError, with the line, if a gradient is needed that the kernel
        does not have."""
        f = self.function
        described, is_single = f.output_descriptions(inputs)
        _check_inputs(f, inputs)
        call = _Call(f, inputs, described)
        differentiable = torch.is_grad_enabled() and any(_needs_gradient(x) for x in inputs)
        results = _Launch.apply(call, *inputs) if differentiable else call.run(inputs)
        return results[0] if is_single else results


def function(
    kernel: Kernel, dim: Any, outputs: Any, *, block_dim: int | None = None, tiled: bool = False
) -> TorchFunction:
    """A kernel as a function of tensors that PyTorch differentiates.

    Inputs are tensors of any strides on one device, and numbers.

    Parameters:
        kernel: the kernel, whose first parameters are the inputs and whose last ones are the outputs.
        dim: the number of threads in each dimension, or a function of the inputs.
        outputs: a tensor like the output, also on "meta", or a sequence of tensors for a tuple; or a function
            of the inputs.
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
    return TorchFunction(function_of(kernel, dim, outputs, block_dim, tiled))


# Arrays ---------------------------------------------------------------------------------------------------------------


def from_torch(
    t: Any,
    dtype: object = None,
    requires_grad: bool | None = None,
    grad: Any = None,
) -> array:
    """An array on the memory of a tensor.

    Parameters:
        t: the tensor, of any strides, on the CPU or a CUDA device. Complex numbers become vec2f or vec2d.
        dtype: the element type; that of the tensor by default. Vector and matrix types take the last one or two
            dimensions, whose elements must be packed.
        requires_grad: whether gradients flow to the array; as for the tensor by default. The array's gradient shares
            memory with the tensor's, which is allocated if the tensor has none.
        grad: a tensor or array for the gradient, instead of the tensor's own.
    Returns:
        an array.
    Raises:
        TypeError: `dtype` is not an element type.
        ValueError: there is no element type for the tensor's dtype, or `dtype` needs a copy.
        launch: the elements do not form whole vectors or matrices.
    """
    data = t.detach()
    if data.is_complex():
        data = torch.view_as_real(data)
        dtype = VecType(2, dtype_of(data)) if dtype is None else dtype
    result = array(data, dtype, copy=False)
    _check_shared(result, data)
    required = t.requires_grad if requires_grad is None else requires_grad
    if not (required or grad is not None):
        return result
    if grad is None:
        if t.grad is None and t.is_leaf:
            t.grad = torch.zeros_like(t)
        grad = t.grad
    if grad is None:
        result.requires_grad = True
    else:
        result.grad = grad if isinstance(grad, array) else from_torch(grad, result.dtype, requires_grad=False)
    return result


def _check_shared(a: array, data: Any) -> None:
    """Raise ValueError if the elements had to be converted, because writes to the array would be lost."""
    if a.size and a.ptr != data.data_ptr():
        raise ValueError(
            f"a tensor of {data.dtype} cannot be viewed as elements of {a.dtype}: convert the tensor, "
            f"t.to(torch.{torch_name(scalar_of(a.dtype))})"
        )


def to_torch(a: array, requires_grad: bool | None = None) -> Any:
    """A tensor on the memory of an array.

    Parameters:
        a: the array; elements of vectors and matrices have their components in the last dimensions.
        requires_grad: whether PyTorch computes the tensor's gradient, which then shares memory with the array's; as for
            the array by default.
    Returns:
        a tensor.
    Raises:
        ValueError: PyTorch has no such strides.
        TypeError: PyTorch has no such dtype.
    """
    scalar = scalar_of(a.dtype)
    if a.device.is_cuda:
        tensor = torch.from_dlpack(a)
    elif to_numpy(scalar).isbuiltin == 1:
        tensor = torch.from_numpy(a.numpy())
    else:  # PyTorch has other names for ml_dtypes types
        bits = a.numpy().view(f"i{to_numpy(scalar).itemsize}")
        tensor = torch.from_numpy(bits).view(dtype_to_torch(scalar))
    if scalar.is_float and (a.requires_grad if requires_grad is None else requires_grad):
        tensor.requires_grad_(True)
        if a.grad is not None and a.grad.dtype == a.dtype:
            tensor.grad = to_torch(a.grad, requires_grad=False)
    return tensor


def dtype_to_torch(dtype: object) -> Any:
    """The PyTorch dtype of a scalar type.

    Parameters:
        dtype: the scalar type.
    Returns:
        a `torch.dtype`.
    Raises:
        TypeError: `dtype` is not a scalar type.
    """
    element = element_type(dtype)
    if not isinstance(element, DType):
        raise TypeError(f"{element} is not a scalar type")
    return getattr(torch, torch_name(element))


def dtype_from_torch(dtype: Any) -> DType:
    """The scalar type of a PyTorch dtype.

    Parameters:
        dtype: a `torch.dtype`.
    Returns:
        a scalar type.
    Raises:
        ValueError: there is no such scalar type.
    """
    return dtype_of(torch.empty(0, dtype=dtype))


def stream_to_torch(stream: Any = None) -> Any:
    """A stream as a PyTorch stream: `with torch.cuda.stream(tegula.torch.stream_to_torch(s)):`.

    Parameters:
        stream: a stream of a CUDA device, or the device, whose stream of this thread is taken; that of the
            current device by default.
    Returns:
        a `torch.cuda.ExternalStream`.
    Raises:
        launch: the device is not a CUDA device.
    """
    from tegula.runtime.cuda.stream import Stream, get_stream

    tegula_stream = stream if isinstance(stream, Stream) else get_stream(stream)
    return torch.cuda.ExternalStream(tegula_stream.cuda_stream, device=f"cuda:{tegula_stream.device.ordinal}")


# Parts of functions ---------------------------------------------------------------------------------------------------


def _needs_gradient(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _check_inputs(f: KernelFunction, inputs: Sequence[Any]) -> None:
    """Raise LaunchError for tensors instead of numbers, because their gradients would be lost."""
    for k, x in enumerate(inputs):
        if isinstance(x, torch.Tensor) and not f.is_array(k, x):
            name = f.kernel.parameters[k].name
            help = f"pass {name}.item(), or make the parameter an array"
            raise LaunchError(f"kernel {f.name}: argument '{name}' is a number, got a tensor", help)


class _Call:
    """One call of a function; `plan` and `arrays`: its launch and its arguments, set by `run`."""

    plan: LaunchPlan
    arrays: tuple[Any, ...]

    def __init__(self, f: KernelFunction, inputs: Sequence[Any], described: Sequence[Any]) -> None:
        self.function = f
        self.described = described
        self.count = len(inputs)

    def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Launch the kernel and return the outputs."""
        outputs = _empty_outputs(inputs, self.described)
        args = [x.detach() if isinstance(x, torch.Tensor) else x for x in (*inputs, *outputs)]
        self.arrays = self.function.arrays(args)
        self.plan = self.function.plan(self.function.dims(inputs), self.arrays)
        self.function.run(self.plan, args, self.arrays, self.count)
        return outputs


class _Gradient:
    """The gradient of a call by some of its inputs, without tensors. `saved`: the positions of the arguments that the
    adjoint reads; the memory of other arguments is not kept. CompileError if there is no gradient."""

    def __init__(self, call: _Call, requested: Sequence[bool], args: Sequence[Any]) -> None:
        f, arrays = call.function, call.arrays
        self.function, self.plan, self.count = f, call.plan, call.count
        self.inputs = f.differentiable_positions(arrays, [k for k in range(call.count) if requested[k]])
        self.outputs = f.differentiable_positions(arrays, range(call.count, len(arrays)))
        positions = (*self.inputs, *self.outputs)
        self.needs = f.adjoint_needs(call.plan, arrays, positions)
        self.saved = tuple(sorted(self.needs.positions))
        self.described = f.describe(arrays)
        self.like = {k: (args[k].shape, _dtype(gradient_dtype(arrays[k])), args[k].device) for k in positions}

    def zeros(self, position: int) -> Any:
        """A new gradient of the argument at a position."""
        shape, dtype, device = self.like[position]
        return torch.zeros(shape, dtype=dtype, device=device)

    def run(self, saved: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Launch the adjoint and return the gradients of the inputs. `inputs`: the outputs' gradients, None for
        zeros."""
        grads = {k: self.zeros(k) for k in self.like}
        for k in self.outputs:
            # Copies, because the adjoint clears them and the given tensors may be used by other functions of the graph.
            if inputs[k - self.count] is not None:
                grads[k].copy_(inputs[k - self.count])
        detached = {k: t.detach() for k, t in zip(self.saved, saved, strict=True)}
        self.function.run_adjoint(self.plan, self.needs, self.described, detached, grads)
        return tuple(grads[k] if k in self.inputs else None for k in range(self.count))


class _Launch(torch.autograd.Function):
    """A launch in PyTorch's graph."""

    @staticmethod
    def forward(call: _Call, *inputs: Any) -> tuple[Any, ...]:
        return call.run(inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        call, *values = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[t for t in output if not t.is_floating_point()])
        # torch.func calls this for each level of differentiation; some levels need no gradient.
        if any(ctx.needs_input_grad):
            args = (*values, *output)
            ctx.gradient = _Gradient(call, ctx.needs_input_grad[1:], args)
            ctx.save_for_backward(*[args[k] for k in ctx.gradient.saved])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        return (None, *_Adjoint.apply(ctx.gradient, *ctx.saved_tensors, *grads))


class _Adjoint(torch.autograd.Function):
    """The adjoint of a launch in PyTorch's graph, whose own gradient is refused."""

    @staticmethod
    def forward(gradient: _Gradient, *tensors: Any) -> tuple[Any, ...]:
        count = len(gradient.saved)
        return gradient.run(tensors[:count], tensors[count:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.name = inputs[0].function.name

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        raise LaunchError(
            f"kernel {ctx.name}: gradients of gradients are not supported",
            "leave out create_graph=True, or write the gradient as a kernel of its own",
        )


def _empty_outputs(inputs: Sequence[Any], described: Sequence[Any]) -> tuple[Any, ...]:
    device = next((x.device for x in inputs if isinstance(x, torch.Tensor)), None)
    return tuple(
        torch.zeros(tuple(d.shape), dtype=_dtype(d.dtype), device=_device(d) if device is None else device)
        for d in described
    )


def _device(described: Any) -> Any:
    """The device of an output if no input is a tensor."""
    device: Any = getattr(described, "device", None)
    return device if isinstance(device, torch.device) and device.type != "meta" else None


def _dtype(dtype: Any) -> Any:
    """The PyTorch dtype of a dtype of Tegula, NumPy or PyTorch."""
    if isinstance(dtype, torch.dtype):
        return dtype
    return getattr(torch, torch_name(scalar_of(element_type(dtype))))
