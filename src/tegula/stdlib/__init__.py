"""The standard library, written in the language itself. Importing it fills the registry."""

from tegula.stdlib import exponential

__all__ = ["exponential"]
