"""`runworker` and `runpoller`: help, invalid arguments, exit codes, unavailable and unsupported servers."""

from __future__ import annotations

import dataclasses
import logging
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command, load_command_class

from django_redis_components.management import logs
from django_redis_components.taskqueue.worker.process_signals import STOP_SIGNALS
from tests.support import Store, eventually, skip_missing
from tests.support.processes import Children
from tests.support.stores import Stores
from tests.taskqueue.support import (
    SITE,
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    queue_worker,
    taskqueue_settings,
)
from tests.taskqueue.tasks import add, note
from tools.localserver import LocalServer, ServerError, old_redis_binary

COMMANDS = ["runworker", "runpoller"]


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_have_a_second_name_with_a_prefix(name: str) -> None:
    command = load_command_class("django_redis_components", name)

    assert type(load_command_class("django_redis_components", f"redis_{name}")) is type(command)


HELP = {
    "runworker": [
        "Run the tasks of some queues. Queues are served in strict order:",
        "have the seconds of the setting GRACE (default: 25) to finish, then they return to their queue.",
        "Exit codes: 0: stopped by a signal, or --burst has finished. 1: an error at start, or a process had to be",
        "killed to stop. 2: a wrong argument, or an unknown queue or connection.",
        "queue names (default: default, or the queues of --weights)",
        "for example high=5,low=1: how often a queue is served first. 1 to 1000;",
        "concurrent tasks in one process, 1 to 1000 (default: 8)",
        "number of processes, 1 to 256 (default: 1)",
        "do not run the embedded poller",
        "exit when the queues are empty",
        "connection alias (default: default)",
    ],
    "runpoller": [
        "Maintain the queues: wake workers for scheduled tasks, send periodic tasks, recover tasks of dead workers,",
        "Any number may run; one of them is active at a time. Workers have an embedded poller",
        "Exit codes: 0: stopped by a signal. 1: an error at start. 2: a wrong argument.",
        "connection alias (default: default)",
    ],
}


@pytest.mark.integration
@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_units_bounds_and_defaults(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        call_command(name, "--help")

    shown = " ".join(capsys.readouterr().out.split())
    assert raised.value.code == 0
    for text in HELP[name]:
        assert text in shown


WRONG_ARGUMENTS = [
    (["--threads", "0"], "argument --threads: 0: expected an integer from 1 to 1000."),
    (["--threads", "many"], "argument --threads: 'many': expected an integer from 1 to 1000."),
    (["--processes", "257"], "argument --processes: 257: expected an integer from 1 to 256."),
    (["--weights", "high"], "argument --weights: 'high': expected NAME=WEIGHT, as in high=5,low=1."),
    (["--weights", "=5"], "argument --weights: '=5': expected NAME=WEIGHT, as in high=5,low=1."),
    (["--weights", "a=5,"], "argument --weights: '': expected NAME=WEIGHT, as in high=5,low=1."),
    (["--weights", "a=0"], "argument --weights: 'a=0': expected an integer from 1 to 1000 as the weight."),
    (["--weights", "a=1001"], "argument --weights: 'a=1001': expected an integer from 1 to 1000 as the weight."),
    (["--weights", "a=1.5"], "argument --weights: 'a=1.5': expected an integer from 1 to 1000 as the weight."),
    (["--weights", "a=1,a=2"], "argument --weights: 'a=2': duplicate queue 'a'."),
    (["a", "--weights", "a=1,b=2,c=3"], "--weights: 'b', 'c' is not among the queues a."),
    (["--thread-count=3"], "unrecognized arguments: --thread-count=3"),
    (["mail", "a{b"], "queue name 'a{b': braces are not accepted; they mark the Cluster slot in keys."),
]


@pytest.mark.integration
@pytest.mark.parametrize(("args", "text"), WRONG_ARGUMENTS, ids=lambda value: str(value)[:20])
def test_invalid_argument_raises_with_its_value(args: list[str], text: str) -> None:
    with pytest.raises(CommandError) as raised:
        call_command("runworker", *args)

    assert text in str(raised.value)


@pytest.mark.integration
def test_invalid_argument_exits_with_code_2(children: Children) -> None:
    child = children.manage("runworker", "--threads", "0", anew=True)

    assert child.wait(60) == 2
    assert child.output.endswith("error: argument --threads: 0: expected an integer from 1 to 1000.")


def test_verbosity_0_prints_only_errors(redis_server: Store, children: Children) -> None:
    child = children.manage("runworker", "--burst", "--verbosity", "0", env=SITE, anew=True)

    assert child.wait(60) == 0
    assert child.output == ""


MISTAKES = [
    (
        ["runworker", "mails"],
        (
            'Queue \'mails\' is not in REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"].'
            " Declared queues: default, mail. Did you mean 'mail'?"
        ),
    ),
]


@pytest.mark.parametrize(("args", "text"), MISTAKES, ids=lambda value: str(value)[:30])
def test_undeclared_queue_raises_with_the_declared_ones(
    redis_server: Store, settings: Any, args: list[str], text: str
) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    with pytest.raises(CommandError) as raised:
        call_command(*args)

    assert str(raised.value) == text


def test_unknown_connection_exits_with_code_2(redis_server: Store, children: Children) -> None:
    child = children.manage("runworker", "--using", "jobs", anew=True)

    assert child.wait(60) == 2
    assert child.output == "CommandError: REDIS_COMPONENTS[\"CONNECTIONS\"] has no 'jobs'. Known aliases: default."


@pytest.mark.parametrize("name", COMMANDS)
def test_unknown_connection_raises(redis_server: Store, signals: None, name: str) -> None:
    with pytest.raises(CommandError, match=r"has no 'jobs'\. Known aliases: default\."):
        call_command(name, "--using", "jobs")


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """A logger without configuration."""
    made = logging.getLogger("tests.taskqueue.commands")
    made.propagate = False
    yield made
    made.handlers.clear()
    made.setLevel(logging.NOTSET)


@pytest.fixture
def signals() -> Iterator[None]:
    """The commands take the stop signals; the test run gets them back."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_password_raises(own_server: Store, settings: Any, signals: None, name: str) -> None:
    own_server.raw.config_set("requirepass", "right")
    url = own_server.url.replace("redis://", "redis://:wrong@")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    with pytest.raises(CommandError) as raised:
        call_command(name)

    text, address = str(raised.value), f"127.0.0.1:{own_server.servers[0].port}"
    assert text.startswith(f"{address} (connection 'default') rejected the login: ")
    assert text.endswith('Check user name and password in REDIS_COMPONENTS["CONNECTIONS"]["default"].')
    assert "wrong@" not in text, "the password is nobody else's business"


@pytest.mark.parametrize("name", COMMANDS)
def test_unsupported_server_raises(stores: Stores, settings: Any, signals: None, name: str) -> None:
    try:
        binary = old_redis_binary()
    except ServerError as exc:
        skip_missing(f"Redis 6: {exc}")
    server = LocalServer(binary, directory=stores.new_directory("old"), die_with_parent=True).start()
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": server.url}}}
    try:
        with pytest.raises(CommandError) as raised:
            call_command(name)

        assert str(raised.value).startswith("Redis 6.")
        assert str(raised.value).endswith(" is too old: expected at least Redis 7.0 or Valkey 7.2.")
    finally:
        server.kill()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_eviction_policy_that_may_delete_tasks_is_warned_about(
    own_server: Store, children: Children, policy: str
) -> None:
    own_server.raw.config_set("maxmemory-policy", policy)

    worker = queue_worker(children)

    assert (
        f"The server's maxmemory-policy is {policy}: when its memory is full it deletes keys, including tasks."
        " Set it to noeviction, or use a separate server for the queue."
    ) in worker.output


def test_worker_runs_without_permission_for_info(own_server: Store, settings: Any, children: Children) -> None:
    own_server.raw.execute_command("ACL SETUSER app on >secret ~* &* +@all -info")
    url = own_server.url.replace("redis://", "redis://app:secret@")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    worker = queue_worker(children)

    assert add.enqueue(2, 3).get(60) == 5
    assert "maxmemory-policy" not in worker.output


def test_worker_waits_for_an_unavailable_server(own_server: Store, children: Children) -> None:
    own_server.servers[0].stop()
    worker = children.manage("runworker", env=SITE, anew=True)
    worker.wait_for("Waiting for Redis: ")

    own_server.servers[0].start()

    worker.wait_for("Redis is available again after ")
    worker.wait_for("Worker: queues default")
    assert add.enqueue(2, 3).get(60) == 5
    worker.terminate()
    assert worker.wait() == 0


@pytest.mark.parametrize(("name", "number"), [("runworker", signal.SIGINT), ("runpoller", signal.SIGTERM)])
def test_command_waiting_for_a_server_stops_on_a_signal(
    settings: Any, children: Children, name: str, number: int
) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0", "RETRIES": 0}}}
    child = children.manage(name, anew=True)
    child.wait_for("Waiting for Redis: ")

    child.signal(number)

    assert child.wait() == 0
    assert "Traceback" not in child.output


def test_worker_requeues_unregistered_tasks_at_start(redis_server: Store, children: Children) -> None:
    result = note.enqueue("unregistered")
    unknown = dataclasses.replace(note, name="old.name").enqueue("unknown")
    redis_server.raw.delete(queue_key(redis_server, "ready"))
    for each in (result, unknown):
        redis_server.raw.hset(base_key(redis_server, "t", each.id), "s", "unregistered")
        redis_server.raw.zadd(queue_key(redis_server, "unregistered"), {each.id: time.time() * 1_000})

    worker = queue_worker(children)

    assert "Requeued 1 task of queue default whose names are registered now." in worker.output
    assert result.get(60) == "unregistered"
    unknown.refresh()
    assert unknown.state == "unregistered"


def test_poller_recovers_tasks_until_it_is_stopped(redis_server: Store, children: Children, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=0.5)
    result = note.enqueue("lost")
    new_fetcher(worker="dead").fetch("0", 1)
    end_lease(redis_server, result.id)
    child = children.manage("runpoller", anew=True)
    line = child.wait_for(": started with 0 schedules.")
    name = line.split(": started")[0].removeprefix("Poller ")
    eventually(lambda: redis_server.raw.get(base_key(redis_server, "poller")) == name.encode())

    child.wait_for(f"Task {result.id} (queue default) has lost its worker: returned to its queue.")
    assert redis_server.raw.lrange(queue_key(redis_server, "requeued"), 0, -1) == [result.id.encode()]
    child.terminate()

    assert child.wait() == 0
    assert redis_server.raw.exists(base_key(redis_server, "poller")) == 0


def test_killed_poller_is_replaced_by_a_standby(redis_server: Store, children: Children) -> None:
    first = children.manage("runpoller")
    first.wait_for("is active.")
    second = children.manage("runpoller")
    second.wait_for(": started with")

    first.kill()
    redis_server.raw.pexpire(base_key(redis_server, "poller"), 50)
    redis_server.raw.zadd(base_key(redis_server, "wakeup", "poller"), {"1": 0})

    second.wait_for("is active.")


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, logging.ERROR), (1, logging.INFO), (2, logging.DEBUG), (3, logging.DEBUG)]
)
def test_verbosity_sets_the_log_level(logger: logging.Logger, verbosity: int, level: int) -> None:
    logger.handlers.clear()  # pytest's own

    logs.show_logs(logger.name, verbosity)

    assert logger.level == level
    [handler] = logger.handlers
    assert isinstance(handler, logging.StreamHandler)
    assert handler.stream is sys.stderr


def test_logging_configured_by_the_site_is_unchanged(logger: logging.Logger) -> None:
    mine = logging.NullHandler()
    logger.handlers[:] = [mine]

    logs.show_logs(logger.name, 2)

    assert (logger.handlers, logger.level) == ([mine], logging.NOTSET)


def test_worker_lists_the_tasks_of_the_site(redis_server: Store, children: Children) -> None:
    worker = queue_worker(children)

    line = worker.wait_for("Queue default: ")
    assert " tasks: tests.taskqueue.tasks." in line
    assert ", and " in line, "a long list is cut"
