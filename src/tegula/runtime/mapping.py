"""`tg.map`: a function of numbers, vectors and matrices, applied to each element of arrays."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from tegula.errors import LaunchError, SourceNotFound
from tegula.lang.definition import Definition, FuncDef, PublicFunction
from tegula.lang.lambda_text import expression_of
from tegula.runtime.array import adopt, array
from tegula.runtime.device import Device, get_device
from tegula.runtime.elementwise import (
    ARRAYS,
    Expression,
    Input,
    apply,
    broadcast,
    describe_input,
    elementwise_kernel,
    result_types,
)
from tegula.runtime.kernel import Kernel
from tegula.runtime.library import library
from tegula.runtime.pack import MAX_VALUE
from tegula.source import Location
from tegula.types import DType, ElementType, bool_, float32, float64, from_numpy, int32, int64, scalar_of
from tegula.types import matrix as matrix_type
from tegula.types import vector as vector_type


def map(
    func: Callable[..., Any],
    *inputs: Any,
    out: array | Sequence[array] | None = None,
    return_kernel: bool = False,
    block_dim: int | None = None,
    device: Device | str | None = None,
) -> Any:
    """Applies a function to the elements of arrays, broadcast with NumPy's rules, by a launch with a thread for each
    element.

    Parameters:
        func: a function of the language (tg.sin), a @tg.func, a Python function or a lambda, on scalars, vectors and
            matrices.
        *inputs: an argument for each parameter: arrays, which are read element by element, and numbers, vectors and
            matrices, which are the same for all elements. NumPy arrays of up to 16 elements are vectors and matrices,
            as in launches. Python numbers are int32 and float32, and float64 with float64 arrays; for functions of the
            language they have the scalar type of the arrays.
        out: the array or arrays to write, of the broadcast shape; by default new arrays of the results' dtypes, with a
            gradient if an input has one.
        return_kernel: whether to return the kernel instead of launching it; False by default.
        block_dim: the number of threads in a block; as for tg.launch by default.
        device: the required device of the arrays; by default the arrays determine the device.
    Returns:
        the array, a list of arrays if the function has several results, or the kernel, whose parameters are the inputs
        and then the outputs.
    Raises:
        launch: no input is an array, the shapes or devices do not fit, or a result is not an element of an array.
        RuntimeError: the function does not compile (tg.CompileError, with the codes of docs/errors.md), or the kernel
            fails on the CPU (tg.RunError).
    Gradient:
        of the function, recorded by tapes; summed over broadcast dimensions.
    """
    arguments = [adopt(x, None) if _is_foreign(x) else x for x in inputs]
    arrays = [x for x in arguments if type(x) in ARRAYS]
    if not arrays:
        raise LaunchError("map needs an array among its inputs", "create an array with tg.array(...)")
    target = arrays[0].device
    if device is not None and get_device(device) != target:
        raise LaunchError(
            f"map is requested on {get_device(device)}, but its arrays are on {target}", "leave out device="
        )
    expression, weak = _expression(func, len(arguments))
    values = [_value(x, arrays, weak) for x in arguments]
    outputs = None if out is None else [out] if isinstance(out, ARRAYS) else list(out)
    if return_kernel:
        return _kernel(expression, values, arrays, outputs)
    results = apply(expression, [v for v, _ in values], [t for _, t in values], outputs, block_dim)
    return results[0] if len(results) == 1 else results


def _kernel(
    expression: Expression,
    values: Sequence[tuple[Any, ElementType]],
    arrays: Sequence[array],
    outputs: Sequence[array] | None,
) -> Kernel:
    shape = broadcast(expression, arrays)
    descriptions: tuple[Input, ...] = tuple(describe_input(v, t, shape) for v, t in values)
    contiguous = (True,) * len(shape)
    if outputs is not None:
        results = tuple(describe_input(o, o.dtype, shape) for o in outputs)
    else:
        results = tuple(Input(t, contiguous) for t in result_types(expression, descriptions, len(shape)))
    return elementwise_kernel(expression, descriptions, results)


def _is_foreign(x: Any) -> bool:
    """Whether an input is an array of another library."""
    if type(x) in ARRAYS or isinstance(x, np.generic):
        return False
    if isinstance(x, np.ndarray):
        return x.size > MAX_VALUE
    return hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__")


# Values --------------------------------------------------------------------------------------------------------------


def _value(x: Any, arrays: Sequence[array], weak: bool) -> tuple[Any, ElementType]:
    """An input with its element type. `weak`: Python numbers take the scalar type of the arrays, if the type represents
    the numbers."""
    if type(x) in ARRAYS:
        return x, x.dtype
    scalars = {scalar_of(a.dtype) for a in arrays}
    common_scalar = next(iter(scalars)) if len(scalars) == 1 else None
    if isinstance(x, bool):
        return x, bool_
    if isinstance(x, int):
        if weak and common_scalar is not None and not common_scalar.is_bool:
            return (float(x) if common_scalar.is_float else x), common_scalar
        return x, int32 if -(2**31) <= x < 2**31 else int64
    if isinstance(x, float):
        if weak and common_scalar is not None and common_scalar.is_float:
            return x, common_scalar
        return x, float64 if float64 in scalars and float32 not in scalars else float32
    if isinstance(x, np.generic):
        return x.item(), from_numpy(x.dtype)
    return _composite(x)


def _composite(x: Any) -> tuple[Any, ElementType]:
    """A vector or matrix with its type."""
    if isinstance(x, str | bytes | dict | set) or x is None:
        raise LaunchError(f"map cannot take {x!r}", "pass arrays, numbers, vectors and matrices")
    data = np.asarray(x)
    scalar: DType = (
        float32 if data.dtype == np.float64 and not isinstance(x, np.ndarray) else from_numpy(data.dtype)
    )
    if data.ndim == 1:
        return x, vector_type(len(data), scalar)
    if data.ndim == 2:
        return x, matrix_type((data.shape[0], data.shape[1]), scalar)
    raise LaunchError(f"map cannot take a value of shape {data.shape}", "pass an array: tg.array(...)")


# Functions -----------------------------------------------------------------------------------------------------------

_MAPPED = "__tegula_mapped__"
"""The attribute of a mapped Python function that holds the corresponding function of the language."""
_lambdas: dict[Any, FuncDef] = {}
"""The functions of mapped lambdas, by code and captures."""
MAX_LAMBDAS = 1024
NAMED_BUILTINS = ("abs", "min", "max", "round", "pow")
"""The functions that both Python and the language have."""


def _expression(func: Any, count: int) -> tuple[Expression, bool]:
    """The call of a function with `count` arguments, and whether the function belongs to the language."""
    fields = ", ".join(f"{{{k}}}" for k in range(count))
    if isinstance(func, PublicFunction):
        return Expression(func.name.replace(".", "_"), f"tg.{func.name}({fields})"), True
    if isinstance(func, FuncDef):
        return Expression(func.name, f"function({fields})", (("function", func),)), func in library().values()
    if isinstance(func, BuiltinFunctionType) and any(func is getattr(builtins, n) for n in NAMED_BUILTINS):
        return Expression(f"map_{func.__name__}", f"{func.__name__}({fields})"), True
    if isinstance(func, type) or not isinstance(func, FunctionType):
        name = getattr(func, "__name__", repr(func))
        raise LaunchError(
            f"map cannot apply {name}", "pass a function of the language, a @tg.func, a function or a lambda"
        )
    function = _lambda_function(func) if func.__name__ == "<lambda>" else _function_expression(func)
    return Expression(function.name, f"function({fields})", (("function", function),)), False


def _function_expression(func: FunctionType) -> FuncDef:
    attributes = vars(func)
    if _MAPPED not in attributes:
        attributes[_MAPPED] = FuncDef(Definition(func))
    return attributes[_MAPPED]


def _lambda_function(func: FunctionType) -> FuncDef:
    """A lambda as a function of the language with its expression as the body."""
    code = func.__code__
    cells = dict(zip(code.co_freevars, (c.cell_contents for c in func.__closure__ or ()), strict=True))
    key = code, id(func.__globals__), tuple(_capture_key(x) for x in cells.values())
    function = _lambdas.get(key)
    if function is None:
        definition = _define(func, cells)
        if len(_lambdas) >= MAX_LAMBDAS:
            _lambdas.clear()
        # Objects that the key identifies by identity are kept alive by the variables of the definition.
        function = _lambdas[key] = FuncDef(definition)
    return function


def _define(func: FunctionType, cells: Mapping[str, Any]) -> Definition:
    """A function with the expression of a lambda, its global variables and variables for its captures."""
    code, name = func.__code__, "mapped"
    lines = [f"def {name}({_parameters(code)}):", f"    return {_body_text(func)}"]
    if cells:
        lines = [f"def outer({', '.join(cells)}):", *(f"    {line}" for line in lines)]
    text = "\n".join(lines) + "\n"
    code_object = compile(text, code.co_filename, "exec", dont_inherit=True)
    for function_name in ("outer", name) if cells else (name,):
        code_object = next(
            c for c in code_object.co_consts if isinstance(c, CodeType) and c.co_name == function_name
        )
    closure = tuple(CellType(cells[v]) for v in code_object.co_freevars)
    return Definition(FunctionType(code_object, func.__globals__, name, func.__defaults__, closure), text)


def _capture_key(x: Any) -> Any:
    """The key of a captured object: value and type for numbers, identity for others."""
    return (type(x), x) if isinstance(x, bool | int | float | str) else id(x)


def _parameters(code: CodeType) -> str:
    return ", ".join(code.co_varnames[: code.co_argcount])


def _body_text(func: FunctionType) -> str:
    """The text of a lambda's expression."""
    body = expression_of(func)
    if body is None:
        location = Location(func.__code__.co_filename, func.__code__.co_firstlineno, function="lambda")
        message, help = "the source of the lambda is not available", "write a function with def"
        raise SourceNotFound(location, what=message, help=help)
    return ast.unparse(body)
