"""`manage.py redis locks`, `limits`, `workers` and `flows`."""

from __future__ import annotations

import io
import os
import pty
import socket
import sys
from typing import Any

import pytest
from django.core.management import call_command

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.locks import Lock, LockNotOwned, ReadWriteLock
from django_redis_components.locks.lock import PlainKind
from django_redis_components.management.base import system_user
from django_redis_components.management.redis.flows import show_flow
from django_redis_components.management.redis.workers import group as workers
from django_redis_components.ratelimits import RateLimit
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import TaskContext, chain, group, task
from tests.dashboard.support import write_poller, write_worker
from tests.management.support import command_data, refusal, run_command
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import queue_worker, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, fail, note


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A user at the terminal types this."""
    master, slave = pty.openpty()
    os.write(master, text.encode())
    monkeypatch.setattr(sys, "stdin", os.fdopen(slave))


def test_locks_are_listed_with_holders_and_waiters(redis_server: Store) -> None:
    assert run_command("redis", "locks", "list").startswith("No lock or semaphore is held. Scanned ")
    held, both = Lock("stock:42", timeout=60), ReadWriteLock("stock:42", timeout=60).read()
    permits = Semaphore("printers", 3, timeout=60)
    assert held.acquire()
    assert both.acquire()
    assert permits.acquire(2)
    connections.client().execute(PlainKind("stock:42", 60).acquire("waiter", True))

    header, *rows = run_command("redis", "locks", "list").splitlines()

    words = "NAME KIND HELD WAITING FENCE ROLE AGE EXPIRES IN HOLDER TOKEN"
    assert " ".join(header.split()) == words
    shown = {tuple(row.split()[:4]): row for row in rows[:3]}
    me = f"{socket.gethostname()}, process {os.getpid()}, thread MainThread"
    assert f"{me}  {held.token}" in shown["stock:42", "lock", "1/1", "1"]
    assert "reader" in shown["stock:42", "readwrite", "1", "0"]
    assert "2 permits" in shown["printers", "semaphore", "2/3", "0"]
    assert rows[-1].startswith("Scanned ")
    named = command_data("redis", "locks", "list", "--name", "printers")["held"]
    [one] = [each for each in named if each["kind"] == "semaphore"]
    assert (one["held"], one["holders"][0]["permits"]) == (2, 2)
    assert (one["holders"][0]["held_by"]["pid"], one["holders"][0]["held_by"]["task"]) == (os.getpid(), "")
    assert len(run_command("redis", "locks", "list", "--name", "printers").splitlines()) == 3
    assert refusal("redis", "locks", "list", "--at", "nowhere", code=2).startswith(
        "at='nowhere': expected the position"
    )


def test_lock_is_released_after_confirmation(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    held, reader = Lock("stock:42", timeout=60), ReadWriteLock("stock:42", timeout=60).read()
    assert held.acquire()
    assert reader.acquire()

    several = "Several resources are named 'stock:42'. Choose one of --kind lock, --kind readwrite."
    assert refusal("redis", "locks", "release", "stock:42", "--yes", code=2) == several
    words = ["redis", "locks", "release", "stock:42", "--kind", "lock"]
    assert refusal(*words) == "Nothing was released. No terminal to ask for confirmation; pass --yes."
    answer(monkeypatch, "n\n")
    assert refusal(*words) == "Nothing was released."
    sys.stdin.close()
    assert held.locked()

    answer(monkeypatch, "y\n")
    asked = io.StringIO()
    call_command(*words, stdout=io.StringIO(), stderr=asked)

    sys.stdin.close()
    holder = f"{socket.gethostname()}, process {os.getpid()}, thread MainThread (token {held.token})"
    assert asked.getvalue() == f"Lock 'stock:42' is held by {holder}, with 0 waiters. Release it? [y/N] "
    with pytest.raises(LockNotOwned, match=rf"was released by an operator \({system_user()}\) at \d\d:\d\d:\d\d\.$"):
        held.release()
    assert command_data("redis", "locks", "release", "stock:42", "--yes")["kind"] == "readwrite"
    assert run_command("redis", "locks", "release", "stock:42", "--yes") == "No lock or semaphore 'stock:42' is held.\n"


def test_limits_are_listed_shown_and_reset(redis_server: Store, catalogued: None) -> None:
    limit = RateLimit("mails of tests", "2/h", penalty=(5, 60))
    limit.hit("a@example.com", 2)

    [row] = [row for row in run_command("redis", "limits", "list").splitlines() if row.startswith("mails of tests")]
    assert row.split()[3:] == ["2/h", "gcra", "5", "denials", "in", "1", "min", "0", "s", "open", "default"]
    shown = run_command("redis", "limits", "show", "mails of tests", "a@example.com").splitlines()
    assert shown[0].split() == ["RATE", "REMAINING", "RETRY", "IN", "RESETS", "IN"]
    assert shown[1].split()[:2] == ["2/h", "0"]
    assert shown[-1].startswith("The next hit is denied for ")
    assert not command_data("redis", "limits", "show", "mails of tests", "a@example.com")["allowed"]

    assert refusal("redis", "limits", "reset", "mails of tests", "a@example.com").startswith("Nothing was reset.")
    run_command("redis", "limits", "reset", "mails of tests", "a@example.com", "--yes")

    assert command_data("redis", "limits", "show", limit.policy.id, "a@example.com")["remaining"] == 2
    assert "Did you mean 'mails of tests'?" in refusal("redis", "limits", "show", "mails of test", "x", code=2)


def test_limits_are_shown_and_reset_by_the_hash_of_a_key(redis_server: Store, catalogued: None) -> None:
    limit = RateLimit("mails of tests", "2/h", penalty=(1, 60))
    for _ in range(2):
        limit.hit("a@example.com", 2)
    hashed = f"hash:{keys.digest('a@example.com')}"

    assert not command_data("redis", "limits", "show", "mails of tests", hashed)["allowed"]
    assert command_data("redis", "limits", "show", "mails of tests", "hash:a@example.com")["allowed"]
    run_command("redis", "limits", "reset", "mails of tests", hashed, "--yes")

    assert limit.peek("a@example.com").remaining == 2


def test_key_of_a_limit_is_blocked_and_unblocked(
    redis_server: Store, catalogued: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = RateLimit("mails of tests", "2/h", deny_cache=False)
    limit.hit("ada")
    words = ("redis", "limits", "block", "mails of tests", "ada")
    assert refusal(*words).startswith("Nothing was blocked.")
    answer(monkeypatch, "y\n")
    asked = io.StringIO()

    call_command(*words, stdout=io.StringIO(), stderr=asked)

    sys.stdin.close()
    assert asked.getvalue() == "Block key 'ada' of limit 'mails of tests' for 1 h 0 min? [y/N] "
    found = limit.hit("ada")
    assert (found.blocked_by, round(found.retry_after, -1)) == (system_user(), 3_600)
    shown = run_command("redis", "limits", "show", "mails of tests", "ada")
    assert shown.startswith(f"Blocked by {system_user()} for 59 min ")
    assert run_command(*words, "--for", "10m", "--yes").startswith(
        "Blocked key 'ada' of limit 'mails of tests' for 10 min"
    )
    assert command_data(*words, "--until-unblocked", "--yes")["seconds"] is None
    shown = run_command("redis", "limits", "show", "mails of tests", "ada")
    assert shown.startswith(f"Blocked by {system_user()} until it is unblocked.")

    assert command_data("redis", "limits", "unblock", "mails of tests", "ada")["unblocked"]

    assert run_command("redis", "limits", "unblock", "mails of tests", "ada").endswith(" was not blocked.\n")
    assert limit.hit("ada").remaining == 0


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        (("--for", "soon"), "'soon': expected a duration such as 90s, 15m, 1h or 2d", 1),  # 2 on a command line
        (("--for", "0h"), "'0h': expected a duration such as 90s, 15m, 1h or 2d", 1),
        (("--for", "400d"), "seconds=34560000: expected at most 31622400, a year; or None for no end.", 2),
        (("--for", "1h", "--until-unblocked"), "not allowed with argument --for", 1),
    ],
)
def test_wrong_time_of_a_block_is_refused(
    redis_server: Store, catalogued: None, options: tuple[str, ...], text: str, code: int
) -> None:
    limit = RateLimit("mails of tests", "2/h")
    limit.hit("ada")

    assert text in refusal("redis", "limits", "block", "mails of tests", "ada", *options, "--yes", code=code)

    assert limit.hit("ada")


def test_workers_are_listed_lost_ones_too(redis_server: Store) -> None:
    assert run_command("redis", "workers", "list") == "No workers. Start one: python manage.py runworker\n"
    write_poller(redis_server)
    write_worker(redis_server, "here:7", busy=3)
    write_worker(redis_server, "gone:8", seen_s=60)

    header, live, lost, _, summary = run_command("redis", "workers", "list").splitlines()

    assert header.split()[:3] == ["WORKER", "STATE", "BUSY"]
    assert live.split()[:4] == ["here:7", "working", "3", "8"]
    assert lost.split()[:2] == ["gone:7", "lost"]
    assert "1 min 0 s ago" in lost
    assert summary == "1 live, 1 lost. Busy threads: 3."
    found = {each["id"]: each["is_lost"] for each in command_data("redis", "workers", "list")["workers"]}
    assert found == {"here:7": False, "gone:8": True}


def test_command_to_a_worker_is_sent_and_refused(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WAIT_S", 0.0)
    write_worker(redis_server, "here:1.a", busy=3)
    write_worker(redis_server, "gone:1.a", seen_s=60)

    assert "here:1.a" in run_command("redis", "workers", "list")
    assert "It has not been executed yet" in run_command("redis", "workers", "quiet", "here:1.a")
    question = refusal("redis", "workers", "stop", "here:1")
    assert question == "Nothing was sent. No terminal to ask for confirmation; pass --yes."
    assert command_data("redis", "workers", "stop", "here:1", "--yes")["outcome"] is None
    assert "is lost" in refusal("redis", "workers", "quiet", "gone:1.a")
    assert "No worker or supervisor" in refusal("redis", "workers", "quiet", "nowhere:1")
    assert "the following arguments are required: ID" in refusal("redis", "workers", "quiet")
    assert "unrecognized arguments: here:1" in refusal("redis", "workers", "list", "here:1")


def test_command_to_a_worker_returns_its_outcome(redis_server: Store, children: Children, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=60)
    worker = queue_worker(children, "default")
    [listed] = eventually(lambda: command_data("redis", "workers", "list")["workers"])

    assert run_command("redis", "workers", "quiet", listed["id"]) == f"Executed: quiet {listed['id']}.\n"
    eventually(lambda: [each["state"] for each in command_data("redis", "workers", "list")["workers"]] == ["quiet"])
    assert run_command("redis", "workers", "resume", listed["supervisor"]).startswith("Executed: resume ")
    eventually(lambda: [each["state"] for each in command_data("redis", "workers", "list")["workers"]] == ["working"])
    assert "it was not quiet" in refusal("redis", "workers", "resume", listed["supervisor"])
    assert run_command("redis", "workers", "stop", listed["supervisor"], "--yes").startswith("Executed: stop ")
    assert worker.wait() == 0


def test_flow_is_shown_with_states_and_dependencies(redis_server: Store) -> None:
    flow = group(add.s(1, 2), fail.s("boom")).then(note.s()).enqueue()
    work_off()

    header, _, _, first, second, last, _, summary = run_command("redis", "flows", "show", flow.id).splitlines()

    assert header.split()[:6] == ["#", "ID", "TASK", "QUEUE", "STATE", "ATTEMPTS"]
    assert first.split()[:2] == ["0", flow.results[0].id]
    assert second.endswith("LookupError: boom")
    assert "0, 1" in last
    assert summary.startswith(f"Flow {flow.id} has 3 tasks: ")
    assert [each["after"] for each in command_data("redis", "flows", "show", flow.id)["tasks"]] == [[], [], [0, 1]]
    assert "unheard-of" in refusal("redis", "flows", "show", "unheard-of")


def test_nested_flow_is_shown_as_a_tree(redis_server: Store) -> None:
    inner = chain(add.s(1, 2), fail.using(max_attempts=1).si("boom"), note.s())
    flow = group(inner, *(chain(add.s(1, 2), note.s()) for _ in range(100))).then(note.s()).enqueue()
    work_off()

    lines = run_command("redis", "flows", "show", flow.id).splitlines()

    assert [line.strip()[:18] for line in lines[1:4]] == [
        "chain of 2 steps  ",
        "group of 101 steps",
        "chain of 3 steps  ",
    ]
    assert lines[2].index("group of") - lines[1].index("chain of") == 2
    assert "2 failed, 1 successful" in lines[3]
    assert lines[4].index(add.name) - lines[3].index("chain of") == 2
    assert any(line.strip().startswith("… 35 further steps") for line in lines)
    assert show_flow(flow.id, "default").note == "The tree has 132 of 204 tasks; --json lists all."
    data = command_data("redis", "flows", "show", flow.id)
    assert len(data["tasks"]) == 204
    assert (data["tree"]["kind"], data["tree"]["tasks"], len(data["tree"]["children"])) == ("chain", 204, 1)


@task(takes_context=True)
def add_notes(context: TaskContext, count: int) -> None:
    context.flow.add(*(note.si(number) for number in range(count)))


def test_added_tasks_are_shown_below_the_tree(redis_server: Store) -> None:
    flow = group(add_notes.s(101), chain(add.s(1, 2), note.s())).then(note.si("end")).enqueue()
    work_off()

    lines = run_command("redis", "flows", "show", flow.id).splitlines()

    [header] = [number for number, line in enumerate(lines) if "added by running members: 101 tasks" in line]
    assert "101 successful" in lines[header]
    assert lines[header + 1].split()[0] == "4"
    assert note.name in lines[header + 1]
    assert show_flow(flow.id, "default").note == "The tree has 104 of 105 tasks; --json lists all."


def test_flow_and_the_flow_that_is_its_callback_name_each_other(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.s(), note.s()), on_success=note.s())
    assert command_data("redis", "flows", "show", flow.id)["callback_flows"] == {}
    work_off()
    assert flow.on_complete_result is not None
    inner = flow.on_complete_result.get(0)

    outer_text = run_command("redis", "flows", "show", flow.id)
    inner_text = run_command("redis", "flows", "show", inner)

    assert f"Its on_complete callback is flow {inner}." in outer_text
    assert f"It is a callback of flow {flow.id}." in inner_text
    assert command_data("redis", "flows", "show", flow.id)["callback_flows"] == {"on_complete": inner}
    assert command_data("redis", "flows", "show", inner)["callback_of"] == flow.id


def test_callbacks_of_a_flow_are_shown(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_error=note.s(), on_complete=note.s(), on_success=note.s())
    names = ["on_error", "on_complete", "on_success"]

    lines = run_command("redis", "flows", "show", flow.id).splitlines()

    assert [line.split()[0] for line in lines[2:5]] == names
    data = command_data("redis", "flows", "show", flow.id)
    assert [data[name]["id"] for name in names] == [
        each.id for each in (flow.on_error_result, flow.on_complete_result, flow.on_success_result) if each
    ]


@pytest.mark.parametrize(
    "words", [["locks", "list"], ["workers", "list"], ["flows", "show", "x"], ["schedules", "list"]]
)
def test_outage_is_one_line_with_an_exit_code(words: list[str]) -> None:
    message = refusal("redis", *words, code=3)

    assert message.startswith("Redis is unavailable: ")
    assert "127.0.0.1:1" in message
    assert "\n" not in message
