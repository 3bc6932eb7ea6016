"""Ids of users that are offsets in bitmaps."""

from __future__ import annotations

from django_redis_components.core import conf


def check_user_id(user_id: object) -> int:
    """Return the id if it is in range."""
    if isinstance(user_id, bool) or not isinstance(user_id, int):
        raise TypeError(f"user_id={user_id!r}: expected an integer, got {type(user_id).__name__}.")
    limit = conf.settings().analytics.max_user_id
    if not 0 <= user_id <= limit:
        raise ValueError(
            f"user_id={user_id}: expected 0 to {limit}. The id is an offset in each day's bitmap, which takes "
            f'offset / 8 bytes; REDIS_COMPONENTS["ANALYTICS"]["MAX_USER_ID"] is the limit.'
        )
    return user_id
