"""Where visitors come from: the counts of the access log, and a button that sends made-up visitors."""

from __future__ import annotations

from pathlib import Path

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from redis.exceptions import RedisError

from example_project.market import tasks
from example_project.market.content.visitors import RANGES
from example_project.market.places import DAYS, LEVELS, Report, report
from example_project.paths import ACCESS_LOG, ROOT


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def places(request: HttpRequest) -> HttpResponse:
    """Show the requests by country, region or city (``by``); send made-up visitors with POST.

    While Redis is unavailable the page has no numbers.
    """
    if request.method == "POST":
        tasks.send_visitors.using(unique=True).enqueue()
        text = _("%d made-up visitors are on their way. Reload this page in a few seconds.")
        messages.success(request, text % tasks.VISITORS)
        return redirect("places")
    asked = request.GET.get("by", "")
    level = asked if asked in LEVELS else "country"
    context = {
        "report": _report(level),
        "level": level,
        "level_name": LEVELS[level],
        "levels": LEVELS.items(),
        "days": DAYS,
        "visitors": tasks.VISITORS,
        "log": _short(ACCESS_LOG),
        "ranges_file": _short(RANGES),
    }
    return render(request, "market/places.html", context)


def _report(level: str) -> Report | None:
    try:
        return report(level)
    except RedisError:
        return None


def _short(path: Path) -> Path:
    """Return a path as it is written in the directory of ``manage.py``."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
