"""Proof that the schedule of a kernel is right: what its roles do to barriers and shared memory, in every launch."""
