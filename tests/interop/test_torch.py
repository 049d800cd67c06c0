"""Kernels as functions of PyTorch: values, gradients, saved tensors, and refusals."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import tegula as tg
from tegula.torch import function

D = tg.float64


@tg.kernel
def scaled_sines(x: tg.array2d[D], w: tg.array[D], factor: float, y: tg.array2d[D]):
    i, j = tg.tid()
    y[i, j] = tg.sin(x[i, j]) * w[j] * D(factor)


def dims(x: Any, *others: Any) -> Any:
    return tuple(x.shape)


def like_first(x: Any, *others: Any) -> Any:
    return x


sines = function(scaled_sines, dims, like_first, block_dim=32)


def numbers(*shape: int, seed: int = 0, grad: bool = True) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_(grad)


@pytest.mark.machine_code
def test_torch_functions_have_correct_values_and_gradients() -> None:
    x, w = numbers(5, 7), numbers(7, seed=1)
    y = sines(x, w, 2.0)
    torch.testing.assert_close(y, torch.sin(x) * w * 2.0)
    assert torch.autograd.gradcheck(lambda a, b: sines(a, b, 2.0), (x, w))


@pytest.mark.machine_code
def test_torch_functions_take_strided_tensors() -> None:
    x, w = numbers(7, 10), numbers(14, seed=1)
    actual = torch.autograd.grad(sines(x.t()[::2], w[::2], 1.0).sum(), (x, w))
    expected = torch.autograd.grad((torch.sin(x.t()[::2]) * w[::2]).sum(), (x, w))
    for a, b in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.machine_code
def test_torch_functions_leave_expanded_and_shared_gradients_unchanged() -> None:
    x, w = numbers(3, 4), numbers(4, seed=1)
    y = sines(x, w, 1.0)
    expanded = torch.ones(1, dtype=torch.float64).expand(3, 4)
    dense = torch.ones(3, 4, dtype=torch.float64)
    for g in (expanded, dense):
        actual = torch.autograd.grad(y, x, g, retain_graph=True)[0]
        torch.testing.assert_close(actual, torch.cos(x) * w)
        assert torch.equal(g, torch.ones(3, 4, dtype=torch.float64))


@pytest.mark.machine_code
@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_torch_functions_have_gradients_of_some_inputs_only(first: bool, second: bool) -> None:
    x, w = numbers(3, 4, grad=first), numbers(4, seed=1, grad=second)
    sines(x, w, 1.0).sum().backward()
    assert (x.grad is not None, w.grad is not None) == (first, second)
    if first:
        torch.testing.assert_close(x.grad, torch.cos(x.detach()) * w)
    else:
        torch.testing.assert_close(w.grad, torch.sin(x).sum(0))


@pytest.mark.machine_code
def test_torch_functions_without_gradients_save_no_tensor() -> None:
    x, w = numbers(3, 4), numbers(4, seed=1)
    with torch.no_grad():
        y = sines(x, w, 1.0)
    assert not y.requires_grad and y.grad_fn is None
    assert not sines(x.detach(), w.detach(), 1.0).requires_grad
    with torch.inference_mode():
        assert torch.equal(sines(x, w, 1.0), y)


@tg.kernel
def two_results(x: tg.array[D], k: tg.array[int], y: tg.array[D], z: tg.array[D], n: tg.array[int]):
    i = tg.tid()
    y[i] = x[k[i]] * x[i]
    z[i] = tg.exp(x[i])
    n[i] = k[i] + 1


@pytest.mark.machine_code
def test_torch_functions_may_have_outputs_without_a_gradient() -> None:
    f = function(two_results, 4, lambda x, k: [x, x, k])
    x, k = numbers(4), torch.tensor([1, 0, 3, 3], dtype=torch.int32)
    y, z, n = f(x, k)
    assert n.tolist() == [2, 1, 4, 4] and not n.requires_grad and y.requires_grad and z.requires_grad
    torch.testing.assert_close(
        torch.autograd.grad(z.sum(), x, retain_graph=True)[0], torch.exp(x), msg="y has no gradient here"
    )
    joint_gradient = torch.autograd.grad((y * y).sum() + z.sum(), x)[0]
    expected = torch.autograd.grad(((x[k.long()] * x) ** 2).sum() + torch.exp(x).sum(), x)[0]
    torch.testing.assert_close(joint_gradient, expected)


@tg.kernel
def total(x: tg.array2d[tg.float32], s: tg.array[tg.float32]):
    i = tg.tid()
    row = tg.tile_load(x[i], shape=16)
    tg.tile_atomic_add(s, tg.tile_sum(row * row))


@pytest.mark.machine_code
def test_torch_functions_take_tiles_and_return_scalars() -> None:
    f = function(total, len, torch.empty((), device="meta"), block_dim=32, tiled=True)
    x = torch.randn(5, 16, requires_grad=True)
    s = f(x)
    assert s.shape == () and s.device.type == "cpu"
    s.backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_torch_functions_take_narrow_floats(dtype: torch.dtype) -> None:
    @tg.kernel
    def squares(x, y):
        i = tg.tid()
        y[i] = x[i] * x[i]

    x = torch.tensor([1.0, -2.0, 0.5], dtype=dtype, requires_grad=True)
    y = function(squares, len, like_first)(x)
    y.backward(torch.ones(3, dtype=dtype))
    assert y.dtype == x.grad.dtype == dtype
    assert x.grad.tolist() == [2.0, -4.0, 1.0] and y.tolist() == [1.0, 4.0, 0.25]


@pytest.mark.machine_code
def test_torch_functions_take_vectors() -> None:
    @tg.kernel
    def lengths(v: tg.array[tg.vec3d], y: tg.array[D]):
        i = tg.tid()
        y[i] = tg.dot(v[i], v[i])

    v = numbers(6, 3)
    function(lengths, len, lambda v: v[:, 0])(v).sum().backward()
    torch.testing.assert_close(v.grad, 2 * v.detach())


@pytest.mark.machine_code
def test_torch_functions_sum_gradients_of_one_tensor_for_two_inputs() -> None:
    @tg.kernel
    def products(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = a[i] * a[i] * b[i]

    x = numbers(5)
    function(products, lambda a, b: len(a), like_first)(x, x).sum().backward()
    torch.testing.assert_close(x.grad, 3 * x.detach() ** 2)


@pytest.mark.machine_code
def test_torch_functions_work_in_modules() -> None:
    x, w = numbers(3, 4), numbers(4, seed=1)
    y = sines(torch.exp(sines(x, w, 1.0)), w, 0.5)
    expected = torch.sin(torch.exp(torch.sin(x) * w)) * w * 0.5
    for a, b in zip(
        torch.autograd.grad(y.sum(), (x, w)), torch.autograd.grad(expected.sum(), (x, w)), strict=True
    ):
        torch.testing.assert_close(a, b)


# Saved tensors --------------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
@pytest.mark.parametrize("change", ["in place", "a view", "a launch"])
def test_torch_functions_refuse_gradients_after_inputs_are_overwritten(change: str) -> None:
    x, w = numbers(3, 4).detach(), numbers(4, seed=1)
    y = sines(x, w, 1.0)
    if change == "in place":
        x.mul_(2.0)
    elif change == "a view":
        x[1].zero_()
    else:
        tg.launch(scaled_sines, (3, 4), [numbers(3, 4, grad=False), w.detach(), 1.0], [x])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.machine_code
def test_tensors_that_the_gradient_does_not_need_may_be_overwritten() -> None:
    @tg.kernel
    def sums(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = a[i] + 2.0 * b[i]

    a, b = numbers(4), numbers(4, seed=1).detach()
    y = function(sums, lambda a, b: len(a), like_first)(a, b)
    b.zero_()
    y.mul_(3.0)
    y.sum().backward()
    assert a.grad.tolist() == [3.0] * 4


@pytest.mark.machine_code
def test_tensors_that_the_gradient_does_not_need_are_not_saved() -> None:
    @tg.kernel
    def doubled(a: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = 2.0 * a[i]

    leaf = numbers(4)
    a = leaf * 1.0
    freed = weakref.ref(a.untyped_storage())
    y = function(doubled, len, like_first)(a)
    del a
    gc.collect()
    assert freed() is None
    y.sum().backward()
    assert leaf.grad.tolist() == [2.0] * 4


@pytest.mark.machine_code
def test_a_captured_number_that_changes_before_the_gradient_is_refused() -> None:
    factor = 2.0

    @tg.kernel
    def multiples(a: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = factor * a[i]

    f = function(multiples, len, like_first)
    a = numbers(4)
    y = f(a)
    factor = 3.0
    with pytest.raises(tg.LaunchError, match="a captured object has changed"):
        y.sum().backward()
    f(a).sum().backward()
    assert a.grad.tolist() == [3.0] * 4


@pytest.mark.machine_code
def test_torch_functions_run_backwards_twice() -> None:
    x, w = numbers(3, 4), numbers(4, seed=1)
    y = sines(x, w, 1.0).sum()
    y.backward(retain_graph=True)
    first_gradient = x.grad.clone()
    y.backward()
    torch.testing.assert_close(x.grad, 2 * first_gradient)
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


@pytest.mark.machine_code
def test_torch_functions_work_in_functional_gradients() -> None:
    x, w = numbers(3, 4, grad=False), numbers(4, seed=1, grad=False)
    actual = torch.func.grad(lambda a: sines(a, w, 1.0).sum())(x)
    torch.testing.assert_close(actual, torch.cos(x) * w)


@pytest.mark.machine_code
def test_torch_functions_work_in_checkpoints() -> None:
    from torch.utils.checkpoint import checkpoint

    x, w = numbers(3, 4), numbers(4, seed=1)
    checkpoint(lambda a: sines(a, w, 1.0), x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, torch.cos(x.detach()) * w.detach())


# Refusals -------------------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_torch_functions_refuse_gradients_of_gradients() -> None:
    x, w = numbers(3, 4), numbers(4, seed=1)
    (g,) = torch.autograd.grad(sines(x, w, 1.0).sum(), x, create_graph=True)
    torch.testing.assert_close(g, torch.cos(x) * w)
    with pytest.raises(tg.LaunchError, match="scaled_sines: gradients of gradients are not supported"):
        g.sum().backward()


@pytest.mark.machine_code
def test_gradients_of_torch_functions_without_a_gradient_are_refused() -> None:
    @tg.kernel
    def rounded(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = D(int(x[i]))

    f = function(rounded, len, like_first)
    assert f(torch.tensor([1.7], dtype=torch.float64)).item() == 1.0
    with pytest.raises(tg.CompileError, match=r"D\(int\(x\[i\]\)\)"):
        f(numbers(3))


@pytest.mark.machine_code
def test_gradients_of_torch_functions_without_backward_are_refused() -> None:
    @tg.kernel(enable_backward=False)
    def plain(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = x[i]

    f = function(plain, len, like_first)
    f(numbers(3, grad=False))
    with pytest.raises(tg.LaunchError, match="enable_backward=False"):
        f(numbers(3))


@pytest.mark.machine_code
def test_torch_functions_refuse_kernels_that_change_their_inputs() -> None:
    @tg.kernel
    def change(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = x[i]
        x[i] = 0.0

    x = numbers(3, grad=False)
    with pytest.raises(tg.LaunchError, match="writes to 'x', an input of the function"):
        function(change, len, like_first)(x)
    assert x.abs().min() > 0


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (lambda x, w: (x, w), "takes 4 arguments .x, w, factor, y., got 2 inputs and 1 outputs"),
        (lambda x, w: (x, w, torch.tensor(2.0)), "'factor' is a number, got a tensor"),
        (lambda x, w: (x[0], w, 1.0), r"expected array2d.float64., got array1d.float64."),
        (lambda x, w: (x.float(), w, 1.0), r"expected array2d.float64., got array2d.float32."),
        (lambda x, w: (x.cfloat(), w, 1.0), "complex64 has no counterpart"),
        (lambda x, w: (x, tg.zeros(4, dtype=D, requires_grad=True), 1.0), "is a tg.array: its gradient"),
    ],
)
def test_torch_functions_refuse_arguments_that_do_not_fit(inputs: Any, message: str) -> None:
    f = function(scaled_sines, (3, 4), torch.empty(3, 4, dtype=torch.float64))
    with pytest.raises(tg.LaunchError, match=message):
        f(*inputs(numbers(3, 4), numbers(4)))


def test_torch_functions_refuse_invalid_descriptions_of_outputs() -> None:
    with pytest.raises(tg.LaunchError, match="an output is described by 'y'"):
        function(scaled_sines, (3, 4), ["y"])(numbers(3, 4), numbers(4), 1.0)
    with pytest.raises(tg.LaunchError, match="expected a kernel"):
        function(len, 3, like_first)  # type: ignore[arg-type]


# Launches and tapes with tensors --------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_parameters_without_annotations_take_tensors() -> None:
    @tg.kernel
    def copied(x, y):
        i = tg.tid()
        y[i] = x[i]

    x, y = torch.arange(3.0), torch.zeros(3)
    tg.launch(copied, 3, [x], [y])
    assert y.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_arrays_take_dtypes_that_numpy_lacks(dtype: torch.dtype) -> None:
    t = torch.arange(6.0).to(dtype).reshape(2, 3).t()
    a = tg.array(t, copy=False)
    assert a.ptr == t.data_ptr() and a.shape == (3, 2) and str(a.dtype) == str(dtype)[6:].replace("fn", "")
    assert a.numpy().astype(np.float32).tolist() == t.float().tolist()


@pytest.mark.machine_code
@pytest.mark.parametrize("change", ["by PyTorch", "by a launch", "not"])
def test_tapes_observe_changes_of_tensors(change: str) -> None:
    w = torch.ones(4, dtype=torch.float64)
    x = tg.ones((3, 4), dtype=D, requires_grad=True)
    y = tg.zeros((3, 4), dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(scaled_sines, (3, 4), [x, w, 1.0], [y])
    if change == "by PyTorch":
        w.add_(1.0)
    elif change == "by a launch":
        tg.launch(scaled_sines, (1, 4), [x[:1], w, 1.0], [w[None]])
    if change == "not":
        tape.backward(grads={y: np.ones((3, 4))})
        np.testing.assert_allclose(x.grad.numpy(), np.cos(1.0))
        return
    with pytest.raises(
        tg.LaunchError, match="argument 'w' as it was at the launch, but a later operation has overwritten"
    ):
        tape.backward(grads={y: np.ones((3, 4))})


@pytest.mark.machine_code
def test_launches_count_as_writes_of_tensors() -> None:
    x, y = numbers(3, 4, grad=False), torch.zeros(3, 4, dtype=torch.float64)
    before = (x._version, y._version)
    tg.launch(scaled_sines, (3, 4), [x, x[0], 1.0], [y])
    assert (x._version, y._version) == (before[0], before[1] + 1)
