"""Arrays, devices, launches: what runs around compiled kernels."""
