"""Makes the kernels of the checker's tests importable."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent):
    sys.path.insert(0, str(folder))
