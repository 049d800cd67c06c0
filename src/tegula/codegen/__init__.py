"""LLVM IR text from the IR."""
