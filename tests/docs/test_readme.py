"""The programs in the README print the output that is shown there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

import tegula as tg

README = (Path(__file__).parent.parent.parent / "README.md").read_text()
PROGRAM = """import numpy as np
import tegula as tg

@tg.kernel
def double(x: tg.array2d[float], y: tg.array2d[float]):
    i, t = tg.tid()
    row = tg.tile_load(x[i], shape=64) * 2.0
    if x[i, t] > 1.0:
        tg.tile_store(y[i], row)


x = tg.zeros((4, 64))
tg.launch_tiled(double, dim=4, inputs=[x], outputs=[tg.zeros_like(x)], block_dim=64)
"""


def block(before: str, language: str = "") -> str:
    """The first block of code after a text."""
    found = re.search(rf"```{language}\n(.*?)```", README[README.index(before) :], re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.machine_code
def test_the_example(tmp_path: Path) -> None:
    program = tmp_path / "example.py"
    program.write_text(block("# Tegula", "python"))
    found = runpy.run_path(str(program))
    x = found["x"].numpy().astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found["y"].numpy(), e / e.sum(axis=1, keepdims=True), rtol=2e-6)


def test_the_error(tmp_path: Path) -> None:
    program = tmp_path / "kernel.py"
    program.write_text(PROGRAM)
    with pytest.raises(tg.CompileError) as refused:
        runpy.run_path(str(program))
    assert str(refused.value).replace(f"{tmp_path}/", "") + "\n" == block("<!-- error -->")


def test_every_dependency_is_explained() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text())["project"]
    extras = [
        p for name, packages in project["optional-dependencies"].items() if name != "dev" for p in packages
    ]
    table = README[README.index("## Dependencies") :]
    names = {re.split(r"[^\w-]", p)[0] for p in (*project["dependencies"], *extras)} - {"tegula"}
    assert names and all(re.search(rf"\| .*\b{name}\b.* \|", table) for name in names), names
