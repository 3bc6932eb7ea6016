"""Shards that are hash tags of one Cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import redis
from django.core.management import call_command

from django_redis_components.core import keys
from django_redis_components.core.client.connections import client
from django_redis_components.core.protocol import Read
from django_redis_components.taskqueue import chain, get_queue, get_result, routing
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shard_clients import client_for
from django_redis_components.taskqueue.shards import shards_of
from tests.conftest import components_settings
from tests.support import Store
from tests.support.asynchronous import run_async
from tests.support.clusters import slot_queries
from tests.support.pools import close_pools
from tests.support.processes import Children
from tests.support.stores import Stores
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.shards.support import Meetings
from tests.taskqueue.support import SITE, running_worker
from tests.taskqueue.tasks import add, note

#: Tags whose slots lie on different primaries of a Cluster of three: 5,718 and 12,035 of 16,384.
TAGS = {"default": "default", "mail": "default"}
mail = note.using(queue_name="mail")


@pytest.fixture
def cluster(stores: Stores, settings: Any, children: Children) -> Iterator[Store]:
    lent = stores.get("cluster").for_test("tscluster")
    settings.REDIS_COMPONENTS = {
        **components_settings(lent),
        "TASKQUEUE": {"SHARDS": TAGS, "QUEUES": {"default": None, "mail": "mail"}},
    }
    yield lent
    children.close()
    close_pools()
    lent.delete_keys()


def test_shards_lie_on_different_primaries(cluster: Store) -> None:
    here, there = note.enqueue(1), mail.enqueue(2)
    nodes = {cluster.raw.get_node_from_key(shard.base).name for shard in shards_of()}

    assert len(nodes) == 2
    assert [get_result(each.id).queue_name for each in (here, there)] == ["default", "mail"]
    assert [get_queue(name).info().ready for name in ("default", "mail")] == [1, 1]
    assert client().endpoint.kind == "cluster"


def test_worker_runs_the_tasks_of_all_tags(cluster: Store) -> None:
    results = [task.enqueue(number) for number in range(20) for task in (note, mail)]
    flow = chain(add.using(queue_name="mail").s(1, 2), add.s(3)).enqueue()
    with running_worker("default", "mail", threads=3):
        assert [result.get(TIMEOUT_S) for result in results] == [number for number in range(20) for _ in "ab"]
        assert flow.get(TIMEOUT_S) == 6


def test_tasks_move_to_another_tag(cluster: Store) -> None:
    results = [add.enqueue(number, 1) for number in range(3)]

    call_command("redis", "shards", "move", "default", "mail", "--yes")

    with running_worker("default"):
        assert [result.get(TIMEOUT_S) for result in results] == [1, 2, 3]
    assert cluster.raw.exists(shards_of()[1].record(results[0].id))


def test_processes_serve_all_tags(cluster: Store, children: Children) -> None:
    children.manage("runworker", "default", "mail", "--processes=2", env=SITE)

    results = [task.enqueue(number, 1) for number in range(50) for task in (add, add.using(queue_name="mail"))]

    assert [result.get(TIMEOUT_S) for result in results] == [number + 1 for number in range(50) for _ in "ab"]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_shard_that_answers_again_is_looked_up_again(
    cluster: Store, settings: Any, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    taskqueue = {"SHARDS": TAGS, "QUEUES": {"mail": ["default", "mail"]}}
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"TASKQUEUE": taskqueue}
    monkeypatch.setattr(routing, "RETRY_S", 0.0)  # each call asks a shard that has failed

    async def enqueue(count: int) -> None:
        for number in range(count):
            _ = await mail.aenqueue(number) if is_async else mail.enqueue(number)

    async def main() -> int:
        with refusing_writes(cluster, "{mail}"):
            await enqueue(4)
        before = slot_queries(cluster.servers)
        await enqueue(2)
        return slot_queries(cluster.servers) - before

    assert run_async(main)  # the node that was known may hang, while its replica has answered


@contextmanager
def refusing_writes(cluster: Store, key: str) -> Iterator[None]:
    port = cluster.raw.get_node_from_key(key).port
    with redis.Redis(host="127.0.0.1", port=port) as raw:
        raw.config_set("min-replicas-to-write", 1)
        try:
            yield
        finally:
            raw.config_set("min-replicas-to-write", 0)


def test_names_of_shards_have_slots_on_different_primaries(cluster: Store, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("redis", "shards", "names", "6", "--json")
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["names"]]

    nodes = [cluster.raw.get_node_from_key(keys.key("taskqueue", name)).name for name in names]

    assert len(set(names)) == 6
    assert sorted(Counter(nodes).values()) == [2, 2, 2]


def test_requests_to_the_shards_of_a_cluster_are_sent_side_by_side(cluster: Store) -> None:
    met = Meetings(2)
    over_shards = client_for("default", met.client)
    requests = [Read("ZCARD", shard.key(Key.queues)) for shard in shards_of()]

    assert over_shards.execute_many(requests) == [0, 0]
    assert met.count == 2


def test_spread_queue_uses_all_primaries(cluster: Store, settings: Any) -> None:
    current = settings.REDIS_COMPONENTS
    routes = {"default": None, "events": ["default", "mail"]}
    settings.REDIS_COMPONENTS = {**current, "TASKQUEUE": {**current["TASKQUEUE"], "QUEUES": routes}}
    unique = add.using(queue_name="events", unique=True)

    results = [unique.enqueue(number, 1) for number in range(20)]
    results += add.using(queue_name="events").enqueue_many([((number, 1), {}) for number in range(600)])

    assert all(unique.enqueue(number, 1).is_duplicate for number in range(20))
    counts = [len(list(cluster.raw.scan_iter(match=f"{shard.base}:t:*", count=1_000))) for shard in shards_of()]
    assert sum(counts) == 620
    assert min(counts) > 100
    with running_worker("events", threads=3):
        assert [result.get(TIMEOUT_S) for result in results[:20]] == [number + 1 for number in range(20)]
        assert flow_of_three().get(TIMEOUT_S) == 6


def flow_of_three() -> Any:
    task = add.using(queue_name="events")
    return chain(task.s(1, 2), task.s(3)).enqueue()


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["yes", "no"])
def test_doctor_warns_of_a_cluster_that_stops_all_shards_with_one_primary(
    cluster: Store, capsys: pytest.CaptureFixture[str], value: str
) -> None:
    with configured(cluster, "cluster-require-full-coverage", value):
        found = coverage_findings(capsys)

    if value == "no":
        assert not found
    else:
        [finding] = found
        text = "The Cluster requires full coverage: when a primary is lost that has no replica, all shards stop."
        assert finding["text"] == text
        assert finding["command"].startswith("redis-cli --cluster call ")
        assert finding["command"].endswith(" CONFIG SET cluster-require-full-coverage no")


@pytest.mark.django_db
def test_doctor_warns_of_full_coverage_only_if_shards_would_stop_others(
    cluster: Store, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.REDIS_COMPONENTS = components_settings(cluster)
    with configured(cluster, "cluster-require-full-coverage", "yes"):
        assert not coverage_findings(capsys)


def coverage_findings(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    with suppress(SystemExit):
        call_command("redis", "doctor", "--json", "--scan", "0")
    return [each for each in json.loads(capsys.readouterr().out)["findings"] if each["code"] == "full_coverage"]


@contextmanager
def configured(cluster: Store, option: str, value: str) -> Iterator[None]:
    """Change an option of all nodes, and change it back."""
    nodes = [redis.Redis(port=server.port or 0) for server in cluster.servers]
    former = [node.config_get(option)[option] for node in nodes]
    for node in nodes:
        node.config_set(option, value)
    try:
        yield
    finally:
        for node, own in zip(nodes, former, strict=True):
            node.config_set(option, own)
            node.close()
