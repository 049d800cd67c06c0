"""The neighbourhood sweep: kernels in plain code, each one change away from one that is known to be fast, against their
peers."""
