"""Makes the module next to the tests importable, and kernels of tests that run elsewhere."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("roles", "semantics", "gpu_lowering"))]
