"""Views of tiles: reshaped, broadcast, and selected by slices and tiles of indices together."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg
from support.campaigns import chunks

X = np.arange(24, dtype=np.int32)


def stored_elements(text: str) -> np.ndarray:
    """The contents of o, with 24 elements, after the body; x is 0, 1, 2, ..."""
    lines = "\n".join("    " + line for line in text.strip("\n").splitlines())
    source = f"def kernel(x: tg.array[int], o: tg.array[int]):\n    i, j = tg.tid()\n{lines}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(source, space)
    return agree(
        tg.kernel(source=source)(space["kernel"]), [tg.array(X), tg.zeros(24, dtype=int)], 1, 4, tiled=True
    )[1]


def load_text(shape: tuple[int, ...], storage: str = "register") -> str:
    return f't = tg.tile_reshape(tg.tile_load(x, shape=24, storage="{storage}"), {shape})\n'


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", ["register", "shared"])
@pytest.mark.parametrize(
    ("shape", "view", "numpy_index", "result"),
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
    storage: str, shape: tuple[int, ...], view: str, numpy_index: Any, result: tuple[int, ...]
) -> None:
    size = int(np.prod(result))
    out = stored_elements(
        f"{load_text(shape, storage)}v = t{view}\nr = tg.tile_reshape(v, {result})\n"
        f"tg.tile_store(o, tg.tile_reshape(tg.copy(r), {size}))"
    )
    assert out[:size].tolist() == X.reshape(shape)[numpy_index].ravel().tolist()


def check_reshape(seed: int) -> bool:
    """Compare reshapes of a random view with NumPy, where updates through the view and through the reshaped view are
    visible in both. Returns whether NumPy reshapes without a copy."""
    rng = random.Random(seed)
    shape = rng.choice([(4, 6), (2, 3, 4), (24,), (2, 2, 3, 2)])
    t = X.reshape(shape).copy()
    v, text = t, load_text(shape, rng.choice(["register", "shared"]))
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
    assert stored_elements(f"{text}tg.tile_store(o, {whole_tile})").tolist() == t.ravel().tolist(), text
    assert stored_elements(f"{text}tg.tile_store(o, {part})")[: v.size].tolist() == r.ravel().tolist(), text
    return is_view


@pytest.mark.machine_code
def test_reshapes_are_views_where_numpy_makes_views() -> None:
    assert {check_reshape(seed) for seed in range(12)} == {True, False}


@pytest.mark.machine_code
@pytest.mark.parametrize("first", chunks(range(100, 500, 25)))
def test_many_reshapes_are_views_where_numpy_makes_views(first: int) -> None:
    for seed in range(first, first + 25):
        check_reshape(seed)


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
def test_a_reshape_with_one_stride_per_dimension_is_a_view(
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
    out = stored_elements(
        f"{load_text(shape)}r = tg.tile_reshape(t[{index}], {result})\nr[{', '.join(map(str, last))}] = 99\n"
        "tg.tile_store(o, tg.tile_reshape(t, 24))"
    )
    assert out.tolist() == expected.ravel().tolist()


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("r = tg.tile_reshape(t[:, 1:4], 12)\nr[0] = 1", "tile_reshape of a strided view"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nr[0, 0] = 1", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nr += t", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nv = r[1]\nv[0] += 1", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\ntg.tile_assign(r, t)", "tile_broadcast"),
    ],
)
def test_copies_returned_by_view_functions_are_read_only(text: str, operation: str) -> None:
    with pytest.raises(tg.CompileError, match=f"the result of {operation} is read-only"):
        stored_elements(load_text((4, 6)) + text)


@pytest.mark.machine_code
def test_a_copy_of_a_broadcast_can_be_changed() -> None:
    out = stored_elements(
        load_text((4, 6)) + "r = tg.copy(tg.tile_broadcast(t[0:1], (4, 6)))\nr[1, 2] = 99\n"
        "tg.tile_store(o, tg.tile_reshape(r, 24))"
    )
    expected = np.broadcast_to(X[:6], (4, 6)).copy()
    expected[1, 2] = 99
    assert out.tolist() == expected.ravel().tolist()


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("index", "numpy_index"),
    [
        ("[1:3, k]", np.s_[1:3, [5, 0, 2]]),
        ("[::-1, k]", np.s_[::-1, [5, 0, 2]]),
        ("[k, 1:4]", np.s_[[3, 0, 2], 1:4]),
        ("[1, k]", np.s_[1, [5, 0, 2]]),
        ("[k, 4]", np.s_[[3, 0, 2], 4]),
    ],
)
@pytest.mark.parametrize("storage", ["register", "shared"])
def test_slices_next_to_a_tile_of_indices_match_numpy(storage: str, index: str, numpy_index: Any) -> None:
    expected = X.reshape(4, 6)[numpy_index]
    first = 3 if index.startswith("[k") else 5
    out = stored_elements(
        f"{load_text((4, 6), storage)}k = tg.tile_zeros(3, dtype=int)\nk[0] = {first}\nk[2] = 2\n"
        f"tg.tile_store(o, tg.tile_reshape(t{index}, {expected.size}))"
    )
    assert out[: expected.size].tolist() == expected.ravel().tolist()


def test_an_index_and_a_tile_of_indices_separated_by_a_slice_are_refused() -> None:
    with pytest.raises(tg.CompileError, match="separated by a slice"):
        stored_elements(load_text((2, 3, 4)) + "k = tg.tile_zeros(3, dtype=int)\nu = t[0, :, k]")


VIEW_ELEMENTS = {
    "tg.tile_reshape(t, (4, 6))[k % 4, 1]": lambda x, k: x.reshape(4, 6)[k % 4, 1],
    "tg.tile_transpose(tg.tile_reshape(t, (4, 6)))[5, k % 4]": lambda x, k: x.reshape(4, 6).T[5, k % 4],
    "tg.tile_view(t, k, shape=4)[2]": lambda x, k: x[k : k + 4][2],
    "tg.tile_reshape(tg.tile_view(t, k, shape=4), (2, 2))[1, 0]": lambda x, k: x[k : k + 4].reshape(2, 2)[
        1, 0
    ],
    "tg.tile_reshape(t, (4, 6))[k % 4][3]": lambda x, k: x.reshape(4, 6)[k % 4][3],
}
"""Elements of views of tiles, and the same elements of NumPy views."""

STATEMENTS = {
    "k = j\no[j] = {element}": lambda element, j: element(j),
    "k = j\nif j > 1:\n    o[j] = {element}": lambda element, j: element(j) if j > 1 else 0,
    "k = j + 1\nwhile k < 4:\n    o[j] += {element}\n    k += 2": lambda element, j: sum(
        map(element, range(j + 1, 4, 2))
    ),
    "for k in range(j, 3):\n    if k != 1:\n        v = {element}\n        o[j] += v": lambda element, j: sum(
        element(k) for k in range(j, 3) if k != 1
    ),
}
"""Statements that read an element at an index k of each thread, and the result of thread j."""


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("statement", "storage"), list(zip(STATEMENTS, ["register", "shared"] * 2, strict=True))
)
def test_views_of_unchanged_tiles_may_differ_between_threads(statement: str, storage: str) -> None:
    expected, lines = np.zeros(24, np.int32), f't = tg.tile_load(x, shape=24, storage="{storage}")\n'
    for n, (element, source_text) in enumerate(VIEW_ELEMENTS.items()):
        lines_of_element = statement.format(element=element).replace("o[j]", f"o[j + {4 * n}]")
        lines += lines_of_element + "\n"
        expected[4 * n : 4 * n + 4] = [
            STATEMENTS[statement](lambda k, of=source_text: of(X, k), j) for j in range(4)
        ]
    np.testing.assert_array_equal(stored_elements(lines), expected)
