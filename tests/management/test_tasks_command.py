"""`manage.py redis tasks`: find tasks, and change many of them."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, execute_from_command_line
from django.utils import timezone

from django_redis_components.taskqueue import get_queue
from tests.dashboard.support import fail_with, group_of
from tests.support import Store
from tests.taskqueue.batching.tasks import collect
from tests.taskqueue.store.support import counts, data, fail_many, ids, lines, park_many, redis_command, refused
from tests.taskqueue.support import new_fetcher, taskqueue_settings
from tests.taskqueue.tasks import add, crowd, echo, note


def test_find_searches_all_queues_and_states(redis_server: Store) -> None:
    failed = fail_many(2, "mail")
    ready = note.enqueue("to kim")
    later = echo.using(queue_name="mail", run_after=3_600).enqueue(to="kim")
    note.enqueue("other")

    found = data("tasks", "find", "kim")
    by_argument = data("tasks", "find", "--text", "to=kim")
    by_error = data("tasks", "find", "--error", "LookupError", "--queue", "mail", "--since", "1h")

    assert {(task["id"], task["queue"], task["state"]) for task in found["tasks"]} == {
        (ready.id, "default", "ready"),
        (later.id, "mail", "scheduled"),
    }
    assert (found["searched"], found["total"], found["queues"]) == (5, 5, ["default", "mail"])
    assert "arguments" not in found["tasks"][0]
    assert [task["id"] for task in by_argument["tasks"]] == [later.id]
    assert {task["id"] for task in by_error["tasks"]} == set(ids(failed))
    assert by_error["tasks"][0]["last_error"] == {"class": "builtins.LookupError", "message": "out of order"}
    assert data("tasks", "find", "kim", "--state", "failed")["tasks"] == []


def test_find_prints_a_table_and_how_far_it_has_searched(redis_server: Store) -> None:
    note.enqueue_many([((f"kim {number}",), {}) for number in range(30)])

    heading, *rows = lines("tasks", "find", "kim", "3", "--limit", "50", "--args")
    limited, budget = (
        redis_command("tasks", "find", "kim", "--limit", "5"),
        redis_command("tasks", "find", "kim", "--budget", "10"),
    )

    assert heading.split() == ["ID", "TASK", "QUEUE", "STATE", "ENQUEUED", "ARGUMENTS", "LAST", "ERROR"]
    assert "kim 3" in rows[0]
    assert rows[-1] == "Searched 30 of 30 tasks in 1 queue: 1 matches."
    assert limited.endswith("30 tasks in 1 queue: 5 match. Pass a larger --limit to see more.\n")
    assert budget.endswith("Searched 10 of 30 tasks in 1 queue: 10 match. Pass a larger --budget to search the rest.\n")


def test_one_error_of_one_hour_is_retried_with_one_command(redis_server: Store) -> None:
    fail_with("no stock", "no stock", "other")
    fail_with("no stock", queue="mail")

    done = data("tasks", "retry", "--error", group_of("no stock"), "--since", "1h")

    assert done == {"selected": 3, "changed": 3, "queues": {"default": 2, "mail": 1}}
    assert counts() == (2, 1, 0)
    assert lines("tasks", "retry", "--error", "other") == ["Retrying 1 task of 1 queue: default 1."]
    assert lines("tasks", "retry", "--error", "other") == ["Retrying 0 tasks."]


def test_tasks_are_retried_by_id_in_their_queues(redis_server: Store) -> None:
    failed = [*fail_with("a", "b"), *fail_with("c", queue="mail")]
    ready = note.using(queue_name="other").enqueue("ready")

    with pytest.raises(CommandError) as raised:
        redis_command("tasks", "retry", *failed, ready.id, "unknown", failed[0] + ":errors")

    assert str(raised.value) == "Not changed: 3 of 6 ids: no such task, or not its state."
    assert raised.value.returncode == 1
    assert (counts(), counts("mail")) == ((2, 0, 0), (1, 0, 0))


def test_tasks_are_rescheduled_by_id_and_by_filter(redis_server: Store) -> None:
    first, second = note.enqueue("first"), note.using(run_after=60).enqueue("second")
    other = note.using(run_after=60, queue_name="mail").enqueue("other")

    assert lines("tasks", "reschedule", first.id, second.id, "--in", "2h") == [
        "Rescheduled 2 tasks of 1 queue: default 2."
    ]
    at = (timezone.localtime() + timedelta(days=2)).strftime("%Y-%m-%d %H:%M")
    assert data("tasks", "reschedule", "--queue", "mail", "--name", "note", "--at", at)["changed"] == 1
    assert data("tasks", "reschedule", "--name", "note", "--state", "ready", "--in", "1h")["changed"] == 0

    for result, hours in ((first, 2), (second, 2), (other, 48)):
        result.refresh()
        assert result.run_after is not None
        left = result.run_after.timestamp() - timezone.now().timestamp()
        assert left == pytest.approx(hours * 3_600, abs=180)


def test_tasks_are_run_now_moved_and_cancelled(redis_server: Store) -> None:
    later = [note.using(run_after=3_600).enqueue(number) for number in range(3)]
    results = [note.enqueue(number) for number in range(4)]
    running = note.using(queue_name="busy").enqueue("runs")
    new_fetcher("busy", worker="here:7").fetch("0", 1)

    assert lines("tasks", "run-now", *ids(later[:2])) == ["Made due 2 tasks of 1 queue: default 2."]
    assert data("tasks", "move", "--text", "3", "--to", "slow")["changed"] == 1
    assert data("tasks", "move", results[0].id, "--to", "slow")["queues"] == {"default": 1}
    assert data("tasks", "cancel", results[1].id, running.id)["changed"] == 2
    assert data("tasks", "cancel", "--queue", "default", "--yes")["changed"] == 3

    assert (counts(), get_queue("slow").info().ready) == ((0, 0, 0), 2)
    assert refused("tasks", "cancel", "--queue", "slow") == (
        "Nothing was changed. No terminal to ask for confirmation; pass --yes."
    )


def test_tasks_are_deleted(redis_server: Store) -> None:
    results = fail_many(3)
    park_many(2)

    assert lines("tasks", "delete", results[0].id) == ["Deleted 1 task of 1 queue: default 1."]
    assert data("tasks", "delete", "--state", "unregistered", "--name", "unknown", "--yes")["changed"] == 2
    assert counts() == (0, 2, 0)
    assert "pass --yes" in refused("tasks", "delete", "--queue", "default")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["retry"], "Pass ids of tasks, or at least one of --queue, --name, --text, --error, --since, --until."),
        (["find"], "Pass a text, or at least one of --queue, --name, --text, --error, --since, --until."),
        (["cancel", "x", "--queue", "mail"], "Pass ids of tasks or filters, not both."),
        (["move", "--queue", "mail", "--to", "mail"], "--to mail: expected another queue than --queue."),
        (["retry", "--since", "soon"], "'soon': expected a duration before now such as 90s, 15m, 1h or 2d, or a time"),
        (["reschedule", "x", "--in", "1 fortnight"], "'1 fortnight': expected a duration such as 90s, 15m, 1h or 2d"),
        (["reschedule", "x", "--at", "soon"], "'soon': expected a time such as 2026-11-23, 2026-11-23 11:20"),
        (["reschedule", "x", "--at", "9999-12-31"], "'9999-12-31': expected a time up to 9999-12-30."),
        (["reschedule", "x", "--at", "9999-12-31T23:59-14:00"], "'9999-12-31T23:59-14:00': expected a time such as"),
        (["retry", "--since", "0001-01-01T00:00+14:00"], "'0001-01-01T00:00+14:00': expected a duration before now"),
        (["reschedule", "x"], "one of the arguments --in --at is required"),
        (["move", "x"], "the following arguments are required: --to"),
        (["run-now", "--queue", "mail", "--state", "ready"], "invalid choice: 'ready'"),
    ],
)
def test_wrong_arguments_exit_with_2_and_say_why(
    words: list[str], problem: str, redis_server: Store, capsys: Any
) -> None:
    _exits_with_2(capsys, words, problem)


@pytest.mark.parametrize("time", ["0001-01-01", "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_time_outside_of_the_calendar_exits_with_2_without_time_zones(
    time: str, redis_server: Store, settings: Any, capsys: Any
) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "Asia/Tokyo"

    _exits_with_2(capsys, ["find", "--until", time], f"'{time}': expected a duration before now such as 90s")


def _exits_with_2(capsys: Any, words: list[str], problem: str) -> None:
    """Run the command as a shell does."""
    with pytest.raises(SystemExit) as raised:
        execute_from_command_line(["manage.py", "redis", "tasks", *words])

    assert raised.value.code == 2
    assert problem in capsys.readouterr().err


def test_words_that_are_not_utf_8_match_nothing(redis_server: Store) -> None:
    result = note.enqueue("a\udcff")  # Python's form of an undecodable byte of a command line

    for words in (("tasks", "show"), ("tasks", "cancel"), ("flows", "show")):
        assert r"There is no " in refused(*words, "\udcff")
    assert "No worker or supervisor has the id" in refused("workers", "stop", "\udcff", "--yes")
    assert data("tasks", "find", "b\udcff")["tasks"] == []
    assert [task["id"] for task in data("tasks", "find", "--text", "a\udcff")["tasks"]] == [result.id]


def test_help_states_units_and_defaults(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        redis_command("tasks", "retry", "--help")
    text = " ".join(capsys.readouterr().out.split())

    assert "a duration before now (90s, 15m, 1h, 2d), or a time such as '2026-11-23 11:20' (default: any)" in text
    assert "16 hexadecimal digits (default: any)" in text
    assert "Exit codes: 0 done; 1 not or only partly done" in text


def test_pending_task_is_updated(redis_server: Store) -> None:
    result = add.using(expires=60).enqueue(1, 2)

    printed = lines(
        *("tasks", "update", result.id, "--args", "[5]", "--kwargs", '{"b": 6}', "--priority", "-3"),
        *("--to", "mail", "--expires-at", "2099-01-01 00:00"),
    )

    result.refresh()
    assert printed == [f"Task {result.id} was updated: args, kwargs, priority, queue_name, expires."]
    assert (result.args, result.kwargs, result.queue_name) == ([5], {"b": 6}, "mail")
    assert result.expires_at is not None
    assert result.expires_at.year in (2098, 2099)
    assert data("tasks", "update", result.id, "--no-expiry") == {"id": result.id, "updated": True}
    result.refresh()
    assert result.expires_at is None
    data("tasks", "update", result.id, "--expires-in", "1h")
    result.refresh()
    assert result.expires_at is not None


def test_update_decodes_arguments_by_the_codec_of_the_site(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, JSON_CODEC="django_redis_components.taskqueue.json_codec.ExtendedJSON")
    result = note.enqueue(date(2026, 11, 22))

    lines("tasks", "update", result.id, "--args", '[{"__type__": "date", "value": "2027-01-01"}]')

    result.refresh()
    assert result.args == [date(2027, 1, 1)]


def test_update_that_is_refused_says_why(redis_server: Store) -> None:
    result = add.enqueue(1, 2)

    assert "missing a required argument: 'b'" in refused("tasks", "update", result.id, "--args", "[1]")
    new_fetcher().fetch("0", 1)
    assert "cannot be changed: it is running" in refused("tasks", "update", result.id, "--args", "[1, 5]")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "Pass at least one of --args, --kwargs, --priority, --to, --expires-in, --expires-at, --no-expiry"),
        (("--args", "{}"), r"expected a list as JSON"),
        (("--kwargs", "{'a'}"), r"expected an object as JSON: Expecting"),
        (("--priority", "101"), "expected an integer from -100 to 100"),
        (("--expires-in", "1h", "--no-expiry"), "not allowed with argument"),
    ],
)
def test_wrong_arguments_of_update_are_named(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(CommandError, match=text):
        redis_command("tasks", "update", "some-id", *words)


def test_call_of_a_batch_is_shown_with_why_it_waits_and_with_how_many_it_has_run(redis_server: Store) -> None:
    result = collect.enqueue("a")

    shown = data("tasks", "show", result.id)
    assert [reason["code"] for reason in shown["reasons"]][-1] == "batch"
    assert any("it waits for further calls of its batch" in line for line in lines("tasks", "show", result.id))

    collect.enqueue_many([(("b",), {}), (("c",), {})])
    new_fetcher().fetch("0", 1)
    assert data("tasks", "show", result.id)["batch_size"] == 3
    assert any(line.split() == ["Calls", "in", "its", "batch", "3"] for line in lines("tasks", "show", result.id))
    assert any(line.startswith("batch ") for line in lines("tasks", "show", collect.name))


def test_options_of_a_name_are_shown_with_where_they_are_from(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, DEFAULTS={"result_ttl": 60}, ROUTES={"*.crowd": "busy"})

    shown = data("tasks", "show", crowd.name)
    text = lines("tasks", "show", crowd.name)

    options = {each["name"]: (each["value"], each["source"]) for each in shown["options"]}
    assert (shown["name"], shown["aliases"], shown["function"], shown["using"]) == (
        crowd.name,
        [],
        crowd.name,
        "default",
    )
    assert options["queue_name"] == ("'busy'", "ROUTES")
    assert options["result_ttl"] == ("60", "DEFAULTS")
    assert options["concurrency"][1] == "decorator"
    assert options["max_attempts"] == ("1", "package")
    assert text[0] == f"Task        {crowd.name}"
    assert "OPTION          FROM       VALUE" in text
    assert "queue_name      ROUTES     'busy'" in text


def test_name_that_is_not_registered_is_no_task(redis_server: Store) -> None:
    assert "nowhere.at_all" in refused("tasks", "show", "nowhere.at_all")
