"""Structs in kernels: devices and the interpreter agree, and NumPy's structured arrays give the expected result."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, assert_same_bits
from struct_programs import Body, N, Pair, bodies, control_flow, fields, loops, pairs, threads, tiles, world

import tegula as tg

pytestmark = pytest.mark.machine_code


def test_fields_of_structs_are_read_and_changed() -> None:
    a, out = agree(fields, [world(), pairs(), tg.zeros(N, dtype=Pair)], N, 8)
    initial = pairs().numpy()
    assert (a["count"] == initial["count"] + 3).all() and (
        a["first"]["mass"] == initial["first"]["mass"]
    ).all()
    assert (
        a["first"]["position"][:, :2] == np.stack([np.full(N, 5), initial["first"]["position"][:, 1] + 2], 1)
    ).all()
    assert (out["first"]["mass"] == 8 + 0.5 * np.arange(N)).all()
    assert (out["first"]["position"][:, 2] == 2 + a["first"]["position"][:, 2]).all()
    assert (out["first"]["position"][:, 1] == 7).all() and (out["count"] == a["count"]).all()
    assert (out["rotation"] == [[1, 4], [3, 4]]).all() and (out["weight"] == 3).all()


def test_structs_are_carried_through_loops_and_branches() -> None:
    _, out = agree(control_flow, [pairs(), tg.zeros(N, dtype=Pair)], N, 8)
    a = pairs().numpy()
    for i, p in enumerate(a):
        mass, position = 0.0, np.zeros(3)
        for q in a[a["count"] == p["count"]]:
            if not mass >= q["first"]["mass"]:
                mass, position = q["first"]["mass"], q["first"]["position"]
            if mass > 6:
                break
        assert out["first"]["mass"][i] == (mass if p["weight"] > 0 else p["first"]["mass"])
        best = p["count"] > 0 or p["weight"] > 0
        assert (out["first"]["position"][i] == (position if best else p["first"]["position"])).all()
        assert out["rotation"][i, 1, 0] == p["rotation"][1, 0] + p["count"]


def test_tiles_of_structs_are_moved_mapped_added_and_combined() -> None:
    blocks = N // 8
    args = [
        pairs(),
        tg.zeros(N, dtype=Pair),
        tg.zeros((4 * blocks, 2), dtype=Pair),
        tg.zeros(3 * blocks, dtype=Body),
    ]
    _, out, flat, sums = agree(tiles, args, blocks, 4, tiled=True)
    a = pairs().numpy()
    expected = a.copy()
    expected["first"]["mass"] += a["first"]["position"][:, 0]
    expected["first"]["position"] += np.stack(
        [a["first"]["mass"], np.ones(N), a["first"]["position"][:, 2]], 1
    )
    expected["weight"] *= 3
    expected["rotation"] += a["rotation"].transpose(0, 2, 1)
    expected["count"] += a["count"] + 1
    for k in range(0, N, 8):
        expected[k + 3] = a[k + 1]
        for path in (("first", "mass"), ("first", "position"), ("weight",), ("rotation",), ("count",)):
            view, source_view = expected, a
            for name in path:
                view, source_view = view[name], source_view[name]
            view[k + 2] -= 4 * source_view[k + 2]  # each of the 4 threads does it
    assert_same_bits(out, expected)
    assert (flat.reshape(blocks, 4, 2) == expected.reshape(blocks, 2, 4).transpose(0, 2, 1)).all()
    first = a["first"].reshape(blocks, 8)
    assert (sums["mass"][::3] == first["mass"].sum(1)).all() and (
        sums["kind"][::3] == first["kind"][:, 0]
    ).all()
    assert (sums["position"][1::3] == first["position"].max(1)).all()
    assert (sums["kind"][1::3] == first["kind"].min(1)).all()
    assert (sums["position"][2::3] == first["position"][:, 5]).all() and (sums["kind"][2::3] == 0).all()


def test_threads_exchange_structs() -> None:
    args = [bodies(), tg.zeros(4 * N, dtype=Body), tg.zeros(N, dtype=int)]
    _, out, counts = agree(threads, args, N // 8, 8, tiled=True)
    a, out = bodies().numpy().reshape(-1, 8), out.reshape(-1, 32)
    assert (out[:, :4] == a[:, 3:4]).all()
    assert (
        out["mass"][:, 8] == np.maximum(a["mass"][:, 0], a["mass"][0, 0]) + a["mass"][:, ::2].sum(1)
    ).all()
    assert (
        np.sort(out[:, 16:21], 1, order=["mass", "kind"]) == np.sort(a[:, 3:], 1, order=["mass", "kind"])
    ).all()
    assert (counts.reshape(-1, 8) == np.array([-1, -1, -1, 0, 1, 2, 3, 4]) + 50).all()
    assert (out[:, 28:] == a[:, 3::-1]).all()


def test_tiles_of_structs_are_carried_through_loops() -> None:
    _, out = agree(loops, [bodies(), tg.zeros(N, dtype=Body)], N // 8, 4, tiled=True)
    a = bodies().numpy().reshape(-1, 8)
    mass = a["mass"] * 8
    mass[:, 1], mass[:, 4] = 4, mass[:, 0]
    assert (out["mass"].reshape(-1, 8) == mass).all()
    assert (out["position"].reshape(-1, 8, 3)[:, :, 1] == 14).all()


@pytest.mark.parametrize("step", [1, -1, 3])
def test_leaves_of_structs_in_one_array_share_no_bytes(step: int) -> None:
    @tg.kernel
    def exchange_fields(a: tg.array[Body], b: tg.array[Body]):
        i = tg.tid()
        s = a[i]
        b[i] = Body(s.position[0], tg.vec3(s.mass), s.kind)

    all_bodies = bodies(2 * N)
    part = all_bodies[::step][:8]
    initial = part.numpy().copy()
    tg.launch(exchange_fields, dim=8, inputs=[part, part])
    assert (part.numpy()["mass"] == initial["position"][:, 0]).all()
    assert (part.numpy()["position"] == initial["mass"][:, None]).all()
    aliases = [access.aliases for access in exchange_fields.last_compiled.last_specialisation.access]
    assert aliases == [(3,), (4,), (5,), (0,), (1,), (2,)]
