"""A site with 300 worker processes and 500 queues: none is reported wrongly, and none is left out."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from django_redis_components.contrib.prometheus.families import families_of
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.problems.storage import read_state
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.queue_stats import read_overview
from django_redis_components.taskqueue.stats.worker_reports import WorkerReport
from django_redis_components.taskqueue.store.scripts import RENEW_LEASES
from tests.dashboard.support import URL, browser, write_poller, write_queue
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings

pytestmark = pytest.mark.django_db

QUEUES = [f"queue-{number:03}" for number in range(500)]
WORKERS = 300
#: Queues with tasks and no worker. They are neither the first nor the last of the index.
UNSERVED = QUEUES[245:255]


@pytest.fixture
def site(redis_server: Store, settings: Any) -> Store:
    """Each queue but ten has one or two workers, which have sent a heartbeat, and each has a ready task."""
    taskqueue_settings(settings, LEASE=300)
    for queue in QUEUES:
        write_queue(redis_server, queue, ready=1)
    served = [queue for queue in QUEUES if queue not in UNSERVED]
    connections.client().execute_many([heartbeat(n, served[n::WORKERS]) for n in range(WORKERS)])
    write_poller(redis_server)
    return redis_server


def heartbeat(number: int, queues: list[str]) -> Any:
    report = WorkerReport(host=f"host-{number // 8}", pid=number, queues=tuple(queues), threads=8)
    return RENEW_LEASES(
        base=home().base,
        worker=f"host-{number // 8}:{number}.a",
        lease_ms=300_000,
        info=report.encode(),
        supervisor="",
        executed="",
        leases=(),
    )


def no_worker(problems: list[dict[str, Any]]) -> list[str]:
    """Return the queues that are reported to have no worker, from the command that starts one."""
    [found] = [each for each in problems if each["code"] == "no_worker"]
    return [word for word in found["command"].split() if word.startswith("queue-")]


def test_pages_and_checks_report_exactly_the_queues_without_a_worker(
    site: Store, client: Client, settings: Any
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "MONITORING": {"TOKEN": "health-token-0123456789"}}
    data = browser("view_overview").get(URL, {"format": "json"}).json()
    healthz = client.get("/redis/healthz/", headers={"Authorization": "Bearer health-token-0123456789"})
    printed = io.StringIO()
    with pytest.raises(SystemExit):
        call_command("redis", "doctor", "--json", stdout=printed)
    families = families_of(run(connections.client(), read_overview(home(), with_metrics=False)), [], [])
    [served] = [each.samples for each in families if each.name.endswith("_queue_workers")]
    findings = json.loads(printed.getvalue())

    assert no_worker(data["problems"]) == UNSERVED
    assert (healthz.status_code, no_worker(healthz.json()["problems"])) == (503, UNSERVED)
    assert no_worker(findings["findings"]) == UNSERVED
    assert {queue["name"]: queue["live_workers"] for queue in data["queues"]} == {
        queue: int(queue not in UNSERVED) for queue in QUEUES
    }
    assert {each.labels["queue"]: each.value for each in served} == {q: float(q not in UNSERVED) for q in QUEUES}
    assert [each["code"] for each in data["problems"]] == ["no_worker", "cut_off"]


def test_watching_process_finds_all_of_them(site: Store) -> None:
    ProblemWatcher("default").round()

    incidents = run(connections.client(), read_state("default")).incidents.values()

    assert no_worker([dataclasses.asdict(each) for each in incidents]) == UNSERVED


def test_overview_reads_no_more_reports_of_many_workers_than_it_shows(site: Store) -> None:
    data = browser("view_overview").get(URL, {"format": "json"}).json()

    assert len(data["workers"]) == 200
    assert data["cost"]["round_trips"] <= 3
