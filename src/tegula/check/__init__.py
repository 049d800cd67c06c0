"""The checker of schedules: a schedule (the operations of the roles on barriers and shared memory) is proved correct
for every launch, or simulated in some launches."""
