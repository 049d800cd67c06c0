"""Two arrays compared on the host."""

import tegula as tg

assert tg.zeros(4) == tg.zeros(4)
