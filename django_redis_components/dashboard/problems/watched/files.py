"""File channels whose producers wait for room, because a consumer is behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import ngettext

from django_redis_components.core.gather import gather
from django_redis_components.core.observability.catalog import names_flow, objects
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.check import WatchedCheck

#: Most channels that are read, and most consumers of each.
MAX_CHANNELS, MAX_CONSUMERS = 10, 8
#: Seconds for which producers must wait: a consumer that is a little behind is what the budget is for.
WAITED_S = 60.0


def read(facts: ProblemFacts) -> Flow[list[Any]]:
    """Return the channels whose producers wait, each with the time since when, and the consumer that is most behind."""
    before = {each["name"]: each["since"] for each in facts.watched.get("files") or []}
    entries = yield from names_flow("FileChannel")
    if not entries:
        return []
    from django_redis_components.files.channel import FileChannel, info_flow  # a site without channels needs none of it

    channels = [each for each in objects(entries, FileChannel) if each.using == facts.using][:MAX_CHANNELS]
    outcomes = yield from gather([info_flow(each, 1, MAX_CONSUMERS) for each in channels])
    found, now = [], facts.at.timestamp()
    for info in (outcome.value for outcome in outcomes if outcome.value is not None):
        if info.waiting and info.pending:
            consumer, pending = max(info.pending.items(), key=lambda each: each[1])
            found.append(
                {
                    "name": info.name,
                    "since": before.get(info.name, now),
                    "waiting": info.waiting,
                    "consumer": consumer,
                    "pending": pending,
                    "bytes": info.reserved_bytes,
                }
            )
    return found


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield the channels whose producers have waited for a minute."""
    for each in found:
        waited_s = facts.at.timestamp() - each["since"]
        if waited_s >= WAITED_S:
            text = ngettext(
                "File channel %(name)s is full (%(size)s): %(count)s producer has waited for at least %(age)s.",
                "File channel %(name)s is full (%(size)s): %(count)s producers have waited for at least %(age)s.",
                each["waiting"],
            ) % {
                "name": each["name"],
                "size": filesizeformat(each["bytes"]),
                "count": number(each["waiting"]),
                "age": formats.age(waited_s),
            }
            advice = ngettext(
                "Consumer %(consumer)s has %(count)s file to read. Check it, or raise the limit.",
                "Consumer %(consumer)s has %(count)s files to read. Check it, or raise the limit.",
                each["pending"],
            ) % {"consumer": each["consumer"], "count": number(each["pending"])}
            yield Problem("files_behind", text, advice, subject=each["name"])


CHECK = WatchedCheck("files", read, find, is_of_connection=True)
