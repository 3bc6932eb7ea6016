"""The relay: what it sends, what it deletes, and that nothing it does runs a task twice."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from django_redis_components.contrib.outbox import relay as relay_module
from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.contrib.outbox.relay import Relay, relaying
from django_redis_components.core.client import connections
from django_redis_components.locks import Lock, force_release
from django_redis_components.taskqueue import chain, failpoints, get_flow, get_result, outbox
from tests.contrib.outbox.support import nothing_is_sent, ready, relay_once, row_count, tokens
from tests.support import Store, eventually
from tests.taskqueue.support import base_key, queue_key, server_ms, work_off, work_until_finished
from tests.taskqueue.tasks import add, echo, fail, note, recorded

pytestmark = pytest.mark.integration


def entry(token: str = "t", *, message: bytes | None = None, **fields: Any) -> OutboxEntry:
    """Store a row as an older or newer version of the package would."""
    arguments = [token, "default", "", 0, "", "", "n", note.name, "b", json.dumps([[token], {}])]
    body = json.dumps({"task": arguments}).encode() if message is None else message
    values = {"using": "default", "token": token, "format": 1, "message": body, "size": len(body)} | fields
    return OutboxEntry._base_manager.create(**values)


def age_tokens(store: Store, seconds: float) -> None:
    """Make all tokens as old as if their tasks had been accepted earlier."""
    for token in tokens(store):
        store.raw.zincrby(base_key(store, "outbox"), -seconds * 1_000_000, token)


@pytest.mark.contract
def test_options_of_a_call_survive_the_outage(store: Store, table: None) -> None:
    due = timezone.now() + timedelta(hours=1)
    with nothing_is_sent(), transaction.atomic():
        late = echo.using(run_after=due, queue_name="mail", metadata={"order": 7}).enqueue_on_commit("ä", x=[1, None])
        expiring = add.using(expires=due, priority=5).enqueue_on_commit(1, 2)
        limited = fail.using(concurrency=1, max_attempts=3, max_deliveries=7).enqueue_on_commit("x")
        unique = add.using(unique=True).enqueue_on_commit(3, 4)

    relay_once()

    late.refresh()
    assert (late.state, late.queue_name, late.metadata) == ("scheduled", "mail", {"order": 7})
    assert (late.args, late.kwargs) == (["ä"], {"x": [1, None]})
    assert late.run_after is not None
    assert abs(late.run_after - due) < timedelta(milliseconds=2)
    expiring.refresh()
    assert expiring.expires_at is not None
    assert abs(expiring.expires_at - due) < timedelta(milliseconds=2)
    assert store.raw.zcard(queue_key(store, "priority")) == 1
    fields = store.raw.hgetall(base_key(store, "t", limited.id))
    assert fields[b"D"] == b"7"
    assert b"C" in fields
    assert add.using(unique=True).enqueue(3, 4).id == unique.id


@pytest.mark.contract
def test_flow_survives_the_outage(store: Store, table: None) -> None:
    with nothing_is_sent(), transaction.atomic():
        flow = chain(add.s(1, 2), add.s(10)).enqueue_on_commit()

    relay_once()

    work_until_finished(*get_flow(flow.id).results)
    assert get_flow(flow.id).results[-1].return_value == 13
    assert tokens(store) == [flow.id]


def test_task_whose_record_is_gone_does_not_run_again(redis_server: Store, table: None) -> None:
    """The process died before its row was deleted, and the record of the task has expired since."""
    with transaction.atomic():
        result = note.using(id="own").enqueue_on_commit("own id")
        plain = note.enqueue_on_commit("plain")
    work_off()
    redis_server.raw.delete(base_key(redis_server, "t", result.id), base_key(redis_server, "t", plain.id))

    relay_once()

    assert (row_count(), ready()) == (0, 0)
    assert recorded == ["own id", "plain"]


def test_flow_whose_records_are_gone_does_not_run_again(redis_server: Store, table: None) -> None:
    flow = chain(note.s("flow")).enqueue_on_commit()
    work_off()
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id), base_key(redis_server, "t", flow.results[0].id))

    # Another process sends the row, as a relay that was stopped before it sent it would.
    rows = [outbox.OutboxRow(each.token, bytes(each.message)) for each in OutboxEntry._base_manager.all()]
    for _, _, calls in outbox.calls_of("default", rows):
        assert all(connections.client().execute(call) > 0 for call in calls)
    relay_once()

    assert (row_count(), ready()) == (0, 0)
    assert recorded == ["flow"]


def test_task_that_the_relay_sends_first_is_accepted_once(
    redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that committed is slow: its task has run, and its record and row are gone when it sends it."""

    def overtake(name: str) -> None:
        if name == "after_commit":
            relay_once()
            for job in work_off():
                redis_server.raw.delete(base_key(redis_server, "t", job.id))

    monkeypatch.setattr(failpoints, "hook", overtake)

    with transaction.atomic():
        result = note.enqueue_on_commit("once")

    assert (row_count(), ready()) == (0, 0)
    assert recorded == ["once"]
    assert result.enqueued_at is not None


@pytest.mark.contract
def test_relay_that_dies_before_the_rows_are_deleted_sends_nothing_again(
    store: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(name: str) -> None:
        if name == "after_relay":
            raise SystemExit

    with nothing_is_sent():
        note.enqueue_on_commit("once")
    monkeypatch.setattr(failpoints, "hook", die)
    with pytest.raises(SystemExit):
        relay_once()
    monkeypatch.setattr(failpoints, "hook", None)
    assert row_count() == 1
    for job in work_off():
        store.raw.delete(base_key(store, "t", job.id))

    relay_once()

    assert (row_count(), ready()) == (0, 0)
    assert recorded == ["once"]


@pytest.mark.contract
def test_token_is_kept_while_its_row_exists_and_some_minutes_longer(
    store: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "PRUNE_S", 0.0)
    entry("another connection's", using="other")
    store.raw.zadd(base_key(store, "outbox"), {"another connection's": 1})
    with transaction.atomic():
        add.enqueue_on_commit(1, 1)
        add.enqueue_on_commit(2, 2)
    relay_once()
    assert len(tokens(store)) == 3

    age_tokens(store, outbox.KEEP_S + 2)
    relay_once()

    assert tokens(store) == ["another connection's"]


@pytest.mark.contract
def test_tokens_are_removed_in_batches(store: Store, table: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "PRUNE_S", 0.0)
    monkeypatch.setattr(relay_module, "BATCH", 2)
    entry("0", using="other")
    store.raw.zadd(base_key(store, "outbox"), {str(number): 1 for number in range(7)})
    store.raw.zadd(base_key(store, "outbox"), {"new": server_ms(store) * 1_000})

    relay_once()

    assert tokens(store) == ["0", "new"]


def test_rows_are_sent_in_batches(redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "BATCH", 2)
    monkeypatch.setattr(relay_module, "CHUNK_BYTES", 150)
    with nothing_is_sent(), transaction.atomic():
        for number in range(7):
            note.enqueue_on_commit(number)

    relay_once()

    work_off()
    assert recorded == list(range(7))
    assert row_count() == 0


def test_row_of_an_older_version_is_sent_and_one_of_a_newer_version_is_left(redis_server: Store, table: None) -> None:
    """This is format 1 as it is stored: a change of what is written must keep what is read."""
    old = b'{"task":["old","default","",0,"","","n","tests.taskqueue.tasks.note","b","[[\\"old\\"],{}]"]}'
    entry("old", message=old)
    entry("new", format=outbox.FORMAT + 1)

    relay_once()

    assert row_count() == 1
    work_off()
    assert recorded == ["old"]


def test_damaged_row_stays_and_stops_no_other(
    redis_server: Store, table: None, caplog: pytest.LogCaptureFixture
) -> None:
    redis_server.raw.set(queue_key(redis_server, "priority", "broken"), "not a zset")
    entry("first")
    for token, message in {"no json": b"{", "no kind": b'{"other":[]}', "no arguments": b'{"task":[]}'}.items():
        entry(token, message=message)
    entry("refused", message=b'{"task":["refused","broken","",5,"","","n","x","b","[[],{}]"]}')
    entry("last")

    relay_once()

    work_off()
    assert recorded == ["first", "last"]
    assert "Outbox relay: row 'no json' cannot be sent" in caplog.text
    assert row_count() == 4
    redis_server.raw.delete(queue_key(redis_server, "priority", "broken"))
    relay_once()
    assert row_count() == 3
    assert redis_server.raw.zrange(queue_key(redis_server, "priority", "broken"), 0, -1) == [b"refused"]


def test_relay_continues_when_redis_is_back(own_server: Store, table: None) -> None:
    relay = Relay("default")
    relay.step()
    own_server.servers[0].stop()
    connection.ensure_connection()
    with transaction.atomic():
        for number in range(3):
            note.enqueue_on_commit(number)
    assert relay.step() == relay_module.RETRY_S
    assert row_count() == 3

    own_server.servers[0].start()
    eventually(lambda: (relay.step(), row_count() == 0)[1])

    relay.release()
    work_off()
    assert recorded == [0, 1, 2]


def test_one_relay_is_active_by_lease(redis_server: Store, table: None) -> None:
    first, second = Relay("default"), Relay("default")

    assert first.step() == relay_module.IDLE_S
    assert second.step() == relay_module.STANDBY_S
    assert (first.is_active, second.is_active) == (True, False)
    first.release()
    second.step()

    assert second.is_active
    second.release()


def test_relay_that_lost_its_lease_sends_nothing(
    redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "RENEW_S", 0.0)
    relay = Relay("default")
    relay.step()
    force_release("outbox:default")
    with nothing_is_sent():
        add.enqueue_on_commit(1, 1)

    assert relay.step() == relay_module.LOST_S
    assert (row_count(), ready()) == (1, 0)
    assert not relay.is_active


def test_thread_relays_until_it_is_stopped(redis_server: Store, table: None) -> None:
    with nothing_is_sent():
        result = add.enqueue_on_commit(1, 1)

    with relaying("default"):
        eventually(lambda: row_count() == 0)
        eventually(lambda: Lock("outbox:default").locked())

    assert get_result(result.id).args == [1, 1]
    assert not Lock("outbox:default").locked()


def test_thread_survives_an_error(redis_server: Store, table: None, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[float] = []

    class Broken(Relay):
        def step(self) -> float:
            calls.append(time.monotonic())
            if len(calls) == 1:
                raise LookupError("a bug")
            return 0.01

    relay = Broken("default")
    relay.start()
    eventually(lambda: len(calls) > 1)
    relay.stop()

    assert "The relay of the outbox failed; retrying." in caplog.text


def test_database_without_the_table_is_asked_again_later(
    redis_server: Store, transactional_db: None, installed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "TABLE_S", 0.0)
    relay = Relay("default")
    assert relay.step() == relay_module.IDLE_S

    with connection.schema_editor() as editor:
        editor.create_model(OutboxEntry)
    try:
        entry("late")
        assert relay.step() == relay_module.BUSY_S
        assert row_count() == 0
    finally:
        relay.release()
        with connection.schema_editor() as editor:
            editor.delete_model(OutboxEntry)
