"""Passwords and tokens, which neither errors nor recorded local variables show."""

from __future__ import annotations

import re

#: User name and password of a URL, to the last ``@``: a password may contain spaces, quotes and ``@``.
_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)
#: The same before a host without a scheme.
_LOGIN = re.compile(r"[^\s'\"/]*:[^\s'\"/]*@")
#: A password in the query of a URL, also under a name that is written wrongly.
_QUERY = re.compile(r"([?&]\w*(?:pas|secret|token)\w*=)[^&\s'\"]*", re.IGNORECASE)


class Secret(str):
    """A text whose `repr` hides it: debug pages and error trackers record local variables by their `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Hidden:
    """A wrong value of a secret, for an error: its `repr` shows the type at most.

    A password may be read from a file as bytes, or be a number in a file of settings.
    """

    def __init__(self, value: object) -> None:
        self._type = type(value)

    def __repr__(self) -> str:
        return "'***'" if issubclass(self._type, str | list | tuple) else f"'***' of type {self._type.__name__}"


def mask_credentials(text: str) -> str:
    """Return a text without the user names and passwords of the URLs in it, also of those without a scheme."""
    return _QUERY.sub(r"\1***", _LOGIN.sub("***@", _CREDENTIALS.sub("//***@", text)))
