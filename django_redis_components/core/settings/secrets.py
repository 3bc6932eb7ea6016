"""Passwords and tokens, which neither errors nor recorded local variables show."""

from __future__ import annotations

import re

#: A word that may begin with a user name and a password, before a host without a scheme.
_WORD = re.compile(r"[^\s'\"/]++")
#: A password in the query of a URL, also under a name that is written wrongly.
_QUERY = re.compile(r"([?&](?=\w*?(?:pas|secret|token))\w++=)[^&\s'\"]*+", re.IGNORECASE)


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
    """Return a text without the user names and passwords of the URLs in it, also of those without a scheme.

    Each step takes time in proportion to the length of the text, which may be anything.
    """
    return _QUERY.sub(r"\1***", _WORD.sub(_without_login, _without_credentials(text)))


def _without_credentials(text: str) -> str:
    """Hide the user name and password of a URL, to the last ``@``: a password may have spaces, quotes and ``@``."""
    before, _, rest = text.partition("//")
    _, at, host = rest.rpartition("@")
    return f"{before}//***@{host}" if at else text


def _without_login(word: re.Match[str]) -> str:
    login, _, host = word[0].rpartition("@")
    return f"***@{host}" if ":" in login else word[0]
