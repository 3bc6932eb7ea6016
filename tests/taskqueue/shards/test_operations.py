"""Figures and operations of a queue, its schedules, commands, pages and metrics over several shards."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from redis.exceptions import ConnectionError

from django_redis_components.taskqueue import PartlyDone, Schedules, get_queue, get_result, group, schedules
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import home, named, shards_of
from django_redis_components.testing import drain
from tests.support import eventually
from tests.support.processes import Children
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.batching.tasks import collect_ready, runs
from tests.taskqueue.shards.support import TwoShards, in_both, set_options
from tests.taskqueue.support import SITE, running_worker
from tests.taskqueue.tasks import add, fail, note

mail = note.using(queue_name="mail")


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    call_command("redis", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_figures_of_a_queue_are_sums_over_all_shards(shards: TwoShards, settings: Any) -> None:
    before, after = in_both(settings)
    queue = get_queue("mail")

    assert queue.info().ready == 6
    assert {task.id for task in queue.tasks("ready")} == {*before, *after}
    with running_worker("mail"):
        eventually(lambda: queue.info().ready == queue.info().running == 0)
    assert queue.metrics().totals.succeeded == 6
    assert queue.metrics().run_time.count == 6
    assert [each.totals.succeeded for each in queue.metrics().tasks] == [6]


def test_errors_of_the_same_kind_in_two_shards_are_one_group(shards: TwoShards, settings: Any) -> None:
    failing = fail.using(queue_name="mail", max_attempts=1)
    first = failing.enqueue()
    set_options(settings, QUEUES={"mail": None})
    second = failing.enqueue()
    drain("mail", raise_errors=False)

    [group] = get_queue("mail").errors()

    assert group.count == 2
    assert set(group.task_ids) == {first.id, second.id}
    assert get_queue("mail").retry_failed() == 2


def test_operations_apply_in_all_shards(shards: TwoShards, settings: Any) -> None:
    before, after = in_both(settings)
    queue = get_queue("mail")

    queue.pause("maintenance", author="kim")
    assert queue.info().paused is not None
    assert [shard.run(_paused(shard)) for shard in shards_of()] == [1, 1]
    assert queue.resume()
    purge = queue.purge()
    assert (purge.count, queue.info().ready) == (6, 0)
    assert queue.restore(purge) == 6
    assert queue.cancel([before[0], after[0]]) == 2


def _paused(shard: Any) -> Any:
    from django_redis_components.core.protocol import Read
    from django_redis_components.taskqueue.fields import Key

    return (yield Read("HLEN", shard.key(Key.paused)))


def test_operation_of_which_a_shard_is_away_says_so_and_can_be_repeated(shards: TwoShards, settings: Any) -> None:
    in_both(settings)
    shards.server_b.kill()

    with pytest.raises(PartlyDone, match="Done in shard default, and not elsewhere") as raised:
        get_queue("mail").pause("maintenance")
    with pytest.raises(ConnectionError):
        get_queue("mail").info()
    assert (raised.value.done, list(raised.value.failed)) == (["default"], ["b"])

    shards.server_b.start()
    get_queue("mail").pause("maintenance")
    assert get_queue("mail").resume()


def test_schedules_are_in_the_shard_of_their_queue(shards: TwoShards, children: Children) -> None:
    Schedules().add("home", add, every=1, args=[1, 2])
    Schedules().add("mails", add, every=1, args=[3, 4], options={"queue_name": "mail"})
    assert shards.keys_of(shards.b, "b") != []

    found = {each.name: each for each in schedules()}
    assert set(found) == {"home", "mails"}
    children.manage("runworker", "default", "mail", env=SITE)

    def sent() -> bool:
        return {each.name for each in schedules() if each.last_task_state == "successful"} == {"home", "mails"}

    eventually(sent)
    assert Schedules().pause("mails")
    assert {each.name for each in schedules() if each.state == "paused"} == {"mails"}
    assert Schedules().run_now("mails").get(TIMEOUT_S) == 7
    assert Schedules().remove("mails")
    assert {each.name for each in schedules()} == {"home"}


def test_schedule_whose_route_has_changed_is_replaced(shards: TwoShards, settings: Any) -> None:
    Schedules().add("mails", add, every=60, args=[3, 4], options={"queue_name": "mail"})
    set_options(settings, QUEUES={"mail": None, "default": None})

    Schedules().add("mails", add, every=30, args=[3, 4], options={"queue_name": "mail"})

    [found] = schedules()
    assert found.times == "every 30 s"


def test_drain_runs_the_tasks_of_all_shards(shards: TwoShards, settings: Any) -> None:
    before, after = in_both(settings)
    delayed = mail.using(run_after=3_600).enqueue(9)

    assert {result.id for result in drain("mail")} == {*before, *after}
    assert [result.id for result in drain("mail", advance=True)] == [delayed.id]


def test_batches_of_each_shard_run_as_such(shards: TwoShards) -> None:
    at_home = [collect_ready.enqueue(number) for number in range(3)]
    elsewhere = [collect_ready.using(queue_name="mail").enqueue(number) for number in range(10, 13)]
    runs.clear()

    with running_worker("default", "mail"):
        assert [result.get(TIMEOUT_S) for result in (*at_home, *elsewhere)] == [0, 1, 2, 10, 11, 12]

    assert sorted(map(sorted, runs)) == [[0, 1, 2], [10, 11, 12]]
    assert all(shards.b.raw.exists(shards_of("default")[1].record(result.id)) for result in elsewhere)


def test_large_flow_is_started_in_the_shard_of_its_queue(shards: TwoShards) -> None:
    flow = group(mail.s(number) for number in range(700)).enqueue()

    flow.refresh()
    assert {result.state for result in flow.results} == {"ready"}
    assert get_queue("mail").info().ready == 700
    assert not shards.b.raw.exists(shards_of("default")[1].key(Key.flow_work))


def test_commands_show_all_shards(shards: TwoShards, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = in_both(settings)

    status = run_command(capsys, "queues", "status")
    assert {each["name"]: each["ready"] for each in status["queues"]}["mail"] == 6
    assert {each["name"]: each["shards"] for each in status["queues"]}["mail"] == ["default", "b"]
    assert [(each["name"], each["error"]) for each in status["shards"]] == [("default", None), ("b", None)]
    assert {each["id"] for each in run_command(capsys, "tasks", "find", "--queue=mail")["tasks"]} == {*before, *after}
    assert run_command(capsys, "tasks", "show", before[0])["id"] == before[0]
    assert run_command(capsys, "tasks", "cancel", before[0])["cancelled"]
    assert run_command(capsys, "tasks", "cancel", before[1], after[1])["changed"] == 2
    assert {each["name"]: each["ready"] for each in run_command(capsys, "top")["queues"]}["mail"] == 3
    call_command("redis", "queues", "status")
    assert "SHARD" in capsys.readouterr().out


@pytest.mark.django_db
def test_commands_name_a_shard_that_is_away(shards: TwoShards, capsys: pytest.CaptureFixture[str]) -> None:
    add.enqueue(1, 2)
    shards.server_b.kill()

    status = run_command(capsys, "queues", "status")
    assert {each["name"]: each["ready"] for each in status["queues"]}["default"] == 1
    assert [each["error"] is None for each in status["shards"]] == [True, False]
    call_command("redis", "queues", "status")
    assert "Shard b is missing:" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        call_command("redis", "doctor", "--json")
    report = json.loads(capsys.readouterr().out)
    assert "shard_unavailable" in [each["code"] for each in report["findings"]]


def test_workers_are_commanded_over_any_shard(
    shards: TwoShards, children: Children, capsys: pytest.CaptureFixture[str]
) -> None:
    children.manage("runworker", "default", "mail", env=SITE)
    [worker] = eventually(lambda: run_command(capsys, "workers", "list")["workers"])
    eventually(lambda: run_command(capsys, "workers", "quiet", worker["id"])["outcome"] == "done")


def test_metrics_are_sums_with_those_of_each_shard(shards: TwoShards, settings: Any) -> None:
    pytest.importorskip("prometheus_client")
    from prometheus_client.registry import CollectorRegistry

    from django_redis_components.contrib.prometheus import RedisComponentsCollector

    in_both(settings)
    registry = CollectorRegistry()
    registry.register(RedisComponentsCollector())

    def value(name: str, **labels: str) -> float | None:
        found: float | None = registry.get_sample_value(f"redis_components_taskqueue_{name}", labels)
        return found

    assert value("tasks", queue="mail", state="ready") == 6
    assert [value("shard_tasks", shard=name, state="ready") for name in ("default", "b")] == [3, 3]
    shards.server_b.kill()
    assert value("tasks", queue="mail", state="ready") == 3
    assert [value("shard_up", shard=name) for name in ("default", "b")] == [1, 0]


@pytest.mark.django_db
def test_health_names_the_shard_that_is_away(shards: TwoShards, settings: Any, client: Client) -> None:
    from django_redis_components.dashboard.problems.of_shards import problems_of_others, read_others

    mail.enqueue(1)
    assert "Shard b" in {each.text.partition(":")[0] for each in problems_of_others(read_others())}  # it has no poller
    shards.server_b.kill()

    [problem] = problems_of_others(read_others())
    assert problem.text.startswith("Shard b: ")
    assert (problem.code, problem.severity) == ("redis_unreachable", "critical")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "MONITORING": {"PUBLIC": True}}
    response = client.get("/redis/healthz/")
    assert response.status_code == 503


@pytest.mark.django_db
@pytest.mark.parametrize("kills_home", [False, True])
def test_health_reports_a_shard_whose_connection_is_misconfigured(
    kills_home: bool, shards: TwoShards, settings: Any, client: Client
) -> None:
    bad = {**settings.REDIS_COMPONENTS["CONNECTIONS"], "redis_b": {"URL": "redis://localhost:port/0"}}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": bad, "MONITORING": {"PUBLIC": True}}
    if kills_home:
        shards.server_a.kill()

    response = client.get("/redis/healthz/")

    assert response.status_code == 503
    assert "redis_settings" in {each["code"] for each in response.json()["problems"]}


@pytest.mark.django_db
def test_pages_show_the_shard_that_was_selected(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    before, _ = in_both(settings)
    start = "/admin/django_redis_components"

    def ready(url: str) -> int:
        return {each["name"]: each["ready"] for each in admin_client.get(f"{url}?format=json").json()["queues"]}["mail"]

    extra = mail.enqueue(7)
    assert ready(f"{start}/queues/") == 7
    assert ready(f"{start}/queues/_in/default/") == 4
    assert ready(f"{start}/queues/_in/b/") == 3
    page = admin_client.get(f"{start}/queues/_in/b/").content.decode()
    assert f"{start}/queues/_in/b/mail/" in page
    assert f'href="{start}/queues/_in/default/"' in page
    for task_id in (before[0], extra.id):
        assert admin_client.get(f"{start}/task/{task_id}/?format=json").status_code == 200
    assert admin_client.get(f"{start}/queues/_in/nowhere/").status_code == 400
    shards.server_b.kill()
    assert admin_client.get(f"{start}/queues/_in/b/").status_code == 503
    assert admin_client.get(f"{start}/queues/").status_code == 200


@pytest.mark.django_db
def test_change_on_a_page_applies_to_its_shard(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)
    url = "/admin/django_redis_components/queues/_in/b/_verb/pause/mail/"
    form = admin_client.get(url)
    assert form.status_code == 200
    hidden = dict(form.context["confirmation"].fields)

    response = admin_client.post(url, {**hidden, "reason": "x"})

    assert response.status_code == 302, response.content
    assert "/_in/b/" in response.headers["Location"]
    assert [shard.run(_paused(shard)) for shard in (home(), named("b"))] == [0, 1]


def test_settings_that_contradict_each_other_are_errors(settings: Any) -> None:
    from django_redis_components.core.exceptions import ConfigurationError
    from django_redis_components.taskqueue.checks import check_shards

    base = settings.REDIS_COMPONENTS
    settings.REDIS_COMPONENTS = {**base, "TASKQUEUE": {"SHARDS": {"a": "nowhere"}, "QUEUES": {"mail": "c"}}}

    texts = [each.msg for each in check_shards()]

    assert "['SHARDS']" in texts[0].replace('"', "'")
    assert "'nowhere'" in texts[0]
    assert "default" in texts[0]
    assert "'c': expected None or a shard" in texts[1]
    with pytest.raises(ConfigurationError, match="nowhere"):
        shards_of()


@pytest.mark.parametrize("value", [{}, [], {"a b": "x"}, {"x" * 33: "x"}, {"a": ""}, {str(n): "x" for n in range(65)}])
def test_shards_that_are_not_accepted_are_errors(settings: Any, value: Any) -> None:
    from django_redis_components.core.settings import conf

    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"SHARDS": value}}

    [error] = conf.validation_errors()

    assert '"SHARDS"] = ' in error
    assert "a dict of 1 to 64 names to aliases" in error


def test_pages_of_tasks_are_of_all_shards(shards: TwoShards, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    in_shard = {}
    for shard, route in (("a", None), ("b", "b")):
        set_options(settings, QUEUES={"mail": route, "other": "b"})
        in_shard[shard] = [mail.enqueue(number).id for number in range(3)]
    queue = get_queue("mail")

    ids = [[each.id for each in queue.tasks("ready", limit=4, offset=offset)] for offset in (0, 4, 8)]

    a, b = in_shard["a"], in_shard["b"]
    assert ids == [[a[0], b[0], a[1], b[1]], [a[2], b[2]], []]
    listed = run_command(capsys, "tasks", "list", "mail", "ready", "--limit=4", "--offset=4")
    assert ([each["id"] for each in listed["tasks"]], listed["total"]) == (ids[1], 6)
    assert [each.id for each in asyncio.run(queue.atasks("ready", limit=2))] == [a[0], b[0]]


def test_pages_of_all_shards_are_in_the_order_of_time(shards: TwoShards, settings: Any) -> None:
    failing, tasks = fail.using(queue_name="mail", max_attempts=1), []
    for number, route in enumerate([None, "b", "b", None, "b"]):
        set_options(settings, QUEUES={"mail": route, "other": "b"})
        tasks.append(mail.using(run_after=3_600 + number).enqueue(number).id)
        failing.enqueue()
        mail.enqueue(number)
        drain("mail", raise_errors=False)
    queue = get_queue("mail")

    def paged(state: str) -> list[str]:
        return [each.id for offset in range(0, 6, 2) for each in queue.tasks(state, limit=2, offset=offset)]

    assert paged("scheduled") == tasks
    for state, is_newest_first in (("failed", False), ("successful", True)):
        results = [get_result(task_id) for task_id in paged(state)]
        times = [result.finished_at for result in results if result.finished_at]
        assert len(times) == len({result.id for result in results}) == 5
        assert times == sorted(times, reverse=is_newest_first)
    assert [each.args for each in queue.tasks("successful", limit=2)] == [[4], [3]]


def test_expired_results_of_all_shards_are_listed(shards: TwoShards, settings: Any) -> None:
    before, after = in_both(settings)
    drain("mail")
    for store, tag, task_id in ((shards.b, "b", before[0]), (shards.a, "default", after[0])):
        store.raw.delete(next(key for key in store.raw.scan_iter(f"*{{{tag}}}:t:{task_id}")))

    found = get_queue("mail").tasks("successful", limit=10)

    assert {each.id for each in found} == {*before, *after}
