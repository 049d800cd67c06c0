"""The blocks of the pages that need PyTorch or JAX have the outcomes that the pages show."""

from __future__ import annotations

import pytest

from support.tool_modules import tool

TOOL = tool("pages")
PAGES = [page for page in TOOL.pages() if TOOL.NEEDS.search((TOOL.ROOT / page).read_text(encoding="utf-8"))]


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_a_page_has_the_outcome_that_its_heading_states(page: str) -> None:
    assert TOOL.missing_packages((TOOL.ROOT / page).read_text(encoding="utf-8")) == []
    assert TOOL.outcome_in_child(page).faults == []
