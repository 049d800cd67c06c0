"""What print writes: separators, ends, and tiles among other values."""

from __future__ import annotations

from typing import Any

import pytest
from agreement import interpret, traced

import tegula as tg
from tegula.ops.debug import PrintTile


@tg.kernel
def spaced(n: int):
    print("n", n, sep="=", end=";\n")
    print(1, 2.5, sep="")
    print()


@tg.kernel
def joined(n: int):
    print("n is", end=" ")
    print(n)
    print("more", end="")


@tg.kernel
def tiles(n: int):
    i, j = tg.tid()
    t = tg.tile_arange(3, dtype=int)
    print("tile", t, j + n, "end")


@tg.kernel
def twice(n: int):
    for k in range(n):
        print(k, tg.tile_full(2, k))


@tg.kernel
def shapes(a: tg.array2d[float]):
    print(a.shape, (1, "x"))


@pytest.mark.parametrize(
    ("kernel", "lines"),
    [
        (spaced, ["n=2;", "12.5", ""]),
        (joined, ["n is 2", "more"]),
        (tiles, ["tile [0, 1, 2] 2 end"]),
        (twice, ["0 [0, 0]", "1 [1, 1]"]),
    ],
)
def test_lines(kernel: Any, lines: list[str]) -> None:
    dims = (1, 1) if kernel is not tiles else (1, 4)
    assert interpret(kernel, [2], dims, dims[1]) == lines


def test_tuples() -> None:
    assert interpret(shapes, [tg.zeros((3, 5), device="cpu")], (1,), 1) == ["(3, 5) (1, x)"]


def test_separators(capsys: pytest.CaptureFixture[str]) -> None:
    tg.launch(spaced, dim=1, inputs=[2], block_dim=1)
    tg.synchronize()
    assert capsys.readouterr().out == "n=2;\n12.5\n\n"


def test_a_line_with_a_tile_is_one_op() -> None:
    (op,) = (op for op in traced(tiles, [2], (1, 4), 4).walk() if isinstance(op, PrintTile))
    assert op.attrs["parts"] == ("tile", " ", None, " ", None, " ", "end") and op.attrs["elements"] == (1,)


@pytest.mark.parametrize("call", ["print(n, file=None)", "print(n, sep=n)"])
def test_other_keywords_are_refused(call: str) -> None:
    source = f"def kernel(n: int):\n    {call}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(source, space)
    with pytest.raises(tg.CompileError):
        tg.launch(tg.kernel(source=source)(space["kernel"]), dim=1, inputs=[2])


@tg.kernel
def vectors(n: int):
    print(tg.vec3(1.0, 0.1, 2.0), tg.float16(0.1), n > 1)


@pytest.mark.parametrize("kernel", [spaced, joined, tiles, twice, vectors])
def test_devices_print_what_the_interpreter_prints(kernel: Any, capsys: pytest.CaptureFixture[str]) -> None:
    dims = (1, 1) if kernel is not tiles else (1, 4)
    lines = interpret(kernel, [2], dims, dims[1])
    tg.launch(kernel, dims, inputs=[2], block_dim=dims[1])
    tg.synchronize()
    assert capsys.readouterr().out.rstrip("\n").split("\n") == "\n".join(lines).rstrip("\n").split("\n")
