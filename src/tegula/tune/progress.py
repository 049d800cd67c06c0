"""The progress of compiling and timing candidates, shown on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any


class Progress:
    """A progress bar for each step on standard error. Nothing is shown without the package rich, or if standard error
    is not a terminal."""

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

    def step(self, text: str, total: int) -> None:
        """Begin a step that has `total` parts."""
        if self.bar is not None:
            self.task = self.bar.add_task(f"{self.title}: {text}", total=total)

    def advance(self) -> None:
        """Report that one more part of the step is done."""
        if self.bar is not None:
            self.bar.advance(self.task)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()
