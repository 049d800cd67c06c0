"""Makes `agreement` importable under every import mode."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def without_optimisations(unoptimised: None) -> None:
    """Compile without optimisations, see the fixture `unoptimised`; `run.py test --v3` compiles with optimisations."""
