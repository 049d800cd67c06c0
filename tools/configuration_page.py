"""Writes docs/configuration.md and docs/cli.md from the switches of tg.config and the commands of the command line.

Usage: python tools/configuration_page.py"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from tegula.cli import main as command_line
from tegula.runtime import config
from tegula.runtime.config import CHOICES, Config

DOCS = Path(__file__).resolve().parent.parent / "docs"
CONFIGURATION = """# Configuration

<!-- Written by tools/configuration_page.py. -->

Which switches are there, and which environment variables?

`tg.config.NAME = value` takes effect at the next launch; an unknown name or a wrong value is an error.

```python
import tegula as tg

tg.config.mode = "debug"
assert tg.config.mode == "debug"
tg.config.mode = "release"
```

```python error
tg.config.mod = "debug"
```

```text
tg.config has no switch 'mod'; did you mean 'mode'?
```

| switch | default | values | meaning |
|---|---|---|---|
"""
VARIABLES = """
Environment variables, read when Tegula is imported:

| variable | switch, or meaning |
|---|---|
"""
MORE_VARIABLES = """| `TEGULA_NUM_THREADS` | the number of threads of CPU kernels; all cores of the process by default |
| `XDG_CACHE_HOME` | the folder in which the user's caches are; `~/.cache` by default |
| `CUDA_HOME`, `CUDA_PATH`, `PATH` | where ptxas is looked for |
"""
COMMANDS = """# Command line

<!-- Written by tools/configuration_page.py. -->

Which commands does `tegula` have? They need the extra `cli`: `pip install ".[cli]"` in a clone. `python -m tegula` is
the same program.
"""


def switches() -> Iterator[tuple[str, str, str]]:
    """The switches: name, the text of the default, and the description."""
    tree = ast.parse(inspect.getsource(Config)).body[0]
    assert isinstance(tree, ast.ClassDef)
    for node, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(following, ast.Expr) and node.value is not None:
            assert isinstance(node.target, ast.Name) and isinstance(following.value, ast.Constant)
            yield node.target.id, ast.unparse(node.value), " ".join(str(following.value.value).split())


def configuration() -> str:
    """The text of docs/configuration.md."""
    lines, variables = [CONFIGURATION], [VARIABLES]
    for name, default, text in switches():
        if name == "code":
            continue
        is_computed = default.startswith("field(")
        default_text = f"`{getattr(config.Config(), name)!r}`" if not is_computed else "see below"
        values = ", ".join(f'`"{x}"`' for x in CHOICES.get(name, ()))
        lines.append(f"| `{name}` | {default_text} | {values} | {text} |\n")
        variable = text.partition("From ")[2].partition(".")[0]
        if variable:
            variables.append(f"| `{variable}` | `{name}` |\n")
    return "".join([*lines, *variables, MORE_VARIABLES, "\nNext: [the command line](cli.md).\n"])


def commands(
    command: click.Command = command_line, name: str = "tegula"
) -> Iterator[tuple[str, click.Command]]:
    """The commands by their full names."""
    if isinstance(command, click.Group):
        for command_name, inner in command.commands.items():
            yield from commands(inner, f"{name} {command_name}")
    else:
        yield name, command


def command_page() -> str:
    """The text of docs/cli.md."""
    lines = [COMMANDS]
    for name, command in commands():
        words = [name, *(p.human_readable_name for p in command.params if isinstance(p, click.Argument))]
        lines += [f"\n## {name}\n\n`{' '.join(words)}`\n\n", f"{inspect.cleandoc(command.help or '')}\n"]
        options = [p for p in command.params if isinstance(p, click.Option)]
        if options:
            lines.append("\n")
        for p in options:
            default = f" Default: `{p.default}`." if p.show_default else ""
            lines.append(f"- `{' '.join(p.opts)}`: {p.help}{default}\n")
    lines.append("\n```console\n$ tegula --version\n...\n$ tegula cache info\n...\n```\n")
    lines.append("\nNext: [configuration](configuration.md).\n")
    return "".join(lines)


def all_pages() -> dict[str, str]:
    """The texts of the pages by file name."""
    return {"configuration.md": configuration(), "cli.md": command_page()}


if __name__ == "__main__":
    for page, text in all_pages().items():
        (DOCS / page).write_text(text, encoding="utf-8")
