"""Wrong schedules that the language refuses or cannot express. Their lowered forms are refuted nevertheless."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel
from schedules import gemm, verdict

from support.campaigns import sampled
from support.mutated_memory import MEMORY_MUTATIONS, branch_around
from tegula import errors as E
from tegula.check.schedule import check_schedule


@sampled(2, "name", MEMORY_MUTATIONS)
def test_schedules_impossible_in_the_language_do_not_pass_in_lowered_form(name: str) -> None:
    make, mutate, status, kind = MEMORY_MUTATIONS[name]
    assert verdict(make()).passed
    actual = verdict(make(), mutate)
    assert (actual.status, actual.kind or actual.passed) == (status, kind or False), actual.message
    assert actual.help


REFUSED: dict[str, tuple[type[E.CompileError], str]] = {
    "1: two roles fill one pipe": (
        E.PipeEnds,
        """def wrong(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        tg.tile_pipe_load(pipe, x)
    with tg.ws(1):
        tg.tile_pipe_load(pipe, x)
    with tg.ws(2):
        tg.tile_store(x, tg.tile_pipe_pop(pipe))""",
    ),
    "3: two budgets in a warp group": (
        E.RoleRegisters,
        """def wrong(x: tg.array2d[float]):
    with tg.role("a", warps=1, registers=24):
        tg.tile_store(x, tg.tile_zeros(shape=(1, N)))
    with tg.role("b", warps=1, registers=40):
        tg.tile_store(x, tg.tile_zeros(shape=(1, N)))""",
    ),
    "3: more registers than an SM has": (
        E.RoleRegisters,
        """def wrong(x: tg.array2d[float]):
    with tg.ws(0, 1, 2, registers=240):
        tg.tile_store(x, tg.tile_zeros(shape=(1, N)))""",
    ),
    "15: a pipe that is filled in two ways": (
        E.PipeEnds,
        """def wrong(x: tg.array2d[float]):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        tg.tile_pipe_load(pipe, x)
        tg.tile_pipe_push(pipe, tg.tile_zeros(shape=(1, N)))
    with tg.ws(1):
        tg.tile_store(x, tg.tile_pipe_pop(pipe) + tg.tile_pipe_pop(pipe))""",
    ),
    "17: some threads of a role wait": (
        E.DivergentCooperativeOp,
        """def wrong(x: tg.array2d[float]):
    full = tg.mbarrier(1)
    with tg.ws(0):
        if tg.group_lane() < 32:
            tg.mbarrier_wait(full, 0, 0)""",
    ),
    "21: an accumulator is read before the wait": (
        E.MatmulInFlight,
        """def wrong(a: tg.array2d[float]):
    with tg.ws(0):
        total = tg.tile_zeros(shape=(N, N))
        x = tg.tile_load(a, shape=(N, N))
        tg.tile_matmul(x, x, total, wait=False)
        tg.tile_store(a, total)""",
    ),
    "23: some threads of a role store": (
        E.DivergentCooperativeOp,
        """def wrong(x: tg.array2d[float]):
    with tg.ws(0):
        if tg.group_lane() < 16:
            tg.tile_store(x, tg.tile_zeros(shape=(1, N)))""",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_impossible_schedules_are_refused_by_the_language(name: str) -> None:
    error, text = REFUSED[name]
    with pytest.raises(error) as caught:
        kernel(text).check()
    assert caught.value.help
    assert caught.value.loc is not None and caught.value.loc.line


def test_an_unmutated_branch_passes_the_checker() -> None:
    """The divergence of threads is refused, not the branch."""
    from schedules import lowered

    kernel, compilation = lowered(gemm())
    branch_around("mbarrier.wait")(kernel, compilation)
    compilation.uniformity.divergent.clear()
    assert check_schedule(kernel, compilation).passed
