"""The versions that workers report are remembered: when each was first seen, and which supervisor had it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.deploys import read_deploys
from django_redis_components.taskqueue.stats.explain import explain
from django_redis_components.taskqueue.stats.worker_reports import WorkerReport
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import base_key, new_fetcher, queue_worker, renewal, taskqueue_settings
from tests.taskqueue.tasks import note

YEAR_MS = 365 * 86_400_000


def report(worker: str, version: str) -> None:
    info = json.dumps({"queues": [], "version": version})
    connections.client().execute(renewal(worker, [], lease_ms=60_000, info=info))


def test_version_is_remembered_with_the_time_of_its_first_report(store: Store) -> None:
    report("a:1.x", "1.0")
    first = store.raw.zscore(base_key(store, "deploys"), "1.0")
    for worker in ("a:1.x", "a:1.y", "b:2.x"):
        report(worker, "1.0")
    report("b:3.x", "1.1")

    assert store.raw.zrange(base_key(store, "deploys"), 0, -1) == [b"1.0", b"1.1"]
    assert store.raw.zscore(base_key(store, "deploys"), "1.0") == first
    assert store.raw.zrange(base_key(store, "versions"), 0, -1) == [b"a:1", b"b:2", b"b:3"]
    for key in ("deploys", "versions"):
        assert YEAR_MS - 60_000 < store.raw.pttl(base_key(store, key)) <= YEAR_MS


def test_worker_without_a_version_is_not_remembered(store: Store) -> None:
    report("a:1.x", "")
    connections.client().execute(renewal("a:2.x", [], lease_ms=60_000, info='{"version": 7}'))

    assert store.raw.exists(base_key(store, "deploys"), base_key(store, "versions")) == 0


def test_leases_are_renewed_whatever_text_a_report_has(store: Store) -> None:
    # A variable of the environment that is not UTF-8 has lone surrogates.
    info = WorkerReport(host="\udc80", version="v\udcff1 \N{SNOWMAN} \x00").encode()

    assert connections.client().execute(renewal("a:1.x", [], lease_ms=60_000, info=info))[:3] == [[], [], []]

    assert store.raw.zrange(base_key(store, "deploys"), 0, -1) == ["v?1 \N{SNOWMAN} \x00".encode()]
    assert WorkerReport.parse(info.encode()).version == "v?1 \N{SNOWMAN} \x00"


def test_latest_versions_and_supervisors_are_kept(redis_server: Store) -> None:
    for number in range(105):
        report(f"a:{number}.x", f"1.{number}")
    redis_server.raw.zadd(base_key(redis_server, "versions"), {f"old:{number}": 5 for number in range(2_000)})
    report("b:1.x", "1.104")

    kept = redis_server.raw.zrange(base_key(redis_server, "deploys"), 0, -1)
    assert (len(kept), kept[0], kept[-1]) == (100, b"1.5", b"1.104")
    assert redis_server.raw.zcard(base_key(redis_server, "versions")) == 2_000
    assert redis_server.raw.zscore(base_key(redis_server, "versions"), "b:1") is not None


def test_versions_of_the_workers_that_ran_a_task_are_read_with_it(store: Store) -> None:
    report("a:1.x", "1.0")
    report("b:1.y", "1.1")
    result = note.enqueue("x")
    new_fetcher(worker="b:1.y").fetch("0", 1)
    store.raw.hset(base_key(store, "t", result.id), "w", "a:1.x,c:1.z")

    task = run(connections.client(), explain(home(), result.id))

    assert task.versions == {"a:1.x": "1.0", "b:1.y": "1.1"}


@pytest.mark.integration
def test_worker_process_reports_the_version_of_the_settings(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=3, VERSION="2026.11.3")
    queue_worker(children, "default")
    result = note.enqueue("x")

    eventually(lambda: result.refresh() or result.is_finished)

    deploys = run(connections.client(), read_deploys(home()))
    assert [deploy.version for deploy in deploys] == ["2026.11.3"]
    assert list(run(connections.client(), explain(home(), result.id)).versions.values()) == ["2026.11.3"]
