"""Panels that a site registers: errors of registration, permission, failures, budget, JSON."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils.translation import gettext_lazy

from django_redis_components import autocomplete
from django_redis_components.bloom import BloomFilter
from django_redis_components.core.protocol import Batch, Command, Flow, Read, Sleep
from django_redis_components.dashboard import Panel, register_panel, unregister_panel
from django_redis_components.dashboard.panel import NamingPanel
from tests.architecture.sources import PACKAGE_DIR
from tests.dashboard.support import HOSTILE, URL, Page, browser, client_of, text_of, write_queue
from tests.support import Store
from tests.support.processes import child_environment
from tests.support.raising_logs import raising_logs
from tests.taskqueue.hostile import errors
from tools.localserver import free_port

pytestmark = pytest.mark.django_db

ANALYTICS = "/admin/django_redis_components/analytics/"
Register = Callable[..., type[Panel]]


@pytest.fixture
def register() -> Iterator[Register]:
    """Register panels by their attributes, and remove them at the end."""
    names: list[str] = []

    def add(kind: type[Panel] = Panel, **attributes: Any) -> type[Panel]:
        panel = type("Sales", (kind,), {"name": "sales", "title": "Sales", "__module__": "shop.panels", **attributes})
        register_panel(panel)
        names.append(panel.name)
        return panel

    yield add
    for name in names:
        unregister_panel(name)


@pytest.fixture
def viewer() -> Client:
    return client_of("superuser")


def text(client: Client, url: str = URL) -> str:
    response = client.get(url)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def figures(client: Client, url: str = URL) -> dict[str, Any]:
    response = client.get(url, {"format": "json"})
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


def facts(self: Panel, value: Any) -> dict[str, Any]:
    return {"facts": [("Sold", value)]}


def reads(*requests: Any) -> Callable[[Panel], Flow[Any]]:
    def read(self: Panel) -> Flow[Any]:
        reply = None
        for request in requests:
            reply = yield request
        return reply

    return read


def test_panel_is_shown_at_the_end_of_its_page(redis_server: Store, viewer: Client, register: Register) -> None:
    key = f"{redis_server.prefix}:sold"
    redis_server.raw.set(key, 7)

    def data(self: Panel, value: bytes) -> dict[str, Any]:
        return {"sold": int(value), "day": date(2026, 11, 23), "revenue": Decimal("9.50")}

    register(title=gettext_lazy("Sales today"), read=reads(Read("GET", key)), context=facts, data=data)

    html = viewer.get(URL).content.decode()

    assert re.search(
        r"Redis ● Connected Memory .* Sales today Sold b&#x27;7&#x27; \d+ commands · 1 round trip", text_of(html)
    )
    ids = {attributes["id"] for _, attributes in Page(html).tags if attributes.get("id")}
    assert "drc-panel-sales" in ids
    assert 'data-drc-live="panel-sales"' in html
    found = figures(viewer)
    assert found["panels"] == {"sales": {"sold": 7, "day": "2026-11-23", "revenue": "9.50"}}
    assert found["errors"] == {}


def test_panels_are_sorted_by_order_and_name(redis_server: Store, viewer: Client, register: Register) -> None:
    register(name="b", page="analytics", order=15)
    register(name="c", page="analytics", order=5)
    register(name="a", page="analytics", order=15)

    html = viewer.get(ANALYTICS).content.decode()

    shown = re.findall(r'<section class="drc-panel( drc-folded)?".* data-drc-live="panel-([\w-]+)"', html)
    boxes, lines = ([name for folded, name in shown if bool(folded) is is_folded] for is_folded in (False, True))
    assert [name for _folded, name in shown] == boxes + lines  # those without data are below the others
    order = [
        "c", "traffic", "visitors", "a", "b", "sign-ins", "top-pages", "sources", "events", "funnel", "rankings",
        "bloom", "counters", "sign-in-calendar", "retention", "cohorts",
    ]  # fmt: skip
    assert boxes == [name for name in order if name in boxes]
    assert lines == [name for name in order if name in lines]
    assert sorted(boxes + lines) == sorted(order)
    assert {"a", "b", "c"} <= set(boxes)
    assert {"traffic", "top-pages", "retention"} <= set(lines)


def test_panels_of_a_page_share_its_round_trips(redis_server: Store, viewer: Client, register: Register) -> None:
    plain = figures(viewer)["cost"]
    for name in ("one", "two", "three"):
        key = f"{redis_server.prefix}:{name}"
        register(name=name, read=reads(Read("GET", key), Batch([Read("LLEN", key), Read("ZCARD", key)])))

    found = figures(viewer)

    assert found["errors"] == {}
    assert found["cost"]["commands"] == plain["commands"] + 9
    assert found["cost"]["round_trips"] == 2


@pytest.mark.parametrize(
    ("attributes", "error"),
    [
        ({"name": "Sales!"}, r"shop\.panels\.Sales\.name='Sales!': expected a lower-case letter, then up to 49 lower"),
        ({"name": ""}, r"\.name='': expected a lower-case letter"),
        ({"name": None}, r"\.name=None: expected a lower-case letter"),
        ({"title": ""}, r"\.title='': expected a heading\."),
        (
            {"page": "overveiw"},
            r"\.page='overveiw': expected one of overview, analytics, indexes, messaging, files\. Did you mean 'over",
        ),
        ({"page": None}, r"\.page=None: expected one of overview, analytics, indexes, messaging, files\."),
        ({"order": "first"}, r"\.order='first': expected an integer\."),
        ({"permission": "view_sales"}, r"\.permission='view_sales': expected 'app_label\.codename', or ''\."),
        (
            {"template_name": "shop/sales.html"},
            r"\.template_name='shop/sales\.html': expected the name of a template that exists, such as 'shop/panels/",
        ),
    ],
)
def test_invalid_attribute_is_an_error_at_registration(
    attributes: dict[str, Any], error: str, register: Register
) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        register(**attributes)


@pytest.mark.parametrize("wrong", [Panel(), object, "sales", None])
def test_only_subclasses_of_panel_are_accepted(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a subclass of Panel\.$"):
        register_panel(wrong)


def test_a_name_belongs_to_one_class(register: Register) -> None:
    panel = register()

    assert register_panel(panel) is panel, "the same class again"
    with pytest.raises(ValueError, match=r"Panel name 'sales' of shop\.panels\.Sales is already registered by shop\."):
        register()
    with pytest.raises(ValueError, match=r"already registered by django_redis_components\.dashboard\.panels"):
        register(name="visitors")


def test_panel_without_permission_is_neither_read_nor_shown(redis_server: Store, register: Register) -> None:
    read_by: list[str] = []

    def read(self: Panel) -> Flow[None]:
        read_by.append(self.name)
        yield Read("GET", "x")

    register(title="Secret sales", permission="auth.view_user", read=read)
    viewer = browser("view_overview")

    assert "Secret sales" not in text(viewer)
    assert figures(viewer)["panels"] == {}
    assert read_by == []
    User.objects.get().user_permissions.add(Permission.objects.get(codename="view_user"))
    assert "Secret sales" in text(viewer)


def test_page_without_permitted_panels_says_so(redis_server: Store) -> None:
    from django_redis_components.dashboard.panels.autocomplete import IndexesPanel
    from django_redis_components.dashboard.panels.names import RecentListsPanel
    from django_redis_components.dashboard.panels.search import SearchPanel

    unregister_panel("indexes")
    unregister_panel("search")
    unregister_panel("recent-lists")
    try:
        shown = text(browser("view_indexes"), "/admin/django_redis_components/indexes/")
    finally:
        register_panel(IndexesPanel)
        register_panel(SearchPanel)
        register_panel(RecentListsPanel)

    assert "There is no panel that you may view." in shown


NAME_OF_PANEL = re.compile(r'^    name = "([a-z-]+)"$', re.MULTILINE)

#: Runs in a new process, as a site that starts: prints the names of the panels of the analytics page.
STARTING_SITE = """
import django
django.setup()
from django_redis_components.dashboard import Panel, register_panel, unregister_panel
unregister_panel("visitors")
own = lambda name: type("Own", (Panel,), {"name": name, "title": "Own", "page": "analytics", "order": 1})
register_panel(own("visitors"))
try:
    register_panel(own("traffic"))
except ValueError as exc:
    print(exc)
from django_redis_components.dashboard.panel import add_own_panels, panels_of
add_own_panels()
print([type(panel).__name__ for panel in panels_of("analytics")][:2])
"""


def test_panels_of_the_package_are_removed_and_replaced_before_they_are_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTING_SITE], env=child_environment(), capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    error, names = done.stdout.splitlines()
    assert error == (
        "Panel name 'traffic' of __main__.Own is already registered by django_redis_components.dashboard.panels. "
        "Choose another name, or call unregister_panel('traffic') first."
    )
    assert names == "['Own', 'TrafficPanel']"


def test_every_panel_of_the_package_has_its_name_reserved() -> None:
    folder = PACKAGE_DIR / "dashboard"
    defined = {name for path in (folder / "panels").glob("*.py") for name in NAME_OF_PANEL.findall(path.read_text())}

    reserved = (folder / "panel.py").read_text().partition("_own = {")[2].partition("}")[0]

    assert set(re.findall(r'"([a-z-]+)":', reserved)) == defined


def boom(*_: Any) -> Any:
    raise LookupError("<b>out of stock</b>")


@pytest.mark.parametrize("method", ["using", "read", "context"])
@pytest.mark.parametrize("url", [URL, ANALYTICS])
def test_failing_panel_is_a_note_in_its_place(
    method: str, url: str, redis_server: Store, viewer: Client, register: Register, caplog
) -> None:
    write_queue(redis_server, "mail", ready=3)
    register(page="overview" if url == URL else "analytics", **{method: boom})

    html = viewer.get(url).content.decode()

    note = "Sales An internal error occurred. (&lt;b&gt;out of stock&lt;/b&gt;)"
    assert note in text_of(html)
    assert ("mail" if url == URL else "Visitors") in text_of(html)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "LookupError" in caplog.text


class Untitled:
    """A title whose translation raises."""

    def __str__(self) -> str:
        raise LookupError("no title")


@pytest.mark.parametrize("url", [URL, ANALYTICS])
def test_panel_whose_title_raises_is_a_note_with_its_name(
    url: str, redis_server: Store, viewer: Client, register: Register, caplog: pytest.LogCaptureFixture
) -> None:
    register(page="overview" if url == URL else "analytics", title=Untitled())

    assert "sales An internal error occurred. (no title)" in text(viewer, url)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def lazy_ids(*_: Any) -> Any:
    return {"user": map(boom, ["7"])}


@pytest.mark.parametrize("ids", [boom, lazy_ids, lambda *_: None, lambda *_: {"user": 7}])
def test_panel_whose_ids_raise_is_a_note_and_others_have_names(
    ids: Callable[..., Any], redis_server: Store, viewer: Client, register: Register, settings: Any, caplog: Any
) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"NAMES": f"{__name__}.names_of"}}
    methods = {"named_context": lambda self, value, names: {"facts": [("Buyer", names.text_of("user", "8"))]}}
    register(kind=NamingPanel, ids=ids, **methods)
    register(kind=NamingPanel, name="buyers", title="Buyers", ids=lambda *_: {"user": ["8"]}, **methods)

    shown = text(viewer)

    assert "Sales An internal error occurred. (" in shown
    assert "Buyers Buyer Ada (8)" in shown
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert figures(viewer)["errors"] == {}


def names_of(kind: str, ids: list[str]) -> dict[str, str]:
    """The function of the site."""
    return dict.fromkeys(ids, "Ada")


@pytest.mark.parametrize("kind", ["attributes", "text", "slots", "nameless"])
@pytest.mark.parametrize("method", ["using", "read", "context", "data"])
def test_panel_may_raise_any_exception(
    method: str, kind: str, redis_server: Store, viewer: Client, register: Register
) -> None:
    def fail(*_: Any) -> Any:
        raise errors.make(kind)

    register(**{method: fail})

    with raising_logs():
        found = figures(viewer)
        shown = text(viewer)

    assert list(found["errors"]) == ([] if method == "context" else ["sales"])
    assert ("Sales An internal error occurred. (" in shown) is (method != "data")


@pytest.mark.parametrize("data", [boom, lambda self, value: object(), lambda self, value: {1, 2}])
def test_failing_json_of_a_panel_is_an_error_by_its_name(
    data: Any, redis_server: Store, viewer: Client, register: Register
) -> None:
    write_queue(redis_server, "mail", ready=3)
    register(data=data)

    found = figures(viewer)

    assert (found["panels"], list(found["errors"])) == ({"sales": None}, ["sales"])
    assert found["errors"]["sales"].startswith("An internal error occurred. (")
    assert found["queues"][0]["ready"] == 3


def test_broken_template_is_a_note(redis_server: Store, viewer: Client, register: Register, settings, tmp_path) -> None:
    (tmp_path / "sales.html").write_text("{% include 'gone.html' %}")
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "DIRS": [tmp_path]}]
    register(template_name="sales.html")

    assert "Sales An internal error occurred. (gone.html)" in text(viewer)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Command("SET", "k", "v"), "This panel was stopped. (A page must not send"),
        (Command("KEYS", "*"), "This panel was stopped. (A page must not send"),
        (Batch([Read("GET", "k"), Command("DEL", "k")]), "This panel was stopped. (A page must not send"),
        (Command("MEMORY", "USAGE", "k", "SAMPLES", 0, key="k"), "This panel was stopped. (A page must not send"),
        (Command("MEMORY", "USAGE", "k", key="k"), "This panel was stopped. (A page must not send"),
        (Read("GET", None), "Redis returned an error. (Part 1 of GET is None"),
        (Read("GET", "\ud800"), "An internal error occurred. ("),
        (Sleep(5), "An internal error occurred. (Sleep(seconds=5): the read method of a panel may only yield"),
        ("GET k", "An internal error occurred. (&#x27;GET k&#x27;: the read method of a panel may only yield"),
        (Batch([Read("GET", "k")] * 51), "It would send 51 commands; the panels of this page have 49 left."),
    ],
    ids=lambda value: str(value)[:30].encode("ascii", "replace").decode(),
)
def test_request_that_a_page_must_not_send_stops_only_its_panel(
    request_: Any, reason: str, redis_server: Store, viewer: Client, register: Register
) -> None:
    register(read=reads(request_))
    register(name="other", title="Other", read=reads(Read("GET", f"{redis_server.prefix}:x")), context=facts)

    shown = text(viewer)

    assert reason in shown
    assert "Other Sold None" in shown
    assert "Cannot read" not in shown


def test_fourth_round_trip_stops_a_panel(redis_server: Store, viewer: Client, register: Register) -> None:
    register(read=reads(*[Read("GET", "k")] * 4))

    assert "Sales This panel was stopped. (It wants more than 3 round trips.)" in text(viewer)
    assert figures(viewer)["cost"]["round_trips"] == 3


def test_panels_of_a_page_share_its_commands(redis_server: Store, viewer: Client, register: Register) -> None:
    register(name="big", page="analytics", order=40, read=reads(Batch([Read("GET", "k")] * 112)))
    register(name="late", page="analytics", order=46, read=reads(Batch([Read("GET", "k")] * 30)))

    found = figures(viewer, ANALYTICS)

    reason = "This panel was stopped. (It would send 30 commands; the panels of this page have 14 left.)"
    assert found["errors"] == {"late": reason}
    assert found["cost"]["commands"] == 197


def test_flow_may_handle_errors_of_redis(redis_server: Store, viewer: Client, register: Register) -> None:
    key = f"{redis_server.prefix}:list"
    redis_server.raw.rpush(key, "x")

    def read(self: Panel) -> Flow[str]:
        try:
            yield Read("GET", key)
        except Exception as exc:  # noqa: BLE001
            return str(exc).split()[0]
        return ""

    register(read=read, context=facts)

    assert "Sold WRONGTYPE" in text(viewer)


@pytest.mark.parametrize("name", HOSTILE)
def test_texts_of_panels_are_escaped(name: str, redis_server: Store, viewer: Client, register: Register) -> None:
    clean = Page(viewer.get(URL).content.decode())
    register(title=name, context=lambda self, value: {"facts": [(name, name)]})

    page = Page(viewer.get(URL).content.decode())

    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag


def test_redis_away_is_one_outage_of_the_page(viewer: Client, register: Register, settings) -> None:
    viewer = browser("view_analytics")
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": f"redis://127.0.0.1:{free_port()}/0"}}}

    response = viewer.get(ANALYTICS)

    assert response.status_code == 503
    assert "Cannot connect to Redis." in text_of(response.content.decode())
    assert viewer.get(ANALYTICS, {"format": "json"}).json()["error"]["code"] == "unreachable"


def test_panels_of_several_parts_are_part_of_the_outage(viewer: Client, settings) -> None:
    viewer = browser("view_indexes", "view_analytics")
    seen = BloomFilter("seen", 10)
    autocomplete.register("contacts")
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": f"redis://127.0.0.1:{free_port()}/0"}}}

    try:
        for page in (ANALYTICS, "/admin/django_redis_components/indexes/"):
            assert viewer.get(page).status_code == 503
    finally:
        autocomplete.unregister("contacts")
        assert seen.name == "seen"


def test_panel_on_another_connection_fails_alone(
    redis_server: Store, viewer: Client, register: Register, settings
) -> None:
    connections = settings.REDIS_COMPONENTS["CONNECTIONS"]
    away = {"URL": f"redis://127.0.0.1:{free_port()}/0"}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {**connections, "away": away}}
    register(using=lambda self: "away", read=reads(Read("GET", "k")))
    register(name="typo", using=lambda self: "awya", read=reads(Read("GET", "k")))

    found = figures(viewer)

    assert found["queues"] == []
    assert found["errors"]["sales"].startswith("Cannot connect to Redis. (")
    assert "Did you mean 'away'?" in found["errors"]["typo"]


def test_registration_is_thread_safe(register: Register) -> None:
    panel, errors = register(), []

    def again() -> None:
        try:
            register_panel(panel)
        except ValueError as exc:
            errors.append(exc)

    threads = [threading.Thread(target=again) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
