"""Ops that are never differentiated."""

from __future__ import annotations

OPS_WITHOUT_ADJOINT = {
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
        "block.coordinate",
    ),
    *(
        "logical_blocks",
        "lanes",
        "bit_count",
        "clz",
        "brev",
        "permute_bytes",
        "dot_bytes",
        "vec.unset",
        "vec.bits",
        "table.get",
        "lane.ballot",
        "lane.match",
    ),
}
"""Ops whose results have no gradient, and ops that the gradient pass handles itself."""


LOWERED_PREFIXES = (
    *("group.", "pipe.", "roles", "mbarrier.", "bulk.", "fence.", "cluster.", "array.transpose"),
    *("tile.address", "tile.load_in_lanes", "tile.store_in_lanes", "tile.matmul_in_lanes"),
)
"""Prefixes of ops that passes create after differentiation, and of ops of roles, which are differentiated together."""
