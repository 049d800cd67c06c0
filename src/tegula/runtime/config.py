"""The switches of Tegula: `tg.config`."""

from __future__ import annotations

import os
from array import array
from typing import Any

from tegula.dataclass import dataclass, field, field_names
from tegula.errors import suggestion
from tegula.lang.decorators import known_module_option

LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR = 10, 20, 30, 40
"""Values of `log_level`, which is accepted without effect."""
CHOICES = {"mode": ("release", "debug"), "check_schedules": ("error", "warning")}
CODE = ("mode", "cpu_target", "ptxas", "check_schedules", "line_info")
"""The switches that affect generated code."""
_COMBINATIONS: dict[tuple[Any, ...], int] = {}
modes = array("q", [0, 0])
"""`code` and `block_dim`, for the machine code of launches; an invalid block size is stored as 0, for which every
launch fails."""


@dataclass(slots=True)
class Config:
    """The switches. A new value takes effect at the next launch; an unknown name or value is an error."""

    mode: str = "release"
    """"debug" checks indices and integer division at run time and reports the first violation; "release" does not."""
    cache_kernels: bool = True
    """Whether compiled kernels are stored on disk."""
    kernel_cache_dir: str | None = field(default_factory=lambda: os.environ.get("TEGULA_CACHE_DIR"))
    """The folder of the kernel cache; None: the user's cache directory. From TEGULA_CACHE_DIR."""
    cpu_target: str = field(default_factory=lambda: os.environ.get("TEGULA_CPU", "native"))
    """The processor that CPU kernels are compiled for: "native", "x86-64-v3", "x86-64-v4"; with "-O0" after it, as in
    "native-O0", kernels compile in half the time and run several times slower. From TEGULA_CPU."""
    ptxas: str | None = field(default_factory=lambda: os.environ.get("TEGULA_PTXAS"))
    """The compiler of PTX: the path of a ptxas, or "driver" for the driver's own; None: the first ptxas found, else the
    driver's. From TEGULA_PTXAS."""
    check_schedules: str = "error"
    """The reaction to a GPU kernel whose schedule is refuted or unproved: "error" refuses the kernel, "warning" only
    warns."""
    line_info: bool = field(default_factory=lambda: os.environ.get("TEGULA_LINE_INFO", "0") not in ("", "0"))
    """Whether GPU code has line information, the Python line of each instruction, for profilers, sanitizers and
    debuggers. The lines are part of the key of cached code. From TEGULA_LINE_INFO."""
    deterministic: bool = False
    """Whether gradients are summed in the same order in every run, even if the sums are slower."""
    block_dim: int = 256
    """The number of threads per block if neither the launch nor the kernel sets it."""
    code: int = field(default=0, init=False)
    """The number of the current combination of switches that affect generated code; read-only."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in field_names(Config) or name == "code":
            if not known_module_option(name):
                raise self._unknown(name)
            _accepted[name] = value
            return
        if name in CHOICES and value not in CHOICES[name]:
            raise ValueError(f"{name} must be one of {', '.join(CHOICES[name])}, got {value!r}")
        object.__setattr__(self, name, value)
        if name in CODE:
            code_switches = tuple(getattr(self, switch, None) for switch in CODE)
            object.__setattr__(self, "code", _COMBINATIONS.setdefault(code_switches, len(_COMBINATIONS)))
            modes[0] = self.code
        if name == "block_dim":
            modes[1] = value if type(value) is int and abs(value) < 2**63 else 0

    def __getattr__(self, name: str) -> Any:
        """The value of a switch that is accepted without effect: the assigned value, or None."""
        if name in field_names(Config):
            raise AttributeError(
                name
            )  # The switch has no value yet; a suggestion would take longer than the import.
        if not known_module_option(name):
            raise self._unknown(name)
        return _accepted.get(name)

    def _unknown(self, name: str) -> AttributeError:
        switches = (n for n in field_names(Config) if n != "code")
        return AttributeError(f"tg.config has no switch {name!r}; {suggestion(name, switches)}")


_accepted: dict[str, Any] = {"enable_cpu_blocks": True, "log_level": LOG_INFO}
"""The values of switches of other tile languages, which are accepted without effect: blocks of several threads always
run on CPUs, and there is no log."""
config = Config()
