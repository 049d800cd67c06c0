"""Makes the modules next to the tests, and `agreement`, importable under every import mode."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
OTHER_FOLDERS = ("semantics", "gpu_lowering", "gpu_codegen")
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in OTHER_FOLDERS)]
