"""Docstrings: the sections of functions that users call, and a sentence for every other public definition."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from support import tool_modules


def tool() -> ModuleType:
    tool_modules.tool("stated_gradients")  # which the docstring tool imports when it checks gradients
    return tool_modules.tool("docstrings")


def test_every_public_docstring_is_complete() -> None:
    assert tool().all_faults() == []


def test_definitions_without_a_sentence_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public definition without a docstring, or with a docstring whose first sentence has no noun, is a fault."""
    (tmp_path / "sums.py").write_text(
        'class Sum:\n    """A sum."""\n    def of(self):\n        """All of it."""\n'
        "def plain(): ...\ndef _own(): ...\n"
    )
    monkeypatch.setattr(tool(), "SOURCE", tmp_path)
    monkeypatch.setattr(tool(), "_classes", dict[str, object])
    assert tool().without_docstring() == {"sums.py": ["plain"]}
    assert tool().without_noun() == {"sums.py": ["Sum.of"]}


def test_functions_that_users_call_are_found() -> None:
    """Functions of kernels, of the library and of the host, methods, and names that are loaded lazily."""
    names = {function.name for function in (*tool().kernel_functions(), *tool().host_functions())}
    assert names >= {
        "tile_matmul",
        "atomic_add",
        "fast.exp2",
        "sin",
        "zeros",
        "array.reshape",
        "Tape.backward",
    }
    assert names >= {
        "launch",
        "Stream.synchronize",
        "autotune",
        "kernels.matmul",
        "torch.function",
        "jax.function",
        "testing.check",
        "VecType.__call__",
    }
    assert not any(name.startswith("_") or re.search(r"\._(?!_call__$)", name) for name in names)


COMPLETE_DOCSTRING = """The sum of two tiles.

Parameters:
    a, b: tiles of one shape.
Returns:
    a tile.
Raises:
    shape-mismatch: the shapes differ.
Gradient:
    the adjoint, for both."""


def docstring_faults(text: str, parameters: tuple[str, ...] = ("a", "b")) -> list[str]:
    docstrings = tool()
    return docstrings.faults(
        docstrings.DocumentedObject("add", text, parameters, (*docstrings.SECTIONS[:3], "Gradient"))
    )


def test_a_docstring_with_all_sections_is_complete() -> None:
    assert docstring_faults(COMPLETE_DOCSTRING) == []
    assert (
        docstring_faults(COMPLETE_DOCSTRING.replace("    shape-mismatch: the shapes differ.", "    nothing."))
        == []
    )
    assert docstring_faults(COMPLETE_DOCSTRING + "\nSource:\n    BLAS axpy.") == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("a, b: tiles", "a: tiles", "parameters a, b; documented: a"),
        ("a, b: tiles", "b, a: tiles", "parameters a, b; documented: b, a"),
        ("a, b: tiles of one shape", "a, b: operands", "no shape, dtype, unit or kind of argument: a, b"),
        ("shape-mismatch:", "shape-missmatch:", "no such error: shape-missmatch"),
        ("    shape-mismatch: the shapes differ.", "    if the shapes differ", "no error code and reason"),
        ("Returns:", "Yields:", "no section Returns"),
        ("Gradient:\n    the adjoint, for both.", "", "no section Gradient"),
        ("    a tile.\n", "", "nothing in section Returns"),
        ("The sum of two tiles.", "The sum", "no sentence first"),
    ],
)
def test_missing_parts_of_docstrings_are_reported(old: str, new: str, fault: str) -> None:
    assert any(report.startswith(fault) for report in docstring_faults(COMPLETE_DOCSTRING.replace(old, new)))


@pytest.mark.parametrize(
    ("name", "stated", "fault"),
    [
        ("tile_sum", "none.", "gradient: add, cast, tile.reduce has one"),
        ("sqrt", "refused (no-gradient).", "gradient: no op refuses one, of sqrt"),
        ("mbarrier_wait", "the adjoint.", "gradient: mbarrier.wait refuses one"),
        ("clz", "the adjoint.", "gradient: none of clz has one"),
        ("lane_ballot", "the adjoint.", "gradient: integers and bools have none"),
        ("clamp", "of the kernel without roles.", "gradient: the function builds no op of roles"),
    ],
)
def test_stated_gradients_agree_with_ops(name: str, stated: str, fault: str) -> None:
    (function,) = (function for function in tool().kernel_functions() if function.name == name)
    before, _, rest = function.text.partition("Gradient:\n    ")
    stated_before = rest.partition("\nSource:")[0]
    assert tool().faults(function) == []
    changed = function._replace(text=f"{before}Gradient:\n    {stated}" + rest.removeprefix(stated_before))
    assert any(report.startswith(fault) for report in tool().faults(changed))


def test_stated_gradients_agree_with_samples() -> None:
    declared = {function.name: function for function in tool().kernel_functions()}
    for name, stated in (("sin", "none."), ("tile_sort", "refused."), ("tile_argmax", "the adjoint.")):
        text = declared[name].text
        position = text.index("Gradient:\n    ") + len("Gradient:\n    ")
        changed = declared[name]._replace(text=text[:position] + stated)
        assert any(report.startswith("gradient: ") for report in tool().faults(changed))


def test_errors_of_refused_samples_are_stated() -> None:
    (function,) = (function for function in tool().kernel_functions() if function.name == "tile_histogram")
    lines = [line for line in function.text.splitlines() if not line.startswith("    out-of-range:")]
    assert tool().faults(function._replace(text="\n".join(lines))) == [
        "errors: a sample is refused with out-of-range"
    ]


@pytest.mark.parametrize(
    ("text", "has_noun"),
    [
        ("The sum of two tiles.", True),
        ("All of them, where it is so.", False),
        ("`left`: the types of operands.", False),
        ("`tile_sum`.", False),
        ("A region without an end", False),
    ],
)
def test_first_sentences_have_nouns(text: str, has_noun: bool) -> None:
    assert tool()._has_noun(text) is has_noun


def test_methods_that_override_documented_methods_need_no_docstring() -> None:
    """The docstring of `Op.infer` covers all overrides."""
    missing = tool().without_docstring()
    assert not any(name.endswith(".infer") for names in missing.values() for name in names)
