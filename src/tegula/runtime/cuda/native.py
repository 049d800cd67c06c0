"""Launches in machine code (backend/launcher.py): the process-wide variables, and a table of cached launches for each
kernel.

A launch that took the slow path is cached, so that later launches with the same key run almost no Python."""

from __future__ import annotations

import ctypes
import struct
import sys
from array import array as words
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tegula.backend import launcher, pool
from tegula.backend.launch_modes import DESCRIBE
from tegula.backend.launcher import ARGUMENT_WORDS, ARGUMENTS_AT, DEVICE, GLOBALS, MAX_BYTES
from tegula.backend.loader import LoadedObject
from tegula.lang.annotations import ArrayAnnotation
from tegula.runtime import launch_key
from tegula.runtime.array import array
from tegula.runtime.config import modes
from tegula.runtime.cuda.driver import address
from tegula.runtime.cuda.interop import first_use_callbacks
from tegula.runtime.cuda.launch import configuration_for
from tegula.runtime.cuda.stream import Stream, switches, thread_streams
from tegula.runtime.pack import FORMATS
from tegula.types import DType, MatType, VecType

if TYPE_CHECKING:
    from tegula.lang.definition import Parameter
    from tegula.runtime.cuda.compile import CudaCompiled
    from tegula.runtime.kernel import Kernel
    from tegula.runtime.launch import LaunchPlan

Launch = Callable[[Any, Any, Any, Any, int, Any], Any]
"""`launch(dim, block_dim, inputs, outputs, mode, stream)`: see backend/launcher.py."""
SLOW_LAUNCHES = 2
"""The number of a kernel's first launches that always take the slow path, because caching would cost more than it
saves."""
FASTCALL = 0x80
"""CPython's METH_FASTCALL: the function takes an array of arguments."""
EXCHANGE, EXCHANGE_NAME, EXCHANGE_MAJOR = "__dlpack_c_exchange_api__", b"dlpack_exchange_api", 1
DESCRIBE_AT, STREAM_AT, EXCHANGE_BYTES = 40, 48, 56
"""Offsets in DLPack's table of functions: the function that describes a tensor without owning it, and the function that
returns the library's current stream; the size of the table."""

MAX_REPLACED = 1000
"""The number of replaced entries after which a kernel's table caches no more launches."""
ENTRY = f"<{len(launcher.ENTRY) - 1}q{launcher.CONFIGURATION_BYTES}s"
UNUSABLE = words("Q", [0] * len(launcher.DEVICE))
"""The variables of a device on which machine code launches nothing."""

_pointer, _object = ctypes.c_void_p, ctypes.py_object


# State of the process ------------------------------------------------------------------------------------------------


class MachineCode:
    """The machine code of launches and its variables for the process."""

    def __init__(self, code: LoadedObject) -> None:
        self.code = code
        self.memory = words("Q", [0] * len(GLOBALS))
        self.names = {name: sys.intern(name) for name in ("header", "streams", "context", "handle", "owned")}
        for name in launcher.FUNCTIONS:
            self.put(name, address(ctypes.pythonapi[name]))
        objects = {"True": True, "False": False, "None": None, "int": int, "float": float, "list": list}
        objects |= {
            "tuple": tuple,
            "array": array,
            "stream": Stream,
            "chosen": thread_streams,
            **self.names,
        }
        for name in launcher.OBJECTS:
            self.put(name, id(objects[name]))
        self.put("modes", modes.buffer_info()[0])
        self.put("switches", switches.buffer_info()[0])
        self.enable_tensors()
        first_use_callbacks.append(self.enable_tensors)
        ctypes.CFUNCTYPE(None, _pointer)(code.address("begin"))(self.memory.buffer_info()[0])
        self.methods = {name: Method(code, name) for name in ("launch", "describe")}
        launch_key.fast_path.describe = self.methods["describe"].function(None)

    def put(self, name: str, value: int) -> None:
        """Set a variable that machine code of launches reads."""
        self.memory[GLOBALS[name] // launcher.WORD] = value

    def enable_tensors(self) -> None:
        """Look up PyTorch's exchange functions. Without them, launches with tensors take the slow path."""
        torch = sys.modules.get("torch")
        capsule = getattr(getattr(torch, "Tensor", None), EXCHANGE, None)
        if torch is None or capsule is None:
            return
        get = ctypes.pythonapi["PyCapsule_GetPointer"]
        get.restype, get.argtypes = _pointer, (_object, ctypes.c_char_p)
        table = ctypes.string_at(get(capsule, EXCHANGE_NAME), EXCHANGE_BYTES)
        major = struct.unpack_from("<I", table)[0]
        functions = [struct.unpack_from("<Q", table, offset)[0] for offset in (DESCRIBE_AT, STREAM_AT)]
        if major != EXCHANGE_MAJOR or not all(functions):
            return
        self.put("describe_tensor", functions[0])
        self.put("current_stream", functions[1])
        self.put("tensor", id(torch.Tensor))
        self.put("parameter", id(torch.nn.Parameter))

    def function(self, table: Table) -> Launch:
        """A built-in function that launches the kernel of a table."""
        return self.methods["launch"].function(table)


class Method:
    """A function of the machine code as a PyMethodDef of CPython."""

    def __init__(self, code: LoadedObject, name: str) -> None:
        self.name = ctypes.create_string_buffer(name.encode())
        header = struct.pack("<QQi4xQ", ctypes.addressof(self.name), code.address(name), FASTCALL, 0)
        self.description = ctypes.create_string_buffer(header, len(header))

    def function(self, first: object) -> Any:
        """A built-in Python function whose first argument is `first`."""
        new_function = ctypes.pythonapi["PyCFunction_NewEx"]
        new_function.restype, new_function.argtypes = _object, (_pointer, _object, _pointer)
        return new_function(ctypes.addressof(self.description), first, None)


class _MachineCodeState:
    """The process's machine code, if it has been compiled; `is_unsupported`: whether the object layout of this Python
    differs from the layout that machine code reads."""

    machine_code: MachineCode | None = None
    is_unsupported = False


def machine_code() -> MachineCode | None:
    """The process's machine code, compiled by the first call; None if this Python's object layout differs from the
    layout that machine code reads."""
    if _MachineCodeState.machine_code is None and not _MachineCodeState.is_unsupported:
        sample = 1.5
        if _pointer.from_address(id(sample) + 8).value == id(float):
            _MachineCodeState.machine_code = MachineCode(pool.load_support(launcher.launcher_text()))
        else:
            _MachineCodeState.is_unsupported = True
    return _MachineCodeState.machine_code


# State of a kernel ---------------------------------------------------------------------------------------------------


class Table(bytearray):
    """The memory that machine code reads for a kernel: its parameters and the cached launches. `entries`: the objects
    of the cached launches by slot, which keep them alive."""

    def __init__(self, parameters: Sequence[tuple[int, ...]]) -> None:
        super().__init__(launcher.TABLE_BYTES)
        struct.pack_into("<q", self, 0, len(parameters))
        for k, row in enumerate(parameters):
            struct.pack_into(f"<{len(row)}q", self, self._argument(k), *row)
        self.replaced = 0
        self.sizes = [row[1] for row in parameters]
        self.entries: list[Any] = [None] * (1 << launcher.SLOT_BITS)

    def _argument(self, k: int) -> int:
        return ARGUMENTS_AT + k * ARGUMENT_WORDS * launcher.WORD

    def cache_launch(self, key: bytes, plan: LaunchPlan, compiled: CudaCompiled, packed: bytes) -> None:
        """Cache a launch by the key of its arguments: the function, its configuration, and the bytes that follow the
        arguments.

        Launches that report to the host and launches without blocks are cached with a mark that selects the slow
        path."""
        argument_bytes = sum(self.sizes)
        device, data, fixups, configuration = UNUSABLE, packed[:argument_bytes], [], b""
        all_bytes, positions = packed, []
        if self._extend_keys(compiled):
            return
        if compiled.maps is not None:
            all_bytes, positions = compiled.maps.with_maps(packed), compiled.maps.map_positions(packed)
        if compiled.is_plain and plan.blocks and len(all_bytes) <= MAX_BYTES:
            device, data, fixups = compiled.context.variables, all_bytes, positions
            configuration = configuration_for(compiled, plan.blocks)
        append, name, writes = compiled.context.recent_kernels.append, compiled.name, tuple(compiled.writes)
        ordinal, captured = compiled.device.ordinal, compiled.captured
        objects = [id(x) for captured_object in captured for x in captured_object]
        entry_bytes = (
            struct.pack(
                ENTRY,
                len(key) // launcher.WORD,
                len(captured),
                device.buffer_info()[0],
                compiled.function,
                len(data) - argument_bytes,
                len(fixups),
                id(append),
                id(name),
                id(writes) if writes else 0,
                id(compiled.context),
                id(ordinal),
                configuration,
            )
            + key
            + struct.pack(f"<{len(objects)}Q", *objects)
            + b"".join(struct.pack("<3Q", *fixup) for fixup in fixups)
            + data[argument_bytes:]
        )
        # The entry also keeps `captured` alive, because the kernel's captured objects may be replaced by equal objects.
        self._put(key, (entry_bytes, key, append, name, writes, ordinal, compiled, captured))

    def _put(self, key: bytes, entry: tuple[Any, ...]) -> None:
        """Store an entry in the slot of the same key, in a free slot, or by eviction of another entry. After
        MAX_REPLACED replacements no entry is replaced any more, because entries are evicted before they are used."""
        key_hash = hash_key(key)
        first_slot = key_hash >> (64 - launcher.SLOT_BITS)
        slots = [(first_slot + offset) % len(self.entries) for offset in range(launcher.PROBE_LENGTH)]
        slot = next((k for k in slots if self.entries[k] is not None and self.entries[k][1] == key), None)
        if slot is None:
            slot = next((k for k in slots if self.entries[k] is None), None)
        if slot is None:
            if self.replaced == MAX_REPLACED:
                return
            self.replaced += 1
            slot = slots[self.replaced % launcher.PROBE_LENGTH]
        # The replaced entry is freed last, when machine code cannot find it any more.
        previous, self.entries[slot] = self.entries[slot], entry
        struct.pack_into("<QQ", self, launcher.SLOTS_AT + slot * launcher.SLOT_BYTES, id(entry), key_hash)
        del previous

    def _extend_keys(self, compiled: CudaCompiled) -> bool:
        """Extend the keys by the arguments that a cached launch of a kernel depends on: the descriptions of arrays with
        maps, with their addresses if the driver cannot replace the address of a map, and the lengths and numbers that
        guards read. Returns whether the keys have changed."""
        starts = {sum(self.sizes[:k]): k for k in range(len(self.sizes))}
        key_parts: dict[int, int] = {}
        if compiled.guards is not None:
            key_parts = dict.fromkeys(compiled.guards.positions, launcher.WITH_ALIGNMENT)
        if compiled.maps is not None:
            is_replaceable = compiled.context.variables[DEVICE["replace"] // launcher.WORD]
            key_part = launcher.WITH_ALIGNMENT if is_replaceable else launcher.WITH_ADDRESS
            key_parts |= {starts[array_map.start]: key_part for array_map in compiled.maps.maps}
        changed = False
        for k, key_part in key_parts.items():
            kind = struct.unpack_from("<q", self, self._argument(k))[0]
            position = self._argument(k) + (
                2 * launcher.WORD if kind == launcher.ARRAY else launcher.KEYED_AT
            )
            previous = struct.unpack_from("<q", self, position)[0]
            if previous not in (key_part, launcher.WITH_ADDRESS):
                struct.pack_into("<q", self, position, key_part)
                changed = True
        return changed


def hash_key(key: bytes) -> int:
    """The hash of a key, as machine code computes it."""
    value, mask = 0, 2**64 - 1
    for (word,) in struct.iter_unpack("<Q", key):
        value = (value ^ word) * launcher.HASH & mask
        value ^= value >> 32
    return value * launcher.HASH & mask


def parameter_rows(parameters: Sequence[Parameter]) -> list[tuple[int, ...]] | None:
    """The descriptions of parameters for machine code; None if it does not support one of them."""
    rows: list[tuple[int, ...]] = []
    for p in parameters:
        annotation = p.annotation
        if isinstance(annotation, ArrayAnnotation) and isinstance(annotation.ndim, int):
            is_scalar = not isinstance(annotation.dtype, VecType | MatType)
            rows.append((launcher.ARRAY, 8 + 16 * annotation.ndim, 0, int(is_scalar)))
        elif isinstance(annotation, DType) and annotation.name in FORMATS and annotation.name != "float16":
            rows.append(_number_row(annotation))
        else:
            return None
    arrays = sum(kind == launcher.ARRAY for kind, *_ in rows)
    return rows if len(rows) <= launcher.MAX_ARGUMENTS and arrays <= launcher.MAX_ARRAYS else None


def _number_row(dtype: DType) -> tuple[int, ...]:
    if dtype.is_bool:
        return launcher.BOOLEAN, 8
    if not dtype.is_int:
        return (launcher.SINGLE if dtype.bits == 32 else launcher.DOUBLE), 8
    unsigned = dtype.name.startswith("u")
    low = 0 if unsigned else -(1 << (dtype.bits - 1))
    high = (1 << (dtype.bits - (0 if unsigned else 1))) - 1
    mask = (1 << dtype.bits) - 1
    return launcher.INTEGER, 8, low, min(high, 2**63 - 1), mask if dtype.bits < 64 else -1


def deferred_launch(kernel: Kernel) -> Launch:
    """The initial launch function of a kernel, which launches nothing and replaces itself at call number
    SLOW_LAUNCHES."""
    calls = 0

    def wait(*arguments: Any) -> bool:
        nonlocal calls
        calls += 1
        if calls == SLOW_LAUNCHES:
            kernel.native = _machine_code_launch(kernel)
        return False

    return wait


def _machine_code_launch(kernel: Kernel) -> Launch:
    parameters, code = parameter_rows(kernel.parameters), machine_code()
    if parameters is None or code is None:
        return unsupported_launch
    return code.function(Table(parameters))


def unsupported_launch(*arguments: Any) -> bool:
    """The launch function of a kernel with parameters that the machine code does not support."""
    return False


def cache_launch(
    kernel: Kernel, key: bytes, call: tuple[Any, Any, Any, Any, int], plan: LaunchPlan, compiled: CudaCompiled
) -> None:
    """Cache a launch that has just run and whose key was not in the table. `call`: the arguments of the launch, which
    no other code can change."""
    native, (*arguments, mode) = kernel.native, call
    table = getattr(native, "__self__", None)
    if native is None or not isinstance(table, Table):
        return
    fast_path = kernel.fast_path(plan, (*arguments[2], *arguments[3]))
    # The launch is not cached if the arguments have changed since the key was computed.
    if fast_path is None or fast_path[0] is not compiled or native(*arguments, mode | DESCRIBE, None) != key:
        return
    table.cache_launch(key, plan, compiled, fast_path[1])
