"""The functions that LLVM may call for copies and fills, so that objects need no other library.

The functions are linked after optimisation, because LLVM would turn their loops into calls to the functions
themselves."""

_SHORT = [(16, "<16 x i8>"), (8, "i64"), (4, "i32"), (2, "i16"), (1, "i8")]


def _short_cases(step: str) -> str:
    """The code for fewer than 32 bytes: two overlapping accesses, whose size is the largest power of two that fits."""
    lines: list[str] = []
    for size, type in _SHORT:
        text = f"""
under{2 * size}:
  %fits{size} = icmp uge i64 %n, {size}
  br i1 %fits{size}, label %do{size}, label %under{size}
do{size}:
  %at{size} = sub i64 %n, {size}
{step}
  br label %out
"""
        lines.append(text.replace("SIZE", str(size)).replace("TYPE", type))
    return "".join(lines) + "under1:\n  br label %out\n"


_COPY = """
  %tail.to.SIZE = getelementptr inbounds i8, ptr %to, i64 %atSIZE
  %tail.from.SIZE = getelementptr inbounds i8, ptr %from, i64 %atSIZE
  %first.SIZE = load TYPE, ptr %from, align 1
  %last.SIZE = load TYPE, ptr %tail.from.SIZE, align 1
  store TYPE %first.SIZE, ptr %to, align 1
  store TYPE %last.SIZE, ptr %tail.to.SIZE, align 1"""

_FILL = """
  %tail.to.SIZE = getelementptr inbounds i8, ptr %to, i64 %atSIZE
  store TYPE %fill.SIZE, ptr %to, align 1
  store TYPE %fill.SIZE, ptr %tail.to.SIZE, align 1"""

MEMORY_FUNCTIONS = f"""
define internal ptr @memmove(ptr %to, ptr %from, i64 %n) #0 {{
entry:
  %is.long = icmp uge i64 %n, 32
  br i1 %is.long, label %long, label %under32
{_short_cases(_COPY)}
long:
  %tail = sub i64 %n, 32
  %tail.from = getelementptr inbounds i8, ptr %from, i64 %tail
  %tail.to = getelementptr inbounds i8, ptr %to, i64 %tail
  %first = load <32 x i8>, ptr %from, align 1
  %last = load <32 x i8>, ptr %tail.from, align 1
  %to.at = ptrtoint ptr %to to i64
  %from.at = ptrtoint ptr %from to i64
  %distance = sub i64 %to.at, %from.at
  %can.ascend = icmp uge i64 %distance, %n
  br i1 %can.ascend, label %ascend, label %descend
ascend:
  %i = phi i64 [ 0, %long ], [ %i.next, %ascend.step ]
  %i.in.range = icmp ult i64 %i, %tail
  br i1 %i.in.range, label %ascend.step, label %ascend.end
ascend.step:
  %up.from = getelementptr inbounds i8, ptr %from, i64 %i
  %up.to = getelementptr inbounds i8, ptr %to, i64 %i
  %up.v = load <32 x i8>, ptr %up.from, align 1
  store <32 x i8> %up.v, ptr %up.to, align 1
  %i.next = add i64 %i, 32
  br label %ascend
ascend.end:
  store <32 x i8> %last, ptr %tail.to, align 1
  br label %out
descend:
  %j = phi i64 [ %tail, %long ], [ %j.next, %descend.step ]
  %j.in.range = icmp sgt i64 %j, 0
  br i1 %j.in.range, label %descend.step, label %descend.end
descend.step:
  %down.from = getelementptr inbounds i8, ptr %from, i64 %j
  %down.to = getelementptr inbounds i8, ptr %to, i64 %j
  %down.v = load <32 x i8>, ptr %down.from, align 1
  store <32 x i8> %down.v, ptr %down.to, align 1
  %j.next = sub i64 %j, 32
  br label %descend
descend.end:
  store <32 x i8> %first, ptr %to, align 1
  br label %out
out:
  ret ptr %to
}}
define internal ptr @memcpy(ptr %to, ptr %from, i64 %n) #0 {{
  %r = tail call ptr @memmove(ptr %to, ptr %from, i64 %n)
  ret ptr %to
}}
define internal ptr @memset(ptr %to, i32 %value, i64 %n) #0 {{
entry:
  %fill.1 = trunc i32 %value to i8
  %single = insertelement <32 x i8> poison, i8 %fill.1, i64 0
  %fill.32 = shufflevector <32 x i8> %single, <32 x i8> poison, <32 x i32> zeroinitializer
  %fill.16 = shufflevector <32 x i8> %single, <32 x i8> poison, <16 x i32> zeroinitializer
  %words = bitcast <16 x i8> %fill.16 to <2 x i64>
  %fill.8 = extractelement <2 x i64> %words, i64 0
  %fill.4 = trunc i64 %fill.8 to i32
  %fill.2 = trunc i64 %fill.8 to i16
  %is.long = icmp uge i64 %n, 32
  br i1 %is.long, label %long, label %under32
{_short_cases(_FILL)}
long:
  %tail = sub i64 %n, 32
  %tail.to = getelementptr inbounds i8, ptr %to, i64 %tail
  br label %loop
loop:
  %i = phi i64 [ 0, %long ], [ %i.next, %loop.step ]
  %in.range = icmp ult i64 %i, %tail
  br i1 %in.range, label %loop.step, label %loop.end
loop.step:
  %up.to = getelementptr inbounds i8, ptr %to, i64 %i
  store <32 x i8> %fill.32, ptr %up.to, align 1
  %i.next = add i64 %i, 32
  br label %loop
loop.end:
  store <32 x i8> %fill.32, ptr %tail.to, align 1
  br label %out
out:
  ret ptr %to
}}
@llvm.used = appending global [3 x ptr] [ptr @memset, ptr @memcpy, ptr @memmove], section "llvm.metadata"
attributes #0 = {{ noinline nounwind "no-builtins" }}
"""
NAMES = frozenset({"memset", "memcpy", "memmove"})
