"""The memory of large arrays on the host, which is kept when an array is freed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.runtime import host_memory
from tegula.runtime.host_memory import HUGE_PAGE, MIN_BYTES, KeptBlocks, block_size

ELEMENTS = MIN_BYTES // 4


def address(x: np.ndarray) -> int:
    return x.ctypes.data


def test_a_new_array_takes_the_memory_of_a_freed_one() -> None:
    a = tg.full(ELEMENTS, 3.0)
    start = a.ptr
    del a
    b = tg.zeros((2, ELEMENTS // 2))
    assert b.ptr == start and not b.numpy().any()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.numpy()[5:],
        lambda a: a[5:],
        lambda a: a.view(tg.int32),
        lambda a: a.reshape((2, ELEMENTS // 2)).transpose(),
        lambda a: tg.array(a.numpy(), copy=False),
        lambda a: tg.indexedarray(a, [[1, 0]]),
        np.from_dlpack,
        tg.to_dlpack,
        lambda a: memoryview(a.numpy()),
    ],
    ids=["numpy", "slice", "dtype", "transposed", "array", "indexed", "dlpack", "capsule", "buffer"],
)
def test_memory_is_used_again_only_after_all_views_are_freed(view: Callable[[Any], Any]) -> None:
    a = tg.full(ELEMENTS, 3.0)
    start, kept_view = a.ptr, view(a)
    del a
    assert tg.zeros(ELEMENTS).ptr != start
    del kept_view
    assert tg.zeros(ELEMENTS).ptr == start


def test_blocks_are_aligned_and_at_most_an_eighth_larger_than_requested() -> None:
    blocks = KeptBlocks(0)
    for size in (MIN_BYTES, MIN_BYTES + 1, 5 * HUGE_PAGE, (64 << 20) + 1, (100 << 20) - 1):
        memory = blocks.allocate(size)
        assert address(memory) % HUGE_PAGE == 0
        assert size <= memory.size == block_size(size) <= max(size + HUGE_PAGE, size * 9 // 8)
        memory[-1] = 1


def test_the_oldest_blocks_are_unmapped_beyond_the_maximum() -> None:
    blocks = KeptBlocks(12 * HUGE_PAGE)
    arrays = [blocks.allocate(n * HUGE_PAGE) for n in (3, 4, 4, 5)]
    starts = [address(x) for x in arrays]
    while arrays:
        del arrays[0]
    # 3 and 4 huge pages were freed first.
    assert blocks.bytes == 9 * HUGE_PAGE
    taken = [blocks.allocate(n * HUGE_PAGE) for n in (4, 5)]
    assert [address(x) for x in taken] == starts[2:] and blocks.bytes == 0


def test_the_pages_of_all_but_the_blocks_freed_last_are_offered_to_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    offered: list[int] = []
    monkeypatch.setattr(
        host_memory.Mapping,
        "advise",
        lambda mapping, advice: offered.append(mapping.address) if advice == "MADV_FREE" else None,
    )
    blocks = KeptBlocks(1 << 30, 5 * HUGE_PAGE)
    arrays = [blocks.allocate(n * HUGE_PAGE) for n in (1, 2, 3, 6)]
    starts = [address(x) for x in arrays]
    for _ in range(20):
        del arrays[0]
        arrays.insert(0, blocks.allocate(HUGE_PAGE))
        assert address(arrays[0]) == starts[0]
    assert not offered and blocks.warm_bytes == 0
    while len(arrays) > 1:
        del arrays[0]
    assert offered == starts[:1] and blocks.warm_bytes == 5 * HUGE_PAGE
    del arrays[0]
    assert offered == starts and blocks.warm_bytes == 0
    assert address(blocks.allocate(6 * HUGE_PAGE)) == starts[3] and blocks.bytes == 6 * HUGE_PAGE


def test_blocks_larger_than_the_maximum_are_not_kept() -> None:
    blocks = KeptBlocks(HUGE_PAGE)
    blocks.allocate(2 * HUGE_PAGE)
    assert blocks.bytes == 0


def test_kept_blocks_are_unmapped_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, mapping = KeptBlocks(1 << 30), host_memory.Mapping

    def limited(size: int) -> Any:
        if blocks.bytes or size > 4 * HUGE_PAGE:
            raise OSError("not enough memory")
        return mapping(size)

    blocks.allocate(MIN_BYTES)
    assert blocks.bytes == block_size(MIN_BYTES)
    monkeypatch.setattr(host_memory, "Mapping", limited)
    assert blocks.allocate(2 * HUGE_PAGE).size == 2 * HUGE_PAGE and blocks.bytes == 0
    with pytest.raises(MemoryError):
        blocks.allocate(8 * HUGE_PAGE)


def test_arrays_beyond_the_address_space_raise_memory_errors() -> None:
    with pytest.raises(MemoryError):
        tg.empty(1 << 60, dtype=tg.uint8)


def test_a_collection_while_the_lock_is_held_does_not_wait() -> None:
    blocks = KeptBlocks(1 << 30)
    memory = blocks.allocate(MIN_BYTES)
    start = address(memory)
    with blocks._lock:
        del memory
    assert blocks.bytes == 0
    assert address(blocks.allocate(MIN_BYTES)) == start


def test_threads_never_get_the_same_block() -> None:
    blocks, wrong = KeptBlocks(1 << 30), list[int]()

    def work(number: int) -> None:
        for _ in range(50):
            memory = blocks.allocate(MIN_BYTES)
            memory[::4096] = number
            if (memory[::4096] != number).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A thread allocates its next block before the last one is freed.
    assert not wrong and blocks.bytes <= 8 * HUGE_PAGE


def run(text: str) -> str:
    """The output of a program."""
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_forked_process_does_not_wait_for_a_lock_of_its_parent() -> None:
    text = (
        "import os, signal\n"
        "from tegula.runtime import host_memory as h\n"
        "with h.kept_blocks._lock:\n"
        "    child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(10)\n"
        "    h.kept_blocks.allocate(h.MIN_BYTES)[:] = 1\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert run(text) == "7\n"


def test_a_forked_process_uses_the_memory_of_its_parents_arrays_again() -> None:
    text = (
        "import os\n"
        "import tegula as tg\n"
        "a, b, freed = (tg.full(1 << 20, 1.0 + k) for k in range(3))\n"
        "start = b.ptr\n"
        "del freed\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    del b\n"
        "    c = tg.full(1 << 20, 4.0)\n"
        "    os._exit(7 if c.ptr == start and (a.numpy() == 1.0).all() else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), b.numpy().max())\n"
    )
    assert run(text) == "7 2.0\n"


def test_kept_blocks_leave_room_for_other_memory_within_the_limits_of_a_process() -> None:
    text = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "import numpy as np\n"
        "import tegula as tg\n"
        "arrays = [tg.empty(100 << 20, dtype=tg.uint8) for _ in range(20)]\n"
        "del arrays\n"
        "print(np.empty(2 << 30, np.uint8).size, tg.empty(2 << 30, dtype=tg.uint8).size)\n"
    )
    assert run(text) == f"{2 << 30} {2 << 30}\n"


@pytest.mark.parametrize("misaligned", [False, True])
def test_mappings_are_aligned_on_systems_that_align_small_pages_alone(
    monkeypatch: pytest.MonkeyPatch, misaligned: bool
) -> None:
    new_pages, sizes = host_memory._new_pages, list[int]()

    def counted(size: int) -> Any:
        sizes.append(size)
        pages, start = new_pages(size)
        return pages, start + 4096 if misaligned and len(sizes) == 1 else start

    monkeypatch.setattr(host_memory, "_new_pages", counted)
    mapping = host_memory.Mapping(HUGE_PAGE)
    assert mapping.address % HUGE_PAGE == 0
    assert sizes[0] == HUGE_PAGE and (sizes[-1] == 2 * HUGE_PAGE or not misaligned)
    np.asarray(host_memory._Block(mapping, KeptBlocks(0)))[:] = 1
