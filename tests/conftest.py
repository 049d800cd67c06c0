"""What all tests share: a fresh kernel cache, hypothesis profiles, markers by folder, why GPU tests skip."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
# Folders of tests that never run machine code; all others do, and run once more for x86-64-v3.
WITHOUT_MACHINE_CODE = {"gpu_lowering", "ir", "interp", "lang", "passes"}

# Machines that run tests are shared: no deadlines. In CI every run draws the same examples.
# Folders of tests that run on every kind of device, without what a GPU would wait for without an end.
ON_ALL_DEVICES = {"guide", "semantics", "generated", "stdlib", "roles", "kernels", "gradients"}
ENDLESS = {"test_deadlocks.py"}

settings.register_profile("tegula", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "tegula")


def pytest_configure(config: pytest.Config) -> None:
    """One fresh kernel cache per run, never the user's. Workers inherit it from the process that starts them."""
    if hasattr(config, "workerinput"):
        return
    made = tempfile.mkdtemp(prefix="tegula-test-cache-")
    os.environ["TEGULA_CACHE_DIR"] = made
    # A folder's own conftest.py, read before this where the folder is named on the command line, may have imported it.
    known = sys.modules.get("tegula.runtime.config")
    if known is not None:
        known.config.kernel_cache_dir = made
    config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))


def pytest_report_header() -> str:
    return f"GPU tests: {no_cuda() or 'run'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Markers by folder; tests that need a GPU are left out where there is none, as the header says."""
    for item in items:
        path = item.path.relative_to(TESTS)
        if len(path.parts) > 1 and path.parts[0] not in WITHOUT_MACHINE_CODE:
            item.add_marker("native")
        if path.parts[0] == "gpu":
            item.add_marker("gpu")
    if no_cuda() is not None:
        without = [item for item in items if "gpu" in item.keywords]
        config.hook.pytest_deselected(items=without)
        items[:] = [item for item in items if "gpu" not in item.keywords]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Where there is a GPU, what a kernel must do is asserted there too."""
    path = Path(str(metafunc.definition.path)).relative_to(TESTS)
    if path.parts[0] in ON_ALL_DEVICES and path.name not in ENDLESS and no_cuda() is None:
        devices = [pytest.param("cpu"), pytest.param("cuda:0", marks=pytest.mark.gpu)]
        metafunc.parametrize("on_device", devices, indirect=True)


@pytest.fixture(autouse=True)
def on_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device that a test's arrays are made on. Of every test, because pytest parametrises only what a test has;
    tests/semantics/test_devices.py sees that it takes effect."""
    device = getattr(request, "param", None)
    if device is None:
        yield "cpu"
        return
    import tegula as tg

    with tg.ScopedDevice(device):
        yield device


@cache
def no_cuda() -> str | None:
    """Why CUDA cannot be used here; None if it can."""
    from tegula.runtime.cuda.driver import Unavailable, driver

    try:
        driver()
    except Unavailable as error:
        return f"left out, {error}"
    return None
