"""Fenced updates of every shape of queryset and model, against an uncommitted newer write, on SQLite and PostgreSQL."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import NotSupportedError, OperationalError, connections, models, transaction
from django.test.utils import isolate_apps

from django_redis_components.locks import FencedModel, StaleFence, afenced_update, fenced_update
from tests.support import eventually, run_together
from tests.support.postgres import Postgres

pytestmark = pytest.mark.integration

ALIAS = "fenced_querysets"

with isolate_apps("tests.locks"):

    class Owner(models.Model):
        """The owner of accounts."""

        name = models.CharField(max_length=20)

        class Meta:
            app_label = "locks"

        def __str__(self) -> str:
            return self.name

    class Account(FencedModel):
        """The model that stores the token."""

        owner = models.ForeignKey(Owner, models.CASCADE)
        status = models.CharField(max_length=20, default="open")
        balance = models.IntegerField(default=0)

        class Meta:
            app_label = "locks"

        def __str__(self) -> str:
            return str(self.balance)

    class AccountProxy(Account):
        """Another name of the same table."""

        class Meta:
            app_label = "locks"
            proxy = True

    class Entry(models.Model):
        """A row that refers to an account."""

        account = models.ForeignKey(Account, models.CASCADE, related_name="entries")

        class Meta:
            app_label = "locks"

        def __str__(self) -> str:
            return str(self.pk)

    class Savings(AccountProxy):
        """Multi-table inheritance: the token is in the parent's table."""

        rate = models.IntegerField(default=0)

        class Meta:
            app_label = "locks"

    class SavingsProxy(Savings):
        """Another name of the child."""

        class Meta:
            app_label = "locks"
            proxy = True

    class Bonus(Savings):
        """The token is in the grandparent's table."""

        bonus = models.IntegerField(default=0)

        class Meta:
            app_label = "locks"

    class Contract(models.Model):
        """A second parent, whose primary key its child has."""

        number = models.AutoField(primary_key=True)
        text = models.CharField(max_length=20, default="")

        class Meta:
            app_label = "locks"

        def __str__(self) -> str:
            return self.text

    class Joint(Contract, Account):
        """The parent with the token is not the one whose primary key this has."""

        share = models.IntegerField(default=0)

        class Meta:
            app_label = "locks"

    class FencedSavings(Contract):
        """The child has the token, its parent has a column that is written with it."""

        fence = models.BigIntegerField(default=0)

        class Meta:
            app_label = "locks"


MODELS = (Owner, Account, Entry, Savings, Bonus, Contract, Joint, FencedSavings)


class Case:
    """A queryset over the one row that there is, and the values to write."""

    def __init__(self, name: str, rows: Callable[[], models.QuerySet[Any]], *fields: str) -> None:
        self.name = name
        self.rows = lambda: rows().using(ALIAS)
        self.fields = fields

    def write(self, fence: int) -> int:
        """Write the token's number in every field."""
        return fenced_update(self.rows(), fence, **dict.fromkeys(self.fields, fence))

    def found(self) -> tuple[int, ...]:
        """Return what is stored: the token, then the fields."""
        return self.rows().model._base_manager.using(ALIAS).values_list("fence", *self.fields).get()


CASES = [
    Case("all", lambda: Account.objects.all(), "balance"),
    Case("join", lambda: Account.objects.filter(owner__name="ada"), "balance"),
    Case("join without a match", lambda: Account.objects.exclude(owner__name="bob"), "balance"),
    Case("join of many", lambda: Account.objects.filter(entries__pk__gt=0), "balance"),
    Case("join of many, distinct", lambda: Account.objects.filter(entries__pk__gt=0).distinct(), "balance"),
    Case("distinct", lambda: Account.objects.distinct(), "balance"),
    Case("ordered", lambda: Account.objects.order_by("-balance"), "balance"),
    Case("ordered by a join", lambda: Account.objects.order_by("owner__name"), "balance"),
    Case("annotated", lambda: Account.objects.annotate(double=models.F("balance") * 2), "balance"),
    Case("annotated by a join", lambda: Account.objects.annotate(who=models.F("owner__name")), "balance"),
    Case("counted", lambda: Account.objects.annotate(n=models.Count("entries")).filter(n=2), "balance"),
    Case("related", lambda: Account.objects.select_related("owner"), "balance"),
    Case("values", lambda: Account.objects.filter(owner__name="ada").values("status"), "balance"),
    Case("sub-query", lambda: Account.objects.filter(pk__in=Account.objects.filter(owner__name="ada")), "balance"),
    Case(
        "exists",
        lambda: Account.objects.filter(models.Exists(Entry.objects.filter(account=models.OuterRef("pk")))),
        "balance",
    ),
    Case("proxy", lambda: AccountProxy.objects.all(), "balance"),
    Case("proxy and join", lambda: AccountProxy.objects.filter(owner__name="ada"), "balance"),
    Case("by a child", lambda: Account.objects.filter(savings__rate__gte=0), "balance"),
    Case("inherited, own field", lambda: Savings.objects.all(), "rate"),
    Case("inherited, parent's field", lambda: Savings.objects.all(), "balance"),
    Case("inherited, both", lambda: Savings.objects.filter(owner__name="ada"), "rate", "balance"),
    Case("inherited, proxy", lambda: SavingsProxy.objects.all(), "rate", "balance"),
    Case("inherited twice", lambda: Bonus.objects.all(), "bonus", "rate", "balance"),
    Case("inherited, another primary key", lambda: Joint.objects.all(), "share", "text", "balance"),
    Case("inherited, child's token", lambda: FencedSavings.objects.all(), "text"),
]
JOIN, CHILD = CASES[1], CASES[20]


class Sqlite:
    """A database in a file: two connections are two."""

    def __init__(self, path: Path) -> None:
        self.entry = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(path), "OPTIONS": {"timeout": 60}}

    def close(self) -> None:
        """Nothing to stop."""


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.unmeasured)])
def database(request: Any, tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Iterator[str]:
    """A database of this module under an alias that no other test has."""
    server: Any
    if request.param == "sqlite":
        server = Sqlite(tmp_path_factory.mktemp("fenced") / "rows.sqlite3")
        entry = server.entry
    else:
        server = Postgres()
        server.start()
        entry = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "OPTIONS": {}}
        entry |= {"HOST": "127.0.0.1", "PORT": str(server.port)}
    connections.settings[ALIAS] = {**connections.settings["default"], **entry}
    with django_db_blocker.unblock():
        yield request.param
        connections[ALIAS].close()
    del connections[ALIAS], connections.settings[ALIAS]
    server.close()


@pytest.fixture(autouse=True)
def _tables(database: str) -> Iterator[None]:
    with connections[ALIAS].schema_editor() as editor:
        for model in MODELS:
            editor.create_model(model)
    yield
    with connections[ALIAS].schema_editor() as editor:
        for model in reversed(MODELS):
            editor.delete_model(model)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: Any) -> Case:
    """One row that the queryset finds."""
    create(request.param)
    return request.param


def create(case: Case) -> Any:
    """Return the row, under no token yet; an account with two entries."""
    model: Any = case.rows().model
    if model is FencedSavings:
        return model._base_manager.using(ALIAS).create()
    owner = Owner.objects.using(ALIAS).create(name="ada")
    stored: Any = Savings if case.name == "by a child" else model
    row = stored._base_manager.using(ALIAS).create(owner=owner)
    for _ in range(2):
        Entry.objects.using(ALIAS).create(account_id=row.id)
    return row


class AnotherWriter:
    """A thread with a separate connection. It waits in the database when the constructor returns."""

    def __init__(self, database: str, write: Callable[[], object]) -> None:
        self._write = write
        self._writes = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work)
        self._thread.start()
        # SQLite does not report waiters: here the thread is about to send the statement that will wait.
        eventually(self._writes.is_set if database == "sqlite" else waits_for_a_row)

    def end(self) -> Exception | None:
        """Wait until the thread has ended, and return its error."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._error

    def _work(self) -> None:
        try:
            with connections[ALIAS].execute_wrapper(self._look):
                self._write()
        except Exception as exc:  # noqa: BLE001 - looked at by the test
            self._error = exc
        finally:
            connections[ALIAS].close()

    def _look(self, execute: Any, sql: str, *args: Any) -> Any:
        if sql.startswith("UPDATE"):
            self._writes.set()
        return execute(sql, *args)


def waits_for_a_row() -> bool:
    """Return whether a connection waits for the transaction of another."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def text(found: tuple[Any, ...]) -> list[str]:
    """Return the same for fields of numbers and of text."""
    return [str(value) for value in found]


def test_stale_write_that_waited_for_a_newer_one_is_refused(database: str, case: Case) -> None:
    with transaction.atomic(using=ALIAS):
        assert case.write(200) == 1
        writer = AnotherWriter(database, lambda: case.write(100))

    model = case.rows().model.__name__
    assert str(writer.end()) == f"{model} not written under fence 100: a later holder has written it under 200."
    assert set(text(case.found())) == {"200"}


def test_write_that_waited_succeeds_when_the_newer_one_is_rolled_back(database: str, case: Case) -> None:
    with contextlib.suppress(ZeroDivisionError), transaction.atomic(using=ALIAS):
        case.write(200)
        writer = AnotherWriter(database, lambda: case.write(100))
        raise ZeroDivisionError

    assert writer.end() is None
    assert set(text(case.found())) == {"100"}


def test_write_is_refused_after_a_newer_one_and_succeeds_after_an_older_one(case: Case) -> None:
    assert [case.write(100), case.write(100), case.write(200)] == [1, 1, 1]

    with pytest.raises(StaleFence, match="a later holder has written it under 200"):
        case.write(199)
    assert set(text(case.found())) == {"200"}


@pytest.mark.parametrize("case", [JOIN, CHILD], ids=lambda case: case.name, indirect=True)
def test_concurrent_writes_never_succeed_after_a_newer_one(case: Case) -> None:
    fences = list(range(1, 81))
    random.Random(7).shuffle(fences)

    def write(thread: int) -> None:
        for fence in fences[thread::8]:
            with contextlib.suppress(StaleFence):
                case.write(fence)
            found = case.found()
            assert len(set(found)) == 1
            assert found[0] >= fence
        connections[ALIAS].close()

    run_together(8, write)

    assert set(case.found()) == {80}


def test_child_and_parent_models_share_the_fence(database: str) -> None:
    create(CHILD)
    parent = Case("parent", lambda: Account.objects.all(), "balance")

    with transaction.atomic(using=ALIAS):
        parent.write(200)
        writer = AnotherWriter(database, lambda: CHILD.write(100))
    assert isinstance(writer.end(), StaleFence)
    with transaction.atomic(using=ALIAS):
        CHILD.write(300)
        writer = AnotherWriter(database, lambda: parent.write(250))
    assert isinstance(writer.end(), StaleFence)

    assert CHILD.found() == (300, 300, 300)


def test_filters_are_checked_again_after_the_wait(database: str) -> None:
    create(JOIN)
    is_open = Case("open", lambda: Account.objects.filter(owner__name="ada", status="open"), "balance")

    with transaction.atomic(using=ALIAS):
        fenced_update(Account.objects.using(ALIAS), 50, status="closed")
        writer = AnotherWriter(database, lambda: is_open.write(100))

    assert str(writer.end()) == "Account not written under fence 100: there is no such row."
    assert is_open.found() == (50, 0)


@pytest.mark.parametrize("case", [JOIN, CHILD], ids=lambda case: case.name)
def test_stale_write_in_repeatable_read_fails_and_writes_nothing(database: str, case: Case) -> None:
    if database == "sqlite":
        pytest.skip("SQLite has one isolation level")
    create(case)

    def late() -> None:
        with transaction.atomic(using=ALIAS):
            with connections[ALIAS].cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            case.write(100)

    with transaction.atomic(using=ALIAS):
        case.write(200)
        writer = AnotherWriter(database, late)

    error = writer.end()
    assert isinstance(error, OperationalError)
    assert "could not serialize access" in str(error)
    assert set(case.found()) == {200}


def test_write_to_an_inherited_model_that_fails_halfway_writes_nothing() -> None:
    create(CHILD)

    def fail_at_the_parent(execute: Any, sql: str, *args: Any) -> Any:
        if sql.startswith('UPDATE "locks_account"') and '"balance"' in sql:
            raise ZeroDivisionError
        return execute(sql, *args)

    with connections[ALIAS].execute_wrapper(fail_at_the_parent), pytest.raises(ZeroDivisionError):
        CHILD.write(100)

    assert CHILD.found() == (0, 0, 0)


@pytest.mark.parametrize("case", [JOIN, CHILD], ids=lambda case: case.name)
def test_rows_with_a_later_token_are_not_written(case: Case) -> None:
    with transaction.atomic(using=ALIAS):  # otherwise each INSERT is a transaction
        rows = [create(case) for _ in range(1_100)]
    late = {row.pk for row in rows[::2]}
    Account.objects.using(ALIAS).filter(pk__in=late).update(fence=9)

    assert case.write(8) == 550

    stored = case.rows().values_list("pk", "fence", "balance")
    assert set(stored) == {(row.pk, 9, 0) if row.pk in late else (row.pk, 8, 8) for row in rows}


def test_rows_that_reference_a_locked_row_can_be_inserted() -> None:
    row = create(JOIN)

    with transaction.atomic(using=ALIAS):
        if connections[ALIAS].vendor == "sqlite":
            pytest.skip("SQLite has one lock for the whole database")
        JOIN.write(100)
        run_together(1, insert_entry, row.pk)

    assert Entry.objects.using(ALIAS).filter(account_id=row.pk).count() == 3


def insert_entry(account_id: int) -> None:
    """In another connection, that does not wait for long."""
    try:
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("SET lock_timeout = '20s'")
        Entry.objects.using(ALIAS).create(account_id=account_id)
    finally:
        connections[ALIAS].close()


@pytest.mark.parametrize("case", [JOIN, CHILD], ids=lambda case: case.name)
def test_async_twin_writes_and_refuses_by_the_same_rule(case: Case) -> None:
    create(case)

    assert async_to_sync(afenced_update)(case.rows(), 200, balance=1) == 1
    with pytest.raises(StaleFence, match="a later holder has written it under 200"):
        async_to_sync(afenced_update)(case.rows(), 100, balance=2)


def test_updates_with_joins_and_inheritance_accept_expressions_and_annotations() -> None:
    create(CHILD)
    named = Savings.objects.using(ALIAS).filter(owner__name="ada").annotate(next=models.F("rate") + 2)

    assert fenced_update(named, 7, rate=models.F("next"), balance=models.F("balance") + 3) == 1

    assert CHILD.found() == (7, 2, 3)


def test_object_of_a_child_model_is_claimed_and_written() -> None:
    row = create(CHILD)
    Account.objects.using(ALIAS).update(balance=5)

    row.claim(8)
    row.update_fenced(8, rate=3, balance=models.F("balance") + 1)

    assert (row.fence, row.rate, row.balance) == (8, 3, 6)
    assert CHILD.found() == (8, 3, 6)
    with pytest.raises(StaleFence):
        Savings.objects.using(ALIAS).get().claim(7)


def test_claim_waits_for_an_open_write_to_the_child_and_reads_its_values(database: str) -> None:
    claimed = create(CHILD)

    with transaction.atomic(using=ALIAS):
        CHILD.write(7)
        writer = AnotherWriter(database, lambda: claimed.claim(8))

    assert writer.end() is None
    assert (claimed.fence, claimed.rate, claimed.balance) == (8, 7, 7)


@pytest.mark.parametrize("model", [Account, Savings], ids=["model", "child"])
def test_save_of_an_object_read_earlier_does_not_lower_the_fence(model: Any) -> None:
    create(CHILD)
    early = model.objects.using(ALIAS).get()
    model.objects.using(ALIAS).get().claim(200)

    early.status = "closed"
    early.save()

    stored = model.objects.using(ALIAS).get()
    assert (stored.fence, stored.status) == (200, "closed")
    with pytest.raises(StaleFence):
        stored.update_fenced(100, balance=1)


def test_save_of_an_object_under_its_own_token_stores_it() -> None:
    row = create(CHILD)

    row.fence = 7
    row.save()
    row.save(update_fields=["fence"])

    assert CHILD.found()[0] == 7


def test_fence_is_a_plain_field_in_migrations() -> None:
    field = Account._meta.get_field("fence")

    assert field.deconstruct() == ("fence", "django.db.models.BigIntegerField", [], {"default": 0, "editable": False})


def with_join() -> models.QuerySet[Account]:
    return Account.objects.using(ALIAS).filter(owner__name="ada")


REFUSED = [
    (
        lambda: with_join()[:1],
        TypeError,
        "fenced_update() cannot guard a sliced queryset: which rows are in the slice may ",
    ),
    (
        lambda: with_join().distinct("owner"),
        TypeError,
        "fenced_update() cannot guard a queryset with distinct(*fields): ",
    ),
    (
        lambda: with_join().union(with_join()),
        NotSupportedError,
        "fenced_update() cannot guard a union() of querysets: ",
    ),
    (lambda: with_join().difference(with_join()), NotSupportedError, "fenced_update() cannot guard a difference() of "),
]


@pytest.mark.parametrize(("rows", "error", "message"), REFUSED, ids=["sliced", "distinct on", "union", "difference"])
def test_unsupported_queryset_is_refused_with_the_reason(
    rows: Callable[[], Any], error: type[Exception], message: str
) -> None:
    create(JOIN)

    with pytest.raises(error) as caught:
        fenced_update(rows(), 7, balance=1)
    with pytest.raises(error):
        async_to_sync(afenced_update)(rows(), 7, balance=1)

    assert str(caught.value).startswith(message)
    assert JOIN.found() == (0, 0)


class ReplicaRouter:
    """Reads go to the replica, which is another database here and knows no tables."""

    def db_for_read(self, *args: object, **hints: object) -> str:
        return "default"

    def db_for_write(self, *args: object, **hints: object) -> str:
        return ALIAS


@pytest.mark.parametrize("model", [Account, Savings], ids=["model", "child"])
def test_fenced_reads_and_writes_use_the_primary_database(settings: Any, model: Any) -> None:
    row = create(CHILD)
    settings.DATABASE_ROUTERS = [ReplicaRouter()]
    read = model.objects.using(ALIAS).get()
    read._state.db = "default"  # as if it had come from the replica

    read.claim(200)
    read.update_fenced(200, balance=models.F("balance") + 1)

    assert (read.fence, read.balance) == (200, 1)
    with pytest.raises(StaleFence, match="a later holder has written it under 200"):
        fenced_update(model.objects.filter(pk=row.pk, owner__name="ada"), 100, balance=2)
