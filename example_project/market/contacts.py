"""Autocomplete of members by name prefix, with recent recipients first."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest

from django_redis_components.autocomplete import ModelIndex, RecentList
from example_project.market.models import Member

#: Name of the index, as used by the form field.
INDEX = "contacts"

#: Number of recent recipients to keep per member.
RECENTS = 100


class Contacts(ModelIndex):
    """Active members by name and user name."""

    model = Member
    name = INDEX
    terms = ("username",)
    watch_fields = ("name", "username", "is_active")

    def queryset(self) -> QuerySet[Member]:
        return Member.objects.filter(is_active=True)

    def is_permitted(self, request: HttpRequest, scope: str) -> bool:
        return bool(request.user.is_authenticated)

    def recents(self, request: HttpRequest) -> RecentList:
        return recents_of(request.user)


def recents_of(member: Any) -> RecentList:
    """Return the recent recipients of a member, newest first."""
    return RecentList(f"contacts:{member.pk}", limit=RECENTS)


def remember(sender: Member, recipient: Member) -> None:
    """Move the recipient to the front of the sender's recent recipients."""
    recents_of(sender).touch(recipient.pk, str(recipient))


def create(name: str) -> Member:
    """Return a new member with this name, who cannot sign in until an administrator sets a password."""
    return Member.objects.create_user(name[:150], name=name[:80])


def rebuild() -> int:
    """Rebuild the index. Readers use the old one until the new one is complete."""
    return Contacts().rebuild()
