"""The initial data of the market: members, the superuser, items, the index of contacts and the places of addresses."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.hashers import make_password
from django.utils import timezone

from example_project.market import contacts, deals, searching
from example_project.market.content import visitors
from example_project.market.content.goods import OPENING
from example_project.market.content.names import members
from example_project.market.models import Item, Member

#: Members of a new market.
MEMBERS = 200

#: User name of the superuser.
ADMIN = "admin"

#: First password of the superuser and of each member. The site listens on loopback only.
PASSWORD = "market"


@dataclass(frozen=True)
class Created:
    """Numbers of created objects."""

    members: int
    items: int


class Opening:
    """Creates the initial data. A second run adds what is missing and changes no password."""

    def __init__(self, member_count: int = MEMBERS) -> None:
        self._count = member_count

    def run(self) -> Created:
        """Create missing objects, update the index of contacts and load the places of addresses."""
        new_members = create_members(self._count)
        if not Member.objects.filter(username=ADMIN).exists():
            Member.objects.create_superuser(ADMIN, f"{ADMIN}@example.test", PASSWORD, name="Administrator")
        new_items = 0 if Item.objects.exists() else self._list_goods()
        contacts.rebuild()
        searching.items().rebuild()
        visitors.load_ranges()
        return Created(new_members, new_items)

    def _list_goods(self) -> int:
        rng = random.Random(24)
        now = timezone.now()
        sellers = list(Member.objects.filter(is_superuser=False).order_by("pk")[:40])
        for number, good in enumerate(OPENING):
            deals.list_item(
                rng.choice(sellers),
                **good._asdict(),
                listed_at=now - timedelta(hours=number * 3),
                sale_ends_at=now + timedelta(days=rng.randrange(3, 30), hours=rng.randrange(24)),
            )
        return len(OPENING)


def create_members(count: int) -> int:
    """Create the missing ones of the first ``count`` members; return their number."""
    there = set(Member.objects.values_list("username", flat=True))
    password = make_password(PASSWORD)  # one for all: hashing takes long on purpose
    new = [
        Member(username=username, name=name, email=f"{username}@example.test", password=password)
        for username, name in members(count)
        if username not in there
    ]
    Member.objects.bulk_create(new)
    return len(new)


def sign_in_hint() -> str:
    """Return the accounts and their passwords, for the terminal."""
    admin = Member.objects.get(username=ADMIN)
    password = PASSWORD if admin.check_password(PASSWORD) else "as you have set it"
    return f"user {ADMIN}, password {password}; members are zhangsan, zola, lukasz, ...: password {PASSWORD}"
