"""A launch uses the values that captured names have at the time of the launch."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

OFFSET = 1.0
TABLE = np.array([1.0, 2.0], np.float32)
LIST = [1.0, 2.0]
settings = ModuleType("settings")
settings.LEVEL = 1.0  # type: ignore[attr-defined]


class Options:
    LEVEL = 1.0


@tg.func
def helper(x: float):
    return x + OFFSET


@tg.kernel
def capture_directly(out: tg.array[float]):
    out[0] = OFFSET


@tg.kernel
def capture_through_function(out: tg.array[float]):
    out[0] = helper(0.0)


@tg.kernel
def capture_table(out: tg.array[float]):
    v = TABLE
    out[0] = v[0]


@tg.kernel
def capture_list(out: tg.array[float]):
    out[0] = LIST[0]


@tg.kernel
def capture_module(out: tg.array[float]):
    out[0] = settings.LEVEL


@tg.kernel
def capture_class(out: tg.array[float]):
    out[0] = Options.LEVEL


@tg.kernel
def capture_static(out: tg.array[float]):
    out[0] = tg.static(OFFSET * 1.0)


def first_element(kernel):
    out = tg.zeros(1)
    tg.launch(kernel, 1, outputs=[out])
    return out.list()[0]


@pytest.mark.parametrize("kernel", [capture_directly, capture_through_function, capture_static])
def test_the_next_launch_uses_a_rebound_global(kernel, monkeypatch):
    assert [first_element(kernel), first_element(kernel)] == [1.0, 1.0]
    monkeypatch.setitem(globals(), "OFFSET", 2.5)
    assert [first_element(kernel), first_element(kernel)] == [2.5, 2.5]
    monkeypatch.setitem(globals(), "OFFSET", 1.0)
    assert first_element(kernel) == 1.0


def test_the_next_launch_uses_a_redefined_function(monkeypatch):
    assert first_element(capture_through_function) == 1.0

    @tg.func
    def replacement(x: float):
        return x - 7.0

    monkeypatch.setitem(globals(), "helper", replacement)
    assert first_element(capture_through_function) == -7.0


def test_the_next_launch_uses_a_changed_container():
    assert (first_element(capture_table), first_element(capture_list)) == (1.0, 1.0)
    TABLE[0] = LIST[0] = 3.0
    try:
        assert (first_element(capture_table), first_element(capture_list)) == (3.0, 3.0)
    finally:
        TABLE[0] = LIST[0] = 1.0
    assert (first_element(capture_table), first_element(capture_list)) == (1.0, 1.0)


@pytest.mark.parametrize(("kernel", "owner"), [(capture_module, settings), (capture_class, Options)])
def test_the_next_launch_uses_a_changed_attribute(kernel, owner, monkeypatch):
    assert first_element(kernel) == 1.0
    monkeypatch.setattr(owner, "LEVEL", -4.0)
    assert first_element(kernel) == -4.0


def test_the_next_launch_uses_a_changed_variable_of_the_enclosing_function():
    scale = 1.0

    @tg.kernel
    def scaled(out: tg.array[float]):
        out[0] = scale  # noqa: F821

    assert first_element(scaled) == 1.0
    scale = 2.0
    assert first_element(scaled) == 2.0
    del scale
    with pytest.raises(tg.CompileError, match="scale"):
        first_element(scaled)


def test_the_next_launch_uses_a_name_that_hides_a_builtin(monkeypatch):
    @tg.kernel
    def absolute(out: tg.array[float]):
        out[0] = abs(-1.0)

    @tg.func
    def replacement(x: float):
        return x * 5.0

    assert first_element(absolute) == 1.0
    monkeypatch.setitem(globals(), "abs", replacement)
    assert first_element(absolute) == -5.0


def test_a_changed_type_of_a_captured_number_is_compiled_again(monkeypatch):
    @tg.kernel
    def add_one(out: tg.array[float]):
        out[0] = OFFSET + 1.0

    monkeypatch.setitem(globals(), "OFFSET", 1.0)
    assert first_element(add_one) == 2.0
    monkeypatch.setitem(globals(), "OFFSET", 1)
    with pytest.raises(tg.CompileError, match="mixes"):
        first_element(add_one)


def test_a_captured_name_rebound_to_an_unusable_object_is_refused(monkeypatch):
    assert first_element(capture_directly) == 1.0
    monkeypatch.setitem(globals(), "OFFSET", SimpleNamespace())
    with pytest.raises(tg.CompileError, match="OFFSET"):
        first_element(capture_directly)


def test_an_equal_captured_number_compiles_no_kernel(monkeypatch):
    assert first_element(capture_directly) == 1.0
    forms = [f for compiled_form in capture_directly.forms.values() for f in compiled_form.compiled]
    monkeypatch.setitem(globals(), "OFFSET", float("1.0"))
    assert first_element(capture_directly) == 1.0
    assert [f for compiled_form in capture_directly.forms.values() for f in compiled_form.compiled] == forms
