"""`enqueue_on_commit` with the outbox: what is stored, what is sent after the commit, and what the caller sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import Error as DatabaseError
from django.db import connection, transaction
from django.db.utils import ConnectionHandler
from django.test import TestCase

from django_redis_components.contrib.outbox import relay as relay_module
from django_redis_components.contrib.outbox import storage
from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.contrib.outbox.relay import Relay
from django_redis_components.contrib.outbox.storage import DatabaseOutbox
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.taskqueue import InvalidTask, TaskResult, Unique, chain, group, outbox
from django_redis_components.taskqueue.exceptions import TaskIdConflict
from django_redis_components.taskqueue.task import Task
from django_redis_components.testing import captured
from tests.contrib.outbox.support import nothing_is_sent, ready, relay_once, row_count, tokens, use_outbox
from tests.support import Store, run_async
from tests.support.pools import aclose_pools
from tests.taskqueue.support import base_key, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, note, recorded

pytestmark = pytest.mark.integration


def on_commit(**options: Any) -> TaskResult:
    return add.using(**options).enqueue_on_commit(2, 3)


def by_setting(**options: Any) -> TaskResult:
    return add.using(**options).enqueue(2, 3)


def many(**options: Any) -> TaskResult:
    return add.using(**options).enqueue_many([((2, 3), {})])[0]


def flow(**options: Any) -> TaskResult:
    return chain(add.using(**options).s(2, 3)).enqueue_on_commit().results[0]


def twin(**options: Any) -> TaskResult:
    """Its transaction is that of this thread."""

    async def send() -> TaskResult:
        try:
            return await add.using(**options).aenqueue_on_commit(2, 3)
        finally:
            await aclose_pools()

    return run_async(send)


WAYS = pytest.mark.parametrize("send", [on_commit, by_setting, many, flow])


def enqueue_and_roll_back(*args: int) -> None:
    with transaction.atomic():
        add.enqueue_on_commit(*args)
        transaction.set_rollback(True)


@WAYS
def test_row_is_stored_with_the_transaction_and_its_task_sent_after_the_commit(
    redis_server: Store, table: None, settings: Any, send: Callable[[], TaskResult]
) -> None:
    use_outbox(settings, ENQUEUE_ON_COMMIT=True)

    with transaction.atomic():
        result = send()
        assert (row_count(), ready()) == (1, 0)
        assert result.enqueued_at is None

    assert ready() == 1
    assert result.enqueued_at is not None
    assert [job.id for job in work_off()] == [result.id]


@WAYS
def test_rollback_leaves_neither_row_nor_task(
    redis_server: Store, table: None, settings: Any, send: Callable[[], TaskResult]
) -> None:
    use_outbox(settings, ENQUEUE_ON_COMMIT=True)

    with transaction.atomic():
        send()
        transaction.set_rollback(True)

    assert (row_count(), ready(), tokens(redis_server)) == (0, 0, [])


def test_sealed_arguments_are_sealed_in_the_row(redis_server: Store, table: None, settings: Any) -> None:
    fernet = pytest.importorskip("cryptography.fernet")
    use_outbox(settings, SEAL_KEYS=[fernet.Fernet.generate_key().decode()])

    with transaction.atomic():
        results = [add.using(sealed=True).enqueue_on_commit(a=7_654_321, b=3)]
        results += chain(add.using(sealed=True).si(7_654_321, 3)).enqueue_on_commit().results
        rows = [bytes(row.message) for row in OutboxEntry._base_manager.all()]
        assert len(rows) == 2
        assert not any(b"7654321" in row for row in rows)

    assert [result.args or result.kwargs for result in results] == [{"a": 7_654_321, "b": 3}, [7_654_321, 3]]


def test_savepoint_that_is_rolled_back_takes_its_row_along(redis_server: Store, table: None) -> None:
    with transaction.atomic():
        note.enqueue_on_commit("first")
        enqueue_and_roll_back(1, 1)
        with transaction.atomic():
            note.enqueue_on_commit("second")

    assert row_count() == 2
    work_off()
    assert recorded == ["first", "second"]


@WAYS
def test_commit_succeeds_while_redis_is_away_and_the_relay_sends_the_task(
    redis_server: Store, table: None, settings: Any, send: Callable[[], TaskResult]
) -> None:
    use_outbox(settings, ENQUEUE_ON_COMMIT=True)

    with nothing_is_sent(), transaction.atomic():
        result = send()

    assert (row_count(), ready()) == (1, 0)
    assert result.enqueued_at is None
    relay_once()
    assert row_count() == 0
    work_off()
    result.refresh()
    assert result.return_value == 5


def test_relay_deletes_the_rows_of_tasks_that_were_sent(redis_server: Store, table: None) -> None:
    with transaction.atomic():
        result = on_commit()

    relay_once()

    assert (row_count(), ready()) == (0, 1)
    assert tokens(redis_server) == [result.id]


@pytest.mark.parametrize("is_sent", [True, False], ids=["after the commit", "by the relay"])
def test_tasks_of_a_transaction_are_accepted_in_the_order_of_the_calls(
    redis_server: Store, table: None, is_sent: bool
) -> None:
    if is_sent:
        _enqueue_notes()
    else:
        with nothing_is_sent():
            _enqueue_notes()
        relay_once()

    work_off()

    assert recorded == [0, "flow", 1, "own id", 2]


def _enqueue_notes() -> None:
    with transaction.atomic():
        note.enqueue_on_commit(0)
        chain(note.s("flow")).enqueue_on_commit()
        note.enqueue_on_commit(1)
        note.using(id="own").enqueue_on_commit("own id")
        note.enqueue_on_commit(2)


def test_tasks_of_a_transaction_are_sent_in_one_call(redis_server: Store, table: None) -> None:
    def scripts_run() -> int:
        stats = redis_server.raw.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))

    on_commit()  # loads the script
    before = scripts_run()

    with transaction.atomic():
        for _ in range(20):
            on_commit()

    assert scripts_run() == before + 1
    assert ready() == 21


def test_without_a_transaction_the_row_is_stored_first_and_an_outage_raises_nothing(
    redis_server: Store, table: None
) -> None:
    with nothing_is_sent():
        on_commit()
    assert (row_count(), ready()) == (1, 0)

    assert on_commit().enqueued_at is not None
    assert ready() == 1


def test_transaction_that_django_does_not_manage_is_left_to_the_relay(redis_server: Store, table: None) -> None:
    connection.set_autocommit(False)
    try:
        on_commit()
        assert ready() == 0
        connection.commit()
    finally:
        connection.rollback()
        connection.set_autocommit(True)

    relay_once()
    assert ready() == 1


def test_task_of_a_slow_transaction_is_left_to_the_relay(
    redis_server: Store, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row may have been sent and its token removed: the process must not send it after so long a time."""
    monkeypatch.setattr(outbox, "DIRECT_S", -1.0)

    with transaction.atomic():
        on_commit()

    assert ready() == 0
    relay_once()
    assert ready() == 1


@pytest.mark.parametrize("end", ["commit", "rollback", "none"])
def test_async_twin_stores_the_row_in_the_transaction_of_the_database_thread(
    redis_server: Store, table: None, end: str
) -> None:
    async def act() -> None:
        atomic = transaction.atomic()
        if end == "none":
            await add.aenqueue_on_commit(2, 3)
            return
        await sync_to_async(atomic.__enter__)()
        await add.aenqueue_on_commit(2, 3)
        assert await sync_to_async(ready)() == 0
        error = (LookupError, LookupError(), None) if end == "rollback" else (None, None, None)
        await sync_to_async(atomic.__exit__)(*error)

    run_async(act)

    expected = 0 if end == "rollback" else 1
    assert (row_count(), ready()) == (expected, expected)


def test_async_flow_is_stored(redis_server: Store, table: None) -> None:
    async def act() -> None:
        await group(add.s(1, 1), add.s(2, 2)).aenqueue_on_commit()

    with nothing_is_sent():
        run_async(act)
    relay_once()

    assert ready() == 2


def test_option_of_a_task_takes_precedence_over_the_setting(redis_server: Store, table: None, settings: Any) -> None:
    on_commit(outbox=False)
    assert row_count() == 0

    taskqueue_settings(settings)
    on_commit()
    assert row_count() == 0
    on_commit(outbox=True)
    assert row_count() == 1


def test_enqueue_uses_no_outbox(redis_server: Store, table: None) -> None:
    by_setting()
    many()
    chain(add.s(1, 1)).enqueue()

    assert row_count() == 0
    assert tokens(redis_server) == []


def test_call_with_an_id_that_was_accepted_before_returns_that_task(redis_server: Store, table: None) -> None:
    first = on_commit(id="pay-1")
    work_off()

    again = on_commit(id="pay-1")

    assert again.is_duplicate
    assert again.enqueued_at == first.enqueued_at
    relay_once()
    assert (row_count(), ready()) == (0, 0)


def test_id_of_another_call_raises_after_the_commit(redis_server: Store, table: None) -> None:
    on_commit(id="pay-1")

    with pytest.raises(TaskIdConflict):
        note.using(id="pay-1").enqueue_on_commit("other")

    relay_once()
    assert (row_count(), ready()) == (0, 1)


def test_unique_task_that_waits_already_is_not_sent_again(redis_server: Store, table: None) -> None:
    first = on_commit(unique=True)
    second = on_commit(unique=True)

    assert second.is_duplicate
    assert second.id == first.id
    relay_once()
    assert (row_count(), ready()) == (0, 1)


@pytest.mark.parametrize("is_sent", [True, False], ids=["after the commit", "by the relay"])
def test_call_that_replaces_another_changes_its_task_once(redis_server: Store, table: None, is_sent: bool) -> None:
    latest = note.using(unique=Unique(until="started", key=lambda _: "latest", on_conflict="replace"))

    with nullcontext() if is_sent else nothing_is_sent(), transaction.atomic():
        for word in ("first", "second", "last"):
            latest.enqueue_on_commit(word)
    relay_once()
    relay_once()
    work_off()

    assert (recorded, row_count(), ready()) == (["last"], 0, 0)


def test_task_without_an_installed_app_raises(redis_server: Store, settings: Any) -> None:
    use_outbox(settings)

    with pytest.raises(InvalidTask) as caught:
        on_commit()

    assert str(caught.value) == (
        'The outbox is not installed: add "django_redis_components.contrib.outbox" to INSTALLED_APPS and run'
        ' "manage.py migrate".'
    )


def test_task_of_an_unknown_connection_is_not_stored(redis_server: Store, table: None) -> None:
    lost: Any = Task(func=add.func, name=add.name, declared_options=add.options, connection="lost")

    with pytest.raises(ConfigurationError, match="has no 'lost'"):
        lost.enqueue_on_commit(1, 1)
    assert row_count() == 0


def test_option_outbox_must_be_a_boolean() -> None:
    with pytest.raises(InvalidTask, match=r"^outbox='yes': expected True or False\.$"):
        add.using(outbox="yes")  # type: ignore[typeddict-item]


def test_tests_of_a_site_capture_tasks_of_the_outbox(table: None) -> None:
    with captured() as sent, transaction.atomic():
        with TestCase.captureOnCommitCallbacks(execute=True):
            on_commit()
            on_commit(id="own")
            flow()
        assert row_count() == 3
        transaction.set_rollback(True)  # as a TestCase does

    sent.assert_enqueued(add, args=[2, 3], count=3)


@pytest.fixture
def shop(
    monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any, tmp_path: Path, installed: None, settings: Any
) -> Iterator[None]:
    """The site has the databases "default" and "shop", both with the table, and "legacy" without it."""
    use_outbox(settings)
    names = ("default", "shop", "legacy")
    site = ConnectionHandler(
        {name: {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / name} for name in names}
    )
    for place in (
        "django.db.transaction.connections",
        "django.db.models.query.connections",
        "django.db.models.sql.query.connections",
        "django.db.models.sql.compiler.connections",
        "django_redis_components.taskqueue.on_commit.connections",
        "django_redis_components.contrib.outbox.storage.connections",
        "django_redis_components.contrib.outbox.relay.databases",
    ):
        monkeypatch.setattr(place, site, raising=False)
    with django_db_blocker.unblock():
        for name in ("default", "shop"):
            with site[name].schema_editor() as editor:
                editor.create_model(OutboxEntry)
        yield
    site.close_all()


def test_row_is_stored_in_the_database_whose_commit_is_awaited(redis_server: Store, shop: None) -> None:
    with nothing_is_sent():
        with transaction.atomic("shop"):
            on_commit()
        with transaction.atomic(), transaction.atomic("shop"):
            on_commit(database="shop")
        on_commit()
    assert (row_count("default"), row_count("shop")) == (1, 2)

    relay_once()

    assert (row_count("default"), row_count("shop"), ready()) == (0, 0, 3)


def test_database_that_fails_does_not_stop_the_others(
    redis_server: Store, shop: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with nothing_is_sent():
        on_commit()
        on_commit(database="shop")
    relay = Relay("default")
    relay.step()
    with nothing_is_sent():
        on_commit()
        on_commit(database="shop")
    with transaction.get_connection("default").cursor() as cursor:
        cursor.execute("ALTER TABLE django_redis_components_outbox RENAME TO gone")

    relay.step()

    assert (row_count("shop"), ready()) == (0, 3)
    assert "Outbox relay: database 'default': no such table: django_redis_components_outbox; retrying." in caplog.text
    with transaction.get_connection("default").cursor() as cursor:
        cursor.execute("ALTER TABLE gone RENAME TO django_redis_components_outbox")
    relay.step()
    relay.release()
    assert (row_count("default"), ready()) == (0, 4)


@pytest.mark.parametrize("in_transaction", [True, False])
def test_calls_of_enqueue_many_are_stored_together(
    redis_server: Store, table: None, settings: Any, in_transaction: bool
) -> None:
    use_outbox(settings, ENQUEUE_ON_COMMIT=True)

    with nothing_is_sent(), transaction.atomic() if in_transaction else nullcontext():
        note.enqueue_many([((number,), {}) for number in range(3)])

    assert (row_count(), ready()) == (3, 0)
    relay_once()
    work_off()
    assert recorded == [0, 1, 2]


def test_tokens_stay_while_a_database_cannot_be_asked(
    redis_server: Store, shop: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "PRUNE_S", 0.0)
    redis_server.raw.zadd(base_key(redis_server, "outbox"), {"of shop": 1})

    def fail(database: str, _tokens: object) -> list[str]:
        if database == "shop":
            raise DatabaseError("the connection is closed")
        return []

    with monkeypatch.context() as patch:
        patch.setattr(storage, "find_tokens", fail)
        relay_once()
    assert tokens(redis_server) == ["of shop"]

    relay_once()
    assert tokens(redis_server) == []


def test_storage_stores_nothing_for_no_tasks(redis_server: Store, table: None, settings: Any) -> None:
    use_outbox(settings, ENQUEUE_ON_COMMIT=True)

    assert add.enqueue_many([]) == []
    DatabaseOutbox().add([], "default", "default")
    assert row_count() == 0
