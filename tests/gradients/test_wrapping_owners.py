"""Gradients whose owners are distinguished by offsets are refused before any launch if the offsets wrap around."""

from __future__ import annotations

import pytest

import tegula as tg


@tg.kernel
def doubled(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    tg.tile_store(y, tg.tile_load(x, 1 << 16, offset=i * (1 << 16)) * 2.0, offset=i * (1 << 16))


@tg.kernel
def every_third(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i * 3] = x[i * 3] * 2.0


def test_blocks_whose_offsets_wrap_own_no_gradient_tile() -> None:
    """Block 2**16 starts at offset 0, and thread 2**31 / 3 at a negative offset: several blocks would own the same
    gradient tile."""
    x, y = tg.zeros(8, requires_grad=True), tg.zeros(8, requires_grad=True)
    for kernel, launch, max_index in (
        (doubled, tg.launch_tiled, 2**15),
        (every_third, tg.launch, 715_827_883),
    ):
        with pytest.raises(
            tg.LaunchError, match=f"dimension 0 .* the offsets beyond number {max_index} wrap around int32"
        ):
            launch(kernel, dim=max_index + 1, inputs=[x], outputs=[y], adjoint=True, block_dim=64)


def test_a_matmul_whose_owners_would_wrap_is_refused() -> None:
    """The owner blocks correspond to the iterations of the forward loop."""

    @tg.kernel
    def total(x: tg.array1d[float], y: tg.array1d[float], n: int):
        i = tg.tid()
        sum = tg.tile_zeros(shape=1 << 16)
        for k in range(n):
            sum += tg.tile_load(x, 1 << 16, offset=k * (1 << 16))
        tg.tile_store(y, sum, offset=i * (1 << 16))

    x, y = tg.zeros(8, requires_grad=True), tg.zeros(8, requires_grad=True)
    with pytest.raises(
        tg.LaunchError, match="dimension 0 .* the offsets beyond number 32768 wrap around int32"
    ):
        tg.launch_tiled(total, dim=1, inputs=[x], outputs=[y, 2**15 + 1], adjoint=True, block_dim=64)
