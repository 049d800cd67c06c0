"""Bounding volume hierarchies on the host."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import tegula as tg
from tegula.errors import LaunchError
from tegula.handles import BVH_KIND
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.runtime.recording import recording
from tegula.runtime.structures import Structure
from tegula.spatial.boxes import place_boxes, renew_children, renew_nodes, write_header
from tegula.spatial.build_morton import MortonBuild
from tegula.spatial.build_sah import AXES, BINS, DEEPEST, MEDIAN, SAH, Ranges, build
from tegula.spatial.widen import place_ranges, widen
from tegula.stdlib.geometry.layout import ITEM_BYTES, LEVELS, MOST_ITEMS, NODE_BYTES, TREE, WIDTH
from tegula.structs import Struct
from tegula.types import VecType, float32

CONSTRUCTORS = {"sah": SAH, "median": MEDIAN, "lbvh": SAH, "cubql": SAH}
"""The constructors by name, and the way in which they split ranges of boxes. "lbvh" parts keys instead, if there are no
groups."""
VEC3 = VecType(3, float32)
PARTS = 32
"""The approximate number of subtrees that are built in parallel, one thread each."""
RESIDENT = 1 << 18
"""The threads of a launch on a GPU for a level whose number of nodes only the GPU knows."""


class Bvh(Structure):
    """A bounding volume hierarchy: boxes that kernels query by rays and by boxes.

    Kernels take it as an argument annotated `tg.Bvh`, or its `id`, a uint64.

    Parameters:
        lowers, uppers: arrays (N,) of vec3 on one device, the corners of the boxes. The hierarchy refers to the arrays
            and does not copy them.
        constructor: a string, the algorithm that builds the tree: "sah" (the default on CPUs), "median", "lbvh" (the
            default on GPUs, where it alone runs there: the others run on the CPU) or "cubql". With groups, "lbvh" is
            the same as "sah". The results of queries do not depend on the algorithm.
        groups: an array (N,) of int32, the group of each box. The boxes of a group form a subtree, to which queries can
            be restricted.
        leaf_size: an int, the largest number of boxes of a leaf, from 1 to 255.
    Raises:
        launch: an array is of another type, shape or device.
        ValueError: there is no such constructor, or the leaf size is out of range.
    """

    __tegula_annotation__ = TREE

    def __init__(
        self,
        lowers: array,
        uppers: array,
        constructor: str | None = None,
        groups: array | None = None,
        leaf_size: int = 1,
    ) -> None:
        for name, a in (("lowers", lowers), ("uppers", uppers)):
            require(a, name, VEC3, len(lowers), lowers.device)
        if groups is not None:
            require(groups, "groups", tg.int32, len(lowers), lowers.device)
        self.lowers, self.uppers, self.groups = lowers, uppers, groups
        self.leaf_size = leaf_of(leaf_size)
        self._constructor = constructor_named(constructor, groups, lowers.device)
        self.nodes: array | None = None
        self.enter(BVH_KIND, lowers.device)
        self._build()

    def refit(self) -> None:
        """Recompute the bounds of all nodes after `lowers` or `uppers` changed in place. The structure of the tree
        stays the same.

        Raises:
            nothing.
        """
        self.version += 1
        if len(self.lowers):
            self._place(None)
            self._renew()

    def rebuild(self, constructor: str | None = None) -> None:
        """Rebuild the tree from `lowers` and `uppers`. The id stays the same.

        Parameters:
            constructor: a string, as for a new hierarchy; by default the constructor of the last build.
        Raises:
            ValueError: there is no such constructor.
        """
        if constructor is not None:
            self._constructor = constructor_named(constructor, self.groups, self.device)
        self._build()

    def in_kernels(self) -> Struct:
        """The value of a kernel parameter of this type.

        Returns:
            a struct of addresses, which is valid while the hierarchy exists.
        Raises:
            nothing.
        """
        made = TREE()
        for name, word in zip(TREE.fields, [*self.words(), self.id], strict=True):
            setattr(made, name, word)
        return made

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
        if count:
            with recording.paused():
                by_keys = self._constructor == "lbvh" and self.groups is None
                order = self._build_by_keys(count) if by_keys else self._build_on_host(count)
                self._place(order)
                self._renew()
        self.publish()

    def _build_by_keys(self, count: int) -> array:
        """Build the tree on the device, without waiting for it. Returns the order of the items."""
        nodes = most_nodes(count, 1)
        self._allocate(nodes, count)
        made = MortonBuild(count, nodes, self.device)
        order = made.sort(self.lowers, self.uppers)
        self._counts, self._known = tg.empty(LEVELS + 1, dtype=int, device=self.device), None
        made.part(count, self.leaf_size, self._counts, self.node_words, RESIDENT)
        if self.device.is_cpu:
            self._known = self._level_counts()
        self._group_nodes = None
        return order

    def _build_on_host(self, count: int) -> array:
        """Build the tree on the CPU and copy it to the device. Returns the order of the items."""
        lowers, uppers = self.lowers.to("cpu"), self.uppers.to("cpu")
        order, starts, keys = self._order(count)
        made = _Build(count, len(starts))
        place = made.ranges
        place.order = order
        on_host(place_ranges, count, [lowers, uppers, order, place.lower, place.upper])
        roots = made.top(starts)
        made.run(roots, self.leaf_size, CONSTRUCTORS[self._constructor])
        source = tg.empty(made.most_nodes, dtype=int, device="cpu")
        fixed = tg.array(made.fixed(roots), dtype=int, device="cpu") if self.groups is not None else None
        self._allocate(made.most_nodes, count)
        words = self.node_words
        if not self.device.is_cpu:
            words = tg.zeros(made.most_nodes * NODE_BYTES // 4, dtype=tg.int32, device="cpu")
        levels = tg.zeros(LEVELS + 3, dtype=int, device="cpu")
        on_host(widen, 1, [place, fixed, source, words, levels])
        found = levels.numpy()
        depth = int(found[LEVELS + 2])
        if depth > LEVELS:
            raise LaunchError(
                f"the hierarchy has more than {LEVELS} levels", "build it with constructor='lbvh'"
            )
        self._known = np.diff(found[1 : depth + 2]).tolist()
        counts = np.zeros(LEVELS + 1, np.int32)
        counts[:depth] = self._known
        self._counts = tg.array(counts, dtype=int, device=self.device)
        if words is not self.node_words:
            tg.copy(self.node_words, words, count=words.size)
        self._group_nodes = self._groups_of(source.numpy()[1 : 1 + int(found[0])], roots, keys)
        return order.to(self.device)

    def _order(self, count: int) -> tuple[array, np.ndarray, np.ndarray]:
        """The initial order of the items, sorted by group; the first item of each group; and the groups."""
        order = np.arange(count, dtype=np.int32)
        starts, keys = np.zeros(1, np.int32), np.zeros(1, np.int32)
        if self.groups is not None:
            groups = self.groups.numpy()
            order = order[np.argsort(groups[order], kind="stable")]
            keys, starts = np.unique(groups[order], return_index=True)
        return tg.array(order, dtype=int, device="cpu"), starts, keys

    def _allocate(self, nodes: int, items: int) -> None:
        """Make memory for nodes and items unless there is enough."""
        if self.nodes is not None and self.node_limit >= nodes:
            return
        self.node_limit = nodes
        self.node_words = tg.zeros(nodes * NODE_BYTES // 4, dtype=tg.int32, device=self.device)
        self.nodes = self.node_words.view(tg.float32)
        self.item_words = tg.zeros(items * ITEM_BYTES // 4, dtype=tg.int32, device=self.device)
        self._items = self.item_words.view(tg.float32)

    def _place(self, order: array | None) -> None:
        """Write the boxes of the items; with `order` also their numbers."""
        args = [self.lowers, self.uppers, self.groups, self._items, self.item_words, order]
        self._launch(place_boxes, len(self.lowers), args)

    def _renew(self) -> None:
        """Write the boxes of all nodes."""
        assert self.nodes is not None
        kernel, each = (renew_nodes, 1) if self.device.is_cpu else (renew_children, WIDTH)
        self.by_level(kernel, each, [self.nodes, self.node_words, self.nodes.ptr, self._items.ptr])
        self._launch(write_header, 1, [self.nodes, self.nodes.ptr])

    def by_level(self, kernel: Any, each: int, inputs: list[Any]) -> None:
        """Launch a kernel for each level, from the lowest one up.

        Parameters:
            kernel: a kernel, whose last arguments are the numbers of the levels' nodes, a level from 0 on, and the
                number of threads.
            each: the number of threads of a node.
            inputs: the arguments before.
        Raises:
            nothing.
        """
        known = self._known
        for level in reversed(range(LEVELS if known is None else len(known))):
            if known is None:
                threads = min(each * min(1 << min(3 * level, 31), self.node_limit), RESIDENT)
            else:
                threads = each * known[level]
            self._launch(kernel, threads, [*inputs, self._counts, level, threads])

    def _level_counts(self) -> list[int]:
        """The numbers of nodes of the levels."""
        counts = self._counts.numpy()
        return counts[: int(np.count_nonzero(counts))].tolist()

    def _groups_of(self, found: np.ndarray, roots: np.ndarray, keys: np.ndarray) -> array | None:
        """Pairs of a group and its node, by group; `found`: the binary node of each node."""
        if self.groups is None:
            return None
        number = dict(zip(found.tolist(), range(1, len(found) + 1), strict=True))
        pairs = np.array([(key, number[int(root)]) for key, root in zip(keys, roots, strict=True)], np.int32)
        return tg.array(pairs.reshape(-1), dtype=int, device=self.device)

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
        found = [self.nodes.ptr, self._items.ptr, 0 if groups is None else groups.ptr]
        return [*found, 0 if groups is None else len(groups) // 2]

    def _launch(self, kernel: Any, dim: int, inputs: list[Any]) -> None:
        tg.launch(kernel, dim=dim, inputs=inputs, device=self.device, record_tape=False)


def on_host(kernel: Any, dim: int, inputs: list[Any], block_dim: int | None = None) -> None:
    """Launch a kernel on the CPU."""
    tg.launch(kernel, dim=dim, inputs=inputs, device="cpu", record_tape=False, block_dim=block_dim)


class _Build:
    """A build of `count` items in `groups` groups: its memory and its steps."""

    def __init__(self, count: int, groups: int) -> None:
        self.count, self.groups = count, groups
        self.most_nodes = most_nodes(count, groups)
        nodes = 2 * count + 2 * groups + 2
        self.ranges = r = Ranges()
        r.lower, r.upper = (tg.empty(count, dtype=VEC3, device="cpu") for _ in range(2))
        r.begin, r.end, r.level, r.left = (tg.zeros(nodes, dtype=int, device="cpu") for _ in range(4))
        r.node_lower, r.node_upper = (tg.zeros(nodes, dtype=VEC3, device="cpu") for _ in range(2))
        self._scratch(1)

    def _scratch(self, threads: int) -> None:
        """Allocate the memory of `threads` threads: bins, and the stacks of nodes to split."""
        r, bins = self.ranges, AXES * BINS
        r.bins = tg.zeros((threads, bins), dtype=int, device="cpu")
        r.low, r.high = (tg.zeros((threads, bins), dtype=VEC3, device="cpu") for _ in range(2))
        r.stack = tg.zeros((threads, 2 * DEEPEST + 4), dtype=int, device="cpu")

    def top(self, starts: np.ndarray) -> np.ndarray:
        """Write the nodes above the groups by halving the list of groups. Returns the roots of the groups."""
        begin, end, left = (getattr(self.ranges, name).numpy() for name in ("begin", "end", "left"))
        ends = [*starts[1:].tolist(), self.count]
        roots = np.zeros(len(starts), np.int32)
        pending = [(0, 0, len(starts))]
        while pending:
            node, first, last = pending.pop()
            begin[node], end[node] = starts[first], ends[last - 1]
            if last - first == 1:
                roots[first] = node
                continue
            cut = (first + last) // 2
            left[node] = 2 * self.count + 2 * cut
            pending += [(int(left[node]), first, cut), (int(left[node]) + 1, cut, last)]
        return roots

    def fixed(self, roots: np.ndarray) -> np.ndarray:
        """For each binary node, whether it is the root of a group."""
        made = np.zeros(len(self.ranges.left), np.int32)
        made[roots] = 1
        return made

    def run(self, roots: np.ndarray, leaf: int, by: int) -> None:
        """Split large ranges one level after the other, then build the remaining subtrees in parallel."""
        most = max(self.count // PARTS, 4096)
        if len(roots) == 1:
            # Nodes of a level have disjoint boxes, so that few nodes of a level are large.
            large = (DEEPEST + 2) * (self.count // most + 1)
            listed = tg.zeros(large + 2, dtype=int, device="cpu")
            self._launch(roots, listed, most, leaf, by)
            roots = listed.numpy()[1 : 1 + int(listed.numpy()[0])]
        if len(roots):
            self._scratch(len(roots))
            self._launch(roots, None, most, leaf, by)

    def _launch(self, roots: np.ndarray, listed: array | None, most: int, leaf: int, by: int) -> None:
        given = tg.array(roots, dtype=int, device="cpu")
        on_host(build, len(roots), [self.ranges, given, listed, most, leaf, by], 1)


def most_nodes(count: int, groups: int) -> int:
    """The largest number of nodes of a hierarchy of items in groups, and the header: nodes whose children are leaves
    have two items at least, the others eight children."""
    return count * 4 // 7 + 2 * groups + 4


def require(a: Any, name: str, dtype: Any, count: int, device: Any) -> None:
    """Raise LaunchError unless an argument is a packed array with a given dtype, length and device."""
    fits = (
        isinstance(a, array) and a.dtype == dtype and a.ndim == 1 and len(a) == count and a.device == device
    )
    if not fits or not a.is_contiguous:
        what = f"{name} must be a packed array of {dtype} of {count} elements on {device}, got {a!r:.80}"
        raise LaunchError(what, f"make one with tg.array(..., dtype=tg.{dtype}, device='{device}')")


def leaf_of(size: int) -> int:
    """The leaf size; ValueError if the size is out of range."""
    if type(size) is not int or not 1 <= size <= MOST_ITEMS:
        raise ValueError(f"the leaf size is from 1 to {MOST_ITEMS}, got {size!r}")
    return size


def constructor_named(name: str | None, groups: array | None, device: Device) -> str:
    """A constructor, by default that of a device; ValueError if there is none of this name."""
    found = ("sah" if device.is_cpu else "lbvh") if name is None else str(name).lower()
    if found not in CONSTRUCTORS:
        raise ValueError(f"there is no constructor {name!r}: {', '.join(CONSTRUCTORS)}")
    if found == "cubql" and groups is not None:
        raise LaunchError("Grouped BVHs cannot be built with constructor='cubql'", "use 'sah' or 'lbvh'")
    return found
