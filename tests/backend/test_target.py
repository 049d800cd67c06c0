"""Properties of named targets and of the host's processor."""

from __future__ import annotations

import sys

import pytest

from tegula import target
from tegula.backend.llvm import assembly
from tegula.target import NAMED, UNOPTIMISED, get_target


def test_named_targets_have_the_vector_widths_of_their_processors():
    assert {name: t.vector_bytes for name, t in NAMED.items()} == {
        "x86-64-v3": 32,
        "x86-64-v4": 64,
        "armv8.2": 16,
    }
    assert all(get_target(name).name == name for name in NAMED)
    assert len({t.key for t in NAMED.values()}) == len(NAMED)


def test_an_unknown_cpu_target_is_refused():
    for name in ("sapphire", f"sapphire{UNOPTIMISED}"):
        with pytest.raises(ValueError, match="x86-64-v3"):
            get_target(name)


def test_a_target_name_with_a_suffix_is_not_optimised():
    text = "define i64 @f(i64 %n) {\n  %a = add i64 %n, 1\n  %b = sub i64 %a, 1\n  ret i64 %b\n}"
    optimised, target = get_target("x86-64-v3"), get_target("x86-64-v3-O0")
    assert (target.cpu, target.features, target.vector_bytes) == (
        optimised.cpu,
        optimised.features,
        optimised.vector_bytes,
    )
    assert target.key != optimised.key
    assert ["sub" in assembly(text, each_target) for each_target in (optimised, target)] == [False, True]


def native(monkeypatch, machine: str, flags: set[str]) -> target.CpuTarget:
    monkeypatch.setattr(target.platform, "machine", lambda: machine)
    monkeypatch.setattr(target, "_cpu_flags", lambda: frozenset(flags))
    return target._native(frozenset(flags))


def test_the_native_target_is_the_best_that_the_processor_supports(monkeypatch):
    v3, v4 = target._V3_FLAGS, target._V3_FLAGS | target._V4_FLAGS
    assert native(monkeypatch, "x86_64", v3).cpu == "x86-64-v3"
    assert native(monkeypatch, "x86_64", v4).cpu == "x86-64-v4"
    assert native(monkeypatch, "x86_64", v4 - {"avx512vl"}).vector_bytes == 32
    assert native(monkeypatch, "aarch64", target._ARM_FLAGS).vector_bytes == 16
    assert native(monkeypatch, "x86_64", v4 | {"avx512_vnni"}).features == "+avx512vnni"


def test_features_that_change_rounding_are_never_used(monkeypatch):
    flags = target._V3_FLAGS | target._V4_FLAGS | {"avx512_fp16", "avx512_bf16", "amx_bf16"}
    assert native(monkeypatch, "x86_64", flags).features == ""


def test_processors_without_required_flags_are_refused(monkeypatch):
    with pytest.raises(RuntimeError, match="fma"):
        native(monkeypatch, "x86_64", target._V3_FLAGS - {"fma"})


def test_target_detection_loads_no_llvm():
    import subprocess

    text = "from tegula.target import get_target; get_target(); import sys; print('llvmlite' in sys.modules)"
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert process.stdout == "False\n"
