"""The neighbourhood sweep: kernels in plain code, each one change away from a kernel that is known to be fast, against
their peers."""
