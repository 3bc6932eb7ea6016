"""Who enqueued a task: recorded if the site wants it, and always for schedules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory, RequestFactory
from django.utils.functional import SimpleLazyObject

from django_redis_components.core.client import connections
from django_redis_components.core.leasing.holder import working_for
from django_redis_components.taskqueue import TaskOrigin, TaskOriginMiddleware, TaskResult, chain, origin
from django_redis_components.taskqueue.origin import command_of
from django_redis_components.taskqueue.schedules.recurrence import FixedInterval
from django_redis_components.taskqueue.schedules.schedule import create
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.messages import call_for
from tests.support import Store, run_async
from tests.taskqueue.support import base_key, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, note_and_send


@pytest.fixture(autouse=True)
def _recorded(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, RECORD_ORIGIN=True)


def found(result: TaskResult) -> TaskOrigin | None:
    result.refresh()
    return result.origin


def test_task_records_the_task_that_enqueued_it(store: Store) -> None:
    parent = note_and_send.enqueue(1, {"priority": 5})

    work_off()

    records = [key for key in store.keys() if b":t:" in key]  # noqa: SIM118 - a method of the test's server
    [child] = [key for key in records if parent.id.encode() not in key]
    assert store.raw.hget(child, "O") == f"task {parent.id}".encode()
    assert found(parent) is None


def test_nothing_is_recorded_by_default(store: Store, settings: Any) -> None:
    taskqueue_settings(settings)
    with working_for(RequestFactory().get("/cart/")):
        result = add.enqueue(1, 2)

    assert store.raw.hget(base_key(store, "t", result.id), "O") is None


def test_request_is_recorded_without_its_query_and_user(store: Store) -> None:
    results: list[TaskResult] = []

    def view(_: HttpRequest) -> HttpResponse:
        results.extend([add.enqueue(1, 2), add.using(priority=3).enqueue(1, 2), *add.enqueue_many([((1, 2), {})] * 2)])
        results.extend(chain(add.s(1, 2), add.s(3)).enqueue().results)
        return HttpResponse()

    request = RequestFactory().post("/cart/?card=secret")
    request.user = User(pk=7)
    TaskOriginMiddleware(view)(request)

    assert {found(result) for result in results} == {TaskOrigin("request", "POST /cart/")}
    assert len(results) == 6
    assert found(add.enqueue(1, 2)) is None


def test_async_request_is_recorded(store: Store) -> None:
    results: list[TaskResult] = []

    async def view(_: HttpRequest) -> HttpResponse:
        results.append(await add.aenqueue(1, 2))
        return HttpResponse()

    async def main() -> None:
        await TaskOriginMiddleware(view)(AsyncRequestFactory().get("/cart/"))

    run_async(main)

    assert found(results[0]) == TaskOrigin("request", "GET /cart/")


def test_user_is_recorded_if_the_request_has_loaded_them(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, RECORD_ORIGIN=True, RECORD_USER=True)
    loaded, lazy, anonymous = (RequestFactory().get("/a" * 60) for _ in range(3))
    loaded.user = User(pk=7)
    lazy.user = SimpleLazyObject(lambda: pytest.fail("the user was loaded"))
    anonymous.user = AnonymousUser()

    users = []
    for request in (loaded, lazy, anonymous):
        with working_for(request):
            result = add.enqueue(1, 2)
        users.append((found(result) or TaskOrigin("", "")).user)
        assert store.raw.hstrlen(base_key(store, "t", result.id), "O") <= 64
    assert users == ["7", "", ""]


def test_user_who_is_loaded_later_in_the_request_is_recorded(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, RECORD_ORIGIN=True, RECORD_USER=True)
    request = RequestFactory().get("/cart/")

    with working_for(request):
        before = add.enqueue(1, 2)
        request.user = User(pk=7)
        after = add.enqueue(1, 2)

    assert [found(each) for each in (before, after)] == [
        TaskOrigin("request", "GET /cart/"),
        TaskOrigin("request", "GET /cart/", "7"),
    ]


class BrokenKey:
    def __str__(self) -> str:
        raise RuntimeError("no key")


class BrokenUser:
    @property
    def pk(self) -> int:
        raise RuntimeError("no key")


class BrokenRequest(HttpRequest):
    @property
    def user(self) -> User:
        raise RuntimeError("no user")


@pytest.mark.parametrize("user", [BrokenUser(), SimpleNamespace(pk=BrokenKey()), SimpleNamespace(pk="\ud800"), None])
def test_user_who_cannot_be_read_does_not_fail_the_enqueue(user: Any, store: Store, settings: Any) -> None:
    taskqueue_settings(settings, RECORD_ORIGIN=True, RECORD_USER=True)
    request = BrokenRequest() if user is None else HttpRequest()
    request.method, request.path = "GET", "/cart/"
    if user is not None:
        request.user = user

    with working_for(request):
        result = add.enqueue(1, 2)

    assert found(result) == TaskOrigin("request", "GET /cart/")


def test_schedule_is_recorded_whatever_the_setting(store: Store, settings: Any) -> None:
    taskqueue_settings(settings)
    schedule = create(add, FixedInterval.of(60), {"args": (1, 2), "name": "sums"})

    message = schedule.message(60_000)
    connections.client().execute(call_for(home(), message))

    assert add.get_result(message.id).origin == TaskOrigin("schedule", "sums")


def test_command_of_a_process_is_recorded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origin, "COMMAND", command_of(["manage.py", "--traceback", "import_items", "all"]))

    assert found(add.enqueue(1, 2)) == TaskOrigin("command", "import_items")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/srv/site/manage.py", "import_items"], "command import_items"),
        (["/srv/.venv/bin/django-admin", "-v2", "shell"], "command shell"),
        (["/usr/lib/python3/django/__main__.py", "migrate"], "command migrate"),
        (["/srv/.venv/bin/gunicorn", "site.wsgi"], ""),
        (["manage.py"], ""),
        ([], ""),
    ],
)
def test_only_commands_of_django_are_named(argv: list[str], expected: str) -> None:
    assert command_of(argv) == expected


@pytest.mark.parametrize("stored", [None, b"", b"robot x", b"\xff\xfe"])
def test_origin_that_another_client_wrote_is_ignored(stored: bytes | None) -> None:
    assert TaskOrigin.parse(stored) is None


def test_call_with_its_own_id_is_the_same_call_from_another_request(store: Store) -> None:
    results = []
    for path in ("/cart/", "/checkout/"):
        with working_for(RequestFactory().get(path)):
            results.append(add.using(id="order-7").enqueue(1, 2))

    assert [result.is_duplicate for result in results] == [False, True]
    assert found(results[1]) == TaskOrigin("request", "GET /cart/")
