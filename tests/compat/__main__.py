"""Runs the public tile tests and the documented examples of the builtins with Tegula imported under the package's name.

One line for each test: passed, skipped (no device), or failed and why; then counts by file and cause, and the tests
that newly fail or pass, compared with passing.txt. Exits with 1 if a test newly fails.

    python run.py compat                 all tests, on the CPU; any error is the error that a test expects
    python run.py compat reduce          the files and tests whose name contains `reduce`
    python run.py compat --strict        also compares classes and words of errors
    python run.py compat --update        write the names that pass
    python run.py compat --device cuda:0 --jobs 12    on a GPU, compared with passing_cuda.txt
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import traceback
import unittest
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from functools import partial
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import tegula
from compat import harness, outcomes, package
from compat.alias import PACKAGE, install
from compat.examples import examples, test_case
from compat.isolation import isolated
from compat.outcomes import PASSED, SKIPPED, Outcome

EXAMPLES = "examples"
JOBS, LIMIT, LIMIT_OF_FILE = 2, 300.0, 7200.0

MESHES = ("bvh", "grouped_bvh", "mesh", "mesh_query_aabb", "mesh_query_point", "mesh_query_ray")
OTHER_FOLDERS = {
    **dict.fromkeys((*MESHES, "hash_grid"), "geometry"),
    "closest_point_edge_edge": "",
    "intersect": "",
}
"""Test files outside the folder of tiles, with their folders."""
LONGEST_CAUSE = 160
LOCATION_PREFIX = re.compile(r"^(\S+\.py:\d+:\d+: )?error\[[a-z-]+\]: ")
"""The beginning of an error's text, which repeats its class's name, and whose files and lines differ."""


def files(root: Path) -> list[str]:
    """The names of the test files without `test_`: files of tiles, other files, and the file of examples."""
    tests = root.joinpath(PACKAGE, "tests")
    stems = sorted(path.stem.removeprefix("test_") for path in tests.joinpath("tile").glob("test_*.py"))
    others = [
        name for name, folder in OTHER_FOLDERS.items() if tests.joinpath(folder, f"test_{name}.py").exists()
    ]
    return [*stems, *others, EXAMPLES]


def tests_of(file: str, root: Path, path: Path) -> Iterator[tuple[str, unittest.TestCase]]:
    """The tests of a file by name."""
    if file == EXAMPLES:
        for example in examples(root):
            yield f"{file}::{example.name}", test_case(example, path)
        return
    folder = OTHER_FOLDERS.get(file, "tile")
    module = import_module(".".join(filter(None, (PACKAGE, "tests", folder, f"test_{file}"))))
    for suite in unittest.defaultTestLoader.loadTestsFromModule(module):
        assert isinstance(suite, unittest.TestSuite)
        for test in suite:
            assert isinstance(test, unittest.TestCase)
            yield f"{file}::{test._testMethodName}", test


def outcome(test: unittest.TestCase) -> tuple[str, str, str]:
    """Runs a test and returns its state, the cause of a failure, and its location."""
    result = Recorder()
    with tegula.ScopedDevice(harness.chosen.device):
        test.run(result)
    if result.causes:
        return "failed", *result.causes[0]
    return (SKIPPED, result.skipped[0][1], "") if result.skipped else (PASSED, "", "")


class Recorder(unittest.TestResult):
    """A test result that keeps the last line of each failure's text."""

    def __init__(self) -> None:
        super().__init__()
        self.causes: list[tuple[str, str]] = []

    def addError(self, test: unittest.TestCase, err: object) -> None:
        self.record(err)

    def addFailure(self, test: unittest.TestCase, err: object) -> None:
        self.record(err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: object) -> None:
        if err is not None:
            self.record(err)

    def record(self, err: object) -> None:
        assert isinstance(err, tuple)
        self.causes.append(cause(err[1]))


def cause(error: BaseException) -> tuple[str, str]:
    """The reason why a test failed, in a line, and the line of the test file."""
    error = first_error(error)
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if f"/{PACKAGE}/" in frame.filename
    ]
    words = " ".join(line.strip() for line in LOCATION_PREFIX.sub("", str(error)).splitlines()[:3])
    return f"{type(error).__name__}: {words}"[:LONGEST_CAUSE], f"line {frames[-1].lineno}" if frames else ""


def first_error(error: BaseException) -> BaseException:
    """The error of the statement that should have bound a missing name, or the given error."""
    if not isinstance(error, NameError):
        return error
    *_, frame = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    missing = frame.f_globals.get("__failed__", {})
    return first_error(missing[error.name]) if error.name in missing else error


Work = tuple[str, Callable[[], tuple[str, str, str]]]
"""The name of a test, and a function that runs the test."""


def works_of(file: str, root: Path, path: Path, limit: float) -> list[Work]:
    """The tests of a file, each with a function that runs the test in a forked process. No process that has used a
    GPU can use the GPU after a fork, and to import a file can do so: with a GPU each test imports its file again."""
    if harness.chosen.device == harness.CPU:
        return [(name, partial(outcome, test)) for name, test in tests_of(file, root, path)]
    ((_, names, failure),) = isolated([(file, partial(names_of, file, root, path))], 1, limit)
    if failure:
        raise RuntimeError(failure)
    return [(name, partial(outcome_by_name, name, file, root, path)) for name in names]


def names_of(file: str, root: Path, path: Path) -> list[str]:
    """The names of the tests of a file."""
    return [name for name, _ in tests_of(file, root, path)]


def outcome_by_name(name: str, file: str, root: Path, path: Path) -> tuple[str, str, str]:
    """Runs the test of a file that has this name."""
    return outcome(dict(tests_of(file, root, path))[name])


def run_file(
    file: str, root: Path, options: argparse.Namespace, reasons: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """Runs the tests of a file, each in a separate process; prints a line for each."""
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        works = [
            work for work in works_of(file, root, Path(folder), options.limit) if options.pattern in work[0]
        ]
        for name, result, failure in isolated(works, options.jobs, options.limit):
            outcomes.append(Outcome(name, *(result or ("failed", failure or ""))))
            mark = f" (excluded: {reasons[name]})" if name in reasons else ""
            print(f"{outcomes[-1]}{mark}", flush=True)
    return [astuple(finished) for finished in outcomes]


def run(root: Path, options: argparse.Namespace, reasons: Mapping[str, str]) -> list[Outcome]:
    """Runs the tests whose name contains a pattern; a file that cannot be imported is one failed test."""
    install(root)
    file_suffix, in_file, _ = options.pattern.partition("::")
    selected = [file for file in files(root) if not in_file or file.endswith(file_suffix)]
    works = [(file, partial(run_file, file, root, options, reasons)) for file in selected]
    outcomes: list[Outcome] = []
    for file, results, failure in isolated(works, workers=1, limit=LIMIT_OF_FILE, silent=False):
        if results is None:
            results = [(f"{file}::(import)", "failed", failure or "")]
            print(Outcome(*results[0]), flush=True)
        outcomes += [Outcome(*result) for result in results]
    return outcomes


def main() -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="run.py compat", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("pattern", nargs="?", default="", help="only tests whose name contains this")
    parser.add_argument("--strict", action="store_true", help="compare the classes and words of errors")
    parser.add_argument("--update", action="store_true", help="write the names of the tests that pass")
    parser.add_argument("--device", default=harness.CPU, help="the device of the tests")
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many tests run at the same time")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for a test")
    parser.add_argument(
        "--package", type=Path, help="a directory with the package's files; otherwise downloaded"
    )
    parser.add_argument("--passing", type=Path, help="the file of names that pass, if not the one here")
    options = parser.parse_args()
    if not options.strict:
        harness.count_any_rejection()
    if options.device == harness.CPU:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    harness.chosen.device, harness.chosen.root = options.device, options.package or package.folder()
    reasons = outcomes.excluded(options.device)
    finished = outcomes.counted(run(harness.chosen.root, options, reasons), reasons)
    path = options.passing or outcomes.passing(options.device, options.strict)
    lost, gained = outcomes.compared(finished, outcomes.names_in_file(path), all_files=not options.pattern)
    print(outcomes.summary(finished))
    print(
        f"{sum(outcome.state == PASSED for outcome in finished)} of {len(finished)} pass; {len(lost)} lost, "
        f"{len(gained)} gained."
    )
    for change, names in (("lost", lost), ("gained", gained)):
        for name in names:
            print(f"{change}: {name}")
    if options.update:
        outcomes.write(path, (outcomes.names_in_file(path) - set(lost)) | set(gained))
        return 0
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
