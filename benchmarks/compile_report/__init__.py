"""The compile report: registers, instructions and other properties of the machine code of all timed GPU kernels."""
