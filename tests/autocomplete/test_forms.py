"""The field and the widget in a form, with and without a script, with and without Redis."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.test import RequestFactory

from django_redis_components.autocomplete import (
    AutocompleteField,
    AutocompleteInput,
    PrefixIndex,
    ScopeNeeded,
    Suggestion,
    UnknownIndex,
    register,
    widgets,
)
from django_redis_components.autocomplete.registry import read_scope
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.exceptions import ConfigurationError
from tests.support import Proxy, Store

pytestmark = pytest.mark.integration


class LetterForm(forms.Form):
    to = AutocompleteField("contacts")


class OptionalForm(forms.Form):
    to = AutocompleteField("contacts", required=False)


class FreeForm(forms.Form):
    to = AutocompleteField("contacts", free_text=True)


widgets.used_indexes.discard("contacts")  # the system checks of other tests must not see these forms


@pytest.fixture
def contacts(redis_server: Store) -> PrefixIndex:
    register("contacts")
    index = PrefixIndex("contacts")
    index.add(1, "Émile Zola", terms=["emile@example.org"])
    index.add(2, "Anna")
    index.add(3, "Anna")
    return index


def errors(form: forms.Form) -> list[str]:
    return list(form.errors.get("to", []))


def test_chosen_id_determines_the_value(contacts: PrefixIndex) -> None:
    form = LetterForm({"to": "Anna", "to-id": "3"})

    assert form.is_valid(), form.errors
    assert form.cleaned_data["to"] == Suggestion("3", "Anna")


@pytest.mark.parametrize("typed", ["Émile Zola", "emile zola", " EMILE  ZOLA ", "emile@example.org"])
def test_typed_text_is_looked_up_without_javascript(contacts: PrefixIndex, typed: str) -> None:
    form = LetterForm({"to": typed})

    assert form.is_valid(), form.errors
    assert form.cleaned_data["to"] == Suggestion("1", "Émile Zola")


def test_text_matching_several_entries_is_an_error(contacts: PrefixIndex) -> None:
    assert errors(LetterForm({"to": "Anna"})) == ["“Anna” matches several entries. Choose one of the suggestions."]


@pytest.mark.parametrize("typed", ["Ann", "nobody", "{", "[anna"])
def test_text_matching_no_entry_is_an_error(contacts: PrefixIndex, typed: str) -> None:
    assert errors(LetterForm({"to": typed})) == [f"“{typed}” was not found. Choose one of the suggestions."]


def test_text_changed_after_the_choice_is_looked_up(contacts: PrefixIndex) -> None:
    form = LetterForm({"to": "Émile Zola", "to-id": "2"})

    assert form.is_valid(), form.errors
    assert form.cleaned_data["to"] == Suggestion("1", "Émile Zola")


@pytest.mark.parametrize("forged", ["99", "{1}", "\x00", "x" * 300])
def test_unknown_id_is_ignored(contacts: PrefixIndex, forged: str) -> None:
    assert errors(LetterForm({"to": "Bert", "to-id": forged})) == [
        "“Bert” was not found. Choose one of the suggestions."
    ]


def test_id_without_text_is_an_empty_value(contacts: PrefixIndex) -> None:
    """Without JavaScript the hidden id remains when a user empties the text field."""
    form = OptionalForm({"to": "", "to-id": "1"})

    assert form.is_valid()
    assert form.cleaned_data["to"] is None


@pytest.mark.parametrize("data", [{}, {"to": ""}, {"to": "  "}, {"to-id": "1"}])
def test_empty_field_is_an_error_only_if_required(contacts: PrefixIndex, data: dict[str, str]) -> None:
    assert errors(LetterForm(data)) == ["This field is required."]
    assert OptionalForm(data).is_valid()


@pytest.mark.parametrize("typed", ["An\x00na", "two\nlines", "A\ud800"])
def test_control_characters_are_rejected(contacts: PrefixIndex, typed: str) -> None:
    assert errors(LetterForm({"to": typed})) == ["The text has invalid characters."]
    assert errors(FreeForm({"to": typed})) == ["The text has invalid characters."]


def test_too_long_text_is_rejected(contacts: PrefixIndex) -> None:
    assert errors(LetterForm({"to": "x" * 301})) == ["Enter at most 300 characters."]


def test_free_text_is_accepted_without_an_id(contacts: PrefixIndex) -> None:
    for typed, wanted in [("Nobody", Suggestion("", "Nobody")), ("Émile Zola", Suggestion("1", "Émile Zola"))]:
        form = FreeForm({"to": typed})
        assert form.is_valid(), form.errors
        assert form.cleaned_data["to"] == wanted


def test_field_reports_outage_and_keeps_the_text() -> None:
    register("contacts")
    form = LetterForm({"to": "Émile Zola", "to-id": "1"})

    assert errors(form) == ["“Émile Zola” cannot be checked at the moment. Try again in a minute."]
    assert form.errors.as_data()["to"][0].code == "unavailable"
    assert 'value="Émile Zola"' in str(form["to"])
    assert 'name="to-id" value="1"' in str(form["to"])


def test_free_text_is_accepted_during_an_outage() -> None:
    register("contacts")
    form = FreeForm({"to": "Émile Zola", "to-id": "1"})

    assert form.is_valid()
    assert form.cleaned_data["to"] == Suggestion("", "Émile Zola")


def test_invalid_form_shows_the_typed_text_without_redis(contacts: PrefixIndex, proxy: Proxy) -> None:
    form = LetterForm({"to": 'nobody "<x>', "to-id": ""})
    form.is_valid()
    proxy.stop_accepting()

    assert 'value="nobody &quot;&lt;x&gt;"' in str(form["to"])


def test_initial_id_is_shown_with_its_text(contacts: PrefixIndex) -> None:
    rendered = str(LetterForm(initial={"to": 1})["to"])

    assert '<input type="text" name="to" value="Émile Zola"' in rendered
    assert '<input type="hidden" name="to-id" value="1">' in rendered


def test_initial_suggestion_is_shown_without_redis() -> None:
    register("contacts")

    rendered = str(LetterForm(initial={"to": Suggestion("1", "Émile Zola")})["to"])

    assert 'value="Émile Zola"' in rendered
    assert 'name="to-id" value="1"' in rendered


def test_initial_id_is_shown_during_an_outage_and_accepted_later(redis_server: Store, proxy: Proxy) -> None:
    register("contacts", using="proxied")
    PrefixIndex("contacts").add(1, "Émile Zola")
    proxy.stop_accepting()
    proxy.cut()
    rendered = str(LetterForm(initial={"to": 1})["to"])
    proxy.accept_again()
    breaker_for("proxied").reset()  # five seconds later

    form = LetterForm({"to": "1", "to-id": "1"})

    assert '<input type="text" name="to" value="1"' in rendered
    assert form.is_valid()
    assert form.cleaned_data["to"] == Suggestion("1", "Émile Zola")


@pytest.mark.parametrize(
    ("initial", "data", "changed"),
    [
        (None, {}, False),
        (None, {"to": ""}, False),
        (None, {"to": "Anna"}, True),
        (1, {"to": "Émile Zola", "to-id": "1"}, False),
        ("1", {"to": "Émile Zola", "to-id": "1"}, False),
        (1, {"to": "Anna", "to-id": "2"}, True),
        (1, {"to": "Anna", "to-id": "1"}, True),
        (1, {"to": "emile zola"}, False),
        (99, {"to": "99", "to-id": "99"}, False),
        (Suggestion("", "Nobody"), {"to": "nobody"}, False),
        (Suggestion("", "Nobody"), {"to": "Anna", "to-id": "2"}, True),
        (1, {"to": "", "to-id": "1"}, True),
        (1, {"to": ""}, True),
        (1, {}, True),
        (1, {"to": "1"}, False),
        (Suggestion("1", "Émile Zola"), {"to": "Émile Zola", "to-id": "1"}, False),
        (Suggestion("1", "Émile Zola"), {"to": "emile zola"}, False),
        (Suggestion("1", "Émile Zola"), {"to": "Anna", "to-id": "1"}, True),
        (Suggestion("1", "Émile Zola"), {"to": "Émile Zola", "to-id": "2"}, True),
    ],
)
def test_has_changed_compares_id_and_text(
    contacts: PrefixIndex, initial: Any, data: dict[str, str], changed: bool
) -> None:
    form = OptionalForm(data, initial={"to": initial})

    assert form.has_changed() is changed


def test_initial_id_counts_as_changed_during_an_outage() -> None:
    register("contacts")

    assert OptionalForm({"to": "Émile Zola", "to-id": "1"}, initial={"to": 1}).has_changed() is True


def test_clean_accepts_a_string(contacts: PrefixIndex) -> None:
    field = AutocompleteField("contacts")

    assert field.clean("emile zola") == Suggestion("1", "Émile Zola")
    assert field.clean(Suggestion("2", "Anna")) == Suggestion("2", "Anna")


def test_widget_reports_whether_the_form_data_contain_the_field(contacts: PrefixIndex) -> None:
    widget = AutocompleteInput("contacts")

    assert widget.value_omitted_from_data({"other": "1"}, {}, "to") is True
    assert widget.value_omitted_from_data({"to": ""}, {}, "to") is False


def test_widget_renders_a_labelled_text_input_and_a_hidden_input(contacts: PrefixIndex) -> None:
    rendered = LetterForm().as_p()

    assert '<label for="id_to">To:</label>' in rendered
    assert '<input type="text" name="to" autocomplete="off" maxlength="300" required id="id_to">' in rendered
    assert '<input type="hidden" name="to-id">' in rendered
    assert 'data-url="/redis/autocomplete/contacts/" data-min-length="1"' in rendered
    assert "data-scope" not in rendered
    assert "data-recents" not in rendered


def test_widget_has_no_inline_script_or_style(contacts: PrefixIndex) -> None:
    rendered = LetterForm().as_p()

    assert "<script" not in rendered
    assert "style=" not in rendered
    assert not any(f" on{event}=" in rendered for event in ("click", "input", "focus", "keydown"))


def test_media_are_one_stylesheet_and_one_script() -> None:
    rendered = str(LetterForm().media)

    assert '<script src="/static/django_redis_components/autocomplete.js" defer></script>' in rendered
    assert 'href="/static/django_redis_components/autocomplete.css"' in rendered


def test_media_of_two_widgets_are_included_once() -> None:
    class TwoForm(forms.Form):
        one = AutocompleteField("contacts")
        two = AutocompleteField("contacts")

    assert str(TwoForm().media).count("<script") == 1


def test_help_text_and_errors_reach_the_visible_input(contacts: PrefixIndex) -> None:
    class HelpForm(forms.Form):
        to = AutocompleteField("contacts", help_text="A member")

    rendered = HelpForm({"to": "nobody"}).as_p()

    visible = rendered.split('<input type="text"')[1].split(">")[0]
    assert 'aria-describedby="id_to_helptext' in visible
    assert 'aria-invalid="true"' in visible


def test_disabled_field_disables_both_inputs(contacts: PrefixIndex) -> None:
    class DisabledForm(forms.Form):
        to = AutocompleteField("contacts", disabled=True)

    assert str(DisabledForm()["to"]).count(" disabled") == 2


def test_widget_marks_an_index_with_recents(contacts: PrefixIndex) -> None:
    register("contacts", recents=lambda request: None, min_length=2)

    rendered = str(LetterForm()["to"])

    assert "data-recents" in rendered
    assert 'data-min-length="2"' in rendered


def test_scope_is_signed_and_selects_the_index(redis_server: Store) -> None:
    register("guild", scoped=True)
    PrefixIndex("guild:7").add(1, "Anna")

    class GuildForm(forms.Form):
        to = AutocompleteField("guild")

        def __init__(self, *args: Any, guild: int, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.fields["to"].scope = guild

    rendered = str(GuildForm(guild=7)["to"])
    signed = rendered.split('data-scope="')[1].split('"')[0]

    assert read_scope("guild", signed) == "7"
    assert GuildForm({"to": "anna"}, guild=7).is_valid()
    assert not GuildForm({"to": "anna"}, guild=8).is_valid()
    assert GuildForm.base_fields["to"].scope is None


def test_missing_or_unexpected_scope_raises() -> None:
    register("guild", scoped=True)
    register("contacts")

    with pytest.raises(ScopeNeeded, match="Index 'guild' with scope None: the index has one part per scope"):
        AutocompleteInput("guild").render("to", None)
    with pytest.raises(ScopeNeeded, match="Index 'contacts' with scope 7: the index has no scopes"):
        AutocompleteInput("contacts", scope=7).render("to", None)


def test_widget_needs_no_scope_if_the_request_determines_it() -> None:
    register("tenant", scope_for=lambda request: "mine")

    rendered = AutocompleteInput("tenant").render("to", 5)

    assert "data-scope" not in rendered
    assert 'value="5"' in rendered


def test_unregistered_index_raises() -> None:
    with pytest.raises(UnknownIndex) as nothing:
        AutocompleteInput("contacts").render("to", None)
    register("contacts")
    register("guild")
    with pytest.raises(UnknownIndex) as near:
        AutocompleteInput("contcts").render("to", None)
    with pytest.raises(UnknownIndex) as far:
        AutocompleteInput("zzz").render("to", None)

    assert str(nothing.value) == (
        "No autocomplete index 'contacts' is registered. "
        "No index is registered: call autocomplete.register() in the module indexes.py of an app."
    )
    assert str(near.value) == "No autocomplete index 'contcts' is registered. Did you mean 'contacts'?"
    assert str(far.value) == "No autocomplete index 'zzz' is registered. Registered indexes: 'contacts', 'guild'."


def test_missing_view_raises_with_what_to_add(settings: Any) -> None:
    register("contacts")
    settings.ROOT_URLCONF = "tests.autocomplete.urls_without_view"

    with pytest.raises(ConfigurationError) as raised:
        AutocompleteInput("contacts").render("to", None)

    assert str(raised.value) == (
        'The URLconf does not include the view of the autocomplete widget: add path("redis/", '
        'include("django_redis_components.urls")).'
    )


def test_formset_makes_a_field_for_each_row(contacts: PrefixIndex) -> None:
    formset = forms.formset_factory(LetterForm, extra=1)(
        {
            "form-TOTAL_FORMS": "2",
            "form-INITIAL_FORMS": "0",
            "form-0-to": "Émile Zola",
            "form-0-to-id": "1",
            "form-1-to": "Anna",
            "form-1-to-id": "2",
        }
    )

    assert formset.is_valid(), formset.errors
    assert [row["to"].id for row in formset.cleaned_data] == ["1", "2"]
    assert 'name="form-__prefix__-to-id"' in str(formset.empty_form)


def test_permission_receives_an_http_request() -> None:
    seen = []
    source = register("contacts", permission=lambda request, scope: seen.append((request.path, scope)) or True)

    assert source.is_permitted(RequestFactory().get("/x"), "") is True
    assert seen == [("/x", "")]
