"""Autocomplete of members by name prefix, with recent recipients first."""

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

#: Name of the index, as used by the form field.
INDEX = "contacts"

#: Number of recent recipients to keep per member.
RECENTS = 100

#: Fields of a member that the index contains.
SHOWN = frozenset({"name", "username", "is_active"})

logger = logging.getLogger(__name__)


def register() -> None:
    """Register the index, and update it when a member changes."""
    autocomplete.register(INDEX, recents=lambda request: recents_of(request.user))
    post_save.connect(_saved, sender=Member, dispatch_uid="market.contacts.saved")
    post_delete.connect(_deleted, sender=Member, dispatch_uid="market.contacts.deleted")


def recents_of(member: Any) -> RecentList:
    """Return the recent recipients of a member, newest first."""
    return RecentList(f"contacts:{member.pk}", limit=RECENTS)


def remember(sender: Member, recipient: Member) -> None:
    """Move the recipient to the front of the sender's recent recipients."""
    recents_of(sender).touch(recipient.pk, str(recipient))


def rebuild() -> int:
    """Rebuild the index. Readers use the old one until the new one is complete."""
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
    """Read the member again: it may have changed since the signal was sent."""
    member = Member.objects.filter(pk=pk, is_active=True).first()
    book = PrefixIndex(INDEX)
    try:
        if member is None:
            book.remove(pk)
        else:
            book.add(pk, str(member), terms=[member.username])
    except RedisError as exc:
        logger.warning("The address book misses a change of member %d: %s. manage.py populate mends it.", pk, exc)
