"""The layout of the watch, which lies in front of the scratch memory of a launching thread: generated code polls it,
the launching thread sets it. Launches load this file without the rest of code generation."""

WATCH_BYTES = 64
DUE, LOOK, SELF = -64, -48, -8
"""Byte offsets of the watch, which lies in front of the scratch memory: when to poll next (0: at once), the function to
call then, and the address of the scratch memory."""
