"""The host interface of bounding volume hierarchies: build, refit, and the data that kernels query."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import tegula as tg
from tegula.errors import LaunchError
from tegula.handles import BVH_KIND
from tegula.runtime.array import array
from tegula.runtime.cuda.graph import is_recorded, keep_recorded
from tegula.runtime.device import Device
from tegula.runtime.prepared import PreparedLaunch, RepeatedLaunch
from tegula.runtime.recording import recording
from tegula.runtime.structures import Structure
from tegula.spatial.bottom_up import bottom_up
from tegula.spatial.boxes import (
    EIGHT,
    NODE,
    VEC8,
    invert_order,
    number_items,
    write_no_box,
    write_subtrees,
)
from tegula.spatial.buckets import MIN_ITEMS, Buckets, are_scattered, find_buckets
from tegula.spatial.build_morton import DEPTH, MortonBuild
from tegula.spatial.build_on_host import (
    SUBTREE_ITEMS,
    SUBTREES,
    TopDown,
    WideBuild,
    WideBuilder,
    int_table,
    max_nodes,
    view_of,
)
from tegula.spatial.build_sah import MEDIAN, SAH
from tegula.spatial.host_boxes import HostBoxes, bound_boxes, launch, measure, new_boxes
from tegula.spatial.memory import SPARE_BYTES, MemoryBlock
from tegula.spatial.place import build_boxes, place_subtrees
from tegula.spatial.refit import ANY, fit_boxes
from tegula.spatial.refit_gpu import HALF, fit_level, gather_items, write_boxes, write_header
from tegula.stdlib.geometry.layout import LEVELS, MAX_ITEMS, TREE, WIDTH
from tegula.structs import Struct
from tegula.types import VecType, components, float32

CONSTRUCTORS = {"sah": SAH, "median": MEDIAN, "lbvh": SAH, "cubql": SAH}
"""The split method of each constructor, by name. "lbvh" splits ranges of keys instead, unless there are groups."""
BOTTOM_UP = "cubql"
"""The constructor that merges clusters from the leaves up, the default on CPUs."""
VEC3 = VecType(3, float32)
RESIDENT = 1 << 18
"""The number of threads of a launch on a GPU for a level whose number of nodes only the GPU knows."""
MAX_THREADS = 1 << 24
"""The maximum number of threads of a launch for a level."""
BOUND_BOXES, BUILD_BOXES = RepeatedLaunch(bound_boxes), RepeatedLaunch(build_boxes)
BOX_BYTES = 4 * WIDTH
"""The size of a box in bytes."""
REFITS_BEFORE_BUCKETS = 16
"""The number of the refit after a build that finds buckets, which takes as long as some twenty refits gain."""
LANES = 256
"""The number of threads of a block that refits nodes on a GPU, eight per node."""


class Bvh(Structure):
    """A bounding volume hierarchy: boxes that kernels query by rays and by boxes.

    Kernels take it as an argument annotated `tg.Bvh`, or its `id`, a uint64.

    Parameters:
        lowers, uppers: arrays (N,) of vec3 on one device, the corners of the boxes. The hierarchy refers to the arrays
            and does not copy them.
        constructor: a string, the algorithm that builds the tree: "cubql" (the default on CPUs, which merges boxes from
            the leaves up), "sah" and "median" (which split boxes from the root down; "sah" is the default with groups)
            or "lbvh" (the default on GPUs, and the only algorithm that runs on a GPU; the others run on the CPU). With
            groups, "lbvh" is the same as "sah". The results of queries do not depend on the algorithm.
        groups: an array (N,) of int32, the group of each box. The boxes of a group form a subtree, to which queries can
            be restricted.
        leaf_size: an int, the largest number of boxes of a leaf, from 1 to 255.
    Raises:
        launch: an array is of another type, shape or device.
        ValueError: there is no such constructor, or the leaf size is out of range.
    """

    __tegula_annotation__ = TREE
    label = "tg.Bvh"
    write_kernel, fit_kernel = write_boxes, fit_boxes
    """The kernel that writes all items, and the kernel that writes the items and nodes of subtrees."""

    def __init__(
        self,
        lowers: array,
        uppers: array,
        constructor: str | None = None,
        groups: array | None = None,
        leaf_size: int = 1,
    ) -> None:
        check_is_array(lowers, "lowers", VEC3)
        for name, a in (("lowers", lowers), ("uppers", uppers)):
            check_array(a, name, VEC3, len(lowers), lowers.device)
        if groups is not None:
            check_array(groups, "groups", tg.int32, len(lowers), lowers.device)
        self.lowers, self.uppers, self.groups = lowers, uppers, groups
        self.leaf_size = check_leaf_size(leaf_size)
        self._constructor = resolve_constructor(constructor, groups, lowers.device)
        self.nodes: array | None = None
        self._has_recorded_build = False
        self._refit_key: list[int] = []
        self._refits = 0
        self._buckets: Buckets | None = None
        self._refit_launches: list[PreparedLaunch] = []
        self.enter(BVH_KIND, lowers.device)
        self._build()

    def refit(self) -> None:
        """Recompute the bounds of all nodes after `lowers` or `uppers` changed in place. The structure of the tree
        stays the same. On a GPU the first refit after a build waits for the build, whose number of levels it reads, and
        the 16th refit of two million boxes or more waits too: it sorts the boxes for the following refits.

        Raises:
            nothing.
        """
        self.version += 1
        if len(self.lowers):
            if self._level_sizes is None and not self._has_recorded_build and not is_recorded(self.device):
                self._level_sizes = self._level_counts()
            if self._positions is not None and not is_recorded(self.device):
                self._refits += 1
                if self._refits == REFITS_BEFORE_BUCKETS:
                    self._buckets = self._find_buckets(self._positions)
            self._fit()

    def rebuild(self, constructor: str | None = None) -> None:
        """Rebuild the tree from `lowers` and `uppers`. The id stays the same.

        Parameters:
            constructor: a string, as for a new hierarchy; by default the constructor of the last build.
        Raises:
            ValueError: there is no such constructor.
            RuntimeError: launches on a GPU are recorded, and the tree has groups or a constructor other than "lbvh".
        """
        if constructor is not None:
            self._constructor = resolve_constructor(constructor, self.groups, self.device)
        self._build()

    def in_kernels(self) -> Struct:
        """The value of a kernel parameter of this type.

        Returns:
            a struct of addresses, which is valid while the hierarchy exists.
        Raises:
            nothing.
        """
        tree = TREE()
        for name, word in zip(TREE.fields, [*self.words(), self.id], strict=True):
            setattr(tree, name, word)
        return tree

    def levels(self) -> list[tuple[int, int]]:
        """The levels of the tree, from the root down.

        Returns:
            the first node of each and the number of its nodes.
        Raises:
            nothing.
        """
        starts = np.cumsum([1, *self._level_counts()])
        return [(int(first), int(end - first)) for first, end in pairwise(starts)]

    # Building --------------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        count = len(self.lowers)
        self.version += 1
        self._refit_key = []
        self._refits, self._buckets = 0, None
        if count:
            with recording.paused():
                if self._by_keys:
                    self._number(self._build_by_keys(count))
                    self._fit()
                else:
                    self._build_on_host(count)
        self.publish()

    @property
    def _by_keys(self) -> bool:
        """Whether the tree is built from Morton keys, on its device."""
        return self._constructor == "lbvh" and self.groups is None

    def _build_by_keys(self, count: int) -> array:
        """Build the tree on the device, asynchronously. Returns the order of the items."""
        nodes = max_nodes(count, 1)
        self._allocate(nodes, count)
        builder = MortonBuild(count, nodes, self.device, RESIDENT)
        order = builder.curve.sort(self.lowers, self.uppers)
        self._counts, self._level_sizes = tg.empty(LEVELS + 1, dtype=int, device=self.device), None
        builder.split(count, self.leaf_size, self._counts, self.node_words)
        # Replays of a recorded build may change the levels at any time.
        self._has_recorded_build |= is_recorded(self.device)
        if self.device.is_cpu:
            self._level_sizes = self._level_counts()
        self._group_nodes = None
        return order

    def _build_on_host(self, count: int) -> None:
        """Build the tree on the CPU, and copy it to the device."""
        groups = None if self.groups is None else self.groups.to("cpu")
        if self._constructor == BOTTOM_UP and groups is None:
            with bottom_up(count, self.leaf_size) as builder:
                self._measure(builder.boxes)
                build = builder.build()
                if build is not None:
                    self._write_build(build, count)
                    return
        # Top-down builds limit the depth.
        boxes = new_boxes(count, MemoryBlock())
        self._measure(boxes)
        max_unsplit = self.leaf_size * WIDTH
        binary = TopDown(boxes, groups, max_unsplit, CONSTRUCTORS[self._constructor]).binary()
        build = WideBuilder(binary, self.leaf_size, MemoryBlock()).run()
        if build is None:
            what = f"the hierarchy has more than {LEVELS} levels"
            raise LaunchError(what, "build it with constructor='lbvh', or with fewer groups")
        self._write_build(build, count)

    def _write_build(self, build: WideBuild, count: int) -> None:
        """Write a hierarchy of `count` items that was built on the CPU."""
        self._allocate(1 + sum(build.level_sizes), count)
        self._level_sizes = build.level_sizes
        counts = build.level_sizes + [0] * (LEVELS + 1 - len(build.level_sizes))
        self._counts = int_table(np.array(counts)).to(self.device)
        self._group_nodes = None if build.pairs is None else build.pairs.to(self.device)
        self._subtrees, self._above = _refit_rows(build.subtrees, build.above, count)
        if self.device.is_cpu:
            self._write_built(build)
        else:
            words = tg.empty((1 + sum(build.level_sizes)) * NODE, dtype=tg.int32, device="cpu")
            top = sum(build.level_sizes[: build.top])
            args = [build.records, self._subtrees, build.shifts, view_of(words, EIGHT), top]
            launch(place_subtrees, len(self._subtrees), args)
            tg.copy(self.node_words, words, count=words.size)
            self._number(build.order.to(self.device))
            self._fit()

    def _write_built(self, build: WideBuild) -> None:
        """Write the nodes and the items of a hierarchy that was built on the CPU."""
        self._write_by(BUILD_BOXES, [self.lowers, self.uppers, self.groups, build.order], build)

    def _write_by(self, kernel: RepeatedLaunch, sources: list[Any], build: WideBuild) -> None:
        """Write nodes and items by a kernel, from the arrays that items are computed from."""
        assert self.nodes is not None
        items = len(self._items) - self.node_limit
        args = [
            self._node_rows,
            self._node_rows.ptr,
            self._items,
            items,
            min(self.leaf_size, ANY),
            self._subtrees,
        ]
        rows, top = view_of(self.node_words, EIGHT), sum(build.level_sizes[: build.top])
        kernel.run_in_order([self._above, 1], [*sources, *args, build.records, build.shifts, rows, top])

    def _measure(self, boxes: HostBoxes) -> None:
        """Write the boxes of the items on the CPU."""
        measure(BOUND_BOXES, [self.lowers.to("cpu"), self.uppers.to("cpu")], boxes)

    def _allocate(self, nodes: int, items: int) -> None:
        """Allocate memory for nodes and items, unless there is enough. The memory is not initialised, because builds
        write all data that queries read."""
        if self.nodes is not None and self.node_limit >= nodes:
            return
        self.node_limit = nodes
        size = (4 * NODE + BOX_BYTES) * nodes + BOX_BYTES * items + SPARE_BYTES
        memory = MemoryBlock(size, self.device)
        self.node_words = memory.empty(nodes * NODE, tg.int32)
        self.nodes = self.node_words.view(tg.float32)
        self._node_rows, self._node_halves = view_as(self.nodes, VEC8), view_as(self.nodes, HALF)
        self._items = memory.empty(items + nodes, VEC8)
        self._halves = view_as(self._items, HALF)
        if self.device.is_cpu:
            self._items.numpy()[items] = np.nan
        else:
            self._launch(write_no_box, 1, [self._items, items])
        self._positions = None if self.device.is_cpu else tg.empty(items, dtype=tg.int32, device=self.device)

    def _number(self, order: array) -> None:
        """Write the data for refits: on a GPU the position of each item, on a CPU the index of the item at each
        position, and the subtrees."""
        if self._positions is not None:
            self._launch(invert_order, len(order), [order, self._positions])
            return
        assert self._level_sizes is not None
        self._launch(number_items, len(order), [self.groups, order, self._items])
        levels = self.levels()
        enough = max(SUBTREES, len(order) // SUBTREE_ITEMS)
        top = next((k for k, (_, n) in enumerate(levels) if n >= enough), len(levels) - 1)
        first, count = levels[top]
        subtrees = tg.empty((count, 2 * (len(levels) - top) + 2), dtype=int, device="cpu")
        self._launch(write_subtrees, count, [self.node_words, first, len(levels) - top, subtrees])
        self._subtrees, self._above = _refit_rows(subtrees.numpy(), levels[:top], len(order))

    def _fit(self) -> None:
        """Write the boxes of all items and nodes."""
        if self._positions is None:
            self._fit_on_host()
            return
        assert self.nodes is not None
        keep_recorded(self.device, self.nodes, self._items)
        inner = len(self._items) - self.node_limit
        # The fast path of launches takes kernels whose constants and absent arrays are bound.
        write, sources = self.write_kernel, self._sources()
        if self.groups is None:
            write = write.bind(groups=None)
        else:
            sources.append(self.groups)
        even = inner + inner % 2
        if self._buckets is None or is_recorded(self.device):
            self._launch(write, even, [*sources, self._positions, self._halves, 0])
        else:
            # The records are in the memory for nodes, after the last node.
            records, base = self._node_halves, WIDTH * self.node_limit - inner
            self._launch(write, even, [*sources, self._buckets.records, records, base])
            self._launch(gather_items, even, [records, base, self._buckets.sources, self._halves])
        fit = fit_level.bind(single=self.leaf_size == 1)
        self.launch_by_level(fit, WIDTH, [self.node_words, self._halves, inner], LANES)
        self._launch(write_header, 1, [self._node_rows, self._items, inner])

    def _find_buckets(self, positions: array) -> Buckets | None:
        """The buckets in which refits on a GPU write items first; None if this would not be faster, or if there is no
        memory for the records."""
        count, levels = len(positions), self._level_sizes
        if count < MIN_ITEMS or levels is None or self.write_kernel is not write_boxes:
            return None
        has_room = WIDTH * (1 + sum(levels)) + count <= WIDTH * self.node_limit
        return (
            find_buckets(positions, self.device)
            if has_room and are_scattered(positions, self.device)
            else None
        )

    def _fit_on_host(self) -> None:
        """Write the boxes of all items and nodes on a CPU."""
        nodes, inner = self._node_rows, len(self._items) - self.node_limit
        args = [*self._host_sources(), nodes, nodes.ptr, self._items, inner]
        key = [x if isinstance(x, int) else x.ptr for x in (*args, self._subtrees)]
        if self._refit_key != key:
            # The threads end together, because the largest subtrees are first.
            rows = self._subtrees.numpy()[: self._above]
            rows[...] = rows[np.argsort(rows[:, 0] - rows[:, 1], kind="stable")]
            args += [min(self.leaf_size, ANY), self._subtrees]
            dims = [self._above, 1] if self._above < len(self._subtrees) else [self._above]
            launches = [
                PreparedLaunch(self.fit_kernel, dim, [*args, k * self._above]) for k, dim in enumerate(dims)
            ]
            self._refit_key, self._refit_launches = key, launches
        for prepared in self._refit_launches:
            prepared.run()

    def _sources(self) -> list[Any]:
        """The leading arguments of the kernels that write items."""
        return [self.lowers, self.uppers]

    def _host_sources(self) -> list[Any]:
        """The leading arguments of the kernels that refit subtrees on a CPU."""
        return [self.lowers.ptr, self.uppers.ptr]

    def launch_by_level(
        self, kernel: Any, each: int, inputs: list[Any], block_dim: int | None = None
    ) -> None:
        """Launch a kernel for each level, from the deepest level up.

        Parameters:
            kernel: a kernel, whose last arguments are the numbers of nodes of the levels, the index of a level, its
                first node and number of nodes (0 if only the GPU knows), and the number of threads.
            each: the number of threads per node.
            inputs: the preceding arguments.
            block_dim: the number of threads in a block, an integer; None: the default of the kernel.
        Raises:
            nothing.
        """
        # A recording may be replayed after other builds, whose levels only the GPU knows.
        level_sizes = (
            None
            if self._by_keys and not self.device.is_cpu and is_recorded(self.device)
            else self._level_sizes
        )
        for level in reversed(range(DEPTH if level_sizes is None else len(level_sizes))):
            if level_sizes is None:
                first, size = 0, 0
                threads = min(each * min(1 << min(3 * level, 31), self.node_limit), RESIDENT)
            else:
                first, size = 1 + sum(level_sizes[:level]), level_sizes[level]
                threads = min(each * size, MAX_THREADS)
            self._launch(kernel, threads, [*inputs, self._counts, level, first, size, threads], block_dim)

    def _level_counts(self) -> list[int]:
        """The numbers of nodes of the levels."""
        counts = self._counts.numpy()
        return counts[: int(np.count_nonzero(counts))].tolist()

    def words(self) -> list[int]:
        """The values of the fields of TREE, in order.

        Returns:
            addresses and numbers.
        Raises:
            nothing.
        """
        if self.nodes is None:
            return [0, 0, 0, 0]
        groups = self._group_nodes
        addresses = [self.nodes.ptr, self._items.ptr, 0 if groups is None else groups.ptr]
        return [*addresses, 0 if groups is None else len(groups) // 2]

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], block_dim: int | None = None) -> None:
        tg.launch(kernel, dim, inputs, record_tape=False, block_dim=block_dim)


def _refit_rows(subtrees: np.ndarray, above: list[tuple[int, int]], items: int) -> tuple[array, int]:
    """The table for refits on a CPU, and its number of rows before the levels above the subtrees. The table has a row
    for each subtree, a row for each range of items outside all subtrees, and a row for the levels above, if there are
    any."""
    begin, end = (subtrees[:, k] for k in range(2))
    gaps = np.zeros((0, 2), np.int32)
    if (end - begin).sum() < items:
        order = np.argsort(begin, kind="stable")
        gaps = np.stack([np.append(0, np.maximum.accumulate(end[order])), np.append(begin[order], items)], 1)
        gaps = gaps[gaps[:, 0] < gaps[:, 1]]
    width = max(subtrees.shape[1], 2 * len(above) + 2)
    rows = np.zeros((len(subtrees) + len(gaps) + bool(above), width), np.int32)
    rows[: len(subtrees), : subtrees.shape[1]] = subtrees
    rows[len(subtrees) : len(subtrees) + len(gaps), :2] = gaps
    for k, (first, count) in enumerate(above):
        rows[-1, 2 * k + 2 : 2 * k + 4] = first, first + count
    return int_table(rows), len(subtrees) + len(gaps)


def view_as(a: array, dtype: Any) -> array:
    """An array of another dtype of float32 components on the memory of a packed array, without ownership of the
    memory."""
    count = a.size * components(a.dtype) // components(dtype)
    return array(ptr=a.ptr, dtype=dtype, shape=count, device=a.device)


def check_array(a: Any, name: str, dtype: Any, count: int, device: Any) -> None:
    """Raise LaunchError unless an argument is a packed array with a given dtype, length and device."""
    is_array = isinstance(a, array)
    fits = is_array and a.dtype == dtype and a.shape == (count,) and a.device == device
    if not fits or not a.is_contiguous:
        actual = f"a value of type {type(a).__name__}"
        if is_array:
            packed = "a packed" if a.is_contiguous else "an unpacked"
            actual = f"{packed} array of {a.dtype} of shape {a.shape} on {a.device}"
        what = f"{name} must be a packed array of {dtype} of shape ({count},) on {device}, got {actual}"
        raise LaunchError(what, f"create one with tg.array(..., dtype=tg.{dtype}, device='{device}')")


def check_is_array(a: Any, name: str, dtype: Any) -> None:
    """Raise LaunchError unless an argument, which determines the length and the device of others, is an array."""
    if not isinstance(a, array):
        what = f"{name} must be an array of {dtype}, got a value of type {type(a).__name__}"
        raise LaunchError(what, f"create one with tg.array(..., dtype=tg.{dtype})")


def check_leaf_size(size: int) -> int:
    """The leaf size; ValueError if the size is out of range."""
    is_integer = hasattr(size, "__index__") and not isinstance(size, bool)
    if not is_integer or not 1 <= size <= MAX_ITEMS:
        raise ValueError(f"the leaf size must be an integer from 1 to {MAX_ITEMS}, got {size!r}")
    return size.__index__()


def resolve_constructor(name: str | None, groups: array | None, device: Device) -> str:
    """The name of a constructor, by default the default of the device; ValueError for an unknown name."""
    default = "sah" if groups is not None else BOTTOM_UP
    constructor = (default if device.is_cpu else "lbvh") if name is None else str(name).lower()
    if constructor not in CONSTRUCTORS:
        raise ValueError(f"constructor must be one of {', '.join(CONSTRUCTORS)}, got {name!r}")
    if constructor == "cubql" and groups is not None:
        raise LaunchError("Grouped BVHs cannot be built with constructor='cubql'", "use 'sah' or 'lbvh'")
    return constructor
