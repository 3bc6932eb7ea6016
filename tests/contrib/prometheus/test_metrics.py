"""What Prometheus scrapes: the figures, what a scrape costs, who may scrape, and the shipped dashboard."""

from __future__ import annotations

import json
import logging
import math
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from django_redis_components import checks
from django_redis_components.contrib import prometheus
from django_redis_components.contrib.prometheus import RedisComponentsCollector
from django_redis_components.dashboard.problems import Problem
from django_redis_components.dashboard.problems.incidents import Acknowledgment, acknowledge
from django_redis_components.dashboard.problems.storage import change_state
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.stats.histogram import BUCKETS, bounds_of
from django_redis_components.taskqueue.stats.metrics import OUTCOMES, SIZE
from tests.dashboard.support import write_poller, write_worker
from tests.support import Store, skip_missing
from tests.taskqueue.support import base_key, queue_key, recover, server_ms, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, fail, fail_thrice
from tools.localserver import free_port

try:
    from prometheus_client import CollectorRegistry
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
    from prometheus_client.parser import text_string_to_metric_families as parse
except ImportError:
    CollectorRegistry = None

URL = "/redis/metrics/"
TOKEN = "scrape-token-0123456789"
DASHBOARD = Path(prometheus.__file__).with_name("grafana.json")


@pytest.fixture(autouse=True)
def library() -> None:
    if CollectorRegistry is None:
        skip_missing("prometheus-client is not installed")


@pytest.fixture
def registry() -> Any:
    made = CollectorRegistry()
    made.register(RedisComponentsCollector())
    return made


def allow(settings: Any, **monitoring: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "MONITORING": monitoring}


def value(registry: Any, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"redis_components_{name}", labels)


def run_some_tasks() -> None:
    """Run five tasks of two queues, and leave two ready ones and a scheduled one."""
    for _ in range(3):
        add.enqueue(1, 2)
    fail.using(queue_name="mail").enqueue()
    fail_thrice.using(queue_name="mail", backoff=3_600).enqueue()
    work_off()
    work_off("mail")
    add.enqueue(3, 4)
    add.enqueue(5, 6)


def test_a_scrape_reports_queues_outcomes_durations_and_workers(redis_server: Store, registry: Any) -> None:
    run_some_tasks()
    get_queue("mail").pause("SMTP is down")
    write_worker(redis_server, "here:a", queues=["default"], threads=8, busy=10, busy_coroutines=7)
    write_worker(redis_server, "gone:b", queues=["mail"], seen_s=50, threads=8)
    recover()

    assert value(registry, "up") == 1
    assert value(registry, "taskqueue_tasks", queue="default", state="ready") == 2
    assert value(registry, "taskqueue_tasks", queue="mail", state="failed") == 1
    assert value(registry, "taskqueue_tasks", queue="mail", state="scheduled") == 1
    assert 0 < value(registry, "taskqueue_oldest_task_age_seconds", queue="default") < 600
    assert value(registry, "taskqueue_oldest_task_age_seconds", queue="mail") == 0
    assert [value(registry, "taskqueue_paused", queue=queue) for queue in ("default", "mail")] == [0, 1]
    assert value(registry, "taskqueue_outcomes_total", queue="default", outcome="succeeded") == 3
    assert value(registry, "taskqueue_outcomes_total", queue="mail", outcome="failed") == 1
    assert value(registry, "taskqueue_outcomes_total", queue="mail", outcome="retried") == 1
    assert value(registry, "taskqueue_run_seconds_bucket", queue="default", le="+Inf") == 3
    assert value(registry, "taskqueue_wait_seconds_bucket", queue="mail", le="+Inf") == 2
    assert [value(registry, "taskqueue_workers", state=state) for state in ("live", "lost")] == [1, 1]
    assert [value(registry, "taskqueue_queue_workers", queue=queue) for queue in ("default", "mail")] == [1, 0]
    assert (value(registry, "taskqueue_threads"), value(registry, "taskqueue_busy_threads")) == (8, 3)
    assert value(registry, "taskqueue_poller_active") == 1


def test_current_problems_are_counted_by_code(redis_server: Store, registry: Any) -> None:
    for queue in ("mail", "news"):
        add.using(queue_name=queue).enqueue(1, 2)
    ProblemWatcher("default").round()
    critical = {"code": "no_worker", "severity": "critical"}

    assert value(registry, "problems", **critical, acknowledged="false") == 2

    problem = Problem("no_worker", "", "", severity="critical", queue="mail")
    held = Acknowledgment("kim", "", "critical", 0.0)
    change_state(lambda state: (acknowledge(state, problem, held), []), "default")

    assert value(registry, "problems", **critical, acknowledged="false") == 1
    assert value(registry, "problems", **critical, acknowledged="true") == 1


def test_counters_do_not_fall_when_minutes_are_rolled_up_and_expire(redis_server: Store, registry: Any) -> None:
    def succeeded() -> float | None:
        return value(registry, "taskqueue_outcomes_total", queue="default", outcome="succeeded")

    recover()
    minute = int(server_ms(redis_server)) // 60_000
    for _ in range(4):
        add.enqueue(1, 2)
    work_off()
    redis_server.raw.set(base_key(redis_server, "rollup"), minute - 4)
    for ago in (1, 2, 3):  # the counters of the current minute, as if they were older
        redis_server.raw.copy(
            queue_key(redis_server, f"minute:{minute}"), queue_key(redis_server, f"minute:{minute - ago}")
        )

    assert succeeded() == 16
    recover()
    assert succeeded() == 16
    for ago in (1, 2, 3):
        redis_server.raw.delete(queue_key(redis_server, f"minute:{minute - ago}"))
    recover()
    assert succeeded() == 16


def test_buckets_are_cumulative_and_their_bounds_double(redis_server: Store, registry: Any) -> None:
    add.enqueue(1, 2)
    work_off()
    recover()

    [family] = [each for each in registry.collect() if each.name == "redis_components_taskqueue_run_seconds"]

    buckets = [(float(each.labels["le"]), each.value) for each in family.samples if each.name.endswith("_bucket")]
    assert [bound for bound, _ in buckets][:3] == [0.001, 0.002, 0.004]
    assert buckets == sorted(buckets)
    assert len(buckets) == 25


def test_histograms_have_a_count_and_about_a_sum(redis_server: Store, registry: Any) -> None:
    recover()
    add.enqueue(1, 2)
    add_runs(redis_server, seconds=20.0, count=4)

    total = value(registry, "taskqueue_run_seconds_sum", queue="default")

    assert value(registry, "taskqueue_run_seconds_count", queue="default") == 4
    assert total == pytest.approx(4 * 20, rel=0.2)


def test_wanted_capacity_follows_the_tasks(redis_server: Store, registry: Any) -> None:
    def wanted() -> list[float | None]:
        return [value(registry, f"taskqueue_wanted_{what}", queue="default") for what in ("slots", "workers")]

    add.enqueue(1, 2)
    assert wanted() == [1, 1], "the first task of a site without workers"
    work_off()
    write_worker(redis_server, "here:a", threads=4)
    for _ in range(50):
        add.enqueue(1, 2)
    add_runs(redis_server, seconds=20.0, count=10)

    slots, workers = wanted()

    assert 17 <= slots <= 51, "50 tasks of 20 s in a minute"
    assert workers == math.ceil(slots / 4)

    get_queue("default").purge()
    redis_server.raw.delete(*redis_server.raw.keys(f"{queue_key(redis_server, 'minute')}:*"))

    assert wanted() == [0, 0]


def add_runs(store: Store, *, seconds: float, count: int) -> None:
    """Count runs of the current minute."""
    bucket = next(at for at in range(BUCKETS) if bounds_of(at)[1] > seconds)
    numbers = [count, *[0] * (SIZE - 1)]
    numbers[OUTCOMES + BUCKETS + bucket] = count
    key = queue_key(store, f"minute:{int(server_ms(store)) // 60_000}")
    store.raw.set(key, struct.pack(f">{SIZE}I", *numbers), ex=600)


def test_all_of_many_queues_and_workers_are_counted(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=300)
    redis_server.raw.zadd(base_key(redis_server, "queues"), {f"queue{number}": number for number in range(450)})
    for number in range(300):
        write_worker(redis_server, f"app:{number}.a", busy=1)
    for number in range(250):
        write_worker(redis_server, f"mail:{number}.a", seen_s=4, queues=["queue449"])
    write_worker(redis_server, "dead:1.a", seen_s=400)

    found = {
        (sample.name.removeprefix("redis_components_taskqueue_"), *sample.labels.values()): sample.value
        for family in RedisComponentsCollector().collect()
        for sample in family.samples
    }

    assert (found["workers", "live"], found["workers", "lost"]) == (550, 1)
    assert found["queue_workers", "queue449"] == 250
    assert (found["threads",], found["busy_threads",]) == (550 * 8, 300)
    assert len([key for key in found if key[:1] == ("paused",)]) == 450
    assert ("outcomes_total", "queue449", "failed") in found


def test_a_scrape_costs_two_round_trips_whatever_the_number_of_queues(redis_server: Store) -> None:
    for number in range(40):
        add.using(queue_name=f"queue{number}").enqueue(1, 2)
    write_worker(redis_server, "here:a")
    collector = RedisComponentsCollector()

    families = list(collector.collect())

    assert (collector.cost.round_trips, collector.cost.commands) == (2, 7)
    assert {len(each.samples) for each in families if each.name.endswith("_tasks")} == {40 * 6, 40}


def test_registering_the_collector_does_not_read_redis(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": f"redis://127.0.0.1:{free_port()}/0"}}}
    collector = RedisComponentsCollector()

    CollectorRegistry().register(collector)

    assert collector.cost.round_trips == 0


def test_an_outage_is_one_metric_and_a_warning_without_the_password(
    settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"redis://user:very-secret@127.0.0.1:{free_port()}/0"
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": url}}}

    samples = [sample for family in RedisComponentsCollector().collect() for sample in family.samples]

    assert [(each.name, each.value) for each in samples] == [("redis_components_up", 0)]
    assert "The metrics cannot be read" in caplog.text
    assert "very-secret" not in caplog.text


@pytest.mark.parametrize(
    ("monitoring", "sent", "status"),
    [
        ({}, None, 404),
        ({"TOKEN": TOKEN}, None, 401),
        ({"TOKEN": TOKEN}, f"Bearer {TOKEN}x", 401),
        ({"TOKEN": TOKEN}, f"Basic {TOKEN}", 401),
        ({"TOKEN": TOKEN}, "Bearer \xff", 401),
        ({"TOKEN": TOKEN}, f"Bearer {TOKEN}", 200),
        ({"PUBLIC": True}, None, 200),
    ],
)
def test_view_answers_only_the_token(
    redis_server: Store, settings: Any, client: Client, monitoring: dict[str, Any], sent: str | None, status: int
) -> None:
    if monitoring:
        allow(settings, **monitoring)

    response = client.get(URL, headers={"Authorization": sent} if sent else {})

    assert response.status_code == status
    assert (b"redis_components_up 1.0" in response.content) is (status == 200)


def test_view_without_the_library_is_not_implemented_and_names_the_extra(
    settings: Any, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    allow(settings, TOKEN=TOKEN)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    response = client.get(URL, headers={"Authorization": f"Bearer {TOKEN}"})

    assert (response.status_code, response["Content-Type"]) == (501, "text/plain")
    assert response.content.decode() == (
        "501 Not Implemented: The metrics view needs the package prometheus-client: "
        "pip install 'django-redis-components[prometheus]'.\n"
    )
    assert [record.name for record in caplog.records if record.levelno >= logging.ERROR] == [], "Django mails errors"
    assert client.get(URL).status_code == 401


@pytest.mark.parametrize("monitoring", [{"TOKEN": TOKEN}, {"PUBLIC": True}])
def test_checks_report_the_missing_library(
    settings: Any, monkeypatch: pytest.MonkeyPatch, monitoring: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert checks.check_monitoring() == []

    allow(settings, **monitoring)

    [missing] = [each for each in checks.check_monitoring() if each.id == "drc.W071"]
    assert "prometheus-client is not installed: metrics/ answers 501" in missing.msg
    assert missing.hint is not None
    assert missing.hint.startswith("pip install 'django-redis-components[prometheus]'")


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_view_responds_in_the_accepted_format_with_help_and_units(
    redis_server: Store, settings: Any, client: Client, accept: str
) -> None:
    allow(settings, TOKEN=TOKEN)
    add.using(queue_name='odd "name"\\').enqueue(1, 2)
    write_poller(redis_server)

    response = client.get(URL, headers={"Authorization": f"Bearer {TOKEN}", "Accept": accept})

    parser = parse_openmetrics if "openmetrics" in accept else parse
    families = list(parser(response.content.decode()))
    assert response["Content-Type"].startswith(accept.partition(";")[0])
    assert all(re.fullmatch(r"redis_components_[a-z_]+", each.name) and each.documentation for each in families)
    assert 'odd "name"\\' in {sample.labels.get("queue") for each in families for sample in each.samples}
    assert {name for each in families for sample in each.samples for name in sample.labels} <= {
        "queue", "state", "outcome", "le",
    }  # fmt: skip


def test_queries_of_the_shipped_dashboard_use_metrics_and_labels_that_exist(redis_server: Store, registry: Any) -> None:
    run_some_tasks()
    write_worker(redis_server, "here:a")
    recover()
    samples = [sample for family in registry.collect() for sample in family.samples]
    labels = {sample.name: set(sample.labels) for sample in samples}
    dashboard = json.loads(DASHBOARD.read_text())

    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [each["definition"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    used = {}
    for query in queries:
        for name, selector in re.findall(r"(redis_components_\w+)(?:\{([^}]*)\})?", query):
            used.setdefault(name, set()).update(re.findall(r"(\w+)=~?\"", selector))

    assert len(queries) > 15
    assert {name: names - labels.get(name, set()) for name, names in used.items() if name not in labels} == {}
    assert {name for name, names in used.items() if names - labels[name]} == set()
    assert {*labels} == {"redis_components_redis_evicts_keys", *used}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
