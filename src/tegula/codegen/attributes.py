"""Attributes of LLVM functions by which code generation chooses passes."""

FEW_PASSES = '"tegula-few-passes"'
"""The attribute of functions in whose loops addresses, loads and trip counts are already where LLVM's passes for loops
would move them. See docs/design/065-times-of-first-calls.md."""

__all__ = ["FEW_PASSES"]
