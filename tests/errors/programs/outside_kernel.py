"""A function of tiles is called in Python."""

import tegula as tg

t = tg.tile_zeros(32)
