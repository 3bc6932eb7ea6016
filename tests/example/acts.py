"""What the tests have a process with the example's settings do (tests.support.child)."""

from __future__ import annotations

import contextlib
import io
from datetime import timedelta
from typing import Any

from django.core.management import ManagementUtility, call_command
from django.test import Client
from django.utils import timezone

from tests.support import run_together

#: The backend of a sign-in without a password.
BACKEND = "django.contrib.auth.backends.ModelBackend"


def list_item(seller: str, title: str, lasts_s: float) -> int:
    """Put a thing up for sale; returns its id."""
    from example_project.market import deals
    from example_project.market.models import Member

    ends_at = timezone.now() + timedelta(seconds=lasts_s)
    member = Member.objects.get(username=seller)
    return deals.list_item(member, title=title, price=7, kind="ring", sale_ends_at=ends_at).pk


def lose_the_end_of(pk: int, late_s: list[float]) -> list[int]:
    """Let the time of a sale pass without the task that ends it, then run the periodic task of the market."""
    from example_project.market import tasks
    from example_project.market.models import Item

    ended = []
    for seconds in late_s:
        Item.objects.filter(pk=pk).update(sale_ends_at=timezone.now() - timedelta(seconds=seconds))
        ended.append(tasks.end_overdue_sales())
    return ended


def item(pk: int) -> dict[str, object]:
    """Return the item as stored in the database."""
    from example_project.market.models import Item

    found = Item.objects.select_related("buyer").get(pk=pk)
    return {"state": found.state, "buyer": found.buyer and found.buyer.username}


def counts() -> dict[str, int]:
    """Return the number of objects in the database."""
    from example_project.market.models import Item, Member

    return {"members": Member.objects.count(), "items": Item.objects.count()}


def errors(command: str, argument_lists: list[list[str]]) -> list[str]:
    """Return for each list of invalid arguments how the command exits, and the last line that it prints."""
    lines = []
    for arguments in argument_lists:
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            try:
                ManagementUtility(["manage.py", command, *arguments]).execute()
            except SystemExit as ended:
                lines.append(f"exit code {ended.code}, {printed.getvalue().splitlines()[-1]}")
    return lines


def usage(command: str) -> str:
    """Return the help of a command."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        ManagementUtility(["manage.py", command, "--help"]).execute()
    return printed.getvalue()


def set_password(username: str, password: str) -> None:
    from example_project.market.models import Member

    member = Member.objects.get(username=username)
    member.set_password(password)
    member.save()


def populate() -> None:
    call_command("populate", verbosity=0, stdout=io.StringIO())


def sign_in_hint() -> str:
    from example_project.market.content import opening

    return opening.sign_in_hint()


def pages_without_redis(item: int) -> dict[str, tuple[int, str]]:
    """Return status and text of pages, for a signed-in member while no server listens at REDIS_URL."""
    from example_project.market.models import Member

    client = Client(HTTP_HOST="127.0.0.1", raise_request_exception=False)
    client.force_login(Member.objects.get(username="zola"), backend=BACKEND)
    paths = ("/", f"/items/{item}/", "/write/", "/mails/", "/chats/", "/places/", "/search/?q=ring")
    replies = {path: client.get(path) for path in paths}
    replies["buy"] = client.post(f"/items/{item}/buy/")
    return {path: (reply.status_code, reply.content.decode()) for path, reply in replies.items()}


def sell(way: str, usernames: list[str]) -> dict[str, object]:
    """List an item and have members buy it at once; return the outcome of each, and the item."""
    from django_redis_components.locks import LockNotAcquired
    from example_project.market import deals, selling
    from example_project.market.models import Member

    number_of_item = list_item("zola", "Whistle without a pea", 3600)
    members = [Member.objects.get(username=username) for username in usernames]

    def buy(number: int) -> str:
        try:
            return f"sold to {deals.buy(number_of_item, members[number], way=way, payment_s=0.02).buyer.username}"
        except (deals.NotForSale, selling.BeingBought, LockNotAcquired) as refused:
            return type(refused).__name__

    return {"outcomes": run_together(len(members), buy), "item": item(number_of_item)}


def sell_each_way(ways: list[str], usernames: list[str]) -> list[dict[str, object]]:
    """Sell an item with each strategy."""
    return [sell(way, usernames) for way in ways]


def market_pages(ways: list[str]) -> list[tuple[int, str]]:
    """Return status and text of the market's first page with each strategy."""
    from django.conf import settings

    replies = []
    for settings.SALES in ways:
        reply = Client(HTTP_HOST="127.0.0.1", raise_request_exception=False).get("/")
        replies.append((reply.status_code, reply.content.decode()))
    return replies


def buy_while_claimed(item: int) -> list[tuple[int, str, str]]:
    """Return the responses to a buyer while the item is claimed by another, afterwards, and after its sale."""
    from django.conf import settings

    from example_project.market import selling
    from example_project.market.models import Member

    settings.SALES = "watch"
    client = Client(HTTP_HOST="127.0.0.1")
    client.force_login(Member.objects.get(username="zhangsan"), backend=BACKEND)
    with selling.one_buyer(item, Member.objects.get(username="lisi").pk, "watch"):
        during = client.post(f"/items/{item}/buy/")
    after = client.post(f"/items/{item}/buy/")
    with selling.one_buyer(item, Member.objects.get(username="lisi").pk, "watch"):
        late = client.post(f"/items/{item}/buy/")
    return [
        (reply.status_code, reply.headers.get("Retry-After", ""), reply.content.decode())
        for reply in (during, after, late)
    ]


def wrong_way() -> str:
    """Return the market's message about an unknown strategy."""
    from django.core.exceptions import ImproperlyConfigured

    from example_project.market import selling

    try:
        return selling.chosen()
    except ImproperlyConfigured as wrong:
        return str(wrong)


def rush() -> str:
    out = io.StringIO()
    call_command("rush", buyers=4, items=3, till_ms=1, stdout=out)
    return out.getvalue()


def rush_verdict(outcomes: list[tuple[str, int, list[int]]]) -> str:
    """Return the verdict on rushes of 3 items, given as way, number of sales and items sold."""
    from example_project.market.content.rush import Result, WrongSales, verdict

    try:
        return verdict([Result(way, 3, sold=sold, sold_items=set(items)) for way, sold, items in outcomes])
    except WrongSales as wrong:
        return str(wrong)


def rush_without_checks() -> str:
    """Return the error of a rush on a market that sells to each buyer."""
    from django.core.management import CommandError

    from example_project.market import deals

    checked, deals.buy = deals.buy, lambda *args, **options: None
    try:
        return rush()
    except CommandError as wrong:
        return str(wrong)
    finally:
        deals.buy = checked


def aggregate_access_log() -> None:
    """Count the access log in this process, as the periodic task of the market does."""
    from example_project.market import tasks

    tasks.aggregate_access_log()


def write_unanswered_rush(age_s: float) -> None:
    """Store a rush that started this long ago, with buyers that have no answer. It replaces the earlier ones."""
    from example_project.market.models import Item, Rush, RushBuyer

    Rush.objects.all().delete()
    rush = Rush.objects.create(
        way="item", item=Item.objects.earliest("pk"), started_at=timezone.now() - timedelta(seconds=age_s)
    )
    RushBuyer.objects.bulk_create(RushBuyer(rush=rush, number=number) for number in (1, 2))


def send_to_chat(item: int, sender: str, bodies: list[object]) -> None:
    """Send messages in the chat of a sale, as the JSON view does: a body is any JSON value."""
    from django_redis_components.messaging import Chat
    from example_project.market import sale_chats
    from example_project.market.models import Member

    member = Member.objects.get(username=sender)
    for body in bodies:
        Chat(sale_chats.chat_id(item)).send(member.pk, body)


def change_in_chat(item: int, sender: str, id: int, body: object) -> None:
    """Edit a message in the chat of a sale, or delete it (None)."""
    from django_redis_components.messaging import Chat
    from example_project.market import sale_chats
    from example_project.market.models import Member

    chat, member = Chat(sale_chats.chat_id(item)), Member.objects.get(username=sender)
    if body is None:
        chat.delete_message(member.pk, id)
    else:
        chat.edit_message(member.pk, id, body)


def chat_members_after_the_task(item: int) -> list[list[str]]:
    """Return the members of a chat that was not created on commit, before and after the seller is notified."""
    from django_redis_components.messaging import Chat
    from example_project.market import sale_chats, tasks
    from example_project.market.models import Item

    chat = Chat(sale_chats.chat_id(item))
    chat.delete()
    Item.objects.filter(pk=item).update(seller_notified_at=None)
    before = list(chat.members())
    tasks.notify_seller(item)
    return [before, list(chat.members())]


def delete_item(item: int) -> None:
    from example_project.market.models import Item

    Item.objects.get(pk=item).delete()


def delete_member_of_chat(item: int, username: str) -> None:
    """Have a new member write in the chat of a sale, and delete that member."""
    from example_project.market import sale_chats
    from example_project.market.models import Member

    visitor = Member.objects.create(username="shortlived", name="Shortlived")
    sale_chats.add_member(item, Member.objects.get(username=username), visitor)
    sale_chats.send(item, visitor, "Forget me", "key")
    visitor.delete()


def sample_data() -> dict[str, object]:
    """Return what the pages would show of the sample data."""
    from django.contrib.admin.models import LogEntry

    from django_redis_components.analytics import PageViews
    from django_redis_components.core.protocol import run
    from django_redis_components.dashboard.problems.storage import read_resolved, read_state
    from django_redis_components.messaging import chats
    from django_redis_components.ratelimits.hit_counts import read_counts
    from django_redis_components.taskqueue.fields import Key
    from django_redis_components.taskqueue.shards import home
    from django_redis_components.taskqueue.stats import errors
    from django_redis_components.taskqueue.stats.history import history
    from django_redis_components.taskqueue.store import finished
    from example_project.market.limiting import BY_NAME
    from example_project.market.models import Item

    shard = home("default")
    client = shard.client()
    by_range = {name: history(name).intervals for name in ("1h", "24h", "7d", "90d")}
    busy = {name: [each for each in found if each.counts.finished] for name, found in by_range.items()}
    hour = next(each for each in reversed(by_range["7d"]) if each.at < by_range["1h"][0].at.replace(minute=0))
    tens = [each for each in by_range["24h"] if hour.at <= each.at < hour.at + timedelta(hours=1)]
    groups = run(client, errors.list_errors(shard, [], 10)).groups
    letters = next(group for group in groups if "ConnectionRefused" in group.exception_class_path)
    rows = [
        row
        for queue in ("high", "default", "low")
        for row in run(client, finished.list_finished(shard, queue, "successful", 100, 0))
    ]
    sold = Item.objects.sold().order_by("-sold_at")[0]
    return {
        "minutes": len(busy["1h"]),
        "failed_minutes": sum(each.counts.failed > 3 for each in busy["1h"]),
        "ten_minutes": len(busy["24h"]),
        "days": len(busy["90d"]),
        "sums_agree": sum(each.counts.finished for each in tens) == hour.counts.finished > 0,
        "errors": sorted(group.exception_class_path.rpartition(".")[2] for group in groups),
        "failed": {queue: _failures_of(shard, queue) for queue in ("default", "high", "low")},
        "open": [*run(client, read_state("default")).incidents],
        "failed_ago_s": (timezone.now() - letters.last_at).total_seconds(),
        "successful": len(rows),
        "workers": sorted({row.fields["w"].decode() for row in rows}),
        "resolved": len(run(client, read_resolved("default"))),
        "actions": LogEntry.objects.count(),
        "chats": Item.objects.sold().count() if chats(sold.buyer_id) else 0,
        "views": PageViews().count(None, timezone.localdate()),
        "denied": run(client, read_counts([BY_NAME.policy.id]))[BY_NAME.policy.id].totals[1],
        "unfinished_flows": client.execute_many([_zcard(shard.key(Key.unfinished_flows))])[0],
    }


def _failures_of(shard: Any, queue: str) -> list[int]:
    """Return the failed tasks of a queue, the failures of its errors by minute, and those that are counted."""
    from django_redis_components.core.protocol import run
    from django_redis_components.taskqueue import get_queue
    from django_redis_components.taskqueue.stats import errors

    groups = run(shard.client(), errors.list_errors(shard, [queue], 10)).groups
    of_errors = sum(count for group in groups for _at, count in group.minutes)
    return [get_queue(queue).info().failed, of_errors, get_queue(queue).metrics().totals.failed]


def _zcard(key: str) -> object:
    from django_redis_components.core.protocol import Command

    return Command("ZCARD", key)


def retry_letters() -> list[str]:
    """Retry the letters that have failed, run them, and return their states."""
    from django_redis_components.core.protocol import run
    from django_redis_components.taskqueue import get_queue
    from django_redis_components.taskqueue.shards import home
    from django_redis_components.taskqueue.stats import errors
    from django_redis_components.testing import drain
    from example_project.market.tasks import deliver_letter

    shard = home("default")
    [group] = run(shard.client(), errors.list_errors(shard, ["default"], 10)).groups
    get_queue("default").retry_failed()
    drain()
    return [deliver_letter.get_result(task_id).state for task_id in group.task_ids]
