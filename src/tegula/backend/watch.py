"""Signals while kernels run: watches, and the polls by which kernels check for signals.

Each thread has a watch in front of its scratch memory. A long-running loop of a kernel compares the clock with the
watch's word `due` (codegen/poll.py), and calls `poll` after this time. A worker then only checks whether the launch was
cancelled. The launching thread, if it is the main thread, makes the interpreter run the handlers of pending signals. If
a handler raises an exception, the launch is cancelled: the kernel returns 1 immediately, and in other threads at their
next poll; the exception is stored until Python code raises it. A handler that returns normally has no effect on the
launch.

A handler runs on the stack of the kernel, and may launch kernels, which use different scratch memory."""

from __future__ import annotations

import ctypes
from typing import Any

from tegula.codegen.watched import DUE, POLL_FUNCTION, SCRATCH, WATCH_BYTES

JOB, OWNER = POLL_FUNCTION - 8, POLL_FUNCTION + 8
"""Byte offsets relative to the scratch memory, as in codegen/watched.py: the launch (0 for a launch of one block), and
whether the memory belongs to a launching thread."""

PERIOD = 25_000
"""The time between two polls in microseconds."""

FUNCTIONS = (
    *("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch", "PyErr_Clear"),
    *("PyObject_GetAttr", "PyDict_Copy", "PyDict_Clear", "PyDict_Update", "Py_DecRef"),
)
_WORDS = (*FUNCTIONS, "local", "attributes")
EXCEPTION = 8 * len(_WORDS)
"""The offset of the exception that a handler raised: type, value, traceback. Only the main thread runs handlers."""
PYTHON_BYTES = EXCEPTION + 3 * 8

NAMES = {
    **{"WATCH_JOB": JOB, "WATCH_LOOK": POLL_FUNCTION, "WATCH_BYTES": WATCH_BYTES, "PERIOD": PERIOD},
    **{
        "WATCH_DUE": DUE,
        "WATCH_OWNER": OWNER,
        "WATCH_SELF": SCRATCH,
        "EXCEPTION": EXCEPTION,
        "PYTHON_BYTES": PYTHON_BYTES,
    },
    **{f"P.{name}": 8 * k for k, name in enumerate(_WORDS)},
}

TEXT = """
@python = global [<PYTHON_BYTES> x i8] zeroinitializer, align 8

define internal ptr @load_python(i64 %at) alwaysinline {
  %p = getelementptr i8, ptr @python, i64 %at
  %value = load ptr, ptr %p
  ret ptr %value
}

; Whether a kernel must stop, for the thread whose scratch memory begins at %scratch. The first poll in a range of
; blocks only sets the time of the next poll, because most ranges are short.
define i32 @poll(i64 %scratch) noinline {
entry:
  %memory = inttoptr i64 %scratch to ptr
  %due.p = getelementptr i8, ptr %memory, i64 <WATCH_DUE>
  %due = load i64, ptr %due.p
  %now = call i64 @clock()
  %period = call i64 @ticks(i64 <PERIOD>)
  %due.next = add i64 %now, %period
  store i64 %due.next, ptr %due.p
  %job.p = getelementptr i8, ptr %memory, i64 <WATCH_JOB>
  %job = load ptr, ptr %job.p
  %is.single = icmp eq ptr %job, null
  br i1 %is.single, label %check.owner, label %check.job
check.job:
  %stopped.p = getelementptr inbounds i8, ptr %job, i64 <stopped>
  %stopped = load atomic i64, ptr %stopped.p monotonic, align 8
  %is.stopped = icmp ne i64 %stopped, 0
  br i1 %is.stopped, label %stop, label %check.owner
check.owner:
  %owner.p = getelementptr i8, ptr %memory, i64 <WATCH_OWNER>
  %owner = load i64, ptr %owner.p
  %is.first = icmp eq i64 %due, 0
  %is.worker = icmp eq i64 %owner, 0
  %skip = or i1 %is.first, %is.worker
  br i1 %skip, label %continue, label %check.thread
check.thread:
  %thread = call i64 @system_call(i64 <gettid>, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %process = call i64 @system_call(i64 <getpid>, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)
  %is.main = icmp eq i64 %thread, %process
  br i1 %is.main, label %run.handlers, label %continue
run.handlers:
  %raised = call i1 @handle()
  ; The handlers may have taken a long time.
  %handled.at = call i64 @clock()
  %next = add i64 %handled.at, %period
  store i64 %next, ptr %due.p
  br i1 %raised, label %stop, label %continue
stop:
  ret i32 1
continue:
  ret i32 0
}

; Run the handlers of signals; whether a handler has raised an exception. While handlers run, the attributes of `local`
; are removed, so that launches of handlers allocate different scratch memory.
define internal i1 @handle() noinline {
entry:
  %f.ensure = call ptr @load_python(i64 <P.PyGILState_Ensure>)
  %lock = call i32 %f.ensure()
  %f.get = call ptr @load_python(i64 <P.PyObject_GetAttr>)
  %local = call ptr @load_python(i64 <P.local>)
  %name = call ptr @load_python(i64 <P.attributes>)
  %attributes.own = call ptr %f.get(ptr %local, ptr %name)
  %f.forget = call ptr @load_python(i64 <P.PyErr_Clear>)
  %f.drop = call ptr @load_python(i64 <P.Py_DecRef>)
  %no.attributes = icmp eq ptr %attributes.own, null
  br i1 %no.attributes, label %failed, label %copy
copy:
  %f.copy = call ptr @load_python(i64 <P.PyDict_Copy>)
  %attributes.copy = call ptr %f.copy(ptr %attributes.own)
  %no.copy = icmp eq ptr %attributes.copy, null
  br i1 %no.copy, label %no.memory, label %run
run:
  %f.empty = call ptr @load_python(i64 <P.PyDict_Clear>)
  call void %f.empty(ptr %attributes.own)
  %f.check = call ptr @load_python(i64 <P.PyErr_CheckSignals>)
  %r = call i32 %f.check()
  %raised = icmp ne i32 %r, 0
  br i1 %raised, label %fetch, label %restore
fetch:
  %type.p = getelementptr i8, ptr @python, i64 <EXCEPTION>
  %value.p = getelementptr i8, ptr %type.p, i64 8
  %trace.p = getelementptr i8, ptr %type.p, i64 16
  %f.fetch = call ptr @load_python(i64 <P.PyErr_Fetch>)
  call void %f.fetch(ptr %type.p, ptr %value.p, ptr %trace.p)
  br label %restore
restore:
  %f.update = call ptr @load_python(i64 <P.PyDict_Update>)
  %u = call i32 %f.update(ptr %attributes.own, ptr %attributes.copy)
  call void %f.drop(ptr %attributes.copy)
  call void %f.drop(ptr %attributes.own)
  br label %leave
no.memory:
  call void %f.drop(ptr %attributes.own)
  br label %failed
failed:
  call void %f.forget()
  br label %leave
leave:
  %result = phi i1 [ %raised, %restore ], [ false, %failed ]
  %f.release = call ptr @load_python(i64 <P.PyGILState_Release>)
  call void %f.release(i32 %lock)
  ret i1 %result
}
"""

_exception_address: list[int] = []
_references: list[object] = []
_restore = ctypes.pythonapi.PyErr_Restore
_restore.argtypes, _restore.restype = [ctypes.c_void_p] * 3, None


def connect(python: int, local: Any) -> None:
    """Give native code access to Python. `python`: the address of the table of functions; `local`: the thread-local
    object whose attributes describe a thread's scratch memory."""
    attributes = "__dict__"
    _references[:] = local, attributes
    addresses = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in FUNCTIONS]
    words = (ctypes.c_void_p * len(_WORDS)).from_address(python)
    words[:] = [*addresses, id(local), id(attributes)]
    _exception_address[:] = [python + EXCEPTION]


def prepare(scratch: int, poll_address: int) -> None:
    """Initialise the watch in front of the scratch memory of a launching thread. `poll_address`: the address of the
    poll function."""
    for at, value in ((DUE, 0), (JOB, 0), (POLL_FUNCTION, poll_address), (OWNER, 1), (SCRATCH, scratch)):
        ctypes.c_int64.from_address(scratch + at).value = value


def raise_recorded() -> None:
    """Raise the exception that cancelled a kernel; KeyboardInterrupt if none was recorded."""
    words = (ctypes.c_void_p * 3).from_address(_exception_address[0])
    recorded, words[:] = list(words), [None] * 3
    if recorded[0] is None:
        raise KeyboardInterrupt
    _restore(*recorded)
