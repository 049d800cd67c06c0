"""Writes the list of tests that are slow tests because they take long, from measured times.

    python -m pytest -m "not campaign" --cpu-times times.txt
    python tools/long_tests.py times.txt

Tests that were not measured stay as they are. Checks of the whole tree (tests/test_*.py) stay in the default run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.cpu_times import LONG_SECONDS, LONG_TESTS


def main(path: str) -> None:
    """Write the list."""
    pairs = (line.split(None, 1) for line in Path(path).read_text(encoding="utf-8").splitlines())
    measured = {name: float(seconds) for seconds, name in pairs if name.count("/") > 1}
    listed = {*LONG_TESTS.read_text(encoding="utf-8").splitlines()} if LONG_TESTS.exists() else set[str]()
    long = {name for name, seconds in measured.items() if seconds > LONG_SECONDS}
    LONG_TESTS.write_text(
        "".join(f"{name}\n" for name in sorted(long | listed - measured.keys())), encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
