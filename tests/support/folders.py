"""Properties of the tests of each folder. A folder that is missing here fails tests/test_structure.py."""

from __future__ import annotations

ON_ALL_DEVICES = "tests also run on a GPU if the machine has one, unless they are marked `cpu`"
ON_GPUS = "tests are marked `gpu` and are deselected without a GPU"
FOR_V3 = "tests that run machine code also run for x86-64-v3: `python run.py test --v3`"
NO_MACHINE_CODE = "no test runs machine code"

RULES: dict[str, set[str]] = {
    "algorithms": {ON_ALL_DEVICES},
    "automatic": set(),
    "backend": set(),
    "check": {NO_MACHINE_CODE},
    "codegen": {FOR_V3},
    "compat": set(),
    "docs": set(),
    "errors": set(),
    "examples": {ON_ALL_DEVICES},
    "generated": {ON_ALL_DEVICES},
    "gpu": {ON_GPUS},
    "gpu_codegen": set(),
    "gpu_lowering": set(),
    "gradients": {ON_ALL_DEVICES},
    "guide": {ON_ALL_DEVICES, FOR_V3},
    "interop": set(),
    "interp": {NO_MACHINE_CODE},
    "ir": {NO_MACHINE_CODE},
    "kernels": {ON_ALL_DEVICES, FOR_V3},
    "lang": set(),
    "passes": set(),
    "roles": {ON_ALL_DEVICES, FOR_V3},
    "runtime": set(),
    "semantics": {ON_ALL_DEVICES, FOR_V3},
    "spatial": {ON_ALL_DEVICES},
    "stdlib": {ON_ALL_DEVICES, FOR_V3},
    "tune": set(),
}


def follows(folder: str, rule: str) -> bool:
    return rule in RULES.get(folder, ())
