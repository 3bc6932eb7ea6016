"""Tables of pages and panels: cells, totals, order, and the JSON of what they show."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from html import unescape

import pytest
from django.template.loader import render_to_string

from django_redis_components.dashboard import Cell, Column, Table
from django_redis_components.dashboard.json_data import JSONEncoder
from tests.dashboard.support import text_of

TEMPLATE = "django_redis_components/dashboard/panels/table.html"


@dataclasses.dataclass(frozen=True)
class Item:
    name: str
    left: int | None
    at: datetime | None = None


ITEMS = Table(
    [
        Column("name", "Item", lambda item: item.name, kind="name", total=lambda items: "All items"),
        Column(
            "left",
            "Left",
            lambda item: item.left,
            total=lambda items: sum(item.left or 0 for item in items),
            sort=lambda item: item.left or 0,
        ),
    ],
    note="A note.",
    empty="Nothing is left.",
    example="Item.order()",
)


class Stock:
    name = "stock"


def html_of(table: Table[Item], *items: Item, **options: object) -> str:
    return render_to_string(TEMPLATE, {"panel": Stock, **table.context(items, **options)})


def test_numbers_are_formatted_and_none_is_a_dash() -> None:
    assert text_of(html_of(ITEMS, Item("cups", 1_200), Item("plates", None))) == "Item Left cups 1,200 plates – A note."


def test_totals_are_those_of_the_given_rows() -> None:
    items = Item("cups", 1), Item("plates", 2)

    assert "All items 3" in text_of(html_of(ITEMS, items[0], totals=items))
    assert "All items" not in html_of(ITEMS, *items)


def test_table_without_rows_says_what_to_do() -> None:
    assert text_of(html_of(ITEMS)) == "Nothing is left. Item.order()"


def test_column_that_is_empty_for_each_row_is_left_out_if_it_says_so() -> None:
    note = Column("note", "Note", lambda item: "" if item.left else "sold out", kind="whole", skip_empty=True)
    table = Table([*ITEMS.columns, note])

    assert text_of(html_of(table, Item("cups", 1), totals=[Item("cups", 1)])) == "Item Left cups 1 All items 1"
    assert text_of(html_of(table, Item("cups", 1), Item("plates", 0))) == "Item Left Note cups 1 plates 0 sold out"


def test_cells_have_the_label_for_narrow_pages_and_their_class() -> None:
    table = Table([*ITEMS.columns[:1], Column("state", "State", lambda item: Cell("gone", "alarming"), kind="")])

    html = html_of(table, Item("cups", 1))

    assert '<td role="cell" class="drc-alarming" data-l="State"><bdi>gone</bdi></td>' in html
    assert '<th role="rowheader" scope="row" class="drc-name"><bdi>cups</bdi></th>' in html


@pytest.mark.parametrize("value", ["<b>", Cell("<b>", title="<b>", note="<b>"), Cell("<b>", url="?<b>")])
def test_values_are_escaped(value: str | Cell) -> None:
    html = html_of(Table([Column("name", "Item", lambda item: value, kind="name")]), Item("cups", 1))

    assert "<b>" not in html
    assert "<b>" in unescape(html)


def test_only_columns_with_an_order_can_be_sorted_by() -> None:
    assert [*ITEMS.sorts] == ["left"]
    assert [is_current for _column, is_current in ITEMS.context([], sort="left")["table"].heads] == [False, True]


def test_dataclasses_are_encoded_by_their_fields_and_times_in_utc() -> None:
    item = Item("cups", 1, datetime(2026, 11, 25, 12, 0, tzinfo=UTC))

    found = json.loads(json.dumps({"items": [item]}, cls=JSONEncoder))

    assert found == {"items": [{"name": "cups", "left": 1, "at": "2026-11-25T12:00:00.000+00:00"}]}
