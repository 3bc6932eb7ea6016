"""The throttle in a real view of Django REST framework."""

from __future__ import annotations

import re
import types
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory, override_settings
from django.urls import include, path

from django_redis_components.contrib import drf
from django_redis_components.contrib.drf import RedisRateThrottle
from django_redis_components.ratelimits import rate_limited
from tests.support import Store
from tests.support.missing import skip_missing

try:
    from rest_framework.response import Response
    from rest_framework.test import force_authenticate
    from rest_framework.views import APIView
except ImportError:
    APIView = None


@pytest.fixture(autouse=True)
def framework() -> None:
    if APIView is None:
        skip_missing("djangorestframework is not installed")


def call(
    *throttles: type[RedisRateThrottle], user: User | None = None, address: str = "192.0.2.1", **environ: str
) -> Any:
    """The response of a view with the throttles."""

    class View(APIView):
        throttle_classes = throttles
        authentication_classes = ()
        permission_classes = ()

        def get(self, request: Any) -> Any:
            return Response("come in")

    request = RequestFactory().get("/", REMOTE_ADDR=address, **environ)
    if user is not None:
        force_authenticate(request, user)
    return View.as_view()(request)


def throttle(**attributes: Any) -> type[RedisRateThrottle]:
    return type("Throttle", (RedisRateThrottle,), attributes)


def test_requests_are_limited_with_a_header(redis_server: Store) -> None:
    twice = throttle(rate="2/h")

    answers = [call(twice) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1790 <= int(answers[2].headers["Retry-After"]) <= 1800


def test_each_user_and_each_address_has_a_separate_limit(redis_server: Store) -> None:
    once = throttle(rate="1/h")
    people = [User(pk=1), User(pk=2), None, User(pk=1), None]

    assert [call(once, user=user).status_code for user in people] == [200, 200, 200, 429, 429]
    assert call(once, address="192.0.2.2").status_code == 200


def test_rates_come_from_the_frameworks_settings(redis_server: Store, settings: Any) -> None:
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"api": "1/h", "search": ["9/h", "2/d"], "free": None}}

    assert [call(RedisRateThrottle).status_code for _ in range(2)] == [200, 429]
    assert [call(throttle(scope="search")).status_code for _ in range(3)] == [200, 200, 429]
    assert [call(throttle(scope="free")).status_code for _ in range(3)] == [200, 200, 200]


def test_a_scope_without_a_rate_is_an_error(redis_server: Store, settings: Any) -> None:
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {}}
    text = (
        "REST_FRAMEWORK[\"DEFAULT_THROTTLE_RATES\"] has no rate for 'api', the scope of Throttle. "
        "Add one, or set Throttle.rate."
    )

    with pytest.raises(ImproperlyConfigured, match=f"^{re.escape(text)}$"):
        call(throttle())


def test_request_without_a_key_is_not_limited(redis_server: Store) -> None:
    nobody = throttle(rate="1/h", get_key=lambda self, request, view: None)

    assert [call(nobody).status_code for _ in range(2)] == [200, 200]
    assert nobody().wait() is None


def test_signal_receivers_get_djangos_request(redis_server: Store) -> None:
    paths: list[str] = []

    def hear(request: Any, **_: Any) -> None:
        paths.append(type(request).__module__ + request.path)

    once = throttle(rate="1/h")
    call(once)
    rate_limited.connect(hear)
    try:
        call(once)
    finally:
        rate_limited.disconnect(hear)

    assert paths == ["django.core.handlers.wsgi/"]


def test_several_throttles_count_separately(redis_server: Store) -> None:
    once = throttle(rate="1/h", scope="guarded", penalty=(1, 90))
    call(once)

    assert call(once).headers["Retry-After"] == "90"
    assert call(throttle(rate="1/h")).status_code == 200


def test_responses_have_the_rate_limit_fields(redis_server: Store) -> None:
    twice = throttle(rate="2/h")

    first, _, denied = (call(twice) for _ in range(3))

    assert first.headers["RateLimit-Policy"] == '"2/h";q=2;w=3600'
    assert first.headers["RateLimit"] == '"2/h";r=1;t=1800'
    assert denied.headers["RateLimit-Policy"] == '"2/h";q=2;w=3600'
    assert denied.headers["RateLimit"] == f'"2/h";r=0;t={denied.headers["Retry-After"]}'


def test_several_throttles_add_up_their_fields(redis_server: Store) -> None:
    answer = call(throttle(rate="2/h", scope="a"), throttle(rate="9/m", scope="b"))

    assert answer.headers["RateLimit-Policy"] == '"2/h";q=2;w=3600, "9/m";q=9;w=60'


@pytest.mark.parametrize("kind", [list, tuple])
def test_rates_and_penalty_may_be_lists(redis_server: Store, settings: Any, kind: Any) -> None:
    pair, several, penalty = kind([1, 3600]), kind(["2/h", kind([9, 60])]), kind([1, 90])
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"pair": pair, "several": several}}

    assert [call(throttle(scope="pair")).status_code for _ in range(2)] == [200, 429]
    assert [call(throttle(scope="several")).status_code for _ in range(3)] == [200, 200, 429]
    assert [call(throttle(rate=pair, scope="own")).status_code for _ in range(2)] == [200, 429]
    assert [call(throttle(rate="1/h", scope="blocks", penalty=penalty)).status_code for _ in range(2)] == [200, 429]
    assert call(throttle(rate="1/h", scope="blocks", penalty=penalty)).headers["Retry-After"] == "90"


@pytest.mark.parametrize(
    ("attributes", "kind", "text"),
    [
        ({"rate": "5/fortnight"}, ValueError, "rate='5/fortnight'"),
        ({"rate": ["5/m", 7]}, TypeError, "rate=7"),
        ({"penalty": 20}, TypeError, "penalty=20"),
        ({"penalty": [0, 60]}, ValueError, "penalty[0]=0"),
        ({"algorithm": "gcar"}, ValueError, "algorithm='gcar'"),
        ({"on_error": "ajar"}, ValueError, "on_error='ajar'"),
        ({"key": "users"}, ValueError, "Throttle.key='users': expected one of 'ip', 'user', 'user_or_ip'."),
    ],
)
def test_wrong_attribute_is_refused_when_the_class_is_defined(
    attributes: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}"):
        throttle(**attributes)


def test_rate_may_be_a_property(redis_server: Store) -> None:
    class Throttle(RedisRateThrottle):
        @property
        def rate(self) -> str:  # type: ignore[override]
            return "1/h"

    assert [call(Throttle).status_code for _ in range(2)] == [200, 429]


@pytest.mark.parametrize(
    ("proxies", "trusted", "counts_apart"),
    [(None, 0, False), (None, 1, True), (0, 1, False), (1, 0, True), (2, 0, False)],
)
def test_address_is_behind_as_many_proxies_as_the_framework_says(
    redis_server: Store, settings: Any, proxies: int | None, trusted: int, counts_apart: bool
) -> None:
    settings.REST_FRAMEWORK = {"NUM_PROXIES": proxies}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TRUSTED_PROXIES": trusted}
    once = throttle(rate="1/h")

    answers = [call(once, HTTP_X_FORWARDED_FOR=f"6.6.6.6, 203.0.113.{number}") for number in (1, 2)]

    assert [answer.status_code for answer in answers] == [200, 200 if counts_apart else 429]


def test_subclass_may_identify_visitors_itself(redis_server: Store) -> None:
    by_agent = throttle(rate="1/h", get_ident=lambda self, request: request.headers["User-Agent"])

    assert [call(by_agent, HTTP_USER_AGENT=agent).status_code for agent in ("a", "b", "a")] == [200, 200, 429]


def mistakes() -> list[str]:
    return [f"{found.id} {found.msg}" for found in drf.check_throttles()]


def test_check_reports_rates_of_the_frameworks_settings(settings: Any) -> None:
    name = "django_redis_components.contrib.drf.RedisRateThrottle"
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_CLASSES": [name], "DEFAULT_THROTTLE_RATES": {"api": "5/fortnight"}}

    (mistake,) = mistakes()

    assert mistake.startswith(f"drc.E051 {name}: rate='5/fortnight': expected a count and a unit")
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_CLASSES": [name], "DEFAULT_THROTTLE_RATES": {}}
    assert "has no rate for 'api', the scope of RedisRateThrottle" in mistakes()[0]
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_CLASSES": [name], "DEFAULT_THROTTLE_RATES": {"api": "5/m"}}
    assert mistakes() == []


def test_check_reports_throttles_of_views(settings: Any) -> None:
    class View(APIView):
        throttle_classes = (throttle(scope="nowhere"),)

    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {}}
    urls = types.ModuleType("throttled_urls")
    urls.urlpatterns = [path("api/", include([path("view/", View.as_view())]))]  # type: ignore[attr-defined]

    with override_settings(ROOT_URLCONF=urls):
        (mistake,) = mistakes()

    assert "has no rate for 'nowhere', the scope of Throttle" in mistake
    assert mistakes() == []


def test_check_is_registered_by_the_app(settings: Any) -> None:
    name = "django_redis_components.contrib.drf.RedisRateThrottle"
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_CLASSES": [name], "DEFAULT_THROTTLE_RATES": {}}

    assert "drc.E051" in {found.id for found in run_checks(tags=["redis_components"])}
