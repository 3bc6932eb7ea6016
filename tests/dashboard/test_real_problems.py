"""Problems on the overview, each from its real condition: what is said, and what the operator may do about it."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

import pytest
import redis
from django.test import Client

from django_redis_components.contrib.prometheus import RedisComponentsCollector
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.queues.throughput import drain_time
from django_redis_components.taskqueue import get_queue, task
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.queue_stats import read_overview
from tests.dashboard.problem_rows import row_with, rows, set_option, text_at
from tests.dashboard.support import URL, browser, settle_tasks, write_poller
from tests.management.support import run_command
from tests.support import Store, eventually
from tests.support.clocks import ServerClock
from tests.support.processes import Children
from tests.taskqueue.support import Held, kill_processes, processes_of, queue_worker
from tests.taskqueue.tasks import hold, note
from tools.localserver import LocalServer

pytestmark = pytest.mark.django_db(transaction=True)


@task
def is_known_here_only() -> None:
    """No worker of the tests' site registers it."""


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "view_failure", "view_worker", "retry_task", "pause_queue")


def test_memory_above_the_share(own_server: Store, operator: Client) -> None:
    own_server.raw.setrange("large", 99_999_999, "x")
    used = own_server.raw.info("memory")["used_memory"]
    own_server.raw.config_set("maxmemory", int(used * 1.06))

    row = row_with(operator, r"Redis uses 9\d\.\d\d % of its memory \([\d.]+ .B of [\d.]+ .B\)\.")

    assert "When it is full, it rejects new tasks. Raise maxmemory, or remove data that is not needed." in row.text


def test_replica_that_lags(own_server: Store, replica: LocalServer, operator: Client, settings: Any) -> None:
    set_option(settings, REPLICA_LAG=1)
    assert "lags" not in text_at(operator, URL)

    os.kill(replica.pid, signal.SIGSTOP)

    row = row_with(operator, rf"Replica 127\.0\.0\.1:{replica.port} lags \d+ s behind\.")
    assert "A failover to it loses tasks. Check its load and the network." in row.text
    os.kill(replica.pid, signal.SIGCONT)
    eventually(lambda: not [row for row in rows(operator) if "lags" in row.text])


@pytest.mark.parametrize(("step_s", "side"), [(30, "ahead of"), (-30, "behind")])
def test_clock_step(step_s: int, side: str, stepped_server: tuple[Store, ServerClock], operator: Client) -> None:
    assert "The clock of Redis" not in text_at(operator, URL)

    stepped_server[1].step(step_s)

    row = row_with(operator, rf"The clock of Redis is (29|30)\.\d s {side} the clock of this host\.")
    assert "Synchronize the clocks of both hosts (chrony or systemd-timesyncd)." in row.text


def test_snapshot_that_cannot_be_written(own_server: Store, operator: Client) -> None:
    (own_server.servers[0].directory / own_server.raw.config_get("dbfilename")["dbfilename"]).mkdir()
    with pytest.raises(redis.ResponseError):
        own_server.raw.save()
    own_server.raw.bgsave()

    row = row_with(operator, r"Redis could not write to disk: rdb_last_bgsave_status is err\.")

    assert row.text.startswith("■ Critical")
    assert "Check the server’s log and the free space of its disk." in row.text


def test_tasks_without_code(redis_server: Store, operator: Client, children: Children) -> None:
    queue_worker(children, "mail", "--processes", "1")
    is_known_here_only.using(queue_name="mail").enqueue()

    row = row_with(operator, r"Queue mail has 1 task with an unregistered name\.")

    assert (
        f"Names: {__name__}.is_known_here_only. Modules to import: {__name__}. It is requeued when a worker that "
        "registers the name starts: python manage.py runworker mail"
    ) in row.text
    assert "is_known_here_only" in text_at(browser("view_overview", "view_queue"), row.links["Show queue"])


def test_leases_lost_to_kills(redis_server: Store, operator: Client, children: Children, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"LEASE": 2}}
    set_option(settings, LOST_LEASES=2)
    worker = queue_worker(children, "reports", "--processes", "1", "--threads", "2")
    for name in ("first", "second"):
        hold.using(queue_name="reports").enqueue(name)
        Held(redis_server, name).started()

    kill_processes(processes_of(worker.pid))  # as the kernel does when memory is short; the supervisor starts another

    row = row_with(operator, r"Queue reports: 2 leases lost in the last hour\.")
    assert "Check their logs for out-of-memory kills and blocked threads." in row.text
    assert operator.get(row.links["Show workers"]).status_code == 200


def test_retries_are_counted_as_retrying_everywhere(redis_server: Store, operator: Client) -> None:
    write_poller(redis_server)
    note.using(run_after=3_600).enqueue_many([((number,), {}) for number in range(3)])
    note.enqueue_many([((number,), {}) for number in range(20)])
    settle_tasks("retried", delay_ms=3_600_000)

    row = row_with(operator, r"Queue default: 20 retries in the last hour, 0 finished tasks\.")

    assert (
        "Most runs fail. Pause the queue until the cause is corrected: python manage.py redis queues pause default"
        in row.text
    )
    assert "Pause queue default" in text_at(operator, row.links["Pause…"])
    [queue] = operator.get(URL, {"format": "json"}).json()["queues"]
    assert (queue["scheduled"], queue["retrying"]) == (23, 20)
    [queue] = json.loads(run_command("redis", "queues", "status", "--json"))["queues"]
    assert (queue["scheduled"], queue["retrying"]) == (23, 20)
    assert "23 scheduled, 20 retrying" in run_command("redis", "top", "--once")
    [gauge] = [each for each in RedisComponentsCollector().collect() if each.name.endswith("_retrying_tasks")]
    assert [(sample.labels, sample.value) for sample in gauge.samples] == [({"queue": "default"}, 20)]


class Traffic:
    """Tasks that arrive and finish while the server's clock is set forward: minutes take milliseconds."""

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock
        self._second = 0

    def flow(self, seconds: int, *, in_s: int, out_s: int) -> None:
        """Let a task arrive every `in_s` seconds, and finish every `out_s`; 0: none."""
        for _ in range(seconds):
            self._second += 1
            self._clock.step(1)
            if in_s and self._second % in_s == 0:
                note.enqueue("x")
            if out_s and self._second % out_s == 0:
                settle_tasks("succeeded", 1)


def eta() -> str:
    overview = run(connections.client(), read_overview(home()))
    [queue] = overview.queues
    return drain_time(queue, overview.metrics[queue.name])


def test_eta_is_true_growing_or_unknown(
    stepped_server: tuple[Store, ServerClock], operator: Client, settings: Any
) -> None:
    set_option(settings, CLOCK_OFFSET=1_000_000)
    traffic = Traffic(stepped_server[1])

    # Two tasks arrive for one that finishes, for more than the six minutes that are looked at.
    traffic.flow(420, in_s=1, out_s=2)
    assert eta() == "growing"
    row = row_with(operator, r"Queue default is growing: (5\d|60)/min in, (2\d|30|31)/min out, oldest 3 min")
    assert "It has too few workers, or its tasks take longer than before. Add a worker:" in row.text
    assert "python manage.py runworker default" in row.text
    assert "Pause queue default" in text_at(operator, row.links["Pause…"])

    # No more arrive. The queue is empty at the time of the ETA.
    traffic.flow(120, in_s=0, out_s=2)
    left_s = get_queue("default").info().ready * 2
    stated = re.fullmatch(r"(?:(\d+) min ?)?(?:(\d+) s)?", eta())
    assert stated, eta()
    stated_s = int(stated[1] or 0) * 60 + int(stated[2] or 0)
    assert 0.9 * left_s <= stated_s <= 1.1 * left_s
    traffic.flow(left_s, in_s=0, out_s=2)
    assert get_queue("default").info().ready == 0
    assert eta() == "–"

    # None finishes any more.
    note.enqueue_many([((number,), {}) for number in range(50)])
    traffic.flow(420, in_s=0, out_s=0)
    assert eta() == "unknown"
    assert " unknown " in text_at(operator, URL)
