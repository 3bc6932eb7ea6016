"""Checks of the values of settings: each accepts a value, or returns a text with what is accepted."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from django_redis_components.core.names import MAX_NAME_BYTES, validate_name
from django_redis_components.core.rates import parse_rate
from django_redis_components.core.units import to_seconds

#: Returns None for a valid value, else a text with what is accepted.
Check = Callable[[Any], str | None]

_HTTP_URL = re.compile(r"https?://[^\s/]+[^\s]*")
_EMAIL = re.compile(r"[^\s@<>,]+@[^\s@<>,]+")
_SHARD = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_SHARDS_ACCEPTED = (
    "a dict of 1 to 64 names to aliases of connections, each name of 1 to 32 of the characters A-Z a-z 0-9 _ . -,"
    ' such as {"default": "default", "b": "redis_b"}'
)

_ROUTES_ACCEPTED = (
    "a list of names, or a dict of names to shards, each None, a name or a list of different names,"
    ' such as {"mail": "b", "events": ["default", "b"], "reports": None}'
)


def seconds(*, zero: bool = False) -> Check:
    """Accept a duration in seconds, or a timedelta."""

    def check(value: Any) -> str | None:
        try:
            to_seconds(value, "value", zero=zero)
        except (TypeError, ValueError):
            return f"a number of seconds {'of at least 0' if zero else 'above 0'} (ten years at most), or a timedelta"
        return None

    return check


def integer(low: int, high: int) -> Check:
    """Accept an integer within bounds."""

    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"an integer from {low} to {high}"

    return check


def number(low: float, high: float) -> Check:
    """Accept a number within bounds."""

    def check(value: Any) -> str | None:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"a number from {low:g} to {high:g}"

    return check


def one_of(*choices: str) -> Check:
    """Accept one of these strings."""
    return lambda value: None if value in choices else "one of " + ", ".join(map(repr, choices))


def boolean(value: Any) -> str | None:
    """Accept True and False."""
    return None if isinstance(value, bool) else "True or False"


def text(value: Any) -> str | None:
    """Accept a non-empty string. Bytes of an environment variable that are not UTF-8 become lone surrogates."""
    if not isinstance(value, str) or not value:
        return "a string that is not empty"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "text that UTF-8 can encode"
    return None


def name(value: Any) -> str | None:
    """Accept a name for keys."""
    problem = text(value)
    if problem is None:
        try:
            validate_name(value)
        except ValueError:
            problem = f"1 to {MAX_NAME_BYTES} bytes of text without braces and control characters"
    return problem


def line(value: Any) -> str | None:
    """Accept a line of text."""
    fits = isinstance(value, str) and len(value) <= 100 and value.isprintable()
    return text(value) or (None if fits else "at most 100 printable characters")


def token(value: Any) -> str | None:
    """Accept a secret for an Authorization header."""
    fits = isinstance(value, str) and 16 <= len(value) <= 200 and value.isascii() and value.isprintable()
    return None if fits and " " not in value else "16 to 200 printable ASCII characters without spaces"


def optional(check: Check) -> Check:
    """Accept None, and what `check` accepts."""

    def both(value: Any) -> str | None:
        problem = None if value is None else check(value)
        return f"None or {problem}" if problem else None

    return both


def strings(value: Any) -> str | None:
    """Accept a list or tuple of strings."""
    fits = isinstance(value, list | tuple) and all(isinstance(item, str) and item for item in value)
    return None if fits else "a list of strings"


def fernet_keys(value: Any) -> str | None:
    """Accept a list or tuple of keys as `Fernet.generate_key` of the package cryptography returns them."""
    fits = isinstance(value, list | tuple) and all(map(_is_fernet_key, value))
    return None if fits else "a list of keys of 32 bytes in URL-safe base64, as Fernet.generate_key() returns, as text"


def _is_fernet_key(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(base64.urlsafe_b64decode(value)) == 32
    except ValueError:
        return False


def mapping(value: Any) -> str | None:
    """Accept a dict."""
    return None if isinstance(value, Mapping) else "a dict"


def routes(value: Any) -> str | None:
    """Accept a dict of names or patterns to queues, a function, or its dotted path."""
    if isinstance(value, Mapping):
        is_route = [text(pattern) is None and name(queue) is None for pattern, queue in value.items()]
        fits = all(is_route)
    else:
        fits = callable(value) or (isinstance(value, str) and "." in value)
    accepted = 'a dict of task names or patterns to queues, such as {"shop.tasks.*": "shop"}, a function, or its path'
    return None if fits else accepted


def shards(value: Any) -> str | None:
    """Accept a dict of 1 to 64 names to aliases."""
    fits = isinstance(value, Mapping) and 1 <= len(value) <= 64
    fits = fits and all(_is_shard(each) and text(alias) is None for each, alias in value.items())
    return None if fits else _SHARDS_ACCEPTED


def _is_shard(value: Any) -> bool:
    return isinstance(value, str) and _SHARD.fullmatch(value) is not None


def queues(value: Any) -> str | None:
    """Accept a list of names, or a dict of names to None, the name of a shard, or a list of names of shards."""
    if isinstance(value, Mapping):
        fits = bool(value) and all(text(queue) is None and _is_route(route) for queue, route in value.items())
        return None if fits else _ROUTES_ACCEPTED
    return strings(value)


def _is_route(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_shard, value)) and len(set(value)) == len(value)
    return value is None or _is_shard(value)


def queue_names(value: Any) -> str | None:
    """Accept a list or dict of names for keys."""
    return names(list(value))


def names(value: Any) -> str | None:
    """Accept a list or tuple of names."""
    problem = strings(value)
    if problem is None and not value:
        problem = "a list of at least one name"
    return problem or next((f"a list of names, each {wrong}" for wrong in map(name, value) if wrong), None)


def http_url(value: Any) -> str | None:
    """Accept the address of a web page."""
    fits = isinstance(value, str) and _HTTP_URL.fullmatch(value)
    return None if fits else "a URL, such as 'https://www.example.com/admin/'"


def http_urls(value: Any) -> str | None:
    """Accept a list or tuple of up to ten addresses of web servers."""
    fits = strings(value) is None and len(value) <= 10 and all(_HTTP_URL.fullmatch(each) for each in value)
    return None if fits else "a list of up to ten URLs, such as 'https://hooks.example.com/redis'"


def emails(value: Any) -> str | None:
    """Accept a list or tuple of up to 50 e-mail addresses."""
    fits = strings(value) is None and len(value) <= 50 and all(_EMAIL.fullmatch(each) for each in value)
    return None if fits else "a list of up to 50 e-mail addresses"


def path(value: Any) -> str | None:
    """Accept the path of a file, as a string or a `Path`."""
    return None if isinstance(value, str | PurePath) and str(value) else "the path of a file"


def paths(value: Any) -> str | None:
    """Accept a list or tuple of path prefixes."""
    fits = strings(value) is None and all(each.startswith("/") for each in value)
    return strings(value) or (None if fits else "a list of paths, each beginning with '/'")


def rates(value: Any) -> str | None:
    """Accept up to eight rates."""
    try:
        fits = isinstance(value, list | tuple) and len([parse_rate(rate) for rate in value]) <= 8
    except (TypeError, ValueError):
        fits = False
    return None if fits else "a list of up to eight rates, such as '10/s', '100/m', '3/2h', or (count, seconds)"


def penalty(value: Any) -> str | None:
    """Accept a pair of denials and seconds."""
    fits = isinstance(value, list | tuple) and len(value) == 2 and not integer(1, 10_000)(value[0])
    return None if fits and not seconds()(value[1]) else "(denials, seconds), such as (20, 600)"


def prefix(value: Any) -> str | None:
    """Accept a key prefix: short, without spaces and braces."""
    fits = isinstance(value, str) and 0 < len(value) <= 64 and value.isprintable() and not set(value) & set("{} ")
    return None if fits else "1 to 64 printable characters without spaces and braces"
