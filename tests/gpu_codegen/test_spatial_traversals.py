"""Traversals of spatial structures as GPU code: registers, and wide loads through the read-only cache."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm

import tegula as tg
from spatial.meshes import mesh_of, sphere
from tegula.runtime.compound_arguments import flattened

pytestmark = pytest.mark.machine_code


@tg.kernel
def count_boxes(bvh: tg.Bvh, low: tg.array1d[tg.vec3], high: tg.array1d[tg.vec3], out: tg.array1d[int]):
    i = tg.tid()
    n = 0
    for _ in tg.bvh_query_aabb(bvh, low[i], high[i]):
        n += 1
    out[i] = n


@tg.kernel
def ray_distances(
    mesh: tg.Mesh, start: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], out: tg.array1d[float]
):
    i = tg.tid()
    out[i] = tg.mesh_query_ray(mesh, start[i], dir[i], tg.inf).t


@tg.kernel
def closest_points(mesh: tg.Mesh, queries: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    out[i] = tg.mesh_query_point_no_sign(mesh, queries[i], tg.inf).u


def compile_query(kernel: Any, *args: Any) -> tuple[str, Any]:
    flat_kernel, leaves = flattened(kernel, args)
    return assemble(lower_to_llvm(flat_kernel, list(leaves), (64,), 64))


@pytest.mark.slow
def test_bvh_queries_keep_their_state_in_registers() -> None:
    v = tg.zeros(64, dtype=tg.vec3)
    text, cubin = compile_query(count_boxes, tg.Bvh(v, v), v, v, tg.zeros(64, dtype=int))
    assert cubin.registers <= 48 and cubin.spill_bytes == 0
    assert len(re.findall(r"ld\.global\.nc\.v4", text)) + len(re.findall(r"ld\.global\.v4", text)) >= 12
    assert "ld.local" not in text


@pytest.mark.slow
def test_mesh_queries_keep_their_state_in_registers() -> None:
    v, mesh = tg.zeros(64, dtype=tg.vec3), mesh_of(*sphere(1))
    for kernel, args, max_registers, stack_accesses in (
        (ray_distances, (mesh, v, v, tg.zeros(64)), 64, 1),
        (closest_points, (mesh, v, tg.zeros(64)), 58, 0),
    ):
        text, cubin = compile_query(kernel, *args)
        assert cubin.registers <= max_registers and cubin.spill_bytes == 0
        assert text.count("ld.local") == text.count("st.local") == stack_accesses


@pytest.mark.slow
def test_rays_test_children_in_pairs_of_halves() -> None:
    """Eight children: six planes of four pairs, five extremes on each side of four pairs, and both ends limited."""
    v, mesh = tg.zeros(64, dtype=tg.vec3), mesh_of(*sphere(1))
    text, _ = compile_query(ray_distances, mesh, v, v, tg.zeros(64))
    for name, count in (("fma.rn", 24), ("max", 13), ("min", 13), ("sub.rn", 4)):
        assert len(re.findall(rf"\b{name}\.f16x2", text)) == count, name
    assert text.count("dp4a.s32.u32") == 2
