"""Health for load balancers and uptime checks: 200, or 503 with the problems of the overview as JSON."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_redis_components.core import conf
from django_redis_components.core.text import one_line
from django_redis_components.dashboard import outages
from django_redis_components.dashboard.monitoring_access import Access, access_of, refusal
from django_redis_components.dashboard.overview import snapshot
from django_redis_components.dashboard.overview.problems import find_problems

logger = logging.getLogger("django_redis_components.dashboard")

#: Codes of problems that need no action of the on-call person: a list was shortened.
_NO_FAILURE = {"cut_off"}


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Respond with 200 if no threshold is exceeded, else 503. Reads Redis in two round trips, as the overview does."""
    access = access_of(request)
    if access is None:
        return refusal()
    found = _problems()
    failed = [each for each in found if each["code"] not in _NO_FAILURE]
    return _response(failed, access)


def _problems() -> list[dict[str, Any]]:
    """Return the problems; an outage of Redis is one."""
    try:
        return [dataclasses.asdict(each) for each in find_problems(snapshot.read())]
    except outages.SnapshotFailed as exc:
        outage = outages.outage_of(exc.error, exc.address)
        logger.warning("The health cannot be read (%s): %s", outage.code, one_line(outage.detail))
        text = f"{outage.title} {outage.address}".strip()
        return [{"code": f"redis_{outage.code}", "text": text, "advice": outage.advice, "command": ""}]


def _response(failed: list[dict[str, Any]], access: Access) -> HttpResponse:
    shown = failed if access.has_token else [{"code": code} for code in dict.fromkeys(each["code"] for each in failed)]
    data: dict[str, Any] = {"status": "unhealthy" if failed else "healthy", "problems": shown}
    if access.has_token:
        data["environment"] = conf.settings().dashboard.environment
    response: Any = JsonResponse(data, status=503 if failed else 200)
    # Django logs each 503 as an error and mails it to ADMINS: one mail per request of each load balancer.
    response._has_been_logged = True
    found: HttpResponse = response
    return found
