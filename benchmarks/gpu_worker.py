"""The process that measures on a GPU.

    python -m benchmarks.gpu_worker '{"family": "gpu", "name_filter": "", "done": []}'

The process prints one line of JSON with the properties of the device and the names of its cases, then one line for each
case. A fault of the GPU ends the process; another process then continues with the remaining cases."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import Row, failed, version_of

MARK = "benchmark: "
"""The prefix of a line for the waiting process."""


def print_record(record: dict[str, Any]) -> None:
    print(MARK + json.dumps(record), flush=True)


def main(arguments: str) -> None:
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    request = json.loads(arguments)
    family_cases = FAMILIES[request["family"]]()
    alternatives = request["name_filter"].split("|")
    cases = {
        k: v
        for k, v in family_cases.items()
        if any(part in k for part in alternatives) and k not in request["done"]
    }
    print_record({"device": device(), "cases": list(cases)})
    for name, case in cases.items():
        rows = measure_case(name, case)
        print_record({"case": name, "rows": [row.json() for row in rows]})
        if any(row.failure for row in rows) and not is_alive():
            raise SystemExit("the device cannot be used any more in this process")


def sweep_cases() -> dict[str, Callable[[], Iterator[Row]]]:
    """The cases of the sweep."""
    from benchmarks.sweep import cases

    return cases.CASES


def peer_cases() -> dict[str, Callable[[], Iterator[Row]]]:
    """The cases that compare a kernel with a peer."""
    from benchmarks import (
        gpu_automatic,
        gpu_cases,
        gpu_gradients,
        gpu_latency,
        gpu_library,
        gpu_roles,
        gpu_spatial,
    )

    families = (gpu_cases, gpu_library, gpu_automatic, gpu_roles, gpu_gradients, gpu_latency, gpu_spatial)
    cases = {k: v for family in families for k, v in family.CASES.items()}
    return cases | gpu_cases.LAST | gpu_library.LAST


def dense_cases() -> dict[str, Callable[[], Iterator[Row]]]:
    """The cases of small matrices, transforms and sorts."""
    from benchmarks import gpu_dense

    return gpu_dense.CASES


FAMILIES = {"gpu": peer_cases, "sweep": sweep_cases, "dense": dense_cases}
"""The cases of each family of rows that need a GPU."""


def measure_case(name: str, case: Callable[[], Iterator[Row]]) -> list[Row]:
    """The rows of a case. If the case fails, the last row states the failure."""
    rows: list[Row] = []
    try:
        for row in case():
            rows.append(row)
    except Exception as error:
        frames = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
        rows.append(failed(name, f"{type(error).__name__}: {error} (at {', '.join(frames[-4:])})"))
    return rows


def is_alive() -> bool:
    """Whether the device can still be used."""
    import torch

    import tegula as tg

    try:
        torch.cuda.synchronize()
        tg.synchronize()
        return True
    except Exception:
        return False


def device() -> dict[str, Any]:
    """The device and the versions of the packages that were measured."""
    import torch

    from tegula.backend import ptx
    from tegula.runtime.cuda import driver

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "gpu_bytes": properties.total_memory,
        "driver_cuda": driver.version_text(),
        "ptxas": ptx.identity(),
        "torch": torch.__version__,
        "torch_cuda": torch.version.cuda,
        **{package: version_of(package) for package in ("triton", "cupy-cuda13x", "ml_dtypes")},
    }


if __name__ == "__main__":
    main(sys.argv[1])
