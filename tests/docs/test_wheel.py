"""The wheel works without the source tree, and every page is in one section of the site."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.tool_modules import tool

SITE = tool("site_pages")


@pytest.mark.slow(why="an environment is made, and packages are installed in it")
@pytest.mark.cpu
def test_start_runs_from_the_wheel(capfd: pytest.CaptureFixture[str]) -> None:
    assert tool("wheel_check").main([]) == 0, capfd.readouterr().out


def test_every_page_is_in_one_section_of_the_site(tmp_path: Path) -> None:
    SITE.prepare(tmp_path / "site")
    text = (tmp_path / "site" / "docs" / "start.md").read_text(encoding="utf-8")
    assert "```python\n" in text and "```python error" not in text and "```console install" not in text
    assert "](examples/nbody.md)" in (tmp_path / "site" / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert "def run(" in (tmp_path / "site" / "docs" / "examples" / "nbody.md").read_text(encoding="utf-8")
    pages = sorted(p.relative_to(SITE.DOCS).as_posix() for p in SITE.DOCS.rglob("*.md"))
    listed_pages = [
        page
        for section in SITE.navigation(pages)
        for inside in section.values()
        for listed_page in inside
        for page in listed_page.values()
    ]
    assert sorted(listed_pages) == pages
