"""An asynchronous copy for a GPU without asynchronous copies."""

import tegula as tg


@tg.kernel
def first_row(x: tg.array2d[float], out: tg.array2d[float]):
    tile = tg.tile_empty(shape=(1, 8), dtype=float, storage="shared")
    full = tg.mbarrier(1)
    with tg.ws(0):
        tg.mbarrier_expect_bytes(full, 0, 32)
        tg.tile_load_async(x, tile, (0, 0), full)
        tg.mbarrier_wait(full, 0, 0)
        tg.tile_store(out, tile)


first_row.check(target="sm_80")
