"""Health for load balancers and uptime checks: the problems of the overview as JSON; 503 if one is critical."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.expected_responses import unlogged
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.text import one_line
from django_redis_components.dashboard import outages
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.monitoring_access import Access, access_of, refusal
from django_redis_components.dashboard.overview.problems import problem_data
from django_redis_components.dashboard.problems.facts import read_facts
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.dashboard.problems.of_shards import problems_of_others, read_others
from django_redis_components.dashboard.problems.problem import outage_problem

logger = guarded_logger("django_redis_components.dashboard")


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Respond with 200 unless a critical problem is not acknowledged, else 503. Reads Redis in two round trips."""
    access = access_of(request)
    return refusal() if access is None else _response(_problems(), access)


def _problems() -> list[dict[str, Any]]:
    """Return the problems; an outage of Redis is one."""
    others = read_others()
    try:
        facts = read_facts()
        problems = find_problems(facts)
        return [problem_data(each, facts) for each in (*problems, *problems_of_others(others, problems))]
    except outages.SnapshotFailed as exc:
        outage = outages.outage_of(exc.error, exc.address)
        if should_log_failure(f"healthz {outage.code}"):
            logger.warning("The health cannot be read (%s): %s", outage.code, one_line(outage.detail))
        text = f"{outage.title} {outage.address}".strip()
        problem = outage_problem(outage, text)
        problems = [problem, *problems_of_others(others)]
        return [{**fields_of(each), "acknowledged": None} for each in problems]


def _response(problems: list[dict[str, Any]], access: Access) -> HttpResponse:
    is_healthy = all(each["severity"] != "critical" or each["acknowledged"] for each in problems)
    codes = dict.fromkeys((each["code"], each["severity"]) for each in problems)
    listed = problems if access.has_token else [{"code": code, "severity": severity} for code, severity in codes]
    data: dict[str, Any] = {"status": "healthy" if is_healthy else "unhealthy", "problems": listed}
    if access.has_token:
        data["environment"] = conf.settings().dashboard.environment
    return unlogged(JsonResponse(data, status=200 if is_healthy else 503))
