"""Loops whose trip counts are quotients by numbers that are known at launch only."""

import tegula as tg
from support.campaigns import sampled

BOUNDS = [
    "n // m",
    "(n + 1) // m",
    "n // (m + 1)",
    "n // m // 2",
    "n // 2 // m",
    "(n // m + 1) // 4",
    "n % m",
    "n - n // m * m",
]
BOUNDS += [
    "n // m + m // n",
    "tg.min(n // m, 3)",
    "(n + 7) // 8",
    "n / m",
    "-(-n // m)",
    "n // -2",
    "n // (m - m)",
]


@sampled(4, "bound", BOUNDS)
def test_schedules_with_unknown_divisors_get_a_verdict(bound: str) -> None:
    """The checker returns a verdict or raises an error that names the line; no internal error."""
    text = (
        "def kernel(x: tg.array1d[float], y: tg.array1d[float], n: int, m: int):\n"
        "    pipe = tg.tile_pipe(shape=(8,), dtype=float, stages=2)\n"
        "    with tg.ws(0):\n"
        f"        for q in range({bound}):\n"
        "            tg.tile_pipe_load(pipe, x, offset=q * 8)\n"
        "    with tg.ws(1):\n"
        f"        for q in range({bound}):\n"
        "            tg.tile_store(y, tg.tile_pipe_pop(pipe), offset=q * 8)\n"
    )
    scope = {"tg": tg}
    exec(text, scope)
    kernel = tg.kernel(scope["kernel"], source=text)
    try:
        assert kernel.check().status != "refuted"
    except tg.CompileError as error:
        assert error.loc is not None
