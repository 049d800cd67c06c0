"""Generated programs find bugs of the CPU backend: each of five planted bugs within 500 programs."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from choices import ChoiceSource
from programs import ProgramWriter
from run_program import compare

import tegula as tg
from support.campaigns import sampled
from tegula.codegen import elements, kernel, sweep, tiles
from tegula.passes import split_lanes
from tegula.runtime import compile as runtime_compile

pytestmark = [pytest.mark.cpu, pytest.mark.machine_code]
LIMIT = 500
Patch = Callable[[pytest.MonkeyPatch], None]


def wrong_mask(patch: pytest.MonkeyPatch) -> None:
    """A bug: masks at the edge of an array include one column too many."""
    original = elements.column_mask

    def mask(s: Any, array: Any, operands: list[str], width: int, *rest: Any) -> str:
        wider = s.memory.add(array.shape[-1], "1")
        return original(s, replace(array, shape=(*array.shape[:-1], wider)), operands, width, *rest)

    patch.setattr(elements, "column_mask", mask)
    patch.setattr(tiles, "column_mask", mask)


def swapped_loop_argument(patch: pytest.MonkeyPatch) -> None:
    """A bug: two loop-carried values of the same type are swapped."""
    original = kernel._CarriedLoop.close

    def close(self: Any, yielded: list[Any]) -> None:
        swapped = list(yielded)
        for i, a in enumerate(swapped):
            for j in range(i + 1, len(swapped)):
                if a.type == swapped[j].type:
                    swapped[i], swapped[j] = swapped[j], swapped[i]
                    return original(self, swapped)
        return original(self, swapped)

    patch.setattr(kernel._CarriedLoop, "close", close)


def dropped_split(patch: pytest.MonkeyPatch) -> None:
    """A bug: lane loops are not split between accesses of different lanes to one tile. Lanes are not vectorised here,
    because the lanes of a vector run in lockstep and hide most faults."""
    patch.setattr(kernel, "lane_width", lambda s, op: 1)
    patch.setattr(split_lanes._Group, "conflicts", lambda self, op: False)


def stale_cache_key(patch: pytest.MonkeyPatch) -> None:
    """A bug: constants are missing from the cache key of a kernel."""
    original = runtime_compile.print_kernel

    def text(traced: Any, locations: bool = False) -> str:
        return re.sub(r"value = [^],]+", "", original(traced, locations))

    patch.setattr(runtime_compile, "print_kernel", text)


def off_by_one_bound(patch: pytest.MonkeyPatch) -> None:
    """A bug: a tile that exceeds its array by one element is assumed to be inside."""
    original = elements.tile_in_bounds

    def tile_in_bounds(s: Any, op: Any) -> str:
        array = s.arrays[op.operands[0]]
        wider = replace(array, shape=tuple(s.memory.add(n, "1") for n in array.shape))
        s.arrays[op.operands[0]] = wider
        try:
            return original(s, op)
        finally:
            s.arrays[op.operands[0]] = array

    patch.setattr(elements, "tile_in_bounds", tile_in_bounds)
    patch.setattr(sweep, "tile_in_bounds", tile_in_bounds)


# The seed of a program that finds each bug, which is tried first.
BUGS: dict[Patch, int] = {
    wrong_mask: 3,
    swapped_loop_argument: 0,
    dropped_split: 51,
    stale_cache_key: 4,
    off_by_one_bound: 3,
}


@sampled(3, "bug", BUGS, ids=lambda bug: bug.__name__)
def test_generated_programs_find_a_planted_bug(
    bug: Patch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tg.config, "kernel_cache_dir", str(tmp_path))
    with monkeypatch.context() as planted:
        bug(planted)
        failing_seed = next((seed for seed in (BUGS[bug], *range(LIMIT)) if fails(seed)), None)
    assert failing_seed is not None, f"{LIMIT} programs did not find the bug"
    monkeypatch.setattr(tg.config, "cache_kernels", False)
    assert not fails(failing_seed), "the program fails without the bug, too"


def fails(seed: int) -> bool:
    """Whether a program, or the same program with another constant, is miscompiled."""
    draw = random.Random(seed)
    program = ProgramWriter(ChoiceSource(draw.randrange)).program()
    try:
        compare(program)
        compare(replace(program, text=program.text.replace(" 8.0)", " 7.0)")))
    except Exception:
        return True
    return False
