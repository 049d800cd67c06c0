"""Dropped modules: unloaded after the completion of all work launched before the drop."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tegula.runtime.cuda.context import Context

LEGACY, WITHOUT_TIME = 1, 2
"""The handle of the default stream, in which an event is ordered after the work of all blocking streams; the flag of an
event without timing."""


class DroppedModules:
    """The dropped modules of one device. `add` may be called at any time, also by the garbage collector; modules are
    unloaded when the next module is loaded. Modules that pending launches may still use form one batch, which is
    unloaded once an event recorded after these launches is complete.

    Graphs of other libraries may contain functions of a module, and have an unknown lifetime, so that no module is
    unloaded once `Libraries.seen` is set."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.waiting = deque[int]()
        self.lock = threading.Lock()
        self.leaving: tuple[int, list[int]] | None = None

    def add(self, module: int) -> None:
        """Add a module whose functions are not launched any more."""
        self.waiting.append(module)

    def unload(self) -> None:
        """Unload the batch whose event is complete, and start the next batch."""
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
                # Counted before the event, because modules that are dropped later may have launches after the event.
                count = len(self.waiting)
                event = self.context.make(ctypes.c_void_p, "cuEventCreate", WITHOUT_TIME)
                self.context.call("cuEventRecord", event, LEGACY)
                self.leaving = event, [self.waiting.popleft() for _ in range(count)]


class Libraries:
    """The use of devices by other libraries in this process. `seen`: whether an array or stream of another library was
    passed to Tegula."""

    seen = False
