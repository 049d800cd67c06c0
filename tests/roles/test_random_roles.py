"""Generated kernels: any roles, pipes between them, and orders of filling, popping and use. What they compute, and
which of them deadlock with which waits, is the same on the device and in the interpreter; for a GPU those that deadlock
are not compiled."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import agreement
import numpy as np
import pytest
from exact import small_integers

import tegula as tg
from tegula import interp
from tegula.errors import ScheduleRefuted
from tegula.ir import Kernel
from tegula.passes.pipeline import prepare
from tegula.runtime.launch import block_size

N, ROWS = 8, 40
PROGRAMS = 60
MANY = 20
"""Rounds after which a schedule that can deadlock has."""


class Program:
    """One kernel's text. Each round of its loop, a role handles its pipes in an order of its own."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.roles = self.rng.randint(2, 4)
        self.pipes = [self._pipe() for _ in range(self.rng.randint(1, 5))]
        self.lines = ["def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):", "    i = tg.tid()"]
        for k, (_, _, stages, _, _) in enumerate(self.pipes):
            self.lines.append(f"    p{k} = tg.tile_pipe(shape=(1, {N}), dtype=float, stages={stages})")
        for role in range(self.roles):
            self._role(role)

    def _pipe(self) -> tuple[int, list[int], int, str, int]:
        """Producer, consumers, stages, how it is filled, tiles a round."""
        producer = self.rng.randrange(self.roles)
        others = [r for r in range(self.roles) if r != producer]
        consumers = sorted(self.rng.sample(others, self.rng.randint(1, min(2, len(others)))))
        return (
            producer,
            consumers,
            self.rng.randint(1, 4),
            self.rng.choice(("load", "push")),
            self.rng.randint(1, 2),
        )

    def _role(self, role: int) -> None:
        self.lines += [
            f"    with tg.role('r{role}', warps={self.rng.choice((1, 2, 4))}):",
            f"        acc = tg.tile_full(shape=(1, {N}), value={float(role)})",
            "        for k in range(n):",
        ]
        acts = [(k, "fill") for k, p in enumerate(self.pipes) if p[0] == role for _ in range(p[4])]
        acts += [(k, "pop") for k, p in enumerate(self.pipes) if role in p[1] for _ in range(p[4])]
        if self.rng.random() < 0.5:  # pops first: such programs mostly go on
            acts.sort(key=lambda act: act[1] == "fill")
        else:
            self.rng.shuffle(acts)
        tiles = ["acc"]
        for number, (pipe, act) in enumerate(acts):
            self._act(pipe, act, f"v{number}", tiles)
        self.lines.append("            acc += 1.0")
        self.lines.append(f"        tg.tile_store(out, acc, offset=({self.roles} * i + {role}, 0))")

    def _act(self, pipe: int, act: str, name: str, tiles: list[str]) -> None:
        indent = " " * 12
        if act == "pop":
            self.lines.append(f"{indent}{name} = tg.tile_pipe_pop(p{pipe})")
            use = self.rng.randrange(4)
            if use == 0:
                tiles.append(name)
            elif use == 1:
                self.lines.append(f"{indent}acc += {name} * 0.5")
            elif use == 2:
                self.lines += [f"{indent}if k % 2 == 0:", f"{indent}    acc += {name}"]
            else:
                self.lines.append(f"{indent}acc += tg.tile_sum({name})[0]")
        elif self.pipes[pipe][3] == "load":
            self.lines.append(f"{indent}tg.tile_pipe_load(p{pipe}, x, offset=((k + {pipe}) % {ROWS}, 0))")
        else:
            self.lines.append(f"{indent}tg.tile_pipe_push(p{pipe}, {self.rng.choice(tiles)} * 0.25)")

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def kernel(self) -> Any:
        names: dict[str, Any] = {"tg": tg}
        exec(self.text, names)
        return tg.kernel(source=self.text)(names["kernel"])


def outcome(run: Callable[[], np.ndarray]) -> Any:
    """What a run gives, or the waits of its deadlock."""
    try:
        return [run().copy()]
    except tg.Deadlock as error:
        return [text for _, text in error.waits]


def interpreted(made: Kernel, x: tg.array, out: tg.array, rounds: int, threads: int) -> Any:
    """What the interpreter makes of a prepared kernel."""

    def run() -> np.ndarray:
        written = np.zeros(out.shape, np.float32)
        interp.run(made, [x.numpy(), written, rounds], (2, threads), threads)
        return written

    return outcome(run)


def same(a: Any, b: Any) -> bool:
    if isinstance(a[0], str) or isinstance(b[0], str):
        return bool(isinstance(a[0], str) and isinstance(b[0], str) and a == b)
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("seed", range(PROGRAMS))
@pytest.mark.parametrize("rounds", [1, 7])
def test_outcomes_agree(seed: int, rounds: int, on_device: str) -> None:
    program = Program(seed)
    kernel, x, out = program.kernel(), small_integers(ROWS, N), tg.zeros((2 * program.roles, N))
    args = [x, out, rounds]
    threads = block_size(kernel, None, args)
    try:
        made = agreement.traced(kernel, args, (2, threads), threads)
        prepare(made)
    except tg.CompileError as error:
        assert agreement.codes(error) == {"pipe-balance"}, program.text
        return

    def launched() -> np.ndarray:
        tg.launch_tiled(kernel, dim=2, inputs=args)
        return out.numpy()

    prepared = interpreted(made, x, out, rounds, threads)
    try:
        native = outcome(launched)
    except ScheduleRefuted:
        deadlock = prepared if isinstance(prepared[0], str) else interpreted(made, x, out, MANY, threads)
        assert on_device != "cpu" and isinstance(deadlock[0], str), program.text
        return
    assert same(native, prepared), f"{program.text}\n{native}\n{prepared}"
    if not isinstance(prepared[0], str):
        plain = [tg.clone(x, device="cpu"), tg.zeros(out.shape, device="cpu")]
        agreement.interpret(kernel, [*plain, rounds], (2, threads), threads)
        assert same(native, [plain[1].numpy()]), program.text
