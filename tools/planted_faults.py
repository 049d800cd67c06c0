"""Plants faults of one line in the source, one at a time, and prints which of them the tests catch.

A fault is a changed comparison, a number off by one, `and` for `or`, a dropped negation, branch or statement, at a
location of src/tegula that is drawn by the fault's number and the seed. It is planted in a copy of the checkout. The
tests that reach the location run, until a test fails: a run of all tests that are not slow, with probes at the
locations of all faults, determines these tests. `--every 3` runs a third of all tests for that, and adds the files of
the tests that were found. With `--all` tests of the same part of the source run first, then all others that are not
slow.

    python tools/planted_faults.py --count 30 --show                  prints the faults without running tests
    python tools/planted_faults.py --count 30 --jobs 2 --into FILE    adds outcomes to FILE, which keeps its outcomes
    python tools/planted_faults.py --count 30 --tests "tests/check -m slow"      other tests; may be repeated
    python tools/planted_faults.py --count 30 --caught FILE           faults caught in FILE; exits with 1 if one is not

A fault that does not change the program's behaviour counts as not caught."""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from reached_locations import Span, reaching_tests, with_probes

from tegula.dataclass import dataclass

ROOT = Path(__file__).resolve().parent.parent
TESTED_ELSEWHERE = {"torch.py", "jax.py"}
"""Files that only tests in other environments cover."""
FAST = "-m 'not slow and not campaign'"
MAX_TESTS, MAX_FILES, MAX_FOLDERS = 100, 6, 2
"""The maximum numbers of tests that reach a location, and of their files, which run with its fault; and of folders for
a location that no test reaches, or that cannot have a probe."""
RELATED = {
    "backend": ("backend", "runtime"),
    "check": ("check", "roles", "gpu_codegen"),
    "cli": ("test_cli.py",),
    "codegen": ("codegen", "semantics", "guide", "gpu_codegen", "roles"),
    "demo": ("test_cli.py",),
    "interp": ("interp", "semantics", "roles"),
    "kernels": ("kernels", "runtime"),
    "lang": ("lang", "errors", "semantics"),
    "ops": ("ir", "interp", "lang", "semantics", "gradients"),
    "passes": ("passes", "codegen", "gpu_lowering", "semantics", "gpu_codegen", "automatic", "gradients"),
    "runtime": ("runtime", "guide", "semantics", "errors", "gradients"),
    "stdlib": ("stdlib", "semantics", "gradients"),
    "tune": ("tune", "runtime"),
}
"""The tests to run first, by the part of the source; `ir`, `lang` and `errors` for other parts."""
REPLACED = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


@dataclass(frozen=True, slots=True)
class MutationSite:
    """A part of a file that may be replaced: lines, counted from 0, with byte offsets, and the replacements."""

    file: str
    line: int
    start: int
    end_line: int
    end: int
    replacements: tuple[str, ...]

    @property
    def span(self) -> Span:
        return self.line, self.start, self.end_line, self.end

    @property
    def is_statement(self) -> bool:
        """Whether a statement is dropped; other sites are expressions."""
        return self.replacements == ("pass",)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: the text of a file with one mutation site replaced."""

    number: int
    file: str
    line: int
    kind: str
    before: str
    after: str
    text: str


# Mutation sites ------------------------------------------------------------------------------------------------------


def mutation_sites(file: str, text: str) -> Iterator[tuple[str, MutationSite]]:
    """The mutation sites of a file's text, each with its kind of fault."""
    for node in _mutable_nodes(ast.parse(text)):
        for kind, replacements in _faults(node):
            assert isinstance(node, ast.expr | ast.stmt)
            replaced_node = node.test if isinstance(node, ast.If) else node
            assert replaced_node.end_lineno is not None and replaced_node.end_col_offset is not None
            if replaced_node.lineno == replaced_node.end_lineno or isinstance(replaced_node, ast.stmt):
                ends = replaced_node.end_lineno - 1, replaced_node.end_col_offset
                yield (
                    kind,
                    MutationSite(
                        file, replaced_node.lineno - 1, replaced_node.col_offset, *ends, tuple(replacements)
                    ),
                )


def _mutable_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes whose faults tests can detect: without annotations, messages, assertions and code for type checkers."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            skipped = isinstance(child, ast.JoinedStr | ast.Assert) or (
                isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            )
            if isinstance(child, ast.AST) and not skipped:
                yield from _mutable_nodes(child)


def _faults(node: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """The kinds of faults of a node, each with the texts that replace the node, or the condition of an `if`."""
    match node:
        case ast.Compare(left, [op], [right]):
            changed_comparisons = [
                ast.Compare(left, [replacement()], [right]) for replacement in REPLACED[type(op)]
            ]
            yield (
                "comparison changed",
                [f"({ast.unparse(replacement)})" for replacement in changed_comparisons],
            )
        case ast.Constant(bool(value)):
            yield "constant changed", [str(not value)]
        case ast.Constant(int(value)):
            yield "constant changed", [f"({value + 1})", f"({value - 1})"]
        case ast.BoolOp(op, values):
            replacement = ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            yield "and for or", [f"({ast.unparse(replacement)})"]
        case ast.UnaryOp(ast.Not(), operand):
            yield "negation dropped", [f"({ast.unparse(operand)})"]
        case ast.If():
            yield "branch dropped", ["False"]
        case ast.IfExp(_, body, orelse):
            yield "branch dropped", [f"({ast.unparse(body)})", f"({ast.unparse(orelse)})"]
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Continue():
            yield "statement dropped", ["pass"]
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement dropped", ["pass"]


@cache
def all_sites(source: Path) -> dict[str, list[MutationSite]]:
    """All mutation sites by kind of fault, in the order of files and lines."""
    by_kind: dict[str, list[MutationSite]] = {}
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        if name not in TESTED_ELSEWHERE:
            for kind, site in mutation_sites(name, path.read_text(encoding="utf-8")):
                by_kind.setdefault(kind, []).append(site)
    return by_kind


def drawn_fault(source: Path, seed: int, number: int) -> tuple[random.Random, str, MutationSite]:
    """The kind and the site of a number's fault, and the generator that draws its replacement."""
    rng = random.Random(f"{seed} {number}")
    by_kind = all_sites(source)
    kind = rng.choice(sorted(by_kind))
    return rng, kind, rng.choice(by_kind[kind])


def fault(source: Path, seed: int, number: int) -> Fault:
    """The fault of a number: draws a kind, a site of this kind and a replacement."""
    rng, kind, site = drawn_fault(source, seed, number)
    before = (source / site.file).read_text(encoding="utf-8")
    text = replaced(before, site, rng.choice(site.replacements))
    ast.parse(text)
    lines = [version.splitlines()[site.line].strip() for version in (before, text)]
    return Fault(number, site.file, site.line + 1, kind, *lines, text)


def replaced(text: str, site: MutationSite, replacement: str) -> str:
    """The text with a site replaced and the number of lines unchanged."""
    lines = text.encode().splitlines(keepends=True)
    last = lines[site.end_line]
    blank = b"\n" * (site.end_line - site.line)
    line = (
        lines[site.line][: site.start] + replacement.encode() + last[site.end :].rstrip(b"\n") + blank + b"\n"
    )
    return b"".join([*lines[: site.line], line, *lines[site.end_line + 1 :]]).decode()


# Outcomes of faults --------------------------------------------------------------------------------------------------


def commands(file: str, patterns: list[str]) -> list[list[str]]:
    """The arguments of each run of pytest."""
    if patterns:
        return [shlex.split(pattern) for pattern in patterns]
    part = file.partition("/")[0].removesuffix(".py")
    first = [f"tests/{name}" for name in RELATED.get(part, ("ir", "lang", "errors"))]
    fast = shlex.split(FAST)
    return [*([*fast, folder] for folder in first), [*fast, *(f"--ignore={folder}" for folder in first)]]


def with_files(tests: list[str], every: int) -> list[list[str]]:
    """The arguments of runs of tests that reach a location, and of their files if the tests are a sample."""
    files = [*dict.fromkeys(test.partition("::")[0] for test in tests)]
    return [
        tests[:MAX_TESTS],
        *([*shlex.split(FAST), file] for file in files[: MAX_FILES if every > 1 else 0]),
    ]


def tests_that_reach(options: argparse.Namespace, numbers: list[int]) -> dict[int, list[str]]:
    """For each fault the tests that reach its location."""
    with tempfile.TemporaryDirectory(prefix="tegula-reached-") as folder:
        copy = Checkout(options.checkout, Path(folder))
        source = copy.path / "src" / "tegula"
        spans_by_file: dict[str, dict[int, tuple[Span, bool]]] = {}
        for number in numbers:
            site = drawn_fault(options.checkout / "src" / "tegula", options.seed, number)[2]
            spans_by_file.setdefault(site.file, {})[number] = site.span, site.is_statement
        for file, spans in spans_by_file.items():
            text = (source / file).read_text(encoding="utf-8")
            (source / file).write_text(with_probes(text, spans), encoding="utf-8")
        return reaching_tests(copy.path, shlex.split(FAST), options.jobs, options.every)


class Checkout:
    """A copy of a checkout, for one process at a time."""

    def __init__(self, checkout: Path, into: Path) -> None:
        self.path = into
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=checkout, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (checkout / name).is_file():
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, into / name)

    def judged(self, planted: Fault, runs: list[list[str]], limit: float) -> str:
        """The test that caught a fault in a run of pytest with some arguments, or ""."""
        file = self.path / "src" / "tegula" / planted.file
        original = file.read_bytes()
        file.write_text(planted.text, encoding="utf-8")
        try:
            failure = (self._failure(arguments, limit) for arguments in runs)
            return next(filter(None, failure), "")
        finally:
            file.write_bytes(original)

    def _failure(self, arguments: list[str], limit: float) -> str:
        """The first test that fails in a run of pytest, or "" if all pass."""
        run = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.path / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CI": "1",
        }
        try:
            completed = subprocess.run(
                [*run, *arguments],
                cwd=self.path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {limit:.0f} s: {' '.join(arguments)}"
        if completed.returncode in (0, 5):  # all pass, or none is selected
            return ""
        failure = re.search(r"^(?:FAILED|ERROR) (.+?)(?= - |$)", completed.stdout, re.MULTILINE)
        return failure[1] if failure else f"{' '.join(arguments)} ended with {completed.returncode}"


def judge(
    numbers: list[int], options: argparse.Namespace, report_outcome: Callable[[Fault, str, float], None]
) -> None:
    """Judge faults, `options.jobs` at a time, and call `report_outcome` for each."""
    reached = {} if options.all or options.tests or not numbers else tests_that_reach(options, numbers)
    for number in numbers if reached else ():
        print(f"{number}: {len(reached.get(number, []))} tests reach it", flush=True)
    with tempfile.TemporaryDirectory(prefix="tegula-faults-") as folder:
        free_checkouts: SimpleQueue[Checkout] = SimpleQueue()
        for k in range(min(options.jobs, len(numbers))):
            free_checkouts.put(Checkout(options.checkout, Path(folder, str(k))))

        def judge_fault(number: int) -> None:
            checkout, start = free_checkouts.get(), time.monotonic()
            try:
                planted = fault(options.checkout / "src" / "tegula", options.seed, number)
                tests = reached.get(number, [])
                runs = with_files(tests, options.every) if tests else commands(planted.file, options.tests)
                runs = runs[:MAX_FOLDERS] if reached and not tests else runs
                report_outcome(
                    planted, checkout.judged(planted, runs, options.limit), time.monotonic() - start
                )
            finally:
                free_checkouts.put(checkout)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(judge_fault, numbers))


# The command ---------------------------------------------------------------------------------------------------------


def known_results(log: Path | None, seed: int) -> dict[int, str]:
    """The tests that caught the faults of a seed, by number, from a file of results."""
    if log is None or not log.exists():
        return {}
    rows = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    return {row["number"]: row["caught"] for row in rows if row["seed"] == seed}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first fault")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument(
        "--jobs", type=int, default=2, help="the number of concurrent faults, each on one core"
    )
    parser.add_argument("--tests", action="append", default=[], help="arguments of pytest")
    parser.add_argument("--all", action="store_true", help="run the tests of the same part, then all others")
    parser.add_argument(
        "--every",
        type=int,
        default=1,
        help="run each N-th of all tests to see which locations they reach",
    )
    parser.add_argument(
        "--limit", type=float, default=3600, help="the time limit of one run of pytest in seconds"
    )
    parser.add_argument("--into", type=Path, help="a file to add results to; its faults are not judged again")
    parser.add_argument("--caught", type=Path, help="judge only the faults that were caught in this file")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="another checkout, with its own tests")
    parser.add_argument("--show", action="store_true", help="print the faults without running tests")
    options = parser.parse_args()
    options.checkout = options.checkout.resolve()
    numbers = list(range(options.first, options.first + options.count))
    if options.caught:
        caught = known_results(options.caught, options.seed)
        numbers = [n for n in numbers if caught.get(n)]
    caught_by = {n: c for n, c in known_results(options.into, options.seed).items() if n in numbers}

    def report_outcome(planted: Fault, by: str, seconds: float) -> None:
        caught_by[planted.number] = by
        print(
            f"{described(planted)}\n    {'caught by ' + by if by else 'NOT CAUGHT'} ({seconds:.0f} s)",
            flush=True,
        )
        if options.into:
            row = {"seed": options.seed, "number": planted.number, "caught": by, "fault": described(planted)}
            with options.into.open("a") as file:
                file.write(json.dumps(row) + "\n")

    if options.show:
        for number in numbers:
            print(described(fault(options.checkout / "src" / "tegula", options.seed, number)))
        return 0
    judge([n for n in numbers if n not in caught_by], options, report_outcome)
    missed = sorted(n for n, test in caught_by.items() if not test)
    print(f"{len(caught_by) - len(missed)} of {len(caught_by)} caught; not caught: {missed or 'none'}")
    return int(bool(options.caught and missed))


def described(planted: Fault) -> str:
    heading = f"{planted.number}: {planted.file}:{planted.line}: {planted.kind}"
    return f"{heading}\n    - {planted.before}\n    + {planted.after}"


if __name__ == "__main__":
    sys.exit(main())
