"""Families of statements on arrays: masked and indexed loads and stores, atomics of every kind, and exchanges of tiles.

Each statement modifies its own rows of cells, so that the order of the threads does not affect the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from families import family

if TYPE_CHECKING:
    from family_programs import FamilyProgram


@family
def masked_accesses(p: FamilyProgram) -> None:
    """Masked loads and stores of tiles with offsets past the edge, and with values for elements that are not read."""
    x, y, row = p.operand("int"), p.operand("int"), p.new_row()
    index, other_value, fill, n = p.rng.randint(-6, 124), p.rng.randint(-9, 9), p.rng.choice((0, 5)), p.lanes
    t = p.fresh_name("t")
    p.emit(
        f"{t} = tg.tile_load(a[b], shape={n}, offset={index}, mask=tg.tile({x}) > tg.tile({y}), "
        f"other={other_value}, fill={fill})\n"
        f"tg.tile_store(cells[b, {row}], tg.tile({y}), offset={index % 5}, mask=tg.tile({x}) > {other_value})",
        f"i{t} = j + {index}\nh{t} = (i{t} >= 0) & (i{t} < 128)\n"
        f"{t} = np.where({x} > {y}, np.where(h{t}, D['a'][b][np.where(h{t}, i{t}, 0)], {fill}), {other_value})\n"
        f"h{t} = ({x} > {other_value}) & (j + {index % 5} < {n})\ncells[b, {row}][(j + {index % 5})[h{t}]] = {y}[h{t}]",
    )
    p.define("int", f"tg.untile({t})", f"{t} + 0", 9)


@family
def round_trips(p: FamilyProgram) -> None:
    """Stored elements are loaded by threads and by tile loads, in either order."""
    x, y, n = p.operand("int"), p.operand("int"), p.lanes
    row, k = p.new_row(), p.rng.randint(1, 7)
    p.emit(
        f"tg.tile_store(cells[b, {row}], tg.tile({x}))",
        f"cells[b, {row}] = {x}",
    )
    p.define(
        "int", f"cells[b, {row}, (j + {k}) % {n}]", f"cells[b, {row}, (j + {k}) % {n}].astype(int)", x.bound
    )
    p.emit(f"cells[b, {row}, (j + {k}) % {n}] = {y}", f"cells[b, {row}, (j + {k}) % {n}] = {y}")
    p.define("int", f"tg.untile(tg.tile_load(cells[b, {row}], {n}))", f"cells[b, {row}].astype(int)", y.bound)


@family
def indexed_axes(p: FamilyProgram) -> None:
    """Loads and stores along the second dimension at the indices in a tile; some indices are out of bounds."""
    x, t, row = p.operand("int"), p.fresh_name("t"), p.new_row()
    next_row, first_row = p.new_row(), p.rng.randint(-1, 1)
    p.row_count = max(p.row_count, next_row + 1)
    p.emit(
        f"i{t} = tg.tile_map(lambda k: k % 6 + 1, tg.tile({x}))[:4]\n"
        f"{t} = tg.tile_load_indexed(sq, i{t}, shape=(4, 4), offset=({first_row}, 0), axis=1)",
        f"i{t} = (remainder({x}, 6) + 1)[:4]\nr{t} = np.arange(4) + {first_row}\n"
        f"h{t} = ((r{t} >= 0) & (r{t} < 4))[:, None] & ((i{t} >= 0) & (i{t} < 4))\n"
        f"{t} = np.where(h{t}, D['sq'][np.clip(r{t}, 0, 3)][:, np.clip(i{t}, 0, 3)], 0)",
    )
    p.define("float", f"{t}[j % 4, j // 4 % 4]", f"{t}[j % 4, j // 4 % 4]", 3)
    p.emit(
        f"tg.tile_store_indexed(cells[b, {row}], tg.tile((j * 5 + 3) % {p.lanes}), tg.tile({x}), "
        f"mask=tg.tile({x}) > 0)",
        f"cells[b, {row}][((j * 5 + 3) % {p.lanes})[{x} > 0]] = {x}[{x} > 0]",
    )


@family
def tile_exchanges(p: FamilyProgram) -> None:
    """tile_atomic_exch, tile_atomic_cas, tile_atomic_max and tile_atomic_min on a row of one block."""
    x, y, t, row, n = p.operand("int"), p.operand("int"), p.fresh_name("t"), p.new_row(), p.lanes
    cell = f"cells[b, {row}]"
    k = p.rng.randint(0, 3)
    p.emit(
        f"{t} = tg.tile_atomic_exch({cell}, tg.tile({x}), mask=tg.tile({y}) > 0)",
        f"{t} = np.where({y} > 0, {cell}, 0).astype(int)\n{cell} = np.where({y} > 0, {x}, {cell})",
    )
    p.define("int", f"tg.untile({t})", f"{t} + 0", 10)
    kind = p.rng.choice(("max", "min", "add"))
    reference = {"max": "np.maximum", "min": "np.minimum", "add": "np.add"}[kind]
    p.emit(
        f"{t} = tg.tile_atomic_{kind}({cell}, tg.tile({y}), offset={k})",
        f"{t} = np.append({cell}[{k}:], [0] * {k}).astype(int)\n"
        f"{cell}[{k}:] = {reference}({cell}[{k}:], {y}[: {n - k}])",
    )
    p.define("int", f"tg.untile({t})", f"{t} + 0", x.bound + y.bound + 10)
    p.emit(
        f"{t} = tg.tile_atomic_cas({cell}, tg.tile({x}), tg.tile({y}))",
        f"{t} = {cell}.astype(int)\n{cell} = np.where({cell} == {x}, {y}, {cell})",
    )
    p.define("int", f"tg.untile({t})", f"{t} + 0", x.bound + y.bound + 10)


@family
def contended_atomics(p: FamilyProgram) -> None:
    """Atomics of all threads on a few elements, in any order."""
    x, y, row = p.operand("int"), p.operand("int"), p.new_row()
    kind, reference = p.rng.choice(
        (
            *(("add", "add"), ("sub", "subtract"), ("min", "minimum"), ("max", "maximum")),
            *(("and", "bitwise_and"), ("or", "bitwise_or"), ("xor", "bitwise_xor")),
        )
    )
    p.families.add(f"atomic_{kind}")
    index = f"{y} & {p.rng.choice((0, 3, 7))}"
    p.emit(
        f"tg.atomic_{kind}(cells, b, {row}, {index}, {x})",
        f"np.{reference}.at(cells[b, {row}], {index}, {x})",
    )


@family
def per_thread_atomics(p: FamilyProgram) -> None:
    """Atomics of each thread on its own element; the program uses the previous values."""
    x, y, t, row = p.operand("int"), p.operand("int"), p.fresh_name("t"), p.new_row()
    cell, target = f"cells[b, {row}, j]", f"cells, (b, {row}, j)"
    kind, reference = p.rng.choice(
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
    reference = reference.replace(f"{y} % 3", f"remainder({y}, 3)")
    guard = p.rng.random() < 0.5
    if guard:
        p.emit(
            f"{t} = 0\nif {x} > {y}:\n    {t} = tg.atomic_{kind}({target}, {expected}{x})",
            f"h{t} = {x} > {y}\n{t} = np.where(h{t}, {cell}, 0).astype(int)\n"
            f"{cell} = np.where(h{t}, {reference}, {cell})",
        )
    else:
        p.emit(
            f"{t} = tg.atomic_{kind}({target}, {expected}{x})",
            f"{t} = {cell}.astype(int)\n{cell} = {reference}",
        )
    p.define("int", f"{t} + 0", f"{t} + 0", 10)


@family
def float_atomics(p: FamilyProgram) -> None:
    """Float atomics on a few elements: sums, minima and maxima."""
    f, y, row = p.operand("float"), p.operand("int"), p.new_row()
    if f.bound * f.denominator * p.lanes > 1e6:
        return
    kind, reference = p.rng.choice(
        (("add", "add"), ("sub", "subtract"), ("min", "minimum"), ("max", "maximum"))
    )
    p.families.add(f"atomic_{kind} of floats")
    index = f"{y} & 3"
    p.emit(
        f"tg.atomic_{kind}(fcells, b, {row}, {index}, {f})",
        f"np.{reference}.at(fcells[b, {row}], {index}, {f})",
    )
    p.emit(f"fcells[b, {row}, 7] += 0.5", f"fcells[b, {row}, 7] += 0.5 * {p.lanes}")


@family
def indexed_sums(p: FamilyProgram) -> None:
    """Atomic additions of tiles at indices; the program uses the previous elements, which no other lane modifies."""
    x, y, t, row = p.operand("int"), p.operand("int"), p.fresh_name("t"), p.new_row()
    p.emit(
        f"{t} = tg.tile_atomic_add_indexed(cells[b, {row}], tg.tile((j * 3 + 1) % {p.lanes}), "
        f"tg.tile({x}), mask=tg.tile({y}) > 0)",
        f"i{t}, h{t} = (j * 3 + 1) % {p.lanes}, {y} > 0\n"
        f"{t} = np.where(h{t}, cells[b, {row}][i{t}], 0).astype(int)\n"
        f"cells[b, {row}][i{t}[h{t}]] += {x}[h{t}]",
    )
    p.define("int", f"tg.untile({t})", f"{t} + 0", 10)
