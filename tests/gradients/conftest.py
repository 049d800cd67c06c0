"""Makes the modules next to the tests, and those that run kernels in the interpreter, importable; all adjoints are
compiled without LLVM's passes, but for slow tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("semantics", "gpu_lowering"))]


@pytest.fixture(autouse=True)
def compiled_soon(unoptimised: None) -> None:
    """As `unoptimised` says."""
