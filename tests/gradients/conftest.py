"""Makes the modules of this folder, and the modules that run kernels in the interpreter, importable. Adjoints are
compiled without LLVM's optimisations, except in slow tests."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("semantics", "gpu_lowering"))]


@pytest.fixture(autouse=True)
def without_optimisations(unoptimised: None) -> None:
    """Compile without optimisations, see the fixture `unoptimised`."""
