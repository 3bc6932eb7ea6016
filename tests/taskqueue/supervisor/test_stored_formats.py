"""Workers and pollers compare the formats of the stored data with their release before they touch a task."""

from __future__ import annotations

import pytest

from django_redis_components.taskqueue import get_queue
from tests.support import Store
from tests.support.processes import Children
from tests.taskqueue.support import SITE
from tests.taskqueue.tasks import note

COMMANDS = pytest.mark.parametrize("command", ["runworker", "runpoller"])


def formats_key(store: Store) -> str:
    return f"{store.prefix}:format:{{default}}"


@COMMANDS
def test_process_ends_with_exit_code_4_at_a_newer_format(redis_server: Store, children: Children, command: str) -> None:
    redis_server.raw.hset(formats_key(redis_server), "taskqueue", "2 1.3.0")
    note.enqueue("x")
    before = redis_server.keys()

    child = children.manage(command, env=SITE)

    assert child.wait() == 4
    assert redis_server.keys() == before, "nor has the watching thread written anything"
    assert "taskqueue has format 2, written by release 1.3.0 (this release reads up to 1)" in child.output
    assert "Traceback" not in child.output
    assert get_queue("default").info().ready == 1


@COMMANDS
def test_process_records_the_formats(redis_server: Store, children: Children, command: str) -> None:
    child = children.manage(command, env=SITE)
    child.wait_for("Worker: queues default" if command == "runworker" else "started with")

    assert redis_server.raw.hget(formats_key(redis_server), "taskqueue").startswith(b"1 ")
    child.terminate()
    assert child.wait() == 0


def test_worker_starts_if_its_redis_user_may_not_read_the_formats(own_server: Store, children: Children) -> None:
    own_server.raw.acl_setuser(
        "default", enabled=True, nopass=True, reset_keys=True, keys=[f"{own_server.prefix}:taskqueue:*"],
        commands=["+@all"], channels=["*"],
    )  # fmt: skip
    note.enqueue("x")

    child = children.manage("runworker", "--burst", env=SITE)

    assert child.wait() == 0, child.output
    text = f"The formats of the stored data (key {formats_key(own_server)}) are not checked or not recorded: "
    assert text in child.output


def test_worker_starts_on_a_full_server(own_server: Store, children: Children) -> None:
    own_server.raw.config_set("maxmemory", 1)

    child = children.manage("runworker", env=SITE)

    child.wait_for("are not checked or not recorded: command not allowed when used memory > 'maxmemory'")
    child.wait_for("Worker: queues default")
