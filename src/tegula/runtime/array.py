"""Arrays in the memory of a device."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tegula.errors import LaunchError, NoComparison
from tegula.fitting import extents, fitted, listed
from tegula.lang.annotations import ARRAYS, CLASSES, ArrayAnnotation, array_annotation
from tegula.runtime.array_arithmetic import Arithmetic
from tegula.runtime.array_conversions import Conversions
from tegula.runtime.array_indexing import Indexing
from tegula.runtime.array_layout import NewLayout, check_without_data, complex_as_pairs, split_elements
from tegula.runtime.array_memory import (
    MAX_NDIM,
    CannotView,
    allocate,
    copied,
    cuda_memory,
    dtype_of_numbers,
    filled,
    interop,
    is_packed,
    may_be_on_device,
    reshaped,
    unchecked_range,
    viewed,
)
from tegula.runtime.array_text import Printing
from tegula.runtime.description import ALIGNMENT, Description, cached_description
from tegula.runtime.device import CPU, Device, get_device
from tegula.runtime.recording import recording
from tegula.runtime.tensors import host_data, is_tensor
from tegula.structs import StructType, as_structured, contained_arrays, entries
from tegula.types import (
    ElementType,
    VecType,
    components,
    element_bytes,
    element_shape,
    element_type,
    float32,
    from_numpy,
    scalar_of,
    to_numpy,
    with_scalar,
)


class array(Indexing, Conversions, Arithmetic, Printing):
    """An array of scalars, vectors or matrices with 1 to 4 dimensions and any strides, in the memory of a
    device.

    As an annotation of a parameter: `array[float]`, or `array(dtype=float, ndim=2)`.

    If the array is on a GPU, an operation that reads elements on the host (`a.numpy()`, `float(a[0])`, `print(a)`)
    waits for earlier kernels in the stream of the calling thread, and copies; `a[0] = 1.0` and arithmetic do not wait.

    Parameters:
        data: an object that NumPy, DLPack or `__cuda_array_interface__` converts to an array; None for memory at `ptr`,
            or for new memory of zeros.
        dtype: the element type; by default the dtype of the data, and int32 or float32 for Python numbers. A vector
            type takes the last dimension of the data, a matrix type the last two dimensions; or the last dimension is
            split, so that (6,) becomes (2,) of vec3. Complex numbers are pairs, vec2f or vec2d.
        shape: the shape of new memory, or the shape to which the data is reshaped.
        strides: bytes per step of each dimension of new memory or memory at `ptr`; packed by default.
        ptr: an int, the address of the first element in memory that the caller owns; None to allocate memory.
        capacity: the number of bytes from `ptr` on, for a check.
        device: the device of the array; by default the device of data on a GPU, else the current device.
        pinned: whether new host memory is page-locked, for asynchronous copies; pageable memory without a GPU. False by
            default.
        copy: whether to copy the data. With False the array shares the memory of the data, unless the dtype or the
            device differs. True by default.
        deleter: a function that is called with the address and the number of bytes after the last use of the memory at
            `ptr`.
        ndim: the number of dimensions, for a check.
        grad: the array of the gradient; implies `requires_grad`.
        requires_grad: whether gradients flow to the array; False by default.
        retain_grad: whether tg.Tape.backward leaves the gradient of an array that kernels write, which is cleared
            otherwise; False by default. Needs `requires_grad`.
    Raises:
        number: a number does not fit the dtype, or a length is negative or not an integer.
        TypeError: the dtype is not an element type.
        ValueError: the shape, `ndim`, the strides, the capacity or the elements do not fit, or the array would
            have more than 4 dimensions.
        launch: there is no such device, or the elements do not form whole vectors or matrices.
    Gradient:
        flows through a copy of another array where a tape records, and through a view of it.
    """

    __slots__ = (
        *(
            "_grad",
            "_contained",
            "_leaves",
            "_memory",
            "_ptr",
            "_requires_grad",
            "_retain_grad",
            "_gradient_view",
            "_source",
            "description",
            "device",
            "dtype",
        ),
        *("header", "high"),
        *("launch_id", "low", "ndim", "packed", "writeable"),
    )

    dtype: ElementType
    description: Description

    def __new__(cls, data: object = None, *args: Any, **kwargs: Any) -> Any:
        memory = "shape" in kwargs or "ptr" in kwargs
        if data is None and not args and not memory and "dtype" in kwargs:
            return array_annotation(kwargs["dtype"], kwargs.get("ndim", 1))
        return super().__new__(cls)

    __tegula_annotation__ = ARRAYS

    def __class_getitem__(cls, item: object) -> ArrayAnnotation:
        return array_annotation(item, 1)

    def __init__(
        self,
        data: object = None,
        dtype: object = None,
        shape: int | Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        ptr: int | None = None,
        capacity: int | None = None,
        device: Device | str | None = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Callable[[int, int], object] | None = None,
        ndim: int | None = None,
        grad: array | None = None,
        requires_grad: bool = False,
        retain_grad: bool = False,
    ) -> None:
        element = element_type(dtype) if dtype not in (None, Any) else None
        target_device = get_device(device) if device is not None or data is None else None
        lengths = extents(shape) if shape is not None else None
        if data is None:
            element, target_device = element or element_type(float), target_device or CPU
            layout = NewLayout(lengths or (), element, strides)
            if ptr is not None:
                memory = layout.at(ptr, target_device, capacity, deleter)
            else:
                memory = layout.allocated(target_device, pinned)
                filled(memory, target_device, 0)
        else:
            check_without_data(strides=strides, ptr=ptr, capacity=capacity, deleter=deleter)
            memory, target_device, source = _from_data(data, element, copy, target_device, pinned)
            element = element or source
            memory = split_elements(memory, element) if lengths is None else memory
            if lengths is not None:
                memory = reshaped(memory, target_device, (*lengths, *element_shape(element)))
        self._bind(memory, element, target_device, ndim)
        if isinstance(data, array):
            self._follow(data)
        elif isinstance(element, StructType):
            self._contained = contained_arrays(element, data)
        if requires_grad:
            self.requires_grad = True
        if grad is not None:
            self.grad = grad
        if retain_grad:
            self.retain_grad = True

    def _follow(self, source: array) -> None:
        """Derive the gradient from the source array: a view of its gradient, or a copy that a tape records."""
        if self.device == source.device and self.low < source.high and source.low < self.high:
            dtype, shape = self.dtype, self.shape

            def gradient_view(grad: array) -> array:
                view = array(grad, with_scalar(dtype, scalar_of(grad.dtype)), shape, copy=False)
                if view.low >= grad.high or grad.low >= view.high:
                    raise ValueError(f"a gradient with strides {grad.strides} has no view of shape {shape}")
                return view

            self._source = source, gradient_view
        elif recording.on:
            recording.record_copy(self, source)

    def _bind(
        self, data: np.ndarray, dtype: ElementType, device: Device = CPU, ndim: int | None = None
    ) -> None:
        """Use memory whose trailing dimensions are the dimensions of the element."""
        element_dims = element_shape(dtype)
        shape, strides = data.shape, data.strides
        rank = len(shape) - len(element_dims)
        if rank < 0 or shape[rank:] != element_dims:
            raise ValueError(f"data of shape {shape} does not hold elements of type {dtype}")
        if rank == 0:
            data, rank = data[None], 1
            shape, strides = data.shape, data.strides
        if rank > MAX_NDIM:
            raise ValueError(f"an array has 1 to {MAX_NDIM} dimensions, got {rank}")
        if ndim is not None and ndim != rank:
            raise ValueError(f"the data has {rank} dimensions, but ndim is {ndim}")
        if element_dims:
            if not is_packed(data, rank):
                raise ValueError(f"the components of {dtype} elements must be packed")
            shape, strides = shape[:rank], strides[:rank]
        address = data.__array_interface__["data"][0]
        self._describe(data, dtype, device, data.flags.writeable, address, shape, strides)

    def _describe(
        self,
        memory: Any,
        dtype: ElementType,
        device: Device,
        writeable: bool,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> None:
        """Set the known properties and the data that launches need: the descriptor's bytes, the specialisation, the
        byte range. `memory`: the result of `_data`, or the owner of new GPU memory."""
        self._memory = memory
        self._grad: array | None = None
        self._requires_grad: bool | None = None
        self._retain_grad = False
        self._source: tuple[array, Callable[[array], array] | None] | None = None
        self._gradient_view: tuple[array, array] | None = None
        self._leaves: tuple[array, ...] | None = None
        self._contained: Any = None
        self.dtype = dtype
        self.ndim = len(shape)
        self.device = device
        self.writeable = writeable
        description = self.description = cached_description(
            dtype, shape, strides, address % ALIGNMENT, writeable, device
        )
        self._ptr = address
        self.launch_id = description.launch_id
        self.low, self.high = address + description.low, address + description.high
        self.packed = address.to_bytes(8, "little") + description.packed_dimensions
        self.header = None if device is CPU else self._header()

    @property
    def _data(self) -> np.ndarray:
        """The memory as a NumPy array. For a new array on a GPU the NumPy array is created on first use, because
        launches do not need it."""
        data = self._memory
        if not isinstance(data, np.ndarray):
            shape, dtype = (*self.shape, *element_shape(self.dtype)), to_numpy(scalar_of(self.dtype))
            data = self._memory = cuda_memory().array_at(self._ptr, shape, None, dtype, data)
        return data

    def _header(self) -> bytes:
        """The data that the machine code of GPU launches reads."""
        return struct.pack("<4q", self.launch_id, self.low, self.high, len(self.packed)) + self.packed

    # Properties ------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements of each dimension."""
        return self.description.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance in bytes between neighbouring elements of each dimension."""
        return self.description.strides

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ptr(self) -> int:
        """The address of element 0."""
        return self._ptr

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements are packed in row-major order."""
        return self.description.access.dense

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the array. A view inherits the value from its base array, unless it is set on the
        view. Arrays of integers and bools may have a gradient: zeros of their dtype, which no adjoint reads or
        writes."""
        if self._requires_grad is not None:
            return self._requires_grad
        return self._source is not None and self._source[1] is not None and self._source[0].requires_grad

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        self._requires_grad = bool(required)
        if not required:
            self._grad = None
            self._retain_grad = False

    @property
    def retain_grad(self) -> bool:
        """Whether tg.Tape.backward leaves the gradient of the array if kernels wrote the array; otherwise the gradient
        is cleared after its use. A view inherits the value from its base array, unless it is set on the view."""
        return self._retain_grad or (self._source is not None and self._source[0].retain_grad)

    @retain_grad.setter
    def retain_grad(self, retained: bool) -> None:
        if retained and not self.requires_grad:
            raise LaunchError("retain_grad needs a gradient", "create the array with requires_grad=True")
        self._retain_grad = bool(retained)

    @property
    def is_detached(self) -> bool:
        """Whether `requires_grad = False` was set for the array or for its base array, so that its elements are
        constants."""
        if self._requires_grad is not None:
            return not self._requires_grad
        return self._source is not None and self._source[0].is_detached

    @property
    def hides_grad(self) -> bool:
        """Whether the array has no gradient but is a view of an array with one: a view of another dtype, or a detached
        view."""
        if self._source is None or (self.requires_grad and scalar_of(self.dtype).is_float):
            return False
        return self._source[0].requires_grad or self._source[0].hides_grad

    @property
    def grad(self) -> array | None:
        """The gradient: an array of the same shape, zeros at first; None unless `requires_grad`. Its element type is
        the array's, or float32 for 8-bit floats. The gradient of a view is a view of the gradient."""
        return self._gradient(make=True)

    def _gradient(self, make: bool) -> array | None:
        """The gradient. If it has no memory yet, the memory is allocated, or the result is None."""
        if self._grad is not None or not self.requires_grad:
            return self._grad
        source, view = self._source or (None, None)
        if source is not None and view is not None and source.requires_grad:
            gradient = source._gradient(make)
            if gradient is None:
                return None
            if self._gradient_view is None or self._gradient_view[0] is not gradient:
                self._gradient_view = gradient, view(gradient)
            return self._gradient_view[1]
        if make:
            from tegula.runtime.make_arrays import zeros

            scalar = scalar_of(self.dtype)
            is_8_bit = scalar.is_float and scalar.bits == 8
            self._grad = zeros(
                self.shape, with_scalar(self.dtype, float32) if is_8_bit else self.dtype, self.device
            )
        return self._grad

    @grad.setter
    def grad(self, value: array | None) -> None:
        if value is not None and value.shape != self.shape:
            raise ValueError(
                f"the gradient of an array of shape {self.shape} cannot have shape {value.shape}"
            )
        self._grad = value
        self._requires_grad = value is not None

    @property
    def leaves(self) -> tuple[array, ...]:
        """Views of the leaves of an array of structs, by leaf. Gradients of float leaves are views of the gradient."""
        is_base = self._source is None and self._requires_grad is None
        if self._leaves is not None and is_base:
            return self._leaves
        struct: Any = self.dtype
        leaf_arrays = tuple(self._leaf(k) for k in range(len(struct.leaves)))
        if is_base:
            self._leaves = leaf_arrays
        return leaf_arrays

    @property
    def whole(self) -> array:
        """The array of structs of which this array is a leaf, and whose gradient contains the gradient of the leaf;
        otherwise the array itself."""
        source = self._source[0] if self._source is not None else self
        return source if isinstance(source.dtype, StructType) != isinstance(self.dtype, StructType) else self

    def _leaf(self, k: int) -> array:
        struct: Any = self.dtype
        leaf = struct.leaves[k]
        leaf_array = wrap(leaf.component_view(self._data), leaf.stored, self.device)
        is_base = self._source is None and self._requires_grad is None
        if not is_base and scalar_of(leaf.stored).is_float:
            leaf_array._source = self, lambda g: g.leaves[k]
        return leaf_array

    def _view(self, data: np.ndarray, dtype: ElementType, grad: Callable[[array], array] | None) -> array:
        """An array on part of the same memory; `grad` makes the same view of the gradient."""
        view = wrap(data, dtype, self.device)
        view._source = self, grad
        return view

    # Conversions -----------------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The data as a NumPy array of shape (*shape, *element shape): on a CPU the same memory, from a GPU a
        copy.

        Returns:
            a NumPy array; its elements are constants for a tape.
        Raises:
            RuntimeError: an error of kernels in this thread's stream, which is synchronised first (tg.RunError and
                its subclasses).
        """
        return self._data if self.device is CPU else cuda_memory().download(self.device, self._data)

    def list(self) -> list[Any]:
        """The elements as nested lists of Python numbers, or of structs.

        Returns:
            a list of the shape of the data.
        Raises:
            TypeError: the elements are structs that hold arrays.
            RuntimeError: an error of kernels in the calling thread's stream (tg.RunError).
        """
        data = self.numpy()
        return self.dtype.values(data) if isinstance(self.dtype, StructType) else data.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if self.device is CPU:
            return np.array(self._data, dtype, copy=copy)
        if copy is False:
            raise ValueError(f"an array on {self.device} can be read on the host as a copy only")
        return np.asarray(self.numpy(), dtype)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        if self.device is not CPU:
            raise AttributeError(
                f"an array on {self.device} is not in host memory: copy the array with numpy()"
            )
        return self._data.__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        if self.device is CPU:
            raise AttributeError("an array on the CPU is not in GPU memory: copy the array with to('cuda:0')")
        return interop().cuda_array_interface(self._data, self.device)

    def __dlpack__(self, *, stream: int | None = None, **kwargs: Any) -> Any:
        """A DLPack capsule that shares memory. `stream`: the consumer's stream, on a GPU."""
        if self.device is not CPU:
            return interop().dlpack(self._data, self.device, stream)
        return self._data.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device.ordinal) if self.device is not CPU else self._data.__dlpack_device__()

    # Changing --------------------------------------------------------------------------------------------------------

    def fill_(self, value: object) -> array:
        """Sets every element.

        Parameters:
            value: a number, or an array that NumPy broadcasts to the shape.
        Returns:
            the array itself.
        Raises:
            number: a number does not fit the dtype.
            ValueError: `value` does not broadcast to the array.
        Gradient:
            0 for the old elements; flows to `value` if it is an array (recorded by tapes).
        """
        filled(self._data, self.device, fill_value(value, self.dtype))
        if recording.on:
            recording.assigned(self, value if isinstance(value, array) else None)
        return self

    def zero_(self) -> array:
        """Sets every element to 0.

        Returns:
            the array itself.
        Raises:
            nothing.
        Gradient:
            0 for the old elements (recorded by tapes).
        """
        return self.fill_(0)

    def assign(self, source: object) -> array:
        """Copies the elements of another array, from any device, converted to the dtype of this one.

        Parameters:
            source: an array or data of the same shape.
        Returns:
            the array itself.
        Raises:
            ValueError: the shapes differ.
            number: a number does not fit the dtype.
        Gradient:
            flows to `source` if it is an array (recorded by tapes).
        """
        structured = as_structured(self.dtype, source) if isinstance(self.dtype, StructType) else None
        data, device = (structured, CPU) if structured is not None else _as_numpy(source, self._data.dtype)
        if data.shape != self._data.shape:
            raise ValueError(
                f"cannot assign data of shape {data.shape} to an array of shape {self._data.shape}"
            )
        copied(self._data, self.device, data, device)
        if recording.on:
            recording.assigned(self, source if isinstance(source, array) else None)
        return self

    # Views -----------------------------------------------------------------------------------------------------------

    def reshape(self, shape: int | Sequence[int], *more: int) -> array:
        """A view of the elements, in row-major order, under another shape.

        Parameters:
            shape: 1 to 4 lengths with the same number of elements, an int or a sequence; one length may be -1, and is
                inferred.
            *more: the other lengths, where `shape` is the first one.
        Returns:
            a view.
        Raises:
            ValueError: the number of elements differs, or the strides need a copy.
            number: a length is not an integer.
        Gradient:
            the same view of the gradient.
        """
        shape = (*extents(shape), *more) if more else shape
        try:
            data = viewed(self._data, (*extents(shape), *element_shape(self.dtype)))
        except CannotView:
            raise ValueError(
                f"an array with strides {self.strides} cannot be reshaped to {shape} without a copy"
            ) from None
        return self._view(data, self.dtype, lambda g: g.reshape(shape))

    def flatten(self) -> array:
        """A view of the elements, in row-major order, with one dimension.

        Returns:
            a view (size,).
        Raises:
            ValueError: the strides need a copy.
        Gradient:
            the same view of the gradient.
        """
        return self.reshape(self.size)

    def transpose(self, axes: Sequence[int] | int | None = None, *more: int) -> array:
        """A view with the dimensions in another order.

        Parameters:
            axes: each dimension once, negative ones from the end; reversed by default.
            *more: the other dimensions, where `axes` is the first one.
        Returns:
            a view.
        Raises:
            ValueError: `axes` does not name each dimension once.
            TypeError: `axes` is not a sequence of integers.
        Gradient:
            the same view of the gradient.
        """
        axes = (axes, *more) if isinstance(axes, int) else axes
        order = tuple(axes) if axes is not None else tuple(reversed(range(self.ndim)))
        if sorted(k % self.ndim if -self.ndim <= k < self.ndim else -1 for k in order) != list(
            range(self.ndim)
        ):
            raise ValueError(f"axes must name each of {self.ndim} dimensions once, got {order}")
        order = tuple(k % self.ndim for k in order)
        inner = tuple(range(self.ndim, self._data.ndim))
        return self._view(self._data.transpose(order + inner), self.dtype, lambda g: g.transpose(axes))

    def view(self, dtype: object) -> array:
        """A view of the same memory under another element type.

        Parameters:
            dtype: an element type with the same number of bytes.
        Returns:
            a view of the same shape.
        Raises:
            TypeError: `dtype` is not an element type.
            ValueError: the sizes of the element types differ.
        Gradient:
            the same view of the gradient if the scalar type is the same; otherwise the view has no gradient.
        """
        element = element_type(dtype)
        if element_bytes(element) != element_bytes(self.dtype):
            raise ValueError(f"{element} and {self.dtype} differ in size")
        flat = viewed(self._data, (*self.shape, components(self.dtype))).view(to_numpy(scalar_of(element)))
        has_same_scalar = scalar_of(element) == scalar_of(self.dtype)
        data = viewed(flat, (*self.shape, *element_shape(element)))
        return self._view(
            data,
            element,
            (lambda g: g.view(with_scalar(element, scalar_of(g.dtype)))) if has_same_scalar else None,
        )

    def __eq__(self, other: object) -> bool:
        """Raise NoComparison for a number or a value with elements, because element-wise comparison and comparison of
        whole arrays are both plausible. Arrays are dictionary keys by identity."""
        if other is self:
            return True
        if isinstance(other, array | np.ndarray | np.generic | int | float | list | tuple) or is_tensor(
            other
        ):
            raise NoComparison()
        return NotImplemented

    __hash__ = object.__hash__

    # Copies ----------------------------------------------------------------------------------------------------------

    def __copy__(self) -> array:
        from tegula.runtime.make_arrays import clone

        return clone(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> array:
        """A packed copy on the same device, with a copy of the gradient. Tapes do not record the copy."""
        from tegula.runtime.make_arrays import empty

        copy_of_self = empty(self.shape, self.dtype, self.device)
        copied(copy_of_self._data, copy_of_self.device, self._data, self.device)
        copy_of_self._requires_grad = False if self.is_detached else self.requires_grad or None
        gradient = self._gradient(make=False)
        copy_of_self._grad = gradient.__deepcopy__(memo) if gradient is not None else None
        return copy_of_self

    def __reduce__(self) -> Any:
        """Pickle the elements, the dtype, the device and whether there is a gradient, but not the gradient."""
        return _unpickled, (np.array(self.numpy()), self.dtype, self.device, self.requires_grad)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Any:
        return iter(self.numpy())


CLASSES["array"] = array


def _unpickled(data: np.ndarray, dtype: ElementType, device: Device, requires_grad: bool) -> array:
    return array(data, dtype, device=device, requires_grad=requires_grad)


def wrap(data: np.ndarray, dtype: ElementType, device: Device) -> array:
    """An array on memory with a known description."""
    wrapped = object.__new__(array)
    wrapped._bind(data, dtype, device)
    return wrapped


def array_with_layout_of(like: array, memory: array, first: int, dtype: ElementType) -> array:
    """An array of scalars in memory, from scalar `first` on, with the lengths and scalar strides of another array."""
    source, data = like._data, memory._data
    strides = [s // source.itemsize * data.itemsize for s in source.strides]
    return wrap(np.lib.stride_tricks.as_strided(data[first:], source.shape, strides), dtype, memory.device)


def fill_value(value: Any, dtype: ElementType) -> Any:
    """The fill value of an array, converted to its scalar type."""
    scalar = scalar_of(dtype)
    if isinstance(dtype, StructType):
        return entries(dtype, value)
    if type(value) is int or (type(value) is float and scalar.is_float):
        low, high = unchecked_range(scalar)
        if low <= value <= high:
            return value
    numpy_dtype = to_numpy(scalar)
    data, source_device = _as_numpy(value, numpy_dtype)
    return fitted(
        data if source_device is CPU else cuda_memory().download(source_device, data),
        numpy_dtype,
        scalar.name,
    )


def _is_python_data(data: object) -> bool:
    """Whether data are Python numbers or lists of Python numbers, whose NumPy dtype is not the user's choice."""
    if isinstance(data, array | np.ndarray):
        return False
    return isinstance(data, np.generic) or not any(
        hasattr(data, protocol)
        for protocol in ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
    )


def _as_numpy(data: Any, expected: np.dtype | None = None) -> tuple[np.ndarray, Device]:
    """Data of any kind as a NumPy array, and the device. `expected`: the type of a later conversion."""
    if isinstance(data, array):
        return data._data, data.device
    if isinstance(data, np.ndarray):
        return data, CPU
    if _is_python_data(data):
        return listed(data, expected), CPU
    if may_be_on_device(data):
        on_device = interop().on_device(data)
        if on_device is not None:
            return on_device
    if is_tensor(data):
        return host_data(data), CPU
    return np.asarray(np.from_dlpack(data) if hasattr(data, "__dlpack__") else data), CPU


def adopt(value: Any, dtype: ElementType | None) -> array:
    """A `tg.array` on the memory of another library's array, for a launch."""
    if may_be_on_device(value):
        adopted = interop().adopted(value, dtype)
        if adopted is not None:
            return adopted
    return array(value, dtype=dtype, copy=False)


def _from_data(
    data: Any, dtype: ElementType | None, copy: bool, device: Device | None, pinned: bool = False
) -> tuple[np.ndarray, Device, ElementType]:
    """Data of any kind on a device, and the element type. Device None: data on a GPU stay there, and host data go to
    the current device."""
    if isinstance(dtype, StructType):
        structured = as_structured(dtype, data)
        data = data if structured is None else structured
    source, source_device = _as_numpy(data, to_numpy(scalar_of(dtype)) if dtype is not None else None)
    in_pairs = source.dtype.kind == "c" and (dtype is None or element_shape(dtype) == (2,))
    source = complex_as_pairs(source) if in_pairs else source
    if dtype is None and _is_python_data(data):
        dtype = dtype_of_numbers(data, source)
    target = to_numpy(scalar_of(dtype)) if dtype is not None else source.dtype
    scalar = scalar_of(dtype) if dtype is not None else from_numpy(target)
    structured = VecType(2, scalar) if in_pairs else data.dtype if isinstance(data, array) else scalar
    target_device = device or (get_device() if copy and source_device is CPU else source_device)
    if not copy and source.dtype == target and target_device == source_device:
        return source, source_device, structured
    memory = allocate(source.shape, scalar, target_device, pinned)
    copied(memory, target_device, source, source_device)
    return memory, target_device, structured
