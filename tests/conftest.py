"""What all tests share: a fresh kernel cache, hypothesis profiles, markers by folder, why GPU tests skip."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from support.folders import ON_ALL_DEVICES, ON_GPUS, follows

# Threads of NumPy's matrix library spin for 20 ms after each matmul, which is more than most tests take. It reads this
# when it is imported, by the plugins at the latest.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
pytest_plugins = ["support.cpu_times", "support.kept_code", "support.machine_code"]
TESTS = Path(__file__).parent

# Machines that run tests are shared: no deadlines. In CI every run draws the same examples.
settings.register_profile("tegula", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "tegula")


def pytest_addoption(parser: pytest.Parser) -> None:
    what = "rewrite files of expected text; other tests are left out"
    parser.addoption("--update", action="store_true", help=what)


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


# What there is before the first test stays: the garbage collector need not look through it again and again.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    return f"GPU tests: {no_cuda() or 'run'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Markers by folder; tests that need a GPU are left out where there is none, as the header says."""
    for item in items:
        path = item.path.relative_to(TESTS)
        if follows(path.parts[0], ON_GPUS):
            item.add_marker("gpu")
    keeps = "update" if config.getoption("--update") else ""
    without = [item for item in items if _is_left_out(item) or keeps not in ("", *_fixtures(item))]
    if without:
        config.hook.pytest_deselected(items=without)
        left = set(without)
        items[:] = [item for item in items if item not in left]


def _is_left_out(item: pytest.Item) -> bool:
    """Whether a test is for a GPU, and there is none to run it on, or the test, or its parameters, are for CPUs."""
    if item.get_closest_marker("gpu") is None:
        return False
    return no_cuda() is not None or item.get_closest_marker("cpu") is not None


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether a test writes what it finds to the file of what it expects."""
    return bool(request.config.getoption("--update"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Where there is a GPU, what a kernel must do is asserted there too."""
    path = Path(str(metafunc.definition.path)).relative_to(TESTS)
    of_cpus = metafunc.definition.get_closest_marker("cpu")
    if follows(path.parts[0], ON_ALL_DEVICES) and of_cpus is None and no_cuda() is None:
        devices = [pytest.param("cpu"), pytest.param("cuda:0", marks=pytest.mark.gpu)]
        metafunc.parametrize("on_device", devices, indirect=True)


@pytest.fixture(autouse=True)
def on_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device that a test's arrays are made on. Of every test, because pytest parametrises only what a test has;
    tests/semantics/test_devices.py sees that it takes effect. What kernels report after a test has ended is its fault,
    not that of the next one."""
    device = getattr(request, "param", None)
    if device is None:
        yield "cpu"
        return
    import tegula as tg

    with tg.ScopedDevice(device):
        yield device
    tg.synchronize()


@pytest.fixture
def unoptimised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the default run LLVM does not optimise what the test compiles: half of the time of tests of adjoints would go
    there. Slow tests, and those for a processor that is named, compile as users do."""
    from tegula.runtime.config import config
    from tegula.target import UNOPTIMISED

    if config.cpu_target == "native" and request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(config, "cpu_target", f"native{UNOPTIMISED}")


@cache
def no_cuda() -> str | None:
    """Why CUDA cannot be used here; None if it can."""
    from tegula.runtime.cuda.driver import Unavailable, driver

    try:
        driver()
    except Unavailable as error:
        return f"left out, {error}"
    return None
