"""The failures a user can mend; the command line prints each on one line and exits with 2."""

from __future__ import annotations

__all__ = ["InputError", "SetupError"]


LONGEST = 2000
"""Characters of a message; of a longer one the beginning and the end are kept."""


class InputError(ValueError):
    """Something given by the user is wrong: the message names it, what is allowed and the fix."""

    def __str__(self) -> str:
        """Return the message on one line, whatever names and values are in it."""
        return _one_line(super().__str__())


class SetupError(RuntimeError):
    """The machine lacks something that is needed: the message says what and how to get it."""

    def __str__(self) -> str:
        """Return the message on one line, whatever names and values are in it."""
        return _one_line(super().__str__())


def _one_line(text: str) -> str:
    line = " ".join(text.splitlines())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 505]} ... {line[-500:]}"
