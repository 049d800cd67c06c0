"""Views of tiles: reshaped, broadcast, and picked by slices and tiles of indices together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg

X = np.arange(24, dtype=np.int32)


def stored(text: str) -> np.ndarray:
    """What the body leaves in o, which holds 24 elements; x is 0, 1, 2, ..."""
    lines = "\n".join("    " + line for line in text.strip("\n").splitlines())
    source = f"def kernel(x: tg.array[int], o: tg.array[int]):\n    i, j = tg.tid()\n{lines}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(source, space)
    return agree(
        tg.kernel(source=source)(space["kernel"]), [tg.array(X), tg.zeros(24, dtype=int)], 1, 4, tiled=True
    )[1]


def loaded(shape: tuple[int, ...], storage: str = "register") -> str:
    return f't = tg.tile_reshape(tg.tile_load(x, shape=24, storage="{storage}"), {shape})\n'


@pytest.mark.parametrize("storage", ["register", "shared"])
@pytest.mark.parametrize(
    ("shape", "view", "picked", "made"),
    [
        ((4, 6), "[:, ::2]", np.s_[:, ::2], (12,)),
        ((4, 6), "[:, ::2]", np.s_[:, ::2], (2, 2, 3)),
        ((4, 6), "[::-1]", np.s_[::-1], (2, 2, 6)),
        ((4, 6), "[::2, 1:4]", np.s_[::2, 1:4], (1, 2, 3, 1)),
        ((2, 3, 4), "[:, :, ::2]", np.s_[:, :, ::2], (6, 2)),
        ((2, 3, 4), "[:, 1:3]", np.s_[:, 1:3], (16,)),
    ],
)
def test_the_reshape_of_a_strided_view(
    storage: str, shape: tuple[int, ...], view: str, picked: Any, made: tuple[int, ...]
) -> None:
    size = int(np.prod(made))
    out = stored(
        f"{loaded(shape, storage)}v = t{view}\nr = tg.tile_reshape(v, {made})\n"
        f"tg.tile_store(o, tg.tile_reshape(tg.copy(r), {size}))"
    )
    assert out[:size].tolist() == X.reshape(shape)[picked].ravel().tolist()


def test_a_reshape_that_walks_along_the_old_dimensions_is_a_view() -> None:
    out = stored(
        loaded((4, 6)) + "v = t[:, ::2]\nr = tg.tile_reshape(v, (2, 2, 3))\nr[1, 0, 2] = 99\n"
        "tg.tile_store(o, tg.tile_reshape(t, 24))"
    )
    expected = X.copy()
    expected[2 * 6 + 4] = 99
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("r = tg.tile_reshape(t[:, ::2], 12)\nr[0] = 1", "tile_reshape of a strided view"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nr[0, 0] = 1", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nr += t", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\nv = r[1]\nv[0] += 1", "tile_broadcast"),
        ("r = tg.tile_broadcast(t[0:1], (4, 6))\ntg.tile_assign(r, t)", "tile_broadcast"),
    ],
)
def test_a_copy_that_looks_like_a_view_is_read_only(text: str, named: str) -> None:
    with pytest.raises(tg.CompileError, match=f"the result of {named} is read-only"):
        stored(loaded((4, 6)) + text)


def test_a_copy_of_a_broadcast_can_be_changed() -> None:
    out = stored(
        loaded((4, 6)) + "r = tg.copy(tg.tile_broadcast(t[0:1], (4, 6)))\nr[1, 2] = 99\n"
        "tg.tile_store(o, tg.tile_reshape(r, 24))"
    )
    expected = np.broadcast_to(X[:6], (4, 6)).copy()
    expected[1, 2] = 99
    assert out.tolist() == expected.ravel().tolist()


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
def test_slices_and_indices_beside_a_tile_of_indices(storage: str, index: str, picked: Any) -> None:
    wanted = X.reshape(4, 6)[picked]
    first = 3 if index.startswith("[k") else 5
    out = stored(
        f"{loaded((4, 6), storage)}k = tg.tile_zeros(3, dtype=int)\nk[0] = {first}\nk[2] = 2\n"
        f"tg.tile_store(o, tg.tile_reshape(t{index}, {wanted.size}))"
    )
    assert out[: wanted.size].tolist() == wanted.ravel().tolist()


def test_an_index_parted_from_a_tile_of_indices_by_a_slice_is_refused() -> None:
    with pytest.raises(tg.CompileError, match="parted by a slice"):
        stored(loaded((2, 3, 4)) + "k = tg.tile_zeros(3, dtype=int)\nu = t[0, :, k]")
