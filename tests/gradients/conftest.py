"""Makes the modules beside the tests, and those that run kernels in the interpreter, importable; how adjoints are
compiled."""

import sys
from pathlib import Path

import pytest

from tegula.runtime.config import config
from tegula.target import UNOPTIMISED

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("semantics", "gpu_lowering"))]


@pytest.fixture(autouse=True)
def without_llvms_passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What LLVM makes of code is for the tests of codegen, kernels and generated programs, and for slow tests here: it
    would take half of the time."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(config, "cpu_target", config.cpu_target + UNOPTIMISED)
