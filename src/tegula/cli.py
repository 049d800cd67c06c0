"""The command line: `tegula demo`, `tegula doctor`, `tegula check`, `tegula cache`.

Commands import what they need when they run, so that `tegula --help` answers at once."""

from __future__ import annotations

import sys
from importlib import metadata
from typing import TYPE_CHECKING, Any

try:
    import click
except ImportError:
    sys.exit("The command line needs the extra 'cli': pip install 'tegula[cli]'")

if TYPE_CHECKING:
    from rich.console import Console

    from tegula.backend.cache import Cache
    from tegula.runtime.kernel import Kernel


def _console() -> Console:
    from rich.console import Console

    return Console()


def _cache() -> Cache:
    from tegula.runtime.store import configured_cache

    return configured_cache()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tegula", message="%(prog)s %(version)s")
def main() -> None:
    """Tegula: a tile language embedded in Python, and its compiler."""


@main.command()
def demo() -> None:
    """Run tile kernels on this machine's devices and check each against NumPy."""
    from tegula.demo import run

    sys.exit(run(_console()))


@main.command()
def doctor() -> None:
    """Show versions, the processor compiled for, the kernel cache, CUDA devices and ptxas.

    Exits with 1 if kernels cannot run here."""
    from rich.table import Table

    target, usable = _cpu_target()
    table = Table(title="Tegula on this machine", title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    table.add_row("python", sys.version.split()[0])
    for package in ("tegula", "numpy", "llvmlite", "ml_dtypes", "nvidia-cuda-nvcc"):
        table.add_row(package, _version(package) or "[dim]not installed[/dim]")
    table.add_row("CPU target", target)
    cache = _cache()
    table.add_row("kernel cache", f"{cache.path} ({_cache_summary(cache)})")
    for row in _cuda_devices():
        table.add_row("CUDA", row)
    table.add_row("ptxas", _ptxas())
    _console().print(table)
    sys.exit(0 if usable else 1)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--target", default="sm_90a", show_default=True, help="The GPU generation.")
@click.option("--certificate", is_flag=True, help="Print the certificates of the proofs as JSON.")
@click.option(
    "--verify",
    type=click.Path(exists=True, dir_okay=False),
    help="Verify certificates printed by --certificate, without a proof search.",
)
def check(file: str, target: str, certificate: bool, verify: str | None) -> None:
    """Check the schedule of every kernel with roles in FILE, which is run as a module.

    Prints "proved" and the assumptions of the proof, which holds for all launches; or "unproved", with the reason and
    the number of launches that were explored for a fault. Exits with 1 if a fault is found or a schedule is beyond the
    search; with --verify if a certificate does not prove its kernel."""
    import json
    import runpy
    from pathlib import Path

    from tegula.errors import TegulaError
    from tegula.runtime.check import check_forms
    from tegula.runtime.kernel import Kernel

    kernels_found = (x for x in runpy.run_path(file).values() if isinstance(x, Kernel) and x.has_roles)
    kernels = list(dict.fromkeys(kernels_found))
    if certificate:
        click.echo(json.dumps([_certificates(kernel, target) for kernel in kernels], indent=1))
        return
    stored_certificates = (
        json.loads(Path(verify).read_text(encoding="utf-8")) if verify else [None] * len(kernels)
    )
    if len(stored_certificates) != len(kernels):
        raise click.ClickException(
            f"{verify} has certificates of {len(stored_certificates)} kernels, {file} has {len(kernels)}"
        )
    fault_count = 0
    for kernel, kernel_certificates in zip(kernels, stored_certificates, strict=True):
        try:
            if kernel_certificates is None:
                verdict = kernel.check(target=target)
                verdict.require()
                click.echo(f"{kernel.name}: {verdict.report()}")
                continue
            for arrays, verdict in check_forms(kernel, (), None, target, kernel_certificates["certificates"]):
                fault_count += not verdict.proved
                click.echo(f"{kernel.name}, {arrays} arrays: {verdict.report()}")
        except TegulaError as error:
            fault_count += 1
            click.echo(f"{kernel.name}: refused\n{error}")
    click.echo(f"{len(kernels)} checked, {fault_count} refused")
    sys.exit(1 if fault_count else 0)


def _certificates(kernel: Kernel, target: str) -> dict[str, Any]:
    """The certificates of a kernel, by the kind of its arrays."""
    import json

    from tegula.runtime.check import check_forms

    rows = check_forms(kernel, (), None, target)
    return {
        "kernel": kernel.name,
        "certificates": {arrays: json.loads(v.certificate) for arrays, v in rows if v.proved},
    }


@main.group()
def cache() -> None:
    """The kernels in the disk cache."""


@cache.command()
def info() -> None:
    """Show the folder and the size in bytes of the disk cache."""
    code_cache = _cache()
    click.echo(f"{code_cache.path}: {_cache_summary(code_cache)}")


@cache.command()
def clear() -> None:
    """Remove all compiled kernels from the disk cache; each is compiled again on its next use."""
    code_cache = _cache()
    count = code_cache.clear()
    click.echo(f"{code_cache.path}: removed {_kernel_count(count)}")


def _kernel_count(count: int) -> str:
    return f"{count} kernel{'' if count == 1 else 's'}"


def _cache_summary(cache: Cache) -> str:
    return f"{_kernel_count(len(cache.entries()))}, {cache.size() / 2**20:.1f} MiB"


def _cpu_target() -> tuple[str, bool]:
    """The processor that kernels are compiled for, or the reason why none is supported, and whether one is
    supported."""
    from rich.markup import escape

    from tegula.runtime.config import config
    from tegula.target import get_target

    try:
        target = get_target(config.cpu_target)
    except (ValueError, RuntimeError) as error:
        return f"[red]{escape(str(error))}[/red]", False
    return f"{target.name} ({target.triple}, {8 * target.vector_bytes}-bit vectors)", True


def _cuda_devices() -> list[str]:
    """The driver and one line per CUDA device, or the reason why there is none."""
    from rich.markup import escape

    from tegula.runtime.cuda.context import describe_devices
    from tegula.runtime.cuda.driver import Unavailable, version_text

    try:
        return [f"driver for CUDA {version_text()}", *(escape(line) for line in describe_devices())]
    except Unavailable as error:
        return [f"[dim]no devices: {escape(str(error))}[/dim]"]


def _ptxas() -> str:
    """The PTX compilers in the order of preference, with their versions."""
    from rich.markup import escape

    from tegula.backend.ptx import candidates, version
    from tegula.runtime.config import config

    try:
        assemblers = candidates(config.ptxas)
    except FileNotFoundError as error:
        return f"[red]{escape(str(error))}[/red]"
    lines = [escape(f"{path} ({version(path)})") for path in assemblers]
    return "\n".join(lines) or "[dim]not found; the driver's compiler is used[/dim]"
