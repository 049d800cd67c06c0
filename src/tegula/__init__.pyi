"""Tegula: a tile language embedded in Python, and its compiler. `import tegula as tg`."""

# Written by tools/stubs.py.

import typing
from typing import Any, TypeAlias
from builtins import bool as bool
from builtins import print as print
from builtins import range as range
from tegula import algorithms as _algorithms
from tegula import autograd as autograd
from tegula import kernels as kernels
from tegula import optim as optim
from tegula import testing as testing
from tegula import types as types
from tegula.declaration import Refused as Refused
from tegula.declaration import Sample as Sample
from tegula.errors import BrokenPromise as BrokenPromise
from tegula.errors import CompileError as CompileError
from tegula.errors import Deadlock as Deadlock
from tegula.errors import DifferingOperand as DifferingOperand
from tegula.errors import DivisionByZero as DivisionByZero
from tegula.errors import KernelAssertion as KernelAssertion
from tegula.errors import LaunchError as LaunchError
from tegula.errors import OutOfBounds as OutOfBounds
from tegula.errors import RunError as RunError
from tegula.errors import TegulaError as TegulaError
from tegula.errors import TuningError as TuningError
from tegula.jax import dtype_from_jax as dtype_from_jax
from tegula.jax import dtype_to_jax as dtype_to_jax
from tegula.jax import from_jax as from_jax
from tegula.jax import to_jax as to_jax
from tegula.lang.cooperative import cooperative as cooperative
from tegula.lang.decorators import constant as constant
from tegula.lang.decorators import func as func
from tegula.lang.decorators import func_grad as func_grad
from tegula.lang.decorators import func_replay as func_replay
from tegula.lang.decorators import pipelined as pipelined
from tegula.lang.decorators import static as static
from tegula.lang.decorators import unrolled as unrolled
from tegula.lang.prompt_text import execute as exec
from tegula.lang.structs import struct as struct
from tegula.runtime.command import Launch as Launch
from tegula.runtime.config import config as config
from tegula.runtime.cuda.graph import Graph as Graph
from tegula.runtime.cuda.graph import ScopedCapture as ScopedCapture
from tegula.runtime.cuda.graph import capture_begin as capture_begin
from tegula.runtime.cuda.graph import capture_end as capture_end
from tegula.runtime.cuda.graph import capture_launch as capture_launch
from tegula.runtime.cuda.stream import Event as Event
from tegula.runtime.cuda.stream import ScopedStream as ScopedStream
from tegula.runtime.cuda.stream import Stream as Stream
from tegula.runtime.cuda.stream import get_event_elapsed_time as get_event_elapsed_time
from tegula.runtime.cuda.stream import get_stream as get_stream
from tegula.runtime.cuda.stream import record_event as record_event
from tegula.runtime.cuda.stream import set_stream as set_stream
from tegula.runtime.cuda.stream import stream_from_torch as stream_from_torch
from tegula.runtime.cuda.stream import synchronize_event as synchronize_event
from tegula.runtime.cuda.stream import synchronize_stream as synchronize_stream
from tegula.runtime.cuda.stream import wait_event as wait_event
from tegula.runtime.cuda.stream import wait_stream as wait_stream
from tegula.runtime.dependent_work import capture_if as capture_if
from tegula.runtime.dependent_work import capture_while as capture_while
from tegula.runtime.device import Device as Device
from tegula.runtime.device import ScopedDevice as ScopedDevice
from tegula.runtime.device import get_cuda_device as get_cuda_device
from tegula.runtime.device import get_cuda_device_count as get_cuda_device_count
from tegula.runtime.device import get_cuda_devices as get_cuda_devices
from tegula.runtime.device import get_device as get_device
from tegula.runtime.device import get_devices as get_devices
from tegula.runtime.device import get_preferred_device as get_preferred_device
from tegula.runtime.device import is_cpu_available as is_cpu_available
from tegula.runtime.device import is_cuda_available as is_cuda_available
from tegula.runtime.device import set_device as set_device
from tegula.runtime.device import synchronize as synchronize
from tegula.runtime.device import synchronize_device as synchronize_device
from tegula.runtime.gradcheck import GradientMismatch as GradientMismatch
from tegula.runtime.gradcheck import gradcheck as gradcheck
from tegula.runtime.indexed_array import indexedarray as indexedarray
from tegula.runtime.kernel import Kernel as Kernel
from tegula.runtime.kernel import kernel as kernel
from tegula.runtime.launch import launch as launch
from tegula.runtime.launch import launch_tiled as launch_tiled
from tegula.runtime.launch_key import launch_key as launch_key
from tegula.runtime.make_arrays import clone as clone
from tegula.runtime.make_arrays import copy as copy
from tegula.runtime.make_arrays import empty as empty
from tegula.runtime.make_arrays import empty_like as empty_like
from tegula.runtime.make_arrays import from_dlpack as from_dlpack
from tegula.runtime.make_arrays import from_numpy_array as from_numpy
from tegula.runtime.make_arrays import from_ptr as from_ptr
from tegula.runtime.make_arrays import full as full
from tegula.runtime.make_arrays import full_like as full_like
from tegula.runtime.make_arrays import ones as ones
from tegula.runtime.make_arrays import ones_like as ones_like
from tegula.runtime.make_arrays import to_dlpack as to_dlpack
from tegula.runtime.make_arrays import zeros as zeros
from tegula.runtime.make_arrays import zeros_like as zeros_like
from tegula.runtime.mapping import map as map
from tegula.runtime.modules import Module as Module
from tegula.runtime.modules import ScopedLogLevel as ScopedLogLevel
from tegula.runtime.modules import device_to_torch as device_to_torch
from tegula.runtime.modules import dtype_from_numpy as dtype_from_numpy
from tegula.runtime.modules import dtype_to_numpy as dtype_to_numpy
from tegula.runtime.modules import force_load as force_load
from tegula.runtime.modules import get_module as get_module
from tegula.runtime.modules import get_module_options as get_module_options
from tegula.runtime.modules import get_suggested_block_size as get_suggested_block_size
from tegula.runtime.modules import init as init
from tegula.runtime.modules import is_device_available as is_device_available
from tegula.runtime.modules import load_module as load_module
from tegula.runtime.modules import overload as overload
from tegula.runtime.modules import set_module_options as set_module_options
from tegula.runtime.over_batches import over_batches as over_batches
from tegula.runtime.scoped_timer import ScopedTimer as ScopedTimer
from tegula.runtime.tape import Tape as Tape
from tegula.signature import Asked as Asked
from tegula.signature import Dtypes as Dtypes
from tegula.signature import Extent as Extent
from tegula.signature import Extents as Extents
from tegula.spatial import Bvh as Bvh
from tegula.spatial import BvhQuery as BvhQuery
from tegula.spatial import BvhQueryTiled as BvhQueryTiled
from tegula.spatial import HashGrid as HashGrid
from tegula.spatial import HashGridQuery as HashGridQuery
from tegula.spatial import Mesh as Mesh
from tegula.spatial import MeshQuery as MeshQuery
from tegula.spatial import MeshQueryAABB as MeshQueryAABB
from tegula.spatial import MeshQueryAABBTiled as MeshQueryAABBTiled
from tegula.spatial import MeshQueryPoint as MeshQueryPoint
from tegula.spatial import MeshQueryRay as MeshQueryRay
from tegula.spatial import bvh_overlaps as bvh_overlaps
from tegula.spatial import is_cubql_available as is_cubql_available
from tegula.torch import dtype_from_torch as dtype_from_torch
from tegula.torch import dtype_to_torch as dtype_to_torch
from tegula.torch import from_torch as from_torch
from tegula.torch import stream_to_torch as stream_to_torch
from tegula.torch import to_torch as to_torch
from tegula.tune import autotune as autotune

__version__: str

utils = _algorithms

E: float
HALF_PI: float
INF: float
LN10: float
LN2: float
LOG10E: float
LOG2E: float
NAN: float
PHI: float
PI: float
TAU: float
TWO_PI: float
e: float
half_pi: float
inf: float
ln10: float
ln2: float
log10e: float
log2e: float
nan: float
phi: float
pi: float
tau: float
two_pi: float

class _Element:
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __iter__(self) -> Any: ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __floordiv__(self, other: Any) -> Any: ...
    def __rfloordiv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __rpow__(self, other: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __rmatmul__(self, other: Any) -> Any: ...
    def __and__(self, other: Any) -> Any: ...
    def __rand__(self, other: Any) -> Any: ...
    def __or__(self, other: Any) -> Any: ...
    def __ror__(self, other: Any) -> Any: ...
    def __xor__(self, other: Any) -> Any: ...
    def __rxor__(self, other: Any) -> Any: ...
    def __lshift__(self, other: Any) -> Any: ...
    def __rlshift__(self, other: Any) -> Any: ...
    def __rshift__(self, other: Any) -> Any: ...
    def __rrshift__(self, other: Any) -> Any: ...
    def __lt__(self, other: Any) -> Any: ...
    def __le__(self, other: Any) -> Any: ...
    def __gt__(self, other: Any) -> Any: ...
    def __ge__(self, other: Any) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __invert__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...

class Element(_Element): ...
InOut: TypeAlias = Any
class Key(_Element): ...
LOG_DEBUG: Any
LOG_ERROR: Any
LOG_INFO: Any
LOG_WARNING: Any
class Real(_Element): ...
adjoint: Any
class array(Any):
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
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array1d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array2d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array3d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array4d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class bfloat16(_Element): ...
class bool_(_Element):
    def __index__(self) -> int: ...
constexpr: TypeAlias = Any
class float16(_Element): ...
class float32(_Element): ...
class float64(_Element): ...
class float8_e4m3(_Element): ...
class float8_e5m2(_Element): ...
func_native: Any
class indexedarray1d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class indexedarray2d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class indexedarray3d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class indexedarray4d(Any):
    """`array1d` .. `array4d` and `indexedarray1d` .. `indexedarray4d`. A subscript or a call with a dtype alone is an
    annotation; a call with data or a description of memory creates an array of this number of dimensions. `kind`: a key
    of CLASSES.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class int16(_Element):
    def __index__(self) -> int: ...
class int32(_Element):
    def __index__(self) -> int: ...
class int64(_Element):
    def __index__(self) -> int: ...
class int8(_Element):
    def __index__(self) -> int: ...
class mat22(_Element): ...
class mat22b(_Element): ...
class mat22d(_Element): ...
class mat22f(_Element): ...
class mat22h(_Element): ...
class mat22i(_Element): ...
class mat22l(_Element): ...
class mat22s(_Element): ...
class mat22ub(_Element): ...
class mat22ui(_Element): ...
class mat22ul(_Element): ...
class mat22us(_Element): ...
class mat33(_Element): ...
class mat33b(_Element): ...
class mat33d(_Element): ...
class mat33f(_Element): ...
class mat33h(_Element): ...
class mat33i(_Element): ...
class mat33l(_Element): ...
class mat33s(_Element): ...
class mat33ub(_Element): ...
class mat33ui(_Element): ...
class mat33ul(_Element): ...
class mat33us(_Element): ...
class mat44(_Element): ...
class mat44b(_Element): ...
class mat44d(_Element): ...
class mat44f(_Element): ...
class mat44h(_Element): ...
class mat44i(_Element): ...
class mat44l(_Element): ...
class mat44s(_Element): ...
class mat44ub(_Element): ...
class mat44ui(_Element): ...
class mat44ul(_Element): ...
class mat44us(_Element): ...
class quat(_Element): ...
class quatd(_Element): ...
class quatf(_Element): ...
class quath(_Element): ...
class spatial_matrix(_Element): ...
class spatial_matrixd(_Element): ...
class spatial_matrixf(_Element): ...
class spatial_matrixh(_Element): ...
class spatial_vector(_Element): ...
class spatial_vectord(_Element): ...
class spatial_vectorf(_Element): ...
class spatial_vectorh(_Element): ...
class tile(Any):
    """A tile, as an annotation: `tile[float, M, N]` or `tile(dtype=float, shape=(M, N))`."""
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class transform(_Element): ...
class transformd(_Element): ...
class transformf(_Element): ...
class transformh(_Element): ...
class uint16(_Element):
    def __index__(self) -> int: ...
class uint32(_Element):
    def __index__(self) -> int: ...
class uint64(_Element):
    def __index__(self) -> int: ...
class uint8(_Element):
    def __index__(self) -> int: ...
class vec2(_Element): ...
class vec2b(_Element): ...
class vec2d(_Element): ...
class vec2f(_Element): ...
class vec2h(_Element): ...
class vec2i(_Element): ...
class vec2l(_Element): ...
class vec2s(_Element): ...
class vec2ub(_Element): ...
class vec2ui(_Element): ...
class vec2ul(_Element): ...
class vec2us(_Element): ...
class vec3(_Element): ...
class vec3b(_Element): ...
class vec3d(_Element): ...
class vec3f(_Element): ...
class vec3h(_Element): ...
class vec3i(_Element): ...
class vec3l(_Element): ...
class vec3s(_Element): ...
class vec3ub(_Element): ...
class vec3ui(_Element): ...
class vec3ul(_Element): ...
class vec3us(_Element): ...
class vec4(_Element): ...
class vec4b(_Element): ...
class vec4d(_Element): ...
class vec4f(_Element): ...
class vec4h(_Element): ...
class vec4i(_Element): ...
class vec4l(_Element): ...
class vec4s(_Element): ...
class vec4ub(_Element): ...
class vec4ui(_Element): ...
class vec4ul(_Element): ...
class vec4us(_Element): ...

def elect() -> Any:
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

def persistent_tiles(grid: Any, raster: Any = 8) -> Any:
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

def role(name: Any, warps: Any = 0, warp_groups: Any = 0, registers: Any = 0) -> Any:
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

def tid() -> Any:
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

def ws(*groups: Any, registers: Any = 0) -> Any:
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

def abs(x: Any) -> Any:
    """The magnitude of a number x.

    Parameters:
        x: a scalar, vector, matrix or tile of any dtype but bool.
    Returns:
        a value of the type of `x`; the minimum of a signed integer type is unchanged.
    Raises:
        type-mismatch: `x` is a bool, or not a scalar, vector, matrix or tile.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint with the sign of `x`; 0 at 0.
    """

def acos(x: Any) -> Any:
    """The arccosine of x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`, in radians from 0 to pi.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint / sqrt(1 - x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def add(a: Any, b: Any) -> Any:
    """The sum a + b; integers wrap.

    Parameters:
        a, b: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: an operand is a bool, or a scalar is combined with a vector or matrix.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint, for both.
    """

def argmax(v: Any) -> Any:
    """The index of the largest component of a vector; the lowest index among equal components. Numbers are preferred to
    NaNs.

    Parameters:
        v: a vector (N,) of any dtype but bool.
    Returns:
        a uint32; 0 of NaNs alone.
    Raises:
        type-mismatch: `v` is not a vector of numbers.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        none: an index has no gradient.
    """

def argmin(v: Any) -> Any:
    """The index of the smallest component of a vector; the lowest index among equal components. Numbers are preferred
    to NaNs.

    Parameters:
        v: a vector (N,) of any dtype but bool.
    Returns:
        a uint32; 0 of NaNs alone.
    Raises:
        type-mismatch: `v` is not a vector of numbers.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        none: an index has no gradient.
    """

def asin(x: Any) -> Any:
    """The arcsine of x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`, in radians from -pi / 2 to pi / 2.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / sqrt(1 - x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def atan(x: Any) -> Any:
    """The arctangent of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`, in radians from -pi / 2 to pi / 2.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (1 + x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), from the positive x axis.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        y, x: float16, bfloat16, float32 or float64 scalars of one dtype, vectors or matrices of one type, or tiles
            of such elements, which broadcast.
    Returns:
        a value of the type of the operands, in radians from -pi to pi.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        mixed-scalar-types: vectors or matrices differ in type.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * x / r**2 for `y`, -adjoint * y / r**2 for `x`, with r = hypot(x, y); 0 at the origin.
    Source:
        special cases: ISO C, annex F.10.1.4.
    """

def atomic_add(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Adds a value to the element at arr[i, ...], atomically, once for each thread.

    The call is atomic_add(arr, i, ..., value), or atomic_add(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of any dtype but bool.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        the gradient of the element, for the value; refused (no-gradient) for the returned elements.
    Source:
        PTX ISA, atom.add.
    """

def atomic_and(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Stores the bitwise and of a value and the element at arr[i, ...], atomically, once for each thread.

    The call is atomic_and(arr, i, ..., value), or atomic_and(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of integers.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.and.
    """

def atomic_cas(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Compares an element of an array with a value and, where they are equal, stores another one, atomically:
    atomic_cas(arr, i, ..., compare, value).

    Each thread updates once. Vectors and matrices are compared and change component by component.

    Parameters:
        arr: an array of any dtype.
        *args: the index, an integer for each dimension or a tuple of these, then the expected and the new value, of
            the dtype of `arr`.
        order: as for `tg.atomic_add`.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array, arguments are missing, an index is not an integer, a value has another
            dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.cas.
    """

def atomic_exch(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Exchanges the element for a value at arr[i, ...], atomically, once for each thread.

    The call is atomic_exch(arr, i, ..., value), or atomic_exch(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of any dtype.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.exch.
    """

def atomic_max(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Stores the larger of a value and the element at arr[i, ...], atomically, once for each thread.

    The call is atomic_max(arr, i, ..., value), or atomic_max(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of any dtype but bool.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.max.
    """

def atomic_min(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Stores the smaller of a value and the element at arr[i, ...], atomically, once for each thread.

    The call is atomic_min(arr, i, ..., value), or atomic_min(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of any dtype but bool.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.min.
    """

def atomic_or(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Stores the bitwise or of a value and the element at arr[i, ...], atomically, once for each thread.

    The call is atomic_or(arr, i, ..., value), or atomic_or(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of integers.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.or.
    """

def atomic_sub(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Subtracts a value from the element at arr[i, ...], atomically, once for each thread.

    The call is atomic_sub(arr, i, ..., value), or atomic_sub(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of any dtype but bool.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        the gradient of the element, negated, for the value; refused (no-gradient) for the returned elements.
    Source:
        PTX ISA, atom.add of the negative value.
    """

def atomic_xor(arr: Any, *args: Any, order: Any = 'relaxed') -> Any:
    """Stores the bitwise exclusive or of a value and the element at arr[i, ...], atomically, once for each thread.

    The call is atomic_xor(arr, i, ..., value), or atomic_xor(arr, (i, ...), value). The order of
    threads is unspecified. Vectors and matrices change component by component.

    Parameters:
        arr: an array of integers.
        *args: the index, an integer for each dimension or a tuple of these, then the value, of the dtype of `arr`.
        order: the order of the thread's other accesses, a constant: "relaxed" for none (the default); "acquire",
            with `tg.fence("acquire")` after the update; "release", with a fence before; or "acq_rel", with both.
    Returns:
        the element before, of the dtype of `arr`.
    Raises:
        type-mismatch: `arr` is not an array of such a dtype, arguments are missing, an index is not an integer, the
            value has another dtype, or there is no such order.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.xor.
    """

def bit_and(a: Any, b: Any) -> Any:
    """The bitwise and a & b; logical for bools.

    Parameters:
        a, b: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or not a scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def bit_count(x: Any) -> Any:
    """The number of bits of x that are set, in two's complement.

    Parameters:
        x: a scalar, vector, matrix or tile of integers.
    Returns:
        an int32; a vector, matrix or tile of int32 of one.
    Raises:
        type-mismatch: the components of `x` are not integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

def bit_or(a: Any, b: Any) -> Any:
    """The bitwise or a | b; logical for bools.

    Parameters:
        a, b: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or not a scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def bit_xor(a: Any, b: Any) -> Any:
    """The bitwise exclusive or a ^ b; logical for bools.

    Parameters:
        a, b: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or not a scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of x read as another type of the same width.

    Parameters:
        x: a scalar, vector, matrix or tile.
        dtype: a scalar type with the width of the components of `x`, or a scalar or vector type of the size of `x`,
            as in `tg.bitcast(word, tg.vec2h)`: component 0 has the lowest bits.
    Returns:
        a value of the shape of `x` with components of `dtype`, or a value of the type `dtype`.
    Raises:
        type-mismatch: the widths differ.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        refused (no-gradient): bits have no derivative.
    """

def block_dim() -> Any:
    """The number of threads in a block, roles included.

    Returns:
        an int, a constant when the kernel is compiled.
    Raises:
        nothing.
    Gradient:
        none: the result is a constant.
    Source:
        CUDA's blockDim; PTX ISA, %ntid.
    """

def breakpoint() -> None:
    """Stops each thread that reaches the call in a debugger: on the CPU in a debugger of machine code, on a GPU in
    cuda-gdb. Without a debugger the process ends with a trap signal, or the launch with an error of the GPU. Calls in
    Python and the interpreter breakpoint_ in Python's debugger.

    Raises:
        nothing.
    Gradient:
        none: the function has no result.
    Source:
        CUDA's __brkpt.
    """

def brev(x: Any) -> Any:
    """The integer with the bits of x in the opposite order.

    Parameters:
        x: a scalar, vector, matrix or tile of integers.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: the components of `x` are not integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

def bvh_get_group_root(id: Any, group: Any) -> Any:
    """The root of the subtree of a group of items, for the `root` of queries.

    Parameters:
        id: the BVH, or its id.
        group: an int32.
    Returns:
        an int32; -1, the value for all groups, if there is no such group.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing BVH.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_aabb(id: Any, low: Any, high: Any, root: Any = -1) -> Any:
    """A query for the items of a BVH whose box overlaps a box; boxes are closed sets.

    Parameters:
        id: the BVH, or its id.
        low, high: vec3, the corners of the box.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing BVH.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_aabb_tiled(id: Any, low: Any, high: Any) -> Any:
    """The function `tile_bvh_query_aabb` by its older name.

    Parameters:
        id: the BVH, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_capsule(id: Any, start: Any, dir: Any, radius: Any, root: Any = -1) -> Any:
    """A query for the items of a BVH whose box, enlarged by a radius on all sides, a ray intersects.

    With `max_dist` 1, `bvh_query_next` yields all items whose boxes the ball swept from `start` to `start` + `dir`
    intersects, and may yield items whose boxes are near only at a corner.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length but 0. A ray with a NaN or an infinite component yields no items.
        radius: a float32; a negative radius counts as 0.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing BVH.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_nearest(id: Any, point: Any, max_dist: Any = inf) -> Any:
    """The item of a BVH whose box is nearest to a point; among items at equal distances, the item with the lowest
    index.

    Parameters:
        id: the BVH, or its id.
        point: a vec3; a point with a NaN or an infinite coordinate has no nearest item.
        max_dist: a float32; only boxes that are closer are considered.
    Returns:
        an int32, the index of the item, or -1 if there is no such item.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_next(query: Any, index: Any, max_dist: Any = inf) -> Any:
    """Advances a query of a BVH to the next item.

    Parameters:
        query: a BvhQuery variable, which is updated.
        index: an int32 variable, which is set to the index of the next item, and is unchanged if there is none.
        max_dist: a float32, for rays: items farther away, in units of the length of the ray's direction, are
            skipped. The value may decrease from call to call.
    Returns:
        a bool, whether there was another item.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing BVH.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_next_tiled(query: Any) -> Any:
    """The function `tile_bvh_query_next` by its older name.

    Parameters:
        query: a BvhQueryTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the items in traversal order, and -1 at the end.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_ray(id: Any, start: Any, dir: Any, root: Any = -1) -> Any:
    """A query for the items of a BVH whose box a ray intersects, in no order of distance.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length but 0. A ray with a NaN or an infinite component yields no items.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing BVH.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_ray_tiled(id: Any, start: Any, dir: Any) -> Any:
    """The function `tile_bvh_query_ray` by its older name.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def bvh_query_sphere(id: Any, center: Any, radius: Any, root: Any = -1) -> Any:
    """A query for the items of a BVH whose box intersects a closed ball.

    Parameters:
        id: the BVH, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
        root: an int32, the node of `bvh_get_group_root` for queries of one group; all by default.
    Returns:
        a BvhQuery.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing BVH.
    Gradient:
        none: results of queries have no gradient.
    """

def cast(a: Any, dtype: Any) -> Any:
    """The value a converted to another scalar type, component by component.

    Floats are rounded to nearest, halves to even. Floats to integers truncate, saturate at the ends of the type
    and give 0 for NaN; integers to narrower integers wrap.

    Parameters:
        a: a scalar, vector, matrix, tile or literal.
        dtype: the scalar type; for a vector or matrix type, the type of its components.
    Returns:
        a value of the shape of `a` with components of `dtype`.
    Raises:
        type-mismatch: `a` is not a scalar, vector, matrix or tile; `dtype` is not an element type.
        out-of-range: a literal does not fit an integer type.
    Gradient:
        the adjoint, converted; refused (no-gradient) if floats were converted to integers.
    """

def cbrt(x: Any) -> Any:
    """The cube root of x, of either sign.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (3 * cbrt(x)**2); infinite at 0.
    Source:
        Halley's method.
    """

def ceil(x: Any) -> Any:
    """The smallest integral number not below x.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`, exact; infinities and NaNs are unchanged.
    Raises:
        type-mismatch: the components of `x` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, roundToIntegralTowardPositive.
    """

def clamp(x: Any, low: Any, high: Any) -> Any:
    """The value x limited to the range from low to high: min(max(x, low), high).

    Where `low` is above `high`, the result is `high`. A NaN in `x` becomes `low`.

    Parameters:
        x, low, high: scalars, vectors or matrices of one type, or tiles of such elements, which broadcast; a
            literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is not a scalar, vector, matrix or tile.
    Gradient:
        goes to `x` inside the range, to a limit outside; half to each of two equal operands.
    """

def closest_point_edge_edge(p1: Any, q1: Any, p2: Any, q2: Any, epsilon: Any) -> Any:
    """The points of two edges (line segments) that are closest to each other, and their distance.

    If several pairs of points are closest, because the edges are parallel, one pair is chosen.

    Parameters:
        p1, q1, p2, q2: the ends of the first and of the second edge, vectors (3,) of floats of one dtype.
        epsilon: a scalar of that dtype: an edge whose squared length is at most `epsilon` is the point at its
            start.
    Returns:
        a vector (3,): (s, t, d), with s and t from 0 to 1: the points p1 + s * (q1 - p1) and p2 + t * (q2 - p2),
        and their distance d.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        of s, t and d for the ends. A clamped s or t counts as constant, and so does s if the angle between the
        edges is below 0.001. The gradient of d is 0 at distance 0, and the gradient for `epsilon` is 0.
    Source:
        Ericson, Real-Time Collision Detection, 2005, section 5.1.9.
    """

def clz(x: Any) -> Any:
    """The number of zero bits above the highest set bit of x; the number of all bits if x is 0.

    Parameters:
        x: a scalar, vector, matrix or tile of integers.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: the components of `x` are not integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

def copysign(x: Any, y: Any) -> Any:
    """The magnitude of x with the sign of y, also of a 0 or a NaN.

    Parameters:
        x, y: scalars, vectors or matrices of one type of floats, or tiles of such elements, which broadcast; a
            literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: the operands are not floats.
    Gradient:
        the adjoint for `x`, negated where the signs differ, 0 at 0; 0 for `y`.
    Source:
        IEEE 754-2008, copySign.
    """

def cos(x: Any) -> Any:
    """The cosine of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint * sin(x).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def cosh(x: Any) -> Any:
    """The hyperbolic cosine of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * sinh(x).
    """

def cross(a: Any, b: Any) -> Any:
    """The cross product of two vectors of three components.

    Parameters:
        a, b: vectors (3,) of one type but bool.
    Returns:
        a vector (3,) of that type.
    Raises:
        type-mismatch: an operand does not have three components, or has components of bool; `a` or `b` is not a
            vector.
        mixed-scalar-types: the dtypes differ.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        cross(b, adjoint) for `a`, cross(adjoint, a) for `b`.
    """

def ctz(x: Any) -> Any:
    """The number of zero bits below the lowest set bit of x; the number of all bits if x is 0.

    Parameters:
        x: a scalar, vector, matrix or tile of integers.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: the components of `x` are not integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

@typing.overload
def curlnoise(state: Any, xy: Any, octaves: Any = 1, lacunarity: Any = 2.0, gain: Any = 0.5) -> Any:
    """The curl of noise, a vector field without divergence.

    Parameters:
        state: a uint32 of tg.rand_init, which selects the field of noise.
        xy: the point as a vec2 of float32. Points in more dimensions are passed as `xyz` or `xyzt`.
        octaves: the number of fields that are added, a uint32; 1 by default.
        lacunarity: the ratio of the frequencies of consecutive fields, a float32; 2 by default.
        gain: the ratio of the amplitudes of consecutive fields, a float32; 0.5 by default.
        xyz, xyzt: the point as a vec3 or vec4; the fourth coordinate is the time.
    Returns:
        a vec2 for `xy`, else a vec3.
    Raises:
        type-mismatch: an argument is not a number, or the result would be a tile of vectors of another dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        the adjoint times the derivatives of the field for the point, `lacunarity` and `gain`; none for `state`.
    Source:
        Bridson, Hourihan and Nordenstam, Curl-Noise for Procedural Fluid Flow, SIGGRAPH 2007.
    """
@typing.overload
def curlnoise(state: Any, xyz: Any, octaves: Any = 1, lacunarity: Any = 2.0, gain: Any = 0.5) -> Any: ...
@typing.overload
def curlnoise(state: Any, xyzt: Any, octaves: Any = 1, lacunarity: Any = 2.0, gain: Any = 0.5) -> Any: ...

def cw_div(a: Any, b: Any) -> Any:
    """The component-wise quotient of two vectors or matrices.

    Parameters:
        a, b: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: the operands are bools; vectors of different lengths are mixed-scalar-types.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint / b for `a`, -adjoint * a / b**2 for `b`.
    """

def cw_mul(a: Any, b: Any) -> Any:
    """The component-wise product of two vectors or matrices.

    Parameters:
        a, b: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: the operands are bools; vectors of different lengths are mixed-scalar-types.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint times the other operand.
    """

def ddot(a: Any, b: Any) -> Any:
    """The double inner product of two matrices: the sum of the products of their entries, row by row.

    Parameters:
        a, b: matrices (M, N) of one type but bool.
    Returns:
        a scalar of their dtype.
    Raises:
        type-mismatch: the types differ, or are of bools; `a` or `b` is not a matrix.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    """

def degrees(x: Any) -> Any:
    """Converts an angle from radians to degrees.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`, in degrees.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * 180 / pi.
    """

def determinant(a: Any) -> Any:
    """The determinant of a small matrix.

    Parameters:
        a: a matrix (2, 2), (3, 3) or (4, 4) of floats.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: the argument is not a square matrix of floats of this shape.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        the adjoint times the cofactors of `a`.
    """

def diag(vec: Any) -> Any:
    """The matrix with a vector on its diagonal and 0 elsewhere.

    Parameters:
        vec: a vector (N,) of any dtype but bool, N at most 32.
    Returns:
        a matrix (N, N) of its dtype.
    Raises:
        type-mismatch: the argument is not a vector of numbers of this shape.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        the diagonal of the adjoint.
    """

def diff_of_products(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The difference a * b - c * d of two products that are each rounded before they are subtracted.

    No product is fused with the difference, on any target. The result is therefore exactly 0 where the products are
    equal, and exactly negated where the products are exchanged; a * b - c * d has neither property if a product is
    fused. Two triangles that compute the determinant of their common edge get the same sign.

    Parameters:
        a, b, c, d: scalars, vectors or matrices of one type of floats, or tiles of such elements, which broadcast;
            a literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: the operands are not floats.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`, -adjoint * d for `c`, -adjoint * c for `d`.
    """

def div(a: Any, b: Any) -> Any:
    """The quotient of two numbers, a / b.

    Integers truncate towards 0; an integer divided by 0 gives 0. Floats follow IEEE 754.

    Parameters:
        a, b: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; a literal is
            converted to the dtype of the other operand.
    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: an operand is a bool, or both operands are vectors or matrices, for which tg.cw_div is the
            component-wise quotient.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint / b for `a`, -adjoint * a / b**2 for `b`; none through integers.
    """

def div_approx(a: Any, b: Any) -> Any:
    """The quotient of two floats, a / b, which may be approximate; it is exact in this implementation.

    Parameters:
        a, b: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; a literal is
            converted to the dtype of the other operand.
    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: both operands are vectors or matrices, or an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint / b for `a`, -adjoint * a / b**2 for `b`.
    """

def dot(a: Any, b: Any) -> Any:
    """The inner product of two vectors, summed from the first component on.

    Parameters:
        a, b: vectors (N,) of one type but bool.
    Returns:
        a scalar of their dtype.
    Raises:
        type-mismatch: the types differ, or are of bools; `a` or `b` is not a vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    Source:
        BLAS dot.
    """

def eig3(A: Any, Q: Any = None, d: Any = None) -> Any:
    """The eigenvalues of a symmetric 3x3 matrix, with A = Q * diag(d) * transpose(Q).

    Q is a rotation, with determinant 1, whose columns are the eigenvectors. The eigenvalues are in no order.

    Parameters:
        A: a symmetric matrix (3, 3) of floats.
        Q, d: variables of the types of the results. If they are passed, they are set, and nothing is returned.
    Returns:
        a matrix (3, 3) and a vector (3,) of the dtype of `A`: Q and d.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `A` is not a matrix of floats of this shape, or is a tile.
        mixed-scalar-types: `A` is a literal.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        Q * P * transpose(Q), symmetric, with the adjoint of d on the diagonal of P, and the adjoints of the
        rotations of pairs of columns elsewhere. The gradient grows as 1 over the difference of two eigenvalues; the
        rotation of a pair of equal eigenvalues counts as constant.
    Source:
        Jacobi, 1846; Golub and Van Loan, Matrix Computations, 8.5.
    """

def erf(x: Any) -> Any:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    The error is at most 1.5 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * 2 / sqrt(pi) * exp(-x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def erfc(x: Any) -> Any:
    """The complementary error function, 1 - erf(x), accurate where the result is small.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint * 2 / sqrt(pi) * exp(-x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def erfcinv(x: Any) -> Any:
    """The inverse of the complementary error function: the y with erfc(y) = x; NaN outside 0 to 2.

    Accurate where x is near 0, where tg.erfinv(1 - x) is not. The error is at most 1 unit in the last place in float32,
    2 in float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint * sqrt(pi) / 2 * exp(y**2), with y the result.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def erfinv(x: Any) -> Any:
    """The inverse of the error function: the y with erf(y) = x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * sqrt(pi) / 2 * exp(y**2), with y the result.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def exp(x: Any) -> Any:
    """The exponential function, e**x.

    Results beyond the range are inf or 0. The error is at most 2 units in the last place in float32, 1 in
    float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * exp(x).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def exp10(x: Any) -> Any:
    """The power 10**x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * exp10(x) * ln 10.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def exp2(x: Any) -> Any:
    """The power 2**x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * exp2(x) * ln 2.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def expect_eq(a: Any, b: Any) -> Any:
    """Checks that two values are equal. A failed check prints an error, and the kernel continues.

    Parameters:
        a, b: scalars, vectors or matrices of one type.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: the operands are not scalars, vectors or matrices.
        mixed-scalar-types: the operands differ in type.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: nothing is returned.
    """

def expect_near(a: Any, b: Any, tolerance: Any = 1e-06) -> Any:
    """Checks that all components of two values differ by at most a tolerance, and that no component is a NaN. A failed
    check prints an error, and the kernel continues.

    Parameters:
        a, b: scalars, vectors or matrices of one type of numbers.
        tolerance: a float; 1e-6 by default.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: the operands are not scalars, vectors or matrices.
        mixed-scalar-types: the operands differ in type.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: nothing is returned.
    """

def expect_neq(a: Any, b: Any) -> Any:
    """Checks that two values differ. A failed check prints an error, and the kernel continues.

    Parameters:
        a, b: scalars, vectors or matrices of one type.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: the operands are not scalars, vectors or matrices.
        mixed-scalar-types: the operands differ in type.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: nothing is returned.
    """

def expm1(x: Any) -> Any:
    """The exponential function less 1, exp(x) - 1, accurate near 0.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * (expm1(x) + 1).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def fence(order: Any = 'acq_rel') -> None:
    """Orders the memory accesses of each calling thread, as seen by all threads of the device.

    A thread writes data, releases, and updates a flag by an atomic function; a thread that reads this flag by an atomic
    function, and then acquires, sees the data. The data include stores of tile functions before the release, and tile
    functions after the acquire may read the data.

    Blocks run in any order, so a block must not wait for another block: let the last block that updates a count do the
    remaining work.

    Parameters:
        order: "acquire", later accesses stay after earlier reads; "release", earlier accesses stay before later
            writes; or "acq_rel", both. A constant.
    Raises:
        type-mismatch: there is no such order.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, fence.acq_rel.gpu; C++, std::atomic_thread_fence.
    """

def fence_async() -> None:
    """Orders accesses of threads to shared tiles before copies and MMAs that start after the fence. Reads and writes of
    each thread of the role are ordered before the copies and MMAs of any thread that synchronises with that thread
    afterwards.

    Raises:
        role-placement: the call is outside of roles.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, fence.proxy.async.
    """

def floor(x: Any) -> Any:
    """The largest integral number not above x.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`, exact; infinities and NaNs are unchanged.
    Raises:
        type-mismatch: the components of `x` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, roundToIntegralTowardNegative.
    """

def floordiv(a: Any, b: Any) -> Any:
    """The quotient a // b, rounded down.

    An integer divided by 0 gives 0.

    Parameters:
        a, b: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; a literal is
            converted to the dtype of the other operand.
    Returns:
        a value of the wider of the two types; of floats, the floor of the rounded quotient.
    Raises:
        type-mismatch: both operands are vectors or matrices, or an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    """

def fma(x: Any, y: Any, z: Any) -> Any:
    """The sum x * y + z, rounded once.

    Parameters:
        x, y, z: scalars, vectors or matrices of one type of floats, or tiles of such elements, which broadcast; a
            literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; float16 and bfloat16 are the float32 result, rounded once more.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: the operands are not floats.
    Gradient:
        adjoint * y for `x`, adjoint * x for `y`, the adjoint for `z`.
    Source:
        IEEE 754-2008, fusedMultiplyAdd.
    """

def frac(x: Any) -> Any:
    """The fractional part of x, x - trunc(x), with the sign of x.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: an argument is not a number, or is a vector or matrix instead of a scalar.
        mixed-scalar-types: the arguments differ in dtype, or are integers instead of floats.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        the adjoint.
    """

def get_diag(mat: Any) -> Any:
    """The diagonal of a square matrix.

    Parameters:
        mat: a matrix (N, N) of floats.
    Returns:
        a vector (N,) of its dtype.
    Raises:
        type-mismatch: the argument is not a square matrix of floats of this shape.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        the adjoint on the diagonal, 0 elsewhere.
    """

def group_lane() -> Any:
    """The index of this thread in its role; outside of roles, in the block.

    Returns:
        an int32.
    Raises:
        nothing.
    Gradient:
        none: the result is an integer.
    """

def group_present() -> Any:
    """The number of present threads of the group: those whose tg.group_lane() is below this number. Equal to
    tg.group_size(), except in the last block if the launch's threads do not fill the block.

    Returns:
        an int32; a constant if all blocks of the launch are full.
    Raises:
        nothing.
    Gradient:
        none: the result is an integer.
    """

def group_size() -> Any:
    """The number of threads of the role; outside of roles, of the block.

    Returns:
        an int, a constant when the kernel is compiled.
    Raises:
        nothing.
    Gradient:
        none: the result is a constant.
    """

def hash_grid_point_id(id: Any, index: Any) -> Any:
    """The index of the point at a position of the sorted order of a hash grid.

    Consecutive threads that take points in this order work on points close to each other.

    Parameters:
        id: the hash grid, or its id.
        index: an int32, the position, from 0 to the number of points - 1.
    Returns:
        an int32; -1 for a position out of range.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing hash grid, or its coordinates have another dtype.
    Gradient:
        none: results of queries have no gradient.
    """

def hash_grid_query(id: Any, point: Any, max_dist: Any, group: Any = None) -> Any:
    """A query for the points of a hash grid in the cells that a box around a point overlaps.

    The query yields each point within the distance once, and may yield points farther away, so that the caller compares
    distances. For a NaN coordinate the box has the cell of 0 only. `for i in query` loops over the points.

    Parameters:
        id: the hash grid, or its id.
        point: a vec3, vec3h or vec3d, of the dtype of the points of the grid.
        max_dist: a scalar, half the width of the box, converted to the dtype of the points. A query whose distance
            is negative or NaN yields no points.
        group: an int32: the query yields only points of this group, if the grid was built with groups.
    Returns:
        a HashGridQuery.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing hash grid, or its coordinates have another dtype.
    Gradient:
        none: results of queries have no gradient.
    """

def hash_grid_query_next(query: Any, index: Any) -> Any:
    """Advances a query of a hash grid to the next point. Points are ordered by cell, and within a cell by group and
    index.

    Parameters:
        query: a HashGridQuery variable, which is updated.
        index: an int32 variable, which is set to the index of the next point, and is unchanged if there is none.
    Returns:
        a bool, whether there was another point.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing hash grid, or its coordinates have another dtype.
    Gradient:
        none: results of queries have no gradient.
    """

def hypot(x: Any, y: Any) -> Any:
    """The length of the hypotenuse, sqrt(x**2 + y**2), without overflow of the squares; inf if either operand is
    infinite.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x, y: float16, bfloat16, float32 or float64 scalars of one dtype, vectors or matrices of one type, or tiles
            of such elements, which broadcast.
    Returns:
        a value of the type of the operands.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        mixed-scalar-types: vectors or matrices differ in type.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * x / hypot(x, y) for `x`, adjoint * y / hypot(x, y) for `y`; 0 at the origin.
    """

def identity(n: Any, dtype: Any = ...) -> Any:
    """The identity matrix of n rows.

    Parameters:
        n: the number of rows and columns, 1 to 32, a constant.
        dtype: the scalar type; float32 by default.
    Returns:
        a matrix (n, n).
    Raises:
        not-constant: `n` is known at run time only.
        type-mismatch: `n` is below 1 or above 32, or `dtype` is not a scalar type.
    Gradient:
        none: the result is a constant.
    """

def intersect_tri_tri(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any) -> Any:
    """Whether two triangles have a common point; a common edge or vertex counts, also of triangles in one plane.

    A degenerate triangle is treated as its longest edge or as a point. Triangles with a NaN are empty. If the distance
    or the overlap is near 0, rounding errors may decide the result; float64 is more precise.

    Parameters:
        v0, v1, v2: the vertices of the first triangle, vectors (3,) of floats.
        u0, u1, u2: the vertices of the second triangle, vectors (3,) of the same dtype.
    Returns:
        an int32: 1 if the triangles intersect, else 0.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        none: integers have no gradient.
    Source:
        Gottschalk, Lin and Manocha, OBBTree, SIGGRAPH 1996: separating axes.
    """

def inverse(a: Any) -> Any:
    """The inverse of a small matrix, by its cofactors; zeros where the determinant is 0.

    Parameters:
        a: a matrix (2, 2), (3, 3) or (4, 4) of floats.
    Returns:
        a matrix of the type of `a`.
    Raises:
        type-mismatch: the argument is not a square matrix of floats of this shape.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        -transpose(b) * adjoint * transpose(b), with b the inverse; 0 where the determinant is 0.
    """

def inverse_approx(a: Any) -> Any:
    """The inverse of a small matrix for callers that accept an approximation; the same as tg.inverse.

    Parameters:
        a: a matrix (2, 2), (3, 3) or (4, 4) of floats.
    Returns:
        a matrix of the type of `a`.
    Raises:
        type-mismatch: the argument is not a square matrix of floats of this shape.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        as for tg.inverse.
    """

def invert(a: Any) -> Any:
    """The bitwise complement ~a of an integer.

    Parameters:
        a: a scalar, vector, matrix or tile of integers.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: the components of `a` are not integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

def isfinite(a: Any) -> Any:
    """Whether a is a number: neither an infinity nor a NaN.

    Parameters:
        a: a scalar, vector, matrix or tile of floats.
    Returns:
        a bool; a vector, matrix or tile of bools of one.
    Raises:
        type-mismatch: the components of `a` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: bools have no gradient.
    Source:
        IEEE 754-2008, isFinite.
    """

def isinf(a: Any) -> Any:
    """Whether a is an infinity of either sign.

    Parameters:
        a: a scalar, vector, matrix or tile of floats.
    Returns:
        a bool; a vector, matrix or tile of bools of one.
    Raises:
        type-mismatch: the components of `a` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: bools have no gradient.
    Source:
        IEEE 754-2008, isInfinite.
    """

def isnan(a: Any) -> Any:
    """Whether a is a NaN.

    Parameters:
        a: a scalar, vector, matrix or tile of floats.
    Returns:
        a bool; a vector, matrix or tile of bools of one.
    Raises:
        type-mismatch: the components of `a` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: bools have no gradient.
    Source:
        IEEE 754-2008, isNaN.
    """

def lane_argmax(x: Any, width: Any = 32) -> Any:
    """The index in the segment of the first lane with the largest x, for all lanes of the segment.

    A NaN is ignored unless all values are NaN, and -0.0 is below 0.0; if all values are NaN the result is lane 0.

    Parameters:
        x: a scalar, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        an int32 from 0 to width - 1.
    Raises:
        type-mismatch: `x` is not a scalar.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: the result is an integer.
    """

def lane_argmin(x: Any, width: Any = 32) -> Any:
    """The index in the segment of the first lane with the smallest x, for all lanes of the segment.

    A NaN is ignored unless all values are NaN, and -0.0 is below 0.0; if all values are NaN the result is lane 0.

    Parameters:
        x: a scalar, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        an int32 from 0 to width - 1.
    Raises:
        type-mismatch: `x` is not a scalar.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: the result is an integer.
    """

def lane_ballot(flag: Any, width: Any = 32) -> Any:
    """The lanes of this thread's segment whose flag is true, as a bit mask: bit k is lane k.

    Parameters:
        flag: a bool or a number, true unless 0, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 32; 32 by default.
    Returns:
        a uint32; the bits of absent lanes are 0.
    Raises:
        type-mismatch: `flag` is not a scalar.
        not-constant: `width` is known at run time only.
        out-of-range: `width` is not a power of 2 up to 32.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: the result is an integer.
    Source:
        PTX ISA, vote.sync.ballot.
    """

def lane_collect(x: Any, target: Any, width: Any = 32) -> Any:
    """The sum of x over the lanes of the segment whose target is this lane: the inverse of tg.lane_shuffle if each lane
    is the target of exactly one lane.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. Absent lanes add nothing.

    Parameters:
        x: a scalar, vector or matrix of numbers, of each thread.
        target: the index of a lane in the segment, any integer, modulo the width.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`; 0 if no lane has this target. Values are added in the order of the lanes.
    Raises:
        type-mismatch: `target` is not an integer; `x` is a bool, or not a scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the adjoint of the target.
    """

def lane_max(x: Any, width: Any = 32) -> Any:
    """The largest x in this thread's segment, component by component, for all threads of the segment.

    A NaN is ignored unless all values are NaN, and -0.0 is below 0.0. Absent lanes are ignored.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is not a scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the sum of the adjoints of the segment, split equally between the lanes that have the extreme.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """

def lane_min(x: Any, width: Any = 32) -> Any:
    """The smallest x in this thread's segment, component by component, for all threads of the segment.

    A NaN is ignored unless all values are NaN, and -0.0 is below 0.0. Absent lanes are ignored.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is not a scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the sum of the adjoints of the segment, split equally between the lanes that have the extreme.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """

def lane_shuffle(x: Any, source: Any, width: Any = 32) -> Any:
    """The value of x in another lane of this thread's segment.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. The value of an absent lane is 0.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        source: the index of the lane in the segment, any integer, modulo the width.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `source` is not an integer; `x` is not a scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the adjoint, for x in the source lane; the sum of the adjoints if several lanes read one lane.
    Source:
        PTX ISA, shfl.sync.idx.
    """

def lane_sum(x: Any, width: Any = 32) -> Any:
    """The sum of x over this thread's segment, component by component; all threads of the segment get the same bits.

    Floats narrower than 32 bits are added in float32, and the sum is rounded once; integers wrap. Absent lanes
    add nothing.

    Parameters:
        x: a scalar, vector or matrix of numbers, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is a bool, or not a scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the sum of the adjoints of the segment.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """

def lane_xor(x: Any, mask: Any, width: Any = 32) -> Any:
    """The value of x in the lane whose index in the segment is this lane's index with the bits of a mask flipped.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. The value of an absent lane is 0.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        mask: an integer, modulo the width, the same in all threads: the value of thread 0 is used.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `mask` is not an integer; `x` is not a scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is not a power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the adjoint of the other lane.
    Source:
        PTX ISA, shfl.sync.bfly.
    """

def length(a: Any) -> Any:
    """The length of a vector of floats: sqrt(dot(a, a)).

    Squares of components may overflow or underflow; tg.hypot of two scalars avoids squares.

    Parameters:
        a: a vector (N,) of floats, or a tile of such vectors.
    Returns:
        a scalar of the dtype of `a`; a tile of scalars of a tile.
    Raises:
        type-mismatch: `a` is not a vector of floats, or tile of such vectors.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * a / length(a); 0 at length 0.
    """

def length_sq(a: Any) -> Any:
    """The squared length of a vector: dot(a, a).

    Parameters:
        a: a vector (N,) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: the components of `a` are bools; `a` is not a vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        2 * adjoint * a.
    """

def lerp(a: Any, b: Any, t: Any) -> Any:
    """The linear interpolation a * (1 - t) + b * t.

    Parameters:
        a, b: scalars, vectors or matrices of one type of floats, or tiles of them.
        t: a scalar of their dtype.
    Returns:
        a value of the type of `a`.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: an argument is not a number, or is a vector or matrix instead of a scalar.
        mixed-scalar-types: the arguments differ in dtype, or are integers instead of floats.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * (1 - t) for `a`, adjoint * t for `b`, the inner product of the adjoint and b - a for `t`.
    """

def log(x: Any) -> Any:
    """The natural logarithm of x; -inf at 0, NaN below.

    The error is at most 1.5 units in the last place in float32, 1 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / x.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def log10(x: Any) -> Any:
    """The logarithm of x to base 10; -inf at 0, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (x * ln 10).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def log1p(x: Any) -> Any:
    """The logarithm log(1 + x), accurate near 0; -inf at -1, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (1 + x).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def log2(x: Any) -> Any:
    """The logarithm of x to base 2; -inf at 0, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (x * ln 2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

@typing.overload
def lower_bound(arr: Any, value: Any) -> Any:
    """The first index of a sorted array whose element is at least a value; the end of the range if all elements are
    smaller.

    Parameters:
        arr: an array (N,) of scalars that ascends.
        value: a scalar of the dtype of `arr`.
        arr_begin, arr_end: the range of indices, int32 scalars; by default the whole array.
    Returns:
        an int32 from the begin of the range to its end.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `arr` is not an array of one dimension of scalars, or an index is not an integer.
        mixed-scalar-types: `value` is of another dtype than `arr`.
        out-of-range: a literal does not fit its dtype.
        out-of-bounds: the range leaves the array, in debug mode.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        none: an index has no gradient.
    """
@typing.overload
def lower_bound(arr: Any, arr_begin: Any, arr_end: Any, value: Any) -> Any: ...

def lshift(a: Any, b: Any) -> Any:
    """The left shift a << b of an integer; 0 if b is at least the width of a.

    Parameters:
        a, b: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or not a scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def match_any(x: Any, width: Any = 32) -> Any:
    """The lanes of this thread's segment that have the same x, as a bit mask: bit k is lane k.

    Parameters:
        x: an integer or bool, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 32; 32 by default.
    Returns:
        a uint32; the bits of absent lanes are 0.
    Raises:
        type-mismatch: `x` is neither an integer nor a bool.
        not-constant: `width` is known at run time only.
        out-of-range: `width` is not a power of 2 up to 32.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: the result is an integer.
    Source:
        PTX ISA, match.any.sync.
    """

def matrix(*args: Any, shape: Any = None, dtype: Any = ...) -> Any:
    """A matrix of given entries, of row vectors, of a tile's elements, of one value, of a motion, or of zeros; or a
    type of matrices.

    Parameters:
        *args: the entries, row by row, or a vector or matrix of them; or the rows as vectors, and matrices of
            several rows; or a tile (M, N), all of whose elements each thread reads; or one scalar for all entries;
            or a translation, rotation and scale, which are composed by tg.transform_compose; no argument: zeros. A
            shape and a scalar type give the matrix type, also in annotations.
        shape: (rows, columns), constants; without it 4, 9 or 16 entries make a square matrix.
        dtype: the scalar type; float32 by default.
    Returns:
        a matrix (rows, columns) of at most 1024 entries; or the type.
    Raises:
        type-mismatch: the number of entries does not fit the shape, or an entry has another dtype.
        mixed-scalar-types: the dtypes of a translation, rotation and scale differ.
        not-constant: `shape` is known at run time only.
        out-of-range: `shape` is not a pair of positive numbers.
    Gradient:
        each entry gets the adjoint's entry.
    """

def matrix_from_cols(*cols: Any) -> Any:
    """The matrix of given columns.

    Parameters:
        *cols: 1 or more vectors (M,) of one type.
    Returns:
        a matrix (M, number of columns) of their dtype.
    Raises:
        type-mismatch: there are no columns, or their types differ; the matrix would have more than 1024 entries;
            `*cols` is not a vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        each column gets the adjoint's column.
    """

def matrix_from_rows(*rows: Any) -> Any:
    """The matrix of given rows.

    Parameters:
        *rows: 1 or more vectors (N,) of one type.
    Returns:
        a matrix (number of rows, N) of their dtype.
    Raises:
        type-mismatch: there are no rows, or their types differ; the matrix would have more than 1024 entries;
            `*rows` is not a vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        each row gets the adjoint's row.
    """

def max(a: Any, b: Any = None) -> Any:
    """The larger of a and b, component by component; without b the largest component of a vector or matrix a.

    The result is a NaN only if both operands are NaN, and -0.0 is below 0.0. In kernels, Python's `max` of two or more
    values is this function.

    Parameters:
        a, b: scalars, vectors or matrices of one type, or tiles of such elements, which broadcast; a literal is
            converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is not a scalar, vector, matrix or tile.
    Gradient:
        goes to the operand that is the result; half of it to each of two equal operands.
    Source:
        IEEE 754-2019, maximumNumber.
    """

def mbarrier(count: Any, stages: Any = 1) -> Any:
    """Memory barriers in shared memory, one for each stage, created before the roles.

    A phase ends, and the next one begins, after `count` arrivals and after all bytes that were announced in the phase
    have been copied.

    Parameters:
        count: the number of arrivals that end a phase, a constant from 1 to 2**20 - 1.
        stages: the number of barriers, a constant from 1 to 64; 1 by default.
    Returns:
        the barriers, each in phase 0.
    Raises:
        not-constant: a number is known at run time only.
        out-of-range: a number is not in its range.
        role-placement: the barriers are created inside a role.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, mbarrier.init.
    """

def mbarrier_arrive(barrier: Any, stage: Any = 0) -> None:
    """Arrives at a memory barrier, once for each warp of the role; in `if tg.elect():` a single time.

    Earlier memory accesses of these threads are visible to threads that have waited for the end of the phase.

    Parameters:
        barrier: barriers of tg.mbarrier.
        stage: the index of the barrier, an integer from 0; 0 by default.
    Raises:
        type-mismatch: `barrier` was not created by tg.mbarrier; `stage` is not an integer.
        out-of-range: a constant `stage` is not one of the barriers.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, mbarrier.arrive (release, CTA).
    """

def mbarrier_expect_bytes(barrier: Any, stage: Any, bytes: Any) -> None:
    """Arrives at a memory barrier once, by one thread of the role, and announces bytes: the phase does not end before
    copies have transferred the announced number of bytes.

    Parameters:
        barrier: barriers of tg.mbarrier.
        stage: the index of the barrier, an integer from 0.
        bytes: the number of bytes, a constant from 1 to 2**20 - 1.
    Raises:
        not-constant: `bytes` is known at run time only.
        out-of-range: `bytes` is not in its range; a constant `stage` is not one of the barriers.
        type-mismatch: `barrier` was not created by tg.mbarrier; `stage` is not an integer.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, mbarrier.arrive.expect_tx.
    """

def mbarrier_wait(barrier: Any, stage: Any, phase: Any) -> None:
    """Waits until a phase of a memory barrier has ended; in `if tg.elect():` one warp waits.

    Parameters:
        barrier: barriers of tg.mbarrier.
        stage: the index of the barrier, an integer from 0.
        phase: the number of the phase, an integer; only its lowest bit, the parity, is used. For a new barrier a
            phase of parity 1 has ended.
    Raises:
        deadlock: no role of a block can make progress, on a CPU.
        type-mismatch: `barrier` was not created by tg.mbarrier; `stage` is not an integer.
        out-of-range: a constant `stage` is not one of the barriers.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, mbarrier.try_wait.parity.
    """

def mesh_eval_face_normal(id: Any, face: Any) -> Any:
    """The unit normal of a face, around which the vertices are in counterclockwise order.

    Parameters:
        id: the mesh, or its id.
        face: an int32; the result is zeros if the face is out of range or has no area.
    Returns:
        a vec3.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the points of the mesh.
    """

def mesh_eval_position(id: Any, face: Any, bary_u: Any, bary_v: Any) -> Any:
    """The point of a face at barycentric coordinates.

    Parameters:
        id: the mesh, or its id.
        face: an int32; the result is zeros if the face is out of range.
        bary_u, bary_v: float32.
    Returns:
        a vec3.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the weights and for the points of the mesh.
    """

def mesh_eval_velocity(id: Any, face: Any, bary_u: Any, bary_v: Any) -> Any:
    """The velocity of a mesh at barycentric coordinates of a face; zeros if the mesh has no velocities.

    Parameters:
        id: the mesh, or its id.
        face: an int32; the result is zeros if the face is out of range.
        bary_u, bary_v: float32.
    Returns:
        a vec3.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the weights and for the velocities of the mesh.
    """

def mesh_get(id: Any) -> Any:
    """The arrays of a mesh, for reading: `points`, `indices` with three entries per face, and `velocities`.

    Parameters:
        id: the mesh, or its id.
    Returns:
        a struct of the three arrays.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the points and velocities that are read.
    """

def mesh_get_bvh(id: Any) -> Any:
    """The id of the hierarchy of a mesh, whose items are the boxes of the faces.

    Parameters:
        id: the mesh, or its id.
    Returns:
        a uint64.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_get_group_root(id: Any, group: Any) -> Any:
    """The root of the subtree of a group of faces, for the `root` of queries.

    Parameters:
        id: the mesh, or its id.
        group: an int32.
    Returns:
        an int32; -1, the value for all groups, if there is no such group.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_get_index(id: Any, index: Any) -> Any:
    """The vertex at a corner of a face.

    Parameters:
        id: the mesh, or its id.
        index: an int32, 3 * face + corner; the result is -1 if it is out of range.
    Returns:
        an int32.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_get_point(id: Any, index: Any) -> Any:
    """The position of a corner of a face.

    Parameters:
        id: the mesh, or its id.
        index: an int32, 3 * face + corner; the result is zeros if it is out of range.
    Returns:
        a vec3.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the points of the mesh.
    """

def mesh_get_velocity(id: Any, index: Any) -> Any:
    """The velocity of a corner of a face; zeros if the mesh has no velocities.

    Parameters:
        id: the mesh, or its id.
        index: an int32, 3 * face + corner; the result is zeros if it is out of range.
    Returns:
        a vec3.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient for the velocities of the mesh.
    """

def mesh_query_aabb(id: Any, low: Any, high: Any) -> Any:
    """A query for the faces of a mesh whose bounds overlap a box.

    Parameters:
        id: the mesh, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a MeshQuery, for `mesh_query_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_query_aabb_next(query: Any, index: Any) -> Any:
    """Advances a query of a mesh to the next face; the older name of `mesh_query_next`.

    Parameters:
        query: a MeshQuery variable, which is updated.
        index: an int32 variable, which is set to the next face, and is unchanged if there is none.
    Returns:
        a bool, whether there was another face.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_query_aabb_next_tiled(query: Any) -> Any:
    """The function `tile_mesh_query_aabb_next` by its older name.

    Parameters:
        query: a MeshQueryAABBTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the faces in traversal order, and -1 at the end.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_query_aabb_tiled(id: Any, low: Any, high: Any) -> Any:
    """The function `tile_mesh_query_aabb` by its older name.

    Parameters:
        id: the mesh, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a MeshQueryAABBTiled, for `tile_mesh_query_aabb_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_query_furthest_point_no_sign(id: Any, point: Any, min_dist: Any, face: Any = None, bary_u: Any = None, bary_v: Any = None) -> Any:
    """The point of a mesh that is furthest from a point, a vertex; the `sign` is 0.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        min_dist: a float32; only points that are farther away are considered.
        face, bary_u, bary_v: variables of the caller, an int32 and two float32, for a call with all of them: if a
            point is found, they are set to the face and the weights; the result is whether a point is found.
    Returns:
        a MeshQueryPoint: `result`, whether a point is found; `face`, the lowest index at equal distances; `u` and
        `v`, the weights of the face's first two vertices; `sign`, below 0 inside of the mesh, else above.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its closest edge or
        vertex, are constant.
    """

def mesh_query_next(query: Any, index: Any) -> Any:
    """Advances a query of a mesh to the next face.

    Parameters:
        query: a MeshQuery variable, which is updated.
        index: an int32 variable, which is set to the next face, and is unchanged if there is none.
    Returns:
        a bool, whether there was another face.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_query_point(id: Any, point: Any, max_dist: Any, inside: Any = None, face: Any = None, bary_u: Any = None, bary_v: Any = None) -> Any:
    """The point of a mesh that is closest to a point. The point is inside if two of three rays along the axes hit the
    back of their first face.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all
            of them: if a point is found, they are set to the sign, the face and the weights; the result is whether
            a point is found.
    Returns:
        a MeshQueryPoint: `result`, whether a point is found; `face`, the lowest index at equal distances; `u` and
        `v`, the weights of the face's first two vertices; `sign`, below 0 inside of the mesh, else above.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its closest edge or
        vertex, are constant.
    """

def mesh_query_point_no_sign(id: Any, point: Any, max_dist: Any, face: Any = None, bary_u: Any = None, bary_v: Any = None) -> Any:
    """The point of a mesh that is closest to a point; the `sign` is 0, because there is no inside test.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        face, bary_u, bary_v: variables of the caller, an int32 and two float32, for a call with all of them: if a
            point is found, they are set to the face and the weights; the result is whether a point is found.
    Returns:
        a MeshQueryPoint: `result`, whether a point is found; `face`, the lowest index at equal distances; `u` and
        `v`, the weights of the face's first two vertices; `sign`, below 0 inside of the mesh, else above.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its closest edge or
        vertex, are constant.
    """

@typing.overload
def mesh_query_point_sign_normal(id: Any, point: Any, max_dist: Any, epsilon: Any = 0.001) -> Any:
    """The point of a mesh that is closest to a point. The point is inside if it is at the back of the angle-weighted
    pseudonormal of the closest point.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        epsilon: a float32, the tolerance for faces, edges and vertices at the closest point, in units of the mean
            edge length of the closest face.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all
            of them: if a point is found, they are set to the sign, the face and the weights; the result is whether
            a point is found.
    Returns:
        a MeshQueryPoint: `result`, whether a point is found; `face`, the lowest index at equal distances; `u` and
        `v`, the weights of the face's first two vertices; `sign`, below 0 inside of the mesh, else above.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its closest edge or
        vertex, are constant.
    """
@typing.overload
def mesh_query_point_sign_normal(id: Any, point: Any, max_dist: Any, inside: Any, face: Any, bary_u: Any, bary_v: Any, epsilon: Any = 0.001) -> Any: ...

@typing.overload
def mesh_query_point_sign_parity(id: Any, point: Any, max_dist: Any, n_sample: Any = 1, perturbation_scale: Any = 0.1) -> Any:
    """The point of a mesh that is closest to a point. The point is inside if at least half of `n_sample` rays hit an
    odd number of faces.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        n_sample: an int32, the number of rays. All points use the same directions.
        perturbation_scale: a float32, the largest deviation of the rays from the direction (1, 1, 1) along each
            axis.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all
            of them: if a point is found, they are set to the sign, the face and the weights; the result is whether
            a point is found.
    Returns:
        a MeshQueryPoint: `result`, whether a point is found; `face`, the lowest index at equal distances; `u` and
        `v`, the weights of the face's first two vertices; `sign`, below 0 inside of the mesh, else above.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its closest edge or
        vertex, are constant.
    """
@typing.overload
def mesh_query_point_sign_parity(id: Any, point: Any, max_dist: Any, inside: Any, face: Any, bary_u: Any, bary_v: Any, n_sample: Any = 1, perturbation_scale: Any = 0.1) -> Any: ...

@typing.overload
def mesh_query_point_sign_winding_number(id: Any, point: Any, max_dist: Any, accuracy: Any = 2.0, threshold: Any = 0.5) -> Any:
    """The point of a mesh that is closest to a point. The point is inside if its winding number is at least
    a threshold.

    Winding numbers are robust for meshes with holes and for loose triangles. For a mesh without
    `support_winding_number` the sign is computed as by `mesh_query_point`.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
        accuracy: a float32; the faces of a node are approximated together if their distance exceeds `accuracy`
            times their radius.
        threshold: a float32, the least winding number of points that are inside.
        inside, face, bary_u, bary_v: variables of the caller, float32, int32 and two float32, for a call with all
            of them: if a point is found, they are set to the sign, the face and the weights; the result is whether
            a point is found.
    Returns:
        a MeshQueryPoint: `result`, whether a point is found; `face`, the lowest index at equal distances; `u` and
        `v`, the weights of the face's first two vertices; `sign`, below 0 inside of the mesh, else above.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its closest edge or
        vertex, are constant.
    """
@typing.overload
def mesh_query_point_sign_winding_number(id: Any, point: Any, max_dist: Any, inside: Any, face: Any, bary_u: Any, bary_v: Any, accuracy: Any = 2.0, threshold: Any = 0.5) -> Any: ...

@typing.overload
def mesh_query_ray(id: Any, start: Any, dir: Any, max_t: Any, root: Any = -1) -> Any:
    """The first face of a mesh that a ray hits from either side; the lowest index among faces at equal distances.

    A ray that goes through an edge or a vertex of a closed mesh hits exactly one of the faces around it. The result
    does not depend on how the tree was built.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length; a ray of direction 0 hits nothing.
        max_t: a float32, the largest distance of a hit, in lengths of `dir`.
        root: an int32, the node of `mesh_get_group_root` for queries of one group; all by default.
        t, bary_u, bary_v, sign, normal, face: variables of the caller, four float32, a vec3 and an int32, for a
            call with all of them: if a face is hit, they are set to the values of a MeshQueryRay; the result is
            whether a face is hit.
    Returns:
        a MeshQueryRay: `result`, whether a face is hit; `face`; `t`, in lengths of `dir`; `u` and `v`, the weights
        of the face's first two vertices; the unit `normal` of the face, and `sign`, above 0 if the ray hits the
        side that the normal points to, else below 0.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `t`, `u`, `v` and `normal` for `start`, `dir` and the points of the mesh; the face is
        constant.
    """
@typing.overload
def mesh_query_ray(id: Any, start: Any, dir: Any, max_t: Any, t: Any, bary_u: Any, bary_v: Any, sign: Any, normal: Any, face: Any, root: Any = -1) -> Any: ...

def mesh_query_ray_anyhit(id: Any, start: Any, dir: Any, max_t: Any, root: Any = -1) -> Any:
    """Whether a ray hits a face of a mesh.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length.
        max_t: a float32, the largest distance of a hit, in lengths of `dir`.
        root: an int32, the node of `mesh_get_group_root` for queries of one group; all by default.
    Returns:
        a bool.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_query_ray_count_intersections(id: Any, start: Any, dir: Any, root: Any = -1) -> Any:
    """The number of faces of a mesh that a ray hits: odd if it starts inside of a closed mesh.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length.
        root: an int32, the node of `mesh_get_group_root` for queries of one group; all by default.
    Returns:
        an int32.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def mesh_query_sphere(id: Any, center: Any, radius: Any) -> Any:
    """A query for the faces of a mesh that intersect a closed ball.

    Parameters:
        id: the mesh, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
    Returns:
        a MeshQuery, for `mesh_query_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        none: results of queries have no gradient.
    """

def min(a: Any, b: Any = None) -> Any:
    """The smaller of a and b, component by component; without b the smallest component of a vector or matrix a.

    The result is a NaN only if both operands are NaN, and -0.0 is below 0.0. In kernels, Python's `min` of two or more
    values is this function.

    Parameters:
        a, b: scalars, vectors or matrices of one type, or tiles of such elements, which broadcast; a literal is
            converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is not a scalar, vector, matrix or tile.
    Gradient:
        goes to the operand that is the result; half of it to each of two equal operands.
    Source:
        IEEE 754-2019, minimumNumber.
    """

def mod(a: Any, b: Any) -> Any:
    """The remainder a % b, with the sign of a, component by component.

    The remainder of the truncated quotient: of floats exact, NaN where a is infinite or b is 0; of integers 0
    where b is 0.

    Parameters:
        a, b: scalars or tiles of scalars of one dtype but bool; or vectors or matrices of one type; or one of these
            and a scalar.
    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint for `a`; the adjoint times the negative truncated quotient for `b`.
    Source:
        C's fmod; floats of the standard library.
    """

def mul(a: Any, b: Any) -> Any:
    """The product a * b: of numbers, of a scalar and a vector, matrix or tile, or of matrices.

    Integers wrap. A product that is added to something may be rounded once with the sum (docs/semantics.md).

    Parameters:
        a, b: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; or matrices
            (M, K) and (K, N), a vector standing for a column on the right and a row on the left.
    Returns:
        a value of the wider of the two types; a matrix (M, N) of matrices.
    Raises:
        type-mismatch: the operands are bools, matrices whose shapes do not fit, or two vectors or tiles of vectors,
            for which tg.cw_mul is the component-wise product.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint times the other operand.
    """

def named_barrier(warps: Any) -> Any:
    """A barrier at which warps of several roles synchronise, created before the roles.

    Parameters:
        warps: the number of arriving warps that completes the barrier, a constant from 1 to 32.
    Returns:
        the barrier.
    Raises:
        not-constant: `warps` is known at run time only.
        out-of-range: `warps` is not from 1 to 32.
        role-placement: the call is inside a role.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, barrier.cta.
    """

def named_barrier_arrive(barrier: Any) -> None:
    """All warps of the role arrive at a named barrier without waiting.

    Parameters:
        barrier: a barrier of tg.named_barrier.
    Raises:
        type-mismatch: `barrier` was not created by tg.named_barrier.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, barrier.cta.arrive.
    """

def named_barrier_sync(barrier: Any) -> None:
    """All warps of the role arrive at a named barrier and wait until the barrier's number of warps has arrived.

    Parameters:
        barrier: a barrier of tg.named_barrier.
    Raises:
        deadlock: no role of a block can make progress, on a CPU.
        type-mismatch: `barrier` was not created by tg.named_barrier.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, barrier.cta.sync.
    """

def neg(x: Any) -> Any:
    """The negative -x; integers wrap.

    Parameters:
        x: a scalar, vector, matrix or tile of any dtype but bool.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is a bool, or not a scalar, vector, matrix or tile.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the negative of the adjoint.
    """

@typing.overload
def noise(state: Any, x: Any) -> Any:
    """Perlin noise at a point of one to four dimensions: smooth, from -1 to 1, and 0 at integral coordinates.

    The state is not advanced.

    Parameters:
        state: a uint32 of tg.rand_init, which selects the field of noise.
        x, xy, xyz, xyzt: the point, a float32 scalar, or a vec2, vec3 or vec4 of float32.
    Returns:
        a float32.
    Raises:
        type-mismatch: an argument is not a number, or the result would be a tile of vectors of another dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        the adjoint times the gradient of the noise for the point; none for `state`.
    Source:
        Perlin, Improving Noise, SIGGRAPH 2002, with gradients by the hash of Jarzynski and Olano, JCGT 9 (3), 2020.
    """
@typing.overload
def noise(state: Any, xy: Any) -> Any: ...
@typing.overload
def noise(state: Any, xyz: Any) -> Any: ...
@typing.overload
def noise(state: Any, xyzt: Any) -> Any: ...

def nonzero(x: Any) -> Any:
    """The number 0 where x is 0, and 1 elsewhere, also at NaN.

    Parameters:
        x: a scalar, or tile of scalars, of any dtype but bool.
    Returns:
        a value of the type of `x`.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: an argument is not a number, or is a vector or matrix instead of a scalar.
        mixed-scalar-types: the arguments differ in dtype, or are integers instead of floats.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        0 everywhere.
    """

def norm_huber(v: Any, delta: Any = 1.0) -> Any:
    """The Huber norm of a vector: half the square of its length up to delta, beyond that delta * (length - delta / 2).

    Parameters:
        v: a vector (N,) of floats.
        delta: a positive scalar of the dtype of `v`; 1 by default.
    Returns:
        a scalar of that dtype.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `v` is not a vector, or tile of vectors, of floats.
        mixed-scalar-types: `v` holds integers, or `delta` is of another dtype.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        adjoint * v up to `delta`, adjoint * delta * v / length beyond; also for `delta`.
    Source:
        Huber, Robust Estimation of a Location Parameter, 1964.
    """

def norm_l1(v: Any) -> Any:
    """The sum of the magnitudes of the components of a vector.

    Parameters:
        v: a vector (N,) of floats.
    Returns:
        a scalar of the dtype of `v`.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `v` is not a vector, or tile of vectors, of floats.
        mixed-scalar-types: `v` holds integers, or `delta` is of another dtype.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        the adjoint with the sign of each component; 0 at 0.
    """

def norm_l2(v: Any) -> Any:
    """The length of a vector: the root of the sum of the squares of its components.

    Parameters:
        v: a vector (N,) of floats.
    Returns:
        a scalar of the dtype of `v`.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `v` is not a vector, or tile of vectors, of floats.
        mixed-scalar-types: `v` holds integers, or `delta` is of another dtype.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        adjoint * v / norm; 0 at length 0.
    """

def norm_pseudo_huber(v: Any, delta: Any = 1.0) -> Any:
    """The smooth Huber norm of a vector: delta * sqrt(1 + (length / delta)**2).

    Parameters:
        v: a vector (N,) of floats.
        delta: a positive scalar of the dtype of `v`; 1 by default.
    Returns:
        a scalar of that dtype.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `v` is not a vector, or tile of vectors, of floats.
        mixed-scalar-types: `v` holds integers, or `delta` is of another dtype.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        adjoint * v / norm for `v`; also for `delta`.
    """

def normalize(a: Any) -> Any:
    """The vector divided by its length; zeros for a vector of length 0, the identity for a quaternion of zeros.

    Parameters:
        a: a vector (N,) of floats.
    Returns:
        a vector of the type of `a`.
    Raises:
        type-mismatch: the components of `a` are not floats; `a` is not a vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        (adjoint - y * dot(y, adjoint)) / length(a) with y the result; 0 at length 0.
    """

def outer(a: Any, b: Any) -> Any:
    """The outer product of two vectors: entry (i, j) is a[i] * b[j].

    Parameters:
        a, b: vectors (M,) and (N,) of one dtype but bool, M * N at most 1024.
    Returns:
        a matrix (M, N).
    Raises:
        type-mismatch: the matrix would have more than 1024 entries, or the operands are of bools; `a` or `b` is not
            a vector.
        mixed-scalar-types: the dtypes differ.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint @ b for `a`, transpose(adjoint) @ a for `b`.
    Source:
        BLAS ger.
    """

@typing.overload
def pnoise(state: Any, x: Any, px: Any) -> Any:
    """Perlin noise that repeats after a number of cells along each axis.

    Parameters:
        state: a uint32 of tg.rand_init, which selects the field of noise.
        x: the point in one dimension, a positive float32 scalar. Points in more dimensions are passed as `xy`,
            `xyz` or `xyzt`.
        px: the period along the first axis, an int32 scalar.
        xy: the point as a vec2 of float32.
        py: the period along the second axis, an int32 scalar.
        xyz: the point as a vec3.
        pz: the period along the third axis.
        xyzt: the point as a vec4.
        pt: the period along the fourth axis.
    Returns:
        a float32.
    Raises:
        type-mismatch: an argument is not a number, or the result would be a tile of vectors of another dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        the adjoint times the gradient of the noise for the point; none for the other parameters.
    Source:
        Perlin, Improving Noise, SIGGRAPH 2002, with gradients by the hash of Jarzynski and Olano, JCGT 9 (3), 2020.
    """
@typing.overload
def pnoise(state: Any, xy: Any, px: Any, py: Any) -> Any: ...
@typing.overload
def pnoise(state: Any, xyz: Any, px: Any, py: Any, pz: Any) -> Any: ...
@typing.overload
def pnoise(state: Any, xyzt: Any, px: Any, py: Any, pz: Any, pt: Any) -> Any: ...

def poisson(state: Any, lam: Any) -> Any:
    """A random number of the Poisson distribution of a given mean. The number of draws varies.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
        lam: the mean, a non-negative float32. For 0 and NaN the result is 0, without a draw.
    Returns:
        a uint32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Hörmann, The transformed rejection method for generating Poisson random variables, 1993, for means of at
        least 10; Knuth's algorithm for smaller means.
    """

def pos(x: Any) -> Any:
    """The value of x, unchanged: +x.

    Parameters:
        x: a scalar, vector, matrix or tile of any dtype but bool.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is a bool, or not a scalar, vector, matrix or tile.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint.
    """

def pow(x: Any, y: Any) -> Any:
    """The power x**y.

    `x ** y` in kernels is this function for floats; integers have the operator with a constant exponent only.
    The error is at most 1.5 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x, y: float16, bfloat16, float32 or float64 scalars of one dtype, vectors or matrices of one type, or tiles
            of such elements, which broadcast.
    Returns:
        a value of the type of the operands.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        mixed-scalar-types: vectors or matrices differ in type.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * y * x**(y - 1) for `x`; adjoint * x**y * log(x) for `y`, 0 where x <= 0. x**0 is constant.
    Source:
        special cases: ISO C, annex F.10.4.4.
    """

def printf(fmt: Any, *args: Any) -> None:
    """Prints numbers in a format, like C's printf; each thread prints.

    Specifiers begin with `%` and end with one of `d i u o x X c` for integers and `e E f F g G` for floats; widths,
    precisions and flags are as in C, and length modifiers such as the `l` of `%ld` have no effect. `%s` is a string
    that is known when the kernel is compiled, and `%%` is a percent sign. No new line is added.

    Parameters:
        fmt: the format, a string that is known when the kernel is compiled.
        *args: a scalar for each specifier, 32 at most.
    Raises:
        not-constant: `fmt` is not a constant string.
        type-mismatch: an argument is not a scalar of the specifier's kind, or a specifier is unknown.
        out-of-range: there are more or fewer arguments than specifiers, or more than 32.
    Gradient:
        none: the function has no result.
    Source:
        C's printf.
    """

def qr3(A: Any, Q: Any = None, R: Any = None) -> Any:
    """The QR decomposition of a 3x3 matrix: A = Q * R, with R upper triangular.

    Q is a rotation, with determinant 1. The first two entries of the diagonal of R are not negative, and the last has
    the sign of the determinant of A.

    Parameters:
        A: a matrix (3, 3) of floats.
        Q, R: variables of the types of the results. If they are passed, they are set, and nothing is returned.
    Returns:
        matrices (3, 3) of the dtype of `A`: Q and R.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `A` is not a matrix of floats of this shape, or is a tile.
        mixed-scalar-types: `A` is a literal.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        the derivative of the Givens rotations; a rotation of two zeros counts as constant.
    Source:
        Givens, Computation of Plane Unitary Rotations, 1958.
    """

def quat_between_vectors(a: Any, b: Any) -> Any:
    """The rotation by the smallest angle that maps the direction of `a` to the direction of `b`.

    Parameters:
        a, b: vectors (3,) of floats, of any length but 0; the directions must not be opposite.
    Returns:
        a quaternion of length 1.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def quat_from_axis_angle(axis: Any, angle: Any) -> Any:
    """The rotation by an angle about an axis, counterclockwise as seen from its tip.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
        angle: the angle in radians, a float.
    Returns:
        a quaternion: (axis * sin(angle / 2), cos(angle / 2)).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def quat_from_euler(e: Any, i: Any, j: Any, k: Any) -> Any:
    """The rotation by e[i] about axis `i`, then e[j] about `j`, then e[k] about `k`, with fixed axes.

    Parameters:
        e: the angles in radians, by axis, a vector (3,) of floats.
        i, j, k: the axes, integers from 0 to 2; those next to each other differ.
    Returns:
        a quaternion of length 1: qk * qj * qi.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula for `e`.
    """

def quat_from_matrix(mat: Any) -> Any:
    """The rotation of a matrix that multiplies column vectors.

    Parameters:
        mat: a matrix (3, 3) of floats, orthogonal with determinant 1; or a matrix (4, 4), of which the first 3 rows
            and columns are used.
    Returns:
        a quaternion of length 1. If the trace is negative the component of the largest magnitude is positive, else
        w is positive.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula, entry by entry.
    Source:
        Shepperd 1978, Quaternion from rotation matrix.
    """

def quat_identity(dtype: Any = ...) -> Any:
    """The identity quaternion: (0, 0, 0, 1).

    Parameters:
        dtype: the scalar type, one of floats; float32 by default.
    Returns:
        a quaternion.
    Raises:
        type-mismatch: `dtype` is not a type of floats.
    Gradient:
        none: the result is a constant.
    """

def quat_inverse(quat: Any) -> Any:
    """The conjugate (-x, -y, -z, w), which is the inverse of a rotation.

    Parameters:
        quat: a quaternion of floats.
    Returns:
        a quaternion.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the conjugate of the adjoint.
    """

def quat_multiply(a: Any, b: Any) -> Any:
    """The Hamilton product of two quaternions, as `a * b`: the rotation by `b`, then by `a`.

    Parameters:
        a, b: a quaternion of floats.
    Returns:
        a quaternion.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        quat_multiply(adjoint, quat_inverse(b)) for `a`, quat_multiply(quat_inverse(a), adjoint) for `b`.
    """

def quat_rotate(quat: Any, vec: Any) -> Any:
    """A vector rotated: quat_to_matrix(quat) @ vec.

    Parameters:
        quat: a quaternion of floats.
        vec: a vector (3,) of floats.
    Returns:
        a vector (3,).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        quat_rotate_inv(quat, adjoint) for `vec`; the derivative of the formula for the components of `quat`.
    """

def quat_rotate_inv(quat: Any, vec: Any) -> Any:
    """A vector rotated by the inverse of a rotation.

    Parameters:
        quat: a quaternion of floats.
        vec: a vector (3,) of floats.
    Returns:
        a vector (3,).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        quat_rotate(quat, adjoint) for `vec`; the derivative of the formula for the components of `quat`.
    """

def quat_rpy(roll: Any, pitch: Any, yaw: Any) -> Any:
    """The rotation by roll about x, then pitch about y, then yaw about z, with fixed axes.

    Parameters:
        roll, pitch, yaw: the angles in radians, floats.
    Returns:
        a quaternion of length 1: qz * qy * qx.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def quat_slerp(a: Any, b: Any, t: Any) -> Any:
    """The spherical linear interpolation of two rotations, along the shorter arc.

    Parameters:
        a, b: quaternions of floats, of length 1; `b` of any length but 0.
        t: a float: 0 gives `a`, 1 gives `b` or -b.
    Returns:
        a quaternion: `a` times the rotation by t * angle about the axis of quat_inverse(a) * b.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula, also where `a` is `b`.
    """

def quat_to_axis_angle(quat: Any, axis: Any = None, angle: Any = None) -> Any:
    """The axis and the angle of a rotation, by the smaller of the two possible angles.

    Parameters:
        quat: a quaternion of floats.
        axis, angle: variables, a vector (3,) and a scalar of the dtype of `quat`. If they are passed, they are set,
            and nothing is returned.
    Returns:
        a vector (3,) of length 1, zeros for no rotation, and an angle from 0 to pi in radians.
    Raises:
        type-mismatch: `quat` is a tile: there are two results.
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula; 0 where there is no rotation.
    """

def quat_to_euler(q: Any, i: Any, j: Any, k: Any) -> Any:
    """The angles of rotations about the axes `i`, then `j`, then `k`, that make up a rotation.

    With three different axes quat_from_euler(e, i, j, k) is the inverse; if the second angle is pi / 2 or -pi / 2, the
    first angle is chosen to be 0. If `i` equals `k`, the third angle is at the index of the unused axis.

    Parameters:
        q: a quaternion of floats.
        i, j, k: the axes, integers from 0 to 2; those next to each other differ.
    Returns:
        a vector (3,) of radians, by axis: the second angle is from -pi / 2 to pi / 2, where `i` is `k` from 0 to
        pi.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula for `q`.
    Source:
        Bernardes and Viollet 2022, Quaternion to Euler angles conversion.
    """

def quat_to_matrix(quat: Any) -> Any:
    """The matrix of a rotation, by which column vectors are multiplied.

    Parameters:
        quat: a quaternion of floats.
    Returns:
        a matrix (3, 3).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula, entry by entry.
    """

def quat_to_rpy(q: Any) -> Any:
    """The angles (roll, pitch, yaw) of a rotation, the inverse of quat_rpy.

    Where pitch is pi / 2 or -pi / 2, roll and yaw are not determined; tg.quat_to_euler(q, 0, 1, 2) chooses one of the
    solutions.

    Parameters:
        q: a quaternion of floats.
    Returns:
        a vector (3,) of radians: roll and yaw from -pi to pi, pitch from -pi / 2 to pi / 2.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula; 0 for pitch where it is clamped.
    """

def quat_twist(axis: Any, q: Any) -> Any:
    """The twist of a rotation about an axis. The remaining rotation, the swing, is about an axis orthogonal to `axis`.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
        q: a quaternion of floats.
    Returns:
        a quaternion of length 1; the identity for a half turn about an axis orthogonal to `axis`.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def quat_twist_angle(axis: Any, q: Any) -> Any:
    """The magnitude of the angle of the twist of a rotation about an axis.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
        q: a quaternion of floats.
    Returns:
        a scalar, radians from 0 to pi where w is not negative, else up to 2 pi.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def quat_twist_angle_signed(axis: Any, q: Any) -> Any:
    """The angle of the twist of a rotation about an axis, negative for a clockwise twist.

    Parameters:
        axis: a vector (3,) of floats, of length 1.
        q: a quaternion of floats.
    Returns:
        a scalar, radians from -pi to pi where w is not negative, else from -2 pi to 2 pi.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def quaternion(*args: Any, dtype: Any = None) -> Any:
    """A quaternion of given components, or of zeros.

    Parameters:
        *args: x, y, z and w, scalars of one dtype; or a vector (3,) of the first three, and w; or a quaternion,
            which is converted; zeros by default.
        dtype: the scalar type, one of floats; by default the dtype of the first component, float32 for zeros.
    Returns:
        a quaternion.
    Raises:
        type-mismatch: a component has another dtype or is not a float, or the number of components is not 4.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        each component gets the adjoint's component.
    """

def radians(x: Any) -> Any:
    """Converts an angle from degrees to radians.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in degrees.
    Returns:
        a value of the type of `x`, in radians.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * pi / 180.
    """

def rand_init(seed: Any, offset: Any = None) -> Any:
    """The state of a random number generator, from a seed and an offset that distinguishes threads.

    Parameters:
        seed, offset: int32 or uint32 scalars of one dtype; without `offset` the state depends on the seed alone.
    Returns:
        a uint32.
    Raises:
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: integers have no gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def randf(state: Any, low: Any = None, high: Any = None) -> Any:
    """A random float32 in [0, 1), a multiple of 2**-24; with a range low + (high - low) times this number.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
        low, high: float32 scalars.
    Returns:
        a float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none of the draw; 1 - f of `low`, and f of `high`, with f from 0 to 1.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def randi(state: Any, low: Any = None, high: Any = None) -> Any:
    """A random int32: any value, or a value from low to high - 1.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
        low, high: int32 scalars; an empty range gives `low`.
    Returns:
        an int32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def randn(state: Any) -> Any:
    """A random float32 of the normal distribution of mean 0 and variance 1. The function draws twice.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
    """

def randu(state: Any, low: Any = None, high: Any = None) -> Any:
    """A random uint32: any value, or a value from low to high - 1.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
        low, high: uint32 scalars; an empty range gives `low`.
    Returns:
        a uint32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def rint(x: Any) -> Any:
    """The integral number nearest to x, halves to even.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`, exact; infinities and NaNs are unchanged.
    Raises:
        type-mismatch: the components of `x` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, roundToIntegralTiesToEven.
    """

def round(x: Any) -> Any:
    """The nearest integral number, halves away from 0; tg.rint takes halves to even.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`, exact.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        0 everywhere.
    """

def rshift(a: Any, b: Any) -> Any:
    """The right shift a >> b of an integer, arithmetic for signed integers.

    Parameters:
        a, b: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or not a scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def rsqrt(x: Any) -> Any:
    """The reciprocal of the square root, 1 / sqrt(x); inf at 0, NaN below.

    The root and the quotient are both rounded. The error is at most 2 units in the last place in float32, 2 in float64;
    16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint / 2 * x**-1.5.
    """

def sample_cdf(state: Any, cdf: Any) -> Any:
    """A random index with a given cumulative distribution function: the first index whose value is at least a draw from
    0 to 1.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
        cdf: an array (N,) of float32 that ascends to 1.
    Returns:
        an int32 from 0 to N.
    Raises:
        type-mismatch: `cdf` is not an array of one dimension; an argument is not a number, or is a tile, and the
            result is not an element.
        mixed-scalar-types: `cdf` holds another dtype; the arguments differ in type, such as a matrix and a vector.
        unknown-attribute: `cdf` is not an array.
        unsupported-python: `cdf` is an object that is not a value; a variable would advance in an expression that
            may not be evaluated.
        not-constant: `cdf` is a tuple.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_triangle(state: Any) -> Any:
    """The first two barycentric coordinates of a random point of a triangle. It draws twice.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec2 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_cube(state: Any) -> Any:
    """A random point of the cube of edges of length 1 around the origin. It draws three times.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec3 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_disk(state: Any) -> Any:
    """A random point of the disk of radius 1 around the origin. It draws twice.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec2 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_hemisphere(state: Any) -> Any:
    """A random point of the half of the ball of radius 1 where z is positive. It draws three times.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec3 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_hemisphere_surface(state: Any) -> Any:
    """A random point of the half of the sphere of radius 1 where z is positive. It draws twice.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec3 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_hypercube(state: Any) -> Any:
    """A random point of the cube of four dimensions of edges of length 1 around the origin. It draws four times.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec4 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_ring(state: Any) -> Any:
    """A random point of the circle of radius 1 around the origin.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec2 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_sphere(state: Any) -> Any:
    """A random point of the ball of radius 1 around the origin. It draws three times.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec3 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_sphere_surface(state: Any) -> Any:
    """A random point of the sphere of radius 1 around the origin. It draws twice.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec3 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def sample_unit_square(state: Any) -> Any:
    """A random point of the square of edges of length 1 around the origin. It draws twice.

    Parameters:
        state: the state of a generator, a uint32 of tg.rand_init: a variable, which each draw advances; any other
            argument is not changed.
    Returns:
        a vec2 of float32.
    Raises:
        unsupported-python: a variable would advance in an expression that may not be evaluated.
        type-mismatch: an argument is not a number, or is a tile, and the result is not an element.
        mixed-scalar-types: the arguments differ in type, such as a matrix and a vector.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        none: a draw does not depend on numbers with a gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def select(cond: Any, value_if_false: Any, value_if_true: Any) -> Any:
    """value_if_true where a condition is true, else value_if_false: tg.where with another order of parameters.

    Parameters:
        cond: a bool or an integer, true unless 0: a scalar for whole values, a tile for each element; or an array,
            true unless None.
        value_if_false, value_if_true: values of one type: scalars, vectors, matrices, tiles that broadcast, or
            literals.
    Returns:
        a value of that type; a tile of the broadcast shape where one operand is a tile.
    Raises:
        type-mismatch: the condition is a float, or not a scalar or tile; the two values differ in type.
        mixed-scalar-types: a literal is of another kind than the other value.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        goes to the operand that was chosen.
    """

def sign(x: Any) -> Any:
    """The sign of x: -1 below 0, else 1, also for both zeros; NaN for NaN.

    Parameters:
        x: a float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32 or uint64 scalar,
            a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        0 everywhere.
    """

def sin(x: Any) -> Any:
    """The sine of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * cos(x).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def sinh(x: Any) -> Any:
    """The hyperbolic sine of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * cosh(x).
    """

def skew(vec: Any) -> Any:
    """The matrix of the cross product with a vector: skew(a) * b is cross(a, b).

    Parameters:
        vec: a vector (3,) of any dtype but bool.
    Returns:
        a matrix (3, 3) of its dtype.
    Raises:
        type-mismatch: the argument is not a vector of numbers of this shape.
        out-of-range: a literal does not fit its dtype.
        mixed-scalar-types: an argument is a literal.
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
    Gradient:
        the differences of mirrored entries of the adjoint.
    """

def smooth_normalize(v: Any, delta: Any = 1.0) -> Any:
    """The vector divided by its smooth Huber norm, which is positive, so that the result is smooth at length 0.

    Parameters:
        v: a vector (N,) of floats.
        delta: a positive scalar of the dtype of `v`; 1 by default.
    Returns:
        a vector of the type of `v`.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `v` is not a vector, or tile of vectors, of floats.
        mixed-scalar-types: `v` holds integers, or `delta` is of another dtype.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        the derivative of the quotient.
    """

def smoothstep(a: Any, b: Any, x: Any) -> Any:
    """The smooth step from 0 at a to 1 at b: t * t * (3 - 2 * t), with t = (x - a) / (b - a) clamped to 0 and 1.

    Parameters:
        a, b, x: scalars of one dtype of floats, or tiles of them.
    Returns:
        a scalar of that dtype, or a tile.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: an argument is not a number, or is a vector or matrix instead of a scalar.
        mixed-scalar-types: the arguments differ in dtype, or are integers instead of floats.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        the derivative of the polynomial for x between a and b; 0 elsewhere.
    """

def softsign(x: Any) -> Any:
    """The softsign x / (1 + |x|), from -1 to 1.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`.
    Raises:
        mixed-scalar-types: `x` holds integers.
        type-mismatch: `x` is not a scalar, vector, matrix or tile.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (1 + |x|)**2.
    """

def spatial_adjoint(r: Any, s: Any) -> Any:
    """The matrix that transforms twists to another frame, where `r` is a rotation and `s` is skew(p) @ r.

    Parameters:
        r, s: a matrix (3, 3) of floats.
    Returns:
        a matrix (6, 6): [[r, 0], [s, r]].
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the sum of the corresponding blocks of the adjoint, for `r` and `s`.
    """

def spatial_bottom(svec: Any) -> Any:
    """The last three components of a spatial vector: its linear velocity or force.

    Parameters:
        svec: a spatial vector (6,) of floats.
    Returns:
        a vector (3,).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the adjoint for the last three components.
    """

def spatial_cross(a: Any, b: Any) -> Any:
    """The cross product of two twists.

    Parameters:
        a, b: a spatial vector (6,) of floats.
    Returns:
        a spatial vector: (cross(wa, wb), cross(va, wb) + cross(wa, vb)).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def spatial_cross_dual(a: Any, b: Any) -> Any:
    """The cross product of a twist and a wrench.

    Parameters:
        a, b: a spatial vector (6,) of floats.
    Returns:
        a spatial vector, a wrench: (cross(wa, wb) + cross(va, vb), cross(wa, vb)).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def spatial_dot(a: Any, b: Any) -> Any:
    """The inner product of two spatial vectors: the power of a wrench and a twist.

    Parameters:
        a, b: a spatial vector (6,) of floats.
    Returns:
        a scalar.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    """

def spatial_top(svec: Any) -> Any:
    """The first three components of a spatial vector: its angular velocity or torque.

    Parameters:
        svec: a spatial vector (6,) of floats.
    Returns:
        a vector (3,).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the adjoint for the first three components.
    """

def sqrt(x: Any) -> Any:
    """The square root of x, correctly rounded; NaN for negative numbers.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: the components of `x` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint / (2 * sqrt(x)); infinite at 0, where an adjoint of 0 stays 0.
    Source:
        IEEE 754-2008, squareRoot.
    """

def step(x: Any) -> Any:
    """The number 1 where x is below 0, and 0 elsewhere.

    Parameters:
        x: a scalar, or tile of scalars, of any dtype but bool.
    Returns:
        a value of the type of `x`.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: an argument is not a number, or is a vector or matrix instead of a scalar.
        mixed-scalar-types: the arguments differ in dtype, or are integers instead of floats.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        0 everywhere.
    """

def store_commit() -> None:
    """Commits as a group the copies to arrays that this role has started since its last commit.

    Raises:
        role-placement: the call is outside of roles.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, cp.async.bulk.commit_group.
    """

def store_wait(pending: Any = 0, read: Any = False) -> None:
    """Waits until at most `pending` of the groups of copies that this role has committed are incomplete.

    Parameters:
        pending: the number of groups, a constant from 0; 0 by default.
        read: True waits only until the groups have read their tiles, which may then change; False by default.
    Raises:
        not-constant: `pending` is known at run time only.
        out-of-range: `pending` is below 0.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, cp.async.bulk.wait_group.
    """

def sub(a: Any, b: Any) -> Any:
    """The difference a - b; integers wrap.

    Parameters:
        a, b: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal is converted to the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape if an operand is a tile.
    Raises:
        type-mismatch: an operand is a bool, or a scalar is combined with a vector or matrix.
        mixed-scalar-types: the operands differ in type; operands are not converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint for `a`, its negative for `b`.
    """

def svd2(A: Any, U: Any = None, sigma: Any = None, V: Any = None) -> Any:
    """The singular values of a 2x2 matrix, with A = U * diag(sigma) * transpose(V).

    V is a rotation, U a rotation or a reflection. The values in sigma are not negative and descend. The signs of
    corresponding columns of U and V are unspecified.

    Parameters:
        A: a matrix (2, 2) of floats.
        U, sigma, V: variables of the types of the results. If they are passed, they are set, and nothing is
            returned.
    Returns:
        matrices (2, 2), a vector (2,) and a matrix (2, 2) of the dtype of `A`: U, sigma and V.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `A` is not a matrix of floats of this shape, or is a tile.
        mixed-scalar-types: `A` is a literal.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        as for tg.svd3.
    Source:
        Hestenes, Inversion of Matrices by Biorthogonalization, 1958.
    """

def svd3(A: Any, U: Any = None, sigma: Any = None, V: Any = None) -> Any:
    """The singular values of a 3x3 matrix, with A = U * diag(sigma) * transpose(V).

    U and V are rotations, with determinant 1. The magnitudes in sigma descend; the last element has the sign of the
    determinant of A. The signs of corresponding columns of U and V are unspecified.

    Parameters:
        A: a matrix (3, 3) of floats.
        U, sigma, V: variables of the types of the results. If they are passed, they are set, and nothing is
            returned.
    Returns:
        matrices (3, 3), a vector (3,) and a matrix (3, 3) of the dtype of `A`: U, sigma and V.
    Raises:
        unsupported-python: an argument is a function, a module or another object that is not a value.
        unknown-attribute: an argument is of another kind.
        not-constant: an argument is a tuple.
        type-mismatch: `A` is not a matrix of floats of this shape, or is a tile.
        mixed-scalar-types: `A` is a literal.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles do not broadcast.
    Gradient:
        U * P * transpose(V), with the adjoint of sigma on the diagonal of P, and the adjoints of the rotations of
        pairs of columns elsewhere. The gradient grows as 1 over the difference of the squares of two singular
        values; the rotation of a pair of equal magnitude counts as constant.
    Source:
        Hestenes, Inversion of Matrices by Biorthogonalization, 1958; Papadopoulo and Lourakis, Estimating the
        Jacobian of the Singular Value Decomposition, 2000.
    """

def table(data: Any, dtype: Any = None) -> Any:
    """A table of constants, read-only data of the kernel, that is read at run-time indices. `table[i]`, or `table[i,
    j]`, is an element; with fewer indices the subscript is a vector or matrix of the remaining dimensions. A negative
    index counts from the end; an index outside of the table selects the last element of its dimension.

    Parameters:
        data: a NumPy array of any shape, captured by the kernel, of 1 to 65,536 elements.
        dtype: the scalar type of the elements; by default the array's.
    Returns:
        the table: the NumPy array, each element rounded once.
    Raises:
        type-mismatch: `data` is not a NumPy array, or `dtype` is not a scalar type.
        out-of-range: an element does not fit `dtype`.
    Gradient:
        none: the result is a constant.
    """

def tan(x: Any) -> Any:
    """The tangent of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are rounded once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * (1 + tan(x)**2).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def tanh(x: Any) -> Any:
    """The hyperbolic tangent of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are rounded
    once more from float32.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, a vector or matrix of these, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, quaternions or transforms.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / cosh(x)**2, accurate where tanh is near 1 too.
    Source:
        tanh(x) = u / (u + 1) for u = expm1(2 x) / 2; the quotient is refined once by its remainder.
    """

def tile_all(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """Whether all elements of a tile are true, that is, not 0.

    Elements of absent threads are skipped.

    Parameters:
        a: a tile.
        axis: the dimension or tuple of dimensions, constants from -rank to rank - 1; all dimensions by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        none: bools have no gradient.
    """

def tile_any(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """Whether any element of a tile is true, that is, not 0.

    Elements of absent threads are skipped.

    Parameters:
        a: a tile.
        axis: the dimension or tuple of dimensions, constants from -rank to rank - 1; all dimensions by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        none: bools have no gradient.
    """

def tile_arange(*args: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile of evenly spaced numbers: start, start + step, and so on below stop.

    Floats are start + step * i in float64, rounded once.

    Parameters:
        *args: (stop), (start, stop) or (start, stop, step), constants; `start` is 0 and `step` 1 by default.
        dtype: a numeric scalar type; float32 by default, for integers too.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile (N,), with N = ceil((stop - start) / step).
    Raises:
        type-mismatch: there are no numbers or more than 3, `dtype` is bool, or the start or the step of a range of
            integers is not an integer.
        not-constant: a number is known at run time only.
        out-of-range: the range is empty or endless, the step is 0, or a number does not fit `dtype`; `storage` is
            another string.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        none: the result is a constant.
    """

def tile_argmax(a: Any, axis: object = None, keepdims: bool = False) -> Any:
    """The index of the largest element of a tile, in row-major order or along a dimension; the lowest index among equal
    elements.

    As in tg.max, numbers are preferred to NaNs, and -0.0 is below 0.0; if all elements are NaN the index is 0. Elements
    of absent threads are skipped.

    Parameters:
        a: a tile of scalars of any dtype, of any shape.
        axis: the dimension of the reduction, a constant from -rank to rank - 1; None for all elements in row-major
            order.
        keepdims: whether the result keeps a dimension of length 1, a constant; False by default.
    Returns:
        a tile of int32 without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile of scalars.
        out-of-range: there is no such axis.
        not-constant: `axis` or `keepdims` is known at run time only.
    Gradient:
        refused (no-gradient) for floats: an index has no gradient.
    """

def tile_argmin(a: Any, axis: object = None, keepdims: bool = False) -> Any:
    """The index of the smallest element of a tile, in row-major order or along a dimension; the lowest index among
    equal elements.

    As in tg.min, numbers are preferred to NaNs, and -0.0 is below 0.0; if all elements are NaN the index is 0. Elements
    of absent threads are skipped.

    Parameters:
        a: a tile of scalars of any dtype, of any shape.
        axis: the dimension of the reduction, a constant from -rank to rank - 1; None for all elements in row-major
            order.
        keepdims: whether the result keeps a dimension of length 1, a constant; False by default.
    Returns:
        a tile of int32 without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile of scalars.
        out-of-range: there is no such axis.
        not-constant: `axis` or `keepdims` is known at run time only.
    Gradient:
        refused (no-gradient) for floats: an index has no gradient.
    """

def tile_argsort(keys: Any, axis: object = -1, descending: bool = False) -> Any:
    """The indices that sort each line of keys along an axis, in ascending order.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: a tile of float32, float64, int32, int64, uint32 or uint64.
        axis: the dimension along which lines are sorted, a constant; the last by default, None for all keys as one
            line in row-major order.
        descending: whether the largest key comes first, a constant.
    Returns:
        a tile of int32 of the shape of `keys`: indices along the axis.
    Raises:
        type-mismatch: `keys` has another dtype.
        out-of-range: there is no such axis.
        not-constant: `axis` or `descending` is known at run time only.
    Gradient:
        none: indices are integers.
    Source:
        Batcher, "Sorting networks and their applications" (1968): the bitonic network; on GPUs a network for each
        digit of the keys, from the lowest digit.
    """

def tile_assign(dst: Any, src: Any, offset: Any = None) -> None:
    """Copies a tile into another tile; the tiles may overlap.

    Parameters:
        dst: a tile bound to a name, or a view of one.
        src: a tile that is not longer than `dst` in any dimension; elements are converted to the dtype of `dst`.
        offset: the index in `dst` of the first element, integers, in elements; 0 by default.
    Raises:
        type-mismatch: `dst` is not a tile bound to a name, `src` is not a tile, or an offset is not an integer.
        out-of-range: `src` leaves `dst`.
        popped-tile-changed: `dst` was popped from a pipe.
        out-of-bounds: an offset leaves `dst`, in debug mode.
    Gradient:
        the adjoint of the written part of `dst`, for `src`; for previous elements of `dst`, 0 in this part.
    """

def tile_astype(t: Any, dtype: Any) -> Any:
    """A tile converted to another scalar type.

    Numbers are converted as tg.cast does.

    Parameters:
        t: a tile.
        dtype: the scalar type; for a vector or matrix type, the type of its components.
    Returns:
        a new tile of the shape of `t`.
    Raises:
        type-mismatch: `t` is not a tile; `dtype` is not an element type.
    Gradient:
        the adjoint, converted; refused (no-gradient) if floats were converted to integers.
    """

def tile_atomic_add(a: Any, t: Any, offset: Any = None, bounds_check: Any = True, mask: Any = None) -> Any:
    """Stores the sums of the elements of an array and of a tile, each atomically, once for the block.

    Elements outside of the array, elements of absent threads, and elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`, of any dtype but bool.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ; an
            offset is not an integer; `mask` is not a tile of bool.
        out-of-range: a literal is not an offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode.
        shape-mismatch: `mask` does not broadcast to the shape of the tile.
    Gradient:
        the gradient of these elements, for `t`; refused (no-gradient) for the returned elements.
    """

def tile_atomic_add_indexed(a: Any, indices: Any, t: Any, offset: Any = None, axis: Any = 0, mask: Any = None) -> Any:
    """Adds the elements of a tile to elements of an array, along one dimension to the elements at given indices, each
    atomically, once for the block. Elements outside of the array, and elements of absent threads, are dropped. Element
    c of the tile is added to the array's element at offset + c; along `axis`, at offset + indices[c]; where indices are
    equal, all elements are added.

    Parameters:
        a: an array of as many dimensions as `t`, of any dtype but bool.
        indices: a tile (N,) of integers, counted from the offset; indices below 0 are outside of the array, and do
            not count from the end.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        axis: the dimension, a constant from -rank to rank - 1; 0 by default.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ;
            `indices` is not a tile of integers of one dimension; an offset is not an integer; `mask` is not a tile
            of bool.
        shape-mismatch: the number of indices differs from the tile's length along `axis`; `mask` does not broadcast
            to the shape of the tile.
        out-of-range: a literal is not an offset that an array can have; there is no such dimension.
        not-constant: `axis` is known at run time only.
    Gradient:
        the gradient of these elements, for `t`; refused (no-gradient) for the returned elements.
    """

def tile_atomic_cas(a: Any, compare: Any, t: Any, offset: Any = None, mask: Any = None) -> Any:
    """Compares the elements of an array with expected elements and, where both are equal, stores the elements of a
    tile, each atomically, once for the block; vectors and matrices component by component. The comparison is bitwise: a
    NaN equals itself, and -0.0 differs from 0.0. Elements outside of the array, elements of absent threads, and
    elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        compare: the expected elements, a tile that broadcasts to the shape of `t`, or one value for all.
        t: a tile of the dtype of `a`, the new elements.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ; an
            offset is not an integer; `mask` is not a tile of bool.
        shape-mismatch: `compare` does not broadcast to the shape of `t`; `mask` does not broadcast to the shape of
            the tile.
        out-of-range: a literal does not fit the dtype; a literal is not an offset that an array can have.
    Gradient:
        refused (no-gradient).
    """

def tile_atomic_exch(a: Any, t: Any, offset: Any = None, mask: Any = None) -> Any:
    """Stores the elements of a tile in an array and returns the previous elements, each atomically, once for the block.
    Elements outside of the array, elements of absent threads, and elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ; an
            offset is not an integer; `mask` is not a tile of bool.
        out-of-range: a literal is not an offset that an array can have.
        shape-mismatch: `mask` does not broadcast to the shape of the tile.
    Gradient:
        refused (no-gradient).
    """

def tile_atomic_max(a: Any, t: Any, offset: Any = None, bounds_check: Any = True, mask: Any = None) -> Any:
    """Stores the maxima of the elements of an array and of a tile, each atomically, once for the block.

    Elements outside of the array, elements of absent threads, and elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ; an
            offset is not an integer; `mask` is not a tile of bool.
        out-of-range: a literal is not an offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode.
        shape-mismatch: `mask` does not broadcast to the shape of the tile.
    Gradient:
        refused (no-gradient).
    """

def tile_atomic_min(a: Any, t: Any, offset: Any = None, bounds_check: Any = True, mask: Any = None) -> Any:
    """Stores the minima of the elements of an array and of a tile, each atomically, once for the block.

    Elements outside of the array, elements of absent threads, and elements that the mask does not select are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Returns:
        a tile of the previous elements; zeros for dropped elements.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ; an
            offset is not an integer; `mask` is not a tile of bool.
        out-of-range: a literal is not an offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode.
        shape-mismatch: `mask` does not broadcast to the shape of the tile.
    Gradient:
        refused (no-gradient).
    """

def tile_axpy(alpha: Any, src: Any, dest: Any) -> None:
    """Adds a multiple of a tile to another one in place: dest += alpha * src.

    Parameters:
        alpha: a scalar or literal of the dtype of `src`.
        src: a tile that broadcasts to the shape of `dest`.
        dest: a tile bound to a name, of the same dtype.
    Raises:
        mixed-scalar-types: the dtypes differ.
        out-of-range: a literal does not fit the dtype that it takes.
        shape-mismatch: `src` does not broadcast to the shape of `dest`.
        type-mismatch: `dest` is not a tile bound to a name.
        popped-tile-changed: `dest` was popped from a pipe.
    Gradient:
        the sum of adjoint * src for `alpha`, alpha * adjoint for `src`, the adjoint for the previous value of
        `dest`.
    Source:
        BLAS axpy.
    """

def tile_broadcast(a: Any, shape: Any) -> Any:
    """A tile repeated to a larger shape, by the rules of NumPy.

    Parameters:
        a: a tile.
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
    Returns:
        a read-only tile of `shape`: tg.copy returns a copy that can be changed.
    Raises:
        shape-mismatch: `a` does not broadcast to `shape`.
        type-mismatch: `a` is not a tile.
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        the sum of the adjoint over the repeated dimensions.
    """

def tile_bvh_query_aabb(id: Any, low: Any, high: Any) -> Any:
    """A query of a block for the items of a BVH whose box overlaps a box; the arguments of thread 0 are used.

    Parameters:
        id: the BVH, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_bvh_query_next(query: Any) -> Any:
    """The next items of a query of a block, one for each thread.

    Parameters:
        query: a BvhQueryTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the items in traversal order, and -1 at the end.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_bvh_query_ray(id: Any, start: Any, dir: Any) -> Any:
    """A query of a block for the items of a BVH whose box a ray intersects; the arguments of thread 0 are used.

    Parameters:
        id: the BVH, or its id.
        start: a vec3.
        dir: a vec3, of any length.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_bvh_query_sphere(id: Any, center: Any, radius: Any) -> Any:
    """A query of a block for the items of a BVH whose box intersects a ball; the arguments of thread 0 are used.

    Parameters:
        id: the BVH, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
    Returns:
        a BvhQueryTiled, for `tile_bvh_query_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_cholesky(a: Any, fill_mode: str = 'lower', info: bool = False) -> Any:
    """The Cholesky factor of symmetric matrices: L with L @ L.T = a, or U with U.T @ U = a.

    Parameters:
        a: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read; float16 and
            bfloat16 are computed in float32.
        fill_mode: "lower" or "upper", a constant.
        info: whether to return the second result too, a constant bool.
    Returns:
        a tile of the shape and dtype of `a`, 0 in the other triangle. A pivot that is not positive is NaN, and so
        are all elements that depend on the pivot. With `info`, also a tile (..., 1) of int32: 0, or the 1-based
        index of the first such pivot.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats, or there is no such fill_mode.
        not-constant: `fill_mode` or `info` is known at run time only.
    Gradient:
        with L the result, G the adjoint and P the lower triangle of L.T @ G with half of its diagonal: the lower
        triangle of inv(L).T @ (P + P.T) @ inv(L) with half of its diagonal, 0 in the triangle that is not read;
        transposed for "upper".
    Source:
        right-looking factorisation; the adjoint of Murray, "Differentiation of the Cholesky decomposition" (2016).
    """

def tile_cholesky_inplace(a: Any, fill_mode: str = 'lower', info: bool = False) -> None:
    """The function tg.tile_cholesky, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read; float16 and
            bfloat16 are computed in float32.
        fill_mode: "lower" or "upper", a constant.
        info: whether to return the second result too, a constant bool.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats, or there is no such fill_mode; `a` is not a
            tile bound to a name, or read-only.
        popped-tile-changed: `a` was popped from a pipe.
        not-constant: `fill_mode` or `info` is known at run time only.
    Gradient:
        with L the result, G the adjoint and P the lower triangle of L.T @ G with half of its diagonal: the lower
        triangle of inv(L).T @ (P + P.T) @ inv(L) with half of its diagonal, 0 in the triangle that is not read;
        transposed for "upper".
    Source:
        right-looking factorisation; the adjoint of Murray, "Differentiation of the Cholesky decomposition" (2016).
    """

def tile_cholesky_solve(l: Any, y: Any, fill_mode: str = 'lower') -> Any:
    """x with l @ l.T @ x = y, or l.T @ l @ x = y for fill_mode="upper", where l is the result of `tile_cholesky`.

    Parameters:
        l: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of l.
        fill_mode: "lower" or "upper", a constant.
    Returns:
        a tile of the shape and dtype of `y`.
    Raises:
        shape-mismatch: the extents of `l` and `y`, or their batches, differ.
        type-mismatch: `l` is not a tile of square matrices, the dtypes differ or are not floats, or there is no
            such fill_mode.
        not-constant: `fill_mode` is known at run time only.
    Gradient:
        with a = l @ l.T, x the result and b = inv(a) @ the adjoint: b for `y`; for `l` the lower triangle of -(b @
        x.T + x @ b.T) @ l, transposed for "upper".
    Source:
        LAPACK potrs.
    """

def tile_cholesky_solve_inplace(l: Any, y: Any, fill_mode: str = 'lower') -> None:
    """The function tg.tile_cholesky_solve, whose result overwrites `y`: nothing is returned.

    Parameters:
        l: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of l.
        fill_mode: "lower" or "upper", a constant.
    Raises:
        shape-mismatch: the extents of `l` and `y`, or their batches, differ.
        type-mismatch: `l` is not a tile of square matrices, the dtypes differ or are not floats, or there is no
            such fill_mode; `y` is not a tile bound to a name, or read-only.
        popped-tile-changed: `y` was popped from a pipe.
        not-constant: `fill_mode` is known at run time only.
    Gradient:
        with a = l @ l.T, x the result and b = inv(a) @ the adjoint: b for `y`; for `l` the lower triangle of -(b @
        x.T + x @ b.T) @ l, transposed for "upper".
    Source:
        LAPACK potrs.
    """

def tile_concat(tiles: Any, axis: Any = 0) -> Any:
    """Tiles joined along a dimension.

    Parameters:
        tiles: a tuple of tiles of one dtype, whose shapes are equal except along `axis`.
        axis: the dimension, a constant from -rank to rank - 1; 0 by default.
    Returns:
        a new tile.
    Raises:
        type-mismatch: `tiles` is not a tuple of tiles, or the dtypes differ.
        shape-mismatch: the shapes differ in another dimension.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        each tile's part of the adjoint.
    """

def tile_cumsum(a: Any, axis: object = None) -> Any:
    """The running sums of the elements, in row-major order or along a dimension, as tg.tile_scan_inclusive.

    Parameters:
        a: a tile of any dtype but bool. Vectors are summed by component.
        axis: the dimension of the scan, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
        not-constant: `axis` is known at run time only.
    Gradient:
        the running sum of the adjoint from the last element to the first.
    """

def tile_cumsum_inplace(a: Any, axis: object = None) -> None:
    """The function tg.tile_cumsum, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool. Vectors are summed by component.
        axis: the dimension of the scan, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype; `a` is not a tile bound to a name, or read-only.
        out-of-range: there is no such axis.
        popped-tile-changed: `a` was popped from a pipe.
        not-constant: `axis` is known at run time only.
    Gradient:
        the running sum of the adjoint from the last element to the first.
    """

def tile_dct(x: Any) -> Any:
    """The discrete cosine transform of type II along the last dimension of a tile: y[k] = 2 * sum of
    x[n] * cos(pi * k * (2 * n + 1) / (2 * N)), as scipy.fft.dct.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Returns:
        a tile of the shape and dtype of `x`.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: there are no tables for N.
    Gradient:
        `tile_idct` of the adjoint, whose first element is doubled.
    Source:
        Makhoul, "A fast cosine transform in one and two dimensions" (1980).
    """

def tile_dct_inplace(x: Any) -> None:
    """The function tg.tile_dct, whose result overwrites `x`: nothing is returned.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Raises:
        type-mismatch: `x` has another dtype; `x` is not a tile bound to a name, or read-only.
        out-of-range: there are no tables for N.
        popped-tile-changed: `x` was popped from a pipe.
    Gradient:
        `tile_idct` of the adjoint, whose first element is doubled.
    Source:
        Makhoul, "A fast cosine transform in one and two dimensions" (1980).
    """

def tile_determinant(a: Any) -> Any:
    """The determinants of square matrices, by the LU decomposition with partial pivoting.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile (..., 1) of the dtype of `a`; 0 for a singular matrix. `tile_slogdet` covers determinants that
        overflow or underflow.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        the adjoint times the result times inv(a).T, which a singular matrix does not have.
    Source:
        LAPACK getrf.
    """

def tile_diag_add(a: Any, d: Any) -> Any:
    """A square tile with a vector added to its diagonal.

    Parameters:
        a: a tile (N, N) of any dtype but bool.
        d: a tile (N,) of the same dtype.
    Returns:
        a new tile (N, N).
    Raises:
        shape-mismatch: the shapes are not (N, N) and (N,).
        type-mismatch: the dtypes differ, or are bool.
    Gradient:
        the adjoint for `a`, its diagonal for `d`.
    """

def tile_dot(a: Any, b: Any) -> Any:
    """The sum of the products of the elements of two tiles.

    Floats narrower than 32 bits are multiplied in their type, summed in float32 and rounded once.

    Parameters:
        a, b: tiles of one dtype but bool, which broadcast; for vectors and matrices, the inner products of elements
            are summed.
    Returns:
        a tile (1,) of scalars.
    Raises:
        mixed-scalar-types: the dtypes differ.
        shape-mismatch: the shapes do not broadcast.
        type-mismatch: no operand is a tile, or a tile holds bools.
        out-of-range: a literal does not fit the dtype of the tile.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    Source:
        BLAS dot.
    """

def tile_eigh(a: Any, fill_mode: str = 'lower', info: bool = False) -> Any:
    """The eigenvalues and eigenvectors of symmetric matrices: a @ v = v @ diag(w).

    Parameters:
        a: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read; float16 and
            bfloat16 are computed in float32.
        fill_mode: "lower" or "upper", a constant.
        info: whether to return the third result too, a constant bool.
    Returns:
        w, a tile (..., N) in ascending order, and v, a tile (..., N, N) whose columns are orthonormal; the entry of
        largest magnitude in each column is positive. Both are NaN for a matrix with a NaN or an infinity, or if an
        iteration does not converge. With `info`, also a tile (..., 1) of int32: 0, or 1 without convergence.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats, or there is no such fill_mode.
        not-constant: `fill_mode` or `info` is known at run time only.
    Gradient:
        with G, H the adjoints of w and v: K = v @ (diag(G) + F * (v.T @ H)) @ v.T, F[i, j] = 1 / (w[j] - w[i]), and
        0 where the difference is at most 8 * N machine epsilons times the largest eigenvalue; the triangle of K +
        K.T that is read, with half of its diagonal.
    Source:
        LAPACK sytrd, steqr: Householder reflections to a tridiagonal matrix, then QR iterations with implicit
        shifts.
    """

def tile_empty(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    """A tile with unspecified elements.

    A tile created before the roles with `storage="shared"` is shared by the roles; its first dimension may be the
    stages (docs/roles.md).

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of `shape` and `dtype`.
    Raises:
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
        type-mismatch: `dtype` is not an element type.
    Gradient:
        none: nothing is computed.
    """

def tile_empty_like(a: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile with unspecified elements, of the shape of another tile.

    Parameters:
        a: a tile.
        dtype: the element type, a scalar, vector or matrix type; the element type of `a` by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of the shape of `a` and of `dtype`.
    Raises:
        type-mismatch: `a` is not a tile; `dtype` is not an element type.
        out-of-range: `storage` is another string.
    Gradient:
        none: nothing is computed.
    """

def tile_extract(a: Any, *index: Any) -> Any:
    """The element of a tile at an index, like a[index]; the index may differ between threads.

    Without debug mode, an element outside of the tile is undefined.

    Parameters:
        a: a tile.
        *index: an integer for each dimension of the tile, and optionally for each dimension of a vector or matrix
            element; negative indices count from the end. With fewer indices the result is a view.
    Returns:
        a scalar, vector or matrix; a view if indices are missing.
    Raises:
        type-mismatch: an index is not an integer; `a` is not a tile.
        out-of-range: a constant index leaves the tile.
        out-of-bounds: an index leaves the tile, in debug mode.
    Gradient:
        adds to the adjoint of that element.
    """

def tile_fft(inout: Any) -> None:
    """The discrete Fourier transform along the last dimension of a tile, in place: X[k] = sum of
    x[n] * exp(-2 * pi * i * k * n / N), as numpy.fft.fft.

    Vectors of two floats are complex numbers, the real part first.

    Parameters:
        inout: a tile (..., N) of vec2f or vec2d, of any N up to 65536, or with prime factors above 61 up to 32768.
    Raises:
        type-mismatch: `inout` has another dtype, or is not a tile bound to a name.
        out-of-range: N is larger.
        shared-memory-exceeded: the shared memory of a block on a GPU does not hold the rows.
        popped-tile-changed: `inout` was popped from a pipe.
    Gradient:
        the inverse transform of the adjoint, not divided by N.
    Source:
        Stockham's algorithm with radices up to 16 and primes up to 61; Bluestein's for larger prime factors.
    """

def tile_fft2(inout: Any) -> None:
    """The discrete Fourier transform along the last two dimensions of a tile, in place, as numpy.fft.fft2.

    Parameters:
        inout: a tile (..., M, N) of vec2f or vec2d, complex numbers with the real part first.
    Raises:
        type-mismatch: `inout` has another dtype or fewer dimensions, or is not a tile bound to a name.
        out-of-range: there are no tables for M or N.
        popped-tile-changed: `inout` was popped from a pipe.
    Gradient:
        the inverse transform of the adjoint, not divided by M * N.
    Source:
        `tile_fft` of rows, then of columns.
    """

def tile_from_local(x: Any, grid: Any, shape: Any, storage: Any = 'register') -> Any:
    """The tile whose elements are distributed over a constant grid of threads: the inverse of `tile_local`.

    Parameters:
        x: a vector or matrix, as `tile_local` returns for this grid and shape; the elements of absent threads are
            0.
        grid: the number of threads along each dimension of the tile, constants. The grid has as many threads as the
            block, or inside a role as many as the role. The last dimension is the fastest. In all dimensions but
            the last two the grid is as long as the tile.
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of `shape`.
    Raises:
        type-mismatch: `x` is not a vector or matrix with the number of elements of one thread of the grid; `grid`
            has another rank or number of threads.
        not-constant: a number of `grid` is known at run time only, or below 1; a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        that of each element.
    """

def tile_from_thread(shape: Any, value: Any, thread_idx: Any, storage: Any = 'register') -> Any:
    """A tile filled with the value of one thread of the block or, inside a role, of the role.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        value: a scalar, vector or matrix, of each thread.
        thread_idx: the index of the thread, an integer from 0; the argument of thread 0 is used.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of `shape` and the type of `value`; zeros if the thread is absent or outside of the block.
    Raises:
        out-of-range: a constant `thread_idx` is outside of the block; a length is below 1, or there are more than
            4; a literal does not fit the dtype that it takes; `storage` is another string.
        type-mismatch: `thread_idx` is not an integer; `value` is not a scalar, vector or matrix.
        not-constant: a length is known at run time only.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        the sum of the adjoint over all elements, for the value of that thread.
    """

def tile_full(shape: Any, value: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile with one value in every element.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        value: a scalar, vector, matrix or literal, the same in all threads of the block: the value of thread 0 is
            used.
        dtype: the element type; by default the type of `value`. A number fills all components of a vector or
            matrix.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of `shape`.
    Raises:
        type-mismatch: `value` has another type than `dtype`.
        out-of-range: a literal does not fit `dtype`, a length is below 1, or there are more than 4; `storage` is
            another string.
        not-constant: a length is known at run time only.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        the sum of the adjoint over all elements.
    """

def tile_full_like(a: Any, value: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile of the shape of another tile with one value in every element.

    Parameters:
        a: a tile.
        value: a scalar, vector, matrix or literal, the same in all threads of the block: the value of thread 0 is
            used. A number fills all components of a vector or matrix.
        dtype: the element type, a scalar, vector or matrix type; the element type of `a` by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of the shape of `a` and of `dtype`.
    Raises:
        type-mismatch: `value` has another type than the elements; `a` is not a tile; `dtype` is not an element
            type.
        out-of-range: a literal does not fit the dtype; `storage` is another string.
    Gradient:
        the sum of the adjoint over all elements, for `value`; none for `a`.
    """

def tile_histogram(t: Any, bins: int) -> Any:
    """The number of occurrences of each integer from 0 to bins - 1 in a tile.

    Parameters:
        t: a tile of integers of any shape. Elements outside 0 to bins - 1 are not counted.
        bins: the number of bins, a positive constant int.
    Returns:
        a tile of int32 of shape (bins,).
    Raises:
        type-mismatch: `t` is not a tile of integers, or `bins` is not an integer.
        out-of-range: `bins` is below 1.
        tile-too-large: `bins` is above 2**26.
        not-constant: `bins` is known at run time only.
    Gradient:
        none: counts are integers.
    """

def tile_idct(x: Any) -> Any:
    """The inverse of `tile_dct` times 2 * N, the discrete cosine transform of type III: y[n] = x[0] + 2 * sum of
    x[k] * cos(pi * k * (2 * n + 1) / (2 * N)) over k from 1 on.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Returns:
        a tile of the shape and dtype of `x`.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: there are no tables for N.
    Gradient:
        `tile_dct` of the adjoint, of which the first element is halved.
    Source:
        as for `tile_dct`.
    """

def tile_idct_inplace(x: Any) -> None:
    """The function tg.tile_idct, whose result overwrites `x`: nothing is returned.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Raises:
        type-mismatch: `x` has another dtype; `x` is not a tile bound to a name, or read-only.
        out-of-range: there are no tables for N.
        popped-tile-changed: `x` was popped from a pipe.
    Gradient:
        `tile_dct` of the adjoint, of which the first element is halved.
    Source:
        as for `tile_dct`.
    """

def tile_ifft(inout: Any) -> None:
    """The inverse of `tile_fft` times N, in place: x[n] = sum of X[k] * exp(2 * pi * i * k * n / N), N times
    numpy.fft.ifft.

    Parameters:
        inout: a tile (..., N) of vec2f or vec2d, of any N up to 65536, or with prime factors above 61 up to 32768.
    Raises:
        type-mismatch: `inout` has another dtype, or is not a tile bound to a name.
        out-of-range: N is larger.
        shared-memory-exceeded: the shared memory of a block on a GPU does not hold the rows.
        popped-tile-changed: `inout` was popped from a pipe.
    Gradient:
        `tile_fft` of the adjoint.
    Source:
        as for `tile_fft`.
    """

def tile_ifft2(inout: Any) -> None:
    """The inverse of `tile_fft2` times M * N, in place: M * N times numpy.fft.ifft2.

    Parameters:
        inout: a tile (..., M, N) of vec2f or vec2d.
    Raises:
        type-mismatch: `inout` has another dtype or fewer dimensions, or is not a tile bound to a name.
        out-of-range: there are no tables for M or N.
        popped-tile-changed: `inout` was popped from a pipe.
    Gradient:
        `tile_fft2` of the adjoint.
    Source:
        as for `tile_fft2`.
    """

def tile_inverse(a: Any) -> Any:
    """The inverses of square matrices, by elimination with partial pivoting.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile of the shape and dtype of `a`; for a singular matrix infinities and NaN, as IEEE 754 says.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        with x the result: -x.T @ the adjoint @ x.T.
    Source:
        LAPACK getri; Gauss-Jordan elimination, in a block of one warp.
    """

def tile_inverse_inplace(a: Any) -> None:
    """The function tg.tile_inverse, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats; `a` is not a tile bound to a name, or
            read-only.
        popped-tile-changed: `a` was popped from a pipe.
    Gradient:
        with x the result: -x.T @ the adjoint @ x.T.
    Source:
        LAPACK getri; Gauss-Jordan elimination, in a block of one warp.
    """

def tile_irfft(x: Any, n: int) -> Any:
    """The inverse of `tile_rfft` times n: n times numpy.fft.irfft(x, n).

    The imaginary parts of the first element of each row and, if n is even, of the last element are ignored.

    Parameters:
        x: a tile (..., n // 2 + 1) of vec2f or vec2d.
        n: the length of the results, a constant.
    Returns:
        a tile (..., n) of float32 or float64.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: `x` has no rows of n // 2 + 1 elements, or there are no tables for n.
        not-constant: `n` is known at run time only.
    Gradient:
        `tile_rfft` of the adjoint, doubled except for the first element and, if n is even, the last; the imaginary
        parts of these two are 0.
    Source:
        as for `tile_rfft`.
    """

def tile_load(a: Any, shape: Any, offset: Any = None, storage: Any = 'register', bounds_check: Any = True, aligned: Any = False, fill: Any = 0, mask: Any = None, other: Any = None) -> Any:
    """A tile copied from an array; elements outside of the array are `fill`, elements that the mask does not select are
    `other`.

    Parameters:
        a: an array of any dtype, with one dimension for each length of `shape`.
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        aligned: True promises a packed array, a tile inside of it, and a first element at a multiple of 16 bytes;
            False by default.
        fill: the value of elements outside of the array, of the dtype of `a`; 0 by default.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
        other: the value of elements where `mask` is False, a scalar, vector or matrix of the dtype of `a`; 0 by
            default. Only with `mask`.
    Returns:
        a tile of `shape` and the dtype of `a`.
    Raises:
        type-mismatch: `a` is not an array, the numbers of dimensions differ, `fill` or `other` has another type, or
            `other` is given without `mask`; an offset is not an integer; `mask` is not a tile of bool.
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; a literal is not an offset that an array can
            have; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode; the
            tile leaves the array though `aligned=True` promised otherwise, in debug mode.
        broken-promise: `aligned=True`, and the first element is not aligned; in debug mode also: the array is not
            packed.
        shape-mismatch: `mask` does not broadcast to the shape of the tile.
    Gradient:
        adds to the gradient of the array, inside of it and where `mask` is True; the sum over the other elements
        for `other`; refused (no-gradient) for `fill`.
    """

def tile_load_async(array: Any, tile: Any, offset: Any = None, barrier: Any = None, stage: Any = 0) -> None:
    """Starts to copy a tile of an array to a shared tile, by one thread of the role; elements outside of the
    array become 0.

    Parameters:
        array: an array of the dtype and the number of dimensions of `tile`, packed, aligned to 16 bytes and only
            read by the kernel.
        tile: a tile with `storage="shared"`, or a part of one, of at most 256 in each length and rows of a multiple
            of 16 bytes.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        barrier: barriers of tg.mbarrier. The barrier counts the bytes of the whole tile, which must be announced in
            the phase.
        stage: the index of the barrier, an integer from 0; 0 by default.
    Raises:
        type-mismatch: `array` is not an array, the dtypes or dimensions differ, or `barrier` is missing; `tile` is
            not a shared tile bound to a name; an offset is not an integer; `stage` is not an integer.
        out-of-range: a literal is not an offset that an array can have; a constant `stage` is not one of the
            barriers.
        bulk-access: the launch is for a GPU below compute capability 9.0, or of an array that no tensor map
            describes.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, cp.async.bulk.tensor (global to shared).
    """

def tile_load_indexed(a: Any, indices: Any, shape: Any, offset: Any = None, axis: Any = 0, storage: Any = 'register', mask: Any = None, other: Any = 0) -> Any:
    """A tile gathered from an array: along one dimension, elements at given indices; 0 for elements outside of the
    array. Element c of the tile is the array's element at offset + c; along `axis`, at offset + indices[c]. Each
    element is loaded separately; accesses coalesce only where indices are adjacent.

    Parameters:
        a: an array of any dtype, with one dimension for each length of `shape`.
        indices: a tile (N,) of integers, counted from the offset; indices below 0 are outside of the array, and do
            not count from the end.
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        axis: the dimension, a constant from -rank to rank - 1; 0 by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
        other: the value of elements that are not loaded or outside of the array, of the dtype of `a`; 0 by default.
    Returns:
        a tile of `shape` and the dtype of `a`.
    Raises:
        type-mismatch: `a` is not an array, the numbers of dimensions differ, or `other` has another type; `indices`
            is not a tile of integers of one dimension; an offset is not an integer; `mask` is not a tile of bool.
        shape-mismatch: the number of indices differs from the tile's length along `axis`; `mask` does not broadcast
            to the shape of the tile.
        not-constant: a length is known at run time only; `axis` is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; a literal is not an offset that an array can
            have; there is no such dimension; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        adds to the gradient of the array, inside of it; refused (no-gradient) for `other`.
    """

def tile_local(a: Any, grid: Any) -> Any:
    """The elements of a tile that belong to a thread of a constant grid of threads: a[i::grid[0], j::grid[1], ..] for
    thread (i, j, ..).

    Parameters:
        a: a tile (N,), (M, N) or (.., M, N).
        grid: the number of threads along each dimension of the tile, constants. The grid has as many threads as the
            block, or inside a role as many as the role. The last dimension is the fastest. In all dimensions but
            the last two the grid is as long as the tile.
    Returns:
        a vector for a tile of one dimension, else a matrix, of ceil(extent / grid) elements in each dimension;
        elements beyond the tile are 0.
    Raises:
        type-mismatch: `a` is not a tile; `grid` has another rank or number of threads.
        not-constant: a number of `grid` is known at run time only, or below 1.
    Gradient:
        that of each element.
    """

def tile_lower_solve(l: Any, y: Any) -> Any:
    """z with l @ z = y, for lower triangular matrices: forward substitution.

    Parameters:
        l: a tile (..., N, N) of floats, of which only the lower triangle is read; float16 and bfloat16 are computed
            in float32.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of l.
    Returns:
        a tile of the shape and dtype of `y`. A 0 on the diagonal divides as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `l` and `y`, or their batches, differ.
        type-mismatch: `l` is not a tile of square matrices, or the dtypes differ or are not floats.
    Gradient:
        with z the result and b = inv(l).T @ the adjoint: b for `y`, the lower triangle of -b @ z.T for `l`.
    Source:
        BLAS trsm.
    """

def tile_lower_solve_inplace(l: Any, y: Any) -> None:
    """The function tg.tile_lower_solve, whose result overwrites `y`: nothing is returned.

    Parameters:
        l: a tile (..., N, N) of floats, of which only the lower triangle is read; float16 and bfloat16 are computed
            in float32.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of l.
    Raises:
        shape-mismatch: the extents of `l` and `y`, or their batches, differ.
        type-mismatch: `l` is not a tile of square matrices, or the dtypes differ or are not floats; `y` is not a
            tile bound to a name, or read-only.
        popped-tile-changed: `y` was popped from a pipe.
    Gradient:
        with z the result and b = inv(l).T @ the adjoint: b for `y`, the lower triangle of -b @ z.T for `l`.
    Source:
        BLAS trsm.
    """

def tile_lstsq(a: Any, y: Any) -> Any:
    """x that minimises the sum of the squares of a @ x - y, by the QR decomposition.

    Parameters:
        a: a tile (..., M, N) of floats with M >= N, of full rank; float16 and bfloat16 are computed in float32.
        y: vectors (..., M), or the columns of (..., M, R), of the dtype and the batch of a.
    Returns:
        vectors (..., N) or a tile (..., N, R) of the dtype of `a`. For a rank-deficient matrix the results of
        divisions by 0 are infinities and NaN, as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `a` and `y`, or their batches, differ.
        type-mismatch: `a` is not a tile of matrices or has more columns than rows, or the dtypes differ or are not
            floats.
    Gradient:
        with x the result and g = inv(a.T @ a) @ the adjoint: a @ g for `y`, (y - a @ x) @ g.T - a @ g @ x.T for
        `a`.
    Source:
        LAPACK gels.
    """

def tile_lu(a: Any) -> Any:
    """The LU decomposition of square matrices with partial pivoting: P @ a = L @ U.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        lu, a tile of the shape and dtype of `a` with U in the upper triangle and L, whose diagonal is 1, below it;
        and piv, a tile (..., N) of int32: step k, from 0 on, exchanged rows k and piv[k], as in
        scipy.linalg.lu_factor. The pivot is the first element of the largest magnitude; NaNs are preferred to
        numbers. If all candidates are 0, the diagonal is 0.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        with G the adjoint of lu: P.T @ inv(L).T @ (the strictly lower triangle of L.T @ tril(G) + the upper
        triangle of triu(G) @ U.T) @ inv(U).T; piv has no gradient.
    Source:
        LAPACK getrf.
    """

def tile_lu_solve(lu: Any, piv: Any, y: Any) -> Any:
    """x with a @ x = y, where lu and piv are the results of `tile_lu` for a.

    Parameters:
        lu: a tile (..., N, N) of floats, L below the diagonal and U in the upper triangle.
        piv: a tile (..., N) of int32, the row exchanges.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of lu.
    Returns:
        a tile of the shape and dtype of `y`. A 0 on the diagonal divides as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `lu`, `piv` and `y`, or their batches, differ.
        type-mismatch: `lu` is not a tile of square matrices, the dtypes differ or are not floats, or `piv` is not
            of int32.
    Gradient:
        with x the result and b = inv(a).T @ the adjoint: b for `y`; for `lu` the strictly lower triangle of -c @
        z.T and the upper triangle of -d @ x.T, with z = U @ x, d = inv(U).T @ the adjoint and c = inv(L).T @ d.
    Source:
        LAPACK getrs.
    """

def tile_lu_solve_inplace(lu: Any, piv: Any, y: Any) -> None:
    """The function tg.tile_lu_solve, whose result overwrites `y`: nothing is returned.

    Parameters:
        lu: a tile (..., N, N) of floats, L below the diagonal and U in the upper triangle.
        piv: a tile (..., N) of int32, the row exchanges.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of lu.
    Raises:
        shape-mismatch: the extents of `lu`, `piv` and `y`, or their batches, differ.
        type-mismatch: `lu` is not a tile of square matrices, the dtypes differ or are not floats, or `piv` is not
            of int32; `y` is not a tile bound to a name, or read-only.
        popped-tile-changed: `y` was popped from a pipe.
    Gradient:
        with x the result and b = inv(a).T @ the adjoint: b for `y`; for `lu` the strictly lower triangle of -c @
        z.T and the upper triangle of -d @ x.T, with z = U @ x, d = inv(U).T @ the adjoint and c = inv(L).T @ d.
    Source:
        LAPACK getrs.
    """

def tile_map(op: Any, *args: Any) -> Any:
    """A function applied to every element of tiles.

    Parameters:
        op: a @tg.func or a function of the language, with a parameter for each operand, that returns one scalar,
            vector, matrix or struct and uses no tiles.
        *args: 1 to 8 operands: tiles, which broadcast, or values that are the same for all elements; at least one
            tile. The function takes structs, not their leaves.
    Returns:
        a tile of the broadcast shape with the results of `op`.
    Raises:
        type-mismatch: `op` is not a function, there is no tile, or `op` uses tiles or does not return an element.
        shape-mismatch: the shapes of tiles do not broadcast.
        wrong-arguments: `op` has another number of parameters.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        the gradient of `op`, element by element.
    """

def tile_matmul(a: Any, b: Any, out: Any = None, alpha: Any = 1.0, beta: Any = 1.0, precision: Any = 'default', wait: Any = True, dtype: Any = None) -> Any:
    """The matmul of two tiles, added to a tile in place or as a new tile.

    With `out`, out = alpha * a @ b + beta * out; without, the result is alpha * a @ b. Products are summed in the dtype
    of the result (float32 if it is narrower) in an unspecified order, and rounded once. A term with a factor of 0 has
    no effect, even if the term contains a NaN; its tiles are not read if the factor is a constant.

    Parameters:
        a, b: tiles (M, K) and (K, N) of scalars, both of floats or both of integers; the dtypes may differ. Without
            `out`, a 1-D `a` is a row, a 1-D `b` is a column, and leading dimensions are batches, which broadcast.
        out: a tile (M, N) bound to a name, of floats or integers like `a`; a new tile by default.
        alpha, beta: factors of the dtype of the result; 1 by default. Without `out`, beta is not used.
        precision: "default", or "tf32": GPUs round float32 operands to 10 bits of fraction, which tensor cores
            multiply. CPUs do not reduce the precision.
        wait: False leaves the matmul in flight: until tg.tile_matmul_wait only further matmuls may add to `out`,
            and `a` and `b` must not change. True by default.
        dtype: the scalar type of the result without `out`, in which products are summed; the dtype of `a` by
            default.
    Returns:
        nothing with `out`; else a tile (..., M, N) of `dtype`, without the dimension of a row or column.
    Raises:
        shape-mismatch: the number of columns of `a` differs from the number of rows of `b`, batches do not
            broadcast, or the shape of `out` is not (M, N).
        type-mismatch: an operand is not a tile, or with `out` not a tile of 2 dimensions, `out` has no name, floats
            are combined with integers, a factor has another dtype, `dtype` is not a scalar type or is given with
            `out`, or a matmul in flight has no `out` or a factor.
        out-of-range: `precision` is another string.
        matmul-in-flight: a tile is used or changed while a matmul in flight works on it.
        popped-tile-changed: `out` was popped from a pipe.
    Gradient:
        alpha * adjoint @ b^T for `a`, alpha * a^T @ adjoint for `b`, beta * adjoint for the previous value of
        `out`; the sum of adjoint * (a @ b) for `alpha`, of adjoint * out for `beta`.
    Source:
        BLAS gemm; on GPUs PTX ISA, mma and wgmma.mma_async.
    """

def tile_matmul_wait(pending: Any = 0) -> None:
    """Waits until all matmuls in flight (`tg.tile_matmul(wait=False)`) but the last `pending` are complete.

    Parameters:
        pending: the number of matmuls that may remain in flight, a constant from 0 to 7; 0 by default.
    Raises:
        not-constant: `pending` is known at run time only.
        out-of-range: `pending` is not from 0 to 7.
    Gradient:
        the adjoints of the accumulators, unchanged.
    Source:
        PTX ISA, wgmma.wait_group.
    """

def tile_max(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The largest element of a tile.

    A NaN loses to any number, and -0.0 is below 0.0. Elements of absent threads are skipped.

    Parameters:
        a: a tile; of vectors and matrices each component by itself.
        axis: the dimension or tuple of dimensions, constants from -rank to rank - 1; all dimensions by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        equal parts of the adjoint to all elements that are the extreme.
    """

def tile_median(t: Any) -> Any:
    """The median along the last dimension: the middle element, or the mean of the two middle elements.

    Parameters:
        t: a tile (..., N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile (..., 1) of the same dtype; NaN if an element is NaN.
    Raises:
        type-mismatch: `t` is not a tile of floats.
    Gradient:
        the adjoint for the middle element, or half of the adjoint for each of two middle elements.
    """

def tile_mesh_query_aabb(id: Any, low: Any, high: Any) -> Any:
    """A query of a block for the faces of a mesh whose bounds overlap a box; the arguments of thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        low, high: vec3, the corners of the box.
    Returns:
        a MeshQueryAABBTiled, for `tile_mesh_query_aabb_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_mesh_query_aabb_next(query: Any) -> Any:
    """The next faces of a query of a block, one for each thread.

    Parameters:
        query: a MeshQueryAABBTiled variable, which is updated.
    Returns:
        a tile (threads,) of int32: the faces in traversal order, and -1 at the end.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_mesh_query_point(id: Any, point: Any, max_dist: Any) -> Any:
    """The point of a mesh that is closest to a point of the block, as `mesh_query_point`; the arguments of
    thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        point: a vec3.
        max_dist: a float32; only points that are closer are considered.
    Returns:
        a MeshQueryPoint, the same in all threads.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing mesh.
    Gradient:
        the gradient of `u` and `v` for `point` and for the points of the mesh; the face, and its closest edge or
        vertex, are constant.
    """

def tile_mesh_query_ray(id: Any, start: Any, dir: Any, max_t: Any) -> Any:
    """The first face of a mesh that a ray of the block hits, as `mesh_query_ray`; the arguments of thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        start: a vec3.
        dir: a vec3, of any length.
        max_t: a float32, the largest distance of a hit, in lengths of `dir`.
    Returns:
        a MeshQueryRay, the same in all threads.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        the gradient of `t`, `u`, `v` and `normal` for `start`, `dir` and the points of the mesh.
    """

def tile_mesh_query_sphere(id: Any, center: Any, radius: Any) -> Any:
    """A query of a block for the faces of a mesh that intersect a ball; the arguments of thread 0 are used.

    Parameters:
        id: the mesh, or its id.
        center: a vec3.
        radius: a float32; a negative radius counts as 0.
    Returns:
        a MeshQueryAABBTiled, for `tile_mesh_query_aabb_next`.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_min(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The smallest element of a tile.

    A NaN loses to any number, and -0.0 is below 0.0. Elements of absent threads are skipped.

    Parameters:
        a: a tile; of vectors and matrices each component by itself.
        axis: the dimension or tuple of dimensions, constants from -rank to rank - 1; all dimensions by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        equal parts of the adjoint to all elements that are the extreme.
    """

def tile_nearest(id: Any, point: Any, k: Any, max_dist: Any = inf) -> Any:
    """The nearest items of a BVH, by their boxes, or faces of a mesh; the arguments of thread 0 are used.

    Parameters:
        id: the BVH or mesh, or its id.
        point: a vec3; a point with a NaN or an infinite coordinate has no nearest item.
        k: the number of results, a constant int.
        max_dist: a float32; only items and faces that are closer are considered.
    Returns:
        a tile (k,) of int32, the indices in the order of distance and, at equal distances, of index; -1 where there
        are no more.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_ones(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    """A tile of ones; matrices have ones everywhere.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of `shape` and `dtype`.
    Raises:
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
        type-mismatch: `dtype` is not an element type.
    Gradient:
        none: the result is a constant.
    """

def tile_ones_like(a: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile of ones of the shape of another tile; matrices have ones everywhere.

    Parameters:
        a: a tile.
        dtype: the element type, a scalar, vector or matrix type; the element type of `a` by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of the shape of `a` and of `dtype`.
    Raises:
        type-mismatch: `a` is not a tile; `dtype` is not an element type.
        out-of-range: `storage` is another string.
    Gradient:
        none: the result is a constant.
    """

def tile_pad(t: Any, pad_width: Any, value: Any = 0) -> Any:
    """A tile with a border of one value.

    Parameters:
        t: a tile.
        pad_width: the number of elements on every side, or a pair (before, after) for each dimension, constants.
        value: the value of the border, of the dtype of `t`; 0 by default.
    Returns:
        a new tile, whose lengths are before + n + after.
    Raises:
        type-mismatch: the number of pairs differs from the number of dimensions, or `value` has another type; `t`
            is not a tile.
        not-constant: a width is known at run time only.
        out-of-range: a width is below 0, or an entry is not a pair.
        tile-too-large: the result has more than 2**26 elements.
    Gradient:
        the inner part of the adjoint; the sum of the border for `value`.
    """

def tile_permute(a: Any, axes: Any) -> Any:
    """A view of a tile with its dimensions in another order: dimension k of the view is dimension axes[k].

    Parameters:
        a: a tile of up to 4 dimensions.
        axes: each dimension once, a tuple of constants.
    Returns:
        a view.
    Raises:
        type-mismatch: `a` is not a tile.
        out-of-range: `axes` does not name each dimension once.
    Gradient:
        the adjoint, permuted back.
    """

def tile_pipe(shape: Any, dtype: Any = ..., stages: Any = 2) -> Any:
    """A pipe: a ring buffer of tiles in shared memory, which one role fills and others empty. Pipes are created before
    the roles.

    One role fills a pipe, always by tg.tile_pipe_load or always by tg.tile_pipe_push; every role that pops the pipe
    gets every tile.

    Parameters:
        shape: 1 to 4 lengths of each tile, constants.
        dtype: the scalar type of the elements; float32 by default.
        stages: the number of tiles, a constant from 1 to 64; 2 by default.
    Returns:
        a pipe, empty at first.
    Raises:
        not-constant: a length or `stages` is known at run time only.
        out-of-range: `stages` is not from 1 to 64, or a length is below 1.
        type-mismatch: `dtype` is not a scalar type.
        role-placement: the pipe is created inside a role.
        shared-memory-exceeded: the stages do not fit the memory of a block.
    Gradient:
        of the kernel without roles: see docs/gradients.md.
    """

def tile_pipe_load(pipe: Any, array: Any, offset: Any = None, bounds_check: Any = True, aligned: Any = False) -> None:
    """Waits for a free stage of a pipe and starts to copy a tile of an array to the stage; elements outside of the
    array are 0.

    The copy is asynchronous: the role continues, and the array may be read before other roles' writes to the array are
    visible.

    Parameters:
        pipe: a pipe with tiles of as many dimensions as `array`.
        array: an array of the dtype of `pipe`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        aligned: True promises a packed array, a tile inside of it, and a first element at a multiple of 16 bytes;
            False by default.
    Raises:
        type-mismatch: `pipe` is not a pipe, `array` is not an array, or their dtypes or dimensions differ; an
            offset is not an integer.
        out-of-range: a literal is not an offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode; the
            tile leaves the array though `aligned=True` promised otherwise, in debug mode.
        broken-promise: `aligned=True`, and the first element is not aligned; in debug mode also: the array is not
            packed.
        pipe-ends: two roles fill the pipe, the pipe is filled by both push and load, or is never filled or popped.
        deadlock: no role of a block can make progress, on a CPU.
    Gradient:
        of the kernel without roles: see docs/gradients.md.
    Source:
        on GPUs of compute capability 9.0 PTX ISA, cp.async.bulk.tensor.
    """

def tile_pipe_pop(pipe: Any) -> Any:
    """Waits until the next stage of a pipe is full and returns the stage's tile; the stage is free after the last use
    of the tile.

    Parameters:
        pipe: a pipe of tg.tile_pipe.
    Returns:
        a read-only tile of the shape and dtype of `pipe`: tg.copy returns a copy that can be changed.
    Raises:
        pipe-balance: the role may hold more tiles than the pipe has stages, or pops on only one of two paths.
        popped-tile-changed: the tile is changed.
        type-mismatch: `pipe` is not a pipe.
        pipe-ends: two roles fill the pipe, the pipe is filled by both push and load, or is never filled or popped.
        deadlock: no role of a block can make progress, on a CPU.
    Gradient:
        of the kernel without roles: see docs/gradients.md.
    """

def tile_pipe_push(pipe: Any, tile: Any) -> None:
    """Waits for a free stage of a pipe and writes a tile to the stage.

    Parameters:
        pipe: a pipe of tg.tile_pipe.
        tile: a tile of the shape and dtype of `pipe`.
    Raises:
        type-mismatch: `pipe` is not a pipe, or `tile` has another shape or dtype.
        pipe-ends: two roles fill the pipe, the pipe is filled by both push and load, or is never filled or popped.
        deadlock: no role of a block can make progress, on a CPU.
    Gradient:
        of the kernel without roles: see docs/gradients.md.
    """

def tile_pipe_release(pipe: Any) -> None:
    """Frees the stage of the oldest tile that this role has popped and not released. Without this call, the stage is
    freed after the last use of the tile.

    Parameters:
        pipe: a pipe of tg.tile_pipe.
    Raises:
        pipe-balance: the role holds no tile, or uses a tile after its release.
        type-mismatch: `pipe` is not a pipe.
    Gradient:
        of the kernel without roles: see docs/gradients.md.
    """

def tile_qr(a: Any) -> Any:
    """The QR decomposition of matrices with M >= N: a = q @ r.

    Parameters:
        a: a tile (..., M, N) of floats with M >= N; float16 and bfloat16 are computed in float32.
    Returns:
        q, a tile (..., M, N) with orthonormal columns, and r, an upper triangular tile (..., N, N) with a
        non-negative diagonal.
    Raises:
        type-mismatch: `a` is not a tile of floats, has fewer than two dimensions, or has more columns than rows.
    Gradient:
        with G, H the adjoints of q and r, and T = r @ H.T - G.T @ q: (G + q @ (the lower triangle of T, mirrored))
        @ inv(r).T, which a matrix without full rank does not have.
    Source:
        LAPACK geqrf: Householder reflections.
    """

def tile_query_valid(query: Any) -> Any:
    """Whether a query of a block may have more items; the next tile may still be all -1.

    Parameters:
        query: a value of type BvhQueryTiled or MeshQueryAABBTiled.
    Returns:
        a bool, the same in all threads.
    Raises:
        type-mismatch: an argument is of another type.
        shape-mismatch: arguments are tiles whose shapes do not broadcast.
        out-of-range: a literal does not fit its dtype.
        assertion: the id does not name an existing structure of this kind.
    Gradient:
        none: results of queries have no gradient.
    """

def tile_randf(shape: Any, rng: Any, min: Any = None, max: Any = None, storage: Any = 'register') -> Any:
    """A tile of random float32.

    Element e, in row-major order, is the first draw of tg.randf from the state tg.rand_init(e + rng), on every device
    and with any number of threads. `rng` is not advanced: two calls with one state give
    equal tiles.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        rng: a uint32 of tg.rand_init; the state of thread 0 is used.
        min, max: the range, constants with min < max; by default from 0 up to 1.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of float32, from `min` up to, but without, `max`.
    Raises:
        type-mismatch: `rng` is not a uint32, or `min` or `max` is not a float32.
        not-constant: `min` or `max` is known at run time only; a length is known at run time only.
        out-of-range: `min` is not below `max`, or one of them is not a float32; a length is below 1, or there are
            more than 4; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        none: integers and draws have no gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def tile_randi(shape: Any, rng: Any, min: Any = None, max: Any = None, storage: Any = 'register') -> Any:
    """A tile of random int32.

    Element e, in row-major order, is the first draw of tg.randi from the state tg.rand_init(e + rng), on every device
    and with any number of threads. `rng` is not advanced: two calls with one state give
    equal tiles.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        rng: a uint32 of tg.rand_init; the state of thread 0 is used.
        min, max: the range, constants with min < max; by default all int32.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of int32, from `min` up to, but without, `max`.
    Raises:
        type-mismatch: `rng` is not a uint32, or `min` or `max` is not a int32.
        not-constant: `min` or `max` is known at run time only; a length is known at run time only.
        out-of-range: `min` is not below `max`, or one of them is not a int32; a length is below 1, or there are
            more than 4; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        none: integers and draws have no gradient.
    Source:
        Jarzynski and Olano, Hash Functions for GPU Rendering, JCGT 9 (3), 2020.
    """

def tile_randn(shape: Any, rng: Any, storage: Any = 'register') -> Any:
    """A tile of random numbers of the normal distribution with mean 0 and standard deviation 1.

    Element e, in row-major order, is the first draw of tg.randn from the state tg.rand_init(e + rng), on every device
    and with any number of threads. `rng` is not advanced: two calls with one state give equal tiles.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        rng: a uint32 of tg.rand_init; the state of thread 0 is used.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of float32.
    Raises:
        type-mismatch: `rng` is not a uint32.
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        none: draws have no gradient.
    Source:
        Box and Muller, A Note on the Generation of Random Normal Deviates, 1958.
    """

def tile_reduce(op: Any, a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The elements of a tile combined by a function, in an unspecified order.

    Elements of absent threads are skipped.

    Parameters:
        op: an associative and commutative function (x, y) of two elements that returns an element of their type:
            `tg.add`, `tg.max`, a @tg.func.
        a: a tile.
        axis: the dimension or tuple of dimensions, constants from -rank to rank - 1; all dimensions by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `op` is not a function, `a` is not a tile, `op` returns another type, or a tile of structs is
            reduced along a dimension.
        wrong-arguments: `op` does not take two arguments.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        for +, min and max the gradient of tg.tile_sum, tg.tile_min and tg.tile_max; for structs the gradient of
        `op`; others are refused (no-gradient).
    """

def tile_reshape(t: Any, shape: Any) -> Any:
    """The elements of a tile, in row-major order, in another shape.

    Parameters:
        t: a tile of up to 4 dimensions.
        shape: 1 to 4 lengths, constants, with the same number of elements; one length may be -1, and is computed
            from the others.
    Returns:
        a view; a read-only copy if no view of a strided view has this shape.
    Raises:
        type-mismatch: `t` is not a tile.
        not-constant: a length is known at run time only.
        out-of-range: the number of elements would change.
        shape-mismatch: the number of elements of a value without a name would change.
        tile-too-large: `shape` has more than 2**26 elements.
    Gradient:
        the adjoint under the shape of `t`.
    """

def tile_rfft(x: Any) -> Any:
    """The discrete Fourier transform of real numbers along the last dimension of a tile: the first N // 2 + 1 results,
    as numpy.fft.rfft; the others are their conjugates.

    Parameters:
        x: a tile (..., N) of float32 or float64.
    Returns:
        a tile (..., N // 2 + 1) of vec2f or vec2d, complex numbers with the real part first.
    Raises:
        type-mismatch: `x` has another dtype.
        out-of-range: N is above 65536, or a prime number that is too large for the tables of roots.
    Gradient:
        the real part of the inverse transform of the adjoint, padded with zeros and not divided by N.
    Source:
        as for `tile_fft`, of half the length if N is even.
    """

def tile_scan_exclusive(a: Any, axis: object = None) -> Any:
    """The exclusive running sums of the elements, 0 for the first, in row-major order or along a dimension.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
        not-constant: `axis` is known at run time only.
    Gradient:
        the exclusive running sum of the adjoint from the last element to the first.
    """

def tile_scan_exclusive_inplace(a: Any, axis: object = None) -> None:
    """The function tg.tile_scan_exclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype; `a` is not a tile bound to a name, or read-only.
        out-of-range: there is no such axis.
        popped-tile-changed: `a` was popped from a pipe.
        not-constant: `axis` is known at run time only.
    Gradient:
        the exclusive running sum of the adjoint from the last element to the first.
    """

def tile_scan_inclusive(a: Any, axis: object = None) -> Any:
    """The inclusive running sums of the elements, in row-major order or along a dimension.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
        not-constant: `axis` is known at run time only.
    Gradient:
        the running sum of the adjoint from the last element to the first.
    """

def tile_scan_inclusive_inplace(a: Any, axis: object = None) -> None:
    """The function tg.tile_scan_inclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype; `a` is not a tile bound to a name, or read-only.
        out-of-range: there is no such axis.
        popped-tile-changed: `a` was popped from a pipe.
        not-constant: `axis` is known at run time only.
    Gradient:
        the running sum of the adjoint from the last element to the first.
    """

def tile_scan_max_inclusive(a: Any, axis: object = None) -> Any:
    """The running maxima of the elements, in row-major order or along a dimension.

    Numbers are preferred to NaNs, so that results are NaN until the first number. -0.0 is below 0.0. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
        not-constant: `axis` is known at run time only.
    Gradient:
        flows to the element that set the extreme; along a dimension it is divided among equal elements.
    """

def tile_scan_max_inclusive_inplace(a: Any, axis: object = None) -> None:
    """The function tg.tile_scan_max_inclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype; `a` is not a tile bound to a name, or read-only.
        out-of-range: there is no such axis.
        popped-tile-changed: `a` was popped from a pipe.
        not-constant: `axis` is known at run time only.
    Gradient:
        flows to the element that set the extreme; along a dimension it is divided among equal elements.
    """

def tile_scan_min_inclusive(a: Any, axis: object = None) -> Any:
    """The running minima of the elements, in row-major order or along a dimension.

    Numbers are preferred to NaNs, so that results are NaN until the first number. -0.0 is below 0.0. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype.
        out-of-range: there is no such axis.
        not-constant: `axis` is known at run time only.
    Gradient:
        flows to the element that set the extreme; along a dimension it is divided among equal elements.
    """

def tile_scan_min_inclusive_inplace(a: Any, axis: object = None) -> None:
    """The function tg.tile_scan_min_inclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; vectors are handled by component.
        axis: the dimension to go along, a constant from -rank to rank - 1; None for all elements in row-major
            order.
    Raises:
        type-mismatch: `a` is not a tile of such a dtype; `a` is not a tile bound to a name, or read-only.
        out-of-range: there is no such axis.
        popped-tile-changed: `a` was popped from a pipe.
        not-constant: `axis` is known at run time only.
    Gradient:
        flows to the element that set the extreme; along a dimension it is divided among equal elements.
    """

def tile_scatter_add(a: Any, *args: Any, atomic: Any = True) -> None:
    """Adds the values of threads to elements of a tile: tile_scatter_add(a, i, ..., value, has_value).

    Parameters:
        a: a tile bound to a name, of any dtype but bool.
        *args: the indices of the element, one for each dimension and negative ones from the end, then the value, of
            the dtype of `a`, then whether this thread has one, a bool or an integer.
        atomic: True or False, without effect: additions to one element are atomic in either case.
    Raises:
        type-mismatch: `a` is not a tile bound to a name, arguments are missing, an index is not an integer, or the
            value has another type.
        out-of-range: a constant index leaves the tile.
        popped-tile-changed: `a` was popped from a pipe.
        out-of-bounds: an index leaves the tile, in debug mode.
    Gradient:
        the gradient of the element, for the value of each thread that has a value.
    """

def tile_scatter_masked(a: Any, *args: Any) -> None:
    """Writes the values of threads to elements of a tile: tile_scatter_masked(a, i, ..., value, has_value).

    Of several writes to one element, an unspecified one remains.

    Parameters:
        a: a tile bound to a name.
        *args: the indices of the element, one for each dimension and negative ones from the end, then the value, of
            the dtype of `a`, then whether this thread has one, a bool or an integer.
    Raises:
        type-mismatch: `a` is not a tile bound to a name, arguments are missing, an index is not an integer, or the
            value has another type.
        out-of-range: a constant index leaves the tile.
        popped-tile-changed: `a` was popped from a pipe.
        out-of-bounds: an index leaves the tile, in debug mode.
        unordered-access: no barrier that all threads reach can order the writes with other accesses.
    Gradient:
        the gradient of the element, for the value of the thread that wrote the element; refused (no-gradient) if
        threads may write different values to one element.
    """

def tile_slice_indexed(t: Any, indices: Any, axis: Any = 0) -> Any:
    """The slices of a tile at given indices along a dimension, like t[indices].

    Parameters:
        t: a tile.
        indices: a tile (K,) of integers; negative indices count from the end; the elements at indices outside are
            0. Without `axis`: the whole subscript as a tuple, (indices, slice(None)) for t[indices, :].
        axis: the dimension, a constant from -rank to rank - 1; 0 by default.
    Returns:
        a new tile of the shape of `t`, with length K along the dimension.
    Raises:
        type-mismatch: `indices` is neither a tile (K,) of integers nor a tuple with one, or `axis` is given with a
            tuple; `t` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        adds to the adjoint of each slice; none for `indices`.
    """

def tile_slogdet(a: Any) -> Any:
    """The signs of the determinants of square matrices, and the logarithms of their magnitudes.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        two tiles (..., 1) of the dtype of `a`: the sign, 1 or -1, and log(abs(det(a))). For a singular matrix the
        sign is 0 and the logarithm -inf.
    Raises:
        type-mismatch: `a` is not a tile of square matrices of floats.
    Gradient:
        the adjoint of the logarithm times inv(a).T, which a singular matrix does not have.
    Source:
        numpy.linalg.slogdet.
    """

def tile_solve(a: Any, y: Any) -> Any:
    """x with a @ x = y for square matrices, by the LU decomposition with partial pivoting.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of a.
    Returns:
        a tile of the shape and dtype of `y`; for a singular matrix infinities and NaN, as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `a` and `y`, or their batches, differ.
        type-mismatch: `a` is not a tile of square matrices, or the dtypes differ or are not floats.
    Gradient:
        with x the result and b = inv(a).T @ the adjoint: b for `y`, -b @ x.T for `a`.
    Source:
        LAPACK gesv.
    """

def tile_solve_inplace(a: Any, y: Any) -> None:
    """The function tg.tile_solve, whose result overwrites `y`: nothing is returned.

    Parameters:
        a: a tile (..., N, N) of floats; float16 and bfloat16 are computed in float32.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of a.
    Raises:
        shape-mismatch: the extents of `a` and `y`, or their batches, differ.
        type-mismatch: `a` is not a tile of square matrices, or the dtypes differ or are not floats; `y` is not a
            tile bound to a name, or read-only.
        popped-tile-changed: `y` was popped from a pipe.
    Gradient:
        with x the result and b = inv(a).T @ the adjoint: b for `y`, -b @ x.T for `a`.
    Source:
        LAPACK gesv.
    """

def tile_sort(keys: Any, values: Any, axis: object = None, descending: bool = False) -> None:
    """Sorts key-value pairs by key in ascending order, in place: all pairs in row-major order, or each line along an
    axis.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: a tile of float32, float64, int32, int64, uint32 or uint64.
        values: a tile of the same shape and any dtype; `keys` and `values` may be one tile.
        axis: the dimension along which lines are sorted, a constant; None for all keys as one line.
        descending: whether the largest key comes first, a constant.
    Raises:
        shape-mismatch: `keys` and `values` have different shapes.
        type-mismatch: `keys` has another dtype, or an operand is not a tile bound to a name.
        out-of-range: there is no such axis.
        popped-tile-changed: `keys` or `values` was popped from a pipe.
        not-constant: `axis` or `descending` is known at run time only.
    Gradient:
        the adjoints, permuted by the inverse of the sort.
    Source:
        Batcher, "Sorting networks and their applications" (1968): the bitonic network; on GPUs a network for each
        digit of the keys, from the lowest digit.
    """

def tile_squeeze(t: Any, axis: Any = None) -> Any:
    """A view of a tile without dimensions of length 1.

    Parameters:
        t: a tile of up to 4 dimensions.
        axis: the dimensions to leave out, an int or a tuple of constants, negative ones from the end; all of length
            1 by default.
    Returns:
        a view with the other dimensions; of shape (1,) if all lengths are 1.
    Raises:
        type-mismatch: `t` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension, or its length is not 1.
    Gradient:
        the adjoint under the shape of `t`.
    """

def tile_stack(capacity: Any, dtype: Any) -> Any:
    """An empty stack that the threads of the block share: all threads push to it and pop from it.

    Parameters:
        capacity: the maximum number of elements, 1 to 2**26, a constant.
        dtype: the element type, a scalar, vector or matrix type.
    Returns:
        a stack, empty at each call.
    Raises:
        not-constant: `capacity` is known at run time only.
        out-of-range: `capacity` is below 1.
        tile-too-large: `capacity` is above 2**26.
        type-mismatch: `dtype` is not an element type.
    Gradient:
        none: tg.tile_stack_push and tg.tile_stack_pop refuse gradients.
    """

def tile_stack_clear(s: Any) -> None:
    """Empties a stack.

    Parameters:
        s: a stack of tg.tile_stack.
    Raises:
        type-mismatch: `s` is not a stack.
    Gradient:
        none: the function has no result.
    """

def tile_stack_count(s: Any) -> Any:
    """The number of elements on a stack; may be called by some threads only.

    Parameters:
        s: a stack of tg.tile_stack.
    Returns:
        an int32.
    Raises:
        type-mismatch: `s` is not a stack.
    Gradient:
        none: the result is an integer.
    """

def tile_stack_pop(s: Any) -> Any:
    """Pops one element for each thread, in thread order from the top of the stack.

    Parameters:
        s: a stack of tg.tile_stack.
    Returns:
        (value, slot): the element and its slot, an int32; zeros and -1 for threads that found the stack empty.
    Raises:
        type-mismatch: `s` is not a stack.
    Gradient:
        refused (no-gradient).
    """

def tile_stack_push(s: Any, value: Any, has_value: Any = True) -> Any:
    """Pushes one value for each thread whose `has_value` is true, in thread order.

    Parameters:
        s: a stack of tg.tile_stack.
        value: a scalar, vector or matrix of the dtype of `s`.
        has_value: whether this thread pushes, a bool or an integer; True by default.
    Returns:
        the slot to which the value was written, an int32; -1 for a thread that did not push or found the stack
        full.
    Raises:
        type-mismatch: `s` is not a stack, or `value` has another type.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        refused (no-gradient).
    """

def tile_store(a: Any, t: Any, offset: Any = None, bounds_check: Any = True, aligned: Any = False, mask: Any = None) -> None:
    """Writes a tile to an array; elements outside of the array, elements of absent threads, and elements that the mask
    does not select are dropped. With a mask each element is stored separately, not as part of a vector access.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        aligned: True promises a packed array, a tile inside of it, and a first element at a multiple of 16 bytes;
            False by default.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, the dtypes or the numbers of dimensions differ, or an
            offset is not an integer; `mask` is not a tile of bool.
        out-of-range: a literal is not an offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode; the
            tile leaves the array though `aligned=True` promised otherwise, in debug mode.
        broken-promise: `aligned=True`, and the first element is not aligned; in debug mode also: the array is not
            packed.
        shape-mismatch: `mask` does not broadcast to the shape of the tile.
    Gradient:
        the gradient of the part of the array that was written, which is 0 afterwards.
    """

def tile_store_async(array: Any, tile: Any, offset: Any = None) -> None:
    """Starts to copy a shared tile to an array, by one thread of the role; elements outside of the array are
    dropped.

    Between writes of threads to `tile` and the copy, tg.fence_async is needed; tg.store_commit commits a group of such
    copies.

    Parameters:
        array: an array of the dtype and the number of dimensions of `tile`, packed, aligned to 16 bytes and only
            written by the kernel.
        tile: a tile with `storage="shared"`, or a part of one, of at most 256 in each length and rows of a multiple
            of 16 bytes.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
    Raises:
        type-mismatch: `array` is not an array, or the dtypes or dimensions differ; `tile` is not a shared tile
            bound to a name; an offset is not an integer.
        out-of-range: a literal is not an offset that an array can have.
        bulk-access: the launch is for a GPU below compute capability 9.0, or of an array that no tensor map
            describes.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with hand-written schedules have no gradient.
    Source:
        PTX ISA, cp.async.bulk.tensor (shared to global).
    """

def tile_store_indexed(a: Any, indices: Any, t: Any, offset: Any = None, axis: Any = 0, mask: Any = None) -> None:
    """Scatters the elements of a tile to an array, along one dimension to given indices; elements outside of the array,
    and elements of absent threads, are dropped. Element c of the tile is written to the array's element at offset + c;
    along `axis`, at offset + indices[c]. Where indices are equal, one unspecified element is kept. Each element is
    stored separately.

    Parameters:
        a: an array of as many dimensions as `t`.
        indices: a tile (N,) of integers, counted from the offset; indices below 0 are outside of the array, and do
            not count from the end.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. The offset of thread 0 is used.
        axis: the dimension, a constant from -rank to rank - 1; 0 by default.
        mask: a tile of bool that broadcasts to the shape of the tile, and selects elements; all by default.
    Raises:
        type-mismatch: `a` is not an array, `t` is not a tile, or the dtypes or the numbers of dimensions differ;
            `indices` is not a tile of integers of one dimension; an offset is not an integer; `mask` is not a tile
            of bool.
        shape-mismatch: the number of indices differs from the tile's length along `axis`; `mask` does not broadcast
            to the shape of the tile.
        out-of-range: a literal is not an offset that an array can have; there is no such dimension.
        not-constant: `axis` is known at run time only.
    Gradient:
        the gradient of the array's elements that were written, which is 0 afterwards; elements of the tile with
        equal indices each get the gradient.
    """

def tile_sum(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The sum of the elements of a tile, in an unspecified order that is fixed for a compiled kernel.

    Floats narrower than 32 bits are summed in float32 and rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype; the sum of bools is the number of true elements, in int32.
        axis: the dimension or tuple of dimensions, constants from -rank to rank - 1; all dimensions by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is not a tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        the adjoint, for every element.
    """

def tile_svd(a: Any, info: bool = False) -> Any:
    """The singular value decomposition of matrices: a = u @ diag(s) @ vt, with K = min(M, N) singular values.

    Parameters:
        a: a tile (..., M, N) of floats; float16 and bfloat16 are computed in float32.
        info: whether to return the fourth result too, a constant bool.
    Returns:
        u, a tile (..., M, K) with orthonormal columns; s, a tile (..., K) in descending order, not negative; vt, a
        tile (..., K, N) with orthonormal rows. The entry of largest magnitude in each row of vt (if M < N: in each
        column of u) is positive. All are NaN for a matrix with a NaN or an infinity, or if an iteration does not
        converge. With `info`, also a tile (..., 1) of int32: 0, or 1 without convergence.
    Raises:
        type-mismatch: `a` is not a tile of matrices of floats.
        not-constant: `info` is known at run time only.
    Gradient:
        with S = diag(s), G, H, J the adjoints of u, s and v = vt.T, sk(x) = x - x.T: u @ (F * sk(u.T @ G) @ S + S @
        F * sk(v.T @ J) + diag(H)) @ v.T + (I - u @ u.T) @ G @ inv(S) @ v.T + u @ inv(S) @ J.T @ (I - v @ v.T), F[i,
        j] = 1 / (s[j]**2 - s[i]**2), and 0 where the difference is at most 8 * K machine epsilons times the largest
        square.
    Source:
        LAPACK gebrd, bdsqr: Householder reflections to a bidiagonal matrix, then QR iterations with implicit
        shifts.
    """

def tile_topk(keys: Any, k: int) -> Any:
    """The k largest keys along the last dimension in descending order, and their indices.

    Equal keys stay in order; -0.0 is below 0.0, and NaN above all numbers.

    Parameters:
        keys: a tile (..., N) of float32, float64, int32, int64, uint32 or uint64.
        k: the number of keys, a constant int from 1 to N.
    Returns:
        a tile (..., k) of the dtype of `keys`, and a tile (..., k) of int32.
    Raises:
        type-mismatch: `keys` has another dtype, or `k` is not an integer.
        out-of-range: `k` is below 1 or above N.
        not-constant: `k` is known at run time only.
    Gradient:
        the adjoint of each result, for the key of its index; 0 for other keys.
    Source:
        for small k a bisection of the values for the k-th key; else Batcher, "Sorting networks and their
        applications" (1968): the bitonic network; on GPUs a network for each digit of the keys, from the lowest
        digit.
    """

def tile_transpose(a: Any) -> Any:
    """A view of the transpose of a 2-D tile, like t.T.

    Parameters:
        a: a tile (M, N).
    Returns:
        a view (N, M).
    Raises:
        type-mismatch: `a` is not a tile of 2 dimensions.
    Gradient:
        the transpose of the adjoint.
    """

def tile_upper_solve(u: Any, z: Any) -> Any:
    """x with u @ x = z, for upper triangular matrices: backward substitution.

    Parameters:
        u: a tile (..., N, N) of floats, of which only the upper triangle is read; float16 and bfloat16 are computed
            in float32.
        z: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of u.
    Returns:
        a tile of the shape and dtype of `z`. A 0 on the diagonal divides as IEEE 754 says.
    Raises:
        shape-mismatch: the extents of `u` and `z`, or their batches, differ.
        type-mismatch: `u` is not a tile of square matrices, or the dtypes differ or are not floats.
    Gradient:
        with x the result and b = inv(u).T @ the adjoint: b for `z`, the upper triangle of -b @ x.T for `u`.
    Source:
        BLAS trsm.
    """

def tile_upper_solve_inplace(u: Any, z: Any) -> None:
    """The function tg.tile_upper_solve, whose result overwrites `z`: nothing is returned.

    Parameters:
        u: a tile (..., N, N) of floats, of which only the upper triangle is read; float16 and bfloat16 are computed
            in float32.
        z: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of u.
    Raises:
        shape-mismatch: the extents of `u` and `z`, or their batches, differ.
        type-mismatch: `u` is not a tile of square matrices, or the dtypes differ or are not floats; `z` is not a
            tile bound to a name, or read-only.
        popped-tile-changed: `z` was popped from a pipe.
    Gradient:
        with x the result and b = inv(u).T @ the adjoint: b for `z`, the upper triangle of -b @ x.T for `u`.
    Source:
        BLAS trsm.
    """

def tile_view(t: Any, offset: Any, shape: Any = None) -> Any:
    """A view of part of a tile, like t[offset].

    An offset that leaves the tile at run time is undefined without debug mode.

    Parameters:
        t: a tile of up to 4 dimensions.
        offset: an index or a slice for each leading dimension; with `shape` the index of the first element, in
            elements. Negative indices count from the end.
        shape: the lengths of the view in the last dimensions of `t`, constants; by default, the offset is a
            subscript that determines the lengths.
    Returns:
        a view: writes to the view change `t` if `t` is bound to a name.
    Raises:
        type-mismatch: `t` is not a tile, an offset is not an integer, or `shape` is given with a slice.
        not-constant: `shape` or a bound of a slice is known at run time only.
        out-of-range: a constant offset or the shape leaves the tile, or a length is below 1.
        tile-too-large: `shape` has more than 2**26 elements.
        out-of-bounds: an offset leaves the tile, in debug mode.
    Gradient:
        the adjoint at the elements of the view, 0 elsewhere.
    """

def tile_where(cond: Any, value_if_true: Any, value_if_false: Any) -> Any:
    """The elements of value_if_true where a mask is true, else of value_if_false: tg.where of tiles.

    Parameters:
        cond: a tile of bools or integers, true unless 0.
        value_if_true, value_if_false: values of one type: scalars, vectors, matrices, tiles that broadcast, or
            literals.
    Returns:
        a tile of the broadcast shape.
    Raises:
        type-mismatch: `cond` is not a tile, or a tile of floats; the two values differ in type.
        mixed-scalar-types: a literal is of another kind than the other value.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        goes to the operand that was selected.
    """

def tile_zeros(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    """A tile of zeros.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of `shape` and `dtype`.
    Raises:
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another string.
        tile-too-large: the tile has more than 2**26 elements.
        type-mismatch: `dtype` is not an element type.
    Gradient:
        none: the result is a constant.
    """

def tile_zeros_like(a: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile of zeros of the shape of another tile.

    Parameters:
        a: a tile.
        dtype: the element type, a scalar, vector or matrix type; the element type of `a` by default.
        storage: "register" (the default), for a value, or "shared", for an object to which several names may refer.
    Returns:
        a tile of the shape of `a` and of `dtype`.
    Raises:
        type-mismatch: `a` is not a tile; `dtype` is not an element type.
        out-of-range: `storage` is another string.
    Gradient:
        none: the result is a constant.
    """

def trace(a: Any) -> Any:
    """The sum of the diagonal of a matrix.

    Parameters:
        a: a square matrix (N, N) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: `a` is not square, or of bools; `a` is not a matrix.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint on the diagonal, 0 elsewhere.
    """

def transform_compose(position: Any, rotation: Any, scale: Any) -> Any:
    """The matrix that scales along the axes, then rotates, then translates.

    Parameters:
        position: a vector (3,) of floats, the translation.
        rotation: a quaternion of floats, of length 1.
        scale: a vector (3,) of floats.
    Returns:
        a matrix (4, 4): T @ R @ S.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transform_decompose(m: Any, translation_out: Any = None, rotation_out: Any = None, scale_out: Any = None) -> Any:
    """The translation, rotation and scale of a matrix, the inverse of transform_compose.

    Parameters:
        m: a matrix (4, 4) of floats.
        translation_out, rotation_out, scale_out: variables of the types of the results. If they are passed, they
            are set, and nothing is returned.
    Returns:
        a vector (3,), a quaternion of length 1, and a vector (3,): the lengths of the first three columns.
    Raises:
        type-mismatch: `m` is a tile: there are several results.
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transform_from_matrix(mat: Any) -> Any:
    """The transform of a matrix.

    Parameters:
        mat: a matrix (4, 4) of floats of a rotation and a translation, whose last row is not used.
    Returns:
        a transform.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transform_get_rotation(xform: Any) -> Any:
    """The rotation of a transform, as `xform.q`.

    Parameters:
        xform: a transform of floats.
    Returns:
        a quaternion.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the adjoint for the last four components.
    """

def transform_get_translation(xform: Any) -> Any:
    """The translation of a transform, as `xform.p`.

    Parameters:
        xform: a transform of floats.
    Returns:
        a vector (3,).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the adjoint for the first three components.
    """

def transform_identity(dtype: Any = ...) -> Any:
    """The identity transform: (0, 0, 0, 0, 0, 0, 1).

    Parameters:
        dtype: the scalar type, one of floats; float32 by default.
    Returns:
        a transform.
    Raises:
        type-mismatch: `dtype` is not a type of floats.
    Gradient:
        none: the result is a constant.
    """

def transform_inverse(xform: Any) -> Any:
    """The inverse of a transform.

    Parameters:
        xform: a transform of floats whose rotation has length 1.
    Returns:
        a transform.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transform_multiply(a: Any, b: Any) -> Any:
    """The product of two transforms, as `a * b`: the motion `b`, then `a`.

    Parameters:
        a, b: a transform of floats.
    Returns:
        a transform: (quat_rotate(a.q, b.p) + a.p, a.q * b.q).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transform_point(xform: Any, point: Any) -> Any:
    """Transforms a point, by the rotation and the translation.

    Parameters:
        xform: a transform of floats whose rotation has length 1, or a matrix (4, 4), whose last row is not used.
        point: a vector (3,) of floats.
    Returns:
        a vector (3,).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        transform_vector of the transposed rotation and the adjoint for `point`; the derivative of the formula for
        `xform`.
    """

def transform_set_rotation(xform: Any, q: Any) -> Any:
    """Sets the rotation of a transform, as `xform.q = q`.

    Parameters:
        xform: a variable that holds a transform; any other argument is not changed.
        q: a quaternion of floats.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the last four components of the adjoint for `q`; the other components for the old `xform`.
    """

def transform_set_translation(xform: Any, p: Any) -> Any:
    """Sets the translation of a transform, as `xform.p = p`.

    Parameters:
        xform: a variable that holds a transform; any other argument is not changed.
        p: a vector (3,) of floats.
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the first three components of the adjoint for `p`; the other components for the old `xform`.
    """

def transform_to_matrix(xform: Any) -> Any:
    """The matrix of a transform.

    Parameters:
        xform: a transform of floats whose rotation has length 1.
    Returns:
        a matrix (4, 4).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transform_twist(t: Any, x: Any) -> Any:
    """Transforms a twist (angular velocity, linear velocity) to another frame.

    Parameters:
        t: a transform of floats whose rotation has length 1, from the frame of `x` to the other.
        x: a spatial vector (w, v) of floats.
    Returns:
        a spatial vector: (Rw, Rv + cross(p, Rw)).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transform_vector(xform: Any, vec: Any) -> Any:
    """Transforms a vector, by the rotation only.

    Parameters:
        xform: a transform of floats whose rotation has length 1, or a matrix (4, 4), whose last row is not used.
        vec: a vector (3,) of floats.
    Returns:
        a vector (3,).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        transform_vector of the transposed rotation and the adjoint for `vec`; the derivative of the formula for
        `xform`.
    """

def transform_wrench(t: Any, x: Any) -> Any:
    """Transforms a wrench (torque, force) to another frame.

    Parameters:
        t: a transform of floats whose rotation has length 1, from the frame of `x` to the other.
        x: a spatial vector (torque, force) of floats.
    Returns:
        a spatial vector: (R torque + cross(p, R force), R force).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def transformation(*args: Any, dtype: Any = None) -> Any:
    """A transform of a translation and a rotation: the first 3 and the last 4 of its 7 components.

    Parameters:
        *args: a translation, a vector (3,), and a rotation, a quaternion, the identity by default; or the 7
            components; or one scalar for all; or a transform, which is converted; zeros by default.
        dtype: the scalar type, one of floats; by default the dtype of the first component, float32 for zeros.
    Returns:
        a transform.
    Raises:
        type-mismatch: a component has another dtype or is not a float, or the number of components is neither 3 nor
            7.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        each component gets the adjoint's component.
    """

def transpose(a: Any) -> Any:
    """The transpose of a matrix.

    Parameters:
        a: a matrix (M, N); tiles have tg.tile_transpose.
    Returns:
        a matrix (N, M).
    Raises:
        type-mismatch: `a` is not a matrix.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the transpose of the adjoint.
    """

def trunc(x: Any) -> Any:
    """The number x without its fraction.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`, exact; infinities and NaNs are unchanged.
    Raises:
        type-mismatch: the components of `x` are not floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, roundToIntegralTowardZero.
    """

def uniform(x: Any) -> Any:
    """The value of x in thread 0, broadcast to every thread of the block or, inside a role, of the role.

    Parameters:
        x: a scalar, vector or matrix, which should be equal in all threads.
    Returns:
        a value of the type of `x`.
    Raises:
        divergent-cooperative-op: only some threads reach the call.
        broken-promise: a thread has another value, in debug mode.
        type-mismatch: `x` is not a scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the sum of the adjoints of all threads.
    """

def unot(a: Any) -> Any:
    """The logical negation of a condition, `not a`.

    Parameters:
        a: a bool or an integer, true unless 0: a scalar for whole values, a tile for each element; or an array,
            true unless None.
    Returns:
        a bool; a tile of bools of a tile.
    Raises:
        type-mismatch: the condition is a float, or not a scalar or tile.
    Gradient:
        none: bools have no gradient.
    """

def untile(a: Any) -> Any:
    """The element of a tile that belongs to each thread: the inverse of tg.tile.

    Parameters:
        a: with B threads, a tile (B,), (N, B) of scalars or (M, N, B) of scalars.
    Returns:
        the element, a vector (N,) or a matrix (M, N), of each thread.
    Raises:
        type-mismatch: the last length is not B, or the tile has more than 3 dimensions.
    Gradient:
        tg.tile of the adjoint.
    """

def vector(*args: Any, length: Any = None, dtype: Any = None) -> Any:
    """A vector of given components, of the elements of a tile, or of zeros; or a type of vectors.

    Parameters:
        *args: the components, scalars of one dtype and vectors of it; the entries of a matrix, row by row, with
            their number as `length`; one scalar fills all of `length`; a tile (N,) or a view, all of whose elements
            each thread reads; no argument: zeros. A length and a scalar type give the vector type, also in
            annotations.
        length: the number of components, 1 to 1024, a constant; by default the number of the arguments' components.
        dtype: the scalar type; by default the dtype of the first component, float32 for zeros.
    Returns:
        a vector (length,); or the type.
    Raises:
        type-mismatch: a component has another dtype, their number is not `length`, or there are more than 1024; a
            tile has another rank, or elements that are not scalars.
        not-constant: `length` is known at run time only.
        out-of-range: `length` is below 1.
    Gradient:
        each component gets the adjoint's component.
    """

def velocity_at_point(qd: Any, r: Any) -> Any:
    """The velocity of a point of a rigid body.

    Parameters:
        qd: the twist of the body, a spatial vector (w, v) of floats.
        r: a vector (3,) of floats, the point relative to the origin of the twist.
    Returns:
        a vector (3,): v + cross(w, r).
    Raises:
        mixed-scalar-types: the dtypes of the arguments differ.
        out-of-range: a literal does not fit its dtype.
        shape-mismatch: the shapes of tiles, whose elements are arguments too, do not broadcast.
    Gradient:
        the derivative of the formula.
    """

def where(cond: Any, value_if_true: Any, value_if_false: Any) -> Any:
    """value_if_true where a condition is true, else value_if_false; both are computed.

    Parameters:
        cond: a bool or an integer, true unless 0: a scalar for whole values, a tile for each element; or an array,
            true unless None.
        value_if_true, value_if_false: values of one type: scalars, vectors, matrices, tiles that broadcast, or
            literals.
    Returns:
        a value of the operands' type; a tile of the broadcast shape if an operand is a tile. With a constant
        condition, `value_if_true` or `value_if_false` unchanged.
    Raises:
        type-mismatch: the condition is a float, or not a scalar or tile; the two values differ in type.
        mixed-scalar-types: a literal is of another kind than the other value.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        goes to the operand that was selected; the other operand gets 0, even if it is a NaN.
    """

class fast:
    @staticmethod
    def exp2(x: Any) -> Any:
        """The power 2**x, with a relative error of at most 2**-20; results below the smallest normal number may be 0.

        GPUs use the approximation of the hardware, so results differ between devices; results of tg.exp2 are the same on
        all devices.

        Parameters:
            x: a scalar, vector, matrix or tile of float32 or narrower floats.
        Returns:
            a value of the type of `x`.
        Raises:
            type-mismatch: `x` is a float64; the components of `x` are not floats; a literal such as 4 is an integer.
            out-of-range: a literal does not fit the dtype that it takes.
        Gradient:
            adjoint * result * ln 2.
        Source:
            PTX ISA, ex2.approx.
        """
