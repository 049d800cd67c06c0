"""Examples are short, and take the options that docs/gallery.md promises."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import show

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
NAMES = sorted(p.stem for p in EXAMPLES.glob("*.py") if "import show" in p.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_each_example_is_short_and_runs_by_its_name(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) < 120
    assert f"python examples/{name}.py [--device cuda:0] [--size " in ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("name", NAMES)
def test_the_gallery_shows_each_example_with_its_picture(name: str) -> None:
    """A picture of matplotlib, with axes or images, which the example drew."""
    (part,) = (p for p in PAGE.split("\n## ") if f"(../examples/{name}.py)" in p)
    assert f"](pictures/{name}.svg)" in part and re.search(r": [\d.]+ s\. \[", part)
    picture = ElementTree.parse(ROOT / "docs" / "pictures" / f"{name}.svg").getroot()
    assert picture.tag.endswith("}svg")
    assert any(e.get("id", "").startswith("axes_") for e in picture.iter())


@pytest.mark.cpu
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "0"], "--size must be positive"),
        (["--picture", "x.svg"], "--picture needs matplotlib: pip install"),
    ],
)
def test_examples_refuse_impossible_options(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["example.py", *options])
    monkeypatch.setattr(show, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        show.main(lambda size: size, lambda figure, result: None, size=1)
    assert message in capsys.readouterr().err


@pytest.mark.cpu
def test_examples_take_a_size_and_print_their_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["example.py", "--size", "7"])
    sizes: list[int] = []
    show.main(sizes.append, lambda figure, result: None, size=1)
    first, second = capsys.readouterr().out.splitlines()
    assert sizes == [7, 7]
    assert (
        first.startswith("size 7 on cpu: ")
        and first.endswith(" s with compilation")
        and second.endswith(" s without compilation")
    )
