"""The source of rings whose faults occur only after many iterations."""

from __future__ import annotations

FETCH = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, flags: tg.array1d[int]):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = {fill_stage}
                tg.mbarrier_wait(empty, s, {fill_phase})
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)"""


RING = (
    FETCH
    + """
    with tg.ws(1):
        last = int(0)
        for k in range(n):
            s = {read_stage}
            tg.mbarrier_wait(full, s, {read_phase})
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            if {fence_if}:
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            last = flags[k]"""
)


CORRECT_PARTS = {
    "fill_stage": "k % S",
    "fill_phase": "k // S & 1 ^ 1",
    "read_stage": "k % S",
    "read_phase": "k // S & 1",
    "fence_if": "n >= 0",
}
"""The expressions of a correct ring."""


FAULTY_PARTS: dict[str, tuple[str, dict[str, str]]] = {
    "a constant phase": ("phase", {"read_phase": "tg.min(k, 50) // S & 1"}),
    "a constant phase of the filling role": ("phase", {"fill_phase": "tg.min(k, 50) // S & 1 ^ 1"}),
    "a constant stage": ("phase", {"fill_stage": "tg.min(k, 50) % S", "read_stage": "tg.min(k, 50) % S"}),
    "a fence that is left out wrap_if": ("fence", {"fence_if": "k != 50"}),
    "a missing fence near the end": ("fence", {"fence_if": "n - k != 40"}),
    "a missing fence in the middle": ("fence", {"fence_if": "k != m + 40"}),
    "missing fences in long launches": ("fence", {"fence_if": "n < 50"}),
    "a phase flipped in long launches": ("aliasing", {"read_phase": "(k // S & 1) ^ (n // 50)"}),
    "a phase flipped by a large argument": ("aliasing", {"read_phase": "(k // S & 1) ^ (m // 50)"}),
    "a phase flipped if an argument is large": ("aliasing", {"read_phase": "(k // S & 1) ^ int(m > 50)"}),
    "a stage shifted by an argument": ("stage", {"read_stage": "(k + m - 1) % S"}),
    "a stage shifted by a large argument": ("deadlock", {"read_stage": "(k + m // 50) % S"}),
    "a stage shifted by a maximum": ("deadlock", {"read_stage": "(k + tg.max(m, 50) - 50) % S"}),
    "a phase flipped in long intervals": ("phase", {"read_phase": "(k // S & 1) ^ (k >> 7 & 1)"}),
    "a phase of two counters": ("phase", {"read_phase": "k // S + k // 64 & 1"}),
    "a phase flipped by a large quotient": (
        "phase",
        {"read_phase": "(k // S & 1) ^ int(k // 20 * 3 > 25)"},
    ),
    "a fence if two elements are equal": ("fence", {"fence_if": "k == 0 or flags[k] == last"}),
    "a fence if an element is not 0": ("fence", {"fence_if": "flags[k] != 0"}),
    "a fence unless two numbers are large": ("fence", {"fence_if": "n < 50 or m < 50"}),
    "stages with another period": ("phase", {"fill_stage": "k % 63 % S", "read_stage": "k % 63 % S"}),
}
"""The faults by name: the kind that the checker reports, and the expressions that differ from the correct ring."""


COUNTED = (
    FETCH
    + """
    with tg.ws(1):
        s = 0
        phase = 0
        wraps = 0
        for k in range(n):
            tg.mbarrier_wait(full, s, phase)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            if {fence_if}:
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            s += 1
            {wrap_if}
                s = 0
                phase ^= 1
                wraps += 1"""
)
