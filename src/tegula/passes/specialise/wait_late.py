"""A loop's product of a converted tile is waited for one round late: the next tile is converted beside it."""

from __future__ import annotations

from tegula.ir import Builder, Region
from tegula.ops.control import For, Yield
from tegula.ops.linear import TileMatmul, TileMatmulWait
from tegula.ops.scalar import Const
from tegula.rewrite import replace, uses


def wait_late(body: Region) -> None:
    """Rewrite a loop's body in place if its only product adds to a sum that the loop carries for it alone."""
    loop = body.parent
    products = [op for op in body.walk() if isinstance(op, TileMatmul)]
    if not isinstance(loop, For) or len(products) != 1 or products[0].parent is not body:
        return
    (product,) = products
    users, sum = uses(body), product.operands[2]
    last = body.terminator
    alone = sum in body.args[1:] and users[sum] == [(product, 2)]
    if not alone or users[product.result] != [(last, body.args.index(sum) - 1)] or not _adds(product):
        return
    product.attrs["wait"] = False
    made = Region()
    build = Builder(made, product.loc)
    types = [product.result.type]
    waited = build.insert(TileMatmulWait([product.result], types, {"pending": 1})).result
    at = body.ops.index(product) + 1
    _put(body, at, made)
    last.operands = [waited if v is product.result else v for v in last.operands]
    assert isinstance(last, Yield) and loop.parent is not None
    region, result = loop.parent, loop.results[body.args.index(sum) - 1]
    behind = Region()
    done = Builder(behind, product.loc).insert(TileMatmulWait([result], types, {"pending": 0})).result
    done.name = result.name
    replace(region, {result: done})
    assert done.owner is not None
    done.owner.operands = [result]  # type: ignore[union-attr]
    _put(region, region.ops.index(loop) + 1, behind)


def _adds(product: TileMatmul) -> bool:
    """Whether a product adds to its sum as it is."""
    factors = [v.owner for v in product.operands[3:5]]
    return all(isinstance(o, Const) and o.attrs["value"] == 1 for o in factors)


def _put(region: Region, at: int, made: Region) -> None:
    for op in made.ops:
        op.parent = region
    region.ops[at:at] = made.ops
