"""Rows that refuse writes under an expired lock."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, models
from django.test.utils import isolate_apps

from django_redis_components.locks import FencedModel, Lock, LockError, StaleFence, afenced_update, fenced_update
from tests.support import Store, eventually, run_together

pytestmark = pytest.mark.integration

with isolate_apps("tests.locks"):

    class Account(FencedModel):
        """A row of a site."""

        owner = models.CharField(max_length=20)
        balance = models.IntegerField(default=0)

        class Meta:
            app_label = "locks"

        def __str__(self) -> str:
            return self.owner

    class Note(models.Model):
        """A row with a custom fence field."""

        text = models.CharField(max_length=20)
        fence = models.BigIntegerField(default=0)

        class Meta:
            app_label = "locks"

        def __str__(self) -> str:
            return self.text


@pytest.fixture(autouse=True)
def _tables(transactional_db: None) -> Iterator[None]:
    with connection.schema_editor() as editor:
        editor.create_model(Account)
        editor.create_model(Note)
    yield
    with connection.schema_editor() as editor:
        editor.delete_model(Account)
        editor.delete_model(Note)


@pytest.fixture
def account() -> Account:
    return Account.objects.create(owner="anna", balance=10)


def test_write_stores_its_token(account: Account) -> None:
    assert fenced_update(Account.objects.filter(pk=account.pk), 7, balance=20) == 1

    account.refresh_from_db()
    assert (account.balance, account.fence) == (20, 7)


def test_later_token_overwrites_an_earlier_one(account: Account) -> None:
    fenced_update(Account.objects.all(), 7, balance=20)

    fenced_update(Account.objects.all(), 8, balance=30)

    account.refresh_from_db()
    assert (account.balance, account.fence) == (30, 8)


def test_same_token_may_write_again(account: Account) -> None:
    fenced_update(Account.objects.all(), 7, balance=20)

    assert fenced_update(Account.objects.all(), 7, balance=30) == 1


def test_earlier_token_is_refused_and_writes_nothing(account: Account) -> None:
    fenced_update(Account.objects.all(), 8, balance=30)

    with pytest.raises(StaleFence) as caught:
        fenced_update(Account.objects.all(), 7, balance=20)

    assert str(caught.value) == "Account not written under fence 7: a later holder has written it under 8."
    assert caught.value.fence == 7
    assert isinstance(caught.value, LockError)
    account.refresh_from_db()
    assert (account.balance, account.fence) == (30, 8)


def test_error_for_a_missing_row_differs_from_a_stale_write() -> None:
    with pytest.raises(StaleFence) as caught:
        fenced_update(Account.objects.filter(owner="nobody"), 7, balance=20)

    assert str(caught.value) == "Account not written under fence 7: there is no such row."


def test_rows_with_a_later_token_are_not_written() -> None:
    Account.objects.create(owner="anna", fence=9)
    Account.objects.create(owner="bert", fence=7)

    assert fenced_update(Account.objects.all(), 8, balance=1) == 1

    assert dict(Account.objects.values_list("owner", "balance")) == {"anna": 0, "bert": 1}


def test_expressions_are_evaluated_in_the_database(account: Account) -> None:
    fenced_update(Account.objects.all(), 7, balance=models.F("balance") + 5)

    account.refresh_from_db()
    assert account.balance == 15


def test_model_needs_only_a_field_named_fence() -> None:
    Note.objects.create(text="old")

    fenced_update(Note.objects.all(), 7, text="new")

    assert Note.objects.get().text == "new"


def test_claim_refuses_earlier_holders_before_anything_is_written(account: Account) -> None:
    Account.objects.update(balance=99)

    account.claim(8)

    assert (account.fence, account.balance) == (8, 99)
    with pytest.raises(StaleFence):
        fenced_update(Account.objects.all(), 7, balance=0)


def test_async_twins_write_and_refuse_by_the_same_rule(account: Account) -> None:
    async def write() -> None:
        await account.aclaim(8)
        await account.aupdate_fenced(8, balance=20)
        assert await afenced_update(Account.objects.filter(pk=account.pk), 9, balance=30) == 1
        for refused in (account.aclaim(8), account.aupdate_fenced(8, balance=0)):
            with pytest.raises(StaleFence, match="fence 8: a later holder has written it under 9"):
                await refused
        with pytest.raises(StaleFence, match="Account not written under fence 9: there is no such row"):
            await afenced_update(Account.objects.filter(pk=-1), 9, balance=0)

    async_to_sync(write)()

    assert (account.balance, account.fence) == (20, 8)
    account.refresh_from_db()
    assert (account.balance, account.fence) == (30, 9)


def test_claim_is_refused_after_a_later_holder_claimed_the_row(account: Account) -> None:
    account.claim(8)

    with pytest.raises(StaleFence, match="a later holder has written it under 8"):
        Account.objects.get().claim(7)


def test_claim_of_a_deleted_row_is_refused(account: Account) -> None:
    Account.objects.all().delete()

    with pytest.raises(StaleFence, match="there is no such row"):
        account.claim(7)


def test_write_updates_the_row_and_the_object(account: Account) -> None:
    account.update_fenced(7, balance=20, owner="bert")

    assert (account.balance, account.owner, account.fence) == (20, "bert", 7)
    assert Account.objects.get().balance == 20


def test_object_gets_the_value_of_an_expression_from_the_database(account: Account) -> None:
    account.update_fenced(7, balance=models.F("balance") + 5)
    assert account.balance == 15
    async_to_sync(account.aupdate_fenced)(7, balance=models.F("balance") + 5, owner="bert")
    account.save()

    assert Account.objects.get().balance == account.balance == 20


def test_refused_write_leaves_the_object_unchanged(account: Account) -> None:
    fenced_update(Account.objects.all(), 8, balance=30)

    with pytest.raises(StaleFence):
        account.update_fenced(7, balance=20)

    assert (account.balance, account.fence) == (10, 0)


def test_holder_whose_lease_expired_cannot_write_after_the_next_holder(store: Store, account: Account) -> None:
    late, next_one = Lock("account", timeout=0.02), Lock("account")
    late.acquire()
    number = late.fencing_token
    eventually(lambda: next_one.acquire(blocking=False))
    account.claim(next_one.fencing_token)

    with pytest.raises(StaleFence):
        account.update_fenced(number, balance=0)

    account.update_fenced(next_one.fencing_token, balance=11)


def test_latest_token_remains_in_any_order_of_writes(account: Account) -> None:
    numbers = list(range(1, 41))
    random.Random(7).shuffle(numbers)

    def write(thread: int) -> None:
        for number in numbers[thread::4]:
            with contextlib.suppress(StaleFence):
                fenced_update(Account.objects.all(), number, balance=number)

    run_together(4, write)

    account.refresh_from_db()
    assert (account.balance, account.fence) == (40, 40)


@pytest.mark.parametrize(
    ("fence", "error", "text"),
    [
        (None, TypeError, "fence=None: expected a fencing token; the lock is not held, or its kind has none."),
        ("7", TypeError, "fence='7': expected an integer from 1 to 9223372036854775807, a fencing token."),
        (True, TypeError, "fence=True: expected an integer from 1 to 9223372036854775807, a fencing token."),
        (0, ValueError, "fence=0: expected an integer from 1 to 9223372036854775807, a fencing token."),
        (
            2**63,
            ValueError,
            "fence=9223372036854775808: expected an integer from 1 to 9223372036854775807, a fencing token.",
        ),
    ],
)
def test_invalid_token_is_refused(account: Account, fence, error: type, text: str) -> None:
    with pytest.raises(error) as caught:
        account.claim(fence)

    assert str(caught.value) == text
    assert Account.objects.get().fence == 0


def test_locks_may_be_imported_before_the_apps_are_loaded() -> None:
    import django_redis_components.locks as room

    assert room.FencedModel is FencedModel
    with pytest.raises(AttributeError, match="has no attribute 'FencedModle'"):
        room.FencedModle  # noqa: B018
