"""What docs/guides/backup.md says of each component after the server was restored from an older dump."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Generator
from datetime import date
from pathlib import Path

import pytest

from django_redis_components.aggregation import LogAggregator
from django_redis_components.analytics import SignIns
from django_redis_components.autocomplete import PrefixIndex
from django_redis_components.bloom import BloomFilter
from django_redis_components.core.client import connections
from django_redis_components.expiry import cached
from django_redis_components.files import FileChannel
from django_redis_components.locks import Lock
from django_redis_components.messaging import Chat
from django_redis_components.ratelimits import RateLimit
from django_redis_components.search import SearchIndex
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import TaskResultDoesNotExist, get_queue
from tests.architecture.sources import LAYERS, ROOT, components
from tests.support import Store
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import note

#: What is done before the dump, what is done after it, and what is true of the restored server; with a yield between.
Case = Callable[[Path], Generator[None, None, None]]

LOG_LINE = '8.8.8.8 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326\n'


def taskqueue(_: Path) -> Generator[None, None, None]:
    pending = note.enqueue("before")
    yield
    work_off("default")
    lost = note.enqueue("after")
    yield
    pending.refresh()
    assert pending.state == "ready"
    with pytest.raises(TaskResultDoesNotExist):
        lost.refresh()
    assert get_queue("default").info().ready == 1


def locks(_: Path) -> Generator[None, None, None]:
    lock = Lock("stock", timeout=600)
    lock.acquire()
    yield
    lock.release()
    with Lock("other") as other:
        last_token = other.fencing_token
    yield
    assert not Lock("stock").acquire(blocking=False)
    with Lock("other") as other:
        assert other.fencing_token > last_token


def semaphores(_: Path) -> Generator[None, None, None]:
    permits = Semaphore("reports", 2, timeout=600)
    permits.acquire()
    yield
    permits.release()
    yield
    assert permits.available() == 1


def ratelimits(_: Path) -> Generator[None, None, None]:
    limit = RateLimit("login", "5/h")
    yield
    limit.hit("ada", cost=5)
    yield
    assert limit.peek("ada").remaining == 5


def expiry(_: Path) -> Generator[None, None, None]:
    prices = iter(["old", "new"])
    price = cached("price", 600)(lambda: next(prices))
    assert price() == "old"
    yield
    price.invalidate()
    assert price() == "new"
    yield
    assert price() == "old"


def autocomplete(_: Path) -> Generator[None, None, None]:
    index = PrefixIndex("names")
    index.add(1, "Ada")
    yield
    index.remove(1)
    index.add(2, "Bob")
    yield
    assert [one.text for one in (*index.complete("a"), *index.complete("b"))] == ["Ada"]


def search(_: Path) -> Generator[None, None, None]:
    index = SearchIndex("items", fields={"title": 1.0})
    index.add(1, {"title": "red lamp"})
    yield
    index.remove(1)
    yield
    assert index.search("lamp").paginator.count == 1


def analytics(_: Path) -> Generator[None, None, None]:
    sign_ins = SignIns()
    sign_ins.sign_in(7)
    yield
    sign_ins.forget(7)
    yield
    assert sign_ins.streak(7) == 1


def bloom(_: Path) -> Generator[None, None, None]:
    seen = BloomFilter("seen", capacity=1_000)
    seen.add("before")
    yield
    seen.add("after")
    yield
    assert (seen.contains("before"), seen.contains("after")) == (True, False)


def messaging(_: Path) -> Generator[None, None, None]:
    chat = Chat.create("jeff", ["jenny"], "one")
    yield
    assert chat.send("jenny", "two") == 2
    yield
    assert [message.body for message in chat.fetch("jeff", after=2)] == ["one"]  # the cursor is above the last id
    assert chat.send("jenny", "other") == 2
    assert [message.body for message in chat.fetch("jeff", after=2)] == []  # and now it is not
    assert [message.body for message in chat.fetch("jeff")] == ["one", "other"]


def files(directory: Path) -> Generator[None, None, None]:
    path = directory / "file.txt"
    path.write_text("x\n")
    channel = FileChannel("logs", consumers=["stats"])
    channel.publish(path, name="before")
    yield
    for file in channel.consumer("stats").files(timeout=0):
        file.done()
    channel.publish(path, name="after")
    yield
    assert [file.name for file in channel.consumer("stats").files(timeout=0)] == ["before"]


def aggregation(directory: Path) -> Generator[None, None, None]:
    log = directory / "access.log"
    log.write_text(LOG_LINE * 3)
    paths = LogAggregator("paths", key=lambda entry: entry.path)
    paths.add_file(log)
    yield
    log.write_text(LOG_LINE * 5)
    paths.add_file(log)
    yield
    assert paths.totals(date(2026, 10, 10)) == {"/": 3}
    paths.add_file(log)
    assert paths.totals(date(2026, 10, 10)) == {"/": 5}


CASES: tuple[Case, ...] = (
    taskqueue, locks, semaphores, ratelimits, expiry, autocomplete, search, analytics, bloom, messaging, files,
    aggregation,
)  # fmt: skip


def restore(store: Store, dump: Path) -> None:
    """Do what the page says: stop, replace the file, start without the append-only file, turn it on."""
    [server] = store.servers
    server.stop()
    connections.close_all()
    shutil.rmtree(server.directory / "appendonlydir")
    shutil.copy(dump, server.directory / "dump.rdb")
    server.appendonly = False
    server.start()
    store.raw.config_set("appendonly", "yes")


@pytest.mark.django_db
def test_restored_backup_changes_each_component_as_documented(own_server: Store, tmp_path: Path) -> None:
    running = [case(tmp_path) for case in CASES]
    for each in running:
        next(each)
    own_server.raw.save()
    shutil.copy(own_server.servers[0].directory / "dump.rdb", tmp_path / "backup.rdb")
    for each in running:
        next(each)

    restore(own_server, tmp_path / "backup.rdb")

    for each in running:
        with pytest.raises(StopIteration):
            next(each)


def test_each_component_has_a_row_on_the_page() -> None:
    text = (ROOT / "docs" / "guides" / "backup.md").read_text()

    stored = {name for name in components() if 0 < LAYERS[name] < 3}
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == stored
    assert {case.__name__ for case in CASES} == stored - {"geoip", "transactions"}
