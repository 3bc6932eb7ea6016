"""The middleware, by settings, and its system checks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory

from django_redis_components.ratelimits import RateLimitMiddleware
from tests.conftest import components_settings
from tests.support import Store, run_async

pytestmark = pytest.mark.integration


class Site:
    """A site with the middleware: ``site.get(path, user)`` gives the response."""

    def __init__(self, is_async: bool) -> None:
        self._is_async = is_async

        def sync(request: HttpRequest) -> HttpResponse:
            return HttpResponse("page")

        async def asynchronous(request: HttpRequest) -> HttpResponse:
            return HttpResponse("page")

        self._middleware: Any = RateLimitMiddleware(asynchronous if is_async else sync)

    def get(self, path: str = "/", user: Any = None) -> HttpResponse:
        request: Any = (AsyncRequestFactory if self._is_async else RequestFactory)().get(path)
        request.user = user or AnonymousUser()
        if not self._is_async:
            return self._middleware(request)

        async def auser() -> Any:
            return request.user

        async def main() -> HttpResponse:
            return await self._middleware(request)

        request.auser = auser
        return run_async(main)


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def site(request: pytest.FixtureRequest) -> Site:
    return Site(request.param)


def configure(settings: Any, store: Store, **options: Any) -> None:
    settings.REDIS_COMPONENTS = components_settings(store) | {"RATELIMITS": {"COUNT_HITS": False, **options}}


def test_middleware_limits_requests(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["2/h"])

    answers = [site.get() for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit"] == '"2/h";r=1;t=1800'
    assert int(answers[2].headers["Retry-After"]) > 1700


def test_middleware_without_rates_limits_nothing(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server)

    assert "RateLimit" not in site.get().headers
    assert redis_server.keys() == []


def test_excluded_paths_are_not_limited(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["1/h"], EXCLUDE_PATHS=["/health/"])

    answers = [site.get(path) for path in ("/", "/health/live", "/")]

    assert [answer.status_code for answer in answers] == [200, 200, 429]


def test_middleware_limits_users(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["1/h"], KEY="user_or_ip", ALGORITHM="sliding", PENALTY=[1, 60])

    answers = [site.get(user=user) for user in (User(pk=1), User(pk=2), None, User(pk=1))]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[3].headers["Retry-After"] == "60"


def test_changed_settings_take_effect(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["1/h"])
    site.get()
    configure(settings, redis_server, RATES=["5/h"])

    assert site.get().headers["RateLimit-Policy"] == '"5/h";q=5;w=3600'


@pytest.mark.parametrize(("on_error", "status"), [("open", 200), ("closed", 429)])
def test_on_error_setting_decides_while_redis_is_down(settings: Any, site: Site, on_error: str, status: int) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0", "RETRIES": 0}},
        "RATELIMITS": {"RATES": ["1/h"], "ON_ERROR": on_error, "COUNT_HITS": False},
    }

    assert [site.get().status_code for _ in range(3)] == [status, 429, 429] if status == 200 else [status] * 3


PATH = "django_redis_components.ratelimits.RateLimitMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"


def check_messages(settings: Any, store: Store, middleware: list[str], **options: Any) -> list[tuple[str, str]]:
    configure(settings, store, **options)
    settings.MIDDLEWARE = middleware
    return [(found.id or "", found.msg) for found in run_checks(tags=["redis_components"])]


def test_checks_accept_valid_settings(redis_server: Store, settings: Any) -> None:
    middleware = settings.MIDDLEWARE

    assert check_messages(settings, redis_server, middleware, KEY="user") == []
    assert check_messages(settings, redis_server, [PATH, *middleware], RATES=["5/m"]) == []
    assert check_messages(settings, redis_server, [*middleware, PATH], RATES=["5/m"], KEY="user") == []


def test_check_warns_of_a_middleware_without_rates(redis_server: Store, settings: Any) -> None:
    path = PATH.replace("ratelimits.", "ratelimits.middleware.")

    assert check_messages(settings, redis_server, [*settings.MIDDLEWARE, path]) == [
        ("drc.W050", "RateLimitMiddleware is installed without rates: it limits nothing.")
    ]


def test_check_reports_a_user_key_above_authentication(redis_server: Store, settings: Any) -> None:
    text = (
        'REDIS_COMPONENTS["RATELIMITS"]["KEY"] = \'user\' needs the user, '
        "but RateLimitMiddleware runs before authentication."
    )
    middleware = [PATH, *settings.MIDDLEWARE]

    assert check_messages(settings, redis_server, middleware, RATES=["5/m"], KEY="user") == [("drc.E050", text)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"RATES": ["20000/d"], "ALGORITHM": "sliding"},
            "rate='20000/d': algorithm='sliding' counts at most 10000.",
        ),
        ({"RATES": ["5/m", (5, 60)]}, "rates=('5/m', (5, 60)): duplicate rate."),
    ],
)
def test_check_reports_rates_that_the_algorithm_does_not_accept(
    redis_server: Store, settings: Any, options: dict[str, Any], text: str
) -> None:
    path = PATH.replace("ratelimits.", "ratelimits.middleware.")

    assert check_messages(settings, redis_server, [path], **options) == [
        ("drc.E052", f'REDIS_COMPONENTS["RATELIMITS"]: {text}')
    ]


def test_invalid_rate_in_the_settings_raises(redis_server: Store, settings: Any, site: Site) -> None:
    text = (
        'REDIS_COMPONENTS["RATELIMITS"]["RATES"] = [\'often\']: expected a list of up to eight rates, '
        "such as '10/s', '100/m', '3/2h', or (count, seconds)."
    )

    assert check_messages(settings, redis_server, [PATH], RATES=["often"])[0] == ("drc.E001", text)
    with pytest.raises(ImproperlyConfigured, match=re.escape(text)):
        site.get()
