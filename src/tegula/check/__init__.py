"""Whether the schedule of a kernel is right, that is, what its roles do to barriers and shared memory: proved for every
launch, or explored in some."""
