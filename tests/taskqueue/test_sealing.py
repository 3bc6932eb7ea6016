"""Sealed arguments: nothing outside of the process has them, and only a process with a key opens them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote

from django_redis_components.checks import check_schedules
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.arguments import arguments_text
from django_redis_components.taskqueue import (
    InvalidTask,
    Schedules,
    SealedArguments,
    TaskIdConflict,
    chain,
    get_queue,
    get_result,
    sealing,
)
from django_redis_components.taskqueue.middleware import Middleware, RunContext, RunOutcome, pipeline
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.finished import list_finished
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.testing import assert_enqueued, captured
from tests.dashboard.queue_pages import url_of as queue_url
from tests.dashboard.support import browser, text_of
from tests.dashboard.task_pages import url_of
from tests.management.support import command_data, run_command
from tests.support import Store, eventually, run_async
from tests.taskqueue.schedulers import HOUR, announced, next_round, poller_of, waiting
from tests.taskqueue.support import (
    base_key,
    new_fetcher,
    running_worker,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import add, fail, fail_async, fail_with_broken_backoff, note, note_async, recorded

fernet = pytest.importorskip("cryptography.fernet")

SECRET = "4111-1111"
FIRST, SECOND = (fernet.Fernet.generate_key().decode() for _ in range(2))
sealed = note.using(sealed=True)


@pytest.fixture(autouse=True)
def _keys(request: pytest.FixtureRequest, settings: Any) -> None:
    for name in {"store", "redis_server"} & {*request.fixturenames}:
        request.getfixturevalue(name)  # it replaces the settings
    taskqueue_settings(settings, SEAL_KEYS=[FIRST])


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


def is_stored(store: Store, text: str = SECRET) -> bool:
    """Return whether any key of the test has this text."""
    readers: dict[bytes, Any] = {
        b"hash": store.raw.hgetall,
        b"list": lambda key: store.raw.lrange(key, 0, -1),
        b"zset": lambda key: store.raw.zrange(key, 0, -1),
        b"string": store.raw.get,
    }
    found = {key: readers[store.raw.type(key)](key) for key in store.keys()}  # noqa: SIM118 - a Store is no dict
    return text in repr(found)


def test_sealed_arguments_are_secret_and_not_bound_to_their_task(redis_server: Store) -> None:
    """As documented: who can write to Redis may copy the arguments of one task to another."""
    source, target = sealed.enqueue(SECRET), sealed.enqueue("other")
    body = redis_server.raw.hget(base_key(redis_server, "t", source.id), "b")
    assert redis_server.raw.hset(base_key(redis_server, "t", target.id), "b", body) == 0

    work_off()

    assert recorded == [SECRET, SECRET]


@pytest.mark.contract
def test_arguments_are_sealed_in_redis_and_open_in_the_task(store: Store) -> None:
    result = sealed.enqueue(SECRET)
    plain = note.enqueue("plain")

    assert not is_stored(store)
    assert is_stored(store, "plain")
    assert (result.args, get_result(result.id).args) == ([SECRET], [SECRET])
    assert (result.is_sealed, plain.is_sealed) == (True, False)
    work_off()
    assert recorded == [SECRET, "plain"]
    assert store.raw.hdel(base_key(store, "t", result.id), "r") == 1, "the return value is not sealed"
    assert not is_stored(store)


def test_many_chained_and_asynchronous_tasks_are_sealed(redis_server: Store) -> None:
    sealed.enqueue_many([((SECRET,), {}), ((f"{SECRET}2",), {})])
    chain(sealed.si(SECRET), add.using(sealed=True).si(a=1, b=41_111_111)).enqueue()
    run_async(lambda: sealed.aenqueue(SECRET))

    assert not is_stored(redis_server)
    assert not is_stored(redis_server, "41111111")
    for _ in range(2):
        work_off()
    assert recorded == [SECRET, f"{SECRET}2", SECRET, SECRET]


def test_all_tasks_are_sealed_by_default_if_the_site_says_so(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, SEAL_KEYS=[FIRST], DEFAULTS={"sealed": True})

    note.enqueue(SECRET)
    note.using(sealed=False).enqueue("plain")

    assert (is_stored(redis_server), is_stored(redis_server, "plain")) == (False, True)


def test_codec_of_the_site_applies_inside(redis_server: Store, settings: Any) -> None:
    codec = "django_redis_components.taskqueue.json_codec.ExtendedJSON"
    taskqueue_settings(settings, SEAL_KEYS=[FIRST], JSON_CODEC=codec)
    moment = datetime(2040, 1, 2, tzinfo=UTC)

    assert get_result(sealed.enqueue(moment).id).args == [moment]


def test_keys_are_rotated(redis_server: Store, settings: Any) -> None:
    old = sealed.enqueue("old")
    taskqueue_settings(settings, SEAL_KEYS=[SECOND, FIRST])
    new = sealed.enqueue("new")

    assert [get_result(each.id).args for each in (old, new)] == [["old"], ["new"]]
    taskqueue_settings(settings, SEAL_KEYS=[SECOND])
    assert get_result(new.id).args == ["new"]
    with pytest.raises(SealedArguments, match=r"no key in .* of this process opens them"):
        _ = get_result(old.id).args


@pytest.mark.parametrize("keys", [[], [SECOND]])
def test_worker_without_the_key_keeps_the_task_for_one_that_has_it(
    keys: list[str], redis_server: Store, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    result = sealed.enqueue(SECRET)
    taskqueue_settings(settings, SEAL_KEYS=keys)
    with caplog.at_level(logging.WARNING):
        work_off()

    assert get_result(result.id).state == "unregistered"
    assert f"Task {note.name}[{result.id}] cannot run in this worker: The arguments are sealed, and" in caplog.text
    assert recorded == []
    taskqueue_settings(settings, SEAL_KEYS=[FIRST])
    requeue_unregistered(home(), ["default"])
    work_off()
    assert recorded == [SECRET]


def test_coroutine_of_a_worker_without_the_key_is_kept(redis_server: Store, settings: Any) -> None:
    result = note_async.using(sealed=True).enqueue(SECRET)
    taskqueue_settings(settings)

    with running_worker(threads=1):
        eventually(lambda: get_result(result.id).state == "unregistered")

    assert recorded == []


def test_unique_tasks_and_ids_compare_the_arguments(redis_server: Store) -> None:
    unique = sealed.using(unique=True)
    assert unique.enqueue(SECRET).id == unique.enqueue(SECRET).id != unique.enqueue("other").id
    named = sealed.using(id="order-7")

    assert named.enqueue(SECRET).id == named.enqueue(SECRET).id
    with pytest.raises(TaskIdConflict):
        named.enqueue("other")


def test_changed_arguments_are_sealed_again(redis_server: Store, settings: Any) -> None:
    result = sealed.using(run_after=60).enqueue("old")

    result.update(args=[SECRET])

    assert not is_stored(redis_server)
    assert get_result(result.id).args == [SECRET]
    taskqueue_settings(settings)
    with pytest.raises(InvalidTask, match="The arguments are sealed, and"):
        result.update(args=["other"])


def test_errors_and_logs_have_no_text(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = add.using(sealed=True, max_attempts=2, backoff=0).enqueue(SECRET, 1)  # type: ignore[arg-type]
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            fetcher = new_fetcher("default")
            for job in fetcher.fetch("0", 9):
                settle_now(fetcher, execute(job))

    [*_, error] = get_result(result.id).errors
    assert error.exception_class_path == "builtins.TypeError"
    assert error.message == sealing.HIDDEN_TEXT
    assert "in add" in error.traceback
    for text in (error.traceback, caplog.text):
        assert SECRET not in text
        assert "can only concatenate" not in text
    assert not is_stored(redis_server)


class FailingMiddleware(Middleware):
    def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
        raise RuntimeError("broken")


@pytest.mark.parametrize("failing", [fail, fail_async])
def test_error_after_a_failure_is_logged_without_the_failure(
    failing: Any, redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    result = failing.using(sealed=True, max_attempts=1).enqueue(SECRET)

    with pipeline.installed(FailingMiddleware()), running_worker(threads=1):
        eventually(lambda: get_result(result.id).is_finished)

    assert "FailingMiddleware failed after the end of task" in caplog.text
    assert "RuntimeError: broken" in caplog.text
    assert SECRET not in caplog.text


def test_error_of_a_backoff_is_logged_without_the_failure(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    fail_with_broken_backoff.using(sealed=True).enqueue()
    work_off()

    assert "The backoff of task" in caplog.text
    assert "nonsense" in caplog.text
    assert "LookupError: mine" not in caplog.text


def test_error_without_text_keeps_no_cause() -> None:
    try:
        try:
            raise LookupError(SECRET)
        except LookupError as cause:
            raise ValueError(SECRET) from cause
    except ValueError as exc:
        exc.add_note(SECRET)
        hidden = sealing.without_text(exc)

    assert (type(hidden).__qualname__, type(hidden).__module__) == ("ValueError", "builtins")
    assert (hidden.__cause__, hidden.__context__, getattr(hidden, "__notes__", None)) == (None, None, None)


def test_sealed_task_without_a_key_is_refused(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings)

    with pytest.raises(InvalidTask) as raised:
        sealed.enqueue(SECRET)

    assert str(raised.value) == (
        f'The arguments of {note.name} are to be sealed, and REDIS_COMPONENTS["TASKQUEUE"]["SEAL_KEYS"] has no key.'
    )
    assert get_queue("default").info().ready == 0


@pytest.mark.parametrize(
    "keys",
    [FIRST, ["short"], [FIRST, FIRST[:-4]], [FIRST.encode()], [7], ["ü" * 44]],
    ids=["no list", "short", "cut", "bytes", "number", "not ASCII"],
)
def test_wrong_key_is_refused_and_not_shown(keys: Any, settings: Any) -> None:
    taskqueue_settings(settings, SEAL_KEYS=keys)

    with pytest.raises(
        ConfigurationError, match=r"SEAL_KEYS.*expected a list of keys of 32 bytes in URL-safe"
    ) as raised:
        sealed.enqueue(SECRET)

    assert "short" not in str(raised.value)
    assert FIRST[:-4] not in str(raised.value)


def test_keys_are_not_in_a_repr(settings: Any) -> None:
    assert FIRST not in repr(conf.settings())
    assert FIRST not in repr(conf.settings().taskqueue.seal_keys)


def test_checks_report_missing_keys_and_the_missing_library(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_schedules() == []
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    [missing] = check_schedules()
    assert (missing.id, missing.hint) == ("drc.E049", "pip install 'django-redis-components[sealed]'")
    assert missing.msg == 'REDIS_COMPONENTS["TASKQUEUE"]["SEAL_KEYS"] is set, but cryptography is not installed.'
    taskqueue_settings(settings, DEFAULTS={"sealed": True})
    found = {each.id: each.msg for each in check_schedules()}
    assert found.keys() == {"drc.E048"}
    assert found["drc.E048"].endswith(' has sealed=True, but REDIS_COMPONENTS["TASKQUEUE"]["SEAL_KEYS"] has no key.')


def test_missing_library_is_named(redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = sealed.enqueue(SECRET)
    taskqueue_settings(settings, SEAL_KEYS=[FIRST, fernet.Fernet.generate_key().decode()])  # none that was loaded
    monkeypatch.setitem(sys.modules, "cryptography.fernet", None)
    text = "Sealed tasks need the package cryptography: pip install"

    with pytest.raises(InvalidTask, match=text):
        sealed.enqueue(SECRET)
    with pytest.raises(SealedArguments, match=text):
        _ = get_result(result.id).args


def test_added_schedule_takes_no_arguments_of_a_sealed_task(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, SEAL_KEYS=[FIRST], DEFAULTS={"sealed": True})

    with pytest.raises(InvalidTask, match="the task is sealed, and a schedule stores its arguments as they are"):
        Schedules().add("s", note, every=60, args=[SECRET])

    assert not is_stored(redis_server)


def test_schedule_of_the_code_sends_sealed_arguments(redis_server: Store) -> None:
    declared.every(3_600, name="s", args=[SECRET])(sealed)
    poller = poller_of(*declared.registered())
    announced(poller, redis_server, last_ms=int(server_ms(redis_server)) - 2 * HOUR)

    next_round(poller)

    assert len(waiting(redis_server)) == 1
    assert not is_stored(redis_server)
    work_off()
    assert recorded == [SECRET]


def test_damaged_message_fails_or_is_not_readable(redis_server: Store) -> None:
    for body in (b"[null,null,", b"[null,null,7]", b'[null,null,{"sealed":7}]', b'[null,null,{"sealed":"x"}]'):
        result = sealed.enqueue(SECRET)
        redis_server.raw.hset(base_key(redis_server, "t", result.id), "b", body)
        with pytest.raises((SealedArguments, TypeError, ValueError)):
            _ = get_result(result.id).args
    work_off()
    assert get_queue("default").info().ready == 0
    assert recorded == []


def test_finished_task_whose_arguments_were_cut_off_is_sealed_too(redis_server: Store) -> None:
    sealed.enqueue(SECRET * 40)
    work_off()

    [row] = run(connections.client(), list_finished(home(), "default", "successful", 10, 0))

    assert arguments_text(TaskRecord(row.name, row.id, row.fields, ())) == "sealed"
    assert "(sealed)" in run_command("redis", "tasks", "list", "default", "successful", "--args")


def test_test_helpers_open_the_arguments(redis_server: Store) -> None:
    with captured() as sent:
        sealed.enqueue(SECRET)
        assert_enqueued(note, args=[SECRET])

    assert [(each.args, each.kwargs) for each in sent] == [([SECRET], {})]


def test_commands_show_no_sealed_arguments(redis_server: Store) -> None:
    result = sealed.enqueue(SECRET)

    texts = [
        run_command("redis", "tasks", "show", result.id, "--args"),
        run_command("redis", "tasks", "list", "default", "ready", "--args"),
    ]
    data = command_data("redis", "tasks", "list", "default", "ready", "--args")["tasks"][0]

    for text in texts:
        assert "(sealed)" in text
        assert SECRET not in text
    assert (data["args"], data["kwargs"], data["sealed"]) == (None, None, True)


@pytest.mark.django_db
def test_pages_show_that_arguments_are_sealed_and_open_them_by_a_logged_request(
    redis_server: Store, settings: Any
) -> None:
    result = sealed.enqueue(SECRET)
    queue = f"{queue_url('default')}?state=ready"
    viewer, operator = browser("view_overview"), browser("view_overview", "view_task_arguments")
    for client in (viewer, operator):
        for address in (url_of(result.id), queue, f"{url_of(result.id)}?format=json", f"{queue}&format=json"):
            html = client.get(address).content.decode()
            assert SECRET not in html
            assert "sealed" in text_of(html)
        assert "sealed" not in text_of(client.get(f"{queue}&text={SECRET}").content.decode())
    show = f"/admin/django_redis_components/task/_verb/arguments/{quote(result.id)}/"
    assert viewer.post(show).status_code == 403

    shown = operator.post(show).content.decode()

    assert SECRET in shown
    assert LogEntry.objects.get().change_message == f"Show arguments of task {result.id!r}: shown."
    taskqueue_settings(settings)
    assert "no key of this process opens them" in text_of(operator.post(show).content.decode())
    work_off()
    assert "could not open its sealed arguments" in text_of(viewer.get(url_of(result.id)).content.decode())
