"""Who may view the keys of rate limits, which may be addresses and ids of users, as text; others get their hashes."""

from __future__ import annotations

import ast
import re

from django.http import HttpRequest

from django_redis_components.core import keys
from django_redis_components.ratelimits.limiter import HashedKey, key_of_text

VIEW_KEYS = "django_redis_components.view_ratelimit_keys"
#: The key in an entry of the admin's log about a rate limit, as `repr` writes it.
_LOGGED = re.compile(r"""(?<=\b[Kk]ey )(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


def may_view_keys(http: HttpRequest) -> bool:
    """Return whether the user may view keys as text."""
    return http.user.has_perm(VIEW_KEYS)


def without_keys(entry: str) -> str:
    """Return an entry of the admin's log with the hash of its key."""
    return _LOGGED.sub(lambda found: repr(_hashed(found[0])), entry)


def hashed(text: str) -> str:
    """Return ``hash:`` and the hash of the key that an operator has named."""
    key = key_of_text(text)
    return str(key if isinstance(key, HashedKey) else HashedKey(keys.digest(key)))


def _hashed(logged: str) -> str:
    try:
        return hashed(ast.literal_eval(logged))
    except (SyntaxError, ValueError):  # another program wrote the entry
        return "…"
