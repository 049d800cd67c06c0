"""What a terminal shows while candidates are compiled and timed; nothing where the output is no terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """A line for each step, with how much of it is done. Without the package rich, and where errors do not go to a
    terminal, it shows nothing."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bar: Any = None
        self.task: Any = None

    def __enter__(self) -> Progress:
        if sys.stderr is not None and sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import Progress as Bar
            except ImportError:
                return self
            self.bar = Bar(console=Console(stderr=True), transient=True)
            self.bar.start()
        return self

    def step(self, what: str, total: int) -> None:
        """Begin a step of so many parts."""
        if self.bar is not None:
            self.task = self.bar.add_task(f"{self.title}: {what}", total=total)

    def advance(self) -> None:
        """A part of the step is done."""
        if self.bar is not None:
            self.bar.advance(self.task)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
