"""What the slots of a Cluster mean for the site.

Components with many writes may share a slot, and so one core. The loss of one primary may stop all slots.
"""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone
from redis.exceptions import ResponseError

from django_redis_components.analytics import PageViews
from django_redis_components.analytics.periods import label
from django_redis_components.core import keys
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.slot_migration import slot_of
from django_redis_components.core.protocol import Command, Read
from django_redis_components.core.settings import conf
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.taskqueue.shards import Shard, shards_of

#: What to do; the documentation says more.
FIX = (
    'A new site sets ANALYTICS["SITE"] to another name, such as "web", before it counts. For a site that has counted,'
    ' see "Analytics beside the task queue" in the documentation of scaling.'
)


def check_slots(using: str, shard: Shard, client: SyncClient, report: Report) -> None:
    """Report page views that are counted in the slot of the task queue. A server that has all slots has no problem."""
    analytics = conf.settings().analytics
    slot = slot_of(shard.base)
    if client.endpoint.kind != "cluster" or analytics.using != using or slot_of(_views(analytics.site)) != slot:
        return
    today = timezone.localdate()
    days = [_views(analytics.site, label("day", day)) for day in (today, today - timedelta(days=1))]
    try:
        is_counted = client.execute(Read("EXISTS", *days))
    except ResponseError as exc:
        report.skipped.append(f"Slots of analytics and of the task queue: {exc}")
        return
    if is_counted:
        text = (
            f'The page views of site "{analytics.site}" and the task queue are in one slot ({slot}) of the Cluster: one'
            " core serves both."
        )
        report.findings.append(Finding("warning", "shared_slot", text, FIX))


def check_coverage(shard: Shard, client: SyncClient, report: Report) -> None:
    """Report a Cluster whose shards all stop with one of its primaries. The first of them is checked for all."""
    first, *others = [each for each in shards_of(shard.using) if each.alias == shard.alias]
    if shard != first or not others or client.endpoint.kind != "cluster":
        return
    option = "cluster-require-full-coverage"
    try:
        reply = client.execute(Command("CONFIG", "GET", option, key=shard.base, retry=True))
    except ResponseError as exc:
        report.skipped.append(f"Whether the Cluster requires full coverage: {exc}")
        return
    if reply[1:] == [b"yes"]:
        text = "The Cluster requires full coverage: when a primary is lost that has no replica, all shards stop."
        fix = "Turn it off, in the configuration files of all nodes as well:"
        report.findings.append(Finding("warning", "full_coverage", text, fix, f"redis-cli CONFIG SET {option} no"))


def _views(site: str, *parts: str) -> str:
    return keys.key(PageViews.component, site, "pv", *parts)
