"""What each component does while Redis is away: each row of docs/guides/when-redis-is-away.md, with four faults."""

from __future__ import annotations

import io
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from django_redis_components import search
from django_redis_components.autocomplete import registry
from django_redis_components.core.circuit_breaker import forget_failures
from tests.conftest import components_settings
from tests.outages import cells
from tests.outages.cells import RAISES, attempt
from tests.outages.faults import AWAY, FAULTS, fault, with_short_timeouts
from tests.support import Store
from tests.support.pools import close_pools
from tests.support.raising_logs import raising_logs
from tests.support.stores import Stores
from tools.localserver import LocalServer

pytestmark = [pytest.mark.django_db, pytest.mark.redis, pytest.mark.urls("tests.outages.urls")]

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "when-redis-is-away.md"
LIMITED, DENIED = [True, True, False, False], [False, False]
ANY = object()
UNCHECKED = "“Anna” cannot be checked at the moment. Try again in a minute."

#: Row of the page -> what is done; the outcome while Redis does not answer, as a read-only replica, and without memory.
#: ANY is any value that is returned.
ROWS: dict[str, tuple[Callable[..., cells.Act], object, object, object]] = {
    'Rate limits, `on_error="open"`': (cells.open_limit, LIMITED, LIMITED, LIMITED),
    'Rate limits, `on_error="closed"`': (cells.closed_limit, DENIED, DENIED, DENIED),
    "Page views": (cells.page_views, 200, 200, 200),
    "Sign-ins on login": (cells.sign_in, 200, 200, 200),
    "Calendar and counts in templates": (cells.calendar, "omitted", "shown", "shown"),
    "Counters, called": (cells.counters, [RAISES, RAISES], [1, RAISES], [1, RAISES]),
    "`country_of`": (cells.countries, "ZZ", "US", "US"),
    "Autocomplete, view": (cells.suggestions, (503, "5"), 200, 200),
    "Autocomplete, form fields": (cells.form_field, UNCHECKED, "Anna", "Anna"),
    "Search": (cells.search, RAISES, RAISES, RAISES),
    "Saving an indexed object": (cells.indexed_object, "saved", "saved", "saved"),
    "Indexes of models, searched": (cells.searched_object, ["saved", RAISES], ["saved", RAISES], ["saved", RAISES]),
    "Unread messages, view": (cells.unread_view, 503, 200, 200),
    "Unread messages, called": (cells.unread, RAISES, {"room": 1}, {"room": 1}),
    "Messages, reading": (cells.read_messages, 503, 200, 200),
    "Messages, sending": (cells.send_message, 503, 503, 503),
    "Chats, called": (cells.chat, [RAISES, RAISES], [1, RAISES], [1, RAISES]),
    "`@cached`": (cells.cached_value, 7, 7, 7),
    '`@cached`, `on_error="raise"`': (cells.cached_or_error, RAISES, RAISES, 7),
    "Locks": (cells.lock, RAISES, RAISES, RAISES),
    "Semaphores": (cells.semaphore, RAISES, RAISES, RAISES),
    "`enqueue`": (cells.enqueue, RAISES, RAISES, RAISES),
    "`enqueue_on_commit` with the outbox": (cells.stored_task, 1, 1, 1),
    "Transactions": (cells.transaction, RAISES, RAISES, RAISES),
    "Bloom filters": (cells.bloom, [RAISES, RAISES], [True, RAISES], [True, RAISES]),
    "File channels": (cells.publish, RAISES, RAISES, RAISES),
    "Dashboard": (cells.dashboard, 503, 200, 200),
    "`healthz/`": (cells.healthz, 503, 503, 503),
}


@pytest.fixture(scope="module")
def server(stores: Stores) -> Iterator[LocalServer]:
    """One server for all rows."""
    with LocalServer(directory=stores.new_directory("outages"), appendonly=True, die_with_parent=True) as running:
        yield running


@pytest.fixture
def site(server: LocalServer, settings: Any) -> Iterator[Any]:
    """The settings of a site on this server, which is well."""
    store = Store("outages", server.url, f"t{secrets.token_hex(4)}", None, (server,))  # type: ignore[arg-type]
    settings.REDIS_COMPONENTS = components_settings(store) | {"MONITORING": {"TOKEN": cells.TOKEN}}
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django_redis_components.analytics.AnalyticsMiddleware"]
    sources = registry.registered()
    yield settings
    for source in registry.registered():
        if source not in sources:
            registry.unregister(source.name)
    search.unregister("auth.user")
    close_pools()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("row", ROWS)
def test_component_does_what_the_page_says(row: str, name: str, server: LocalServer, site: Any, tmp_path: Path) -> None:
    check_outcome(row, name, server, site, tmp_path)


@pytest.mark.parametrize("row", ROWS)
def test_log_filter_that_raises_changes_no_outcome(row: str, server: LocalServer, site: Any, tmp_path: Path) -> None:
    check_outcome(row, "stopped", server, site, tmp_path, around=raising_logs)


def check_outcome(
    row: str,
    name: str,
    server: LocalServer,
    site: Any,
    tmp_path: Path,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """Compare the outcome of a row during a fault with the page."""
    prepare, *expected = ROWS[row]
    act = prepare(tmp_path) if prepare is cells.publish else prepare()
    wanted = dict(zip(FAULTS, [expected[0], *expected], strict=True))[name]

    with fault(name, server), around():
        if name in AWAY:  # a server that answers may be slow on a busy machine
            site.REDIS_COMPONENTS = with_short_timeouts(site.REDIS_COMPONENTS)
            forget_failures()
        found = attempt(act)

    assert found == wanted or (wanted is ANY and found != RAISES)


@pytest.mark.parametrize(
    ("prepare", "label", "command"),
    [
        (cells.indexed_object, "Index", "autocomplete"),
        (cells.searched_object, "Search", "search"),
    ],
)
@pytest.mark.parametrize("name", FAULTS)
def test_change_that_an_index_misses_is_logged_and_found_by_the_check(
    name: str,
    prepare: Callable[[], Callable[[], object]],
    label: str,
    command: str,
    server: LocalServer,
    site: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    act = prepare()
    call_command("redis", command, "repair", "auth.user", stdout=io.StringIO())
    healthy = site.REDIS_COMPONENTS

    with fault(name, server):
        if name in AWAY:
            site.REDIS_COMPONENTS = with_short_timeouts(healthy)
        act()
    site.REDIS_COMPONENTS = healthy

    lines = [record.getMessage() for record in caplog.records if "misses a change" in record.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith(f"{label} auth.user misses a change of auth.User ")
    assert lines[0].endswith(f"manage.py redis {command} repair repairs it.")
    with pytest.raises(SystemExit, match="1"):
        call_command("redis", command, "check", "auth.user", stdout=io.StringIO())


def test_page_has_each_row_and_no_other() -> None:
    [table] = re.findall(r"\| Component \|.*?\n\n", PAGE.read_text(), re.DOTALL)

    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)

    assert rows == ["Component", *ROWS]
