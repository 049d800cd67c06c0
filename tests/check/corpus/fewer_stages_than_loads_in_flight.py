"""A role fills one item more than a pipe has stages before the other role pops an item."""

ITEM = 5
KIND = "deadlock"
WORDS = ("first", "ws0", "ws1")
WRONG = """def crossed(x: tg.array2d[float], out: tg.array2d[float], n: int):
    first = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    second = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        for k in range(n):
            for u in range(S + 1):
                tg.tile_pipe_load(first, x, offset=(k, 0))
            tg.tile_pipe_load(second, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(second), offset=(k, 0))
            for u in range(S + 1):
                tg.tile_store(out, tg.tile_pipe_pop(first), offset=(k, 0))
"""
RIGHT = """def crossed(x: tg.array2d[float], out: tg.array2d[float], n: int):
    first = tg.tile_pipe(shape=(1, N), dtype=float, stages=S + 1)
    second = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        for k in range(n):
            for u in range(S + 1):
                tg.tile_pipe_load(first, x, offset=(k, 0))
            tg.tile_pipe_load(second, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(second), offset=(k, 0))
            for u in range(S + 1):
                tg.tile_store(out, tg.tile_pipe_pop(first), offset=(k, 0))
"""
