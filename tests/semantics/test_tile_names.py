"""The section "Tiles" of the semantics: names, aliases, views; one test per line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, codes

import tegula as tg

STORAGES = ("register", "shared")


def build_kernel(text: str, **names: Any) -> Any:
    """A kernel over x: array[int] and o: array2d[int] with the given body."""
    lines = "\n".join("    " + line for line in text.strip("\n").splitlines())
    source = f"def kernel(x: tg.array[int], o: tg.array2d[int], n: int):\n    i, j = tg.tid()\n{lines}\n"
    space: dict[str, Any] = {"tg": tg, **names}
    exec(source, space)
    return tg.kernel(source=source)(space["kernel"])


def stored_rows(text: str, block_dim: int = 4, n: int = 2, **names: Any) -> list[list[int]]:
    """The rows of o, with 4 elements each, after the body ran. x is 1, 2, 3, ..."""
    x = tg.array(np.arange(1, 17, dtype=np.int32))
    return agree(build_kernel(text, **names), [x, tg.zeros((4, 4), dtype=int), n], 1, block_dim, tiled=True)[
        1
    ].tolist()


def refusal(text: str, **names: Any) -> tg.CompileError:
    with pytest.raises(tg.CompileError) as raised:
        stored_rows(text, **names)
    return raised.value


LOAD_A = 'a = tg.tile_load(x, shape=4, storage="{0}")'
LOAD_B = 'b = tg.tile_load(x, shape=4, offset=4, storage="{0}")'
STORE = "tg.tile_store(o[0], a)\ntg.tile_store(o[1], b)"
FIRST, SECOND = [1, 2, 3, 4], [5, 6, 7, 8]


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "change", ["b[1] = 9", "b += tg.tile_arange(4, dtype=int)", "if j == 1:\n    b[1] = 9"]
)
@pytest.mark.parametrize("storage", STORAGES)
def test_assignment_of_a_shared_tile_creates_an_alias(storage: str, change: str) -> None:
    actual = stored_rows(f"{LOAD_A.format(storage)}\nb = a\n{change}\n{STORE}")
    updated = [1, 3, 5, 7] if "arange" in change else [1, 9, 3, 4]
    assert actual[1] == updated
    assert actual[0] == (updated if storage == "shared" else FIRST)


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_both_names_of_a_shared_tile_change_the_object(storage: str) -> None:
    actual = stored_rows(f"{LOAD_A.format(storage)}\nb = a\na[0] = 7\n{STORE}")
    assert actual[0] == [7, 2, 3, 4] and actual[1] == ([7, 2, 3, 4] if storage == "shared" else FIRST)


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_rebinding_a_name_changes_no_tile(storage: str) -> None:
    actual = stored_rows(f"{LOAD_A.format(storage)}\nb = a\na = a + a\n{STORE}")
    assert actual[:2] == [[2, 4, 6, 8], FIRST]


@pytest.mark.machine_code
@pytest.mark.parametrize("first", STORAGES)
@pytest.mark.parametrize("second", STORAGES)
def test_swapped_names_exchange_tiles(first: str, second: str) -> None:
    actual = stored_rows(f"{LOAD_A.format(first)}\n{LOAD_B.format(second)}\na, b = b, a\na[0] = 0\n{STORE}")
    assert actual[:2] == [[0, 6, 7, 8], FIRST]


@pytest.mark.machine_code
@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("first", STORAGES)
@pytest.mark.parametrize("second", STORAGES)
def test_swap_carried_through_a_loop_with_mixed_storages(first: str, second: str, n: int) -> None:
    text = f"{LOAD_A.format(first)}\n{LOAD_B.format(second)}\nfor k in range(n):\n    a, b = b, a\n{STORE}"
    expected = [FIRST, SECOND] if n % 2 == 0 else [SECOND, FIRST]
    assert stored_rows(text, n=n)[:2] == expected


@pytest.mark.machine_code
@pytest.mark.parametrize("first", STORAGES)
@pytest.mark.parametrize("second", STORAGES)
def test_swap_carried_through_a_loop_with_changes(first: str, second: str) -> None:
    text = f"{LOAD_A.format(first)}\n{LOAD_B.format(second)}\nfor k in range(n):\n    a, b = b, a\n    a += b\n{STORE}"
    a, b = np.array(FIRST), np.array(SECOND)
    for _ in range(3):
        a, b = b, a
        a = a + b
    assert stored_rows(text, n=3)[:2] == [a.tolist(), b.tolist()]


def test_merged_shared_objects_that_are_changed_are_refused_with_both_lines() -> None:
    a, b = LOAD_A.format("shared"), LOAD_B.format("shared")
    error = refusal(f"{a}\n{b}\nc = a\nif n > 1:\n    c = b\nc[0] = 9\n{STORE}")
    assert codes(error) == {"merged-shared-tiles"}
    text = str(error)
    assert "c[0] = 9" in text and (a in text or b in text) and "if n > 1:" in text


@pytest.mark.parametrize(
    "text",
    [
        "c = a\nif n > 1:\n    c = b\nd = a\nif n > 2:\n    d = c\nd[0] = 9",  # a join of a join
        "c = a\nif n > 1:\n    c = b\nc[0] = 9\nd = b\nif n > 2:\n    d = a\ntg.tile_store(o[2], d)",
        "for k in range(3):\n    c = tg.tile_zeros(4, int, 'shared')\n    d = c\nc[0] = 9\ntg.tile_store(o[2], d)",
        "c = a\nfor k in range(n):\n    c[1] = 3\n    if k > 0:\n        c = a",  # in the next iteration
        "p = (a, b)\nfor k in range(n):\n    p = (p[1], p[0])\nc, d = p\nc[0] = 9",  # through a tuple
        "c = a[0:2]\nif n > 1:\n    c = a[2:4]\nc[0] = 9",  # views
        "c = tg.tile_zeros(4, int)\nif n > 1:\n    c = a\nd = c\nd[0] = 9\ntg.tile_store(o[2], c)",  # possibly a value
    ],
)
def test_changes_that_a_join_would_miss_are_refused(text: str) -> None:
    error = refusal(f"{LOAD_A.format('shared')}\n{LOAD_B.format('shared')}\n{text}\n{STORE}")
    assert codes(error) == {"merged-shared-tiles"}


def test_notes_of_a_refused_change_name_the_creation_of_the_tiles() -> None:
    a, b = LOAD_A.format("shared"), LOAD_B.format("shared")
    error = refusal(
        f"{a}\n{b}\nfor k in range(n):\n    c = a\n    a = b\n    b[0] = 9\n    c[0] = 1\n{STORE}"
    )
    text = str(error)
    assert "'a' is created here" not in text and "'b' is created here" in text and b in text
    assert "each iteration of this loop may bind 'a' to another tile" in text


@tg.func
def rebind_if_large(p, n: int):
    p += 1
    if n > 9:
        p = tg.tile_zeros(4, dtype=int)
    p += 1


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n", [1, 10])
def test_a_parameter_that_may_be_rebound_is_the_tile_of_the_caller(n: int, storage: str) -> None:
    a, b = LOAD_A.format(storage), LOAD_B.format(storage)
    actual = stored_rows(f"{a}\n{b}\nf(a, n)\nf(b[0:4], n)\n{STORE}", n=n, f=rebind_if_large)
    increment = 1 if n > 9 else 2
    assert actual[:2] == [[x + increment for x in FIRST], [x + increment for x in SECOND]]


@pytest.mark.machine_code
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_a_view_of_a_tile_that_may_be_rebound_is_a_view(n: int) -> None:
    text = f"{LOAD_A.format('register')}\n{LOAD_B.format('register')}\nv = a[1:4]\nfor k in range(n):\n    v += k\n"
    text += (
        "    if k % 2 == 1:\n        a = b + k\n    if k % 3 == 1:\n        v = a[::-1][0:3]\n    a += 10\n"
    )
    a, b = np.array(FIRST), np.array(SECOND)
    v = a[1:4]
    for k in range(n):
        v += k
        if k % 2 == 1:
            a = b + k
        if k % 3 == 1:
            v = a[::-1][0:3]
        a += 10
    actual = stored_rows(f"{text}{STORE}\ntg.tile_store(o[2], v)", n=n)
    assert actual[:3] == [a.tolist(), b.tolist(), [*v.tolist(), 0]]


CONDITIONAL_EXPRESSIONS = {
    "c = a if n > 1 else a\nc[0] = 7": ([1, 2, 3, 4], [7, 2, 3, 4]),
    "c = a if n > 1 else a[0:4]\nc[0] = 7": ([7, 2, 3, 4], [7, 2, 3, 4]),
    "c = a[0:4] if n > 1 else b\nc[0] = 7": ([1, 2, 3, 4], [7, 6, 7, 8]),
    "c = b[0:4] if n > 1 else a[::-1]\nc[0] = 7": ([1, 2, 3, 7], [7, 3, 2, 1]),
    "c, d = (b, a) if n > 1 else (a[0:4], b)\nc[0] = 7": ([7, 2, 3, 4], [7, 2, 3, 4]),
    "increment(b if n > 1 else a)\nc = a": ([2, 3, 4, 5], [2, 3, 4, 5]),
    "increment(b if n > 1 else a if n > 0 else b)\nc = a": ([2, 3, 4, 5], [2, 3, 4, 5]),
    "increment(*((b, a) if n > 1 else (a, b))[0:1])\nc = a": ([2, 3, 4, 5], [2, 3, 4, 5]),
    "(b if n > 1 else a)[1] = 7\nc = b if n > 1 else a": ([1, 7, 3, 4], [1, 7, 3, 4]),
}


@pytest.mark.machine_code
@pytest.mark.parametrize("text", CONDITIONAL_EXPRESSIONS)
def test_conditional_expressions_of_register_tiles_return_the_tiles(text: str) -> None:
    increment = "def increment(p):\n    p += 1"
    actual = stored_rows(
        f"{increment}\n{LOAD_A.format('register')}\n{LOAD_B.format('register')}\n{text}\n{STORE}\n"
        "tg.tile_store(o[2], c)",
        n=1,
    )
    assert (actual[0], actual[2]) == CONDITIONAL_EXPRESSIONS[text]
    assert actual[1] == SECOND


MAYBE_STRIDED = "m = tg.tile_reshape(a, (2, 2))\nm = m[:, ::-1] if n > 1 else m + 0\nm += 1\n"


@pytest.mark.machine_code
def test_a_reshape_of_a_possibly_strided_view_can_be_read() -> None:
    actual = stored_rows(
        f"{LOAD_A.format('register')}\n{MAYBE_STRIDED}tg.tile_store(o[0], tg.tile_reshape(m, 4))"
    )
    assert actual[0] == [3, 2, 5, 4]


@pytest.mark.parametrize(
    "change", ["w[0] = 9", "m[0, 0] = 9", "for k in range(n):\n    w = w[::-1]\n    m += w[0]"]
)
def test_changes_of_a_reshape_of_a_possibly_strided_view_are_refused(change: str) -> None:
    text = f"{MAYBE_STRIDED}w = tg.tile_reshape(m, 4)\n{change}\ntg.tile_store(o[0], w)"
    assert "is a view with another shape" in str(refusal(f"{LOAD_A.format('register')}\n{text}"))


@pytest.mark.parametrize(
    "text",
    [
        "c = a if n > 1 else b\nc[0] = 7",
        "f(a if n > 1 else b, n)",
        "c, d = (a, b) if n > 1 else (b, a)\nc[0] = 7",
        "c = a if n > 1 else b[0:4]\nc += 1",
        "(a if n > 1 else b)[0] = 7",
        "p = (a, 1) if n > 1 else (b, 1)\np[0][0] = 7",
    ],
)
def test_conditional_expressions_of_shared_tiles_are_refused_like_statements(text: str) -> None:
    error = refusal(
        f"{LOAD_A.format('shared')}\n{LOAD_B.format('shared')}\n{text}\n{STORE}", f=rebind_if_large
    )
    assert codes(error) == {"merged-shared-tiles"}


@pytest.mark.machine_code
def test_conditional_expressions_of_one_shared_tile_are_the_tile() -> None:
    text = f"{LOAD_A.format('shared')}\nb = a if n > 1 else a\nb[0] = 7\n{STORE}"
    assert stored_rows(text)[:2] == [[7, 2, 3, 4]] * 2


@pytest.mark.machine_code
@pytest.mark.parametrize("n", [0, 9])
def test_a_shared_tile_may_be_combined_with_a_register_tile(n: int) -> None:
    a, b = LOAD_A.format("shared"), LOAD_B.format("register")
    text = f"{a}\n{b}\nc = a if n > 1 else b\nc[0] = 7\nd = b\nif n > 1:\n    d = a\nd[1] = 9\n"
    actual = stored_rows(f"{text}{STORE}\ntg.tile_store(o[2], c)\ntg.tile_store(o[3], d)", n=n)
    if n > 1:
        assert actual == [[7, 9, 3, 4], SECOND, [7, 9, 3, 4], [7, 9, 3, 4]]
    else:
        assert actual == [FIRST, SECOND, [7, 6, 7, 8], [5, 9, 7, 8]]


@pytest.mark.machine_code
def test_the_target_of_a_loop_over_tiles_is_a_name() -> None:
    for storage, increment in (("register", 0), ("shared", 1)):
        text = f"{LOAD_A.format(storage)}\n{LOAD_B.format(storage)}\nfor t in (a, b):\n    t += 1\n{STORE}"
        assert stored_rows(text)[:2] == [[x + increment for x in FIRST], [x + increment for x in SECOND]]


@pytest.mark.machine_code
def test_a_shared_tile_replaced_by_a_register_tile_in_a_loop_is_copied() -> None:
    text = f"{LOAD_A.format('shared')}\n{LOAD_B.format('shared')}\n"
    text += "for k in range(n):\n    c = a + k\n    c[0] = 7\n    a = c\n"
    assert stored_rows(text + STORE, n=3)[0] == [7, 2 + 1 + 2, 3 + 1 + 2, 4 + 1 + 2]
    error = refusal(
        f"{LOAD_A.format('shared')}\nb = a\nfor k in range(n):\n    b = a\n    b += 1\n    a = a + 0\n{STORE}"
    )
    assert "merged-shared-tiles" in codes(error)


def test_a_possibly_read_only_tile_is_read_only() -> None:
    text = f"{LOAD_A.format('register')}\nc = tg.tile_broadcast(a[0:1], 4)\nif n > 1:\n    c = a\nc[0] = 1"
    assert "is read-only" in str(refusal(text))
    text = (
        f"{LOAD_A.format('register')}\nfor k in range(n):\n    a[0] = 1\n    a = tg.tile_broadcast(a[0:1], 4)"
    )
    assert "is read-only" in str(refusal(text))


INCREMENT = "def increment(t: tg.tile[int, 4]):\n    t += 1\n    return t[0] < 5\n"


@pytest.mark.machine_code
def test_a_loop_condition_may_update_a_tile_that_is_not_rebound() -> None:
    actual = stored_rows(
        f"{LOAD_A.format('shared')}\nb = a\n{INCREMENT}while increment(a):\n    a[1] += 1\n{STORE}"
    )
    assert actual[:2] == [[5, 2 + 4 + 3 * 4, 7, 8]] * 2


@pytest.mark.parametrize("storage", STORAGES)
def test_a_loop_condition_that_changes_a_rebound_tile_is_refused(storage: str) -> None:
    error = refusal(
        f"{LOAD_A.format(storage)}\nb = a\n{INCREMENT}while increment(a):\n    a = a + 0\n{STORE}"
    )
    assert "the condition of this loop changes a tile" in str(error) and "t += 1" in str(error)


@pytest.mark.machine_code
def test_a_new_tile_of_each_iteration_is_changed_freely() -> None:
    result = "c = tg.tile_full(4, k, storage='shared')\n    c[0] = 9"
    text = f"{LOAD_A.format('shared')}\nb = a\nfor k in range(n):\n    {result}\n    b = c\n{STORE}"
    assert stored_rows(text, n=3)[:2] == [FIRST, [9, 2, 2, 2]]


@pytest.mark.machine_code
def test_merged_shared_objects_that_are_only_read_are_accepted() -> None:
    a, b = LOAD_A.format("shared"), LOAD_B.format("shared")
    actual = stored_rows(f"{a}\n{b}\nc = a\nif n > 1:\n    c = b\ntg.tile_store(o[2], c)\n{STORE}")
    assert actual[:3] == [FIRST, SECOND, SECOND]


@pytest.mark.machine_code
def test_merged_register_tiles_are_values() -> None:
    a, b = LOAD_A.format("register"), LOAD_B.format("register")
    actual = stored_rows(f"{a}\n{b}\nc = a\nif n > 1:\n    c = b\nc[0] = 9\ntg.tile_store(o[2], c)\n{STORE}")
    assert actual[:3] == [FIRST, SECOND, [9, 6, 7, 8]]


def test_a_tile_bound_only_inside_a_zero_trip_loop_is_an_error() -> None:
    error = refusal(f"for k in range(n):\n    {LOAD_A.format('register')}\ntg.tile_store(o[0], a)", n=0)
    assert codes(error) == {"unbound-name"} and "'a'" in str(error)


def test_a_name_unbound_on_one_path_is_an_error() -> None:
    error = refusal(f"if n > 1:\n    {LOAD_A.format('register')}\ntg.tile_store(o[0], a)")
    assert codes(error) == {"unbound-name"}


# Aliases by views and parameters -------------------------------------------------------------------------------------

VIEWS = {
    "v = tg.tile_view(a, 1, shape=2)\nv += tg.tile_ones(2, dtype=int)": [1, 3, 4, 4],
    "v = a[1:3]\nv += tg.tile_ones(2, dtype=int)": [1, 3, 4, 4],
    "v = a[::2]\nv += tg.tile_ones(2, dtype=int)": [2, 2, 4, 4],
    "v = a[::-1]\nv += tg.tile_arange(4, dtype=int)": [4, 4, 4, 4],
    "v = tg.tile_reshape(a, (2, 2))\nv[1, 0] = 9": [1, 2, 9, 4],
    "v = tg.tile_squeeze(tg.tile_reshape(a, (1, 4)))\nv[2] = 9": [1, 2, 9, 4],
    "v = tg.tile_transpose(tg.tile_reshape(a, (2, 2)))\nv[0, 1] = 9": [1, 2, 9, 4],
    "v = tg.tile_permute(tg.tile_reshape(a, (2, 2)), (1, 0))\nv[1, 0] = 9": [1, 9, 3, 4],
    "v = a[0:3]\nw = v[1:3]\nw[1] = 9": [1, 2, 9, 4],
    "a[1:3] = tg.tile_ones(2, dtype=int)": [1, 1, 1, 4],
    "a[1:3] = 7": [1, 7, 7, 4],
}


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("change", list(VIEWS))
def test_tile_views_alias_their_source(change: str, storage: str) -> None:
    assert stored_rows(f"{LOAD_A.format(storage)}\n{change}\ntg.tile_store(o[0], a)")[0] == VIEWS[change]


@pytest.mark.parametrize("storage", STORAGES)
def test_broadcast_tiles_are_read_only(storage: str) -> None:
    text = f"{LOAD_A.format(storage)}\nv = tg.tile_broadcast(a, (2, 4))\nv[0, 0] = 9\ntg.tile_store(o[0], a)"
    try:
        actual = stored_rows(text)[0]
    except tg.CompileError:
        return
    assert actual == FIRST


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_a_view_refers_to_its_source_object(storage: str) -> None:
    text = f"{LOAD_A.format(storage)}\nv = a[0:2]\n{LOAD_A.format(storage).replace('shape=4', 'shape=4, offset=4')}\n"
    text += "b = tg.tile_concat((v, v), axis=0)\n" + STORE
    assert stored_rows(text)[:2] == [SECOND, [1, 2, 1, 2]]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_a_view_of_a_tile_reassigned_in_a_loop_is_a_view(storage: str) -> None:
    a = LOAD_A.format(storage)
    text = f"{a}\nfor k in range(3):\n    v = a[0:2]\n    {a.replace('shape=4', 'shape=4, offset=k + 1')}\n"
    text += "    tg.tile_store(o[k], v)\ntg.tile_store(o[3], a)"
    assert stored_rows(text) == [[1, 2, 0, 0], [2, 3, 0, 0], [3, 4, 0, 0], [4, 5, 6, 7]]


@tg.func
def add_one(t: tg.tile[int, 4]):
    t += tg.tile_ones(4, dtype=int)


@tg.func
def write_then_rebind(t: tg.tile[int, 4]):
    t[0] = 7
    t = tg.tile_zeros(4, dtype=int)
    t[1] = 5


@tg.func
def add_two(t: tg.tile[int, 4]):
    add_one(t)
    u = t
    add_one(u)
    return u


@tg.func
def update_both(s: tg.tile[int, 4], t: tg.tile[int, 4]):
    s[0] += 10
    t[1] += s[0]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_a_function_changes_the_callers_tile(storage: str) -> None:
    names = {"add_one": add_one}
    assert stored_rows(f"{LOAD_A.format(storage)}\nadd_one(a)\ntg.tile_store(o[0], a)", **names)[0] == [
        2,
        3,
        4,
        5,
    ]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_rebinding_a_parameter_is_local(storage: str) -> None:
    names = {"f": write_then_rebind}
    assert stored_rows(f"{LOAD_A.format(storage)}\nf(a)\ntg.tile_store(o[0], a)", **names)[0] == [7, 2, 3, 4]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_aliases_inside_functions_follow_the_declared_storage(storage: str) -> None:
    actual = stored_rows(f"{LOAD_A.format(storage)}\nb = add_two(a)\n{STORE}", add_two=add_two)
    assert actual[1] == [3, 4, 5, 6]
    assert actual[0] == ([3, 4, 5, 6] if storage == "shared" else [2, 3, 4, 5])


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_one_tile_as_two_arguments_is_one_object(storage: str) -> None:
    actual = stored_rows(
        f"{LOAD_A.format(storage)}\nf(a, a)\ntg.tile_store(o[0], a)", f=update_both, block_dim=1
    )
    assert actual[0] == [11, 13, 3, 4]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_a_view_as_an_argument_changes_its_source(storage: str) -> None:
    text = (
        f'a = tg.tile_load(x, shape=(8,), storage="{storage}")\nadd_one(a[2:6])\ntg.tile_store(o[0], a[1:5])'
    )
    assert stored_rows(text, add_one=add_one)[0] == [2, 4, 5, 6]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_assignment_to_an_overlapping_view_reads_first(storage: str) -> None:
    text = f'a = tg.tile_load(x, shape=8, storage="{storage}")\ntg.tile_assign(a, a[0:4], offset=2)\n'
    assert stored_rows(text + "tg.tile_store(o[0], a[0:4])\ntg.tile_store(o[1], a[4:8])")[:2] == [
        [1, 2, 1, 2],
        [3, 4, 7, 8],
    ]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_a_copy_of_a_tile_is_another_object(storage: str) -> None:
    assert stored_rows(f"{LOAD_A.format(storage)}\nb = tg.copy(a)\nb[0] = 9\n{STORE}")[:2] == [
        FIRST,
        [9, 2, 3, 4],
    ]


@pytest.mark.machine_code
@pytest.mark.parametrize("storage", STORAGES)
def test_large_register_tiles_have_correct_results(storage: str) -> None:
    text = f'a = tg.tile_full((64, 64), n, storage="{storage}")\nb = a + a\nb[63, 63] = 1\n'
    assert (
        stored_rows(text + "tg.tile_store(o[0], tg.tile_sum(b) + tg.tile_sum(a))")[0][0]
        == 4095 * 4 + 1 + 4096 * 2
    )


@pytest.mark.machine_code
def test_loops_over_tiles_are_not_unrolled() -> None:
    kernel = build_kernel(
        "a = tg.tile_zeros(4, dtype=int)\nfor k in range(1000):\n    a += 1\ntg.tile_store(o[0], a)"
    )
    x, o = tg.zeros(16, dtype=int), tg.zeros((4, 4), dtype=int)
    tg.launch_tiled(kernel, dim=1, inputs=[x, o, 1], block_dim=4)
    assert o.list()[0] == [1000] * 4
    assert len(kernel.ir().splitlines()) < 60
