"""The Python files of the public package, which hold the tests: downloaded once, read, and never installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LOCK = Path(__file__).parents[2] / "requirements" / "compat.lock"
"""The package's version and hash, for pip."""
PLATFORM = "manylinux_2_28_x86_64"
"""The platform of the wheel whose hash is pinned; its Python files are the same for all platforms."""


def folder() -> Path:
    """The directory of the package's Python files, which are downloaded if needed.

    Raises:
        RuntimeError: pip could not download the package.
    """
    pinned = LOCK.read_text()
    result = cache() / pinned.split()[0].replace("==", "-")
    stamp = result / "complete"
    if not (stamp.exists() and stamp.read_text() == pinned):
        shutil.rmtree(result, ignore_errors=True)
        with tempfile.TemporaryDirectory() as downloads:
            unpack(download(Path(downloads)), result)
        stamp.write_text(pinned)
    return result


def cache() -> Path:
    """The user's cache directory for the package."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tegula-compat"


def download(into: Path) -> Path:
    """Downloads the wheel, checked against its hash."""
    print(f"Downloading {LOCK.read_text().split()[0]} ...", flush=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    pip += [
        "--require-hashes",
        "--only-binary=:all:",
        "--platform",
        PLATFORM,
        "-r",
        str(LOCK),
        "-d",
        str(into),
    ]
    completed = subprocess.run(pip, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if completed.returncode:
        raise RuntimeError(f"the package with the tests could not be downloaded:\n{completed.stdout.strip()}")
    (wheel,) = into.glob("*.whl")
    return wheel


def unpack(wheel: Path, into: Path) -> None:
    """Writes the Python files of a wheel into a directory."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(into, [name for name in archive.namelist() if name.endswith(".py")])
