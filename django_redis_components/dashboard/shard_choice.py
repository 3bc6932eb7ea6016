"""Which shards of the task queue a page shows, and the links to the others.

A list shows all shards (`Page.shows_all_shards`), and so does the page of a queue. That of a task or a flow shows that
of its object, and others the home shard. The URL may name another one, ``<page>/_in/<shard>/``. All links of the page
keep it: a change applies to the shards that its form was opened for. One of a queue, or of tasks in its list, applies
to all shards unless the URL names one (`queues.confirmations`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.exception_text import safe_text
from django_redis_components.core.exceptions import ConfigurationError, RedisComponentsError
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients, formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import SHARD_PREFIX
from django_redis_components.dashboard.outages import outage_of
from django_redis_components.dashboard.parameters import InvalidParameter
from django_redis_components.taskqueue.shard_clients import read_each, shard_with
from django_redis_components.taskqueue.shards import Shard, route_of, shards_of

if TYPE_CHECKING:
    from django_redis_components.dashboard.page import Page, PageRequest


@dataclasses.dataclass(frozen=True, slots=True)
class ShardLink:
    """A link to the same page of a shard.

    Attributes:
        current: ``aria-current``.
    """

    label: str
    url: str
    current: str


@dataclasses.dataclass(frozen=True, slots=True)
class ShardsRead:
    """How many of the shards that a page shows could be read, and why the others could not."""

    summary: str
    away: list[str]


def shards_read() -> ShardsRead | None:
    """Return which of the shards that a page shows could be read; None if it shows one."""
    shown = clients.shown_shards()
    if len(shown.shards) == 1:
        return None
    counts = {"count": number(len(shown.shards) - len(shown.away)), "total": number(len(shown.shards))}
    summary = _("%(count)s of %(total)s shards read. The figures do not include the others.") % counts
    return ShardsRead(summary, [away_text(shard, shown.away[shard]) for shard in shown.shards if shard in shown.away])


def server_text(address: str) -> str:
    """Return the server of a page, or how many shards it shows."""
    count = len(clients.shown_shards().shards)
    return formats.server(address) if count == 1 else _("%(count)s shards") % {"count": number(count)}


def away_text(shard: Shard, error: Exception) -> str:
    """Return which shard does not answer, and why."""
    outage = outage_of(error, "")
    return _("Shard %(name)s: %(problem)s") % {"name": shard.name, "problem": outage.title}


def shards_data() -> dict[str, Any]:
    """Return the shards of a page that shows several as JSON, with the error of each that could not be read."""
    shown = clients.shown_shards()
    if len(shown.shards) == 1:
        return {}
    errors = {shard: safe_text(error) for shard, error in shown.away.items()}
    return {"shards": [{"name": shard.name, "error": errors.get(shard)} for shard in shown.shards]}


def shards_shown(request: PageRequest, *, has_object: bool) -> tuple[Shard, ...]:
    """Return the shards that a page shows.

    Args:
        has_object: whether the id of the object is known by now.

    Raises:
        ValueError: the URL names none.
    """
    shards = shards_of(_using())
    name = request.shard_name
    if name:
        for shard in shards:
            if shard.name == name:
                return (shard,)
        known = ", ".join(shard.name for shard in shards)
        raise InvalidParameter(_("Shard %(name)r does not exist. Shards: %(known)s.") % {"name": name, "known": known})
    if len(shards) > 1 and has_object:
        return (_shard_with(request.page.slug, request.object_id),)
    return shards if _listing_of(request).shows_all_shards else shards[:1]


def name_in_urls(shown: Sequence[Shard]) -> str:
    """Return the name of the shard that a page shows for URLs; "" for all, or if there is one only."""
    return shown[0].name if len(shown) == 1 < len(shards_of(_using())) else ""


def links(request: PageRequest) -> list[ShardLink]:
    """Return the links to the pages of all shards; none if there is one."""
    try:
        shards = shards_of(_using())
    except (ConfigurationError, ValueError):
        return []
    if len(shards) == 1:
        return []
    is_of_all = _is_of_all(request)
    shown = request.shard_name if is_of_all else request.links.shard
    start, _prefix, rest = request.http.path.rpartition(f"/{SHARD_PREFIX}{request.shard_name}/")
    if not request.shard_name:
        start = request.links.without_shard().rstrip("/")
        rest = request.http.path.removeprefix(f"{start}/")
    found = [
        ShardLink(
            _("Shard %(name)s") % {"name": shard.name},
            f"{start}/{SHARD_PREFIX}{shard.name}/{rest}",
            "true" if shard.name == shown else "",
        )
        for shard in shards
    ]
    if not is_of_all:
        return found
    return [ShardLink(_("All shards"), f"{start}/{rest}", "" if shown else "true"), *found]


def _is_of_all(request: PageRequest) -> bool:
    """Return whether a page shows all shards unless its URL names one. That of a queue has the tasks of all."""
    if request.object_id:
        return request.page.slug == "queues"
    return _listing_of(request).shows_all_shards


def _listing_of(request: PageRequest) -> Page:
    """Return the page of a request without an object."""
    return request.page.listing or request.page


def _shard_with(slug: str, object_id: str) -> Shard:
    """Return the shard of a queue, a task or a flow; the home shard if it cannot be found."""
    using = _using()
    try:
        if slug == "queues":
            return route_of(object_id, using)[0]
        if slug == "task":
            return shard_with(object_id, using)
        if slug == "taskflow":
            found, _away = read_each(using, lambda shard: _has_flow(shard, object_id))
            return next((shard for shard, has_flow in found.items() if has_flow), shards_of(using)[0])
    except (RedisError, RedisComponentsError):  # the page itself reports it
        pass
    return shards_of(using)[0]


def _has_flow(shard: Shard, flow_id: str) -> Flow[bool]:
    return bool((yield Read("EXISTS", shard.flow(flow_id))))


def _using() -> str:
    return conf.settings().dashboard.using
