"""Tegula: a tile language embedded in Python, and its compiler. `import tegula as tg`."""

# Written by tools/stubs.py.

from typing import Any
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
from tegula.runtime.tape import Tape as Tape
from tegula.signature import Dtypes as Dtypes
from tegula.signature import Extent as Extent
from tegula.signature import Extents as Extents
from tegula.signature import InOut as InOut
from tegula.signature import constexpr as constexpr
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

def __getattr__(name: str) -> Any: ...

def elect() -> Any:
    "In a role, the condition that one of its threads is: `if tg.elect():`."

def persistent_tiles(grid: Any, raster: Any = 8) -> Any:
    "In a kernel, a loop over the part of a grid of output tiles that this block works on: `for i, j in tg.persistent_tiles((rows, columns))`."

def role(name: Any, warps: Any = 0, warp_groups: Any = 0, registers: Any = 0) -> Any:
    "In a kernel, a role of so many warps, placed by the compiler: `with tg.role(\"load\", warps=1):`."

def tid() -> Any:
    "In a kernel, the index of this thread in the launch: `i = tg.tid()`, or `i, j = tg.tid()` for a launch of two dimensions."

def ws(*groups: Any, registers: Any = 0) -> Any:
    "In a kernel, a role of whole warp groups of 128 threads: `with tg.ws(1, 2):`."

def abs(x: Any) -> Any:
    "The magnitude of a number x."

def acos(x: Any) -> Any:
    "The arccosine of x; NaN outside -1 to 1."

def add(x: Any, y: Any) -> Any:
    "The sum x + y; integers wrap."

def asin(x: Any) -> Any:
    "The arcsine of x; NaN outside -1 to 1."

def atan(x: Any) -> Any:
    "The arctangent of x."

def atan2(y: Any, x: Any) -> Any:
    "The angle of the point (x, y), from the positive x axis."

def atomic_add(a: Any, *args: Any) -> Any:
    "Adds a value to the element at a[i, ...], atomically, once for each thread."

def atomic_and(a: Any, *args: Any) -> Any:
    "Stores the bitwise and of a value and the element at a[i, ...], atomically, once for each thread."

def atomic_cas(a: Any, *args: Any) -> Any:
    "Compares an element of an array with a value and, where they are equal, stores another one, atomically: atomic_cas(a, i, ..., expected, value)."

def atomic_exch(a: Any, *args: Any) -> Any:
    "Exchanges the element for a value at a[i, ...], atomically, once for each thread."

def atomic_max(a: Any, *args: Any) -> Any:
    "Stores the larger of a value and the element at a[i, ...], atomically, once for each thread."

def atomic_min(a: Any, *args: Any) -> Any:
    "Stores the smaller of a value and the element at a[i, ...], atomically, once for each thread."

def atomic_or(a: Any, *args: Any) -> Any:
    "Stores the bitwise or of a value and the element at a[i, ...], atomically, once for each thread."

def atomic_sub(a: Any, *args: Any) -> Any:
    "Subtracts a value from the element at a[i, ...], atomically, once for each thread."

def atomic_xor(a: Any, *args: Any) -> Any:
    "Stores the bitwise exclusive or of a value and the element at a[i, ...], atomically, once for each thread."

def bit_and(x: Any, y: Any) -> Any:
    "The bitwise and x & y; logical for bools."

def bit_count(x: Any) -> Any:
    "The number of bits of x that are set."

def bit_or(x: Any, y: Any) -> Any:
    "The bitwise or x | y; logical for bools."

def bit_xor(x: Any, y: Any) -> Any:
    "The bitwise exclusive or x ^ y; logical for bools."

def bitcast(x: Any, dtype: Any) -> Any:
    "The bits of x read as another scalar type of the same width."

def block_dim() -> Any:
    "The number of threads in a block, roles included."

def brev(x: Any) -> Any:
    "The integer with the bits of x in the opposite order."

def cast(x: Any, dtype: Any) -> Any:
    "The value x converted to another scalar type, component by component."

def cbrt(x: Any) -> Any:
    "The cube root of x, of either sign."

def ceil(x: Any) -> Any:
    "The smallest integral number not below x."

def clamp(x: Any, low: Any, high: Any) -> Any:
    "The value x limited to the range from low to high: min(max(x, low), high)."

def clz(x: Any) -> Any:
    "The number of zero bits above the highest set bit of x; all bits where x is 0."

def copysign(x: Any, y: Any) -> Any:
    "The magnitude of x with the sign of y, also of a 0 or a NaN."

def cos(x: Any) -> Any:
    "The cosine of an angle; NaN for infinite x."

def cosh(x: Any) -> Any:
    "The hyperbolic cosine of x."

def cross(x: Any, y: Any) -> Any:
    "The cross product of two vectors of three components."

def cw_div(x: Any, y: Any) -> Any:
    "The component-wise quotient of two vectors or matrices."

def cw_mul(x: Any, y: Any) -> Any:
    "The component-wise product of two vectors or matrices."

def degrees(x: Any) -> Any:
    "An angle in degrees."

def div(x: Any, y: Any) -> Any:
    "The quotient of two numbers, x / y."

def dot(x: Any, y: Any) -> Any:
    "The inner product of two vectors, summed from the first component on."

def erf(x: Any) -> Any:
    "The error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x."

def erfc(x: Any) -> Any:
    "The complement of the error function, 1 - erf(x), accurate where that is small."

def erfinv(x: Any) -> Any:
    "The inverse of the error function: the y with erf(y) = x; NaN outside -1 to 1."

def exp(x: Any) -> Any:
    "The exponential function, e**x."

def exp10(x: Any) -> Any:
    "The power 10**x."

def exp2(x: Any) -> Any:
    "The power 2**x."

def expm1(x: Any) -> Any:
    "The exponential function less 1, exp(x) - 1, accurate near 0."

def fence_async() -> None:
    "Orders accesses of threads to shared tiles before copies and tensor core products that start after it."

def floor(x: Any) -> Any:
    "The largest integral number not above x."

def floordiv(x: Any, y: Any) -> Any:
    "The quotient x // y, rounded down."

def fma(x: Any, y: Any, z: Any) -> Any:
    "The sum x * y + z, rounded once."

def group_lane() -> Any:
    "The number of this thread in its role, from 0; outside of roles in the block."

def group_present() -> Any:
    "The number of threads of the group that are there: those with a tg.group_lane() below it."

def group_size() -> Any:
    "The number of threads of the role; outside of roles that of the block."

def hypot(x: Any, y: Any) -> Any:
    "The length of the hypotenuse, sqrt(x**2 + y**2), without overflow on the way; inf if either is infinite."

def identity(n: Any, dtype: Any = ...) -> Any:
    "The identity matrix of n rows."

def isfinite(x: Any) -> Any:
    "Whether x is a number: neither an infinity nor a NaN."

def isinf(x: Any) -> Any:
    "Whether x is an infinity of either sign."

def isnan(x: Any) -> Any:
    "Whether x is a NaN."

def lane_argmax(x: Any, width: Any = 32) -> Any:
    "The number in its segment of the first lane with the largest x, in all lanes of the segment."

def lane_argmin(x: Any, width: Any = 32) -> Any:
    "The number in its segment of the first lane with the smallest x, in all lanes of the segment."

def lane_ballot(flag: Any, width: Any = 32) -> Any:
    "The lanes of the segment of this thread whose flag is true, as bits: bit k is lane k."

def lane_collect(x: Any, target: Any, width: Any = 32) -> Any:
    "The sum of the x of those lanes of the segment whose target is this lane: the inverse of tg.lane_shuffle where each lane is the target of one."

def lane_max(x: Any, width: Any = 32) -> Any:
    "The largest x of the segment of this thread, in all of its threads; of vectors each component by itself."

def lane_min(x: Any, width: Any = 32) -> Any:
    "The smallest x of the segment of this thread, in all of its threads; of vectors each component by itself."

def lane_shuffle(x: Any, source: Any, width: Any = 32) -> Any:
    "The x of another lane of the segment of this thread."

def lane_sum(x: Any, width: Any = 32) -> Any:
    "The sum of x over the segment of this thread, in all of its threads, with the same bits; of vectors component by component."

def lane_xor(x: Any, mask: Any, width: Any = 32) -> Any:
    "The x of the lane whose number in the segment is that of this one with the bits of a mask flipped."

def length(x: Any) -> Any:
    "The length of a vector of floats: sqrt(dot(x, x))."

def length_sq(x: Any) -> Any:
    "The squared length of a vector: dot(x, x)."

def log(x: Any) -> Any:
    "The natural logarithm of x; -inf at 0, NaN below."

def log10(x: Any) -> Any:
    "The logarithm of x to base 10; -inf at 0, NaN below."

def log1p(x: Any) -> Any:
    "The logarithm log(1 + x), accurate near 0; -inf at -1, NaN below."

def log2(x: Any) -> Any:
    "The logarithm of x to base 2; -inf at 0, NaN below."

def match_any(x: Any, width: Any = 32) -> Any:
    "The lanes of the segment of this thread that have the same x, as bits: bit k is lane k."

def matrix(*args: Any, shape: Any = None, dtype: Any = ...) -> Any:
    "A matrix of given entries, of row vectors, of the elements of a tile, of one value, or of zeros."

def max(x: Any, y: Any) -> Any:
    "The larger of x and y, component by component."

def mbarrier(count: Any, stages: Any = 1) -> Any:
    "Memory barriers in shared memory, one for each stage, made before the roles."

def mbarrier_arrive(barrier: Any, stage: Any = 0) -> None:
    "One arrival of each warp of the role at a memory barrier; in `if tg.elect():` one in all."

def mbarrier_expect_bytes(barrier: Any, stage: Any, bytes: Any) -> None:
    "One arrival, by one thread of the role, which announces bytes: the phase does not end before copies have brought as many."

def mbarrier_wait(barrier: Any, stage: Any, phase: Any) -> None:
    "Waits until a phase of a memory barrier has ended; in `if tg.elect():` one warp waits."

def min(x: Any, y: Any) -> Any:
    "The smaller of x and y, component by component."

def mod(x: Any, y: Any) -> Any:
    "The remainder x % y, with the sign of x."

def mul(x: Any, y: Any) -> Any:
    "The product x * y: of numbers, of a scalar and a vector, matrix or tile, or of matrices."

def named_barrier(warps: Any) -> Any:
    "A barrier at which warps of several roles synchronise, made before the roles."

def named_barrier_arrive(barrier: Any) -> None:
    "All warps of the role arrive at a named barrier and go on at once."

def named_barrier_sync(barrier: Any) -> None:
    "All warps of the role arrive at a named barrier and wait for the others that it counts."

def neg(x: Any) -> Any:
    "The negative -x; integers wrap."

def normalize(x: Any) -> Any:
    "The vector divided by its length; zeros for a vector of length 0."

def outer(x: Any, y: Any) -> Any:
    "The outer product of two vectors: entry (i, j) is x[i] * y[j]."

def pow(x: Any, y: Any) -> Any:
    "The power x**y."

def radians(x: Any) -> Any:
    "An angle in radians."

def rint(x: Any) -> Any:
    "The integral number nearest to x, halves to even."

def round(x: Any) -> Any:
    "The nearest integral number, halves away from 0; tg.rint takes halves to even."

def rsqrt(x: Any) -> Any:
    "The reciprocal of the square root, 1 / sqrt(x); inf at 0, NaN below."

def select(condition: Any, value_if_false: Any, value_if_true: Any) -> Any:
    "The value of value_if_true where a condition holds, else that of value_if_false: tg.where in another order."

def sign(x: Any) -> Any:
    "The sign of x: -1 below 0, else 1, also for both zeros; NaN for NaN."

def sin(x: Any) -> Any:
    "The sine of an angle; NaN for infinite x."

def sinh(x: Any) -> Any:
    "The hyperbolic sine of x."

def softsign(x: Any) -> Any:
    "x / (1 + |x|), which goes from -1 to 1."

def sqrt(x: Any) -> Any:
    "The square root of x, correctly rounded; NaN for negative numbers."

def store_commit() -> None:
    "Closes a group of copies: those to arrays that this role has started since the last group."

def store_wait(pending: Any = 0, read: Any = False) -> None:
    "Waits until at most `pending` groups of copies to arrays, closed by this role, are not done."

def sub(x: Any, y: Any) -> Any:
    "The difference x - y; integers wrap."

def table(data: Any, dtype: Any = None) -> Any:
    "Constants that are read at indices known at run time only: read-only data of the kernel."

def tan(x: Any) -> Any:
    "The tangent of an angle; NaN for infinite x."

def tanh(x: Any) -> Any:
    "The hyperbolic tangent of x."

def tile_arange(*args: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    "A tile of evenly spaced numbers: start, start + step, and so on below stop."

def tile_argmax(a: Any) -> Any:
    "The row-major index of the largest element of a tile; the lowest of equal ones."

def tile_argmin(a: Any) -> Any:
    "The row-major index of the smallest element of a tile; the lowest of equal ones."

def tile_assign(dst: Any, src: Any, offset: Any = None) -> None:
    "Copies a tile into another one, right also where the two overlap."

def tile_astype(t: Any, dtype: Any) -> Any:
    "A tile converted to another scalar type."

def tile_atomic_add(a: Any, t: Any, offset: Any = None, bounds_check: Any = True) -> Any:
    "Stores the sums of elements of an array and those of a tile, each atomically, once for the block."

def tile_atomic_max(a: Any, t: Any, offset: Any = None, bounds_check: Any = True) -> Any:
    "Stores the larger ones of elements of an array and those of a tile, each atomically, once for the block."

def tile_atomic_min(a: Any, t: Any, offset: Any = None, bounds_check: Any = True) -> Any:
    "Stores the smaller ones of elements of an array and those of a tile, each atomically, once for the block."

def tile_axpy(alpha: Any, src: Any, dest: Any) -> None:
    "Adds a multiple of a tile to another one in place: dest += alpha * src."

def tile_broadcast(a: Any, shape: Any) -> Any:
    "A tile repeated to a larger shape, by the rules of NumPy."

def tile_cholesky(a: Any, fill_mode: str = 'lower') -> Any:
    "The Cholesky factor of symmetric matrices: L with L @ L.T = a, or U with U.T @ U = a."

def tile_cholesky_inplace(a: Any, fill_mode: str = 'lower') -> None:
    "The function tg.tile_cholesky, whose result overwrites `a`: nothing is returned."

def tile_cholesky_solve(l: Any, y: Any, fill_mode: str = 'lower') -> Any:
    "x with l @ l.T @ x = y, or l.T @ l @ x = y for fill_mode=\"upper\", where l is what `tile_cholesky` gives."

def tile_cholesky_solve_inplace(l: Any, y: Any, fill_mode: str = 'lower') -> None:
    "The function tg.tile_cholesky_solve, whose result overwrites `y`: nothing is returned."

def tile_concat(tiles: Any, axis: Any = 0) -> Any:
    "Tiles joined along a dimension."

def tile_diag_add(a: Any, d: Any) -> Any:
    "A square tile with a vector added to its diagonal."

def tile_dot(a: Any, c: Any) -> Any:
    "The sum of the products of the elements of two tiles."

def tile_empty(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    "A tile with unspecified elements."

def tile_extract(a: Any, *index: Any) -> Any:
    "The element of a tile at an index, like a[index]; threads may give different indices."

def tile_from_local(x: Any, grid: Any, shape: Any, storage: Any = 'register') -> Any:
    "The tile of which each thread of a constant grid has some elements: the inverse of `tile_local`."

def tile_from_thread(shape: Any, value: Any, thread_idx: Any, storage: Any = 'register') -> Any:
    "A tile filled with the value of one thread of the block, or inside a role of the role."

def tile_full(shape: Any, value: Any, dtype: Any = None, storage: Any = 'register') -> Any:
    "A tile with one value in every element."

def tile_histogram(t: Any, bins: int) -> Any:
    "How often each of the integers from 0 to bins - 1 occurs in a tile."

def tile_load(a: Any, shape: Any, offset: Any = None, storage: Any = 'register', bounds_check: Any = True, aligned: Any = False, fill: Any = 0) -> Any:
    "A tile copied from an array; elements outside of the array are `fill`."

def tile_load_async(array: Any, tile: Any, offset: Any = None, barrier: Any = None, stage: Any = 0) -> None:
    "Starts to copy a tile of an array to a shared tile, by one thread of the role; elements outside of the array become 0."

def tile_local(a: Any, grid: Any) -> Any:
    "The elements of a tile that each thread of a constant grid of threads has: of thread (i, j, ..) those are a[i::grid[0], j::grid[1], ..]."

def tile_lower_solve(l: Any, y: Any) -> Any:
    "z with l @ z = y, for lower triangular matrices: forward substitution."

def tile_lower_solve_inplace(l: Any, y: Any) -> None:
    "The function tg.tile_lower_solve, whose result overwrites `y`: nothing is returned."

def tile_map(op: Any, *args: Any) -> Any:
    "A function applied to every element of tiles."

def tile_matmul(a: Any, c: Any, out: Any = None, alpha: Any = 1.0, beta: Any = 1.0, precision: Any = 'default', wait: Any = True) -> Any:
    "The matrix product of two tiles, added to a tile in place or as a new tile."

def tile_matmul_wait(pending: Any = 0) -> None:
    "Waits until all products in flight (`tg.tile_matmul(wait=False)`) but the last `pending` are complete."

def tile_max(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    "The largest element of a tile."

def tile_median(t: Any) -> Any:
    "The median along the last dimension: the middle element, or the mean of the two in the middle."

def tile_min(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    "The smallest element of a tile."

def tile_ones(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    "A tile of ones; matrices have ones everywhere."

def tile_pad(t: Any, pad_width: Any, value: Any = 0) -> Any:
    "A tile with a border of one value."

def tile_permute(a: Any, axes: Any) -> Any:
    "A view of a tile with its dimensions in another order: dimension k of the view is dimension axes[k]."

def tile_pipe(shape: Any, dtype: Any = ..., stages: Any = 2) -> Any:
    "A pipe: a ring of tiles in shared memory, which one role fills and others empty. Made before the roles."

def tile_pipe_load(pipe: Any, array: Any, offset: Any = None, bounds_check: Any = True, aligned: Any = False) -> None:
    "Waits for a free stage of a pipe and starts to copy a tile of an array to it; elements outside of the array are 0."

def tile_pipe_pop(pipe: Any) -> Any:
    "Waits until the next stage of a pipe is full and gives its tile; the stage is free after the last use of the tile."

def tile_pipe_push(pipe: Any, tile: Any) -> None:
    "Waits for a free stage of a pipe and writes a tile to it."

def tile_pipe_release(pipe: Any) -> None:
    "Frees the stage of the tile that this role popped first of those that it holds, before the last use would."

def tile_reduce(op: Any, t: Any, axis: Any = None, keepdims: Any = False) -> Any:
    "The elements of a tile combined by a function, in an order that is open."

def tile_reshape(t: Any, shape: Any) -> Any:
    "The elements of a tile, in row-major order, under another shape."

def tile_scan_exclusive(a: Any) -> Any:
    "The sums of the elements in front of each one, 0 for the first, in row-major order."

def tile_scan_exclusive_inplace(a: Any) -> None:
    "tile_scan_exclusive, whose result overwrites 'a'. Returns nothing."

def tile_scan_inclusive(a: Any) -> Any:
    "The sums of the elements up to each one, that one included, in row-major order."

def tile_scan_inclusive_inplace(a: Any) -> None:
    "tile_scan_inclusive, whose result overwrites 'a'. Returns nothing."

def tile_scan_max_inclusive(a: Any) -> Any:
    "The largest of the elements up to each one, that one included, in row-major order."

def tile_scan_max_inclusive_inplace(a: Any) -> None:
    "tile_scan_max_inclusive, whose result overwrites 'a'. Returns nothing."

def tile_scan_min_inclusive(a: Any) -> Any:
    "The smallest of the elements up to each one, that one included, in row-major order."

def tile_scan_min_inclusive_inplace(a: Any) -> None:
    "tile_scan_min_inclusive, whose result overwrites 'a'. Returns nothing."

def tile_scatter_add(a: Any, *args: Any, atomic: Any = True) -> None:
    "Adds the values of threads to elements of a tile: tile_scatter_add(a, i, ..., value, has_value)."

def tile_scatter_masked(a: Any, *args: Any) -> None:
    "Writes the values of threads to elements of a tile: tile_scatter_masked(a, i, ..., value, has_value)."

def tile_slice_indexed(t: Any, indices: Any, axis: Any = 0) -> Any:
    "The parts of a tile at given indices along a dimension, like t[indices]."

def tile_sort(keys: Any, values: Any) -> None:
    "Sorts keys in ascending order, in place and in row-major order of their elements, and values along with them."

def tile_squeeze(t: Any, axis: Any = None) -> Any:
    "A view of a tile without dimensions of length 1."

def tile_stack(capacity: Any, dtype: Any) -> Any:
    "An empty stack, which all threads of the block push to and pop from."

def tile_stack_clear(s: Any) -> None:
    "Empties a stack."

def tile_stack_count(s: Any) -> Any:
    "The number of elements on a stack; may be called by some threads only."

def tile_stack_pop(s: Any) -> Any:
    "Takes one element for each thread, in the order of the threads from the top."

def tile_stack_push(s: Any, value: Any, has_value: Any = True) -> Any:
    "Pushes the values of those threads that have one, in the order of the threads."

def tile_store(a: Any, t: Any, offset: Any = None, bounds_check: Any = True, aligned: Any = False) -> None:
    "Writes a tile to an array; elements outside of the array, and those of absent threads, are dropped."

def tile_store_async(array: Any, tile: Any, offset: Any = None) -> None:
    "Starts to copy a shared tile to an array, by one thread of the role; elements outside of the array are dropped."

def tile_sum(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    "The sum of the elements of a tile, in an order that is open but fixed for a compiled kernel."

def tile_transpose(a: Any) -> Any:
    "A view of the transpose of a 2-D tile, like t.T."

def tile_upper_solve(u: Any, z: Any) -> Any:
    "x with u @ x = z, for upper triangular matrices: backward substitution."

def tile_upper_solve_inplace(u: Any, z: Any) -> None:
    "The function tg.tile_upper_solve, whose result overwrites `z`: nothing is returned."

def tile_view(t: Any, offset: Any, shape: Any = None) -> Any:
    "A view of part of a tile, like t[offset]."

def tile_zeros(shape: Any, dtype: Any = ..., storage: Any = 'register') -> Any:
    "A tile of zeros."

def trace(m: Any) -> Any:
    "The sum of the diagonal of a matrix."

def transpose(m: Any) -> Any:
    "The transpose of a matrix."

def trunc(x: Any) -> Any:
    "The number x without its fraction."

def uniform(x: Any) -> Any:
    "The value of thread 0, the same in every thread of the block, or inside a role of the role."

def untile(a: Any) -> Any:
    "The element of a tile that belongs to each thread: the inverse of tg.tile."

def vector(*args: Any, length: Any = None, dtype: Any = None) -> Any:
    "A vector of given components, of the elements of a tile, or of zeros."

def where(condition: Any, x: Any, y: Any) -> Any:
    "The value of x where a condition holds, else that of y; both are computed."

class fast:
    @staticmethod
    def exp2(x: Any) -> Any:
        "The power 2**x, with a relative error of at most 2**-20; results below the smallest normal number may be 0."
