"""The URLconf and the page of the browser tests of a field that depends on another autocomplete field."""

from __future__ import annotations

from django import forms
from django.http import HttpRequest, HttpResponse
from django.template import RequestContext, Template
from django.urls import include, path

from django_redis_components.autocomplete import AutocompleteField, widgets

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>A city</title>
<link rel="icon" href="data:,">{{ form.media }}</head>
<body><main><form method="post">{% csrf_token %}{{ form.as_p }}<button>Send</button></form></main></body></html>"""


class CityForm(forms.Form):
    country = AutocompleteField("countries", required=False)
    city = AutocompleteField("cities", required=False)


widgets.used_indexes.difference_update({"countries", "cities"})  # the checks of other tests must not see them


def page(request: HttpRequest) -> HttpResponse:
    """Return the form."""
    return HttpResponse(Template(PAGE).render(RequestContext(request, {"form": CityForm()})))


urlpatterns = [path("", page), path("redis/", include("django_redis_components.urls"))]
