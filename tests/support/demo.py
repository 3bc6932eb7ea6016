"""The example project as users run it: ``manage.py demo`` in a separate directory, and visitors that send requests."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from copy import copy
from http.cookiejar import CookieJar
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, HTTPRedirectHandler, Request, build_opener

import redis

from tests.support.processes import UNMEASURED, Child
from tools.localserver import free_port

#: Seconds within which the demo must serve: it starts seven Python processes, which took 100 s at a load of 15 on two
#: cores.
START_S = 240.0

#: Seconds within which it must stop.
STOP_S = 45.0

#: First password of the superuser and of each member.
PASSWORD = "market"

#: User agent of visitors: crawlers are not counted.
BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

#: Last line of the start.
READY = "Ctrl-C stops everything"


class Reply(NamedTuple):
    """The response to a visitor."""

    status: int
    text: str
    headers: Mapping[str, str]


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *args: object) -> None:
        return None


class Visitor:
    """A visitor with cookies, who does not follow redirects.

    Args:
        address: sent as that of a proxy's client; the demo's access log has it.
    """

    def __init__(self, base: str, username: str | None = None, address: str | None = None) -> None:
        self.base = base
        self.cookies = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self.cookies), _Stay())
        self._opener.addheaders = [("User-Agent", BROWSER)]
        if address is not None:
            self._opener.addheaders.append(("X-Forwarded-For", address))
        if username is not None:
            self.sign_in(username)

    def add_header(self, name: str, value: str) -> None:
        """Send a header with each further request."""
        self._opener.addheaders.append((name, value))

    def sign_in(self, username: str, password: str = PASSWORD) -> None:
        self.get("/login/")
        reply = self.post("/login/", username=username, password=password)
        assert reply.status == 302, reply.text

    def get(self, path: str) -> Reply:
        return self._open(Request(self.base + path))

    def post(self, path: str, **data: object) -> Reply:
        token = next((cookie.value for cookie in self.cookies if cookie.name == "csrftoken"), "")
        body = urlencode({"csrfmiddlewaretoken": token, **data}).encode()
        return self._open(Request(self.base + path, data=body))

    def post_json(self, path: str, data: object) -> Reply:
        token = next((cookie.value for cookie in self.cookies if cookie.name == "csrftoken"), "")
        headers = {"Content-Type": "application/json", "X-CSRFToken": token}
        return self._open(Request(self.base + path, data=json.dumps(data).encode(), headers=headers))

    def _open(self, request: Request) -> Reply:
        try:
            with self._opener.open(request, timeout=30) as reply:
                return Reply(reply.status, reply.read().decode(), reply.headers)
        except HTTPError as error:
            with error:
                return Reply(error.code, error.read().decode(), error.headers)


class Demo:
    """One ``manage.py demo``. Without sample data, tests know what the pages show."""

    def __init__(self, directory: Path, env: Mapping[str, str] | None = None, *, has_sample_data: bool = False) -> None:
        self.directory = directory
        self.env = demo_environment(directory) | (env or {})
        command = [sys.executable, "manage.py", "demo", "--port", str(free_port())]
        self.child = Child([*command, *([] if has_sample_data else ["--no-sample-data"])], self.env)
        self.base = ""
        self.dashboard = ""
        self._signed_in: dict[str, Visitor] = {}

    def wait_until_ready(self) -> None:
        self.child.wait_for(READY, START_S)
        printed = self.child.output
        self.base = _find(r"market\s+(http://[^/\s]+)/", printed)
        self.dashboard = _find(r"dashboard\s+(http://\S+)", printed)

    @property
    def redis_url(self) -> str:
        """Where its embedded server is, as other commands find it."""
        return (self.directory / "redis" / "url").read_text().strip()

    def raw(self) -> redis.Redis:
        """Return a plain client of its server, for raw checks."""
        return redis.Redis.from_url(self.redis_url)

    def visitor(self, username: str | None = None) -> Visitor:
        """Return an anonymous visitor, or one that is signed in as this member. Each member signs in once."""
        visitor = Visitor(self.base)
        if username is not None:
            if username not in self._signed_in:
                self._signed_in[username] = Visitor(self.base, username)
            for cookie in self._signed_in[username].cookies:
                visitor.cookies.set_cookie(copy(cookie))
        return visitor

    def stop(self, number: int = signal.SIGINT) -> int:
        """Ask it to stop and return its exit code."""
        if self.child.returncode is None:
            self.child.signal(number)
        return self.child.wait(STOP_S)


@contextlib.contextmanager
def running_demo(
    directory: Path, env: Mapping[str, str] | None = None, *, has_sample_data: bool = False
) -> Iterator[Demo]:
    """A demo that serves; stopped in order at the end, killed with all it started if that fails."""
    demo = Demo(directory, env, has_sample_data=has_sample_data)
    try:
        demo.wait_until_ready()
        yield demo
        demo.stop()
    finally:
        demo.child.close()


def demo_environment(directory: Path) -> dict[str, str]:
    """Return the environment of commands of the demo in ``directory``. Coverage does not measure them."""
    return UNMEASURED | {
        "DJANGO_SETTINGS_MODULE": "example_project.settings",
        "DEMO_DATA_DIR": str(directory),
        "REDIS_URL": "",
        "NO_COLOR": "1",
    }


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found, f"{pattern} not in\n{text}"
    return found[1]
