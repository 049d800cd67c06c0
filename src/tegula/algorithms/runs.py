"""Run-length encoding: runs of equal elements."""

from __future__ import annotations

import tegula as tg
from tegula.algorithms.packed import check_dtype, check_same_device, packed
from tegula.algorithms.scan import scan
from tegula.errors import LaunchError
from tegula.runtime.array import array


@tg.kernel
def mark_begins(values, begins: tg.array2d[tg.int32]):
    """Mark the elements that begin a run."""
    i = tg.tid()
    begins[i, 0] = 1
    if i > 0 and values[i] == values[i - 1]:
        begins[i, 0] = 0


@tg.kernel
def write_runs(
    values,
    begins: tg.array2d[tg.int32],
    run_numbers: tg.array2d[tg.int32],
    run_values,
    positions: tg.array[tg.int32],
    run_count: tg.array[tg.int32],
):
    """Write the value and the position of each run, and the number of runs."""
    i = tg.tid()
    if begins[i, 0] == 1:
        run_values[run_numbers[i, 0] - 1] = values[i]
        positions[run_numbers[i, 0] - 1] = i
    if i == values.shape[0] - 1:
        run_count[0] = run_numbers[i, 0]
        positions[run_numbers[i, 0]] = i + 1


@tg.kernel
def write_lengths(positions: tg.array[tg.int32], run_count: tg.array[tg.int32], lengths: tg.array[tg.int32]):
    """Write the lengths of runs."""
    i = tg.tid()
    if i < run_count[0]:
        lengths[i] = positions[i + 1] - positions[i]


def runlength_encode(
    values: array,
    run_values: array,
    run_lengths: array,
    run_count: array | None = None,
    value_count: int | None = None,
) -> int | array:
    """Writes the value and the length of each run of equal elements of an array.

    Parameters:
        values: an array of numbers, of one dimension.
        run_values: an array of the same dtype, with at least as many elements as there are values.
        run_lengths: an array of int32 with at least as many elements.
        run_count: an array of int32 for the number of runs; by default the call waits for the kernels and returns the
            number.
        value_count: the number of leading values to read; all by default.
    Returns:
        `run_count` if it is given, else the number of runs as an int.
    Raises:
        launch: the dtypes or devices differ, or an array is too small.
    """
    function = "runlength_encode"
    check_same_device(function, values, run_values=run_values, run_lengths=run_lengths, run_count=run_count)
    check_dtype(function, "run_values", run_values, values.dtype)
    check_dtype(function, "run_lengths", run_lengths, tg.int32)
    count = values.size if value_count is None else value_count
    if not 0 <= count <= min(values.size, run_values.size, run_lengths.size):
        raise LaunchError(
            f"{function}: count is {count}, but the arrays have {values.size} values, "
            f"{run_values.size} run values and {run_lengths.size} run lengths"
        )
    count_array = tg.zeros(1, tg.int32, values.device) if run_count is None else run_count
    check_dtype(function, "run_count", count_array, tg.int32)
    if count:
        first = packed(values)[:count]
        begins, run_numbers = (tg.empty((count, 1), tg.int32, values.device) for _ in range(2))
        positions = tg.empty(count + 1, tg.int32, values.device)
        tg.launch(mark_begins, count, [first], [begins])
        scan(begins, run_numbers, inclusive=True)
        tg.launch(write_runs, count, [first, begins, run_numbers], [run_values, positions, count_array])
        tg.launch(write_lengths, count, [positions, count_array], [run_lengths])
    else:
        count_array.zero_()
    return int(count_array.numpy()[0]) if run_count is None else count_array
