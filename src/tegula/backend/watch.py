"""Signals while kernels run: watches, and the calls by which kernels check for signals.

Each thread has a watch in front of its scratch memory. A long-running loop of a kernel compares the clock with the
watch's word `due` (codegen/poll.py), and calls `look` after this time. A worker then only checks whether the launch was
cancelled. The launching thread, if it is the main thread, makes the interpreter run the handlers of pending signals. If
a handler raises an exception, the launch is cancelled: the kernel returns 1 immediately, and in other threads at their
next look; the exception is kept until Python code raises it. A handler that returns normally has no effect on the
launch.

A handler runs on the stack of the kernel, and may launch kernels, which get other scratch memory."""

from __future__ import annotations

import ctypes
from typing import Any

from tegula.codegen.watched import DUE, LOOK, SELF, WATCH_BYTES

JOB, OWNER = LOOK - 8, LOOK + 8
"""Byte offsets relative to the scratch memory, as in codegen/watched.py: the launch (0 for a launch of one block), and
whether the memory belongs to a launching thread."""

PERIOD = 25_000
"""The time between two polls in microseconds."""

FUNCTIONS = (
    *("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch", "PyErr_Clear"),
    *("PyObject_GetAttr", "PyDict_Copy", "PyDict_Clear", "PyDict_Update", "Py_DecRef"),
)
_WORDS = (*FUNCTIONS, "local", "attributes")
FOUND = 8 * len(_WORDS)
"""The offset of the exception that a handler raised: type, value, traceback. Only the main thread runs handlers."""
PYTHON_BYTES = FOUND + 3 * 8

NAMES = {
    **{"WATCH_JOB": JOB, "WATCH_LOOK": LOOK, "WATCH_BYTES": WATCH_BYTES, "PERIOD": PERIOD},
    **{
        "WATCH_DUE": DUE,
        "WATCH_OWNER": OWNER,
        "WATCH_SELF": SELF,
        "FOUND": FOUND,
        "PYTHON_BYTES": PYTHON_BYTES,
    },
    **{f"P.{name}": 8 * k for k, name in enumerate(_WORDS)},
}

TEXT = """
@python = global [<PYTHON_BYTES> x i8] zeroinitializer, align 8

define internal ptr @known(i64 %at) alwaysinline {
  %p = getelementptr i8, ptr @python, i64 %at
  %x = load ptr, ptr %p
  ret ptr %x
}

; Whether a kernel shall stop, for the thread whose scratch memory begins at %scratch. The first look of a range of
; blocks only begins to count the time: ranges are short as a rule.
define i32 @look(i64 %scratch) noinline {
entry:
  %memory = inttoptr i64 %scratch to ptr
  %due.p = getelementptr i8, ptr %memory, i64 <WATCH_DUE>
  %due = load i64, ptr %due.p
  %now = call i64 @clock()
  %period = call i64 @ticks(i64 <PERIOD>)
  %later = add i64 %now, %period
  store i64 %later, ptr %due.p
  %job.p = getelementptr i8, ptr %memory, i64 <WATCH_JOB>
  %job = load ptr, ptr %job.p
  %alone = icmp eq ptr %job, null
  br i1 %alone, label %time, label %shared
shared:
  %stopped.p = getelementptr inbounds i8, ptr %job, i64 <stopped>
  %stopped = load atomic i64, ptr %stopped.p monotonic, align 8
  %over = icmp ne i64 %stopped, 0
  br i1 %over, label %stop, label %time
time:
  %owner.p = getelementptr i8, ptr %memory, i64 <WATCH_OWNER>
  %owner = load i64, ptr %owner.p
  %first = icmp eq i64 %due, 0
  %worker = icmp eq i64 %owner, 0
  %neither = or i1 %first, %worker
  br i1 %neither, label %go, label %main
main:
  %thread = call i64 @system(i64 <gettid>, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %process = call i64 @system(i64 <getpid>, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %is.main = icmp eq i64 %thread, %process
  br i1 %is.main, label %ask, label %go
ask:
  %raised = call i1 @handle()
  ; The handlers may have taken long.
  %then = call i64 @clock()
  %next = add i64 %then, %period
  store i64 %next, ptr %due.p
  br i1 %raised, label %stop, label %go
stop:
  ret i32 1
go:
  ret i32 0
}

; Run the handlers of signals; whether one has raised an exception. What the thread knows of its scratch memory is out
; of their sight: the attributes of `local` are those of its class meanwhile.
define internal i1 @handle() noinline {
entry:
  %f.ensure = call ptr @known(i64 <P.PyGILState_Ensure>)
  %lock = call i32 %f.ensure()
  %f.get = call ptr @known(i64 <P.PyObject_GetAttr>)
  %local = call ptr @known(i64 <P.local>)
  %name = call ptr @known(i64 <P.attributes>)
  %own = call ptr %f.get(ptr %local, ptr %name)
  %f.forget = call ptr @known(i64 <P.PyErr_Clear>)
  %f.drop = call ptr @known(i64 <P.Py_DecRef>)
  %none = icmp eq ptr %own, null
  br i1 %none, label %failed, label %copy
copy:
  %f.copy = call ptr @known(i64 <P.PyDict_Copy>)
  %kept = call ptr %f.copy(ptr %own)
  %no.copy = icmp eq ptr %kept, null
  br i1 %no.copy, label %no.memory, label %run
run:
  %f.empty = call ptr @known(i64 <P.PyDict_Clear>)
  call void %f.empty(ptr %own)
  %f.check = call ptr @known(i64 <P.PyErr_CheckSignals>)
  %r = call i32 %f.check()
  %raised = icmp ne i32 %r, 0
  br i1 %raised, label %fetch, label %restore
fetch:
  %type.p = getelementptr i8, ptr @python, i64 <FOUND>
  %value.p = getelementptr i8, ptr %type.p, i64 8
  %trace.p = getelementptr i8, ptr %type.p, i64 16
  %f.fetch = call ptr @known(i64 <P.PyErr_Fetch>)
  call void %f.fetch(ptr %type.p, ptr %value.p, ptr %trace.p)
  br label %restore
restore:
  %f.update = call ptr @known(i64 <P.PyDict_Update>)
  %u = call i32 %f.update(ptr %own, ptr %kept)
  call void %f.drop(ptr %kept)
  call void %f.drop(ptr %own)
  br label %leave
no.memory:
  call void %f.drop(ptr %own)
  br label %failed
failed:
  call void %f.forget()
  br label %leave
leave:
  %result = phi i1 [ %raised, %restore ], [ false, %failed ]
  %f.release = call ptr @known(i64 <P.PyGILState_Release>)
  call void %f.release(i32 %lock)
  ret i1 %result
}
"""

_found: list[int] = []
_kept: list[object] = []
_restore = ctypes.pythonapi.PyErr_Restore
_restore.argtypes, _restore.restype = [ctypes.c_void_p] * 3, None


def connect(python: int, local: Any) -> None:
    """Give native code access to Python. `python`: the address of the table of functions; `local`: the thread-local
    object whose attributes describe a thread's scratch memory."""
    attributes = "__dict__"
    _kept[:] = local, attributes
    addresses = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in FUNCTIONS]
    words = (ctypes.c_void_p * len(_WORDS)).from_address(python)
    words[:] = [*addresses, id(local), id(attributes)]
    _found[:] = [python + FOUND]


def prepare(scratch: int, poll_address: int) -> None:
    """Initialise the watch in front of the scratch memory of a launching thread. `poll_address`: the address of the
    poll function."""
    for at, value in ((DUE, 0), (JOB, 0), (LOOK, poll_address), (OWNER, 1), (SELF, scratch)):
        ctypes.c_int64.from_address(scratch + at).value = value


def raise_recorded() -> None:
    """Raise the exception that cancelled a kernel; KeyboardInterrupt if none was recorded."""
    words = (ctypes.c_void_p * 3).from_address(_found[0])
    recorded, words[:] = list(words), [None] * 3
    if recorded[0] is None:
        raise KeyboardInterrupt
    _restore(*recorded)
