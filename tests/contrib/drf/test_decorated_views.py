"""`@rate_limit` on views of Django REST framework, which wraps Django's request."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import RequestFactory
from django.utils.decorators import method_decorator

from django_redis_components.ratelimits import rate_limit, rate_limited
from tests.support import Store
from tests.support.missing import skip_missing

try:
    from rest_framework.authentication import BaseAuthentication
    from rest_framework.decorators import api_view, authentication_classes
    from rest_framework.response import Response
    from rest_framework.views import APIView
    from rest_framework.viewsets import ViewSet
except ImportError:
    APIView = BaseAuthentication = ViewSet = object  # type: ignore[assignment, misc]
    Response = None  # type: ignore[assignment, misc]


@pytest.fixture(autouse=True)
def framework() -> None:
    if Response is None:
        skip_missing("djangorestframework is not installed")


class ByHeader(BaseAuthentication):
    """Who the framework takes the visitor for; Django's own request has no user."""

    def authenticate(self, request: Any) -> Any:
        number = request.META.get("HTTP_X_USER")
        return (User(pk=int(number)), None) if number else None


def method_of_a_view(**options: Any) -> Any:
    class View(APIView):
        authentication_classes = (ByHeader,)

        @rate_limit("1/h", **options)
        def get(self, request: Any, number: int = 0) -> Any:
            return Response({"number": number})

    return View.as_view()


def method_by_method_decorator(**options: Any) -> Any:
    @method_decorator(rate_limit("1/h", **options), name="get")
    class View(APIView):
        authentication_classes = (ByHeader,)

        def get(self, request: Any, number: int = 0) -> Any:
            return Response({"number": number})

    return View.as_view()


def action_of_a_viewset(**options: Any) -> Any:
    class Views(ViewSet):
        authentication_classes = (ByHeader,)

        @rate_limit("1/h", **options)
        def list(self, request: Any, number: int = 0) -> Any:
            return Response({"number": number})

    return Views.as_view({"get": "list"})


def below_api_view(**options: Any) -> Any:
    @api_view(["GET"])
    @authentication_classes([ByHeader])
    @rate_limit("1/h", **options)
    def view(request: Any, number: int = 0) -> Any:
        return Response({"number": number})

    return view


def above_api_view(**options: Any) -> Any:
    @rate_limit("1/h", **options)
    @api_view(["GET"])
    def view(request: Any, number: int = 0) -> Any:
        return Response({"number": number})

    return view


inner = [method_of_a_view, method_by_method_decorator, action_of_a_viewset, below_api_view]
inner_views = pytest.mark.parametrize("make", inner)
every_view = pytest.mark.parametrize("make", [*inner, above_api_view])


def get(address: str = "192.0.2.1", **environ: str) -> Any:
    return RequestFactory().get("/", REMOTE_ADDR=address, **environ)


@every_view
def test_view_is_limited_by_address(redis_server: Store, make: Any) -> None:
    view = make()

    served, denied, other = view(get()), view(get()), view(get("192.0.2.2"))

    assert [served.status_code, denied.status_code, other.status_code] == [200, 429, 200]
    assert served.headers["RateLimit"] == '"1/h";r=0;t=3600'
    assert int(denied.headers["Retry-After"]) > 3500
    assert denied.headers["RateLimit-Policy"] == '"1/h";q=1;w=3600'


@inner_views
@pytest.mark.parametrize("key", ["user", "user_or_ip"])
def test_view_is_limited_by_the_user_that_the_framework_authenticated(redis_server: Store, make: Any, key: str) -> None:
    view = make(key=key)

    answers = [view(get(HTTP_X_USER=user)) for user in ("1", "2", "1")]

    assert [answer.status_code for answer in answers] == [200, 200, 429]


@inner_views
@pytest.mark.parametrize("key", [lambda *args, **kwargs: "all", "{number}", None], ids=["callable", "template", "none"])
def test_denial_is_429_whatever_the_key_is_made_of(redis_server: Store, make: Any, key: Any) -> None:
    view = make(key=key)

    assert [view(get(), number=7).status_code for _ in range(2)] == [200, 429]


@inner_views
def test_answer_to_a_denial_may_be_one_of_the_framework(redis_server: Store, make: Any) -> None:
    view = make(response=lambda request, decision: Response({"path": request.path}, status=503))
    view(get())

    denied = view(get())
    denied.render()

    assert (denied.status_code, denied.content) == (503, b'{"path":"/"}')
    assert "Retry-After" in denied.headers


@inner_views
def test_receivers_get_djangos_request(redis_server: Store, make: Any) -> None:
    received: list[Any] = []

    def receive(request: Any, **_: Any) -> None:
        received.append(request)

    view, request = make(), get()
    view(get())
    rate_limited.connect(receive)
    try:
        view(request)
    finally:
        rate_limited.disconnect(receive)

    assert received == [request]
