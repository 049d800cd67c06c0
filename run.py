"""Runs Tegula from a fresh checkout that has only Python: sets up .venv from a lock file and runs a command.

Usage: python run.py COMMAND [ARGUMENTS]

demo    run the demonstration
test    lint, format check, types and the tests except slow ones; with arguments only pytest runs, which gets them
        --quick: style, and the tests that find most mistakes; --slow: the slow tests;
        --all: style, types, and all tests that CI runs on this processor, the slow ones too, in one run;
        --v3: the tests that run machine code, compiled for x86-64-v3 on any processor
check   lint, format check and types
fix     apply the automatic fixes of lint and format
interop the tests with PyTorch and JAX, in .venv-interop; arguments go to pytest
        --set-up: only make the environment
compat  the public tests of the language's tiles and its documented examples, whose package is downloaded: compares the
tests that pass with the list of tests that are known to pass; --help: its options docs    build the static site of
docs/ into build/site, in .venv-site
        --check: also check it in Chromium
install build the wheel, install it into a new environment and run docs/start.md from it
lock    write the lock files from pyproject.toml (needs uv, which gets the arguments: --find-links for PyTorch's CPU
builds)
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
INTEROP_VENV = ROOT / ".venv-interop"
SITE_VENV = ROOT / ".venv-site"
RUN_LOCK = ROOT / "requirements" / "run.lock"
DEV_LOCK = ROOT / "requirements" / "dev.lock"  # holds everything that RUN_LOCK holds, in the same versions
INTEROP_LOCK = ROOT / "requirements" / "interop.lock"  # for Python INTEROP_PYTHON on x86-64
SITE_LOCK = ROOT / "requirements" / "site.lock"
OLDEST, NEWEST = (3, 11), (3, 13)
INTEROP_PYTHON = (3, 11)
WORKERS = "2"
STYLE = (
    ("ruff", "check", "--output-format", "concise", "."),
    ("ruff", "format", "--check", "--output-format", "concise", "."),
)
PYTEST = ("pytest", "-n", WORKERS, "--dist", "worksteal")
GENERATED = "tests/generated/test_generated_programs.py"
NOT_SLOW = "not slow and not campaign"
DEFAULT = ("-m", f"{NOT_SLOW} and not v3")
ALL = ("-m", "not campaign and not v3")
QUICK = (
    *(f"tests/{folder}" for folder in ("ir", "passes", "lang", "interp", "errors", "gpu_lowering")),
    *("tests/check/test_corpus.py", f"{GENERATED}::test_a_few_generated_programs_match_the_interpreter"),
)
MACHINE_CODE = (
    *(f"tests/{folder}" for folder in ("codegen", "semantics", "guide", "stdlib", "roles", "kernels")),
    f"{GENERATED}::test_other_generated_programs_match_the_interpreter",
)
EACH_THIRD = ("--each", "3")
"""A sample of each test's parameter sets: all sets run for this processor, and few of them distinguish code for this
processor from code for another processor."""
TYPES = ("pyright", "--level", "error", "--pythonpath", str(VENV / "bin" / "python"))


class SetupError(Exception):
    """Raised if the environment cannot be made; the message has the reason and a remedy."""


def suitable_python(oldest: tuple[int, int], newest: tuple[int, int]) -> str | None:
    """This Python if its version is in the range, else another Python on the PATH."""
    if oldest <= sys.version_info[:2] <= newest:
        return sys.executable
    for minor in range(newest[1], oldest[1] - 1, -1):
        path = shutil.which(f"python3.{minor}")
        if path and subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0:
            return path
    return None


def state_of(lock: Path, venv: Path) -> str:
    """The hash of all inputs of an environment that is created from a lock file."""
    digest = hashlib.sha256(f"{sys.version} {venv}".encode())
    for path in (lock, ROOT / "pyproject.toml"):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stamp_of(venv: Path) -> Path:
    """The file with the hash of the inputs of a complete environment."""
    return venv / "installed"


def is_ready(*locks: Path, venv: Path = VENV) -> bool:
    """Whether an environment was completely installed from the current text of one of the lock files."""
    stamp = stamp_of(venv)
    return stamp.exists() and stamp.read_text() in [state_of(lock, venv) for lock in locks]


def environment(venv: Path) -> dict[str, str]:
    """The variables for child processes, without variables that would add other packages to the path, or make every
    process compile each module anew: the tests start dozens of processes."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_USER", "PIP_TARGET", "PIP_PREFIX")
    hidden += ("PYTHONDONTWRITEBYTECODE",)
    return {**{k: v for k, v in os.environ.items() if k not in hidden}, "VIRTUAL_ENV": str(venv)}


def quietly(step_name: str, venv: Path, command: list[str]) -> None:
    """Run a step of the set-up; its output is shown only if it fails."""
    completed = subprocess.run(
        command, cwd=ROOT, env=environment(venv), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if completed.returncode:
        lines = "\n".join(f"    {line}" for line in completed.stdout.strip().splitlines()[-20:])
        raise SetupError(f"{step_name} failed:\n{lines}")


def set_up(lock: Path, venv: Path = VENV) -> None:
    """Make an environment from a lock; every file that is installed is checked against its hash."""
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"Setting up {venv.name}: Python {version}, packages of {lock.relative_to(ROOT)} ...", flush=True)
    begin = time.monotonic()
    try:
        make_command = [sys.executable, "-m", "venv", "--clear", str(venv)]
        quietly("Making the virtual environment", venv, make_command)
    except SetupError as error:
        hint = "Debian and Ubuntu keep a part of it in a package of its own: apt install python3-venv"
        raise SetupError(f"{error}\n{hint}") from None
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += [
        "--no-input",
        "--no-deps",
        "--no-compile",
    ]  # most modules are never imported; others are compiled then
    packages = [*pip, "--require-hashes", "--only-binary=:all:", "-r", str(lock)]
    quietly("Installing the packages", venv, packages)
    install = [*pip, "--no-build-isolation", "--no-index", "--editable", str(ROOT)]
    quietly("Installing Tegula", venv, install)
    stamp_of(venv).write_text(state_of(lock, venv))
    print(f"Set up in {time.monotonic() - begin:.0f} s.", flush=True)


def located(command: tuple[str, ...], venv: Path) -> list[str]:
    """A command with the program of an environment."""
    return [str(venv / "bin" / command[0]), *command[1:]]


def run(*command: str, venv: Path = VENV) -> int:
    """Run a program of an environment, whose output is not captured. Returns the exit status."""
    return subprocess.call(located(command, venv), cwd=ROOT, env=environment(venv))


def demo(arguments: list[str]) -> int:
    if not is_ready(RUN_LOCK, DEV_LOCK):
        set_up(RUN_LOCK)
    # Idle threads of NumPy's matrix library spin on the cores that the next kernel is timed on, unless a variable
    # disables that.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    return run("tegula", "demo", *arguments)


def failing(*steps: tuple[str, ...], concurrent: tuple[tuple[str, ...], ...] = ()) -> int:
    """Run all steps, even if a step fails; 1 if any failed. `concurrent`: steps of one process each, started first, on
    the cores that the other steps leave idle; their output comes last."""
    failed: list[str] = []
    with tempfile.TemporaryFile("w+") as output:
        process_options = {
            "cwd": ROOT,
            "env": environment(VENV),
            "stdout": output,
            "stderr": subprocess.STDOUT,
        }
        processes = [(step, subprocess.Popen(located(step, VENV), **process_options)) for step in concurrent]
        for step in steps:
            print(f"== {' '.join(step)}", flush=True)
            if run(*step):
                failed.append(" ".join(step))
        for step, process in processes:
            print(f"== {' '.join(step)}", flush=True)
            if process.wait():
                failed.append(" ".join(step))
        output.seek(0)
        print(output.read(), end="", flush=True)
    for name in failed:
        print(f"Failed: {name}", flush=True)
    return 1 if failed else 0


def check(arguments: list[str]) -> int:
    if not is_ready(DEV_LOCK):
        set_up(DEV_LOCK)
    return failing(*STYLE, (*TYPES, *arguments))


# By the first argument: steps before the tests, steps concurrent with the tests, pytest's selection, and variables.
Steps = tuple[tuple[str, ...], ...]
TIERS: dict[str, tuple[Steps, Steps, tuple[str, ...], dict[str, str]]] = {
    "": (STYLE, (TYPES,), DEFAULT, {}),
    "--quick": (STYLE, (), ("-m", NOT_SLOW, *QUICK), {}),
    "--slow": ((), (), ("-m", "slow and not campaign"), {}),
    "--all": (STYLE, (TYPES,), ALL, {}),
    "--v3": (
        (),
        (),
        ("-m", f"machine_code and {NOT_SLOW}", *EACH_THIRD, *MACHINE_CODE),
        {"TEGULA_CPU": "x86-64-v3"},
    ),
}


def test(arguments: list[str]) -> int:
    if not is_ready(DEV_LOCK):
        set_up(DEV_LOCK)
    name, *further_arguments = arguments or [""]
    steps_before, concurrent, selection, variables = TIERS.get(name, ((), (), (name,), {}))
    os.environ.update(variables)
    return failing(*steps_before, (*PYTEST, *selection, *further_arguments), concurrent=concurrent)


def fix(arguments: list[str]) -> int:
    if not is_ready(DEV_LOCK):
        set_up(DEV_LOCK)
    return failing(("ruff", "check", "--fix", *arguments), ("ruff", "format", *arguments))


def interop(arguments: list[str]) -> int:
    if not is_ready(INTEROP_LOCK, venv=INTEROP_VENV):
        try:
            set_up(INTEROP_LOCK, INTEROP_VENV)
        except SetupError as error:
            hint = "PyTorch's builds for the CPU are not in the default index: tell pip their location with"
            raise SetupError(f"{error}\n{hint} PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL") from None
    if arguments == ["--set-up"]:
        return 0
    return run("pytest", "tests/interop", *arguments, venv=INTEROP_VENV)


def docs(arguments: list[str]) -> int:
    if not is_ready(SITE_LOCK, venv=SITE_VENV):
        set_up(SITE_LOCK, SITE_VENV)
    status = run("python", "tools/site_pages.py", venv=SITE_VENV)
    if status or arguments != ["--check"]:
        return status
    return run("python", "tools/site_check.py", venv=SITE_VENV)


def install(arguments: list[str]) -> int:
    """The wheel, in an environment with its dependencies alone."""
    if not is_ready(DEV_LOCK):
        set_up(DEV_LOCK)
    return run("python", "tools/wheel_check.py", *arguments)


def compat(arguments: list[str]) -> int:
    if not is_ready(RUN_LOCK, DEV_LOCK):
        set_up(DEV_LOCK)
    return run("python", "tests/compat", *arguments)


def lock(arguments: list[str]) -> int:
    uv = shutil.which("uv")
    if uv is None:
        raise SetupError("uv is needed to write the locks: pip install uv")
    common = [uv, "pip", "compile", "pyproject.toml", "--group", "build", "--generate-hashes", "--no-header"]
    common += ["--no-emit-index-url", "--no-emit-find-links", "--quiet", *arguments]
    universal = ["--universal", "--python-version", "{}.{}".format(*OLDEST)]
    pins = ["--constraint", str(DEV_LOCK.relative_to(ROOT))]
    for_one_python = [
        "--python-version",
        "{}.{}".format(*INTEROP_PYTHON),
        "--python-platform",
        "x86_64-manylinux_2_28",
    ]
    for path, options in (
        (DEV_LOCK, [*universal, "--extra", "dev"]),
        (RUN_LOCK, [*universal, "--extra", "cli", *pins]),
        (INTEROP_LOCK, [*for_one_python, "--group", "interop"]),
        (SITE_LOCK, [*universal, "--group", "site"]),
    ):
        command = [*common, *options, "--output-file", str(path.relative_to(ROOT))]
        if subprocess.call(command, cwd=ROOT):
            return 1
    return 0


COMMANDS = {
    "demo": demo,
    "test": test,
    "check": check,
    "fix": fix,
    "interop": interop,
    "compat": compat,
    "docs": docs,
    "install": install,
    "lock": lock,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        print((__doc__ or "").strip())
        return 0 if arguments and arguments[0] in ("-h", "--help") else 2
    oldest, newest = (INTEROP_PYTHON, INTEROP_PYTHON) if arguments[0] == "interop" else (OLDEST, NEWEST)
    python = suitable_python(oldest, newest)
    if python is None:
        required = "Python " + " to ".join("{}.{}".format(*v) for v in sorted({oldest, newest}))
        print(f"This needs {required}; this is {sys.version.split()[0]}, and the PATH has no other.")
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
