"""Control flow in kernels has the meaning of Python: each function runs in CPython and in a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from traced_kernels import launched, zeros

import tegula as tg
from tegula.lang import array1d, func
from tegula.lang.decorators import kernel

N = 40


def check(f: Any) -> None:
    """Compare f(i) for i in 0 .. N-1 in CPython and in a kernel; f: a @func of one int that returns an int."""

    @kernel
    def run(out: array1d[int]):
        i = tg.tid()
        out[i] = f(i)

    out = zeros(N, dtype=np.int32)
    launched(run, out, dims=(N,), block_dim=8)
    assert out.tolist() == [f(i) for i in range(N)]


def case(f: Any) -> Any:
    built_kernel = func(f)
    CASES.append(pytest.param(built_kernel, id=f.__name__))
    return built_kernel


CASES: list[Any] = []


@case
def if_elif_else(n):
    if n < 5:
        x = 1
    elif n < 10:
        x = 2
    else:
        x = 3
    return x * n


@case
def early_return(n):
    if n % 3 == 0:
        return 7
    y = n * 2
    if y > 30:
        return y
    return 0 - y


@case
def nested_early_return(n):
    x = 1
    if n > 5:
        if n > 20:
            return 100 + n
        x = 2
    else:
        x = 3
    return x * n


@case
def return_from_loops(n):
    for i in range(10):
        for j in range(i):
            if i * j == n:
                return i * 100 + j
    return 0 - 1


@case
def break_and_continue(n):
    total = 0
    for i in range(n):
        if i % 3 == 1:
            continue
        if i > 25:
            break
        total += i
    return total


@case
def break_keeps_values(n):
    last = 0 - 1
    for i in range(20):
        last = i
        if i == n:
            break
    return last * 2


@case
def loop_variable_survives(n):
    for i in range(2, 30, 3):
        if i > n:
            break
    return i


@case
def loop_binds_names(n):
    for i in range(4):
        x = i * n
    return x


@case
def negative_step(n):
    total = 0
    for i in range(n, 0, -2):
        total = total * 3 % 1000 + i
    return total


@case
def runtime_step(n):
    total = 0
    step = n % 5 - 2
    if step == 0:
        step = 1
    for i in range(n - 20, 20 - n, step):
        total += i
        if total > 50:
            break
    return total


@case
def while_loops(n):
    x = n
    steps = 0
    while x > 1 and steps < 50:
        if x % 2 == 0:
            x = x // 2
        else:
            x = 3 * x + 1
        steps += 1
    return steps * 1000 + x


@case
def while_true(n):
    k = 0
    while True:
        k += 1
        if k * k >= n:
            return k
        if k > 4:
            break
    return 0 - k


@case
def while_true_return_only(n):
    k = 0
    while True:
        k += 1
        if k * k >= n:
            return k


@case
def continue_in_while(n):
    k = 0
    total = 0
    while k < n:
        k += 1
        if k % 4 == 0:
            continue
        if k % 7 == 0:
            if k > 20:
                break
            continue
        total += k
    return total


@case
def swap_in_loop(n):
    a = 0
    b = 1
    for _ in range(n % 20):
        a, b = b, a + b
    return a


@case
def conditional_expression(n):
    x = n if n > 10 else 0 - n
    return (x + 1 if x < 0 else x - 1) + (3 if n == 4 else 5)


@case
def chained_comparison(n):
    return (1 if 3 < n <= 17 else 0) + (2 if 0 < n < 5 > 2 else 0)


@case
def boolean_operators(n):
    if n > 3 and n < 9 or not n % 2 == 0:  # noqa: SIM201
        return 1
    return 0


@case
def rest_after_maybe_break(n):
    total = 0
    for i in range(6):
        if i > 2:
            if n > 10:
                break
            x = 5
        else:
            x = i
        total += x
    return total


@case
def names_after_continue(n):
    total = 0
    for i in range(8):
        if i % 2 == 0:
            if n > 20:
                continue
            y = 3
        else:
            y = 4
        total += y * i
    return total


@case
def nested_functions(n):
    k = 3

    def add(x):
        return x + k

    k = 4
    return add(n) * 2


@case
def multiple_results(n):
    def both(x):
        if x > 10:
            return x, 1
        return 2, x

    a, b = both(n)
    return a * 100 + b


@case
def tuples(n):
    t = (n, 2, 3)
    a, (b, c) = t[0], (t[1], t[-1])
    p = t[1:]
    return a * b + c + p[1] + len(t)


@case
def tuple_in_branches(n):
    if n > 5:
        p = (n, 1)
    else:
        p = (2, n)
    return p[0] * 50 + p[1]


@case
def tuple_in_loop(n):
    p = (0, 1)
    for i in range(n % 7):
        p = (p[1], p[0] + i)
    return p[0] * 50 + p[1]


@case
def loop_over_tuple(n):
    total = 0
    for k in (3, 5, 7):
        if k == n:
            continue
        total += k * n
        if total > 100:
            break
    return total


@case
def unrolled_for_tuple_index(n):
    t = (n, n + 1, n + 2)
    total = 0
    for i in range(3):
        if n == 5 and i == 1:
            continue
        if t[i] > 20:
            break
        total += t[i] * i
    return total


@case
def return_in_unrolled(n):
    t = (3, 6, 9)
    for i in range(3):
        if t[i] == n:
            return i
    return 10


@case
def zero_trips(n):
    x = 5
    for i in range(0):
        x = i
    for i in range(n - n):
        x = i
    return x


@case
def reuse_loop_name(n):
    total = 0
    for i in range(n):
        total += i
    for i in range(3):
        total += i * n
    i = 5
    return total + i


@case
def triple_nest(n):
    total = 0
    for i in range(4):
        j = 0
        while j < n % 6:
            j += 1
            for k in range(j):
                if (i + j + k) % 5 == 0:
                    break
                if k == 2:
                    continue
                total += i * j + k
            if total > 60:
                break
    return total


@case
def augmented(n):
    x = n
    x += 3
    x *= 2
    x -= 1
    x //= 3
    x <<= 1
    x |= 1
    x ^= 6
    x &= 255
    return x


@case
def static_branches(n):
    flag = True
    if flag:
        x = n
    else:
        x = (1, 2)
    return x + (1 if N == 40 else 0)


@case
def builtins(n):
    return min(n, 10) + max(n, 3, 20) * abs(n - 5) + int(bool(n)) + int(float(n))


@pytest.mark.parametrize("f", CASES)
def test_control_flow_in_kernels_matches_python(f: Any) -> None:
    check(f)


def test_lanes_that_return_run_no_later_statement() -> None:
    @kernel
    def k(out: array1d[int], n: int):
        i = tg.tid()
        if i >= n:
            return
        for j in range(3):
            if i + j == 4:
                return
            out[i] += 1
        out[i] += 10

    out = zeros(8, dtype=np.int32)
    launched(k, out, 6, dims=(8,), block_dim=4)
    assert out.tolist() == [13, 13, 2, 1, 0, 13, 0, 0]
