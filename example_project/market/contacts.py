"""The address book: all members by the beginnings of their names, and whom somebody wrote to last."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.signals import post_delete, post_save
from redis.exceptions import RedisError

from django_redis_components import autocomplete
from django_redis_components.autocomplete import Entry, PrefixIndex, RecentList
from example_project.market.models import Member

#: Name of the index, as the form's field names it.
INDEX = "contacts"

#: Members that are remembered of those somebody wrote to.
RECENTS = 100

#: Fields of a member that the book shows or finds by.
SHOWN = frozenset({"name", "username", "is_active"})

logger = logging.getLogger(__name__)


def register() -> None:
    """Make the book known to the autocomplete view, and keep it in step with the members."""
    autocomplete.register(INDEX, recents=lambda request: recents_of(request.user))
    post_save.connect(_saved, sender=Member, dispatch_uid="market.contacts.saved")
    post_delete.connect(_deleted, sender=Member, dispatch_uid="market.contacts.deleted")


def recents_of(member: Any) -> RecentList:
    """Whom the member wrote to, the latest first."""
    return RecentList(f"contacts:{member.pk}", limit=RECENTS)


def remember(sender: Member, recipient: Member) -> None:
    """Put the recipient in front of the sender's list."""
    recents_of(sender).touch(recipient.pk, str(recipient))


def rebuild() -> int:
    """Write the whole book anew; readers see the old one until the new one is complete."""
    return PrefixIndex(INDEX).rebuild(_entries())


def _entries() -> Iterator[Entry]:
    for member in Member.objects.filter(is_active=True).iterator():
        yield Entry(member.pk, str(member), terms=[member.username])


def _saved(instance: Member, update_fields: frozenset[str] | None = None, **_: Any) -> None:
    if update_fields is None or SHOWN & update_fields:  # a sign-in saves last_login and nothing else
        transaction.on_commit(partial(_bring_in_step, instance.pk))


def _deleted(instance: Member, **_: Any) -> None:
    transaction.on_commit(partial(_bring_in_step, instance.pk))


def _bring_in_step(pk: int) -> None:
    """What the database has now counts, not what it had when the signal came."""
    member = Member.objects.filter(pk=pk, is_active=True).first()
    book = PrefixIndex(INDEX)
    try:
        if member is None:
            book.remove(pk)
        else:
            book.add(pk, str(member), terms=[member.username])
    except RedisError as exc:
        logger.warning("The address book misses a change of member %d: %s. manage.py populate mends it.", pk, exc)
