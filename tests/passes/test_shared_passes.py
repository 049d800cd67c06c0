"""The passes that every target shares, on IR text."""

from __future__ import annotations

import pytest

from tegula.errors import InternalError
from tegula.ir import Kernel
from tegula.passes import pipeline
from tegula.passes.contract_fma import contract_fma
from tegula.passes.promote_buffers import promote_buffers
from tegula.passes.simplify import simplify
from tegula.passes.split_lanes import split_lanes
from tegula.passes.uniformity import analyse
from tegula.text import parse_kernel
from tegula.verify import verify

HEAD = """kernel "k" {
  launch [block_dim = 8, last_is_block = true, ndim = 1, partial = false, uniform = (false,)]
  param "a" %0.a: array<float32,1> [aliases = (), align = 64, contiguous = true, dense = true]
  param "x" %1.x: float32
  param "y" %2.y: float32
  %3: int32 = const [type = int32, value = 0]
"""


def kernel(*lines: str) -> Kernel:
    made = parse_kernel(HEAD + "".join(f"  {line}\n" for line in (*lines, "yield")) + "}\n")
    verify(made)
    return made


def names(k: Kernel) -> list[str]:
    """The ops of the kernel in order, without constants and ends of regions."""
    return [op.NAME for op in k.walk() if op.NAME not in ("const", "yield")]


def test_a_changed_register_tile_becomes_values():
    k = kernel(
        "%4: tile<float32,[8]> = tile.full %1 [shape = (8,)]",
        '%5.t: buf<float32,[8],register> = buf.new %4 [storage = "register"]',
        "%6: tile<float32,[8]> = tile.full %2 [shape = (8,)]",
        "buf.write %5, %6",
        "%7: tile<float32,[8]> = buf.read %5",
        "tile.store %0, %7, %3 [aligned = false, bounds_check = true]",
    )
    promote_buffers(k)
    verify(k)
    stored = next(op for op in k.walk() if op.NAME == "tile.store")
    assert not any(name.startswith("buf.") for name in names(k))
    assert stored.operands[1].owner.operands[0] is k.params[2]


def test_a_tile_with_a_changed_view_stays_an_object():
    k = kernel(
        "%4: tile<float32,[8]> = tile.full %1 [shape = (8,)]",
        '%5.t: buf<float32,[8],shared> = buf.new %4 [storage = "shared"]',
        "buf.set %5, %2, %3",
        "%6: tile<float32,[8]> = buf.read %5",
        "tile.store %0, %6, %3 [aligned = false, bounds_check = true]",
    )
    promote_buffers(k)
    assert [n for n in names(k) if n.startswith("buf.")] == ["buf.new", "buf.set", "buf.read"]


def test_constants_are_folded_and_equal_ops_merged():
    k = kernel(
        "%4: float32 = const [type = float32, value = 2.0]",
        "%5: float32 = add %4, %4",
        "%6: float32 = mul %1, %5",
        "%7: float32 = mul %1, %5",
        "%8: float32 = sub %6, %7",
        "array.store %0, %8, %3",
    )
    simplify(k)
    verify(k)
    assert names(k) == ["mul", "sub", "array.store"]
    product = next(op for op in k.walk() if op.NAME == "mul")
    assert product.operands[1].owner.attrs["value"] == 4.0


def test_reads_are_not_merged_across_a_write():
    k = kernel(
        "%4: float32 = array.load %0, %3",
        "array.store %0, %1, %3",
        "%5: float32 = array.load %0, %3",
        "%6: float32 = add %4, %5",
        "array.store %0, %6, %3",
    )
    simplify(k)
    assert names(k) == ["array.load", "array.store", "array.load", "add", "array.store"]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["%5: float32 = add %4, %2"], ["fma"]),
        (["%5: float32 = sub %4, %2"], ["neg", "fma"]),
        (["%5: float32 = add %4, %4"], ["mul", "add"]),
    ],
)
def test_a_product_without_other_uses_is_fused(lines: list[str], found: list[str]):
    k = kernel("%4: float32 = mul %1, %2", *lines, "array.store %0, %5, %3")
    contract_fma(k)
    verify(k)
    assert names(k) == [*found, "array.store"]


TILE = "tile<float32,[8]>"


def tile_map(n: int, op: str, *operands: str) -> str:
    """Tile %n: an op of two operands, element by element. The numbers after n are those of its region."""
    types = ", ".join(f"%{n + 1 + k}: float32" for k in range(2))
    body = f"    %{n + 3}: float32 = {op} %{n + 1}, %{n + 2}\n    yield %{n + 3}\n  "
    return f"%{n}: {TILE} = tile.map {', '.join(operands)} ({types}) {{\n{body}}}"


LOADED = [
    "%4: float32 = const [type = float32, value = 0.0]",
    f"%5: {TILE} = tile.load %0, %4, %3 [aligned = false, bounds_check = true, shape = (8,)]",
]


@pytest.mark.parametrize(
    ("maps", "found"),
    [
        ([tile_map(10, "mul", "%5", "%1"), tile_map(20, "add", "%10", "%5")], [["fma"]]),
        ([tile_map(10, "mul", "%5", "%1"), tile_map(20, "sub", "%5", "%10")], [["neg", "fma"]]),
        ([tile_map(10, "mul", "%5", "%1"), tile_map(20, "add", "%10", "%10")], [["mul"], ["add"]]),
        ([tile_map(10, "add", "%5", "%1"), tile_map(20, "add", "%10", "%5")], [["add"], ["add"]]),
        (
            [
                tile_map(10, "mul", "%5", "%1"),
                tile_map(14, "mul", "%5", "%2"),
                tile_map(20, "add", "%10", "%14"),
            ],
            [["mul", "fma"]],
        ),
    ],
)
def test_a_tile_of_products_without_other_uses_is_fused(maps: list[str], found: list[list[str]]):
    store = "tile.store %0, %20, %3 [aligned = false, bounds_check = true]"
    k = kernel(*LOADED, *maps, store)
    contract_fma(k)
    verify(k)
    bodies = [op.regions[0].ops[:-1] for op in k.walk() if op.NAME == "tile.map"]
    assert [[op.NAME for op in body] for body in bodies] == found


def test_varying_code_between_cooperative_ops_is_gathered():
    k = kernel(
        "%4: int32 = tid [count = 1]",
        "%5: float32 = array.load %0, %4",
        "%6: float32 = mul %5, %1",
        "%7: tile<float32,[8]> = tile.from_lanes %6 [lanes = 8, partial = false, preserve_type = false]",
        "%8: float32 = tile.extract %7, %3",
        "array.store %0, %8, %4",
    )
    assert split_lanes(k, analyse(k)) == []
    verify(k)
    top = [op.NAME for op in k.body.ops if op.NAME not in ("const", "tid", "yield")]
    assert top == ["lanes", "tile.from_lanes", "tile.extract", "lanes"]


def prepared() -> tuple[list[str], list[str]]:
    """The passes that were seen to the end, and the notes of what ended them."""
    seen: list[str] = []
    try:
        made = kernel("%4: float32 = neg %1", "array.store %0, %4, %3")
        pipeline.prepare(made, observe=lambda name, _: seen.append(name))
    except InternalError as error:
        return seen, error.__notes__
    return seen, []


def test_the_pipeline_shows_each_pass_and_names_the_one_that_breaks_the_kernel(monkeypatch):
    def spoil(kernel: Kernel) -> None:
        kernel.body.ops.pop()

    whole, _ = prepared()
    monkeypatch.setattr(pipeline, "contract_fma", spoil)
    assert prepared() == (whole[: whole.index("contract_fma")], ["after pass spoil"])
