"""Tests of this folder import the modules next to them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
