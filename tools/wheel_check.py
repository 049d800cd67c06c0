"""Runs docs/start.md from the wheel, in a new environment without the source tree.

Usage: python tools/wheel_check.py [PYTHON...]        this Python by default, or the named ones

The wheel is built from a copy of the files that git tracks. The environment is made in a temporary folder, gets the
wheel with its extra `cli` and nothing else, and runs the page's blocks in another folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/start.md"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")


class StepFailed(Exception):
    """Raised if a step fails; the message is the step's output."""


def step(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """Run a command without environment variables that lead to the source tree. Returns the command's output."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    env = {**{k: v for k, v in os.environ.items() if k not in hidden}, **variables}
    completed = subprocess.run(
        [*map(str, command)], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if completed.returncode:
        raise StepFailed(f"{' '.join(map(str, command))}:\n{completed.stdout}")
    return completed.stdout


def wheel(to: Path) -> Path:
    """The wheel, built in a folder with only the files that git tracks."""
    files = step(
        ["git", "ls-files", "-z", "src", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"], ROOT
    )
    source = to / "source"
    for name in filter(None, files.split("\0")):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())
    step([sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", to, source], to)
    (result,) = to.glob("*.whl")
    return result


def check(python: str, wheel_path: Path, folder: Path) -> str:
    """Install the wheel for a Python and run the page. Returns the version of that Python."""
    venv, work_folder = folder / "venv", folder / "work"
    work_folder.mkdir()
    step([python, "-m", "venv", venv], folder)
    venv_python = venv / "bin" / "python"
    step([venv_python, *PIP, "install", f"{wheel_path}[cli]"], folder)
    runner = work_folder / "tools" / "pages.py"
    for name in (PAGE, "tools/pages.py", "tests/runtime/simulated_driver.py"):
        path = work_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((ROOT / name).read_bytes())
    module_path = step([venv_python, "-c", "import tegula; print(tegula.__file__)"], work_folder).strip()
    if not Path(module_path).is_relative_to(venv):
        raise StepFailed(f"tegula is imported from {module_path}")
    step([venv_python, runner, PAGE], work_folder, TEGULA_CACHE_DIR=str(folder / "cache"))
    step([venv / "bin" / "tegula", "doctor"], work_folder)
    return step([venv_python, "-c", "import platform; print(platform.python_version())"], work_folder).strip()


def main(pythons: Sequence[str]) -> int:
    """Check the wheel for each Python. Returns 1 if a check fails."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        wheel_path = wheel(Path(folder))
        for k, python in enumerate(pythons or [sys.executable]):
            python_folder = Path(folder) / str(k)
            python_folder.mkdir()
            try:
                print(
                    f"{wheel_path.name}: {PAGE} runs with Python {check(python, wheel_path, python_folder)}"
                )
            except StepFailed as error:
                failed += 1
                print(error)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
