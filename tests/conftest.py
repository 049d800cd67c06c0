"""What all tests share: a fresh kernel cache, hypothesis profiles, markers by folder, why GPU tests skip."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
# Folders of tests that never run machine code; all others do, and run once more for x86-64-v3.
WITHOUT_MACHINE_CODE = {"ir", "interp", "lang", "passes"}

# Machines that run tests are shared: no deadlines. In CI every run draws the same examples.
settings.register_profile("tegula", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "tegula")


def pytest_configure(config: pytest.Config) -> None:
    """One fresh kernel cache per run, never the user's. Workers inherit it from the process that starts them."""
    if hasattr(config, "workerinput"):
        return
    made = tempfile.mkdtemp(prefix="tegula-test-cache-")
    os.environ["TEGULA_CACHE_DIR"] = made
    config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = no_cuda() if any("gpu" in item.keywords for item in items) else None
    for item in items:
        path = item.path.relative_to(TESTS)
        if len(path.parts) > 1 and path.parts[0] not in WITHOUT_MACHINE_CODE:
            item.add_marker("native")
        if missing and "gpu" in item.keywords:
            item.add_marker(pytest.mark.skip(reason=missing))


def no_cuda() -> str | None:
    """Why CUDA cannot be used here; None if it can."""
    from tegula.runtime.cuda import describe_devices

    try:
        return None if describe_devices() else "needs a CUDA device"
    except ImportError:
        return "needs the extra 'gpu'"
    except RuntimeError as error:
        return f"needs a CUDA device: {error}"
