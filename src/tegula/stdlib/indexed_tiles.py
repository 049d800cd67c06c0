"""How the threads of a group move the elements of a tile between shared memory and an indexed array.

Each program takes an array of four dimensions; the tile in `cells`, row-major, of which each thread has a column; the
number of its elements and its last three extents; and where in the array it begins. Elements outside of the array are
left alone. `present`: how many elements of the last dimension there are. In a block that lacks threads one thread moves
all."""

from __future__ import annotations

from tegula.stdlib.registry import tg


def load(a, cells, size, n1, n2, n3, o0, o1, o2, o3):
    """Copy elements of an array to a tile."""

    def move(r, c):
        e = r * cells.shape[1] + c
        c0, c1, c2, c3 = e // (n1 * n2 * n3), e // (n2 * n3) % n1, e // n3 % n2, e % n3
        i, j, k, m = o0 + tg.int64(c0), o1 + tg.int64(c1), o2 + tg.int64(c2), o3 + tg.int64(c3)
        inside = e < size and i >= 0 and j >= 0 and k >= 0 and m >= 0
        inside = inside and i < tg.int64(a.shape[0]) and j < tg.int64(a.shape[1])
        if inside and k < tg.int64(a.shape[2]) and m < tg.int64(a.shape[3]):
            cells[r, c] = a[i, j, k, m]

    if tg.group_present() == tg.group_size():
        for r in range(cells.shape[0]):
            move(r, tg.group_lane())
    elif tg.group_lane() == 0:
        for r in range(cells.shape[0]):
            for c in range(cells.shape[1]):
                move(r, c)


def store(a, cells, size, n1, n2, n3, o0, o1, o2, o3, present):
    """Copy elements of a tile to an array."""

    def move(r, c):
        e = r * cells.shape[1] + c
        c0, c1, c2, c3 = e // (n1 * n2 * n3), e // (n2 * n3) % n1, e // n3 % n2, e % n3
        i, j, k, m = o0 + tg.int64(c0), o1 + tg.int64(c1), o2 + tg.int64(c2), o3 + tg.int64(c3)
        inside = e < size and i >= 0 and j >= 0 and k >= 0 and m >= 0 and c3 < present
        inside = inside and i < tg.int64(a.shape[0]) and j < tg.int64(a.shape[1])
        if inside and k < tg.int64(a.shape[2]) and m < tg.int64(a.shape[3]):
            a[i, j, k, m] = cells[r, c]

    if tg.group_present() == tg.group_size():
        for r in range(cells.shape[0]):
            move(r, tg.group_lane())
    elif tg.group_lane() == 0:
        for r in range(cells.shape[0]):
            for c in range(cells.shape[1]):
                move(r, c)


def add(a, cells, before, size, n1, n2, n3, o0, o1, o2, o3, present):
    """Add elements of a tile to an array's; `before` becomes what they were."""

    def move(r, c):
        e = r * cells.shape[1] + c
        c0, c1, c2, c3 = e // (n1 * n2 * n3), e // (n2 * n3) % n1, e // n3 % n2, e % n3
        i, j, k, m = o0 + tg.int64(c0), o1 + tg.int64(c1), o2 + tg.int64(c2), o3 + tg.int64(c3)
        inside = e < size and i >= 0 and j >= 0 and k >= 0 and m >= 0 and c3 < present
        inside = inside and i < tg.int64(a.shape[0]) and j < tg.int64(a.shape[1])
        if inside and k < tg.int64(a.shape[2]) and m < tg.int64(a.shape[3]):
            before[r, c] = tg.atomic_add(a, i, j, k, m, cells[r, c])

    if tg.group_present() == tg.group_size():
        for r in range(cells.shape[0]):
            move(r, tg.group_lane())
    elif tg.group_lane() == 0:
        for r in range(cells.shape[0]):
            for c in range(cells.shape[1]):
                move(r, c)


def min(a, cells, before, size, n1, n2, n3, o0, o1, o2, o3, present):
    """Lower elements of an array to those of a tile; `before` becomes what they were."""

    def move(r, c):
        e = r * cells.shape[1] + c
        c0, c1, c2, c3 = e // (n1 * n2 * n3), e // (n2 * n3) % n1, e // n3 % n2, e % n3
        i, j, k, m = o0 + tg.int64(c0), o1 + tg.int64(c1), o2 + tg.int64(c2), o3 + tg.int64(c3)
        inside = e < size and i >= 0 and j >= 0 and k >= 0 and m >= 0 and c3 < present
        inside = inside and i < tg.int64(a.shape[0]) and j < tg.int64(a.shape[1])
        if inside and k < tg.int64(a.shape[2]) and m < tg.int64(a.shape[3]):
            before[r, c] = tg.atomic_min(a, i, j, k, m, cells[r, c])

    if tg.group_present() == tg.group_size():
        for r in range(cells.shape[0]):
            move(r, tg.group_lane())
    elif tg.group_lane() == 0:
        for r in range(cells.shape[0]):
            for c in range(cells.shape[1]):
                move(r, c)


def max(a, cells, before, size, n1, n2, n3, o0, o1, o2, o3, present):
    """Raise elements of an array to those of a tile; `before` becomes what they were."""

    def move(r, c):
        e = r * cells.shape[1] + c
        c0, c1, c2, c3 = e // (n1 * n2 * n3), e // (n2 * n3) % n1, e // n3 % n2, e % n3
        i, j, k, m = o0 + tg.int64(c0), o1 + tg.int64(c1), o2 + tg.int64(c2), o3 + tg.int64(c3)
        inside = e < size and i >= 0 and j >= 0 and k >= 0 and m >= 0 and c3 < present
        inside = inside and i < tg.int64(a.shape[0]) and j < tg.int64(a.shape[1])
        if inside and k < tg.int64(a.shape[2]) and m < tg.int64(a.shape[3]):
            before[r, c] = tg.atomic_max(a, i, j, k, m, cells[r, c])

    if tg.group_present() == tg.group_size():
        for r in range(cells.shape[0]):
            move(r, tg.group_lane())
    elif tg.group_lane() == 0:
        for r in range(cells.shape[0]):
            for c in range(cells.shape[1]):
                move(r, c)
