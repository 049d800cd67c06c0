"""The source of rings whose faults show after many iterations."""

from __future__ import annotations

FETCH = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, flags: tg.array1d[int]):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = {filled}
                tg.mbarrier_wait(empty, s, {room})
                tg.mbarrier_expect_bytes(full, s, N * 4)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)"""


RING = (
    FETCH
    + """
    with tg.ws(1):
        last = int(0)
        for k in range(n):
            s = {read}
            tg.mbarrier_wait(full, s, {phase})
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            if {fenced}:
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            last = flags[k]"""
)


CORRECT_PARTS = {
    "filled": "k % S",
    "room": "k // S & 1 ^ 1",
    "read": "k % S",
    "phase": "k // S & 1",
    "fenced": "n >= 0",
}
"""The parts of a correct ring."""


FAULTY_PARTS: dict[str, tuple[str, dict[str, str]]] = {
    "a phase that stays": ("phase", {"phase": "tg.min(k, 50) // S & 1"}),
    "a phase of the filling role that stays": ("phase", {"room": "tg.min(k, 50) // S & 1 ^ 1"}),
    "a stage that stays": ("phase", {"filled": "tg.min(k, 50) % S", "read": "tg.min(k, 50) % S"}),
    "a fence that is left out once": ("fence", {"fenced": "k != 50"}),
    "a fence that is left out at the end": ("fence", {"fenced": "n - k != 40"}),
    "a fence that is left out in the middle": ("fence", {"fenced": "k != m + 40"}),
    "a fence that is left out in long launches": ("fence", {"fenced": "n < 50"}),
    "a phase that turns in long launches": ("aliasing", {"phase": "(k // S & 1) ^ (n // 50)"}),
    "a phase that turns with a large argument": ("aliasing", {"phase": "(k // S & 1) ^ (m // 50)"}),
    "a phase that turns where an argument is large": ("aliasing", {"phase": "(k // S & 1) ^ int(m > 50)"}),
    "a stage that an argument moves": ("stage", {"read": "(k + m - 1) % S"}),
    "a stage that a large argument moves": ("deadlock", {"read": "(k + m // 50) % S"}),
    "a stage that the larger of two numbers moves": ("deadlock", {"read": "(k + tg.max(m, 50) - 50) % S"}),
    "a phase that turns slowly": ("phase", {"phase": "(k // S & 1) ^ (k >> 7 & 1)"}),
    "a phase that turns with two counters": ("phase", {"phase": "k // S + k // 64 & 1"}),
    "a phase that turns when a slow counter is large": (
        "phase",
        {"phase": "(k // S & 1) ^ int(k // 20 * 3 > 25)"},
    ),
    "a fence where two elements are alike": ("fence", {"fenced": "k == 0 or flags[k] == last"}),
    "a fence where an element is not 0": ("fence", {"fenced": "flags[k] != 0"}),
    "a fence where two numbers are large": ("fence", {"fenced": "n < 50 or m < 50"}),
    "stages of another cycle": ("phase", {"filled": "k % 63 % S", "read": "k % 63 % S"}),
}
"""The kind of fault, and the parts that differ from the correct ring."""


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
            if {fenced}:
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            s += 1
            {once}
                s = 0
                phase ^= 1
                wraps += 1"""
)
