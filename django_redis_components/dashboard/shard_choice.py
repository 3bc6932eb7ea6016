"""Which shard of the task queue a page shows, and the links to the others.

A page of a queue, a task or a flow finds the shard of its object; a list shows the home shard. The URL may name another
one, ``<page>/_in/<shard>/``. All links of the page keep it: a change applies to the shard that its form was opened for.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import ConfigurationError, RedisComponentsError
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.links import SHARD_PREFIX
from django_redis_components.dashboard.parameters import InvalidParameter
from django_redis_components.taskqueue.shard_clients import read_each, shard_with
from django_redis_components.taskqueue.shards import Shard, route_of, shards_of

if TYPE_CHECKING:
    from django_redis_components.dashboard.page import PageRequest


@dataclasses.dataclass(frozen=True, slots=True)
class ShardLink:
    """A link to the same page of a shard.

    Attributes:
        current: ``aria-current``.
    """

    label: str
    url: str
    current: str


def shard_of(request: PageRequest, *, has_object: bool) -> Shard:
    """Return the shard that a page shows.

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
                return shard
        known = ", ".join(shard.name for shard in shards)
        raise InvalidParameter(_("Shard %(name)r does not exist. Shards: %(known)s.") % {"name": name, "known": known})
    if len(shards) > 1 and has_object:
        return _shard_with(request.page.slug, request.object_id)
    return shards[0]


def name_in_urls(shard: Shard) -> str:
    """Return the name of a shard for URLs; "" if there is one only."""
    return shard.name if len(shards_of(_using())) > 1 else ""


def links(request: PageRequest) -> list[ShardLink]:
    """Return the links to the pages of all shards; none if there is one."""
    try:
        shards = shards_of(_using())
    except (ConfigurationError, ValueError):
        return []
    if len(shards) == 1:
        return []
    shown = request.links.shard
    start, _prefix, rest = request.http.path.rpartition(f"/{SHARD_PREFIX}{request.shard_name}/")
    if not request.shard_name:
        start = request.links.without_shard().rstrip("/")
        rest = request.http.path.removeprefix(f"{start}/")
    return [
        ShardLink(shard.name, f"{start}/{SHARD_PREFIX}{shard.name}/{rest}", "true" if shard.name == shown else "")
        for shard in shards
    ]


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
