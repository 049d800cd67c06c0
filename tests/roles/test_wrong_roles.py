"""Invalid roles and pipes: the code and the central words of each error."""

from __future__ import annotations

from typing import Any

import agreement
import pytest

import tegula as tg

pytestmark = pytest.mark.cpu
HEAD = """def kernel(x: tg.array2d[float]):
    at = 0
    vector = tg.vec3(1.0, 2.0, 3.0)
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
"""
ONES = "tg.tile_store(x, tg.tile_ones(shape=(8, 8)))"

HEADS = [
    ("tg.ws(-1)", "role-groups", "numbers of warp groups"),
    ("tg.ws('a')", "role-groups", "numbers of warp groups"),
    ("tg.ws()", "role-groups", "numbers of warp groups"),
    ("tg.ws(True)", "role-groups", "numbers of warp groups"),
    ("tg.ws(x[0, 0])", "role-groups", "numbers of warp groups"),
    ("tg.ws(8)", "role-groups", "no warp group 8"),
    ("tg.ws(1, 1)", "role-groups", "warp group 1 is named twice"),
    ("tg.ws(0, 2)", "role-groups", "must be consecutive"),
    ("tg.ws(0, warps=2)", "wrong-arguments", "no parameter 'warps'"),
    ("tg.ws(0, registers='x')", "role-registers", "got 'x'"),
    ("tg.ws(0, registers=16)", "role-registers", "got 16"),
    ("tg.ws(0, registers=264)", "role-registers", "got 264"),
    ("tg.role('a')", "wrong-arguments", "a name and either"),
    ("tg.role(warps=1)", "wrong-arguments", "a name and either"),
    ("tg.role('a', warps=1, warp_groups=1)", "wrong-arguments", "a name and either"),
    ("tg.role('a', warps=0)", "role-groups", "positive"),
    ("tg.role('a', warps=33)", "role-groups", "need 9 warp groups"),
    ("tg.ws(0) as q", "unsupported-python", "several roles"),
    ("tg.ws(0), tg.ws(1)", "unsupported-python", "several roles"),
    ("x", "unsupported-python", "this 'with'"),
]

BODIES = [
    ("at += 1", "role-outer-name", "'at'"),
    ("vector.x = 2.0", "role-outer-name", "'vector'"),
    ("vector[1] = 2.0", "role-outer-name", "'vector'"),
    ("at: int = 3", "role-outer-name", "'at'"),
    ("for at in range(3):\n            pass", "role-outer-name", "'at'"),
    ("with tg.ws(1):\n            pass", "role-placement", "top level"),
    ("tg.tile_pipe_load(pipe, x, offset=(0,))", "type-mismatch", "one entry per dimension"),
    ("tg.tile_pipe_load(pipe, pipe)", "type-mismatch", "expected an array"),
    ("tg.tile_pipe_load(x, x)", "type-mismatch", "expected a tile pipe"),
    ("tg.tile_pipe_push(pipe, tg.tile_zeros(shape=(2, 8)))", "type-mismatch", "cannot be pushed"),
    ("tg.tile_pipe_release(pipe)", "pipe-ends", "never pops one"),
    ("tg.tile_matmul_wait(pending=9)", "out-of-range", "0 to 7"),
    ("tg.tile_matmul_wait(pending=at + 1 if x[0, 0] > 1.0 else 2)", "not-constant", "pending"),
    ("for i in tg.persistent_tiles(3):\n            pass", "wrong-arguments", "persistent_tiles takes"),
    ("for i, j in tg.persistent_tiles((3, 2), raster=0):\n            pass", "wrong-arguments", "raster"),
    ("y = tg.ws(1)", "unsupported-python", "write 'with tg.ws(...):'"),
    ("return 3", "type-mismatch", "returns no value"),
    (
        "if tg.group_lane() < 3:\n            tg.tile_store(x, tg.tile_pipe_pop(pipe))",
        "divergent-cooperative-op",
        "only some do",
    ),
    (
        "while tg.tile_sum(tg.tile_pipe_pop(pipe))[0] > 0.0:\n            x[0, 0] = 1.0",
        "pipe-balance",
        "the condition of this loop",
    ),
    (
        "total = tg.tile_zeros(shape=(8, 8))\n        tg.tile_matmul(total, total, wait=False)",
        "type-mismatch",
        "needs an accumulator tile",
    ),
    (
        "t = tg.tile_zeros(shape=(8, 8))\n        tg.tile_matmul(t, t, t, beta=0.0, wait=False)",
        "type-mismatch",
        "no alpha and no beta",
    ),
]


def failure(text: str) -> tg.CompileError:
    names: dict[str, Any] = {"tg": tg}
    exec(text, names)
    kernel = tg.kernel(source=text)(names["kernel"])
    with pytest.raises(tg.CompileError) as caught:
        tg.launch_tiled(kernel, dim=1, inputs=[tg.zeros((8, 8))])
    return caught.value


@pytest.mark.parametrize(("head", "code", "words"), HEADS)
def test_invalid_heads_of_roles_are_refused(head: str, code: str, words: str) -> None:
    error = failure(f"{HEAD}    with {head}:\n        {ONES}\n")
    assert code in agreement.codes(error) and words in str(error)


@pytest.mark.parametrize(("body", "code", "words"), BODIES)
def test_invalid_bodies_of_roles_are_refused(body: str, code: str, words: str) -> None:
    error = failure(f"{HEAD}    with tg.ws(0):\n        {body}\n")
    assert code in agreement.codes(error) and words in str(error)


@pytest.mark.parametrize("stages", ["0", "65", "at", "True", "x.shape[0]"])
def test_invalid_stage_counts_are_refused(stages: str) -> None:
    text = f"def kernel(x: tg.array2d[float]):\n    at = 0\n    p = tg.tile_pipe(shape=8, stages={stages})\n"
    error = failure(f"{text}    with tg.ws(0):\n        {ONES}\n")
    assert agreement.codes(error) <= {"type-mismatch", "out-of-range", "not-constant"} and "stages" in str(
        error
    )


def test_pipes_of_vectors_are_refused() -> None:
    text = "def kernel(x: tg.array2d[float]):\n    p = tg.tile_pipe(shape=8, dtype=tg.vec3, stages=2)\n"
    assert "tiles of scalars" in str(failure(f"{text}    with tg.ws(0):\n        {ONES}\n"))
