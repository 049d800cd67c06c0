"""Loads of memory whose contents a basic block knows, and instructions that precede a loop."""

from __future__ import annotations

from tegula.codegen.memory import MemoryEmitter
from tegula.codegen.storage import View
from tegula.codegen.text import Code
from tegula.types import bool_, float32


def emitter(*pieces: str) -> tuple[Code, MemoryEmitter]:
    code = Code()
    code.reuses = code.rotates_loops = True
    for piece in pieces:
        code.contents.add_piece(piece)
    return code, MemoryEmitter(code)


def loads(code: Code) -> list[str]:
    return [line for line in code.lines if " = load " in line]


def test_a_stored_register_is_not_loaded() -> None:
    code, memory = emitter("%s1", "%s2")
    memory.store("%s1", "%a", float32, 4)
    memory.store("%s2", "%b", bool_, 4)
    assert memory.load("%s1", float32, 4) == "%a" and memory.load("%s2", bool_, 4) == "%b"
    assert not loads(code)
    memory.load("%s1", float32, 2)
    assert len(loads(code)) == 1


def test_stores_that_may_overlap_are_loaded_again() -> None:
    code, memory = emitter("%s1", "%s2")
    far, near = memory.offset("%s1", "8", float32), memory.offset("%s1", "3", float32)
    memory.store("%s1", "%a", float32, 4)
    memory.store(far, "%b", float32, 4)
    memory.store("%s2", "%c", float32, 4)
    assert memory.load("%s1", float32, 4) == "%a", "the stores are beyond the four numbers"
    memory.store(near, "%d", float32, 4)
    assert memory.load("%s1", float32, 4) != "%a" and memory.load(far, float32, 4) == "%b"
    memory.store(memory.offset("%s1", "%i", float32), "%e", float32)
    assert memory.load(far, float32, 4) != "%b"


def test_contents_end_with_the_block_and_with_instructions_that_may_write() -> None:
    code, memory = emitter("%s1")
    for end in (
        lambda: code.define_label("next"),
        lambda: code.line("call void @f(ptr %s1)"),
        lambda: memory.store("%x", "%b", float32),
        lambda: memory.masked_store("%s1", "%b", float32, 4, "%m"),
    ):
        memory.store("%s1", "%a", float32, 4)
        end()
        assert memory.load("%s1", float32, 4) != "%a"


def test_loads_of_memory_that_a_loop_does_not_write_precede_it() -> None:
    code, memory = emitter("%s1", "%s2", "%s3")
    with code.loop("0", "8") as outer, code.loop("0", "8") as inner:
        memory.load("%s1", float32, 4)
        memory.load("%s2", float32, 4)
        memory.load(memory.offset("%s3", outer.index, float32), float32, 4)
        memory.load(memory.offset("%s3", inner.index, float32), float32, 4)
        memory.store("%s2", "%a", float32, 4)
    before_outer, before_inner = (
        code.lines[0],
        next(line for line in code.lines[1:] if line.count("\n") == 1 and "getelementptr" in line),
    )
    assert before_outer.count("load") == 1 and "ptr %s1," in before_outer
    assert f"i64 {outer.index}" in before_inner and before_inner.count("load") == 1
    rest = [line for line in code.lines if "load" in line and line not in (before_outer, before_inner)]
    assert len(rest) == 2 and "ptr %s2," in rest[0]


def test_loads_stay_in_loops_that_may_not_run_or_write_any_memory_or_where_a_branch_guards_them() -> None:
    code, memory = emitter("%s1")
    with code.loop("0", "%n"):
        memory.load("%s1", float32)
    with code.loop("0", "8"):
        memory.load("%s1", float32, 2)
        code.line("call void @f()")
    with code.loop("0", "8"):
        code.branch("%c", "then", "done")
        code.define_label("then")
        memory.load("%s1", float32, 4)
        code.jump("done")
        code.define_label("done")
    assert [line.split(" = ")[1].split(",")[0] for line in loads(code)] == [
        "load float",
        "load <2 x float>",
        "load <4 x float>",
    ]
    assert all("\n" not in line for line in loads(code))


def test_views_of_pieces_know_their_contents() -> None:
    code, memory = emitter("%s1")
    view = View("%s1", float32, (4, 8), (8, 1))
    memory.store_view(view, ["2", "0"], ("%a",), 8)
    memory.store_view(view, ["3", "0"], ("%b",), 8)
    assert memory.load_view(view, ["2", "0"], 8) == ("%a",)
    assert memory.load_view(view, ["%i", "0"], 8) != ("%b",)
    assert len(loads(code)) == 1
