"""Tests derived from the declaration of a cooperative function: kernels that call it, and comparisons of their results
with its reference."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import tegula as tg
from tegula.dataclass import dataclass
from tegula.declaration import Refused, Sample
from tegula.errors import CompileError
from tegula.lang.cooperative import CooperativeDef
from tegula.runtime.library import library
from tegula.signature import ConstantPattern, Dtypes, InOutPattern, NumberPattern, TilePattern
from tegula.types import VecType, from_numpy, scalar_of, to_numpy


@dataclass(frozen=True, slots=True)
class SampleProgram:
    """A kernel that calls a cooperative function once, on a sample. `tiles`: the arrays that it loads; `outs`: empty
    arrays for the result and for the tiles that the function changes."""

    kernel: Any
    tiles: list[np.ndarray]
    outs: list[np.ndarray]

    def run(self, block_dim: int, device: str = "cpu") -> list[np.ndarray]:
        """The arrays `outs` after a launch of one block.

        Parameters:
            block_dim: the number of threads in the block, 1 to 1024.
            device: the name of the device; "cpu" by default.
        Returns:
            the arrays, on the host.
        Raises:
            RuntimeError: the function refuses the sample (tg.CompileError), or the kernel finds a fault
                (tg.RunError).
            launch: there is no such device.
        """
        arrays = [tg.array(x, device=device) for x in (*self.tiles, *self.outs)]
        tg.launch_tiled(self.kernel, dim=1, inputs=arrays, block_dim=block_dim, device=device)
        return [a.numpy() for a in arrays[len(self.tiles) :]]


def function_of(op: Any) -> CooperativeDef:
    """A cooperative function, given by itself or, for a function of the library, by name.

    Parameters:
        op: a cooperative function, or the name of one of the library.
    Returns:
        the function.
    Raises:
        TypeError: `op` is not a cooperative function.
    """
    function = library().get(op) if isinstance(op, str) else op
    if not isinstance(function, CooperativeDef):
        raise TypeError(f"{op!r} is not a cooperative function")
    return function


def samples(op: Any, seed: int = 0) -> list[Sample]:
    """The samples that a function declares.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        seed: an int, the seed of the samples' random numbers; 0 by default.
    Returns:
        a list of the samples; empty if the function declares none.
    Raises:
        TypeError: `op` is not a cooperative function.
    """
    examples = function_of(op).examples
    return list(examples(np.random.default_rng(seed))) if examples is not None else []


def arguments(op: Any, sample: Sample) -> dict[str, Any]:
    """The arguments of a sample by parameter, defaults included.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        sample: the sample, an object of type `Sample`.
    Returns:
        the arguments.
    Raises:
        TypeError: `op` is not a cooperative function, or the arguments do not fit the signature.
    """
    f = function_of(op)
    try:
        bound = inspect.signature(f.definition.function).bind(*sample.arguments, **sample.named)
    except TypeError as error:
        raise TypeError(f"{sample!r} of {f.name}: {error}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def expected(op: Any, sample: Sample) -> list[np.ndarray]:
    """The reference's results, computed in float64.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        sample: the sample, an object of type `Sample`.
    Returns:
        arrays: the results, then the final content of the tiles that the function changes.
    Raises:
        TypeError: `op` is not a cooperative function, or the arguments do not fit the signature.
        ValueError: the function has no reference, or the reference returns another number of results than the
            signature.
    """
    f = function_of(op)
    if f.numpy is None:
        raise ValueError(f"{f.name} has no reference: add one with @{f.name}.reference")
    bound_arguments = arguments(f, sample)
    wide = {name: _widened(x) if isinstance(x, np.ndarray) else x for name, x in bound_arguments.items()}
    computed = f.numpy(**wide)
    results = [np.asarray(x) for x in (computed if isinstance(computed, tuple) else (computed,))]
    if len(results) != (count := len(f.results) + len(f.changed)):
        raise ValueError(
            f"the reference of {f.name} returns {len(results)} results, but its signature has {count}"
        )
    count = len(f.results)
    return [*_returned_results(f, bound_arguments, results[:count]), *results[count:]]


def _widened(x: np.ndarray) -> np.ndarray:
    """An array with floats converted to float64, and complex numbers to pairs of float64."""
    return x if x.dtype.kind in "iub" else x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def program(op: Any, sample: Sample, in_role: bool = False, checked: bool = True) -> SampleProgram:
    """The kernel that calls a function on a sample.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        sample: the sample, an object of type `Sample`.
        in_role: whether one role of 128 threads calls the function; False by default.
        checked: whether the kernel stores the results, whose shapes equal the reference's; True by default.
    Returns:
        the kernel and its arrays.
    Raises:
        TypeError: `op` is not a cooperative function, or the arguments do not fit the signature.
        ValueError: results are stored, and there is no reference that fits the signature.
    """
    f = function_of(op)
    bound_arguments = arguments(f, sample)
    tiles, lines, call, dtypes = list[np.ndarray](), list[str](), list[str](), dict[str, np.dtype]()
    names: dict[str, Any] = {"tg": tg, "op": f, "Any": Any, "check_shape": _check_shape}
    array_names: list[str] = []
    for name, pattern in f.patterns.items():
        x = bound_arguments[name]
        call.append(f"{name}={name}")
        if isinstance(pattern, ConstantPattern | NumberPattern) or not isinstance(x, np.ndarray):
            names[name] = x
            continue
        tiles.append(x)
        array_names.append(f"{name}_array")
        tile = pattern.tile if isinstance(pattern, InOutPattern) else pattern
        assert isinstance(tile, TilePattern)
        dtypes[str(tile.dtype)] = x.dtype
        lines.append(f"{name} = tg.tile_load({name}_array, shape={tuple(x.shape)})")
    changed = f.changed
    patterns = _returned_results(f, bound_arguments, f.results)
    results = [f"result_{k}" for k in range(len(patterns))]
    is_tuple = f.returns_tuple and (len(results) > 1 or len(f.results) == 1)
    assignment = ", ".join(results) + ("," if is_tuple else "") + " = " if results else ""
    lines.append(f"{assignment}op({', '.join(call)})")
    outs: list[np.ndarray] = []
    expected_results = expected(f, sample) if checked else []
    output_dtypes = [
        *(_numpy_dtype(p.dtype, dtypes) for p in patterns),
        *(bound_arguments[name].dtype for name in changed),
    ]
    for result_name, x, output_dtype in zip(
        [*results, *changed], expected_results, output_dtypes, strict=False
    ):
        is_tile = result_name in changed or isinstance(patterns[results.index(result_name)], TilePattern)
        value = result_name if is_tile else f"tg.tile_full(shape=1, value={result_name})"
        if is_tile:
            lines += [f"shape = {result_name}.shape", f"tg.static(check_shape(shape, {x.shape}))"]
        lines.append(f"tg.tile_store(out_{len(outs)}, {value})")
        outs.append(
            np.zeros(x.shape if is_tile else 1, output_dtype if output_dtype is not None else x.dtype)
        )
    parameters = [
        *(f"{name}: tg.array{x.ndim}d[Any]" for name, x in zip(array_names, tiles, strict=True)),
        *(f"out_{k}: tg.array{x.ndim}d[Any]" for k, x in enumerate(outs)),
    ]
    body = ["with tg.ws(0):", *("    " + line for line in lines)] if in_role else lines
    text = f"def run({', '.join(parameters)}):\n" + "".join(f"    {line}\n" for line in body)
    exec(compile(text, f"<a call of {f.name}>", "exec"), names)
    return SampleProgram(tg.kernel(source=text)(names["run"]), tiles, outs)


def _numpy_dtype(dtype: Any, known: Mapping[str, np.dtype]) -> np.dtype | None:
    """The NumPy dtype of a result, complex for pairs of floats; None where no argument determines it. `known`: the
    dtypes of the classes."""
    if not isinstance(dtype, Dtypes) or dtype.value is None:
        return known.get(str(dtype))
    pairs = {
        np.dtype(t): VecType(2, from_numpy(np.dtype(t).type(0).real.dtype))
        for t in (np.complex64, np.complex128)
    }
    elements = {name: pairs.get(t) or from_numpy(t) for name, t in known.items()}
    value = dtype.value(**{name: elements[name] for name in inspect.signature(dtype.value).parameters})
    return next((t for t, pair in pairs.items() if pair == value), None) or to_numpy(scalar_of(value))


def _returned_results(f: CooperativeDef, constants: dict[str, Any], results: Sequence[Any]) -> list[Any]:
    """The results of a program that a call with these constants returns."""
    outputs = f.returned(constants, results)
    return [*outputs] if isinstance(outputs, tuple) else [] if outputs is None else [outputs]


def _check_shape(actual: tuple[int, ...], expected: tuple[int, ...]) -> int:
    """Raise AssertionError unless a tile has the shape of the reference's result."""
    assert actual == expected, f"the tile has shape {actual}, the result of the reference {expected}"
    return 0


def check_sample(op: Any, sample: Sample, block_dim: int, device: str = "cpu", in_role: bool = False) -> None:
    """Compares a function on one sample with its reference.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        sample: the sample, an object of type `Sample`.
        block_dim: the number of threads in the block, 1 to 1024.
        device: the name of the device; "cpu" by default.
        in_role: whether one role of 128 threads calls the function; False by default.
    Raises:
        AssertionError: a result differs from the reference.
        RuntimeError: the function refuses the sample (tg.CompileError), or the kernel finds a fault (tg.RunError).
        ValueError: the function has no reference that fits its signature.
        TypeError: `op` is not a cooperative function, or the arguments do not fit the signature.
        launch: there is no such device.
    """
    sample_program = program(op, sample, in_role)
    for actual, reference in zip(sample_program.run(block_dim, device), expected(op, sample), strict=True):
        check_close(actual, reference, sample.tolerance)


def check_close(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    """Compares numbers with the numbers of a reference; integers and bools have to be equal.

    Parameters:
        actual: an array of any dtype; complex numbers as pairs of floats.
        expected: an array with the numbers of the reference, of the same size.
        tolerance: the largest difference, in units of the last place of `actual` at its largest finite number; 0 for
            equal numbers, and zeros of equal signs.
    Raises:
        AssertionError: a number differs by more.
        ValueError: the number of elements differs.
    """
    if expected.dtype.kind == "c":
        expected = np.stack([np.real(expected), np.imag(expected)], axis=-1)
    expected = expected.reshape(actual.shape)
    if actual.dtype.kind in "iub":
        np.testing.assert_array_equal(actual, expected)
        return
    if not tolerance:
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(np.signbit(actual[actual == 0]), np.signbit(expected[expected == 0]))
        return
    finite = np.abs(expected[np.isfinite(expected)])
    atol = tolerance * float(_epsilon(actual.dtype)) * float(finite.max(initial=0.0))
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=0, atol=atol, equal_nan=True)


def _epsilon(dtype: np.dtype) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).eps)


def check_refused(op: Any, sample: Refused) -> str:
    """Checks that a function refuses a sample with the error that the sample states.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        sample: arguments, the code of the error and parts of its text.
    Returns:
        the text of the error.
    Raises:
        AssertionError: the function accepts the sample, or the error has another code or lacks a part.
        TypeError: `op` is not a cooperative function, or the arguments do not fit the signature.
    """
    sample_program = program(op, sample, checked=False)
    try:
        sample_program.run(32)
    except CompileError as error:
        text = str(error)
        assert error.CODE == sample.code, f"{error.CODE}, not {sample.code}:\n{text}"
        missing = [part for part in sample.says if part not in text]
        assert not missing, f"{missing} is not in:\n{text}"
        return text
    raise AssertionError(f"{function_of(op).name} accepts {sample}, which it should refuse")


def check_gradient(op: Any, sample: Sample, block_dim: int = 32) -> None:
    """Compares the gradient of a function at a sample, whose floats become float64, with finite differences.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        sample: the sample, an object of type `Sample`.
        block_dim: the number of threads in the block, 1 to 1024; 32 by default.
    Raises:
        AssertionError: a derivative differs (tg.GradientMismatch).
        RuntimeError: the function refuses the sample (tg.CompileError), or a gradient through it.
        ValueError: the function has no reference that fits its signature.
        TypeError: `op` is not a cooperative function, or the arguments do not fit the signature.
    """
    wide = [_widened(x) if isinstance(x, np.ndarray) else x for x in sample.arguments]
    sample_program = program(op, Sample(*wide, **sample.named))
    inputs = [tg.array(x, requires_grad=x.dtype.kind in "fc") for x in sample_program.tiles]
    outputs = [tg.array(x, requires_grad=x.dtype.kind in "fc") for x in sample_program.outs]
    tg.gradcheck(
        sample_program.kernel, dim=(1, block_dim), inputs=inputs, outputs=outputs, block_dim=block_dim
    )


def check(op: Any, block_dims: tuple[int, ...] = (1, 33, 64, 100, 256), device: str = "cpu") -> None:
    """Checks all samples of a function: results in blocks of several sizes and in a role, gradients where a sample is
    differentiable, and errors where it is refused.

    Parameters:
        op: a cooperative function, or the name of one of the library.
        block_dims: the numbers of threads in a block; 1, 33, 64, 100 and 256 by default.
        device: the name of the device; "cpu" by default.
    Raises:
        AssertionError: a result differs from the reference, a derivative differs (tg.GradientMismatch), or a refusal
            has another error than the sample declares.
        RuntimeError: the function refuses a sample that it should take (tg.CompileError), or a kernel finds a fault
            (tg.RunError).
        ValueError: the function has no samples, or no reference that fits its signature.
        TypeError: `op` is not a cooperative function, or the arguments of a sample do not fit the signature.
        launch: there is no such device.
    """
    declared_samples = samples(op)
    if not declared_samples:
        raise ValueError(
            f"{function_of(op).name} has no samples: add some with @{function_of(op).name}.samples"
        )
    for sample in declared_samples:
        for check_case in _checks(op, sample, block_dims, device):
            check_case()


def _checks(op: Any, sample: Sample, block_dims: tuple[int, ...], device: str) -> Iterator[Any]:
    if isinstance(sample, Refused):
        yield lambda: check_refused(op, sample)
        return
    for block_dim in block_dims:
        yield lambda n=block_dim: check_sample(op, sample, n, device)
    yield lambda: check_sample(op, sample, 128, device, in_role=True)
    if sample.differentiable:
        yield lambda: check_gradient(op, sample)


__all__ = [
    *(
        "SampleProgram",
        "arguments",
        "check",
        "check_close",
        "check_gradient",
        "check_refused",
        "check_sample",
    ),
    *("expected", "function_of", "program", "samples"),
]


def __dir__() -> list[str]:
    return sorted(__all__)
