"""Benchmarks: ratios against a peer, measured in one process on the same inputs."""
