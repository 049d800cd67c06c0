"""The replay of schedules: a lowered kernel whose warps, copies, matmuls and stores are asynchronous engines, which
take turns in any order that the hardware allows.

What waits for what, and which bytes are whose, is seen as it happens: by what barriers count, and by what each engine
knows to be ordered before it. What ops do is read from `ops.events`; nothing else is shared with the proofs in `check`,
whose oracle this is."""
