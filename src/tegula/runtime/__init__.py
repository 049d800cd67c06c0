"""The runtime: arrays, devices, launches."""
