"""Parts of tiles, selected by `...`, `.T` and indices; scatters, padding and diagonals of tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg

X = np.arange(12, dtype=np.float32).reshape(3, 4)
LOAD = "t = tg.tile_reshape(tg.tile_arange(12), (3, 4))\n"


def kernel(text: str) -> Any:
    lines = "\n".join("    " + line for line in text.strip("\n").splitlines())
    source = f"def kernel(o: tg.array[float], n: int):\n    i, j = tg.tid()\n{lines}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(source, space)
    return tg.kernel(source=source)(space["kernel"])


def stored_elements(text: str, block_dim: int = 4, n: int = 2) -> np.ndarray:
    return agree(kernel(text), [tg.zeros(40), n], 1, block_dim, tiled=True)[0]


def evaluate(expression: str, shape: tuple[int, ...]) -> np.ndarray:
    """The value of an expression in t, a tile with the elements of X."""
    size = int(np.prod(shape))
    return stored_elements(f"{LOAD}tg.tile_store(o, tg.tile_reshape({expression}, {size}))")[:size].reshape(
        shape
    )


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("t[...]", X),
        ("t[..., 1]", X[..., 1]),
        ("t[1, ...]", X[1, ...]),
        ("t[..., ::2]", X[..., ::2]),
        ("tg.copy(t.T)", X.T),
        ("tg.tile_view(t, offset=(slice(0, 2), slice(1, 3)))", X[0:2, 1:3]),
        ("tg.tile_slice_indexed(t, tg.tile_arange(2, 0, -1, dtype=int))", X[[2, 1]]),
        ("tg.tile_slice_indexed(t, tg.tile_arange(-1, 3, dtype=int), axis=1)", X[:, [-1, 0, 1, 2]]),
        ("tg.tile_slice_indexed(t, tg.tile_arange(2, 4, dtype=int))", np.stack([X[2], 0 * X[2]])),
        ("tg.tile_slice_indexed(t, (slice(None), tg.tile_arange(2, 0, -1, dtype=int)))", X[:, [2, 1]]),
        (
            "tg.tile_slice_indexed(t, indices=(tg.tile_arange(2, 0, -1, dtype=int), slice(None)))",
            X[[2, 1], :],
        ),
        ("tg.tile_pad(t, 1)", np.pad(X, 1)),
        ("tg.tile_pad(t, ((0, 2), (1, 0)), 7.0)", np.pad(X, ((0, 2), (1, 0)), constant_values=7)),
        ("tg.tile_diag_add(t[:, 0:3], tg.tile_ones(3))", X[:, :3] + np.eye(3)),
    ],
)
def test_parts_of_tiles_match_numpy(expression: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(evaluate(expression, expected.shape), expected)


@pytest.mark.machine_code
def test_assignment_through_ellipsis_matches_numpy() -> None:
    out = stored_elements(
        LOAD + "t[..., 1] = 9.0\nt[0, ...] += 1.0\ntg.tile_store(o, tg.tile_reshape(t, 12))"
    )
    expected = X.copy()
    expected[..., 1] = 9
    expected[0, ...] += 1
    assert out[:12].tolist() == expected.ravel().tolist()


@pytest.mark.machine_code
def test_tiles_have_ndim_and_size() -> None:
    assert stored_elements(LOAD + "o[0] = float(t.ndim)\no[1] = float(t.size)")[:2].tolist() == [2, 12]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", ["register", "shared"])
def test_tile_scatters_match_numpy(storage: str) -> None:
    out = stored_elements(
        f'a = tg.tile_zeros(4, storage="{storage}")\nb = tg.tile_zeros((2, 2), storage="{storage}")\n'
        "tg.tile_scatter_add(a, j % 2, 1.0, j > 0)\ntg.tile_scatter_add(a, 3, 2.0, True, atomic=False)\n"
        "tg.tile_scatter_masked(b, j // 2, j % 2, float(j), j != 2)\n"
        "tg.tile_store(o, a)\ntg.tile_store(o, tg.tile_reshape(b, 4), offset=4)",
    )
    assert out[:8].tolist() == [1, 2, 0, 8, 0, 1, 0, 3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tg.tile_scatter_add(t, 0, 1.0, True)", "2 indices"),
        ("tg.tile_scatter_masked(tg.tile_zeros(4), 0, 1.0, True)", "bound to a name"),
        ("u = tg.tile_pad(t, ((1, 1),))", "an entry for each of 2 dimensions"),
        ("u = tg.tile_pad(t, -1)", "both at least 0"),
        ("u = tg.tile_pad(t, n)", "compile-time constant"),
        ("u = tg.tile_diag_add(t, tg.tile_ones(3))", "do not fit"),
        ("u = tg.tile_diag_add(t[:, 0:3], tg.tile_ones(3, dtype=int))", "one dtype"),
        ("u = tg.tile_slice_indexed(t, 1)", "a tile of indices"),
        ("u = tg.tile_slice_indexed(t, (0, slice(None)))", "a tuple with a tile of indices"),
        ("u = tg.tile_slice_indexed(t, (tg.tile_arange(2, dtype=int),), axis=1)", "takes no axis"),
        ("u = t[..., 0, ...]", "'...'"),
        ("t.T = t", "cannot be changed"),
    ],
)
def test_invalid_parts_of_tiles_are_refused(text: str, message: str) -> None:
    with pytest.raises(tg.CompileError) as raised:
        stored_elements(LOAD + text)
    assert message in str(raised.value)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("u = s[:, ::-1]\nt[0, 1] = 50.0", X[:, ::-1]),
        ("u = s[:, ::-1] * 2.0\nt[0, 1] = 50.0", 2 * X[:, ::-1]),
        ("x = s[::-1]\ny = x * 2.0\nt[0:1] = y[1:2]\nu = x + y", 3 * X[::-1]),
        ("u = tg.tile_transpose(tg.tile_reshape(s[::-1], (4, 3)))\nt[0, 1] = 50.0", X[::-1].reshape(4, 3).T),
    ],
)
def test_transposed_tiles_keep_overwritten_elements(text: str, expected: np.ndarray) -> None:
    """If the tile is overwritten under another name, its transpose keeps the old elements."""
    out = stored_elements(f"{LOAD}s = t\n{text}\ntg.tile_store(o, tg.tile_reshape(u * 1.0, 12))")
    np.testing.assert_array_equal(out[:12].reshape(expected.shape), expected)


@pytest.mark.machine_code
def test_one_thread_may_access_elements_of_a_tile() -> None:
    out = stored_elements(
        "t = tg.tile_from_thread(8, float(j) * 2.0, 3)\no[j] = t[5] + t[n + j]\ntg.tile_store(o, t, offset=4)"
    )
    assert out[:12].tolist() == [12.0] * 4 + [6.0] * 8


@pytest.mark.machine_code
def test_conditional_expressions_of_tuples_match_python() -> None:
    out = stored_elements(
        "x, (y, z) = (1.0, (2.0, o[3])) if j > 1 else (3.0, (4.0, 5.0))\no[j] = x * 100.0 + y * 10.0 + z"
    )
    assert out[:4].tolist() == [345, 345, 120, 120]


@pytest.mark.machine_code
def test_conditional_expressions_of_tuples_with_tiles_match_python() -> None:
    out = stored_elements(
        "t, k = (tg.tile_ones(4), 1.0) if n > 1 else (tg.tile_zeros(4), 2.0)\ntg.tile_store(o, t * k)"
    )
    assert out[:4].tolist() == [1, 1, 1, 1]


def test_conditional_expressions_of_unlike_tuples_are_refused() -> None:
    with pytest.raises(tg.CompileError, match=r"\(float32, float32\) and float32"):
        stored_elements("x = (1.0, 2.0) if j > 1 else 3.0")


def test_native_snippets_are_refused_with_their_line() -> None:
    with pytest.raises(tg.CompileError, match="another language") as raised:
        tg.func_native("return x;")
    assert raised.value.loc is not None and "func_native" in raised.value.loc.text()
