"""Makes `agreement` and the modules of this folder importable under every import mode."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "semantics"))


@pytest.fixture(autouse=True)
def compile_without_optimisation(unoptimised: None) -> None:
    """Compile without optimisations, see `unoptimised`; `run.py test --v3` compiles as users do."""
