"""Which database's commit a task waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.db.utils import ConnectionHandler

from django_redis_components.taskqueue import InvalidTask, chain, get_queue
from tests.support import Store
from tests.support.pools import aclose_pools
from tests.taskqueue.support import taskqueue_settings
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def _three_databases(monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any, tmp_path: Path) -> Iterator[None]:
    """The site has "default", "books" and "shop". The mark `django_db` would know the first one alone.

    In files: Django never closes a database in memory.
    """
    names = ("default", "books", "shop")
    site = ConnectionHandler(
        {name: {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / name} for name in names}
    )
    monkeypatch.setattr("django.db.transaction.connections", site)
    monkeypatch.setattr("django_redis_components.taskqueue.on_commit.connections", site)
    with django_db_blocker.unblock():
        yield
    site.close_all()


def ready() -> int:
    return get_queue("default").info().ready


def on_commit(**options: Any) -> Any:
    return add.using(**options).enqueue_on_commit(2, 3)


def by_setting(**options: Any) -> Any:
    return add.using(**options).enqueue(2, 3)


def many(**options: Any) -> Any:
    return add.using(**options).enqueue_many([((2, 3), {})])


def flow(**options: Any) -> Any:
    return chain(add.using(**options).s(2, 3)).enqueue_on_commit()


def twin(**options: Any) -> Any:
    """Its transaction is that of this thread."""

    async def send() -> Any:
        try:
            return await add.using(**options).aenqueue_on_commit(2, 3)
        finally:
            await aclose_pools()

    return async_to_sync(send)()


WAYS = pytest.mark.parametrize("send", [on_commit, by_setting, many, flow, twin])


@WAYS
def test_commit_of_another_database_is_awaited(redis_server: Store, settings: Any, send: Callable[..., Any]) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=send in (by_setting, many))

    with transaction.atomic("shop"):
        send()
        assert ready() == 0
    assert ready() == 1


def test_task_is_not_sent_when_the_other_database_rolls_back(redis_server: Store) -> None:
    with transaction.atomic("shop"):
        on_commit()
        transaction.set_rollback(True, using="shop")

    assert ready() == 0


def test_default_database_takes_precedence(redis_server: Store) -> None:
    with transaction.atomic("shop"):
        with transaction.atomic():
            on_commit()
            assert ready() == 0
        assert ready() == 1


@WAYS
def test_option_database_selects_the_commit(redis_server: Store, settings: Any, send: Callable[..., Any]) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=send in (by_setting, many))

    with transaction.atomic("shop"):
        with transaction.atomic(), transaction.atomic("books"):
            send(database="shop")
        assert ready() == 0
    assert ready() == 1


def test_selected_database_without_a_transaction_sends_at_once(redis_server: Store) -> None:
    with transaction.atomic():
        on_commit(database="shop")
        assert ready() == 1


@WAYS
def test_several_transactions_without_the_option_database_raise(
    redis_server: Store, settings: Any, send: Callable[..., Any]
) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=send in (by_setting, many))

    with transaction.atomic("shop"), transaction.atomic("books"), pytest.raises(InvalidTask) as caught:
        send()

    assert str(caught.value) == (
        "Several databases are in a transaction ('books', 'shop'). Choose the one whose commit sends the task:"
        " using(database='books')."
    )
    assert ready() == 0


@pytest.mark.parametrize("options", [{}, {"database": "books"}])
def test_manual_transaction_raises_as_hooks_of_django_do(redis_server: Store, options: dict[str, Any]) -> None:
    transaction.set_autocommit(False, using="books")
    try:
        with pytest.raises(transaction.TransactionManagementError, match="manual transaction management"):
            on_commit(**options)
        with pytest.raises(transaction.TransactionManagementError, match="manual transaction management"):
            chain(add.using(**options).s(2, 3)).enqueue_on_commit()
    finally:
        transaction.rollback(using="books")
        transaction.set_autocommit(True, using="books")

    assert ready() == 0
    on_commit(**options)
    assert ready() == 1


def test_tasks_of_a_flow_must_have_the_same_database() -> None:
    with pytest.raises(InvalidTask) as caught:
        chain(add.using(database="shop").s(1, 2), note.s(), note.using(database="books").s()).enqueue_on_commit()

    assert str(caught.value) == (
        "The tasks of the flow have different databases ('books', 'shop'): a flow is enqueued on the commit of one."
    )


def test_option_database_must_be_a_string() -> None:
    with pytest.raises(InvalidTask, match=r"^database=1: expected the alias of a database, or None\.$"):
        add.using(database=1)  # type: ignore[typeddict-item]
