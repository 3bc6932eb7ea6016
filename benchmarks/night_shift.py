"""Twelve incidents of a night: how soon each is said, in which words, and how soon it is over.

    python -m benchmarks.night_shift [--queues 300] [--workers 300]

Starts a server, workers and a poller with the default settings (notifications from the severity "warning"), and makes
the incidents: first nine at once, then three one by one. Each second it reads the overview, ``manage.py redis doctor``
and ``healthz``; a webhook receives the notifications. When all readers have said an incident, or after `SAID_S`, its
remedy is applied; it is over when the page has no such problem, ``healthz`` neither, and its end was announced.
``--queues`` and ``--workers`` add queues with a scheduled task and heartbeats of workers.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import django
import redis

from tools.localserver import LocalServer

ROOT = Path(__file__).resolve().parents[1]
TOKEN = "benchmarks-only-0123456789"
URL = "/admin/django_redis_components/overview/"
#: Seconds for which the readers are asked until an incident is remedied, and until it is over. A queue must grow for a
#: minute to be a problem, and be one for another minute to be announced.
SAID_S, OVER_S = 240.0, 280.0
#: Seconds within which the processes of the site start on a busy machine, and that a request may take there: the server
#: may get no processor for longer than the default.
STARTED_S, REQUEST_S = 300, 30
#: Seconds between two requests of the readers, and between two heartbeats of the workers of ``--workers``.
PAUSE_S, HEARTBEAT_S = 0.5, 5.0
READERS = ("overview", "doctor", "healthz", "notification")


@dataclasses.dataclass(slots=True)
class Incident:
    """An incident: how it is made and remedied, and what was seen of it.

    Attributes:
        code, of: code of its problem, and a part of its id.
        said: seconds until each reader said it; `over` seconds from the remedy to the end.
        is_silenced: whether its remedy is an acknowledgment: its end is that of its alarm, and is not announced.
    """

    name: str
    code: str
    of: str
    begin: Callable[[], object]
    remedy: Callable[[], object]
    said: dict[str, float] = dataclasses.field(default_factory=dict)
    sentence: str = ""
    severity: str = ""
    clicks: str = ""
    started_at: float = 0.0
    remedied_at: float = 0.0
    over: float | None = None
    is_silenced: bool = False

    def is_in(self, problems: list[dict[str, Any]]) -> bool:
        """Return whether problems have it."""
        return any(each["code"] == self.code and self.of in json.dumps(each, default=str) for each in problems)


def main() -> None:
    """Play the incidents and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=0, help="further queues (default: 0)")
    parser.add_argument("--workers", type=int, default=0, help="further workers that report (default: 0)")
    options = parser.parse_args()
    logging.disable()  # the pages log each outage
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalServer(directory=Path(directory), appendonly=True, die_with_parent=True) as server,
        hook() as received,
    ):
        set_up(server.url, received.url, Path(directory) / "site.sqlite3")
        site = Site(server, received)
        try:
            site.fill(options.queues, options.workers)
            played = play(site)
        finally:
            site.close()
    print(f"{options.queues} further queues, {options.workers} further workers; seconds\n")
    columns = ("incident", *READERS, "severity", "sentence", "to the remedy", "over after")
    print("|", " | ".join(columns), "|")
    print("|" + "---|" * len(columns))
    for each in played:
        said = [f"{each.said[reader]:.0f}" if reader in each.said else "not said" for reader in READERS]
        over = "not seen" if each.over is None else f"{each.over:.0f}"
        print("|", " | ".join([each.name, *said, each.severity, each.sentence, each.clicks, over]), "|")


class Received:
    """A webhook, and the notifications that it was sent: (event, code, text)."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        received = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.events.append(json.loads(body) | {"received_at": time.monotonic()})
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def find(self, incident: Incident, *events: str, after: float) -> float | None:
        """Return when the first of these events of an incident was received after a time."""
        found = (
            each["received_at"]
            for each in self.events
            if each["event"] in events and incident.is_in([each]) and each["received_at"] > after
        )
        return next(found, None)


@contextlib.contextmanager
def hook() -> Iterator[Received]:
    """Run the webhook."""
    received = Received()
    threading.Thread(target=received.server.serve_forever, daemon=True).start()
    yield received
    received.server.shutdown()
    received.server.server_close()


def set_up(url: str, webhook: str, database: Path) -> None:
    """Set up the site of the tests, which has an admin and tasks, in this process and those that it starts."""
    components = {
        "PREFIX": "night",
        "CONNECTIONS": {"default": {"URL": url, "SOCKET_TIMEOUT": REQUEST_S}},
        "MONITORING": {"TOKEN": TOKEN},
        "NOTIFICATIONS": {"WEBHOOKS": [webhook], "SEVERITY": "warning"},
    }
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_REDIS_COMPONENTS": json.dumps(components),
        "TEST_DATABASE": str(database),
    }
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


class Site:
    """The site with its processes, and what its readers say."""

    def __init__(self, server: LocalServer, received: Received) -> None:
        from django.contrib.auth.models import User
        from django.test import Client

        self.server, self.received = server, received
        self.raw = redis.Redis.from_url(server.url)
        self.operator = Client(raise_request_exception=False)
        self.operator.force_login(User.objects.create_superuser("admin"))
        self._processes: list[subprocess.Popen[bytes]] = []
        self._stopped = threading.Event()

    def start(self, *words: str, site: str = "tests.taskqueue.site") -> subprocess.Popen[bytes]:
        """Start a command of manage.py."""
        process = subprocess.Popen(
            [sys.executable, "-m", "django", *words],
            cwd=ROOT,
            env=os.environ | {"DJANGO_SETTINGS_MODULE": site},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def work(self, *queues: str, threads: int = 4) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return self.start("runworker", *queues, "--processes", "1", "--threads", str(threads), "--no-poller")

    def repeat(self, call: Callable[[], object], pause_s: float) -> threading.Event:
        """Call a function again and again until the event is set."""
        stopped = threading.Event()

        def run() -> None:
            while not stopped.wait(pause_s) and not self._stopped.is_set():
                with contextlib.suppress(redis.RedisError):
                    call()

        threading.Thread(target=run, daemon=True).start()
        return stopped

    def fill(self, queues: int, workers: int) -> None:
        """Add queues with a scheduled task, and workers that report."""
        from django_redis_components.core.client import connections
        from tests.taskqueue.support import renewal
        from tests.taskqueue.tasks import note

        names = [f"tenant-{number}" for number in range(queues)]
        for name in names:
            note.using(queue_name=name, run_after=86_400).enqueue("x")
        facts = {"pid": 7, "queues": names[:5], "threads": 4, "busy": 0, "finished": 0}
        reports = {f"app-{number}:7.a": json.dumps({"host": f"app-{number}", **facts}) for number in range(workers)}

        def report() -> None:
            calls = [renewal(worker, [], lease_ms=15_000, info=info) for worker, info in reports.items()]
            connections.client().execute_many(calls)

        if reports:
            report()
            self.repeat(report, HEARTBEAT_S)

    def say(self) -> dict[str, list[dict[str, Any]]]:
        """Return the problems that each reader says. Redis may be away."""
        return {"overview": self._overview(), "doctor": self._doctor(), "healthz": self._healthz()}

    def clicks(self, incident: Incident) -> str:
        """Return how the row on the overview leads to the remedy."""
        html = self.operator.get(URL).content.decode()
        section = html.partition('data-drc-live="health"')[2].partition("</section>")[0]
        for row in re.findall(r"<li>(.*?)</li>", section, re.DOTALL):
            if _without_numbers(incident.sentence)[:30] in _without_numbers(re.sub(r"<[^>]+>", "", row)):
                labels = [label.strip() for label in re.findall(r'<a class="[^"]*" href="[^"]+">([^<]+)', row)]
                changes = [label for label in labels if label.endswith("…") and label != "Acknowledge…"]
                command = "its command" if "<code" in row else ""
                confirmed = f"2 clicks ({changes[0]} confirm)" if changes else ""
                is_shown = bool(labels) and labels[0] != "Acknowledge…"
                pages = f"1 click ({labels[0]})" if is_shown else "2 clicks (Acknowledge…)"
                return " or ".join(filter(None, [command, confirmed])) or pages
        return "on the page"

    def close(self) -> None:
        """End all processes."""
        self._stopped.set()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _overview(self) -> list[dict[str, Any]]:
        response = self.operator.get(f"{URL}?format=json")
        if response.status_code != 200:
            return [{"code": "redis_unreachable", "id": "redis_unreachable:", "text": "", "severity": "critical"}]
        found: list[dict[str, Any]] = response.json()["problems"]
        return found

    def _doctor(self) -> list[dict[str, Any]]:
        from django.core.management import CommandError, call_command

        out = io.StringIO()
        try:
            call_command("redis", "doctor", "--scan", "0", "--json", stdout=out, stderr=io.StringIO())
        except CommandError as exc:
            return [{"code": "redis_unreachable", "text": str(exc)}]
        except SystemExit:
            pass
        found: list[dict[str, Any]] = json.loads(out.getvalue())["findings"]
        return found

    def _healthz(self) -> list[dict[str, Any]]:
        response = self.operator.get("/redis/healthz/", headers={"Authorization": f"Bearer {TOKEN}"})
        found: list[dict[str, Any]] = response.json()["problems"]
        return found


def play(site: Site) -> list[Incident]:
    """Play all incidents: nine at once, then the others."""
    from tests.taskqueue.support import Held
    from tests.taskqueue.tasks import hold, note

    poller = site.start("runpoller", site="tests.taskqueue.ticking.site")
    site.work("mail", "video", "orders", "ticks")
    dying, _ = site.work("reports"), site.work("growing", threads=1)
    quick = Held(_store(site), "quick")
    quick.release()
    hold.using(queue_name="orders").enqueue_many([(("quick",), {})] * 30)
    hold.using(queue_name="reports").enqueue("dies")
    for name in ("quick", "dies"):
        Held(_store(site), name).started(timeout_s=STARTED_S)
    time.sleep(20)  # the watching process has made its first round
    first = _first_incidents(site, dying)
    for each in first:
        _begin(each)
    _watch_until(site, first, SAID_S)
    for each in first:
        _remedy(each)
    _watch_end(site, first, OVER_S)
    note.using(queue_name="mail", run_after=3_600).enqueue_many([((number,), {}) for number in range(560)])
    time.sleep(16)
    rest = _last_incidents(site, poller)
    for each in rest:
        _begin(each)
        _watch_until(site, [each], SAID_S)
        _remedy(each)
        _watch_end(site, [each], OVER_S / 2)
    return first + rest


class Causes:
    """What makes the first incidents, and what ends those that go on."""

    def __init__(self, site: Site) -> None:
        from django_redis_components.messaging import Chat

        self._site = site
        self.chat = Chat.create("ada", ["kim"])
        self.hung: Any = None
        self._growth = self._flood = threading.Event()

    def enqueue(self, queue: str, count: int) -> None:
        from tests.taskqueue.tasks import note

        note.using(queue_name=queue).enqueue_many([((number,), {}) for number in range(count)])

    def pause(self) -> None:
        from django_redis_components.taskqueue import get_queue

        get_queue("video").pause("codec update", author="m.keller")
        self.enqueue("video", 47)

    def fill_memory(self) -> None:
        raw = self._site.raw
        for number in range(60):  # one large value would be in the buffers, too, when the used memory is read
            raw.set(f"ballast:{number}", bytes(1_000_000))
        raw.config_set("maxmemory", int(raw.info("memory")["used_memory"] * 1.12))

    def grow(self) -> None:
        from tests.taskqueue.tasks import nap

        self._growth = self._site.repeat(lambda: nap.using(queue_name="growing").enqueue(2.0), 0.5)

    def shrink(self) -> None:
        from django_redis_components.taskqueue import get_queue

        self._growth.set()
        get_queue("growing").purge()

    def fail(self) -> None:
        from tests.taskqueue.tasks import fail

        self.enqueue("mail", 260)
        fail.using(queue_name="mail", max_attempts=1).enqueue_many([(("Connection lost",), {})] * 40)

    def hang(self) -> None:
        from tests.taskqueue.tasks import hold

        self.hung = hold.using(queue_name="orders").enqueue("night")

    def disable_persistence(self) -> None:
        self._site.raw.config_set("appendonly", "no")
        self._site.raw.config_set("save", "")

    def flood(self) -> None:
        self._flood = self._site.repeat(lambda: self.chat.send("ada", "hello"), 0.02)

    def stop_flood(self) -> None:
        self._flood.set()


def _first_incidents(site: Site, dying: subprocess.Popen[bytes]) -> list[Incident]:
    from django_redis_components.taskqueue import get_queue

    def config(name: str, value: object) -> Callable[[], object]:
        return lambda: site.raw.config_set(name, value)

    made, killed, mail = Causes(site), f"({_child_of(dying.pid)})", get_queue("mail")
    queue, disk, memory = "webhooks", config("appendonly", "yes"), config("maxmemory", 0)
    return [
        Incident("no worker", "no_worker", queue, lambda: made.enqueue(queue, 1_204), lambda: site.work(queue)),
        Incident("paused queue", "paused", "video", made.pause, lambda: get_queue("video").resume()),
        Incident("kill -9 of a worker", "worker_lost", killed, lambda: _kill(dying), lambda: site.work("reports")),
        Incident("memory nearly full", "memory", "of its memory", made.fill_memory, memory),
        Incident("growing queue", "growing", "growing", made.grow, made.shrink),
        Incident("failing task", "failures", "mail", made.fail, lambda: mail.delete_failed()),
        Incident("hung task", "hung", "tasks.hold", made.hang, lambda: made.hung.cancel()),
        Incident("missing persistence", "no_persistence", "", made.disable_persistence, disk),
        Incident("flooded chat", "chat_flood", made.chat.id, made.flood, made.stop_flood),
    ]


def _last_incidents(site: Site, poller: subprocess.Popen[bytes]) -> list[Incident]:
    def start_poller() -> None:
        site.start("runpoller", site="tests.taskqueue.ticking.site")

    def acknowledge() -> None:
        problem = next(each["id"] for each in site.say()["healthz"] if each["code"] == "data_lost")
        url = URL.replace("overview", "incident")
        site.operator.post(f"{url}acknowledge/?problem={problem}", {"problem": problem, "reason": "restored"})

    return [
        Incident("late schedule", "schedule_late", "tick", lambda: _kill(poller), start_poller),
        Incident("outage of Redis", "redis_unreachable", "", site.server.kill, site.server.start),
        Incident("lost data (FLUSHALL)", "data_lost", "", site.raw.flushall, acknowledge, is_silenced=True),
    ]


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def _child_of(pid: int) -> int:
    """Return the pid of a worker's process: its supervisor has another one."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _begin(incident: Incident) -> None:
    incident.started_at = time.monotonic()
    incident.begin()


def _remedy(incident: Incident) -> None:
    incident.remedied_at = time.monotonic()
    incident.remedy()


def _watch_until(site: Site, incidents: list[Incident], seconds: float) -> None:
    """Ask all readers until each has said each incident, or the time is over."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and not all(len(each.said) == len(READERS) for each in incidents):
        found = site.say()
        for each in incidents:
            _note(each, found, site)
        time.sleep(PAUSE_S)


def _note(incident: Incident, found: dict[str, list[dict[str, Any]]], site: Site) -> None:
    now = time.monotonic()
    for reader, problems in found.items():
        if incident.is_in(problems):
            incident.said.setdefault(reader, now - incident.started_at)
    matching = [each for each in found["healthz"] if incident.is_in([each])]
    if matching:
        incident.sentence, incident.severity = matching[0]["text"], matching[0]["severity"]
        incident.clicks = incident.clicks or site.clicks(incident)
    received_at = site.received.find(incident, "started", "critical", after=incident.started_at)
    if received_at:
        incident.said.setdefault("notification", received_at - incident.started_at)


def _watch_end(site: Site, incidents: list[Incident], seconds: float) -> None:
    """Ask until no reader says the incidents and their ends were announced, or the time is over."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and any(each.over is None for each in incidents):
        found = site.say()
        for each in incidents:
            if each.over is None and _is_over(each, found, site):
                each.over = time.monotonic() - each.remedied_at
        time.sleep(PAUSE_S)


def _is_over(incident: Incident, found: dict[str, list[dict[str, Any]]], site: Site) -> bool:
    if incident.is_silenced:  # `doctor` lists what is acknowledged, too
        alarms = [each for reader in ("overview", "healthz") for each in found[reader] if not each.get("acknowledged")]
        return not incident.is_in(alarms)
    is_said = any(incident.is_in(problems) for problems in found.values())
    return not is_said and site.received.find(incident, "resolved", after=incident.remedied_at) is not None


def _without_numbers(sentence: str) -> str:
    """Return a sentence that is the same in the next second: shares and ages change."""
    return re.sub(r"[\d.,]+", "#", sentence)


def _store(site: Site) -> Any:
    from tests.support.stores import Store

    return Store("night", site.server.url, "night", site.raw, (site.server,))


if __name__ == "__main__":
    main()
