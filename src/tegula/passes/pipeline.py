"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from tegula.errors import CompileErrors
from tegula.ir import Kernel
from tegula.passes.contract_fma import contract_fma
from tegula.passes.promote_buffers import promote_buffers
from tegula.passes.simplify import simplify
from tegula.passes.split_lanes import split_lanes
from tegula.passes.uniformity import Uniformity, analyse, check_cooperation
from tegula.verify import verify

Observer = Callable[[str, Kernel], None]


def prepare(kernel: Kernel, observe: Observer | None = None) -> None:
    """What every target shares: cooperation is checked, objects become values, arithmetic is simplified and fused."""
    verify(kernel)
    errors = check_cooperation(kernel, analyse(kernel))
    if errors:
        raise errors[0] if len(errors) == 1 else CompileErrors(errors)
    for step in (promote_buffers, simplify, contract_fma):
        step(kernel)
        _seen(step.__name__, kernel, observe)


def for_cpu(kernel: Kernel, observe: Observer | None = None) -> Uniformity:
    """Lane-varying code is gathered into lane loops."""
    known = analyse(kernel)
    errors = split_lanes(kernel, known)
    if errors:
        raise errors[0] if len(errors) == 1 else CompileErrors(errors)
    _seen("split_lanes", kernel, observe)
    return known


def _seen(name: str, kernel: Kernel, observe: Observer | None) -> None:
    try:
        verify(kernel)
    except Exception as error:
        error.add_note(f"after pass {name}")
        raise
    if observe is not None:
        observe(name, kernel)
