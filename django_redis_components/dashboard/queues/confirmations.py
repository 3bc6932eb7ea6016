"""What the confirmations and outcomes of changes of many tasks have in common."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.exception_text import safe_text
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.clients import queue_shard, showing, shown_shards
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues import changes
from django_redis_components.dashboard.queues.changes import Preview
from django_redis_components.dashboard.shard_choice import away_text
from django_redis_components.dashboard.verbs import ChangeOutcome, Check, NameCount
from django_redis_components.taskqueue.shards import Shard, named, shards_of

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class InShards(Generic[T]):
    """What was read or done in several shards; one that does not answer stops none of the others.

    Attributes:
        by_shard: the values of those that have answered.
        away: the errors of the others.
    """

    by_shard: dict[Shard, T]
    away: dict[Shard, RedisError]

    def checks(self) -> list[Check]:
        """Return which shards a change applies to, unless there is one."""
        if len(self.by_shard) + len(self.away) == 1:
            return []
        names = {"names": ", ".join(shard.name for shard in self.by_shard)}
        return [Check(_("This applies to the queue in the shards %(names)s.") % names), *self.away_checks()]

    def away_checks(self) -> list[Check]:
        """Return which shards a change does not apply to, because they do not answer."""
        if not self.away:
            return []
        names = {"names": ", ".join(shard.name for shard in self.away)}
        return [Check(_("Tasks in shards that do not answer are not changed: %(names)s.") % names, "caution")]

    def outcome(self, outcome: ChangeOutcome) -> ChangeOutcome:
        """Return the outcome of a change with the shards in which it was not made."""
        if not self.away:
            return outcome
        problems = " ".join(away_text(shard, error) for shard, error in self.away.items())
        text = _("Not done in all shards. Repeat it to complete it. %(problems)s") % {"problems": problems}
        log = "; ".join(f"not in shard {shard.name}: {safe_text(error)}" for shard, error in self.away.items())
        return dataclasses.replace(
            outcome, log=f"{outcome.log}, {log}", message=f"{outcome.message} {text}", is_done=False
        )


def queue_links(request: PageRequest) -> Links:
    """Return the links to pages and changes of the queue: of all its shards, unless the URL names one."""
    return request.links.in_shard(request.shard_name)


def changed_shards(request: PageRequest) -> tuple[Shard, ...]:
    """Return the shards that a change of a queue applies to: all, unless the URL names one."""
    shown = queue_shard()
    return (shown,) if request.shard_name else shards_of(shown.using)


def in_each(shards: tuple[Shard, ...], call: Callable[[], T]) -> InShards[T]:
    """Call a function for each of the shards, as the one that the page shows.

    Raises:
        redis.exceptions.RedisError: none answers.
    """
    found: InShards[T] = InShards({}, {})
    for shard in shards:
        try:
            with showing(shard):
                found.by_shard[shard] = call()
        except RedisError as exc:
            found.away[shard] = exc
    if not found.by_shard:
        raise next(iter(found.away.values()))
    return found


def totals(found: InShards[tuple[int, bool]]) -> tuple[int, bool]:
    """Return how many tasks were changed in all shards, and whether some are left."""
    counts = found.by_shard.values()
    return sum(done for done, _is_left in counts), any(is_left for _done, is_left in counts)


def merged_preview(found: Mapping[Shard, Preview]) -> Preview:
    """Return what a change applies to in several shards; each row of the counts names its shard."""
    previews = list(found.values())
    if len(previews) == 1:
        return previews[0]
    counts = [
        NameCount(f"{shard.name} · {row.name}", row.count, row.oldest)
        for shard, preview in found.items()
        for row in preview.counts
    ]
    return Preview(
        at=previews[0].at,
        count=sum(preview.count for preview in previews),
        counts=counts,
        sample=[task for preview in previews for task in preview.sample][: changes.SAMPLE],
        is_partial=any(preview.is_partial for preview in previews),
        error_class=next((preview.error_class for preview in previews if preview.error_class), ""),
    )


def merged_tick(found: InShards[tuple[Preview, dict[str, Any]]]) -> tuple[Preview, dict[str, Any]]:
    """Return what a change of ticked tasks applies to, and its selection: a part for each shard that has some."""
    by_shard = {shard: each for shard, each in found.by_shard.items() if each[1]["ids"]}
    if not by_shard:
        return next(iter(found.by_shard.values()))
    preview = merged_preview({shard: each for shard, (each, _selection) in by_shard.items()})
    parts = [{**selection, "shard": shard.name} for shard, (_each, selection) in by_shard.items()]
    return preview, {**parts[0], "parts": parts}


def ids_of(selection: Mapping[str, Any]) -> list[str] | None:
    """Return the ids of a selection of ticked tasks; None if it is of all that match."""
    if "ids" not in selection:
        return None
    return [task_id for part in parts_of(selection) for task_id in part["ids"]]


def shard_of(part: Mapping[str, Any]) -> Shard:
    """Return the shard of a part of a selection. One that an earlier version has signed names none."""
    return named(part["shard"], queue_shard().using) if "shard" in part else queue_shard()


def parts_of(selection: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of a selection, one for each shard. One that an earlier version has signed is of one shard."""
    parts: list[Mapping[str, Any]] = selection.get("parts", [selection])
    return parts


def outcome_of(message: str, done: int, is_left: bool, log: str, links: Any = ()) -> ChangeOutcome:
    """Return the outcome of a change of `done` tasks, for a message with their count."""
    text = message % {"count": number(done)}
    if is_left:
        text = " ".join([text, _("The time was up before all were changed. Repeat it for the rest.")])
        log = f"{log}, stopped before the end"
    return ChangeOutcome(log, text, done > 0 and not is_left, links)


def undo_links(request: PageRequest, queue: str, trash: str, shard: str = "") -> list[tuple[str, str]]:
    """Return the link to the undo of a purge or deletion, if the user may undo it.

    Args:
        shard: name of the shard in which it was made; "": all, or the one that the URL names.
    """
    is_of_all = shard and not request.links.shard and len(shown_shards().shards) > 1
    links = request.links.in_shard(shard) if is_of_all else queue_links(request)
    url = links.queue(queue, "restore")
    return [(_("Undo…"), f"{url}?trash={trash}")] if url else []


def undo_text(preview: Preview) -> str:
    """Return until when a deletion can be undone."""
    return _("Can be undone for 24 hours, until %(time)s.") % {"time": changes.undo_until(preview.at)}


def clock_of(preview: Preview) -> str:
    """Return the time of the watermark."""
    return formats.timestamp(preview.at, preview.at).text


def previewed(preview: Preview) -> dict[str, Any]:
    """Return the fields of a confirmation that a preview fills."""
    note = _("%(count)s of %(total)s") % {"count": number(len(preview.sample)), "total": preview.count_text}
    return {
        "counts": preview.counts,
        "total_label": _("Total at %(time)s") % {"time": clock_of(preview)},
        "total": preview.count_text,
        "sample": preview.sample,
        "sample_note": note,
    }
