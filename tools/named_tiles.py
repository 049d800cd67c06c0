"""Runs generated programs about names of tiles in the interpreter, and on a device or lowered to the threads of a GPU,
and compares them with Python on NumPy arrays.

Usage: python tools/named_tiles.py [--first SEED] [--count N] [--shared PART] [--jobs N]
                                   [--lowered | --traced]

`--shared`: the fraction of tiles that are declared shared, from 0 to 1. `--lowered`: instead of compiling a program,
run its lowered form for a GPU in the interpreter, which detects data races; `--traced`: do not compile it. Prints the
failures, and the numbers of programs that were right or refused, by reason. Exits with 1 if there are failures."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
FAILED = "failed: "


def outcome(seed: int, shared: float, lowered: bool, traced: bool) -> str:
    """The outcome of a program: "right", a word for the error that refused it, or its failure."""
    sys.path[:0] = [str(TESTS / "semantics"), str(TESTS / "gpu_lowering")]
    from named_tiles import generate
    from run_named_tiles import compare, compare_lowered

    program = generate(seed, shared)
    try:
        return (compare_lowered(program, seed) if lowered else compare(program, not traced)) or "right"
    except Exception as error:
        text = "\n".join(program.texts)
        return f"{FAILED}{seed}: {type(error).__name__} {error}\n{text}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--shared", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--lowered", action="store_true")
    parser.add_argument("--traced", action="store_true")
    args = parser.parse_args()
    actual: Counter[str] = Counter()
    with ProcessPoolExecutor(args.jobs) as pool:
        run = partial(outcome, shared=args.shared, lowered=args.lowered, traced=args.traced)
        for result in pool.map(run, range(args.first, args.first + args.count), chunksize=20):
            if result.startswith(FAILED):
                print(result, flush=True)
            actual["failed" if result.startswith(FAILED) else result] += 1
    print(", ".join(f"{n} {outcome_word}" for outcome_word, n in actual.most_common()))
    return 1 if actual["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
