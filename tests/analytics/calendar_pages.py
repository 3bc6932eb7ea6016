"""URLconf of a page with the calendar of sign-ins, under a policy that allows no inline style or script."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template import Context, Engine
from django.urls import path

PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Calendar</title>{% sign_in_calendar_media %}</head>
<body><main><h1>Calendar</h1>{% sign_in_calendar 7 site="check-in" year=2025 %}</main></body>
</html>"""


def calendar(_: HttpRequest) -> HttpResponse:
    engine = Engine(
        builtins=["django_redis_components.templatetags.redis_components", "django.templatetags.static"],
    )
    response = HttpResponse(engine.from_string(PAGE).render(Context()))
    response["Content-Security-Policy"] = "default-src 'none'; style-src 'self'; connect-src 'self'"
    return response


urlpatterns = [path("", calendar), path("admin/", admin.site.urls)]
