"""Notifications to tapes: of launches and array methods of a tape's thread, and of writes to arrays by any thread.

`on` is False while there is no observing tape, so that a launch without tapes tests this flag only. A launch that no
tape records tests only whether the tapes have already noted writes of its arrays, because a second write of the same
bytes has no effect on existing records."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakSet, finalize

MAX_NOTED = 4096
"""The maximum size of the set of noted writes, which is then cleared."""


class Observer(Protocol):
    """The interface of a tape, which is notified of launches and assignments."""

    def launched(
        self, kernel: Any, plan: Any, arguments: Sequence[Any], args: Sequence[Any], form: Any
    ) -> None:
        """A kernel was launched."""

    def assigned(self, target: Any, source: Any, new: bool) -> None:
        """A method of arrays overwrote an array."""

    def differentiated(self, name: str, args: Sequence[Any], gradients: Mapping[int, Any]) -> None:
        """The adjoint of a kernel ran."""

    def written(self, target: Any) -> None:
        """An array was written in any way."""


class _ThreadState(threading.local):
    tape: Observer | None = None


class Recording:
    """The observing tapes. `tape`: the tape that records the launches of a thread; `observers`: the tapes with records,
    which later writes may invalidate; `noted_writes`: the arrays whose writes all these tapes have noted since their
    last record."""

    def __init__(self) -> None:
        self.on = False
        self.observers: WeakSet[Observer] = WeakSet()
        self.noted_writes: set[tuple[bytes, int]] = set()
        # A tape may be finalised, which updates `on`, while this thread holds the lock.
        self._thread_state, self._lock = _ThreadState(), threading.RLock()

    @property
    def tape(self) -> Observer | None:
        """The observer of this thread, if there is one."""
        return self._thread_state.tape

    @tape.setter
    def tape(self, tape: Observer | None) -> None:
        self._thread_state.tape = tape
        if tape is None:
            return
        with self._lock:
            if tape not in self.observers:
                self.observers.add(tape)
                finalize(tape, self._update).atexit = False
            self._update()

    def _update(self) -> None:
        """Set `on`: whether there is an observer."""
        with self._lock:
            self.on = any(True for _ in self.observers)

    def needs_notification(self, args: Sequence[Any], writes: Iterable[int], record: bool = True) -> bool:
        """Whether a tape needs to be notified of a launch that writes the arguments at some positions."""
        if record and self._thread_state.tape is not None:
            return True
        noted = self.noted_writes
        try:
            for k in writes:
                a = args[k]
                if (a.packed, a.launch_id) not in noted:
                    return True
        except (
            AttributeError,
            IndexError,
        ):  # Arrays of other libraries, and arguments that do not fit, raise these errors.
            return True
        return False

    def launched(
        self, kernel: Any, plan: Any, arguments: Sequence[Any], args: Sequence[Any], form: Any, record: bool
    ) -> None:
        """A compiled form of a kernel ran. `args`: the arguments, with arrays of other libraries wrapped."""
        self.launch_wrote(args, form.writes)
        if record:
            with self._recording() as tape:
                if tape is not None:
                    tape.launched(kernel, plan, arguments, args, form)

    def assigned(self, target: Any, source: Any = None) -> None:
        """A method overwrote all elements of an array by elements of another array, or by constants."""
        self.written(target)
        with self._recording() as tape:
            if tape is not None:
                tape.assigned(target, source, False)

    def record_copy(self, target: Any, source: Any) -> None:
        """A method created an array as a copy of another array."""
        with self._recording() as tape:
            if tape is not None:
                tape.assigned(target, source, True)

    def differentiated(self, name: str, args: Sequence[Any], gradients: Mapping[int, Any]) -> None:
        """The adjoint of a kernel ran. `gradients`: the gradients of arguments, by position."""
        with self._recording() as tape:
            if tape is not None:
                tape.differentiated(name, args, gradients)

    @contextmanager
    def _recording(self) -> Iterator[Observer | None]:
        """The observer of the thread, to which the `with` block adds a record. The set of noted writes is cleared."""
        tape = self._thread_state.tape
        if tape is None:
            yield None
            return
        with self._lock:
            yield tape
            self.noted_writes.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Suspend recording of the thread in the `with` block; tapes are still notified of writes."""
        tape, self._thread_state.tape = self._thread_state.tape, None
        try:
            yield
        finally:
            self._thread_state.tape = tape

    def launch_wrote(self, args: Sequence[Any], writes: Sequence[int]) -> None:
        """A launch wrote the arguments at some positions."""
        if self.needs_notification(args, writes, record=False):
            for k in writes:
                self.written(args[k])

    def written(self, target: Any) -> None:
        """An array was written."""
        with self._lock:
            for tape in list(self.observers):
                tape.written(target)
            if len(self.noted_writes) >= MAX_NOTED:
                self.noted_writes.clear()
            self.noted_writes.add((target.packed, target.launch_id))


recording = Recording()
