"""Lowering of the IR to LLVM IR, as text."""
