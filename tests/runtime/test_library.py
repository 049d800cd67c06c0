"""The standard library is imported only for names that are its own."""

from __future__ import annotations

import subprocess
import sys

from tegula.lang.capture import CONSTANTS
from tegula.ops import PUBLIC
from tegula.runtime.library import BOTH, library
from tegula.stdlib import FUNCTIONS
from tegula.types import DTYPES, NAMED_ELEMENTS


def test_the_names_of_both_are_listed():
    elsewhere = PUBLIC.keys() | DTYPES.keys() | NAMED_ELEMENTS.keys() | CONSTANTS.keys()
    assert FUNCTIONS.keys() & elsewhere == BOTH
    assert set(library()) == FUNCTIONS.keys()
    assert all(name in library() for name in FUNCTIONS)


def test_kernels_of_tile_functions_alone_do_without_it():
    text = """
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
print([m for m in sys.modules if m.startswith("tegula.stdlib")])
"""
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"
