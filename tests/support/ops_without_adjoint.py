"""Ops that adjoints never contain."""

from __future__ import annotations

WITHOUT = {
    *("and", "or", "xor", "not", "shl", "shr", "mod", "cmp", "classify"),
    *("never_above", "reciprocal", "tid", "array.shape"),
    *("yield", "if", "for", "while", "unreplayable"),
    *(
        "tile.empty",
        "array.view",
        "buf.view",
        "buf.reshape",
        "print",
        "print.tile",
        "assert",
        "barrier",
        "breakpoint",
        "lane.fence",
        "structure.load",
        "structure.table",
        "structure.add",
    ),
    *(
        "stack.new",
        "stack.clear",
        "stack.count",
        "lane.index",
        "lane.count",
        "target.is_gpu",
        "block.index",
        "block.count",
        "block.place",
    ),
    *(
        "logical_blocks",
        "lanes",
        "bit_count",
        "clz",
        "brev",
        "vec.bits",
        "table.get",
        "lane.ballot",
        "lane.match",
    ),
}
"""Ops whose results have no gradient, and ops that the pass handles itself."""


LOWERED = (
    *("group.", "pipe.", "roles", "mbarrier.", "bulk.", "fence.", "cluster."),
    *("tile.address", "tile.load_in_lanes", "tile.store_in_lanes", "tile.matmul_in_lanes"),
)
"""Ops that are created after differentiation, and ops of roles, which are refused as a whole."""
