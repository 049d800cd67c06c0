"""Modules of code that nothing uses any more: unloaded as soon as the device has done all that was launched before."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tegula.runtime.cuda.context import Context

LEGACY, WITHOUT_TIME = 1, 2
"""The default stream, where an event comes after all work of all streams that were made here; an event for that."""


class DroppedModules:
    """The modules that were dropped on one device. `add` may be called at any time, by the garbage collector too; the
    driver is asked when the next module is loaded. Those that launches on their way may still use are one batch, after
    an event.

    Recordings of other libraries may hold functions of ours, for as long as only these libraries know: once `Libraries`
    has seen one nothing is unloaded."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.waiting = deque[int]()
        self.lock = threading.Lock()
        self.leaving: tuple[int, list[int]] | None = None

    def add(self, module: int) -> None:
        """Have a module unloaded; nothing launches its functions any more."""
        self.waiting.append(module)

    def unload(self) -> None:
        """Unload what the device has no use for any more."""
        if Libraries.seen or self.context.fault is not None:
            return
        with self.lock:
            if self.leaving is not None and self.context.is_done("cuEventQuery", self.leaving[0]):
                event, modules = self.leaving
                self.leaving = None
                self.context.call("cuEventDestroy_v2", event)
                for module in modules:
                    self.context.call("cuModuleUnload", module)
            if self.leaving is None and self.waiting:
                # Modules that are dropped from here on may have launches after the event.
                count = len(self.waiting)
                event = self.context.make(ctypes.c_void_p, "cuEventCreate", WITHOUT_TIME)
                self.context.call("cuEventRecord", event, LEGACY)
                self.leaving = event, [self.waiting.popleft() for _ in range(count)]


class Libraries:
    """What is known of other libraries that use devices in this process. `seen`: whether arrays or streams of one were
    given to Tegula."""

    seen = False
