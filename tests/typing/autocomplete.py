"""Autocomplete."""

from __future__ import annotations

from typing import assert_type

from django_redis_components.autocomplete import Entry, PrefixIndex, RecentList, Suggestion


async def right() -> None:
    members = PrefixIndex("members")
    members.add(1, "Ada", terms=["Lovelace"])
    assert_type(members.complete("ad", recents=RecentList("ada")), list[Suggestion])
    assert_type(await members.arebuild([Entry(1, "Ada"), (2, "Bob")]), int)


def wrong() -> None:
    members = PrefixIndex("members")
    members.add("Ada")  # type: ignore[call-arg]
    members.add(1, "Ada", terms=[3])  # type: ignore[list-item]
    members.complete("ad", 5)  # type: ignore[call-arg]
    members.rebuild(["Ada"])  # type: ignore[list-item]
