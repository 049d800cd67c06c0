"""Code blocks of all pages give the printed output, and link targets exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.tool_modules import tool

TOOL = tool("pages")
ROOT: Path = TOOL.ROOT
PAGES: list[str] = TOOL.pages()
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in (*PAGES, "CONTRIBUTING.md")}
LINK = re.compile(r"\]\(([^()\s]*(?:\([^()]*\))?[^()\s]*)\)")
LONGEST = 250
GENERATED = "<!-- Written by "


SLOW_PAGES = (
    *(
        "docs/ops/",
        "docs/spatial.md",
        "docs/tuning.md",
        "docs/coming-from-warp.md",
        "docs/cookbook/numbers.md",
    ),
    *("docs/checker.md", "docs/cookbook/reductions.md", "docs/linear-algebra.md", "docs/python.md"),
    *("docs/tutorial/5-gradients.md", "docs/tutorial/7-roles.md"),
)
"""Pages whose blocks take more than a core-second: pages of the reference have an example for each function."""


def page_parameter(page: str) -> object:
    """A page as a parameter of a test, which is slow for pages with many blocks."""
    return pytest.param(page, marks=[pytest.mark.slow(every=1)] if page.startswith(SLOW_PAGES) else [])


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("page", [page_parameter(page) for page in PAGES if TOOL.blocks(TEXTS[page])])
def test_every_block_of_a_page_has_the_outcome_that_its_heading_states(page: str) -> None:
    assert TOOL.outcome_in_child(page).faults == []


FAULTY_PAGES = {
    "python\nx = 1\nprint(x)\n": "the page does not show that this prints:\n1\n",
    "python\nprint(1)\n```\n```text\n2\n": "this is printed:\n1\n",
    "python error\nx = 1\n": "this raises no error",
    "python error\nint('a')\n```\n```text\nb\n": "invalid literal for int() with base 10: 'a'",
    "python\n\nassert 1 == 2\n": "line 5, in <module>\n    assert 1 == 2\n",
    "python other\nx =\n": "SyntaxError",
    "python gpu\nimport tegula as tg\ntg.zeros(3, device='cuda:0').no_name\n": "no_name",
    "console\n$ echo 1\n2\n": "echo 1 prints:\n1\n",
    "console\n$ false\n": "false exits with 1",
    "text\n1\n": "no block before this text prints or raises it",
    "text file README.md\nno such line\n": "README.md has no such lines",
    "yaml\na: 1\n": "yaml: the kinds are python, ",
    "\na\n": "a block without a kind",
}
"""Blocks of pages, and the faults that the runner finds."""


@pytest.mark.parametrize("text", FAULTY_PAGES)
def test_the_runner_of_pages_finds_faults(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "page.md").write_text(f"# Page\n\n```{text}```\n", encoding="utf-8")
    monkeypatch.setattr(TOOL, "ROOT", tmp_path)
    (fault,) = TOOL.outcome_when_forked("page.md").faults
    assert fault.startswith("page.md:") and FAULTY_PAGES[text] in fault


def test_the_runner_of_pages_accepts_and_updates_outcomes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    correct_text = (
        "```python\n# first.py\nprint(1, 2, sep=chr(10))\n```\n\n```text\n1\n2\n```\n\n"
        "```python error\nraise ValueError('a')\n```\n\n```text\na\n```\n\n"
        "```console\n$ python first.py\n...\n2\n$ true\n```\n"
    )
    page.write_text(
        correct_text.replace("1\n2\n```\n\n```python e", "0\n```\n\n```python e"), encoding="utf-8"
    )
    monkeypatch.setattr(TOOL, "ROOT", tmp_path)
    assert len(TOOL.outcome_when_forked("page.md").faults) == 1
    assert TOOL.update("page.md", TOOL.outcome_when_forked("page.md"))
    assert page.read_text(encoding="utf-8") == correct_text
    assert TOOL.outcome_when_forked("page.md").faults == []


def is_written_by_hand(page: str) -> bool:
    """Whether a page of the documentation is not generated and is no design record."""
    return re.match("docs/(?!design/)", page) is not None and GENERATED not in TEXTS[page]


@pytest.mark.parametrize("page", [page for page in PAGES if is_written_by_hand(page)])
def test_a_page_is_short_opens_with_a_question_and_links_the_next_page(page: str) -> None:
    text = TEXTS[page]
    question = re.match(r"# .+\n\n(?:<!-- needs: .* -->\n\n)?((?:.+\n)+)", text)
    assert question is not None and re.search(r"\?(?:$|\s)|\.\.\.", question[1])
    assert text.rstrip().rsplit("\n\n", 1)[-1].startswith("Next: ")
    assert len(text.splitlines()) <= LONGEST


def without_code(text: str) -> str:
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, as code hosts and the site make them, and the anchors that the page links
    to."""
    return frozenset(_anchors(path.read_text(encoding="utf-8")))


def _anchors(text: str) -> Iterator[str]:
    counts: dict[str, int] = {}
    bare = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#+ (.*)$", bare, re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        count = counts[slug] = counts.get(slug, -1) + 1
        yield f"{slug}-{count}" if count else slug
    yield from re.findall(r'<a id="([\w-]+)"', text)


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_to_files_and_headings(page: str) -> None:
    broken_links = []
    for target in LINK.findall(without_code(TEXTS[page])):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        is_known = path.exists() and path.is_relative_to(ROOT)
        if not is_known or anchor and anchor not in anchors(path):
            broken_links.append(target)
    assert broken_links == []


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith("docs/design/")])
def test_blocks_can_be_typed_at_the_prompt(page: str) -> None:
    """Python's prompt ends a compound statement at an empty line, and only there."""
    faults = []
    for block in TOOL.blocks(TEXTS[page]):
        if block.kind not in ("python", "python error", "python gpu"):
            continue
        lines = block.text.splitlines()
        compound = [node for node in ast.parse(block.text).body if hasattr(node, "body")]
        unended = [node for node in compound if any(lines[node.end_lineno : (node.end_lineno or 0) + 1])]
        faults += [
            f"{page}:{block.line + node.end_lineno - 1} has no empty line after it" for node in unended
        ]
        if page.startswith(("docs/tutorial/", "docs/start")):
            interrupted = [node for node in compound if not all(lines[node.lineno - 1 : node.end_lineno])]
            faults += [
                f"{page}:{block.line + node.lineno - 1} has an empty line in it" for node in interrupted
            ]
    assert faults == []
