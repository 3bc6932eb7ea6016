"""Autocomplete: suggest recent choices first, then all entries with a word that starts with the typed text.

An index finds a name by the beginning of any of its words, with folded spelling ("emile" finds "Émile Zola"),
and Chinese names by any of their characters. `RecentList` stores the recent choices of a user. A form field, a
template tag and a JSON view add both to a page, without jQuery.

Guarantees:

- A completion is one round trip, also with recent choices; two on a Cluster with them, and to correct a typo. It reads
  ranges of a sorted set and writes nothing.
- Every write is one idempotent script: after a lost reply, or with two clients at once, an id has exactly the
  data of the last `add`.
- `rebuild` loads a new index next to the old one and replaces it in one step. Readers see the old or the new
  index, never a part. Changes by `add` and `remove` during a rebuild are kept. A later rebuild supersedes an
  earlier one. The data of a crashed rebuild expires after 15 minutes.
- The JSON view serves registered indexes only and checks their permission for each request.

Keys (all keys of a name share a Cluster slot; ``v5.2`` is the version of the folding rules and of the entries):

=============================================  ======  ============================================
``<prefix>:autocomplete:{<name>}:recent``      list    400 days after the last touch (`ttl`)
``…:{<name>}:v5.2:lex``                        zset    a member per term; kept until `delete`
``…:{<name>}:v5.2:top``                        zset    entries with a weight; kept until `delete`
``…:{<name>}:v5.2:entries``                    hash    id -> record; kept until `delete`
``…:{<name>}:v5.2:build`` and ``build_…``      4 keys  15 minutes after the last chunk of a rebuild
``…:{<name>}:v5.2:built``                      string  10 minutes; token of the last rebuild
``<prefix>:autocomplete:{<name>}:scopes``      hash    id -> scopes, of a model; until it has none
``<prefix>:autocomplete:{<name>}:all_scopes``  set     scopes that were written; a rebuild prunes it
``<prefix>:autocomplete:{<name>}:check``       hash    90 days; the last comparison with the model
=============================================  ======  ============================================

While Redis is unavailable, calls raise `redis.exceptions.RedisError`.

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
from django_redis_components.autocomplete.exceptions import AutocompleteError, UnknownIndex
from django_redis_components.autocomplete.fields import AutocompleteChoiceField, AutocompleteField
from django_redis_components.autocomplete.index import IndexInfo, PrefixIndex
from django_redis_components.autocomplete.model_drift import ScopedId
from django_redis_components.autocomplete.model_fields import AutocompleteModelField, AutocompleteMultipleChoiceField
from django_redis_components.autocomplete.model_index import ModelIndex
from django_redis_components.autocomplete.pinyin import pinyin_terms
from django_redis_components.autocomplete.ranking import RankedSuggestion
from django_redis_components.autocomplete.recents import RecentList
from django_redis_components.autocomplete.registry import (
    InvalidScope,
    RegisteredIndex,
    ScopeNeeded,
    get_index,
    register,
    unregister,
)
from django_redis_components.autocomplete.widgets import AutocompleteInput, AutocompleteSelectMultiple
from django_redis_components.core.model_changes import Drift

__all__ = [
    "AutocompleteChoiceField",
    "AutocompleteError",
    "AutocompleteField",
    "AutocompleteInput",
    "AutocompleteModelField",
    "AutocompleteMultipleChoiceField",
    "AutocompleteSelectMultiple",
    "Drift",
    "Entry",
    "IndexInfo",
    "InvalidScope",
    "ModelIndex",
    "PrefixIndex",
    "RankedSuggestion",
    "RecentList",
    "RegisteredIndex",
    "ScopeNeeded",
    "ScopedId",
    "Suggestion",
    "UnknownIndex",
    "get_index",
    "pinyin_terms",
    "register",
    "unregister",
]
