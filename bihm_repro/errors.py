"""The failures a user can mend; the command line prints each on one line and exits with 2."""

from __future__ import annotations

__all__ = ["InputError", "SetupError"]


class InputError(ValueError):
    """Something given by the user is wrong: the message names it, what is allowed and the fix."""


class SetupError(RuntimeError):
    """The machine lacks something that is needed: the message says what and how to get it."""
