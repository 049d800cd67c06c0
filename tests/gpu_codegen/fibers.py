"""Fibers: threads of machine code that run one at a time on one processor thread. Each fiber has its own stack, runs
until a request, and continues after the answer.

Stacks are switched by the C library (swapcontext), and Python frames are never on a stack of a fiber."""

from __future__ import annotations

import ctypes
import mmap

STACK_BYTES = 1 << 18
CONTEXT_BYTES = 1 << 13
"""The bytes of a stack, of which only used pages occupy memory, and an upper bound of the bytes of a ucontext_t."""
LINK_OFFSET, STACK_OFFSET, STACK_SIZE_OFFSET = 8, 16, 32
"""The byte offsets of the next context, the stack and the size of the stack in a ucontext_t of Linux."""
END_REQUEST = -1
REQUEST_TEXT = """
@mailbox = internal global ptr null
define void @connect(ptr %x) {
  store ptr %x, ptr @mailbox
  ret void
}
define internal void @request(i64 %number, ptr %address) noinline {
  %mailbox = load ptr, ptr @mailbox
  %p.home = getelementptr i64, ptr %mailbox, i64 1
  %p.running = getelementptr i64, ptr %mailbox, i64 2
  %p.number = getelementptr i64, ptr %mailbox, i64 3
  %p.address = getelementptr i64, ptr %mailbox, i64 4
  store i64 %number, ptr %p.number
  store ptr %address, ptr %p.address
  %swap = load ptr, ptr %mailbox
  %home = load ptr, ptr %p.home
  %running = load ptr, ptr %p.running
  %swapped = call i32 %swap(ptr %running, ptr %home)
  ret void
}
define void @begin() {
  %mailbox = load ptr, ptr @mailbox
  %p.arguments = getelementptr i64, ptr %mailbox, i64 5
  %p.thread = getelementptr i64, ptr %mailbox, i64 6
  %p.block = getelementptr i64, ptr %mailbox, i64 7
  %p.grid = getelementptr i64, ptr %mailbox, i64 8
  %arguments = load ptr, ptr %p.arguments
  %thread = load i32, ptr %p.thread
  %block_index = load i32, ptr %p.block
  %grid = load i32, ptr %p.grid
  call void @kernel(ptr %arguments, i32 %thread, i32 %block_index, i32 %grid)
  call void @request(i64 -1, ptr null)
  ret void
}
"""
"""LLVM text for a module with a function `kernel`: threads call `request` with a request number and an address."""

_libc = ctypes.PyDLL(None)


class Mailbox(ctypes.Structure):
    """The memory that Python and the code exchange. `arguments`, `thread`, `block` and `grid` describe a starting
    thread."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("swap", "main_context", "running_context")),
        *(
            ("request_number", ctypes.c_int64),
            ("request_address", ctypes.c_void_p),
            ("arguments", ctypes.c_void_p),
        ),
        *((name, ctypes.c_int64) for name in ("thread", "block", "grid")),
    )


class Fibers:
    """The stacks of a number of threads, and the mailbox of the modules that the threads run."""

    def __init__(self, count: int) -> None:
        self.memory = mmap.mmap(-1, count * STACK_BYTES + (count + 1) * CONTEXT_BYTES)
        self.first = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.contexts = self.first + count * STACK_BYTES
        self.main_context = self.contexts + count * CONTEXT_BYTES
        swap = ctypes.cast(_libc.swapcontext, ctypes.c_void_p).value
        self.mailbox = Mailbox(swap=swap, main_context=self.main_context)

    def connect(self, function: int) -> None:
        """Pass the address of the mailbox to the function `connect` of a module."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(ctypes.addressof(self.mailbox))

    def begin(self, fiber: int, function: int) -> None:
        """Start a thread in the function `begin` of a module when the fiber runs for the first time."""
        context = self.contexts + fiber * CONTEXT_BYTES
        _libc.getcontext(ctypes.c_void_p(context))
        for address, value in (
            (LINK_OFFSET, 0),
            (STACK_OFFSET, self.first + fiber * STACK_BYTES),
            (STACK_SIZE_OFFSET, STACK_BYTES),
        ):
            ctypes.c_uint64.from_address(context + address).value = value
        _libc.makecontext(ctypes.c_void_p(context), ctypes.c_void_p(function), 0)

    def run(self, fiber: int) -> tuple[int, int]:
        """Run a thread until its next request or its end. Returns the number and the address of the request."""
        mailbox, context = self.mailbox, self.contexts + fiber * CONTEXT_BYTES
        mailbox.running_context = context
        _libc.swapcontext(ctypes.c_void_p(self.main_context), ctypes.c_void_p(context))
        return mailbox.request_number, mailbox.request_address
