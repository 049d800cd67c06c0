"""A worker process that compiles kernels: it reads jobs as lines of JSON and answers each job with a line, the error or
an empty text."""

from __future__ import annotations

import json
import os
import sys

from tegula.runtime.config import config
from tegula.tune.build import decode_job, run_job


def main() -> None:
    """Compile the jobs on standard input, one per line, and answer each with a line."""
    # Text that compilers print to standard output must not be read as an answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        job = decode_job(line)
        config.ptxas, config.line_info = job.ptxas, job.line_info
        print(json.dumps(run_job(job)), file=answers, flush=True)


if __name__ == "__main__":
    main()
