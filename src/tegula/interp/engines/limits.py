"""The limits of a block: registers that warp groups release and acquire, counts of barriers, and separate bytes for
each barrier."""

from __future__ import annotations

from itertools import combinations

from tegula.interp.engines.trace import InvalidLaunch
from tegula.interp.lowered import BlockDistribution
from tegula.ir import Kernel
from tegula.ops.roles import WARP_GROUP, Roles
from tegula.ops.schedule import MbarrierExpect, MbarrierNew
from tegula.types import MbarrierType

MAX_COUNTED = (1 << 20) - 1
REGISTER_FILE, MIN_REGISTERS, MAX_REGISTERS, REGISTER_STEP = 65536, 24, 256, 8
"""The number of registers of an SM; the minimum, the maximum and the granularity of registers per thread. PTX ISA,
"setmaxnreg"."""


def check_limits(kernel: Kernel, distribution: BlockDistribution) -> None:
    """Check the limits; raises Wrong if the hardware would reject the kernel, or deadlock."""
    for op in kernel.walk():
        if isinstance(op, MbarrierNew) and not 0 < op.arrivals <= MAX_COUNTED:
            raise InvalidLaunch("budget", f"{op.result.name} counts {op.arrivals} arrivals")
        if isinstance(op, MbarrierExpect) and not 0 <= op.bytes <= MAX_COUNTED:
            raise InvalidLaunch("budget", f"{op.bytes} bytes are announced")
    barriers = [(v, p) for v, p in distribution.allocations.items() if isinstance(v.type, MbarrierType)]
    for (a, p), (b, q) in combinations(barriers, 2):
        if p.offset < q.offset + q.size and q.offset < p.offset + p.size:
            raise InvalidLaunch("barrier", f"{a.name} and {b.name} are the same memory")
    for op in kernel.body.ops:
        if isinstance(op, Roles):
            _registers(op, distribution.threads)


def _registers(roles: Roles, threads: int) -> None:
    """Check the register budgets of roles: a warp group whose budget exceeds its initial registers waits until other
    warp groups have released enough."""
    budgets: dict[int, int] = {}
    for (first, warps), n in zip(roles.warps, roles.registers, strict=True):
        if n and not (MIN_REGISTERS <= n <= MAX_REGISTERS and n % REGISTER_STEP == 0):
            raise InvalidLaunch("budget", f"setmaxnreg does not accept {n} registers")
        for group in range(first // 4, (first + warps + 3) // 4):
            if n and budgets.setdefault(group, n) != n:
                raise InvalidLaunch(
                    "budget", f"warps of one warp group request {budgets[group]} and {n} registers"
                )
    if not budgets:
        return
    groups = -(-threads // WARP_GROUP)
    start = min(255, REGISTER_FILE // threads) // REGISTER_STEP * REGISTER_STEP
    free = sum(
        start - budgets.get(g, MIN_REGISTERS) for g in range(groups) if budgets.get(g, MIN_REGISTERS) <= start
    )
    extra = sum(n - start for n in budgets.values() if n > start)
    if extra > free:
        raise InvalidLaunch(
            "deadlock", f"warp groups wait for {extra} registers a thread, of which others free {free}"
        )
