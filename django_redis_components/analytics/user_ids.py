"""Ids of users: offsets in bitmaps, or any ids that are mapped to numbers (see lua/shared/user_numbers.lua)."""

from __future__ import annotations

from uuid import UUID

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_int, id_text
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command, Flow, Read, arun, run
from django_redis_components.core.settings import conf

#: An id of a user. Without mapping it is an integer; with it 7 and "7" are the same id.
UserId = int | str | UUID
_WHY = (
    ". The id is an offset in each day's bitmap, which takes offset / 8 bytes;"
    ' REDIS_COMPONENTS["ANALYTICS"]["MAX_USER_ID"] is the limit. Other ids need mapped=True'
)


def check_user_id(user_id: object) -> int:
    """Return the id if it is in range."""
    return check_int(user_id, "user_id", 0, conf.settings().analytics.max_user_id, hint=_WHY)


def user_text(user_id: object, *, mapped: bool) -> str:
    """Return an id as it is stored.

    Raises:
        TypeError, ValueError: it is not accepted.
    """
    if not mapped:
        return str(check_user_id(user_id))
    return keys.validate_name(id_text(user_id, "user_id"), "user_id")


def check_number(reply: int, counter: object) -> int:
    """Return the reply of a script that gives a user a number.

    Raises:
        ValueError: all numbers are used.
    """
    if reply >= 0:
        return reply
    raise ValueError(
        f"{counter!r}: {conf.settings().analytics.max_user_id + 1:,} users have numbers already, as many as"
        ' REDIS_COMPONENTS["ANALYTICS"]["MAX_USER_ID"] allows.'
    )


def has_mapped_ids(site: str, *, using: str = "default") -> bool:
    """Return whether any id of a site was mapped to a number, even if it is forgotten."""
    return run(connections.client(using), _has_mapped_ids(site))


def forget_number(user_id: UserId, *, site: str = "default", using: str = "default") -> int:
    """Delete the number of a mapped id; return 1, or 0 if it had none.

    Days and periods that are marked for the number stay counted and belong to no id. The number is not used again. Call
    it after `SignIns.forget` and `Events.forget`: they need the number.

    Args:
        user_id: the id.
        site: of the sign-ins and events.
        using: connection alias.
    """
    return run(connections.client(using), _forget_number(site, user_id))


async def aforget_number(user_id: UserId, *, site: str = "default", using: str = "default") -> int:
    """See `forget_number`."""
    return await arun(connections.aclient(using), _forget_number(site, user_id))


def _forget_number(site: str, user_id: UserId) -> Flow[int]:
    key = keys.key("analytics", keys.validate_name(site, "site"), "ids")
    deleted: int = yield Command("HDEL", key, user_text(user_id, mapped=True), retry=True)
    return deleted


def _has_mapped_ids(site: str) -> Flow[bool]:
    found: int = yield Read("EXISTS", keys.key("analytics", keys.validate_name(site, "site"), "ids"))
    return found == 1
