"""Arrays of PyTorch and CuPy without copies, in the order of their streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.kernels import matmul


@tg.kernel
def double(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i] = 2.0 * x[i]


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch")
    if not module.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    return module


@pytest.fixture(scope="module")
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_torch_tensors_share_memory(torch: Any, dtype: str) -> None:
    t = torch.arange(24, device="cuda").reshape(4, 6).to(getattr(torch, dtype))
    a = tg.array(t.t(), copy=False)
    assert (a.ptr, a.shape, str(a.dtype), str(a.device)) == (t.data_ptr(), (6, 4), dtype, "cuda:0")
    np.testing.assert_array_equal(a.numpy().astype(np.float64), t.t().double().cpu().numpy())
    assert tg.from_dlpack(t).ptr == tg.array(t, copy=False).ptr == t.data_ptr()


def test_torch_tensors_that_need_gradients_are_accepted(torch: Any) -> None:
    t = torch.ones(5, device="cuda", requires_grad=True)
    assert tg.array(t, copy=False).ptr == t.data_ptr()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_arrays_become_torch_tensors_on_the_same_memory(torch: Any, dtype: str) -> None:
    a = tg.ones((4, 6), getattr(tg, dtype), device="cuda:0")
    t = torch.from_dlpack(a.transpose())
    assert (t.data_ptr(), tuple(t.shape), t.device.type) == (a.ptr, (6, 4), "cuda")
    t.zero_()
    torch.cuda.synchronize()
    assert not a.numpy().any()
    address = a.ptr
    del a
    tg.full((4, 6), 1, getattr(tg, dtype), device="cuda:0")
    assert t.data_ptr() == address and not t.any().item()


def test_launches_take_torch_tensors(torch: Any) -> None:
    x = torch.arange(1000, device="cuda", dtype=torch.float32)
    y = torch.zeros_like(x)
    tg.launch(double, 1000, [x, y])
    assert torch.equal(y, 2 * x)


def test_the_current_stream_of_torch_is_used(torch: Any) -> None:
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 24, device="cuda")
    array = tg.zeros(1 << 24, device="cuda:0")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for k in range(20):
            x.fill_(k)
            tg.launch(double, x.numel(), [x, array])
            tg.launch(double, x.numel(), [array, x])
            assert x[0].item() == 4 * k
    assert array.numpy()[0] == 38


def test_launches_are_recorded_in_graphs_of_torch(torch: Any) -> None:
    x, y = torch.ones(1000, device="cuda"), torch.zeros(1000, device="cuda")
    tg.launch(double, 1000, [x, y])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tg.launch(double, 1000, [x, y])
        tg.launch(double, 1000, [y, x])
    for _ in range(2):
        graph.replay()
    assert x[0].item() == 16


def overwrite_freed_memory(torch: Any) -> list[Any]:
    """Memory of both libraries that reuses freed memory."""
    return [tg.full(1 << 20, 1e9, device="cuda:0") for _ in range(8)] + [
        torch.full((1 << 20,), 1e9, device="cuda") for _ in range(8)
    ]


def has_fill_value(retained: list[Any]) -> bool:
    """Whether the memory still has its fill value."""
    result = [t.numpy() if isinstance(t, tg.array) else t.cpu().numpy() for t in retained]
    return all(np.all(x == 1e9) for x in result)


@tg.kernel
def weighted(x: tg.array2d[float], w: tg.array[float], y: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(y[i], tg.tile_load(x[i], shape=256) * tg.tile_load(w, shape=256))


def test_adjoints_are_recorded_in_graphs_of_torch(torch: Any) -> None:
    """Sums over blocks are in memory that the recording keeps."""
    x, w, g = (torch.rand(*shape, device="cuda") for shape in ((4096, 256), (256,), (4096, 256)))
    y, dx, dw, upstream = (torch.zeros_like(t) for t in (x, x, w, x))

    def backward() -> None:
        upstream.copy_(g)
        adjoints = {"adj_inputs": [dx, dw], "adj_outputs": [upstream]}
        tg.launch(weighted, (4096, 64), [x, w], [y], **adjoints, adjoint=True, block_dim=64)

    backward()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        backward()
    retained = overwrite_freed_memory(torch)
    for seed in range(2):
        torch.manual_seed(seed)
        for t in (x, g):
            t.copy_(torch.rand_like(t))
        for t in (dx, dw):
            t.zero_()
        graph.replay()
        torch.testing.assert_close(dx, g * w)
        torch.testing.assert_close(dw, (g * x).sum(0))
    assert has_fill_value(retained)


def test_sums_of_adjoints_are_not_recorded_by_other_libraries(torch: Any) -> None:
    """Temporary memory comes from PyTorch only for its tensors on its stream."""
    x, w, y, dx, dw, seed = (tg.zeros(s, device="cuda:0") for s in ((64, 256), 256, (64, 256)) * 2)
    adjoints = {"adj_inputs": [dx, dw], "adj_outputs": [seed], "adjoint": True}
    tg.launch(weighted, (64, 64), [x, w], [y], **adjoints, block_dim=64)
    side = torch.cuda.Stream()
    stream = tg.stream_from_torch(side)
    torch.cuda.synchronize()
    with (
        torch.cuda.graph(torch.cuda.CUDAGraph(), stream=side),
        pytest.raises(tg.LaunchError, match="does not keep"),
    ):
        tg.launch(weighted, (64, 64), [x, w], [y], **adjoints, block_dim=64, stream=stream)


@pytest.mark.parametrize("precision", ["default", "tf32"])
def test_copies_of_operands_are_recorded_in_graphs_of_torch(torch: Any, precision: str) -> None:
    """Each run of the graph copies the operands again, to memory that the graph keeps alive."""
    wide = torch.rand(256, 129, device="cuda")
    a, b = wide[:, :128], torch.rand(128, 64, device="cuda")
    out = torch.zeros(256, 64, device="cuda")
    matmul(a, b, out, precision=precision)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        matmul(a, b, out, precision=precision)
    retained = overwrite_freed_memory(torch)
    for seed in range(2):
        torch.manual_seed(seed)
        for t in (wide, b):
            t.copy_(torch.rand_like(t))
        graph.replay()
        torch.testing.assert_close(out, a @ b, rtol=2e-3, atol=2e-2)
    assert has_fill_value(retained)


def test_new_arrays_of_tensors_are_refused_during_recording(torch: Any) -> None:
    x = torch.ones(8, device="cuda")
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with (
        torch.cuda.graph(torch.cuda.CUDAGraph(), stream=side),
        pytest.raises(tg.LaunchError, match="while that library records"),
    ):
        tg.array(x, copy=False)
    assert tg.array(x, copy=False).numpy().tolist() == [1.0] * 8


def test_repeated_launches_with_tensors_have_correct_results(torch: Any) -> None:
    """Repeated launches run in machine code, in any stream, and follow a tensor that changes."""
    base = torch.arange(4000, device="cuda", dtype=torch.float32)
    views = [base[:1000], base[1:1001], base[::3], base[:0], torch.nn.Parameter(base[5:900].clone())]
    for _ in range(8):
        for x in views:
            y = torch.full_like(x, -1.0, requires_grad=False)
            tg.launch(double, x.numel(), [x, y])
            assert torch.equal(y, 2 * x.detach()) and (y._version == 1 or not x.numel())
    assert double.native is not None and double.native.__name__ == "launch"
    x, y = views[0], torch.zeros(1000, device="cuda")
    assert double.native(1000, None, [x, y], [], 0, None) in ((1,), False)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for k in range(8):
            x = torch.full((1 << 20,), float(k), device="cuda")
            tg.launch(double, x.numel(), [x, y.resize_(x.numel())])
            assert y[-1].item() == 2 * k


def test_launches_wait_for_streams_of_torch(torch: Any) -> None:
    side = torch.cuda.Stream()
    stream = tg.stream_from_torch(side)
    assert stream.cuda_stream == side.cuda_stream
    x, y = tg.ones(1000, device="cuda:0"), tg.zeros(1000, device="cuda:0")
    stream.wait_stream(tg.get_stream("cuda:0"))
    tg.launch(double, 1000, [x, y], stream=stream)
    stream.synchronize()
    assert y.numpy()[0] == 2


def test_host_and_device_do_not_mix(torch: Any) -> None:
    with pytest.raises(tg.LaunchError, match="the arrays are on several devices"):
        tg.launch(double, 3, [torch.ones(3), torch.ones(3, device="cuda")])


def test_cupy_arrays_share_memory_both_ways(cupy: Any) -> None:
    c = cupy.arange(12, dtype=cupy.float32).reshape(3, 4)
    a = tg.array(c.T, copy=False)
    assert a.ptr == c.data.ptr and a.shape == (4, 3)
    a.fill_(1)
    assert float(c.sum()) == 12
    back = cupy.asarray(a)
    assert back.data.ptr == a.ptr and back.strides == a.strides
    assert cupy.from_dlpack(a).data.ptr == a.ptr


def test_launches_run_in_the_stream_of_cupy(cupy: Any) -> None:
    with cupy.cuda.Stream(non_blocking=True) as stream:
        x = cupy.arange(1000, dtype=cupy.float32)
        y = cupy.zeros_like(x)
        tg.launch(double, 1000, [x, y])
        stream.synchronize()
        assert (y.get() == 2 * np.arange(1000)).all()
