"""Mutants of schedules: one change at every place, the checker's verdicts, and the replays."""
