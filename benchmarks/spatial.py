"""Spatial queries on the CPU against Embree (embreex, one thread) and Warp, where these are installed.

Warp and embreex run CPU kernels in one thread; kernels of Tegula have a thread for each core. Runs of the kernel and of
the peer alternate. The ratio is of elapsed times; the note has the ratio of the CPU times of all threads, which
compares single threads and does not depend on other programs of the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

import tegula as tg
from benchmarks.measure import Row, failed, relative_error, require_right

ITERATIONS = 9
RAYS, BOXES, POINTS, GRID_POINTS = 160_000, 5_000, 5_000, 262_144
PEERS = ("embreex", "warp")
MAX_DISTANCE = 1e30


def icosphere(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """An icosahedron whose faces are split in four `levels` times, with vertices displaced along their radius by
    waves."""
    g = (1 + 5**0.5) / 2
    corners = [(-1, g, 0), (1, g, 0), (-1, -g, 0), (1, -g, 0)]
    points = np.array([np.roll(c, k) for k in range(3) for c in corners], float)
    is_edge = np.linalg.norm(points[:, None] - points, axis=2) < 2.1
    np.fill_diagonal(is_edge, False)
    triples = [
        (a, b, c)
        for a in range(12)
        for b in range(a)
        for c in range(b)
        if is_edge[a, b] & is_edge[b, c] & is_edge[a, c]
    ]
    faces = np.array(triples)
    normal = np.cross(points[faces[:, 1]] - points[faces[:, 0]], points[faces[:, 2]] - points[faces[:, 0]])
    inward = (normal * points[faces[:, 0]]).sum(1) < 0
    faces[inward] = faces[inward][:, ::-1]
    for _ in range(levels):
        edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
        unique, midpoint_index = np.unique(edges, axis=0, return_inverse=True)
        d, e, f = (midpoint_index.reshape(3, -1) + len(points)).astype(faces.dtype)
        points = np.concatenate([points, points[unique].mean(1)])
        a, b, c = faces.T
        faces = np.concatenate([np.stack(x, 1) for x in ((a, d, f), (d, b, e), (f, e, c), (d, e, f))])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    waves = 1 + 0.05 * np.sin(9 * points[:, :1]) * np.sin(11 * points[:, 1:2]) * np.cos(7 * points[:, 2:])
    return (points * waves).astype(np.float32), faces.astype(np.int32)


def torus(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """A torus of 2 * n * m triangles with a wavy surface."""
    u, v = np.meshgrid(np.arange(n) * 2 * np.pi / n, np.arange(m) * 2 * np.pi / m, indexing="ij")
    r = 0.4 + 0.05 * np.sin(7 * u) * np.sin(5 * v)
    x = 1 + r * np.cos(v)
    points = np.stack([x * np.cos(u), x * np.sin(u), r * np.sin(v)], -1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(n), np.arange(m), indexing="ij")
    a, b, c, d = ((((i + k) % n) * m + (j + q) % m).ravel() for k, q in ((0, 0), (1, 0), (1, 1), (0, 1)))
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    return points.astype(np.float32), faces.astype(np.int32)


@cache
def scene() -> tuple[np.ndarray, np.ndarray]:
    """The mesh of rays, boxes and points: 327,680 triangles."""
    return icosphere(7)


def mesh_of(points: np.ndarray, faces: np.ndarray) -> tg.Mesh:
    return tg.Mesh(vectors(points), tg.array(faces.reshape(-1), dtype=int))


@cache
def mesh() -> tg.Mesh:
    return mesh_of(*scene())


def vectors(data: np.ndarray) -> tg.array:
    return tg.array(np.asarray(data, np.float32), dtype=tg.vec3)


PAUSE, PAUSE_OF_SPINNING_THREADS = 0.001, 0.01
"""The seconds before each call. Threads of Embree spin after a build, until they sleep. A call after 10 ms without work
takes a millisecond longer on some machines."""


def comparison_row(
    name: str,
    run_kernel: Callable[[], object],
    peer: Callable[[], object],
    work: float,
    unit: str,
    peer_name: str,
    threshold: float,
    error: float,
    prepare: Callable[[], object] = lambda: None,
    pause: float = PAUSE,
) -> Row:
    """A row of alternating runs; AssertionError if the result is wrong. `prepare` is called before each run of the
    kernel, and is not timed. `error`: the relative error of the result. `pause`: the seconds before each call."""
    require_right(name, error)
    prepare()
    run_kernel()
    peer()
    samples = []
    for _ in range(ITERATIONS):
        prepare()
        samples.append([*time_of_call(run_kernel, pause), *time_of_call(peer, pause)])
    kernel_time, kernel_cpu, peer_time, peer_cpu = zip(*samples, strict=True)
    ratio = statistics.median(b / a for a, b in zip(kernel_time, peer_time, strict=True))
    cpu = statistics.median(b / a for a, b in zip(kernel_cpu, peer_cpu, strict=True))
    a, b = statistics.median(kernel_time), statistics.median(peer_time)
    cpu_ms = [statistics.median(x) * 1e3 for x in (kernel_cpu, peer_cpu)]
    note = f"{cpu:.2f} in CPU time, {cpu_ms[0]:.1f} and {cpu_ms[1]:.1f} ms"
    return Row(name, work / a, unit, peer_name, work / b, ratio, threshold, error, ITERATIONS, note)


def time_of_call(f: Callable[[], object], pause: float) -> tuple[float, float]:
    """The elapsed seconds and the CPU seconds of a call after a pause."""
    time.sleep(pause)
    start, cpu = time.perf_counter(), time.process_time()
    f()
    return time.perf_counter() - start, time.process_time() - cpu


# Kernels -------------------------------------------------------------------------------------------------------------


@tg.kernel
def cast(m: tg.Mesh, starts: tg.array1d[tg.vec3], dirs: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    hit = tg.mesh_query_ray(m, starts[i], dirs[i], MAX_DISTANCE)
    out[i] = tg.where(hit.result, hit.t, -1.0)


@tg.kernel
def overlaps(m: tg.Mesh, centres: tg.array1d[tg.vec3], half: float, out: tg.array1d[int]):
    i = tg.tid()
    half_size = tg.vec3(half, half, half)
    count = 0
    for face in tg.mesh_query_aabb(m, centres[i] - half_size, centres[i] + half_size):
        count += tg.where(face >= 0, 1, 0)
    out[i] = count


@tg.kernel
def closest(m: tg.Mesh, points: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    result = tg.mesh_query_point_no_sign(m, points[i], MAX_DISTANCE)
    out[i] = tg.length(tg.mesh_eval_position(m, result.face, result.u, result.v) - points[i])


@tg.kernel
def neighbours(grid: tg.HashGrid, points: tg.array1d[tg.vec3], radius: float, out: tg.array1d[int]):
    i = tg.tid()
    queries = points[i]
    count = 0
    for j in tg.hash_grid_query(grid, queries, radius):
        if tg.length(queries - points[j]) <= radius:
            count += 1
    out[i] = count


@cache
def warp_kernels() -> dict[str, Any]:
    """The same kernels for Warp."""
    import warp as wp

    wp.config.quiet = True
    wp.init()

    @wp.kernel
    def cast(
        m: wp.uint64,
        starts: wp.array(dtype=wp.vec3),
        dirs: wp.array(dtype=wp.vec3),
        out: wp.array(dtype=float),
    ):
        i = wp.tid()
        hit = wp.mesh_query_ray(m, starts[i], dirs[i], 1.0e30)
        out[i] = -1.0
        if hit.result:
            out[i] = hit.t

    @wp.kernel
    def overlaps(m: wp.uint64, centres: wp.array(dtype=wp.vec3), half: float, out: wp.array(dtype=int)):
        i = wp.tid()
        half_size = wp.vec3(half, half, half)
        count = wp.int32(0)
        for face in wp.mesh_query_aabb(m, centres[i] - half_size, centres[i] + half_size):
            if face >= 0:
                count += 1
        out[i] = count

    @wp.kernel
    def closest(m: wp.uint64, points: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
        i = wp.tid()
        result = wp.mesh_query_point_no_sign(m, points[i], 1.0e30)
        out[i] = wp.length(wp.mesh_eval_position(m, result.face, result.u, result.v) - points[i])

    @wp.kernel
    def neighbours(grid: wp.uint64, points: wp.array(dtype=wp.vec3), radius: float, out: wp.array(dtype=int)):
        i = wp.tid()
        queries = points[i]
        count = wp.int32(0)
        for j in wp.hash_grid_query(grid, queries, radius):
            if wp.length(queries - points[j]) <= radius:
                count += 1
        out[i] = count

    return {"cast": cast, "overlaps": overlaps, "closest": closest, "neighbours": neighbours}


def warp_vectors(data: np.ndarray) -> Any:
    import warp as wp

    return wp.array(np.asarray(data, np.float32), dtype=wp.vec3, device="cpu")


def warp_launch(name: str, count: int, inputs: list[Any]) -> None:
    import warp as wp

    wp.launch(warp_kernels()[name], count, inputs, device="cpu")


@cache
def warp_mesh() -> Any:
    return warp_mesh_of(*scene())


def warp_mesh_of(points: np.ndarray, faces: np.ndarray) -> Any:
    import warp as wp

    warp_kernels()
    return wp.Mesh(warp_vectors(points), wp.array(faces.reshape(-1), dtype=wp.int32, device="cpu"))


# Rays ----------------------------------------------------------------------------------------------------------------


def rays(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Starts and directions: parallel rays from outside in the order of a picture, or random rays from inside."""
    if kind == "primary":
        side = int(RAYS**0.5)
        x, y = np.meshgrid(np.linspace(-0.7, 0.7, side), np.linspace(-0.7, 0.7, side))
        queries = np.stack([x.ravel(), y.ravel(), np.full(side * side, -3.0)], 1)
        return queries.astype(np.float32), np.tile(
            np.array([[0.01, 0.02, 1.0]], np.float32), (side * side, 1)
        )
    rng = np.random.default_rng(1)
    dirs = rng.standard_normal((RAYS, 3))
    dirs /= np.linalg.norm(dirs, axis=1, keepdims=True)
    return rng.uniform(-0.4, 0.4, (RAYS, 3)).astype(np.float32), dirs.astype(np.float32)


@cache
def embree_scene() -> Any:
    from embreex.mesh_construction import TriangleMesh
    from embreex.rtcore_scene import EmbreeScene

    embree = EmbreeScene()
    TriangleMesh(embree, *scene())
    return embree


def ray_rows(kind: str) -> Iterator[Row]:
    starts, dirs = rays(kind)
    count = len(starts)
    args = [mesh(), vectors(starts), vectors(dirs)]
    out = tg.zeros(count)

    def run_kernel() -> None:
        tg.launch(cast, count, args, [out])

    run_kernel()
    result = embree_scene().run(starts, dirs, output=True)
    error = relative_error(out.numpy(), np.where(result["primID"] >= 0, result["tfar"], -1.0))
    yield comparison_row(
        f"rays, {kind}, against Embree",
        run_kernel,
        lambda: embree_scene().run(starts, dirs),
        count / 1e6,
        "M/s",
        "Embree, one thread",
        1.0,
        error,
    )
    import warp as wp

    warp_inputs = [
        warp_mesh().id,
        warp_vectors(starts),
        warp_vectors(dirs),
        wp.zeros(count, dtype=float, device="cpu"),
    ]
    yield comparison_row(
        f"rays, {kind}, against Warp",
        run_kernel,
        lambda: warp_launch("cast", count, warp_inputs),
        count / 1e6,
        "M/s",
        "Warp",
        3.0,
        error,
    )


# Boxes and points ----------------------------------------------------------------------------------------------------


def against_warp(
    name: str, kernel: Any, count: int, inputs: list[Any], dtype: Any, peer: list[Any], threshold: float
) -> Row:
    """A kernel with one output, against the kernel of the same name for Warp."""
    import warp as wp

    out, peer_result = tg.zeros(count, dtype), wp.zeros(count, dtype=dtype, device="cpu")

    def run_kernel() -> None:
        tg.launch(kernel, count, inputs, [out])

    def run_peer() -> None:
        warp_launch(kernel.__name__, count, [*peer, peer_result])

    run_kernel()
    run_peer()
    result = out.numpy()
    error = relative_error(result, peer_result.numpy())
    row = comparison_row(name, run_kernel, run_peer, count / 1e6, "M/s", "Warp", threshold, error)
    row.note += f", mean result {result.mean():.4g}"
    return row


def query_rows() -> Iterator[Row]:
    points, _ = scene()
    rng = np.random.default_rng(2)
    centres = points[rng.integers(0, len(points), BOXES)]
    half = 0.016
    yield against_warp(
        "boxes that overlap a box",
        overlaps,
        BOXES,
        [mesh(), vectors(centres), half],
        int,
        [warp_mesh().id, warp_vectors(centres), half],
        4.0,
    )
    queries = rng.uniform(-1.5, 1.5, (POINTS, 3))
    yield against_warp(
        "closest points",
        closest,
        POINTS,
        [mesh(), vectors(queries)],
        float,
        [warp_mesh().id, warp_vectors(queries)],
        5.0,
    )


# Builds --------------------------------------------------------------------------------------------------------------


def build_rows() -> Iterator[Row]:
    import warp as wp
    from embreex.mesh_construction import TriangleMesh
    from embreex.rtcore_scene import EmbreeScene

    points, faces = torus(512, 256)
    size = len(faces) / 1e6
    arguments = [vectors(points), tg.array(faces.reshape(-1), dtype=int)]
    start, dir = np.array([[0, 0, 5]], np.float32), np.array([[0.01, 0.2, -1]], np.float32)

    def new_scene() -> Any:
        # Triangles are copied before the timed run; the first ray starts Embree's build.
        embree = EmbreeScene()
        TriangleMesh(embree, points, faces)
        return embree

    scenes = [new_scene() for _ in range(ITERATIONS + 1)]
    error = hit_distance_error(tg.Mesh(*arguments), points, faces)
    yield comparison_row(
        "build of 262k triangles, against Embree",
        lambda: tg.Mesh(*arguments),
        lambda: scenes.pop().run(start, dir),
        size,
        "M/s",
        "Embree, all threads",
        2.5,
        error,
        pause=PAUSE_OF_SPINNING_THREADS,
    )
    mesh, peer_mesh = tg.Mesh(*arguments), warp_mesh_of(points, faces)
    error = hit_distance_error(mesh, points, faces)
    yield comparison_row(
        "refit of 262k triangles", mesh.refit, peer_mesh.refit, size, "M/s", "Warp", 1 / 0.3, error
    )
    # Squares of the distances between these coordinates are exact, and no distance is close to the radius.
    cells_per_axis = 8192
    x = (np.random.default_rng(3).integers(0, cells_per_axis, (GRID_POINTS, 3)) / cells_per_axis).astype(
        np.float32
    )
    radius = (round((9.6 / GRID_POINTS / (4 / 3 * np.pi)) ** (1 / 3) * cells_per_axis) + 0.5) / cells_per_axis
    grid, peer = tg.HashGrid(128, 128, 128), wp.HashGrid(128, 128, 128, "cpu")
    positions, peer_positions = vectors(x), warp_vectors(x)
    yield comparison_row(
        "build of a hash grid of 262k points",
        lambda: grid.build(positions, radius),
        lambda: peer.build(peer_positions, radius),
        GRID_POINTS / 1e6,
        "M/s",
        "Warp",
        1 / 0.7,
        0.0,
    )
    yield against_warp(
        "points of a hash grid around a point",
        neighbours,
        GRID_POINTS,
        [grid, positions, radius],
        int,
        [peer.id, peer_positions, radius],
        3.0,
    )


def hit_distance_error(built_mesh: tg.Mesh, points: np.ndarray, faces: np.ndarray) -> float:
    """The error of the distances along rays to the centres of some faces, from just outside of the faces."""
    sample = np.arange(0, len(faces), 97)
    corners = points[faces[sample]].astype(np.float64)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    out = tg.zeros(len(sample))
    tg.launch(
        cast, len(sample), [built_mesh, vectors(corners.mean(1) + 1e-3 * normal), vectors(-normal)], [out]
    )
    return relative_error(out.numpy(), np.full(len(sample), 1e-3))


def rows() -> Iterator[Row]:
    """All rows, with their thresholds; one failed row if a peer is not installed."""
    missing = [name for name in PEERS if find_spec(name) is None]
    if missing:
        yield failed("spatial queries", f"not installed: {', '.join(missing)}")
        return
    yield from ray_rows("primary")
    yield from ray_rows("random")
    yield from query_rows()
    yield from build_rows()
