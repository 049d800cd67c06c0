"""Generated programs on the host: launches of small kernels, methods of arrays and views in any order on a tape, then
`backward` with any seeds. Each gradient is compared with derivatives in forward mode, which this file computes
independently: every element of memory has a row of float64 derivatives by every element at the start of the tape, and
each kernel and method has a rule in NumPy. The branches taken are read from the kernels' outputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tegula as tg

SIZE = 16
SHAPES = ((16,), (4, 4), (2, 8))
COLUMNS = 16 * 10
"""The number of derivatives of each element, by the elements of ten arrays."""
EPSILON = {"float64": 1e-13, "float32": 2e-7, "float16": 1e-3, "bfloat16": 8e-3}


# Kernels, for any floats ---------------------------------------------------------------------------------------------


@tg.kernel
def scale(x):
    i = tg.tid()
    x[i] = x[i] * 1.5


@tg.kernel
def affine(x, y):
    i = tg.tid()
    y[i] = x[i] * 0.5 + 0.25


@tg.kernel
def affine_2d(x, y):
    i, j = tg.tid()
    y[i, j] = 0.25 - x[i, j]


@tg.kernel
def accumulate(x, y):
    i = tg.tid()
    y[i] = y[i] - x[i]


@tg.kernel
def multiply(x, y, z):
    i = tg.tid()
    z[i] = x[i] * y[i]


@tg.kernel
def gather(x, indices, y):
    i = tg.tid()
    y[i] = x[indices[i]]


@tg.kernel
def total(x, y):
    tg.atomic_add(y, 0, x[tg.tid()] * 0.25)


@tg.kernel
def fill_twos(y):
    y[tg.tid()] = 2.0


@tg.kernel
def bend(x, y, went):
    i = tg.tid()
    v = x[i] * 0.7 + 0.3
    if v > 1.0:
        y[i] = v * 2.0
        went[i] = 1
    else:
        y[i] = v * -0.5
        went[i] = 0


@tg.kernel
def matmul(x, y, z):
    t = tg.tile_matmul(tg.tile_load(x, shape=(4, 4)), tg.tile_load(y, shape=(4, 4)))
    tg.tile_store(z, tg.tile_astype(t, z.dtype))


# The twin ------------------------------------------------------------------------------------------------------------


class Memory:
    """One allocation. `values`: the elements, `slopes`: their derivatives by the elements at the start of the tape,
    `mass`: the same without signs, which bounds rounding errors; `read`: whether a gradient may flow from this
    memory."""

    def __init__(self, size: int, first: int) -> None:
        self.values = np.zeros(size)
        self.first = first
        self.begin()

    def begin(self, own: bool = True) -> None:
        """Start a tape, or add new memory to one. `own`: whether there are derivatives by the elements of this
        memory."""
        size = len(self.values)
        self.slopes = np.zeros((size, COLUMNS))
        self.read = np.zeros(size, bool)
        if own:
            self.slopes[np.arange(size), self.first + np.arange(size)] = 1.0
        self.mass = np.abs(self.slopes)


@dataclass(eq=False)
class Name:
    """An array of the program, and where its elements are."""

    array: Any
    memory: Memory
    at: np.ndarray
    root: Name | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.at.shape

    @property
    def graded(self) -> bool:
        return bool(self.array.requires_grad)

    @property
    def detached(self) -> bool:
        return bool(self.array.is_detached)

    def slopes(self, kind: str = "slopes") -> np.ndarray:
        result = getattr(self.memory, kind)[self.at]
        return result * 0 if self.detached else result

    @property
    def values(self) -> np.ndarray:
        return self.memory.values[self.at]

    def look(self) -> None:
        if self.graded:
            self.memory.read[self.at] = True

    def put(self, slopes: Any, mass: Any) -> None:
        """Set the derivatives of new elements, whose values are the current ones."""
        self.memory.slopes[self.at] = slopes
        self.memory.mass[self.at] = mass
        self.see()

    def see(self) -> None:
        self.memory.values[self.at] = self.array.numpy().astype(np.float64)

    def apart(self, other: Name) -> bool:
        return self.memory is not other.memory or not set(self.at.flat) & set(other.at.flat)


def depends(name: Name) -> int:
    """The number of derivatives of the elements."""
    return int(np.count_nonzero(name.slopes())) - name.at.size


def linear(target: Name, *terms: tuple[Any, Name], keep: bool = False) -> None:
    """Set the target's derivatives to sums of factors times derivatives of names."""
    matrices: list[np.ndarray] = []
    for kind in ("slopes", "mass"):
        parts = [(np.abs(f) if kind == "mass" else f) * np.ones(n.shape) for f, n in terms]
        sums: Any = target.slopes(kind) if keep else np.zeros((*target.shape, COLUMNS))
        for f, (_, n) in zip(parts, terms, strict=True):
            sums = sums + f[..., None] * n.slopes(kind)
        matrices.append(sums)
    for _, n in terms:
        n.look()
    if keep:
        target.look()
    target.put(*matrices)


# Programs ------------------------------------------------------------------------------------------------------------


class ReverseModeRefused(Exception):
    """Raised if the program was refused when it was run backwards."""


@dataclass
class TapeProgram:
    """A program, generated from its seed while it runs. `nudge`: the distance by which its arrays are moved along a
    random direction; then no array is declared constant. `lines`: the statements so far."""

    seed: int
    dtype: str
    steps: int = 8
    nudge: float | None = None
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed * 4 + sorted(EPSILON).index(self.dtype))
        self.names: list[Name] = []
        self.used = 0
        self.held: dict[int, np.ndarray] = {}
        self.epsilon = EPSILON[self.dtype]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def run(self) -> str:
        """ "right", "refused: ...", or "wrong: ..."."""
        self._arrays()
        for number in range(1 if self.rng.random() < 0.7 else 2):
            for memory in {id(n.memory): n.memory for n in self.names}.values():
                memory.begin()
            with tg.Tape() as tape:
                for _ in range(self.rng.randint(2, self.steps)):
                    self._step()
            try:
                verdict = self._backward(tape)
            except (tg.LaunchError, tg.CompileError) as error:
                return f"refused: {str(error).splitlines()[0]}"
            if verdict != "right":
                return f"{verdict} (tape {number})"
        return "right"

    # Names and arrays ------------------------------------------------------------------------------------------------

    def forward(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The contents of all arrays at the end, and the derivatives along the direction."""
        self._arrays()
        for _ in range(self.steps):
            self._step()
        along = np.random.default_rng(self.seed).standard_normal(COLUMNS)
        memories = {id(n.memory): n.memory for n in self.names}.values()
        return [(m.values, m.slopes @ along) for m in memories]

    def _memory(self, size: int) -> Memory:
        if self.used + size > COLUMNS:
            raise NoNameFits
        self.used += size
        return Memory(size, self.used - size)

    def _arrays(self) -> None:
        for _ in range(self.rng.randint(3, 5)):
            shape = self.rng.choice(SHAPES)
            data = np.array([self._number() for _ in range(SIZE)]).reshape(shape)
            if self.nudge is not None:
                along = np.random.default_rng(self.seed).standard_normal(COLUMNS)
                data = data * 1.25 + self.nudge * along[self.used : self.used + SIZE].reshape(shape)
            name = (
                self.rng.choice(sorted(EPSILON))
                if self.nudge is None and self.rng.random() < 0.15
                else self.dtype
            )
            self.epsilon = max(self.epsilon, EPSILON[name])
            early = self.rng.random() < 0.3
            graded = self.rng.random() < 0.7
            name_of_array = Name(
                tg.array(data, dtype=getattr(tg, name), requires_grad=graded and not early),
                self._memory(SIZE),
                np.arange(SIZE).reshape(shape),
            )
            self._add(name_of_array, f"array({shape}, {name}, requires_grad={graded and not early})")
            name_of_array.see()
            if early and graded:
                self._view()
                name_of_array.array.requires_grad = True
                self.lines.append(f"a{self.names.index(name_of_array)}.requires_grad = True")
        for _ in range(self.rng.randint(0, 3)):
            self._view()

    def _number(self) -> float:
        """Some numbers are near the kink of `bend`."""
        if self.rng.random() < 0.3:
            return 1.0 + self.rng.choice([-1, 0, 1]) * EPSILON[self.dtype]
        return self.rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0])

    def _add(self, name: Name, text: str) -> Name:
        self.names.append(name)
        self.lines.append(f"a{len(self.names) - 1} = {text}")
        return name

    def _view(self) -> None:
        base = self.rng.choice(self.names)
        views: list[tuple[str, Callable[[Any], Any]]] = [
            ("[1:]", lambda a: a[1:]),
            ("[::2]", lambda a: a[::2]),
            ("[0:2]", lambda a: a[0:2]),
            ("[-1]", lambda a: a[-1]),
            (".reshape(-1)", lambda a: a.reshape(-1)),
            (".transpose()", lambda a: a.transpose()),
        ]
        if len(base.shape) == 2:
            views += [("[:, 1]", lambda a: a[:, 1]), ("[1]", lambda a: a[1])]
        if int(np.prod(base.shape)) == SIZE:
            views += [(".reshape((4, 4))", lambda a: a.reshape((4, 4)))]
        text, view = self.rng.choice(views)
        try:
            viewed = view(base.array)
        except (ValueError, IndexError):
            return
        k = self.names.index(base)
        name = Name(viewed, base.memory, np.atleast_1d(view(base.at)), base.root or base)
        self._add(name, f"a{k}{text}")
        if self.rng.random() < 0.1:
            again = tg.array(viewed, copy=False)
            self._add(Name(again, base.memory, name.at, name.root), "array(the last one, copy=False)")
        elif self.rng.random() < 0.1:
            self._add(
                Name(viewed.view(viewed.dtype), base.memory, name.at, name.root),
                "the last one.view(its dtype)",
            )
        elif self.rng.random() < 0.05 and self.nudge is None:
            viewed.requires_grad = False
            self.lines.append("the last one.requires_grad = False")

    # Steps -----------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        with suppress(NoNameFits):
            self.rng.choice([self._launch, self._launch, self._method, self._method, self._new])()

    def _pick(self, like: Sequence[Name] = (), accepts: Callable[[Name], bool] = lambda n: True) -> Name:
        """A name with the same dtype and shape as others, usually disjoint from them."""
        same = [n for n in self.names if accepts(n) and str(n.array.dtype) in EPSILON]
        same = [
            n
            for n in same
            if all(str(n.array.dtype) == str(o.array.dtype) and n.shape == o.shape for o in like)
        ]
        same = [n for n in same if all(n.apart(o) or np.array_equal(n.at, o.at) for o in like)]
        if not same:
            raise NoNameFits
        if not like and self.rng.random() < 0.6:
            return max(same, key=depends)
        return self.rng.choice(same)

    def _said(self, text: str, *names: Name) -> None:
        self.lines.append(f"{text}({', '.join(f'a{self.names.index(n)}' for n in names)})")

    def _launch(self) -> None:
        def flat(n: Name) -> bool:
            return len(n.shape) == 1

        def one(n: Name) -> bool:
            return n.shape == (1,)

        def square(n: Name) -> bool:
            return n.shape == (4, 4)

        kind = self.rng.choice(
            [
                "scale",
                "affine",
                "affine_2d",
                "accumulate",
                "multiply",
                "gather",
                "total",
                "twos",
                "bend",
                "matmul",
            ]
        )
        if kind == "scale":
            x = self._pick(accepts=flat)
            self._said(kind, x)
            tg.launch(scale, x.shape, [x.array])
            linear(x, (1.5, x))
        elif kind in ("affine", "affine_2d"):
            x = self._pick(accepts=flat if kind == "affine" else lambda n: len(n.shape) == 2)
            y = self._pick([x])
            self._said(kind, x, y)
            tg.launch(affine if kind == "affine" else affine_2d, x.shape, [x.array], [y.array])
            linear(y, (0.5 if kind == "affine" else -1.0, x))
        elif kind == "accumulate":
            x = self._pick(accepts=flat)
            y = self._pick([x])
            self._said(kind, x, y)
            tg.launch(accumulate, x.shape, [x.array], [y.array])
            linear(y, (1.0, y), (-1.0, x))
        elif kind == "multiply":
            x = self._pick(accepts=flat)
            y = self._pick([x])
            z = self._pick([x, y])
            if not (z.apart(x) and z.apart(y)) and self.rng.random() < 0.8:
                raise NoNameFits
            self._said(kind, x, y, z)
            before = x.values, y.values
            tg.launch(multiply, x.shape, [x.array, y.array], [z.array])
            linear(z, (before[1], x), (before[0], y))
        elif kind == "gather":
            x, y = self._pick(accepts=flat), self._pick(accepts=flat)
            if not x.apart(y) or str(x.array.dtype) != str(y.array.dtype) or not x.at.size:
                raise NoNameFits
            indices = np.array([self.rng.randrange(x.shape[0]) for _ in range(y.shape[0])], np.int32)
            self._said(f"gather {indices.tolist()}", x, y)
            tg.launch(gather, y.shape, [x.array, tg.array(indices)], [y.array])
            x.look()
            y.put(x.slopes()[indices], x.slopes("mass")[indices])
        elif kind == "total":
            x, y = self._pick(accepts=flat), self._pick(accepts=one)
            if not x.apart(y) or str(x.array.dtype) != str(y.array.dtype):
                raise NoNameFits
            self._said(kind, x, y)
            tg.launch(total, x.shape, [x.array], [y.array])
            x.look()
            y.look()
            y.put(*(y.slopes(field) + 0.25 * x.slopes(field).sum(0) for field in ("slopes", "mass")))
        elif kind == "twos":
            y = self._pick(accepts=flat)
            self._said(kind, y)
            tg.launch(fill_twos, y.shape, outputs=[y.array])
            linear(y)
        elif kind == "bend":
            x = self._pick(accepts=flat)
            y = self._pick([x])
            if not y.apart(x) and self.rng.random() < 0.8:
                raise NoNameFits
            went = tg.zeros(x.shape, dtype=int)
            self._said(kind, x, y)
            tg.launch(bend, x.shape, [x.array], [y.array, went])
            linear(y, (0.7 * np.where(went.numpy() == 1, 2.0, -0.5), x))
        else:
            x = self._pick(accepts=square)
            y = self._pick([x])
            z = self._pick([x])
            if not (z.apart(x) and z.apart(y)):
                raise NoNameFits
            self._said(kind, x, y, z)
            a, b = x.values, y.values
            tg.launch_tiled(matmul, 1, [x.array, y.array], [z.array], block_dim=32)
            x.look()
            y.look()
            z.put(
                np.einsum("ikn,kj->ijn", x.slopes(), b) + np.einsum("ik,kjn->ijn", a, y.slopes()),
                np.einsum("ikn,kj->ijn", x.slopes("mass"), abs(b))
                + np.einsum("ik,kjn->ijn", abs(a), y.slopes("mass")),
            )

    def _method(self) -> None:
        kind = self.rng.choice(
            ["fill_", "zero_", "assign", "copy", "numpy", "list", "ints", "grad", "numbers"]
        )
        x = self.rng.choice([n for n in self.names if str(n.array.dtype) in EPSILON])
        if kind in ("fill_", "zero_"):
            self._said(kind, x)
            x.array.zero_() if kind == "zero_" else x.array.fill_(0.5)
            linear(x)
        elif kind in ("assign", "copy"):
            same = [n for n in self.names if n.shape == x.shape]
            y = self.rng.choice(same)
            self._said(kind, x, y)
            slopes, mass = y.slopes(), y.slopes("mass")
            y.look()
            x.array.assign(y.array) if kind == "assign" else tg.copy(x.array, y.array)
            x.put(slopes, mass)
        elif kind in ("numpy", "list", "ints", "numbers"):
            self._said(f"assign {kind}", x)
            data: Any = np.arange(np.prod(x.shape), dtype=np.float64).reshape(x.shape) / 8
            if kind == "list" and data.size:
                data = data.tolist()
            elif kind == "ints":
                data = tg.array((8 * data).astype(np.int32), requires_grad=self.rng.random() < 0.5)
            x.array.assign(data)
            linear(x)
        elif x.graded:
            self._said("grad.fill_(0.5)", x)
            x.array.grad.fill_(0.5)
            self._hold(x, 0.5)

    def _hold(self, x: Name, value: Any) -> None:
        adjoint = self.held.setdefault(id(x.memory), np.zeros(len(x.memory.values)))
        adjoint[x.at] = value

    def _new(self) -> None:
        """A copy, or a view, that is made on the tape."""
        if self.rng.random() < 0.4:
            self._view()
            return
        x = self.rng.choice([n for n in self.names if str(n.array.dtype) in EPSILON])
        memory = self._memory(int(np.prod(x.shape)))
        indices = np.arange(len(memory.values)).reshape(x.shape)
        kind = self.rng.choice(
            ["clone", "clone", "detached" if self.nudge is None else "clone", "array", "graded"]
        )
        k = self.names.index(x)
        text, make = {
            "clone": (f"clone(a{k})", lambda: tg.clone(x.array)),
            "detached": (f"clone(a{k}, requires_grad=False)", lambda: tg.clone(x.array, requires_grad=False)),
            "graded": (f"clone(a{k}, requires_grad=True)", lambda: tg.clone(x.array, requires_grad=True)),
            "array": (f"array(a{k}, requires_grad=True)", lambda: tg.array(x.array, requires_grad=True)),
        }[kind]
        added = self._add(Name(make(), memory, indices), text)
        memory.begin(own=not x.graded and self.nudge is None)
        x.look()
        if kind != "detached":
            memory.slopes[indices] += x.slopes()
            memory.mass[indices] += x.slopes("mass")
        added.see()

    # Backwards -------------------------------------------------------------------------------------------------------

    def _graded(self) -> Iterator[Name]:
        return (n for n in self.names if n.graded and n.root is None)

    def _backward(self, tape: Any) -> str:
        way = self.rng.choice(["loss", "grads", "grads", "none"])
        graded = [n for n in self.names if n.graded and str(n.array.dtype) in EPSILON]
        graded = sorted(graded, key=depends, reverse=True)[:4]
        if way == "loss":
            single = [n for n in self.names if n.graded and n.shape == (1,) and str(n.array.dtype) in EPSILON]
            graded = sorted(single, key=depends, reverse=True)[:1] or graded[:1]
            way = "loss" if graded and graded[0].shape == (1,) else "grads"
        if not graded:
            return "empty"
        seeds: dict[int, np.ndarray] = {}
        targets: list[Name] = []
        seed_arrays: dict[Any, Any] = {}
        data_of: dict[int, np.ndarray] = {}
        for n in self.rng.sample(graded, min(len(graded), 1 if way == "loss" else self.rng.randint(1, 3))):
            data = np.array([self.rng.choice([-1.0, 0.5, 1.0, 2.0]) for _ in range(n.at.size)]).reshape(
                n.shape
            )
            if way == "loss":
                data = np.ones(n.shape)
            if way == "none":
                n.array.grad.assign(data)
                self._hold(n, data)
            else:
                targets.append(n)
                adjoint = seeds.setdefault(id(n.memory), np.zeros(len(n.memory.values)))
                adjoint[n.at] += data
                seed_arrays[n.array] = data if self.rng.random() < 0.5 else tg.array(data)
                data_of[id(seed_arrays[n.array])] = data.copy()
        self.lines.append(f"backward({way}: {', '.join(f'a{self.names.index(n)}' for n in targets)})")
        written = list(self._written(tape))
        if way == "loss":
            tape.backward(targets[0].array)
        elif way == "grads":
            tape.backward(grads=seed_arrays)
        else:
            tape.backward()
        for n in targets:
            seed_values = seed_arrays[n.array]
            if not np.array_equal(np.asarray(seed_values, np.float64), data_of[id(seed_values)]):
                return "wrong: what was passed to backward was changed"
        start = self.held if way == "none" else seeds
        return self._compared(way, start, targets if way != "none" else written)

    def _written(self, tape: Any) -> Iterator[Name]:
        """The names that records of a tape write, with a gradient."""
        arrays = {id(use.array) for record in tape.records for use in record.writes}
        return (n for n in self.names if n.graded and id(n.array) in arrays)

    def _compared(self, way: str, start: dict[int, np.ndarray], stay: Sequence[Name]) -> str:
        memories = {id(n.memory): n.memory for n in self.names}
        sums, mass = np.zeros(COLUMNS), np.zeros(COLUMNS)
        for key, seed in start.items():
            sums += seed @ memories[key].slopes
            mass += np.abs(seed) @ memories[key].mass
        if not np.isfinite(sums).all() or mass.max() > 1e3:
            return "unstable"
        adjoints: dict[int, np.ndarray] = {}
        for n in self._graded():
            m = n.memory
            expected = sums[m.first : m.first + len(m.values)].copy()
            bound = mass[m.first : m.first + len(m.values)].copy()
            if way != "none":
                before = self.held.get(id(m), np.zeros(len(m.values)))
                replaced = np.zeros(len(m.values), bool)
                for target in stay:
                    if target.memory is m:
                        replaced[target.at] = True
                expected += np.where(replaced, 0.0, before)
                bound += np.abs(before)
            for target in stay:
                if target.memory is m and not m.read[target.at].any():
                    seed = start.get(id(m))
                    expected[target.at] = 0.0 if seed is None else seed[target.at]
                    bound[target.at] = np.abs(expected[target.at])
            result = n.array.grad.numpy().astype(np.float64).reshape(-1)[np.argsort(n.at.reshape(-1))]
            limit = 4 * (self.steps + 6) * self.epsilon * (bound + 1e-3)
            if not np.all(np.abs(result - expected) <= limit):
                k = int(np.argmax(np.abs(result - expected) - limit))
                return f"wrong: a{self.names.index(n)}.grad[{k}] is {result[k]}, not {expected[k]}"
            adjoints[id(m)] = result
        self.held = adjoints
        return "right"


class NoNameFits(Exception):
    """Raised if no name fits a statement."""


def outcome(seed: int, dtype: str) -> tuple[str, TapeProgram]:
    """The outcome of a program, and the program. Any other error than a refusal is a failure."""
    program = TapeProgram(seed, dtype)
    try:
        return program.run(), program
    except Exception as error:
        return f"wrong: {type(error).__name__} {error}", program
