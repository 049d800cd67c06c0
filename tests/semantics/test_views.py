"""Views of tiles: reshaped, broadcast, and picked by slices and tiles of indices together."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg
from support.campaigns import chunks

X = np.arange(24, dtype=np.int32)


def stored(text: str) -> np.ndarray:
    """The contents of o, with 24 elements, after the body; x is 0, 1, 2, ..."""
    lines = "\n".join("    " + line for line in text.strip("\n").splitlines())
    source = f"def kernel(x: tg.array[int], o: tg.array[int]):\n    i, j = tg.tid()\n{lines}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(source, space)
    return agree(
        tg.kernel(source=source)(space["kernel"]), [tg.array(X), tg.zeros(24, dtype=int)], 1, 4, tiled=True
    )[1]


def loaded(shape: tuple[int, ...], storage: str = "register") -> str:
    return f't = tg.tile_reshape(tg.tile_load(x, shape=24, storage="{storage}"), {shape})\n'


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", ["register", "shared"])
@pytest.mark.parametrize(
    ("shape", "view", "picked", "result"),
    [
        ((4, 6), "[:, ::2]", np.s_[:, ::2], (12,)),
        ((4, 6), "[:, ::2]", np.s_[:, ::2], (2, 2, 3)),
        ((4, 6), "[::-1]", np.s_[::-1], (2, 2, 6)),
        ((4, 6), "[::2, 1:4]", np.s_[::2, 1:4], (1, 2, 3, 1)),
        ((2, 3, 4), "[:, :, ::2]", np.s_[:, :, ::2], (6, 2)),
        ((2, 3, 4), "[:, 1:3]", np.s_[:, 1:3], (16,)),
    ],
)
def test_reshapes_of_strided_views_have_the_elements_of_numpy(
    storage: str, shape: tuple[int, ...], view: str, picked: Any, result: tuple[int, ...]
) -> None:
    size = int(np.prod(result))
    out = stored(
        f"{loaded(shape, storage)}v = t{view}\nr = tg.tile_reshape(v, {result})\n"
        f"tg.tile_store(o, tg.tile_reshape(tg.copy(r), {size}))"
    )
    assert out[:size].tolist() == X.reshape(shape)[picked].ravel().tolist()


def reshaped(seed: int) -> bool:
    """Whether NumPy reshapes a random view without a copy, so that changes are visible in both, and not if it copies.
    AssertionError if a tile differs."""
    rng = random.Random(seed)
    shape = rng.choice([(4, 6), (2, 3, 4), (24,), (2, 2, 3, 2)])
    t = X.reshape(shape).copy()
    v, text = t, loaded(shape, rng.choice(["register", "shared"]))
    name = "t"
    for _ in range(rng.randrange(1, 3)):
        if rng.random() < 0.7:
            parts = [rng.choice([":", "::-1", "::2", f"{n - 1}::-2", f"{n // 2}:"]) for n in v.shape]
            index = ", ".join([rng.choice([f"j * 0 + {v.shape[0] - 1}", ":"]), *parts[1:]][: len(parts)])
            index = index if v.ndim > 1 else parts[0]
            v, text = eval(f"v[{index}]", {"v": v, "j": 0}), f"{text}v = {name}[{index}]\n"
        else:
            order = tuple(rng.sample(range(v.ndim), v.ndim))
            v, text = v.transpose(order), f"{text}v = tg.tile_permute({name}, {order})\n"
        name = "v"
    first = rng.choice([n for n in range(1, v.size + 1) if v.size % n == 0])
    result = rng.choice([(v.size,), (first, v.size // first)])
    r, is_view = v.reshape(result), np.may_share_memory(v.reshape(result), t)
    text += f"r = tg.tile_reshape(v, {result})\nt += 100\n"
    t += 100
    if is_view:
        text += "r += 1000\n"
        r += 1000
    whole_tile, part = (f"tg.tile_reshape({name} + 0, {n})" for name, n in (("t", 24), ("r", v.size)))
    assert stored(f"{text}tg.tile_store(o, {whole_tile})").tolist() == t.ravel().tolist(), text
    assert stored(f"{text}tg.tile_store(o, {part})")[: v.size].tolist() == r.ravel().tolist(), text
    return is_view


@pytest.mark.machine_code
def test_reshapes_are_views_where_numpy_makes_views() -> None:
    assert {reshaped(seed) for seed in range(12)} == {True, False}


@pytest.mark.machine_code
@pytest.mark.parametrize("first", chunks(range(100, 500, 25)))
def test_many_reshapes_are_views_where_numpy_makes_views(first: int) -> None:
    for seed in range(first, first + 25):
        reshaped(seed)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("shape", "view", "result"),
    [
        ((4, 6), np.s_[:, ::2], (2, 2, 3)),
        ((4, 6), np.s_[:, ::2], (3, 4)),
        ((4, 6), np.s_[::-1, ::-1], (24,)),
        ((2, 3, 4), np.s_[::-1, ::-1, ::-1], (4, 6)),
        ((2, 3, 4), np.s_[:, 1:3, 0], (2, 2)),
    ],
)
def test_a_reshape_along_even_distances_is_a_view(
    shape: tuple[int, ...], view: Any, result: tuple[int, ...]
) -> None:
    index = ", ".join(
        f"{'' if s.start is None else s.start}:{s.stop or ''}:{s.step or ''}"
        if isinstance(s, slice)
        else str(s)
        for s in view
    )
    last = tuple(n - 1 for n in result)
    expected = X.reshape(shape).copy()
    expected[view].reshape(result, copy=False)[last] = 99
    out = stored(
        f"{loaded(shape)}r = tg.tile_reshape(t[{index}], {result})\nr[{', '.join(map(str, last))}] = 99\n"
        "tg.tile_store(o, tg.tile_reshape(t, 24))"
    )
    assert out.tolist() == expected.ravel().tolist()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("r = tg.tile_reshape(t[:, 1:4], 12)\nr[0] = 1", "tile_reshape of a strided view"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nr[0, 0] = 1", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nr += t", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nv = r[1]\nv[0] += 1", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\ntg.tile_assign(r, t)", "tile_broadcast"),
    ],
)
def test_a_copy_that_looks_like_a_view_is_read_only(text: str, named: str) -> None:
    with pytest.raises(tg.CompileError, match=f"the result of {named} is read-only"):
        stored(loaded((4, 6)) + text)


@pytest.mark.machine_code
def test_a_copy_of_a_broadcast_can_be_changed() -> None:
    out = stored(
        loaded((4, 6)) + "r = tg.copy(tg.tile_broadcast(t[0:1], (4, 6)))\nr[1, 2] = 99\n"
        "tg.tile_store(o, tg.tile_reshape(r, 24))"
    )
    expected = np.broadcast_to(X[:6], (4, 6)).copy()
    expected[1, 2] = 99
    assert out.tolist() == expected.ravel().tolist()


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("index", "picked"),
    [
        ("[1:3, k]", np.s_[1:3, [5, 0, 2]]),
        ("[::-1, k]", np.s_[::-1, [5, 0, 2]]),
        ("[k, 1:4]", np.s_[[3, 0, 2], 1:4]),
        ("[1, k]", np.s_[1, [5, 0, 2]]),
        ("[k, 4]", np.s_[[3, 0, 2], 4]),
    ],
)
@pytest.mark.parametrize("storage", ["register", "shared"])
def test_slices_next_to_a_tile_of_indices_match_numpy(storage: str, index: str, picked: Any) -> None:
    expected = X.reshape(4, 6)[picked]
    first = 3 if index.startswith("[k") else 5
    out = stored(
        f"{loaded((4, 6), storage)}k = tg.tile_zeros(3, dtype=int)\nk[0] = {first}\nk[2] = 2\n"
        f"tg.tile_store(o, tg.tile_reshape(t{index}, {expected.size}))"
    )
    assert out[: expected.size].tolist() == expected.ravel().tolist()


def test_an_index_parted_from_a_tile_of_indices_by_a_slice_is_refused() -> None:
    with pytest.raises(tg.CompileError, match="separated by a slice"):
        stored(loaded((2, 3, 4)) + "k = tg.tile_zeros(3, dtype=int)\nu = t[0, :, k]")


LOOKS = {
    "tg.tile_reshape(t, (4, 6))[k % 4, 1]": lambda x, k: x.reshape(4, 6)[k % 4, 1],
    "tg.tile_transpose(tg.tile_reshape(t, (4, 6)))[5, k % 4]": lambda x, k: x.reshape(4, 6).T[5, k % 4],
    "tg.tile_view(t, k, shape=4)[2]": lambda x, k: x[k : k + 4][2],
    "tg.tile_reshape(tg.tile_view(t, k, shape=4), (2, 2))[1, 0]": lambda x, k: x[k : k + 4].reshape(2, 2)[
        1, 0
    ],
    "tg.tile_reshape(t, (4, 6))[k % 4][3]": lambda x, k: x.reshape(4, 6)[k % 4][3],
}
"""Elements of views, and the same of NumPy's."""

REACHED = {
    "k = j\no[j] = {look}": lambda look, j: look(j),
    "k = j\nif j > 1:\n    o[j] = {look}": lambda look, j: look(j) if j > 1 else 0,
    "k = j + 1\nwhile k < 4:\n    o[j] += {look}\n    k += 2": lambda look, j: sum(
        map(look, range(j + 1, 4, 2))
    ),
    "for k in range(j, 3):\n    if k != 1:\n        v = {look}\n        o[j] += v": lambda look, j: sum(
        look(k) for k in range(j, 3) if k != 1
    ),
}
"""Expressions for a value k per thread, and the result of thread j."""


@pytest.mark.machine_code
@pytest.mark.parametrize(("reached", "storage"), list(zip(REACHED, ["register", "shared"] * 2, strict=True)))
def test_each_thread_has_its_own_view_of_a_tile_that_nothing_changes(reached: str, storage: str) -> None:
    expected, lines = np.zeros(24, np.int32), f't = tg.tile_load(x, shape=24, storage="{storage}")\n'
    for n, (look, source_text) in enumerate(LOOKS.items()):
        statement = reached.format(look=look).replace("o[j]", f"o[j + {4 * n}]")
        lines += statement + "\n"
        expected[4 * n : 4 * n + 4] = [
            REACHED[reached](lambda k, of=source_text: of(X, k), j) for j in range(4)
        ]
    np.testing.assert_array_equal(stored(lines), expected)
