"""The URLconf and the pages of the browser tests of the widget."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template import RequestContext, Template
from django.urls import include, path

from django_redis_components.autocomplete import AutocompleteField, widgets

PAGE = """{% load redis_components %}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Autocomplete</title><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">{{ form.media }}{% autocomplete_media %}</head>
<body><main><h1>Write a letter</h1>
<form method="post" action="/sent/">{% csrf_token %}{{ form.as_p }}
<p><label for="id_second">Copy to</label> {% autocomplete name="second" index="contacts" %}</p>
<div id="rows">{{ formset.management_form }}
{% for row in formset %}<p class="row">{{ row.to.label_tag }} {{ row.to }}</p>{% endfor %}
<p class="row" id="empty" hidden>{{ formset.empty_form.to.label_tag }} {{ formset.empty_form.to }}</p></div>
<p><button type="submit">Send</button> <button type="reset">Reset</button></p></form></main></body></html>"""


class LetterForm(forms.Form):
    to = AutocompleteField("contacts", help_text="A member of the guild", required=False)


class RowForm(forms.Form):
    to = AutocompleteField("contacts", label="Recipient", required=False)


widgets.used_indexes.discard("contacts")  # the system checks of other tests must not see these forms


def letter(request: HttpRequest) -> HttpResponse:
    """Return a form with a field, a tag and a formset. ``?to=7`` is the initial contact."""
    form = LetterForm(initial={"to": request.GET.get("to")})
    context = {"form": form, "formset": forms.formset_factory(RowForm, extra=1)()}
    return HttpResponse(Template(PAGE).render(RequestContext(request, context)))


def sent(request: HttpRequest) -> JsonResponse:
    """Return the data of the submitted letter."""
    form = LetterForm(request.POST)
    valid = form.is_valid()
    chosen: Any = form.cleaned_data.get("to")
    return JsonResponse(
        {
            "to": [chosen.id, chosen.text] if chosen else None,
            "errors": [] if valid else list(form.errors["to"]),
            "posted": {name: value for name, value in request.POST.items() if "csrf" not in name},
        }
    )


urlpatterns = [
    path("", letter),
    path("sent/", sent),
    path("favicon.ico", lambda request: HttpResponse(status=204)),
    path("redis/", include("django_redis_components.urls")),
]
