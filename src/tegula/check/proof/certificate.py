"""Certificates as the prover writes them. docs/design/042-certificates.md defines their contents."""

from __future__ import annotations

from typing import Any, TypeAlias

Certificate: TypeAlias = dict[str, Any]
"""A certificate: nested lists and dictionaries of numbers and strings, which can be printed as JSON."""
