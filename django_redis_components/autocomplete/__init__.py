"""Autocomplete: recent choices first, then everything that begins with what was typed.

An index finds a name by the beginning of any of its words, whatever its spelling ("emile" finds
"Émile Zola"), and Chinese names by any of their characters. `RecentList` keeps what somebody chose
last. A form field, a template tag and a JSON view bring both to a page, without jQuery.

Guarantees:

- A completion is one range of a sorted set: one round trip, two with recents. Nothing is written by it.
- Every write is one script and safe to repeat: after a lost reply, or by two clients at once, an id
  has exactly what the last `add` gave it.
- `rebuild` loads beside the index and comes in at once. Readers see the old or the new, never a half.
  `add` and `remove` meanwhile win over what it loads. A later rebuild supersedes an earlier one. One
  that crashed is gone after 15 minutes.
- The JSON view knows only registered indexes and asks their permission at each request.

Keys (all of one name share a Cluster slot; ``v2`` is the version of the folding rules):

==========================================  ======  =================================================
``<prefix>:autocomplete:{<name>}:recent``   list    400 days after the last touch (`ttl`)
``…:{<name>}:v2:lex``                       zset    a member for each term; kept until `clear`
``…:{<name>}:v2:top``                       zset    for entries with a weight; kept until `clear`
``…:{<name>}:v2:entries``                   hash    id -> record; kept until `clear`
``…:{<name>}:v2:build`` and ``build_…``     4 keys  15 minutes after the last step of a rebuild
``…:{<name>}:v2:built``                     string  10 minutes; token of the last rebuild
==========================================  ======  =================================================

`redis.exceptions.RedisError` passes through when Redis is away.

Example::

    from django_redis_components.autocomplete import PrefixIndex, RecentList

    contacts = PrefixIndex("contacts")
    contacts.add(1, "Émile Zola", terms=["emile@example.org"])
    contacts.add(2, "张三", terms=["zhangsan", "zs"])
    assert [one.text for one in contacts.complete("zol")] == ["Émile Zola"]

    recents = RecentList("user:7")
    recents.touch(2)
    assert [one.id for one in contacts.complete("", recents=recents)] == ["2", "1"]

See also: ``docs/components/autocomplete.md``; `django_redis_components.urls` for the view.
"""

from __future__ import annotations

from django_redis_components.autocomplete.entries import Entry, Suggestion
from django_redis_components.autocomplete.exceptions import AutocompleteError, RebuildSuperseded, UnknownIndex
from django_redis_components.autocomplete.fields import AutocompleteField
from django_redis_components.autocomplete.index import PrefixIndex
from django_redis_components.autocomplete.recents import RecentList
from django_redis_components.autocomplete.registry import (
    InvalidScope,
    ScopeNeeded,
    Source,
    register,
    source,
    unregister,
)
from django_redis_components.autocomplete.widgets import AutocompleteInput

__all__ = [
    "AutocompleteError",
    "AutocompleteField",
    "AutocompleteInput",
    "Entry",
    "InvalidScope",
    "PrefixIndex",
    "RebuildSuperseded",
    "RecentList",
    "ScopeNeeded",
    "Source",
    "Suggestion",
    "UnknownIndex",
    "register",
    "source",
    "unregister",
]
