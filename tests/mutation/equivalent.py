"""Mutants that change nothing that could be noticed, each with the reason."""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str], str] = {}
"""By source file and change, as ``python -m tests.mutation`` prints them."""
