"""Notifications to tapes: of launches and array methods of a tape's thread, and of writes to arrays by any thread.

`on` is False while no tape observes, so that a launch without tapes only tests this flag."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakSet


class Observer(Protocol):
    """A tape, which is notified of launches and assignments."""

    def launched(self, kernel: Any, plan: Any, given: Sequence[Any], args: Sequence[Any], form: Any) -> None:
        """A kernel was launched."""

    def assigned(self, target: Any, source: Any, new: bool) -> None:
        """A method of arrays overwrote an array."""

    def differentiated(self, name: str, args: Sequence[Any], gradients: Mapping[int, Any]) -> None:
        """The adjoint of a kernel ran."""

    def written(self, target: Any) -> None:
        """An array was written in any way."""


class _OfThread(threading.local):
    tape: Observer | None = None


class Recording:
    """`tape` records the launches of this thread; `watching` are the tapes with records, which later writes may
    invalidate."""

    def __init__(self) -> None:
        self.on = False
        self.watching: WeakSet[Observer] = WeakSet()
        self._here, self._lock = _OfThread(), threading.Lock()

    @property
    def tape(self) -> Observer | None:
        """The observer of this thread, if there is one."""
        return self._here.tape

    @tape.setter
    def tape(self, tape: Observer | None) -> None:
        self._here.tape = tape
        if tape is not None:
            with self._lock:
                self.watching.add(tape)
        self.update()

    def update(self) -> None:
        """Set `on`: whether any thread has an observer."""
        self.on = len(self.watching) > 0

    def launched(
        self, kernel: Any, plan: Any, given: Sequence[Any], args: Sequence[Any], form: Any, record: bool
    ) -> None:
        """A compiled form of a kernel ran. `args`: the arguments, with arrays of other libraries wrapped."""
        self.wrote(args[k] for k in form.writes)
        if record and self.tape is not None:
            self.tape.launched(kernel, plan, given, args, form)
        self.update()

    def assigned(self, target: Any, source: Any = None) -> None:
        """A method overwrote all elements of an array by elements of another array, or by constants."""
        self.written(target)
        if self.tape is not None:
            self.tape.assigned(target, source, False)

    def made(self, target: Any, source: Any) -> None:
        """A new array was made as a copy of another one."""
        if self.tape is not None:
            self.tape.assigned(target, source, True)

    def differentiated(self, name: str, args: Sequence[Any], gradients: Mapping[int, Any]) -> None:
        """The adjoint of a kernel ran. `gradients`: the gradients of arguments, by position."""
        if self.tape is not None:
            self.tape.differentiated(name, args, gradients)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Record nothing that this thread does in the `with` block; tapes are still notified of its writes."""
        tape, self._here.tape = self._here.tape, None
        try:
            yield
        finally:
            self._here.tape = tape

    def wrote(self, targets: Iterable[Any]) -> None:
        """A launch wrote arrays."""
        for target in targets:
            self.written(target)

    def written(self, target: Any) -> None:
        """An array was written."""
        with self._lock:
            watching = list(self.watching)
        for tape in watching:
            tape.written(target)


recording = Recording()
