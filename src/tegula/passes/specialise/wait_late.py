"""Waits for a loop's matmul of a converted tile one iteration late, so that it is overlapped with the conversion of the
next tile."""

from __future__ import annotations

from tegula.ir import Builder, Region
from tegula.ir.rewrite import replace, uses
from tegula.ops.control import For
from tegula.ops.linear import TileMatmul, TileMatmulWait
from tegula.ops.scalar import Const


def wait_late(body: Region) -> None:
    """Rewrite a loop's body in place if its only matmul adds to a sum that the loop carries for it alone."""
    loop = body.parent
    matmuls = [op for op in body.walk() if isinstance(op, TileMatmul)]
    if not isinstance(loop, For) or len(matmuls) != 1 or matmuls[0].parent is not body:
        return
    (matmul,) = matmuls
    sums = [one for one in loop.carried if one.arguments == (matmul.c,) and one.yielded == (matmul.result,)]
    users = uses(body)
    alone = sums and len(users[matmul.c]) == 1 and len(users[matmul.result]) == 1
    if not alone or not _adds(matmul):
        return
    matmul.wait = False
    made = Region()
    build = Builder(made, matmul.loc)
    types = [matmul.result.type]
    waited = build.insert(TileMatmulWait([matmul.result], types, {"pending": 1})).result
    at = body.ops.index(matmul) + 1
    _put(body, at, made)
    body.terminator.substitute({matmul.result: waited})
    assert loop.parent is not None
    region, result = loop.parent, sums[0].result
    tail = Region()
    done = Builder(tail, matmul.loc).insert(TileMatmulWait([result], types, {"pending": 0})).result
    done.name = result.name
    replace(region, {result: done})
    _put(region, region.ops.index(loop) + 1, tail)


def _adds(matmul: TileMatmul) -> bool:
    """Whether a matmul adds to its sum without scaling: alpha and beta are 1."""
    factors = (matmul.alpha, matmul.beta)
    return all(isinstance(v.owner, Const) and v.owner.value == 1 for v in factors)


def _put(region: Region, at: int, made: Region) -> None:
    for op in made.ops:
        op.parent = region
    region.ops[at:at] = made.ops
