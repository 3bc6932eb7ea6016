"""The Redis commands that scripts call and modules send, as their sources name them."""

from __future__ import annotations

import re

#: Commands that are no argument of `redis.call` itself, but of a function that calls them.
_PASSED = ("add", "combine", "each_successful", "leave", "read_messages", "requeue")
_CALLED = re.compile(r'redis\.p?call\(\s*"([A-Z_]+)"')
_CHOSEN = re.compile(r'redis\.p?call\([^"]* and "([A-Z_]+)" or "([A-Z_]+)"')
_PASSED_ON = re.compile(rf'\b(?:{"|".join(_PASSED)})\([^"()]*"([A-Z_]+)"')
_SENT = re.compile(r'\b(?:Command|Read|send|request)\(\(?\s*"([A-Z_]+)"(?: if [^"]* else "([A-Z_]+)")?')


def called_commands(lua: str) -> set[str]:
    """Return the commands that a Lua text calls."""
    return _words(lua, _CALLED, _CHOSEN, _PASSED_ON)


def sent_commands(python: str) -> set[str]:
    """Return the commands that a Python text sends."""
    return _words(python, _SENT)


def _words(text: str, *patterns: re.Pattern[str]) -> set[str]:
    return {word for pattern in patterns for found in pattern.finditer(text) for word in found.groups() if word}
