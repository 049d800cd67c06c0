"""Compilation leaks no memory: docs/design/040-memory-that-llvmlite-keeps.md."""

from __future__ import annotations

import gc
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tegula.backend.llvm import assembly, compile_object, compile_ptx
from tegula.target import get_target

pytestmark = pytest.mark.cpu
TOOL = Path(__file__).parents[2] / "tools" / "memory_leaks.py"
LIMIT = 4 << 10
FUNCTION = """
define void @f{k}(ptr %p, i64 %n) {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %j, %head ]
  %q = getelementptr i32, ptr %p, i64 %i
  %v = load i32, ptr %q
  %w = add i32 %v, {k}
  store i32 %w, ptr %q
  %j = add i64 %i, 1
  %c = icmp slt i64 %j, %n
  br i1 %c, label %head, label %done
done:
  ret void
}}
"""


@pytest.fixture
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("memory_leaks", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        module.allocated()
    except AttributeError:
        pytest.skip("this C library does not report the size of allocated memory")
    return module


@pytest.mark.parametrize(("kind", "functions"), [("object", 1), ("object", 9), ("assembly", 1), ("ptx", 1)])
def test_a_compilation_leaks_almost_no_memory(tool: Any, kind: str, functions: int) -> None:
    text = "".join(FUNCTION.format(k=k) for k in range(functions))
    target = get_target("native")
    compile_text = {
        "object": lambda: inspect.unwrap(compile_object)(text, target),
        "assembly": lambda: assembly(text, target),
        "ptx": lambda: inspect.unwrap(compile_ptx)(text, "sm_90a"),
    }[kind]
    for _ in range(2):
        compile_text()
    gc.collect()
    before, count = tool.allocated(), 5
    for _ in range(count):
        compile_text()
    gc.collect()
    assert (tool.allocated() - before) / count < LIMIT


@pytest.mark.campaign
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_dropped_kernels_and_launches_leak_almost_no_memory(device: str) -> None:
    options = ["--compiles", "4000", "--launches", "1000000", "--device", device]
    completed = subprocess.run([sys.executable, str(TOOL), *options], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout + completed.stderr
