"""Checks the built site in a headless Chromium, from files, without a server: `python run.py docs --check`.

Usage: python tools/site_check.py [FOLDER]       needs Chromium on the PATH (CHROMIUM names another one)

Each page must load without errors and without a server, with its pictures, without text of fences, with links to
existing pages and headings, and without scrolling sideways on a narrow screen. Navigation, search, copying of code and
the dark scheme are tried."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

ROOT = Path(__file__).resolve().parent.parent
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 800}
FACTS = """() => ({
    title: document.querySelector('h1')?.textContent ?? '',
    fences: document.body.innerText.includes('```'),
    pictures: [...document.images].filter(x => !x.complete || x.naturalWidth === 0).map(x => x.src),
    ids: [...document.querySelectorAll('[id]')].map(x => x.id),
    links: [...document.querySelectorAll('.md-content a[href], .md-nav a[href]')].map(x => x.href),
    wide: document.documentElement.scrollWidth - window.innerWidth,
})"""


def pages(site: Path) -> list[Path]:
    """The pages of the site."""
    return sorted(p for p in site.rglob("*.html") if p.name != "404.html")


def faults(site: Path, browser: Any) -> Iterator[str]:
    """The faults of all pages, and of a reader's navigation on the site."""
    page = browser.new_page(viewport=NARROW)
    messages: list[str] = []
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on(
        "request", lambda request: messages.append(request.url) if request.url.startswith("http") else None
    )
    facts: dict[Path, dict[str, Any]] = {}
    for path in pages(site):
        page.goto(path.as_uri())
        result = facts[path] = page.evaluate(FACTS)
        name = path.relative_to(site)
        yield from (f"{name}: {text}" for text in messages)
        messages.clear()
        if not result["title"]:
            yield f"{name}: no heading"
        if result["fences"]:
            yield f"{name}: a fence is shown as text"
        if result["pictures"]:
            yield f"{name}: missing pictures: {result['pictures']}"
        if result["wide"] > 1:
            yield f"{name}: {result['wide']} pixels too wide for a narrow screen"
    ids = {path: set(result["ids"]) for path, result in facts.items()}
    for path, result in facts.items():
        for link in sorted(set(result["links"])):
            parts = urlparse(link)
            target = Path(unquote(parts.path))
            if parts.scheme != "file":
                continue
            if target not in facts:
                yield f"{path.relative_to(site)}: a link to {link}, which does not exist"
            elif parts.fragment and unquote(parts.fragment) not in ids[target]:
                yield f"{path.relative_to(site)}: a link to {link}, which has no such heading"
    page.close()
    yield from reader(site, browser)


def reader(site: Path, browser: Any) -> Iterator[str]:
    """Faults of navigation, search, copying, the menu of narrow screens and the dark scheme."""
    context = browser.new_context(viewport=WIDE, permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator(".md-nav--primary a[href$='start.html']").first.click()
    page.wait_for_url("**/start.html")
    code = page.locator("pre > code").first
    code.hover()
    page.locator("pre .md-code__button[title*='Copy'], .md-code__nav button").first.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    if copied.strip() != code.inner_text().strip():
        yield f"copying gives {copied!r}"
    page.keyboard.press("/")
    page.keyboard.type("tile_sum", delay=20)
    search_result = page.locator("a[href*='tile_sum']")
    try:
        search_result.first.wait_for(timeout=10_000)
        search_result.first.click()
        page.wait_for_url("**/ops/reductions.html*", timeout=10_000)
    except Exception as error:
        yield f"search for tile_sum finds no page: {str(error).splitlines()[0]}"
    context.close()
    dark = browser.new_context(viewport=WIDE, color_scheme="dark").new_page()
    dark.goto((site / "index.html").as_uri())
    colour = dark.evaluate("getComputedStyle(document.body).backgroundColor")
    if sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(",")[:3])) > 200:
        yield f"the dark scheme has the background {colour}"
    narrow = browser.new_context(viewport=NARROW).new_page()
    narrow.goto((site / "index.html").as_uri())
    narrow.locator("label.md-header__button[for='__drawer']").first.click()
    narrow.locator(".md-nav--primary").first.wait_for(state="visible")


def main(site: Path) -> int:
    """Print the faults of a site. Returns 1 if the site has faults."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        print("Chromium is needed: apt install chromium, or set CHROMIUM to the path of its program")
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        messages = list(faults(site, browser))
        browser.close()
    print("\n".join([*messages, f"{len(pages(site))} pages, {len(messages)} faults"]))
    return int(bool(messages))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()))
