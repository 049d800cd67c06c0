"""Makes the module next to the tests importable."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def compiled_soon(unoptimised: None) -> None:
    """Compile without optimisations, see `unoptimised`; `run.py test --v3` compiles as users do."""
