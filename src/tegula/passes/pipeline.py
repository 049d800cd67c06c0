"""The passes, in order: those that every target shares, and those for CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegula.errors import CompileError, CompileErrors
from tegula.ir import Kernel
from tegula.passes.complete_products import complete_products
from tegula.passes.contract_fma import contract_fma, keep_rounded
from tegula.passes.delay_releases import delay_releases
from tegula.passes.inline_calls import inline_calls
from tegula.passes.promote_buffers import promote_buffers
from tegula.passes.prove_bounds import prove_bounds
from tegula.passes.release_stages import release_stages
from tegula.passes.simplify import simplify
from tegula.passes.split_lanes import split_lanes
from tegula.passes.uniformity import Uniformity, analyse, check_cooperation
from tegula.verify import verify

Observer = Callable[[str, Kernel], None]


def check(kernel: Kernel) -> None:
    """Errors for cooperative ops that only some threads of a block reach."""
    verify(kernel)
    raise_all(check_cooperation(kernel, analyse(kernel)))


def prepare(kernel: Kernel, observe: Observer | None = None) -> None:
    """What every target shares: cooperation is checked, objects become values, popped tiles are released, arithmetic is
    simplified, chosen by what is known of its operands, and fused; calls end."""
    check(kernel)
    promote_buffers(kernel)
    passed("promote_buffers", kernel, observe)
    raise_all(release_stages(kernel))
    passed("release_stages", kernel, observe)
    for step in (simplify, prove_bounds, contract_fma, inline_calls):
        step(kernel)
        passed(step.__name__, kernel, observe)


def settle(kernel: Kernel) -> None:
    """Decide how a kernel that is about to be differentiated is rounded, as `prepare` decides it: what runs again in
    the adjoint then gives the same bits, and takes the same paths. What `contract_fma` did not fuse, nothing will."""
    promote_buffers(kernel)
    for step in (simplify, prove_bounds, contract_fma, keep_rounded):
        step(kernel)
    verify(kernel)


def for_cpu(kernel: Kernel, observe: Observer | None = None) -> Uniformity:
    """Products are complete at once, reads copy nothing; lane-varying code is gathered into lane loops."""
    for step in (complete_products, delay_releases):
        step(kernel)
        passed(step.__name__, kernel, observe)
    return gather_lanes(kernel, observe)


def gather_lanes(kernel: Kernel, observe: Observer | None = None) -> Uniformity:
    """Lane-varying code is gathered into lane loops."""
    known = analyse(kernel)
    raise_all(split_lanes(kernel, known))
    passed("split_lanes", kernel, observe)
    return known


def raise_all(errors: Sequence[CompileError]) -> None:
    """Raise what a pass found, if anything."""
    if errors:
        raise errors[0] if len(errors) == 1 else CompileErrors(errors)


def passed(name: str, kernel: Kernel, observe: Observer | None) -> None:
    """Verify what a pass made of the kernel; the error names the pass."""
    try:
        verify(kernel)
    except Exception as error:
        error.add_note(f"after pass {name}")
        raise
    if observe is not None:
        observe(name, kernel)
