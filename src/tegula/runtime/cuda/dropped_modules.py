"""Dropped modules: unloaded after the completion of all work launched before the drop."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tegula.runtime.cuda.context import Context

LEGACY, DISABLE_TIMING = 1, 2
"""The handle of the default stream, in which an event is ordered after the work of all blocking streams; the flag of an
event without timing."""


class DroppedModules:
    """The dropped modules of one device. `add` may be called at any time, also by the garbage collector; modules are
    unloaded when the next module is loaded. Modules that pending launches may still use form one batch, which is
    unloaded once an event recorded after these launches is complete.

    Graphs of other libraries may contain functions of a module, and have an unknown lifetime, so that no module is
    unloaded once `ForeignLibraries.used` is set."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.pending = deque[int]()
        self.lock = threading.Lock()
        self.batch: tuple[int, list[int]] | None = None

    def add(self, module: int) -> None:
        """Add a module whose functions are not launched any more."""
        self.pending.append(module)

    def unload(self) -> None:
        """Unload the batch whose event is complete, and start the next batch."""
        if ForeignLibraries.used or self.context.fault is not None:
            return
        with self.lock:
            if self.batch is not None and self.context.is_done("cuEventQuery", self.batch[0]):
                event, modules = self.batch
                self.batch = None
                self.context.call("cuEventDestroy_v2", event)
                for module in modules:
                    self.context.call("cuModuleUnload", module)
            if self.batch is None and self.pending:
                # The count precedes the event, because modules that are dropped later may have launches after the
                # event.
                count = len(self.pending)
                event = self.context.make(ctypes.c_void_p, "cuEventCreate", DISABLE_TIMING)
                self.context.call("cuEventRecord", event, LEGACY)
                self.batch = event, [self.pending.popleft() for _ in range(count)]


class ForeignLibraries:
    """The use of devices by other libraries in this process. `used`: whether an array or stream of another library was
    passed to Tegula."""

    used = False
