"""Tests of thousands of generated programs, in chunks: the first is slow, the others are a campaign."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def chunks(of: Iterable[Any]) -> list[Any]:
    """The parameters of such a test."""
    first, *rest = of
    return [
        pytest.param(first, marks=pytest.mark.slow),
        *(pytest.param(k, marks=pytest.mark.campaign) for k in rest),
    ]
