"""Makes the kernels of other test folders importable under every import mode."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "semantics", HERE.parent / "roles"):
    sys.path.insert(0, str(folder))
