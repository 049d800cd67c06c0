"""Assembly of PTX text into machine code for GPUs: finds ptxas, runs ptxas, and reads the report.

Without ptxas the result is the PTX, for the driver's compiler. Linkers (nvJitLink, cuLink) are not used, because they
drop `setmaxnreg` and thus the register budgets of roles."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from importlib.util import find_spec
from math import prod
from threading import Thread
from typing import IO

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.errors import InternalError

with deferred_imports():
    from tempfile import TemporaryDirectory

    from tegula.backend.pressure import Pressure, register_pressure

TIMEOUT = 600
"""The time limit of a run of ptxas in seconds."""
STDIN, OPENED = "/dev/stdin", "/dev/fd/"
"""The path of a process's standard input, and the start of the paths of its open files."""

REGISTERS, THREADS, MAX_BLOCKS = 65536, 2048, 32
"""The registers, the threads and the maximum number of CTAs of an SM."""
MAX_REGISTERS = 255
"""The maximum number of registers of a thread."""
REGISTER_STEP = 8
"""The step in which the hardware allocates registers of a thread."""
WARP, SCHEDULERS = 32, 4
"""The threads of a warp, and the schedulers of an SM: each has a quarter of the registers, and of the warps."""
SHARED_BYTES, RESERVED_BYTES = 228 << 10, 1 << 10
"""The bytes of shared memory of an SM, and the bytes of each CTA that are reserved by the hardware."""
MIN_GAIN = 1.25
"""The minimum factor by which the number of resident CTAs grows with fewer registers."""
ENOUGH_WARPS, ENOUGH_SYNCHRONISED_WARPS = 24, 32
"""The numbers of resident warps with which a kernel is not assembled for more: one whose warps run separate blocks,
because it gains about 1 %, and one whose warps synchronise, because transforms gain nothing."""
LIKELY_FRACTION, POSSIBLE_FRACTION = 0.8, 0.7
"""The minimum parts of the registers that ptxas chooses without a limit: below `LIKELY_FRACTION` more than one further
CTA is not tried, and none for kernels whose warps run separate blocks; below `POSSIBLE_FRACTION` none is, because all
such kernels spill."""
PEAK_FRACTION, BETWEEN_FRACTION = 0.95, 0.85
"""How the pressure of the text is compared with registers (see `_is_enough`)."""

MIN_TILE_REGISTERS, OTHER_REGISTERS = 96, 32
"""In registers per thread: the minimum size of tiles for which the tiles determine the number of resident CTAs, and the
registers of such a kernel that do not hold tiles."""

LONG_BLOCK = 2500
"""The number of lines of LLVM's text above which a basic block is long (see `is_compiled_fast`)."""

_LABEL = re.compile(r"^\S+:\n", re.M)
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_MAX_THREADS = re.compile(r"^\.maxntid ([\d, ]+)\n", re.M)
_BARRIER = re.compile(r"^\t(?:bar|barrier)\.(?:cta\.)?sync", re.M)
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
# ptxas messages about slow or incorrect kernels.
_COMPLAINT = re.compile(
    r"\(C75\d\d\)|\bwarning\b|setmaxnreg ignored|serialized|Potential Performance Loss", re.I
)
# The message of a ptxas that is older than an option.
_UNKNOWN_OPTION = re.compile(r"[Uu]nknown option|[Uu]nrecogni[sz]ed option")
# The messages of a ptxas that is older than the architecture or the PTX version.
_TOO_OLD = re.compile(
    r"is not defined for option 'gpu-name'|[Uu]nsupported \.version|\.target.*not supported"
)


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code that the driver can load. `is_ptx`: the code is PTX that the driver compiles when loading, and the
    numbers are 0.

    `spill_bytes`: the bytes of spill stores and spill loads together. `shared_bytes`: static shared memory."""

    code: bytes
    is_ptx: bool
    registers: int = 0
    spill_bytes: int = 0
    shared_bytes: int = 0
    log: str = ""

    def sass(self) -> str:
        """The machine code as text; RuntimeError if neither cuobjdump nor nvdisasm is installed."""
        if self.is_ptx:
            raise RuntimeError("the driver compiles this kernel: install ptxas to print the machine code")
        return _disassemble(self.code)


class Complaint(InternalError):
    """Raised if ptxas compiled the code with a message that generated code must not cause."""


def compile_cubin(
    ptx: str,
    arch: str,
    configured: str | None = None,
    fast_compile: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> Cubin:
    """Compile PTX with the first ptxas that knows `arch`, or return the PTX if there is no ptxas.

    `configured`: the path of the only ptxas to use, or "driver" for none. `fast_compile`: without the slowest
    optimisations of ptxas, if it has the option; `meanwhile`: a function that is called while ptxas runs. InternalError
    if ptxas refuses the PTX; Complaint, a subclass, if it emits a message that generated code must not cause:
    serialised matmuls, ignored register budgets, any warning."""
    for program in candidates(configured):
        status, log, code = _run(program, ptx, arch, fast_compile, meanwhile)
        if fast_compile and status and _UNKNOWN_OPTION.search(log):
            status, log, code = _run(program, ptx, arch)
        if status == 0:
            check_log(log)
            return _read(code, log)
        if configured or not _TOO_OLD.search(log):
            raise InternalError(f"ptxas ({program}) refused the generated code:\n{log.strip()}")
    return Cubin(ptx.encode() + b"\0", is_ptx=True)


def fill_multiprocessor(
    cubin: Cubin,
    ptx: str,
    arch: str,
    threads: int,
    configured: str | None = None,
    shared_bytes: int = 0,
    pressure: Callable[[], Pressure] | None = None,
) -> Cubin:
    """The code reassembled for the maximum number of resident CTAs per SM without register spills. `threads`: the
    threads of a CTA, which may be fewer than the maximum; `shared_bytes`: the shared memory of a CTA; `pressure`: the
    function that returns the register pressure of the PTX, by default `register_pressure`.

    Memory-bound kernels gain from occupancy. The kernel is assembled at most once more, because ptxas takes as long as
    the rest of a compile: for the maximum number of CTAs that leaves a thread enough registers according to
    `_is_enough`, if that is `MIN_GAIN` times as many as are resident now. Code that spills is reassembled for the
    current number, and code of CTAs whose warps run separate blocks with `REGISTER_STEP` registers more, which costs
    few resident warps because launches choose the number of warps of a CTA."""
    if cubin.is_ptx:
        return cubin
    max_blocks = min(THREADS // threads, MAX_BLOCKS, SHARED_BYTES // (shared_bytes + RESERVED_BYTES))
    resident = min(max_blocks, _resident_blocks(cubin.registers, threads))
    if cubin.spill_bytes:
        # ptxas may spill although it uses fewer registers than a CTA can have, unless a number of CTAs is given: 14 KB
        # with 32 registers instead of 1 KB with 128.
        fits = cubin.registers < min(MAX_REGISTERS, _registers(1, threads)) and resident > 0
        limited = _for_blocks(ptx, arch, resident, threads, configured) if fits else cubin
        more_registers = (cubin.registers // REGISTER_STEP + 1) * REGISTER_STEP
        if limited.spill_bytes and more_registers <= MAX_REGISTERS and _holds_blocks_of_one_warp(ptx):
            limited = _with_registers(ptx, arch, more_registers, configured)
        return limited if limited.spill_bytes < cubin.spill_bytes else cubin
    pressure = pressure or partial(register_pressure, ptx)
    blocks = _likely_blocks(cubin.registers, ptx, threads, resident, max_blocks, pressure)
    limited = _for_blocks(ptx, arch, blocks, threads, configured) if blocks > resident else cubin
    return cubin if limited.spill_bytes else limited


def _likely_blocks(
    registers: int, ptx: str, threads: int, resident: int, max_blocks: int, pressure: Callable[[], Pressure]
) -> int:
    """The maximum number of resident CTAs, at least `MIN_GAIN` times as many, for which a kernel is likely not to
    spill; `resident` if no number is, or if these CTAs have enough warps. `registers`: the registers of a thread with
    `resident` CTAs; `pressure`: the function that returns the register pressure."""
    has_separate_warps = _holds_blocks_of_one_warp(ptx)
    resident_warps = resident * _warps(threads)
    if resident_warps >= ENOUGH_WARPS and has_separate_warps:
        return resident
    if resident_warps >= ENOUGH_SYNCHRONISED_WARPS and _BARRIER.search(ptx):
        return resident
    limits = {
        blocks: _registers(blocks, threads)
        for blocks in range(max_blocks, resident, -1)
        if blocks >= MIN_GAIN * resident
    }
    candidates = [
        blocks
        for blocks, limit in limits.items()
        if limit
        >= registers * (LIKELY_FRACTION if has_separate_warps or blocks > resident + 1 else POSSIBLE_FRACTION)
    ]
    return next((b for b in candidates if _is_enough(limits[b], registers, pressure())), resident)


def _is_enough(limit: int, registers: int, pressure: Pressure) -> bool:
    """Whether `limit` registers of a thread are likely to be enough for a kernel for which ptxas chooses `registers`
    without a limit: if the values of the text need no more, or nearly no more. If the text needs more than
    `registers`, ptxas has found a better order of statements, and the pressure between basic blocks is compared."""
    if limit >= pressure.peak * PEAK_FRACTION:
        return True
    is_reordered = pressure.peak > registers
    return is_reordered and limit >= max(pressure.between, registers * BETWEEN_FRACTION)


def _registers(blocks: int, threads: int) -> int:
    """The registers of a thread with `blocks` resident CTAs of `threads` threads, whose warps the schedulers share."""
    warps = -(-blocks * _warps(threads) // SCHEDULERS)
    return REGISTERS // (SCHEDULERS * WARP * warps) // REGISTER_STEP * REGISTER_STEP


def _resident_blocks(registers: int, threads: int) -> int:
    """The number of CTAs of `threads` threads for which the registers of an SM suffice."""
    allocated = -(-registers // REGISTER_STEP) * REGISTER_STEP
    return REGISTERS // (SCHEDULERS * WARP * allocated) * SCHEDULERS // _warps(threads)


def _warps(threads: int) -> int:
    return -(-threads // WARP)


def _for_blocks(ptx: str, arch: str, blocks: int, threads: int, configured: str | None) -> Cubin:
    """The code of a kernel with so few registers that `blocks` CTAs of `threads` threads can be resident."""

    def limited(declared: re.Match[str]) -> str:
        # `.minnctapersm` counts CTAs of the maximum size.
        if prod(int(n) for n in declared[1].split(",")) == threads:
            return f"{declared[0]}.minnctapersm {blocks}\n"
        return f"{declared[0]}.maxnreg {min(_registers(blocks, threads), MAX_REGISTERS)}\n"

    return compile_cubin(_MAX_THREADS.sub(limited, ptx, count=1), arch, configured)


def _holds_blocks_of_one_warp(ptx: str) -> bool:
    """Whether the warps of a CTA run separate blocks: the second dimension of the CTA numbers the blocks."""
    declared = _MAX_THREADS.search(ptx)
    return declared is not None and "," in declared[1]


def _with_registers(ptx: str, arch: str, registers: int, configured: str | None) -> Cubin:
    """The code of a kernel whose threads have at most `registers` registers."""
    limit = f"\\g<0>.maxnreg {registers}\n"
    return compile_cubin(_MAX_THREADS.sub(limit, ptx, count=1), arch, configured)


def compile_for_occupancy(
    ptx: str,
    arch: str,
    threads: int,
    shared_bytes: int = 0,
    tile_registers: int = 0,
    configured: str | None = None,
    fast_compile: bool = False,
) -> Cubin:
    """The machine code of PTX. `threads`: the threads of a CTA if the kernel mostly waits for memory, so that fewer
    registers per thread let more CTAs be resident, else 0; their register pressure is computed while ptxas runs.
    `shared_bytes`: the shared memory of a CTA. `tile_registers`: the registers of tiles that each thread holds
    throughout. `fast_compile`: as for `compile_cubin`, unless registers are spilled then."""
    if threads and tile_registers >= MIN_TILE_REGISTERS:
        cubin = compile_resident(ptx, arch, threads, tile_registers, configured, shared_bytes)
        if cubin is not None:
            return cubin
    pressure = cache(partial(register_pressure, ptx)) if threads else None
    cubin = compile_cubin(ptx, arch, configured, fast_compile, pressure)
    if fast_compile and cubin.spill_bytes:
        cubin = compile_cubin(ptx, arch, configured)
    if not threads:
        return cubin
    return fill_multiprocessor(cubin, ptx, arch, threads, configured, shared_bytes, pressure)


def compile_resident(
    ptx: str,
    arch: str,
    threads: int,
    tile_registers: int,
    configured: str | None = None,
    shared_bytes: int = 0,
) -> Cubin | None:
    """The code of a kernel whose tiles occupy `tile_registers` registers of each thread for the whole kernel, assembled
    once, for the number of resident CTAs that leaves `OTHER_REGISTERS` registers for other values; None if this spills
    registers."""
    max_blocks = min(THREADS // threads, MAX_BLOCKS, SHARED_BYTES // (shared_bytes + RESERVED_BYTES))
    blocks = min(max_blocks, _resident_blocks(tile_registers + OTHER_REGISTERS, threads))
    cubin = _for_blocks(ptx, arch, blocks, threads, configured) if blocks else None
    return cubin if cubin is not None and not cubin.is_ptx and not cubin.spill_bytes else None


def is_compiled_fast(ir_text: str, waits_for_memory: bool) -> bool:
    """Whether the machine code of a kernel is generated without the slowest optimisations of ptxas, whose time grows
    faster than basic blocks: if the kernel mostly waits for memory, has no matmuls, and a block of more than
    `LONG_BLOCK` lines of LLVM's text."""
    if not waits_for_memory or "mma" in ir_text:
        return False
    lengths = (part.count("\n") for part in _LABEL.split(ir_text[ir_text.find("\ndefine ") :]))
    return max(lengths) > LONG_BLOCK


def has_lines(ptx: str) -> bool:
    """Whether PTX contains source line directives."""
    return "\t.loc\t" in ptx


def check_log(log: str) -> None:
    """Raise Complaint if the log of ptxas contains a message that generated code must not cause."""
    complaints = [line.strip() for line in log.splitlines() if _COMPLAINT.search(line)]
    if complaints:
        raise Complaint("ptxas complains about the generated code:\n" + "\n".join(complaints))


_started: ContextVar[_Started | None] = ContextVar("started", default=None)
"""The process that waits for the PTX of the compile in this context."""


@contextmanager
def started(
    arch: str, has_lines: bool, configured: str | None = None, fast_compile: bool = False
) -> Iterator[None]:
    """Start ptxas, which loads in 10 ms while the caller generates PTX, and reads the PTX of the first run in the
    `with` block. `has_lines`: whether the PTX will contain source line directives; `configured`, `fast_compile`: as
    for `compile_cubin`."""
    programs = candidates(configured)
    output = _memory_file() if programs and os.path.exists(STDIN) else None
    if output is None:
        yield
        return
    process = _Started(programs[0], arch, has_lines, fast_compile, output)
    token = _started.set(process)
    try:
        yield
    finally:
        _started.reset(token)
        process.end()


def _memory_file() -> int | None:
    """The descriptor of a new file in memory; None on systems without such files."""
    try:
        return os.memfd_create("kernel.cubin")
    except (AttributeError, OSError):
        return None


class _Started:
    """A process of ptxas that waits for the PTX on its standard input, and writes to an open file. The object closes
    the file."""

    def __init__(self, program: str, arch: str, has_lines: bool, fast_compile: bool, output: int) -> None:
        self.arguments, self.output = (program, arch, has_lines, fast_compile), output
        try:
            command = _command(*self.arguments, STDIN, f"{OPENED}{output}")
            self.process = _start(command, subprocess.PIPE, (output,))
        except BaseException:
            os.close(output)
            raise

    def end(self) -> None:
        """End the process if no run has used it."""
        if self.process.returncode is None:
            self.process.kill()
            self.process.communicate()
        os.close(self.output)


def _run(
    program: str,
    ptx: str,
    arch: str,
    fast_compile: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> tuple[int, str, bytes]:
    arguments = program, arch, has_lines(ptx), fast_compile
    waiting = _started.get()
    if waiting is not None and waiting.process.returncode is None and waiting.arguments == arguments:
        return _finished(waiting.process, f"{OPENED}{waiting.output}", ptx, meanwhile)
    with TemporaryDirectory(prefix="tegula-ptx-") as folder:
        source, output = os.path.join(folder, "kernel.ptx"), os.path.join(folder, "kernel.cubin")
        with open(source, "w") as file:
            file.write(ptx)
        return _finished(_start(_command(*arguments, source, output), None), output, None, meanwhile)


def _command(
    program: str, arch: str, has_lines: bool, fast_compile: bool, source: str, output: str
) -> list[str]:
    options = [
        *(["--generate-line-info"] if has_lines else []),
        *(["--Ofast-compile=min"] if fast_compile else []),
    ]
    return [program, "-v", f"--gpu-name={arch}", *options, "-o", output, source]


def _start(command: list[str], stdin: int | None, files: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    """Start a process that has these open files too."""
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=pipe, text=True, pass_fds=files)
    except OSError as error:
        raise InternalError(f"ptxas cannot be started: {error}") from error


def _finished(
    process: subprocess.Popen[str],
    output: str,
    source: str | None,
    meanwhile: Callable[[], object] | None,
) -> tuple[int, str, bytes]:
    """The exit status, the log and the code of a process that reads `source` from its standard input, if given."""
    try:
        if meanwhile is not None:
            _send(process, source)
            source = None
            meanwhile()
        printed, log = process.communicate(source, TIMEOUT)
    except BaseException as error:
        process.kill()
        process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise InternalError(f"ptxas did not finish within {TIMEOUT} seconds") from error
    return process.returncode, log + printed, _contents(output) if process.returncode == 0 else b""


def _send(process: subprocess.Popen[str], source: str | None) -> None:
    """Write a process's standard input, if the process has one, on another thread, which needs no interpreter."""
    stdin, process.stdin = process.stdin, None
    if stdin is not None:
        Thread(target=_write, args=(stdin, source or ""), daemon=True).start()


def _write(stdin: IO[str], source: str) -> None:
    # A process that has ended reads nothing. Its exit status says so.
    with suppress(BrokenPipeError), stdin:
        stdin.write(source)


def _contents(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read(code: bytes, log: str) -> Cubin:
    registers = max((int(n) for n in _REGISTERS.findall(log)), default=0)
    shared = max((int(n) for n in _SHARED.findall(log)), default=0)
    spills = sum(int(a) + int(b) for a, b in _SPILLS.findall(log))
    return Cubin(code, False, registers, spills, shared, log)


# Finding the programs ------------------------------------------------------------------------------------------------


def candidates(configured: str | None = None) -> list[str]:
    """The paths of usable ptxas programs in order of preference: the configured one, or the programs in CUDA_HOME,
    CUDA_PATH, PATH, /usr/local/cuda, the packages of the extra "offline", and Triton. FileNotFoundError if the
    configured path does not exist."""
    if configured == "driver":
        return []
    if configured:
        if not os.access(configured, os.X_OK):
            raise FileNotFoundError(f"tg.config.ptxas is {configured}, which does not exist")
        return [configured]
    return list(
        _assembler_paths("ptxas", *(os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "PATH")))
    )


def identity(configured: str | None = None) -> str:
    """The path, size and modification time of each usable ptxas: compiled code depends on these programs."""
    return " ".join(_program_identity(program) for program in candidates(configured)) or "driver"


def _program_identity(program: str) -> str:
    status = os.stat(program)
    return f"{program}:{status.st_size}:{status.st_mtime_ns}"


@cache
def _assembler_paths(name: str, cuda_home: str, cuda_path: str, path: str) -> tuple[str, ...]:
    """The paths of the program `name` in all folders, each file once. The environment variables are arguments, so that
    the cached result depends on them."""
    folders = [os.path.join(base, "bin") for base in (cuda_home, cuda_path) if base]
    on_path = [folder for folder in path.split(os.pathsep) if _is_program(folder, name)] if path else []
    folders += [*on_path[:1], "/usr/local/cuda/bin"]
    for root in _package_folders("nvidia"):
        toolkits = sorted((part for part in os.listdir(root) if part.startswith("cu")), reverse=True)
        folders += [os.path.join(root, part, "bin") for part in toolkits]
    folders += [os.path.join(root, "backends/nvidia/bin") for root in _package_folders("triton")]
    programs = (os.path.join(folder, name) for folder in folders if _is_program(folder, name))
    return tuple(dict.fromkeys(map(os.path.realpath, programs)))


def _is_program(folder: str, name: str) -> bool:
    """Whether a folder has a program of this name."""
    path = os.path.join(folder, name)
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _package_folders(package: str) -> list[str]:
    """The folders of an installed package, which is not imported."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    return [folder for folder in folders or () if os.path.isdir(folder)]


def version(program: str) -> str:
    """The release of a ptxas, such as "13.0"; "unknown" if ptxas does not print it."""
    try:
        completed = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    version_match = re.search(r"release ([\d.]+)", completed.stdout)
    return version_match[1] if version_match else "unknown"


# Disassembly ---------------------------------------------------------------------------------------------------------


def _disassemble(code: bytes) -> str:
    variables = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "PATH")]
    for name, options in (("cuobjdump", ["-sass"]), ("nvdisasm", ["-c"])):
        for program in _assembler_paths(name, *variables):
            return _disassemble_with(program, options, code)
    raise RuntimeError("printing machine code needs cuobjdump or nvdisasm: install the CUDA toolkit")


def _disassemble_with(program: str, options: Sequence[str], code: bytes) -> str:
    with TemporaryDirectory(prefix="tegula-sass-") as folder:
        path = os.path.join(folder, "kernel.cubin")
        with open(path, "wb") as file:
            file.write(code)
        completed = subprocess.run([program, *options, path], capture_output=True, text=True)
    if completed.returncode:
        raise RuntimeError(f"{program} failed: {completed.stderr.strip()}")
    return completed.stdout
