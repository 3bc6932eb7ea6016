"""Rate limits that deny most of their hits: one visitor hammers the site, or the limit is too low."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.command_line import command_line
from django_redis_components.core.observability.catalog import entries_flow
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck

#: Most limits that are read, and the minutes whose hits are added up.
MAX_LIMITS, MINUTES = 50, 5
#: Fewest denied hits, and their least share, that are a problem: a limit is there to deny some.
MIN_DENIED, DENIED_SHARE = 100, 0.5


def read(facts: ProblemFacts) -> Flow[list[Any]]:
    """Return the limits that deny most hits.

    Each is a list: name, hits, denied hits, the key with most denials of the hour, its denials, id of the limit. All
    who see problems, and the receivers of notifications, get the hash of the key.
    """
    entries = yield from entries_flow("RateLimit")
    if not entries:
        return []
    from django_redis_components.ratelimits.hit_counts import digest_of, read_counts  # a site without limits needs none
    from django_redis_components.ratelimits.limit import limits_of
    from django_redis_components.ratelimits.limiter import HASH_PREFIX

    mine = {limit_id: limit for limit_id, limit in limits_of(entries).items() if limit.using == facts.using}
    ids = list(mine)[:MAX_LIMITS]
    counts = (yield from read_counts(ids, denied=1)) if ids else {}
    found = []
    for limit_id, each in counts.items():
        latest = list(each.minutes.values())[-MINUTES:]
        allowed, denied, unchecked = map(sum, zip(*latest, strict=True))
        hits = allowed + denied + unchecked
        if denied >= MIN_DENIED and denied > hits * DENIED_SHARE:
            key, times = each.denied_keys[0] if each.denied_keys else ("", 0)
            hashed = f"{HASH_PREFIX}{digest_of(key)}" if key else ""
            found.append([mine[limit_id].name, hits, denied, hashed, times, limit_id])
    return found


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the limits that deny most hits."""
    for name, hits, denied, key, times, _id in found:
        text = _("Rate limit %(name)s denied %(share)s of %(hits)s hits in the last %(minutes)d min.") % {
            "name": name,
            "share": formats.percent(denied / hits),
            "hits": number(hits),
            "minutes": MINUTES,
        }
        top = ngettext(
            "The key with most denials, %(key)s, was denied %(count)s time this hour.",
            "The key with most denials, %(key)s, was denied %(count)s times this hour.",
            times,
        ) % {"key": key, "count": number(times)}
        advice = " ".join(filter(None, [top if key else "", _("Block the sender, or raise the limit. Show the keys:")]))
        command = command_line("redis", "limits", "list", using=facts.using)
        yield Problem("limit_denies", text, advice, command, subject=name)


CHECK = WatchedCheck("limits", read, find, is_of_connection=True)
