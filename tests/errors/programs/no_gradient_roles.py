"""A gradient of a kernel with roles."""

import tegula as tg


@tg.kernel
def double(a: tg.array2d[float], b: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(8, 8), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_pipe_load(pipe, a)
    with tg.ws(1):
        tg.tile_store(b, tg.tile_pipe_pop(pipe) * 2.0)


a, b = tg.ones((8, 8), requires_grad=True), tg.zeros((8, 8), requires_grad=True)
tg.launch_tiled(double, dim=1, inputs=[a], outputs=[b], adjoint=True)
