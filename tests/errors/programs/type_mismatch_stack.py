"""A stack in arithmetic."""

import tegula as tg


@tg.kernel
def wrong(a: tg.array1d[float]):
    s = tg.tile_stack(8, int)
    x = s + 1


tg.launch_tiled(wrong, dim=1, inputs=[tg.zeros(4)], block_dim=32)
