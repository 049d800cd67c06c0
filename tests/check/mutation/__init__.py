"""Schedules spoiled in every place and in every way: what the checker says of them, and whether they fail."""
