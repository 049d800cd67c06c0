"""A kernel is compiled from the text that Python compiled, even if its file changes between decoration and launch."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from random import Random
from types import ModuleType, SimpleNamespace

import function_programs as F
import numpy as np
import pytest

import tegula as tg
from support.campaigns import chunks

pytestmark = pytest.mark.cpu


def _module_text(random: Random) -> str:
    """The text of a module of kernels k0 to k3, in random order and layout, and of a factory of kernels."""
    parts = []
    for k in random.sample(range(4), 4):
        a, b = random.randint(1, 9), random.randint(1, 9)
        terms = [f"n * {a}.0", f"h{k}(n)", "float(LEVEL)"]
        random.shuffle(terms)
        sign = random.choice("+-")
        body = [f"    out[0] = {terms[0]} {sign} {terms[1]} {sign} {terms[2]}"]
        if random.random() < 0.4:
            body.insert(0, '    """Text\nat the left."""')
        if random.random() < 0.4:
            body.insert(0, "# a comment without indentation")
        if random.random() < 0.4:
            body += [
                "    if n > 3.0:",
                f"        out[0] += {b}.0",
                *["    out[0] *= 2.0"] * random.randint(0, 1),
            ]
        function = [f"@tg.func\ndef h{k}(x: float):", f"    return x {random.choice('+-*')} {b}.0"]
        kernel = [f"@tg.kernel\ndef k{k}(out: tg.array1d[float], n: float):", *body]
        parts += ["\n".join(function), "\n".join(kernel)]
    inner = [
        "    @tg.kernel",
        "    def kernel(out: tg.array1d[float], n: float):",
        f"        out[0] = n * s + {b}.0",
    ]
    parts.append("\n".join(["def make(s):", *inner, "    return kernel"]))
    lines = [""] * random.randint(0, 3) + ["# note"] * random.randint(0, 2)
    return "\n".join(["import tegula as tg", *lines, f"LEVEL = {a}", *parts]) + "\n"


def _load(path, name="edited") -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    module.__loader__.get_code = lambda _: compile(path.read_text(), str(path), "exec")  # no stale pyc
    spec.loader.exec_module(module)
    return module


def _python_names(text: str, path) -> dict:
    tegula_stub = SimpleNamespace(func=lambda f: f, kernel=lambda f: f, array1d={float: None})
    names = {"tg": tegula_stub}
    exec(compile(text.replace("import tegula as tg", ""), "<oracle>", "exec"), names)
    return names


def _launch(kernel, n: float) -> float:
    out = tg.zeros(1)
    tg.launch(kernel, 1, inputs=[out, n], block_dim=1)
    return float(out.numpy()[0])


def _call(function, n: float) -> float:
    out = np.zeros(1, np.float32)
    function(out, n)
    return float(out[0])


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", range(2))
def test_kernels_are_compiled_from_the_text_at_decoration(seed, tmp_path):
    _check_edited_module(seed, tmp_path)


@pytest.mark.machine_code
@pytest.mark.parametrize("start", chunks(range(100, 500, 10)))
def test_kernels_are_compiled_from_the_text_at_many_decorations(start, tmp_path):
    for seed in range(start, start + 10):
        _check_edited_module(seed, tmp_path)


def _check_edited_module(seed: int, folder) -> None:
    random = Random(seed)
    path = folder / f"edited{seed}.py"
    modules = []
    for _ in range(3):
        text = _module_text(random)
        path.write_text(text)
        modules.append((_load(path), text))
    for _ in range(random.randint(0, 2)):
        path.write_text(_module_text(random))
    if random.random() < 0.3:
        path.unlink()
    for module, text in random.sample(modules, 3):
        python_names = _python_names(text, path)
        for k in range(4):
            expected = _call(python_names[f"k{k}"], 5.0)
            assert _launch(getattr(module, f"k{k}"), 5.0) == expected, f"seed {seed} k{k}:\n{text}"
        assert _launch(module.make(3.0), 5.0) == _call(python_names["make"](3.0), 5.0), (
            f"seed {seed}:\n{text}"
        )


TWO_KERNELS = """import tegula as tg
def make():
    @tg.kernel
    def k(out: tg.array1d[float], n: float):
        out[0] = {}
    return k
"""


@pytest.mark.machine_code
def test_a_factory_whose_file_was_edited_before_the_call_is_refused(tmp_path):
    path = tmp_path / "factory.py"
    path.write_text(TWO_KERNELS.format("n + 1.0"))
    module = _load(path)
    path.write_text(TWO_KERNELS.format("n + 2.0"))
    with pytest.raises(tg.CompileError, match="does not match its compiled code"):
        _launch(module.make(), 1.0)
    path.write_text("# moved\n\n\n" + TWO_KERNELS.format("n + 1.0"))
    assert _launch(module.make(), 1.0) == 2.0


def test_code_with_the_name_of_a_file_is_not_read_from_the_file(tmp_path):
    path = tmp_path / "template.py"
    path.write_text(TWO_KERNELS.format("n + 1.0"))
    names: dict = {}
    exec(compile(TWO_KERNELS.format("n - 1.0"), str(path), "exec"), names)
    with pytest.raises(tg.CompileError, match="does not match its compiled code"):
        _launch(names["make"](), 1.0)


@pytest.mark.machine_code
def test_the_source_text_of_another_function_is_refused():
    text = "def k(out: tg.array1d[float], n: float):\n    out[0] = n + 1.0\n"
    names: dict = {"tg": tg}
    exec(text, names)
    assert _launch(tg.kernel(source=text)(names["k"]), 1.0) == 2.0
    with pytest.raises(tg.CompileError, match="does not match its compiled code"):
        _launch(tg.kernel(source=text.replace("1.0", "2.0"))(names["k"]), 1.0)


def test_errors_show_the_text_that_was_compiled(tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(TWO_KERNELS.format("n + missing"))
    kernel = _load(path).make()
    path.write_text("# something else\n" * 9)
    with pytest.raises(tg.CompileError) as error:
        _launch(kernel, 1.0)
    assert "out[0] = n + missing" in str(error.value)


@pytest.mark.machine_code
def test_cells_of_one_name_are_distinguished():
    results = []
    for sign in "+-*":
        cell = TWO_KERNELS.format(f"n {sign} 3.0").split("\n")
        results.append(F.run_cell(cell, "<cell of one name>", {})["make"]())
    assert [_launch(k, 5.0) for k in results] == [8.0, 2.0, 15.0]


class Owner:
    __level = 2.0

    @staticmethod
    @tg.kernel
    def kernel_in_class(out: tg.array1d[float], n: float):
        out[0] = n * 2.0


@pytest.mark.machine_code
def test_kernels_in_classes_and_with_several_names_compile():
    assert _launch(Owner.kernel_in_class, 2.0) == 4.0

    def renamed(out: tg.array1d[float], n: float):
        assert n > 0.0, "written anew by pytest"
        out[0] = n * 3.0

    renamed.__name__ = "another"
    assert _launch(tg.kernel(renamed), 2.0) == 6.0


@pytest.mark.machine_code
def test_annotations_are_evaluated_at_the_decoration():
    cell = ["from __future__ import annotations", "kernels = []", "for T in (float, int):", "    @tg.kernel"]
    cell += ["    def k(out: tg.array1d[T]):", "        out[0] = out[0] + out[0]", "    kernels.append(k)"]
    for kernel, dtype in zip(
        F.run_cell(cell, "<annotations>", {"tg": tg})["kernels"], (float, int), strict=True
    ):
        out = tg.full(1, 3, dtype=dtype)
        tg.launch(kernel, 1, inputs=[out])
        assert out.numpy().tolist() == [6]


def test_a_wrapper_is_not_taken_for_the_wrapped_function():
    def k(out: tg.array1d[float]):
        out[0] = 1.0

    @tg.kernel
    @functools.wraps(k)
    def wrapper(*args, **kwargs):
        return k(*args, **kwargs)

    with pytest.raises(tg.CompileError, match="put @tg.kernel or @tg.func below other decorators"):
        tg.launch(wrapper, 1, inputs=[tg.zeros(1)])


def test_kernels_of_the_command_line_run(tmp_path):
    text = TWO_KERNELS.format("n + 1.0") + (
        "out = tg.zeros(1)\ntg.launch(make(), 1, inputs=[out, 1.0], block_dim=1)\nprint(out.numpy()[0])\n"
    )
    completed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=os.environ)
    assert completed.stdout.strip() == "2.0", completed.stderr
