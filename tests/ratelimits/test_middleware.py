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
    settings.REDIS_COMPONENTS = components_settings(store) | {"RATELIMITS": options}


def test_requests_are_limited(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["2/h"])

    answers = [site.get() for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[0].headers["RateLimit"] == '"2/h";r=1;t=1800'
    assert int(answers[2].headers["Retry-After"]) > 1700


def test_without_rates_nothing_is_limited(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server)

    assert "RateLimit" not in site.get().headers
    assert redis_server.keys() == []


def test_paths_may_be_excluded(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["1/h"], EXCLUDE_PATHS=["/health/"])

    answers = [site.get(path) for path in ("/", "/health/live", "/")]

    assert [answer.status_code for answer in answers] == [200, 200, 429]


def test_users_may_be_limited(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["1/h"], KEY="user_or_ip", ALGORITHM="sliding", PENALTY=[1, 60])

    answers = [site.get(user=user) for user in (User(pk=1), User(pk=2), None, User(pk=1))]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[3].headers["Retry-After"] == "60"


def test_new_settings_are_heard(redis_server: Store, settings: Any, site: Site) -> None:
    configure(settings, redis_server, RATES=["1/h"])
    site.get()
    configure(settings, redis_server, RATES=["5/h"])

    assert site.get().headers["RateLimit-Policy"] == '"5/h";q=5;w=3600'


@pytest.mark.parametrize(("on_error", "status"), [("open", 200), ("closed", 429)])
def test_redis_may_be_away(settings: Any, site: Site, on_error: str, status: int) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0", "RETRIES": 0}},
        "RATELIMITS": {"RATES": ["1/h"], "ON_ERROR": on_error},
    }

    assert [site.get().status_code for _ in range(3)] == [status] * 3


PATH = "django_redis_components.ratelimits.RateLimitMiddleware"
AUTHENTICATION = "django.contrib.auth.middleware.AuthenticationMiddleware"


def complaints(settings: Any, store: Store, middleware: list[str], **options: Any) -> list[tuple[str, str]]:
    configure(settings, store, **options)
    settings.MIDDLEWARE = middleware
    return [(found.id or "", found.msg) for found in run_checks(tags=["redis_components"])]


def test_the_checks_have_nothing_to_say_about_what_works(redis_server: Store, settings: Any) -> None:
    usual = settings.MIDDLEWARE

    assert complaints(settings, redis_server, usual, KEY="user") == []
    assert complaints(settings, redis_server, [PATH, *usual], RATES=["5/m"]) == []
    assert complaints(settings, redis_server, [*usual, PATH], RATES=["5/m"], KEY="user") == []


def test_a_middleware_without_rates_is_a_warning(redis_server: Store, settings: Any) -> None:
    path = PATH.replace("ratelimits.", "ratelimits.middleware.")

    assert complaints(settings, redis_server, [*settings.MIDDLEWARE, path]) == [
        ("drc.W050", "RateLimitMiddleware is installed, and no rates are set: it limits nothing.")
    ]


def test_a_middleware_that_cannot_know_the_user_is_an_error(redis_server: Store, settings: Any) -> None:
    text = 'REDIS_COMPONENTS["RATELIMITS"]["KEY"] = \'user\', and RateLimitMiddleware does not know the user.'
    middleware = [PATH, *settings.MIDDLEWARE]

    assert complaints(settings, redis_server, middleware, RATES=["5/m"], KEY="user") == [("drc.E050", text)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"RATES": ["20000/d"], "ALGORITHM": "sliding"},
            "rate='20000/d': algorithm='sliding' counts at most 10000.",
        ),
        ({"RATES": ["5/m", (5, 60)]}, "rates=('5/m', (5, 60)): the same rate stands there twice."),
    ],
)
def test_rates_that_the_algorithm_cannot_count_are_an_error(
    redis_server: Store, settings: Any, options: dict[str, Any], text: str
) -> None:
    path = PATH.replace("ratelimits.", "ratelimits.middleware.")

    assert complaints(settings, redis_server, [path], **options) == [
        ("drc.E052", f'REDIS_COMPONENTS["RATELIMITS"]: {text}')
    ]


def test_a_wrong_rate_in_the_settings_is_an_error(redis_server: Store, settings: Any, site: Site) -> None:
    text = (
        'REDIS_COMPONENTS["RATELIMITS"]["RATES"] = [\'often\']: expected a list of up to eight rates, '
        "such as '10/s', '100/m', '3/2h', or (count, seconds)."
    )

    assert complaints(settings, redis_server, [PATH], RATES=["often"])[0] == ("drc.E001", text)
    with pytest.raises(ImproperlyConfigured, match=re.escape(text)):
        site.get()
