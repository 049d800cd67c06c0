"""The names that the public tests import from their harness, with definitions of our own."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tegula as wp

TESTS = Path(__file__).parents[1]
PRELUDE = """import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from compat.alias import install
install(Path({root!r}))
"""
"""The first statements of a Python process whose program imports the package."""
USD_AVAILABLE = False


CPU = "cpu"


@dataclass
class Choices:
    """What a run tests. `device`: the name of the device for which tests are defined, and whose arrays are the default;
    `root`: the directory of the package's files."""

    device: str = CPU
    root: Path = Path()


chosen = Choices()


def get_test_devices(mode: str | None = None) -> list[Any]:
    """The devices of tests: the chosen device."""
    return [wp.get_device(chosen.device)]


def get_cuda_test_devices(mode: str | None = None) -> list[Any]:
    """The devices of tests of GPUs: none, or the chosen device."""
    return [device for device in get_test_devices() if device.is_cuda]


def get_cpu_test_devices(mode: str | None = None) -> list[Any]:
    """The devices of tests of CPUs: none, or the chosen device."""
    return [device for device in get_test_devices() if device.is_cpu]


get_test_devices_with_graph_capture_allocation = get_test_devices
get_test_devices_with_cuda_graph_module_load = get_test_devices
get_selected_cuda_test_devices = get_cuda_test_devices
get_cuda_test_devices_with_mempool = get_cuda_test_devices
get_selected_cuda_test_devices_with_mempool = get_cuda_test_devices


def assert_np_equal(result: Any, expect: Any, tol: float = 0.0) -> None:
    """Asserts that arrays are equal, or within an absolute tolerance; NaN equals NaN."""
    if tol:
        np.testing.assert_allclose(np.ravel(result), np.ravel(expect), atol=tol, equal_nan=True)
    else:
        np.testing.assert_array_equal(result, expect)


def assert_array_equal(result: Any, expect: Any) -> None:
    """Asserts that the elements of device arrays are equal."""
    np.testing.assert_equal(result.numpy(), expect.numpy())


class StdOutCapture:
    """Captures the standard output of the process, from Python and from kernels, between `begin` and `end`."""

    stream = "stdout"

    def begin(self) -> None:
        self.python = getattr(sys, self.stream)
        self.python.flush()
        number = self.python.fileno()
        self.saved_descriptor = os.dup(number)
        self.file, name = tempfile.mkstemp()
        os.unlink(name)
        os.dup2(self.file, number)

    def end(self) -> str:
        self.python.flush()
        os.dup2(self.saved_descriptor, self.python.fileno())
        os.close(self.saved_descriptor)
        with os.fdopen(self.file, errors="replace") as file:
            file.seek(0)
            return file.read()


class StdErrCapture(StdOutCapture):
    """Captures the standard error of the process between `begin` and `end`."""

    stream = "stderr"


class CheckOutput:
    """A `with` block that fails the test if it prints something."""

    def __init__(self, test: unittest.TestCase) -> None:
        self.test = test

    def __enter__(self) -> None:
        self.capture = StdOutCapture()
        self.capture.begin()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        wp.synchronize()
        printed = self.capture.end().strip()
        if printed:
            print(printed)
            if kind is None:
                self.test.fail(f"unexpected output: {printed!r}")


def add_function_test(
    cls: type[unittest.TestCase],
    name: str,
    func: Callable[..., Any],
    devices: Any = None,
    check_output: bool = True,
    device_check: Callable[..., Any] | None = None,
    enable_cpu_blocks: bool = False,
    **kwargs: Any,
) -> None:
    """Adds a method to a test case for each device; without devices, for none in particular."""
    if devices is None:
        setattr(cls, name, method(func, None, check_output, device_check, kwargs))
        return
    device_list = devices if isinstance(devices, list) else [devices]
    for device in device_list:
        result = method(func, device, check_output, device_check, kwargs)
        setattr(cls, f"{name}_{sanitize_identifier(device)}", result)
    if not device_list:
        setattr(cls, name, unittest.skip("no device")(lambda self: None))


def method(
    func: Callable[..., Any],
    device: Any,
    check_output: bool,
    device_check: Callable[..., Any] | None,
    kwargs: Mapping[str, Any],
) -> Callable[[unittest.TestCase], None]:
    """The method of a test case that calls a function for a device."""

    @functools.wraps(func)
    def test(self: unittest.TestCase) -> None:
        if device_check is not None:
            device_check(self, device)
        if check_output:
            with CheckOutput(self):
                func(self, device, **kwargs)
        else:
            func(self, device, **kwargs)

    return test


def add_function_test_register_kernel(
    cls: type[unittest.TestCase], name: str, func: Callable[..., Any], devices: Any = None, **kwargs: Any
) -> None:
    """Adds methods after a first call, with which the function defines its kernels."""
    func(None, None, **kwargs, register_kernels=True)
    add_function_test(cls, name, func, devices=devices, **kwargs)


def add_kernel_test(
    cls: type[unittest.TestCase],
    kernel: Any,
    dim: Any,
    name: str | None = None,
    expect: Any = None,
    inputs: Any = None,
    devices: Any = None,
    inputs_factory: Callable[[Any], Any] | None = None,
) -> None:
    """Adds methods that launch a kernel and compare its last argument with the expected values."""

    def launched(test: unittest.TestCase, device: Any) -> None:
        args = list((inputs_factory(device) if inputs_factory else inputs) or ())
        expected = wp.array(expect, dtype=int, device=device) if expect else None
        result = wp.zeros_like(expected) if expected is not None else None
        wp.launch(kernel, dim=dim, inputs=[*args, *([] if result is None else [result])], device=device)
        if expected is not None:
            assert_array_equal(result, expected)

    device_list = get_test_devices() if devices is None else devices
    add_function_test(cls, name or kernel.key, launched, devices=device_list)


def sanitize_identifier(name: Any) -> str:
    """The name of an object as a part of an identifier."""
    return re.sub(r"\W|^(?=\d)", "_", str(name))


def run_python_subprocess(
    source: str,
    *args: str,
    timeout: float = 60,
    hide_gpu: bool = False,
    env_updates: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program that imports the package in a separate process."""
    program = PRELUDE.format(tests=str(TESTS), root=str(chosen.root)) + source
    return subprocess.run(
        [sys.executable, "-u", "-c", program, *args],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env_updates or {})},
    )


def run_test_in_subprocess(test: unittest.TestCase, **options: Any) -> bool:
    """False: every test already has a separate process."""
    return False


def make_isolated_kernel(func: Callable[..., Any], **kwargs: Any) -> Any:
    """The kernel of a function, without the other kernels of its file."""
    return wp.Kernel(func=func, module=wp.get_module(f"{func.__module__}.{func.__qualname__}"), **kwargs)


def count_any_rejection() -> None:
    """Makes every error match the error that a test expects, whatever its class and text."""
    expect = unittest.TestCase.assertRaises

    def raises(self: unittest.TestCase, expected: Any, *args: Any, **kwargs: Any) -> Any:
        return expect(self, Exception, *args, **kwargs)

    def raises_words(self: unittest.TestCase, expected: Any, words: Any, *args: Any, **kwargs: Any) -> Any:
        return expect(self, Exception, *args, **kwargs)

    unittest.TestCase.assertRaises = raises
    unittest.TestCase.assertRaisesRegex = raises_words
