"""`iterate` over querysets: pages by a unique key, without OFFSET."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from http import HTTPMethod, HTTPStatus
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, models, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext, isolate_apps
from django.utils.safestring import SafeString

from django_redis_components.taskqueue import Cursor, Progress
from django_redis_components.taskqueue.iteration import cursor_value
from django_redis_components.testing import inline
from tests.support import Store
from tests.taskqueue.iterating.support import context_after_death, context_of
from tests.taskqueue.iterating.tasks import see, see_async, seen, sources
from tests.taskqueue.support import work_until_finished

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


def make_groups(count: int) -> list[int]:
    """Create groups whose names are in the reverse order of their keys; return the keys in order."""
    made = Group.objects.bulk_create([Group(name=f"group {900 - number}") for number in range(count)])
    return sorted(group.pk for group in made)


@pytest.mark.parametrize("made", [see, see_async], ids=["sync", "async"])
def test_rows_are_read_in_pages_and_continued_by_primary_key(redis_server: Store, made: Any) -> None:
    keys = make_groups(25)
    sources.append(Group.objects.all())
    result = made.enqueue([keys[9], keys[20]], chunk_size=10)

    work_until_finished(result)

    assert (result.state, result.attempts, seen) == ("successful", 3, keys)
    assert result.cursor == Cursor(0, "pk", keys[-1], 25)
    assert result.progress == Progress(25)


def test_each_page_is_one_query_without_offset(redis_server: Store) -> None:
    keys = make_groups(25)
    see.enqueue()
    context = context_of(see)

    with CaptureQueriesContext(connection) as queries:
        found = [group.pk for group in context.iterate(Group.objects.exclude(name="x"), chunk_size=10, total=25)]

    assert found == keys
    texts = [query["sql"] for query in queries]
    assert len(texts) == 3
    assert not any("OFFSET" in text for text in texts)
    assert all(text.endswith('ORDER BY "auth_group"."id" ASC LIMIT 10') for text in texts)
    assert [f'"auth_group"."id" > {key}' in text for key, text in zip([keys[9], keys[19]], texts[1:], strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize("made", [see, see_async], ids=["sync", "async"])
def test_rows_are_continued_by_another_unique_field(redis_server: Store, made: Any) -> None:
    keys = make_groups(12)
    sources.append(Group.objects.all())
    result = made.enqueue([keys[4]], key="name", chunk_size=5)

    work_until_finished(result)

    assert (result.state, seen) == ("successful", keys[::-1])
    assert result.cursor == Cursor(0, "name", "group 900", 12)


def test_rows_that_are_deleted_or_added_meanwhile_shift_nothing(redis_server: Store) -> None:
    keys = make_groups(20)
    see.enqueue()
    found = []

    for group in context_of(see).iterate(Group.objects.all(), chunk_size=5):
        found.append(group.pk)
        if group.pk == keys[4]:
            Group.objects.filter(pk__in=keys[:4]).delete()
            added = Group.objects.create(name="added")

    assert found == [*keys, added.pk]


@pytest.fixture
def tables() -> Iterator[list[type[models.Model]]]:
    """Models with keys of other types, and their tables."""
    with isolate_apps("tests.taskqueue"):

        class Order(models.Model):  # noqa: DJ008 - no page shows it
            id = models.UUIDField(primary_key=True, default=uuid.uuid4)
            placed_at = models.DateTimeField(unique=True)
            day = models.DateField(unique=True)
            amount = models.DecimalField(max_digits=9, decimal_places=2, unique=True)
            ratio = models.FloatField(unique=True)
            number = models.IntegerField()
            shop = models.IntegerField()
            maybe = models.IntegerField(unique=True, null=True)

            class Meta:
                app_label = "taskqueue"
                ordering = ("-number",)
                constraints = (models.UniqueConstraint(fields=["number"], name="one_number"),)

        class Special(Order):  # noqa: DJ008
            class Meta:
                app_label = "taskqueue"

        made: list[type[models.Model]] = [Order, Special]
        with connection.schema_editor() as editor:
            for model in made:
                editor.create_model(model)
        yield made
        with connection.schema_editor() as editor:
            for model in reversed(made):
                editor.delete_model(model)


def make_orders(order: Any, count: int) -> None:
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for number in range(count):
        order.objects.create(
            placed_at=start + timedelta(microseconds=number),
            day=start.date() + timedelta(days=number),
            amount=Decimal(number) / 100,
            ratio=number / 7,
            number=number,
            shop=1,
        )


@pytest.mark.parametrize("key", ["pk", "placed_at", "day", "amount", "number"])
@pytest.mark.parametrize("kind", [0, 1], ids=["table", "child table"])
def test_keys_of_each_accepted_type_continue(redis_server: Store, tables: list[Any], key: str, kind: int) -> None:
    model = tables[kind]
    make_orders(model, 9)
    expected = list(model.objects.order_by(key).values_list("pk", flat=True))
    result = see.enqueue()
    for found in context_of(see).iterate(model.objects.all(), key=key, chunk_size=2, save_every=1):
        if found.pk == expected[4]:
            break

    again = context_after_death(redis_server, see, result.id)

    assert [each.pk for each in again.iterate(model.objects.all(), key=key, chunk_size=2)] == expected[4:]


NEVER_NULL = "expected a unique field of taskqueue.Order that is never NULL, such as 'pk'"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("ratio", "taskqueue.Order.ratio=0.0: a cursor stores an int, str, UUID, Decimal, date or datetime."),
        ("shop", f"key='shop': {NEVER_NULL}. Rows with equal values would be left out."),
        ("maybe", f"key='maybe': {NEVER_NULL}. Rows with equal values would be left out."),
        ("special", f"key='special': {NEVER_NULL}. Rows with equal values would be left out."),
        ("shop__name", f"key='shop__name': {NEVER_NULL}. There is no such field."),
        ("-pk", f"key='-pk': {NEVER_NULL}. There is no such field."),
        (5, "key=5: expected a string."),
    ],
)
def test_key_that_is_no_order_is_refused(redis_server: Store, tables: list[Any], key: Any, text: str) -> None:
    make_orders(tables[0], 1)
    see.enqueue()

    with pytest.raises((TypeError, ValueError)) as raised:
        list(context_of(see).iterate(tables[0].objects.all(), key=key))

    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("queryset", "kind", "text"),
    [
        (
            lambda: Group.objects.order_by("name"),
            ValueError,
            " with order_by() or reverse(): iterate() reads it in the order of key. Remove it.",
        ),
        (
            lambda: Group.objects.reverse(),
            ValueError,
            " with order_by() or reverse(): iterate() reads it in the order of key. Remove it.",
        ),
        (
            lambda: Group.objects.all()[:5],
            ValueError,
            " that is sliced: iterate() reads all rows in pages. Use filter().",
        ),
        (
            lambda: Group.objects.all().union(Group.objects.all()),
            ValueError,
            " made by union(), which cannot be filtered. Use | or filter().",
        ),
        (
            lambda: Group.objects.values("name"),
            TypeError,
            " with values(): expected one of objects. Use only() to read few columns.",
        ),
    ],
    ids=["ordered", "reversed", "sliced", "union", "values"],
)
def test_queryset_that_cannot_be_read_in_pages_is_refused(
    redis_server: Store, queryset: Any, kind: type[Exception], text: str
) -> None:
    see.enqueue()
    context = context_of(see)

    with pytest.raises(kind) as raised:
        context.iterate(queryset())

    assert str(raised.value) == f"source is a queryset of auth.Group{text}"


def test_manager_is_refused_with_a_hint(redis_server: Store) -> None:
    see.enqueue()
    context = context_of(see)

    with pytest.raises(TypeError) as raised:
        context.iterate(Group.objects)  # type: ignore[arg-type]

    assert str(raised.value).endswith("expected a queryset or an iterable. Add .all().")


def test_default_order_of_the_model_is_replaced(redis_server: Store, tables: list[Any]) -> None:
    make_orders(tables[0], 5)
    see.enqueue()

    found = [order.number for order in context_of(see).iterate(tables[0].objects.all(), key="number", chunk_size=2)]

    assert found == [0, 1, 2, 3, 4]


ACCEPTED = "a cursor stores an int, str, UUID, Decimal, date or datetime"


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (-5, -5),
        (2**63, 2**63),
        ("ä", "ä"),
        (HTTPStatus.OK, 200),
        (HTTPMethod.GET, "GET"),
        (SafeString("a"), "a"),
        (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Decimal("1.50"), "1.50"),
        (date(2026, 2, 3), "2026-02-03"),
        (datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC), "2026-02-03T04:05:06.000007+00:00"),
    ],
)
def test_value_is_stored_so_that_a_filter_accepts_it(value: Any, stored: Any) -> None:
    found = cursor_value(value, "shop.Order.pk")

    assert (type(found), found) == (type(stored), stored)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, TypeError, f"shop.Order.pk=True: {ACCEPTED}."),
        (None, TypeError, f"shop.Order.pk=None: {ACCEPTED}."),
        ((1, 2), TypeError, f"shop.Order.pk=(1, 2): {ACCEPTED}."),
        (
            "ä" * 513,
            ValueError,
            f"shop.Order.pk='{'ä' * 99}…: {ACCEPTED}, of at most 1,024 bytes.",
        ),
        (
            2**64,
            ValueError,
            f"shop.Order.pk=18446744073709551616: {ACCEPTED}, of at most 1,024 bytes.",
        ),
    ],
    ids=["bool", "None", "tuple", "long", "large"],
)
def test_value_that_cannot_be_stored_is_refused(value: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as raised:
        cursor_value(value, "shop.Order.pk")

    assert str(raised.value) == text


def test_loop_within_a_transaction_is_refused(redis_server: Store) -> None:
    """A rollback would undo items that the cursor counts as done."""
    see.enqueue()
    context = context_of(see)

    with transaction.atomic(), pytest.raises(RuntimeError) as raised:
        list(context.iterate([1]))

    assert str(raised.value) == (
        'iterate() within transaction.atomic() of the database "default": a rollback would undo items that the cursor'
        " counts as done. Put atomic() inside the loop."
    )
    for _ in context.iterate([1, 2]):
        with transaction.atomic():
            Group.objects.count()


class InTestCase(TestCase):
    """Its transaction is that of the test."""

    def test_inline_tasks_iterate_in_a_test_case(self) -> None:
        keys = make_groups(3)
        sources.append(Group.objects.all())
        with inline():
            see.enqueue()
        assert seen == keys
