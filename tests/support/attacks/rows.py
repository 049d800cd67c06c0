"""The rows that attacks are sorted by: classes of correct schedules, obligations of a proof, and known kinds of faults.
Each attack is made for one row and may belong to others."""

from __future__ import annotations

CLASSES = (
    "sliding window", "data-dependent", "dynamic scheduler", "residue against division", "flattened against nested",
    "max against parts", "preconditions", "late release", "chained roles", "key change", "named barriers",
    "expert mbarriers", "clusters",
)  # fmt: skip
"""Classes of schedules: the agreement between their roles, and how it is established."""

OBLIGATIONS = {
    "O1": "stages and phases belong to the item",
    "O2": "each phase gets its arrivals, and the bytes that were announced",
    "O3": "each arrival that is waited for happens",
    "O4": "nobody is two phases ahead of one who waits",
    "O5": "stages are used between the waits and the arrivals of their items",
    "O6": "what threads use is fenced before copies and tensor cores use it",
    "O7": "sums and operands of matmuls rest until these are over",
    "O8": "nothing is on its way when a role ends",
}

CORPUS = {
    "corpus 1": "two roles announce at a barrier that counts one",
    "corpus 2": "warps without work are counted",
    "corpus 3": "registers that a block does not have, or not in one warp group",
    "corpus 4": "numbers of iterations: none, one, fewer than stages, no multiple",
    "corpus 5": "more copies on their way than stages",
    "corpus 6": "a phase that does not change",
    "corpus 7": "filled again while it is still read",
    "corpus 8": "released before the wait for the matmul, or one matmul too many in flight",
    "corpus 9": "other bytes than are announced",
    "corpus 10": "barriers that are used before all see them",
    "corpus 11": "no fence, in both directions",
    "corpus 12": "the source of a copy out is used before it has been read",
    "corpus 13": "a buffer for results in the bytes of an operand",
    "corpus 14": "a role ends while another one waits for it",
    "corpus 15": "items that threads write, and copies fill, on one ring",
    "corpus 16": "roles with other numbers of iterations",
    "corpus 17": "some of those who use an item do not wait for it",
    "corpus 18": "a role ends while its copies out read",
    "corpus 19": "two roles that take turns, of which one has none left",
    "corpus 20": "two buffers in the same bytes",
    "corpus 21": "a sum that is read before its wait, a fence in the wrong place",
    "corpus 22": "warp groups of one role that are counted, or synchronised, as if they were one",
    "corpus 23": "what all threads of a role must do together, in a branch of some",
    "corpus 24": "a role in the middle that releases what it still reads",
}

ROWS = (*CLASSES, *OBLIGATIONS, *CORPUS)
