"""The oracle: an interpreter of the IR in NumPy, independent of all passes and of code generation.

Each block runs in masked lockstep. A scalar, vector or matrix value is an array [lanes, *element_shape];
control flow keeps a mask of active lanes; an op is executed for all active lanes before the next op starts.

Kernels lowered to the threads of a GPU block are interpreted with their layouts and allocations as data; accesses of
threads between barriers are then checked for races.
"""

from tegula.interp.launch import run, run_lowered
from tegula.interp.races import DataRace

__all__ = ["DataRace", "run", "run_lowered"]
