"""The rows by which attacks are classified: classes of correct schedules, obligations of a proof, and known kinds of
faults. Each attack is generated for one row and may belong to others."""

from __future__ import annotations

CLASSES = (
    "sliding window", "data-dependent", "dynamic scheduler", "residue against division", "flattened against nested",
    "max against parts", "preconditions", "late release", "chained roles", "key change", "named barriers",
    "expert mbarriers", "clusters",
)  # fmt: skip
"""Classes of schedules, by the reason for which their roles agree."""

OBLIGATIONS = {
    "O1": "stages and phases belong to the item",
    "O2": "each phase gets the expected arrivals and the announced bytes",
    "O3": "each awaited phase completes",
    "O4": "no role is two phases ahead of a waiting role",
    "O5": "stages are used between the waits and the arrivals of their items",
    "O6": "accesses of threads are fenced before accesses of copies and tensor cores",
    "O7": "accumulators and operands of matmuls are unchanged until the matmuls complete",
    "O8": "no operation is in flight when a role ends",
}

CORPUS = {
    "corpus 1": "two roles announce bytes at a barrier that expects one arrival",
    "corpus 2": "idle warps are counted",
    "corpus 3": "more registers than a block has, or different numbers in one warp group",
    "corpus 4": "trip counts: zero, one, fewer than stages, not a multiple of stages",
    "corpus 5": "more copies in flight than stages",
    "corpus 6": "a phase that does not change",
    "corpus 7": "a stage is refilled while a role reads it",
    "corpus 8": "a stage is released before the wait for the matmul, or one matmul too many is in flight",
    "corpus 9": "copies have other sizes than the announced bytes",
    "corpus 10": "barriers are used before their initialisation is visible",
    "corpus 11": "missing fences, in both directions",
    "corpus 12": "the source of a store is overwritten before the store has read it",
    "corpus 13": "a buffer for results shares memory with an operand",
    "corpus 14": "a role ends while another role waits for it",
    "corpus 15": "threads and copies fill items of one ring",
    "corpus 16": "roles with different trip counts",
    "corpus 17": "some users of an item do not wait for it",
    "corpus 18": "a role ends while its stores are in flight",
    "corpus 19": "two roles that alternate, one of which ends first",
    "corpus 20": "two buffers overlap",
    "corpus 21": "an accumulator is read before its wait; a misplaced fence",
    "corpus 22": "two warp groups of a role are counted or synchronised as one",
    "corpus 23": "an operation of all threads of a role in a divergent branch",
    "corpus 24": "a role in the middle releases a stage that it still reads",
}

ROWS = (*CLASSES, *OBLIGATIONS, *CORPUS)
