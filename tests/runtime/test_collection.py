"""Python's garbage collection is paused while parts of the package are imported and kernels are compiled."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

import tegula as tg
from tegula.collection import paused_collection


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


IMPORTS = """
import gc
import numpy
states = []
gc.callbacks.append(lambda phase, info: states.append(phase))
gc.collect(0)
states.clear()
import tegula as tg
@tg.kernel
def ones(a: tg.array1d[float]):
    a[tg.tid()] = 1.0
a = tg.zeros(1)
tg.launch(ones, dim=1, inputs=[a])
assert 'tegula.codegen.kernel' in __import__('sys').modules
assert states.count('start') <= 10, states
"""


def test_the_collection_is_paused_while_parts_of_the_package_are_imported() -> None:
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)


GARBAGE_OF_A_PAUSE = """
import gc, weakref
from tegula.collection import paused_collection
class Node: pass
with paused_collection():
    node = Node()
    node.itself, alive = node, weakref.ref(node)
    del node
gc.collect(1)
assert alive() is not None
gc.collect()
assert alive() is None
gc.freeze()
frozen = gc.get_freeze_count()
with paused_collection():
    pass
assert gc.get_freeze_count() == frozen
"""


@pytest.mark.parametrize("frozen_at_start", [0, 375])
def test_objects_of_a_pause_are_in_the_oldest_generation(frozen_at_start: int) -> None:
    """Collections of young objects do not visit them, and a full collection frees the garbage among them. Objects that
    the program has frozen stay frozen; those that Python freezes at its start do not count."""
    count = (
        f"import gc\ncount = gc.get_freeze_count\ngc.get_freeze_count = lambda: count() + {frozen_at_start}"
    )
    subprocess.run([sys.executable, "-c", count + GARBAGE_OF_A_PAUSE], check=True)
