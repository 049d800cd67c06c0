"""The layout of the watch, which precedes the scratch memory of a launching thread: generated code polls the watch, and
the launching thread sets its fields. Launches import this file without the rest of code generation."""

WATCH_BYTES = 64
DUE, LOOK, SELF = -64, -48, -8
"""Byte offsets of the watch relative to the scratch memory: the time of the next poll (0: immediately), the function to
call, and the address of the scratch memory."""
