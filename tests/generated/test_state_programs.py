"""Kernels with objects that carry state through loops: the results of the device equal NumPy's results."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from choices import ChoiceSource
from state_programs import StateProgram, StateProgramWriter

import tegula as tg
from support.campaigns import chunks
from tegula.codegen import storage

pytestmark = pytest.mark.machine_code

CHUNK_COUNT, CHUNK_SIZE = 200, 25


def program(seed: int) -> StateProgram:
    return StateProgramWriter(ChoiceSource(random.Random(seed).randrange)).program()


def check(seeds: range) -> Counter[str]:
    """Run programs, and return the features that they used."""
    features: Counter[str] = Counter()
    for seed in seeds:
        result = program(seed)
        args, expected = result.arguments(), result.expected()
        try:
            tg.launch(result.kernel(), dim=result.dims, inputs=args, block_dim=result.block_dim)
            np.testing.assert_array_equal(args[-1].numpy(), expected)
        except Exception:
            print(f"# seed {seed}", result, sep="\n")
            raise
        features.update(result.features)
    return features


def test_state_programs_match_python() -> None:
    check(range(6))


@pytest.mark.seconds(60)
@pytest.mark.parametrize("chunk", chunks(range(CHUNK_COUNT)))
def test_many_state_programs_match_python(chunk: int) -> None:
    features = check(range(1000 + chunk * CHUNK_SIZE, 1000 + (chunk + 1) * CHUNK_SIZE))
    missing = {
        "push",
        "pop",
        "clear",
        "view",
        "tile_empty",
        "temporary",
        "break",
        "while",
        "scatter add",
    } - features.keys()
    assert not missing, missing


@tg.kernel
def stacks_in_loops(n: int, out: tg.array[int]):
    b, j = tg.tid()
    for outer in range(2):
        result = tg.tile_stack(64, int)
        for r in range(n):
            second_stack = tg.tile_stack(64, int)
            if r < n - 1:
                tg.tile_stack_push(result, outer * 1000 + r * 10 + j, j < 3)
            else:
                m = 0
                while m < n:
                    value, slot = tg.tile_stack_pop(result)
                    if slot >= 0:
                        out[(outer * n + m) * 8 + j] = value
                    m += 1
            tg.tile_stack_push(second_stack, -1)
            filled = tg.tile_arange(64, dtype=int)
            filled[j] = -5
            popped, popped_slot = tg.tile_stack_pop(second_stack)
            if popped_slot >= 0 and filled[j] == popped:
                out[0] = -7


def test_a_stack_keeps_its_elements_from_one_iteration_to_the_next() -> None:
    n = 4
    out = tg.zeros(2 * n * 8, dtype=int)
    tg.launch_tiled(stacks_in_loops, dim=1, inputs=[n, out], block_dim=8)
    expected = np.zeros((2, n * 8), int)
    for outer in range(2):
        pushed = [outer * 1000 + r * 10 + j for r in range(n - 1) for j in range(3)]
        expected[outer, : len(pushed)] = pushed[::-1]
    assert out.numpy().tolist() == expected.reshape(-1).tolist()


@pytest.mark.slow
@pytest.mark.cpu
def test_state_programs_find_a_plan_that_loses_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A bug: the memory plan ends the lifetime of tiles that a loop defines at the end of the iteration."""
    original = storage.lifetimes
    monkeypatch.setattr(tg.config, "kernel_cache_dir", str(tmp_path))
    with monkeypatch.context() as planted:
        planted.setattr(
            storage,
            "lifetimes",
            lambda lines, pieces, kept: original(lines, dict.fromkeys(pieces, len(lines)), kept),
        )
        planted.setattr(storage, "MAX_STACK_PIECE", 0)  # pieces on the stack share no memory
        with pytest.raises(AssertionError):
            check(range(80, 500))
