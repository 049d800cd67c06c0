"""Exponentials and what is made of them."""

from __future__ import annotations
