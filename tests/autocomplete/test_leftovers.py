"""What is left in Redis of indexes that no code registers is listed, and deleted by name."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.autocomplete import PrefixIndex, RecentList, register
from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from tests.support import Store

pytestmark = pytest.mark.integration


def command(*arguments: str) -> list[tuple[str, int]]:
    out = io.StringIO()
    call_command("redis", "autocomplete", *arguments, "--json", stdout=out)
    result: dict[str, Any] = json.loads(out.getvalue())
    return [(one["name"], one["keys"]) for one in result["unregistered"]]


@pytest.fixture
def kept(store: Store) -> list[PrefixIndex]:
    """Registered indexes, and recent choices; beside them what is left of others."""
    found = [register("contacts").index(), register("guild", scoped=True).index("7")]
    found += [PrefixIndex("members"), PrefixIndex("members:1"), PrefixIndex("membership")]
    for index in found:
        index.add(1, "Anna")
    RecentList("members:1").touch(1, "Anna")
    for key in (keys.key("autocomplete", "members", "all_scopes"), keys.key("autocomplete", "contacts", "v1.1", "lex")):
        connections.client("default").execute(Command("SADD", key, "1"))
    return found


@pytest.mark.contract
def test_unregistered_indexes_and_old_versions_are_listed_and_deleted_by_name(kept: list[PrefixIndex]) -> None:
    left = [("contacts", 1), ("members", 3), ("members:1", 2), ("membership", 2)]
    assert command("unregistered") == left
    assert command("unregistered", "membership") == left[3:]

    assert command("delete", "members", "contacts", "--yes") == left[:3]

    assert command("unregistered") == left[3:]
    assert [index.count() for index in kept] == [1, 1, 0, 0, 1]
    assert RecentList("members:1").ids() == ["1"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["delete"], r"the following arguments are required: NAME$"),
        (["delete", "members"], r"^Nothing was deleted\. No terminal to ask for confirmation; pass --yes\.$"),
    ],
)
def test_nothing_is_deleted_without_names_or_confirmation(
    kept: list[PrefixIndex], arguments: list[str], problem: str
) -> None:
    with pytest.raises(CommandError, match=problem):
        call_command("redis", "autocomplete", *arguments)

    assert [index.count() for index in kept] == [1] * 5


def test_keys_that_are_not_text_are_listed_and_deleted(redis_server: Store) -> None:
    key = f"{redis_server.prefix}:autocomplete:{{caf".encode() + b"\xe9}:v1.1:lex"
    redis_server.raw.set(key, "")

    assert command("unregistered") == [(r"caf\xe9", 1)]
    assert command("delete", r"caf\xe9", "--yes") == [(r"caf\xe9", 1)]

    assert redis_server.raw.exists(key) == 0
