"""A loop's matmul of a converted tile is waited for one iteration late: the conversion of the next tile is overlapped
with it."""

from __future__ import annotations

from tegula.ir import Builder, Region
from tegula.ir.rewrite import replace, uses
from tegula.ops.control import For
from tegula.ops.linear import TileMatmul, TileMatmulWait
from tegula.ops.scalar import Const


def wait_late(body: Region) -> None:
    """Rewrite a loop's body in place if its only matmul adds to a sum that the loop carries for it alone."""
    loop = body.parent
    products = [op for op in body.walk() if isinstance(op, TileMatmul)]
    if not isinstance(loop, For) or len(products) != 1 or products[0].parent is not body:
        return
    (product,) = products
    sums = [one for one in loop.carried if one.arguments == (product.c,) and one.yielded == (product.result,)]
    users = uses(body)
    alone = sums and len(users[product.c]) == 1 and len(users[product.result]) == 1
    if not alone or not _adds(product):
        return
    product.wait = False
    made = Region()
    build = Builder(made, product.loc)
    types = [product.result.type]
    waited = build.insert(TileMatmulWait([product.result], types, {"pending": 1})).result
    at = body.ops.index(product) + 1
    _put(body, at, made)
    body.terminator.substitute({product.result: waited})
    assert loop.parent is not None
    region, result = loop.parent, sums[0].result
    behind = Region()
    done = Builder(behind, product.loc).insert(TileMatmulWait([result], types, {"pending": 0})).result
    done.name = result.name
    replace(region, {result: done})
    _put(region, region.ops.index(loop) + 1, behind)


def _adds(product: TileMatmul) -> bool:
    """Whether a matmul adds to its sum as it is."""
    factors = (product.alpha, product.beta)
    return all(isinstance(v.owner, Const) and v.owner.value == 1 for v in factors)


def _put(region: Region, at: int, made: Region) -> None:
    for op in made.ops:
        op.parent = region
    region.ops[at:at] = made.ops
