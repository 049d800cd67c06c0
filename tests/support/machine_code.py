"""Checks the marker `machine_code`: exactly the marked tests run code that is compiled for this processor. Code that
child processes run is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

import pytest

from tegula.backend import loader
from tegula.runtime import compile

NAME = "machine_code"
UNMARKED = "the test runs machine code: mark the test with @pytest.mark.machine_code"
MARKED = (
    "the test runs no machine code: remove its mark, or use machine_code(some=True) if only some parameters run "
    "machine code"
)
