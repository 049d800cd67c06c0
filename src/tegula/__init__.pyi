"""Tegula: a tile language embedded in Python, and its compiler. `import tegula as tg`."""

# Written by tools/stubs.py.

from typing import Any, TypeAlias
from builtins import bool as bool
from builtins import print as print
from builtins import range as range
from tegula import kernels as kernels
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
from tegula.lang.cooperative import cooperative as cooperative
from tegula.lang.decorators import constant as constant
from tegula.lang.decorators import func as func
from tegula.lang.decorators import func_grad as func_grad
from tegula.lang.decorators import func_replay as func_replay
from tegula.lang.decorators import pipelined as pipelined
from tegula.lang.decorators import static as static
from tegula.lang.decorators import unrolled as unrolled
from tegula.lang.typed import execute as exec
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
from tegula.runtime.make_arrays import full as full
from tegula.runtime.make_arrays import full_like as full_like
from tegula.runtime.make_arrays import ones as ones
from tegula.runtime.make_arrays import ones_like as ones_like
from tegula.runtime.make_arrays import zeros as zeros
from tegula.runtime.make_arrays import zeros_like as zeros_like
from tegula.runtime.modules import Module as Module
from tegula.runtime.modules import device_to_torch as device_to_torch
from tegula.runtime.modules import dtype_from_numpy as dtype_from_numpy
from tegula.runtime.modules import dtype_to_numpy as dtype_to_numpy
from tegula.runtime.modules import force_load as force_load
from tegula.runtime.modules import get_module as get_module
from tegula.runtime.modules import get_module_options as get_module_options
from tegula.runtime.modules import init as init
from tegula.runtime.modules import is_device_available as is_device_available
from tegula.runtime.modules import load_module as load_module
from tegula.runtime.modules import overload as overload
from tegula.runtime.modules import set_module_options as set_module_options
from tegula.runtime.tape import Tape as Tape
from tegula.signature import Dtypes as Dtypes
from tegula.signature import Extent as Extent
from tegula.signature import Extents as Extents
from tegula.tune import autotune as autotune

__version__: str

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
class Real(_Element): ...
adjoint: Any
class array(Any):
    """An array of scalars, vectors or matrices with 1 to 4 dimensions and any strides, in the memory of a
    device.

    As an annotation of a parameter: `array[float]`, or `array(dtype=float, ndim=2)`.

    Parameters:
        data: anything that NumPy, DLPack or `__cuda_array_interface__` understands; None for new memory of
            zeros.
        dtype: the element type; that of the data by default, and int32 or float32 for numbers of Python. Vector
            and matrix types take the last one or two dimensions of the data.
        shape: the lengths of new memory, or those to reshape the data to.
        ndim: the number of dimensions, which is only checked.
        device: where the array is to live; by default where data on a GPU are, else the current device.
        copy: False shares the memory of the data, and copies only where the dtype or the device differs; True
            by default.
        requires_grad: whether gradients flow to the array; False by default.
    Raises:
        number: a number does not fit the dtype, or a length is negative or no integer.
        TypeError: the dtype is no element type.
        ValueError: the shape, `ndim` or the elements do not fit the data, or the array would have more than 4
            dimensions.
        launch: there is no such device.
    Gradient:
        flows through a copy of another array where a tape records, and through a view of it.
    """
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array1d(Any):
    """`array1d` .. `array4d`: subscripted or called with a dtype."""
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array2d(Any):
    """`array1d` .. `array4d`: subscripted or called with a dtype."""
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array3d(Any):
    """`array1d` .. `array4d`: subscripted or called with a dtype."""
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class array4d(Any):
    """`array1d` .. `array4d`: subscripted or called with a dtype."""
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class bfloat16(_Element): ...
class bool_(_Element): ...
constexpr: TypeAlias = Any
class float16(_Element): ...
class float32(_Element): ...
class float64(_Element): ...
class float8_e4m3(_Element): ...
class float8_e5m2(_Element): ...
func_native: Any
class int16(_Element): ...
class int32(_Element): ...
class int64(_Element): ...
class int8(_Element): ...
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
class tile(Any):
    """A tile, as an annotation: `tile[float, M, N]` or `tile(dtype=float, shape=(M, N))`."""
    def __init__(self, *args: Any, **options: Any) -> None: ...
    def __class_getitem__(cls, item: Any) -> Any: ...
class uint16(_Element): ...
class uint32(_Element): ...
class uint64(_Element): ...
class uint8(_Element): ...
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
    """In a role, the condition that one of its threads is: `if tg.elect():`.

    Returns:
        a bool, true in one thread of the role.
    Raises:
        launch: outside of kernels.
        elected-body: the branch does more than barriers, asynchronous copies, their waits, and loops around
            them.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, elect.sync.
    """

def persistent_tiles(grid: Any, raster: Any = 8) -> Any:
    """In a kernel, a loop over the part of a grid of output tiles that this block works on: `for i, j in
    tg.persistent_tiles((rows, columns))`.

    Block b of G takes every G-th tile from the b-th on. Every role of a block has the same tiles in the same
    order.

    Parameters:
        grid: the numbers of rows and columns of tiles, integers.
        raster: how many rows are numbered down before the next column, a constant; 8 by default.
    Returns:
        pairs (i, j) of int32: the row and the column of a tile.
    Raises:
        launch: outside of kernels.
        wrong-arguments: `grid` is no pair, or `raster` no positive constant.
        assertion: there are more than 2**31 - 1 tiles.
    Gradient:
        of the body, as of a launch with a block for each tile: see docs/gradients.md.
    """

def role(name: Any, warps: Any = 0, warp_groups: Any = 0, registers: Any = 0) -> Any:
    """In a kernel, a role of so many warps, placed by the compiler: `with tg.role("load", warps=1):`.

    Parameters:
        name: the name, for messages.
        warps: the number of warps of 32 threads.
        warp_groups: the number of groups of 4 warps, in the place of `warps`.
        registers: of each thread, a multiple of 8 from 24 to 256; 0, the default, lets the compiler choose.
            Roles that share a warp group have the same.
    Raises:
        launch: outside of kernels.
        role-placement: it is not at the end of a kernel, at the top level.
        role-groups: there are no warps for it.
        role-registers: the registers are more than the hardware has.
    Gradient:
        of the kernel as it is without roles: see docs/gradients.md.
    Source:
        PTX ISA, setmaxnreg.
    """

def tid() -> Any:
    """In a kernel, the index of this thread in the launch: `i = tg.tid()`, or `i, j = tg.tid()` for a launch of two
    dimensions.

    As many leading indices are given as there are names. `tg.launch_tiled` adds a last dimension, the number of the
    thread in its block.

    Returns:
        an int32 from 0, or as many as there are names: 1 to 4.
    Raises:
        launch: outside of kernels.
        wrong-arguments: the call has arguments, or there are more names than dimensions of the launch.
        unsupported-python: the call is in a cooperative function, which takes indices as parameters.
    Gradient:
        none: it is an integer.
    Source:
        CUDA's blockIdx and threadIdx.
    """

def ws(*groups: Any, registers: Any = 0) -> Any:
    """In a kernel, a role of whole warp groups of 128 threads: `with tg.ws(1, 2):`.

    Parameters:
        *groups: the numbers of the warp groups, constants, which must be neighbours.
        registers: of each thread, a multiple of 8 from 24 to 256; 0, the default, lets the compiler choose.
    Raises:
        launch: outside of kernels.
        role-placement: it is not at the end of a kernel, at the top level.
        role-groups: the groups are no neighbours, or taken.
        role-registers: the registers are more than the hardware has.
    Gradient:
        of the kernel as it is without roles: see docs/gradients.md.
    Source:
        PTX ISA, setmaxnreg.
    """

def abs(x: Any) -> Any:
    """The magnitude of a number x.

    Parameters:
        x: a scalar, vector, matrix or tile of any dtype but bool.
    Returns:
        a value of the type of `x`; the least signed integer stays what it is.
    Raises:
        type-mismatch: `x` is a bool, or no scalar, vector, matrix or tile.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint with the sign of `x`; 0 at 0.
    """

def acos(x: Any) -> Any:
    """The arccosine of x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`, in radians from 0 to pi.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint / sqrt(1 - x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def add(x: Any, y: Any) -> Any:
    """The sum x + y; integers wrap.

    Parameters:
        x, y: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        type-mismatch: an operand is a bool, or a scalar is combined with a vector or matrix.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint, for both.
    """

def asin(x: Any) -> Any:
    """The arcsine of x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`, in radians from -pi / 2 to pi / 2.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / sqrt(1 - x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def atan(x: Any) -> Any:
    """The arctangent of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`, in radians from -pi / 2 to pi / 2.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (1 + x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), from the positive x axis.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        y, x: float16, bfloat16, float32 or float64 scalars of one dtype, or tiles of such elements, which
            broadcast.
    Returns:
        a value of the type of the operands, in radians from -pi to pi.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * x / r**2 for `y`, -adjoint * y / r**2 for `x`, with r = hypot(x, y); 0 at the origin.
    Source:
        special cases: ISO C, annex F.10.1.4.
    """

def atomic_add(a: Any, *args: Any) -> Any:
    """Adds a value to the element at a[i, ...], atomically, once for each thread.

    The call is atomic_add(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of any dtype but bool.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        the gradient of the element, for the value; refused (no-gradient) for what is returned.
    Source:
        PTX ISA, atom.add.
    """

def atomic_and(a: Any, *args: Any) -> Any:
    """Stores the bitwise and of a value and the element at a[i, ...], atomically, once for each thread.

    The call is atomic_and(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of integers.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.and.
    """

def atomic_cas(a: Any, *args: Any) -> Any:
    """Compares an element of an array with a value and, where they are equal, stores another one, atomically:
    atomic_cas(a, i, ..., expected, value).

    Each thread does it once.

    Parameters:
        a: an array of scalars.
        *args: the index, an integer for each dimension, then the expected and the new value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of scalars, arguments are missing, an index is no integer, or a value has
            another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.cas.
    """

def atomic_exch(a: Any, *args: Any) -> Any:
    """Exchanges the element for a value at a[i, ...], atomically, once for each thread.

    The call is atomic_exch(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of any dtype.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.exch.
    """

def atomic_max(a: Any, *args: Any) -> Any:
    """Stores the larger of a value and the element at a[i, ...], atomically, once for each thread.

    The call is atomic_max(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of any dtype but bool.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.max.
    """

def atomic_min(a: Any, *args: Any) -> Any:
    """Stores the smaller of a value and the element at a[i, ...], atomically, once for each thread.

    The call is atomic_min(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of any dtype but bool.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.min.
    """

def atomic_or(a: Any, *args: Any) -> Any:
    """Stores the bitwise or of a value and the element at a[i, ...], atomically, once for each thread.

    The call is atomic_or(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of integers.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.or.
    """

def atomic_sub(a: Any, *args: Any) -> Any:
    """Subtracts a value from the element at a[i, ...], atomically, once for each thread.

    The call is atomic_sub(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of any dtype but bool.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        the gradient of the element, negated, for the value; refused (no-gradient) for what is returned.
    Source:
        PTX ISA, atom.add of the negative value.
    """

def atomic_xor(a: Any, *args: Any) -> Any:
    """Stores the bitwise exclusive or of a value and the element at a[i, ...], atomically, once for each thread.

    The call is atomic_xor(a, i, ..., value). In which order threads do it is open. Vectors and matrices are changed
    component by component.

    Parameters:
        a: an array of integers.
        *args: the index, an integer for each dimension, then the value, of the dtype of `a`.
    Returns:
        the element before, of the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array of such a dtype, arguments are missing, an index is no integer, or the value
            has another dtype.
        out-of-bounds: the index is outside of the array, in debug mode.
    Gradient:
        refused (no-gradient).
    Source:
        PTX ISA, atom.xor.
    """

def bit_and(x: Any, y: Any) -> Any:
    """The bitwise and x & y; logical for bools.

    Parameters:
        x, y: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or no scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def bit_count(x: Any) -> Any:
    """The number of bits of x that are set.

    Parameters:
        x: a scalar, vector, matrix or tile of integers.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        type-mismatch: `x` holds no integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

def bit_or(x: Any, y: Any) -> Any:
    """The bitwise or x | y; logical for bools.

    Parameters:
        x, y: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or no scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def bit_xor(x: Any, y: Any) -> Any:
    """The bitwise exclusive or x ^ y; logical for bools.

    Parameters:
        x, y: scalars, vectors or matrices of one type of integers or bool, or tiles of such elements, which
            broadcast; a literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is a float, or no scalar, vector, matrix or tile.
    Gradient:
        none: integers have no gradient.
    """

def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of x read as another scalar type of the same width.

    Parameters:
        x: a scalar, vector, matrix or tile.
        dtype: a scalar type of as many bits as the components of `x`.
    Returns:
        a value of the shape of `x` with components of `dtype`.
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
        none: it is a constant.
    Source:
        CUDA's blockDim; PTX ISA, %ntid.
    """

def brev(x: Any) -> Any:
    """The integer with the bits of x in the opposite order.

    Parameters:
        x: a scalar, vector, matrix or tile of integers.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        type-mismatch: `x` holds no integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

def cast(x: Any, dtype: Any) -> Any:
    """The value x converted to another scalar type, component by component.

    Floats are rounded to nearest, halves to even. Floats to integers truncate, saturate at the ends of the type
    and give 0 for NaN; integers to narrower integers wrap.

    Parameters:
        x: a scalar, vector, matrix, tile or literal.
        dtype: the scalar type; of a vector or matrix type, that of its components.
    Returns:
        a value of the shape of `x` with components of `dtype`.
    Raises:
        type-mismatch: `x` is no scalar, vector, matrix or tile; `dtype` is no element type.
        out-of-range: a literal does not fit an integer type.
    Gradient:
        the adjoint, converted; refused (no-gradient) where floats became integers on the way.
    """

def cbrt(x: Any) -> Any:
    """The cube root of x, of either sign.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
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
        a value of the type of `x`, exact; infinities and NaNs stay what they are.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
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
            literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is no scalar, vector, matrix or tile.
    Gradient:
        goes to `x` inside the range, to a limit outside; half to each of two equal operands.
    """

def clz(x: Any) -> Any:
    """The number of zero bits above the highest set bit of x; all bits where x is 0.

    Parameters:
        x: a scalar, vector, matrix or tile of integers.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        type-mismatch: `x` holds no integers.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: integers have no gradient.
    """

def copysign(x: Any, y: Any) -> Any:
    """The magnitude of x with the sign of y, also of a 0 or a NaN.

    Parameters:
        x, y: scalars, vectors or matrices of one type of floats, or tiles of such elements, which broadcast; a
            literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: the operands are no floats.
    Gradient:
        the adjoint for `x`, negated where the signs differ, 0 at 0; 0 for `y`.
    Source:
        IEEE 754-2008, copySign.
    """

def cos(x: Any) -> Any:
    """The cosine of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are the float32 ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint * sin(x).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def cosh(x: Any) -> Any:
    """The hyperbolic cosine of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * sinh(x).
    """

def cross(x: Any, y: Any) -> Any:
    """The cross product of two vectors of three components.

    Parameters:
        x, y: vectors (3,) of one type but bool.
    Returns:
        a vector (3,) of that type.
    Raises:
        type-mismatch: an operand has not three components, or is of bools; `x` or `y` is no vector.
        mixed-scalar-types: the dtypes differ.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        cross(y, adjoint) for `x`, cross(adjoint, x) for `y`.
    """

def cw_div(x: Any, y: Any) -> Any:
    """The component-wise quotient of two vectors or matrices.

    Parameters:
        x, y: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        type-mismatch: the operands are bools; vectors of different lengths are mixed-scalar-types.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint / y for `x`, -adjoint * x / y**2 for `y`.
    """

def cw_mul(x: Any, y: Any) -> Any:
    """The component-wise product of two vectors or matrices.

    Parameters:
        x, y: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        type-mismatch: the operands are bools; vectors of different lengths are mixed-scalar-types.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint times the other operand.
    """

def degrees(x: Any) -> Any:
    """An angle in degrees.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`, in degrees.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * 180 / pi.
    """

def div(x: Any, y: Any) -> Any:
    """The quotient of two numbers, x / y.

    Integers truncate towards 0; an integer divided by 0 gives 0. Floats follow IEEE 754.

    Parameters:
        x, y: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; a literal
            takes the dtype of the other operand.
    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: both operands are vectors or matrices, which have tg.cw_div, or an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint / y for `x`, -adjoint * x / y**2 for `y`; none through integers.
    """

def dot(x: Any, y: Any) -> Any:
    """The inner product of two vectors, summed from the first component on.

    Parameters:
        x, y: vectors (N,) of one type but bool.
    Returns:
        a scalar of their dtype.
    Raises:
        type-mismatch: the types differ, or are of bools; `x` or `y` is no vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint * y for `x`, adjoint * x for `y`.
    Source:
        BLAS dot.
    """

def erf(x: Any) -> Any:
    """The error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    The error is at most 1.5 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * 2 / sqrt(pi) * exp(-x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def erfc(x: Any) -> Any:
    """The complement of the error function, 1 - erf(x), accurate where that is small.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint * 2 / sqrt(pi) * exp(-x**2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def erfinv(x: Any) -> Any:
    """The inverse of the error function: the y with erf(y) = x; NaN outside -1 to 1.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * sqrt(pi) / 2 * exp(y**2), with y the result.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def exp(x: Any) -> Any:
    """The exponential function, e**x.

    Results beyond the range are inf or 0. The error is at most 1.5 units in the last place in float32, 1 in
    float64; 16-bit results are the float32 ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * exp(x).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def exp10(x: Any) -> Any:
    """The power 10**x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * exp10(x) * ln 10.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def exp2(x: Any) -> Any:
    """The power 2**x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * exp2(x) * ln 2.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def expm1(x: Any) -> Any:
    """The exponential function less 1, exp(x) - 1, accurate near 0.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * (expm1(x) + 1).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def fence_async() -> None:
    """Orders accesses of threads to shared tiles before copies and MMAs that start after it.

    Reads and writes of each thread of the role are ordered before the copies and MMAs of any thread that synchronises
    with it afterwards.

    Raises:
        role-placement: the call is outside of roles.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, fence.proxy.async.
    """

def floor(x: Any) -> Any:
    """The largest integral number not above x.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`, exact; infinities and NaNs stay what they are.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, roundToIntegralTowardNegative.
    """

def floordiv(x: Any, y: Any) -> Any:
    """The quotient x // y, rounded down.

    An integer divided by 0 gives 0.

    Parameters:
        x, y: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; a literal
            takes the dtype of the other operand.
    Returns:
        a value of the wider of the two types; of floats, the floor of the rounded quotient.
    Raises:
        type-mismatch: both operands are vectors or matrices, or an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    """

def fma(x: Any, y: Any, z: Any) -> Any:
    """The sum x * y + z, rounded once.

    Parameters:
        x, y, z: scalars, vectors or matrices of one type of floats, or tiles of such elements, which broadcast; a
            literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; float16 and bfloat16 are the float32 result, rounded once more.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: the operands are no floats.
    Gradient:
        adjoint * y for `x`, adjoint * x for `y`, the adjoint for `z`.
    Source:
        IEEE 754-2008, fusedMultiplyAdd.
    """

def group_lane() -> Any:
    """The number of this thread in its role, from 0; outside of roles in the block.

    Returns:
        an int32.
    Raises:
        nothing.
    Gradient:
        none: it is an integer.
    """

def group_present() -> Any:
    """The number of threads of the group that are there: those with a tg.group_lane() below it.

    It is tg.group_size(), except in the last block of a launch whose threads do not fill it.

    Returns:
        an int32, a constant where no block of the launch lacks threads.
    Raises:
        nothing.
    Gradient:
        none: it is an integer.
    """

def group_size() -> Any:
    """The number of threads of the role; outside of roles that of the block.

    Returns:
        an int, a constant when the kernel is compiled.
    Raises:
        nothing.
    Gradient:
        none: it is a constant.
    """

def hypot(x: Any, y: Any) -> Any:
    """The length of the hypotenuse, sqrt(x**2 + y**2), without overflow on the way; inf if either is infinite.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x, y: float16, bfloat16, float32 or float64 scalars of one dtype, or tiles of such elements, which
            broadcast.
    Returns:
        a value of the type of the operands.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * x / hypot(x, y) for `x`, the same with y for `y`; 0 at the origin.
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
        type-mismatch: `n` is below 1 or above 32, or `dtype` is no scalar type.
    Gradient:
        none: it is a constant.
    """

def isfinite(x: Any) -> Any:
    """Whether x is a number: neither an infinity nor a NaN.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a bool; a vector, matrix or tile of bools of one.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: bools have no gradient.
    Source:
        IEEE 754-2008, isFinite.
    """

def isinf(x: Any) -> Any:
    """Whether x is an infinity of either sign.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a bool; a vector, matrix or tile of bools of one.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: bools have no gradient.
    Source:
        IEEE 754-2008, isInfinite.
    """

def isnan(x: Any) -> Any:
    """Whether x is a NaN.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a bool; a vector, matrix or tile of bools of one.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        none: bools have no gradient.
    Source:
        IEEE 754-2008, isNaN.
    """

def lane_argmax(x: Any, width: Any = 32) -> Any:
    """The number in its segment of the first lane with the largest x, in all lanes of the segment.

    A NaN loses to any number, and -0.0 is below 0.0; of NaNs alone it is the first lane.

    Parameters:
        x: a scalar, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        an int32 from 0 to width - 1.
    Raises:
        type-mismatch: `x` is no scalar.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: it is an integer.
    """

def lane_argmin(x: Any, width: Any = 32) -> Any:
    """The number in its segment of the first lane with the smallest x, in all lanes of the segment.

    A NaN loses to any number, and -0.0 is below 0.0; of NaNs alone it is the first lane.

    Parameters:
        x: a scalar, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        an int32 from 0 to width - 1.
    Raises:
        type-mismatch: `x` is no scalar.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: it is an integer.
    """

def lane_ballot(flag: Any, width: Any = 32) -> Any:
    """The lanes of the segment of this thread whose flag is true, as bits: bit k is lane k.

    Parameters:
        flag: a bool or a number, true unless 0, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 32; 32 by default.
    Returns:
        a uint32; absent lanes have no bit.
    Raises:
        type-mismatch: `flag` is no scalar.
        not-constant: `width` is known at run time only.
        out-of-range: `width` is no power of 2 up to 32.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: it is an integer.
    Source:
        PTX ISA, vote.sync.ballot.
    """

def lane_collect(x: Any, target: Any, width: Any = 32) -> Any:
    """The sum of the x of those lanes of the segment whose target is this lane: the inverse of tg.lane_shuffle
    where each lane is the target of one.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. Absent lanes add nothing.

    Parameters:
        x: a scalar, vector or matrix of numbers, of each thread.
        target: the number of a lane in the segment, any integer, modulo the width.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`; 0 where no lane has this target. Lanes are added in their order.
    Raises:
        type-mismatch: `target` is no integer; `x` is a bool, or no scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the adjoint of the target.
    """

def lane_max(x: Any, width: Any = 32) -> Any:
    """The largest x of the segment of this thread, in all of its threads; of vectors each component by itself.

    A NaN loses to any number, and -0.0 is below 0.0. Absent lanes do not count.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is no scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the sum of the adjoints of the segment, in equal parts to the lanes that have the extreme.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """

def lane_min(x: Any, width: Any = 32) -> Any:
    """The smallest x of the segment of this thread, in all of its threads; of vectors each component by itself.

    A NaN loses to any number, and -0.0 is below 0.0. Absent lanes do not count.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is no scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the sum of the adjoints of the segment, in equal parts to the lanes that have the extreme.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """

def lane_shuffle(x: Any, source: Any, width: Any = 32) -> Any:
    """The x of another lane of the segment of this thread.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. The x of an absent lane is 0.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        source: the number of the lane in the segment, any integer, modulo the width.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `source` is no integer; `x` is no scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the adjoint, for the x of the source lane; the sum where several lanes read one.
    Source:
        PTX ISA, shfl.sync.idx.
    """

def lane_sum(x: Any, width: Any = 32) -> Any:
    """The sum of x over the segment of this thread, in all of its threads, with the same bits; of vectors
    component by component.

    Floats narrower than 32 bits are added in float32, and the sum is rounded once; integers wrap. Absent lanes
    add nothing.

    Parameters:
        x: a scalar, vector or matrix of numbers, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` is a bool, or no scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the sum of the adjoints of the segment.
    Source:
        PTX ISA, shfl.sync and redux.sync.
    """

def lane_xor(x: Any, mask: Any, width: Any = 32) -> Any:
    """The x of the lane whose number in the segment is that of this one with the bits of a mask flipped.

    Up to 32 lanes exchange in registers on GPUs, more through shared memory. The x of an absent lane is 0.

    Parameters:
        x: a scalar, vector or matrix, of each thread.
        mask: an integer, modulo the width, the same in all threads: that of thread 0 counts.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 1024; 32 by
            default.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `mask` is no integer; `x` is no scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes; `width` is no power of 2 up to 1024.
        not-constant: `width` is known at run time only.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        the adjoint of that lane.
    Source:
        PTX ISA, shfl.sync.bfly.
    """

def length(x: Any) -> Any:
    """The length of a vector of floats: sqrt(dot(x, x)).

    Squares of components may overflow or vanish; tg.hypot of two scalars does without.

    Parameters:
        x: a vector (N,) of floats, or a tile of such vectors.
    Returns:
        a scalar of the dtype of `x`; a tile of scalars of a tile.
    Raises:
        type-mismatch: `x` is no vector of floats, or tile of such vectors.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * x / length(x); 0 at length 0.
    """

def length_sq(x: Any) -> Any:
    """The squared length of a vector: dot(x, x).

    Parameters:
        x: a vector (N,) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: `x` is of bools; `x` is no vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        2 * adjoint * x.
    """

def log(x: Any) -> Any:
    """The natural logarithm of x; -inf at 0, NaN below.

    The error is at most 1.5 units in the last place in float32, 1 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / x.
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def log10(x: Any) -> Any:
    """The logarithm of x to base 10; -inf at 0, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (x * ln 10).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def log1p(x: Any) -> Any:
    """The logarithm log(1 + x), accurate near 0; -inf at -1, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (1 + x).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def log2(x: Any) -> Any:
    """The logarithm of x to base 2; -inf at 0, NaN below.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (x * ln 2).
    Source:
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def match_any(x: Any, width: Any = 32) -> Any:
    """The lanes of the segment of this thread that have the same x, as bits: bit k is lane k.

    Parameters:
        x: an integer or bool, of each thread.
        width: the number of lanes of a segment, next to each other, a constant power of 2 up to 32; 32 by default.
    Returns:
        a uint32; absent lanes match none.
    Raises:
        type-mismatch: `x` is no integer and no bool.
        not-constant: `width` is known at run time only.
        out-of-range: `width` is no power of 2 up to 32.
        divergent-cooperative-op: only some threads reach the call.
    Gradient:
        none: it is an integer.
    Source:
        PTX ISA, match.any.sync.
    """

def matrix(*args: Any, shape: Any = None, dtype: Any = ...) -> Any:
    """A matrix of given entries, of row vectors, of the elements of a tile, of one value, or of zeros.

    Parameters:
        *args: the entries, row by row; or the rows as vectors; or a tile (M, N), of which each thread reads all
            elements; or one scalar for all entries; none: zeros.
        shape: (rows, columns), constants; without it 4, 9 or 16 entries make a square matrix.
        dtype: the scalar type; float32 by default.
    Returns:
        a matrix (rows, columns) of at most 1024 entries.
    Raises:
        type-mismatch: the number of entries does not fit the shape, or an entry has another dtype.
        not-constant: `shape` is known at run time only.
        out-of-range: `shape` is no pair of positive numbers.
    Gradient:
        that of each entry is the adjoint's entry.
    """

def max(x: Any, y: Any) -> Any:
    """The larger of x and y, component by component.

    A NaN loses to any number, and -0.0 is below 0.0. In kernels, Python's `max` of two or more values is this
    function.

    Parameters:
        x, y: scalars, vectors or matrices of one type, or tiles of such elements, which broadcast; a literal takes
            the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is no scalar, vector, matrix or tile.
    Gradient:
        goes to the operand that is the result; half of it to each of two equal operands.
    Source:
        IEEE 754-2019, maximumNumber.
    """

def mbarrier(count: Any, stages: Any = 1) -> Any:
    """Memory barriers in shared memory, one for each stage, made before the roles.

    A phase ends, and the next one begins, after `count` arrivals, when all bytes that were announced in it have
    been copied.

    Parameters:
        count: the number of arrivals that end a phase, a constant from 1 to 2**20 - 1.
        stages: the number of barriers, a constant from 1 to 64; 1 by default.
    Returns:
        the barriers, each in phase 0.
    Raises:
        not-constant: a number is known at run time only.
        out-of-range: a number is not in its range.
        role-placement: they are made inside a role.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, mbarrier.init.
    """

def mbarrier_arrive(barrier: Any, stage: Any = 0) -> None:
    """Arrives at a memory barrier once for each warp of the role; in `if tg.elect():` once in all.

    Memory accesses of these threads before it are visible to threads that have waited for the end of the phase.

    Parameters:
        barrier: barriers of tg.mbarrier.
        stage: which of the barriers, an integer from 0; 0 by default.
    Raises:
        type-mismatch: `barrier` comes from no tg.mbarrier; `stage` is no integer.
        out-of-range: a constant `stage` is not one of the barriers.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, mbarrier.arrive (release, CTA).
    """

def mbarrier_expect_bytes(barrier: Any, stage: Any, bytes: Any) -> None:
    """Arrives at a memory barrier once, by one thread of the role, and announces bytes: the phase does not end before
    copies have transferred as many.

    Parameters:
        barrier: barriers of tg.mbarrier.
        stage: which of the barriers, an integer from 0.
        bytes: the number of bytes, a constant from 1 to 2**20 - 1.
    Raises:
        not-constant: `bytes` is known at run time only.
        out-of-range: `bytes` is not in its range; a constant `stage` is not one of the barriers.
        type-mismatch: `barrier` comes from no tg.mbarrier; `stage` is no integer.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, mbarrier.arrive.expect_tx.
    """

def mbarrier_wait(barrier: Any, stage: Any, phase: Any) -> None:
    """Waits until a phase of a memory barrier has ended; in `if tg.elect():` one warp waits.

    Parameters:
        barrier: barriers of tg.mbarrier.
        stage: which of the barriers, an integer from 0.
        phase: the number of the phase, an integer; only its lowest bit, the parity, is used. For a new barrier a
            phase of parity 1 has ended.
    Raises:
        deadlock: no role of a block can go on, on a CPU.
        type-mismatch: `barrier` comes from no tg.mbarrier; `stage` is no integer.
        out-of-range: a constant `stage` is not one of the barriers.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, mbarrier.try_wait.parity.
    """

def min(x: Any, y: Any) -> Any:
    """The smaller of x and y, component by component.

    A NaN loses to any number, and -0.0 is below 0.0. In kernels, Python's `min` of two or more values is this
    function.

    Parameters:
        x, y: scalars, vectors or matrices of one type, or tiles of such elements, which broadcast; a literal takes
            the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
        type-mismatch: an operand is no scalar, vector, matrix or tile.
    Gradient:
        goes to the operand that is the result; half of it to each of two equal operands.
    Source:
        IEEE 754-2019, minimumNumber.
    """

def mod(x: Any, y: Any) -> Any:
    """The remainder x % y, with the sign of x.

    The remainder of the truncated quotient: of floats exact, NaN where x is infinite or y is 0; of integers 0
    where y is 0.

    Parameters:
        x, y: scalars or tiles of scalars of one dtype but bool; or a vector or matrix of integers and a scalar.
    Returns:
        a value of the wider of the two types.
    Raises:
        type-mismatch: both operands are vectors or matrices, or an operand is a bool.
        division-by-zero: an integer is divided by 0, in debug mode.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint for `x`; that times minus the truncated quotient for `y`.
    Source:
        C's fmod; floats of the standard library.
    """

def mul(x: Any, y: Any) -> Any:
    """The product x * y: of numbers, of a scalar and a vector, matrix or tile, or of matrices.

    Integers wrap. A product that is added to something may be rounded once with the sum (docs/semantics.md).

    Parameters:
        x, y: scalars or tiles of scalars of one dtype but bool; or one scalar and a vector or matrix; or matrices
            (M, K) and (K, N), a vector standing for a column on the right and a row on the left.
    Returns:
        a value of the wider of the two types; a matrix (M, N) of matrices.
    Raises:
        type-mismatch: the operands are two vectors, or tiles of vectors, which have tg.cw_mul, or matrices whose
            shapes do not fit, or bools.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint times the other operand.
    """

def named_barrier(warps: Any) -> Any:
    """A barrier at which warps of several roles synchronise, made before the roles.

    Parameters:
        warps: the number of warps that arrive each time, a constant from 1 to 32.
    Returns:
        the barrier.
    Raises:
        not-constant: `warps` is known at run time only.
        out-of-range: `warps` is not from 1 to 32.
        role-placement: it is made inside a role.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, barrier.cta.
    """

def named_barrier_arrive(barrier: Any) -> None:
    """All warps of the role arrive at a named barrier without waiting.

    Parameters:
        barrier: a barrier of tg.named_barrier.
    Raises:
        type-mismatch: `barrier` comes from no tg.named_barrier.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, barrier.cta.arrive.
    """

def named_barrier_sync(barrier: Any) -> None:
    """All warps of the role arrive at a named barrier and wait until its number of warps have arrived.

    Parameters:
        barrier: a barrier of tg.named_barrier.
    Raises:
        deadlock: no role of a block can go on, on a CPU.
        type-mismatch: `barrier` comes from no tg.named_barrier.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
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
        type-mismatch: `x` is a bool, or no scalar, vector, matrix or tile.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the negative of the adjoint.
    """

def normalize(x: Any) -> Any:
    """The vector divided by its length; zeros for a vector of length 0.

    Parameters:
        x: a vector (N,) of floats.
    Returns:
        a vector of the type of `x`.
    Raises:
        type-mismatch: `x` holds no floats; `x` is no vector.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        (adjoint - y * dot(y, adjoint)) / length(x) with y the result; 0 at length 0.
    """

def outer(x: Any, y: Any) -> Any:
    """The outer product of two vectors: entry (i, j) is x[i] * y[j].

    Parameters:
        x, y: vectors (M,) and (N,) of one dtype but bool, M * N at most 1024.
    Returns:
        a matrix (M, N).
    Raises:
        type-mismatch: the matrix would have more than 1024 entries, or the operands are of bools; `x` or `y` is no
            vector.
        mixed-scalar-types: the dtypes differ.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint @ y for `x`, transpose(adjoint) @ x for `y`.
    Source:
        BLAS ger.
    """

def pow(x: Any, y: Any) -> Any:
    """The power x**y.

    `x ** y` in kernels is this function for floats; integers have the operator with a constant exponent only.
    The error is at most 1.5 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x, y: float16, bfloat16, float32 or float64 scalars of one dtype, or tiles of such elements, which
            broadcast.
    Returns:
        a value of the type of the operands.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * y * x**(y - 1) for `x`; adjoint * x**y * log(x) for `y`, 0 where x <= 0. x**0 is constant.
    Source:
        special cases: ISO C, annex F.10.4.4.
    """

def radians(x: Any) -> Any:
    """An angle in radians.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in degrees.
    Returns:
        a value of the type of `x`, in radians.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * pi / 180.
    """

def rint(x: Any) -> Any:
    """The integral number nearest to x, halves to even.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`, exact; infinities and NaNs stay what they are.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, roundToIntegralTiesToEven.
    """

def round(x: Any) -> Any:
    """The nearest integral number, halves away from 0; tg.rint takes halves to even.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`, exact.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        0 everywhere.
    """

def rsqrt(x: Any) -> Any:
    """The reciprocal of the square root, 1 / sqrt(x); inf at 0, NaN below.

    Two roundings: of the root and of the quotient. The error is at most 2 units in the last place in float32, 2
    in float64; 16-bit results are the float32 ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        -adjoint / 2 * x**-1.5.
    """

def select(condition: Any, value_if_false: Any, value_if_true: Any) -> Any:
    """The value of value_if_true where a condition holds, else that of value_if_false: tg.where in another
    order.

    Parameters:
        condition: a bool or an integer, true unless 0: a scalar for whole values, a tile for each element.
        value_if_false, value_if_true: values of one type: scalars, vectors, matrices, tiles that broadcast, or
            literals.
    Returns:
        a value of that type; a tile of the broadcast shape where one operand is a tile.
    Raises:
        type-mismatch: the condition is a float, or no scalar or tile; the values to choose from differ in type.
        mixed-scalar-types: a literal is of another kind than the other value.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        goes to the operand that was chosen.
    """

def sign(x: Any) -> Any:
    """The sign of x: -1 below 0, else 1, also for both zeros; NaN for NaN.

    Parameters:
        x: a float16, bfloat16, float32, float64, int8, int16, int32 or int64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes unsigned integers, bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        0 everywhere.
    """

def sin(x: Any) -> Any:
    """The sine of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are the float32 ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * cos(x).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def sinh(x: Any) -> Any:
    """The hyperbolic sine of x.

    The error is at most 2 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * cosh(x).
    """

def softsign(x: Any) -> Any:
    """x / (1 + |x|), which goes from -1 to 1.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`.
    Raises:
        mixed-scalar-types: `x` holds integers.
        type-mismatch: `x` is no scalar, vector, matrix or tile.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / (1 + |x|)**2.
    """

def sqrt(x: Any) -> Any:
    """The square root of x, correctly rounded; NaN for negative numbers.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        adjoint / (2 * sqrt(x)); infinite at 0, where an adjoint of 0 stays 0.
    Source:
        IEEE 754-2008, squareRoot.
    """

def store_commit() -> None:
    """Closes a group of the copies to arrays that this role has started since it closed the last group.

    Raises:
        role-placement: the call is outside of roles.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, cp.async.bulk.commit_group.
    """

def store_wait(pending: Any = 0, read: Any = False) -> None:
    """Waits until at most `pending` of the groups of copies that this role has closed are incomplete.

    Parameters:
        pending: the number of groups, a constant from 0; 0 by default.
        read: True waits only until the groups have read their tiles, which may then change; False by default.
    Raises:
        not-constant: `pending` is known at run time only.
        out-of-range: `pending` is below 0.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, cp.async.bulk.wait_group.
    """

def sub(x: Any, y: Any) -> Any:
    """The difference x - y; integers wrap.

    Parameters:
        x, y: scalars, vectors or matrices of one type but bool, or tiles of such elements, which broadcast; a
            literal takes the dtype of the other operand.
    Returns:
        a value of the type of the operands; a tile of the broadcast shape where one of them is a tile.
    Raises:
        type-mismatch: an operand is a bool, or a scalar is combined with a vector or matrix.
        mixed-scalar-types: the operands differ in type; nothing is converted.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint for `x`, its negative for `y`.
    """

def table(data: Any, dtype: Any = None) -> Any:
    """Constants that are read at indices known at run time only: read-only data of the kernel.

    `table[i]`, or `table[i, j]`, is an element; with fewer indices it is a vector or matrix of the rest. A negative
    index counts from the end, one outside gives the last element of its dimension.

    Parameters:
        data: a NumPy array of any shape, captured by the kernel, of 1 to 65,536 elements.
        dtype: the scalar type of the elements; by default that of the array.
    Returns:
        the table: NumPy's array, each element rounded once.
    Raises:
        type-mismatch: `data` is no NumPy array, or `dtype` no scalar type.
        out-of-range: an element does not fit `dtype`.
    Gradient:
        none: it is a constant.
    """

def tan(x: Any) -> Any:
    """The tangent of an angle; NaN for infinite x.

    Arguments of any size are as accurate as small ones. The error is at most 1.5 units in the last place in
    float32, 1 in float64; 16-bit results are the float32 ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements, in radians.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint * (1 + tan(x)**2).
    Source:
        remainder by pi / 2: Payne and Hanek, Radian Reduction for Trigonometric Functions, SIGNUM 18 (1983);
        polynomials by the Remez algorithm (tools/minimax.py).
    """

def tanh(x: Any) -> Any:
    """The hyperbolic tangent of x.

    The error is at most 1.5 units in the last place in float32, 2 in float64; 16-bit results are the float32
    ones, rounded once more.

    Parameters:
        x: a float16, bfloat16, float32 or float64 scalar, or a tile of such elements.
    Returns:
        a value of the type of `x`.
    Raises:
        wrong-arguments: no overload takes integers (nor their literals), bools, float8, vectors or matrices.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        adjoint / cosh(x)**2, accurate where tanh is near 1 too.
    """

def tile_arange(*args: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile of evenly spaced numbers: start, start + step, and so on below stop.

    Floats are start + step * i in float64, rounded once.

    Parameters:
        *args: (stop), (start, stop) or (start, stop, step), constants; `start` is 0 and `step` 1 by default.
        dtype: a numeric scalar type; float32 by default, for integers too.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
    Returns:
        a tile (N,), with N = ceil((stop - start) / step).
    Raises:
        type-mismatch: there are no numbers or more than 3, `dtype` is bool, or integers are counted from or by a
            fraction.
        not-constant: a number is known at run time only.
        out-of-range: the range is empty or endless, the step is 0, or a number does not fit `dtype`; `storage` is
            another word.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        none: it is a constant.
    """

def tile_argmax(a: Any) -> Any:
    """The row-major index of the largest element of a tile; the lowest of equal ones.

    As in tg.max, a NaN loses to any number, and -0.0 is below 0.0; of NaNs alone the index is 0. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of scalars of any dtype, of any shape.
    Returns:
        a tile (1,) of int32.
    Raises:
        type-mismatch: `a` is no tile of scalars.
    Gradient:
        refused (no-gradient), of floats: an index has none.
    """

def tile_argmin(a: Any) -> Any:
    """The row-major index of the smallest element of a tile; the lowest of equal ones.

    As in tg.min, a NaN loses to any number, and -0.0 is below 0.0; of NaNs alone the index is 0. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of scalars of any dtype, of any shape.
    Returns:
        a tile (1,) of int32.
    Raises:
        type-mismatch: `a` is no tile of scalars.
    Gradient:
        refused (no-gradient), of floats: an index has none.
    """

def tile_assign(dst: Any, src: Any, offset: Any = None) -> None:
    """Copies a tile into another one, correctly also if the two overlap.

    Parameters:
        dst: a tile bound to a name, or a view of one.
        src: a tile that is not longer than `dst` in any dimension; elements are converted to the dtype of `dst`.
        offset: the index in `dst` of the first element, integers, in elements; 0 by default.
    Raises:
        type-mismatch: `dst` is no tile bound to a name, `src` is no tile, or an offset is no integer.
        out-of-range: `src` leaves `dst`.
        popped-tile-changed: `dst` was popped from a pipe.
        out-of-bounds: an offset leaves `dst`, in debug mode.
    Gradient:
        that of the part of `dst` that was written, which is 0 for what was there before.
    """

def tile_astype(t: Any, dtype: Any) -> Any:
    """A tile converted to another scalar type.

    Numbers are converted as tg.cast does.

    Parameters:
        t: a tile.
        dtype: the scalar type; of a vector or matrix type, that of its components.
    Returns:
        a new tile of the shape of `t`.
    Raises:
        type-mismatch: `t` is no tile; `dtype` is no element type.
    Gradient:
        the adjoint, converted; refused (no-gradient) where floats became integers on the way.
    """

def tile_atomic_add(a: Any, t: Any, offset: Any = None, bounds_check: Any = True) -> Any:
    """Stores the sums of elements of an array and those of a tile, each atomically, once for the block.

    Elements outside of the array, and those of absent threads, are dropped.

    Parameters:
        a: an array of as many dimensions as `t`, of any dtype but bool.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. That of thread 0 counts.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
    Returns:
        a tile of the elements before; zeros for those that were dropped.
    Raises:
        type-mismatch: `a` is no array, `t` is no tile, or the dtypes or the numbers of dimensions differ; an offset
            is no integer.
        out-of-range: a literal is no offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode.
    Gradient:
        the gradient of these elements, for `t`; refused (no-gradient) for what is returned.
    """

def tile_atomic_max(a: Any, t: Any, offset: Any = None, bounds_check: Any = True) -> Any:
    """Stores the larger ones of elements of an array and those of a tile, each atomically, once for the block.

    Elements outside of the array, and those of absent threads, are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. That of thread 0 counts.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
    Returns:
        a tile of the elements before; zeros for those that were dropped.
    Raises:
        type-mismatch: `a` is no array, `t` is no tile, or the dtypes or the numbers of dimensions differ; an offset
            is no integer.
        out-of-range: a literal is no offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode.
    Gradient:
        refused (no-gradient).
    """

def tile_atomic_min(a: Any, t: Any, offset: Any = None, bounds_check: Any = True) -> Any:
    """Stores the smaller ones of elements of an array and those of a tile, each atomically, once for the block.

    Elements outside of the array, and those of absent threads, are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. That of thread 0 counts.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
    Returns:
        a tile of the elements before; zeros for those that were dropped.
    Raises:
        type-mismatch: `a` is no array, `t` is no tile, or the dtypes or the numbers of dimensions differ; an offset
            is no integer.
        out-of-range: a literal is no offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode.
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
        type-mismatch: `dest` is no tile bound to a name.
        popped-tile-changed: `dest` was popped from a pipe.
    Gradient:
        the sum of adjoint * src for `alpha`, alpha * adjoint for `src`, the adjoint for what `dest` was.
    Source:
        BLAS axpy.
    """

def tile_broadcast(a: Any, shape: Any) -> Any:
    """A tile repeated to a larger shape, by the rules of NumPy.

    Parameters:
        a: a tile.
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
    Returns:
        a tile of `shape`, read-only: tg.copy makes one that can be changed.
    Raises:
        shape-mismatch: `a` does not broadcast to `shape`.
        type-mismatch: `a` is no tile.
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        the sum of the adjoint over the repeated dimensions.
    """

def tile_cholesky(a: Any, fill_mode: str = 'lower') -> Any:
    """The Cholesky factor of symmetric matrices: L with L @ L.T = a, or U with U.T @ U = a.

    Parameters:
        a: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read; float16 and
            bfloat16 are computed in float32.
        fill_mode: "lower" or "upper", a constant.
    Returns:
        a tile of the shape and dtype of `a`, 0 in the other triangle. A pivot that is not positive is NaN, and so
        is what depends on it.
    Raises:
        type-mismatch: `a` is no tile of square matrices of floats, or there is no such fill_mode.
        not-constant: `fill_mode` is known at run time only.
    Gradient:
        with L the result, G the adjoint and P the lower triangle of L.T @ G with half of its diagonal: the lower
        triangle of inv(L).T @ (P + P.T) @ inv(L) with half of its diagonal, 0 in the triangle that is not read;
        transposed for "upper".
    Source:
        right-looking factorisation; the adjoint of Murray, "Differentiation of the Cholesky decomposition" (2016).
    """

def tile_cholesky_inplace(a: Any, fill_mode: str = 'lower') -> None:
    """The function tg.tile_cholesky, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read; float16 and
            bfloat16 are computed in float32.
        fill_mode: "lower" or "upper", a constant.
    Raises:
        type-mismatch: `a` is no tile of square matrices of floats, or there is no such fill_mode; `a` is no tile
            bound to a name, or read-only.
        popped-tile-changed: `a` was popped from a pipe.
        not-constant: `fill_mode` is known at run time only.
    Gradient:
        with L the result, G the adjoint and P the lower triangle of L.T @ G with half of its diagonal: the lower
        triangle of inv(L).T @ (P + P.T) @ inv(L) with half of its diagonal, 0 in the triangle that is not read;
        transposed for "upper".
    Source:
        right-looking factorisation; the adjoint of Murray, "Differentiation of the Cholesky decomposition" (2016).
    """

def tile_cholesky_solve(l: Any, y: Any, fill_mode: str = 'lower') -> Any:
    """x with l @ l.T @ x = y, or l.T @ l @ x = y for fill_mode="upper", where l is what `tile_cholesky` gives.

    Parameters:
        l: a tile (..., N, N) of floats, of which only the triangle that fill_mode names is read.
        y: vectors (..., N), or the columns of (..., N, R), of the dtype and the batch of l.
        fill_mode: "lower" or "upper", a constant.
    Returns:
        a tile of the shape and dtype of `y`.
    Raises:
        shape-mismatch: the extents of `l` and `y`, or their batches, differ.
        type-mismatch: `l` is no tile of square matrices, the dtypes differ or are no floats, or there is no such
            fill_mode.
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
        type-mismatch: `l` is no tile of square matrices, the dtypes differ or are no floats, or there is no such
            fill_mode; `y` is no tile bound to a name, or read-only.
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
        type-mismatch: `tiles` is no tuple of tiles, or the dtypes differ.
        shape-mismatch: the shapes differ in another dimension.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        the part of the adjoint that each tile has become.
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

def tile_dot(a: Any, c: Any) -> Any:
    """The sum of the products of the elements of two tiles.

    Floats narrower than 32 bits are multiplied in their type, summed in float32 and rounded once.

    Parameters:
        a, c: tiles of one dtype but bool, which broadcast; of vectors their inner products are summed.
    Returns:
        a tile (1,) of scalars.
    Raises:
        mixed-scalar-types: the dtypes differ.
        shape-mismatch: the shapes do not broadcast.
        type-mismatch: there is no tile, or one of bools or matrices.
        out-of-range: a literal does not fit the dtype of the tile.
    Gradient:
        adjoint * c for `a`, adjoint * a for `c`.
    Source:
        BLAS dot.
    """

def tile_empty(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    """A tile with unspecified elements.

    Made before the roles with `storage="shared"`, it is a tile that roles share; its first dimension may run
    over stages (docs/roles.md).

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
    Returns:
        a tile of `shape` and `dtype`.
    Raises:
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another word.
        tile-too-large: the tile has more than 2**26 elements.
        type-mismatch: `dtype` is no element type.
    Gradient:
        none: nothing is computed.
    """

def tile_extract(a: Any, *index: Any) -> Any:
    """The element of a tile at an index, like a[index]; threads may give different indices.

    Outside of the tile the element is undefined without debug mode.

    Parameters:
        a: a tile.
        *index: an integer for each dimension, and for each of vectors and matrices to get a component; negative
            ones count from the end. Fewer give a view.
    Returns:
        a scalar, vector or matrix; a view where indices are missing.
    Raises:
        type-mismatch: an index is no integer; `a` is no tile.
        out-of-range: a constant index leaves the tile.
        out-of-bounds: an index leaves the tile, in debug mode.
    Gradient:
        adds to the adjoint of that element.
    """

def tile_from_local(x: Any, grid: Any, shape: Any, storage: Any = 'register') -> Any:
    """The tile whose elements are distributed over a constant grid of threads: the inverse of `tile_local`.

    Parameters:
        x: a vector or matrix, as `tile_local` gives it for this grid and shape; absent threads have 0.
        grid: the number of threads along each dimension of the tile, constants; in all as many threads as the
            block, or inside a role the role, has. The last dimension is the fastest. In all dimensions but the last
            two the grid is as long as the tile.
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
    Returns:
        a tile of `shape`.
    Raises:
        type-mismatch: `x` is no vector or matrix of as many elements as the grid gives a thread of the shape;
            `grid` has another rank or number of threads.
        not-constant: a number of `grid` is known at run time only, or below 1; a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another word.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        that of each element.
    """

def tile_from_thread(shape: Any, value: Any, thread_idx: Any, storage: Any = 'register') -> Any:
    """A tile filled with the value of one thread of the block, or inside a role of the role.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        value: a scalar, vector or matrix, of each thread.
        thread_idx: the number of the thread, an integer from 0; that of thread 0 counts.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
    Returns:
        a tile of `shape` and the type of `value`; zeros where the thread is absent or outside of the block.
    Raises:
        out-of-range: a constant `thread_idx` is outside of the block; a length is below 1, or there are more than
            4; a literal does not fit the dtype that it takes; `storage` is another word.
        type-mismatch: `thread_idx` is no integer; `value` is no scalar, vector or matrix.
        not-constant: a length is known at run time only.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        the sum of the adjoint over all elements, for the value of that thread.
    """

def tile_full(shape: Any, value: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    """A tile with one value in every element.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        value: a scalar, vector, matrix or literal, the same in all threads of the block: that of thread 0 counts.
        dtype: the element type; by default the type of `value`. A number fills all components of a vector or
            matrix.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
    Returns:
        a tile of `shape`.
    Raises:
        type-mismatch: `value` has another type than `dtype`.
        out-of-range: a literal does not fit `dtype`, a length is below 1, there are more than 4, or `storage` is
            another word; a length is below 1, or there are more than 4.
        not-constant: a length is known at run time only.
        tile-too-large: the tile has more than 2**26 elements.
    Gradient:
        the sum of the adjoint over all elements.
    """

def tile_histogram(t: Any, bins: int) -> Any:
    """How often each of the integers from 0 to bins - 1 occurs in a tile.

    Parameters:
        t: a tile of integers of any shape; those below 0 and from `bins` on are left out.
        bins: a positive constant.
    Returns:
        a tile of int32 of shape (bins,).
    Raises:
        type-mismatch: `t` is no tile of integers, or `bins` is no integer.
        out-of-range: `bins` is below 1.
        tile-too-large: `bins` is above 2**26.
        not-constant: `bins` is known at run time only.
    Gradient:
        none: counts are integers.
    """

def tile_load(a: Any, shape: Any, offset: Any = None, storage: Any = 'register', bounds_check: Any = True, aligned: Any = False, fill: Any = 0) -> Any:
    """A tile copied from an array; elements outside of the array are `fill`.

    Parameters:
        a: an array of as many dimensions as `shape` has lengths, of any dtype.
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. That of thread 0 counts.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        aligned: True promises a packed array, a tile inside of it, and a first element at a multiple of 16 bytes;
            False by default.
        fill: the value of elements outside of the array, of the dtype of `a`; 0 by default.
    Returns:
        a tile of `shape` and the dtype of `a`.
    Raises:
        type-mismatch: `a` is no array, the numbers of dimensions differ, or `fill` has another type; an offset is
            no integer.
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; a literal is no offset that an array can have;
            `storage` is another word.
        tile-too-large: the tile has more than 2**26 elements.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode; the
            tile leaves the array though `aligned=True` promised otherwise, in debug mode.
        broken-promise: `aligned=True`, and the first element is not aligned; in debug mode also: the array is not
            packed.
    Gradient:
        adds to the gradient of the array, inside of it; refused (no-gradient) for `fill`.
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
            elements; 0 by default. That of thread 0 counts.
        barrier: barriers of tg.mbarrier; they count the bytes of the whole tile, which must be announced in the
            phase.
        stage: which of the barriers, an integer from 0; 0 by default.
    Raises:
        type-mismatch: `array` is no array, the dtypes or dimensions differ, or `barrier` is missing; `tile` is no
            shared tile bound to a name; an offset is no integer; `stage` is no integer.
        out-of-range: a literal is no offset that an array can have; a constant `stage` is not one of the barriers.
        bulk-access: the launch is for a GPU below compute capability 9.0, or of an array that no tensor map
            describes.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, cp.async.bulk.tensor (global to shared).
    """

def tile_local(a: Any, grid: Any) -> Any:
    """The elements of a tile that belong to a thread of a constant grid of threads: a[i::grid[0], j::grid[1], ..] for
    thread (i, j, ..).

    Parameters:
        a: a tile (N,), (M, N) or (.., M, N).
        grid: the number of threads along each dimension of the tile, constants; in all as many threads as the
            block, or inside a role the role, has. The last dimension is the fastest. In all dimensions but the last
            two the grid is as long as the tile.
    Returns:
        a vector for a tile of one dimension, else a matrix, of ceil(extent / grid) elements in each dimension;
        elements beyond the tile are 0.
    Raises:
        type-mismatch: `a` is no tile; `grid` has another rank or number of threads.
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
        type-mismatch: `l` is no tile of square matrices, or the dtypes differ or are no floats.
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
        type-mismatch: `l` is no tile of square matrices, or the dtypes differ or are no floats; `y` is no tile
            bound to a name, or read-only.
        popped-tile-changed: `y` was popped from a pipe.
    Gradient:
        with z the result and b = inv(l).T @ the adjoint: b for `y`, the lower triangle of -b @ z.T for `l`.
    Source:
        BLAS trsm.
    """

def tile_map(op: Any, *args: Any) -> Any:
    """A function applied to every element of tiles.

    Parameters:
        op: a @tg.func or a function of the language, of as many parameters as there are operands, that gives one
            scalar, vector or matrix and uses no tiles.
        *args: 1 to 8 operands: tiles, which broadcast, or values that are the same for all elements; at least one
            tile.
    Returns:
        a tile of the broadcast shape, of what `op` gives.
    Raises:
        type-mismatch: `op` is no function, there is no tile, or `op` uses tiles or gives no element.
        shape-mismatch: the shapes of tiles do not broadcast.
        wrong-arguments: `op` has another number of parameters.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        that of `op`, element by element.
    """

def tile_matmul(a: Any, c: Any, out: Any = None, alpha: Any = 1.0, beta: Any = 1.0, precision: Any = 'default', wait: Any = True) -> Any:
    """The matmul of two tiles, added to a tile in place or as a new tile.

    With `out`, out = alpha * a @ c + beta * out; without, the result is alpha * a @ c. Products are summed in
    the dtype of the result, float32 if that is narrower, in an open order, and rounded once. What a factor of 0
    scales leaves no trace, not even a NaN, and is not read if the 0 is a constant.

    Parameters:
        a, c: tiles (M, K) and (K, N) of scalars, both of floats or both of integers; the dtypes may differ.
        out: a tile (M, N) bound to a name, of floats or integers as `a` is; a new one by default.
        alpha, beta: factors of the dtype of the result; 1 by default. Without `out`, beta does not count.
        precision: "default", or "tf32": GPUs round float32 operands to 10 bits of fraction, which tensor cores
            multiply. CPUs do not.
        wait: False leaves the matmul in flight: until tg.tile_matmul_wait only further matmuls may add to `out`,
            and `a` and `c` must not change. True by default.
    Returns:
        nothing with `out`; else a tile (M, N) of the dtype of `a`.
    Raises:
        shape-mismatch: the columns of `a` are not the rows of `c`, or `out` is not (M, N).
        type-mismatch: an operand is no tile of 2 dimensions, `out` has no name, floats are combined with integers,
            a factor has another dtype, or a matmul in flight has no `out` or a factor.
        out-of-range: `precision` is another word.
        matmul-in-flight: a tile is used or changed while a matmul in flight works on it.
        popped-tile-changed: `out` was popped from a pipe.
    Gradient:
        alpha * adjoint @ c^T for `a`, alpha * a^T @ adjoint for `c`, beta * adjoint for what `out` was; the sum of
        adjoint * (a @ c) for `alpha`, of adjoint * out for `beta`.
    Source:
        BLAS gemm; on GPUs PTX ISA, mma and wgmma.mma_async.
    """

def tile_matmul_wait(pending: Any = 0) -> None:
    """Waits until all matmuls in flight (`tg.tile_matmul(wait=False)`) but the last `pending` are complete.

    Parameters:
        pending: the number of matmuls that may go on, a constant from 0 to 7; 0 by default.
    Raises:
        not-constant: `pending` is known at run time only.
        out-of-range: `pending` is not from 0 to 7.
    Gradient:
        hands on the adjoints of the sums.
    Source:
        PTX ISA, wgmma.wait_group.
    """

def tile_max(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The largest element of a tile.

    A NaN loses to any number, and -0.0 is below 0.0. Elements of absent threads are skipped.

    Parameters:
        a: a tile; of vectors and matrices each component by itself.
        axis: the dimension to go along, a constant from -rank to rank - 1; all elements by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is no tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        equal parts of the adjoint to all elements that are the extreme.
    """

def tile_median(t: Any) -> Any:
    """The median along the last dimension: the middle element, or the mean of the two in the middle.

    Parameters:
        t: a tile (..., N) of floats; float16 and bfloat16 are computed in float32.
    Returns:
        a tile (..., 1) of the same dtype; NaN where an element is.
    Raises:
        type-mismatch: `t` is no tile of floats.
    Gradient:
        the adjoint for the element in the middle, or half of it for each of two.
    """

def tile_min(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The smallest element of a tile.

    A NaN loses to any number, and -0.0 is below 0.0. Elements of absent threads are skipped.

    Parameters:
        a: a tile; of vectors and matrices each component by itself.
        axis: the dimension to go along, a constant from -rank to rank - 1; all elements by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is no tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        equal parts of the adjoint to all elements that are the extreme.
    """

def tile_ones(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    """A tile of ones; matrices have ones everywhere.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
    Returns:
        a tile of `shape` and `dtype`.
    Raises:
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another word.
        tile-too-large: the tile has more than 2**26 elements.
        type-mismatch: `dtype` is no element type.
    Gradient:
        none: it is a constant.
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
        type-mismatch: there are not as many pairs as dimensions, or `value` has another type; `t` is no tile.
        not-constant: a width is known at run time only.
        out-of-range: a width is below 0, or an entry is no pair.
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
        type-mismatch: `a` is no tile.
        out-of-range: `axes` does not name each dimension once.
    Gradient:
        the adjoint, permuted back.
    """

def tile_pipe(shape: Any, dtype: Any = ..., stages: Any = 2) -> Any:
    """A pipe: a ring of tiles in shared memory, which one role fills and others empty. Made before the roles.

    One role fills it, always by tg.tile_pipe_load or always by tg.tile_pipe_push; every role that pops it gets
    every tile.

    Parameters:
        shape: 1 to 4 lengths of each tile, constants.
        dtype: the scalar type of the elements; float32 by default.
        stages: the number of tiles, a constant from 1 to 64; 2 by default.
    Returns:
        a pipe, empty at first.
    Raises:
        not-constant: a length or `stages` is known at run time only.
        out-of-range: `stages` is not from 1 to 64, or a length is below 1.
        type-mismatch: `dtype` is no scalar type.
        role-placement: it is made inside a role.
        shared-memory-exceeded: the stages do not fit the memory of a block.
    Gradient:
        of the kernel as it is without roles: see docs/gradients.md.
    """

def tile_pipe_load(pipe: Any, array: Any, offset: Any = None, bounds_check: Any = True, aligned: Any = False) -> None:
    """Waits for a free stage of a pipe and starts to copy a tile of an array to it; elements outside of the
    array are 0.

    The copy goes on while the role does; the array may be read before what another role wrote to it is seen.

    Parameters:
        pipe: a pipe with tiles of as many dimensions as `array`.
        array: an array of the dtype of `pipe`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. That of thread 0 counts.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        aligned: True promises a packed array, a tile inside of it, and a first element at a multiple of 16 bytes;
            False by default.
    Raises:
        type-mismatch: `pipe` is no pipe, `array` is no array, or their dtypes or dimensions differ; an offset is no
            integer.
        out-of-range: a literal is no offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode; the
            tile leaves the array though `aligned=True` promised otherwise, in debug mode.
        broken-promise: `aligned=True`, and the first element is not aligned; in debug mode also: the array is not
            packed.
        pipe-ends: two roles fill the pipe, it is filled in two ways, or never filled or popped.
        deadlock: no role of a block can go on, on a CPU.
    Gradient:
        of the kernel as it is without roles: see docs/gradients.md.
    Source:
        on GPUs of compute capability 9.0 PTX ISA, cp.async.bulk.tensor.
    """

def tile_pipe_pop(pipe: Any) -> Any:
    """Waits until the next stage of a pipe is full and gives its tile; the stage is free after the last use of
    the tile.

    Parameters:
        pipe: a pipe of tg.tile_pipe.
    Returns:
        a tile of the shape and dtype of `pipe`, read-only: tg.copy makes one that can be changed.
    Raises:
        pipe-balance: the role may hold more tiles than there are stages, or pops on one of two paths only.
        popped-tile-changed: the tile is changed.
        type-mismatch: `pipe` is no pipe.
        pipe-ends: two roles fill the pipe, it is filled in two ways, or never filled or popped.
        deadlock: no role of a block can go on, on a CPU.
    Gradient:
        of the kernel as it is without roles: see docs/gradients.md.
    """

def tile_pipe_push(pipe: Any, tile: Any) -> None:
    """Waits for a free stage of a pipe and writes a tile to it.

    Parameters:
        pipe: a pipe of tg.tile_pipe.
        tile: a tile of the shape and dtype of `pipe`.
    Raises:
        type-mismatch: `pipe` is no pipe, or `tile` has another shape or dtype.
        pipe-ends: two roles fill the pipe, it is filled in two ways, or never filled or popped.
        deadlock: no role of a block can go on, on a CPU.
    Gradient:
        of the kernel as it is without roles: see docs/gradients.md.
    """

def tile_pipe_release(pipe: Any) -> None:
    """Frees the stage of the oldest tile that this role has popped and still holds, earlier than its last use.

    Parameters:
        pipe: a pipe of tg.tile_pipe.
    Raises:
        pipe-balance: no tile is held, or one is used after its release.
        type-mismatch: `pipe` is no pipe.
    Gradient:
        of the kernel as it is without roles: see docs/gradients.md.
    """

def tile_reduce(op: Any, t: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The elements of a tile combined by a function, in an order that is open.

    Elements of absent threads are skipped.

    Parameters:
        op: a function (x, y) of two elements that gives one of the same type, associative and commutative:
            `tg.add`, `tg.max`, a @tg.func.
        t: a tile.
        axis: the dimension to go along, a constant from -rank to rank - 1; all elements by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `op` is no function, `t` is no tile, or `op` gives another type.
        wrong-arguments: `op` does not take two arguments.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        of +, min and max as that of tg.tile_sum, tg.tile_min and tg.tile_max; others are refused (no-gradient).
    """

def tile_reshape(t: Any, shape: Any) -> Any:
    """The elements of a tile, in row-major order, under another shape.

    Parameters:
        t: a tile of up to 4 dimensions.
        shape: 1 to 4 lengths, constants, with as many elements in all; one may be -1 and follows.
    Returns:
        a view, or a read-only copy of a strided view for which no view has this shape.
    Raises:
        type-mismatch: `t` is no tile.
        not-constant: a length is known at run time only.
        out-of-range: the number of elements would change.
        shape-mismatch: the same, of a value that has no name.
        tile-too-large: `shape` has more than 2**26 elements.
    Gradient:
        the adjoint under the shape of `t`.
    """

def tile_scan_exclusive(a: Any) -> Any:
    """The sums of the elements in front of each one, 0 for the first, in row-major order.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        the sum of the adjoint over the elements after this one.
    """

def tile_scan_exclusive_inplace(a: Any) -> None:
    """The function tg.tile_scan_exclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Raises:
        type-mismatch: `a` is no tile of such a dtype; `a` is no tile bound to a name, or read-only.
        popped-tile-changed: `a` was popped from a pipe.
    Gradient:
        the sum of the adjoint over the elements after this one.
    """

def tile_scan_inclusive(a: Any) -> Any:
    """The sums of the elements up to each one, that one included, in row-major order.

    Floats narrower than 32 bits are summed in float32, and each sum is rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        the sum of the adjoint over this element and those after it.
    """

def tile_scan_inclusive_inplace(a: Any) -> None:
    """The function tg.tile_scan_inclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Raises:
        type-mismatch: `a` is no tile of such a dtype; `a` is no tile bound to a name, or read-only.
        popped-tile-changed: `a` was popped from a pipe.
    Gradient:
        the sum of the adjoint over this element and those after it.
    """

def tile_scan_max_inclusive(a: Any) -> Any:
    """The largest of the elements up to each one, that one included, in row-major order.

    A NaN loses to any number: results are NaN until the first number. -0.0 is below 0.0. Elements of absent threads
    are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        goes to the element that set the extreme.
    """

def tile_scan_max_inclusive_inplace(a: Any) -> None:
    """The function tg.tile_scan_max_inclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Raises:
        type-mismatch: `a` is no tile of such a dtype; `a` is no tile bound to a name, or read-only.
        popped-tile-changed: `a` was popped from a pipe.
    Gradient:
        goes to the element that set the extreme.
    """

def tile_scan_min_inclusive(a: Any) -> Any:
    """The smallest of the elements up to each one, that one included, in row-major order.

    A NaN loses to any number: results are NaN until the first number. -0.0 is below 0.0. Elements of absent threads
    are skipped.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Returns:
        a tile of the shape and dtype of `a`.
    Raises:
        type-mismatch: `a` is no tile of such a dtype.
    Gradient:
        goes to the element that set the extreme.
    """

def tile_scan_min_inclusive_inplace(a: Any) -> None:
    """The function tg.tile_scan_min_inclusive, whose result overwrites `a`: nothing is returned.

    Parameters:
        a: a tile of any dtype but bool; of vectors each component by itself.
    Raises:
        type-mismatch: `a` is no tile of such a dtype; `a` is no tile bound to a name, or read-only.
        popped-tile-changed: `a` was popped from a pipe.
    Gradient:
        goes to the element that set the extreme.
    """

def tile_scatter_add(a: Any, *args: Any, atomic: Any = True) -> None:
    """Adds the values of threads to elements of a tile: tile_scatter_add(a, i, ..., value, has_value).

    Parameters:
        a: a tile bound to a name, of any dtype but bool.
        *args: the indices of the element, one for each dimension and negative ones from the end, then the value, of
            the dtype of `a`, then whether this thread has one, a bool or an integer.
        atomic: True or False: additions to one element all count in any case.
    Raises:
        type-mismatch: `a` is no tile bound to a name, arguments are missing, an index is no integer, or the value
            has another type.
        out-of-range: a constant index leaves the tile.
        popped-tile-changed: `a` was popped from a pipe.
        out-of-bounds: an index leaves the tile, in debug mode.
    Gradient:
        that of the element, for the value of each thread that has one.
    """

def tile_scatter_masked(a: Any, *args: Any) -> None:
    """Writes the values of threads to elements of a tile: tile_scatter_masked(a, i, ..., value, has_value).

    Of several writes to one element any may last.

    Parameters:
        a: a tile bound to a name.
        *args: the indices of the element, one for each dimension and negative ones from the end, then the value, of
            the dtype of `a`, then whether this thread has one, a bool or an integer.
    Raises:
        type-mismatch: `a` is no tile bound to a name, arguments are missing, an index is no integer, or the value
            has another type.
        out-of-range: a constant index leaves the tile.
        popped-tile-changed: `a` was popped from a pipe.
        out-of-bounds: an index leaves the tile, in debug mode.
        unordered-access: no place that all threads reach can put the writes in order with others.
    Gradient:
        that of the element, for the value of the thread that wrote it; refused (no-gradient) where threads may
        write different values to one.
    """

def tile_slice_indexed(t: Any, indices: Any, axis: Any = 0) -> Any:
    """The parts of a tile at given indices along a dimension, like t[indices].

    Parameters:
        t: a tile.
        indices: a tile (K,) of integers; negative ones count from the end, those outside give 0.
        axis: the dimension, a constant from -rank to rank - 1; 0 by default.
    Returns:
        a new tile of the shape of `t` with K in the place of that length.
    Raises:
        type-mismatch: `indices` is no tile (K,) of integers; `t` is no tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        adds to the adjoint of each part that was taken; none for `indices`.
    """

def tile_sort(keys: Any, values: Any) -> None:
    """Sorts keys in ascending order, in place and in row-major order of their elements, and values along with them.

    Equal keys stay in order; -0.0 comes before 0.0, and NaN after all numbers.

    Parameters:
        keys: a tile of float32, float64, int32, int64, uint32 or uint64.
        values: a tile of the same shape and any dtype; it may be the same tile.
    Raises:
        shape-mismatch: `keys` and `values` have different shapes.
        type-mismatch: `keys` has another dtype, or an operand is no tile bound to a name.
        popped-tile-changed: `keys` or `values` was popped from a pipe.
    Gradient:
        the adjoint of each element, for the element where it came from.
    Source:
        Batcher, "Sorting networks and their applications" (1968): the bitonic network.
    """

def tile_squeeze(t: Any, axis: Any = None) -> Any:
    """A view of a tile without dimensions of length 1.

    Parameters:
        t: a tile of up to 4 dimensions.
        axis: the dimensions to leave out, an int or a tuple of constants, negative ones from the end; all of length
            1 by default.
    Returns:
        a view with the other dimensions; (1,) where none is left.
    Raises:
        type-mismatch: `t` is no tile.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension, or its length is not 1.
    Gradient:
        the adjoint under the shape of `t`.
    """

def tile_stack(capacity: Any, dtype: Any) -> Any:
    """An empty stack, which all threads of the block push to and pop from.

    Parameters:
        capacity: the most elements that it can hold, 1 to 2**26, a constant.
        dtype: the element type, a scalar, vector or matrix type.
    Returns:
        a stack, empty at each call.
    Raises:
        not-constant: `capacity` is known at run time only.
        out-of-range: `capacity` is below 1.
        tile-too-large: `capacity` is above 2**26.
        type-mismatch: `dtype` is no element type.
    Gradient:
        none: tg.tile_stack_push and tg.tile_stack_pop refuse one.
    """

def tile_stack_clear(s: Any) -> None:
    """Empties a stack.

    Parameters:
        s: a stack of tg.tile_stack.
    Raises:
        type-mismatch: `s` is no stack.
    Gradient:
        none: it has no result.
    """

def tile_stack_count(s: Any) -> Any:
    """The number of elements on a stack; may be called by some threads only.

    Parameters:
        s: a stack of tg.tile_stack.
    Returns:
        an int32.
    Raises:
        type-mismatch: `s` is no stack.
    Gradient:
        none: it is an integer.
    """

def tile_stack_pop(s: Any) -> Any:
    """Takes one element for each thread, in the order of the threads from the top.

    Parameters:
        s: a stack of tg.tile_stack.
    Returns:
        (value, slot): the element and its slot, an int32; zeros and -1 for threads that found the stack empty.
    Raises:
        type-mismatch: `s` is no stack.
    Gradient:
        refused (no-gradient).
    """

def tile_stack_push(s: Any, value: Any, has_value: Any = True) -> Any:
    """Pushes the values of those threads that have one, in the order of the threads.

    Parameters:
        s: a stack of tg.tile_stack.
        value: a scalar, vector or matrix of the dtype of `s`.
        has_value: whether this thread pushes, a bool or an integer; True by default.
    Returns:
        the slot that the value went to, an int32; -1 for a thread that did not push or found the stack full.
    Raises:
        type-mismatch: `s` is no stack, or `value` has another type.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        refused (no-gradient).
    """

def tile_store(a: Any, t: Any, offset: Any = None, bounds_check: Any = True, aligned: Any = False) -> None:
    """Writes a tile to an array; elements outside of the array, and those of absent threads, are dropped.

    Parameters:
        a: an array of as many dimensions as `t`.
        t: a tile of the dtype of `a`.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. That of thread 0 counts.
        bounds_check: False promises that the tile is inside of the array; debug mode checks that. True by default.
        aligned: True promises a packed array, a tile inside of it, and a first element at a multiple of 16 bytes;
            False by default.
    Raises:
        type-mismatch: `a` is no array, `t` is no tile, the dtypes or the numbers of dimensions differ, or an offset
            is no integer.
        out-of-range: a literal is no offset that an array can have.
        out-of-bounds: the tile leaves the array though `bounds_check=False` promised otherwise, in debug mode; the
            tile leaves the array though `aligned=True` promised otherwise, in debug mode.
        broken-promise: `aligned=True`, and the first element is not aligned; in debug mode also: the array is not
            packed.
    Gradient:
        the gradient of the part of the array that was written, which is 0 afterwards.
    """

def tile_store_async(array: Any, tile: Any, offset: Any = None) -> None:
    """Starts to copy a shared tile to an array, by one thread of the role; elements outside of the array are
    dropped.

    Writes of threads to `tile` need tg.fence_async before it; tg.store_commit closes a group of such copies.

    Parameters:
        array: an array of the dtype and the number of dimensions of `tile`, packed, aligned to 16 bytes and only
            written by the kernel.
        tile: a tile with `storage="shared"`, or a part of one, of at most 256 in each length and rows of a multiple
            of 16 bytes.
        offset: the index of the first element of the tile in the array, an int or one for each dimension, in
            elements; 0 by default. That of thread 0 counts.
    Raises:
        type-mismatch: `array` is no array, or the dtypes or dimensions differ; `tile` is no shared tile bound to a
            name; an offset is no integer.
        out-of-range: a literal is no offset that an array can have.
        bulk-access: the launch is for a GPU below compute capability 9.0, or of an array that no tensor map
            describes.
        schedule-refuted: roles hang or race, as the checker shows before the kernel is compiled for a GPU.
    Gradient:
        refused (no-gradient): kernels with schedules written by hand have none.
    Source:
        PTX ISA, cp.async.bulk.tensor (shared to global).
    """

def tile_sum(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """The sum of the elements of a tile, in an order that is open but fixed for a compiled kernel.

    Floats narrower than 32 bits are summed in float32 and rounded once; integers wrap. Elements of absent
    threads are skipped.

    Parameters:
        a: a tile of any dtype but bool.
        axis: the dimension to go along, a constant from -rank to rank - 1; all elements by default.
        keepdims: whether the result keeps a dimension of length 1; False by default.
    Returns:
        a tile without `axis`; (1,) of all elements, or of a tile of one dimension.
    Raises:
        type-mismatch: `a` is no tile, or of bools.
        not-constant: `axis` is known at run time only.
        out-of-range: there is no such dimension.
    Gradient:
        the adjoint, for every element.
    """

def tile_transpose(a: Any) -> Any:
    """A view of the transpose of a 2-D tile, like t.T.

    Parameters:
        a: a tile (M, N).
    Returns:
        a view (N, M).
    Raises:
        type-mismatch: `a` is no tile of 2 dimensions.
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
        type-mismatch: `u` is no tile of square matrices, or the dtypes differ or are no floats.
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
        type-mismatch: `u` is no tile of square matrices, or the dtypes differ or are no floats; `z` is no tile
            bound to a name, or read-only.
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
        shape: the lengths of the view, constants, of the last dimensions of `t`; by default what the indices and
            slices leave.
    Returns:
        a view: changes of it change `t`, where `t` is bound to a name.
    Raises:
        type-mismatch: `t` is no tile, an offset is no integer, or `shape` is given with a slice.
        not-constant: `shape` or a bound of a slice is known at run time only.
        out-of-range: a constant offset or the shape leaves the tile, or a length is below 1.
        tile-too-large: `shape` has more than 2**26 elements.
        out-of-bounds: an offset leaves the tile, in debug mode.
    Gradient:
        the adjoint at the place of the view, 0 elsewhere.
    """

def tile_zeros(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    """A tile of zeros.

    Parameters:
        shape: 1 to 4 lengths, constants, as an int or a tuple; at most 2**26 elements in all.
        dtype: the element type, a scalar, vector or matrix type; float32 by default.
        storage: "register", a value, the default, or "shared", an object that several names may stand for.
    Returns:
        a tile of `shape` and `dtype`.
    Raises:
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1, or there are more than 4; `storage` is another word.
        tile-too-large: the tile has more than 2**26 elements.
        type-mismatch: `dtype` is no element type.
    Gradient:
        none: it is a constant.
    """

def trace(m: Any) -> Any:
    """The sum of the diagonal of a matrix.

    Parameters:
        m: a square matrix (N, N) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: `m` is not square, or of bools; `m` is no matrix.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the adjoint on the diagonal, 0 elsewhere.
    """

def transpose(m: Any) -> Any:
    """The transpose of a matrix.

    Parameters:
        m: a matrix (M, N); tiles have tg.tile_transpose.
    Returns:
        a matrix (N, M).
    Raises:
        type-mismatch: `m` is no matrix.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the transpose of the adjoint.
    """

def trunc(x: Any) -> Any:
    """The number x without its fraction.

    Parameters:
        x: a scalar, vector, matrix or tile of floats.
    Returns:
        a value of the type of `x`, exact; infinities and NaNs stay what they are.
    Raises:
        type-mismatch: `x` holds no floats; a literal such as 4 is an integer.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        0 everywhere.
    Source:
        IEEE 754-2008, roundToIntegralTowardZero.
    """

def uniform(x: Any) -> Any:
    """The value of thread 0, the same in every thread of the block, or inside a role of the role.

    Parameters:
        x: a scalar, vector or matrix, which should be equal in all threads.
    Returns:
        a value of the type of `x`.
    Raises:
        divergent-cooperative-op: only some threads reach the call.
        broken-promise: a thread has another value, in debug mode.
        type-mismatch: `x` is no scalar, vector or matrix.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        the sum of the adjoints of all threads.
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
    """A vector of given components, of the elements of a tile, or of zeros.

    Parameters:
        *args: the components, scalars of one dtype; one scalar fills all of `length`; a tile (N,), of which each
            thread reads all elements, or all elements of the thread's own view; none: zeros.
        length: the number of components, 1 to 1024, a constant; by default that of the components given.
        dtype: the scalar type; by default that of the first component, float32 for zeros.
    Returns:
        a vector (length,).
    Raises:
        type-mismatch: a component has another dtype, their number is not `length`, or there are more than 1024; a
            tile has another rank, or elements that are no scalars.
        not-constant: `length` is known at run time only.
        out-of-range: `length` is below 1.
    Gradient:
        that of each component is the adjoint's component.
    """

def where(condition: Any, x: Any, y: Any) -> Any:
    """The value of x where a condition holds, else that of y; both are computed.

    Parameters:
        condition: a bool or an integer, true unless 0: a scalar for whole values, a tile for each element.
        x, y: values of one type: scalars, vectors, matrices, tiles that broadcast, or literals.
    Returns:
        a value of that type; a tile of the broadcast shape where one operand is a tile. With a constant condition
        `x` or `y` itself.
    Raises:
        type-mismatch: the condition is a float, or no scalar or tile; the values to choose from differ in type.
        mixed-scalar-types: a literal is of another kind than the other value.
        shape-mismatch: the shapes of tiles do not broadcast.
        out-of-range: a literal does not fit the dtype that it takes.
    Gradient:
        goes to the operand that was chosen, where the other one gets 0, a NaN there included.
    """

class fast:
    @staticmethod
    def exp2(x: Any) -> Any:
        """The power 2**x, with a relative error of at most 2**-20; results below the smallest normal number may be 0.

        GPUs use the approximation of the hardware, so results differ between devices; tg.exp2 has the same everywhere.

        Parameters:
            x: a scalar, vector, matrix or tile of float32 or narrower floats.
        Returns:
            a value of the type of `x`.
        Raises:
            type-mismatch: `x` is a float64; `x` holds no floats; a literal such as 4 is an integer.
            out-of-range: a literal does not fit the dtype that it takes.
        Gradient:
            adjoint * result * ln 2.
        Source:
            PTX ISA, ex2.approx.
        """
