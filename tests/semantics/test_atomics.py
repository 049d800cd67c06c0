"""Atomics of every rank and kind, on vectors, matrices, components and fields of structs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg
from tegula.errors import TypeMismatch

KINDS = ("add", "sub", "min", "max", "and", "or", "xor", "exch")
RESULTS = {"add": 67, "sub": -57, "min": 2, "max": 5, "and": 0, "or": 7, "xor": 7, "exch": 2}
"""The result of each atomic with the operand 2 on the element 5, by 31 threads."""


def kernel(text: str, parameters: str, **names: Any) -> Any:
    body = "".join(f"    {line}\n" for line in text.splitlines())
    space = tg.exec(f"import tegula as tg\n\n@tg.kernel\ndef k({parameters}):\n{body}", names)
    return space["k"]


@pytest.mark.machine_code
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_atomics_of_every_kind_and_rank_match_numpy(rank: int) -> None:
    zeros = ", ".join("0" * rank)
    indices = [f"({zeros},)" if n % 2 else zeros for n in range(len(KINDS))]
    lines = [f"tg.atomic_{kind}(a{n}, {indices[n]}, 2)" for n, kind in enumerate(KINDS)]
    lines += [
        f"i = ({zeros},)",
        "tg.atomic_cas(c, i, 5, 9)",
        "tg.atomic_cas(c, i, 5, 7)",
        "d[i] += d[i] // 1000 + 1",
    ]
    array_names = [*(f"a{n}" for n in range(len(KINDS))), "c", "d"]
    atomic_kernel = kernel("\n".join(lines), ", ".join(f"{n}: tg.array{rank}d[int]" for n in array_names))
    args = [tg.full((1,) * rank, 5, dtype=int) for _ in array_names]
    totals = [int(x.ravel()[0]) for x in agree(atomic_kernel, args, 31, 31)]
    expected = [RESULTS[kind] for kind in KINDS]
    expected[KINDS.index("xor")] = 5 ^ 2
    assert totals == [*expected, 9, 36]


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["vec2", "mat22", "quat", "vec3i", "mat22h", "vec2d"])
def test_atomics_of_vectors_and_matrices_match_numpy(dtype: str) -> None:
    t = getattr(tg, dtype)
    shape = (1, *np.asarray(t()).shape)
    number = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    text = "\n".join(
        [
            "v = b[0]",
            "tg.atomic_add(a, 0, v)",
            "tg.atomic_sub(a, 1, v)",
            "tg.atomic_min(a, 2, v)",
            "tg.atomic_max(a, 3, v)",
            "tg.atomic_exch(a, 4, v)",
            "w = tg.atomic_cas(a, 5, a[6], v)",
        ]
    )
    atomic_kernel = kernel(text, f"a: tg.array[tg.{dtype}], b: tg.array[tg.{dtype}]")
    initial = np.zeros((7, *shape[1:]))
    initial[6].flat[0] = 3.0  # the first component differs from the compared value
    a, _ = agree(atomic_kernel, [tg.array(initial, dtype=t), tg.array(number, dtype=t)], 1, 1)
    n = number[0]
    not_exchanged = n.copy()
    not_exchanged.flat[0] = 0
    np.testing.assert_array_equal(a[:6], [n, -n, 0 * n, n, n, not_exchanged])


@tg.struct
class Part:
    count: int
    position: tg.vec3
    bits: tg.vec2i


@tg.kernel
def components(v: tg.array[tg.vec3], m: tg.array2d[tg.mat22], p: tg.array[Part], k: int):
    v[0].y += 1.0
    v[0][k] += 2.0
    v[1].xz -= tg.vec2(1.0, 3.0)
    m[0, 0][1, 0] += 1.0
    m[0, 0][0] += tg.vec2(1.0, 2.0)
    p[0].count += 1
    p[0].position.z += 1.0
    p[0].position[0] -= 1.0
    p[0].bits.x |= 4
    p[0].bits.y &= 6
    t = tg.tile_zeros(2, dtype=tg.vec2, storage="shared")
    t[1].x += 1.0
    v[2].x = t[1].x


@pytest.mark.machine_code
def test_components_are_changed_atomically() -> None:
    data = np.zeros(1, Part.numpy_dtype())
    data["bits"] = 3
    args = [tg.zeros(3, dtype=tg.vec3), tg.zeros((1, 1), dtype=tg.mat22), tg.array(data, dtype=Part), 2]
    v, m, p = agree(components, args, 1000, 50)
    assert v[:2].tolist() == [[0, 1000, 2000], [-1000, 0, -3000]] and 1 <= v[2, 0] <= 50
    assert m.ravel().tolist() == [1000, 2000, 1000, 0]
    assert p["count"][0] == 1000 and p["position"][0].tolist() == [-1000, 0, 1000]
    assert p["bits"][0].tolist() == [7, 2]


@pytest.mark.machine_code
def test_atomic_adds_to_a_component_keep_other_components() -> None:
    @tg.kernel
    def add_to_component(v: tg.array[tg.vec3]):
        v[0].y += 1.0

    (v,) = agree(add_to_component, [tg.array([[-0.0, 1.0, np.nan]], dtype=tg.vec3)], 1, 1)
    assert np.signbit(v[0, 0]) and v[0, 1] == 2.0 and np.isnan(v[0, 2])


@tg.kernel
def component_sums(x: tg.array[float], v: tg.array[tg.vec3], k: int):
    i = tg.tid()
    v[i % 2][k] += x[i] * x[i]
    v[0].xy -= tg.vec2(x[i], 2.0 * x[i])


@pytest.mark.machine_code
def test_gradients_of_atomics_of_components_are_correct() -> None:
    x = tg.array(np.linspace(-1, 1, 6), dtype=float, requires_grad=True)
    out = tg.zeros(2, dtype=tg.vec3, requires_grad=True)
    tg.gradcheck(component_sums, 6, [x], [out, 2], block_dim=6)


def test_an_atomic_without_all_indices_is_refused() -> None:
    atomic_kernel = kernel("tg.atomic_add(a, (0, 1, 2), 1)", "a: tg.array2d[int]")
    with pytest.raises(TypeMismatch, match="atomic_add takes 2 indices and a value"):
        tg.launch(atomic_kernel, 1, inputs=[tg.zeros((1, 1), dtype=int)])
