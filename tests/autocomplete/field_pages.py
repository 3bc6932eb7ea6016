"""The URLconf and the pages of the browser tests of fields for models: a form, a formset, and an admin site."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import RequestContext, Template
from django.urls import include, path
from django.utils.translation import get_language_bidi

from django_redis_components.autocomplete import (
    AutocompleteModelField,
    AutocompleteMultipleChoiceField,
    ModelIndex,
    widgets,
)
from django_redis_components.autocomplete.admin import RedisAutocompleteMixin

PAGE = """{% load i18n %}<!doctype html>
<html lang="en" dir="{{ dir }}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Fields</title><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">{{ form.media }}</head>
<body><main><h1>Choose groups</h1>
<form method="post" action="/sent/">{% csrf_token %}{{ form.as_p }}
<div id="rows">{{ formset.management_form }}
<p class="row" id="empty" hidden>{{ formset.empty_form.groups.label_tag }} {{ formset.empty_form.groups }}</p></div>
<p><button type="submit">Send</button></p></form></main></body></html>"""


class Groups(ModelIndex):
    """All groups."""

    model = Group
    name = "all-groups"
    text = "name"


class ByLetter(ModelIndex):
    """Groups by the first letter of their name, which another field has."""

    model = Group
    name = "groups-by-letter"
    text = "name"
    forward = ("letter",)

    def scope(self, obj: Any) -> str:
        return obj.name[0]


def create(name: str) -> Group:
    """Return the group with this name."""
    return Group.objects.get_or_create(name=name)[0]


class GroupForm(forms.Form):
    letter = forms.ChoiceField(choices=[("", "Any"), ("A", "A"), ("E", "E")], required=False)
    main = AutocompleteModelField("groups-by-letter", required=False)
    groups = AutocompleteMultipleChoiceField("all-groups", required=False)
    tag = AutocompleteModelField("all-groups", required=False, create=create)
    tags = AutocompleteMultipleChoiceField("all-groups", required=False, create=create)


class RowForm(forms.Form):
    groups = AutocompleteMultipleChoiceField("all-groups", label="Row", required=False)


class PermissionForm(forms.ModelForm):
    """A row with fields that depend on another one of the row."""

    letter = forms.ChoiceField(choices=[("", "Any"), ("A", "A"), ("E", "E")], required=False)
    main = AutocompleteModelField("groups-by-letter", required=False)
    groups = AutocompleteMultipleChoiceField("groups-by-letter", required=False)

    class Meta:
        model = Permission
        fields = ("name",)


class Permissions(RedisAutocompleteMixin, admin.TabularInline):
    model = Permission
    form = PermissionForm
    extra = 0


class ContentTypeAdmin(admin.ModelAdmin):
    fields = ("model",)
    inlines = (Permissions,)


class UserAdmin(RedisAutocompleteMixin, admin.ModelAdmin):
    fields = ("username", "password", "groups")
    redis_autocomplete_fields = {"groups": "all-groups"}


widgets.used_indexes.difference_update(
    {"all-groups", "groups-by-letter"}
)  # the checks of other tests must not see them

site = admin.AdminSite("fields")
site.register(User, UserAdmin)
site.register(ContentType, ContentTypeAdmin)


def page(request: HttpRequest) -> HttpResponse:
    """Return the form and an empty formset. ``?groups=7`` is an initial group, ``?letter=E`` a letter that stays."""
    letter = request.GET.get("letter", "")
    form = GroupForm(initial={"groups": request.GET.getlist("groups"), "letter": letter})
    form.fields["letter"].disabled = bool(letter)
    context = {
        "form": form,
        "formset": forms.formset_factory(RowForm, extra=0)(prefix="rows"),
        "dir": "rtl" if get_language_bidi() else "ltr",
    }
    return HttpResponse(Template(PAGE).render(RequestContext(request, context)))


def sent(request: HttpRequest) -> JsonResponse:
    """Return what was chosen."""
    form = GroupForm(request.POST)
    if not form.is_valid():
        return JsonResponse({"errors": form.errors})
    main = form.cleaned_data["main"]
    rows = [
        sorted(RowForm(request.POST, prefix=f"rows-{n}")["groups"].value().ids)
        for n in range(5)
        if f"rows-{n}-groups-text" in request.POST
    ]
    chosen = sorted(group.name for group in form.cleaned_data["groups"])
    tags = sorted(tag.name for tag in form.cleaned_data["tags"])
    return JsonResponse({"main": main and main.name, "groups": chosen, "tags": tags, "rows": rows})


urlpatterns = [
    path("", page),
    path("sent/", sent),
    path("admin/", site.urls),
    path("favicon.ico", lambda request: HttpResponse(status=204)),
    path("redis/", include("django_redis_components.urls")),
]
