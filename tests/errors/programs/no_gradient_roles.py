"""A gradient of a kernel whose roles synchronise in loops with different ranges."""

import tegula as tg


@tg.kernel
def double(a: tg.array[float], b: tg.array[float]):
    pipe = tg.tile_pipe(shape=8, dtype=float, stages=2)
    with tg.ws(0):
        for k in range(3):
            tg.tile_pipe_load(pipe, a, offset=k * 8)
    with tg.ws(1):
        for k in range(0, 24, 8):
            tg.tile_store(b, tg.tile_pipe_pop(pipe) * 2.0, offset=k)


a, b = tg.ones(24, requires_grad=True), tg.zeros(24, requires_grad=True)
tg.launch_tiled(double, dim=1, inputs=[a], outputs=[b], adjoint=True)
