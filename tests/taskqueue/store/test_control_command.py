"""`manage.py redis queues` and `tasks`: operations, output, confirmation, exit codes."""

from __future__ import annotations

import getpass
import re
from typing import Any

import pytest

from django_redis_components.management.listings import task_listing as listing
from django_redis_components.taskqueue import chain, get_queue
from django_redis_components.taskqueue.stats.erlang import wait_probability
from tests.support import Store
from tests.taskqueue.stats.support import write_minute
from tests.taskqueue.store.support import data, fail_many, lines, park_many, redis_command, refused
from tests.taskqueue.support import base_key, fall_due, new_fetcher, recover, renew, work_off
from tests.taskqueue.tasks import fail, fail_thrice, note

pytestmark = pytest.mark.integration


def fill(store: Store) -> None:
    note.using(queue_name="mail").enqueue_many([((number,), {}) for number in range(1_234)])
    note.using(queue_name="mail", run_after=3_600).enqueue("later")
    new_fetcher("mail", worker="here:7").fetch("0", 2)
    fail_many(3, queue="邮件")
    fall_due(store, note.using(queue_name="邮件", run_after=60).enqueue("due"), queue="邮件", ms_ago=3_725_000)


def test_status_lists_all_queues_in_aligned_columns(store: Store) -> None:
    fill(store)
    get_queue("mail").pause("SMTP is down", author="ada")

    header, *rows, empty, staff = lines("queues", "status")

    words = (
        "QUEUE READY SCHEDULED RETRYING LIMITED WAITING RUNNING FAILED UNREGISTERED OLDEST"
        " NEXT DUE OUT/MIN 1H WAIT P95 RUN P95 PAUSED"
    )
    assert " ".join(header.split()) == words
    counts = "  1,232          1         0        0        0        2       0             0      "
    assert rows[0].startswith(f"mail {counts}")
    assert "  in 59 min 5" in rows[0]
    assert rows[0].endswith(" by ada: SMTP is down")
    assert re.fullmatch(
        r"邮件       1          0         0        0        0        0       3             0  1 h 2 min +now +<0\.1",
        rows[1],
    )
    assert (empty, staff) == ("", "Workers: none. Poller: none.")


def test_status_shows_the_last_hour(redis_server: Store) -> None:
    note.using(queue_name="mail").enqueue("waits")
    note.using(queue_name="new").enqueue("waits")
    note.using(queue_name="slow").enqueue("waits")
    for queue, ran in (("mail", 5), ("slow", 40)):
        numbers = [0] * 104
        numbers[0], numbers[8], numbers[56 + ran] = 1_200, 1_200, 1_200
        write_minute(redis_server, 1, *numbers, queue=queue)

    header, mail, new, slow, *_ = lines("queues", "status")
    assert re.search(r"  20 +<1 ms +6 ms$", mail)
    assert re.search(r"  20 +<1 ms +17 min 13 s$", slow)
    assert header.index("RUN P95") + len("RUN P95") == len(slow) == len(mail)
    assert re.fullmatch(r"new +1 +0 +0 +0 +0 +0 +0 +0 +\d\.\d s", new)
    done = {each["name"]: each["last_hour"] for each in data("queues", "status", "mail", "new")["queues"]}
    assert (done["mail"]["finished"], done["mail"]["failed"], round(done["mail"]["per_minute"])) == (1_200, 0, 20)
    assert 0.005 < done["mail"]["run_p95_s"] < 0.006
    assert done["new"] == {"finished": 0, "failed": 0, "per_minute": 0, "wait_p95_s": None, "run_p95_s": None}


def test_plan_states_slots_and_workers_for_the_busiest_minute(redis_server: Store) -> None:
    note.using(queue_name="mail").enqueue("waits")
    note.using(queue_name="new").enqueue("waits")
    for ago, runs in ((1, 300), (2, 1_200), (3, 60)):
        numbers = [0] * 104
        numbers[0], numbers[8], numbers[56 + 18] = runs, runs, runs  # of about 0.43 s
        write_minute(redis_server, ago, *numbers, queue="mail")

    header, mail, new, _, text = lines("queues", "plan")

    assert header.split() == ["QUEUE", "RUNS/MIN", "MEAN", "RUN", "LOAD", "SLOTS", "WORKERS", "BUSY"]
    assert re.fullmatch(r"mail +1,200 +433 ms +8\.65 +10 +2 +87%", mail)
    assert new.split() == ["new", "0", "0"]
    assert text.startswith("Slots with which 95% of the tasks start within 1.0 s in the busiest of the last 60 minutes")
    strict = data("queues", "plan", "mail", "--wait", "0", "--share", "99", "--threads", "4", "--minutes", "3")
    [found] = strict["queues"]
    assert (strict["threads"], found["queue"], found["slots"], found["workers"]) == (4, "mail", 17, 5)
    assert wait_probability(found["load"], 17) < 0.01 < wait_probability(found["load"], 16)


def test_status_shows_how_many_tasks_wait_for_a_limit(store: Store) -> None:
    note.using(concurrency=1).enqueue_many([((number,), {}) for number in range(4)])
    new_fetcher().fetch("0", 4)

    header, row, *_ = lines("queues", "status")

    assert dict(zip(header.split(), row.split(), strict=False))["LIMITED"] == "3"
    assert data("queues", "status")["queues"][0]["limited"] == 3


def test_tasks_that_wait_for_others_are_counted_and_listed(store: Store) -> None:
    flow = chain(note.using(queue_name="other").s("a"), note.si("b"), note.si("c")).enqueue()

    header, row, *_ = lines("queues", "status", "default")

    assert dict(zip(header.split(), row.split(), strict=False))["WAITING"] == "2"
    assert data("queues", "status", "default")["queues"][0]["waiting"] == 2
    header, *rows, _, footer = lines("tasks", "list", "default", "waiting")
    assert header.split() == ["ID", "TASK", "ATTEMPTS", "ENQUEUED", "FLOW"]
    assert [row.split()[0] for row in rows] == [result.id for result in flow.results[1:]]
    assert all(row.endswith(flow.id) for row in rows)
    assert footer == "2 waiting tasks in queue 'default'; listed from offset 0."
    assert [job["flow_id"] for job in data("tasks", "list", "default", "waiting")["tasks"]] == [flow.id] * 2


def test_purge_reports_what_it_skips(redis_server: Store) -> None:
    chain(note.using(queue_name="other").s("a"), note.si("b")).enqueue()

    assert lines("queues", "purge", "default", "--yes") == [
        "Kept: 1 task that depend on other tasks of their flow.",
        "Queue 'default' has no pending tasks.",
    ]
    note.enqueue("purged")
    assert data("queues", "purge", "default", "--yes")["waiting"] == 1


def test_status_lists_the_queues_that_are_named(store: Store) -> None:
    fill(store)

    assert [row.split()[0] for row in lines("queues", "status", "邮件", "never")[2:4]] == ["邮件", "never"]
    assert [each["name"] for each in data("queues", "status", "mail")["queues"]] == ["mail"]


def test_status_shows_live_workers_and_the_poller(store: Store) -> None:
    note.enqueue("a")
    renew("here:1", {})
    renew("here:2", {})
    store.raw.zadd(base_key(store, "workers"), {"lost:3": 1})
    recover_by = recover()

    assert recover_by == []
    assert lines("queues", "status")[-1] == "Workers: 2. Poller: active."
    found = data("queues", "status")
    assert (found["workers"], found["poller"]) == (2, "here:poller")


def test_status_without_queues_explains_how_they_are_created(store: Store) -> None:
    assert lines("queues", "status") == [
        "No queues yet. A queue appears when its first task is enqueued. Workers: none. Poller: none."
    ]


def test_status_as_json_has_all_that_the_table_has(store: Store) -> None:
    fill(store)
    get_queue("mail").pause("why", author="ada", until=600)

    found = data("queues", "status")

    mail = next(each for each in found["queues"] if each["name"] == "mail")
    counts = {name: mail[name] for name in ("ready", "scheduled", "running", "failed", "unregistered")}
    assert counts == {"ready": 1_232, "scheduled": 1, "running": 2, "failed": 0, "unregistered": 0}
    assert (mail["paused"]["reason"], mail["paused"]["author"]) == ("why", "ada")
    assert mail["paused"]["ends_at"].endswith("+00:00")
    assert mail["oldest_age"] >= 0
    assert sorted(found) == ["at", "poller", "queues", "workers"]


def test_status_reports_that_it_is_truncated(redis_server: Store) -> None:
    redis_server.raw.zadd(base_key(redis_server, "queues"), {f"q{number:04}": number for number in range(5_001)})

    printed = lines("queues", "status")

    assert printed[0] == "Only the first 5,000 queues are listed. Pass the names of others to see them."
    assert len(printed) == 1 + 1 + 5_000 + 2
    assert lines("queues", "status", "q5000")[1].startswith("q5000 ")


def test_pause_and_resume(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    note.using(queue_name="mail").enqueue("a")

    assert lines("queues", "pause", "mail", "--reason", "SMTP is down") == [
        "Queue 'mail' is paused. To resume it: python manage.py redis queues resume mail"
    ]

    paused = get_queue("mail").info().paused
    assert paused is not None
    assert (paused.reason, paused.author, paused.ends_at) == ("SMTP is down", "ada", None)
    assert lines("queues", "resume", "mail") == ["Queue 'mail' is resumed."]
    assert lines("queues", "resume", "mail") == ["Queue 'mail' was not paused."]
    assert data("queues", "resume", "mail") == {"queue": "mail", "was_paused": False}


def test_pause_for_some_seconds(store: Store) -> None:
    note.enqueue("a")

    [line] = lines("queues", "pause", "default", "--until", "90.5")

    paused = get_queue("default").info().paused
    assert paused is not None
    assert 90 < (paused.ends_at - paused.at).total_seconds() <= 91
    assert line.startswith("Queue 'default' is paused until 20")
    found = data("queues", "pause", "default", "--until", "60")
    assert found["paused"]["ends_at"] is not None


def test_queue_without_recent_tasks_is_reported(redis_server: Store) -> None:
    note.enqueue("a")
    message = "Queue 'mial' has no task, and had none in the last day: check the name."

    assert lines("queues", "status", "default", "mial")[0] == message
    assert lines("tasks", "list", "mial", "failed") == [message, "Queue 'mial' has no failed tasks."]
    assert lines("queues", "pause", "mial")[0] == message
    assert get_queue("mial").info().paused is not None
    assert message not in redis_command("queues", "status", "default")


def test_rate_that_rounds_to_zero_is_not_shown_as_zero(redis_server: Store) -> None:
    note.enqueue("a")
    work_off()

    assert lines("queues", "status")[1].split()[9] == "<0.1"


def test_pause_works_without_a_user_name(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr(getpass, "getuser", nobody)
    redis_command("queues", "pause", "default")

    assert get_queue("default").info().paused.author == ""  # type: ignore[union-attr]


def test_purge_and_restore(store: Store) -> None:
    note.using(queue_name="my mail").enqueue_many([((number,), {}) for number in range(1_234)])

    [purged] = lines("queues", "purge", "my mail", "--yes")

    message, restore = purged.split("To restore them within 24 h: ")
    assert message == "Purged 1,234 tasks of queue 'my mail'. "
    assert restore.startswith("python manage.py redis queues restore 'my mail' ")
    purge_id = restore.split()[-1]
    assert lines("queues", "restore", "my mail", purge_id) == ["Restored 1,234 tasks to queue 'my mail'."]
    assert get_queue("my mail").info().ready == 1_234
    assert refused("queues", "restore", "my mail", purge_id) == (
        f"Purge '{purge_id}' of queue 'my mail' has nothing to restore:"
        " it was restored before, is older than 24 hours, or belongs to another queue."
    )


def test_purge_and_restore_as_json(redis_server: Store) -> None:
    note.enqueue("a")

    found = data("queues", "purge", "default", "--yes")

    assert (found["queue"], found["purged"]) == ("default", 1)
    assert data("queues", "restore", "default", found["purge_id"]) == {
        "queue": "default",
        "purge_id": found["purge_id"],
        "restored": 1,
    }


def test_empty_queue_is_purged_without_confirmation(redis_server: Store) -> None:
    assert lines("queues", "purge", "default") == ["Queue 'default' has no pending tasks."]
    assert data("queues", "purge", "default") == {"queue": "default", "purged": 0, "purge_id": None, "waiting": 0}


def test_purge_without_a_terminal_requires_yes(redis_server: Store) -> None:
    note.enqueue("a")

    assert (
        refused("queues", "purge", "default") == "Nothing was purged. No terminal to ask for confirmation; pass --yes."
    )
    assert get_queue("default").info().ready == 1


def test_retry_all_and_some(store: Store) -> None:
    ids = [result.id for result in fail_many(4)]

    assert lines("queues", "retry", "default", ids[0]) == ["1 failed task of queue 'default' will be retried."]
    assert lines("queues", "retry", "default") == ["3 failed tasks of queue 'default' will be retried."]
    assert data("queues", "retry", "default") == {"queue": "default", "retried": 0}
    assert get_queue("default").info().ready == 4


@pytest.mark.contract
def test_delete_some_and_all(store: Store) -> None:
    ids = [result.id for result in fail_many(4)]

    assert lines("queues", "delete", "default", ids[1]) == ["Deleted 1 failed task of queue 'default'."]
    assert lines("queues", "delete", "default", "--yes") == ["Deleted 3 failed tasks of queue 'default'."]
    assert data("queues", "delete", "default") == {"queue": "default", "deleted": 0}
    assert get_queue("default").info().failed == 0


def test_delete_unregistered_ones(store: Store) -> None:
    failed, others = fail_many(2), park_many(2)

    assert lines("queues", "delete", "default", others[0].id, "--unregistered") == [
        "Deleted 1 unregistered task of queue 'default'."
    ]
    assert data("queues", "delete", "default", "--unregistered", "--yes") == {"queue": "default", "deleted": 1}
    assert get_queue("default").info().failed == len(failed)


def test_delete_all_without_a_terminal_requires_yes(redis_server: Store) -> None:
    fail_many(2)

    assert (
        refused("queues", "delete", "default")
        == "Nothing was deleted. No terminal to ask for confirmation; pass --yes."
    )
    assert get_queue("default").info().failed == 2


@pytest.mark.parametrize(
    ("verb", "more", "state"), [("retry", [], "failed"), ("delete", ["--unregistered"], "unregistered")]
)
def test_unknown_ids_are_reported_after_the_others_are_done(
    redis_server: Store, verb: str, more: list[str], state: str
) -> None:
    made = (fail_many if state == "failed" else park_many)(2)

    message = refused("queues", verb, "default", made[0].id, "unheard-of", "unheard-of", *more)

    assert message == f"Not {state} tasks of queue 'default': 1 of 2 ids."
    assert getattr(get_queue("default").info(), state) == 1


def test_failed_tasks_are_listed_with_their_errors(store: Store) -> None:
    first = fail.enqueue("first\nline")
    thrice = fail_thrice.using(backoff=0).enqueue("\x1b[2Jthird")
    while work_off():
        pass

    header, *rows, empty, message = lines("tasks", "list", "default", "failed")

    assert header.split() == ["ID", "TASK", "ATTEMPTS", "FAILED", "LAST", "ERROR"]
    assert [row.split()[:3] for row in rows] == [
        [first.id, "tests.taskqueue.tasks.fail", "1"],
        [thrice.id, "tests.taskqueue.tasks.fail_thrice", "3"],
    ]
    assert rows[0].endswith("  LookupError: first\\nline")
    assert rows[1].endswith("  LookupError: \\x1b[2Jthird")
    assert (empty, message) == ("", "2 failed tasks in queue 'default'; listed from offset 0.")


@pytest.mark.parametrize(
    ("state", "last"),
    [
        ("ready", ["ENQUEUED"]),
        ("scheduled", ["DUE", "LAST", "ERROR"]),
        ("running", ["STARTED", "WORKER"]),
        ("unregistered", ["ENQUEUED"]),
    ],
)
def test_each_state_is_listed_with_its_columns(store: Store, state: str, last: list[str]) -> None:
    park_many(1)
    note.enqueue("runs")
    new_fetcher(worker="here:7").fetch("0", 1)
    note.enqueue("ready")
    note.using(run_after=60).enqueue("later")

    header, row, *_ = lines("tasks", "list", "default", state)

    assert header.split() == ["ID", "TASK", "ATTEMPTS", *last]
    assert row.split()[0] == get_queue("default").tasks(state)[0].id
    assert "20" in row
    assert row.endswith("here:7") == (state == "running")


def test_task_that_left_the_state_is_listed_without_its_time(redis_server: Store) -> None:
    """Its record was read after the page's ids."""
    [job] = [note.enqueue("runs again")]

    assert listing.of_tasks([job], "failed").rows == [(job.id, "tests.taskqueue.tasks.note", "0", "", "")]


def test_tasks_are_paged_with_the_command_for_the_next_page(store: Store) -> None:
    sent = note.enqueue_many([((number,), {}) for number in range(5)])

    page = lines("tasks", "list", "default", "ready", "--limit", "2", "--offset", "1")

    assert [row.split()[0] for row in page[1:3]] == [sent[1].id, sent[2].id]
    assert page[-1] == (
        "5 ready tasks in queue 'default'; listed from offset 1."
        " More: python manage.py redis tasks list --limit 2 --offset 3 default ready"
    )
    assert "More" not in lines("tasks", "list", "default", "ready", "--limit", "2", "--offset", "3")[-1]
    [beyond] = lines("tasks", "list", "default", "ready", "--offset", "9")
    assert beyond == (
        "Queue 'default' has 5 ready tasks, none from offset 9 on."
        " The last: python manage.py redis tasks list --limit 50 --offset 0 default ready"
    )


def test_arguments_are_shown_on_demand_only(redis_server: Store) -> None:
    note.enqueue("secret")

    assert "secret" not in redis_command("tasks", "list", "default", "ready")
    assert "secret" not in redis_command("tasks", "list", "default", "ready", "--json")
    header, row, *_ = lines("tasks", "list", "default", "ready", "--args")
    assert header.split() == ["ID", "TASK", "ATTEMPTS", "ARGUMENTS", "ENQUEUED"]
    assert '[["secret"],{}]' in row
    [job] = data("tasks", "list", "default", "ready", "--args")["tasks"]
    assert (job["args"], job["kwargs"]) == (["secret"], {})


def test_tasks_as_json(store: Store) -> None:
    result = fail.enqueue("text")
    work_off(worker="here:7")

    found = data("tasks", "list", "default", "failed", "--limit", "10")

    assert {key: value for key, value in found.items() if key != "tasks"} == {
        "queue": "default",
        "state": "failed",
        "total": 1,
        "limit": 10,
        "offset": 0,
    }
    [job] = found["tasks"]
    assert job["id"] == result.id
    assert job["last_error"] == {"class": "builtins.LookupError", "message": "text"}
    assert (job["attempts"], job["worker_ids"], job["state"]) == (1, ["here:7"], "failed")
    assert job["run_after"] is None
    assert job["finished_at"] >= job["enqueued_at"]


def test_times_are_in_the_time_zone_of_the_site(redis_server: Store, settings: Any) -> None:
    result = note.enqueue("a")
    local = result.enqueued_at.astimezone(__import__("zoneinfo").ZoneInfo("Europe/Berlin"))

    assert local.isoformat(" ", "seconds") in redis_command("tasks", "list", "default", "ready")

    settings.USE_TZ = False
    assert local.replace(tzinfo=None).isoformat(" ", "seconds") in redis_command(
        "tasks", "list", "default", "ready"
    ).replace("+", "|")
    assert "+01:00" not in redis_command("tasks", "list", "default", "ready")
    [job] = data("tasks", "list", "default", "ready")["tasks"]
    assert job["enqueued_at"].endswith("+00:00")


def test_cancel(store: Store) -> None:
    waits, runs, done = note.enqueue("waits"), note.using(queue_name="other").enqueue("runs"), note.enqueue("done")
    new_fetcher("other").fetch("0", 1)

    assert lines("tasks", "cancel", waits.id) == [f"Task {waits.id} is cancelled."]
    assert data("tasks", "cancel", waits.id) == {"id": waits.id, "cancelled": True, "asked": False}
    assert lines("tasks", "cancel", runs.id) == [f"Task {runs.id} is running; cancellation requested."]
    assert data("tasks", "cancel", runs.id, "--force-after", "2") == {"id": runs.id, "cancelled": False, "asked": True}
    work_off()
    assert refused("tasks", "cancel", done.id) == f"Task {done.id} has already finished."
    assert refused("tasks", "cancel", "unheard-of").startswith(
        "There is no task 'unheard-of': it was never accepted, or"
    )


@pytest.mark.parametrize("verb", ["show", "cancel", "run-now"])
def test_name_in_place_of_an_id_is_answered_with_the_search(redis_server: Store, verb: str) -> None:
    sent = note.enqueue("a")

    text = refused("tasks", verb, "notes of")

    assert text.endswith(" To search tasks by name: python manage.py redis tasks find 'notes of'")
    get_queue("default").delete_failed()
    assert "tasks find" not in refused("tasks", verb, sent.id[:-1] + ("a" if sent.id[-1] != "a" else "b"))


def test_task_is_shown_with_its_runs_and_its_last_error(redis_server: Store) -> None:
    failed = fail.using(queue_name="mail").enqueue("secret \x1b[2J")
    work_off("mail")

    shown = redis_command("tasks", "show", failed.id)

    assert re.search(r"^Task      tests\.taskqueue\.tasks\.fail\nID        " + failed.id, shown)
    assert re.search(r"^RUN     STARTED .*\nfailed  20.* s +here:1$", shown, re.M)
    assert "Traceback (most recent call last):" in shown
    assert "LookupError: secret \\x1b[2J" in shown
    assert shown.splitlines()[-1] == f"To retry it: python manage.py redis queues retry mail {failed.id}"
    assert "Arguments" not in shown
    assert "Arguments" in redis_command("tasks", "show", failed.id, "--args")
    found = data("tasks", "show", failed.id)
    assert (found["state"], found["runs"][0]["outcome"], "args" in found) == ("failed", "failed", False)
    assert data("tasks", "show", failed.id, "--args")["args"] == ["secret \x1b[2J"]
    assert "unheard-of" in refused("tasks", "show", "unheard-of")


@pytest.mark.parametrize(
    ("cursor", "shown"),
    [(b'[0,"pk",41,12]', "pk 41"), (b"[0,null,1200,1200]", "item 1,200"), (b"[0,null,null,0]", "")],
)
def test_show_states_where_a_task_continues(redis_server: Store, cursor: bytes, shown: str) -> None:
    result = note.enqueue("x")
    redis_server.raw.hset(base_key(redis_server, "t", result.id), "I", cursor)

    lines = redis_command("tasks", "show", result.id).splitlines()
    found = data("tasks", "show", result.id)

    assert [line.split("  ")[-1] for line in lines if line.startswith("Continues after")] == ([shown] if shown else [])
    assert list(found["cursor"]) == ["loop", "key", "after", "done"]


def test_task_is_shown_with_why_it_does_not_run(redis_server: Store) -> None:
    result = note.enqueue("x")
    get_queue("default").pause("line\nforged", author="ada")

    shown = redis_command("tasks", "show", result.id).splitlines()

    [first, second, third] = [line for line in shown if line.startswith(("Not running  ", "Also  "))]
    assert first.startswith("Not running  the queue default is paused. Paused")
    assert first.endswith(r"by ada: line\nforged.")
    assert re.fullmatch(r"Also +no live worker serves the queue default\.", second)
    assert third.endswith("it is the next task of its queue.")
    assert [each["code"] for each in data("tasks", "show", result.id)["reasons"]] == ["paused", "no_worker", "next"]


def test_errors_are_listed_in_groups(redis_server: Store) -> None:
    assert lines("queues", "errors", "default")[-1] == "Queue 'default' has no errors."
    first, last = fail.enqueue("a"), fail.enqueue("a")
    work_off()

    header, row, _, advice = lines("queues", "errors", "default")

    assert header.split() == ["COUNT", "FINAL", "FIRST", "LAST", "LAST", "TASK", "ERROR"]
    assert row.split()[:2] == ["2", "2"]
    assert "LookupError: " in row
    assert re.search(f"redis tasks show ({first.id}|{last.id})$", advice)
    assert data("queues", "errors", "default")["errors"][0]["count"] == 2


def test_scheduled_task_is_run_now(redis_server: Store) -> None:
    later = note.using(run_after=3_600).enqueue("later")

    assert lines("tasks", "run-now", later.id) == [f"Task {later.id} is due now."]

    assert get_queue("default").info().ready == 1
    assert "is not scheduled" in refused("tasks", "run-now", note.enqueue("ready").id)


def test_finished_tasks_are_listed(store: Store) -> None:
    sent, cancelled = note.enqueue("kim"), note.enqueue("nobody")
    cancelled.cancel()
    work_off(worker="mailer:7")

    header, row, _, footer = lines("tasks", "list", "default", "successful", "--args")

    assert header.split() == ["ID", "TASK", "ATTEMPTS", "ARGUMENTS", "STARTED", "FINISHED", "WORKER"]
    assert row.split()[0] == sent.id
    assert '[["kim"],{}]' in row
    assert row.endswith("mailer:7")
    assert footer == "1 successful task in queue 'default'; listed from offset 0."
    [found] = data("tasks", "list", "default", "cancelled")["tasks"]
    assert (found["id"], found["state"]) == (cancelled.id, "cancelled")
    assert lines("tasks", "list", "default", "expired") == ["Queue 'default' has no expired tasks."]


def test_task_whose_result_has_expired_is_shown_from_the_list(store: Store) -> None:
    short, long = note.enqueue("kim"), note.enqueue("x" * 300)
    work_off(worker="mailer:7")
    store.raw.delete(base_key(store, "t", short.id))
    store.raw.delete(base_key(store, "t", long.id))

    _, row, _, footer = lines("tasks", "show", short.id, "--args")

    assert row.startswith(f"{short.id} ")
    assert '[["kim"],{}]' in row
    assert footer == "Its result has expired. This is what the list of successful tasks of queue 'default' has."
    assert "(expired)" in redis_command("tasks", "list", "default", "successful", "--args")
    assert data("tasks", "show", long.id, "--args")["args"] is None
    assert refused("tasks", "show", "unknown").startswith("There is no task 'unknown'")
