"""Registering indexes, and what the system checks say about widgets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import run_checks

from django_redis_components import checks, search
from django_redis_components.autocomplete import (
    AutocompleteInput,
    PrefixIndex,
    RegisteredIndex,
    ScopeNeeded,
    UnknownIndex,
    get_index,
    register,
    unregister,
)
from django_redis_components.autocomplete.checks import NO_VIEW_ID, UNKNOWN_INDEX_ID, check_widgets
from django_redis_components.autocomplete.registry import read_scope, sign_scope
from django_redis_components.dashboard.panel import unregister_panel


def test_registered_index_is_found_until_unregistered() -> None:
    registered = register("contacts")
    found = get_index("contacts")

    unregister("contacts")
    unregister("contacts")

    assert found is registered
    with pytest.raises(UnknownIndex) as raised:
        get_index("contacts")
    assert raised.value.name == "contacts"


@pytest.mark.parametrize("remove", [unregister, search.unregister, unregister_panel])
def test_name_of_what_is_unregistered_must_be_a_string(remove: Callable[[Any], None]) -> None:
    with pytest.raises(TypeError, match=r"^name=.*: expected a string\.$"):
        remove(RegisteredIndex("contacts"))


def test_custom_source_can_be_registered() -> None:
    class Members(RegisteredIndex):
        def index(self, scope: object = None) -> PrefixIndex:
            return PrefixIndex("members-of-all-guilds")

    register(Members("members"))

    assert get_index("members").index().name == "members-of-all-guilds"
    assert repr(get_index("members")) == "<Members 'members'>"


def test_scoped_source_has_one_index_per_scope() -> None:
    guild = register("guild", scoped=True)

    assert guild.index(7).name == "guild:7"
    assert guild.index("x").name == "guild:x"
    with pytest.raises(ScopeNeeded):
        guild.index()


@pytest.mark.parametrize(("first", "second"), [("guild", "guild:7"), ("guild:7", "guild")])
def test_index_that_would_share_keys_with_a_scope_of_another_is_refused(first: str, second: str) -> None:
    register(first, scoped=True)

    text = f"index name {second!r}: 'guild:7' is also the scope '7' of the index 'guild'. Choose a name that does not "
    with pytest.raises(ValueError, match=f"^{text}begin with 'guild:'\\.$"):
        register(second, scoped=True)

    with pytest.raises(UnknownIndex):
        get_index(second)


def test_names_with_a_common_beginning_are_accepted_if_their_keys_differ() -> None:
    register("guild", scoped=True)
    register("guilds:7")
    register("guild-7", scoped=True)
    register("team")
    register("team:7")

    assert register("guild", scoped=True) is get_index("guild")


def test_source_passes_its_connection_to_the_index() -> None:
    assert register("contacts", using="other").index().using == "other"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "index name is empty"),
        ("a{b", "braces are not accepted"),
        ("a/b", "index name 'a/b': slashes are not accepted, because the name is part of a URL."),
        ("a\x00b", "control character"),
    ],
)
def test_invalid_name_raises(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        register(name)


def test_unknown_option_raises() -> None:
    with pytest.raises(TypeError, match="permision"):
        register("contacts", permision=None)


def test_read_scope_rejects_a_forged_signature() -> None:
    signed = sign_scope("guild", "7:8")

    assert read_scope("guild", signed) == "7:8"
    assert read_scope("other", signed) is None
    assert read_scope("guild", signed + "x") is None
    assert read_scope("guild", "8" + signed[1:]) is None
    assert read_scope("guild", "") is None


def test_signed_scope_expires(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    signed = sign_scope("guild", 7)
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"AUTOCOMPLETE": {"SCOPE_MAX_AGE": 60}}
    now = time.time()

    monkeypatch.setattr(time, "time", lambda: now + 59)
    assert read_scope("guild", signed) == "7"
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert read_scope("guild", signed) is None


def test_check_passes_without_widgets() -> None:
    assert check_widgets() == []


def test_check_reports_a_missing_view(settings: Any) -> None:
    register("contacts")
    settings.ROOT_URLCONF = "tests.autocomplete.urls_without_view"

    [message] = [message for message in run_checks() if message.id == NO_VIEW_ID]

    assert message.id == "drc.W030"
    assert message.msg == (
        "Autocomplete widgets are used (index contacts), but the URLconf does not include their view."
    )
    assert message.hint == 'Add path("redis/", include("django_redis_components.urls")).'


def test_check_reports_a_widget_of_an_unregistered_index() -> None:
    register("contacts")
    AutocompleteInput("contacts")
    AutocompleteInput("contcts")

    [message] = [message for message in run_checks() if message.id == UNKNOWN_INDEX_ID]

    assert message.id == "drc.W031"
    assert message.msg == (
        "A form has an autocomplete field. No autocomplete index 'contcts' is registered. Did you mean 'contacts'?"
    )


def test_check_passes_for_a_widget_of_a_registered_index() -> None:
    register("contacts")
    AutocompleteInput("contacts")

    assert check_widgets() == []


def test_check_passes_without_a_urlconf(settings: Any) -> None:
    register("contacts", permission=lambda request, scope: True)
    del settings.ROOT_URLCONF

    try:
        assert checks.check_autocomplete() == []
    finally:
        unregister("contacts")
