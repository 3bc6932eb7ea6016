"""Checks that the watching process makes: each with the component itself."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.watched import files, locks, messages, searches, traffic
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.files import FileChannel
from django_redis_components.locks import Lock
from django_redis_components.messaging import Chat, Mailbox
from django_redis_components.messaging import keyspace as messaging_keyspace
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.hit_counts import COUNTER
from django_redis_components.search import SearchIndex
from django_redis_components.taskqueue import chain
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules.scheduler import Scheduler
from django_redis_components.taskqueue.shards import home
from tests.dashboard.problems.support import watched, without_persistence, write_watched
from tests.dashboard.support import URL, client_of, write_minute, write_queue, write_worker
from tests.ratelimits.support import count_hits, send_counts_by_hand
from tests.support import Store, eventually
from tests.taskqueue.support import taskqueue_settings, work_off
from tests.taskqueue.tasks import add, fail, note

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("catalogued")]


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch, redis_server: Store) -> Client:
    without_persistence(monkeypatch)
    return client_of("staff with the permission")


def test_failing_and_growing_queues_beyond_the_fifty_that_a_page_measures_are_reported(
    redis_server: Store, viewer: Client, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=300)
    for number in range(55):
        write_queue(redis_server, f"busy-{number:02}", ready=3, failed=9, running=9, retrying=9)
    for name in ("mail-1", "mail-2"):
        write_queue(redis_server, name, failed=8)
        write_minute(redis_server, name, succeeded=20, failed=20)
    write_queue(redis_server, "slow", ready=2, age_s=90)
    now = int(time.time() * 1_000)
    redis_server.raw.hset(f"{home().base}:t:slow-1", "e", str((now - 1_000) * 1_000))
    write_minute(redis_server, "slow", succeeded=1)
    write_worker(redis_server, "here:a", queues=["slow", *(f"busy-{number:02}" for number in range(55))])

    page = viewer.get(URL, {"format": "json"}).json()
    assert [each["code"] for each in page["problems"]] == ["poller_missing"], "a page measures 50 queues"
    cost = page["cost"]["round_trips"]
    found = watched(viewer)

    assert [(each["code"], each["queue"]) for each in found] == [
        ("failures", "mail-1"),
        ("failures", "mail-2"),
        ("growing", "slow"),
    ]
    assert found[0]["text"] == "Queue mail-1: 28.57 % of tasks failed in the last hour (8 of 28)."
    assert viewer.get(URL, {"format": "json"}).json()["cost"]["round_trips"] == cost


def test_number_of_further_queues_with_problems_is_reported(
    redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "MAX_STORED", 3)
    for number in range(60):
        write_queue(redis_server, f"mail-{number:02}", failed=1)
        write_minute(redis_server, f"mail-{number:02}", succeeded=20, failed=20)

    found = watched(viewer)

    assert [each["code"] for each in found] == ["failures"] * 6 + ["cut_off"]
    assert [each["text"] for each in found[5:]] == [
        "48 more of this kind.",
        "7 more queues have failures, retries, lost leases or a growing backlog.",
    ]


def test_steps_that_never_ran_do_not_count_beyond_the_fifty_queues_either(redis_server: Store, viewer: Client) -> None:
    for number in range(55):
        write_queue(redis_server, f"busy-{number:02}", ready=3, failed=9, running=9, retrying=9)
    for name, failed in (("mail-1", 3), ("mail-2", 2)):
        note.using(queue_name=name).enqueue_many([((number,), {}) for number in range(40)])
        for _number in range(failed):
            chain(
                fail.using(queue_name=name).s(), *[note.using(queue_name=name).si("never") for _ in range(4)]
            ).enqueue()
        work_off(name)

    [found] = [each for each in watched(viewer) if each["code"] == "failures"]

    assert found["text"] == "Queue mail-1: 6.98 % of tasks failed in the last 5 min (3 of 43)."
    assert found["advice"].startswith("3 failed tasks are left. 12 failures are not counted: ")


def test_odd_traffic_in_the_stored_facts_is_a_problem_of_its_check(redis_server: Store, viewer: Client) -> None:
    write_watched(redis_server, traffic={"queues": [["mail", "soon", None, 3]], "more": 0})

    found = viewer.get(URL, {"format": "json"}).json()["problems"]

    assert [each["code"] for each in found] == ["check_failed"]


def test_task_that_runs_far_longer_than_usual_may_hang(redis_server: Store, viewer: Client) -> None:
    for _ in range(20):
        add.enqueue(1, 2)
    work_off()
    name = add.name
    runs = [["task-1", name, "default", 61.5], ["task-2", name, "default", 59.0], ["task-3", "other", "default", 3_000]]
    write_worker(redis_server, "here:a", busy=3, runs=runs)

    [found] = watched(viewer)

    assert (found["code"], found["id"], found["severity"]) == ("hung", "hung:task-1", "warning")
    assert found["text"] == f"Task {name} (task-1, queue default) has run for 1 min 1 s on here:a."
    assert found["advice"].startswith("95 % of its runs take less than ")
    assert found["command"] == "python manage.py redis tasks cancel task-1"


def test_lock_whose_holder_keeps_others_waiting(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAITED_S", 0.0)
    held, released = Lock("order:17"), threading.Event()
    held.acquire()
    waiter = threading.Thread(target=lambda: Lock("order:17").acquire(blocking_timeout=60) and released.set())
    waiter.start()
    eventually(lambda: held.inspect().waiting == 1)
    try:
        [found] = watched(viewer, rounds=2)
    finally:
        held.release()
        waiter.join()

    assert (found["code"], found["id"]) == ("lock_waiters", "lock_waiters:lock::order:17")
    assert found["text"].startswith("1 caller waits for order:17, which ")
    assert found["command"] == "python manage.py redis locks release --kind lock order:17"
    assert released.is_set()
    assert watched(viewer) == []


def test_time_of_a_waiter_begins_anew_with_each_holder(redis_server: Store, viewer: Client) -> None:
    watcher, first, second = ProblemWatcher("default"), Lock("order:17"), Lock("order:17")
    first.acquire()
    waiter = threading.Thread(target=lambda: second.acquire(blocking_timeout=60))
    waiter.start()
    eventually(lambda: first.inspect().waiting == 1)
    watcher.round()
    before = held_since(redis_server)
    watcher.round()
    assert held_since(redis_server) == before

    first.release()
    waiter.join()
    last = threading.Thread(target=lambda: first.acquire(blocking_timeout=60))
    last.start()
    eventually(lambda: second.inspect().waiting == 1)
    watcher.round()

    assert held_since(redis_server) > before
    second.release()
    last.join()
    first.release()


def held_since(store: Store) -> float:
    """Return since when the lock is known to be held with waiters."""
    [held] = json.loads(store.raw.get(keyspace.key("facts")))["locks"][1]["held"]
    return float(held["since"])


def test_limit_that_denies_most_hits(viewer: Client, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    send_counts_by_hand(monkeypatch)
    count_hits(settings)
    limit = RateLimit("login", "1/m")
    for _ in range(150):
        limit.hit("192.0.2.7")
    COUNTER.flush()

    [found] = watched(viewer)

    assert (found["code"], found["id"]) == ("limit_denies", "limit_denies:login")
    assert found["text"] == "Rate limit login denied 99.33 % of 150 hits in the last 5 min."
    assert "was denied 149 times this hour." in found["advice"]


def test_flooded_chat_and_mailbox_that_drops(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, box = Chat.create("ada", ["kim"]), Mailbox("kim", max_messages=2)
    box.send(1)
    chat.send("ada", "hello")
    assert watched(viewer) == []
    monkeypatch.setattr(messages, "FLOOD_PER_MINUTE", 20)

    for number in range(30):
        chat.send("ada", f"again {number}")
        box.send(number)
    found = {each["code"]: each for each in watched(viewer)}

    assert found["chat_flood"]["text"].startswith(f"Chat {chat.id} receives ")
    assert found["chat_flood"]["advice"].startswith("ada has sent 31 of its 31 newest messages. ")
    assert found["mailbox_full"]["text"] == "The mailbox of kim drops messages: 2 are not acknowledged."


def test_old_chats_and_mailboxes_are_watched_like_the_newest(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, box = Chat.create("ada", ["kim"]), Mailbox("kim", max_messages=2)
    chat.send("ada", "hello")
    box.send(1)
    for number in range(60):
        Chat.create("ada", [], number, chat_id=f"later-{number}")
        Mailbox(f"later-{number}").send(1)
    assert watched(viewer) == []
    monkeypatch.setattr(messages, "FLOOD_PER_MINUTE", 20)

    for number in range(30):
        chat.send("ada", number)
        box.send(number)

    assert {each["code"] for each in watched(viewer)} == {"chat_flood", "mailbox_full"}


def test_chat_without_messages_for_minutes_is_not_counted(viewer: Client, redis_server: Store) -> None:
    chat = Chat.create("ada", ["kim"])
    chat.send("ada", "hello")
    redis_server.raw.hset(messaging_keyspace.chat_key(chat.id, "meta"), "last_at", int(time.time() - 180) * 1_000)

    watched(viewer)

    [_, stored] = json.loads(redis_server.raw.get(keyspace.key("facts")))["messages"]
    assert stored["sent"] == {}


def test_file_channel_whose_producers_wait(viewer: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "WAITED_S", 0.0)
    (tmp_path / "x").write_bytes(bytes(50))
    channel = FileChannel("exports", ["index"], limit_bytes=60)
    first = channel.publish(tmp_path / "x")
    producer = threading.Thread(target=channel.publish, args=(tmp_path / "x",))
    producer.start()
    eventually(lambda: channel.info().waiting == 1)
    try:
        [found] = watched(viewer)
    finally:
        channel.remove(first.id)
        producer.join()

    assert found["id"] == "files_behind:exports"
    assert found["text"].startswith("File channel exports is full (50\xa0bytes): 1 producer has waited")
    assert found["advice"] == "Consumer index has 1 file to read. Check it, or raise the limit."


def test_index_in_which_many_searches_find_nothing(viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches, "MANY", 5)
    index = SearchIndex("items")
    index.add("1", "a cat")
    index.search("dog")
    assert watched(viewer) == []

    for _ in range(5):
        index.search("dog")

    [found] = watched(viewer)
    assert found["id"] == "searches_empty:items"
    assert found["text"] == "Search index items: 5 searches of the last 10 min have found nothing."


def test_poller_whose_rounds_fail(redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    poller, other = (Poller(home(), home().client()) for _ in range(2))
    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "run_due", lambda *_: {}["odd"])
        poller.step()
    [found] = watched(viewer)

    assert (found["id"], found["severity"]) == ("poller_failing:", "critical")
    assert found["text"].startswith(f"Poller {poller.id} fails: KeyError: 'odd' (1 round since ")
    assert found["advice"].startswith("Until it works, tasks of crashed workers are not recovered,")

    poller.close()
    redis_server.raw.delete(f"{home().base}:poller")
    other.step()
    [found] = watched(viewer)
    assert (found["severity"], found["advice"][:27]) == ("warning", "Another poller is active. T")

    other.close()
    redis_server.raw.delete(f"{home().base}:poller")
    poller.next_round_at = 0
    poller.step()
    assert watched(viewer) == []


@pytest.mark.parametrize("stored", ["x", "7", "[]", "{}", '{"poller": 1, "error": 2, "count": "x", "since": 1}'])
def test_report_of_a_poller_that_is_none_is_no_problem(redis_server: Store, viewer: Client, stored: str) -> None:
    redis_server.raw.set(f"{home().base}:poller_failure", stored)

    assert watched(viewer) == []


def test_problems_of_the_server_and_of_data_come_before_those_of_queues(
    own_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_persistence(monkeypatch)
    own_server.raw.config_set("maxmemory", 1_000_000_000)
    write_queue(own_server, "mail", ready=1)
    write_queue(own_server, "reports", ready=1, age_s=1_000)
    write_worker(own_server, "here:a", queues=["reports"])
    now = time.time()
    write_watched(
        own_server,
        data_loss={"at": now, "queues": 2, "tasks": 7, "is_restart": False},
        messages={"floods": [["lobby", 900]], "full": []},
        memory={"used": [[now - 3_600, 1_000], [now, 900_000_000]], "whole": {"components": {}}},
    )

    found = client_of("staff with the permission").get(URL, {"format": "json"}).json()["problems"]

    codes = ["data_lost", "no_worker", "poller_missing", "memory_growth", "late", "chat_flood"]
    assert [each["code"] for each in found] == codes
