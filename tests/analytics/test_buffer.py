"""Views in the memory of a process: each reaches Redis once, whatever happens, and memory is bounded."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_redis_components.analytics import OTHER, PageViews, UniqueVisitors, buffer, flush, visitors
from django_redis_components.analytics.dates import site_date
from django_redis_components.core.observability import flushing
from tests.analytics.browsing import CHROME, Browser
from tests.support import Proxy, Store, eventually, run_together
from tests.support.processes import Children

pytestmark = pytest.mark.urls("tests.analytics.urls")


def views_of(page: str | None, using: str = "default") -> int:
    return PageViews(using=using).count(page, site_date())


def test_view_reaches_redis_by_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 0.01)

    PageViews().hit_later("/a/")
    PageViews().hit_later("/a/")

    eventually(lambda: views_of("/a/") == 2)


@pytest.mark.contract
def test_views_of_several_sites_and_periods(store: Store) -> None:
    for site, page in (("one", "/a/"), ("one", "/b/"), ("one", "/a/"), ("two", "/a/")):
        PageViews(site).hit_later(page)
    flush()
    PageViews("one").hit_later("/a/")
    flush()

    for unit in ("hour", "day", "week", "month"):
        assert PageViews("one").top(limit=5, unit=unit) == [("/a/", 3), ("/b/", 1)]
        assert PageViews("two").top(limit=5, unit=unit) == [("/a/", 1)]


def test_batch_is_sent_again_after_a_lost_reply_and_counted_once(
    proxy: Proxy, redis_server: Store, configure: Callable[..., None]
) -> None:
    configure(TIMEOUT=10)
    PageViews(using="proxied").hit_later("/warm/")
    flush()
    for _ in range(5):
        PageViews(using="proxied").hit_later("/a/")
    proxy.drop_next_reply(after=b":batch:", times=2)  # the retry of the client, too

    flush()
    PageViews(using="proxied").hit_later("/a/")
    flush()

    assert views_of("/a/") == 6
    assert proxy.dropped == 2
    assert views_of("/warm/") == 1


def test_flush_adds_the_failed_batch_and_the_views_since(
    proxy: Proxy, redis_server: Store, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(TIMEOUT=10)
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    PageViews(using="proxied").hit_later("/a/")
    proxy.drop_next_reply(after=b":batch:", times=2)  # the retry of the client, too
    flush()
    PageViews(using="proxied").hit_later("/b/")

    flush()

    assert (proxy.dropped, views_of("/a/"), views_of("/b/")) == (2, 1, 1)


def test_views_recorded_during_an_outage_reach_redis_by_themselves(
    own_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 0.01)
    own_server.servers[0].stop()
    PageViews().hit_later("/a/")
    eventually(lambda: caplog.records)  # the batch of /a/ has failed
    PageViews().hit_later("/b/")

    own_server.servers[0].start()

    eventually(lambda: (views_of("/a/"), views_of("/b/")) == (1, 1))


def test_views_of_an_outage_are_kept(own_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    PageViews().hit_later("/a/")
    flush()
    own_server.servers[0].stop()

    for _ in range(3):
        PageViews().hit_later("/a/")
        flush()
    own_server.servers[0].start()

    eventually(lambda: (flush(), views_of("/a/") == 4)[1])
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("Page views are kept in the process until Redis counts them: ")


def test_visitors_of_an_outage_are_kept(own_server: Store, settings: Any) -> None:
    settings.MIDDLEWARE = ["django_redis_components.analytics.AnalyticsMiddleware"]
    own_server.servers[0].stop()
    for number in range(3):
        Browser().get("/page/", headers={"User-Agent": f"{CHROME} {number}"})
    flush()
    own_server.servers[0].start()

    eventually(lambda: (flush(), UniqueVisitors("default").count(site_date()) == 3)[1])


def visit_different_pages(count: int, using: str = "default") -> None:
    """Record views whose pages, sources and visitors all differ."""
    for number in range(count):
        view = buffer.View(
            f"/{number}/", visitor=str(number).encode(), referrer=f"{number}.example.org", utm_source=f"mail {number}"
        )
        buffer.BUFFER.record(using, "default", view)


def test_views_of_an_outage_are_added_by_bounded_calls(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    calls: dict[str, list[int]] = {"ADD_VIEWS": [], "VISIT_PAGES": []}
    for module, name in ((buffer, "ADD_VIEWS"), (visitors, "VISIT_PAGES")):
        monkeypatch.setattr(module, name, counting_parts(getattr(module, name), calls[name]))

    visit_different_pages(3_000)
    PageViews().hit_later("/0/")
    flush()

    assert max(calls["ADD_VIEWS"]) < 3 * buffer.MAX_NAMES
    assert max(calls["VISIT_PAGES"]) < 3 * buffer.MAX_BATCH_VIEWS
    assert len(calls["ADD_VIEWS"]) == -(-30_000 // buffer.MAX_NAMES)
    assert (views_of(None), views_of("/0/"), views_of("/2999/")) == (3_001, 2, 1)
    assert UniqueVisitors("default").count(site_date()) == pytest.approx(3_000, rel=0.03)


def counting_parts(script: Any, numbers: list[int]) -> Any:
    def call(*, parts: Any, **arguments: Any) -> Any:
        numbers.append(len(parts))
        return script(parts=parts, **arguments)

    return call


def test_batches_after_one_that_failed_are_counted_once(
    proxy: Proxy, redis_server: Store, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(TIMEOUT=10)
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    monkeypatch.setattr(buffer, "MAX_NAMES", 100)
    visit_different_pages(100, using="proxied")
    proxy.drop_next_reply(after=b":batch:", times=2)  # of the first batch, which was added
    flush()
    PageViews(using="proxied").hit_later("/0/")

    flush()

    assert proxy.dropped == 2
    assert (views_of(None), views_of("/0/"), views_of("/99/")) == (101, 2, 1)
    assert sum(views for _, views in PageViews().breakdown("referrer", limit=1_000)) == 100


@pytest.mark.parametrize("views", [250, 1_000])
def test_views_of_few_pages_are_one_batch(redis_server: Store, monkeypatch: pytest.MonkeyPatch, views: int) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    calls: list[int] = []
    monkeypatch.setattr(buffer, "ADD_VIEWS", counting_parts(buffer.ADD_VIEWS, calls))

    for number in range(views):
        buffer.BUFFER.record("default", "default", buffer.View(f"/{number % 10}/", visitor=str(number).encode()))
    flush()

    assert len(calls) == 1
    assert views_of(None) == views


def test_memory_is_bounded_and_the_sum_stays_exact(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    monkeypatch.setattr(buffer, "MAX_VIEWS", 10)

    for number in range(30):
        PageViews().hit_later(f"/{number}/")
        PageViews().hit_later("/0/")
    flush()

    assert views_of(None) == 60
    assert views_of("/0/") == 31
    assert views_of("/19/") == 1
    assert views_of("/20/") == 0
    assert views_of(OTHER) == 10


def test_visitor_is_dropped_before_the_page(
    redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MIDDLEWARE = ["django_redis_components.analytics.AnalyticsMiddleware"]
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    monkeypatch.setattr(buffer, "MAX_VIEWS", 2)

    for number in range(5):
        Browser().get("/page/", headers={"User-Agent": f"{CHROME} {number}"})
    flush()

    assert views_of("/page/") == 5
    assert UniqueVisitors("default").count(site_date()) == 2


def test_concurrent_threads_lose_no_view(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 0.001)

    def visit(number: int) -> None:
        for _ in range(500):
            PageViews().hit_later(f"/{number}/")

    run_together(4, visit)
    flush()

    assert [views_of(f"/{number}/") for number in range(4)] == [500] * 4
    assert views_of(None) == 2_000


def test_refused_batch_is_dropped_and_the_next_one_counted(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    key = f"{redis_server.prefix}:analytics:{{default}}:pv:{site_date():%Y%m%d}"
    redis_server.raw.set(key, "no zset")
    PageViews().hit_later("/a/")
    flush()
    redis_server.raw.delete(key)

    PageViews().hit_later("/b/")
    flush()

    assert (views_of("/a/"), views_of("/b/")) == (0, 1)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.records[0].getMessage().startswith("1 page views of site 'default' are lost, Redis refuses them: ")


@pytest.mark.parametrize("refusal", ["too few replicas", "no rights", "no rights in scripts"])
def test_batch_is_kept_while_the_server_refuses_all_writes(
    refusal: str, own_server: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk or a lost right concerns no batch: the views are added when the server accepts writes again."""
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    raw = own_server.raw
    begin, end = {
        "too few replicas": ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
        "no rights": ("ACL SETUSER default -evalsha -eval", "ACL SETUSER default +@all"),
        "no rights in scripts": ("ACL SETUSER default -zincrby", "ACL SETUSER default +@all"),
    }[refusal]
    raw.execute_command(*begin.split())
    PageViews().hit_later("/a/")
    flush()
    flush()
    raw.execute_command(*end.split())

    flush()

    assert views_of("/a/") == 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_batch_that_fails_for_a_day_is_dropped_with_an_error(
    own_server: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    monkeypatch.setattr(buffer, "LAST_MS", 0)
    own_server.servers[0].stop()
    for _ in range(3):
        PageViews().hit_later("/a/")
    flush()
    own_server.servers[0].start()

    flush()

    assert views_of("/a/") == 0
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert (
        caplog.records[0]
        .getMessage()
        .startswith("3 page views of site 'default' are lost, Redis has not counted them for 0 hours: ")
    )


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_child_adds_its_own_views_only(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600)
    PageViews().hit_later("/parent/")
    child = os.fork()
    if not child:
        PageViews().hit_later("/child/")
        flush()
        os._exit(0)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (views_of("/parent/"), views_of("/child/")) == (0, 1)
    flush()
    assert (views_of("/parent/"), views_of("/child/")) == (1, 1)


def test_process_that_ends_adds_its_views_first(redis_server: Store, children: Children) -> None:
    children.call("tests.analytics.test_buffer:count_and_end").wait()

    assert views_of("/a/") == 100


def test_process_ends_without_redis(own_server: Store, children: Children) -> None:
    child = children.call("tests.analytics.test_buffer:count_and_end")
    own_server.servers[0].stop()

    assert child.wait() == 0


def test_site_that_is_counted_again_loses_nothing(redis_server: Store) -> None:
    for _ in range(3):
        for site in ("one", "two"):
            PageViews(site).hit_later("/a/")
            flush()

    assert [PageViews(site).count("/a/", site_date()) for site in ("one", "two")] == [3, 3]


def test_killed_process_loses_its_last_second_at_most(redis_server: Store, children: Children, tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = children.call("tests.analytics.test_buffer:count_for_ever", str(log))
    eventually(lambda: log.exists() and len(log.read_text().splitlines()) > 2_000)

    os.kill(child.pid, signal.SIGKILL)
    child.wait()

    # Each line is the monotonic time of a view, written before it is counted.
    times = [float(line) for line in log.read_text().splitlines()[:-1]]
    counted = views_of("/a/")
    assert 0 < counted <= len(times) + 1
    lost = times[counted:]
    assert not lost or lost[-1] - lost[0] < flushing.FLUSH_S + 1, "a second, and the time of a transfer"


def count_and_end() -> None:
    for _ in range(100):
        PageViews().hit_later("/a/")


def count_for_ever(path: str) -> None:
    """Log the time of each view before it is counted."""
    with Path(path).open("w", buffering=1) as log:
        while True:
            log.write(f"{time.monotonic()}\n")
            PageViews().hit_later("/a/")
            time.sleep(0.001)


def test_counts_equal_the_log_of_several_processes(redis_server: Store, children: Children, tmp_path: Path) -> None:
    processes = [
        children.call("tests.analytics.test_buffer:visit_and_log", str(tmp_path / str(number)), number)
        for number in range(3)
    ]
    for process in processes:
        process.wait()

    log = Counter[str]()
    for number in range(3):
        log += Counter(json.loads((tmp_path / str(number)).read_text()))
    assert sum(log.values()) == 900
    assert dict(PageViews().top(limit=100)) == dict(log)
    assert views_of(None) == 900
    assert UniqueVisitors("default").count(site_date()) == 3


def visit_and_log(path: str, number: int) -> None:
    """Request 300 pages as one visitor."""
    from django.conf import settings
    from django.test.utils import override_settings

    middleware = ["django_redis_components.analytics.AnalyticsMiddleware"]
    with override_settings(MIDDLEWARE=middleware, ROOT_URLCONF="tests.analytics.urls", ALLOWED_HOSTS=["*"]):
        assert middleware == settings.MIDDLEWARE
        client, log = Browser(REMOTE_ADDR=f"10.0.0.{number}"), []
        for turn in range(300):
            name = ("page", "async", "streamed")[turn % 3]
            assert client.get(f"/{name}/").status_code == 200
            log.append(f"/{name}/")
    Path(path).write_text(json.dumps(log))
