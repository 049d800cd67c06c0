"""The disk cache as `tg.config` has it."""

from __future__ import annotations

from tegula.backend.cache import Cache, directory
from tegula.runtime.config import config


def configured_cache() -> Cache:
    """The cache of the configured directory, whether in use or not."""
    return Cache(directory(config.kernel_cache_dir))


def disk_cache() -> Cache | None:
    """The cache to use; None where none is wanted."""
    return configured_cache() if config.cache_kernels else None
