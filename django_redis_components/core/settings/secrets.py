"""Passwords and tokens, which neither errors nor recorded local variables show."""

from __future__ import annotations

import re

#: User name and password of a URL, to the last ``@``: a password may contain spaces, quotes and ``@``.
_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)


class Secret(str):
    """A text whose `repr` hides it: debug pages and error trackers record local variables by their `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


def mask_credentials(text: str) -> str:
    """Return a text without the user names and passwords of the URLs in it."""
    return _CREDENTIALS.sub("//***@", text)
