"""A number that the elements of an array do not hold."""

import tegula as tg

tg.array([1, 2, 300], dtype=tg.int8)
