"""Runs the blocks of code of the README and of the pages of docs/.

Usage: python tools/pages.py [--update] [PAGE...]       all pages by default; --update: write what blocks print or raise

The blocks of a page run from top to bottom in one namespace, at their line numbers in the page. The first line of a
block states its kind:

    python          runs; it must print the `text` after it, or nothing
    python error    must raise; the `text` after it is the message
    python gpu      runs on a GPU; without one, with a driver that compiles for sm_90a and computes nothing, so that
                    `assert` and `text` count only on a GPU
    python other    code of another library, for comparison: it must be Python and is not run
    console         commands after "$ ", with their output: run in a new folder with an empty kernel cache
    console install commands that install: run by the test of the wheel alone
    text            what the block before it prints or raises
    python file F, text file F      lines of file F of the repository, which other tests run

A `python` block whose first line is a comment with a file name, `# first.py`, is also written to this file for the
commands of the page. In the output of commands a line "..." stands for any lines. `<!-- needs: torch -->` on a page
names packages without which its blocks are only parsed."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
KINDS = ("python", "python error", "python gpu", "python other", "console", "console install", "text")
FILES = ("python file", "text file")
FENCE = re.compile(r"( *)```(.*)")
FILE = re.compile(r"# (\w+\.py)\n")
NEEDS = re.compile(r"<!-- needs: ([\w, ]+) -->")
SECONDS = 300
THREADED = {"torch", "jax"}


@dataclass
class Block:
    """A block of code of a page. `line`: the line of its first line in the page; `kind`: the text of its fence;
    `file`: the file that it is a part of."""

    line: int
    kind: str
    text: str
    file: str = ""


@dataclass
class Outcome:
    """The outcome of a page's blocks. `printed`: the actual output by the line of the block that shows it; `faults`:
    the faults, each with its location."""

    printed: dict[int, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def pages() -> list[str]:
    """The paths of all pages in the repository."""
    return ["README.md", *sorted(p.relative_to(ROOT).as_posix() for p in DOCS.rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The blocks of a page, in order."""
    code_blocks: list[Block] = []
    lines = text.splitlines()
    open_block: tuple[int, str, str] | None = None
    for number, line in enumerate(lines, 1):
        fence = FENCE.fullmatch(line)
        if fence is None:
            continue
        if open_block is None:
            open_block = number + 1, fence[2].strip(), fence[1]
            continue
        first, kind, indent = open_block
        body = "".join(f"{x.removeprefix(indent)}\n" for x in lines[first - 1 : number - 1])
        kind_parts = kind.rpartition(" ")
        code_blocks.append(
            Block(first, *((kind_parts[0], body, kind_parts[2]) if kind_parts[0] in FILES else (kind, body)))
        )
        open_block = None
    if open_block is not None:
        code_blocks.append(Block(open_block[0], "a block without an end", ""))
    return code_blocks


def name_of(page: str) -> str:
    """The name of a page in messages: its path in docs/."""
    return page.removeprefix("docs/")


class PageRun:
    """The run of a page's blocks."""

    def __init__(self, page: str, folder: Path) -> None:
        self.page, self.folder = page, folder
        self.names: dict[str, Any] = {"__name__": Path(page).stem}
        self.outcome = Outcome()
        self.previous: tuple[Block, str] | None = None
        """The preceding block and its output or error, if a `text` block may show it."""
        self.simulated = False

    def run(self, page_blocks: Sequence[Block]) -> Outcome:
        """Run blocks in order, up to the first that fails with an exception."""
        for block in page_blocks:
            try:
                self._run_block(block)
            except Exception:
                self._fault(block, _traceback(self.page))
                return self.outcome
        self._check_output(None)
        return self.outcome

    def _run_block(self, block: Block) -> None:
        if block.kind == "text":
            self._text(block)
            return
        self._check_output(None)
        match block.kind:
            case "python file" | "text file":
                if block.text not in (ROOT / block.file).read_text(encoding="utf-8"):
                    self._fault(block, f"{block.file} has no such lines")
            case "python":
                name = FILE.match(block.text)
                if name is not None:
                    (self.folder / name[1]).write_text(block.text, encoding="utf-8")
                self.previous = block, self._python(block)
            case "python error":
                try:
                    self._python(block)
                    self._fault(block, "this raises no error")
                except Exception as error:
                    self.previous = block, f"{error}\n"
            case "python gpu":
                on_gpu = self._on_gpu()
                printed = self._python(block, optimize=-1 if on_gpu else 1)
                self.previous = (block, printed) if on_gpu else None
            case "python other":
                ast.parse(block.text)
            case "console":
                self._console(block)
            case "console install":
                pass
            case _:
                self._fault(
                    block, f"{block.kind or 'a block without a kind'}: the kinds are {', '.join(KINDS)}"
                )

    def _python(self, block: Block, optimize: int = -1) -> str:
        name = name_of(self.page)
        text = "\n" * (block.line - 1) + block.text
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(text, name, "exec", dont_inherit=True, optimize=optimize), self.names)
        return printed.getvalue()

    def _text(self, block: Block) -> None:
        if self.previous is not None:
            self._check_output(block)
        elif not self.simulated:
            self._fault(block, "no block before this text prints or raises it")

    def _check_output(self, block: Block | None) -> None:
        """Compare the output of the previous block with the text block that follows it, if there is one."""
        previous, self.previous = self.previous, None
        if previous is None:
            return
        source, printed = previous
        if block is not None:
            self.outcome.printed[block.line] = printed
            if printed != block.text:
                self._fault(block, f"this is printed:\n{printed}")
        elif printed and source.kind != "python error":
            self._fault(source, f"the page does not show that this prints:\n{printed}")

    def _on_gpu(self) -> bool:
        """Whether there is a GPU; otherwise a simulated driver for sm_90a is installed, which does not execute
        kernels."""
        if self.simulated or _has_gpu():
            return not self.simulated
        from tegula.runtime.cuda import driver

        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "runtime"))
        from simulated_driver import SimulatedDriver

        simulated = SimulatedDriver(1)
        simulated.kernels = defaultdict(lambda: lambda *_: None, simulated.kernels)
        driver.install(simulated)
        self.simulated = True
        return False

    def _console(self, block: Block) -> None:
        output_lines: list[str] = []
        for command, expected in commands(block.text):
            completed = subprocess.run(
                ["bash", "-c", command],
                cwd=self.folder,
                env=environment(self.folder),
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            output_lines.append(
                f"$ {command}\n{expected if _matches(completed.stdout, expected) else completed.stdout}"
            )
            if completed.returncode:
                self._fault(block, f"{command} exits with {completed.returncode}:\n{completed.stdout}")
            elif output_lines[-1] != f"$ {command}\n{expected}":
                self._fault(block, f"{command} prints:\n{completed.stdout}")
        self.outcome.printed[block.line] = "".join(output_lines)

    def _fault(self, block: Block, message: str) -> None:
        self.outcome.faults.append(f"{self.page}:{block.line}: {message}")


def commands(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def environment(folder: Path) -> dict[str, str]:
    """The variables of a page's commands: this Python first on the PATH, an empty kernel cache, plain output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    cache = str(folder / "cache")
    undocumented_names = {"NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb"}
    return {**os.environ, "PATH": path, "TEGULA_CACHE_DIR": cache, **undocumented_names}


def _matches(printed: str, expected: str) -> bool:
    literal_parts = re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)
    return re.fullmatch("(?:.*\n)*?".join(map(re.escape, literal_parts)), printed) is not None


def _traceback(page: str) -> str:
    """The traceback of an exception from the page on."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_frame.f_code.co_filename != name_of(page):
        trace = trace.tb_next
    return "".join(traceback.format_exception(kind, error, trace)).rstrip()


def missing_packages(text: str) -> list[str]:
    """The packages that a page needs and that are not installed."""
    match = NEEDS.search(text)
    return [name for name in match[1].split(", ") if find_spec(name) is None] if match is not None else []


def outcome(page: str) -> Outcome:
    """Run a page in this process, whose state it changes."""
    text = (ROOT / page).read_text(encoding="utf-8")
    result = blocks(text)
    with tempfile.TemporaryDirectory() as folder:
        page_run = PageRun(page, Path(folder))
        if missing_packages(text):
            for block in result:
                if block.kind.startswith("python"):
                    ast.parse(block.text)
            result = [block for block in result if block.kind not in (*KINDS[:5], "text")]
        return page_run.run(result)


def outcome_in_child(page: str) -> Outcome:
    """Run a page in a forked process, or in a new one if this process uses a GPU, which forked processes cannot, or
    threads of another library, whose locks a forked process can wait for without end."""
    if not _has_gpu() and not THREADED & sys.modules.keys():
        return outcome_when_forked(page)
    command = [sys.executable, __file__, "--json", page]
    completed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if completed.returncode:
        return Outcome(faults=[f"{page}: the process ended with {completed.returncode}:\n{completed.stderr}"])
    return _decoded(completed.stdout)


def _has_gpu() -> bool:
    from tegula.runtime.cuda import driver

    try:
        driver.driver()
    except driver.Unavailable:
        return False
    return True


def outcome_when_forked(page: str) -> Outcome:
    """Run a page in a forked process, which cannot use a GPU that this process uses."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(read_end)
        with os.fdopen(write_end, "w") as stream:
            try:
                result = outcome(page)
            except BaseException:
                result = Outcome(faults=[f"{page}: {traceback.format_exc()}"])
            stream.write(_encoded(result))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    return _decoded(text) if text else Outcome(faults=[f"{page}: the process ended with {status}"])


def _encoded(page_outcome: Outcome) -> str:
    return json.dumps({"printed": list(page_outcome.printed.items()), "faults": page_outcome.faults})


def _decoded(text: str) -> Outcome:
    data = json.loads(text)
    return Outcome(dict(map(tuple, data["printed"])), data["faults"])


def update(page: str, page_outcome: Outcome) -> bool:
    """Write the outputs and errors of blocks into a page. Returns whether the page changed."""
    path = ROOT / page
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for block in reversed(blocks(text)):
        if block.line in page_outcome.printed and block.text:
            first, count = block.line - 1, len(block.text.splitlines())
            indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
            lines[first : first + count] = [
                indent + line for line in page_outcome.printed[block.line].splitlines(keepends=True)
            ]
    path.write_text("".join(lines), encoding="utf-8")
    return "".join(lines) != text


def main(arguments: Sequence[str]) -> int:
    """Run pages and print their faults. Returns 1 if a page has faults."""
    if arguments and arguments[0] == "--json":
        print(_encoded(outcome(arguments[1])))
        return 0
    requested_pages = [x for x in arguments if not x.startswith("--")] or pages()
    fault_count = 0
    for page in requested_pages:
        begin = time.perf_counter()
        result = outcome_in_child(page)
        if "--update" in arguments:
            for _ in range(3):  # added lines change the line numbers of later messages
                if not update(page, result):
                    break
                result = outcome_in_child(page)
        fault_count += len(result.faults)
        print("\n".join([f"{page}: {time.perf_counter() - begin:.1f} s", *result.faults]), flush=True)
    return int(fault_count > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
