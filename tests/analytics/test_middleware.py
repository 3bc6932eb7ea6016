"""What the middleware counts, and that no page suffers from it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone

from django_redis_components.analytics import OTHER, AnalyticsMiddleware, PageViews, UniqueVisitors, buffer, flush
from django_redis_components.analytics.countries import CountryLookup
from django_redis_components.analytics.dates import site_date
from django_redis_components.core.client import connections
from django_redis_components.core.observability import flushing
from tests.analytics.browsing import CHROME, AsyncBrowser, Browser
from tests.support import Proxy, Store, eventually, run_async
from tests.support.raising_logs import raising_logs

pytestmark = [pytest.mark.integration, pytest.mark.urls("tests.analytics.urls")]

MIDDLEWARE = "django_redis_components.analytics.AnalyticsMiddleware"
AUTHENTICATED = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    MIDDLEWARE,
]


@pytest.fixture(autouse=True)
def _middleware(settings: Any) -> None:
    settings.MIDDLEWARE = [MIDDLEWARE]


def views_of(page: str) -> int:
    flush()
    return PageViews().count(page, site_date())


def visitors() -> int:
    flush()
    return UniqueVisitors("default").count(site_date())


def test_page_view_and_visitor_are_counted(store: Store) -> None:
    client = Browser()

    for _ in range(3):
        assert client.get("/page/", {"from": "mail"}).content == b"<p>page"
    flush()

    day = f"{site_date():%Y%m%d}"
    assert store.raw.zscore(f"{store.prefix}:analytics:{{default}}:pv:{day}", "/page/") == 3
    assert store.raw.pfcount(f"{store.prefix}:analytics:{{default}}:uv:{day}") == 1
    assert UniqueVisitors("default", page="/page/").count(site_date()) == 1
    assert UniqueVisitors("default").active() == 1


@pytest.mark.parametrize("name", ["page", "async", "streamed"])
def test_html_responses_are_counted(redis_server: Store, name: str) -> None:
    Browser().get(f"/{name}/")

    assert views_of(f"/{name}/") == 1


@pytest.mark.parametrize("name", ["data", "moved", "missing", "broken", "bare", "download"])
def test_other_responses_are_not_counted(redis_server: Store, name: str) -> None:
    Browser().get(f"/{name}/")
    flush()

    assert redis_server.keys() == []


@pytest.mark.parametrize("method", ["head", "post", "put", "options"])
def test_only_get_requests_are_counted(redis_server: Store, method: str) -> None:
    getattr(Browser(), method)("/page/")
    flush()

    assert redis_server.keys() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Purpose": "prefetch"},
        {"Sec-Purpose": "prefetch;prerender"},
        {"Purpose": "prefetch"},
        {"X-Moz": "prefetch"},
        {"User-Agent": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
        {"User-Agent": "curl/8.5.0"},
        {"User-Agent": "kube-probe/1.31"},
        {"User-Agent": ""},
        {"X-Sec-Purpose": "prefetch"},
        {"Purpose": "preview"},
        {"X-Purpose": "preview"},
        {"Sec-Purpose": "prerender"},
        {"HX-Request": "true", "HX-Boosted": "true", "HX-Preloaded": "true"},
    ],
)
def test_prefetches_and_crawlers_are_not_counted(redis_server: Store, headers: dict[str, str]) -> None:
    Browser().get("/page/", headers=headers)
    flush()

    assert redis_server.keys() == []


@pytest.mark.parametrize(
    "headers",
    [
        {"HX-Request": "true"},
        {"HX-Request": "true", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors"},
        {"X-Requested-With": "XMLHttpRequest"},
        {"X-Requested-With": "xmlhttprequest"},
        {"X-Requested-With": "fetch"},
        {"Sec-Fetch-Dest": "empty"},
        {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Dest": "iframe", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Dest": "frame"},
        {"Sec-Fetch-Dest": "object"},
        {"Sec-Fetch-Dest": "script"},
        {"X-Turbo-Request-Id": "a", "Turbo-Frame": "items", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors"},
        {"Turbo-Frame": "items"},
    ],
)
def test_what_scripts_and_frames_fetch_is_not_counted(redis_server: Store, headers: dict[str, str]) -> None:
    Browser().get("/page/", headers=headers)
    flush()

    assert redis_server.keys() == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"User-Agent": "Mozilla/5.0 (Linux; Android 11; CUBOT KINGKONG 5) AppleWebKit/537.36 Chrome/96.0 Mobile"},
        {"Sec-Purpose": "other"},
        {"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "navigate"},
        {"X-Requested-With": "com.example.app"},
        {"HX-Request": "true", "HX-History-Restore-Request": "true", "Sec-Fetch-Dest": "empty"},
        {"HX-Request": "true", "HX-Boosted": "true", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "cors"},
        {"X-Turbo-Request-Id": "a", "Sec-Fetch-Dest": "empty", "Sec-Fetch-Mode": "same-origin"},
    ],
)
def test_browsers_are_counted(redis_server: Store, headers: dict[str, str]) -> None:
    Browser().get("/page/", headers=headers)

    assert views_of("/page/") == 1


def test_request_without_a_user_agent_is_not_counted(redis_server: Store) -> None:
    Client().get("/page/")
    flush()

    assert redis_server.keys() == []


def test_settings_add_agents_and_take_some_away(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(EXCLUDE_AGENTS=["Kiosk"], COUNT_AGENTS=["our-app", "CURL/9"])

    for agent in (f"{CHROME} kiosk/1.0", "curl/8.5.0", "our-APP/2.0 python-requests", "curl/9.0", "OUR-app kiosk"):
        Browser().get("/page/", headers={"User-Agent": agent})

    assert views_of("/page/") == 3


def test_excluded_paths_are_not_counted(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(EXCLUDE_PATHS=["/internal/"])

    Browser().get("/internal/page/")
    Browser().get("/page/")
    flush()

    assert PageViews().top() == [("/page/", 1)]


def test_site_and_connection_settings_are_used(proxy: Proxy, configure: Callable[..., None]) -> None:
    configure(SITE="shop", USING="proxied")

    Browser().get("/page/")
    flush()

    assert PageViews("shop").count("/page/", site_date()) == 1
    assert PageViews("default").count("/page/", site_date()) == 0
    assert proxy.accepted == 1


def test_day_is_that_of_the_site_regardless_of_the_active_time_zone(redis_server: Store) -> None:
    zones = iter(["Pacific/Kiritimati", "Pacific/Midway"])  # 25 hours apart: one of them has another date than Berlin

    def view(request: object) -> HttpResponse:
        timezone.activate(next(zones))
        return HttpResponse("<p>page")

    middleware = AnalyticsMiddleware(view)
    try:
        middleware(RequestFactory(headers={"User-Agent": CHROME}).get("/page/"))
        middleware(RequestFactory(headers={"User-Agent": CHROME}).get("/page/"))
        assert views_of("/page/") == 2
    finally:
        timezone.deactivate()


def test_two_browsers_at_one_address_are_two_visitors(redis_server: Store) -> None:
    for agent in (CHROME, CHROME, f"{CHROME} Edg/142.0"):
        Browser().get("/page/", headers={"User-Agent": agent})

    assert (views_of("/page/"), visitors()) == (3, 2)


@pytest.mark.parametrize("form", ["{}:{}", "[::ffff:{}]:{}"])
def test_port_of_a_visitor_is_not_another_visitor(
    redis_server: Store, settings: Any, configure: Callable[..., None], form: str
) -> None:
    configure(COUNTRY="tests.analytics.test_middleware.known_country", TRUSTED_PROXIES=1)

    for port in range(50_000, 50_040):
        Browser().get("/page/", headers={"X-Forwarded-For": form.format("10.0.0.1", port)})
    Browser().get("/page/", headers={"X-Forwarded-For": "10.0.0.1"})
    Browser().get("/page/", headers={"X-Forwarded-For": "::ffff:10.0.0.1"})

    assert (views_of("/page/"), visitors()) == (42, 1)
    assert PageViews().breakdown("country") == [("DE", 42)]


def test_opted_out_request_is_not_a_visitor(redis_server: Store) -> None:
    Browser().get("/page/", headers={"Sec-GPC": "1"})
    Browser().get("/page/", headers={"DNT": "1"})

    assert views_of("/page/") == 2
    stored = redis_server.keys()
    assert not [key for key in stored if b":uv" in key or b":salt:" in key]


def test_cookie_identifies_a_browser(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(VISITOR_IDENTITY="cookie")
    anna = Browser()

    response = anna.get("/page/")
    for client in (anna, anna, Browser()):
        client.get("/page/", headers={"User-Agent": f"{CHROME} changed"})

    cookie = response.cookies["drc_visitor"]
    assert (views_of("/page/"), visitors()) == (4, 2)
    assert len(cookie.value) == 32
    assert (cookie["httponly"], cookie["samesite"], cookie["max-age"], cookie["secure"]) == (
        True,
        "Lax",
        34_560_000,
        "",
    )
    assert response["Vary"] == "Cookie"
    assert "drc_visitor" not in anna.get("/page/").cookies


def test_invalid_cookie_is_replaced(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(VISITOR_IDENTITY="cookie")
    client = Browser()
    client.cookies["drc_visitor"] = "x" * 5_000

    response = client.get("/page/", secure=True)

    assert len(response.cookies["drc_visitor"].value) == 32
    assert response.cookies["drc_visitor"]["secure"] is True


def test_opted_out_request_gets_no_cookie(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(VISITOR_IDENTITY="cookie")

    assert not Browser().get("/page/", headers={"Sec-GPC": "1"}).cookies


@pytest.mark.django_db
def test_only_signed_in_users_are_visitors_with_the_user_policy(
    redis_server: Store, configure: Callable[..., None], settings: Any
) -> None:
    settings.MIDDLEWARE = AUTHENTICATED
    configure(VISITOR_IDENTITY="user", SIGN_IN_ON_LOGIN=False)
    at_home, at_work = Browser(), Browser()
    for client in (at_home, at_work):
        client.force_login(User.objects.get_or_create(username="anna")[0])

    for client in (at_home, at_work, Browser()):
        client.get("/page/")

    assert (views_of("/page/"), visitors()) == (3, 1)


def test_no_visitor_is_counted_without_authentication_with_the_user_policy(
    redis_server: Store, configure: Callable[..., None]
) -> None:
    configure(VISITOR_IDENTITY="user")

    Browser().get("/page/")

    assert (views_of("/page/"), visitors()) == (1, 0)


def test_session_is_not_read_with_other_policies(redis_server: Store, settings: Any) -> None:
    settings.MIDDLEWARE = AUTHENTICATED

    response = Browser().get("/page/")  # reading the session would also need the database

    assert "Vary" not in response
    assert views_of("/page/") == 1


def test_async_request_is_counted(store: Store) -> None:
    async def visit() -> None:
        client = AsyncBrowser()
        for path in ("/page/", "/async/", "/async/"):
            assert (await client.get(path)).content == b"<p>page"
        assert (await client.get("/missing/")).status_code == 404

    run_async(visit)
    flush()

    assert PageViews().top() == [("/async/", 2), ("/page/", 1)]
    assert visitors() == 1


def test_request_opens_no_connection(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def visit() -> None:
        await AsyncBrowser().get("/async/")

    connections.close_all()
    with monkeypatch.context() as patch:
        for name in ("SyncClient", "AsyncClient"):
            patch.setattr(connections, name, lambda endpoint: pytest.fail("a client was created"))
        patch.setattr("django_redis_components.core.observability.flushing.FLUSH_S", 3_600)
        Browser().get("/page/")
        run_async(visit)

    assert (views_of("/page/"), views_of("/async/")) == (1, 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("signed_in", [True, False])
def test_async_request_with_the_user_policy(
    redis_server: Store, configure: Callable[..., None], settings: Any, signed_in: bool
) -> None:
    settings.MIDDLEWARE = AUTHENTICATED
    configure(VISITOR_IDENTITY="user", SIGN_IN_ON_LOGIN=False)
    user = User.objects.create(username="anna")

    async def visit() -> None:
        client = AsyncBrowser()
        if signed_in:
            await client.aforce_login(user)
        await client.get("/async/")

    run_async(visit)

    assert (views_of("/async/"), visitors()) == (1, int(signed_in))


def authenticated_by_token(get_response: Callable[..., Any]) -> Callable[..., Any]:
    """An authentication of a site, which sets the user of the request and nothing else."""

    def set_user(request: Any) -> None:
        request.user = {"anna": User(pk=7), "none": None}[request.GET["token"]]

    if iscoroutinefunction(get_response):

        async def amiddleware(request: Any) -> Any:
            set_user(request)
            return await get_response(request)

        return markcoroutinefunction(amiddleware)

    def middleware(request: Any) -> Any:
        set_user(request)
        return get_response(request)

    return middleware


authenticated_by_token.async_capable = True  # type: ignore[attr-defined]


@pytest.mark.parametrize("is_async", [True, False])
def test_user_that_a_middleware_of_the_site_has_set_is_a_visitor(
    redis_server: Store, configure: Callable[..., None], settings: Any, is_async: bool
) -> None:
    settings.MIDDLEWARE = [f"{__name__}.authenticated_by_token", *settings.MIDDLEWARE]
    configure(VISITOR_IDENTITY="user")
    path = "/async/" if is_async else "/page/"

    async def visit() -> None:
        for token in ("anna", "anna", "none"):
            await AsyncBrowser().get(f"{path}?token={token}")

    if is_async:
        run_async(visit)
    else:
        for token in ("anna", "anna", "none"):
            Browser().get(f"{path}?token={token}")

    assert (views_of(path), visitors()) == (3, 1)


def test_invalid_site_fails_no_request_and_is_logged_with_traceback(
    redis_server: Store, configure: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    configure(SITE="a{b")

    assert Browser().get("/page/").status_code == 200
    flush()

    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.ERROR, "1 page views of site 'a{b' are lost.")
    assert "braces are not accepted" in str(record.exc_info)


def test_sources_of_views_are_counted(store: Store) -> None:
    requests: list[tuple[str, dict[str, str]]] = [
        ("/page/?utm_source=Newsletter", {"Referer": "https://www.example.org/a?q=secret", "User-Agent": CHROME}),
        ("/page/", {"Referer": "http://example.org:8080/", "User-Agent": CHROME}),
        ("/page/", {"Referer": "http://testserver/page/", "User-Agent": "Mozilla/5.0 (iPhone) Mobile/15E148"}),
        ("/page/", {"Referer": "javascript:alert(1)", "Sec-CH-UA-Mobile": "?1"}),
        ("/page/?utm_source=", {"Referer": "", "User-Agent": "Mozilla/5.0 (iPad; CPU OS 18)"}),
        ("/page/", {"Referer": "https://[::1/", "User-Agent": "Mozilla/5.0 (PlayStation 4 5.55)"}),
    ]
    for path, headers in requests:
        Browser().get(path, headers=headers)
    flush()

    views = PageViews()
    assert views.breakdown("referrer") == [("example.org", 2)]
    assert views.breakdown("utm_source", unit="week") == [("newsletter", 1)]
    assert dict(views.breakdown("device", unit="month")) == {"desktop": 2, "mobile": 2, "tablet": 1, "other": 1}
    assert views.breakdown("country") == []


def known_country(address: str) -> str | None:
    return {"10.0.0.1": "DE", "10.0.0.2": None}[address]


def test_country_is_that_of_the_sites_function(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(COUNTRY="tests.analytics.test_middleware.known_country")

    for address in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        Browser(REMOTE_ADDR=address).get("/page/")
    Browser(REMOTE_ADDR="10.0.0.1").get("/page/", headers={"DNT": "1"})
    flush()

    assert PageViews().breakdown("country") == [("DE", 2), ("ZZ", 1)]


def exit_country(address: str) -> str:
    """Called as ``ANALYTICS["COUNTRY"]``."""
    raise SystemExit(1)


def test_thread_outlives_a_country_function_that_exits_and_logging_that_raises(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, configure: Callable[..., None]
) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 0.01)
    monkeypatch.setattr(buffer, "COUNTRIES", CountryLookup())  # the next test's has not failed before
    configure(COUNTRY=f"{__name__}.exit_country")

    with raising_logs(SystemExit) as messages:
        for number in range(1, 4):
            Browser(REMOTE_ADDR="10.0.0.1").get("/page/")
            eventually(lambda: PageViews().count("/page/", site_date()) == number)  # noqa: B023 - called at once

    assert PageViews().breakdown("country") == [("ZZ", 3)]
    assert [message for message in messages if "country" in message]


def test_missing_country_database_loses_no_view(
    redis_server: Store, settings: Any, configure: Callable[..., None], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    configure(COUNTRY="django_redis_components.geoip.country_of")
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "GEOIP": {"MMDB": str(tmp_path / "missing.mmdb")}}

    for number in range(3):
        Browser(REMOTE_ADDR=f"8.8.8.{number % 2}").get("/page/")
        flush()

    assert PageViews().count("/page/", site_date()) == 3
    assert UniqueVisitors("default").count(site_date()) == 2
    assert PageViews().breakdown("country") == [("ZZ", 3)]
    [record] = caplog.records
    assert record.getMessage().startswith(
        "The country of an address cannot be looked up and counts as unknown: "
        "django_redis_components.geoip.country_of raised DatabaseUnavailable("
    )


def test_visitor_who_opted_out_is_not_counted(redis_server: Store) -> None:
    client = Browser()
    client.cookies["drc_analytics"] = "off"

    client.get("/page/")
    flush()

    assert redis_server.keys() == []


def test_visitors_of_a_limited_number_of_pages_are_counted(store: Store, configure: Callable[..., None]) -> None:
    configure(VISITOR_PAGES_PER_DAY=2)
    for name in ("page", "async", "streamed", "page"):
        Browser().get(f"/{name}/")
        flush()

    counts = {
        name: int(UniqueVisitors("default", page=f"/{name}/").count(site_date()))
        for name in ("page", "async", "streamed")
    }
    assert counts == {"page": 1, "async": 1, "streamed": 0}
    assert UniqueVisitors("default", page=OTHER).count(site_date()) == 1, "there were further pages"
    assert visitors() == 1


def test_no_page_has_visitors_with_a_maximum_of_0(redis_server: Store, configure: Callable[..., None]) -> None:
    configure(VISITOR_PAGES_PER_DAY=0)
    Browser().get("/page/")
    flush()

    assert not [key for key in redis_server.keys() if b":uvp:" in key]  # noqa: SIM118 - a Store is no dict
    assert visitors() == 1


@pytest.mark.parametrize("policy", ["hash:day", "hash:week", "hash:month"])
def test_salt_of_the_policy_is_used(redis_server: Store, configure: Callable[..., None], policy: str) -> None:
    configure(VISITOR_IDENTITY=policy)

    for _ in range(2):
        Browser().get("/page/")
        flush()

    label = {"hash:day": 8, "hash:week": 7, "hash:month": 6}[policy]
    stored = redis_server.keys()
    (salt,) = [key for key in stored if b":salt:" in key]
    assert len(salt.rpartition(b":")[2]) == label
    assert visitors() == 1
