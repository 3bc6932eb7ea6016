"""What the watching process finds in each shard."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.problems.watched import moves as watched_moves
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.stats.worker_reports import WorkerReport, WorkerRun
from django_redis_components.taskqueue.store import moves
from django_redis_components.taskqueue.store.scripts import RENEW_LEASES
from tests.conftest import components_settings
from tests.support import Store
from tests.support.clocks import ServerClock
from tests.taskqueue.shards.moves import move
from tests.taskqueue.shards.support import TwoShards, in_both
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

URL = "/admin/django_redis_components/overview/?format=json"


def problems(client: Client, *codes: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(URL).json()["problems"]
    return [each for each in found if each["code"] in codes]


def watch(rounds: int = 1) -> ProblemWatcher:
    watcher = ProblemWatcher("default")
    for _ in range(rounds):
        watcher.round()
    return watcher


def heartbeat(shard: Any, *runs: WorkerRun) -> None:
    report = WorkerReport(host="here", pid=7, queues=("default", "mail"), threads=8, busy=len(runs), runs=runs)
    shard.client().execute(
        RENEW_LEASES(
            base=shard.base,
            worker="here:7.a",
            lease_ms=15_000,
            info=report.encode(),
            supervisor="",
            executed="",
            leases=(),
        )
    )


def test_loss_of_all_data_of_a_shard_is_seen(shards: TwoShards, admin_client: Client) -> None:
    note.using(queue_name="mail").enqueue(1)
    watcher = watch()
    assert problems(admin_client, "data_lost") == []

    shards.b.raw.flushall()
    watcher.round()

    [problem] = problems(admin_client, "data_lost")
    assert problem["text"].startswith("Shard b: All data in Redis was deleted before ")
    assert "It held 1 task in 1 queue." in problem["text"]
    assert problem["started_at"] is not None


def test_run_that_takes_too_long_is_reported_for_its_shard_only(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    [there], [here] = in_both(settings, 1)
    runs = [WorkerRun(each, note.name, "mail", 90_000.0, None) for each in (there, here)]
    for shard in shards_of():
        heartbeat(shard, *runs)
    watch()

    found = problems(admin_client, "hung")

    assert {each["subject"] for each in found} == {here, f"b/{there}"}
    assert len(found) == 2


def test_move_that_was_interrupted_is_a_problem_until_it_is_completed(
    shards: TwoShards, admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = shards_of()
    ids = [note.using(queue_name="high").enqueue(number).id for number in range(2)]
    source.run(
        moves.export_tasks(source, "high", "ready", int(time.time() * 1e6) + 60_000_000, target, ids, is_target=True)
    )

    watcher = watch(rounds=2)
    assert problems(admin_client, "move_interrupted") == [], "it may run"

    monkeypatch.setattr(watched_moves, "LEFT_S", 0.0)
    [problem] = problems(admin_client, "move_interrupted")
    assert problem["text"].startswith(
        "A move of tasks from shard default to b was interrupted: 2 tasks have run in neither for at least "
    )
    assert problem["command"] == "python manage.py redis shards move --queue high default b"

    move(queue="high")
    watcher.round()

    assert problems(admin_client, "move_interrupted") == []


def test_move_that_was_interrupted_in_another_shard_names_it(
    shards: TwoShards, admin_client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_moves, "LEFT_S", 0.0)
    target, source = shards_of()
    [there], _ = in_both(settings, 1)
    source.run(
        moves.export_tasks(
            source, "mail", "ready", int(time.time() * 1e6) + 60_000_000, target, [there], is_target=True
        )
    )

    watch()

    [problem] = problems(admin_client, "move_interrupted")
    assert problem["text"].startswith("Shard b: A move of tasks from shard b to default was interrupted: 1 task has ")


def test_lost_worker_is_one_problem_of_all_shards(shards: TwoShards, admin_client: Client) -> None:
    for shard in shards_of():
        heartbeat(shard)
    for store, tag in ((shards.a, "default"), (shards.b, "b")):
        for key in store.raw.scan_iter(match=f"*{{{tag}}}*workers"):
            store.raw.zincrby(key, -60_000, "here:7.a")

    found = problems(admin_client, "worker_lost", "worker_silent")

    assert [each["subject"] for each in found] == ["here:7.a"]


def test_outage_of_a_shard_has_a_start_once_it_was_watched(shards: TwoShards, admin_client: Client) -> None:
    watcher = watch()
    shards.server_b.kill()
    watcher.round()

    [problem] = problems(admin_client, "redis_unreachable")
    html = admin_client.get("/admin/django_redis_components/overview/").content.decode()

    assert problem["started_at"] is not None
    assert "away since" in html
    url = "/admin/django_redis_components/incident/acknowledge/"
    response = admin_client.post(f"{url}?problem={problem['id']}", {"problem": problem["id"]})
    assert response.status_code == 302
    [problem] = problems(admin_client, "redis_unreachable")
    assert problem["acknowledged"] is not None


def test_start_of_a_problem_is_shown_by_the_clock_of_its_shard(
    stepped_server: tuple[Store, ServerClock], redis_server: Store, settings: Any, admin_client: Client
) -> None:
    home, clock = stepped_server
    clock.step(90_000)
    settings.REDIS_COMPONENTS = {
        **components_settings(home, redis_b=redis_server.url),
        "TASKQUEUE": {"SHARDS": {"default": "default", "b": "redis_b"}, "QUEUES": {"mail": "b"}},
    }
    note.using(queue_name="mail").enqueue(1)
    watch().stop()

    [stored] = problems(admin_client, "no_worker")
    html = admin_client.get(URL.partition("?")[0]).content.decode()
    shown = re.search(r'since <time datetime="([^"]+)"', html[html.index("Shard b: Queue mail") :])
    assert shown is not None

    there, here = redis_server.raw.time()[0], home.raw.time()[0]
    assert abs(datetime.fromisoformat(shown[1]).timestamp() - there) < 3_600
    assert abs(datetime.fromisoformat(stored["started_at"]).timestamp() - here) < 3_600, "the site's incidents have one"
