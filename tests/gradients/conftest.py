"""Makes the modules of this folder and the modules that run kernels in the interpreter importable; adjoints are
compiled without LLVM's optimisations, except for slow tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("semantics", "gpu_lowering"))]


@pytest.fixture(autouse=True)
def compiled_soon(unoptimised: None) -> None:
    """Compile without optimisations, see `unoptimised`."""
