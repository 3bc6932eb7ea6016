"""Fields for foreign keys and many-to-many relations: in forms, formsets, inlines and the admin."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.http import QueryDict
from django.test import RequestFactory

from django_redis_components.autocomplete import (
    AutocompleteChoiceField,
    AutocompleteError,
    AutocompleteField,
    AutocompleteModelField,
    AutocompleteMultipleChoiceField,
    ModelIndex,
    PrefixIndex,
    Suggestion,
    model_fields,
    register,
    widgets,
)
from django_redis_components.autocomplete.admin import RedisAutocompleteMixin
from django_redis_components.core.text import fold
from tests.support import Store

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]


class ContentTypes(ModelIndex):
    model = ContentType
    terms = ("model",)


class Groups(ModelIndex):
    model = Group
    text = "name"


class Scoped(ModelIndex):
    """Groups by the first letter of their name."""

    model = Group
    name = "scoped"
    text = "name"

    def scope(self, obj: Any) -> str:
        return obj.name[0]


class PermissionForm(forms.ModelForm):
    class Meta:
        model = Permission
        fields = ("name", "codename", "content_type")
        field_classes = {"content_type": AutocompleteModelField}


class UserForm(forms.ModelForm):
    groups = AutocompleteMultipleChoiceField("auth.group", required=False)

    class Meta:
        model = User
        fields = ("username", "groups")


widgets.used_indexes.discard("auth.group")  # the system checks of other tests must not see this form


@pytest.fixture
def groups(redis_server: Store) -> list[Group]:
    register(Groups)
    register(ContentTypes)
    for kind in ContentType.objects.all():
        kind.save()
    return [Group.objects.create(name=name) for name in ("Editors", "Authors", "Readers")]


def permission_form(instance: Permission | None = None, **kind: Any) -> PermissionForm:
    values = QueryDict(mutable=True)
    values.update({"name": "Can paint", "codename": "paint"})
    for key, value in kind.items():
        values[key.replace("kind", "content_type")] = str(value)
    return PermissionForm(values, instance=instance)


def user_form(instance: User | None = None, *, chosen: Any = (), typed: str = "") -> UserForm:
    values = QueryDict(mutable=True)
    values["username"] = "anna"
    values.setlist("groups", [str(each) for each in chosen])
    values["groups-text"] = typed
    return UserForm(values, instance=instance)


def user_kind() -> ContentType:
    return ContentType.objects.get_for_model(User)


@pytest.mark.parametrize(
    "typed", ["Authentication and Authorization | user", "authentication and authorization | USER"]
)
def test_foreign_key_is_chosen_by_id_or_text(groups: list[Group], typed: str) -> None:
    kind = user_kind()

    for given in ({"kind": typed, "kind-id": kind.pk}, {"kind": typed}, {"kind": "user"}):
        form = permission_form(**given)
        assert form.is_valid(), form.errors
        assert form.save(commit=False).content_type == kind


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"kind": "no such kind"}, "“no such kind” was not found. Choose one of the suggestions."),
        ({"kind": "x", "kind-id": "999999"}, "“x” was not found. Choose one of the suggestions."),
        ({"kind": "x", "kind-id": "no number"}, "“x” was not found. Choose one of the suggestions."),
        ({"kind": "x", "kind-id": "9" * 40}, "“x” was not found. Choose one of the suggestions."),
        ({"kind": "a" * 301}, "Enter at most 300 characters."),
        ({"kind": "a\x00b"}, "The text has invalid characters."),
        ({"kind": ""}, "This field is required."),
        ({}, "This field is required."),
    ],
)
def test_invalid_choices_are_errors(groups: list[Group], given: dict[str, Any], problem: str) -> None:
    form = permission_form(**given)

    assert form.errors == {"content_type": [problem]}


def test_text_of_a_chosen_object_is_not_folded_if_it_is_too_long(
    groups: list[Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folding a ligature of 18 letters, sent as often as fits into a request, takes ten seconds."""
    lengths: list[int] = []
    monkeypatch.setattr(model_fields, "fold", lambda text: lengths.append(len(text)) or fold(text))

    form = permission_form(kind="\ufdfa" * 100_000, **{"kind-id": str(ContentType.objects.all()[0].pk)})

    assert form.errors == {"content_type": ["Enter at most 300 characters."]}
    assert all(length <= 300 for length in lengths)


def test_text_that_matches_several_objects_is_ambiguous(groups: list[Group]) -> None:
    form = permission_form(kind="session")
    register(type("Same", (ContentTypes,), {"terms": ("app_label",)}))
    for kind in ContentType.objects.all():
        kind.save()

    assert permission_form(kind="auth").errors == {
        "content_type": ["“auth” matches several entries. Choose one of the suggestions."]
    }
    assert form.is_valid()


def test_objects_outside_of_the_queryset_cannot_be_chosen(groups: list[Group]) -> None:
    class Form(forms.Form):
        group = AutocompleteModelField(queryset=Group.objects.exclude(name="Readers"))

    chosen, hidden = groups[0], groups[2]

    assert Form({"group": "Editors", "group-id": str(chosen.pk)}).is_valid()
    assert not Form({"group": "Readers", "group-id": str(hidden.pk)}).is_valid()
    assert not Form({"group": "Readers"}).is_valid()


def test_instance_and_initial_are_shown_with_their_text(groups: list[Group]) -> None:
    permission = Permission.objects.get(codename="add_user")

    html = str(PermissionForm(instance=permission)["content_type"])

    assert f'name="content_type-id" value="{permission.content_type_id}"' in html
    assert 'value="Authentication and Authorization | user"' in html
    assert (
        PermissionForm(
            {"content_type": "session", "content_type-id": str(permission.content_type_id)}, instance=permission
        ).changed_data[-1]
        == "content_type"
    )
    assert not PermissionForm(
        {"name": permission.name, "codename": "add_user", "content_type": "Authentication and Authorization | user",
         "content_type-id": str(permission.content_type_id)},
        instance=permission,
    ).has_changed()  # fmt: skip


def test_submitted_text_is_shown_again_with_its_error(groups: list[Group]) -> None:
    html = str(permission_form(kind="Nobody <b>")["content_type"])

    assert 'value="Nobody &lt;b&gt;"' in html
    assert 'aria-invalid="true"' in html


def test_many_objects_are_chosen_removed_and_added_by_text(groups: list[Group]) -> None:
    form = user_form(chosen=[groups[0].pk, groups[1].pk])
    assert form.is_valid(), form.errors
    anna = form.save()
    assert set(anna.groups.all()) == {groups[0], groups[1]}

    form = user_form(anna, chosen=[groups[1].pk], typed="readers")
    assert form.is_valid(), form.errors
    assert form.has_changed()
    form.save()

    assert set(anna.groups.all()) == {groups[1], groups[2]}
    assert not user_form(anna, chosen=[groups[1].pk, groups[2].pk]).has_changed()
    form = user_form(anna)
    assert form.is_valid()
    form.save()
    assert not anna.groups.exists()


@pytest.mark.parametrize(
    ("chosen", "typed", "problem"),
    [
        ([404], "", "“404” was not found. Choose one of the suggestions."),
        (["x"], "", "“x” was not found. Choose one of the suggestions."),
        ([], "nobody", "“nobody” was not found. Choose one of the suggestions."),
        ([], "a\x00b", "The text has invalid characters."),
    ],
)
def test_invalid_choices_of_many_are_errors(groups: list[Group], chosen: list[Any], typed: str, problem: str) -> None:
    form = user_form(chosen=[groups[0].pk, *chosen], typed=typed)

    assert form.errors == {"groups": [problem]}
    html = str(form["groups"])
    assert f'type="checkbox" name="groups" value="{groups[0].pk}" checked> Editors' in " ".join(html.split())


def test_many_required_objects(groups: list[Group]) -> None:
    class Form(forms.Form):
        groups = AutocompleteMultipleChoiceField("auth.group")

    assert Form({}).errors == {"groups": ["This field is required."]}
    form = Form({"groups": [str(groups[0].pk)], "groups-text": ""})
    assert form.is_valid()
    assert list(form.cleaned_data["groups"]) == [groups[0]]


def test_chosen_objects_are_read_by_one_query(groups: list[Group], django_assert_num_queries: Any) -> None:
    anna = User.objects.create(username="anna")
    anna.groups.set(groups)

    with django_assert_num_queries(1):
        html = str(UserForm(instance=anna)["groups"])

    assert re.findall(r'type="checkbox" name="groups" value="(\d+)" checked', html) == [str(one.pk) for one in groups]


def test_text_without_a_match_creates_an_object(groups: list[Group]) -> None:
    class Form(forms.Form):
        group = AutocompleteModelField("auth.group", create=lambda text: Group.objects.create(name=text))

    form = Form({"group": "Painters"})

    assert form.is_valid()
    assert form.cleaned_data["group"] == Group.objects.get(name="Painters")
    assert Form({"group": "painters"}).is_valid()
    assert Group.objects.filter(name__iexact="painters").count() == 1


def test_objects_of_another_scope_cannot_be_chosen(groups: list[Group]) -> None:
    register(Scoped)
    for group in groups:
        group.save()

    class Form(forms.Form):
        group = AutocompleteModelField("scoped")

        def __init__(self, *args: Any, scope: str) -> None:
            super().__init__(*args)
            self.fields["group"].scope = scope

    editors = {"group": "Editors", "group-id": str(groups[0].pk)}
    assert Form(editors, scope="E").is_valid()
    assert not Form(editors, scope="A").is_valid()
    assert not Form({"group": "Editors"}, scope="A").is_valid()
    assert "data-scope=" in str(Form(scope="E")["group"])


class ByFirstLetter(Scoped):
    """Groups by the first letter that another field has."""

    name = "by-letter"
    forward = ("letter",)


class DependentForm(forms.Form):
    letter = forms.CharField(required=False)
    group = AutocompleteModelField("by-letter", required=False)
    groups = AutocompleteMultipleChoiceField("by-letter", required=False)


widgets.used_indexes.discard("by-letter")


@pytest.fixture
def by_letter(groups: list[Group]) -> list[Group]:
    register(ByFirstLetter)
    for group in groups:
        group.save()
    return groups


@pytest.mark.parametrize(
    ("letter", "given", "problems"),
    [
        ("E", {"group": "Editors"}, set()),
        ("E", {"group": "editors", "group-id": "1"}, set()),
        ("A", {"group": "Editors"}, {"group"}),
        ("A", {"group": "Editors", "group-id": "1"}, {"group"}),
        ("", {"group": "Editors", "group-id": "1"}, {"group"}),
        ("{", {"group": "Editors"}, {"group"}),
        ("E", {"groups": "1"}, set()),
        ("E", {"groups-text": "editors"}, set()),
        ("A", {"groups": "1"}, {"groups"}),
        ("", {"groups-text": "Editors"}, {"groups"}),
        ("", {}, set()),
    ],
)
def test_other_field_determines_what_may_be_chosen(
    by_letter: list[Group], letter: str, given: dict[str, str], problems: set[str]
) -> None:
    data = {key: str(by_letter[0].pk) if value == "1" else value for key, value in given.items()}
    for prefix in ("", "form-3-"):
        posted = QueryDict(mutable=True)
        posted.update({prefix + key: value for key, value in {"letter": letter, **data}.items()})

        form = DependentForm(posted, prefix=prefix.rstrip("-") or None)

        assert set(form.errors) == problems
    html = str(DependentForm(posted, prefix=prefix.rstrip("-")))
    assert 'data-forward="letter"' in html
    assert "data-scope" not in html


class TypedLetterForm(forms.Form):
    letter = AutocompleteField("letters", required=False)
    group = AutocompleteModelField("by-letter")


widgets.used_indexes.difference_update({"letters", "by-letter"})


@pytest.mark.parametrize(
    ("letter", "id_", "is_valid"),
    [
        ("letter e", "", True),  # typed without JavaScript
        ("letter a", "", False),
        ("letter e", "A", True),  # changed without JavaScript, after another one was chosen
        ("letter a", "E", False),
        ("", "E", False),
    ],
)
def test_text_that_was_typed_in_the_other_field_determines_what_may_be_chosen(
    by_letter: list[Group], letter: str, id_: str, is_valid: bool
) -> None:
    letters = register("letters").index()
    for name in "AE":
        letters.add(name, f"Letter {name}")
    for prefix in ("", "form-3-"):
        data = {prefix + "letter": letter, prefix + "letter-id": id_, prefix + "group": "Editors"}

        form = TypedLetterForm(data, prefix=prefix.rstrip("-") or None)

        assert form.is_valid() is is_valid
        assert set(form.errors) == (set() if is_valid else {"group"})


@pytest.mark.parametrize(("letter", "is_valid"), [("E", True), ("A", False)])
@pytest.mark.parametrize("submitted", [{}, {"letter": "E"}])
def test_value_of_a_disabled_field_is_the_initial_one_whatever_was_submitted(
    by_letter: list[Group], letter: str, is_valid: bool, submitted: dict[str, str]
) -> None:
    class Form(DependentForm):
        letter = forms.CharField(disabled=True)

    data = {**submitted, "group": "Editors", "group-id": str(by_letter[0].pk)}

    form = Form(data, initial={"letter": letter})

    assert form.is_valid() == is_valid
    assert f'data-forward-fixed="{{&quot;letter&quot;: &quot;{letter}&quot;}}"' in str(Form(initial={"letter": letter}))


@pytest.mark.parametrize(
    ("field", "initial", "expected"),
    [
        (forms.BooleanField(disabled=True), False, ""),
        (forms.BooleanField(disabled=True), True, "on"),
        (forms.NullBooleanField(disabled=True), True, "true"),
        (forms.ChoiceField(disabled=True, choices=[(1, "one")]), 1, "1"),
        (forms.MultipleChoiceField(disabled=True, choices=[(1, "one"), (2, "two")]), [1, 2], "2"),
        (forms.MultipleChoiceField(disabled=True, choices=[(1, "one")]), [], ""),
        (forms.IntegerField(disabled=True), 0, "0"),
        (forms.CharField(disabled=True), None, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, forms.Field) else str(value),
)
def test_value_of_a_disabled_field_is_what_a_browser_would_send(
    by_letter: list[Group], field: forms.Field, initial: object, expected: str
) -> None:
    got = []

    class Recording(Scoped):
        name = "recording"
        forward = ("letter",)

        def scope_from(self, *, letter: str) -> str:
            got.append(letter)
            return "E"

    class Form(forms.Form):
        letter = field
        group = AutocompleteModelField("recording")

    register(Recording)
    widgets.used_indexes.discard("recording")

    Form({"letter": "forged", "group": "x"}, initial={"letter": initial}).is_valid()

    assert set(got) == {expected}


def test_object_of_a_disabled_field_is_read_once(by_letter: list[Group], django_assert_num_queries: Any) -> None:
    class Form(DependentForm):
        letter = AutocompleteModelField("auth.group", disabled=True)

    with django_assert_num_queries(0):
        form = Form({}, initial={"letter": by_letter[0].pk})
        form["group"]

    assert form.fields["group"].widget.fixed == {"letter": str(by_letter[0].pk)}


@pytest.mark.django_db
def test_value_that_a_form_only_shows_is_what_a_browser_would_send(redis_server: Store) -> None:
    class OfUser(Scoped):
        name = "of-user"
        forward = ("is_staff", "date_joined")

    class Shown(forms.ModelForm):
        like = AutocompleteModelField("of-user")

        class Meta:
            model = User
            fields = ()

    class Disabled(Shown):
        is_staff = forms.BooleanField(disabled=True)
        date_joined = forms.DateTimeField(disabled=True, widget=forms.DateTimeInput(format="%d.%m.%Y"))

        class Meta(Shown.Meta):
            fields = ("is_staff", "date_joined")

    register(OfUser)
    joined = datetime(2026, 11, 27, 12, 30, tzinfo=UTC)

    def fixed(form: type[forms.ModelForm], *, is_staff: bool) -> dict[str, str]:
        shown = form(instance=User(is_staff=is_staff, date_joined=joined))
        shown["like"]
        return shown.fields["like"].widget.fixed

    widgets.used_indexes.discard("of-user")
    assert fixed(Shown, is_staff=False) == {"is_staff": "", "date_joined": "2026-11-27 13:30:00"}
    assert fixed(Shown, is_staff=True)["is_staff"] == "on"
    assert fixed(Disabled, is_staff=False) == {"is_staff": "", "date_joined": "27.11.2026"}


def test_value_that_the_form_only_shows_is_that_of_its_instance(by_letter: list[Group]) -> None:
    class ByName(Scoped):
        name = "by-name"
        forward = ("name",)

        def scope_from(self, *, name: str) -> str:
            return name[:1]

    class Form(forms.ModelForm):
        like = AutocompleteModelField("by-name")

        class Meta:
            model = Group
            fields = ()

    register(ByName)
    for group in by_letter:
        group.save()
    widgets.used_indexes.discard("by-name")
    data = {"like": "Editors", "like-id": str(by_letter[0].pk)}

    assert [Form(data, instance=group).is_valid() for group in by_letter[:2]] == [True, False]
    forged = {**data, "name": "Editors"}
    assert not Form(forged, instance=by_letter[1]).is_valid()
    of_row = {f"row-{name}": value for name, value in forged.items()}
    assert not Form({**of_row, "name": "Editors"}, instance=by_letter[1], prefix="row").is_valid()
    assert Form(forged, instance=Group(name="Artists")).is_valid(), "another form of the page sends that of a new one"
    assert "&quot;name&quot;: &quot;Editors&quot;" in str(Form(instance=by_letter[0]))


def test_initial_objects_are_shown_whatever_the_other_field_has(by_letter: list[Group]) -> None:
    html = str(DependentForm(initial={"group": by_letter[0], "groups": by_letter[1:]}))

    assert all(f"{group.name}" in html for group in by_letter)


def test_field_without_a_model_depends_on_another_field_too(redis_server: Store) -> None:
    class CityForm(forms.Form):
        country = forms.CharField()
        city = AutocompleteField("cities")

    widgets.used_indexes.discard("cities")
    cities = register("cities", forward=["country"])
    cities.index("de").add(1, "Berlin")

    assert CityForm({"country": "de", "city": "berlin"}).is_valid()
    assert not CityForm({"country": "fr", "city": "Berlin", "city-id": "1"}).is_valid()
    form = CityForm({"country": "", "city": "Berlin", "city-id": "1"})
    assert form.errors["city"] == ["“Berlin” was not found. Choose one of the suggestions."]
    assert CityForm({"country": "de", "city": "Berlin", "city-id": "1"}, initial={"city": "1"}).has_changed()
    with pytest.raises(TypeError, match=r"^forward='country': expected a list of names of form fields\.$"):
        register("cities", forward="country")


def test_view_reads_the_scope_from_the_other_field(by_letter: list[Group], client: Any) -> None:
    User.objects.create_superuser("root")
    client.force_login(User.objects.get())

    def suggested(**query: str) -> Any:
        answer = client.get("/redis/autocomplete/by-letter/", query)
        assert answer.status_code == 200, answer.content
        return answer.json()

    assert [one["text"] for one in suggested(term="ed", **{"forward-letter": "E"})["results"]] == ["Editors"]
    assert suggested(term="ed", **{"forward-letter": "A"})["results"] == []
    missing = {"results": [], "pagination": {"more": False}}
    assert suggested(term="ed") == {**missing, "status": "First choose a value in the field that this one depends on."}
    client.logout()
    assert client.get("/redis/autocomplete/by-letter/", {"term": "ed", "forward-letter": "E"}).status_code == 403


def test_formset_with_added_and_deleted_rows_is_saved(groups: list[Group]) -> None:
    Membership = User.groups.through  # noqa: N806 - a model
    anna = User.objects.create(username="anna")
    Membership.objects.create(user=anna, group=groups[0])
    FormSet = forms.inlineformset_factory(  # noqa: N806 - a class
        User, Membership, fields=("group",), field_classes={"group": AutocompleteModelField}, extra=1
    )
    prefix = FormSet.get_default_prefix()
    existing = Membership.objects.get()
    rows = {
        f"{prefix}-TOTAL_FORMS": "3", f"{prefix}-INITIAL_FORMS": "1",
        f"{prefix}-0-id": str(existing.pk), f"{prefix}-0-group": "Editors", f"{prefix}-0-group-id": str(groups[0].pk),
        f"{prefix}-0-DELETE": "on",
        f"{prefix}-1-group": "readers",
        f"{prefix}-2-group": "",
    }  # fmt: skip

    formset = FormSet(rows, instance=anna)
    assert formset.is_valid(), formset.errors
    formset.save()

    assert [one.group for one in Membership.objects.filter(user=anna)] == [groups[2]]
    Membership.objects.create(pk=existing.pk, user=anna, group=groups[0])
    wrong = FormSet({**rows, f"{prefix}-1-group": "nobody"}, instance=anna)
    assert wrong.forms[1].errors == {"group": ["“nobody” was not found. Choose one of the suggestions."]}


def test_model_admin_and_inline_use_the_index(groups: list[Group], client: Any) -> None:
    root = User.objects.create_superuser("root")
    site = admin.AdminSite()

    class Memberships(RedisAutocompleteMixin, admin.TabularInline):
        model = User.groups.through
        redis_autocomplete_fields = ("group",)

    class UserAdmin(RedisAutocompleteMixin, admin.ModelAdmin):
        fields = ("username", "groups")
        redis_autocomplete_fields = ("groups",)
        inlines = (Memberships,)

    class PermissionAdmin(RedisAutocompleteMixin, admin.ModelAdmin):
        redis_autocomplete_fields = ("content_type",)

    request = RequestFactory().get("/")
    request.user = root
    user_admin, permission_admin = UserAdmin(User, site), PermissionAdmin(Permission, site)

    form = user_admin.get_form(request)({"username": "anna", "groups": [str(groups[1].pk)]})
    assert form.is_valid(), form.errors
    assert list(form.save().groups.all()) == [groups[1]]
    kind = permission_admin.get_form(request)
    assert isinstance(kind.base_fields["content_type"], AutocompleteModelField)
    assert "<redis-autocomplete" in str(kind()["content_type"])
    [inline] = user_admin.get_formsets_with_inlines(request)
    assert isinstance(inline[0].form.base_fields["group"], AutocompleteModelField)


def test_admin_names_a_field_without_a_relation(groups: list[Group]) -> None:
    class Wrong(RedisAutocompleteMixin, admin.ModelAdmin):
        redis_autocomplete_fields = ("username",)

    request = RequestFactory().get("/")
    request.user = User(is_superuser=True, is_active=True)

    with pytest.raises(
        TypeError, match=r"^Wrong\.redis_autocomplete_fields: 'username' is neither a foreign key nor a many-to-many"
    ):
        Wrong(User, admin.AdminSite()).get_form(request)


def test_model_without_an_index_is_named(redis_server: Store) -> None:
    class Form(forms.Form):
        group = AutocompleteModelField(queryset=Group.objects.all())

    with pytest.raises(AutocompleteError, match=r"^Indexes of auth\.Group: none\. Expected one"):
        Form()


def test_index_without_a_model_is_named(redis_server: Store) -> None:
    register("contacts")

    class Form(forms.Form):
        group = AutocompleteModelField("contacts")

    with pytest.raises(AutocompleteError, match=r"^Index 'contacts' is no ModelIndex: use AutocompleteField\.$"):
        Form()


@pytest.mark.parametrize("options", [{}, {"index": "a", "queryset": Group.objects.all()}])
def test_field_needs_an_index_or_a_queryset(options: dict[str, Any]) -> None:
    for kind in (AutocompleteModelField, AutocompleteMultipleChoiceField):
        with pytest.raises(TypeError, match=r"^expected either index or queryset"):
            kind(**options)


def test_chosen_object_is_accepted_while_redis_is_unavailable(groups: list[Group], settings: Any) -> None:
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}
    }

    form = user_form(chosen=[groups[0].pk])
    assert form.is_valid()
    assert user_form(typed="Editors").errors == {
        "groups": ["“Editors” cannot be checked at the moment. Try again in a minute."]
    }
    kind = user_kind()
    assert permission_form(kind=str(kind), **{"kind-id": kind.pk}).is_valid()


def test_choice_field_has_the_id_of_an_entry(redis_server: Store) -> None:
    register("contacts")
    PrefixIndex("contacts").add(7, "Anna")

    class Form(forms.Form):
        to = AutocompleteChoiceField("contacts", required=False)

    assert [Form(given).is_valid() for given in ({"to": "anna"}, {"to": "x"}, {})] == [True, False, True]
    form = Form({"to": "Anna", "to-id": "7"})
    assert form.is_valid()
    assert form.cleaned_data == {"to": "7"}
    assert AutocompleteField("contacts").clean("anna") == Suggestion("7", "Anna")
    with pytest.raises(forms.ValidationError, match="This field is required"):
        AutocompleteChoiceField("contacts").clean("")
