"""Equal loops of a kernel are calls of one function, with the same results, and loops that differ are not."""

from __future__ import annotations

import ctypes
import re

import numpy as np
import pytest

import tegula as tg
from tegula.backend.llvm import compile_object
from tegula.backend.loader import load
from tegula.codegen.shared_loops import share_equal_loops
from tegula.target import get_target

ENTRY = ["  %s = alloca [64 x i8], align 64", "  %report = load ptr, ptr %args, align 8"]


def block(loop: str) -> list[str]:
    """The lines of a kernel that runs a loop once for each block."""
    head = ["  br label %blocks", "blocks:", "  %b = phi i64 [ %first, %entry ], [ %b.next, %last ]"]
    tail = ["  br label %last", "last:", "  %b.next = add i64 %b, 1", "  %more = icmp slt i64 %b.next, %end"]
    return [*head, *loop.splitlines(), *tail, "  br i1 %more, label %blocks, label %all", "all:"]


def loop(k: int, start: str = "0", body: str = "", stop: int = 4, before: str = "blocks") -> str:
    """The lines of a loop that adds numbers up to `stop`."""
    return f"""  br label %head{k}
head{k}:
  %i{k} = phi i64 [ 0, %{before} ], [ %n{k}, %next{k} ]
  %t{k} = phi i64 [ {start}, %{before} ], [ %u{k}, %next{k} ]
  %u{k} = add i64 %t{k}, %i{k}
{body}  br label %next{k}
next{k}:
  %n{k} = add nsw i64 %i{k}, 1
  %c{k} = icmp ne i64 %n{k}, {stop}
  br i1 %c{k}, label %head{k}, label %done{k}
done{k}:"""


def shared(loops: str) -> tuple[str, int]:
    lines, functions = share_equal_loops(ENTRY, block(loops))
    return "\n".join(lines), len(functions)


def test_results_of_a_loop_are_results_of_the_function() -> None:
    text, count = shared(
        loop(1) + "\n" + loop(2, "%u1", before="done1") + "\n" + loop(3, "%u2", before="done2")
    )
    assert (count, text.count("call { i64 } @shared0(i64 %")) == (1, 2)
    assert re.search(r"^  %u2 = extractvalue ", text, re.M)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (loop(1), loop(2, stop=5, before="done1")),
        (loop(1), loop(2, start="1", before="done1")),
        (loop(1), loop(2, body="  store i64 %i2, ptr %s, align 8\n", before="done1")),
        (
            loop(1, body="  %v1 = sitofp i64 %i1 to fp128\n"),
            loop(2, body="  %v2 = sitofp i64 %i2 to fp128\n", before="done1")
            + "\n  %w = fadd fp128 %v1, %v2",
        ),
    ],
    ids=["other bound", "other start", "other body", "result of another type"],
)
def test_other_loops_are_not_shared(first: str, second: str) -> None:
    assert shared(f"{first}\n{second}")[1] == 0


@pytest.mark.machine_code
@pytest.mark.parametrize("limit", [0, 2, 9])
def test_a_cancelled_loop_ends_the_kernel(limit: int) -> None:
    def cancelling(k: int) -> str:
        return f"""  %stop{k} = icmp eq i64 %i{k}, %limit
  br i1 %stop{k}, label %stopped{k}, label %go{k}
stopped{k}:
  ret i32 1
go{k}:
  %a{k} = getelementptr i64, ptr %report, i64 %i{k}
  %o{k} = load i64, ptr %a{k}, align 8
  %p{k} = add i64 %o{k}, %u{k}
  store i64 %p{k}, ptr %a{k}, align 8
"""

    entry = [
        *ENTRY,
        "  %limit.at = getelementptr i8, ptr %args, i64 8",
        "  %limit = load i64, ptr %limit.at, align 8",
    ]
    loops = loop(1, "%b", cancelling(1)) + "\n" + loop(2, "%u1", cancelling(2), before="done1")
    lines, functions = share_equal_loops(entry, block(loops))
    assert len(functions) == 1
    attributes = "attributes #1 = { noinline nounwind }"
    results: list[tuple[int, list[int]]] = []
    for body, others in ((lines, functions), (block(loops), [])):
        kernel = [
            "define i32 @kernel(ptr %args, ptr %scratch, i64 %first, i64 %end) {",
            "entry:",
            *entry,
            *body,
        ]
        text = "\n".join([*others, *kernel, "  ret i32 0", "}", attributes])
        code = load(compile_object(text, get_target()))
        out = np.zeros(4, np.int64)
        arguments = np.array([out.ctypes.data, limit], np.int64)
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(
            code.address("kernel")
        )
        results.append((function(arguments.ctypes.data, None, 0, 3), out.tolist()))
    assert results[0] == results[1]
    assert results[0][0] == int(limit < 4)


@pytest.mark.machine_code
def test_a_kernel_with_equal_loops_has_the_results_of_its_ops() -> None:
    n, m = 24, 40

    @tg.kernel
    def updated(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], shape=(n, m))
        s = tg.tile_zeros(shape=(n, m), dtype=float)
        s[:, :] = t * 2.0
        t[:, :] = s * 2.0
        s[:, :] = t * 2.0
        tg.tile_store(out[i], s)

    a = np.random.default_rng(0).standard_normal((5, n, m)).astype(np.float32)
    out = tg.zeros(a.shape)
    tg.launch_tiled(updated, dim=[len(a)], inputs=[tg.array(a), out], block_dim=1)
    np.testing.assert_array_equal(out.numpy(), a * 8)
    assert len(re.findall(r"^  call void @shared0\(", updated.llvm(), re.M)) == 3
