"""Generated host programs: launches of small kernels, methods of arrays and views in any order on a tape, then
`backward` with any seeds. Each gradient is compared with derivatives in forward mode that this file computes
independently: every element of memory has a row of float64 derivatives by every element at the start of the tape, and
each kernel and method has a rule in NumPy. The branches that kernels take are read from their outputs."""

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
"""The number of derivatives of each element: by the elements of ten arrays."""
EPSILON = {"float64": 1e-13, "float32": 2e-7, "float16": 1e-3, "bfloat16": 8e-3}


# Kernels, for any floats ----------------------------------------------------------------------------------------------


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
def piecewise_linear(x, y, branch_taken):
    i = tg.tid()
    v = x[i] * 0.7 + 0.3
    if v > 1.0:
        y[i] = v * 2.0
        branch_taken[i] = 1
    else:
        y[i] = v * -0.5
        branch_taken[i] = 0


@tg.kernel
def matmul(x, y, z):
    t = tg.tile_matmul(tg.tile_load(x, shape=(4, 4)), tg.tile_load(y, shape=(4, 4)))
    tg.tile_store(z, tg.tile_astype(t, z.dtype))


# Memory ---------------------------------------------------------------------------------------------------------------


class Memory:
    """An allocation. `values`: the elements; `slopes`: their derivatives by the elements at the start of the tape;
    `magnitudes`: the sums of the magnitudes of all terms of the slopes, which bound rounding errors; `is_read`: whether
    a gradient may flow from an element."""

    def __init__(self, size: int, first: int) -> None:
        self.values = np.zeros(size)
        self.first = first
        self.start_tape()

    def start_tape(self, has_own_derivatives: bool = True) -> None:
        """Start a tape, or add new memory to a tape. `has_own_derivatives`: whether there are derivatives by the
        elements of this memory."""
        size = len(self.values)
        self.slopes = np.zeros((size, COLUMNS))
        self.is_read = np.zeros(size, bool)
        if has_own_derivatives:
            self.slopes[np.arange(size), self.first + np.arange(size)] = 1.0
        self.magnitudes = np.abs(self.slopes)


@dataclass(eq=False)
class ProgramArray:
    """An array of the program. `indices`: the indices of its elements in its memory; `root`: the array of which it is a
    view."""

    array: Any
    memory: Memory
    indices: np.ndarray
    root: ProgramArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.indices.shape

    @property
    def requires_gradient(self) -> bool:
        return bool(self.array.requires_grad)

    @property
    def detached(self) -> bool:
        return bool(self.array.is_detached)

    def slopes(self, kind: str = "slopes") -> np.ndarray:
        result = getattr(self.memory, kind)[self.indices]
        return result * 0 if self.detached else result

    @property
    def values(self) -> np.ndarray:
        return self.memory.values[self.indices]

    def mark_read(self) -> None:
        if self.requires_gradient:
            self.memory.is_read[self.indices] = True

    def set_derivatives(self, slopes: Any, magnitudes: Any) -> None:
        """Set the derivatives of the elements, and read their values from the array."""
        self.memory.slopes[self.indices] = slopes
        self.memory.magnitudes[self.indices] = magnitudes
        self.read_back()

    def read_back(self) -> None:
        self.memory.values[self.indices] = self.array.numpy().astype(np.float64)

    def is_disjoint(self, other: ProgramArray) -> bool:
        return self.memory is not other.memory or not set(self.indices.flat) & set(other.indices.flat)


def dependency_count(name: ProgramArray) -> int:
    """The number of nonzero derivatives of the elements, besides one for each element."""
    return int(np.count_nonzero(name.slopes())) - name.indices.size


def assign_linear(target: ProgramArray, *terms: tuple[Any, ProgramArray], keep: bool = False) -> None:
    """Set the derivatives of the target to sums of factors times derivatives of terms, added to its own if `keep`."""
    matrices: list[np.ndarray] = []
    for kind in ("slopes", "magnitudes"):
        parts = [(np.abs(f) if kind == "magnitudes" else f) * np.ones(n.shape) for f, n in terms]
        sums: Any = target.slopes(kind) if keep else np.zeros((*target.shape, COLUMNS))
        for f, (_, n) in zip(parts, terms, strict=True):
            sums = sums + f[..., None] * n.slopes(kind)
        matrices.append(sums)
    for _, n in terms:
        n.mark_read()
    if keep:
        target.mark_read()
    target.set_derivatives(*matrices)


# Programs -------------------------------------------------------------------------------------------------------------


@dataclass
class TapeProgram:
    """A program that is generated from its seed while it runs. `displacement`: the distance by which its arrays are
    moved along a random direction, or None; with a displacement, no array is declared constant. `lines`: the statements
    so far."""

    seed: int
    dtype: str
    steps: int = 8
    displacement: float | None = None
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed * 4 + sorted(EPSILON).index(self.dtype))
        self.arrays: list[ProgramArray] = []
        self.column_count = 0
        self.stored_gradients: dict[int, np.ndarray] = {}
        self.epsilon = EPSILON[self.dtype]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def run(self) -> str:
        """The outcome: "right", "empty", "unstable", "refused: ..." or "wrong: ..."."""
        self._create_arrays()
        for number in range(1 if self.rng.random() < 0.7 else 2):
            for memory in {id(n.memory): n.memory for n in self.arrays}.values():
                memory.start_tape()
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

    # Arrays ------------------------------------------------------------------------------------------------

    def forward(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The contents of all arrays at the end, and their derivatives along the direction."""
        self._create_arrays()
        for _ in range(self.steps):
            self._step()
        direction = np.random.default_rng(self.seed).standard_normal(COLUMNS)
        memories = {id(n.memory): n.memory for n in self.arrays}.values()
        return [(m.values, m.slopes @ direction) for m in memories]

    def _memory(self, size: int) -> Memory:
        if self.column_count + size > COLUMNS:
            raise NoArrayFits
        self.column_count += size
        return Memory(size, self.column_count - size)

    def _create_arrays(self) -> None:
        for _ in range(self.rng.randint(3, 5)):
            shape = self.rng.choice(SHAPES)
            data = np.array([self._number() for _ in range(SIZE)]).reshape(shape)
            if self.displacement is not None:
                direction = np.random.default_rng(self.seed).standard_normal(COLUMNS)
                data = data * 1.25 + self.displacement * direction[
                    self.column_count : self.column_count + SIZE
                ].reshape(shape)
            dtype = (
                self.rng.choice(sorted(EPSILON))
                if self.displacement is None and self.rng.random() < 0.15
                else self.dtype
            )
            self.epsilon = max(self.epsilon, EPSILON[dtype])
            enables_gradient_later = self.rng.random() < 0.3
            requires_gradient = self.rng.random() < 0.7
            new_array = ProgramArray(
                tg.array(
                    data,
                    dtype=getattr(tg, dtype),
                    requires_grad=requires_gradient and not enables_gradient_later,
                ),
                self._memory(SIZE),
                np.arange(SIZE).reshape(shape),
            )
            self._add(
                new_array,
                f"array({shape}, {dtype}, requires_grad={requires_gradient and not enables_gradient_later})",
            )
            new_array.read_back()
            if enables_gradient_later and requires_gradient:
                self._view()
                new_array.array.requires_grad = True
                self.lines.append(f"a{self.arrays.index(new_array)}.requires_grad = True")
        for _ in range(self.rng.randint(0, 3)):
            self._view()

    def _number(self) -> float:
        """A number, sometimes close to the kink of `piecewise_linear`."""
        if self.rng.random() < 0.3:
            return 1.0 + self.rng.choice([-1, 0, 1]) * EPSILON[self.dtype]
        return self.rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 1.5, 2.0])

    def _add(self, name: ProgramArray, text: str) -> ProgramArray:
        self.arrays.append(name)
        self.lines.append(f"a{len(self.arrays) - 1} = {text}")
        return name

    def _view(self) -> None:
        base = self.rng.choice(self.arrays)
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
        k = self.arrays.index(base)
        name = ProgramArray(viewed, base.memory, np.atleast_1d(view(base.indices)), base.root or base)
        self._add(name, f"a{k}{text}")
        if self.rng.random() < 0.1:
            alias = tg.array(viewed, copy=False)
            self._add(
                ProgramArray(alias, base.memory, name.indices, name.root), "array(the last one, copy=False)"
            )
        elif self.rng.random() < 0.1:
            self._add(
                ProgramArray(viewed.view(viewed.dtype), base.memory, name.indices, name.root),
                "the last one.view(its dtype)",
            )
        elif self.rng.random() < 0.05 and self.displacement is None:
            viewed.requires_grad = False
            self.lines.append("the last one.requires_grad = False")

    # Steps -----------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        with suppress(NoArrayFits):
            self.rng.choice([self._launch, self._launch, self._method, self._method, self._new_array])()

    def _choose_array(
        self, others: Sequence[ProgramArray] = (), accepts: Callable[[ProgramArray], bool] = lambda n: True
    ) -> ProgramArray:
        """An array with the dtype and shape of others, identical to or disjoint from each of them."""
        candidates = [n for n in self.arrays if accepts(n) and str(n.array.dtype) in EPSILON]
        candidates = [
            n
            for n in candidates
            if all(str(n.array.dtype) == str(o.array.dtype) and n.shape == o.shape for o in others)
        ]
        candidates = [
            n
            for n in candidates
            if all(n.is_disjoint(o) or np.array_equal(n.indices, o.indices) for o in others)
        ]
        if not candidates:
            raise NoArrayFits
        if not others and self.rng.random() < 0.6:
            return max(candidates, key=dependency_count)
        return self.rng.choice(candidates)

    def _record(self, text: str, *names: ProgramArray) -> None:
        self.lines.append(f"{text}({', '.join(f'a{self.arrays.index(n)}' for n in names)})")

    def _launch(self) -> None:
        def is_1d(n: ProgramArray) -> bool:
            return len(n.shape) == 1

        def has_one_element(n: ProgramArray) -> bool:
            return n.shape == (1,)

        def is_4x4(n: ProgramArray) -> bool:
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
                "piecewise_linear",
                "matmul",
            ]
        )
        if kind == "scale":
            x = self._choose_array(accepts=is_1d)
            self._record(kind, x)
            tg.launch(scale, x.shape, [x.array])
            assign_linear(x, (1.5, x))
        elif kind in ("affine", "affine_2d"):
            x = self._choose_array(accepts=is_1d if kind == "affine" else lambda n: len(n.shape) == 2)
            y = self._choose_array([x])
            self._record(kind, x, y)
            tg.launch(affine if kind == "affine" else affine_2d, x.shape, [x.array], [y.array])
            assign_linear(y, (0.5 if kind == "affine" else -1.0, x))
        elif kind == "accumulate":
            x = self._choose_array(accepts=is_1d)
            y = self._choose_array([x])
            self._record(kind, x, y)
            tg.launch(accumulate, x.shape, [x.array], [y.array])
            assign_linear(y, (1.0, y), (-1.0, x))
        elif kind == "multiply":
            x = self._choose_array(accepts=is_1d)
            y = self._choose_array([x])
            z = self._choose_array([x, y])
            if not (z.is_disjoint(x) and z.is_disjoint(y)) and self.rng.random() < 0.8:
                raise NoArrayFits
            self._record(kind, x, y, z)
            values_before = x.values, y.values
            tg.launch(multiply, x.shape, [x.array, y.array], [z.array])
            assign_linear(z, (values_before[1], x), (values_before[0], y))
        elif kind == "gather":
            x, y = self._choose_array(accepts=is_1d), self._choose_array(accepts=is_1d)
            if not x.is_disjoint(y) or str(x.array.dtype) != str(y.array.dtype) or not x.indices.size:
                raise NoArrayFits
            indices = np.array([self.rng.randrange(x.shape[0]) for _ in range(y.shape[0])], np.int32)
            self._record(f"gather {indices.tolist()}", x, y)
            tg.launch(gather, y.shape, [x.array, tg.array(indices)], [y.array])
            x.mark_read()
            y.set_derivatives(x.slopes()[indices], x.slopes("magnitudes")[indices])
        elif kind == "total":
            x, y = self._choose_array(accepts=is_1d), self._choose_array(accepts=has_one_element)
            if not x.is_disjoint(y) or str(x.array.dtype) != str(y.array.dtype):
                raise NoArrayFits
            self._record(kind, x, y)
            tg.launch(total, x.shape, [x.array], [y.array])
            x.mark_read()
            y.mark_read()
            y.set_derivatives(
                *(y.slopes(field) + 0.25 * x.slopes(field).sum(0) for field in ("slopes", "magnitudes"))
            )
        elif kind == "twos":
            y = self._choose_array(accepts=is_1d)
            self._record(kind, y)
            tg.launch(fill_twos, y.shape, outputs=[y.array])
            assign_linear(y)
        elif kind == "piecewise_linear":
            x = self._choose_array(accepts=is_1d)
            y = self._choose_array([x])
            if not y.is_disjoint(x) and self.rng.random() < 0.8:
                raise NoArrayFits
            branch_taken = tg.zeros(x.shape, dtype=int)
            self._record(kind, x, y)
            tg.launch(piecewise_linear, x.shape, [x.array], [y.array, branch_taken])
            assign_linear(y, (0.7 * np.where(branch_taken.numpy() == 1, 2.0, -0.5), x))
        else:
            x = self._choose_array(accepts=is_4x4)
            y = self._choose_array([x])
            z = self._choose_array([x])
            if not (z.is_disjoint(x) and z.is_disjoint(y)):
                raise NoArrayFits
            self._record(kind, x, y, z)
            a, b = x.values, y.values
            tg.launch_tiled(matmul, 1, [x.array, y.array], [z.array], block_dim=32)
            x.mark_read()
            y.mark_read()
            z.set_derivatives(
                np.einsum("ikn,kj->ijn", x.slopes(), b) + np.einsum("ik,kjn->ijn", a, y.slopes()),
                np.einsum("ikn,kj->ijn", x.slopes("magnitudes"), abs(b))
                + np.einsum("ik,kjn->ijn", abs(a), y.slopes("magnitudes")),
            )

    def _method(self) -> None:
        kind = self.rng.choice(
            ["fill_", "zero_", "assign", "copy", "numpy", "list", "ints", "grad", "numbers"]
        )
        x = self.rng.choice([n for n in self.arrays if str(n.array.dtype) in EPSILON])
        if kind in ("fill_", "zero_"):
            self._record(kind, x)
            x.array.zero_() if kind == "zero_" else x.array.fill_(0.5)
            assign_linear(x)
        elif kind in ("assign", "copy"):
            candidates = [n for n in self.arrays if n.shape == x.shape]
            y = self.rng.choice(candidates)
            self._record(kind, x, y)
            slopes, magnitudes = y.slopes(), y.slopes("magnitudes")
            y.mark_read()
            x.array.assign(y.array) if kind == "assign" else tg.copy(x.array, y.array)
            x.set_derivatives(slopes, magnitudes)
        elif kind in ("numpy", "list", "ints", "numbers"):
            self._record(f"assign {kind}", x)
            data: Any = np.arange(np.prod(x.shape), dtype=np.float64).reshape(x.shape) / 8
            if kind == "list" and data.size:
                data = data.tolist()
            elif kind == "ints":
                data = tg.array((8 * data).astype(np.int32), requires_grad=self.rng.random() < 0.5)
            x.array.assign(data)
            assign_linear(x)
        elif x.requires_gradient:
            self._record("grad.fill_(0.5)", x)
            x.array.grad.fill_(0.5)
            self._store_gradient(x, 0.5)

    def _store_gradient(self, x: ProgramArray, value: Any) -> None:
        adjoint = self.stored_gradients.setdefault(id(x.memory), np.zeros(len(x.memory.values)))
        adjoint[x.indices] = value

    def _new_array(self) -> None:
        """A copy, or a view, that is created on the tape."""
        if self.rng.random() < 0.4:
            self._view()
            return
        x = self.rng.choice([n for n in self.arrays if str(n.array.dtype) in EPSILON])
        memory = self._memory(int(np.prod(x.shape)))
        indices = np.arange(len(memory.values)).reshape(x.shape)
        kind = self.rng.choice(
            [
                "clone",
                "clone",
                "detached" if self.displacement is None else "clone",
                "array",
                "requires_gradient",
            ]
        )
        k = self.arrays.index(x)
        text, make = {
            "clone": (f"clone(a{k})", lambda: tg.clone(x.array)),
            "detached": (f"clone(a{k}, requires_grad=False)", lambda: tg.clone(x.array, requires_grad=False)),
            "requires_gradient": (
                f"clone(a{k}, requires_grad=True)",
                lambda: tg.clone(x.array, requires_grad=True),
            ),
            "array": (f"array(a{k}, requires_grad=True)", lambda: tg.array(x.array, requires_grad=True)),
        }[kind]
        added = self._add(ProgramArray(make(), memory, indices), text)
        memory.start_tape(has_own_derivatives=not x.requires_gradient and self.displacement is None)
        x.mark_read()
        if kind != "detached":
            memory.slopes[indices] += x.slopes()
            memory.magnitudes[indices] += x.slopes("magnitudes")
        added.read_back()

    # Backwards -------------------------------------------------------------------------------------------------------

    def _arrays_with_gradient(self) -> Iterator[ProgramArray]:
        return (n for n in self.arrays if n.requires_gradient and n.root is None)

    def _backward(self, tape: Any) -> str:
        mode = self.rng.choice(["loss", "grads", "grads", "none"])
        requires_gradient = [n for n in self.arrays if n.requires_gradient and str(n.array.dtype) in EPSILON]
        requires_gradient = sorted(requires_gradient, key=dependency_count, reverse=True)[:4]
        if mode == "loss":
            scalars = [
                n
                for n in self.arrays
                if n.requires_gradient and n.shape == (1,) and str(n.array.dtype) in EPSILON
            ]
            requires_gradient = (
                sorted(scalars, key=dependency_count, reverse=True)[:1] or requires_gradient[:1]
            )
            mode = "loss" if requires_gradient and requires_gradient[0].shape == (1,) else "grads"
        if not requires_gradient:
            return "empty"
        seeds: dict[int, np.ndarray] = {}
        targets: list[ProgramArray] = []
        seed_arrays: dict[Any, Any] = {}
        seed_copies: dict[int, np.ndarray] = {}
        for n in self.rng.sample(
            requires_gradient, min(len(requires_gradient), 1 if mode == "loss" else self.rng.randint(1, 3))
        ):
            data = np.array([self.rng.choice([-1.0, 0.5, 1.0, 2.0]) for _ in range(n.indices.size)]).reshape(
                n.shape
            )
            if mode == "loss":
                data = np.ones(n.shape)
            if mode == "none":
                n.array.grad.assign(data)
                self._store_gradient(n, data)
            else:
                targets.append(n)
                adjoint = seeds.setdefault(id(n.memory), np.zeros(len(n.memory.values)))
                adjoint[n.indices] += data
                seed_arrays[n.array] = data if self.rng.random() < 0.5 else tg.array(data)
                seed_copies[id(seed_arrays[n.array])] = data.copy()
        self.lines.append(f"backward({mode}: {', '.join(f'a{self.arrays.index(n)}' for n in targets)})")
        written_arrays = list(self._written_arrays(tape))
        if mode == "loss":
            tape.backward(targets[0].array)
        elif mode == "grads":
            tape.backward(grads=seed_arrays)
        else:
            tape.backward()
        for n in targets:
            seed_values = seed_arrays[n.array]
            if not np.array_equal(np.asarray(seed_values, np.float64), seed_copies[id(seed_values)]):
                return "wrong: backward modified the gradients passed to it"
        start = self.stored_gradients if mode == "none" else seeds
        return self._compare_gradients(mode, start, targets if mode != "none" else written_arrays)

    def _written_arrays(self, tape: Any) -> Iterator[ProgramArray]:
        """The arrays with a gradient that the records of a tape write."""
        arrays = {id(use.array) for record in tape.records for use in record.writes}
        return (n for n in self.arrays if n.requires_gradient and id(n.array) in arrays)

    def _compare_gradients(
        self, mode: str, start: dict[int, np.ndarray], retained: Sequence[ProgramArray]
    ) -> str:
        memories = {id(n.memory): n.memory for n in self.arrays}
        sums, magnitudes = np.zeros(COLUMNS), np.zeros(COLUMNS)
        for key, seed in start.items():
            sums += seed @ memories[key].slopes
            magnitudes += np.abs(seed) @ memories[key].magnitudes
        if not np.isfinite(sums).all() or magnitudes.max() > 1e3:
            return "unstable"
        adjoints: dict[int, np.ndarray] = {}
        for n in self._arrays_with_gradient():
            m = n.memory
            expected = sums[m.first : m.first + len(m.values)].copy()
            bound = magnitudes[m.first : m.first + len(m.values)].copy()
            if mode != "none":
                stored = self.stored_gradients.get(id(m), np.zeros(len(m.values)))
                is_retained = np.zeros(len(m.values), bool)
                for target in retained:
                    if target.memory is m:
                        is_retained[target.indices] = True
                expected += np.where(is_retained, 0.0, stored)
                bound += np.abs(stored)
            for target in retained:
                if target.memory is m and not m.is_read[target.indices].any():
                    seed = start.get(id(m))
                    expected[target.indices] = 0.0 if seed is None else seed[target.indices]
                    bound[target.indices] = np.abs(expected[target.indices])
            result = n.array.grad.numpy().astype(np.float64).reshape(-1)[np.argsort(n.indices.reshape(-1))]
            limit = 4 * (self.steps + 6) * self.epsilon * (bound + 1e-3)
            if not np.all(np.abs(result - expected) <= limit):
                k = int(np.argmax(np.abs(result - expected) - limit))
                return f"wrong: a{self.arrays.index(n)}.grad[{k}] is {result[k]}, not {expected[k]}"
            adjoints[id(m)] = result
        self.stored_gradients = adjoints
        return "right"


class NoArrayFits(Exception):
    """Raised if no array fits a statement."""


def outcome(seed: int, dtype: str) -> tuple[str, TapeProgram]:
    """The outcome of a program, and the program. An error other than a refusal is a failure."""
    program = TapeProgram(seed, dtype)
    try:
        return program.run(), program
    except Exception as error:
        return f"wrong: {type(error).__name__} {error}", program
