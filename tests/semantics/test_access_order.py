"""Accesses of different lanes are independent only if this is proved for all lanes, iterations and views; otherwise
they are ordered by a synchronisation of the lanes, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, traced

import tegula as tg
from tegula.ir import Kernel
from tegula.passes.pipeline import for_cpu, prepare

LANES, SIZE = 32, 80


def kernel(body: str) -> Any:
    """A kernel over `s`, a shared tile of 0 to 79, and `v`, its rows of 8 elements; `u` differs between lanes, `n` is
    uniform."""
    lines = "\n".join("    " + line for line in body.splitlines())
    text = (
        "def k(o: tg.array[int], a: tg.array[int], n: int):\n    i, t = tg.tid()\n    u = a[t]\n"
        f"    s = tg.tile_load(o, shape={SIZE}, storage='shared')\n    v = tg.tile_reshape(s, (10, 8))\n"
        f"{lines}\n    tg.tile_store(o, s)\n"
    )
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    return tg.kernel(source=text)(space["k"])


def arguments() -> list[Any]:
    return [tg.array(np.arange(SIZE, dtype=np.int32)), tg.array(np.arange(LANES, dtype=np.int32) % 5), 2]


def prepared_kernel(body: str) -> Kernel:
    kernel_ir = traced(kernel(body), arguments(), (1, LANES), LANES)
    prepare(kernel_ir)
    for_cpu(kernel_ir)
    return kernel_ir


REFUSED = {
    "a distance that differs between lanes": "if t < u:\n    s[t] = t\n    o[t] = s[t + u]",
    "a bound that differs between lanes": ("q = t // 2 + 4\nif t < q:\n    s[t] = t\n    o[t] = s[t + q]"),
    "a window whose offset is the loop index": (
        "if t < 8:\n    for q in range(2):\n        w = tg.tile_view(s, offset=q, shape=40)\n        w[t] = w[t] + q"
    ),
    "a window of each lane": (
        "if t < 8:\n    w = tg.tile_view(s, offset=8 - t, shape=40)\n    w[t] = t\n    o[t] = w[t]"
    ),
    "distinct elements of windows of each lane": (
        "if t < 8:\n    w = tg.tile_view(s, offset=t, shape=40)\n    w[0] = t\n    o[t] = w[1]"
    ),
    "updates that do not commute": "if t < 5:\n    s[0] |= t\n    s[0] -= 1",
    "a guard of another iteration": (
        "if t < 20:\n    k = 16\n    while k > 0:\n        if t < k:\n            x = s[t + k]\n"
        "            s[t] = s[t] + x\n        k //= 2"
    ),
    "one access in two iterations": "for r in range(t // 16 + 2):\n    s[t + r] = r",
    "one access in two iterations of a while": "k = u\nwhile k > 0:\n    s[t + k] = k\n    k -= 1",
    "a stride with overlapping starts": (
        "if t < 30:\n    for r in range(2):\n        for k in range(t + r, 64, 32):\n            s[k] = r"
    ),
    "a reversed view": "if t < 30:\n    w = s[::-1]\n    w[t] = 1\n    o[t] = s[t + 50]",
    "a view indexed by the loop": (
        "if t < 8:\n    for q in range(2):\n        w = v[q]\n        w[t] = q\n        o[t] = v[1, 7 - t]"
    ),
    "rows that two lanes share": "if t < 30:\n    w = v[t // 8]\n    w[t % 4] = 1\n    o[t] = w[t % 8]",
    "a view of each lane": "if t < 8:\n    w = v[u]\n    w[t] = 1\n    o[t] = w[7 - t]",
    "a swap by both lanes": "q = t ^ 1\nif t < 30:\n    x = s[t]\n    s[q] = x",
    "a swap over several distances": (
        "if t < 16:\n    for k in range(1, 3):\n        q = t ^ k\n        if q > t:\n            s[q] = s[t]"
    ),
    "a sum that wraps": "if t < 8:\n    s[(t + n) % 16] = 1\n    o[t] = s[t]",
}

INDEPENDENT = {
    "mirrored halves": "if t < 16:\n    x = s[t]\n    s[t] = s[31 - t]\n    s[31 - t] = x",
    "a stride of the number of lanes": (
        "for k in range(t, 70, 32):\n    for r in range(2):\n        s[k] = s[k] * 2 + r"
    ),
    "row and column of the lane": "if t < 30:\n    v[t // 8, t % 8] = 3\n    o[t] = v[t // 8, t % 8]",
    "a row of each lane": "if t < 8:\n    w = v[t]\n    for q in range(8):\n        w[q] = w[7 - q] + q",
    "even and odd": "if t < 30:\n    s[2 * t] = 1\n    o[t] = s[2 * t + 1]",
    "compare and swap": (
        "k = 4\nwhile k > 0:\n    q = t ^ k\n    if q > t:\n        x = s[t]\n        y = s[q]\n        if x < y:\n"
        "            s[t] = y\n            s[q] = x\n    k //= 2"
    ),
    "one lane": "if t == n:\n    for q in range(8):\n        s[q + 1] = s[q] + s[0]",
    "conflicts in one iteration only": "for r in range(u):\n    s[r] = 7",
    "from the end": "if t < 9:\n    s[t - 1] = s[t - 1] + 1",
    "a tree reduction with a dynamic extent": (
        "k = n * 8\nwhile k > 0:\n    if t < k:\n        s[t] += s[t + k]\n    k //= 2"
    ),
}


@pytest.mark.cpu
@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_possible_conflicts_without_synchronisation_are_refused(body: str) -> None:
    with pytest.raises(tg.CompileError) as raised:
        prepared_kernel(body)
    assert {e.CODE for e in getattr(raised.value, "errors", [raised.value])} == {"unordered-access"}


@pytest.mark.cpu
@pytest.mark.parametrize("body", INDEPENDENT.values(), ids=INDEPENDENT.keys())
def test_disjoint_accesses_are_accepted(body: str) -> None:
    prepared_kernel(body)


@pytest.mark.cpu
def test_an_access_that_conflicts_with_itself_is_refused() -> None:
    with pytest.raises(tg.CompileError, match="the other access is this one, in another iteration"):
        prepared_kernel(REFUSED["one access in two iterations"])


CONFLICTING_ACCESSES = """for r in range(2):
    for k in range(t + r, 33, 32):
        s[k] = s[k] * 10 + r
w = s[::-1]
for r in range(2):
    p = tg.tile_view(s, offset=r, shape=32)
    p[t] = p[t] * 2 + r
if t < 32:
    w[t] = 7 + t
x = 0
if t < 32:
    x = s[t + 32]
s[t] = t * 2
y = s[t + u]
s[t + 40] = x + y
s[0] |= t
s[0] -= 1"""


@pytest.mark.machine_code
def test_conflicting_accesses_are_synchronised() -> None:
    s, t = np.arange(SIZE), np.arange(LANES)
    u = t % 5
    for r in range(2):
        for k in range(r, 33 + (r == 0)):
            if k < 33:
                s[k] = s[k] * 10 + r
    for r in range(2):
        s[r : r + LANES] = s[r : r + LANES] * 2 + r
    s[::-1][:LANES] = 7 + t
    x = s[32:64].copy()
    s[t] = t * 2
    s[t + 40] = x + s[t + u]
    s[0] = np.bitwise_or.reduce([s[0], *t]) - LANES
    actual, _ = agree(kernel(CONFLICTING_ACCESSES), arguments(), 1, LANES, tiled=True)
    np.testing.assert_array_equal(actual, s)
