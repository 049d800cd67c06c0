"""Random kernels with roles."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import tegula as tg

N, ROWS = 8, 40


class Pipe(NamedTuple):
    """`operation`: "load" or "push", by which the producer fills the pipe; `tiles`: the number of tiles of each
    iteration."""

    producer: int
    consumers: list[int]
    stages: int
    operation: str
    tiles: int


class Program:
    """The text of a kernel. In each iteration of its loop, a role handles its pipes in its own order."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.roles = self.rng.randint(2, 4)
        self.pipes = [self._pipe() for _ in range(self.rng.randint(1, 5))]
        self.lines = ["def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):", "    i = tg.tid()"]
        for k, pipe in enumerate(self.pipes):
            self.lines.append(f"    p{k} = tg.tile_pipe(shape=(1, {N}), dtype=float, stages={pipe.stages})")
        for role in range(self.roles):
            self._role(role)

    def _pipe(self) -> Pipe:
        producer = self.rng.randrange(self.roles)
        others = [r for r in range(self.roles) if r != producer]
        consumers = sorted(self.rng.sample(others, self.rng.randint(1, min(2, len(others)))))
        return Pipe(
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
        actions = [
            (k, "fill") for k, p in enumerate(self.pipes) if p.producer == role for _ in range(p.tiles)
        ]
        actions += [
            (k, "pop") for k, p in enumerate(self.pipes) if role in p.consumers for _ in range(p.tiles)
        ]
        if self.rng.random() < 0.5:  # pops first: such programs rarely deadlock
            actions.sort(key=lambda action: action[1] == "fill")
        else:
            self.rng.shuffle(actions)
        tiles = ["acc"]
        for number, (pipe, action) in enumerate(actions):
            self._perform(pipe, action, f"v{number}", tiles)
        self.lines.append("            acc += 1.0")
        self.lines.append(f"        tg.tile_store(out, acc, offset=({self.roles} * i + {role}, 0))")

    def _perform(self, pipe: int, action: str, name: str, tiles: list[str]) -> None:
        indent = " " * 12
        if action == "pop":
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
        elif self.pipes[pipe].operation == "load":
            self.lines.append(f"{indent}tg.tile_pipe_load(p{pipe}, x, offset=((k + {pipe}) % {ROWS}, 0))")
        else:
            self.lines.append(f"{indent}tg.tile_pipe_push(p{pipe}, {self.rng.choice(tiles)} * 0.25)")

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def kernel(self) -> Any:
        names: dict[str, Any] = {"tg": tg}
        exec(self.text, names)
        return tg.kernel(source=self.text, check="bounded")(names["kernel"])
