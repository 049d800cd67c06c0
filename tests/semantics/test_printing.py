"""The output of print: separators, ends, and tiles among other values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from agreement import interpret, traced

import tegula as tg
from tegula.codegen.sites import RECORD_HEADER, RECORD_SLOTS, Site
from tegula.ops.debug import PrintTile
from tegula.runtime.report import Reports
from tegula.source import UNKNOWN


@tg.kernel
def with_separators(n: int):
    print("n", n, sep="=", end=";\n")
    print(1, 2.5, sep="")
    print()


@tg.kernel
def with_ends(n: int):
    print("n is", end=" ")
    print(n)
    print("more", end="")


@tg.kernel
def tiles(n: int):
    i, j = tg.tid()
    t = tg.tile_arange(3, dtype=int)
    print("tile", t, j + n, "end")


@tg.kernel
def print_twice(n: int):
    for k in range(n):
        print(k, tg.tile_full(2, k))


@tg.kernel
def print_from_warps(n: int):
    """Threads of several warps print parts of each tile, without synchronisation between iterations."""
    i, j = tg.tid()
    for k in range(16 * n):
        print(k, tg.tile_arange(0, 80, dtype=int) + k)


@tg.kernel
def shapes(a: tg.array2d[float]):
    print(a.shape, (1, "x"))


@pytest.mark.parametrize(
    ("kernel", "lines"),
    [
        (with_separators, ["n=2;", "12.5", ""]),
        (with_ends, ["n is 2", "more"]),
        (tiles, ["tile [0, 1, 2] 2 end"]),
        (print_twice, ["0 [0, 0]", "1 [1, 1]"]),
    ],
)
def test_print_writes_one_line_per_call(kernel: Any, lines: list[str]) -> None:
    dims = (1, 1) if kernel is not tiles else (1, 4)
    assert interpret(kernel, [2], dims, dims[1]) == lines


def test_print_shows_tuples() -> None:
    assert interpret(shapes, [tg.zeros((3, 5), device="cpu")], (1,), 1) == ["(3, 5) (1, x)"]


def test_print_shows_parts_of_tiles_of_each_iteration(capsys: pytest.CaptureFixture[str]) -> None:
    """For a tile of two elements, one thread writes its three records before the other thread."""
    data = {"parts": (None,), "shapes": [[2]], "types": [tg.int32], "elements": (), "end": None}
    rows = np.zeros((6, RECORD_SLOTS), np.int64)
    rows[:, 3] = (0, 0, 1, 0, 1, 1)
    rows[:, RECORD_HEADER] = (10, 20, 11, 30, 21, 31)
    compiled: Any = SimpleNamespace(sites=[Site("tile", UNKNOWN, data)])
    Reports(compiled, len(rows), rows).deliver()
    assert capsys.readouterr().out.splitlines() == ["[10, 11]", "[20, 21]", "[30, 31]"]


@pytest.mark.machine_code
def test_print_accepts_separators_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    tg.launch(with_separators, dim=1, inputs=[2], block_dim=1)
    tg.synchronize()
    assert capsys.readouterr().out == "n=2;\n12.5\n\n"


def test_a_print_with_a_tile_is_one_op() -> None:
    (op,) = (op for op in traced(tiles, [2], (1, 4), 4).walk() if isinstance(op, PrintTile))
    assert op.attrs["parts"] == ("tile", " ", None, " ", None, " ", "end") and op.attrs["elements"] == (1,)


@pytest.mark.parametrize("call", ["print(n, file=None)", "print(n, sep=n)"])
def test_other_keywords_of_print_are_refused(call: str) -> None:
    source = f"def kernel(n: int):\n    {call}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(source, space)
    with pytest.raises(tg.CompileError):
        tg.launch(tg.kernel(source=source)(space["kernel"]), dim=1, inputs=[2])


@tg.kernel
def vectors(n: int):
    print(tg.vec3(1.0, 0.1, 2.0), tg.float16(0.1), n > 1)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "kernel", [with_separators, with_ends, tiles, print_twice, print_from_warps, vectors]
)
def test_devices_print_as_the_interpreter(kernel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    dims = (1, {tiles: 4, print_from_warps: 128}.get(kernel, 1))
    lines = interpret(kernel, [2], dims, dims[1])
    tg.launch(kernel, dims, inputs=[2], block_dim=dims[1])
    tg.synchronize()
    assert capsys.readouterr().out.rstrip("\n").split("\n") == "\n".join(lines).rstrip("\n").split("\n")
