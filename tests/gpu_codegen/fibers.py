"""Fibers: threads of machine code that take turns on one processor thread. Each has its own stack, runs until it makes
a request, and continues when it is answered.

Stacks are switched by the C library (swapcontext), and Python frames are never on a stack of a fiber."""

from __future__ import annotations

import ctypes
import mmap

STACK = 1 << 18
CONTEXT = 1 << 13
"""The bytes of a stack, of which only used pages take memory, and at least the bytes of a ucontext_t."""
LINK, BEGIN, SIZE = 8, 16, 32
"""The offsets of the next context and of the stack in a ucontext_t of Linux."""
ENDED = -1
ASK = """
@board = internal global ptr null
define void @connect(ptr %x) {
  store ptr %x, ptr @board
  ret void
}
define internal void @ask(i64 %number, ptr %at) noinline {
  %board = load ptr, ptr @board
  %p.home = getelementptr i64, ptr %board, i64 1
  %p.running = getelementptr i64, ptr %board, i64 2
  %p.asked = getelementptr i64, ptr %board, i64 3
  %p.at = getelementptr i64, ptr %board, i64 4
  store i64 %number, ptr %p.asked
  store ptr %at, ptr %p.at
  %swap = load ptr, ptr %board
  %home = load ptr, ptr %p.home
  %running = load ptr, ptr %p.running
  %swapped = call i32 %swap(ptr %running, ptr %home)
  ret void
}
define void @begin() {
  %board = load ptr, ptr @board
  %p.arguments = getelementptr i64, ptr %board, i64 5
  %p.thread = getelementptr i64, ptr %board, i64 6
  %p.number = getelementptr i64, ptr %board, i64 7
  %p.grid = getelementptr i64, ptr %board, i64 8
  %arguments = load ptr, ptr %p.arguments
  %thread = load i32, ptr %p.thread
  %number = load i32, ptr %p.number
  %grid = load i32, ptr %p.grid
  call void @kernel(ptr %arguments, i32 %thread, i32 %number, i32 %grid)
  call void @ask(i64 -1, ptr null)
  ret void
}
"""
"""The code that a module with a function `kernel` needs: threads call `ask` with a request number and an address."""

_libc = ctypes.PyDLL(None)


class Board(ctypes.Structure):
    """The memory that Python and the code exchange. `arguments` to `grid`: of a starting thread."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("swap", "home", "running")),
        *(("asked", ctypes.c_int64), ("at", ctypes.c_void_p), ("arguments", ctypes.c_void_p)),
        *((name, ctypes.c_int64) for name in ("thread", "number", "grid")),
    )


class Fibers:
    """The stacks of a number of threads, and the board of all modules that they run."""

    def __init__(self, count: int) -> None:
        self.memory = mmap.mmap(-1, count * STACK + (count + 1) * CONTEXT)
        self.first = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.contexts = self.first + count * STACK
        self.home = self.contexts + count * CONTEXT
        swap = ctypes.cast(_libc.swapcontext, ctypes.c_void_p).value
        self.board = Board(swap=swap, home=self.home)

    def connect(self, function: int) -> None:
        """Pass the address of the board to the function `connect` of a module."""
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(ctypes.addressof(self.board))

    def begin(self, fiber: int, function: int) -> None:
        """Start a thread in a module's function `begin` at its first turn."""
        context = self.contexts + fiber * CONTEXT
        _libc.getcontext(ctypes.c_void_p(context))
        for address, value in ((LINK, 0), (BEGIN, self.first + fiber * STACK), (SIZE, STACK)):
            ctypes.c_uint64.from_address(context + address).value = value
        _libc.makecontext(ctypes.c_void_p(context), ctypes.c_void_p(function), 0)

    def run(self, fiber: int) -> tuple[int, int]:
        """Run a thread until its next request or its end. Returns the number and the address of the request."""
        board, context = self.board, self.contexts + fiber * CONTEXT
        board.running = context
        _libc.swapcontext(ctypes.c_void_p(self.home), ctypes.c_void_p(context))
        return board.asked, board.at
