"""Optimisers, which update arrays in place on their device."""

from tegula.optim.adam import Adam
from tegula.optim.sgd import SGD

__all__ = ["SGD", "Adam"]


def __dir__() -> list[str]:
    return sorted(__all__)
