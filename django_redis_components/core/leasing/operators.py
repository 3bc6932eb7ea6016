"""Releasing leases of any holder: for operators, not for the code that uses the lock or semaphore."""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.core.arguments import check_string
from django_redis_components.core.leasing.scripted_kind import ScriptedKind, parse_states
from django_redis_components.core.leasing.wait_queue import send_releases
from django_redis_components.core.names import validate_name
from django_redis_components.core.protocol import Flow


def force_release(parts: Sequence[ScriptedKind], token: str | None, author: str) -> Flow[int]:
    """Release the leases of all listed holders, or of one token, and return how many were released.

    Args:
        parts: `ScriptedKind.parts` of the lock or semaphore.
        author: the operator, named in the error of the former holder.

    Raises:
        TypeError, ValueError: the token cannot be one, or the author is not a string.
    """
    released = 0
    check_string(author, "author")
    if token is not None:
        token = validate_name(token, "token")
    for part in parts:
        tokens = (yield from _holders(part)) if token is None else [token] if part.may_hold(token) else []
        released += yield from send_releases([call for each in tokens for call in part.release(each, author)])
    return released


def _holders(part: ScriptedKind) -> Flow[list[str]]:
    states = parse_states((yield part.inspect_call()))
    return [holder.token for state in states for holder in state.holders]
