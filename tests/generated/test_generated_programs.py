"""Generated programs: the results of the device equal the interpreter's exactly.

TEGULA_GENERATED sets the number of programs: 250 by default, of which 19 are in slow tests. A run for x86-64-v3 has 125
other programs."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from choices import ChoiceSource
from expressions import DTYPES
from program_reduction import reduce_program
from programs import BLOCK_DIMS, Program, ProgramWriter
from run_program import compare

import tegula as tg
from support.campaigns import chunks

PROGRAMS = int(os.environ.get("TEGULA_GENERATED", "250"))
FEW_PROGRAMS = 16
"""The number of programs that `python run.py test --quick` runs."""
SHARDS, OTHER_SHARDS = 12, 2
MAX_REFUSED_FRACTION = 0.1
"""The largest fraction of programs that may be refused; the generator should write valid programs."""

REQUIRED_FEATURES = (
    *(f"dtype {t}" for t in DTYPES),
    *(f"block_dim {n}" for n in BLOCK_DIMS),
    *("launch tiled", "launch flat", "launch partial", "launch plane", "storage register", "storage shared"),
    *(
        f"op {op}"
        for op in ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "~", "neg", "abs", "min", "max")
    ),
    *(f"op {op}" for op in ("clamp", "floor", "sqrt", "<", "<=", "==", "!=", ">", ">=")),
    *(
        "tile",
        "tile_load",
        "tile_zeros",
        "tile_ones",
        "tile_full",
        "tile_arange",
        "untile",
        "scalar element",
    ),
    *("where", "conditional expression", "cast", "tile_map", "call", "call with tile"),
    *(
        "function branch",
        "function loop",
        "function exit",
        "tile_sum",
        "tile_min",
        "tile_max",
        "tile_reduce",
        "axis reduction",
        "tile_scan_inclusive",
    ),
    *(
        "matmul",
        "tile_matmul",
        "reshape",
        "transpose",
        "broadcast",
        "slice",
        "concat",
        "view",
        "slice assignment",
    ),
    *("element =", "element +=", "in place +=", "in place -=", "reassign", "swap", "group scalar", "stack"),
    *("atomic_add", "tile_atomic_add", "tile store, lane load", "lane store, tile load"),
    *("uniform if", "uniform elif", "uniform else", "for", "while", "break", "continue"),
    *("lane if", "lane else", "lane for", "lane assignment", "lane break", "lane continue", "lane return"),
)
"""Features that at least MIN_FRACTION of the programs have."""
MIN_FRACTION = 0.03
DRAWN_PROGRAMS = 400
"""The number of programs that are drawn, but not run, to count features."""


def draw_program(seed: int | str) -> Program:
    return ProgramWriter(ChoiceSource(random.Random(seed).randrange)).program()


def run_shard(shard: int, count: int) -> tuple[Counter[str], Counter[str]]:
    """The features and the outcomes of `count` programs."""
    features: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for number in range(count):
        program = draw_program(f"{shard}.{number}")
        try:
            outcomes[compare(program) or "ran"] += 1
        except Exception:
            small = reduce_program(program)
            print(f"fails, reduced:\n{small}")
            compare(small)
            raise
        features.update(program.features)
    return features, outcomes


def check_shard(shard: int, count: int) -> None:
    """Check that no program differs and that few programs are refused."""
    features, outcomes = run_shard(shard, count)
    print(f"shard {shard}: {dict(outcomes)}; " + ", ".join(f"{k} {v}" for k, v in sorted(features.items())))
    assert outcomes.total() - outcomes["ran"] <= MAX_REFUSED_FRACTION * count + 2, outcomes


def test_the_program_generator_draws_each_feature() -> None:
    features = Counter(f for seed in range(DRAWN_PROGRAMS) for f in set(draw_program(seed).features))
    rare = {f: features[f] for f in REQUIRED_FEATURES if features[f] < MIN_FRACTION * DRAWN_PROGRAMS}
    assert not rare


@pytest.mark.machine_code
def test_a_few_generated_programs_match_the_interpreter() -> None:
    check_shard(0, FEW_PROGRAMS)


@pytest.mark.machine_code
@pytest.mark.seconds(30)
@pytest.mark.parametrize("shard", chunks(range(1, 1 + SHARDS)))
def test_generated_programs_match_the_interpreter(shard: int) -> None:
    check_shard(shard, max(1, (PROGRAMS - FEW_PROGRAMS) // SHARDS))


@pytest.mark.machine_code
@pytest.mark.v3
@pytest.mark.seconds(35)
@pytest.mark.parametrize("shard", [13, pytest.param(14, marks=pytest.mark.campaign)])
def test_other_generated_programs_match_the_interpreter(shard: int) -> None:
    """The default run for another processor has other programs."""
    check_shard(shard, max(1, PROGRAMS // OTHER_SHARDS))


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tg.config, "cache_kernels", False)
