"""`manage.py redis workers set` and `reset`."""

from __future__ import annotations

import os
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.management.redis.workers import pools
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.pools import list_kept
from tests.dashboard.support import now_ms, write_worker
from tests.dashboard.worker_pages import waiting
from tests.management.support import command_data, refusal, run_command
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.support import base_key, queue_worker, taskqueue_settings

pytestmark = pytest.mark.integration

LINE = "default --threads 4 --async-concurrency 100"
REPORT: dict[str, Any] = {"command_line": LINE, "threads": 4, "async_concurrency": 100, "supervisor_pid": 9}


@pytest.fixture
def site(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Three supervisors on two hosts; no command is executed."""
    monkeypatch.setattr(pools, "WAIT_S", 0.0)
    for worker, pid in (("app-1:aa.1", 11), ("app-1:aa.2", 12), ("app-1:bb.1", 21), ("app-2:cc.1", 11)):
        supervisor_pid = {"aa": 1, "bb": 2, "cc": 1}[worker[6:8]]
        write_worker(redis_server, worker, **REPORT | {"pid": pid, "supervisor_pid": supervisor_pid})
    return redis_server


@pytest.mark.parametrize(
    ("target", "ids"),
    [
        ("app-1:11", {"app-1:aa.1"}),
        ("app-1:aa.2", {"app-1:aa.2"}),
        ("app-1:21", {"app-1:bb"}),
        ("app-1:1", {"app-1:aa"}),
        ("app-1:aa", {"app-1:aa"}),
        ("app-1", {"app-1:aa", "app-1:bb"}),
        ("--all", {"app-1:aa", "app-1:bb", "app-2:cc"}),
    ],
)
def test_process_supervisor_host_or_all_are_changed(site: Store, target: str, ids: set[str]) -> None:
    data = command_data("redis", "workers", "set", target, "--threads", "8", "--yes")

    assert set(data["workers"]) == ids == set(waiting())
    assert set(waiting().values()) == {"pool"}
    assert (data["change"], data["kept"], data["old"]) == ({"threads": "8"}, False, [])
    assert run(connections.client(), list_kept(home())) == []


def test_change_is_confirmed_first(site: Store) -> None:
    question = refusal("redis", "workers", "set", "app-1", "--queues", "a=5,b=1", "--keep")

    assert "Nothing was sent. No terminal to ask for confirmation; pass --yes." in question
    assert waiting() == {}


def test_values_that_are_not_accepted_are_named(site: Store, settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])
    for words, problem, code in (
        (["app-1"], "expected at least one of threads, coroutines, queues", 2),
        (["--threads", "8"], "Expected either HOST, HOST:PID or an id, or --all", 2),
        (["app-1", "--all", "--threads", "8"], "Expected either HOST, HOST:PID or an id, or --all", 2),
        (["app-1", "--threads", "0"], "expected an integer from 1 to 1000", 1),
        (["app-1", "--coroutines", "x"], "expected an integer from 1 to 10000", 1),
        (["app-1", "--queues", "a=9,b"], "as NAME,NAME in strict order, or as NAME=WEIGHT,NAME=WEIGHT", 1),
        (["app-1", "--queues", "mial"], "Did you mean 'mail'?", 2),
        (["app-9", "--threads", "8"], 'No live worker is "app-9": expected a host, HOST:PID, or an id', 1),
    ):
        assert problem in refusal("redis", "workers", "set", *words, "--yes", code=code)
    assert waiting() == {}


def test_worker_of_an_older_release_gets_no_command(site: Store) -> None:
    """It would restart its processes."""
    write_worker(site, "old:dd.1", pid=41)
    write_worker(site, "lost:ee.1", seen_s=3_600, **REPORT)

    problem = refusal("redis", "workers", "set", "--all", "--threads", "8", "--yes")

    assert "Not executed: old:41 runs a release that cannot change its pool; restart it with the new code." in problem
    assert set(waiting()) == {"app-1:aa", "app-1:bb", "app-2:cc"}
    assert "old:41 runs" in refusal("redis", "workers", "set", "old", "--threads", "8", "--yes")


def test_kept_changes_are_listed_and_ended_by_reset(site: Store) -> None:
    assert run_command("redis", "workers", "reset") == "No pool is changed.\n"
    run_command("redis", "workers", "set", "app-1:11", "--threads", "8", "--queues", "a=5,b=1", "--keep", "--yes")
    run_command("redis", "workers", "set", "--all", "--coroutines", "7", "--keep", "--yes")
    changes = [["threads", "4", "anna", now_ms(site), 0]]
    write_worker(site, "app-2:cc.1", **REPORT | {"pid": 11, "threads": 8, "changes": changes})

    listed = run_command("redis", "workers", "reset")

    assert "app-1  default --threads 4 --async-concurrency 100  threads     8" in listed
    assert "app-1  default --threads 4 --async-concurrency 100  queues      a=5,b=1" in listed
    assert "*      default --threads 4 --async-concurrency 100  coroutines  7" in listed
    assert "app-2:11: threads 8, configured 4, changed by anna at " in listed
    assert " until its restart" in listed
    assert "app-2:11: threads 8, configured 4, changed by anna at " in run_command("redis", "workers", "list")
    data = command_data("redis", "workers", "reset")
    assert (len(data["kept"]), data["changed"][0]["id"]) == (3, "app-2:cc.1")
    assert command_data("redis", "workers", "reset", "app-2", "--yes")["forgotten"] == 0
    assert command_data("redis", "workers", "reset", "app-1:aa.2", "--yes")["forgotten"] == 2
    assert waiting()["app-1:aa.2"] == "reset"
    assert command_data("redis", "workers", "reset", "--all", "--yes")["forgotten"] == 1


def test_reset_of_all_ends_what_is_kept_for_hosts_without_workers(site: Store) -> None:
    run_command("redis", "workers", "set", "app-1", "--threads", "8", "--keep", "--yes")
    site.raw.delete(base_key(site, "workers"))

    assert "No live worker is" in refusal("redis", "workers", "reset", "app-1", "--yes")
    assert run_command("redis", "workers", "reset", "--all", "--yes") == "Ended 1 kept change.\n"


def test_too_many_kept_changes_are_refused_before_anything_is_sent(site: Store) -> None:
    kept = base_key(site, "kept_pools")
    site.raw.hset(kept, mapping={f"h{number}\nx\nthreads": "1 2 a" for number in range(3_000)})

    problem = refusal("redis", "workers", "set", "app-1", "--threads", "8", "--keep", "--yes")

    assert "Too many changed pools are kept. Nothing was sent." in problem
    assert waiting() == {}


def test_live_worker_is_changed_and_reset(redis_server: Store, children: Children, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=60)
    worker = queue_worker(children, "default", "--threads", "2")
    [listed] = eventually(lambda: command_data("redis", "workers", "list")["workers"])

    done = run_command("redis", "workers", "set", f"{listed['host']}:{worker.pid}", "--threads", "3", "--yes")

    assert done == "Executed: 1 of 1 worker.\n"
    [changed] = command_data("redis", "workers", "list")["workers"]
    assert (changed["threads"], changed["changes"][0][:2], changed["pid"]) == (3, ["threads", "2"], listed["pid"])
    assert run_command("redis", "workers", "reset", "--all", "--yes") == "Executed: 1 of 1 worker.\n"
    [again] = command_data("redis", "workers", "list")["workers"]
    assert (again["threads"], again["changes"]) == (2, [])
    assert os.getpgid(again["pid"])
