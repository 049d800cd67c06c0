"""Python's garbage collection is paused while kernels are compiled."""

import gc
from collections.abc import Iterator

import pytest

import tegula as tg
from tegula.runtime.collection import paused_collection


@pytest.fixture(autouse=True)
def enabled_collection() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_nested_pauses_end_with_the_outer_pause() -> None:
    with paused_collection():
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collection_that_was_disabled_stays_disabled() -> None:
    gc.disable()
    with paused_collection():
        pass
    assert not gc.isenabled()


def test_the_collection_is_paused_in_a_compile_and_enabled_after_its_error() -> None:
    states: list[bool] = []

    def state() -> int:
        states.append(gc.isenabled())
        return 1

    @tg.kernel
    def refused(a: tg.array1d[float]):
        a[tg.tid()] = a[tg.static(state())] + tg.vec3(1.0)

    with pytest.raises(tg.CompileError):
        tg.launch(refused, dim=1, inputs=[tg.zeros(1)])
    assert states == [False]
    assert gc.isenabled()
