"""Fixtures and hooks of all tests: a fresh kernel cache, hypothesis profiles, markers by folder, reasons for skipped
GPU tests."""

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

from support.campaigns import leave_to_campaigns, sample_parameter_sets
from support.cpu_times import mark_long
from support.folders import ON_ALL_DEVICES, ON_GPUS, follows

# Threads of NumPy's matrix library spin for 20 ms after each matmul, longer than most tests take. The library reads
# this variable when it is imported, at the latest by pytest's plugins.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TEGULA_VERIFY_PASSES", "1")
pytest_plugins = ["support.cpu_times", "support.code_cache", "support.machine_code"]
TESTS = Path(__file__).parent

# Machines that run tests are shared: no deadlines. In CI every run draws the same examples.
settings.register_profile("tegula", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "tegula")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "rewrite files of expected text; only tests with such files run"
    parser.addoption("--update", action="store_true", help=help_text)
    each_help = "run the first parameter set of each test and one of N of its other sets"
    parser.addoption("--each", type=int, default=1, metavar="N", help=each_help)


def pytest_configure(config: pytest.Config) -> None:
    """Use one fresh kernel cache per run, never the user's cache. Workers inherit it from the process that starts
    them."""
    if hasattr(config, "workerinput"):
        return
    result = tempfile.mkdtemp(prefix="tegula-test-cache-")
    os.environ["TEGULA_CACHE_DIR"] = result
    # A folder's own conftest.py, which is read first if the folder is named on the command line, may have imported it.
    config_module = sys.modules.get("tegula.runtime.config")
    if config_module is not None:
        config_module.config.kernel_cache_dir = result
    config.add_cleanup(lambda: shutil.rmtree(result, ignore_errors=True))


# Objects that exist before the first test stay alive, so the garbage collector need not scan them.
gc.disable()


def pytest_collection_finish() -> None:
    """Compilers allocate many short-lived objects: fewer collections halve the time of the garbage collector."""
    gc.set_threshold(20_000, 20, 20)
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    return f"GPU tests: {no_cuda() or 'run'}"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Markers by folder; tests that need a GPU are deselected on machines without a GPU, which the report's header
    states. `--each` deselects parameter sets of the tests that markers select."""
    for item in items:
        path = item.path.relative_to(TESTS)
        if follows(path.parts[0], ON_GPUS):
            item.add_marker("gpu")
    leave_to_campaigns(items)
    mark_long(items)
    required_fixture = "update" if config.getoption("--update") else ""
    _deselect(
        config, items, {i for i in items if _cannot_run(i) or required_fixture not in ("", *_fixtures(i))}
    )
    yield
    _deselect(config, items, {*items}.difference(sample_parameter_sets(items, config.getoption("--each"))))


def _deselect(config: pytest.Config, items: list[pytest.Item], without: set[pytest.Item]) -> None:
    if without:
        config.hook.pytest_deselected(items=[item for item in items if item in without])
        items[:] = [item for item in items if item not in without]


def _cannot_run(item: pytest.Item) -> bool:
    """Whether a test needs a GPU on a machine without a GPU, or the test or its parameters are for CPUs only."""
    if item.get_closest_marker("gpu") is None:
        return False
    return no_cuda() is not None or item.get_closest_marker("cpu") is not None


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether tests overwrite their files of expected texts."""
    return bool(request.config.getoption("--update"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of kernels on the GPU too, if there is one."""
    path = Path(str(metafunc.definition.path)).relative_to(TESTS)
    cpu_only = metafunc.definition.get_closest_marker("cpu")
    if follows(path.parts[0], ON_ALL_DEVICES) and cpu_only is None and no_cuda() is None:
        devices = [pytest.param("cpu"), pytest.param("cuda:0", marks=pytest.mark.gpu)]
        metafunc.parametrize("on_device", devices, indirect=True)


@pytest.fixture(autouse=True)
def on_device(request: pytest.FixtureRequest) -> Iterator[str]:
    """The device on which a test's arrays are made. Every test has this fixture, because pytest parametrises only
    fixtures that a test has; tests/semantics/test_devices.py checks that it takes effect. Reports of kernels after the
    end of a test are attributed to that test."""
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
    """In the default run LLVM does not optimise code that tests compile, which saves half of the time of adjoint tests
    and a quarter of the time of other tests. Slow tests, and tests for a named processor, compile as users do."""
    from tegula.runtime.config import config
    from tegula.target import UNOPTIMISED

    if config.cpu_target == "native" and request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr(config, "cpu_target", f"native{UNOPTIMISED}")


@cache
def no_cuda() -> str | None:
    """The reason why CUDA cannot be used here; None if it can."""
    from tegula.runtime.cuda.driver import Unavailable, driver

    try:
        driver()
    except Unavailable as error:
        return f"deselected, {error}"
    return None
