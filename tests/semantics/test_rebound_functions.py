"""Functions whose names are rebound. A captured object stays the same; a captured name refers to the object bound at
the launch."""

from __future__ import annotations

from random import Random

import function_programs as F
import pytest

import tegula as tg
from support.campaigns import chunks

pytestmark = pytest.mark.machine_code


@pytest.mark.cpu
@pytest.mark.parametrize("start", [0])
def test_programs_with_redefined_functions_match_python(start):
    _compare(range(start, start + 6))


@pytest.mark.cpu
@pytest.mark.parametrize("start", chunks(range(100, 1100, 20)))
def test_many_programs_with_redefined_functions_match_python(start):
    _compare(range(start, start + 20))


def _compare(seeds):
    for seed, cells in F.programs(seeds):
        text = "\n# next cell\n".join(cells)
        assert F.run(cells, seed) == F.expected(cells, seed), f"seed {seed}:\n{text}"


# Overloads ------------------------------------------------------------------------------------------------------------

TYPES = {
    "float": "tg.float32(1.5)",
    "int": "tg.int32(3)",
    "tg.float64": "tg.float64(2.5)",
    "tg.int64": "tg.int64(4)",
    "bool": "True",
}


def _selected_definition(definitions, arguments):
    """The index of the definition that a call selects: the last definition with the fewest unannotated parameters."""
    last = {tuple(types): k for k, (types, _) in enumerate(definitions)}
    fits = [
        (sum(t is None for t in types[: len(arguments)]), -k)
        for k, (types, required) in enumerate(definitions)
        if last[tuple(types)] == k and required <= len(arguments) <= len(types)
        if all(t in (None, x) for t, x in zip(types, arguments, strict=False))
    ]
    return -min(fits)[1] if fits else None


def _overloads(random):
    """Definitions, each as the types of the parameters (None: any type) and the number of parameters without a default;
    and the source text of each definition."""
    definitions, lines = [], []
    for k in range(random.randint(2, 6)):
        types = [random.choice([*TYPES, None]) for _ in range(random.randint(1, 2))]
        required = random.randint(1, len(types))
        definitions.append((types, required))
        parameters = [
            f"a{n}" + (f": {t}" if t else "") + ("" if n < required else f" = {TYPES[t or 'float']}")
            for n, t in enumerate(types)
        ]
        lines += ["@tg.func", f"def f({', '.join(parameters)}):", f"    return {k}"]
    return definitions, lines


@pytest.mark.cpu
@pytest.mark.parametrize("seed", range(6))
def test_the_most_specific_overload_is_called_in_kernels_and_in_python(seed):
    random = Random(seed)
    definitions, lines = _overloads(random)
    names = F.run_cell([*lines], f"<overloads {seed}>", {"tg": tg})
    calls = [[random.choice([*TYPES]) for _ in range(random.randint(1, 2))] for _ in range(8)]
    accepted_calls = [c for c in calls if _selected_definition(definitions, c) is not None]
    texts = [f"f({', '.join(TYPES[t] for t in arguments)})" for arguments in accepted_calls]
    body = [f"    out[{n}] = {text}" for n, text in enumerate(texts)]
    kernel = ["@tg.kernel", "def k(out: tg.array1d[int]):", *body, "    return"]
    names = F.run_cell(kernel, f"<kernel {seed}>", names)
    out = tg.zeros(9, dtype=int)
    tg.launch(names["k"], 1, outputs=[out], block_dim=1)
    expected = [_selected_definition(definitions, arguments) for arguments in accepted_calls]
    assert out.numpy().tolist()[: len(accepted_calls)] == expected, "\n".join([*lines, *texts])
    assert [eval(text, names) for text in texts] == expected, "\n".join([*lines, *texts])
    for arguments in calls:
        if arguments not in accepted_calls and len(names["f"].definitions) > 1:
            with pytest.raises(tg.CompileError, match="no overload accepts"):
                names["f"](*(eval(TYPES[t], names) for t in arguments))


def test_the_next_launch_uses_a_redefined_gradient():
    names = F.run_cell(
        [
            *("@tg.func", "def f(x: float):", "    return x * x"),
            *("@tg.kernel", "def k(a: tg.array1d[float], out: tg.array1d[float]):", "    out[0] = f(a[0])"),
        ],
        "<gradient>",
        {"tg": tg},
    )
    result = []
    for slope in (None, 5.0, 7.0):
        if slope is not None:
            rule = ["@tg.func_grad(f)", "def rule(x: float, s: float):", f"    tg.adjoint[x] += {slope} * s"]
            F.run_cell(rule, f"<rule {slope}>", names)
        a, out = tg.array([3.0], dtype=float, requires_grad=True), tg.zeros(1, requires_grad=True)
        with tg.Tape() as tape:
            tg.launch(names["k"], 1, inputs=[a], outputs=[out], block_dim=1)
        tape.backward(loss=out)
        result.append(float(a.grad.numpy()[0]))
    assert result == [6.0, 5.0, 7.0]
