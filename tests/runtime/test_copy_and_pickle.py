"""copy, deepcopy, pickle and `==` of types, arrays, kernels and functions."""

import copy
import pickle
import subprocess
import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.types import DTYPES, NAMED_ELEMENTS, MatType, VecType, element_shape, scalar_of, to_numpy

pytestmark = pytest.mark.cpu

TYPES = [*DTYPES.values(), *NAMED_ELEMENTS.values(), VecType(7, tg.float16), MatType(2, 5, tg.int8)]


@tg.kernel
def doubled(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i] = twice(x[i])


@tg.func
def twice(x: float):
    return x * 2.0


class Holder:
    @tg.kernel
    def inside(x: tg.array1d[float]):
        x[tg.tid()] = 1.0


def copy_functions() -> list[Any]:
    pickled = [lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    return [copy.copy, copy.deepcopy, *pickled]


def test_copied_and_pickled_types_are_equal() -> None:
    for t, copy_function in product(TYPES, copy_functions()):
        copied = copy_function(t)
        assert (
            copied == t and hash(copied) == hash(t) and (copied is t or not isinstance(t, type(tg.float32)))
        )
        assert scalar_of(copied) is scalar_of(t)


def test_copies_of_devices_are_the_devices() -> None:
    for copy_function in copy_functions():
        assert copy_function(tg.get_device("cpu")) is tg.get_device("cpu")


@pytest.mark.parametrize("object", [doubled, twice, Holder.inside], ids=lambda x: x.name)
def test_copies_of_kernels_and_functions_are_the_originals(object: Any) -> None:
    for copy_function in copy_functions():
        assert copy_function(object) is object
        assert copy_function({"k": [object]})["k"][0] is object


def test_local_objects_are_not_pickled() -> None:
    @tg.kernel
    def local(x: tg.array1d[float]):
        x[0] = 1.0

    assert copy.deepcopy(local) is local
    with pytest.raises(pickle.PicklingError, match="define the object at the top level of a module"):
        pickle.dumps(local)


def arrays() -> list[tg.array]:
    results = [tg.array(np.ones((2, 3, *element_shape(t)), to_numpy(scalar_of(t))), dtype=t) for t in TYPES]
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    return [
        *results,
        tg.array(base)[::2, 1::3],
        tg.array(base.T, copy=False),
        tg.zeros((0, 3)),
        tg.array(5),
    ]


def test_copied_and_pickled_arrays_are_equal() -> None:
    for a, copy_function in product(arrays()[::4], copy_functions()[1::2]):
        copied = copy_function(a)
        assert (copied.shape, copied.dtype, copied.device) == (a.shape, a.dtype, a.device)
        np.testing.assert_array_equal(copied.numpy().astype(float), a.numpy().astype(float))
        assert not copied.size or not np.shares_memory(copied.numpy(), a.numpy())


@pytest.mark.parametrize("is_filled", [False, True])
def test_deepcopy_copies_gradients_and_pickle_clears_them(is_filled: bool) -> None:
    """deepcopy copies the gradient; a pickled array has no gradient yet, but requires one."""
    a = tg.ones(3, requires_grad=True)
    if is_filled:
        a.grad.fill_(7)
    deep, pickled = copy.deepcopy(a), pickle.loads(pickle.dumps(a))
    assert deep.requires_grad and pickled.requires_grad
    assert deep.grad.numpy().tolist() == [7.0 * is_filled] * 3 and pickled.grad.numpy().tolist() == [0.0] * 3
    deep.grad.fill_(1)
    assert a.grad.numpy().tolist() == [7.0 * is_filled] * 3
    pair = copy.deepcopy([a, a])
    assert pair[0] is pair[1]


@pytest.mark.slow
def test_another_process_unpickles_kernels_and_arrays(tmp_path: Any) -> None:
    (tmp_path / "kernels.py").write_text(
        "import tegula as tg\n\n@tg.kernel\ndef fill(x: tg.array1d[float]):\n    x[tg.tid()] = 3.0\n"
    )
    writer = (
        "import pickle, sys, kernels, tegula as tg\n"
        "sys.stdout.buffer.write(pickle.dumps((kernels.fill, tg.zeros(4))))"
    )
    reader = (
        "import pickle, sys, tegula as tg; k, x = pickle.load(sys.stdin.buffer)\n"
        "tg.launch(k, dim=4, inputs=[x]); print(x.numpy().tolist())"
    )
    written = subprocess.run([sys.executable, "-c", writer], cwd=tmp_path, capture_output=True, check=True)
    run = subprocess.run(
        [sys.executable, "-c", reader], input=written.stdout, cwd=tmp_path, capture_output=True, check=True
    )
    assert run.stdout.strip() == b"[3.0, 3.0, 3.0, 3.0]"


@pytest.mark.parametrize(
    "other", [0, 1.0, True, [0.0], (0.0,), np.zeros(1), np.float32(0), "an array"], ids=repr
)
def test_comparisons_of_arrays_are_refused(other: Any) -> None:
    a, other = tg.zeros(1), tg.zeros(1) if isinstance(other, str) else other
    for compare in (lambda: a == other, lambda: a != other, lambda: bool(a == other)):
        with pytest.raises(tg.TegulaError, match=r"a.numpy\(\) == b.numpy\(\)"):
            compare()


def test_arrays_are_keys_of_dictionaries() -> None:
    keys = [tg.zeros(1) for _ in range(2000)]
    numbers = {a: k for k, a in enumerate(keys)}
    assert [numbers[a] for a in keys] == list(range(2000))
    assert tg.zeros(1) not in numbers and keys[0] == keys[0] and (keys[0] != keys[0]) is False
    assert (keys[0] == None) is False and keys[0] != "x" and keys[0] in keys[:1]  # noqa: E711
