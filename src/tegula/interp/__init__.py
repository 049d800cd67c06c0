"""The oracle: an interpreter of the IR in NumPy, independent of all passes and of code generation.

Each block runs in masked lockstep. A scalar, vector or matrix value is an array [lanes, *element_shape];
control flow keeps a mask of active lanes; an op is executed for all active lanes before the next op starts.
"""

from tegula.interp.launch import run

__all__ = ["run"]
