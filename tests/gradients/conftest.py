"""Makes the modules beside the tests, and those that run kernels in the interpreter, importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("semantics", "gpu_lowering"))]
