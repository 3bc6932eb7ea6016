"""What the other pages show: flows, a schedule, chats, searches, limits, files, locks, incidents, changes."""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.utils.translation import gettext as _

from django_redis_components.core import keys
from django_redis_components.core.protocol import Command
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.problems.incidents import Incident, IncidentState
from django_redis_components.dashboard.problems.storage import change_state
from django_redis_components.files import FileChannel
from django_redis_components.locks import Lock, ReadWriteLock
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.hit_counts import KEPT_MS
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import Schedules, chain, group
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.testing import drain
from example_project.market import contacts, limiting, places, sale_chats, searching
from example_project.market.content.sample.counters import OUTAGE, RUSH
from example_project.market.content.sample.finished import quiet
from example_project.market.models import Item, Member
from example_project.market.tasks import end_overdue_sales, end_sale, notify_seller

#: Seconds for which sample locks are held, and until a flow continues; the chats that have messages.
HELD_S, LATER_S, CHATS = 3_600, 1_800, 6

#: Minutes ago: when a queue was paused and resumed, and when failed tasks were retried; before the counters by minute.
PAUSED, RETRIED = (1_330, 1_322), 926

#: What buyer and seller write in turn.
TALK = (
    "Hello! When can I fetch it?",
    "Thursday after six, at the market gate.",
    "Could it be Friday?",
    "Friday is fine. I will bring the box, too.",
    "Thank you, see you then.",
)

#: Queries with their number; the last ones find nothing.
QUERIES = {"lantern": 4, "map": 3, "boots": 3, "ring of luck": 2, "crystal ball": 3, "dragon egg": 2}

#: Letters with which members begin names in the field of recipients.
TYPED = ("li", "zh", "ada", "em", "wang", "sch")

#: Limits with their hits in a minute, and keys that were denied, with the number of denials.
LIMITS: dict[RateLimit, tuple[int, dict[str, int]]] = {
    limiting.BY_ADDRESS: (3, {"192.88.99.17": 11}),
    limiting.BY_NAME: (3, {"ada": 14, "grace": 6, "linus": 3}),
    RateLimit("searches", *limiting.SEARCHES): (22, {"192.88.99.17": 31}),
    RateLimit("suggestions", *limiting.SUGGESTIONS): (35, {}),
}


def write(shard: Shard, rng: random.Random, now: datetime) -> None:
    """Write everything."""
    _run_flow()
    Schedules().add("weekly letter to customers", end_overdue_sales, cron="0 9 * * mon")
    _talk()
    _search()
    shard.client().execute_many([*_hits(rng, int(now.timestamp()) // 60)])
    _publish()
    _hold()
    _record_incidents(now.timestamp())
    _log_changes(now)
    places.aggregate()


def _run_flow() -> None:
    """Run a flow of which one task fails, and a part of one that continues later."""
    sales = group(*[end_sale.s(number) for number in range(1, 6)])
    chain(sales, notify_seller.using(max_attempts=1).si("A-1013"), end_overdue_sales.si()).enqueue()
    chain(sales, end_sale.using(run_after=LATER_S).si(6), end_overdue_sales.si()).enqueue()
    with quiet():
        drain(raise_errors=False)


def _talk() -> None:
    """Write into the chats of the latest sales; the last messages are unread."""
    for number, item in enumerate(Item.objects.sold().select_related("seller", "buyer").order_by("-sold_at")[:CHATS]):
        sale_chats.open_chat(item)
        for position, text in enumerate(TALK[: 2 + number % 4]):
            sender: Member = item.seller if position % 2 else item.buyer
            sale_chats.send(item.pk, sender, text, form_key=f"sample-{position}")


def _search() -> None:
    for words, times in QUERIES.items():
        for _number in range(times):
            searching.items().search(words, facets=["kind"])
    for typed in TYPED:
        contacts.Contacts().index().complete(typed)


def _hits(rng: random.Random, now: int) -> Iterator[Command]:
    """Yield commands that add hits of limits in the last hour. `now` is in minutes since the epoch."""
    for limit, (per_minute, denied_keys) in LIMITS.items():
        limit.hit("sample-data")  # the catalog lists a limit that was used
        denied = sum(denied_keys.values())
        for minute in range(now - 59, now):
            key = keys.key("ratelimits", limit.policy.id, "hits", str(minute // 60))
            yield Command("HINCRBY", key, f"{minute}a", round(per_minute * rng.uniform(0.4, 1.6)))
            if RUSH[0] >= now - minute > RUSH[1] and denied:
                yield Command("HINCRBY", key, f"{minute}d", max(1, denied // (RUSH[0] - RUSH[1])))
            yield Command("PEXPIRE", key, KEPT_MS)
        key = keys.key("ratelimits", limit.policy.id, "denied", str(now // 60))
        for name, times in denied_keys.items():
            yield Command("ZINCRBY", key, times, keys.digest(name))
            yield Command("PEXPIRE", key, KEPT_MS)


def _publish() -> None:
    """Publish two catalogs; one of the two consumers has read the first."""
    channel = FileChannel("catalogs", ["printer", "archive"], limit_bytes=1_000_000)
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("name,price\n" * 20_000)
        file.flush()
        for name in ("autumn.csv", "spring.csv"):
            channel.publish(file.name, name=name)
    next(channel.consumer("archive").files(timeout=0)).done()


def _hold() -> None:
    """Hold locks that no page of the market needs."""
    for item in Item.objects.on_sale().order_by("pk")[:3]:
        Lock(f"market:reserved:{item.pk}", timeout=HELD_S).acquire()
    ReadWriteLock("market:prices", timeout=HELD_S).read().acquire()
    Semaphore("market:stalls", limit=3, timeout=HELD_S).acquire()


def _record_incidents(now: float) -> None:
    """Record two incidents that are over, and one that lasts: its failed tasks are left."""
    failures = _("Queue %(queue)s: %(share)s of tasks failed in the last %(minutes)d min (%(failed)s of %(finished)s).")

    def incident(code: str, queue: str, severity: str, text: str, ago: tuple[int, int]) -> Incident:
        return Incident(
            id=f"{code}:{queue}",
            code=code,
            severity=severity,
            text=text,
            advice=_("Correct the cause, then retry the tasks. List the errors:"),
            command=f"python manage.py redis queues errors {queue}",
            queue=queue,
            started_at=now - ago[0] * 60,
            seen_at=now - ago[1] * 60,
            announced=severity,
        )

    def failed(queue: str, minutes: int, failed: int, finished: int) -> str:
        share = formats.percent(failed / finished)
        counts = {"failed": failed, "finished": finished}
        return failures % {"queue": queue, "share": share, "minutes": minutes, **counts}

    over = [
        incident("failures", queue, "warning", failed(queue, 10, lost, finished), (begin, begin - 12))
        for queue, lost, finished, begin in (("low", 4, 51, 2_890), ("high", 5, 71, RETRIED + 22))
    ]
    lasting = incident("failures", "default", "critical", failed("default", 6, 72, 112), (OUTAGE[0], 0))
    resolved = [dataclasses.replace(each, resolved_at=each.seen_at) for each in over]
    change_state(lambda state: (IncidentState({**state.incidents, lasting.id: lasting}), resolved), "default")


def _log_changes(now: datetime) -> None:
    """Log what an operator did about them."""
    admin = Member.objects.filter(is_superuser=True).order_by("pk")[0]
    kind = ContentType.objects.get_for_model(MODELS["queues"])
    for ago, name, message in (
        (PAUSED[0], "low", "Pause queue 'low': done, reason 'The links are checked anew.'."),
        (PAUSED[1], "low", "Resume queue 'low': done."),
        (RETRIED, "high", "Retry failed tasks of queue 'high' (all): 5 tasks retried."),
    ):
        LogEntry.objects.create(
            user_id=admin.pk,
            content_type_id=kind.pk,
            object_id=name,
            object_repr=name,
            action_flag=CHANGE,
            change_message=message,
            action_time=now - timedelta(minutes=ago),
        )
