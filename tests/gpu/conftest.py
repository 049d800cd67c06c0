"""Tests on a real GPU: `pytest -m gpu`. Without a GPU they are left out."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
OTHER_FOLDERS = ("backend", "semantics", "gpu_lowering", "kernels", "stdlib", "roles")
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in OTHER_FOLDERS)]
