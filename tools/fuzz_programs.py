"""Fuzzes the compiler with wrong programs: it must compile each, or refuse it with a Tegula error within a time limit.

Valid kernels are changed at random nodes of their syntax trees: numbers are replaced by unusual ones, names, operators
and functions by others, arguments are added and removed, statements are moved. Each program is traced and lowered to
LLVM IR, for a CPU and a GPU alternately. Any other end than a Tegula error is a finding: a traceback, an internal
error, a run beyond the time or memory limit. Findings with the same location are counted as one.

    python tools/fuzz_programs.py --count 100000 --seed 1 --jobs 2
    python tools/fuzz_programs.py --seed 71234 --count 1 --show       prints a program and its outcome
    python tools/fuzz_programs.py --count 2000 --run                  runs programs too, in separate processes
"""

from __future__ import annotations

import argparse
import ast
import collections
import copy
import multiprocessing
import os
import random
import resource
import signal
import sys
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

SECONDS = 20
"""The time limit of one program, many times the time of the slowest."""
MEMORY = 6 << 30
os.environ.setdefault("TEGULA_VERIFY_PASSES", "1")

SEEDS = [
    """
def kernel(x: tg.array1d[float], y: tg.array1d[float], z: tg.array2d[int], n: int, m: int):
    i = tg.tid()
    v = x[i] * 2.0 + 1.0
    if i < n:
        y[i] = tg.max(v, 0.0)
    k = i // 3 % 7 << 2
    while k > 0:
        k = k // 2
        v += float(k)
    tg.atomic_add(y, 0, v)
""",
    """
def kernel(x: tg.array1d[float], y: tg.array1d[float], z: tg.array2d[int], n: int, m: int):
    i = tg.tid()
    t = tg.tile_load(x, shape=16, offset=i * 16)
    u = tg.tile_map(tg.sqrt, t) + t * 2.0
    s = tg.tile_sum(u)
    a = tg.tile_arange(0, 16, 1, dtype=float)
    w = tg.tile_reshape(a, shape=(4, 4))
    p = tg.tile_transpose(w)
    q = w[1:3, ::2]
    tg.tile_store(y, u - tg.tile_broadcast(s, shape=(16,)), offset=i * 16)
    print(q, p[0, 1])
""",
    """
def kernel(x: tg.array1d[float], y: tg.array1d[float], z: tg.array2d[int], n: int, m: int):
    i = tg.tid()
    t = tg.tile_zeros(shape=(8, 8), dtype=int, storage="shared")
    for r in range(0, n, 2):
        t[r % 8, i % 8] += r
    for c in range(3):
        t[c] = tg.tile_full(8, c)
    b = tg.tile_load(z, shape=(8, 8), offset=(0, m))
    tg.tile_store(z, b & t | tg.tile_ones(shape=(8, 8), dtype=int), offset=(n, 0))
    y[i] = float(t[i % 8, 0]) if i > 2 else -1.0
""",
    """
def kernel(x: tg.array1d[float], y: tg.array1d[float], z: tg.array2d[int], n: int, m: int):
    i = tg.tid()
    v = tg.vec3(x[i], 1.0, 2.0)
    w = tg.cross(v, tg.vec3(0.0, 1.0, 0.0))
    g = tg.mat22(1.0, 2.0, 3.0, 4.0)
    h = g * tg.vec2(1.0, v.x) + tg.vec2(w.x, w[1])
    t = tg.tile(v)
    e = tg.tile(v, preserve_type=True)
    j = tg.matrix(x[i], shape=(1, 1), dtype=float)
    y[i] = tg.dot(v, w) + h[0] + tg.tile_sum(t)[0] + tg.untile(e).y + j[0, 0]
""",
    """
def kernel(x: tg.array1d[float], y: tg.array1d[float], z: tg.array2d[int], n: int, m: int):
    i, j = tg.tid()
    a = tg.tile_load(x[:64], shape=64)
    b = tg.tile_reshape(a, shape=(8, 8))
    c = tg.tile_zeros(shape=(8, 8), dtype=float)
    for k in range(m):
        tg.tile_matmul(b, tg.tile_transpose(b), c)
    d, e = tg.tile_min(c), tg.tile_argmax(c)
    f = tg.where(i > 1, n, m)
    g = tg.tile_scan_inclusive(tg.tile_squeeze(b[0:1]))
    tg.tile_store(y, g * tg.uniform(float(f)))
    assert d[0] < 1e9 and not (j == 3), "large"
""",
    """
def kernel(x: tg.array1d[float], y: tg.array1d[float], z: tg.array2d[int], n: int, m: int):
    i = tg.tid()
    pipe = tg.tile_pipe(shape=(8,), dtype=float, stages=2)
    with tg.ws(0):
        for q in range(n // 8):
            tg.tile_pipe_load(pipe, x, offset=q * 8)
    with tg.ws(1):
        total = tg.tile_zeros(shape=8, dtype=float)
        for q in range(n // 8):
            total += tg.tile_pipe_pop(pipe)
        tg.tile_store(y, total)
""",
    """
def kernel(x: tg.array1d[float], y: tg.array1d[float], z: tg.array2d[int], n: int, m: int):
    i = tg.tid()
    h = tg.float16(x[i])
    u = tg.uint8(n) >> tg.uint8(3)
    b = tg.bitcast(x[i], tg.uint32) ^ tg.uint32(0xFF)
    l = tg.int64(i) * tg.int64(2147483647) % tg.int64(1000)
    s = tg.tile_stack(capacity=8, dtype=int)
    slot = tg.tile_stack_push(s, i, i % 2 == 0)
    t = tg.tile_from_thread(shape=4, value=x[i], thread_idx=2)
    y[i] = float(h) + float(u) + float(b) + float(l) + float(slot) + tg.sin(x[i]) ** 2.0
    tg.tile_store(y, tg.tile_astype(t, float))
""",
]

NUMBERS: list[Any] = [
    *(
        0,
        1,
        -1,
        2,
        3,
        7,
        8,
        31,
        32,
        33,
        64,
        255,
        256,
        1000,
        1025,
        10**6,
        10**9,
        2**31 - 1,
        2**31,
        -(2**31),
        2**32,
    ),
    *(
        2**63,
        2**64,
        -(2**63) - 1,
        10**30,
        10**400,
        0.0,
        -0.0,
        0.5,
        -1.5,
        1e-300,
        1e10,
        3.5e38,
        1e300,
        True,
        False,
    ),
    *(None, "", "a", "shared", "register"),
]
SPECIAL = [
    *(
        "float('inf')",
        "-float('inf')",
        "float('nan')",
        "10 ** 100000000",
        "1 >> -1",
        "1 << 100000",
        "3 << 40",
    ),
    *(
        "()",
        "(1,)",
        "(2, 3)",
        "(1, 2, 3, 4, 5)",
        "[1, 2]",
        "x",
        "y",
        "z",
        "x.shape",
        "z.shape[1]",
        "n",
        "m",
        "i",
    ),
    *(
        "tg",
        "float",
        "tg.float16",
        "tg.vec3",
        "tg.mat44",
        "tg.bool",
        "tg.pi",
        "len",
        "x[0]",
        "z[0]",
        "x[::0]",
    ),
    *(
        "z[::0, 0]",
        "...",
        "slice(0, 2)",
        "t",
        "t[0]",
        "t[::2]",
        "t[::0]",
        "v",
        "lambda q: q",
        "f'{n}'",
        "tg.tid()",
    ),
    *(
        "n // m",
        "-n",
    ),
]
OPERATORS = [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.BitOr,
             ast.BitXor, ast.BitAnd, ast.MatMult]  # fmt: skip
COMPARISONS = [ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.In]


def program(seed: int) -> str:
    """The text of a program."""
    rng = random.Random(seed)
    tree = ast.parse(rng.choice(SEEDS))
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 5])):
        mutate(tree.body[0], rng)
    return ast.unparse(ast.fix_missing_locations(tree))


def expression(rng: random.Random) -> ast.expr:
    if rng.random() < 0.5:
        value = rng.choice(NUMBERS)
        text = repr(value)
    else:
        text = rng.choice(SPECIAL)
    return ast.parse(text, mode="eval").body


def mutate(function: Any, rng: random.Random) -> None:
    """Apply one random change to a function's body."""
    rng.choice([_replace, _replace, _replace, _operator, _called, _argument, _statement, _exchange])(
        function, rng
    )


def _expression_slots(function: Any) -> list[tuple[Any, str, int | None, ast.expr]]:
    """The expressions that are read, each with its parent, field and index in a list."""
    nodes = []
    for statement in function.body:
        for node in ast.walk(statement):
            for name, value in () if isinstance(node, ast.JoinedStr) else ast.iter_fields(node):
                if name in ("func", "targets", "target", "context_expr", "ctx"):
                    continue
                for k, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                    if isinstance(child, ast.expr) and not isinstance(getattr(child, "ctx", None), ast.Store):
                        nodes.append((node, name, k, child))
    return nodes


def _fill_slot(slot: tuple[Any, str, int | None, ast.expr], value: ast.expr) -> None:
    node, name, k, _ = slot
    if k is None:
        setattr(node, name, value)
    else:
        getattr(node, name)[k] = value


def _replace(function: Any, rng: random.Random) -> None:
    if nodes := _expression_slots(function):
        _fill_slot(rng.choice(nodes), expression(rng))


def _exchange(function: Any, rng: random.Random) -> None:
    """Replace an expression by a copy of another."""
    if nodes := _expression_slots(function):
        _fill_slot(rng.choice(nodes), copy.deepcopy(rng.choice(nodes)[3]))


def _operator(function: Any, rng: random.Random) -> None:
    nodes = [
        n for n in ast.walk(function) if isinstance(n, ast.BinOp | ast.Compare | ast.AugAssign | ast.UnaryOp)
    ]
    if not nodes:
        return
    node = rng.choice(nodes)
    if isinstance(node, ast.Compare):
        node.ops[0] = rng.choice(COMPARISONS)()
    elif isinstance(node, ast.UnaryOp):
        node.op = rng.choice([ast.USub, ast.Invert, ast.Not, ast.UAdd])()
    else:
        node.op = rng.choice(OPERATORS)()


def _calls(function: Any) -> list[ast.Call]:
    return [n for n in ast.walk(function) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]


def _called(function: Any, rng: random.Random) -> None:
    """Replace the name of a called function."""
    from tegula.ops import PUBLIC
    from tegula.runtime.library import library

    names = sorted(n for n in (*PUBLIC, *library()) if n.isidentifier() and n[0] != "_")
    if calls := _calls(function):
        rng.choice(calls).func.attr = rng.choice(names)  # type: ignore[attr-defined]


def _argument(function: Any, rng: random.Random) -> None:
    calls = _calls(function)
    if not calls:
        return
    call, choice = rng.choice(calls), rng.randrange(4)
    if choice == 0 and (call.args or call.keywords):
        arguments = call.args or call.keywords
        arguments.pop(rng.randrange(len(arguments)))
    elif choice == 1:
        call.args.insert(rng.randrange(len(call.args) + 1), expression(rng))
    elif choice == 2:
        name = rng.choice(
            ["shape", "dtype", "offset", "axis", "storage", "fill", "aligned", "bounds_check", "odd"]
        )
        if all(k.arg != name for k in call.keywords):
            call.keywords.append(ast.keyword(name, expression(rng)))
    else:
        rng.shuffle(call.args)


def _statement(function: Any, rng: random.Random) -> None:
    """Move, duplicate, remove or replace a statement, or put it into a loop or condition."""
    bodies = [n.body for n in ast.walk(function) if isinstance(getattr(n, "body", None), list)]
    body = rng.choice(bodies)
    k, choice = rng.randrange(len(body)), rng.randrange(6)
    if choice == 0:
        body.insert(rng.randrange(len(body) + 1), copy.deepcopy(body[k]))
    elif choice == 1 and len(body) > 1:
        body.pop(k)
    elif choice == 2:
        second_body = rng.choice(bodies)
        second_body.insert(rng.randrange(len(second_body) + 1), copy.deepcopy(body[k]))
    elif choice == 3:
        call = ast.Call(ast.Name("range", ast.Load()), [expression(rng)], [])
        body[k] = ast.For(ast.Name("r", ast.Store()), call, [body[k]], [])
    elif choice == 4:
        body[k] = ast.If(expression(rng), [body[k]], [])
    else:
        body[k] = rng.choice([ast.Return(None), ast.Break(), ast.Continue(), ast.Pass()])


# Outcomes of programs ------------------------------------------------------------------------------------------------


class TimeLimitReached(BaseException):
    pass


def _raise_time_limit(number: int, frame: object) -> None:
    raise TimeLimitReached


def launch_of(text: str, seed: int) -> tuple[tuple[int, ...], int]:
    """The dimensions and threads per block of a program's launch."""
    rng = random.Random(seed * 7 + 1)
    if "tg.ws" in text:
        return (2, 256), 256
    two = [((3, 32), 32), ((2, 5), 16), ((4, 1), 1)]
    return rng.choice(two if "i, j = tg.tid" in text else [((64,), 32), ((40,), 32), *two])


def outcome(text: str, seed: int, run: bool = False) -> str:
    """The outcome of a program: "accepted", the code of an error, or a finding."""
    import tegula as tg

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _raise_time_limit)
    signal.alarm(SECONDS)
    try:
        scope: dict[str, Any] = {"tg": tg}
        try:
            exec(compile(text, "<fuzz>", "exec"), scope)
        except (SyntaxError, TypeError, ValueError):
            return "no Python"
        _compile(tg.kernel(scope["kernel"], source=text), launch_of(text, seed), seed, run)
        return "accepted"
    except tg.TegulaError as error:
        if type(error).__name__ == "InternalError":
            return _finding(error)
        return getattr(error, "CODE", "")
    except TimeLimitReached:
        return f"FOUND: more than {SECONDS} s"
    except (Exception, RecursionError) as error:
        return _finding(error)
    finally:
        signal.alarm(0)


def _finding(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    frame = frames[-1]
    own_frame = next((f for f in reversed(frames) if "tegula" in f.filename), frame)
    location = f"{os.path.basename(own_frame.filename)}:{own_frame.lineno}"
    return f"FOUND: {type(error).__name__} at {location} {str(error)[:60]}"


def _compile(kernel: Any, launch: tuple[tuple[int, ...], int], seed: int, run: bool) -> None:
    import tegula as tg
    from tegula.codegen.gpu import lower_kernel as lower_for_gpu
    from tegula.codegen.kernel import lower_kernel
    from tegula.passes.pipeline import for_cpu, prepare
    from tegula.passes.pipeline_gpu import for_gpu
    from tegula.runtime.compile import trace
    from tegula.runtime.launch import plan
    from tegula.runtime.resolve import requested_specialisation
    from tegula.target import get_cuda_target, get_target

    dims, block_dim = launch
    args = (tg.zeros(1024), tg.zeros(1024), tg.zeros((16, 16), dtype=int), 5, 2)
    if run:
        tg.launch(kernel, dim=dims, block_dim=block_dim, inputs=args)
        return
    specialised = requested_specialisation(kernel, plan(dims, block_dim), args)
    for gpu in (False, True) if seed % 4 == 0 else (False,):
        traced_kernel = trace(kernel, specialised.types, specialised.launch, specialised.access)
        prepare(traced_kernel)
        if gpu:
            lower_for_gpu(
                traced_kernel, for_gpu(traced_kernel, get_cuda_target()), get_cuda_target(), debug=False
            )
        else:
            lower_kernel(traced_kernel, for_cpu(traced_kernel), get_target("native"), seed % 3 == 0)


def chunk(job: tuple[int, int, bool]) -> tuple[collections.Counter[str], dict[str, int]]:
    """The outcomes of a range of programs, and a seed for each finding."""
    first, count, run = job
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    result: collections.Counter[str] = collections.Counter()
    examples: dict[str, int] = {}
    for seed in range(first, first + count):
        outcome_text = outcome(program(seed), seed, run)
        result[outcome_text] += 1
        examples.setdefault(outcome_text, seed)
    return result, examples


def checked_in_child(job: tuple[int, int, bool]) -> tuple[collections.Counter[str], dict[str, int]]:
    """The outcomes of a chunk, computed in a separate process; if the process crashes, its programs are run one by
    one."""
    first, count, run = job
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(send, job))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        process.join()
    if count == 1:
        finding = f"FOUND: the process ended with {process.exitcode}"
        return collections.Counter([finding]), {finding: first}
    total: collections.Counter[str] = collections.Counter()
    examples: dict[str, int] = {}
    for seed in range(first, first + count):
        result, location = checked_in_child((seed, 1, run))
        total.update(result)
        examples = location | examples
    return total, examples


def _send(connection: Connection, job: tuple[int, int, bool]) -> None:
    connection.send(chunk(job))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--run", action="store_true", help="compile to machine code, and run what is taken")
    parser.add_argument("--show", action="store_true", help="print the programs, and what becomes of them")
    options = parser.parse_args()
    if options.show:
        for seed in range(options.seed, options.seed + options.count):
            text = program(seed)
            print(text, outcome(text, seed, options.run), sep="\n", end="\n\n")
        return 0
    size = 50 if options.run else 500
    jobs = [
        (k, min(size, options.seed + options.count - k), options.run)
        for k in range(options.seed, options.seed + options.count, size)
    ]
    total: collections.Counter[str] = collections.Counter()
    examples: dict[str, int] = {}
    with ThreadPoolExecutor(options.jobs) as pool:
        for finding, location in pool.map(checked_in_child, jobs):
            total.update(finding)
            examples = location | examples
    for outcome_text, n in sorted(total.items(), key=lambda pair: (pair[0].startswith("FOUND"), -pair[1])):
        print(
            f"{n:7} {outcome_text}"
            + (f" (seed {examples[outcome_text]})" if outcome_text.startswith("FOUND") else "")
        )
    return int(any(outcome_text.startswith("FOUND") for outcome_text in total))


if __name__ == "__main__":
    sys.exit(main())
