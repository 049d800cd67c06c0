"""Arguments that launches accept and refuse; the fast path and the slow path give the same results."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

import tegula as tg


@tg.kernel
def shifted(a: tg.array[float], out: tg.array[float], k: int, s: float, on: bool):
    i = tg.tid()
    if on:
        out[i] = a[i] * s + float(k)


@tg.kernel
def checked(a: tg.array[int], limit: int):
    i = tg.tid()
    assert a[i] < limit, "too large"


def launch_shifted(*args):
    a, out = tg.array([1.0, 2.0]), tg.zeros(2)
    tg.launch(shifted, 2, inputs=[a, out, *args])
    return out.list()


@pytest.mark.machine_code
@pytest.mark.parametrize("repetition", [False, True])
def test_numbers_are_accepted_if_no_digit_is_lost(repetition):
    assert launch_shifted(3, 2.0, True) == [5.0, 7.0]
    assert launch_shifted(3, 2, True) == [5.0, 7.0]
    assert launch_shifted(np.int8(3), np.float32(2), np.bool_(True)) == [5.0, 7.0]
    assert launch_shifted(3, 2.0, False) == [0.0, 0.0]
    assert launch_shifted(-(2**31), 0.0, True) == [-(2.0**31)] * 2
    assert all(map(math.isnan, launch_shifted(0, math.nan, True)))


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "args", [(2.0, 2.0, True), (True, 2.0, True), (3, True, True), (3, "x", True), (3, 2.0, 1), (2**31, 2.0, True),
             (3, 1e60, True), (3, None, True), (3, 2.0 + 1j, True)],
)  # fmt: skip
def test_numbers_that_do_not_fit_are_refused_before_and_after_a_launch(args):
    for _ in range(2):
        with pytest.raises(tg.LaunchError, match="expected"):
            launch_shifted(*args)
        launch_shifted(3, 2.0, True)


@pytest.mark.machine_code
def test_arrays_that_overlap_or_change_type_later_get_separate_forms():
    a = tg.array(np.arange(4, dtype=np.float32))
    out = tg.zeros(4)
    for _ in range(2):
        tg.launch(shifted, 4, inputs=[a, out, 1, 1.0, True])
    tg.launch(shifted, 4, inputs=[a, a, 1, 1.0, True])
    assert a.list() == out.list() == [1.0, 2.0, 3.0, 4.0]
    assert len(shifted.forms) > 1
    with pytest.raises(tg.LaunchError, match=r"expected array1d\[float32\], got array1d\[float64\]"):
        tg.launch(shifted, 4, inputs=[tg.zeros(4, dtype=tg.float64), out, 1, 1.0, True])
    with pytest.raises(tg.LaunchError, match="ndim 1"):
        tg.launch(shifted, 4, inputs=[tg.zeros((2, 2)), out, 1, 1.0, True])


@pytest.mark.machine_code
def test_read_only_memory_is_refused_only_for_written_parameters():
    read_only = np.ones(2, np.float32)
    read_only.flags.writeable = False
    a, out = tg.from_numpy(read_only), tg.zeros(2)
    for _ in range(2):
        tg.launch(shifted, 2, inputs=[a, out, 0, 1.0, True])
        tg.launch(shifted, 2, inputs=[out, tg.zeros(2), 0, 1.0, True])
        with pytest.raises(tg.LaunchError, match="read-only"):
            tg.launch(shifted, 2, inputs=[out, a, 0, 1.0, True])


@pytest.mark.machine_code
def test_the_next_launch_uses_a_changed_mode(monkeypatch):
    a = tg.zeros(2)
    tg.launch(shifted, 2, inputs=[a, tg.zeros(2), 0, 1.0, True])
    monkeypatch.setattr(tg.config, "mode", "debug")
    with pytest.raises(tg.OutOfBounds):
        tg.launch(shifted, 3, inputs=[a, tg.zeros(2), 0, 1.0, True])
    monkeypatch.setattr(tg.config, "mode", "release")
    tg.launch(shifted, 2, inputs=[a, tg.zeros(2), 0, 1.0, True])


# Reports --------------------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_a_failed_launch_is_reported_once():
    a = tg.array([1, 2, 3], dtype=int)
    for _ in range(3):
        with pytest.raises(tg.KernelAssertion, match="too large"):
            tg.launch(checked, 3, inputs=[a, 3])
        tg.launch(checked, 3, inputs=[a, 4])


@pytest.mark.machine_code
def test_threads_get_their_own_reports():
    failed: list[bool] = []

    def work(limit: int) -> None:
        for _ in range(50):
            try:
                tg.launch(checked, 3, inputs=[tg.array([1, 2, 3], dtype=int), limit])
            except tg.KernelAssertion:
                failed.append(True)
            else:
                failed.append(False)
            assert failed[-1] or limit == 4

    threads = [threading.Thread(target=work, args=(limit,)) for limit in (3, 4, 3, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(failed) == 100


@pytest.mark.machine_code
def test_a_report_may_launch(monkeypatch):
    """A user's print function may launch a kernel with reports of its own."""
    lines: list[str] = []

    class Out:
        def write(self, text: str) -> None:
            if text.strip():
                lines.append(text)
                with pytest.raises(tg.KernelAssertion):
                    tg.launch(checked, 1, inputs=[tg.array([9], dtype=int), 1])

        def flush(self) -> None:
            pass

    @tg.kernel
    def printed(a: tg.array[int]):
        i = tg.tid()
        print(a[i])

    monkeypatch.setattr("sys.stdout", Out())
    tg.launch(printed, 2, inputs=[tg.array([5, 6], dtype=int)])
    assert lines == ["5", "6"]


# Refusals -------------------------------------------------------------------------------------------------------------

BAD_ARRAYS = {
    "objects": np.array([object()] * 20),
    "complex": np.zeros(20, np.complex64),
    "strings": np.array(["a"] * 20),
    "big-endian": np.zeros(20, ">f4"),
    "five dimensions": np.zeros((2,) * 5, np.float32),
    "dates": np.zeros(20, "datetime64[s]"),
    "records": np.zeros(20, [("x", "f4")]),
    "a list": [1.0, 2.0],
}


@pytest.mark.parametrize("value", BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_values_that_are_not_arrays_are_refused(value):
    with pytest.raises(tg.LaunchError, match="kernel shifted: argument 'a'"):
        tg.launch(shifted, 2, inputs=[value, tg.zeros(2), 0, 1.0, True])


@tg.kernel
def generic(a, out: tg.array[float]):
    out[0] = 1.0


UNTYPED = {name: bad for name, bad in BAD_ARRAYS.items() if name != "complex"}
BAD_VALUES = {**UNTYPED, "a complex number": 1j, "a string": "x", "a NumPy complex number": np.complex64(1),
              "a small complex array": np.zeros(2, np.complex64), "small big-endian": np.zeros(2, ">f4")}  # fmt: skip


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES)
def test_values_without_a_type_are_refused_without_an_annotation(value):
    with pytest.raises(tg.LaunchError, match="kernel generic: argument 'a'"):
        tg.launch(generic, 1, inputs=[value, tg.zeros(2)])


@tg.kernel
def vectors(v: tg.vec3, out: tg.array[float]):
    out[0] = v[0]


@pytest.mark.parametrize(
    "value", ["x", None, 1.0, [1.0, 2.0], [1.0, "x", 2.0], [1j, 0, 0], object(), [[1], [1, 2]]]
)
def test_values_that_are_not_vectors_are_refused(value):
    with pytest.raises(tg.LaunchError, match="kernel vectors: argument 'v'"):
        tg.launch(vectors, 1, inputs=[value, tg.zeros(2)])


@pytest.mark.parametrize("inputs", [None, 3, "ab", np.zeros(3), tg.zeros(3)])
def test_inputs_that_are_not_a_list_are_refused(inputs):
    with pytest.raises(tg.LaunchError, match="inputs must be a list of arguments"):
        tg.launch(shifted, 2, inputs=inputs)
    with pytest.raises(tg.LaunchError, match="outputs must be a list of arguments"):
        tg.launch_tiled(shifted, 2, outputs=inputs, block_dim=32)


@pytest.mark.machine_code
def test_launches_take_any_other_sequence_for_inputs():
    out = tg.zeros(2)
    args = [tg.zeros(2), out, 1, 1.0, True]
    tg.launch(shifted, 2, inputs=tuple(args))
    tg.launch(shifted, 2, inputs=iter(args))
    assert out.list() == [1.0, 1.0]


@pytest.mark.machine_code
@pytest.mark.parametrize("dim", [2, 2.0, [2], (2,), np.array([2]), np.int64(2), np.array(2)])
def test_launches_take_dimensions_of_every_kind(dim):
    out = tg.zeros(3)
    tg.launch(shifted, dim, inputs=[tg.zeros(3), out, 1, 1.0, True])
    assert out.list() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "dim", [None, "2", [[2]], np.array([[2]]), 2.5, object(), [{}], math.nan, math.inf, 1j, -1]
)
def test_launch_dimensions_that_are_not_whole_are_refused(dim):
    with pytest.raises(tg.LaunchError, match="launch"):
        tg.launch(shifted, dim, inputs=[tg.zeros(3), tg.zeros(3), 1, 1.0, True])
    with pytest.raises(tg.LaunchError, match="launch"):
        tg.launch_tiled(shifted, dim, inputs=[tg.zeros(3), tg.zeros(3), 1, 1.0, True], block_dim=32)


@pytest.mark.parametrize("block_dim", [0, 1025, 2.0, "x", True])
def test_block_sizes_that_do_not_fit_are_refused(block_dim):
    for launch in (tg.launch, tg.launch_tiled):
        with pytest.raises(tg.LaunchError, match="block_dim"):
            launch(shifted, 2, inputs=[tg.zeros(3), tg.zeros(3), 1, 1.0, True], block_dim=block_dim)


@pytest.mark.parametrize("device", ["tpu", "cuda:99", 3, object()])
def test_an_absent_device_is_refused(device):
    for use in (
        lambda: tg.launch(shifted, 2, device=device),
        lambda: tg.launch_tiled(shifted, 2, device=device, block_dim=32),
        lambda: tg.zeros(3, device=device),
        lambda: tg.get_device(device),
        lambda: tg.set_device(device),
    ):
        with pytest.raises(tg.LaunchError, match="there is no device"):
            use()


def test_a_kernel_cannot_be_called():
    with pytest.raises(tg.LaunchError, match="shifted is a kernel and cannot be called"):
        shifted(1, 2)


@tg.kernel
def double_vectors(v: tg.array[tg.vec3]):
    i = tg.tid()
    v[i] = v[i] * 2.0


@pytest.mark.machine_code
def test_vectors_of_another_type_are_refused_not_copied():
    single, double = np.ones((2, 3), np.float32), np.ones((2, 3), np.float64)
    tg.launch(double_vectors, 2, inputs=[single])
    assert (single == 2.0).all()
    with pytest.raises(tg.LaunchError, match="another type"):
        tg.launch(double_vectors, 2, inputs=[double])


@tg.kernel
def misspelt(a: tg.array[float]):
    tg.tile_store(a, tg.tile_zeros(tg.float32, (4,)))


def test_a_refused_kernel_shows_no_functions_of_the_compiler():
    with pytest.raises(tg.CompileError) as refused:
        tg.launch_tiled(misspelt, 1, inputs=[tg.zeros(4)], block_dim=4)
    assert [entry.name for entry in refused.traceback[1:]] == ["launch_tiled", "_run"]
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("args", [(), (3.0,), (np.zeros(4, np.int32),)])
def test_refused_arguments_show_no_functions_of_the_launch(args):
    with pytest.raises(tg.LaunchError) as refused:
        tg.launch_tiled(misspelt, 1, inputs=args, block_dim=4)
    assert [entry.name for entry in refused.traceback[1:]] == ["launch_tiled", "_run"]


@tg.kernel
def misspelt_in_a_role(a: tg.array[float]):
    with tg.role("store", warps=1):
        tg.tile_store(a, tg.tile_zeros(tg.float32, (4,)))


def test_a_refused_kernel_with_roles_shows_no_functions_of_the_compiler():
    with pytest.raises(tg.CompileError) as refused:
        tg.launch_tiled(misspelt_in_a_role, 1, inputs=[tg.zeros(4)])
    assert [entry.name for entry in refused.traceback[1:]] == ["launch_tiled", "block_size"]
    assert refused.value.__cause__ is None
