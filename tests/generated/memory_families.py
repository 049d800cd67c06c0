"""Families of statements on arrays: loads and stores with masks and indices, atomics of every kind, exchanges of tiles.

Each statement changes rows of cells of its own, so that the order of the threads does not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from families import family

if TYPE_CHECKING:
    from family_programs import FamilyProgram


@family
def masked_accesses(p: FamilyProgram) -> None:
    """Loads and stores of tiles with masks, offsets over the edge, and values for elements that are not read."""
    x, y, row = p.pick("int"), p.pick("int"), p.row()
    index, other_start, fill, n = p.r.randint(-6, 124), p.r.randint(-9, 9), p.r.choice((0, 5)), p.lanes
    t = p.fresh("t")
    p.both(
        f"{t} = tg.tile_load(a[b], shape={n}, offset={index}, mask=tg.tile({x}) > tg.tile({y}), "
        f"other={other_start}, fill={fill})\n"
        f"tg.tile_store(cells[b, {row}], tg.tile({y}), offset={index % 5}, mask=tg.tile({x}) > {other_start})",
        f"i{t} = j + {index}\nh{t} = (i{t} >= 0) & (i{t} < 128)\n"
        f"{t} = np.where({x} > {y}, np.where(h{t}, D['a'][b][np.where(h{t}, i{t}, 0)], {fill}), {other_start})\n"
        f"h{t} = ({x} > {other_start}) & (j + {index % 5} < {n})\ncells[b, {row}][(j + {index % 5})[h{t}]] = {y}[h{t}]",
    )
    p.new("int", f"tg.untile({t})", f"{t} + 0", 9)


@family
def round_trips(p: FamilyProgram) -> None:
    """Stored elements are read back by the block's threads and by loads of tiles, in either order."""
    x, y, n = p.pick("int"), p.pick("int"), p.lanes
    row, k = p.row(), p.r.randint(1, 7)
    p.both(
        f"tg.tile_store(cells[b, {row}], tg.tile({x}))",
        f"cells[b, {row}] = {x}",
    )
    p.new(
        "int", f"cells[b, {row}, (j + {k}) % {n}]", f"cells[b, {row}, (j + {k}) % {n}].astype(int)", x.bound
    )
    p.both(f"cells[b, {row}, (j + {k}) % {n}] = {y}", f"cells[b, {row}, (j + {k}) % {n}] = {y}")
    p.new("int", f"tg.untile(tg.tile_load(cells[b, {row}], {n}))", f"cells[b, {row}].astype(int)", y.bound)


@family
def indexed_axes(p: FamilyProgram) -> None:
    """Loads and stores along the second dimension at indices of a tile, some of which are outside."""
    x, t, row = p.pick("int"), p.fresh("t"), p.row()
    second_index, start = p.row(), p.r.randint(-1, 1)
    p.rows = max(p.rows, second_index + 1)
    p.both(
        f"i{t} = tg.tile_map(lambda k: k % 6 + 1, tg.tile({x}))[:4]\n"
        f"{t} = tg.tile_load_indexed(sq, i{t}, shape=(4, 4), offset=({start}, 0), axis=1)",
        f"i{t} = (remainder({x}, 6) + 1)[:4]\nr{t} = np.arange(4) + {start}\n"
        f"h{t} = ((r{t} >= 0) & (r{t} < 4))[:, None] & ((i{t} >= 0) & (i{t} < 4))\n"
        f"{t} = np.where(h{t}, D['sq'][np.clip(r{t}, 0, 3)][:, np.clip(i{t}, 0, 3)], 0)",
    )
    p.new("float", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 3)
    p.both(
        f"tg.tile_store_indexed(cells[b, {row}], tg.tile((j * 5 + 3) % {p.lanes}), tg.tile({x}), "
        f"mask=tg.tile({x}) > 0)",
        f"cells[b, {row}][((j * 5 + 3) % {p.lanes})[{x} > 0]] = {x}[{x} > 0]",
    )


@family
def tile_exchanges(p: FamilyProgram) -> None:
    """tile_atomic_exch, tile_atomic_cas, tile_atomic_max and tile_atomic_min on elements of one block."""
    x, y, t, row, n = p.pick("int"), p.pick("int"), p.fresh("t"), p.row(), p.lanes
    cell = f"cells[b, {row}]"
    k = p.r.randint(0, 3)
    p.both(
        f"{t} = tg.tile_atomic_exch({cell}, tg.tile({x}), mask=tg.tile({y}) > 0)",
        f"{t} = np.where({y} > 0, {cell}, 0).astype(int)\n{cell} = np.where({y} > 0, {x}, {cell})",
    )
    p.new("int", f"tg.untile({t})", f"{t} + 0", 10)
    kind = p.r.choice(("max", "min", "add"))
    meaning = {"max": "np.maximum", "min": "np.minimum", "add": "np.add"}[kind]
    p.both(
        f"{t} = tg.tile_atomic_{kind}({cell}, tg.tile({y}), offset={k})",
        f"{t} = np.append({cell}[{k}:], [0] * {k}).astype(int)\n"
        f"{cell}[{k}:] = {meaning}({cell}[{k}:], {y}[: {n - k}])",
    )
    p.new("int", f"tg.untile({t})", f"{t} + 0", x.bound + y.bound + 10)
    p.both(
        f"{t} = tg.tile_atomic_cas({cell}, tg.tile({x}), tg.tile({y}))",
        f"{t} = {cell}.astype(int)\n{cell} = np.where({cell} == {x}, {y}, {cell})",
    )
    p.new("int", f"tg.untile({t})", f"{t} + 0", x.bound + y.bound + 10)


@family
def shared_cells(p: FamilyProgram) -> None:
    """Atomics of all threads on few elements, in any order."""
    x, y, row = p.pick("int"), p.pick("int"), p.row()
    kind, meaning = p.r.choice(
        (
            *(("add", "add"), ("sub", "subtract"), ("min", "minimum"), ("max", "maximum")),
            *(("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor")),
        )
    )
    p.families.add(f"atomic_{kind}")
    index = f"{y} & {p.r.choice((0, 3, 7))}"
    p.both(
        f"tg.atomic_{kind}(cells, b, {row}, {index}, {x})", f"np.{meaning}.at(cells[b, {row}], {index}, {x})"
    )


@family
def own_cells(p: FamilyProgram) -> None:
    """Atomics of each thread on an element of its own, whose old values are used."""
    x, y, t, row = p.pick("int"), p.pick("int"), p.fresh("t"), p.row()
    cell, target = f"cells[b, {row}, j]", f"cells, (b, {row}, j)"
    kind, meaning = p.r.choice(
        (
            *(("add", f"{cell} + {x}"), ("sub", f"{cell} - {x}"), ("min", f"np.minimum({cell}, {x})")),
            *(("max", f"np.maximum({cell}, {x})"), ("and", f"{cell} & {x}"), ("or", f"{cell} | {x}")),
            *(
                ("xor", f"{cell} ^ {x}"),
                ("exch", f"{x}"),
                ("cas", f"np.where({cell} == {y} % 3, {x}, {cell})"),
            ),
        )
    )
    p.families.add(f"atomic_{kind}")
    expected = f"{y} % 3, " if kind == "cas" else ""
    meaning = meaning.replace(f"{y} % 3", f"remainder({y}, 3)")
    guard = p.r.random() < 0.5
    if guard:
        p.both(
            f"{t} = 0\nif {x} > {y}:\n    {t} = tg.atomic_{kind}({target}, {expected}{x})",
            f"h{t} = {x} > {y}\n{t} = np.where(h{t}, {cell}, 0).astype(int)\n"
            f"{cell} = np.where(h{t}, {meaning}, {cell})",
        )
    else:
        p.both(
            f"{t} = tg.atomic_{kind}({target}, {expected}{x})",
            f"{t} = {cell}.astype(int)\n{cell} = {meaning}",
        )
    p.new("int", f"{t} + 0", f"{t} + 0", 10)


@family
def float_cells(p: FamilyProgram) -> None:
    """Atomics of floats: sums on few elements, and the smallest and the largest."""
    f, y, row = p.pick("float"), p.pick("int"), p.row()
    if f.bound * f.denominator * p.lanes > 1e6:
        return
    kind, meaning = p.r.choice((("add", "add"), ("sub", "subtract"), ("min", "minimum"), ("max", "maximum")))
    p.families.add(f"atomic_{kind} of floats")
    index = f"{y} & 3"
    p.both(
        f"tg.atomic_{kind}(fcells, b, {row}, {index}, {f})",
        f"np.{meaning}.at(fcells[b, {row}], {index}, {f})",
    )
    p.both(f"fcells[b, {row}, 7] += 0.5", f"fcells[b, {row}, 7] += 0.5 * {p.lanes}")


@family
def indexed_sums(p: FamilyProgram) -> None:
    """Additions of tiles at indices, with the previous elements where no other lane adds."""
    x, y, t, row = p.pick("int"), p.pick("int"), p.fresh("t"), p.row()
    p.both(
        f"{t} = tg.tile_atomic_add_indexed(cells[b, {row}], tg.tile((j * 3 + 1) % {p.lanes}), "
        f"tg.tile({x}), mask=tg.tile({y}) > 0)",
        f"i{t}, h{t} = (j * 3 + 1) % {p.lanes}, {y} > 0\n"
        f"{t} = np.where(h{t}, cells[b, {row}][i{t}], 0).astype(int)\n"
        f"cells[b, {row}][i{t}[h{t}]] += {x}[h{t}]",
    )
    p.new("int", f"tg.untile({t})", f"{t} + 0", 10)
