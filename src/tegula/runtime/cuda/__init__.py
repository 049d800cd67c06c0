"""NVIDIA GPUs: the driver, contexts, memory, streams, recorded graphs, modules, launches.

Nothing here loads the driver before a function needs it."""
