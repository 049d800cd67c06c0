"""Tegula from a fresh checkout, with nothing but Python: sets up .venv from a lock and runs what is asked for.

Usage: python run.py COMMAND [ARGUMENTS]

demo    run the demonstration
test    lint, format check, types and all tests; arguments go to pytest, which then runs alone
check   lint, format check and types
fix     repair what lint and format can repair themselves
lock    write the locks anew from pyproject.toml (needs uv)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed"
RUN_LOCK = ROOT / "requirements" / "run.lock"
DEV_LOCK = ROOT / "requirements" / "dev.lock"  # holds everything that RUN_LOCK holds, in the same versions
OLDEST, NEWEST = (3, 11), (3, 13)
WORKERS = "2"
STYLE = (
    ("ruff", "check", "--output-format", "concise", "."),
    ("ruff", "format", "--check", "--output-format", "concise", "."),
)
TYPES = ("pyright", "--level", "error", "--pythonpath", str(VENV / "bin" / "python"))


class SetupError(Exception):
    """The environment cannot be made; the message says why and what to do."""


def suitable_python() -> str | None:
    """This Python if its version is supported, else another one on the PATH."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return sys.executable
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-c", "import venv"], capture_output=True).returncode == 0:
            return found
    return None


def state_of(lock: Path) -> str:
    """What an environment made from a lock depends on."""
    digest = hashlib.sha256(f"{sys.version} {VENV}".encode())
    for path in (lock, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_ready(*locks: Path) -> bool:
    """Whether .venv was completely made from one of the locks as they are now."""
    return STAMP.exists() and STAMP.read_text() in [state_of(lock) for lock in locks]


def environment() -> dict[str, str]:
    """The variables for child processes, without those that would mix in other packages."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
    return {**{k: v for k, v in os.environ.items() if k not in hidden}, "VIRTUAL_ENV": str(VENV)}


def quietly(what: str, command: list[str]) -> None:
    """Run a step of the set-up; its output is shown only if it fails."""
    made = subprocess.run(
        command, cwd=ROOT, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if made.returncode:
        lines = "\n".join(f"    {line}" for line in made.stdout.strip().splitlines()[-20:])
        raise SetupError(f"{what} failed:\n{lines}")


def set_up(lock: Path) -> None:
    """Make .venv from a lock; every file that is installed is checked against its hash."""
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"Setting up .venv: Python {version}, packages of {lock.relative_to(ROOT)} ...", flush=True)
    begin = time.monotonic()
    try:
        quietly("Making the virtual environment", [sys.executable, "-m", "venv", "--clear", str(VENV)])
    except SetupError as error:
        hint = "Debian and Ubuntu keep a part of it in a package of its own: apt install python3-venv"
        raise SetupError(f"{error}\n{hint}") from None
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-input", "--no-deps"]
    quietly("Installing the packages", [*pip, "--require-hashes", "--only-binary=:all:", "-r", str(lock)])
    quietly("Installing Tegula", [*pip, "--no-build-isolation", "--no-index", "--editable", str(ROOT)])
    STAMP.write_text(state_of(lock))
    print(f"Set up in {time.monotonic() - begin:.0f} s.", flush=True)


def run(*command: str) -> int:
    """A program of .venv, with its output as it comes."""
    program = VENV / "bin" / command[0]
    return subprocess.call([str(program), *command[1:]], cwd=ROOT, env=environment())


def demo(arguments: list[str]) -> int:
    if not is_ready(RUN_LOCK, DEV_LOCK):
        set_up(RUN_LOCK)
    # Idle threads of NumPy's matrix library spin on the cores that the next kernel is timed on, unless told not to.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    return run("tegula", "demo", *arguments)


def failing(*steps: tuple[str, ...]) -> int:
    """Run all steps, whatever comes of each; 1 if any failed."""
    failed: list[str] = []
    for step in steps:
        print(f"== {' '.join(step)}", flush=True)
        if run(*step):
            failed.append(" ".join(step))
    for name in failed:
        print(f"Failed: {name}", flush=True)
    return 1 if failed else 0


def check(arguments: list[str]) -> int:
    if not is_ready(DEV_LOCK):
        set_up(DEV_LOCK)
    return failing(*STYLE, (*TYPES, *arguments))


def test(arguments: list[str]) -> int:
    if not is_ready(DEV_LOCK):
        set_up(DEV_LOCK)
    steps = [] if arguments else [*STYLE, TYPES]
    return failing(*steps, ("pytest", "-n", WORKERS, *arguments))


def fix(arguments: list[str]) -> int:
    if not is_ready(DEV_LOCK):
        set_up(DEV_LOCK)
    return failing(("ruff", "check", "--fix", *arguments), ("ruff", "format", *arguments))


def lock(arguments: list[str]) -> int:
    uv = shutil.which("uv")
    if uv is None:
        raise SetupError("uv is needed to write the locks: pip install uv")
    common = [
        uv,
        "pip",
        "compile",
        "pyproject.toml",
        "--group",
        "build",
        "--universal",
        "--python-version",
        "3.11",
    ]
    common += ["--generate-hashes", "--no-header", "--no-emit-index-url", "--quiet", *arguments]
    for extra, path in (("dev", DEV_LOCK), ("cli", RUN_LOCK)):
        pins = ["--constraint", str(DEV_LOCK.relative_to(ROOT))] if path != DEV_LOCK else []
        command = [*common, "--extra", extra, *pins, "--output-file", str(path.relative_to(ROOT))]
        if subprocess.call(command, cwd=ROOT):
            return 1
    return 0


COMMANDS = {"demo": demo, "test": test, "check": check, "fix": fix, "lock": lock}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        print((__doc__ or "").strip())
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    python = suitable_python()
    if python is None:
        wanted = f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
        print(f"Tegula needs {wanted}; this is {sys.version.split()[0]}, and the PATH has no other.")
        return 1
    if python != sys.executable:
        os.execv(python, [python, str(Path(__file__).resolve()), *arguments])
    if sys.platform != "linux":
        print("Tegula runs on Linux (x86-64 or aarch64).")
        return 1
    try:
        return COMMANDS[arguments[0]](arguments[1:])
    except SetupError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
