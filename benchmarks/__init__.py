"""Benchmarks: speed ratios to a peer implementation, measured in one process on the same inputs."""
