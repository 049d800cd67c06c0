"""Small native kernels for the tests of the backend, and the targets that can run here."""

from __future__ import annotations

import numpy as np

from tegula.backend.llvm import compile_object
from tegula.backend.loader import LoadedObject, load
from tegula.target import NAMED, CpuTarget, get_target, missing_flags

TARGETS = [get_target(), *(t for t in NAMED.values() if not missing_flags(t))]
NAMES = [t.name for t in TARGETS]

# Block i spins `work` iterations, adds 1 to out[i], and uses its scratch memory: i is written at both ends of this
# memory and must still be there after the work, else out[i] becomes very negative.
COUNTING = """
define i32 @kernel(ptr %args, ptr %scratch, i64 %begin, i64 %end) prefix i64 1 {
entry:
  %out = load ptr, ptr %args
  %work.p = getelementptr i8, ptr %args, i64 8
  %work = load i64, ptr %work.p
  %bytes.p = getelementptr i8, ptr %args, i64 16
  %bytes = load i64, ptr %bytes.p
  %far.at = sub i64 %bytes, 8
  %far = getelementptr i8, ptr %scratch, i64 %far.at
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %done ]
  %some = icmp slt i64 %i, %end
  br i1 %some, label %block, label %out.of.here
block:
  store volatile i64 %i, ptr %scratch
  store volatile i64 %i, ptr %far
  br label %spin
spin:
  %k = phi i64 [ 0, %block ], [ %k.next, %spin ]
  call void asm sideeffect "", ""()
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %work
  br i1 %more, label %spin, label %done
done:
  %near.now = load volatile i64, ptr %scratch
  %far.now = load volatile i64, ptr %far
  %both = add i64 %near.now, %far.now
  %twice = shl i64 %i, 1
  %kept = icmp eq i64 %both, %twice
  %one = select i1 %kept, i64 1, i64 -1000000000
  %p = getelementptr i64, ptr %out, i64 %i
  %old = atomicrmw add ptr %p, i64 %one monotonic
  %next = add i64 %i, 1
  br label %head
out.of.here:
  ret i32 0
}
"""


def loaded(text: str, target: CpuTarget | None = None) -> LoadedObject:
    return load(compile_object(text, target or get_target()))


def arguments(out: np.ndarray, work: int = 1, scratch: int = 64) -> bytes:
    return np.array([out.ctypes.data, work, scratch], np.int64).tobytes()
