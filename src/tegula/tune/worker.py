"""A process that compiles kernels for another: jobs come as lines of JSON, what is wrong with each goes back."""

from __future__ import annotations

import json
import os
import sys

from tegula.runtime.config import config
from tegula.tune.build import decoded, done


def main() -> None:
    """Compile the jobs that come as lines of text, and answer each with a line."""
    # What compilers print must not be taken for an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        job = decoded(line)
        config.ptxas, config.line_info = job.ptxas, job.line_info
        print(json.dumps(done(job)), file=answers, flush=True)


if __name__ == "__main__":
    main()
