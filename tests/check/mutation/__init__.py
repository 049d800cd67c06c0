"""Mutants of schedules, each with one change; the checker's verdicts on mutants, and their replays."""
