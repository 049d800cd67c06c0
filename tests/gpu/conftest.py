"""Tests on a real GPU: `pytest -m gpu`. Where there is none they are left out."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "backend")]
