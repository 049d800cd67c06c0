"""Launches with a simulated driver that records arguments."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from simulated_driver import INVALID_VALUE, SimulatedDriver

from tegula.runtime.cuda.driver import PROTOTYPES
from tegula.runtime.cuda.launch import CONFIGURATION

RecordedLaunch = tuple[bytes, int, bytes]
"""A recorded launch: the bytes of the configuration, the handle of the function, and the bytes of the arguments."""


class RecordingDriver(SimulatedDriver):
    """C functions that replace the driver functions that machine code calls. `recorded_launches`: the launches; `size`:
    the number of bytes of the arguments that are recorded; `replaced_maps`: the number of tensor maps whose address was
    replaced; `status`: the status that the replacement returns."""

    def __init__(self, devices: int) -> None:
        super().__init__(devices)
        self.recorded_launches: list[RecordedLaunch] = []
        self.size = self.replaced_maps = self.status = 0
        simulated = self.cuLaunchKernelEx

        def launch(address: int, function: int, parameters: int, extra: None) -> int:
            (first,) = struct.unpack("<Q", ctypes.string_at(parameters, 8))
            configuration = ctypes.string_at(address, CONFIGURATION.size)
            self.recorded_launches.append((configuration, function, ctypes.string_at(first, self.size)))
            return simulated(address, function, parameters, extra)

        def current_context(out: int) -> int:
            ctypes.c_void_p.from_address(out).value = self.current
            return 0

        def replace(offset: int, address: int) -> int:
            if offset % 64:
                return INVALID_VALUE
            self.replaced_maps += 1
            self.TensorMapEncodeTiled(offset, 0, 0, address)
            return self.status

        functions = {
            "cuLaunchKernelEx": launch,
            "cuCtxGetCurrent": current_context,
            "cuTensorMapReplaceAddress": replace,
        }
        for name, function in functions.items():
            setattr(self, name, ctypes.CFUNCTYPE(ctypes.c_int, *PROTOTYPES[name])(function))

    def TensorMapEncodeTiled(self, out: int, kind: int, rank: int, address: int, *rest: Any) -> None:
        ctypes.memmove(out, struct.pack("<Q", address) * 16, 128)
