"""What the confirmations and outcomes of changes of many tasks have in common."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues import changes
from django_redis_components.dashboard.queues.changes import Preview
from django_redis_components.dashboard.verbs import ChangeOutcome


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
        shard: name of the shard in which it was made; "": the one that the page shows.
    """
    is_of_all = shard and not request.links.shard and len(shown_shards().shards) > 1
    url = (request.links.in_shard(shard) if is_of_all else request.links).queue(queue, "restore")
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
