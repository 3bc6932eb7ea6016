"""`BoundedClient` rejects writes and unbounded reads, and counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import ResponseError

from django_redis_components.analytics import SignIns, UniqueVisitors
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Call, Command, Read, Wait
from django_redis_components.dashboard.bounded_client import (
    MAX_COMMANDS,
    BoundedClient,
    Cost,
    UnboundedRead,
    ensure_bounded,
)
from django_redis_components.dashboard.overview.snapshot import read_overview_snapshot
from django_redis_components.taskqueue.store.scripts import MAINTAIN
from tests.dashboard.support import dump, write_poller, write_queue, write_worker
from tests.support import Store


@pytest.mark.parametrize(
    "request_",
    [
        Command("SET", "k", "v"),
        Command("DEL", "k"),
        Command("HGETALL", "k"),
        Command("LRANGE", "k", 0, -1),
        Command("ZRANGE", "k", 0, -1),
        Command("ZREVRANGE", "k", 0, "-1", "WITHSCORES"),
        Command("SCAN", 0),
        Call(MAINTAIN, ("k",), ()),
    ],
    ids=lambda request: str(request.command_args()[0]),
)
def test_writes_and_unbounded_reads_are_rejected(request_: Command) -> None:
    with pytest.raises(UnboundedRead, match=r"^A page must not send .*: it is not on the list of bounded reads\.$"):
        ensure_bounded(request_)


def test_blocking_is_rejected(redis_server: Store) -> None:
    client = BoundedClient(connections.client(), Cost())

    with pytest.raises(UnboundedRead):
        Wait("wakeup", 1.0).perform(client)


def test_single_requests_are_counted_and_raise_errors(redis_server: Store) -> None:
    cost = Cost()
    client = BoundedClient(connections.client(), cost)
    redis_server.raw.set(f"{redis_server.prefix}:text", "x")

    assert Read("GET", f"{redis_server.prefix}:text").perform(client) == b"x"
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        Read("LLEN", f"{redis_server.prefix}:text").perform(client)
    assert (cost.commands, cost.round_trips) == (2, 2)
    assert cost.seconds > 0


def test_overview_with_many_queues_stays_within_the_limits(store: Store) -> None:
    for number in range(20):
        write_queue(store, f"queue-{number}", ready=2, scheduled=2, running=1, failed=1, unregistered=1)
    for number in range(250):
        write_worker(store, f"host-{number}:a")
    write_poller(store)

    snapshot = read_overview_snapshot()

    assert snapshot.errors == {}
    assert len(snapshot.queues.workers) == 200
    assert snapshot.cost.commands <= MAX_COMMANDS
    assert snapshot.cost.round_trips == 2


def test_analytics_on_another_connection_takes_a_third_round_trip(redis_server: Store, settings) -> None:
    connections_ = settings.REDIS_COMPONENTS["CONNECTIONS"]
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "CONNECTIONS": {**connections_, "counts": connections_["default"]},
        "ANALYTICS": {"USING": "counts"},
    }
    write_worker(redis_server, "here:a")

    assert read_overview_snapshot().cost.round_trips == 3


def test_reported_commands_match_monitor(redis_server: Store) -> None:
    write_queue(redis_server, "mail", ready=3)
    write_worker(redis_server, "here:a")
    read_overview_snapshot()  # the script is known to the server, and the connection is open

    with redis_server.raw.monitor() as monitor:
        snapshot = read_overview_snapshot()
        redis_server.raw.echo("that was all")
        seen = list(commands_until("that was all", monitor, redis_server.prefix))

    assert len(seen) == snapshot.cost.commands
    assert set(seen) == {"EVALSHA_RO", "ZREVRANGE", "GET", "INFO", "MGET", "HMGET", "ZCARD", "PFCOUNT", "BITCOUNT"}


def commands_until(end: str, monitor: Any, prefix: str) -> Iterator[str]:
    """Names of the commands that clients send: those with a key of this test, and INFO, which has none."""
    for line in monitor.listen():
        command = line["command"]
        if end in command:
            return
        if line["client_type"] != "lua" and (prefix in command or command.startswith("INFO")):
            yield command.split()[0]


def test_viewing_changes_no_key(store: Store, client, admin_user) -> None:
    fill(store)
    client.force_login(admin_user)
    url = "/admin/django_redis_components/overview/"
    client.get(url)  # PFCOUNT keeps its result within the HyperLogLog, once
    before = dump(store)

    for query in ("", "?format=json", "?format=fragment"):
        assert client.get(url + query).status_code == 200

    assert len(before) > 8
    assert dump(store) == before


def test_read_only_acl_user_is_sufficient(redis_server: Store, settings, client, admin_user) -> None:
    fill(redis_server)
    name = f"reader-{redis_server.prefix}"
    rights = ["+@read", "-@dangerous", "+info", "+time", "+evalsha_ro", "+eval_ro"]
    redis_server.raw.execute_command("ACL", "SETUSER", name, "on", ">secret", "~*", *rights)
    url = re.sub("//", f"//{name}:secret@", redis_server.url, count=1)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    try:
        client.force_login(admin_user)
        figures = client.get("/admin/django_redis_components/overview/?format=json").json()
    finally:
        redis_server.raw.execute_command("ACL", "DELUSER", name)

    assert figures["errors"] == {}
    assert (figures["queues"][0]["ready"], figures["sign_ins"]["today"]) == (3, 1)


def fill(store: Store) -> None:
    write_queue(store, "mail", ready=3, scheduled=2, failed=1)
    write_worker(store, "here:a")
    write_poller(store)
    UniqueVisitors("default").add("a", "b")
    SignIns("default").sign_in(7)
