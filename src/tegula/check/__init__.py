"""The checker of schedules: a schedule, the roles' operations on barriers and shared memory, is proved right for every
launch, or explored in some launches."""
