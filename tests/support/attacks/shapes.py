"""Correct programs of shapes that generated rings do not cover; {S} is the number of stages."""

from __future__ import annotations

ROWS = 'tg.tile_empty(shape=({S}, 1, 32), dtype=float, storage="shared")'
PANELS = 'tg.tile_empty(shape=({S}, 64, 64), dtype=tg.bfloat16, storage="shared")'
FETCH = """\
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % {S}
                tg.mbarrier_wait(empty, s, k // {S} + 1)
                tg.mbarrier_expect_bytes(full, s, 128)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
"""
BARS = "    full, empty = tg.mbarrier(1, stages={S}), tg.mbarrier(4, stages={S})\n"
HEAD = f"def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):\n    ring = {ROWS}\n"
OPERANDS = """\
def kernel(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], out: tg.array2d[float], n: int, m: int):
"""

SHAPES: dict[str, str] = {
    "every second item is read": f"""\
{HEAD}{BARS}{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            if k % 2 == 1:
                tg.tile_store(out, ring[s], offset=(k, 0))
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
""",
    "more stages of barriers than of the ring": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=4), tg.mbarrier(4, stages=4)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                if k >= 2:
                    tg.mbarrier_wait(empty, (k - 2) % 4, (k - 2) // 4)
                tg.mbarrier_expect_bytes(full, k % 4, 128)
                tg.tile_load_async(x, ring[k % 2], (k, 0), full, k % 4)
    with tg.ws(1):
        for k in range(n):
            tg.mbarrier_wait(full, k % 4, k // 4)
            tg.tile_store(out, ring[k % 2], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, k % 4)
""",
    "one stage, barriers of two": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(1, 32), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                tg.mbarrier_wait(empty, k % 2, k // 2)
                tg.mbarrier_expect_bytes(full, k % 2, 128)
                tg.tile_load_async(x, ring, (k, 0), full, k % 2)
    with tg.ws(1):
        if n > 0:
            tg.mbarrier_arrive(empty, 0)
        for k in range(n):
            if k % 2 == 0:
                tg.mbarrier_wait(full, 0, k // 2)
                if k + 1 < n:
                    tg.mbarrier_arrive(empty, 1)
            else:
                tg.mbarrier_wait(full, 1, k // 2)
                tg.tile_store(out, ring, offset=(k, 0))
                tg.fence_async()
                if k + 1 < n:
                    tg.mbarrier_arrive(empty, 0)
""",
    "stored in place, copied out": f"""\
{HEAD}{BARS}{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            ring[s] = ring[s] * 3.0
            tg.fence_async()
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(pending=1, read=True)
            if k > 0:
                tg.mbarrier_arrive(empty, (k - 1) % {{S}})
        tg.store_wait(read=True)
""",
    "stored in place, copied out before the next": f"""\
{HEAD}{BARS}{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            ring[s] = ring[s] * 3.0
            tg.fence_async()
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(read=True)
            ring[s] = ring[s] + 1.0
            tg.tile_store(out, ring[s], offset=(n + k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
""",
    "overwritten in place, copied out": f"""\
{HEAD}{BARS}{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            ring[s] = tg.tile_load(x, shape=(1, 32), offset=(k, 0)) * 3.0
            tg.fence_async()
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(read=True)
            tg.mbarrier_arrive(empty, s)
""",
    "staged out": f"""\
{HEAD}{BARS}\
    staged = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.store_wait(pending=1, read=True)
            staged[k % 2] = ring[s] * 2.0
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            tg.tile_store_async(out, staged[k % 2], (k, 0))
            tg.store_commit()
        tg.store_wait(read=True)
""",
    "filled and read by one role, copied out": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    rows = tg.tile_pipe(shape=(1, 32), dtype=float, stages=2)
    ring = tg.tile_empty(shape=({S}, 1, 32), dtype=float, storage="shared")
    full, empty = tg.mbarrier(4, stages={S}), tg.mbarrier(4, stages={S})
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(rows, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            s = k % {S}
            row = tg.tile_pipe_pop(rows)
            tg.mbarrier_wait(empty, s, k // {S} + 1)
            ring[s] = row * 3.0
            tg.fence_async()
            tg.mbarrier_arrive(full, s)
            tg.mbarrier_wait(full, s, k // {S})
            tg.tile_store_async(out, ring[s], (k, 0))
            tg.store_commit()
            tg.store_wait(pending=1, read=True)
            if k > 0:
                tg.mbarrier_arrive(empty, (k - 1) % {S})
        tg.store_wait(read=True)
""",
    "a role fills an operand of its own matmuls": f"""\
{OPERANDS}    left = {PANELS}
    own = {PANELS}
    full, empty = tg.mbarrier(1, stages={{S}}), tg.mbarrier(4, stages={{S}})
    loaded, free = tg.mbarrier(4, stages={{S}}), tg.mbarrier(4, stages={{S}})
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % {{S}}
                tg.mbarrier_wait(empty, s, k // {{S}} + 1)
                tg.mbarrier_expect_bytes(full, s, 8192)
                tg.tile_load_async(a, left[s], (0, k * 64), full, s)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(free, s, k // {{S}} + 1)
            own[s] = tg.tile_load(b, shape=(64, 64), offset=(k * 64, 0))
            tg.fence_async()
            tg.mbarrier_arrive(loaded, s)
            tg.mbarrier_wait(loaded, s, k // {{S}})
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.tile_matmul(left[s], own[s], total)
            tg.mbarrier_arrive(empty, s)
            tg.mbarrier_arrive(free, s)
        tg.tile_store(out, total, offset=(0, 0))
""",
    "matmuls, then all synchronise, then one arrives": f"""\
{OPERANDS}    left = {PANELS}
    right = {PANELS}
    full, empty = tg.mbarrier(1, stages={{S}}), tg.mbarrier(1, stages={{S}})
    own = tg.named_barrier(warps=4)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % {{S}}
                tg.mbarrier_wait(empty, s, k // {{S}} + 1)
                tg.mbarrier_expect_bytes(full, s, 16384)
                tg.tile_load_async(a, left[s], (0, k * 64), full, s)
                tg.tile_load_async(b, right[s], (k * 64, 0), full, s)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.tile_matmul(left[s], right[s], total, wait=False)
            tg.tile_matmul_wait(pending=0)
            tg.named_barrier_sync(own)
            if tg.elect():
                tg.mbarrier_arrive(empty, s)
        tg.tile_store(out, total, offset=(0, 0))
""",
    "two warp groups fill an operand of their own": f"""\
{OPERANDS}    left = tg.tile_empty(shape=({{S}}, 128, 64), dtype=tg.bfloat16, storage="shared")
    own = {PANELS}
    full, empty = tg.mbarrier(1, stages={{S}}), tg.mbarrier(8, stages={{S}})
    loaded = tg.mbarrier(8, stages={{S}})
    with tg.role("fetch", warps=4):
        if tg.elect():
            for k in range(n):
                s = k % {{S}}
                tg.mbarrier_wait(empty, s, k // {{S}} + 1)
                tg.mbarrier_expect_bytes(full, s, 16384)
                tg.tile_load_async(a, left[s], (0, k * 64), full, s)
    with tg.ws(1, 2):
        total = tg.tile_zeros(shape=(128, 64), dtype=tg.float32)
        for k in range(n):
            s = k % {{S}}
            own[s] = tg.tile_load(b, shape=(64, 64), offset=(k * 64, 0))
            tg.fence_async()
            tg.mbarrier_arrive(loaded, s)
            tg.mbarrier_wait(loaded, s, k // {{S}})
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.tile_matmul(left[s], own[s], total)
            tg.mbarrier_arrive(empty, s)
        tg.tile_store(out, total, offset=(0, 0))
""",
    "synchronised, then one arrives": f"""\
{HEAD}\
    full, empty = tg.mbarrier(1, stages={{S}}), tg.mbarrier(1, stages={{S}})
    own = tg.named_barrier(warps=4)
{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.tile_store(out, ring[s], offset=(k, 0))
            tg.fence_async()
            tg.named_barrier_sync(own)
            if tg.elect():
                tg.mbarrier_arrive(empty, s)
""",
    "one waits, then all synchronise": f"""\
{HEAD}{BARS}\
    own = tg.named_barrier(warps=4)
{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            if tg.elect():
                tg.mbarrier_wait(full, s, k // {{S}})
            tg.named_barrier_sync(own)
            tg.tile_store(out, ring[s], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
""",
    "a chain": f"""\
{HEAD}{BARS}\
    other = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    ready, used = tg.mbarrier(4, stages=2), tg.mbarrier(4, stages=2)
{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.mbarrier_wait(used, k % 2, k // 2 + 1)
            other[k % 2] = ring[s] * 2.0
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            tg.mbarrier_arrive(ready, k % 2)
    with tg.ws(2):
        for k in range(n):
            tg.mbarrier_wait(ready, k % 2, k // 2)
            tg.tile_store(out, other[k % 2], offset=(k, 0))
            tg.mbarrier_arrive(used, k % 2)
""",
    "a ring of three roles": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=({S}, 1, 32), dtype=float, storage="shared")
    one, two, three = tg.mbarrier(1, stages={S}), tg.mbarrier(4, stages={S}), tg.mbarrier(1, stages={S})
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                tg.mbarrier_wait(three, k % {S}, k // {S} + 1)
                tg.mbarrier_expect_bytes(one, k % {S}, 128)
                tg.tile_load_async(x, ring[k % {S}], (k, 0), one, k % {S})
    with tg.ws(1):
        for k in range(n):
            tg.mbarrier_wait(one, k % {S}, k // {S})
            ring[k % {S}] = ring[k % {S}] * 2.0
            tg.fence_async()
            tg.mbarrier_arrive(two, k % {S})
    with tg.role("out", warps=1):
        for k in range(n):
            tg.mbarrier_wait(two, k % {S}, k // {S})
            tg.tile_store_async(out, ring[k % {S}], (k, 0))
            tg.store_commit()
            tg.store_wait(pending=0, read=True)
            tg.mbarrier_arrive(three, k % {S})
""",
    "ping-pong": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(1, 32), dtype=float, storage="shared")
    one, two = tg.named_barrier(warps=8), tg.named_barrier(warps=8)
    with tg.ws(0):
        for k in range(n):
            tg.named_barrier_sync(one)
            ring[:, :] = tg.tile_load(x, shape=(1, 32), offset=(2 * k, 0)) * 3.0
            tg.tile_store(out, ring, offset=(2 * k, 0))
            tg.named_barrier_arrive(two)
        tg.named_barrier_sync(one)
    with tg.ws(1):
        tg.named_barrier_arrive(one)
        for k in range(n):
            tg.named_barrier_sync(two)
            ring[:, :] = tg.tile_load(x, shape=(1, 32), offset=(2 * k + 1, 0)) * 3.0
            tg.tile_store(out, ring, offset=(2 * k + 1, 0))
            tg.named_barrier_arrive(one)
""",
    "ping-pong at mbarriers": """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    ring = tg.tile_empty(shape=(1, 32), dtype=float, storage="shared")
    one, two = tg.mbarrier(4), tg.mbarrier(4)
    with tg.ws(0):
        for k in range(n):
            tg.mbarrier_wait(one, 0, k + 1)
            ring[:, :] = tg.tile_load(x, shape=(1, 32), offset=(2 * k, 0)) * 3.0
            tg.tile_store(out, ring, offset=(2 * k, 0))
            tg.mbarrier_arrive(two)
    with tg.ws(1):
        for k in range(n):
            tg.mbarrier_wait(two, 0, k)
            ring[:, :] = tg.tile_load(x, shape=(1, 32), offset=(2 * k + 1, 0)) * 3.0
            tg.tile_store(out, ring, offset=(2 * k + 1, 0))
            tg.mbarrier_arrive(one)
""",
    "ping-pong of matmuls": f"""\
{OPERANDS}    left = {PANELS}
    right = {PANELS}
    full, empty = tg.mbarrier(1, stages={{S}}), tg.mbarrier(4, stages={{S}})
    one, two = tg.named_barrier(warps=8), tg.named_barrier(warps=8)
    with tg.ws(0):
        if tg.elect():
            for k in range(2 * n):
                s = k % {{S}}
                tg.mbarrier_wait(empty, s, k // {{S}} + 1)
                tg.mbarrier_expect_bytes(full, s, 16384)
                tg.tile_load_async(a, left[s], (0, k * 64), full, s)
                tg.tile_load_async(b, right[s], (k * 64, 0), full, s)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
        for k in range(n):
            tg.named_barrier_sync(one)
            s = 2 * k % {{S}}
            tg.mbarrier_wait(full, s, 2 * k // {{S}})
            tg.tile_matmul(left[s], right[s], total)
            tg.mbarrier_arrive(empty, s)
            tg.named_barrier_arrive(two)
        tg.named_barrier_sync(one)
        tg.tile_store(out, total, offset=(0, 0))
    with tg.ws(2):
        total = tg.tile_zeros(shape=(64, 64), dtype=tg.float32)
        tg.named_barrier_arrive(one)
        for k in range(n):
            tg.named_barrier_sync(two)
            s = (2 * k + 1) % {{S}}
            tg.mbarrier_wait(full, s, (2 * k + 1) // {{S}})
            tg.tile_matmul(left[s], right[s], total)
            tg.mbarrier_arrive(empty, s)
            tg.named_barrier_arrive(one)
        tg.tile_store(out, total, offset=(64, 0))
""",
    "stage and parity are carried": f"""\
{HEAD}{BARS}\
    with tg.ws(0):
        s = int(0)
        phase = int(1)
        for k in range(n):
            tg.mbarrier_wait(empty, s, phase)
            if tg.elect():
                tg.mbarrier_expect_bytes(full, s, 128)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
            s += 1
            if s == {{S}}:
                s = 0
                phase ^= 1
    with tg.ws(1):
        s = int(0)
        phase = int(0)
        for k in range(n):
            tg.mbarrier_wait(full, s, phase)
            tg.tile_store(out, ring[s], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
            s += 1
            if s == {{S}}:
                s = 0
                phase ^= 1
""",
    "two rings at one pair of barriers": f"""\
{HEAD}{BARS}\
    other = {ROWS}
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % {{S}}
                tg.mbarrier_wait(empty, s, k // {{S}} + 1)
                tg.mbarrier_expect_bytes(full, s, 256)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
                tg.tile_load_async(x, other[s], (k + 1, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.tile_store(out, ring[s] + other[s], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
""",
    "one of two readers skips": f"""\
{HEAD}\
    full, empty = tg.mbarrier(1, stages={{S}}), tg.mbarrier(8, stages={{S}})
{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.tile_store(out, ring[s], offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
    with tg.ws(2):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            if k % 3 == 0:
                tg.tile_store(out, ring[s] * 2.0, offset=(n + k, 0))
                tg.fence_async()
            tg.mbarrier_arrive(empty, s)
""",
    "fetched ahead by one role": f"""\
{HEAD}\
    full = tg.mbarrier(1, stages={{S}})
    with tg.role("all", warps=1):
        for k in range(tg.min({{S}}, n)):
            tg.mbarrier_expect_bytes(full, k, 128)
            tg.tile_load_async(x, ring[k], (k, 0), full, k)
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            tg.tile_store(out, ring[s], offset=(k, 0))
            if k + {{S}} < n:
                tg.fence_async()
                tg.mbarrier_expect_bytes(full, s, 128)
                tg.tile_load_async(x, ring[s], (k + {{S}}, 0), full, s)
    with tg.role("idle", warps=1):
        pass
""",
    "staged out in turn": f"""\
{HEAD}{BARS}\
    staged = tg.tile_empty(shape=(2, 1, 32), dtype=float, storage="shared")
    own = tg.named_barrier(warps=4)
{FETCH}\
    with tg.ws(1):
        for k in range(n):
            s = k % {{S}}
            tg.mbarrier_wait(full, s, k // {{S}})
            if tg.elect():
                tg.store_wait(pending=1, read=True)
            tg.named_barrier_sync(own)
            staged[k % 2] = ring[s] * 2.0
            tg.fence_async()
            tg.named_barrier_sync(own)
            tg.mbarrier_arrive(empty, s)
            if tg.elect():
                tg.tile_store_async(out, staged[k % 2], (k, 0))
                tg.store_commit()
        if tg.elect():
            tg.store_wait(read=True)
""",
}  # fmt: skip
MIN_TWO_STAGES = {
    "stored in place, copied out",
    "filled and read by one role, copied out",
    "two warp groups fill an operand of their own",
}
"""The shapes that are correct only with at least two stages."""
UNPROVED = {
    "stored in place, copied out",
    "ping-pong of matmuls",
}
"""The correct shapes that the checker does not prove."""
