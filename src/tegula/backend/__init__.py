"""Machine code: LLVM, the loader, the thread pool, the disk cache."""
