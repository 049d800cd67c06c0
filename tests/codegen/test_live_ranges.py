"""Live ranges of allocations, computed from the LLVM text of a function."""

from __future__ import annotations

from tegula.codegen.lifetimes import lifetimes


def spans(text: str, *pieces: str, first_line: int = 1 << 20) -> dict[str, tuple[int, int]]:
    """The live ranges of allocations that are created at their first use, or before line `first_line`, and that other
    code reads."""
    return lifetimes(text.strip("\n").split("\n"), dict.fromkeys(pieces, first_line), pieces)


def test_lifetimes_extend_through_computed_addresses() -> None:
    text = """
  store i32 0, ptr %s1
  %v1 = getelementptr i8, ptr %s1, i64 4
  store i32 0, ptr %s2
  store i32 0, ptr %v1
"""
    assert spans(text, "%s1", "%s2", "%s3") == {"%s1": (0, 4), "%s2": (2, 3)}


LOOP = """
  store i32 0, ptr %s1
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %n, %body ]
  br i1 %c, label %body, label %done
body:
  store i32 0, ptr %s2
  %x = load i32, ptr %s1
  %y = load i32, ptr %s2
  store i32 0, ptr %s3
  br label %head
done:
  store i32 0, ptr %s4
"""


def test_values_that_are_live_into_a_loop_live_to_its_end() -> None:
    assert spans(LOOP, "%s1", "%s2", "%s3", "%s4") == {
        "%s1": (0, 11), "%s2": (6, 9), "%s3": (9, 10), "%s4": (12, 13),
    }  # fmt: skip


def test_values_created_before_a_loop_live_to_its_end() -> None:
    actual = spans(LOOP, "%s1", "%s2", "%s3", "%s4", first_line=1)
    assert actual == {"%s1": (0, 11), "%s2": (2, 11), "%s3": (2, 11), "%s4": (12, 13)}
    nested = LOOP.replace(
        "  store i32 0, ptr %s3",
        "  br label %more\nmore:\n  store i32 0, ptr %s3\n  br i1 %d, label %more, label %on\non:",
    )
    assert spans(nested, "%s3", first_line=1)["%s3"] == (2, 15)
    assert spans(nested, "%s3", first_line=7)["%s3"] == (10, 13), "created in an iteration of the outer loop"


def test_lifetimes_follow_addresses_through_any_instruction() -> None:
    text = """
  %v1 = insertelement <2 x ptr> poison, ptr %s1, i32 0
  %v2 = shufflevector <2 x ptr> %v1, <2 x ptr> poison, <2 x i32> zeroinitializer
  %v3 = freeze ptr %s2
  store i32 0, ptr %s4
  %x = call <2 x i32> @llvm.masked.gather.v2i32.v2p0(<2 x ptr> align 4 %v2, <2 x i1> %m, <2 x i32> zeroinitializer)
  store i32 0, ptr %v3
"""
    assert spans(text, "%s1", "%s2", "%s4") == {"%s1": (0, 5), "%s2": (2, 6), "%s4": (3, 4)}


def test_operands_of_phis_are_live_around_the_loop() -> None:
    text = LOOP.replace(
        "%i = phi i64 [ 0, %entry ]", "%h = phi ptr [ %s2, %entry ], [ %h2, %body ]\n  %i = 0"
    )
    text = text.replace("ptr %s1\n  %y", "ptr %h\n  %y")
    actual = spans(text.replace("\n  %i = 0", ""), "%s2")
    assert actual["%s2"] == (1, 11)


def test_both_operands_of_a_select_are_live() -> None:
    text = """
  %p = select i1 %c, ptr %s1, ptr %s2
  %x = load i32, ptr %v9
  %y = load i32, ptr %p
"""
    assert spans(text, "%s1", "%s2") == {"%s1": (0, 3), "%s2": (0, 3)}


def test_masked_accesses_and_vectors_of_addresses_extend_lifetimes() -> None:
    text = """
  %v1 = getelementptr i32, ptr %s1, <8 x i64> %i
  store i32 0, ptr %s3
  %v2 = getelementptr i8, <8 x ptr> %v1, i64 4
  %x = call <8 x i32> @llvm.masked.gather.v8i32.v8p0(<8 x ptr> align 4 %v2, <8 x i1> %m, <8 x i32> zeroinitializer)
  %v3 = extractelement <8 x ptr> %v1, i64 %k
  call void @llvm.masked.store.v8i32.p0(<8 x i32> %x, ptr align 4 %s2, <8 x i1> %m)
  store i32 0, ptr %v3
"""
    assert spans(text, "%s1", "%s2", "%s3") == {"%s1": (0, 7), "%s2": (5, 6), "%s3": (1, 2)}


def test_stores_to_pieces_that_nothing_reads_are_removed() -> None:
    text = """
  %v1 = getelementptr i8, ptr %s1, i64 4
  store i32 0, ptr %v1
  store ptr %s2, ptr %s3
  store i32 0, ptr %s2
  store i32 0, ptr %s4
  call void @f(ptr %s4)
  store volatile i32 0, ptr %s5
  store i32 0, ptr %s6
"""
    lines = text.strip("\n").split("\n")
    pieces = dict.fromkeys((f"%s{k}" for k in range(1, 7)), 0)
    assert lifetimes(lines, pieces, ["%s6"]).keys() == pieces.keys() - {"%s1"}
    assert lines == ["", "", *text.strip("\n").split("\n")[2:]]
