"""The standard library and other modules are imported only for kernels that need them."""

from __future__ import annotations

import os
import subprocess
import sys

from tegula.lang.capture import CONSTANTS
from tegula.ops import PUBLIC
from tegula.runtime.library import OPS_AND_FUNCTIONS, library
from tegula.stdlib import COMPOUND_FUNCTIONS, FUNCTIONS
from tegula.stdlib.tiles import DECLARED, PARTS
from tegula.types import DTYPES, NAMED_ELEMENTS


def test_names_in_both_library_and_package_are_listed():
    other_names = PUBLIC.keys() | DTYPES.keys() | NAMED_ELEMENTS.keys() | CONSTANTS.keys()
    assert FUNCTIONS.keys() & other_names == OPS_AND_FUNCTIONS
    tiles = {name for name in library() if name.startswith(("tile_", "_tile_"))}
    assert not COMPOUND_FUNCTIONS.keys() & (FUNCTIONS.keys() | other_names)
    assert set(library()) == FUNCTIONS.keys() | COMPOUND_FUNCTIONS.keys() | tiles
    assert not tiles & (FUNCTIONS.keys() | other_names) and DECLARED.keys() < tiles
    assert all(name in library() for name in (*FUNCTIONS, *COMPOUND_FUNCTIONS))


LAUNCH = """
import sys, tegula as tg
@tg.kernel(source='''
def doubled(a: tg.array[float]):
    t = tg.tile_load(a, 8)
    for k in range(a.shape[0]):
        t = t + t * tg.float32(k)
    tg.tile_store(a, t)
''')
def doubled(a: tg.array[float]):
    pass
tg.launch_tiled(doubled, 1, inputs=[tg.ones(8)], block_dim=32)
print(*sys.modules)
"""


def test_a_first_launch_loads_only_the_needed_modules(tmp_path):
    environment = {**os.environ, "TEGULA_CACHE_DIR": str(tmp_path)}
    modules = subprocess.run(
        [sys.executable, "-c", LAUNCH], capture_output=True, text=True, check=True, env=environment
    ).stdout
    loaded = set(modules.split())
    assert {"tegula.backend.llvm", "tegula.passes.pipeline"} <= loaded
    unneeded_packages = (
        "tegula.stdlib",
        "tegula.interp",
        "tegula.codegen.gpu",
        "tegula.runtime.cuda",
        "tegula.passes.gradient",
    )
    assert not [name for name in loaded if name.startswith(unneeded_packages)]
    assert loaded.isdisjoint({"ml_dtypes", "tegula.passes.pipeline_gpu", "tegula.passes.insert_barriers"})


FACTOR = """
import sys, tegula as tg
tg.kernels.cholesky(tg.array([[[4.0]]]))
print(*sys.modules)
"""


def test_a_function_of_the_library_loads_the_modules_that_it_calls(tmp_path):
    environment = {**os.environ, "TEGULA_CACHE_DIR": str(tmp_path)}
    modules = subprocess.run(
        [sys.executable, "-c", FACTOR], capture_output=True, text=True, check=True, env=environment
    ).stdout.split()
    loaded = {name.removeprefix("tegula.stdlib") for name in modules if name.startswith("tegula.stdlib")}
    assert loaded == {"", ".registry", ".tiles", ".tiles.cholesky", ".tiles.warps"}


def test_a_name_leads_to_all_overloads_of_a_function():
    tables = (FUNCTIONS, COMPOUND_FUNCTIONS, PARTS)
    for name, overloads in (item for table in tables for item in table.items()):
        assert [f.definition.function for f in library()[name].definitions] == overloads
