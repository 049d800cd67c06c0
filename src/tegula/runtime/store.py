"""The disk cache as configured by `tg.config`."""

from __future__ import annotations

from tegula.backend import cache
from tegula.backend.cache import Cache, directory
from tegula.runtime.config import config


def configured_cache() -> Cache:
    """The cache of the configured directory, even if the cache is disabled."""
    return Cache(directory(config.kernel_cache_dir))


def disk_cache() -> Cache | None:
    """The cache to use; None if the cache is disabled."""
    return configured_cache() if config.cache_kernels else None


cache.disk_cache = disk_cache
