"""Unknown options and keywords are refused, with a suggestion of the likely one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import tegula as tg
from support.campaigns import chunks
from support.pruned_bodies import needed_statements
from tegula.errors import WrongArguments
from tegula.lang.decorators import SCHEDULE
from tegula.ops import PUBLIC
from tegula.runtime.library import library
from tegula.tune.tuned import autotune

OPTIONS = ("enable_backward", "block_dim", "launch_bounds", "grid_stride", "check", *SCHEDULE)
SWITCHES = ("mode", "cache_kernels", "kernel_cache_dir", "cpu_target", "deterministic", "line_info")


def _misspelt(name: str, random: Random) -> str:
    """The name with a letter left out, doubled, or exchanged with its neighbour."""
    index = random.randrange(1, len(name) - 1)
    result = random.choice([name[:index] + name[index + 1 :], name[:index] + name[index] + name[index:]])
    return result if result != name else name + "s"


@pytest.mark.parametrize("name", OPTIONS)
def test_misspelt_options_of_kernels_are_refused_with_a_suggestion(name: str) -> None:
    for seed in range(5):
        wrong = _misspelt(name, Random(seed))
        with pytest.raises(TypeError) as caught:
            tg.kernel(**{wrong: 1})
        assert isinstance(caught.value, WrongArguments)
        assert f"did you mean '{name}'?" in str(caught.value) and "tg.kernel(**" in str(caught.value)


@pytest.mark.machine_code
def test_options_of_other_tile_languages_change_nothing() -> None:
    options = {"fast_math": True, "enable_mathdx_gemm": False, "max_unroll": 4}
    accepted = dict(name="other", cuda_max_registers=64, enable_cuda_smem_spilling=True, cluster_dim=2)

    @tg.kernel(module_options=options, **accepted)
    def k(a: tg.array1d[float]):
        a[tg.tid()] += 1.0

    a = tg.zeros(3)
    tg.launch(k, 3, inputs=[a])
    assert a.numpy().tolist() == [1.0] * 3
    with pytest.raises(TypeError, match=r"did you mean 'fast_math'\?"):
        tg.kernel(module_options={"fast_mth": True})
    with pytest.raises(TypeError, match="tg.func has no option 'inline'"):
        tg.func(inline=True)


def test_misspelt_options_of_launches_are_refused_with_a_suggestion() -> None:
    @tg.kernel
    def k(a: tg.array1d[float]):
        a[tg.tid()] += 1.0

    a = tg.zeros(3)
    for launch in (tg.launch, tg.launch_tiled):
        for name in ("block_dim", "device", "stream", "record_tape", "inputs"):
            wrong = _misspelt(name, Random(1))
            with pytest.raises(TypeError, match=rf"did you mean '{name}'\?"):
                launch(k, 3, **{"inputs": [a], wrong: None})
    with pytest.raises(TypeError):
        autotune(k, bogus=3)
    assert a.numpy().tolist() == [0.0] * 3


def test_misspelt_settings_are_refused_with_a_suggestion() -> None:
    for name in SWITCHES:
        wrong = _misspelt(name, Random(2))
        with pytest.raises(AttributeError, match=rf"did you mean '{name}'\?"):
            setattr(tg.config, wrong, 1)
        with pytest.raises(AttributeError, match=rf"did you mean '{name}'\?"):
            getattr(tg.config, wrong)
    original = tg.config.verbose
    tg.config.verbose = True
    assert tg.config.verbose is True and tg.config.enable_mathdx_fft is None
    tg.config.verbose = original


# Functions of the language --------------------------------------------------------------------------------------------

VALUES = (
    "t",
    "t, t",
    "t, u, t",
    "1.0",
    "1.0, 2.0",
    "t, 1",
    "a, t",
    "a, 0, 0, 1.0",
    "v",
    "v, v",
    "m",
    "3",
    "3, 4",
    "f, t",
)
BODY = """
def k(a: tg.array2d[float]):
    t = tg.tile_load(a, shape=(4, 4))
    u = tg.tile_zeros(shape=(4, 4))
    v = tg.vec3(1.0, 2.0, 3.0)
    m = tg.mat33(1.0)
    def f(x): return x
    x = tg.{call}
"""


def _failure(call: str) -> tg.TegulaError | None:
    names = {"tg": tg}
    text = needed_statements(BODY.format(call=call))
    exec(text, names)
    from tegula.ir import LaunchClass
    from tegula.types import ArrayType, float32

    try:
        tg.kernel(source=text)(names["k"]).trace(
            [ArrayType(float32, 2)], LaunchClass(2, 64, (True, False), True, False), (), library()
        )
    except tg.CompileError as error:
        return error
    return None


def _names() -> list[str]:
    return sorted(n for n in {*PUBLIC, *library()} if n[0] != "_" and "." not in n)


def _check_refusals(names: list[str]) -> int:
    """Call each function with one unknown keyword in every valid way. Returns the number of ways."""
    tried = 0
    for name in names:
        for values in VALUES:
            if _failure(f"{name}({values})") is None:
                tried += 1
                error = _failure(f"{name}({values}, bogus=1)")
                assert error is not None and "bogus" in str(error), f"{name}({values}, bogus=1): {error}"
    return tried


def test_misspelt_keywords_of_functions_are_refused() -> None:
    assert _check_refusals(_names()[::16]) > 3
    assert "did you mean 'shape'" in str(_failure("tile_load(a, shpe=(4, 4))"))


@pytest.mark.parametrize("first", chunks(range(4)))
def test_misspelt_keywords_of_all_functions_are_refused(first: int) -> None:
    assert _check_refusals(_names()[first::4]) > 25


@pytest.mark.machine_code
def test_functions_of_the_library_take_their_arguments_by_name() -> None:
    text = """
def k(a: tg.array1d[float], h: tg.array1d[tg.float16]):
    t = tg.tile_load(a, shape=4)
    tg.tile_store(a, tg.exp(x=t))
    h[0] = tg.exp(x=h[0])
"""
    names = {"tg": tg}
    exec(text, names)
    a, h = tg.zeros(4), tg.zeros(1, dtype=tg.float16)
    tg.launch_tiled(tg.kernel(source=text)(names["k"]), 1, inputs=[a, h], block_dim=32)
    assert np.array_equal(a.numpy(), [1.0] * 4) and h.numpy()[0] == 1.0
