"""The holders of locks and permits on their page: process, thread, task or request; and who released one by force."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextvars import Token, copy_context
from functools import partial
from typing import Any

import pytest
from django.test import Client, RequestFactory

from django_redis_components.core.leasing.holder import current_work, describe_task, working_for
from django_redis_components.locks import Lock, LockNotOwned, MultiLock, ReadWriteLock
from django_redis_components.semaphores import PermitNotOwned, Semaphore
from tests.dashboard.lock_pages import LOCKS, RELEASE, held_by, release_link
from tests.dashboard.support import HOSTILE, Page, browser, text_of
from tests.support import Store

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return browser("view_lock")


@pytest.fixture
def operator() -> Client:
    return browser("view_lock", "release_lock")


def made(kind: str) -> Any:
    """Return the object of this kind with the name "it"."""
    page = ReadWriteLock("it", timeout=60)
    return {
        "lock": Lock("it", timeout=60),
        "reader": page.read(),
        "writer": page.write(),
        "group": MultiLock("it", "other", group="accounts", timeout=60),
        "semaphore": Semaphore("it", 1, timeout=60, blocking=False),
    }[kind]


def query_of(kind: str) -> dict[str, str]:
    return {"group": "accounts"} if kind == "group" else {}


def working(name: str, task_id: str) -> Token[Any]:
    """Describe what is acquired from now on as a worker does while it runs this task."""
    return current_work.set(partial(describe_task, name, task_id))


@pytest.fixture
def _in_a_task() -> Iterator[None]:
    before = working("mail.send", "01J9Z3")
    yield
    current_work.reset(before)


@pytest.mark.usefixtures("_in_a_task")
@pytest.mark.parametrize("kind", ["lock", "reader", "writer", "group", "semaphore"])
def test_holders_are_shown_with_a_link_to_their_task(kind: str, store: Store) -> None:
    made(kind).acquire()
    query = {"name": "it", **query_of(kind)}
    both, one = browser("view_lock", "view_overview"), browser("view_lock")

    html = both.get(LOCKS, query).content.decode()
    [holder] = [each for thing in held_by(both, **query).values() for each in thing["holders"]]

    expected = {"host": socket.gethostname(), "pid": os.getpid(), "thread": "MainThread", "request": ""}
    assert holder["held_by"] == {**expected, "task": "mail.send", "task_id": "01J9Z3"}
    assert re.search(r'<a href="/admin/[^"]*/task/01J9Z3/[^"]*"><bdi>task mail.send 01J9Z3</bdi></a>', html)
    assert f"{socket.gethostname()}, process {os.getpid()}, thread MainThread" in html
    plain = one.get(LOCKS, query).content.decode()
    assert "task mail.send 01J9Z3" in plain
    assert "/task/" not in plain


def test_holder_within_a_request_is_shown(redis_server: Store, viewer: Client) -> None:
    with working_for(RequestFactory().post("/cart/?card=secret")):
        Lock("it").acquire()

    text = text_of(viewer.get(LOCKS).content.decode())

    assert "thread MainThread request POST /cart/" in text
    assert "secret" not in text


def test_holder_of_an_older_version_is_shown_by_its_token(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.set(f"{redis_server.prefix}:locks:{{it}}", "old-token", px=60_000)

    assert held_by(viewer)["lock it"]["holders"][0]["held_by"] is None
    assert re.search(r"\d s old-token –", text_of(viewer.get(LOCKS).content.decode()))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_descriptions_are_escaped(name: str, redis_server: Store, operator: Client) -> None:
    clean = Page(operator.get(LOCKS).content.decode())
    before = working(name, "<b>")
    thread = threading.Thread(target=copy_context().run, args=(Lock("it").acquire,), name=name)
    thread.start()
    thread.join(30)
    current_work.reset(before)

    page = Page(operator.get(LOCKS).content.decode())
    confirm = Page(operator.get(release_link(operator, "it")).content.decode())

    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag
        assert len(confirm.all(tag)) <= len(clean.all(tag)), tag


@pytest.mark.parametrize("kind", ["lock", "reader", "writer", "group", "semaphore"])
def test_former_holder_learns_the_operators_name(kind: str, store: Store, operator: Client) -> None:
    held = made(kind)
    held.acquire()
    link = release_link(operator, "it", **query_of(kind))

    confirm = operator.get(link).content.decode()
    fields = {each["name"]: each["value"] for each in Page(confirm).all("input") if each.get("name")}
    operator.post(RELEASE, fields)

    assert f"{socket.gethostname()}, process {os.getpid()}, thread MainThread" in text_of(confirm)
    assert "The error of the holder names you and the time." in confirm
    pattern = r"was released by an operator \(view_lock-release_lock\) at \d\d:\d\d:\d\d\.$"
    with pytest.raises((LockNotOwned, PermitNotOwned), match=pattern):
        held.release()
