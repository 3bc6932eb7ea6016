"""The throttle in a real view of Django REST framework."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import RequestFactory

from django_redis_components.contrib.drf import RedisRateThrottle
from django_redis_components.ratelimits import rate_limited
from tests.support import Store
from tests.support.absence import absent

try:
    from rest_framework.response import Response
    from rest_framework.test import force_authenticate
    from rest_framework.views import APIView
except ImportError:
    APIView = None


@pytest.fixture(autouse=True)
def framework() -> None:
    if APIView is None:
        absent("djangorestframework is not installed")


def call(throttle: type[RedisRateThrottle], user: User | None = None, address: str = "192.0.2.1") -> Any:
    """The response of a view with the throttle."""

    class View(APIView):
        throttle_classes = (throttle,)
        authentication_classes = ()
        permission_classes = ()

        def get(self, request: Any) -> Any:
            return Response("come in")

    request = RequestFactory().get("/", REMOTE_ADDR=address)
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


def test_each_user_and_each_address_has_its_own(redis_server: Store) -> None:
    once = throttle(rate="1/h")
    people = [User(pk=1), User(pk=2), None, User(pk=1), None]

    assert [call(once, user).status_code for user in people] == [200, 200, 200, 429, 429]
    assert call(once, address="192.0.2.2").status_code == 200


def test_rates_come_from_the_frameworks_settings(redis_server: Store, settings: Any) -> None:
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {"api": "1/h", "search": ["9/h", "2/d"], "free": None}}

    assert [call(RedisRateThrottle).status_code for _ in range(2)] == [200, 429]
    assert [call(throttle(scope="search")).status_code for _ in range(3)] == [200, 200, 429]
    assert [call(throttle(scope="free")).status_code for _ in range(3)] == [200, 200, 200]


def test_a_scope_without_a_rate_is_an_error(redis_server: Store, settings: Any) -> None:
    settings.REST_FRAMEWORK = {"DEFAULT_THROTTLE_RATES": {}}
    text = "REST_FRAMEWORK[\"DEFAULT_THROTTLE_RATES\"] has no 'api', the scope of Throttle; or set its rate."

    with pytest.raises(ImproperlyConfigured, match=f"^{re.escape(text)}$"):
        call(throttle())


def test_a_request_may_be_let_off(redis_server: Store) -> None:
    nobody = throttle(rate="1/h", get_key=lambda self, request, view: None)

    assert [call(nobody).status_code for _ in range(2)] == [200, 200]
    assert nobody().wait() is None


def test_receivers_are_told_djangos_request(redis_server: Store) -> None:
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


def test_several_throttles_may_block_and_count_apart(redis_server: Store) -> None:
    once = throttle(rate="1/h", scope="guarded", penalty=(1, 90))
    call(once)

    assert call(once).headers["Retry-After"] == "90"
    assert call(throttle(rate="1/h")).status_code == 200
