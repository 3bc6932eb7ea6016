"""What each component writes, and what any later release must read of it, at any date.

`write` runs once, when the files are recorded; `read` with each commit. So a case reads nothing whose lease, lifetime
or period counts from the moment at which it was written.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from django_redis_components.aggregation import LogAggregator
from django_redis_components.analytics import BitCounters, Events, PageViews, Ranking, SignIns, UniqueVisitors
from django_redis_components.autocomplete import PrefixIndex, RecentList
from django_redis_components.bloom import BloomFilter, CountMinSketch, TopK
from django_redis_components.expiry import cached
from django_redis_components.files import FileChannel
from django_redis_components.geoip import IpLookup, IpRange, Place
from django_redis_components.locks import Lock
from django_redis_components.messaging import Chat, Mailbox, chats
from django_redis_components.ratelimits import RateLimit
from django_redis_components.search import SearchIndex
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import Schedules, chain, get_queue, get_result, schedules, task
from tests.taskqueue.support import new_fetcher, work_off

#: A day that no test runs on.
DAY = date(2026, 11, 2)
LOG_LINE = '8.8.8.8 - - [02/Nov/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 2326\n'
YEAR_S = 365 * 86_400


#: What the task below has returned in this process.
noted: list[Any] = []


@task(name="tests.stored_data.note")
def note(what: Any) -> Any:
    """Return what was stored."""
    noted.append(what)
    return what


@task(name="tests.stored_data.fail", max_attempts=1)
def fail(text: str) -> None:
    """Fail."""
    raise ValueError(text)


class TaskQueue:
    """Tasks in each state, flows, periodic tasks and pauses. IDs are chosen, so that `read` knows them."""

    @staticmethod
    def write(_: Path) -> None:
        note.using(id="done").enqueue("a result")
        fail.using(id="failed").enqueue("no paper")
        work_off("default")
        note.using(id="running").enqueue({"started": [1, None, "é"]})
        assert new_fetcher(worker="gone:1").fetch("0", 1)
        note.using(id="ready").enqueue("waits")
        note.using(id="first", priority=9).enqueue("is first")
        note.using(id="later", run_after=120, expires=10 * YEAR_S).enqueue("was scheduled")
        note.using(id="moved", queue_name="mail").enqueue("in a paused queue")
        get_queue("mail").pause(author="Ada")
        chain(note.s("link"), note.s()).enqueue()
        Schedules().add("report", note, every=3_600, args=["hourly"])
        Schedules().pause("report", author="Ada")

    @staticmethod
    def read(_: Path) -> None:
        assert get_result("done").return_value == "a result"
        failed = get_result("failed")
        assert (failed.state, failed.errors[0].message) == ("failed", "no paper")
        running = get_result("running")
        assert (running.state, running.args) == ("running", [{"started": [1, None, "é"]}])
        queue = get_queue("default").info()
        assert (queue.failed, queue.running) == (1, 1)
        [report] = [each for each in schedules() if each.name == "report"]
        assert (report.state, report.paused_by) == ("paused", "Ada")
        assert get_queue("mail").info().paused

        noted.clear()
        if get_result("later").state == "scheduled":  # it is due at any later date
            get_result("later").run_now()
        work_off("default")
        get_queue("mail").resume()
        work_off("mail")

        assert sorted(noted[:-1]) == ["is first", "link", "link", "waits", "was scheduled"]
        assert noted.index("is first") < noted.index("waits")
        assert noted[-1] == "in a paused queue"
        assert get_result("ready").return_value == "waits"


class Locks:
    """The counter of fencing tokens, which must never go back."""

    @staticmethod
    def write(_: Path) -> None:
        for _number in range(41):
            with Lock("stock"):
                pass

    @staticmethod
    def read(_: Path) -> None:
        with Lock("stock") as held:
            assert held.fencing_token > 41


class Semaphores:
    """A limit that was set at run time."""

    @staticmethod
    def write(_: Path) -> None:
        Semaphore("reports", 2).set_limit(5)

    @staticmethod
    def read(_: Path) -> None:
        assert Semaphore("reports", 2).inspect().limit == 5


class RateLimits:
    """A block without an end."""

    @staticmethod
    def write(_: Path) -> None:
        RateLimit("login", "5/h").block("ada", None, author="Grace")

    @staticmethod
    def read(_: Path) -> None:
        assert not RateLimit("login", "5/h").hit("ada")
        assert RateLimit("login", "5/h").hit("bob")


class Expiry:
    """A cached value."""

    @staticmethod
    def write(_: Path) -> None:
        assert cached("price", YEAR_S, early=False)(lambda: {"price": [1, "é"]})() == {"price": [1, "é"]}

    @staticmethod
    def read(_: Path) -> None:
        assert cached("price", YEAR_S, early=False)(lambda: "computed again")() == {"price": [1, "é"]}


class Autocomplete:
    """An index and a list of recent choices."""

    @staticmethod
    def write(_: Path) -> None:
        contacts = PrefixIndex("contacts")
        contacts.add(1, "Émile Zola", terms=["emile@example.org"])
        contacts.add(2, "张三", terms=["zhangsan", "zs"])
        RecentList("user:7").touch(2)

    @staticmethod
    def read(_: Path) -> None:
        contacts, recents = PrefixIndex("contacts"), RecentList("user:7")
        assert [one.text for one in contacts.complete("zol")] == ["Émile Zola"]
        assert [one.id for one in contacts.complete("zh")] == ["2"]
        assert [one.id for one in contacts.complete("", recents=recents)] == ["2", "1"]
        contacts.remove(1)
        assert contacts.complete("zol") == []


class Search:
    """An index with facets and numbers."""

    FIELDS = {"title": 3.0, "description": 1.0}

    @classmethod
    def write(cls, _: Path) -> None:
        items = SearchIndex("items", fields=cls.FIELDS)
        for number, title in enumerate(["Black cat", "White cat", "Lamp"], 1):
            values = {"price": 40 / number}
            items.add(number, {"title": title, "description": "quiet"}, facets={"kind": "pet"}, sort_values=values)

    @classmethod
    def read(cls, _: Path) -> None:
        items = SearchIndex("items", fields=cls.FIELDS)
        assert items.search("cat", order_by="-price").ids == ["1", "2"]
        assert items.search("quiet -cat", facets=["kind"]).ids == ["3"]
        items.remove(1)
        assert items.search("cat").ids == ["2"]


class Analytics:
    """Counts of a day in the past."""

    @staticmethod
    def write(_: Path) -> None:
        for user, day in ((7, 1), (7, 2), (9, 2)):
            SignIns().sign_in(user, at=date(2026, 11, day))
            Events("order").mark(user, at=date(2026, 11, day))
        PageViews().hit("/items/7/", at=DAY)
        UniqueVisitors().add("ada", "grace", at=DAY)
        Ranking("sales").add("lamp", 2.5)
        Ranking("sales").add("cat", 1)
        BitCounters("levels", bits=4).set(3, 9)

    @staticmethod
    def read(_: Path) -> None:
        sign_ins = SignIns()
        assert (sign_ins.streak(7, at=DAY), sign_ins.total(at=DAY), sign_ins.count(9)) == (2, 2, 1)
        assert [Events("order").did(user, at=date(2026, 11, 1)) for user in (7, 9)] == [True, False]
        assert Events("order").day(at=DAY).count() == 2
        assert PageViews().count("/items/7/", DAY) == 1
        assert UniqueVisitors().count(DAY) == 2
        assert [(one.member, one.score) for one in Ranking("sales").top()] == [("lamp", 2.5), ("cat", 1)]
        assert BitCounters("levels", bits=4).get(3) == 9


class Bloom:
    """A filter that has grown, a sketch and a top list."""

    @staticmethod
    def write(_: Path) -> None:
        BloomFilter("seen", capacity=100).add_many([f"item {number}" for number in range(150)])
        CountMinSketch("clicks", error=0.01).add("lamp", 3)
        for _number in range(2):
            TopK("searches", 10).add("lamp")

    @staticmethod
    def read(_: Path) -> None:
        seen = BloomFilter("seen", capacity=100)
        assert all(seen.contains_many([f"item {number}" for number in range(150)]))
        assert not all(seen.contains_many([f"other {number}" for number in range(50)]))
        assert CountMinSketch("clicks", error=0.01).count("lamp") == 3
        assert [(one.item, one.count) for one in TopK("searches", 10).top()] == [("lamp", 2)]


class Messaging:
    """A chat with a reader behind, and a mailbox."""

    @staticmethod
    def write(_: Path) -> None:
        chat = Chat.create("jeff", ["jenny", "eric"], "Lunch at noon?", chat_id="lunch")
        chat.send("jenny", {"text": "Fine!"})
        chat.ack("eric", 2)
        Mailbox(7).send({"text": "Your order was shipped."})

    @staticmethod
    def read(_: Path) -> None:
        chat = Chat("lunch")
        assert [message.body for message in chat.fetch("jeff")] == ["Lunch at noon?", {"text": "Fine!"}]
        assert (chat.unread("eric"), chat.unread("jeff")) == (0, 2)
        assert chat.send("jeff", "See you") == 3
        assert list(chats("jenny")) == ["lunch"]
        assert [message.body for message in Mailbox(7).fetch()] == [{"text": "Your order was shipped."}]


class Files:
    """A file that one of two consumers has read."""

    @staticmethod
    def write(directory: Path) -> None:
        path = directory / "access.log"
        path.write_text("one\ntwo\n")
        channel = FileChannel("logs", consumers=["stats", "archive"], ttl=9 * YEAR_S)
        channel.publish(path, name="access")
        for file in channel.consumer("archive").files(timeout=0):
            file.done()

    @staticmethod
    def read(_: Path) -> None:
        channel = FileChannel("logs", consumers=["stats", "archive"], ttl=9 * YEAR_S)
        assert list(channel.consumer("archive").files(timeout=0)) == []
        [file] = channel.consumer("stats").files(timeout=0)
        assert (file.name, b"".join(file.chunks())) == ("access", b"one\ntwo\n")
        file.done()


class GeoIp:
    """Ranges of addresses."""

    @staticmethod
    def write(_: Path) -> None:
        place = Place("US", "California", "Mountain View")
        IpLookup(source="ranges").rebuild([IpRange("8.8.8.0", "8.8.8.255", place), IpRange("2a00::", "2a00::f", place)])

    @staticmethod
    def read(_: Path) -> None:
        places = IpLookup(source="ranges")
        assert (places.lookup("8.8.8.8").city, places.lookup("2a00::1").country) == ("Mountain View", "US")
        assert places.lookup("8.8.9.1").country == "ZZ"


class Aggregation:
    """Counts of a log, and how far it was read."""

    @staticmethod
    def write(directory: Path) -> None:
        Aggregation._paths(directory, lines=3)

    @staticmethod
    def read(directory: Path) -> None:
        assert LogAggregator("paths", key=lambda entry: entry.path).totals(DAY) == {"/": 3}
        assert Aggregation._paths(directory, lines=5).totals(DAY) == {"/": 5}

    @staticmethod
    def _paths(directory: Path, *, lines: int) -> LogAggregator:
        log = directory / "access.log"
        log.write_text(LOG_LINE * lines)
        paths = LogAggregator("paths", key=lambda entry: entry.path)
        paths.add_file(log)
        return paths


#: By component. Transactions store the site's own keys; live events, the catalog and problems are renewed within hours.
CASES: dict[str, Any] = {
    "aggregation": Aggregation,
    "analytics": Analytics,
    "autocomplete": Autocomplete,
    "bloom": Bloom,
    "expiry": Expiry,
    "files": Files,
    "geoip": GeoIp,
    "locks": Locks,
    "messaging": Messaging,
    "ratelimits": RateLimits,
    "search": Search,
    "semaphores": Semaphores,
    "taskqueue": TaskQueue,
}
#: Components of which nothing is kept here.
WITHOUT_DATA = {"catalog", "live", "problems", "transactions"}
