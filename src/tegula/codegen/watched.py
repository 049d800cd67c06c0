"""The layout of the watch, which precedes the scratch memory of a launching thread: generated code polls the watch, and
the launching thread sets its fields. Launches import this file without the rest of code generation."""

WATCH_BYTES = 64
DUE, POLL_FUNCTION, SCRATCH = -64, -48, -8
"""The byte offsets of fields of the watch, relative to the scratch memory: the clock value from which on a poll is due
(0: immediately), the poll function, and the address of the scratch memory."""
