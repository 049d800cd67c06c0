"""Certificates as the prover writes them: docs/design/042-certificates.md says what they hold."""

from __future__ import annotations

from typing import Any, TypeAlias

Certificate: TypeAlias = dict[str, Any]
"""A certificate, made of lists, dictionaries, numbers and strings alone, so that it can be stored and printed."""
