"""Fenced rows on PostgreSQL, where writers meet: an UPDATE that waited for another one looks at its condition again."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connections, models, transaction
from django.test.utils import isolate_apps

from django_redis_components.locks import FencedModel, Lock, StaleFence, afenced_update, fenced_update
from tests.support import Store, eventually, run_together
from tests.support.postgres import Postgres

pytestmark = pytest.mark.integration

PG = "fenced_postgres"

with isolate_apps("tests.locks"):

    class Balance(FencedModel):
        """A row of a site."""

        amount = models.IntegerField(default=0)

        class Meta:
            app_label = "locks"

        def __str__(self) -> str:
            return str(self.amount)


@pytest.fixture(scope="module")
def postgres(django_db_blocker: Any) -> Iterator[Postgres]:
    """A server of this module, known to Django under an alias that no other test has."""
    server = Postgres()
    server.start()
    entry = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": "127.0.0.1"}
    connections.settings[PG] = {**connections.settings["default"], **entry, "PORT": str(server.port), "OPTIONS": {}}
    with django_db_blocker.unblock():
        yield server
    connections[PG].close()
    del connections[PG], connections.settings[PG]
    server.close()


@pytest.fixture(autouse=True)
def row(postgres: Postgres) -> Iterator[models.QuerySet[Balance]]:
    """One row in a separate table."""
    with connections[PG].schema_editor() as editor:
        editor.create_model(Balance)
    yield Balance.objects.using(PG).filter(pk=Balance.objects.using(PG).create(amount=10).pk)
    with connections[PG].schema_editor() as editor:
        editor.delete_model(Balance)


class AnotherWriter:
    """A thread that writes, and has come to a wait in the database when this returns."""

    def __init__(self, write: Callable[[], object]) -> None:
        self._write = write
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        eventually(waits_for_a_row)

    def end(self) -> Exception | None:
        """Wait until the thread has ended, and return its error."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._error

    def _work(self) -> None:
        try:
            self._write()
        except Exception as exc:  # noqa: BLE001 - looked at by the test
            self._error = exc
        finally:
            connections[PG].close()


def waits_for_a_row() -> bool:
    """Asked of pg_locks: pg_stat_activity stays as it was at the first look of a transaction."""
    with connections[PG].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def test_stale_writer_that_waited_for_a_newer_one_is_refused(row: models.QuerySet[Balance]) -> None:
    with transaction.atomic(using=PG):
        fenced_update(row, 8, amount=30)
        writer = AnotherWriter(lambda: fenced_update(row.all(), 7, amount=20))

    assert str(writer.end()) == "Balance not written under fence 7: a later holder has written it under 8."
    assert list(row.values_list("amount", "fence")) == [(30, 8)]


def test_waiting_writer_succeeds_when_the_newer_one_is_rolled_back(row: models.QuerySet[Balance]) -> None:
    with contextlib.suppress(ZeroDivisionError), transaction.atomic(using=PG):
        fenced_update(row, 8, amount=30)
        writer = AnotherWriter(lambda: fenced_update(row.all(), 7, amount=20))
        raise ZeroDivisionError

    assert writer.end() is None
    assert list(row.values_list("amount", "fence")) == [(20, 7)]


def test_stale_writer_in_repeatable_read_fails_and_writes_nothing(row: models.QuerySet[Balance]) -> None:
    def late() -> None:
        with transaction.atomic(using=PG):
            with connections[PG].cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            fenced_update(row.all(), 7, amount=20)

    with transaction.atomic(using=PG):
        fenced_update(row, 8, amount=30)
        writer = AnotherWriter(late)

    error = writer.end()
    assert isinstance(error, OperationalError)
    assert "could not serialize access" in str(error)
    assert list(row.values_list("amount", "fence")) == [(30, 8)]


def test_claim_waits_for_an_open_transaction_and_reads_its_values(
    row: models.QuerySet[Balance],
) -> None:
    claimed = row.get()

    with transaction.atomic(using=PG):
        fenced_update(row, 7, amount=models.F("amount") + 5)
        writer = AnotherWriter(lambda: claimed.claim(8))

    assert writer.end() is None
    assert (claimed.amount, claimed.fence) == (15, 8)
    with pytest.raises(StaleFence):
        fenced_update(row, 7, amount=0)


def test_no_token_is_written_after_a_later_one_in_any_order(row: models.QuerySet[Balance]) -> None:
    numbers = list(range(1, 201))
    random.Random(7).shuffle(numbers)

    def write(thread: int) -> None:
        for number in numbers[thread::8]:
            with contextlib.suppress(StaleFence):
                fenced_update(row.all(), number, amount=number)
            amount, fence = row.values_list("amount", "fence").get()
            assert amount == fence >= number
        connections[PG].close()

    run_together(8, write)

    assert row.get().fence == 200


def test_async_twins_accept_the_fencing_tokens_of_a_lock(redis_server: Store, row: models.QuerySet[Balance]) -> None:
    """The numbers are microseconds since 1970: the column must hold them."""
    with Lock("balance") as held:
        assert async_to_sync(afenced_update)(row, held.fencing_token, amount=20) == 1
        number = held.fencing_token

    assert list(row.values_list("amount", "fence")) == [(20, number)]
    with pytest.raises(StaleFence):
        async_to_sync(afenced_update)(row, number - 1, amount=0)
