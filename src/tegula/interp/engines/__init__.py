"""The replay of schedules: a lowered kernel whose warps, copies, matmuls and stores are asynchronous engines, which
execute in any order that the hardware allows.

Waits and races are observed dynamically, from the counts of barriers and the happens-before sets of engines. The events
of ops are read from `ops.events`; no other code is shared with the proofs in `check`, for which the replay is the
oracle."""
