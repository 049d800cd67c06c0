"""The functions of the standard library that accept vectors."""

from __future__ import annotations

from tegula.runtime.library import library
from tegula.signature import ElementPattern
from tegula.stdlib import FUNCTIONS


def _takes_vectors(name: str) -> bool:
    parameters = library()[name].definitions[0].definition.parameters
    return any(isinstance(p.annotation, ElementPattern) for p in parameters)


VECTOR_FUNCTIONS = {"length", *(name for name in FUNCTIONS if _takes_vectors(name))}
