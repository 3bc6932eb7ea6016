"""`@rate_limit` on views, class-based views and functions; its errors."""

from __future__ import annotations

import functools
import inspect
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache

from django_redis_components.ratelimits import Decision, RateLimited, rate_limit, rate_limited
from tests.support import Store, run_async

pytestmark = pytest.mark.integration


def get(address: str = "192.0.2.1", user: Any = None, is_async: bool = False) -> Any:
    """Return a request from this address, by this user."""
    if is_async:
        request: Any = AsyncRequestFactory().get("/", REMOTE_ADDR=address)
        request.META["REMOTE_ADDR"] = address

        async def auser() -> Any:
            return user or AnonymousUser()

        request.auser = auser
    else:
        request = RequestFactory().get("/", REMOTE_ADDR=address)
    request.user = user or AnonymousUser()
    return request


def sync_view(**options: Any) -> Callable[[Any], Any]:
    @rate_limit("2/h", "100/d", **options)
    def view(request: HttpRequest, number: int = 0) -> HttpResponse:
        return HttpResponse("page")

    return view


def async_view(**options: Any) -> Callable[[Any], Any]:
    @rate_limit("2/h", "100/d", **options)
    async def view(request: HttpRequest, number: int = 0) -> HttpResponse:
        return HttpResponse("page")

    assert inspect.iscoroutinefunction(view)
    return lambda request, *args: run_async(view, request, *args)


both = pytest.mark.parametrize(("make", "is_async"), [(sync_view, False), (async_view, True)], ids=["sync", "async"])


@both
def test_view_is_limited_by_address(redis_server: Store, make: Any, is_async: bool) -> None:
    view = make()

    answers = [view(get(is_async=is_async)) for _ in range(3)]
    other = view(get("192.0.2.2", is_async=is_async))

    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert other.status_code == 200


@both
def test_responses_have_the_rate_limit_header_fields(redis_server: Store, make: Any, is_async: bool) -> None:
    view = make()
    first, _, denied = (view(get(is_async=is_async)) for _ in range(3))

    assert first.headers["RateLimit-Policy"] == '"2/h";q=2;w=3600, "100/d";q=100;w=86400'
    assert first.headers["RateLimit"] == '"2/h";r=1;t=1800, "100/d";r=99;t=864'
    assert "Retry-After" not in first.headers
    retry_after = int(denied.headers["Retry-After"])
    assert 1790 <= retry_after <= 1800
    assert re.fullmatch(rf'"2/h";r=0;t={retry_after}, "100/d";r=98;t=17\d\d', denied.headers["RateLimit"])
    assert denied.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert re.fullmatch(rb"Too many requests\. Try again in 1\d{3} seconds\.", denied.content)


@pytest.mark.parametrize(
    ("key", "served"),
    [
        # the same address: user 1 twice, user 2, and two anonymous requests
        ("ip", [True, False, False, False, False]),
        ("user", [True, False, True, True, False]),
        ("user_or_ip", [True, False, True, True, False]),
    ],
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_key_option_selects_address_or_user(redis_server: Store, key: str, served: list[bool], is_async: bool) -> None:
    view = (async_view if is_async else sync_view)(key=key, cost=2)
    people = [User(pk=1), User(pk=1), User(pk=2), None, None]

    answers = [view(get(user=user, is_async=is_async)) for user in people]

    assert [answer.status_code == 200 for answer in answers] == served


def test_user_or_ip_uses_the_address_without_authentication(redis_server: Store) -> None:
    request = RequestFactory().get("/")

    assert sync_view(key="user_or_ip")(request).status_code == 200
    request = AsyncRequestFactory().get("/")
    assert async_view(key="user_or_ip")(request).status_code == 200


@both
def test_view_is_limited_by_its_arguments(redis_server: Store, make: Any, is_async: bool) -> None:
    templated, called = make(key="{number}", cost=2, name="t"), make(key=lambda request, n: n % 2, cost=2, name="c")

    for view in (templated, called):
        answers = [view(get(is_async=is_async), number) for number in (1, 2, 1)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]


@both
def test_response_option_makes_the_response_to_a_denied_request(redis_server: Store, make: Any, is_async: bool) -> None:
    def respond(request: HttpRequest, decision: Decision) -> HttpResponse:
        return HttpResponse(f"{request.path} {decision.limit}", status=503)

    view = make(cost=2, response=respond)
    view(get(is_async=is_async))
    denied = view(get(is_async=is_async))

    assert (denied.status_code, denied.content) == (503, b"/ 2")
    assert "Retry-After" in denied.headers


def test_header_fields_of_a_cached_denial_count_down(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    view = sync_view()
    for _ in range(3):
        view(get())
    later_s = time.monotonic() + 100

    monkeypatch.setattr("django_redis_components.ratelimits.denials.time.monotonic", lambda: later_s)
    denied = view(get())

    retry_after = int(denied.headers["Retry-After"])
    assert 1690 <= retry_after <= 1700
    assert re.fullmatch(rf'"2/h";r=0;t={retry_after}, "100/d";r=98;t=16\d\d', denied.headers["RateLimit"])


def test_header_fields_of_two_limits_are_combined(redis_server: Store) -> None:
    view = rate_limit("9/m", name="outer")(sync_view())

    answer = view(get())

    assert answer.headers["RateLimit-Policy"] == '"2/h";q=2;w=3600, "100/d";q=100;w=86400, "9/m";q=9;w=60'
    assert answer.headers["RateLimit"].endswith(', "9/m";r=8;t=7')


def test_header_fields_during_a_block_and_without_redis(own_server: Store) -> None:
    view = sync_view(cost=2, penalty=(1, 90))
    view(get())
    blocked = view(get())
    own_server.servers[0].kill()
    unchecked = sync_view(name="elsewhere")(get())

    assert blocked.headers["RateLimit"] == '"2/h";r=0;t=90'
    assert blocked.headers["Retry-After"] == "90"
    assert unchecked.status_code == 200
    assert "RateLimit" not in unchecked.headers


def test_signal_receivers_get_the_request(redis_server: Store) -> None:
    received: list[Any] = []

    def receive(request: HttpRequest, key: str, **_: Any) -> None:
        received.append((request, key))

    rate_limited.connect(receive)
    view, request = sync_view(cost=2), get()
    try:
        view(get())
        view(request)
    finally:
        rate_limited.disconnect(receive)

    assert received == [(request, "ip:192.0.2.1")]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_class_based_view_is_limited_for_every_method(redis_server: Store, is_async: bool) -> None:
    if is_async:

        @rate_limit("2/h")
        class Page(View):
            async def get(self, request: HttpRequest) -> HttpResponse:
                return HttpResponse("page")

    else:

        @rate_limit("2/h")
        class Page(View):  # type: ignore[no-redef]
            def get(self, request: HttpRequest) -> HttpResponse:
                return HttpResponse("page")

    view = Page.as_view()
    call = (lambda request: run_async(view, request)) if is_async else view
    post = get(is_async=is_async)
    post.method = "POST"

    answers = [call(get(is_async=is_async)), call(post), call(get(is_async=is_async))]

    assert [answer.status_code for answer in answers] == [200, 405, 429]


def test_asynchronous_view_whose_dispatch_is_decorated_is_limited(redis_server: Store) -> None:
    @method_decorator(rate_limit("1/h"), name="dispatch")
    class Page(View):
        async def get(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse("page")

    answers = [run_async(Page.as_view(), get(is_async=True)) for _ in range(2)]

    assert [answer.status_code for answer in answers] == [200, 429]
    assert "RateLimit" in answers[0]


def test_key_template_names_arguments_of_a_method_with_method_decorator(redis_server: Store) -> None:
    @method_decorator(rate_limit("1/h", key="{number}"), name="get")
    class Page(View):
        def get(self, request: HttpRequest, number: int) -> HttpResponse:
            return HttpResponse("page")

    view = Page.as_view()

    assert [view(get(), number=number).status_code for number in (1, 2, 1)] == [200, 200, 429]


def test_single_method_of_a_class_based_view_is_limited(redis_server: Store) -> None:
    class Page(View):
        @rate_limit("1/h")
        def get(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse("page")

        @method_decorator(rate_limit("1/h", name="posts"))
        def post(self, request: HttpRequest) -> HttpResponse:
            return HttpResponse("thanks")

    view = Page.as_view()
    post = get()
    post.method = "POST"

    assert [view(get()).status_code, view(get()).status_code] == [200, 429]
    assert [view(post).status_code, view(post).status_code] == [200, 429]


def test_denied_function_raises(redis_server: Store) -> None:
    @rate_limit("1/h", key="{customer_id}")
    def report(customer_id: int) -> str:
        return "done"

    assert [report(7), report(customer_id=8)] == ["done", "done"]
    with pytest.raises(RateLimited, match=r"test_denied_function_raises.<locals>.report' is exceeded"):
        report(7)


def test_denied_coroutine_function_raises(redis_server: Store) -> None:
    @rate_limit("1/h", key=None, name="all")
    async def report(customer_id: int) -> str:
        return "done"

    assert run_async(report, 7) == "done"
    with pytest.raises(RateLimited, match="Rate limit 'all' is exceeded: try again in 3600 s"):
        run_async(report, 8)


def test_functions_with_the_same_name_share_a_limit(redis_server: Store) -> None:
    @rate_limit("1/h", key=None, name="mail")
    def welcome() -> None: ...

    @rate_limit("1/h", key=None, name="mail")
    def remind() -> None: ...

    welcome()
    with pytest.raises(RateLimited):
        remind()


def test_limits_of_one_view_count_apart(redis_server: Store) -> None:
    @rate_limit("2/h", key="{sender}")
    @never_cache
    @rate_limit("2/h", key="{receiver}")
    def message(request: HttpRequest, sender: int, receiver: int) -> HttpResponse:
        return HttpResponse("sent")

    calls = [(1, 2), (2, 1), (2, 3), (3, 1), (3, 1)]
    served = [message(get(), sender=sender, receiver=receiver).status_code for sender, receiver in calls]

    assert served == [200, 200, 200, 200, 429]


def test_penalties_of_one_view_count_apart(redis_server: Store) -> None:
    @rate_limit("1/h", key="{sender}", penalty=(2, 600))
    @rate_limit("2/h", key="{receiver}", penalty=(2, 600))
    def message(request: HttpRequest, sender: int, receiver: int) -> HttpResponse:
        return HttpResponse("sent")

    calls = [(8, 1), (8, 1), (8, 1), (7, 8)]
    served = [message(get(), sender=sender, receiver=receiver).status_code for sender, receiver in calls]

    assert served == [200, 429, 429, 200]


def test_limits_of_one_view_with_the_same_name_share_their_counts(redis_server: Store) -> None:
    @rate_limit("2/h", name="both")
    @rate_limit("2/h", name="both")
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse("page")

    assert [page(get()).status_code for _ in range(2)] == [200, 429]


def test_long_function_name_is_shortened(redis_server: Store) -> None:
    def report() -> str:
        return "done"

    report.__qualname__ = "r" * 300

    assert rate_limit("1/h", key=None)(report)() == "done"


def test_key_of_a_request_raises_without_a_request(redis_server: Store) -> None:
    @rate_limit("1/h")
    def report() -> None: ...

    with pytest.raises(TypeError, match=r"^key='ip' of .*report\(\) needs a request as the first argument; for other"):
        report()


KEY = "expected 'ip', 'user', 'user_or_ip', a template over the call's arguments such as '{customer_id}', a function"


@pytest.mark.parametrize(
    ("rates", "options", "kind", "text"),
    [
        ((), {}, ValueError, "rates=(): expected 1 to 8 rates, such as '5/m'."),
        (("5/m",), {"key": "host"}, ValueError, f"key='host': {KEY} of them, or None."),
        (("5/m",), {"key": 7}, TypeError, "rate limit key 7: expected a string, a template or a callable."),
        (("5/m",), {"cost": 6}, ValueError, "cost=6: expected an integer from 1 to 5, the lowest limit"),
        (("5/m",), {"response": 429}, TypeError, "response=429: expected a function of the request and the decision."),
        (("5/m",), {"on_error": "ajar"}, ValueError, "on_error='ajar': expected one of 'open', 'closed'."),
    ],
)
def test_invalid_options_raise_before_decoration(
    rates: tuple[Any, ...], options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}"):
        rate_limit(*rates, **options)


def test_template_with_an_unknown_argument_raises() -> None:
    def view(request: HttpRequest) -> None: ...

    with pytest.raises(ValueError, match="the function takes no argument 'pk'; it has request"):
        rate_limit("5/m", key="{pk}")(view)


def test_generator_function_raises() -> None:
    def stream(request: HttpRequest) -> Any:
        yield b""

    with pytest.raises(TypeError, match=r"stream\(\) is a generator: its body runs after the call was counted"):
        rate_limit("5/m")(stream)


def test_class_without_dispatch_raises() -> None:
    class Page: ...

    with pytest.raises(TypeError, match=r"Page is not a class-based view: it has no dispatch\(\)"):
        rate_limit("5/m")(Page)  # type: ignore[type-var]


def test_classmethod_raises() -> None:
    with pytest.raises(TypeError, match="is not callable: put @rate_limit below @classmethod"):
        rate_limit("5/m", key=None)(classmethod(lambda cls: None))


def test_async_key_function_raises() -> None:
    async def key(request: HttpRequest) -> str:
        return ""

    with pytest.raises(TypeError, match="is a coroutine function, which would not be awaited"):
        rate_limit("5/m", key=key)(sync_view)


def test_request_may_be_a_keyword_argument(redis_server: Store) -> None:
    view = sync_view()

    answers = [view(request=get()).status_code for _ in range(3)]

    assert answers == [200, 200, 429]


class Report:
    def __call__(self, number: int) -> int:
        return number


class Reports:
    async def __call__(self, number: int) -> int:
        return number


def test_partials_and_callable_objects_are_limited(redis_server: Store) -> None:
    partial = rate_limit("1/h", key=None)(functools.partial(Report.__call__, Report()))
    called = rate_limit("1/h", key=None)(Report())
    awaited = rate_limit("1/h", key=None)(Reports())

    assert (partial(1), called(2), run_async(awaited, 3)) == (1, 2, 3)
    for denied in (partial, called):
        with pytest.raises(RateLimited):
            denied(4)
