"""Builds the static site of docs/ with Zensical: `python run.py docs` runs it in an environment of its own.

Usage: python tools/site_pages.py [FOLDER]        FOLDER: the folder of the site, build/site by default

Pages are copied with fences that every renderer knows (`python error` becomes `python`), with links to pages that show
the examples, and without links to other files that are not part of the site. The site needs no server: index.html can
be opened as a file, and search works there too."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
NAV: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "start.md", "concepts.md", "faq.md"),
    "Tutorial": ("tutorial/*.md",),
    "What you know": ("coming-from-*.md",),
    "Cookbook": ("cookbook/index.md", "cookbook/*.md", "gallery.md"),
    "Language": (
        "constructs.md",
        "language.md",
        "values.md",
        "tiles.md",
        "threads.md",
        "cooperative.md",
        "semantics.md",
    ),
    "Functions of kernels": ("ops/index.md", "ops/*.md"),
    "Python": ("python.md", "arrays.md", "interop.md", "reference/index.md", "reference/*.md"),
    "Gradients and solvers": ("gradients.md", "gradient-checks.md", "linear-algebra.md", "spatial.md"),
    "Speed": (
        "performance.md",
        "tuning.md",
        "schedules.md",
        "roles.md",
        "roles-by-hand.md",
        "hopper.md",
        "checker.md",
        "verdicts.md",
    ),
    "Reference": ("errors.md", "accuracy.md", "configuration.md", "cli.md", "*.md"),
    "Decisions": ("design/*.md",),
}
"""The sections of the navigation, with the patterns of their pages; a page belongs to the first section that
matches."""
FENCE = re.compile(r"^( *```)(python|text|console) .*$", re.MULTILINE)
LINK = re.compile(r"\[([^\]\n]+)\]\(((?!https?:|#)[^)\s]+)\)")
SETTINGS = """[project]
site_name = "Tegula"
site_description = "A tile language embedded in Python, and its compiler"
docs_dir = "docs"
site_dir = "site"
use_directory_urls = false
nav = {nav}

[project.extra]
homepage = "index.html"

[project.theme]
language = "en"
font = false
features = [
  "content.code.copy", "navigation.footer", "navigation.indexes", "navigation.path", "navigation.top",
  "navigation.tracking", "search.highlight", "toc.follow",
]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"

[project.plugins.search]
[project.plugins.offline]

[project.markdown_extensions]
attr_list = {{}}
md_in_html = {{}}
tables = {{}}
toc.permalink = true
toc.slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
pymdownx.highlight.pygments_lang_class = true
pymdownx.inlinehilite = {{}}
pymdownx.superfences = {{}}
"""


REMOTE = re.compile(r'<script src="https://unpkg.com/iframe-worker/shim"[^>]*></script>')
"""The files that the generator loads from a server, so that search works in pages that are opened as files."""
WORKER = """// Browsers refuse workers in pages that are opened as files:
// the script of a worker runs in a frame of the page.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => {
        const event = new MessageEvent("message", { data: structuredClone(data) })
        setTimeout(() => {
          this.dispatchEvent(event)
          if (this.onmessage) this.onmessage(event)
        })
      }
      this.inside.importScripts = (...urls) => Promise.all(urls.map(each => this.load(each)))
      this.load(url).then(() => {
        this.ready = true
        this.waiting.forEach(data => this.postMessage(data))
      })
    }
    load(url) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script")
        script.src = new URL(url, location.href).href
        script.onload = done
        script.onerror = failed
        this.inside.document.body.appendChild(script)
      })
    }
    postMessage(data) {
      const copy = structuredClone(data)
      const deliver = () => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data: copy }))
      if (this.ready) setTimeout(deliver)
      else this.waiting.push(copy)
    }
    terminate() {}
  }
}
"""


def navigation(pages: list[str]) -> list[dict[str, object]]:
    """The navigation of pages: sections with their pages, in order."""
    remaining = dict.fromkeys(pages)
    results: list[dict[str, object]] = []
    for section, patterns in NAV.items():
        section_pages: list[object] = []
        for pattern in patterns:
            matching_pages = _matching(remaining, pattern)
            section_pages += [{title(page): page} for page in matching_pages]
            for page in matching_pages:
                del remaining[page]
        if section_pages:
            results.append({section: section_pages})
    assert not remaining, f"no section has {', '.join(remaining)}"
    return results


def _matching(pages: dict[str, None], pattern: str) -> list[str]:
    parts = pattern.count("/")
    return [page for page in pages if page.count("/") == parts and Path(page).match(pattern)]


def title(page: str) -> str:
    """The heading of a page."""
    match = re.search(r"^# (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    return (match[1] if match else page).replace("`", "")


def examples() -> list[Path]:
    """The files of examples/."""
    return sorted(EXAMPLES.glob("*.py"))


def page_of_example(example: Path) -> str:
    """The page that shows an example."""
    return f"examples/{example.stem}.md"


def rendered(page: str, site_files: set[Path]) -> str:
    """The text of a page for the generator."""
    text = (DOCS / page).read_text(encoding="utf-8")

    def link(match: re.Match[str]) -> str:
        target = ((DOCS / page).parent / match[2].partition("#")[0]).resolve()
        if target in examples():
            return f"[{match[1]}]({'../' * page.count('/')}{page_of_example(target)})"
        return match[0] if target in site_files else match[1]

    return LINK.sub(link, FENCE.sub(r"\1\2", text))


def prepare(folder: Path) -> None:
    """Write the input of the generator to a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))
    files = [p for p in DOCS.rglob("*") if p.suffix in (".md", ".svg", ".png")]
    for path in files:
        to = folder / "docs" / path.relative_to(DOCS)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
    for page in pages:
        (folder / "docs" / page).write_text(rendered(page, set(files)), encoding="utf-8")
    (folder / "docs" / "examples").mkdir()
    for path in examples():
        code = path.read_text(encoding="utf-8")
        page = f"# examples/{path.name}\n\n[Gallery](../gallery.md)\n\n```python\n{code}```\n"
        (folder / "docs" / page_of_example(path)).write_text(page, encoding="utf-8")
    nav = [*navigation(pages), {"Examples": [{path.name: page_of_example(path)} for path in examples()]}]
    (folder / "zensical.toml").write_text(SETTINGS.format(nav=_toml(nav)), encoding="utf-8")
    tomllib.loads((folder / "zensical.toml").read_text(encoding="utf-8"))


def _toml(value: object) -> str:
    """A value as text of TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(k)} = {_toml(x)}' for k, x in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def without_servers(site: Path) -> None:
    """Replace resources that pages would load from a server."""
    (site / "assets" / "javascripts" / "worker.js").write_text(WORKER, encoding="utf-8")
    for page in site.rglob("*.html"):
        path_to_root = "../" * (len(page.relative_to(site).parts) - 1)
        local = f'<script src="{path_to_root}assets/javascripts/worker.js"></script>'
        page.write_text(REMOTE.sub(local, page.read_text(encoding="utf-8")), encoding="utf-8")


def build(to: Path) -> int:
    """Build the site. Returns the status of the generator."""
    work = to.parent / "site-input"
    prepare(work)
    command = [str(Path(sys.executable).parent / "zensical"), "build", "--clean", "--strict"]
    status = subprocess.call(command, cwd=work)
    if status == 0:
        without_servers(work / "site")
        shutil.rmtree(to, ignore_errors=True)
        shutil.move(work / "site", to)
        print(f"{to / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "site").resolve()))
